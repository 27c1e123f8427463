//! Real trees, copied with `-a` by every engine and compared with GNU cp's copies.
//!
//! GNU cp copies the tree once, then each engine copies it with one worker and with eight. Bytes,
//! holes, types, modes, owners, nanosecond times, hard links, extended attributes and ACLs must
//! equal those of GNU cp's copy, and access times those of the source. The tree of everything is
//! copied on each available filesystem, and from one to another: by every engine with every kind of
//! operation, buffered and with direct I/O, and with each switch.
//!
//! `HAUL_FULL=1` copies all of `/usr` and of the cargo registry instead of a part, and uses every
//! option set on every filesystem. Otherwise each filesystem gets a different third of them, and
//! ext4 gets all.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::compare::compare_paths;
use haul_testkit::mount::Mount;
use haul_testkit::program::{WAYS, each_engine, matrix};
use haul_testkit::random_tree::RandomTreeLimits;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::snapshot::SnapshotKind;
use haul_testkit::{
    CopyProgram, Facts, Sandbox, Snapshot, TestRun, compare, everything, needs, note, program, random_tree,
    require, tests,
};

/// Copies, and asserts success without any message.
fn copy(run: TestRun, sources: &[PathBuf], target: &Path) {
    let outcome = run.arg("-a").arg("--").args(sources).arg(target).finish().unwrap();
    assert!(outcome.succeeded(), "{:?}: {}", outcome.ending, outcome.errors());
    assert_eq!(outcome.errors(), "", "a good copy says nothing");
}

/// Options that change how a copy is made, but not its result.
const SWITCHES: [&[&str]; 12] = [
    &["--drop-cache"],
    &["--drop-cache", "--ops=multi", "--engine=kernel-aio", "--block-size=16K", "--reflink=never"],
    &["--drop-cache", "--ops=batch", "--engine=io-uring", "--block-size=16K", "--reflink=never"],
    &["--fallocate"],
    &["--fallocate", "--ops=multi", "--engine=posix-aio", "--reflink=never"],
    &["--no-fallocate", "--no-readahead"],
    &["--no-advise"],
    &["--no-directory-first", "--no-inode-order"],
    &["--engine=io-uring", "--registered-buffers", "--reflink=never"],
    &["--engine=io-uring", "--direct-descriptors", "--reflink=never"],
    &[
        "--engine=io-uring",
        "--registered-buffers",
        "--direct-descriptors",
        "--direct",
        "--ops=multi",
        "--reflink=never",
    ],
    &["--direct", "--drop-cache", "--fallocate", "--no-readahead", "--no-advise", "--block-size=1M"],
];

type Way = Vec<&'static str>;

/// The usual option sets, and each engine.
fn usual_ways() -> Vec<Way> {
    WAYS.iter().map(|way| way.to_vec()).chain(each_engine().into_iter().skip(2)).collect()
}

/// Every engine with every kind of operation, buffered and with direct I/O, plus the switches: all
/// of them, or a third.
///
/// Reflinks and copies in the kernel are off, or the engines would have nothing to do.
fn every_way(part: Option<usize>) -> Vec<Way> {
    let buffered = matrix().into_iter().map(|way| [&way[..], &["--reflink=never"]].concat());
    let direct = matrix().into_iter().map(|way| [&way[..], &["--reflink=never", "--direct"]].concat());
    let switched = SWITCHES.iter().map(|way| way.to_vec());
    let ways = buffered.chain(direct).chain(switched).enumerate();
    let chosen = ways.filter(|(index, _)| part.is_none_or(|part| needs::is_full_run() || index % 3 == part));
    usual_ways().into_iter().chain(chosen.map(|(_, way)| way)).collect()
}

/// Copies `sources` into `work` with GNU cp, and with haul under each set of options, and compares
/// the copies.
fn compare_with_gnu(sources: &[PathBuf], work: &Path, ways: &[Way], what: &str) {
    const COPIED: &str = "--reflink=never";
    // Shared blocks keep the source's holes; otherwise holes are made from its zeros. So the two
    // groups need separate references.
    let (copied, shared): (Vec<&Way>, Vec<&Way>) = ways.iter().partition(|way| way.contains(&COPIED));
    for (ways, options) in [(shared, &[][..]), (copied, &[COPIED])] {
        if !ways.is_empty() {
            compare_with_gnus(sources, work, &ways, options, what);
        }
    }
}

/// Like [`compare_with_gnu`], with these options for GNU cp.
fn compare_with_gnus(sources: &[PathBuf], work: &Path, ways: &[&Way], options: &[&str], what: &str) {
    let (gnu, ours) = (CopyProgram::gnu().unwrap(), program!());
    let expected_root = work.join("gnu");
    fs::create_dir(&expected_root).unwrap();
    copy(gnu.run().args(options), sources, &expected_root);
    let expected = Snapshot::take(&expected_root, Facts::PRESERVED).unwrap();
    let facts = Facts::PRESERVED;
    for way in ways {
        let target = work.join("ours");
        fs::create_dir(&target).unwrap();
        copy(ours.run_with(way), sources, &target);
        let found = Snapshot::take(&target, facts).unwrap();
        let mut differences = compare(&expected, &found, facts).unwrap();
        // This test created the target directory itself.
        differences.list.retain(|difference| !difference.path.is_empty());
        assert!(differences.is_empty(), "{what} with {way:?}: {differences}");
        remove_tree(&target);
    }
    let bytes: u64 = expected.entries().values().map(|entry| entry.bytes).sum();
    note!(
        "{what}: {} entries, {bytes} bytes, {} ways: identical to GNU cp {}",
        expected.entries().len(),
        ways.len(),
        options.join(" ")
    );
    remove_tree(&expected_root);
}

