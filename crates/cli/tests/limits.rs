//! Limits around the copy: signals, unusable standard output, few descriptors and sheer size.
//! Refused system calls are in `refused.rs`.
//!
//! The result is the same with less, or there is a message and status 1. A copy ends at once after
//! ^C, and memory is bounded.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use haul_testkit::compare::compare_paths;
use haul_testkit::message::normalise;
use haul_testkit::program::{ENGINES, OPS, WAYS, each_engine};
use haul_testkit::run::RunEnding;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind};
use haul_testkit::{
    CopyProgram, Facts, RunOutcome, Sandbox, TestRun, deep, libc, needs, note, program, require, wait,
};

#[test]
fn ten_thousand_levels_with_64_descriptors() {
    const LEVELS: usize = 10_000;
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    deep::build(&source, LEVELS).unwrap();
    for (way, option) in WAYS.into_iter().zip(["-r", "-a", "-a", "-r"]) {
        remove_tree(&target);
        let run = ours.run_with(&way).args([option, "-T"]).args([&source, &target]);
        let outcome = run.open_files(64).within(Duration::from_secs(60)).finish().unwrap();
        let depth = deep::measure(&target).unwrap();
        let seconds = outcome.took.as_secs_f64();
        assert!(
            outcome.succeeded(),
            "{way:?} {option}: {:?} at level {depth}: {:.500}",
            outcome.ending,
            outcome.errors()
        );
        assert_eq!(depth, LEVELS, "{way:?} {option}");
        note!("{LEVELS} levels with 64 descriptors, {way:?} {option}: {seconds:.1} s");
    }
}

/// Command lines, with the number of descriptors each needs.
const FEW_DESCRIPTORS: [(&[&str], u32); 13] = [
    (&["a", "new"], 5),
    (&["-p", "a", "new"], 5),
    (&["a", "old"], 5),
    (&["--remove-destination", "-p", "a", "old"], 5),
    (&["a", "there/"], 6),
    (&["-p", "a", "there"], 6),
    (&["tree/file", "there/new"], 6),
    (&["-r", "tree", "new"], 6),
    (&["-a", "tree", "new"], 6),
    (&["-a", "tree/file", "tree/sub", "there"], 6),
    (&["-a", "tree", "shared"], 6),
    (&["-a", "linked", "new"], 7),
    (&["-ab", "linked/.", "linked-copy"], 8),
];

