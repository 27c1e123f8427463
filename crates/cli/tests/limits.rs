//! What goes wrong around the copy: few descriptors, no ring, refused calls, a signal, nowhere to print, and sheer size.
//!
//! Promised: the same result with less, or a message and status 1; an end within a second after ^C; bounded memory.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use haul_testkit::compare::compare_paths;
use haul_testkit::program::WAYS;
use haul_testkit::run::Ending;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{Kind, Node, Spec};
use haul_testkit::{
    Facts, Outcome, Program, Run, Sandbox, deep, everything, libc, needs, note, program, random, require,
    wait,
};

/// Copies the tree of everything under some condition and demands silence and the same tree as without it.
///
/// That the tree without the condition is right is what `trees.rs` is about.
fn copies_everything(condition: &dyn Fn(Run) -> Run, ways: &[&[&str]], what: &str) {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let [source, expected, target] = ["source", "expected", "target"].map(|name| sandbox.join(name));
    everything::spec().build(&source).unwrap();
    let shape = random::Shape { entries: 300, ..random::Shape::default() };
    random::tree(11, shape).build(&source.join("random")).unwrap();
    let copied = program!().run().args(["-a", "-T"]).args([&source, &expected]).finish().unwrap();
    assert!(copied.succeeded(), "{}", copied.errors());
    for way in ways {
        remove_tree(&target);
        let run = program!().run_with(way).args(["-a", "-T"]).args([&source, &target]);
        let outcome = condition(run).finish().unwrap();
        assert!(outcome.succeeded(), "{what} {way:?}: {:?} {:.500}", outcome.ending, outcome.errors());
        assert_eq!(outcome.errors(), "", "{what} {way:?}");
        let differences = compare_paths(&expected, &target, Facts::PRESERVED).unwrap();
        assert!(differences.is_empty(), "{what} {way:?}: {differences}");
    }
}

fn all_ways() -> Vec<&'static [&'static str]> {
    WAYS.iter().map(|way| &way[..]).chain([&[][..]]).collect()
}

#[test]
fn few_descriptors_are_enough() {
    for count in [64, 20, 12] {
        copies_everything(&|run| run.open_files(count), &all_ways(), &format!("ulimit -n {count}"));
    }
}

#[test]
fn io_uring_refused_changes_nothing() {
    for error in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
        copies_everything(
            &|run| run.without_io_uring(error),
            &all_ways(),
            &format!("io_uring refused with {error}"),
        );
    }
}

#[test]
fn optional_calls_refused_change_nothing() {
    // By number where the library has no name yet: openat2, fchmodat2, setxattrat to removexattrat.
    let newer: [i64; 6] = [437, 452, 463, 464, 465, 466];
    for error in [libc::EPERM, libc::ENOSYS] {
        let refuse = |run: Run| run.refusing(&newer, error);
        copies_everything(&refuse, &all_ways(), &format!("newer calls refused with {error}"));
        let refuse = |run: Run| run.refusing(&[libc::SYS_copy_file_range, libc::SYS_close_range], error);
        copies_everything(&refuse, &all_ways(), &format!("copy_file_range refused with {error}"));
    }
    let advice = [libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_ioctl];
    copies_everything(&|run| run.refusing(&advice, libc::EOPNOTSUPP), &all_ways(), "advice refused");
}

/// The user nobody may lock no memory, which is what a ring is made of: the copy falls back, and `--debug` says so.
#[test]
fn a_ring_without_memory_falls_back_and_says_so() {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = program!().publish(sandbox.path()).unwrap();
    require!(ours.needs_haul());
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    let nodes = (0..200).map(|index| Node::file(0, format!("file-{index}"), index, 100 * index)).collect();
    Spec { nodes }.build(&source).unwrap();
    let conditions: [(&str, &dyn Fn(Run) -> Run); 4] = [
        ("memlock 0", &|run| run.locked_memory(0).as_nobody()),
        ("EPERM", &|run| run.without_io_uring(libc::EPERM).as_nobody()),
        ("ENOSYS", &|run| run.without_io_uring(libc::ENOSYS).as_nobody()),
        ("allowed", &|run| run.as_nobody()),
    ];
    for (condition, apply) in conditions {
        for engine in ["--engine=io-uring", "--engine=auto"] {
            remove_tree(&target);
            fs::create_dir(&target).unwrap();
            fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
            let run = ours.run_with(&[engine, "--debug"]).args(["-r", "-T"]).args([&source, &target]);
            let outcome = apply(run).finish().unwrap();
            assert!(outcome.succeeded(), "{condition} {engine}: {:?} {}", outcome.ending, outcome.errors());
            let facts = Facts::CONTENT;
            assert!(compare_paths(&source, &target, facts).unwrap().is_empty(), "{condition} {engine}");
            let said = format!("{}{}", outcome.printed(), outcome.errors());
            let refused = matches!(condition, "EPERM" | "ENOSYS");
            if refused && engine == "--engine=io-uring" {
                let line = said.lines().find(|line| line.contains("io-uring") || line.contains("io_uring"));
                assert!(
                    line.is_some_and(|line| line.contains("sync")),
                    "no line about the fall-back:\n{said}"
                );
            }
        }
    }
}

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

