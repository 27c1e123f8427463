//! The options of `haul tar`: GNU tar's, and haul's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_tar::{Existing, Format, MemberOrder, Ownership};

use super::names::ListEnd;
use super::{CompressionMethod, TarArguments, TarStep, values};
use crate::flags::Action::{AnyValue, Plain, Required};
use crate::flags::values::{Bounds, Words};
use crate::flags::{AppletCommand, FlagError, Sharing, Value};
use crate::option_files::is_descriptor_path;

pub(super) static COMMAND: AppletCommand<TarArguments> = AppletCommand {
    usage: &["-c|-x|-t [OPTION]... [-f ARCHIVE] [-C DIR] [NAME]..."],
    about: "Create, list or extract archives, many files at once.",
    sections: &[("", GENERAL), ("Creating archives", CREATING), ("Extracting archives", EXTRACTING)],
    sharing: Sharing::WithoutLetters,
    notes: "\
The first word may be a bundle of letters without a hyphen, as in 'haul tar cvf ARCHIVE NAME'. Archives are in the format of \
POSIX.1-2001, which every other tar reads and writes. Without -f, the archive is the one that the environment variable TAPE \
names, or standard input or output.

Exit status is 0 if all went well, 1 if a file changed while it was archived, 2 if anything failed.

Examples:
  haul tar -cf project.tar project
  haul tar -c --sort=name --owner=0 --group=0 --mtime=@0 --zstd -f project.tar.zst project
  haul tar -xf project.tar -C /srv
  haul tar tvf project.tar",
};

const FORMATS: &Words<Format> =
    &[("pax", Format::Pax), ("posix", Format::Pax), ("gnu", Format::Gnu), ("ustar", Format::Ustar)];
const ORDERS: &Words<MemberOrder> =
    &[("none", MemberOrder::Entry), ("inode", MemberOrder::Inode), ("name", MemberOrder::Name)];
const COMPONENTS: Bounds = Bounds { least: 0, most: 65536, text: "0 to 65536" };

