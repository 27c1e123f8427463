//! Every flag of `haul cp`, GNU's first and in GNU's order: the possibilities of an ambiguous
//! abbreviation are listed in table order.

use haul_copy::{Atomic, Dereference};

use super::Action::{AnyValue, Optional, Plain, Required};
use super::cluster::Interactive;
use super::lower::Typed;
use super::shared::{self, MACHINE};
use super::values::BLOCK_BYTES;
use super::{AppletCommand, Sharing, values};

pub(crate) static COMMAND: AppletCommand<Typed> = AppletCommand {
    usage: &[
        "[OPTION]... [-T] SOURCE DEST",
        "[OPTION]... SOURCE... DIRECTORY",
        "[OPTION]... -t DIRECTORY SOURCE...",
    ],
    about: "Copy SOURCE to DEST, or each SOURCE into DIRECTORY, many files at once.\n\
            Arguments required by a long option are also required by its short form.",
    sections: &[("", GNU), (MACHINE, OWN), (MACHINE, COPYING), (shared::HOSTS, HOSTS)],
    sharing: Sharing::All,
    notes: "Exit status is 0 if everything was copied, and 1 if not; standard error says what is missing.",
};

type CopyFlag = super::FlagSpec<Typed>;

static GNU: &[CopyFlag] = &[
    CopyFlag::gnu(
        "-a --archive",
        Plain(Typed::archive),
        "same as -dR --preserve=all, but without errors for extended attributes that the target does not support",
    ),
    CopyFlag::gnu(
        "--attributes-only",
        Plain(|typed| typed.attributes_only = true),
        "copy attributes but no file data",
    ),
    CopyFlag::gnu(
        "--backup",
        Optional("CONTROL", |typed, control| {
            typed.back_up(control.map(|control| control.bytes));
            Ok(())
        }),
        "back up each file before it is replaced; CONTROL, or else $VERSION_CONTROL, is none (off), simple \
         (never): FILE~, numbered (t): FILE.~1~, or existing (nil, the default): numbered if FILE has numbered \
         backups, else simple",
    ),
    CopyFlag::gnu("-b", Plain(|typed| typed.back_up(None)), "same as --backup, without CONTROL"),
    CopyFlag::gnu(
        "--copy-contents",
        Plain(|typed| typed.copy_contents = true),
        "with -r, copy the contents of FIFOs and devices",
    ),
    CopyFlag::gnu("-d", Plain(Typed::copy_links_as_links), "same as --no-dereference --preserve=links"),
    CopyFlag::gnu(
        "--debug",
        Plain(|typed| typed.debug = true),
        "print how each file is copied and how the run was set up; implies -v",
    ),
    CopyFlag::gnu(
        "-L --dereference",
        Plain(|typed| typed.dereference = Some(Dereference::Always)),
        "follow all symbolic links in SOURCE",
    ),
    CopyFlag::gnu(
        "-f --force",
        Plain(|typed| typed.existing.force = true),
        "remove a target file that cannot be opened, then retry (no effect with -n)",
    ),
    CopyFlag::gnu(
        "-H",
        Plain(|typed| typed.dereference = Some(Dereference::Operands)),
        "follow symbolic links given on the command line",
    ),
    CopyFlag::gnu(
        "-i --interactive",
        Plain(|typed| typed.interactive = Interactive::Ask),
        "ask before overwriting a file (cancels an earlier -n)",
    ),
    CopyFlag::gnu("-l --link", Plain(|typed| typed.hard_link = true), "create hard links instead of copies"),
    CopyFlag::gnu(
        "-n --no-clobber",
        Plain(|typed| typed.interactive = Interactive::Keep),
        "keep existing files (cancels -u and an earlier -i)",
    ),
    CopyFlag::gnu(
        "-P --no-dereference",
        Plain(|typed| typed.dereference = Some(Dereference::Never)),
        "follow no symbolic links in SOURCE",
    ),
    CopyFlag::gnu("-p", Plain(Typed::preserve_usual), "same as --preserve=mode,ownership,timestamps"),
    CopyFlag::gnu(
        "--no-preserve",
        Required("ATTR_LIST", Typed::no_preserve),
        "do not preserve these attributes",
    ),
    CopyFlag::gnu(
        "-T --no-target-directory",
        Plain(|typed| typed.no_target_directory = true),
        "never copy into DEST, even if it is a directory",
    ),
    CopyFlag::gnu(
        "-x --one-file-system",
        Plain(|typed| typed.one_file_system = true),
        "do not descend into other file systems",
    ),
    CopyFlag::gnu(
        "--parents",
        Plain(|typed| typed.parents = true),
        "copy SOURCE with its full path below DIRECTORY",
    )
    .also("--path"),
    CopyFlag::gnu(
        "--preserve",
        Optional("ATTR_LIST", Typed::preserve),
        "preserve these attributes, separated by commas: mode, ownership, timestamps (the default is these \
         three), links, xattr, all",
    ),
    CopyFlag::gnu("-R -r --recursive", Plain(Typed::recurse), "copy directories and their contents"),
    CopyFlag::gnu(
        "--remove-destination",
        Plain(|typed| typed.existing.remove = true),
        "remove existing target files first, without trying to open them",
    ),
    CopyFlag::gnu(
        "--sparse",
        Required("WHEN", |typed, value| value.choose(values::SPARSE).map(|when| typed.sparse = when)),
        "create sparse files: auto (holes where SOURCE has them), always (wherever there are zeros), or \
         never",
    ),
    CopyFlag::gnu(
        "--reflink",
        Optional("WHEN", Typed::share_blocks),
        "share data blocks with SOURCE: auto (if the file system can), always (or fail; the default for WHEN), or never",
    ),
    CopyFlag::gnu(
        "--strip-trailing-slashes",
        Plain(|typed| typed.strip_trailing_slashes = true),
        "ignore slashes at the end of each SOURCE",
    ),
    CopyFlag::gnu(
        "-S --suffix",
        AnyValue("SUFFIX", |typed, suffix| typed.set_suffix(suffix.bytes)),
        "make backups, and use SUFFIX instead of $SIMPLE_BACKUP_SUFFIX or ~",
    ),
    CopyFlag::gnu(
        "-s --symbolic-link",
        Plain(|typed| typed.symbolic_link = true),
        "create symbolic links instead of copies",
    ),
    CopyFlag::gnu(
        "-t --target-directory",
        Required("DIRECTORY", Typed::set_target_directory),
        "copy each SOURCE into DIRECTORY",
    ),
    CopyFlag::gnu(
        "-u --update",
        Optional("UPDATE", Typed::update),
        "replace these existing files: all (the default), none, none-fail (none, and each is an error), \
         or older (those older than SOURCE; the default for UPDATE)",
    ),
    CopyFlag::gnu(
        "-v --verbose",
        Plain(|typed| typed.verbose = true),
        "print each file name as it is copied",
    ),
    CopyFlag::gnu(
        "--keep-directory-symlink",
        Plain(|typed| typed.existing.keep_directory_symlink = true),
        "copy into directories behind symbolic links",
    ),
    CopyFlag::gnu("-Z", Plain(|typed| typed.set_context(None)), "give copies the default SELinux context"),
    CopyFlag::gnu(
        "--context",
        Optional("CTX", |typed, context| {
            typed.set_context(context.map(|context| context.bytes));
            Ok(())
        }),
        "same as -Z, or give copies the SELinux context CTX",
    ),
    CopyFlag::help("--help"),
    CopyFlag::version("--version"),
];

