//! Large files in memory, which two workers copy: each writes a block when it is its turn, so
//! whatever ends the copy, the target is the beginning of the source.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::mount::Mount;
use haul_testkit::run::{RunEnding, TestRun};
use haul_testkit::strace::record;
use haul_testkit::{CopyProgram, Sandbox, libc, needs, program, random, require, wait};

const BYTES: u64 = (64 << 20) + 12_345;

/// Minimum bytes copied before a test interferes.
const SOME: u64 = 2 << 20;

/// A large file in memory, and a place for it on a disk.
struct Scene {
    sandbox: Sandbox,
    content: Vec<u8>,
    disk: Mount,
}

impl Scene {
    fn new() -> Self {
        let (sandbox, disk) = (Sandbox::in_memory().unwrap(), Mount::image("ext4", 160 << 20).unwrap());
        let scene = Self { sandbox, content: random::bytes(7, BYTES), disk };
        scene.restore();
        scene
    }

    fn restore(&self) {
        fs::write(self.source(), &self.content).unwrap();
        remove(&self.target());
    }

    /// Leaves so many bytes of the disk free.
    fn leave(&self, room: u64) {
        remove(&self.ballast());
        let bytes = self.disk.free_bytes().unwrap() - room;
        fs::write(self.ballast(), vec![1; usize::try_from(bytes).unwrap()]).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.disk.join("ballast")
    }

    fn source(&self) -> PathBuf {
        self.sandbox.join("source")
    }

    fn target(&self) -> PathBuf {
        self.disk.join("target")
    }

    fn run(&self, ours: &CopyProgram, options: &[&str]) -> TestRun {
        let run = ours.run().args(options).arg("--no-atomic").args([self.source(), self.target()]);
        run.within(Duration::from_secs(60))
    }

    /// Returns how many bytes of the target are written so far.
    fn written(&self) -> u64 {
        fs::metadata(self.target()).map_or(0, |facts| facts.len())
    }

    /// Checks that the target is the beginning of what the source was. Returns its length.
    fn beginning(&self, what: &str) -> u64 {
        let found = fs::read(self.target()).unwrap();
        assert!(self.content.starts_with(&found), "{what}: {} bytes, some of them wrong", found.len());
        found.len() as u64
    }
}

