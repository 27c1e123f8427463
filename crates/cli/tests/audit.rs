//! System calls of real runs, as recorded by strace.
//!
//! Below the roots, nothing is reached by path. Each name is looked up once, as a single component
//! relative to an open directory, without following links. Metadata is set through descriptors.
//! Entries are created exclusively, never wider than their final mode. Small files are cheap: a new
//! one costs at most eight calls. The same audit finds violations in GNU cp, which proves that it
//! can find them.
//!
//! io_uring operations don't show up in strace, so these runs use the synchronous engine, whose
//! calls pass through the same gate.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use haul_testkit::compare::compare_paths;
use haul_testkit::everything::{self, ACCESS_ACL};
use haul_testkit::mount::Mount;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind};
use haul_testkit::strace::{TracedCall, record};
use haul_testkit::{CopyProgram, Facts, Sandbox, cold, needs, note, program, require, tests};

/// Argument positions of each (directory descriptor, name) pair of a call that accepts names.
fn names_of(call: &TracedCall) -> Vec<(usize, usize)> {
    match call.name.as_str() {
        "openat" | "openat2" | "newfstatat" | "statx" | "mkdirat" | "mknodat" | "unlinkat" | "readlinkat"
        | "fchmodat" | "fchmodat2" | "fchownat" | "utimensat" | "faccessat" | "faccessat2"
        | "name_to_handle_at" | "setxattrat" | "getxattrat" | "listxattrat" | "removexattrat" => vec![(0, 1)],
        "symlinkat" => vec![(1, 2)],
        "linkat" | "renameat" | "renameat2" => vec![(0, 1), (2, 3)],
        _ => Vec::new(),
    }
}

/// Calls without a directory descriptor: any use below the roots is a violation.
const BY_PATH: [&str; 34] = [
    "open",
    "creat",
    "stat",
    "lstat",
    "access",
    "mkdir",
    "rmdir",
    "unlink",
    "rename",
    "link",
    "symlink",
    "readlink",
    "mknod",
    "chmod",
    "chown",
    "lchown",
    "utime",
    "utimes",
    "futimesat",
    "truncate",
    "statfs",
    "chdir",
    "chroot",
    "setxattr",
    "lsetxattr",
    "getxattr",
    "lgetxattr",
    "listxattr",
    "llistxattr",
    "removexattr",
    "lremovexattr",
    "getcwd",
    "execve",
    "swapon",
];

/// Kind of run; some rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// A new copy without metadata: modes come from the source and the umask.
    Plain,
    /// A new copy with metadata: entries are private to their owner until complete.
    Archive,
    /// Onto an older copy. Like GNU cp, this may overwrite a file behind a link in the target.
    OntoOlder,
}

/// Audit of one run.
struct Audit<'a> {
    roots: [&'a Path; 2],
    scene: Scene,
    descents: usize,
    below: usize,
    violations: BTreeMap<String, usize>,
}

