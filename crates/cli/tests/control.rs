//! `--control` and `haul ctl`: a running command is looked at, paused, limited and stopped.
//!
//! The runs begin with a limit of 1 KiB per second, at which they would take a quarter of an hour,
//! so that a test has all the time it needs before it lifts the limit.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_testkit::compare::compare_paths;
use haul_testkit::run::{RunEnding, Running, TestRun};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::{CopyProgram, Facts, RunOutcome, Sandbox, libc, needs, program, require, wait};
use serde_json::Value;

/// Time for what takes milliseconds.
const SOON: Duration = Duration::from_secs(60);

/// Time for which a paused run is watched.
const WATCHED: Duration = Duration::from_millis(300);

const BYTES: u64 = 1_500_000 + 100 * 10_000;

/// A tree to copy, of 2.5 MB in 101 files.
struct Scene {
    ours: CopyProgram,
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox
            .script(
                "mkdir s; head -c 1500000 /dev/urandom >s/f; for n in $(seq 100); do head -c 10000 s/f >s/$n; done",
            )
            .unwrap();
        Self { ours: program!(), sandbox }
    }

    fn socket(&self) -> PathBuf {
        self.sandbox.join("socket")
    }

    fn run(&self, words: &str) -> TestRun {
        self.ours.run().in_folder(self.sandbox.path()).args(words.split(' '))
    }

    /// Starts a command that is limited and controlled, and waits until its socket is there.
    fn start(&self, words: &str) -> Running {
        let running = self.run(words).arg("--control=socket").start().unwrap();
        assert!(wait::until(SOON, || UnixStream::connect(self.socket()).is_ok()), "no socket: {words}");
        running
    }

    fn start_copy(&self, own: &str) -> Running {
        self.start(&format!("{own} --bwlimit=1 -r s t"))
    }

    fn ctl(&self, words: &str) -> RunOutcome {
        let haul = TestRun::new(&fs::canonicalize(self.ours.path()).unwrap()).in_folder(self.sandbox.path());
        haul.args(["ctl", "socket"]).args(words.split(' ')).finish().unwrap()
    }

    fn order(&self, words: &str) {
        let outcome = self.ctl(words);
        let silent = outcome.stdout.is_empty() && outcome.stderr.is_empty();
        assert!(outcome.succeeded() && silent, "{words}: {}", outcome.errors());
    }

    fn status(&self) -> Value {
        let outcome = self.ctl("status --json");
        assert!(outcome.succeeded(), "{}", outcome.errors());
        serde_json::from_slice(&outcome.stdout).unwrap()
    }

    /// Sends bytes to the socket, and returns what is answered.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn assert_copied(&self, outcome: &RunOutcome) {
        assert!(outcome.succeeded(), "{:?}: {}", outcome.ending, outcome.errors());
        let [source, target] = ["s", "t"].map(|name| self.sandbox.join(name));
        let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
        assert!(differences.is_empty(), "{differences}");
        assert!(!self.socket().exists());
    }

    /// Returns the number of files in the target, each of which is whole.
    fn whole_files(&self) -> usize {
        let copied = fs::read_dir(self.sandbox.join("t")).unwrap().map(|entry| entry.unwrap().file_name());
        let copied: Vec<_> = copied.collect();
        for name in &copied {
            let [source, target] = ["s", "t"].map(|tree| self.sandbox.join(tree).join(name));
            assert_eq!(fs::read(source).unwrap(), fs::read(target).unwrap(), "{}", name.display());
        }
        copied.len()
    }
}

/// Returns true if a process has a file open below a directory, which may have no name yet.
fn has_open_below(process: u32, directory: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let is_below = |path: PathBuf| path != directory && path.starts_with(directory);
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(is_below))
}

/// Runs `test` if the program is haul and not GNU's.
macro_rules! scene {
    () => {{
        let scene = Scene::new();
        require!(scene.ours.needs_haul());
        scene
    }};
}

