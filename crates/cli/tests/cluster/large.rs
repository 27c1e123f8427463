//! Files split into ranges that several processes copy.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::aliases;
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::spec::{self, EntrySpec, PieceSpec, Spec};
use haul_testkit::standin::{self, Standin};
use haul_testkit::{
    Facts, RunOutcome, Sandbox, Snapshot, cold, compare, needs, program, random, require, tests, wait,
};

use crate::start::{Way, library, script};

const RANGE: &str = "--range-size=64K";
const RANGE_BYTES: u64 = 64 << 10;

const LIMIT: Duration = Duration::from_secs(60);

/// Builds files of about two ranges and of many, with holes and zeros, and one hard link.
fn build(root: &Path) {
    let sizes = [2 * RANGE_BYTES - 1, 2 * RANGE_BYTES, 2 * RANGE_BYTES + 1, 1_000_000, 5_000_001];
    let mut nodes: Vec<_> = sizes
        .iter()
        .zip(1..)
        .map(|(bytes, seed)| {
            EntrySpec::file(0, format!("size-{bytes}"), seed, *bytes).mode(0o640).owner(3, 4)
        })
        .collect();
    let data = |bytes| PieceSpec::Data { seed: 9, bytes };
    let pieces =
        |name: &str, pieces: &[PieceSpec]| EntrySpec::new(0, name, spec::SpecKind::File(pieces.to_vec()));
    nodes.push(pieces(
        "holes",
        &[data(300_000), PieceSpec::Hole(1 << 20), data(300_000), PieceSpec::Hole(1 << 20)],
    ));
    nodes.push(pieces("zeros", &[data(300_000), PieceSpec::Zeros(600_000), data(7)]));
    nodes.push(EntrySpec::file(0, "attributes", 6, 700_000).attribute("user.plain", "value").mode(0o4755));
    nodes.push(EntrySpec::new(0, "twin", spec::SpecKind::HardLink(3)));
    Spec { nodes }.build(root).unwrap();
}

fn assert_same(expected: &Path, found: &Path, facts: Facts, what: &str) {
    let [expected, found] = [expected, found].map(|root| Snapshot::take(root, facts).unwrap());
    let differences = compare(&expected, &found, facts).unwrap();
    assert!(differences.is_empty(), "{what}: {differences}");
}

/// Copies with teams under several option sets, to a new target and onto an existing copy.
fn teams_make_the_same_copy(kind: MpiKind) {
    require!(needs::root(), kind.needed(), program!().needs_haul());
    let mpi = Mpi::find(kind).unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    build(&sandbox.join("from"));
    let copy = script(&sandbox, &mpi, Way::Clients(3), &[RANGE, "--debug"]);
    let plain = Facts::CONTENT | Facts::HOLES | Facts::MODE;
    let lines: [(&[&str], Facts); 5] = [
        (&["-a"], Facts::PRESERVED),
        (&["-r"], plain),
        (&["-r", "--sparse=always"], plain),
        (&["-r", "--reflink=never"], plain),
        (&["-r", "-j1", "--block-size=4K"], plain),
    ];
    for (number, (options, facts)) in lines.into_iter().enumerate() {
        for again in [false, true] {
            let what = format!("{} {options:?} again: {again}", kind.name());
            let run = |program: &haul_testkit::CopyProgram, to: &str| -> RunOutcome {
                let run = program.run().args(options).args(["-T", "from", to]).in_folder(sandbox.path());
                let outcome = run.umask(0o022).within(LIMIT).finish().unwrap();
                assert!(outcome.succeeded(), "{what}: {}", outcome.errors());
                outcome
            };
            let (alone, to) = (format!("alone-{number}"), format!("to-{number}"));
            run(&program!(), &alone);
            let told = run(&copy, &to).errors();
            // Files whose holes are searched for have no team; each other large file has one.
            let teams = told.lines().filter(|line| line.contains(": a team of ")).count();
            assert!(teams >= 5, "{what}: {told}");
            assert_same(&sandbox.join(alone), &sandbox.join(to), facts, &what);
        }
    }
}