impl<'a> Audit<'a> {
    fn of(calls: &[TracedCall], roots: [&'a Path; 2], scene: Scene) -> Self {
        let mut audit = Self { roots, scene, descents: 0, below: 0, violations: BTreeMap::new() };
        for call in calls {
            audit.look_at(call);
        }
        audit
    }

    fn violation(&mut self, rule: &str, call: &TracedCall) {
        // One entry per rule and call; only the first is printed, as an example.
        let key = format!("{rule}: {}", call.name);
        let count = self.violations.entry(key.clone()).or_default();
        *count += 1;
        if *count == 1 {
            note!("audit: {rule}: {}", call.line());
        }
    }

    fn look_at(&mut self, call: &TracedCall) {
        if BY_PATH.contains(&call.name.as_str()) {
            let path = call.path(0).unwrap_or_default();
            if self.is_below(Path::new(&lossy(&path))) || is_below_descriptor(&path) {
                self.violation("a call that takes a path", call);
            }
        }
        for (directory, name) in names_of(call) {
            self.look_at_name(call, directory, name);
        }
        if call.name == "linkat" && call.has_flag(4, "AT_SYMLINK_FOLLOW") {
            self.violation("a link is followed", call);
        }
    }

    fn look_at_name(&mut self, call: &TracedCall, directory: usize, name: usize) {
        let Some(text) = call.path(name) else { return };
        if is_below_descriptor(&text) {
            self.violation("a descriptor is turned into a path", call);
        }
        let Some(base) = call.descriptor_path(directory) else { return };
        let whole = Path::new(base).join(OsStr::from_bytes(&text));
        // An empty name means the descriptor itself: no name is looked up.
        if text.is_empty() || !self.is_below(&whole) {
            return;
        }
        self.below += 1;
        if call.at_working_directory(directory) {
            self.violation("below the roots without an open directory", call);
        }
        if text.contains(&b'/') {
            self.violation("more than one component", call);
        }
        self.look_at_flags(call, &text, &whole);
    }

    /// True if the call may follow a link, since GNU cp writes through links in the target.
    fn may_follow(&self, call: &TracedCall, whole: &Path) -> bool {
        let writes = call.name == "statx" || call.name == "newfstatat" || call.has_flag(2, "O_WRONLY");
        let makes = call.has_flag(2, "O_CREAT") || call.has_flag(2, "O_DIRECTORY");
        self.scene == Scene::OntoOlder && whole.starts_with(self.roots[1]) && writes && !makes
    }

    fn look_at_flags(&mut self, call: &TracedCall, text: &[u8], whole: &Path) {
        if self.may_follow(call, whole) {
            return;
        }
        match call.name.as_str() {
            "openat" => {
                self.descents += 1;
                // An evicted directory is reopened through `..`, which is no link; device and inode
                // are checked.
                if !call.has_flag(2, "O_NOFOLLOW") && text != b".." {
                    self.violation("opened without O_NOFOLLOW", call);
                }
                if call.has_flag(2, "O_CREAT") {
                    if !call.has_flag(2, "O_EXCL") {
                        self.violation("made without O_EXCL", call);
                    }
                    self.look_at_mode(call, call.octal(3), whole);
                }
            }
            // On a directory, set-group-ID grants nothing, and the kernel passes it down anyway.
            "mkdirat" => self.look_at_mode(call, call.octal(2).map(|mode| mode & !0o2000), whole),
            "mknodat" => {
                let mode =
                    call.argument(2).rsplit('|').next().and_then(|mode| u32::from_str_radix(mode, 8).ok());
                self.look_at_mode(call, mode, whole);
            }
            "newfstatat" if !call.has_flag(3, "AT_SYMLINK_NOFOLLOW") => {
                self.violation("a link would be followed", call);
            }
            "statx" if !call.has_flag(2, "AT_SYMLINK_NOFOLLOW") => {
                self.violation("a link would be followed", call)
            }
            // By now the name may refer to something that this run did not create.
            "fchownat" | "utimensat" | "fchmodat" | "fchmodat2" | "setxattrat" | "removexattrat" => {
                self.violation("metadata set by name", call);
            }
            _ => {}
        }
    }

    /// Checks that an entry is created without set-ID bits and private to its owner. Only a file
    /// created with its final owner may have its final mode from the start, unless that mode is an
    /// ACL mask.
    fn look_at_mode(&mut self, call: &TracedCall, mode: Option<u32>, made: &Path) {
        const OTHERS_AND_SET_ID: u32 = 0o6077;
        let too_wide = |mode: u32| mode & OTHERS_AND_SET_ID != 0 && !is_born_right(made, mode);
        if self.scene == Scene::Archive && mode.is_none_or(too_wide) {
            self.violation("made wider than its owner needs", call);
        }
    }

    /// True if a path lies strictly below one of the roots.
    fn is_below(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path != *root && path.starts_with(root))
    }
}

/// True if a file belongs to this process, has exactly this mode, and has no ACL.
fn is_born_right(made: &Path, mode: u32) -> bool {
    let process = haul_testkit::rustix::process::geteuid().as_raw();
    let listed = haul_testkit::rustix::fs::lgetxattr(made, ACCESS_ACL, &mut [0u8; 256][..]).is_ok();
    fs::symlink_metadata(made)
        .is_ok_and(|now| now.is_file() && now.uid() == process && now.mode() & 0o7777 == mode && !listed)
}