static OWN: &[CopyFlag] = &[
    CopyFlag::own(
        "--strict",
        Plain(|typed| typed.strict = true),
        "for copying into a directory that others may write to: follow no symbolic link in the target, replace existing \
         files instead of writing to them, and leave the attributes of existing directories alone",
    ),
    CopyFlag::own(
        "--atomic",
        Plain(|typed| typed.atomic = Some(Atomic::Always)),
        "give each file its name only when it is complete, and replace existing files as a whole; the default with -r is \
         to do so for new files of 1 MiB or more",
    ),
    CopyFlag::own(
        "--dry-run",
        Plain(|typed| typed.dry_run = true),
        "print what would be copied, removed and backed up, and change nothing",
    ),
    CopyFlag::own(
        "--resume",
        Plain(|typed| typed.resume = true),
        "resume an interrupted run of the same command; progress is kept in a hidden file, which is removed at the end",
    ),
    CopyFlag::own(
        "--journal",
        Required("FILE", Typed::set_journal),
        "like --resume, but keep the record in FILE: the same copy, run again, copies only what has changed",
    ),
    CopyFlag::own(
        "--no-atomic",
        Plain(|typed| typed.atomic = Some(Atomic::Never)),
        "write every file under its final name from the start",
    ),
    CopyFlag::own(
        "--manifest",
        Required("FILE", Typed::set_manifest),
        "write the names of all copies and their hashes to FILE, which appears when it is complete; 'b3sum -c' and 'haul \
         sum -c' check it",
    ),
    CopyFlag::own(
        "--manifest-format",
        Required("NAME", |typed, value| {
            value.choose(values::MANIFEST_FORMAT).map(|format| typed.manifest_format = Some(format))
        }),
        "write the manifest in this form: b3sum (the default), bsd (lines with the name of the hash), json (an object on \
         each line, with the size) or mhl (an ASC Media Hash List, with xxh128, xxh64 or md5)",
    ),
    CopyFlag::own(
        "--hash",
        Required("NAME", |typed, value| value.choose(values::HASH).map(|hash| typed.hash = Some(hash))),
        "write hashes of this kind to the manifest: blake3 (the default), xxh128, xxh64, sha256 or md5; --verify compares \
         BLAKE3 hashes in any case",
    ),
];

