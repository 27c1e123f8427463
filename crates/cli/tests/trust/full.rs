//! Full disks that get room while a copy waits: `--on-full=pause`.
//!
//! The copy writes its messages to a file, so a test sees when it waits, and makes room only then.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::mount::Mount;
use haul_testkit::program::{ENGINES, each_engine, matrix};
use haul_testkit::run::{RunEnding, TestRun};
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, libc, needs, program, require, wait};

use super::{build, contents, temporary_names};

const WAITS: &str = "no space left for ";
const GOES_ON: &str = "space is available again: continuing\n";

/// Small files and large ones, 27 MB in all.
const SIZES: [u64; 14] =
    [0, 1, 4096, 100_000, 8 << 20, 300_000, 5_000_001, 0, 100, 8 << 20, 70_000, 4 << 20, 1 << 20, 5000];

/// A target that has room for a part of the source.
struct Scene {
    sandbox: Sandbox,
    target: Mount,
}

impl Scene {
    fn new(target: Mount, free: u64) -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        build(&sandbox.join("source"), &SIZES, 1);
        let scene = Self { sandbox, target };
        let bytes = scene.target.free_bytes().unwrap() - free;
        // Written, not reserved, so that it takes blocks everywhere.
        fs::write(scene.ballast(), vec![1; usize::try_from(bytes).unwrap()]).unwrap();
        scene
    }

    /// 40 MiB in memory, of which 6 are free.
    fn in_memory() -> Self {
        Self::new(Mount::memory(40 << 20).unwrap(), 6 << 20)
    }

    fn ballast(&self) -> PathBuf {
        self.target.join("ballast")
    }

    fn source(&self) -> PathBuf {
        self.sandbox.join("source")
    }

    /// Runs a copy and calls `make_room` once it waits.
    fn run(&self, run: TestRun, make_room: impl FnOnce()) -> RunOutcome {
        self.run_and(run, |said| said.contains(WAITS), make_room)
    }

    /// Runs a copy, and calls `then` once it has printed something.
    fn run_and(&self, run: TestRun, has_said: impl Fn(&str) -> bool, then: impl FnOnce()) -> RunOutcome {
        let errors = self.sandbox.join("errors");
        fs::write(&errors, "").unwrap();
        let said = || fs::read_to_string(&errors).unwrap();
        let script = ["-c", "exec \"$@\" 2>>\"$ERRORS\"", "sh"].map(OsString::from).to_vec();
        let run = run.env("ERRORS", &errors).behind(Path::new("/bin/sh"), script);
        let running = run.within(Duration::from_secs(60)).start().unwrap();
        let is_said = wait::until(Duration::from_secs(30), || has_said(&said()));
        assert!(is_said, "only this was printed: {}", said());
        then();
        let outcome = running.finish().unwrap();
        RunOutcome { stderr: said().into_bytes(), ..outcome }
    }

    /// Copies the tree, and removes the ballast once the copy waits.
    fn copy(&self, ours: &CopyProgram, options: &[&str]) -> RunOutcome {
        let (ballast, target) = (self.ballast(), self.target.join("copy"));
        let run = ours.run().args(["-rT", "--on-full=pause", "--stats=json"]).args(options);
        self.run(run.args([&self.source(), &target]), || fs::remove_file(ballast).unwrap())
    }

    /// Checks that a copy waited once and then completed the tree, and wrote each byte once.
    fn check(&self, outcome: &RunOutcome, options: &[&str]) {
        let errors = outcome.errors();
        assert!(outcome.succeeded(), "{options:?}: {:?} {errors}", outcome.ending);
        let count = |text: &str| errors.matches(text).count();
        assert_eq!((count(WAITS), count(GOES_ON)), (1, 1), "{options:?}: {errors}");
        assert!(errors.find(WAITS) < errors.find(GOES_ON), "{options:?}: {errors}");
        let (whole, found) = (contents(&self.source()), contents(&self.target.join("copy")));
        assert!(found == whole, "{options:?}: the copy differs");
        let bytes = format!("\"bytes\":{},", whole.values().map(Vec::len).sum::<usize>());
        assert!(outcome.printed().contains(&bytes), "{options:?}, not {bytes}: {}", outcome.printed());
    }
}