fn build_for_few_descriptors(folder: &Path) {
    for name in ["tree/sub/below", "there", "shared", "linked/sub", "linked-copy/sub"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for name in
        ["a", "old", "tree/file", "tree/sub/file", "tree/sub/below/file", "linked/file", "linked-copy/file"]
    {
        fs::write(folder.join(name), format!("content of {name}")).unwrap();
    }
    fs::hard_link(folder.join("linked/file"), folder.join("linked/sub/other")).unwrap();
    symlink("file", folder.join("linked/symlink")).unwrap();
    fs::set_permissions(folder.join("shared"), Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn with_few_descriptors_a_copy_is_right_or_says_what_is_missing() {
    let ours = program!();
    require!(ours.needs_haul(), CopyProgram::needs_gnu());
    let gnu = CopyProgram::gnu().unwrap();
    for (line, least) in FEW_DESCRIPTORS {
        let copy = |program: &CopyProgram, descriptors| {
            let sandbox = Sandbox::in_memory().unwrap();
            build_for_few_descriptors(sandbox.path());
            // Close inherited descriptors: a fork races with other tests' threads.
            let shell =
                format!("exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n {descriptors}; exec \"$@\"");
            let run = program.run().args(line).in_folder(sandbox.path());
            let words = ["-c", &shell, "sh"].map(OsString::from).into();
            (run.behind(Path::new("/bin/sh"), words).finish().unwrap(), sandbox)
        };
        let (outcome, expected) = copy(&gnu, 64);
        assert!(outcome.succeeded(), "GNU cp {line:?}: {}", outcome.errors());
        for descriptors in 4..=10 {
            let what = format!("cp {line:?} with ulimit -n {descriptors}");
            let (outcome, sandbox) = copy(&ours, descriptors);
            if descriptors >= least || outcome.succeeded() {
                assert_eq!(
                    (outcome.ending, outcome.errors()),
                    (RunEnding::Exited(0), String::new()),
                    "{what}"
                );
                let differences = compare_paths(expected.path(), sandbox.path(), Facts::CONTENT).unwrap();
                assert!(differences.is_empty(), "{what}: {differences}");
            } else {
                let errors = outcome.errors();
                assert_eq!(outcome.ending, RunEnding::Exited(1), "{what}: {errors}");
                let is_clear = |line: &str| line.contains('\'') && line.ends_with("Too many open files");
                assert!(errors.lines().count() > 0 && errors.lines().all(is_clear), "{what}: {errors}");
            }
        }
    }
}

/// The usual option sets, and each engine.
fn all_ways() -> Vec<Vec<&'static str>> {
    WAYS.iter().map(|way| way.to_vec()).chain(each_engine()).collect()
}

/// A FIFO as the source holds the copy midway for as long as the test wants.
#[test]
fn an_interrupt_ends_a_copy_that_waits_for_data() {
    for way in all_ways() {
        let sandbox = Sandbox::in_memory().unwrap();
        let (source, target) = (sandbox.join("fifo"), sandbox.join("target"));
        Spec { nodes: vec![EntrySpec::new(0, "fifo", SpecKind::Fifo)] }.build(sandbox.path()).unwrap();
        let running = program!().run_with(&way).args([&source, &target]).start().unwrap();
        // Once written bytes reach the target, they have been read. O_NONBLOCK lets the FIFO open
        // for writing only once there is a reader.
        let mut writer = None;
        let has_reader = wait::until(Duration::from_secs(20), || {
            let options = fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&source);
            writer = options.ok();
            writer.is_some()
        });
        assert!(has_reader, "{way:?}: the FIFO was not opened");
        let mut writer = writer.unwrap();
        writer.write_all(b"first bytes").unwrap();
        let copied = || fs::read(&target).is_ok_and(|bytes| bytes == b"first bytes");
        assert!(wait::until(Duration::from_secs(20), copied), "{way:?}: the bytes did not arrive");
        assert!(ends_at_once(running, &format!("{way:?}")), "{way:?}: ended by itself");
    }
}

#[test]
fn an_interrupt_ends_a_copy_of_many_files() {
    const FILES: usize = 40_000;
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    fs::create_dir(&source).unwrap();
    for index in 0..FILES {
        fs::write(source.join(format!("file-{index}")), "small").unwrap();
    }
    for way in all_ways() {
        let in_time = (0..10).any(|_| {
            remove_tree(&target);
            let running =
                program!().run_with(&way).args(["-r", "-T"]).args([&source, &target]).start().unwrap();
            assert!(
                wait::until(Duration::from_secs(20), || has_entries(&target)),
                "{way:?}: nothing was copied"
            );
            ends_at_once(running, &format!("{way:?}"))
        });
        assert!(in_time, "{way:?}: the copy was over each time before the signal came");
        let copied = fs::read_dir(&target).unwrap().count();
        assert!(copied < FILES, "{way:?}: interrupted, but all is there");
        note!("^C {way:?}: after {copied} of {FILES} files");
    }
}

/// One large file, with several blocks in flight when the signal arrives.
#[test]
fn an_interrupt_ends_a_copy_of_one_large_file() {
    const BYTES: u64 = 384 << 20;
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    Spec { nodes: vec![EntrySpec::file(0, "source", 1, BYTES)] }.build(sandbox.path()).unwrap();
    for engine in ENGINES {
        for ops in OPS {
            let what = format!("{engine} {ops}");
            let in_time = (0..10).any(|_| {
                remove_tree(&target);
                // Tiny blocks leave time for the signal; `--reflink=never` makes the engine do
                // the copying.
                let run = program!().run_with(&[engine, ops, "--block-size=4K", "--queue-depth=16", "-j1"]);
                let running = run.arg("--reflink=never").args([&source, &target]).start().unwrap();
                let length = || fs::metadata(&target).map_or(0, |metadata| metadata.len());
                assert!(wait::until(Duration::from_secs(20), || length() > 0), "{what}: nothing was copied");
                ends_at_once(running, &what)
            });
            assert!(in_time, "{what}: the copy was over each time before the signal came");
            let blocks = fs::metadata(&target).map(|metadata| metadata.blocks()).unwrap();
            assert!(blocks * 512 < BYTES, "{what}: interrupted, but all is there");
        }
    }
}

fn has_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Sends ^C and asserts that the program ends at once, by the signal or with the status that a
/// shell reports for it. Returns false if the copy finished before the signal arrived, as may
/// happen on a busy machine.
fn ends_at_once(running: haul_testkit::run::Running, what: &str) -> bool {
    let sent = Instant::now();
    running.signal(libc::SIGINT).unwrap();
    let outcome = running.finish().unwrap();
    let took = sent.elapsed();
    if matches!(outcome.ending, RunEnding::Exited(0)) {
        return false;
    }
    let ended = matches!(outcome.ending, RunEnding::Exited(130) | RunEnding::Signalled(libc::SIGINT));
    assert!(ended, "{what}: {:?} {}", outcome.ending, outcome.errors());
    // It takes milliseconds; the margin is for busy machines.
    assert!(took < Duration::from_secs(5), "{what}: ended {took:?} after the signal");
    true
}

/// Copies two files with `-v` while `condition` restricts standard output, and asserts that the
/// files are right.
fn verbose(condition: &dyn Fn(TestRun) -> TestRun, way: &[&str]) -> RunOutcome {
    let sandbox = Sandbox::in_memory().unwrap();
    fs::create_dir(sandbox.join("target")).unwrap();
    fs::write(sandbox.join("a"), "content of a").unwrap();
    fs::write(sandbox.join("b"), "content of b").unwrap();
    let run = program!().run_with(way).args(["-v", "a", "b", "target"]).in_folder(sandbox.path());
    let outcome = condition(run).finish().unwrap();
    for name in ["a", "b"] {
        let copied = fs::read_to_string(sandbox.join("target").join(name)).unwrap_or_default();
        assert_eq!(copied, format!("content of {name}"), "{way:?}: {name}");
    }
    outcome
}

#[test]
fn nowhere_to_print_harms_no_file_and_is_reported() {
    for way in WAYS {
        // With standard output closed, messages may get lost, but must never end up in a
        // copied file.
        let closed = verbose(&|run| run.without_stdout(), &way);
        assert!(
            matches!(closed.ending, RunEnding::Exited(0 | 1)),
            "{way:?}: {:?} {}",
            closed.ending,
            closed.errors()
        );
        assert!(closed.succeeded() || !closed.stderr.is_empty(), "{way:?}: status 1 without a message");
        let full = verbose(&|run| run.stdout_to(Path::new("/dev/full")), &way);
        assert_eq!(full.ending, RunEnding::Exited(1), "{way:?}: {}", full.errors());
        assert!(full.errors().contains("No space left on device"), "{way:?}: {}", full.errors());
        // Killed by SIGPIPE in silence, like GNU cp, but not before the copy is done.
        let broken = verbose(&|run| run.stdout_to_broken_pipe(), &way);
        let ended = (broken.ending, broken.errors());
        assert_eq!(ended, (RunEnding::Signalled(libc::SIGPIPE), String::new()), "{way:?}");
    }
}

/// Rust's own streams take `EBADF` for success and for EOF.
#[test]
fn a_stream_opened_for_the_other_direction_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("echo x >a; echo y >other; echo z >r; mkdir s t; echo kept >t/kept").unwrap();
    for (line, says) in [
        ("cp -v a new 1<r", "write error: Bad file descriptor"),
        ("cp --help 1<r", "write error: Bad file descriptor"),
        ("sum a 1<r", "write error: Bad file descriptor"),
        ("grep x a 1<r", "write error: Bad file descriptor"),
        ("cmp a other 1<r", "write error: Bad file descriptor"),
        ("cp missing new 2<r", ""),
        ("grep -f - a 0>out", "Bad file descriptor"),
        ("sync --exclude-from=- --delete --really s t 0>out", "Bad file descriptor"),
        ("cp -r --files-from=- s t 0>out", "Bad file descriptor"),
    ] {
        let script = format!("exec \"$HAUL\" {line}");
        let run = TestRun::new(Path::new("/bin/sh")).args(["-c", &script]).env("HAUL", ours.path());
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        assert!(matches!(outcome.status(), Some(1 | 2)), "{line}: {:?}", outcome.ending);
        assert!(outcome.errors().contains(says), "{line}: {}", outcome.errors());
    }
    assert!(sandbox.join("t/kept").exists());
}

