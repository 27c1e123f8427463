//! Real trees, copied with `-a` by every engine, compared with what GNU cp makes of them.
//!
//! GNU cp copies the tree once; each engine with one worker and with eight copies it again. Bytes, holes, types, modes, owners,
//! nanosecond times, link groups, extended attributes and ACLs must be those of GNU cp's copy, and access times those of the
//! source. The tree of everything goes through all file systems at hand, and from one to another.
//!
//! `HAUL_FULL=1` takes the whole of `/usr` and of the cargo registry instead of a part.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::compare::compare_paths;
use haul_testkit::mount::Mount;
use haul_testkit::program::WAYS;
use haul_testkit::random::Shape;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::snapshot::Kind;
use haul_testkit::{
    Facts, Program, Run, Sandbox, Snapshot, compare, everything, needs, note, program, random, require,
};

/// Copies and says what went wrong.
fn copy(run: Run, sources: &[PathBuf], target: &Path) {
    let outcome = run.arg("-a").arg("--").args(sources).arg(target).finish().unwrap();
    assert!(outcome.succeeded(), "{:?}: {}", outcome.ending, outcome.errors());
    assert_eq!(outcome.errors(), "", "a good copy says nothing");
}

/// Copies `sources` below `work` by GNU cp and in all ways by haul, and compares each copy with GNU cp's.
fn compare_with_gnu(sources: &[PathBuf], work: &Path, what: &str) {
    let (gnu, ours) = (Program::gnu().unwrap(), program!());
    let expected_root = work.join("gnu");
    fs::create_dir(&expected_root).unwrap();
    copy(gnu.run(), sources, &expected_root);
    let expected = Snapshot::take(&expected_root, Facts::PRESERVED).unwrap();
    let facts = Facts::PRESERVED;
    for way in WAYS {
        let target = work.join("ours");
        fs::create_dir(&target).unwrap();
        copy(ours.run_with(&way), sources, &target);
        let found = Snapshot::take(&target, facts).unwrap();
        let mut differences = compare(&expected, &found, facts).unwrap();
        // The target folder itself was made by this test.
        differences.list.retain(|difference| !difference.path.is_empty());
        assert!(differences.is_empty(), "{what} with {way:?}: {differences}");
        remove_tree(&target);
    }
    let bytes: u64 = expected.entries().values().map(|entry| entry.bytes).sum();
    note!(
        "{what}: {} entries, {bytes} bytes, {} ways: identical to GNU cp",
        expected.entries().len(),
        WAYS.len()
    );
    remove_tree(&expected_root);
}

#[test]
fn a_real_tree_of_documents_or_all_of_usr() {
    require!(Program::needs_gnu());
    require!(needs::root());
    let source = Path::new(if needs::is_full_run() { "/usr" } else { "/usr/share/doc" });
    if !source.is_dir() {
        haul_testkit::skip!("needs {}", source.display());
    }
    let work = Sandbox::on_disk().unwrap();
    compare_with_gnu(&[source.to_owned()], work.path(), &source.display().to_string());
}

#[test]
fn a_cargo_registry() {
    require!(Program::needs_gnu());
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.map(|home| home.join("registry/src")).filter(|sources| sources.is_dir());
    let Some(sources) = sources else { haul_testkit::skip!("needs a cargo registry") };
    let mut crates: Vec<PathBuf> = Vec::new();
    for index in fs::read_dir(&sources).unwrap() {
        crates.extend(fs::read_dir(index.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()));
    }
    crates.sort();
    // Crate folders are operands of their own, so that many sources in one run are tried as well.
    if !needs::is_full_run() {
        crates.truncate(40);
    }
    if crates.is_empty() {
        haul_testkit::skip!("needs a cargo registry with crates in it");
    }
    let work = Sandbox::on_disk().unwrap();
    compare_with_gnu(&crates, work.path(), "a cargo registry");
}

