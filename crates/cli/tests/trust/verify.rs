//! `--verify`: bytes that change on the device after they were written, or after they were read.
//!
//! A copy of a file, and then of another to a FIFO, stands still between the write of the first and
//! its verification for as long as nobody reads from the FIFO. In that time, a byte of the file
//! changes in the image behind the mounted file system.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_testkit::mount::Mount;
use haul_testkit::program::each_engine;
use haul_testkit::run::Running;
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, TestRun, needs, program, random, require, wait};

use super::{build, contents};

/// Length of the file: small enough to be copied by one worker.
const BYTES: u64 = (1 << 20) + 200_000;
/// Offset in the file of the byte that changes: in its second piece.
const OFFSET: u64 = (1 << 20) + 77_777;

/// Where a byte changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    Nothing,
    Source,
    Target,
}

/// A file on an image, and the copy of it on another.
struct Scene {
    source: Mount,
    target: Mount,
    content: Vec<u8>,
}

impl Scene {
    fn new(file_system: &str) -> Self {
        let megabytes = if file_system == "xfs" { 320 } else { 128 };
        let [source, target] = [(), ()].map(|()| Mount::image(file_system, megabytes << 20).unwrap());
        let content = random::bytes(1, BYTES);
        fs::write(source.join("file"), &content).unwrap();
        Self { source, target, content }
    }

    /// Copies the file, and does `meanwhile` between its copy and its verification.
    fn copy_and(&self, ours: &CopyProgram, options: &[&str], meanwhile: impl FnOnce()) -> RunOutcome {
        let copy = self.target.join("file");
        fs::remove_file(&copy).unwrap_or_default();
        // Every worker, also the one that has copied the file, waits for a FIFO then, with the
        // file for it open.
        let jobs = options.iter().find_map(|option| option.strip_prefix("-j")?.parse().ok()).unwrap_or(1);
        let names: Vec<_> = (0..jobs).map(|number| format!("pipe-{number}")).collect();
        for name in names.iter().filter(|name| !self.target.join(name).exists()) {
            fs::write(self.source.join(name), "content").unwrap();
            make_fifo(&self.target.join(name));
        }
        let run = ours.run().args(["--look-ahead=1", "--no-atomic", &format!("-j{jobs}")]).args(options);
        let run = run.arg(self.source.join("file")).args(names.iter().map(|name| self.source.join(name)));
        let running = run.arg(self.target.path()).within(Duration::from_secs(60)).start().unwrap();
        names.iter().for_each(|name| wait_until_open(&running, &self.source.join(name)));
        assert_eq!(fs::metadata(&copy).unwrap().len(), BYTES);
        meanwhile();
        names.iter().for_each(|name| assert_eq!(read_fifo(&self.target.join(name)), b"content"));
        let mut outcome = running.finish().unwrap();
        let is_about_file = |line: &str| !line.contains("pipe-");
        outcome.stderr = outcome
            .errors()
            .split_inclusive('\n')
            .filter(|line| is_about_file(line))
            .collect::<String>()
            .into_bytes();
        outcome
    }

    /// Copies the file, while a byte changes between its copy and its verification.
    fn copy(&self, ours: &CopyProgram, options: &[&str], changes: Changes) -> RunOutcome {
        self.copy_and(ours, options, || match changes {
            Changes::Nothing => {}
            Changes::Source => flip(&self.source, &self.content),
            Changes::Target => flip(&self.target, &self.content),
        })
    }

    /// Returns true if the copy on the device is the file.
    fn is_right(&self) -> bool {
        haul_testkit::cold::make(self.target.path()).unwrap();
        fs::read(self.target.join("file")).unwrap() == self.content
    }
}

/// Waits until a copy has a file open.
fn wait_until_open(running: &Running, file: &Path) {
    let has_open = || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", running.process())).into_iter().flatten();
        descriptors
            .flatten()
            .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|link| link == file))
    };
    assert!(wait::until(Duration::from_secs(20), has_open), "{} was not opened", file.display());
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Reads everything from a FIFO, which a copy must open soon.
fn read_fifo(path: &Path) -> Vec<u8> {
    Command::new("timeout").args(["20", "cat"]).arg(path).output().unwrap().stdout
}