/// True if a path goes through a descriptor to another file. The descriptor alone is the
/// file itself.
fn is_below_descriptor(path: &[u8]) -> bool {
    let inner = [b"/proc/self/fd/".as_slice(), b"/proc/thread-self/fd/"];
    inner.iter().filter_map(|prefix| path.strip_prefix(*prefix)).any(|rest| rest.contains(&b'/'))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies the tree of everything under strace and audits the calls.
fn audit_run(program: &CopyProgram, scene: Scene) -> (usize, usize, BTreeMap<String, usize>) {
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    everything::spec().build(&source).unwrap();
    if scene == Scene::OntoOlder {
        everything::spec().build(&target).unwrap();
    }
    let option = if scene == Scene::Plain { "-r" } else { "-a" };
    let run = program.run_with(&["--engine=sync", "-j4"]).args([option, "-T"]).args([&source, &target]);
    let (outcome, calls) = record(run.umask(0o022), "file,desc", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let audit = Audit::of(&calls, [&source, &target], scene);
    (audit.below, audit.descents, audit.violations)
}

fn is_clean(scene: Scene) {
    let ours = program!();
    require!(needs::tool("strace"), needs::root(), ours.needs_haul());
    let (below, descents, violations) = audit_run(&ours, scene);
    note!(
        "audit {scene:?}: {below} names below the roots, {descents} opened, {} kinds of violations",
        violations.len()
    );
    assert!(below > 200 && descents > 100, "the audit saw next to nothing: {below} names, {descents} opened");
    assert!(violations.is_empty(), "{violations:#?}");
}

tests! {
    an_archive_copy_reaches_nothing_by_path => is_clean(Scene::Archive);
    a_plain_copy_reaches_nothing_by_path => is_clean(Scene::Plain);
    a_copy_onto_an_older_one_reaches_nothing_by_path => is_clean(Scene::OntoOlder);
}

#[test]
fn the_audit_finds_what_gnu_cp_does() {
    require!(needs::tool("strace"), needs::root(), CopyProgram::needs_gnu());
    let (_, _, violations) = audit_run(&CopyProgram::gnu().unwrap(), Scene::Archive);
    let broken = |rule: &str| violations.keys().any(|key| key.starts_with(rule));
    assert!(broken("below the roots without an open directory"), "{violations:?}");
    assert!(broken("more than one component"), "{violations:?}");
    assert!(broken("a call that takes a path"), "{violations:?}");
}

/// Creates `files` small files in one directory.
fn small_files(root: &Path, files: usize) {
    let nodes =
        (0..files).map(|index| EntrySpec::file(0, format!("file-{index}"), index as u64, 1000)).collect();
    Spec { nodes }.build(root).unwrap();
}

/// Held while counting calls: dropping caches would change another test's count.
static COUNTING: Mutex<()> = Mutex::new(());

/// Counts the calls of a plain copy of `files` small files, excluding locks and memory management.
fn count_calls(program: &CopyProgram, own: &[&str], sandbox: &Sandbox, files: usize, cold: bool) -> usize {
    let (source, target) = (sandbox.join(format!("source-{files}")), sandbox.join("target"));
    if !source.exists() {
        small_files(&source, files);
    }
    haul_testkit::sandbox::remove_tree(&target);
    if cold {
        haul_testkit::rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    }
    // A fixed number of workers: the tracer makes them wait, so more would be started.
    let run = program.run_with(&[&["-j4"], own].concat()).args(["-r", "-T"]).args([&source, &target]);
    let (outcome, calls) = record(run, "all", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(fs::read_dir(&target).unwrap().count(), files);
    let idle =
        ["futex", "sched_yield", "mmap", "munmap", "brk", "madvise", "clock_nanosleep", "restart_syscall"];
    calls.iter().filter(|call| !idle.contains(&call.name.as_str())).count()
}

fn calls_for_a_file(own: &[&str], sandbox: &Sandbox, cold: bool) -> f64 {
    const FILES: usize = 500;
    let ours = program!();
    let few = count_calls(&ours, own, sandbox, FILES, cold);
    let many = count_calls(&ours, own, sandbox, 2 * FILES, cold);
    let each = (many as f64 - few as f64) / FILES as f64;
    note!("calls for a new small file, {own:?}, {}: {each:.2}", if cold { "cold" } else { "warm" });
    each
}

#[test]
fn a_new_small_file_costs_at_most_eight_calls() {
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    let _counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let droppable = fs::OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches").is_ok();
    let ways: [&[&str]; 4] = [&["--engine=sync", "-j1"], &["--engine=sync", "-j4"], &["--engine=auto"], &[]];
    for own in ways {
        for cold in [false, true] {
            if cold && !droppable {
                continue;
            }
            // On a busy machine a ring is waited for more often, so retry.
            let each = (0..3).map(|_| calls_for_a_file(own, &sandbox, cold)).find(|each| *each <= 8.1);
            // Reading the directory costs one more call per few hundred files, and a run that lasts
            // for a second starts the thread for SIGUSR1, with 30 calls.
            let each = each.unwrap_or(f64::INFINITY);
            assert!(each <= 8.1, "{each} calls for each new file with {own:?}, cold: {cold}");
            assert!(each >= 1.0, "the count is not believable: {each} with {own:?}");
        }
    }
}

/// On a tree without special metadata, `-a` adds one call for extended attributes and ACLs
/// together, and one for the times.
#[test]
fn keeping_everything_costs_two_calls_more() {
    require!(needs::tool("strace"), program!().needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    let _counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    for own in [&["-a", "--engine=sync", "-j1"][..], &["-a", "-j4"], &["-a"]] {
        let each = calls_for_a_file(own, &sandbox, false);
        assert!(each <= 9.3, "{each} calls for each new file with {own:?}");
    }
}

/// A thread is started only when there is work for it, and nothing is read that the copy does not
/// need.
#[test]
fn starting_up_costs_few_calls() {
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let sources = ["one", "twenty"].map(|name| sandbox.join(name));
    small_files(&sources[0], 1);
    small_files(&sources[1], 20);
    let [file, twenty] = [sources[0].join("file-0"), sources[1].clone()];
    for (what, source, most) in
        [("one file", &file, 120), ("a tree of one file", &sources[0], 135), ("twenty files", &twenty, 310)]
    {
        let copy = |own: &[&str], filter: &str| {
            let target = sandbox.join("target");
            haul_testkit::sandbox::remove_tree(&target);
            let run = ours.run_with(own).args(["-r", "-T"]).args([source, &target]);
            let (outcome, calls) = record(run, filter, &sandbox.join("log")).unwrap();
            assert!(outcome.succeeded(), "{}", outcome.errors());
            calls.len()
        };
        // Of one worker: the others are started after a millisecond, and traced calls are slow.
        let calls = copy(&["-j1"], "all");
        // A copy that is held up may start another thread, so retry.
        let threads = (0..10).map(|_| copy(&[], "clone,clone3")).min().unwrap();
        note!("{what}: {calls} calls, {threads} threads started");
        assert_eq!(threads, 0, "threads started for {what}");
        assert!(calls <= most, "{calls} calls for {what}");
    }
}

/// One file needs one worker, so nobody asks how many processors the cgroup allows.
#[test]
fn one_file_is_copied_without_a_look_at_the_processors() {
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("file"), sandbox.join("copy"));
    fs::write(&source, "ten bytes\n").unwrap();
    let run = ours.run().args([&source, &target]);
    let (outcome, calls) = record(run, "all", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let looks: Vec<_> = calls.iter().map(TracedCall::line).collect();
    assert!(looks.iter().all(|line| !line.contains("cgroup")), "{looks:#?}");
    assert!(looks.len() <= 105, "{} calls: {looks:#?}", looks.len());
}

/// Large files of one directory are one batch, of which the others take their share.
#[test]
fn a_few_large_files_are_moved_by_several_workers() {
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    let nodes = (0..8).map(|index| EntrySpec::file(0, format!("file-{index}"), index, 8 << 20)).collect();
    Spec { nodes }.build(&source).unwrap();
    for own in [&[][..], &["--engine=sync"], &["--reflink=never"], &["--fsync"]] {
        haul_testkit::sandbox::remove_tree(&target);
        let run = ours.run_with(own).args(["-j4", "-r", "-T"]).args([&source, &target]);
        let moving = "copy_file_range,pwrite64,splice";
        let (outcome, calls) = record(run, moving, &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let threads = calls.iter().map(|call| call.thread).collect::<BTreeSet<_>>().len();
        assert!(threads > 1, "{own:?}: {threads} thread moved all of {} calls", calls.len());
    }
}

/// Links, directories and whatever else isn't read is done while it is listed, which must not keep
/// a worker from starting others.
#[test]
fn entries_that_are_not_read_are_made_by_several_workers() {
    const ENTRIES: usize = 1500;
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    for kind in ["files", "links", "directories"] {
        for folder in 0..10 {
            let folder = sandbox.join(kind).join(folder.to_string());
            fs::create_dir_all(&folder).unwrap();
            for name in 0..ENTRIES / 10 {
                let path = folder.join(name.to_string());
                match kind {
                    "files" => fs::write(path, "").unwrap(),
                    "links" => std::os::unix::fs::symlink("elsewhere", path).unwrap(),
                    _ => fs::create_dir(path).unwrap(),
                }
            }
        }
    }
    let cases: [(&[&str], &str, &str); 4] = [
        (&["-r"], "links", "symlinkat"),
        (&["-rs"], "files", "symlinkat"),
        (&["-rl"], "files", "linkat"),
        (&["-r"], "directories", "mkdirat"),
    ];
    for (own, kind, call) in cases {
        let target = sandbox.join("target");
        let run = ours.run().args(own).arg("-T").args([sandbox.join(kind), target.clone()]);
        let (outcome, calls) = record(run, call, &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{own:?}: {}", outcome.errors());
        assert!(calls.len() >= ENTRIES, "{own:?} {kind}: {}", calls.len());
        let threads: BTreeSet<u32> = calls.iter().map(|call| call.thread).collect();
        assert!(threads.len() > 1, "{own:?} {kind}: all by one thread");
        haul_testkit::sandbox::remove_tree(&target);
    }
}

/// Cached files that nobody has to look at go through a pipe, unless an engine was asked for.
#[test]
fn large_files_go_through_a_pipe_to_another_file_system() {
    require!(needs::tool("strace"), needs::loop_mount("ext4"));
    let ours = program!();
    require!(ours.needs_haul());
    let (disk, elsewhere) = (Mount::image("ext4", 64 << 20).unwrap(), Mount::memory(64 << 20).unwrap());
    let (source, target) = (disk.join("source"), elsewhere.join("target"));
    let sizes = [1, 60_000, 70_000, 1 << 20, 3_000_001];
    let node = |(index, bytes): (u64, u64)| EntrySpec::file(0, format!("file-{bytes}"), index, bytes);
    Spec { nodes: (0..).zip(sizes).map(node).collect() }.build(&source).unwrap();
    let asked = haul_sys::cached_bytes(fs::File::open(source.join("file-70000")).unwrap());
    require!(asked.err().map(|error| format!("needs cachestat: {error}")));
    let cases: [(&[&str], bool, bool); 8] = [
        (&[], true, true),
        (&["--sparse=never"], true, true),
        (&["--atomic", "--fsync"], true, true),
        (&[], false, false),
        (&["--engine=sync"], true, false),
        (&["--verify"], true, false),
        (&["--sparse=always"], true, false),
        (&["--drop-cache"], true, false),
    ];
    for (own, is_cached, through_pipe) in cases {
        match is_cached {
            true => {
                sizes.iter().for_each(|bytes| drop(fs::read(source.join(format!("file-{bytes}"))).unwrap()))
            }
            false => cold::make(&source).unwrap(),
        }
        haul_testkit::sandbox::remove_tree(&target);
        let run = ours.run_with(own).args(["-j2", "-r", "-T"]).args([&source, &target]);
        let (outcome, calls) = record(run, "splice,pwrite64,pwritev2", &disk.join("log")).unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
        assert!(differences.is_empty(), "{own:?}: {differences}");
        let spliced = calls.iter().filter(|call| call.name == "splice").count();
        // Two calls for each block, and for what is left.
        let expected = if through_pipe { (34, 2) } else { (0, calls.len()) };
        assert_eq!((spliced, calls.len() - spliced), expected, "{own:?}, cached: {is_cached}");
    }
}

/// With `-a`, files with several names are fetched ahead like others, not only when it is known
/// which of their names is copied.
#[test]
fn files_with_several_names_are_fetched_ahead() {
    const FILES: u64 = 40;
    require!(needs::tool("strace"), needs::loop_mount("ext4"));
    let ours = program!();
    require!(ours.needs_haul());
    let (disk, elsewhere) = (Mount::image("ext4", 64 << 20).unwrap(), Mount::memory(64 << 20).unwrap());
    let (source, target) = (disk.join("source"), elsewhere.join("target"));
    let nodes = (0..FILES).map(|index| EntrySpec::file(0, format!("file-{index}"), index, 5000)).collect();
    Spec { nodes }.build(&source).unwrap();
    for index in 0..FILES {
        let name = |prefix| source.join(format!("{prefix}-{index}"));
        fs::hard_link(name("file"), name("link")).unwrap();
    }
    cold::make(&source).unwrap();
    let run = ours.run_with(&["--engine=sync"]).args(["-a", "-T"]).args([&source, &target]);
    let (outcome, calls) = record(run, "preadv2", &elsewhere.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert!(calls.len() as u64 >= FILES, "{} reads that don't wait", calls.len());
    let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
    assert!(differences.is_empty(), "{differences}");
}

/// A tmpfs refuses to say what is cached. A worker asks once, and doesn't take that for "nothing".
#[test]
fn files_in_memory_are_looked_for_once() {
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    let nodes = (0..200).map(|index| EntrySpec::file(0, format!("file-{index}"), index, 3000)).collect();
    Spec { nodes }.build(&source).unwrap();
    let run = ours.run().args(["-j2", "-r", "-T"]).args([&source, &sandbox.join("target")]);
    let (outcome, calls) = record(run, "preadv2,fadvise64,io_uring_setup", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    // Files opened before the answer of the first are not looked for again either.
    assert!(calls.len() <= 4, "{} calls: {calls:?}", calls.len());
}

#[test]
fn a_special_file_is_made_and_never_opened() {
    require!(needs::tool("strace"), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    let nodes = vec![
        EntrySpec::new(0, "fifo", SpecKind::Fifo),
        EntrySpec::new(0, "socket", SpecKind::Socket),
        EntrySpec::new(0, "character", SpecKind::CharacterDevice(1, 5)),
        EntrySpec::new(0, "block", SpecKind::BlockDevice(7, 250)),
    ];
    Spec { nodes }.build(&source).unwrap();
    let run = program!()
        .run_with(&["--engine=sync", "-j1"])
        .args(["-a", "-T"])
        .args([&source, &sandbox.join("target")]);
    let (outcome, calls) = record(run, "file,desc", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let special = [b"fifo".as_slice(), b"socket", b"character", b"block"];
    let ends_special = |path: &[u8]| special.iter().any(|name| path.ends_with(name));
    let made = calls.iter().filter(|call| call.name.starts_with("mknod")).count();
    assert_eq!(made, special.len());
    for call in calls.iter().filter(|call| call.name == "openat") {
        // O_PATH refers to the name without opening the device.
        let opens = call.path(1).is_some_and(|path| ends_special(&path)) && !call.has_flag(2, "O_PATH");
        assert!(!opens, "{}", call.line());
    }
}