#[test]
fn a_copy_waits_for_room_and_goes_on_with_the_same_file() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for options in matrix() {
        let scene = Scene::in_memory();
        let stops = ours.run().args(["-rT", "--on-full=stop"]).args(&options);
        let target = scene.target.join("stopped");
        let stopped = stops.args([&scene.source(), &target]).finish().unwrap();
        assert_eq!(stopped.status(), Some(1), "{options:?}: {}", stopped.errors());
        assert!(stopped.errors().contains("No space left on device"), "{}", stopped.errors());
        fs::remove_dir_all(&target).unwrap();
        let outcome = scene.copy(&ours, &options);
        scene.check(&outcome, &options);
    }
}

#[test]
fn other_ways_to_write_wait_too() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for ways in [
        ["--atomic"].as_slice(),
        &["--no-atomic"],
        &["--atomic", "--fsync"],
        &["--sparse=always"],
        &["--fallocate", "--debug"],
        &["--verify=stream"],
        &["--if-changed=retry"],
        &["--drop-cache"],
    ] {
        for engine in each_engine() {
            let options = [ways, &engine].concat();
            let scene = Scene::in_memory();
            let outcome = scene.copy(&ours, &options);
            scene.check(&outcome, &options);
            assert!(!outcome.errors().contains("not reserved"), "{options:?}: {}", outcome.errors());
            assert_eq!(temporary_names(&contents(scene.target.path())), 0, "{options:?}");
        }
    }
}

/// File systems that have a device, with direct I/O and with the target read again from it.
#[test]
fn a_copy_to_a_device_waits_for_room() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::loop_mount("ext4"));
    for ways in [["--direct"].as_slice(), &["--verify"], &["--atomic", "--fsync", "--verify"]] {
        for engine in each_engine() {
            let options = [ways, &engine].concat();
            let scene = Scene::new(Mount::image("ext4", 64 << 20).unwrap(), 12 << 20);
            let outcome = scene.copy(&ours, &options);
            scene.check(&outcome, &options);
        }
    }
}

/// A file with holes, and one that is copied inside the kernel because it is on the same file
/// system.
#[test]
fn copies_inside_the_kernel_and_around_holes_wait() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for (engine, inside) in each_engine().into_iter().zip([false, true].into_iter().cycle()) {
        let target = Mount::memory(60 << 20).unwrap();
        let source = target.join("source");
        build(&source, &[10 << 20, 100], 1);
        let sparse = File::create(source.join("sparse")).unwrap();
        for part in 0..8 {
            sparse.write_all_at(&vec![part as u8 + 1; 1 << 20], part << 24).unwrap();
        }
        let scene = Scene::new(target, 5 << 20);
        if !inside {
            fs::remove_dir_all(scene.source()).unwrap();
            assert!(
                Command::new("cp").arg("-a").args([&source, &scene.source()]).status().unwrap().success()
            );
        }
        let (from, copy) = (if inside { source } else { scene.source() }, scene.target.join("copy"));
        let run = ours.run().args(["-rT", "--on-full=pause", "--debug"]).args(&engine).args([&from, &copy]);
        let outcome = scene.run(run, || fs::remove_file(scene.ballast()).unwrap());
        assert!(outcome.succeeded(), "{engine:?}: {}", outcome.errors());
        assert!(contents(&copy) == contents(&from), "{engine:?}");
        let blocks = |root: &Path| fs::metadata(root.join("sparse")).unwrap().blocks();
        assert_eq!(blocks(&copy), blocks(&from), "{engine:?}");
        assert!(!inside || outcome.printed().contains("copy offload: yes"), "{}", outcome.printed());
    }
}

/// Builds a tree with everything that takes an inode or a name.
fn build_kinds(root: &Path) {
    for number in 0..12 {
        let folder = root.join(format!("folder-{number}"));
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("file"), [number; 100]).unwrap();
        fs::write(folder.join("below/file"), [number; 5000]).unwrap();
        fs::hard_link(folder.join("file"), folder.join("linked")).unwrap();
        symlink(format!("target {number}"), folder.join("symlink")).unwrap();
        assert!(Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap().success());
    }
}

