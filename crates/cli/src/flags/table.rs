//! Every flag of `haul cp`, GNU's first and in GNU's order: the possibilities of an ambiguous
//! abbreviation are listed in table order.

use haul_copy::Dereference;

use super::Action::{Optional, Plain, Required};
use super::lower::{
    BLOCK_BYTES, Information, Interactive, JOBS, LOOK_AHEAD, QUEUE_DEPTH, StatisticsForm, Typed,
};
use super::{Flag, values};

pub(crate) static TABLE: &[Flag] = &[
    Flag::gnu(
        "a",
        "archive",
        Plain(Typed::archive),
        "same as -dR --preserve=all, but silent about extended attributes that the target cannot hold",
    ),
    Flag::gnu(
        "",
        "attributes-only",
        Plain(|typed| typed.attributes_only = true),
        "copy attributes and no data; what a file holds already stays",
    ),
    Flag::gnu(
        "",
        "backup",
        Optional("CONTROL", |typed, control| {
            typed.back_up(control);
            Ok(())
        }),
        "keep what is replaced, as CONTROL or else $VERSION_CONTROL says: none (or off); simple (never), as FILE~; \
         numbered (t), as FILE.~1~; existing (nil, the default), numbered if FILE has such backups and else simple",
    ),
    Flag::gnu("b", "", Plain(|typed| typed.back_up(None)), "same as --backup without CONTROL"),
    Flag::gnu(
        "",
        "copy-contents",
        Plain(|typed| typed.copy_contents = true),
        "under -r read FIFOs and devices like files, instead of making new ones",
    ),
    Flag::gnu("d", "", Plain(Typed::copy_links_as_links), "same as --no-dereference --preserve=links"),
    Flag::gnu(
        "",
        "debug",
        Plain(|typed| typed.debug = true),
        "tell how each file is copied and what was chosen for the run; implies -v",
    ),
    Flag::gnu(
        "L",
        "dereference",
        Plain(|typed| typed.dereference = Some(Dereference::Always)),
        "follow every symbolic link in SOURCE",
    ),
    Flag::gnu(
        "f",
        "force",
        Plain(|typed| typed.existing.force = true),
        "remove a target file that cannot be opened, and try again (without effect under -n)",
    ),
    Flag::gnu(
        "H",
        "",
        Plain(|typed| typed.dereference = Some(Dereference::Operands)),
        "follow symbolic links named on the command line",
    ),
    Flag::gnu(
        "i",
        "interactive",
        Plain(|typed| typed.interactive = Interactive::Ask),
        "ask before replacing a file (an -n before it has no effect)",
    ),
    Flag::gnu("l", "link", Plain(|typed| typed.hard_link = true), "make hard links instead of copies"),
    Flag::gnu(
        "n",
        "no-clobber",
        Plain(|typed| typed.interactive = Interactive::Keep),
        "leave files that exist as they are (an -i before it, and -u, have no effect)",
    ),
    Flag::gnu(
        "P",
        "no-dereference",
        Plain(|typed| typed.dereference = Some(Dereference::Never)),
        "follow no symbolic link in SOURCE",
    ),
    Flag::gnu("p", "", Plain(Typed::preserve_usual), "same as --preserve=mode,ownership,timestamps"),
    Flag::gnu(
        "",
        "no-preserve",
        Required("ATTR_LIST", Typed::no_preserve),
        "do not keep the attributes named",
    ),
    Flag::gnu(
        "T",
        "no-target-directory",
        Plain(|typed| typed.no_target_directory = true),
        "never copy into DEST, even if it is a directory",
    ),
    Flag::gnu(
        "x",
        "one-file-system",
        Plain(|typed| typed.one_file_system = true),
        "leave directories on other file systems empty",
    ),
    Flag::gnu(
        "",
        "parents",
        Plain(|typed| typed.parents = true),
        "copy SOURCE to its whole name below DIRECTORY, and make the directories on the way",
    ),
    Flag::gnu("", "path", Plain(|typed| typed.parents = true), "").meaning("parents"),
    Flag::gnu(
        "",
        "preserve",
        Optional("ATTR_LIST", Typed::preserve),
        "keep the attributes named, separated by commas: mode, ownership, timestamps (these three without a list), \
         links, xattr, all",
    ),
    Flag::gnu(
        "Rr",
        "recursive",
        Plain(|typed| typed.recursive = true),
        "copy directories with everything in them",
    ),
    Flag::gnu(
        "",
        "remove-destination",
        Plain(|typed| typed.existing.remove = true),
        "remove a target file that exists before making it anew, instead of trying to open it",
    ),
    Flag::gnu(
        "",
        "sparse",
        Required("WHEN", |typed, value| {
            values::choose("--sparse", value, values::SPARSE).map(|when| typed.sparse = when)
        }),
        "make holes: auto (where SOURCE has them), always (wherever there are zeros), or never",
    ),
    Flag::gnu(
        "",
        "reflink",
        Optional("WHEN", Typed::share_blocks),
        "share blocks with SOURCE: auto (where the file system can), always (or fail; the same as no WHEN), or never",
    ),
    Flag::gnu(
        "",
        "strip-trailing-slashes",
        Plain(|typed| typed.strip_trailing_slashes = true),
        "take trailing slashes off each SOURCE that is copied into a directory",
    ),
    Flag::gnu(
        "S",
        "suffix",
        Required("SUFFIX", |typed, suffix| {
            typed.set_suffix(suffix);
            Ok(())
        }),
        "make backups, with SUFFIX in place of $SIMPLE_BACKUP_SUFFIX or ~",
    ),
    Flag::gnu(
        "s",
        "symbolic-link",
        Plain(|typed| typed.symbolic_link = true),
        "make symbolic links instead of copies",
    ),
    Flag::gnu(
        "t",
        "target-directory",
        Required("DIRECTORY", Typed::set_target_directory),
        "copy every SOURCE into DIRECTORY",
    ),
    Flag::gnu(
        "u",
        "update",
        Optional("UPDATE", Typed::update),
        "choose which files are replaced: older (than SOURCE; the same as no UPDATE), all (the default), none, or none-fail \
         (none, and it is an error)",
    ),
    Flag::gnu("v", "verbose", Plain(|typed| typed.verbose = true), "tell of each file as it is copied"),
    Flag::gnu(
        "",
        "keep-directory-symlink",
        Plain(|typed| typed.existing.keep_directory_symlink = true),
        "copy a directory into what a symbolic link in its place leads to",
    ),
    Flag::gnu(
        "Z",
        "",
        Plain(|typed| typed.set_context(None)),
        "label copies by default; without effect on a kernel without SELinux",
    ),
    Flag::gnu(
        "",
        "context",
        Optional("CTX", |typed, context| {
            typed.set_context(context);
            Ok(())
        }),
        "same as -Z; a CTX is ignored with a warning on a kernel without SELinux",
    ),
    Flag::gnu(
        "",
        "help",
        Plain(|typed| typed.information = Some(Information::Help)),
        "show this help and exit",
    ),
    Flag::gnu(
        "",
        "version",
        Plain(|typed| typed.information = Some(Information::Version)),
        "show the version and exit",
    ),
    Flag::own(
        "",
        "strict",
        Plain(|typed| typed.strict = true),
        "for copying into a directory that others may write to: follow no symbolic link in the target, replace existing \
         files instead of writing to them, and leave the attributes of existing directories alone",
    ),
    Flag::own(
        "j",
        "jobs",
        Required("N", |typed, value| {
            values::count("--jobs", value, JOBS).map(|n| typed.config.jobs = Some(n))
        }),
        "copy with N workers at once",
    ),
    Flag::own(
        "",
        "engine",
        Required("NAME", |typed, value| {
            values::choose("--engine", value, &values::engines()).map(|engine| typed.config.engine = engine)
        }),
        "read and write through the engine named: {engines}",
    ),
    Flag::own(
        "",
        "queue-depth",
        Required("N", |typed, value| {
            values::count("--queue-depth", value, QUEUE_DEPTH).map(|n| typed.config.queue_depth = Some(n))
        }),
        "keep up to N operations of a worker in flight, in engines that can",
    ),
    Flag::own(
        "",
        "block-size",
        Required("SIZE", |typed, value| {
            values::size("--block-size", value, BLOCK_BYTES).map(|n| typed.config.block_bytes = Some(n))
        }),
        "read and write up to SIZE bytes at a time (K, M, G: powers of 1024; KB, MB, GB: of 1000)",
    ),
    Flag::own(
        "",
        "look-ahead",
        Required("N", |typed, value| {
            values::count("--look-ahead", value, LOOK_AHEAD).map(|n| typed.config.look_ahead = Some(n))
        }),
        "let a worker have N files open ahead of the one it copies",
    ),
    Flag::own(
        "",
        "ops",
        Required("WAY", |typed, value| {
            values::choose("--ops", value, values::OPS).map(|ops| typed.config.ops = Some(ops))
        }),
        "have a file's blocks in flight in this way, in engines that can: single (one at a time), multi (several) or batch \
         (several, passed on and waited for together)",
    ),
    Flag::own(
        "",
        "direct",
        Plain(|typed| typed.config.switches.direct = true),
        "move data past the page cache, where both file systems can",
    ),
    Flag::own(
        "",
        "registered-buffers",
        Plain(|typed| typed.config.switches.registered_buffers = true),
        "make the buffers known to the kernel once (io-uring)",
    ),
    Flag::own(
        "",
        "direct-descriptors",
        Plain(|typed| typed.config.switches.direct_descriptors = true),
        "make each file known to the kernel once (io-uring)",
    ),
    Flag::own(
        "",
        "fallocate",
        Plain(|typed| typed.config.switches.allocate = true),
        "reserve a target's space before writing it",
    ),
    Flag::own(
        "",
        "no-fallocate",
        Plain(|typed| typed.config.switches.allocate = false),
        "do not reserve space (the default)",
    ),
    Flag::own(
        "",
        "no-readahead",
        Plain(|typed| typed.config.switches.read_ahead = false),
        "ask for no file's data before its turn",
    ),
    Flag::own(
        "",
        "no-advise",
        Plain(|typed| typed.config.switches.advise = false),
        "give the kernel no advice on how files are read",
    ),
    Flag::own(
        "",
        "drop-cache",
        Plain(|typed| typed.config.switches.drop_cache = true),
        "leave the page cache as it was found",
    ),
    Flag::own(
        "",
        "no-directory-first",
        Plain(|typed| typed.config.switches.directory_first = false),
        "list a directory only when no file is left to copy",
    ),
    Flag::own(
        "",
        "no-inode-order",
        Plain(|typed| typed.config.switches.inode_order = false),
        "copy a directory's files in the order of its listing",
    ),
    Flag::own(
        "",
        "stats",
        Optional("json", |typed, value| {
            let form = value.map_or(Ok(StatisticsForm::Table), |value| {
                values::choose("--stats", value, values::STATISTICS)
            })?;
            typed.statistics = Some(form);
            Ok(())
        }),
        "at the end tell counts, bytes, times and memory on standard error, or with =json as one JSON object on \
         standard output",
    ),
    Flag::own(
        "g",
        "progress",
        Optional("WHEN", Typed::show_progress),
        "show progress on standard error: auto (on a terminal only; the same as no WHEN), always, or never",
    ),
    Flag::of_cluster(
        "clients",
        Required("M", |typed, value| typed.set_clients("--clients", value)),
        "copy with M ranks of an MPI job: in an allocation on its hosts, where a batch system is by a job that is submitted and \
         followed to its end, elsewhere on this host",
    ),
    Flag::of_cluster(
        "account",
        Required("P", |typed, value| typed.set_account("--account", value)),
        "charge a batch job to P",
    ),
    Flag::of_cluster(
        "walltime",
        Required("TIME", |typed, value| typed.set_walltime("--walltime", value)),
        "end a batch job after TIME, in seconds or as [HH:]MM:SS, at the latest",
    ),
    Flag::of_cluster(
        "queue",
        Required("QUEUE", |typed, value| typed.set_queue("--queue", value)),
        "send a batch job to QUEUE",
    ),
    Flag::of_cluster(
        "launcher",
        Required("COMMAND", Typed::set_launcher),
        "start the ranks with COMMAND, its words separated by spaces, instead of the mpirun or srun that is found",
    ),
    Flag::of_cluster(
        "mpi-lib",
        Required("PATH", Typed::set_mpi_library),
        "use the MPI library PATH instead of the one that fits the launcher",
    ),
    Flag::of_cluster(
        "walk",
        Required("WHO", Typed::set_walk),
        "list directories in the process that launches the job, or in its ranks, for file systems with many metadata \
         servers: launch (the default) or ranks",
    ),
    Flag::of_cluster(
        "range-size",
        Required("SIZE", Typed::set_range_bytes),
        "cut large files in ranges of SIZE, which several ranks move, instead of what suits the file",
    ),
    Flag::of_cluster(
        "journal",
        Required("FILE", Typed::set_journal),
        "record in FILE what is finished; the same copy, made again, skips it",
    ),
    Flag::of_cluster(
        "copy-layout",
        Plain(|typed| typed.layout.copy = true),
        "spread each file over storage targets as its source is, where the file system can; otherwise the directory decides",
    ),
    Flag::of_cluster(
        "reduce-stripes",
        Plain(|typed| typed.layout.reduce = true),
        "same as --copy-layout, but use no more storage targets than the source's data takes up",
    ),
    Flag::of_cluster(
        "no-stripe-offset",
        Plain(|typed| typed.layout.no_offset = true),
        "same as --copy-layout, but leave the first storage target to the file system",
    ),
    Flag::of_cluster(
        "io-factor",
        Required("F", |typed, value| typed.set_io_factor("--io-factor", value)),
        "make blocks F times as large",
    ),
];