/// Splits the program of -I and its arguments at blanks.
fn program(value: Value<'_>) -> Vec<OsString> {
    let words = value.bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

type TarFlag = crate::flags::FlagSpec<TarArguments>;

static GENERAL: &[TarFlag] = &[
    TarFlag::gnu("-c --create", Plain(|line| line.create = true), "create an archive"),
    TarFlag::gnu(
        "-x --extract --get",
        Plain(|line| line.extract = true),
        "extract members; all if none are named",
    ),
    TarFlag::gnu("-t --list", Plain(|line| line.list = true), "list members; all if none are named"),
    TarFlag::gnu(
        "-f --file",
        AnyValue("ARCHIVE", |line, value| line.file.push(value.os())),
        "read or write ARCHIVE; - is standard input or output",
    ),
    TarFlag::gnu(
        "-C --directory",
        AnyValue("DIR", |line, value| line.steps.push(TarStep::Directory(value.os()))),
        "change to DIR for the names that follow",
    ),
    TarFlag::gnu(
        "-v --verbose",
        Plain(|line| line.verbose = line.verbose.saturating_add(1)),
        "print member names; twice, with details",
    ),
    TarFlag::gnu(
        "-z --gzip --gunzip --ungzip",
        Plain(|line| line.methods.push(CompressionMethod::Gzip)),
        "compress or decompress with gzip",
    ),
    TarFlag::gnu(
        "-j --bzip2",
        Plain(|line| line.methods.push(CompressionMethod::Bzip2)),
        "compress or decompress with bzip2",
    ),
    TarFlag::gnu(
        "--zstd",
        Plain(|line| line.methods.push(CompressionMethod::Zstd)),
        "compress or decompress with zstd",
    ),
    TarFlag::gnu(
        "-J --xz",
        Plain(|line| line.methods.push(CompressionMethod::Xz)),
        "compress or decompress with xz",
    ),
    TarFlag::gnu(
        "--lzma",
        Plain(|line| line.methods.push(CompressionMethod::Lzma)),
        "read an archive compressed by lzma; compression is also recognized without the option",
    ),
    TarFlag::gnu(
        "--lzip",
        Plain(|line| line.methods.push(CompressionMethod::Lzip)),
        "read an archive compressed by lzip",
    ),
    TarFlag::gnu(
        "-Z --compress --uncompress",
        Plain(|line| line.methods.push(CompressionMethod::Compress)),
        "read an archive compressed by compress",
    ),
    TarFlag::gnu(
        "-I --use-compress-program",
        AnyValue("PROGRAM", |line, value| {
            line.methods.push(CompressionMethod::Program);
            line.program = program(value);
        }),
        "compress with PROGRAM, decompress with PROGRAM -d; its arguments may follow it",
    ),
    TarFlag::gnu(
        "-a --auto-compress",
        Plain(|line| line.methods.push(CompressionMethod::ByName)),
        "choose the compression by the name of the archive",
    ),
    TarFlag::gnu(
        "--exclude",
        AnyValue("PATTERN", |line, value| line.exclude(value.os(), false)),
        "skip files whose name matches PATTERN",
    ),
    TarFlag::gnu(
        "-X --exclude-from",
        AnyValue("FILE", |line, value| line.exclude(value.os(), true)),
        "skip files that match a pattern in FILE",
    ),
    TarFlag::gnu(
        "--anchored",
        Plain(|line| line.anchored = true),
        "match later patterns at the start of names only",
    ),
    TarFlag::gnu(
        "-T --files-from",
        AnyValue("FILE", |line, value| {
            line.steps.push(TarStep::NamesFrom { file: value.os(), is_anchored: line.anchored });
        }),
        "read member names from FILE, one per line",
    ),
    TarFlag::gnu(
        "--null",
        Plain(|line| line.steps.push(TarStep::ListEnd(ListEnd::Nul))),
        "in each FILE of a later -T, names end with a NUL byte",
    ),
    TarFlag::gnu(
        "--no-null",
        Plain(|line| line.steps.push(TarStep::ListEnd(ListEnd::Newline))),
        "in each FILE of a later -T, names end with a newline",
    ),
    TarFlag::gnu(
        "-P --absolute-names",
        Plain(|line| line.absolute_names = true),
        "keep leading slashes and '..' in names",
    ),
    TarFlag::gnu(
        "-h --dereference",
        Plain(|line| line.dereference = true),
        "archive the files that symbolic links point to; extract into directories behind existing links, and \
         with --overwrite to files behind them",
    ),
    TarFlag::gnu(
        "--xattrs",
        Plain(|line| {
            line.xattrs = true;
            line.wants_attributes();
        }),
        "archive or restore extended attributes",
    ),
    TarFlag::gnu(
        "--xattrs-include",
        AnyValue("PATTERN", |line, value| {
            line.xattrs_include.push(value.bytes.to_vec());
            line.wants_attributes();
        }),
        "same as --xattrs, but only those that match PATTERN; the default on extraction is 'user.*'",
    ),
    TarFlag::gnu(
        "--xattrs-exclude",
        AnyValue("PATTERN", |line, value| {
            line.xattrs_exclude.push(value.bytes.to_vec());
            line.wants_attributes();
        }),
        "same as --xattrs, but skip those that match PATTERN",
    ),
    TarFlag::gnu(
        "--acls",
        Plain(|line| {
            line.acls = true;
            line.wants_attributes();
        }),
        "archive or restore access control lists",
    ),
    TarFlag::gnu("-S --sparse", Plain(|line| line.sparse = true), "archive sparse files without their holes"),
    TarFlag::gnu(
        "--numeric-owner",
        Plain(|line| line.numeric_owner = true),
        "use numeric owners and groups, not names",
    ),
    TarFlag::help("--help"),
    TarFlag::version("--version"),
];

static CREATING: &[TarFlag] = &[
    TarFlag::gnu(
        "--format",
        Required("FORMAT", |line, value| {
            line.format = Some(value.choose(FORMATS)?);
            line.format_is_last = line.wants_xattrs() || line.acls;
            Ok(())
        }),
        "archive format: pax or posix (the default), gnu, ustar",
    ),
    TarFlag::gnu(
        "--sort",
        Required("ORDER", |line, value| {
            line.order = Some(value.choose(ORDERS)?);
            Ok(())
        }),
        "order of members within a directory: none (the default), inode, or name: the same archive in every \
         run and over ranks",
    ),
    TarFlag::gnu(
        "--one-file-system",
        Plain(|line| line.one_file_system = true),
        "do not descend into other file systems",
    ),
    TarFlag::gnu(
        "--no-recursion",
        Plain(|line| line.steps.push(TarStep::Recursion(false))),
        "archive directories without their contents",
    ),
    TarFlag::gnu(
        "--owner",
        Required("NAME[:UID]", |line, value| {
            line.owner = Some(values::owner(&value.os()).map_err(FlagError::Sentence)?);
            Ok(())
        }),
        "set the owner of all members",
    ),
    TarFlag::gnu(
        "--group",
        Required("NAME[:GID]", |line, value| {
            line.group = Some(values::group(&value.os()).map_err(FlagError::Sentence)?);
            Ok(())
        }),
        "set the group of all members",
    ),
    TarFlag::gnu(
        "--mode",
        Required("CHANGES", |line, value| {
            line.mode = values::mode(&value.text()).map_err(FlagError::Sentence)?;
            Ok(())
        }),
        "change the mode of all members, as chmod would",
    ),
    TarFlag::gnu(
        "--mtime",
        Required("DATE", |line, value| {
            line.shared.run.needs_descriptors |= is_descriptor_path(value.bytes);
            line.modified = Some(values::time(&value.os()).map_err(FlagError::Sentence)?);
            Ok(())
        }),
        "set the modification time of all members: @SECONDS, YYYY-MM-DD [HH:MM[:SS]], optionally with \
         UTC, or a file, as a path that begins with / or .",
    ),
    TarFlag::own(
        "--index",
        Plain(|line| line.index = true),
        "append an index of the members and their offsets, for other programs; tar ignores it",
    ),
];

static EXTRACTING: &[TarFlag] = &[
    TarFlag::gnu(
        "-p --preserve-permissions --same-permissions",
        Plain(|line| line.same_permissions = Some(true)),
        "restore modes exactly, ignoring the umask (the default for root)",
    ),
    TarFlag::gnu(
        "--no-same-permissions",
        Plain(|line| line.same_permissions = Some(false)),
        "apply the umask to modes (the default for others)",
    ),
    TarFlag::gnu(
        "-k --keep-old-files",
        Plain(|line| line.existing.push(("--keep-old-files", Existing::Keep))),
        "keep existing files, and report an error for each",
    ),
    TarFlag::gnu(
        "--skip-old-files",
        Plain(|line| line.existing.push(("--skip-old-files", Existing::Skip))),
        "keep existing files silently",
    ),
    TarFlag::gnu(
        "--overwrite",
        Plain(|line| line.existing.push(("--overwrite", Existing::Overwrite))),
        "overwrite existing files in place",
    ),
    TarFlag::gnu(
        "--same-owner",
        Plain(|line| line.ownership = Some(Ownership::Same)),
        "restore the owner of each file (the default for root)",
    ),
    TarFlag::gnu(
        "-o --no-same-owner",
        Plain(|line| line.ownership = Some(Ownership::Own)),
        "make the user the owner of all files (the default for others)",
    ),
    TarFlag::gnu("-m --touch", Plain(|line| line.touch = true), "do not restore modification times"),
    TarFlag::gnu(
        "--strip-components",
        Required("NUMBER", |line, value| {
            value.count(COMPONENTS).map(|number| line.strip_components = number)
        }),
        "remove NUMBER leading components from names",
    ),
    TarFlag::gnu(
        "--keep-directory-symlink",
        Plain(|line| line.keep_directory_symlink = true),
        "extract into directories behind symbolic links",
    ),
    TarFlag::gnu(
        "-O --to-stdout",
        Plain(|line| line.to_stdout = true),
        "write file contents to standard output",
    ),
    TarFlag::gnu(
        "-i --ignore-zeros",
        Plain(|line| line.ignore_zeros = true),
        "continue past blocks of zeros",
    ),
];