#[test]
fn directories_links_and_special_files_wait_for_inodes() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    // The directories come first. Each kind of entry in one of them is the first without an inode.
    for inodes in [3, 4, 20].into_iter().chain(26..36) {
        for options in [["-aT", "-j1"].as_slice(), &["-aT", "-j4"], &["-aT", "-j1", "--atomic"]] {
            let scene = Scene::in_memory();
            let (source, copy) = (scene.sandbox.join("kinds"), scene.target.join("copy"));
            build_kinds(&source);
            scene.target.remount(&format!("nr_inodes={inodes}")).unwrap();
            let run = ours.run().args(options).arg("--on-full=pause").args([&source, &copy]);
            let outcome = scene.run(run, || scene.target.remount("nr_inodes=1000").unwrap());
            assert!(outcome.succeeded(), "{inodes} {options:?}: {}", outcome.errors());
            assert_eq!(outcome.errors().matches(WAITS).count(), 1, "{options:?}: {}", outcome.errors());
            let mut diff = Command::new("diff");
            let diff = diff.args(["-r", "--no-dereference", "-x", "fifo"]).args([&source, &copy]);
            assert!(diff.status().unwrap().success(), "{inodes} {options:?}");
            for number in 0..12 {
                let made = copy.join(format!("folder-{number}"));
                assert_eq!(fs::metadata(made.join("linked")).unwrap().nlink(), 2, "{options:?}");
                assert!(made.join("fifo").exists(), "{options:?}");
            }
        }
    }
}

/// `-s`, `--parents`, backups, and content without a length.
#[test]
fn whatever_makes_a_name_waits() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let more = |scene: &Scene| scene.target.remount("nr_inodes=1000").unwrap();
    let scene = Scene::in_memory();
    let (source, target) = (scene.source(), scene.target.path());
    fs::create_dir_all(source.join("a/b/c")).unwrap();
    fs::write(source.join("a/b/c/file"), "content").unwrap();
    let content = source.join("a/b/c/file").to_string_lossy().into_owned();
    for (options, name, made) in [
        (["--parents"].as_slice(), "a/b/c/file", "a/b/c/file"),
        (&["--parents", "--attributes-only"], "a/b/c/file", "a/b/c/file"),
        (&["--attributes-only"], "a/b/c/file", "file"),
        (&["-s"], &content, "file"),
        (&["-r"], "a/b", "b/c/file"),
    ] {
        // The mount point and the ballast have an inode, and nothing else gets one.
        scene.target.remount("nr_inodes=2").unwrap();
        let run = ours.run().in_folder(&source).args(options).args(["-j1", "--on-full=pause", name]);
        let outcome = scene.run(run.arg(target), || more(&scene));
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert!(scene.target.join(made).symlink_metadata().is_ok(), "{options:?}");
        let top = scene.target.join(made.split('/').next().unwrap());
        if top.is_dir() { fs::remove_dir_all(top).unwrap() } else { fs::remove_file(top).unwrap() }
    }
    // An older file, which becomes a backup first.
    let [older, newer] = [scene.target.join("file"), scene.sandbox.join("file")];
    fs::write(&older, "older").unwrap();
    fs::write(&newer, "newer").unwrap();
    scene.target.remount("nr_inodes=3").unwrap();
    let run = ours.run().args(["-b", "-j1", "--on-full=pause"]).args([&newer, &older]);
    let outcome = scene.run(run, || more(&scene));
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let read = |name: &str| fs::read_to_string(scene.target.join(name)).unwrap();
    assert_eq!((read("file").as_str(), read("file~").as_str()), ("newer", "older"));
    let input = vec![7; 9 << 20];
    let copy = scene.target.join("copy");
    let run = ours.run().args(["--on-full=pause", "/dev/stdin"]).arg(&copy).input(&input);
    let outcome = scene.run(run, || fs::remove_file(scene.ballast()).unwrap());
    assert!(outcome.succeeded() && fs::read(&copy).unwrap() == input, "{}", outcome.errors());
}