#[test]
fn a_real_tree_of_documents_or_all_of_usr() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let source = Path::new(if needs::is_full_run() { "/usr" } else { "/usr/share/doc" });
    if !source.is_dir() {
        haul_testkit::skip!("needs {}", source.display());
    }
    let work = Sandbox::on_disk().unwrap();
    compare_with_gnu(&[source.to_owned()], work.path(), &usual_ways(), &source.display().to_string());
}

#[test]
fn a_cargo_registry() {
    require!(CopyProgram::needs_gnu());
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.map(|home| home.join("registry/src")).filter(|sources| sources.is_dir());
    let Some(sources) = sources else { haul_testkit::skip!("needs a cargo registry") };
    let mut crates: Vec<PathBuf> = Vec::new();
    for index in fs::read_dir(&sources).unwrap() {
        crates.extend(fs::read_dir(index.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()));
    }
    crates.sort();
    // Each crate is an operand of its own, which also covers many sources in one run.
    if !needs::is_full_run() {
        crates.truncate(40);
    }
    if crates.is_empty() {
        haul_testkit::skip!("needs a cargo registry with crates in it");
    }
    let work = Sandbox::on_disk().unwrap();
    compare_with_gnu(&crates, work.path(), &usual_ways(), "a cargo registry");
}

/// Builds the tree of everything and random trees, and asserts that the filesystem stored what they
/// are about.
fn build_everything(source: &Path) {
    everything::spec().build(&source.join("everything")).unwrap();
    for seed in 1..=4 {
        random_tree::tree(seed, RandomTreeLimits::default())
            .build(&source.join(format!("random-{seed}")))
            .unwrap();
    }
    let snapshot = Snapshot::take(source, Facts::all()).unwrap();
    let count = |fact: &dyn Fn(&haul_testkit::snapshot::SnapshotEntry) -> bool| {
        snapshot.entries().values().filter(|entry| fact(entry)).count()
    };
    assert!(count(&|entry| entry.attributes.contains_key(everything::ACCESS_ACL.as_bytes())) > 0, "no ACL");
    assert!(count(&|entry| entry.attributes.contains_key(b"user.plain".as_slice())) > 0, "no attribute");
    assert!(count(&|entry| entry.extents.len() > 2) > 0, "no sparse file");
    assert!(count(&|entry| entry.kind == SnapshotKind::BlockDevice) > 0, "no device");
    assert!(count(&|entry| entry.group.is_some()) > 10, "no hard links");
}

fn everything_on(work: &Path, part: Option<usize>, what: &str) {
    let source = work.join("source");
    fs::create_dir(&source).unwrap();
    build_everything(&source);
    compare_with_gnu(std::slice::from_ref(&source), work, &every_way(part), what);
    same_access_times(&source, work);
}

/// Asserts that copied files have the access times that the source had before the copy.
fn same_access_times(source: &Path, work: &Path) {
    let facts = Facts::ACCESSED | Facts::MODIFIED;
    let past_the_cache =
        each_engine().into_iter().map(|way| [&way[..], &["--direct", "--reflink=never"]].concat());
    for way in WAYS[..2].iter().map(|way| way.to_vec()).chain(each_engine()).chain(past_the_cache) {
        // Copying reads the source, which may update its access times, so take them before
        // each copy.
        let before = Snapshot::take(source, facts).unwrap();
        let target = work.join("timed");
        copy(program!().run_with(&way), &[source.to_owned()], &target);
        let found = Snapshot::take(&target, facts).unwrap();
        let differences = compare(&before, &found, facts).unwrap();
        assert!(differences.is_empty(), "access times with {way:?}: {differences}");
        remove_tree(&target);
    }
}

#[test]
fn everything_on_the_root_file_system() {
    require!(CopyProgram::needs_gnu(), needs::root());
    everything_on(Sandbox::on_disk().unwrap().path(), Some(0), "everything on the root file system");
}

#[test]
fn everything_in_memory() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let mount = Mount::memory(256 << 20).unwrap();
    everything_on(mount.path(), Some(1), "everything on tmpfs");
}

fn everything_on_image(file_system: &str, mebibytes: u64, part: Option<usize>) {
    require!(CopyProgram::needs_gnu(), needs::loop_mount(file_system));
    let mount = Mount::image(file_system, mebibytes << 20).unwrap();
    everything_on(mount.path(), part, &format!("everything on {file_system}"));
}

tests! {
    everything_on_ext4 => everything_on_image("ext4", 256, None);
    everything_on_xfs => everything_on_image("xfs", 400, Some(2));
    everything_on_btrfs => everything_on_image("btrfs", 400, Some(0));
}

#[test]
fn everything_from_one_file_system_to_another() {
    require!(CopyProgram::needs_gnu(), needs::loop_mount("ext4"), needs::loop_mount("xfs"));
    let (from, to) = (Mount::image("ext4", 256 << 20).unwrap(), Mount::image("xfs", 400 << 20).unwrap());
    let source = from.join("source");
    fs::create_dir(&source).unwrap();
    build_everything(&source);
    compare_with_gnu(&[source], to.path(), &every_way(Some(1)), "everything from ext4 to xfs");
}

#[test]
fn a_second_copy_onto_the_first_changes_nothing() {
    require!(needs::root());
    let work = Sandbox::in_memory().unwrap();
    let (source, target) = (work.join("source"), work.join("target"));
    everything::spec().build(&source).unwrap();
    let ours = program!();
    for way in every_way(Some(2)) {
        copy(ours.run_with(&way).arg("-T"), std::slice::from_ref(&source), &target);
        let differences = compare_paths(&source, &target, Facts::PRESERVED).unwrap();
        assert!(differences.is_empty(), "{way:?}: {differences}");
    }
}
