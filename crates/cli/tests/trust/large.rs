//! `--resume` and large files: a file that was interrupted goes on where it stopped.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::mount::{Mount, POWER_TOOL};
use haul_testkit::program::ENGINES;
use haul_testkit::run::TestRun;
use haul_testkit::{
    CopyProgram, Facts, RunOutcome, Sandbox, compare, libc, needs, program, random, require, wait,
};

/// Length of a segment of a large file, which is recorded as a whole.
const SEGMENT: u64 = 128 << 20;

/// Four segments and a bit.
const SIZE: u64 = 4 * SEGMENT + 12_345;

/// Longer than any tick of a file system's clock.
const SETTLED: Duration = Duration::from_millis(50);

/// A tree with a large file, the directory it is copied to, and the options of the copy.
struct Scene {
    ours: CopyProgram,
    sandbox: Sandbox,
    options: Vec<&'static str>,
}

impl Scene {
    fn new(ours: CopyProgram, options: &[&'static str]) -> Self {
        let scene = Self { ours, sandbox: Sandbox::in_memory().unwrap(), options: options.to_vec() };
        fs::create_dir(scene.sandbox.join("source")).unwrap();
        fs::write(scene.sandbox.join("source/small"), "small").unwrap();
        write_blocks(&scene.source(), SIZE);
        std::thread::sleep(SETTLED);
        scene
    }

    fn source(&self) -> PathBuf {
        self.sandbox.join("source/large")
    }

    fn target(&self) -> PathBuf {
        self.sandbox.join("target")
    }

    fn run(&self) -> TestRun {
        let run = self.ours.run().args(&self.options).args(["--resume", "--stats=json", "source", "target"]);
        run.in_folder(self.sandbox.path())
    }

    /// Runs a copy that is killed at this offset of the large file, or fails there.
    fn stop_at(&self, offset: u64) {
        let outcome = self.run().file_bytes(offset).finish().unwrap();
        assert!(!outcome.succeeded(), "{:?}: it wrote more than it may", self.options);
        assert!(!self.target().join("large").exists(), "a part has the name of the whole");
    }

    /// Completes the copy. Returns how many bytes were moved.
    fn complete(&self) -> u64 {
        let outcome = self.run().succeed().unwrap();
        let facts = Facts::CONTENT | Facts::MODE | Facts::MODIFIED;
        let differences =
            compare::compare_paths(&self.sandbox.join("source"), &self.target(), facts).unwrap();
        assert!(differences.is_empty(), "{:?}: {differences}", self.options);
        for folder in [self.sandbox.path(), &self.target()] {
            assert_eq!(hidden(folder), Vec::<PathBuf>::new(), "{:?}", self.options);
        }
        bytes(&outcome)
    }
}

fn bytes(outcome: &RunOutcome) -> u64 {
    let printed = outcome.printed();
    let (_, after) = printed.split_once("\"bytes\":").unwrap();
    after.split(',').next().unwrap().parse().unwrap()
}

/// Writes a file each of whose blocks of 1 MiB differs from the others.
fn write_blocks(path: &Path, size: u64) {
    let file = File::create(path).unwrap();
    let mut block = random::bytes(1, 1 << 20);
    for start in (0..size).step_by(1 << 20) {
        block[..8].copy_from_slice(&start.to_le_bytes());
        let length = (size - start).min(1 << 20);
        file.write_all_at(&block[..usize::try_from(length).unwrap()], start).unwrap();
    }
}

fn hidden(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_hidden = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".haul");
    entries.map(|entry| entry.path()).filter(is_hidden).collect()
}

#[test]
fn a_large_file_goes_on_where_it_stopped() {
    let ours = program!();
    require!(ours.needs_haul());
    let mut cases: Vec<Vec<&str>> = ENGINES.iter().map(|engine| vec!["-a", *engine]).collect();
    cases.push(vec!["-a", "--atomic", "--fsync"]);
    cases.push(vec!["-a", "--verify", "-j1"]);
    cases.push(vec!["-a", "--verify=stream"]);
    cases.push(vec!["-a", "--sparse=always"]);
    cases.push(vec!["-a", "--direct", "--engine=io-uring"]);
    for options in cases {
        let scene = Scene::new(program!(), &options);
        scene.stop_at(SEGMENT + SEGMENT / 2);
        scene.stop_at(3 * SEGMENT - 4096);
        let moved = scene.complete();
        assert!(moved <= SIZE - 2 * SEGMENT + 5, "{options:?}: {moved} bytes were moved again");
    }
}

/// A change of the source or the incomplete target between two runs.
type Change = fn(&Path, &Path);

const CHANGES: &[(&str, Change)] = &[
    ("the source was changed", |source, _| {
        File::options().write(true).open(source).unwrap().write_all_at(b"#", 5).unwrap();
    }),
    ("the source has grown", |source, _| {
        File::options().write(true).open(source).unwrap().set_len(SIZE + 10).unwrap();
    }),
    ("the target was removed", |_, target| fs::remove_file(target).unwrap()),
    ("the target was truncated", |_, target| {
        File::options().write(true).open(target).unwrap().set_len(SEGMENT / 2).unwrap();
    }),
    ("the target was replaced", |_, target| {
        fs::remove_file(target).unwrap();
        fs::write(target, vec![b'#'; usize::try_from(2 * SEGMENT).unwrap()]).unwrap();
    }),
];