#[test]
fn the_socket_is_for_this_user_and_goes_with_the_run() {
    let scene = scene!();
    for umask in [0, 0o022, 0o077] {
        let run = scene.run("--bwlimit=1 -r s t --control=socket").umask(umask);
        let running = run.start().unwrap();
        assert!(wait::until(SOON, || UnixStream::connect(scene.socket()).is_ok()));
        let there = fs::symlink_metadata(scene.socket()).unwrap();
        assert!(there.file_type().is_socket());
        assert_eq!(there.permissions().mode() & 0o777, 0o600, "umask {umask:o}");
        assert_eq!(there.uid(), fs::metadata(scene.sandbox.path()).unwrap().uid());
        scene.order("bwlimit none");
        scene.assert_copied(&running.finish().unwrap());
        remove_tree(&scene.sandbox.join("t"));
    }
}

#[test]
fn a_pause_stops_all_workers_and_the_copy_goes_on_after_it() {
    let scene = scene!();
    let ways =
        ["--engine=sync -j1", "--engine=sync -j4 --sparse=never", "--engine=posix-aio --ops=multi -j2"];
    let ways = ways.into_iter().chain(needs::io_uring().is_none().then_some("--engine=io-uring -j4"));
    for way in ways {
        let running = scene.start_copy(&format!("{way} --block-size=64K --reflink=never"));
        scene.order("pause");
        scene.order("bwlimit none");
        // Blocks that were being moved are counted late.
        let mut before = scene.status();
        let stands_still = wait::until(SOON, || {
            std::thread::sleep(WATCHED);
            let last = std::mem::replace(&mut before, scene.status());
            last["bytes"] == before["bytes"] && last["entries"] == before["entries"]
        });
        assert!(stands_still, "{way}: {before}");
        assert_eq!((before["state"].as_str(), &before["bwlimit"]), (Some("paused"), &Value::Null), "{way}");
        assert!(before["bytes"].as_u64().unwrap() < BYTES, "{way}: {before}");
        scene.order("resume");
        scene.assert_copied(&running.finish().unwrap());
        remove_tree(&scene.sandbox.join("t"));
    }
}

#[test]
fn a_limit_is_changed_while_a_copy_waits() {
    let scene = scene!();
    let running = scene.start_copy("-j2");
    let (before, began) = (scene.status(), Instant::now());
    assert_eq!(before["bwlimit"], 1024);
    scene.order("bwlimit 2MB");
    assert_eq!(scene.status()["bwlimit"], 2_000_000);
    let outcome = running.finish().unwrap();
    // But for what is made up for, and one block of each worker, which is waited for afterwards.
    let left = BYTES - before["bytes"].as_u64().unwrap();
    let least = (left as f64 - 2.0 * 262_144.0) / 2e6 - 0.1;
    assert!(began.elapsed().as_secs_f64() > least, "{:?} for {left} bytes", began.elapsed());
    scene.assert_copied(&outcome);
}

#[test]
fn a_limit_can_be_set_where_there_was_none() {
    let scene = scene!();
    let running = scene.start("--iops-limit=1 -j2 -r s t");
    let before = scene.status();
    assert_eq!((&before["bwlimit"], &before["iops_limit"]), (&Value::Null, &Value::from(1)));
    scene.order("bwlimit 1");
    scene.order("iops-limit none");
    scene.order("max-latency 50");
    assert_eq!(scene.status()["max_latency"], 50);
    scene.order("max-latency none");
    let after = scene.status();
    assert_eq!((&after["bwlimit"], &after["iops_limit"]), (&Value::from(1024), &Value::Null));
    assert_eq!(after["max_latency"], Value::Null);
    scene.order("bwlimit 0");
    scene.assert_copied(&running.finish().unwrap());
}

#[test]
fn a_status_is_a_line_for_people() {
    let scene = scene!();
    let running = scene.start_copy("-j3");
    let line = scene.ctl("status").printed();
    let is_right = line.starts_with("running for 0:") && line.ends_with(" workers, limit 1.02 kB/s\n");
    assert!(is_right && line.lines().count() == 1, "{line}");
    assert_eq!(scene.status()["process"].as_u64(), Some(u64::from(running.process())));
    scene.order("bwlimit none");
    scene.assert_copied(&running.finish().unwrap());
}