#[test]
fn a_waiting_copy_shows_its_state_and_ends_by_a_signal() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for options in [["-j1"].as_slice(), &["-j4", "--atomic"], &["-j2", "--engine=io-uring"]] {
        let scene = Scene::in_memory();
        let (errors, copy) = (scene.sandbox.join("errors"), scene.target.join("copy"));
        let script = ["-c", "exec \"$@\" 2>>\"$ERRORS\"", "sh"].map(OsString::from).to_vec();
        let run = ours.run().args(["-r", "--on-full=pause", "--progress=always"]).args(options);
        let run = run.args([&scene.source(), &copy]).env("ERRORS", &errors);
        let running = run.behind(Path::new("/bin/sh"), script).start().unwrap();
        let shows = || fs::read_to_string(&errors).is_ok_and(|said| said.contains("paused: disk full\n"));
        assert!(wait::until(Duration::from_secs(30), shows), "{options:?}");
        running.signal(libc::SIGINT).unwrap();
        let outcome = running.finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Signalled(libc::SIGINT), "{options:?}");
        assert!(outcome.took < Duration::from_secs(20), "{options:?}: {:?}", outcome.took);
        assert_eq!(temporary_names(&contents(&copy)), 0, "{options:?}");
    }
}

/// While a worker waits, the other one copies to a file system that has room.
#[test]
fn files_that_find_room_do_not_wait_for_those_that_do_not() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for engine in ENGINES {
        let (scene, roomy) = (Scene::in_memory(), Mount::memory(40 << 20).unwrap());
        let (source, copy) = (scene.sandbox.join("two"), scene.target.join("copy"));
        build(&source, &[8 << 20, 100_000, 0, 0], 1);
        for number in 0..50 {
            fs::write(source.join(format!("folder-1/{number}")), vec![number; 10_000]).unwrap();
        }
        fs::create_dir(&copy).unwrap();
        symlink(roomy.path(), copy.join("folder-1")).unwrap();
        let run = ours.run().args(["-rT", "-j2", "--keep-directory-symlink", "--on-full=pause", engine]);
        let is_copied = || contents(roomy.path()) == contents(&source.join("folder-1"));
        let outcome = scene.run(run.args([&source, &copy]), || {
            assert!(wait::until(Duration::from_secs(20), is_copied), "{engine}: all files wait");
            fs::remove_file(scene.ballast()).unwrap();
        });
        assert!(outcome.succeeded(), "{engine}: {}", outcome.errors());
        assert!(contents(&copy.join("folder-0")) == contents(&source.join("folder-0")), "{engine}");
    }
}

const SHORTAGE: &str = " MB is free on ";

#[test]
fn what_does_not_fit_is_a_warning_while_it_is_counted() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let scene = Scene::in_memory();
    let copy = scene.target.join("copy");
    let run = ours.run().args(["-rT", "--on-full=pause", "--progress=always", "--stats=json"]);
    let run = run.args([&scene.source(), &copy]);
    let warned = |said: &str| said.contains(SHORTAGE) && said.contains(WAITS);
    let outcome = scene.run_and(run, warned, || fs::remove_file(scene.ballast()).unwrap());
    scene.check(&outcome, &["--progress=always"]);
    let warning =
        format!("warning: 27.5 MB to copy, but only 6.29 MB is free on '{}'\n", copy.to_string_lossy());
    assert_eq!(outcome.errors().matches(&warning).count(), 1, "{}", outcome.errors());
    // The same tree over its copy needs nothing. A FIFO keeps the copy from ending before all is
    // counted.
    let filled = scene.target.free_bytes().unwrap() - (1 << 20);
    fs::write(scene.ballast(), vec![1; usize::try_from(filled).unwrap()]).unwrap();
    let pipe = scene.sandbox.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (source, is_there) in [("folder-0/file-4", true), ("folder-1/file-9", false)] {
        let [source, into] = [scene.source().join(source), copy.join("folder-0")];
        let run = ours.run().args(["--progress=always", "-j2"]).args([&source, &pipe, &into]);
        let open = || drop(wait::for_reader(&pipe, Duration::from_secs(20)).unwrap());
        let outcome = scene.run_and(run, |said| said.contains('%'), open);
        let errors = outcome.errors();
        assert_eq!((outcome.succeeded(), errors.contains(SHORTAGE)), (is_there, !is_there), "{errors}");
    }
}

/// Nothing waits where no room will ever come.
#[test]
fn a_device_that_is_full_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("file"), "content").unwrap();
    let run = ours.run().arg("--on-full=pause").args([&sandbox.join("file"), Path::new("/dev/full")]);
    let outcome = run.within(Duration::from_secs(20)).finish().unwrap();
    assert_eq!(outcome.status(), Some(1), "{:?}: {}", outcome.ending, outcome.errors());
    assert!(outcome.errors().contains("No space left on device"), "{}", outcome.errors());
}