#[test]
fn what_nobody_reads_ends_as_with_gnu_cp() {
    require!(CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("a"), vec![b'a'; 300_000]).unwrap();
    for line in ["-v a b", "a /dev/stdout", "--help", "--version"] {
        for ignored in ["", "trap '' PIPE; "] {
            let run = |program: &CopyProgram| {
                let run = program.run().args(line.split(' ')).in_folder(sandbox.path());
                let script = format!("{ignored}exec \"$@\"");
                let shell = ["-c", &script, "bash"].map(OsString::from).to_vec();
                let run = run.stdout_to_broken_pipe().behind(Path::new("/bin/bash"), shell);
                let outcome = run.finish().unwrap();
                (outcome.ending, normalise(&outcome.stderr))
            };
            let (ours, theirs) = (run(&program!()), run(&CopyProgram::gnu().unwrap()));
            assert_eq!(ours, theirs, "{ignored}{line}");
            assert_eq!(ours.0 == RunEnding::Signalled(libc::SIGPIPE), ignored.is_empty(), "{ours:?}");
        }
    }
}

#[test]
fn a_million_files_in_one_directory_fit_in_100_mb() {
    const FILES: usize = 1_000_000;
    require!(needs::full_run());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    fs::create_dir(&source).unwrap();
    for index in 0..FILES {
        fs::File::create(source.join(format!("file-{index:07}"))).unwrap();
    }
    let ways: [&[&str]; 3] = [&["--engine=sync", "-j8"], &["--engine=io-uring", "-j8"], &[]];
    for way in ways {
        remove_tree(&target);
        let run = program!().run_with(way).args(["-r", "-T"]).args([&source, &target]);
        let outcome = run.within(Duration::from_secs(900)).finish().unwrap();
        assert!(outcome.succeeded(), "{way:?}: {:?} {}", outcome.ending, outcome.errors());
        assert_eq!(fs::read_dir(&target).unwrap().count(), FILES);
        let mebibytes = outcome.peak_bytes >> 20;
        note!("a million files {way:?}: {:.1} s, peak {mebibytes} MiB", outcome.took.as_secs_f64());
        assert!(outcome.peak_bytes > 0, "the peak was not seen");
        assert!(outcome.peak_bytes <= 100_000_000, "{way:?}: peak of {mebibytes} MiB");
    }
}