#[test]
fn a_large_file_that_changed_during_the_run_begins_again() {
    let ours = program!();
    require!(ours.needs_haul());
    for (what, change) in CHANGES {
        let scene = Scene::new(program!(), &["-a"]);
        scene.stop_at(SEGMENT + SEGMENT / 2);
        let part = hidden(&scene.target()).pop().unwrap();
        change(&scene.source(), &part);
        std::thread::sleep(SETTLED);
        let size = fs::metadata(scene.source()).unwrap().len();
        assert!(scene.complete() >= size, "{what}");
    }
}

/// With `--verify`, what an earlier run wrote is compared with its hashes.
#[test]
fn damage_to_what_an_earlier_run_wrote_is_found() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new(program!(), &["-a", "--verify"]);
    scene.stop_at(SEGMENT + SEGMENT / 2);
    let part = hidden(&scene.target()).pop().unwrap();
    File::options().write(true).open(part).unwrap().write_all_at(b"damaged", 3 << 20).unwrap();
    let outcome = scene.run().succeed().unwrap();
    assert!(outcome.printed().contains("\"repaired\":1,"), "{}", outcome.printed());
    assert!(bytes(&outcome) <= SIZE - SEGMENT + 5);
    let source = fs::read(scene.source()).unwrap();
    assert!(fs::read(scene.target().join("large")).unwrap() == source);
}

/// A file that has its name, but was killed before it was verified, isn't copied again.
#[test]
fn a_copy_that_is_killed_while_it_is_verified_is_verified_again() {
    let ours = program!();
    require!(ours.needs_haul());
    for _ in 0..10 {
        let scene = Scene::new(program!(), &["-a", "--verify"]);
        let running = scene.run().start().unwrap();
        let named = scene.target().join("large");
        assert!(wait::until(Duration::from_secs(60), || named.exists()), "it never got its name");
        running.signal(libc::SIGKILL).unwrap_or_default();
        if running.finish().unwrap().succeeded() {
            // It was faster.
            continue;
        }
        let moved = scene.complete();
        assert!(moved <= SIZE % SEGMENT + 5, "{moved} bytes were moved again");
        return;
    }
    panic!("no copy could be killed");
}

/// A copy on a file system of its own.
struct Disk {
    target: Mount,
    scene: Scene,
}

impl Disk {
    fn new() -> Self {
        let target = Mount::image("ext4", 800 << 20).unwrap();
        Self { target, scene: Scene::new(program!(), &[]) }
    }

    fn run(&self) -> TestRun {
        let run = self.scene.ours.run().args(["-aT", "--resume", "--stats=json"]);
        run.args([&self.scene.sandbox.join("source"), &self.copy()])
    }

    fn copy(&self) -> PathBuf {
        self.target.join("copy")
    }

    /// Completes a copy of which at least one segment was recorded.
    fn complete(&self) {
        let outcome = self.run().succeed().unwrap();
        assert!(bytes(&outcome) <= SIZE - SEGMENT + 5, "{} bytes were moved again", bytes(&outcome));
        let source = self.scene.sandbox.join("source");
        let differences = compare::compare_paths(&source, &self.copy(), Facts::CONTENT).unwrap();
        assert!(differences.is_empty(), "{differences}");
        for folder in [self.target.path(), &self.copy()] {
            assert_eq!(hidden(folder), Vec::<PathBuf>::new());
        }
    }
}

/// A file that shares its source's blocks is not moved by the segment.
#[test]
fn a_large_file_that_shares_blocks_stays_shared() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::loop_mount("xfs"));
    let disk = Mount::image("xfs", 700 << 20).unwrap();
    write_blocks(&disk.join("source"), SEGMENT + 5);
    std::thread::sleep(SETTLED);
    let run = ours.run().args(["-a", "--resume", "--stats=json", "source", "target"]);
    let outcome = run.in_folder(disk.path()).succeed().unwrap();
    assert!(outcome.printed().contains("\"reflinked\":1,"), "{}", outcome.printed());
    assert_eq!(bytes(&outcome), SEGMENT + 5);
}

/// Ranges that the journal records are on storage.
#[test]
fn after_a_power_cut_a_large_file_goes_on() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool(POWER_TOOL), needs::loop_mount("ext4"));
    let disk = Disk::new();
    let outcome = disk.run().file_bytes(2 * SEGMENT + SEGMENT / 2).finish().unwrap();
    assert!(!outcome.succeeded());
    disk.target.cut_power().unwrap();
    disk.complete();
}

/// A copy that found no room keeps what it has, and goes on with it when there is room.
#[test]
fn after_a_full_disk_a_large_file_goes_on() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::loop_mount("ext4"));
    let disk = Disk::new();
    let (free, ballast) = (disk.target.free_bytes().unwrap(), disk.target.join("ballast"));
    let taken = usize::try_from(free - 2 * SEGMENT - (32 << 20)).unwrap();
    fs::write(&ballast, vec![1; taken]).unwrap();
    let outcome = disk.run().finish().unwrap();
    assert!(!outcome.succeeded() && outcome.errors().contains("No space left"), "{}", outcome.errors());
    let kept = hidden(&disk.copy());
    assert!(kept.len() == 1 && fs::metadata(&kept[0]).unwrap().size() >= SEGMENT, "{kept:?}");
    fs::remove_file(&ballast).unwrap();
    disk.complete();
}