/// Builds the tree of everything and random trees below `source`, and proves that the file system took what they are about.
fn build_everything(source: &Path) {
    everything::spec().build(&source.join("everything")).unwrap();
    for seed in 1..=4 {
        random::tree(seed, Shape::default()).build(&source.join(format!("random-{seed}"))).unwrap();
    }
    let snapshot = Snapshot::take(source, Facts::all()).unwrap();
    let count = |fact: &dyn Fn(&haul_testkit::snapshot::Entry) -> bool| {
        snapshot.entries().values().filter(|entry| fact(entry)).count()
    };
    assert!(count(&|entry| entry.attributes.contains_key(everything::ACCESS_ACL.as_bytes())) > 0, "no ACL");
    assert!(count(&|entry| entry.attributes.contains_key(b"user.plain".as_slice())) > 0, "no attribute");
    assert!(count(&|entry| entry.extents.len() > 2) > 0, "no sparse file");
    assert!(count(&|entry| entry.kind == Kind::BlockDevice) > 0, "no device");
    assert!(count(&|entry| entry.group.is_some()) > 10, "no hard links");
}

fn everything_on(work: &Path, what: &str) {
    let source = work.join("source");
    fs::create_dir(&source).unwrap();
    build_everything(&source);
    compare_with_gnu(std::slice::from_ref(&source), work, what);
    same_access_times(&source, work);
}

/// The copies of files have the access times that the source had before it was read.
fn same_access_times(source: &Path, work: &Path) {
    let facts = Facts::ACCESSED | Facts::MODIFIED;
    for way in &WAYS[..3] {
        // Copying reads the source, which may change its access times: look before each copy.
        let before = Snapshot::take(source, facts).unwrap();
        let target = work.join("timed");
        copy(program!().run_with(way), &[source.to_owned()], &target);
        let found = Snapshot::take(&target, facts).unwrap();
        let differences = compare(&before, &found, facts).unwrap();
        assert!(differences.is_empty(), "access times with {way:?}: {differences}");
        remove_tree(&target);
    }
}

#[test]
fn everything_on_the_root_file_system() {
    require!(Program::needs_gnu());
    require!(needs::root());
    everything_on(Sandbox::on_disk().unwrap().path(), "everything on the root file system");
}

#[test]
fn everything_in_memory() {
    require!(Program::needs_gnu());
    require!(needs::root());
    let mount = Mount::memory(256 << 20).unwrap();
    everything_on(mount.path(), "everything on tmpfs");
}

#[test]
fn everything_on_ext4() {
    require!(Program::needs_gnu());
    require!(needs::loop_mount("ext4"));
    let mount = Mount::image("ext4", 256 << 20).unwrap();
    everything_on(mount.path(), "everything on ext4");
}

#[test]
fn everything_on_xfs() {
    require!(Program::needs_gnu());
    require!(needs::loop_mount("xfs"));
    let mount = Mount::image("xfs", 400 << 20).unwrap();
    everything_on(mount.path(), "everything on xfs");
}

#[test]
fn everything_on_btrfs() {
    require!(Program::needs_gnu());
    require!(needs::loop_mount("btrfs"));
    let mount = Mount::image("btrfs", 400 << 20).unwrap();
    everything_on(mount.path(), "everything on btrfs");
}

#[test]
fn everything_from_one_file_system_to_another() {
    require!(Program::needs_gnu());
    require!(needs::loop_mount("ext4"));
    require!(needs::loop_mount("xfs"));
    let (from, to) = (Mount::image("ext4", 256 << 20).unwrap(), Mount::image("xfs", 400 << 20).unwrap());
    let source = from.join("source");
    fs::create_dir(&source).unwrap();
    build_everything(&source);
    compare_with_gnu(&[source], to.path(), "everything from ext4 to xfs");
}

#[test]
fn a_second_copy_onto_the_first_changes_nothing() {
    require!(needs::root());
    let work = Sandbox::in_memory().unwrap();
    let (source, target) = (work.join("source"), work.join("target"));
    everything::spec().build(&source).unwrap();
    let ours = program!();
    for way in WAYS {
        copy(ours.run_with(&way).arg("-T"), std::slice::from_ref(&source), &target);
        let differences = compare_paths(&source, &target, Facts::PRESERVED).unwrap();
        assert!(differences.is_empty(), "{way:?}: {differences}");
    }
}