/// Changes a byte in the image of a file system, wherever this content is or was.
fn flip(mount: &Mount, content: &[u8]) {
    assert!(Command::new("sync").arg("-f").arg(mount.path()).status().unwrap().success());
    let image = mount.image_path();
    let bytes = fs::read(&image).unwrap();
    let block = &content[OFFSET as usize / 4096 * 4096..][..4096];
    let file = File::options().write(true).open(&image).unwrap();
    let mut is_found = false;
    for (index, other) in bytes.chunks_exact(4096).enumerate().filter(|(_, other)| *other == block) {
        is_found = true;
        let offset = OFFSET % 4096;
        file.write_all_at(&[other[offset as usize] ^ 0x40], index as u64 * 4096 + offset).unwrap();
    }
    assert!(is_found, "the content is not in the image");
}

#[test]
fn a_byte_that_changes_on_the_target_is_found_and_repaired() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("mkfifo"));
    let repaired = "file' differed on storage in bytes 1048576 to 1248576; that range was rewritten\n";
    for file_system in ["ext4", "xfs", "btrfs"] {
        require!(needs::loop_mount(file_system));
        for engine in each_engine() {
            // btrfs has checksums of its own: a changed byte can't be read.
            let scene = Scene::new(file_system);
            let run =
                |own: &[&str], changes| scene.copy(&ours, &[&["-p"], own, &engine[..]].concat(), changes);
            let what = format!("{file_system} {engine:?}");
            let outcome = run(&["--verify", "--stats=json"], Changes::Nothing);
            assert!(outcome.succeeded() && scene.is_right(), "{what}: {}", outcome.errors());
            assert_eq!(outcome.errors(), "", "{what}");
            assert!(outcome.printed().contains("\"repaired\":0"), "{what}: {}", outcome.printed());
            if file_system == "btrfs" {
                let outcome = run(&["--verify"], Changes::Target);
                assert_eq!(outcome.status(), Some(1), "{what}: {}", outcome.errors());
                assert!(outcome.errors().contains("cannot verify"), "{what}: {}", outcome.errors());
                continue;
            }
            for option in ["--verify", "--verify=both"] {
                let outcome = run(&[option, "--stats=json"], Changes::Target);
                assert!(outcome.succeeded(), "{what} {option}: {}", outcome.errors());
                assert!(outcome.errors().ends_with(repaired), "{what} {option}: {}", outcome.errors());
                assert!(outcome.printed().contains("\"repaired\":1"), "{what}: {}", outcome.printed());
                assert!(scene.is_right(), "{what} {option}");
                let [source, target] = [&scene.source, &scene.target]
                    .map(|mount| fs::metadata(mount.join("file")).unwrap().modified().unwrap());
                assert_eq!(source, target, "{what}: the repair changed the times");
            }
            // The data in memory is always correct, so this is the control.
            for option in ["--verify=stream", "--stats=json"] {
                let outcome = run(&[option], Changes::Target);
                assert!(
                    outcome.succeeded() && outcome.errors().is_empty(),
                    "{what} {option}: {}",
                    outcome.errors()
                );
                assert!(!scene.is_right(), "{what} {option}");
            }
        }
    }
}

/// A piece that is written again keeps its holes.
#[test]
fn a_repair_fills_no_hole() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("mkfifo"), needs::loop_mount("ext4"));
    let mut scene = Scene::new("ext4");
    let hole = OFFSET.next_multiple_of(4096)..BYTES / 4096 * 4096;
    scene.content[hole.start as usize..hole.end as usize].fill(0);
    let file = File::create(scene.source.join("file")).unwrap();
    for data in [0..hole.start, hole.end..BYTES] {
        file.write_all_at(&scene.content[data.start as usize..data.end as usize], data.start).unwrap();
    }
    let outcome = scene.copy(&ours, &["--verify", "--stats=json"], Changes::Target);
    assert!(outcome.printed().contains("\"repaired\":1"), "{}", outcome.errors());
    assert!(scene.is_right());
    let allocated = fs::metadata(scene.target.join("file")).unwrap().blocks() * 512;
    let data = BYTES.next_multiple_of(4096) - (hole.end - hole.start);
    assert!(allocated <= data + 4096, "{allocated} bytes for {data} bytes of data");
}