/// A FIFO as the source keeps the copy in the middle of its work for as long as the test wants.
#[test]
fn an_interrupt_ends_a_copy_that_waits_for_data() {
    for way in WAYS {
        let sandbox = Sandbox::in_memory().unwrap();
        let (source, target) = (sandbox.join("fifo"), sandbox.join("target"));
        Spec { nodes: vec![Node::new(0, "fifo", Kind::Fifo)] }.build(sandbox.path()).unwrap();
        let running = program!().run_with(&way).args([&source, &target]).start().unwrap();
        // What is written has been read when it has gone on to the target. Without waiting a FIFO opens for writing once there is a reader.
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
        ends_at_once(running, &format!("{way:?}"));
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
    for way in WAYS {
        remove_tree(&target);
        let running = program!().run_with(&way).args(["-r", "-T"]).args([&source, &target]).start().unwrap();
        assert!(
            wait::until(Duration::from_secs(20), || target.join("file-0").exists() || has_entries(&target))
        );
        ends_at_once(running, &format!("{way:?}"));
        let copied = fs::read_dir(&target).unwrap().count();
        assert!(copied < FILES, "{way:?}: the copy was over before the signal came");
        note!("^C {way:?}: after {copied} of {FILES} files");
    }
}

fn has_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Sends ^C and demands an end within a second, by the signal or with the status a shell gives it.
fn ends_at_once(running: haul_testkit::run::Running, what: &str) {
    let sent = Instant::now();
    running.signal(libc::SIGINT).unwrap();
    let outcome = running.finish().unwrap();
    let took = sent.elapsed();
    let ended = matches!(outcome.ending, Ending::Exited(130) | Ending::Signalled(libc::SIGINT));
    assert!(ended, "{what}: {:?} {}", outcome.ending, outcome.errors());
    assert!(took < Duration::from_secs(1), "{what}: ended {took:?} after the signal");
}

/// Copies two files with `-v` under a condition for standard output, and gives the outcome. The files are always right.
fn verbose(condition: &dyn Fn(Run) -> Run, way: &[&str]) -> Outcome {
    let sandbox = Sandbox::in_memory().unwrap();
    fs::create_dir(sandbox.join("target")).unwrap();
    fs::write(sandbox.join("a"), "content of a").unwrap();
    fs::write(sandbox.join("b"), "content of b").unwrap();
    let run = program!().run_with(way).args(["-v", "a", "b", "target"]).in_folder(sandbox.path());
    let outcome = condition(run).finish().unwrap();
    for name in ["a", "b"] {
        let copied = fs::read_to_string(sandbox.join("target").join(name)).unwrap_or_default();
        // A program that is killed by SIGPIPE has not always come to the second file.
        let unfinished = outcome.ending == Ending::Signalled(libc::SIGPIPE) && copied.is_empty();
        assert!(copied == format!("content of {name}") || unfinished, "{way:?}: {name} holds {copied:?}");
    }
    outcome
}

#[test]
fn nowhere_to_print_harms_no_file_and_is_reported() {
    for way in WAYS {
        // What is printed may go nowhere when the caller closed standard output, but never into a file of the copy.
        let closed = verbose(&|run| run.without_stdout(), &way);
        assert!(
            matches!(closed.ending, Ending::Exited(0 | 1)),
            "{way:?}: {:?} {}",
            closed.ending,
            closed.errors()
        );
        assert!(closed.succeeded() || !closed.stderr.is_empty(), "{way:?}: status 1 without a message");
        let full = verbose(&|run| run.stdout_to(Path::new("/dev/full")), &way);
        assert_eq!(full.ending, Ending::Exited(1), "{way:?}: {}", full.errors());
        assert!(full.errors().contains("No space left on device"), "{way:?}: {}", full.errors());
        let broken = verbose(&|run| run.stdout_to_broken_pipe(), &way);
        let ended = match broken.ending {
            Ending::Signalled(signal) => signal == libc::SIGPIPE,
            Ending::Exited(status) => status == 1 && broken.errors().contains("Broken pipe"),
            Ending::Hung => false,
        };
        assert!(ended, "{way:?}: {:?} {}", broken.ending, broken.errors());
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
    // With standard input, output and error closed the first file opened would get number 0, 1 or 2.
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
        let outcome = Run::new(Path::new("/bin/sh")).args(words).in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(outcome.ending, Ending::Exited(1), "{way:?}");
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
    require!(Program::needs_gnu());
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