#[test]
fn an_inherited_closed_descriptor_is_not_taken_for_a_file() {
    // With descriptors 0 to 2 closed, the first files opened would get these numbers.
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("a"), "content").unwrap();
    let ours = program!();
    for way in WAYS {
        let mut words: Vec<OsString> =
            vec!["-c".into(), "exec <&- >&- 2>&- && exec \"$@\"".into(), "sh".into()];
        words.push(ours.path().into());
        let options: &[&str] = if ours.is_haul() { &way } else { &[] };
        words.extend(if ours.is_haul() { vec![OsString::from("cp")] } else { Vec::new() });
        words.extend(options.iter().map(OsString::from));
        words.extend(["-v", "a", "missing", "target"].map(OsString::from));
        let target = sandbox.join("target");
        remove_tree(&target);
        fs::create_dir(&target).unwrap();
        let outcome =
            TestRun::new(Path::new("/bin/sh")).args(words).in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Exited(1), "{way:?}");
        assert_eq!(fs::read_to_string(target.join("a")).unwrap(), "content", "{way:?}");
    }
}

#[test]
fn help_and_version_are_given() {
    let ours = program!();
    for option in ["--help", "--version"] {
        let outcome = ours.run().arg(option).finish().unwrap();
        assert!(
            outcome.succeeded() && outcome.stdout.len() > 5,
            "{option}: {:?} {}",
            outcome.ending,
            outcome.errors()
        );
        assert_eq!(outcome.errors(), "");
    }
    require!(CopyProgram::needs_gnu());
    let help = ours.run().arg("--help").finish().unwrap().printed();
    let options = [
        "--archive",
        "--force",
        "--no-clobber",
        "--preserve",
        "--recursive",
        "--reflink",
        "--sparse",
        "--verbose",
    ];
    for option in options {
        assert!(help.contains(option), "--help does not name {option}");
    }
}