#[test]
fn a_byte_that_changes_on_the_source_is_found_by_reading_it_again() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("mkfifo"), needs::loop_mount("ext4"));
    for jobs in ["-j1", "-j2", "-j8"] {
        let found = Scene::new("ext4").copy(&ours, &["--verify=both", jobs], Changes::Source);
        let said = "file' was read twice and differed in bytes 1048576 to 1248576\n";
        assert_eq!(found.status(), Some(1), "{jobs}: {}", found.errors());
        assert!(found.errors().ends_with(said), "{jobs}: {}", found.errors());
        for option in ["--verify", "--verify=stream"] {
            let scene = Scene::new("ext4");
            let outcome = scene.copy(&ours, &[option, jobs], Changes::Source);
            assert!(outcome.succeeded() && outcome.errors().is_empty(), "{option}: {}", outcome.errors());
            assert!(scene.is_right(), "{option} {jobs}");
        }
    }
}

/// Neither the source nor the target is right any more, and nobody knows which was.
#[test]
fn a_piece_whose_source_has_changed_is_not_repaired() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("mkfifo"), needs::loop_mount("ext4"));
    let scene = Scene::new("ext4");
    let outcome = scene.copy_and(&ours, &["--verify", "-j2"], || {
        flip(&scene.target, &scene.content);
        let source = File::options().write(true).open(scene.source.join("file")).unwrap();
        source.write_all_at(b"other bytes", OFFSET).unwrap();
    });
    assert_eq!(outcome.status(), Some(1));
    assert!(outcome.errors().ends_with("file' changed while it was copied\n"), "{}", outcome.errors());
}

/// Somebody writes to the copy before it is verified: an error, and what they wrote stays.
#[test]
fn a_changed_target_is_an_error_and_is_not_repaired() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("mkfifo"), needs::loop_mount("ext4"));
    let scene = Scene::new("ext4");
    let copy = scene.target.join("file");
    for option in ["--verify", "--verify=both", "--verify=stream"] {
        // With `stream` nothing waits, so there is no time to write.
        let outcome = scene.copy_and(&ours, &[option, "-p"], || {
            let file = File::options().write(true).open(&copy).unwrap();
            file.write_all_at(b"other bytes", OFFSET).unwrap();
        });
        let found = fs::read(&copy).unwrap();
        assert_eq!(&found[OFFSET as usize..][..11], b"other bytes", "{option}");
        if option != "--verify=stream" {
            assert_eq!(outcome.status(), Some(1), "{option}");
            assert!(outcome.errors().ends_with("/file', as it was changed\n"), "{}", outcome.errors());
        }
    }
}

/// Somebody replaces the copy before it is verified: an error, and no loop.
#[test]
fn a_replaced_target_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("mkfifo"));
    let sandbox = Sandbox::on_disk().unwrap();
    fs::create_dir(sandbox.join("to")).unwrap();
    fs::write(sandbox.join("file"), "content").unwrap();
    fs::write(sandbox.join("pipe"), "content").unwrap();
    make_fifo(&sandbox.join("to/pipe"));
    let run = ours.run().args(["--look-ahead=1", "-j1", "--verify", "file", "pipe", "to"]);
    let running = run.in_folder(sandbox.path()).within(Duration::from_secs(60)).start().unwrap();
    let copy = sandbox.join("to/file");
    wait_until_open(&running, &sandbox.join("pipe"));
    assert_eq!(fs::read(&copy).unwrap(), b"content");
    fs::write(sandbox.join("other"), "content").unwrap();
    fs::rename(sandbox.join("other"), &copy).unwrap();
    assert_eq!(read_fifo(&sandbox.join("to/pipe")), b"content");
    let outcome = running.finish().unwrap();
    assert_eq!(outcome.status(), Some(1));
    let said = "haul cp: cannot verify 'to/file', as it was replaced\n";
    assert!(outcome.errors().ends_with(said), "{}", outcome.errors());
}