/// Options of every copy: how it is made safe, and how the machine is used.
pub(super) static COPYING: &[CopyFlag] = &[
    CopyFlag::own(
        "--fsync",
        Optional("WHEN", Typed::set_fsync),
        "wait until the copy is on storage: end (all of it at the end of the run; the default for WHEN) or each (each \
         file before the next)",
    ),
    CopyFlag::own(
        "--verify",
        Optional("WHAT", Typed::set_verify),
        "read each file again and compare its hash: target (from the target's device; the default for WHAT), both (also \
         the source, from its device) or stream (the target, from memory); what differs is copied again",
    ),
    CopyFlag::own(
        "--if-changed",
        Required("WHAT", Typed::set_if_changed),
        "what to do about a file that is written to while it is copied: ignore (the default), warn, or retry[=N] (the \
         default with --verify: copy it again, up to N times, 3 by default, then warn); a warning sets the exit status",
    ),
    CopyFlag::own(
        "--on-full",
        Required("WHAT", |typed, value| value.choose(values::ON_FULL).map(|what| typed.on_full = what)),
        "what to do when the target's file system is full: stop (report the file as failed; the default) or pause (wait until \
         there is room, then go on with the same file)",
    ),
    CopyFlag::own(
        "--bwlimit",
        Required("RATE", |typed, value| {
            let rate = value.rate()?;
            typed.shared.limits().change(|limits| limits.bytes_per_second = rate);
            Ok(())
        }),
        "copy at most RATE of data per second, over all workers and ranks together (K, M, G: \
         powers of 1024; KB, MB, GB: powers of 1000; without a unit KiB, as with rsync; 0: no limit); shared blocks do \
         not count",
    )
    .configurable(),
    CopyFlag::own(
        "--block-size",
        Required("SIZE", |typed, value| {
            value.size(BLOCK_BYTES).map(|n| typed.shared.run.config.block_bytes = Some(n))
        }),
        "read and write up to SIZE bytes at a time (K, M, G: powers of 1024; KB, MB, GB: powers of 1000)",
    )
    .configurable(),
    CopyFlag::own(
        "--ops",
        Required("WAY", |typed, value| {
            value.choose(values::OPS).map(|ops| typed.shared.run.config.ops = Some(ops))
        }),
        "blocks of a file in flight, if the engine supports it: single (one), multi (several) or batch (several, \
         submitted and awaited together)",
    )
    .configurable(),
    CopyFlag::own(
        "--direct",
        Plain(|typed| typed.shared.run.config.switches.direct = true),
        "use direct I/O, bypassing the page cache, where both file systems support it",
    )
    .configurable(),
    CopyFlag::own(
        "--registered-buffers",
        Plain(|typed| typed.shared.run.config.switches.registered_buffers = true),
        "register the buffers with the kernel (io-uring)",
    )
    .configurable(),
    CopyFlag::own(
        "--direct-descriptors",
        Plain(|typed| typed.shared.run.config.switches.direct_descriptors = true),
        "register open files with the kernel (io-uring)",
    )
    .configurable(),
    CopyFlag::own(
        "--fallocate",
        Plain(|typed| typed.shared.run.config.switches.allocate = true),
        "preallocate each target file before writing it",
    ),
    CopyFlag::own(
        "--no-fallocate",
        Plain(|typed| typed.shared.run.config.switches.allocate = false),
        "do not preallocate target files (the default)",
    ),
    CopyFlag::own(
        "--no-readahead",
        Plain(|typed| typed.shared.run.config.switches.read_ahead = false),
        "do not prefetch the data of files that are copied next",
    )
    .configurable(),
    CopyFlag::own(
        "--no-advise",
        Plain(|typed| typed.shared.run.config.switches.advise = false),
        "do not advise the kernel how files are read",
    )
    .configurable(),
    CopyFlag::own(
        "--drop-cache",
        Plain(|typed| typed.shared.run.config.switches.drop_cache = true),
        "drop the copied data from the page cache",
    )
    .configurable(),
    CopyFlag::own(
        "--no-directory-first",
        Plain(|typed| typed.shared.run.config.switches.directory_first = false),
        "list the next directory only when no files are left to copy",
    )
    .configurable(),
    CopyFlag::own(
        "--no-inode-order",
        Plain(|typed| typed.shared.run.config.switches.inode_order = false),
        "copy the files of a directory in listing order",
    )
    .configurable(),
];

pub(super) static HOSTS: &[CopyFlag] = &[
    CopyFlag::own(
        "--walk",
        Required("WHO", Typed::set_walk),
        "who lists directories: launch, the process that starts the job (the default), or ranks, for file systems \
         with many metadata servers",
    ),
    CopyFlag::own(
        "--range-size",
        Required("SIZE", Typed::set_range_bytes),
        "split large files into ranges of SIZE, rounded up to whole MiB, which several ranks copy; the default depends \
         on the file",
    ),
    CopyFlag::own(
        "--copy-layout",
        Plain(|typed| typed.layout.copy = true),
        "stripe each file over storage targets like its source, where the file system can; the default is the layout \
         of the directory",
    ),
    CopyFlag::own(
        "--reduce-stripes",
        Plain(|typed| typed.layout.reduce = true),
        "like --copy-layout, but use no more storage targets than the source's data takes up",
    ),
    CopyFlag::own(
        "--no-stripe-offset",
        Plain(|typed| typed.layout.no_offset = true),
        "like --copy-layout, but let the file system choose the first storage target",
    ),
    CopyFlag::own("--io-factor", Required("F", Typed::set_io_factor), "make blocks F times as large"),
];