#[test]
fn a_stopped_copy_leaves_whole_files_and_ends_as_by_a_signal() {
    let scene = scene!();
    for (way, is_paused) in [("-j1", false), ("-j4", true), ("-j2 --atomic", false), ("-j2 --fsync", true)] {
        let running = scene.start_copy(way);
        // The first file that begins is finished, which takes a while at this rate.
        assert!(wait::until(SOON, || scene.status()["bytes"].as_u64() > Some(0)));
        if is_paused {
            scene.order("pause");
        }
        scene.order("stop");
        let outcome = running.finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Signalled(libc::SIGINT), "{way}: {}", outcome.errors());
        assert_eq!(
            outcome.errors(),
            "haul cp: stopped as requested: entries not yet begun were not processed\n"
                .replace("haul cp", if scene.ours.path().ends_with("cp") { "cp" } else { "haul cp" })
        );
        let files = scene.whole_files();
        assert!((1..101).contains(&files), "{way}: {files} files");
        assert!(!scene.socket().exists());
        remove_tree(&scene.sandbox.join("t"));
    }
}

#[test]
fn a_stopped_sync_deletes_nothing() {
    let scene = scene!();
    scene.sandbox.script("mkdir t; touch t/old").unwrap();
    let haul = TestRun::new(&fs::canonicalize(scene.ours.path()).unwrap()).in_folder(scene.sandbox.path());
    let run = haul.args(["sync", "--delete", "--iops-limit=1", "-j1", "--control=socket", "s", "t"]);
    let running = run.start().unwrap();
    assert!(wait::until(SOON, || UnixStream::connect(scene.socket()).is_ok()));
    scene.order("stop");
    assert_eq!(running.finish().unwrap().ending, RunEnding::Signalled(libc::SIGINT));
    assert!(scene.sandbox.join("t/old").exists());
}

#[test]
fn a_command_that_cannot_finish_early_ends_at_once() {
    let scene = scene!();
    let haul = |words: &str| {
        let haul =
            TestRun::new(&fs::canonicalize(scene.ours.path()).unwrap()).in_folder(scene.sandbox.path());
        haul.args(words.split(' ')).start().unwrap()
    };
    for words in ["sum --iops-limit=1 --control=socket s", "each --control=socket s -- sleep 1000"] {
        let running = haul(words);
        assert!(wait::until(SOON, || UnixStream::connect(scene.socket()).is_ok()), "{words}");
        scene.order("stop");
        let outcome = running.finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Signalled(libc::SIGINT), "{words}: {}", outcome.errors());
        assert!(!scene.socket().exists(), "{words}");
    }
}

#[test]
fn a_dead_socket_is_replaced_and_nothing_else_is() {
    let scene = scene!();
    drop(UnixListener::bind(scene.socket()).unwrap());
    let running = scene.start_copy("-j1");
    assert!(wait::until(SOON, || scene.ctl("bwlimit none").succeeded()));
    scene.assert_copied(&running.finish().unwrap());
    remove_tree(&scene.sandbox.join("t"));
    let long = "x".repeat(200);
    scene.sandbox.script("echo file >file; mkdir directory; ln -s socket link").unwrap();
    let live = UnixListener::bind(scene.socket()).unwrap();
    for (path, why) in [
        ("socket", "another command is listening on it"),
        ("file", "the file exists and is not a socket"),
        ("directory", "the file exists and is not a socket"),
        ("link", "the file exists and is not a socket"),
        ("missing/socket", "No such file or directory"),
        (long.as_str(), "File name too long"),
    ] {
        let outcome = scene.run("-r s t").arg(format!("--control={path}")).finish().unwrap();
        let wanted = format!("cannot create the control socket '{path}': {why}\n");
        assert_eq!(outcome.ending, RunEnding::Exited(1));
        assert!(outcome.errors().ends_with(&wanted), "{}", outcome.errors());
        assert!(!scene.sandbox.join("t").exists());
    }
    drop(live);
    assert!(scene.socket().exists() && scene.sandbox.join("directory").is_dir());
    assert_eq!(fs::read(scene.sandbox.join("file")).unwrap(), b"file\n");
}

