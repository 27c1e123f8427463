//! The options of `haul tar`: GNU tar's, and haul's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_tar::{Existing, Format, MemberOrder, Ownership};

use super::{Line, Method, Step, values};
use crate::flags::Action::{Plain, Required, Word};
use crate::flags::values::{Bounds, Words};
use crate::flags::{Command, Error, Sharing, Value};

pub(super) static COMMAND: Command<Line> = Command {
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

type Flag = crate::flags::Flag<Line>;

static GENERAL: &[Flag] = &[
    Flag::gnu("-c --create", Plain(|line| line.create = true), "create an archive"),
    Flag::gnu(
        "-x --extract --get",
        Plain(|line| line.extract = true),
        "extract members; all if none are named",
    ),
    Flag::gnu("-t --list", Plain(|line| line.list = true), "list members; all if none are named"),
    Flag::gnu(
        "-f --file",
        Word("ARCHIVE", |line, value| line.file.push(value.os())),
        "read or write ARCHIVE; - is standard input or output",
    ),
    Flag::gnu(
        "-C --directory",
        Word("DIR", |line, value| line.steps.push(Step::Directory(value.os()))),
        "change to DIR for the names that follow",
    ),
    Flag::gnu(
        "-v --verbose",
        Plain(|line| line.verbose = line.verbose.saturating_add(1)),
        "print member names; twice, with details",
    ),
    Flag::gnu(
        "-z --gzip --gunzip --ungzip",
        Plain(|line| line.methods.push(Method::Gzip)),
        "compress or decompress with gzip",
    ),
    Flag::gnu(
        "-j --bzip2",
        Plain(|line| line.methods.push(Method::Bzip2)),
        "compress or decompress with bzip2",
    ),
    Flag::gnu("--zstd", Plain(|line| line.methods.push(Method::Zstd)), "compress or decompress with zstd"),
    Flag::gnu("-J --xz", Plain(|line| line.methods.push(Method::Xz)), "compress or decompress with xz"),
    Flag::gnu(
        "--lzma",
        Plain(|line| line.methods.push(Method::Lzma)),
        "read an archive compressed by lzma; compression is also recognized without the option",
    ),
    Flag::gnu("--lzip", Plain(|line| line.methods.push(Method::Lzip)), "read an archive compressed by lzip"),
    Flag::gnu(
        "-Z --compress --uncompress",
        Plain(|line| line.methods.push(Method::Compress)),
        "read an archive compressed by compress",
    ),
    Flag::gnu(
        "-I --use-compress-program",
        Word("PROGRAM", |line, value| {
            line.methods.push(Method::Program);
            line.program = program(value);
        }),
        "compress with PROGRAM, decompress with PROGRAM -d; its arguments may follow it",
    ),
    Flag::gnu(
        "-a --auto-compress",
        Plain(|line| line.methods.push(Method::ByName)),
        "choose the compression by the name of the archive",
    ),
    Flag::gnu(
        "--exclude",
        Word("PATTERN", |line, value| line.exclude(value.os(), false)),
        "skip files whose name matches PATTERN",
    ),
    Flag::gnu(
        "-X --exclude-from",
        Word("FILE", |line, value| line.exclude(value.os(), true)),
        "skip files that match a pattern in FILE",
    ),
    Flag::gnu(
        "--anchored",
        Plain(|line| line.anchored = true),
        "match later patterns at the start of names only",
    ),
    Flag::gnu(
        "-T --files-from",
        Word("FILE", |line, value| {
            line.steps.push(Step::NamesFrom { file: value.os(), is_anchored: line.anchored });
        }),
        "read member names from FILE, one per line",
    ),
    Flag::gnu("--null", Plain(|line| line.null = true), "names in FILE of -T end with a NUL byte"),
    Flag::gnu(
        "-P --absolute-names",
        Plain(|line| line.absolute_names = true),
        "keep leading slashes and '..' in names",
    ),
    Flag::gnu(
        "--xattrs",
        Plain(|line| {
            line.xattrs = true;
            line.wants_attributes();
        }),
        "archive or restore extended attributes",
    ),
    Flag::gnu(
        "--xattrs-include",
        Word("PATTERN", |line, value| {
            line.xattrs_include.push(value.bytes.to_vec());
            line.wants_attributes();
        }),
        "same as --xattrs, but only those that match PATTERN; the default on extraction is 'user.*'",
    ),
    Flag::gnu(
        "--xattrs-exclude",
        Word("PATTERN", |line, value| {
            line.xattrs_exclude.push(value.bytes.to_vec());
            line.wants_attributes();
        }),
        "same as --xattrs, but skip those that match PATTERN",
    ),
    Flag::gnu(
        "--acls",
        Plain(|line| {
            line.acls = true;
            line.wants_attributes();
        }),
        "archive or restore access control lists",
    ),
    Flag::gnu("-S --sparse", Plain(|line| line.sparse = true), "archive sparse files without their holes"),
    Flag::gnu(
        "--numeric-owner",
        Plain(|line| line.numeric_owner = true),
        "use numeric owners and groups, not names",
    ),
    Flag::help("--help"),
    Flag::version("--version"),
];

static CREATING: &[Flag] = &[
    Flag::gnu(
        "--format",
        Required("FORMAT", |line, value| {
            line.format = Some(value.choose(FORMATS)?);
            line.format_is_last = line.wants_xattrs() || line.acls;
            Ok(())
        }),
        "archive format: pax or posix (the default), gnu, ustar",
    ),
    Flag::gnu(
        "--sort",
        Required("ORDER", |line, value| {
            line.order = Some(value.choose(ORDERS)?);
            Ok(())
        }),
        "order of members within a directory: none (the default), inode, or name: the same archive in every \
         run and over ranks",
    ),
    Flag::gnu(
        "-h --dereference",
        Plain(|line| line.dereference = true),
        "archive the files that symbolic links point to",
    ),
    Flag::gnu(
        "--one-file-system",
        Plain(|line| line.one_file_system = true),
        "do not descend into other file systems",
    ),
    Flag::gnu(
        "--no-recursion",
        Plain(|line| line.steps.push(Step::Recursion(false))),
        "archive directories without their contents",
    ),
    Flag::gnu(
        "--owner",
        Required("NAME[:UID]", |line, value| {
            line.owner = Some(values::owner(&value.os()).map_err(Error::Sentence)?);
            Ok(())
        }),
        "set the owner of all members",
    ),
    Flag::gnu(
        "--group",
        Required("NAME[:GID]", |line, value| {
            line.group = Some(values::group(&value.os()).map_err(Error::Sentence)?);
            Ok(())
        }),
        "set the group of all members",
    ),
    Flag::gnu(
        "--mode",
        Required("CHANGES", |line, value| {
            line.mode = values::mode(&value.text()).map_err(Error::Sentence)?;
            Ok(())
        }),
        "change the mode of all members, as chmod would",
    ),
    Flag::gnu(
        "--mtime",
        Required("DATE", |line, value| {
            line.modified = Some(values::time(&value.os()).map_err(Error::Sentence)?);
            Ok(())
        }),
        "set the modification time of all members: @SECONDS, YYYY-MM-DD [HH:MM[:SS]], optionally with \
         UTC, or a file, as a path that begins with / or .",
    ),
    Flag::own(
        "--index",
        Plain(|line| line.index = true),
        "append an index of the members and their offsets, for other programs; tar ignores it",
    ),
];

static EXTRACTING: &[Flag] = &[
    Flag::gnu(
        "-p --preserve-permissions --same-permissions",
        Plain(|line| line.same_permissions = Some(true)),
        "restore modes exactly, ignoring the umask (the default for root)",
    ),
    Flag::gnu(
        "--no-same-permissions",
        Plain(|line| line.same_permissions = Some(false)),
        "apply the umask to modes (the default for others)",
    ),
    Flag::gnu(
        "-k --keep-old-files",
        Plain(|line| line.existing.push(("--keep-old-files", Existing::Keep))),
        "keep existing files, and report an error for each",
    ),
    Flag::gnu(
        "--skip-old-files",
        Plain(|line| line.existing.push(("--skip-old-files", Existing::Skip))),
        "keep existing files silently",
    ),
    Flag::gnu(
        "--overwrite",
        Plain(|line| line.existing.push(("--overwrite", Existing::Overwrite))),
        "overwrite existing files in place",
    ),
    Flag::gnu(
        "--same-owner",
        Plain(|line| line.ownership = Some(Ownership::Same)),
        "restore the owner of each file (the default for root)",
    ),
    Flag::gnu(
        "-o --no-same-owner",
        Plain(|line| line.ownership = Some(Ownership::Own)),
        "make the user the owner of all files (the default for others)",
    ),
    Flag::gnu("-m --touch", Plain(|line| line.touch = true), "do not restore modification times"),
    Flag::gnu(
        "--strip-components",
        Required("NUMBER", |line, value| {
            value.count(COMPONENTS).map(|number| line.strip_components = number)
        }),
        "remove NUMBER leading components from names",
    ),
    Flag::gnu(
        "--keep-directory-symlink",
        Plain(|line| line.keep_directory_symlink = true),
        "extract into directories behind symbolic links",
    ),
    Flag::gnu(
        "-O --to-stdout",
        Plain(|line| line.to_stdout = true),
        "write file contents to standard output",
    ),
    Flag::gnu("-i --ignore-zeros", Plain(|line| line.ignore_zeros = true), "continue past blocks of zeros"),
];
