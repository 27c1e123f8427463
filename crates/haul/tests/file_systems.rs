//! What the library does by itself depends on the file system: sharing blocks, copying in the
//! kernel, storing attributes. The command's options don't come into it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use haul::flow::Alone;
use haul::options::{CopyRequest, DigestSink, IfChanged, Operands, Reflink, Sparse, Verify};
use haul::{CancelToken, Config, Copy, CopyKind, CopyOptions, Error, FlowKind, Summary, Sync};
use haul_testkit::mount::Mount;
use haul_testkit::{needs, record_skip, require};

/// Sizes of the files of a tree: the last are copied inside the kernel where that is possible.
const SIZES: [usize; 3] = [2000, 300 << 10, 30 << 20];

/// Calls `check` with an empty directory on each file system that copies in its own way.
fn on_each_file_system(check: impl Fn(&str, &Path)) {
    require!(needs::root());
    check("tmpfs", Mount::memory(256 << 20).unwrap().path());
    for file_system in ["ext4", "xfs", "btrfs"] {
        if let Some(reason) = needs::loop_mount(file_system) {
            record_skip!("{reason}");
            continue;
        }
        check(file_system, Mount::image(file_system, 400 << 20).unwrap().path());
    }
}

/// Makes a tree whose files have blocks that differ. Returns the source and the target.
fn tree(folder: &Path) -> [PathBuf; 2] {
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    for size in SIZES {
        let content: Vec<u8> = (0..size as u64 / 8 + 1).flat_map(u64::to_le_bytes).take(size).collect();
        fs::write(source.join(size.to_string()), content).unwrap();
    }
    [source, folder.join("target")]
}

fn assert_same(source: &Path, target: &Path) {
    let compared = Command::new("diff").arg("-r").args([source, target]).output().unwrap();
    assert!(compared.status.success(), "{compared:?}");
}

#[test]
fn correct_copies_are_verified_on_every_file_system() {
    on_each_file_system(|file_system, folder| {
        let [source, target] = tree(folder);
        for verify in [Verify::Stream, Verify::Target, Verify::Both] {
            let change = |options: &mut CopyOptions| {
                (options.verify, options.if_changed) = (verify, IfChanged::Retry(3));
            };
            let copy = || Copy::exactly(&source, &target).recursive().options(change).run();
            let sync = || Sync::new(&source, &target).options(change).run();
            for run in [&copy as &dyn Fn() -> Result<Summary, Error>, &sync] {
                let summary = run().unwrap_or_else(|error| panic!("{file_system}, {verify:?}: {error:?}"));
                assert_eq!(summary.tally.verified, SIZES.len() as u64, "{file_system}, {verify:?}");
                assert_same(&source, &target);
                fs::remove_dir_all(&target).unwrap();
            }
        }
    });
}

#[test]
fn files_are_hashed_on_every_file_system() {
    on_each_file_system(|file_system, folder| {
        let [source, target] = tree(folder);
        let found = Arc::new(Mutex::new(Vec::new()));
        let receiver = Arc::clone(&found);
        let sink = DigestSink::new(move |file| receiver.lock().unwrap().push((file.size, file.digest)));
        let names = [&source, &target].map(|path| haul_sys::c_string(path.to_str().unwrap().as_bytes()));
        let request = CopyRequest {
            operands: &Operands { names: names.into(), ..Operands::default() },
            options: &CopyOptions { recursive: true, ..CopyOptions::default() },
            config: &Config::default(),
            cancel: &CancelToken::default(),
            digests: Some(&sink),
            journal: None,
            deletion: None,
        };
        haul::options::run(&Alone, request, &Quiet).unwrap();
        let mut found = std::mem::take(&mut *found.lock().unwrap());
        found.sort_unstable_by_key(|(size, _)| *size);
        let wanted = SIZES.map(|size| {
            let content = fs::read(source.join(size.to_string())).unwrap();
            let mut hash = haul_digest::StreamHash::new(haul_digest::Algorithm::Blake3);
            hash.insert(0, &content).unwrap();
            (size as u64, hash.finish(size as u64).unwrap())
        });
        assert_eq!(found, wanted, "{file_system}");
    });
}

/// Reports nothing.
struct Quiet;

impl haul::Reporter for Quiet {
    fn count(&self, _: haul::Tally) {}
    fn problem(&self, problem: haul::Problem) {
        panic!("{problem}");
    }
    fn line(&self, _: haul::flow::OutputLine) {}
    fn output(&self, _: haul::flow::Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

#[test]
fn a_copy_without_holes_has_none_on_any_file_system() {
    on_each_file_system(|file_system, folder| {
        let [source, target] = [folder.join("source"), folder.join("target")];
        let file = File::create(&source).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_at(b"end", (1 << 20) - 3).unwrap();
        file.sync_all().unwrap();
        Copy::new(&source, &target).options(|options| options.sparse = Sparse::Never).run().unwrap();
        File::open(&target).unwrap().sync_all().unwrap();
        assert!(fs::metadata(&target).unwrap().blocks() * 512 >= 1 << 20, "{file_system}");
    });
}

#[test]
fn options_that_leave_nothing_to_verify_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [source, target] = tree(folder.path());
    let shares = |options: &mut CopyOptions| {
        (options.verify, options.reflink) = (Verify::Target, Reflink::Always);
    };
    let copied = Copy::new(&source, &target).recursive().options(shares).run();
    for refused in [copied, Sync::new(&source, &target).options(shares).run()] {
        let Err(Error::NotStarted(problem)) = refused else { panic!("{refused:?}") };
        assert_eq!(problem.kind, CopyKind::Conflict);
        assert_eq!(problem.to_string(), "options --verify and --reflink=always are mutually exclusive");
    }
    assert!(!target.exists());
}

#[test]
fn lost_attributes_are_reported_once() {
    require!(needs::root());
    let folder = tempfile::tempdir().unwrap();
    let [source, _] = tree(folder.path());
    for size in SIZES {
        let file = source.join(size.to_string());
        let set = Command::new("setfattr").args(["-n", "user.test", "-v", "1"]).arg(file).status();
        assert!(set.unwrap().success());
    }
    let mount = Mount::without_attributes().unwrap();
    let summary = Copy::new(&source, mount.join("target")).recursive().preserve_all().run().unwrap();
    let [problem] = summary.problems.as_slice() else { panic!("{summary:?}") };
    assert_eq!(problem.kind, CopyKind::XattrsLost);
    // As with cp, nobody asked for them.
    let summary = Copy::new(&source, mount.join("other")).recursive().run().unwrap();
    assert!(summary.problems.is_empty(), "{summary:?}");
}

#[test]
fn no_part_of_a_large_file_stays_in_a_tree() {
    require!(needs::root());
    let folder = tempfile::tempdir().unwrap();
    let [source, _] = tree(folder.path());
    let mount = Mount::memory(8 << 20).unwrap();
    let target = mount.join("target");
    let Err(Error::Incomplete(summary)) = Copy::new(&source, &target).recursive().run() else {
        panic!("there is room")
    };
    let [problem] = summary.problems.as_slice() else { panic!("{summary:?}") };
    assert_eq!(problem.kind, FlowKind::ErrorWriting);
    assert!(!target.join(SIZES[2].to_string()).exists() && target.join(SIZES[0].to_string()).exists());
}