#[test]
fn the_socket_goes_after_errors_and_signals() {
    let scene = scene!();
    let outcome = scene.run("-r missing t --control=socket").finish().unwrap();
    assert_eq!((outcome.ending, scene.socket().exists()), (RunEnding::Exited(1), false));
    // With another thing to be removed before a signal ends the program.
    let manifest = "--manifest=list";
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        for own in ["-j2", manifest] {
            let running = scene.start_copy(own);
            scene.status();
            running.signal(signal).unwrap();
            assert_eq!(running.finish().unwrap().ending, RunEnding::Signalled(signal));
            let left = fs::read_dir(scene.sandbox.path()).unwrap();
            let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.iter().all(|name| name == "s" || name == "t"), "{own} {signal}: {left:?}");
            remove_tree(&scene.sandbox.join("t"));
        }
    }
}

#[test]
fn a_socket_that_somebody_else_has_put_there_stays() {
    let scene = scene!();
    let running = scene.start_copy("-j1");
    scene.order("bwlimit 1M");
    fs::remove_file(scene.socket()).unwrap();
    let other = UnixListener::bind(scene.socket()).unwrap();
    assert!(running.finish().unwrap().succeeded());
    drop(other);
    assert!(scene.socket().exists());
}

#[test]
fn bad_requests_get_an_error_and_change_nothing() {
    let scene = scene!();
    let running = scene.start_copy("-j1");
    for (request, answer) in [
        (&b"nope\n"[..], "error unknown command 'nope'\n"),
        (b"\n", "error missing command\n"),
        (b"bwlimit\n", "error 'bwlimit' requires a value\n"),
        (b"bwlimit fast\n", "error invalid rate 'fast': use one like 500K or 10M, or none\n"),
        (b"iops-limit -1\n", "error invalid number '-1': use a whole number, or none\n"),
        (b"pause now\n", "error extra word 'now'\n"),
        (b"\xff\0\x1b[2J\n", "error unknown command '\u{fffd}\\0\\u{1b}[2J'\n"),
        (&[b'x'; 1024], "error the request is too long\n"),
    ] {
        assert_eq!(scene.send(request), answer, "{request:?}");
    }
    // Spaces, a carriage return, and whatever follows the line.
    assert!(scene.send(b"  status \r\nstop\n").starts_with("ok {"));
    for (words, why) in [
        ("nope", "unknown command 'nope'"),
        ("bwlimit fast", "invalid rate 'fast': use one like 500K or 10M, or none"),
        ("pause --json", "option '--json' is for the command 'status'"),
    ] {
        let outcome = scene.ctl(words);
        assert_eq!((outcome.ending, outcome.errors()), (RunEnding::Exited(1), format!("haul ctl: {why}\n")));
    }
    assert_eq!(
        (scene.status()["state"].as_str(), &scene.status()["bwlimit"]),
        (Some("running"), &1024.into())
    );
    scene.order("bwlimit none");
    scene.assert_copied(&running.finish().unwrap());
    let outcome = scene.ctl("status");
    let wanted = "haul ctl: 'socket': cannot connect: No such file or directory\n";
    assert_eq!((outcome.ending, outcome.errors().as_str()), (RunEnding::Exited(1), wanted));
    let ours = TestRun::new(&fs::canonicalize(scene.ours.path()).unwrap());
    let outcome = ours.args(["ctl", &"x".repeat(200), "status"]).finish().unwrap();
    assert!(outcome.errors().ends_with("x': cannot connect: File name too long\n"), "{}", outcome.errors());
    // A server that isn't haul.
    let other = UnixListener::bind(scene.socket()).unwrap();
    let answering = std::thread::spawn(move || {
        for answer in [&b"220 welcome\n"[..], b""] {
            let (mut stream, _) = other.accept().unwrap();
            stream.read_exact(&mut [0; 6]).unwrap();
            stream.write_all(answer).unwrap();
        }
    });
    assert!(scene.ctl("pause").errors().contains("unknown answer '220 welcome'"));
    assert_eq!(scene.ctl("pause").errors(), "haul ctl: 'socket': the command has ended\n");
    answering.join().unwrap();
}