fn remove(path: &Path) {
    if path.exists() {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn two_workers_write_a_large_file_in_turn() {
    require!(needs::tool("strace"), needs::loop_mount("ext4"));
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new();
    let asked = haul_sys::cached_bytes(File::open(scene.source()).unwrap());
    require!(asked.err().map(|error| format!("needs cachestat: {error}")));
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let several = processors.min(2);
    let neighbour = scene.disk.join("source");
    fs::copy(scene.source(), &neighbour).unwrap();
    let cases: [(&[&str], usize); 9] = [
        (&[], several),
        (&["--no-target-directory"], several),
        (&["-r"], several),
        (&["--debug", "--sparse=never"], several),
        (&["--fsync"], several),
        (&["-j1"], 1),
        (&["--verify=stream"], 1),
        (&["--engine=sync"], 1),
        (&["--bwlimit=10G"], 1),
    ];
    for (options, workers) in cases {
        let run = match options {
            // From the same file system.
            ["--no-target-directory"] => ours.run().args(options).args([&neighbour, &scene.target()]),
            _ => scene.run(&ours, options),
        };
        let (outcome, calls) = record(run, "pwrite64,splice", &scene.sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert_eq!(scene.beginning(&format!("{options:?}")), BYTES, "{options:?}");
        let threads = calls.iter().map(|call| call.thread).collect::<BTreeSet<_>>().len();
        assert_eq!(threads, workers, "{options:?}: another number of threads wrote it");
        let offset = |call: &haul_testkit::strace::TracedCall| call.argument(3).parse::<u64>().unwrap();
        let writes = calls.iter().filter(|call| call.name == "pwrite64");
        assert!(writes.map(offset).is_sorted(), "{options:?}: not in order");
        remove(&scene.target());
    }
}

#[test]
fn a_copy_that_fails_has_written_the_beginning_of_a_large_file() {
    require!(needs::tool("strace"), needs::loop_mount("ext4"));
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new();
    // Within a block, and between two.
    for room in [40 << 20, (40 << 20) + 4096, (48 << 20) - 4096] {
        scene.restore();
        scene.leave(room);
        // With strace, each waits so long for its turn that it sleeps.
        let run = scene.run(&ours, &[]);
        let (outcome, _) = record(run, "pwrite64,futex", &scene.sandbox.join("log")).unwrap();
        assert_eq!(outcome.status(), Some(1), "{}", outcome.errors());
        let errors = outcome.errors();
        assert_eq!(errors.matches("No space left on device").count(), 1, "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(scene.beginning("a full disk") > room / 2);
    }
    remove(&scene.ballast());
    // In steps of 1 KiB.
    for limit in [SOME, (33 << 20) + 5120, BYTES >> 10 << 10] {
        scene.restore();
        let outcome = scene.run(&ours, &[]).file_bytes(limit).finish().unwrap();
        assert!(!outcome.succeeded(), "{}", outcome.errors());
        assert_eq!(scene.beginning("a limit of the file's size"), limit);
    }
}

#[test]
fn a_killed_copy_has_written_the_beginning_of_a_large_file() {
    let ours = program!();
    require!(ours.needs_haul(), needs::loop_mount("ext4"));
    let scene = Scene::new();
    for round in 0..10 {
        let signal = [libc::SIGKILL, libc::SIGINT, libc::SIGTERM][round % 3];
        let so_far = SOME * (1 + 2 * round as u64);
        scene.restore();
        let running = scene.run(&ours, &[]).start().unwrap();
        assert!(wait::until(Duration::from_secs(30), || scene.written() >= so_far));
        // It may be over by now.
        running.signal(signal).unwrap_or_default();
        let outcome = running.finish().unwrap();
        let is_complete = scene.beginning("a signal") == BYTES;
        assert!(
            outcome.ending == RunEnding::Signalled(signal) || is_complete,
            "{:?}: {}",
            outcome.ending,
            outcome.errors()
        );
    }
}

#[test]
fn a_large_file_that_shrinks_during_the_run_is_copied_to_its_end() {
    let ours = program!();
    require!(ours.needs_haul(), needs::loop_mount("ext4"));
    let scene = Scene::new();
    for round in 0..10 {
        scene.restore();
        let running = scene.run(&ours, &[]).start().unwrap();
        assert!(wait::until(Duration::from_secs(30), || scene.written() >= SOME));
        let length = SOME * round + 777;
        File::options().write(true).open(scene.source()).unwrap().set_len(length).unwrap();
        let outcome = running.finish().unwrap();
        assert!(matches!(outcome.ending, RunEnding::Exited(0 | 1)), "{:?}", outcome.ending);
        assert!(scene.beginning("a source that shrinks") >= length.min(SOME));
    }
}

/// The worker whose turn it is waits for room, and the other one for its turn.
#[test]
fn two_workers_wait_for_room() {
    let ours = program!();
    require!(ours.needs_haul(), needs::loop_mount("ext4"));
    let scene = Scene::new();
    scene.leave(40 << 20);
    let errors = scene.sandbox.join("errors");
    let script = ["-c", "exec \"$@\" 2>>\"$ERRORS\"", "sh"].map(Into::into).to_vec();
    let run = scene.run(&ours, &["--on-full=pause"]).env("ERRORS", &errors);
    let running = run.behind("/bin/sh".as_ref(), script).start().unwrap();
    let waits = || fs::read_to_string(&errors).is_ok_and(|said| said.contains("no space left for "));
    assert!(wait::until(Duration::from_secs(30), waits));
    remove(&scene.ballast());
    let outcome = running.finish().unwrap();
    assert!(outcome.succeeded(), "{:?}", fs::read_to_string(&errors));
    assert_eq!(scene.beginning("a full disk"), BYTES);
}