tests! {
    teams_make_the_same_copy_as_one_process => teams_make_the_same_copy(MpiKind::OpenMpi4);
    teams_under_mpich_make_the_same_copy_as_one_process => teams_make_the_same_copy(MpiKind::Mpich4);
}

/// True if a temporary file in a directory already has data.
fn is_begun(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let provisional = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".haul-");
    entries.filter(provisional).any(|entry| {
        // Skip the empty token file that shows whether all ranks see the same directory.
        entry.metadata().is_ok_and(|found| found.size() > 0)
    })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Setup for large files on the stand-in, whose client may be rate-limited.
struct Scene {
    mpi: Mpi,
    standin: Standin,
    sandbox: Sandbox,
}

/// Creates a scene, or skips the test.
macro_rules! scene {
    ($($rate:literal)?) => {{
        require!(standin::needed(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
        Scene {
            mpi: Mpi::find(MpiKind::OpenMpi4).unwrap(),
            standin: Standin::start(1, &[$($rate)?]).unwrap(),
            sandbox: Sandbox::in_memory().unwrap(),
        }
    }};
}

/// Changes a source during a rate-limited copy; the copy must fail and leave nothing.
fn a_source_that_changes(options: &[&str], change: impl Fn(&Path)) {
    let Scene { mpi, standin, sandbox } = scene!("--client-rate=8MB");
    let source = standin.client(0).join("large");
    for (seed, path) in [(1, &source), (2, &other(&source))] {
        fs::write(path, random::bytes(seed, 12_000_000)).unwrap();
        // Just written, it is cached, and would be copied in no time.
        cold::make(path).unwrap();
    }
    let to = sandbox.join("to");
    fs::create_dir(&to).unwrap();
    let copy = script(&sandbox, &mpi, Way::Clients(3), &[RANGE]);
    let running = copy.run().args(options).arg(&source).arg(&to).within(LIMIT).start().unwrap();
    assert!(wait::until(LIMIT, || is_begun(&to)), "the copy does not begin");
    change(&source);
    let outcome = running.finish().unwrap();
    let (told, left) = (outcome.errors(), names(&to));
    assert_eq!(outcome.status(), Some(1), "{told} {left:?}");
    assert!(told.contains("large'"), "{told}");
    assert!(left.is_empty(), "{left:?}: {told}");
}

fn shrink(source: &Path) {
    File::options().write(true).open(source).unwrap().set_len(1_000_000).unwrap();
}

/// Path of another file of the same length, beside the source.
fn other(source: &Path) -> PathBuf {
    source.with_extension("other")
}

fn replace(source: &Path) {
    fs::rename(other(source), source).unwrap();
}

tests! {
    a_source_that_shrinks_leaves_no_copy => a_source_that_changes(&[], shrink);
    a_source_that_shrinks_leaves_no_copy_with_its_attributes => a_source_that_changes(&["-p"], shrink);
    a_source_that_is_replaced_leaves_no_copy => a_source_that_changes(&["-p"], replace);
}

/// Every write to a temporary file fails: no copy remains. Without the fault, a rerun succeeds.
#[test]
fn an_error_in_one_range_leaves_no_copy() {
    let Scene { mpi, standin, sandbox } = scene!();
    let from = sandbox.join("from");
    fs::create_dir(&from).unwrap();
    for name in ["bad", "good"] {
        fs::write(from.join(name), random::bytes(1, 3_000_000)).unwrap();
    }
    for (number, options) in [&["-r"][..], &["-rp"]].into_iter().enumerate() {
        // The temporary name isn't known beforehand, so the fault matches any.
        let to = standin.client(0).join(format!("to-{number}"));
        fs::create_dir(&to).unwrap();
        let copy = script(&sandbox, &mpi, Way::Clients(3), &[RANGE]);
        standin.fail("* write .haul- EIO").unwrap();
        let run = copy.run().args(options).arg("-T").arg(&from).arg(&to).within(LIMIT);
        let outcome = run.finish().unwrap();
        standin.fail("").unwrap();
        let (told, left) = (outcome.errors(), names(&to));
        assert_eq!(outcome.status(), Some(1), "{told}");
        assert!(told.contains("Input/output error"), "{told}");
        assert!(left.is_empty(), "{left:?}: {told}");
        let run = copy.run().args(options).arg("-T").arg(&from).arg(&to).within(LIMIT);
        run.succeed().unwrap();
        assert_same(&from, &to, Facts::CONTENT, "after the error");
    }
}

/// Reads of one of two files fail midway; only the other is copied.
#[test]
fn a_source_that_cannot_be_read_in_the_middle_leaves_no_copy() {
    let Scene { mpi, standin, sandbox } = scene!("--client-rate=8MB");
    let from = standin.client(0).join("from");
    fs::create_dir(&from).unwrap();
    for name in ["bad", "good"] {
        File::create(from.join(name)).unwrap().write_all_at(&random::bytes(3, 6_000_000), 0).unwrap();
    }
    for (number, options) in [&["-r"][..], &["-rp"]].into_iter().enumerate() {
        let to = sandbox.join(format!("to-{number}"));
        let copy = script(&sandbox, &mpi, Way::Clients(3), &[RANGE, &library(&mpi)]);
        let run = copy.run().args(options).arg("-T").arg(&from).arg(&to).within(LIMIT);
        let running = run.start().unwrap();
        assert!(wait::until(LIMIT, || is_begun(&to)), "the copy does not begin");
        standin.fail("* read bad EIO").unwrap();
        let outcome = running.finish().unwrap();
        standin.fail("").unwrap();
        let told = outcome.errors();
        assert_eq!((outcome.status(), names(&to)), (Some(1), vec!["good".to_owned()]), "{told}");
        assert!(told.contains("bad': Input/output error"), "{told}");
    }
}

/// With a full target, many ranges of one file fail, and more because the file is then gone: it is
/// reported once.
#[test]
fn a_large_file_without_room_is_reported_once() {
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    let node = |name: &str, seed, bytes| EntrySpec::file(0, name, seed, bytes);
    // An empty file needs no space, so it is copied whenever its turn comes.
    Spec { nodes: vec![node("large", 1, 9_000_000), node("empty", 2, 0)] }
        .build(&sandbox.join("from"))
        .unwrap();
    for (options, journal) in [("-r", ""), ("-a", ""), ("-r", "--journal=journal")] {
        let full = haul_testkit::mount::Mount::memory(3 << 20).unwrap();
        let copy = script(&sandbox, &mpi, Way::Clients(3), &[RANGE, journal]);
        let run = copy.run().args([options, "-T", "from"]).arg(full.join("to")).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        assert_eq!(outcome.status(), Some(1), "{options}");
        let told: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
        let about: Vec<_> = told.iter().filter(|line| line.contains("large")).collect();
        assert!(about.len() == 1 && about[0].contains("No space left on device"), "{options}: {told:?}");
        assert!(!told.iter().any(|line| line.contains("No such file")), "{options}: {told:?}");
        let left: Vec<_> =
            fs::read_dir(full.join("to")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["empty"], "{options}");
    }
}

#[test]
fn targets_that_are_one_file_get_the_content_of_one_source() {
    let kind = MpiKind::OpenMpi4;
    require!(needs::root(), kind.needed(), program!().needs_haul());
    let mpi = Mpi::find(kind).unwrap();
    let sandbox = Sandbox::on_disk().unwrap();
    for options in [&[][..], &["--walk=ranks"], &[RANGE], &["--direct", "-j4"], &["--preserve=all"]] {
        aliases::build(sandbox.path()).unwrap();
        let copy = script(&sandbox, &mpi, Way::Clients(3), options);
        let run = copy.run().args(["-r", "s", "t"]).in_folder(sandbox.path()).within(LIMIT);
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert_eq!(aliases::mixed(sandbox.path()).unwrap(), [""; 0], "{options:?}");
    }
}