#[test]
fn silent_connections_block_nobody() {
    let scene = scene!();
    let running = scene.start_copy("-j2");
    let connect = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(scene.socket()).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // More than are kept.
    let silent: Vec<_> = (0..50).map(|number| connect(if number % 2 == 0 { b"" } else { b"sta" })).collect();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| (0..20).for_each(|_| assert!(scene.send(b"status\n").starts_with("ok {"))));
        }
    });
    // The rest of a request.
    let mut last = &silent[49];
    last.write_all(b"tus\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("ok {"), "{answer}");
    scene.order("bwlimit none");
    scene.assert_copied(&running.finish().unwrap());
}

#[test]
fn other_users_are_refused() {
    let scene = scene!();
    require!(needs::root());
    let running = scene.start_copy("-j1");
    let ours = scene.ours.publish(scene.sandbox.path()).unwrap();
    let as_nobody = || {
        let run = TestRun::new(ours.path()).args(["ctl", "socket", "stop"]).in_folder(scene.sandbox.path());
        run.as_nobody().finish().unwrap().errors()
    };
    assert_eq!(as_nobody(), "haul ctl: 'socket': cannot connect: Permission denied\n");
    // A socket for every user: then the kernel is asked who has connected.
    fs::set_permissions(scene.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(as_nobody(), "haul ctl: 'socket': only the same user and root may do that\n");
    scene.order("bwlimit none");
    scene.assert_copied(&running.finish().unwrap());
}

/// Where existing files stay, so does one that appears while its source is read.
#[test]
fn a_file_that_appears_during_its_copy_stays_if_the_options_say_so() {
    for options in ["--ignore-existing", "-u"] {
        let scene = scene!();
        scene.sandbox.script("rm s/[0-9]*; touch -d @1000 s/f").unwrap();
        let run = TestRun::new(scene.ours.path()).in_folder(scene.sandbox.path());
        let run = run.args(["sync", options, "--bwlimit=1", "--control=socket", "s", "t"]);
        let running = run.start().unwrap();
        let target = fs::canonicalize(scene.sandbox.path()).unwrap().join("t");
        assert!(wait::until(SOON, || has_open_below(running.process(), &target)));
        fs::write(scene.sandbox.join("t/f"), "mine").unwrap();
        scene.order("bwlimit none");
        let outcome = running.finish().unwrap();
        assert_eq!(fs::read(scene.sandbox.join("t/f")).unwrap(), b"mine", "{options}");
        let wanted = "haul sync: cannot create regular file 't/f': File exists\n";
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(1), wanted), "{options}");
    }
}

/// A limit of deletions holds for what was counted, and nothing else is deleted.
#[test]
fn what_comes_into_a_directory_after_it_was_counted_is_not_deleted() {
    let scene = scene!();
    scene.sandbox.script("rm s/[0-9]*; mkdir -p t/d/e t/other; touch t/d/old t/d/e/old t/other/old").unwrap();
    let run = TestRun::new(scene.ours.path()).in_folder(scene.sandbox.path());
    let run = run.args(["sync", "--delete", "--max-delete=7", "--bwlimit=1", "--control=socket", "s", "t"]);
    let running = run.start().unwrap();
    let target = fs::canonicalize(scene.sandbox.path()).unwrap().join("t");
    assert!(wait::until(SOON, || has_open_below(running.process(), &target)));
    scene.sandbox.script("for n in $(seq 100); do echo mine >t/d/e/$n; done").unwrap();
    scene.order("bwlimit none");
    let outcome = running.finish().unwrap();
    let wanted = "haul sync: not removing 't/d/e', as it was changed meanwhile\n";
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(1), wanted));
    assert_eq!(fs::read_dir(scene.sandbox.join("t/d/e")).unwrap().count(), 101);
    assert!(!scene.sandbox.join("t/d/old").exists() && !scene.sandbox.join("t/other").exists());
}