/// Copies whole trees of all sizes and kinds and verifies them.
#[test]
fn verified_trees_are_right() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    let [source, target] = ["source", "target"].map(|name| sandbox.join(name));
    let sizes = [0, 1, 1023, 1024, 1025, 100_000, 1 << 20, (1 << 20) + 1, 5 << 20];
    build(&source, &[&sizes[..], &[2000; 200]].concat(), 1);
    let sparse = File::create(source.join("sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    sparse.write_all_at(&[7; 5000], 9_999_999).unwrap();
    fs::hard_link(source.join("sparse"), source.join("other-name")).unwrap();
    let whole = contents(&source);
    for options in [
        ["-a"].as_slice(),
        &["-a", "--atomic", "--fsync"],
        &["-r", "--sparse=always"],
        &["-r", "--direct"],
        &["-r", "-j8", "--block-size=4K"],
        &["-r", "--engine=io-uring", "--ops=multi"],
        &["-rb", "--if-changed=ignore"],
    ] {
        for option in ["--verify", "--verify=both", "--verify=stream"] {
            let run = ours.run().args(options).args([option, "--stats=json", "-T"]);
            let outcome = run.args([&source, &target]).finish().unwrap();
            assert!(outcome.succeeded(), "{options:?} {option}: {}", outcome.errors());
            let found = contents(&target);
            assert!(whole.iter().all(|(name, content)| found[name] == *content), "{options:?} {option}");
            let names = if options.contains(&"-a") { whole.len() - 1 } else { whole.len() };
            let verified = format!("\"verified\":{names},\"repaired\":0");
            assert!(outcome.printed().contains(&verified), "{options:?} {option}: {}", outcome.printed());
        }
    }
}

#[test]
fn what_cannot_be_verified_is_refused_or_said() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("file"), "content").unwrap();
    let run = |words: &[&str]| ours.run().args(words).in_folder(sandbox.path()).finish().unwrap();
    for option in ["--attributes-only", "--link", "--symbolic-link", "--reflink=always"] {
        let outcome = run(&["--verify", option, "file", "copy"]);
        assert_eq!(outcome.status(), Some(1), "{option}");
        let errors = outcome.errors();
        assert!(errors.contains("--verify") && errors.contains("mutually exclusive"), "{option}: {errors}");
        assert!(!Path::new(&sandbox.join("copy")).exists(), "{option}");
    }
    let outcome = run(&["--verify", "file", "/dev/null"]);
    let said = "haul cp: warning: '/dev/null' is not verified, as it is not a regular file\n";
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), said));
    // The target has a device, and the source hasn't.
    let on_disk = Sandbox::on_disk().unwrap();
    let outcome = run(&["--verify=both", "file", on_disk.join("copy").to_str().unwrap()]);
    assert_eq!(outcome.status(), Some(0));
    assert!(outcome.errors().contains("were verified from memory"), "{}", outcome.errors());
    let outcome = run(&["--verify", "file", "copy"]);
    let said = "haul cp: warning: 'copy' and others were verified from memory: their file system cannot bypass the page cache\n";
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), said));
}

#[test]
fn a_file_of_more_pieces_than_memory_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul());
    for words in [
        ["cp", "--verify=stream"].as_slice(),
        &["cp", "--verify"],
        &["cp", "--verify=both", "--atomic"],
        &["cp", "--manifest=m"],
        &["sync", "--verify"],
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        // 2^33 pieces, of 32 bytes each in memory.
        sandbox.script("mkdir s t; truncate -s 9007199254740993 s/f").unwrap();
        let limit = ["-c", "ulimit -v 16000000; exec \"$@\"", "sh"].map(OsString::from);
        let operands: &[&str] = if words[0] == "cp" { &["s/f", "t"] } else { &["s", "t"] };
        let run = TestRun::new(ours.path()).args(words).args(operands).in_folder(sandbox.path());
        let run = run
            .env("LC_ALL", "C")
            .within(Duration::from_secs(60))
            .behind(Path::new("/bin/sh"), limit.to_vec());
        let outcome = run.finish().unwrap();
        let expected = format!("haul {}: cannot verify 't/f': Cannot allocate memory\n", words[0]);
        assert_eq!((outcome.status(), outcome.errors()), (Some(1), expected), "{words:?}");
        let names = fs::read_dir(sandbox.join("t")).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| name == "f"), "{words:?}");
    }
}
