//! `--verify` and `--manifest` with ranks: the hashes are those of the sources for any number of
//! ranks and any ranges, wrong bytes on the target are found by the rank that wrote them, and a
//! lost rank's work is verified by another.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_digest::Algorithm;
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::program::each_engine;
use haul_testkit::random::{self, Rng, seeded};
use haul_testkit::standin::{self, Standin};
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, cold, needs, note, program, require, tests, wait};

use crate::kills::{FILES, Scene, Victim, describe, kill, of_full};
use crate::start::{Way, relatives, script};

/// A file of two of these or more is split. Ranges are rounded up to whole pieces of 1 MiB.
const RANGE: &str = "--range-size=64K";

const PIECE: u64 = 1 << 20;

const LIMIT: Duration = Duration::from_secs(60);

/// Sizes of the files that are split.
const LARGE: [u64; 5] = [300_000, PIECE, PIECE + 1, 5_000_001, 9 * PIECE];

/// Builds small files, files that are split, one that ends in zeros, and one with holes.
fn build(root: &Path) {
    fs::create_dir_all(root.join("below")).unwrap();
    for (seed, bytes) in [0, 1, 1023, 1024, 1025, 100_000].into_iter().chain(LARGE).enumerate() {
        let path = root.join(if seed % 2 == 0 { "below" } else { "." }).join(format!("file-{bytes}"));
        fs::write(path, random::bytes(seed as u64, bytes)).unwrap();
    }
    let mut zeros = random::bytes(99, 3_000_000);
    zeros.resize(5_500_000, 0);
    fs::write(root.join("zeros"), zeros).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(4_000_000).unwrap();
    sparse.write_all_at(&random::bytes(98, 70_000), 2_000_000).unwrap();
}

/// Returns the regular files below a directory, by their path from there.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path();
                found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Returns the hashes in a manifest, by path. No path is there twice.
fn listed(manifest: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(manifest).unwrap();
    let mut listed = BTreeMap::new();
    for line in text.lines() {
        let (hash, path) = line.split_once("  ").unwrap();
        let before = listed.insert(path.to_owned(), hash.to_owned());
        assert_eq!(before, None, "{path} is listed twice");
    }
    listed
}

/// Returns what a manifest of copies below `to` must list.
fn expected(source: &Path, to: &str, algorithm: Algorithm) -> BTreeMap<String, String> {
    let entry = |(path, content): (PathBuf, Vec<u8>)| {
        (format!("{to}/{}", path.display()), algorithm.hash(&content).to_string())
    };
    files(source).into_iter().map(entry).collect()
}

/// Counts the files that ranks shared, in the output of `--debug`.
fn teams(outcome: &RunOutcome) -> usize {
    let errors = outcome.errors();
    let teams = errors.lines().filter_map(|line| line.split_once(": a team of ")).map(|(file, _)| file);
    teams.collect::<std::collections::BTreeSet<_>>().len()
}

/// Copies with each engine and several options, and compares the manifest with the source.
fn manifests_are_right(kind: MpiKind, way: Way) {
    require!(kind.needed(), program!().needs_haul());
    let mpi = Mpi::find(kind).unwrap();
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("from");
    build(&source);
    let expected = expected(&source, "to", Algorithm::Blake3);
    let copy = script(&sandbox, &mpi, way, &[RANGE, "--debug", "--stats=json", "--manifest=SUMS"]);
    let options: [&[&str]; 5] = [
        &["-a", "--verify"],
        &["-r", "--verify=both", "--sparse=always"],
        &["-a"],
        &["-r", "--verify=stream", "--block-size=12K", "--walk=ranks"],
        &["-rp", "--verify=both", "--direct"],
    ];
    for (engine, options) in each_engine().into_iter().zip(options) {
        // To a new target, and onto what is there.
        for again in [false, true] {
            let what = format!("{} {way:?} {engine:?} {options:?} again: {again}", kind.name());
            let run = copy.run().args(&engine).args(options).args(["-T", "from", "to"]);
            let outcome = run.in_folder(sandbox.path()).within(LIMIT).finish().unwrap();
            assert!(outcome.succeeded(), "{what}: {}", outcome.errors());
            assert_eq!(listed(&sandbox.join("SUMS")), expected, "{what}");
            assert_eq!(files(&sandbox.join("to")), files(&source), "{what}");
            let verified = if options.len() > 1 { expected.len() } else { 0 };
            let counted = format!("\"verified\":{verified},\"repaired\":0");
            assert!(outcome.printed().contains(&counted), "{what}: {}", outcome.printed());
            // With `--sparse`, holes may be left out and such a file stays whole.
            assert!(teams(&outcome) >= LARGE.len(), "{what}: {}", outcome.errors());
            if needs::tool("b3sum").is_none() {
                let mut check = Command::new("b3sum");
                check.args(["--check", "--quiet", "SUMS"]).current_dir(sandbox.path());
                assert!(check.status().unwrap().success(), "{what}");
            }
        }
        fs::remove_dir_all(sandbox.join("to")).unwrap();
    }
}

tests! {
    the_manifest_of_one_rank_is_that_of_the_source => manifests_are_right(MpiKind::OpenMpi4, Way::Clients(1));
    the_manifest_of_two_ranks_is_that_of_the_source => manifests_are_right(MpiKind::Mpich4, Way::Clients(2));
    the_manifest_of_three_ranks_is_that_of_the_source => manifests_are_right(MpiKind::OpenMpi4, Way::Clients(3));
    the_manifest_of_a_plain_job_is_that_of_the_source => manifests_are_right(MpiKind::OpenMpi4, Way::Ranks(3));
}

/// Hashes that need the bytes in order: no file is split.
#[test]
fn other_hashes_are_right_with_ranks() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("from");
    build(&source);
    // Larger than two of the smallest ranges that haul chooses.
    fs::write(source.join("larger"), random::bytes(7, 20 << 20)).unwrap();
    let copy = script(&sandbox, &mpi, Way::Clients(3), &["--debug", "--manifest=SUMS"]);
    let run = |options: &[&str]| {
        let run = copy.run().args(options).args(["-aT", "from", "to"]).in_folder(sandbox.path());
        let outcome = run.within(LIMIT).finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        outcome
    };
    let engines = each_engine().into_iter().cycle();
    for (algorithm, engine) in Algorithm::ALL.into_iter().zip(engines) {
        let hash = format!("--hash={}", algorithm.name());
        let outcome = run(&[&engine[..], &["--verify", &hash]].concat());
        assert_eq!(listed(&sandbox.join("SUMS")), expected(&source, "to", algorithm), "{hash}");
        let split = usize::from(algorithm == Algorithm::Blake3);
        assert_eq!(teams(&outcome), split, "{hash}: {}", outcome.errors());
    }
    run(&["--manifest-format=mhl", "--hash=xxh64"]);
    let list = fs::read_to_string(sandbox.join("SUMS")).unwrap();
    assert_eq!(list.matches("<xxh64 ").count(), files(&source).len(), "{list}");
    run(&["--manifest-format=json"]);
    let list = fs::read_to_string(sandbox.join("SUMS")).unwrap();
    assert_eq!(list.matches("\"algorithm\":\"blake3\"").count(), files(&source).len(), "{list}");
}

/// A target that stores wrong bytes.
struct Rot {
    standin: Standin,
    sandbox: Sandbox,
    copy: CopyProgram,
    content: Vec<u8>,
}

/// Name of its file.
const FILE: &str = "large";

impl Rot {
    fn new(own: &[&str]) -> Self {
        let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
        let sandbox = Sandbox::on_disk().unwrap();
        let content = random::bytes(5, 5_300_000);
        fs::write(sandbox.join(FILE), &content).unwrap();
        let own = [own, &["--stats=json", "--debug", "--manifest=SUMS"]].concat();
        let copy = script(&sandbox, &mpi, Way::Clients(3), &own);
        Self { standin: Standin::start(1, &["--keep-pages"]).unwrap(), sandbox, copy, content }
    }

    fn target(&self) -> PathBuf {
        self.standin.client(0).join(FILE)
    }

    /// Copies while writes have this fault. The target is there before and open meanwhile, so that
    /// nothing empties the page cache but haul.
    fn copy(&self, options: &[&str], fault: &str) -> RunOutcome {
        fs::write(self.target(), "before").unwrap();
        let held = File::open(self.target()).unwrap();
        self.standin.fail(&format!("* write {FILE} {fault}")).unwrap();
        let run = self.copy.run().args(options).arg(FILE).arg(self.standin.client(0));
        let outcome = run.in_folder(self.sandbox.path()).within(LIMIT).finish().unwrap();
        self.standin.fail("").unwrap();
        drop(held);
        outcome
    }

    /// True if the target stores what the source has.
    fn is_right(&self) -> bool {
        cold::make(&self.target()).unwrap();
        fs::read(self.target()).unwrap() == self.content
    }
}

/// Lines about files, rather than about the run.
fn about_file(outcome: &RunOutcome) -> Vec<String> {
    let errors = outcome.errors();
    errors.lines().filter(|line| line.contains("large'")).map(str::to_owned).collect()
}

/// A byte that the target stores wrong is found by reading it from there, and written again.
fn a_wrong_byte_is_found(own: &[&str], is_split: bool) {
    require!(standin::needed(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let rot = Rot::new(own);
    let hash = Algorithm::Blake3.hash(&rot.content).to_string();
    let path = rot.target().display().to_string();
    for engine in each_engine() {
        for own in [&["--verify"][..], &["--verify=both", "-p"], &["--verify", "--direct"]] {
            let options = [&engine[..], own].concat();
            let outcome = rot.copy(&options, "FLIP_ONCE");
            assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
            let told = about_file(&outcome);
            let repaired = |line: &String| line.ends_with("; that range was rewritten");
            assert!(told.len() == 1 && repaired(&told[0]), "{options:?}: {told:?}");
            let counted = "\"verified\":1,\"repaired\":1";
            assert!(outcome.printed().contains(counted), "{options:?}: {}", outcome.printed());
            assert!(rot.is_right(), "{options:?}");
            assert_eq!(teams(&outcome), usize::from(is_split), "{options:?}: {}", outcome.errors());
            assert_eq!(listed(&rot.sandbox.join("SUMS"))[&path], hash, "{options:?}");
        }
        // The data in memory is always correct, so this is the control.
        let options = [&engine[..], &["--verify=stream"]].concat();
        let outcome = rot.copy(&options, "FLIP_ONCE");
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert!(about_file(&outcome).is_empty(), "{options:?}: {}", outcome.errors());
        assert!(!rot.is_right(), "{options:?}");
    }
}

tests! {
    a_wrong_byte_in_a_range_is_found_by_its_rank => a_wrong_byte_is_found(&[RANGE], true);
    a_wrong_byte_in_a_whole_file_is_found_by_its_rank => a_wrong_byte_is_found(&["--range-size=1G"], false);
}

/// A target that stores every write wrong: an error that names the range, and no manifest entry.
#[test]
fn what_cannot_be_repaired_is_an_error_and_is_not_listed() {
    require!(standin::needed(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    for own in [RANGE, "--range-size=1G"] {
        let rot = Rot::new(&[own]);
        for options in [["--verify"].as_slice(), &["--verify=both", "-p"]] {
            let outcome = rot.copy(options, "FLIP");
            assert_eq!(outcome.status(), Some(1), "{own} {options:?}: {}", outcome.errors());
            let told = about_file(&outcome);
            let is_right = told.len() == 1 && told[0].contains("differs from its source in bytes ");
            assert!(is_right, "{own} {options:?}: {told:?}");
            assert_eq!(fs::read_to_string(rot.sandbox.join("SUMS")).unwrap(), "", "{own} {options:?}");
            assert!(outcome.printed().contains("\"verified\":0"), "{own}: {}", outcome.printed());
        }
        // A new file has no name before it is verified.
        fs::remove_file(rot.target()).unwrap();
        rot.standin.fail("* write .haul- FLIP").unwrap();
        let run = rot.copy.run().args(["--verify", FILE]).arg(rot.standin.client(0));
        let outcome = run.in_folder(rot.sandbox.path()).within(LIMIT).finish().unwrap();
        rot.standin.fail("").unwrap();
        assert_eq!(outcome.status(), Some(1), "{own}: {}", outcome.errors());
        assert_eq!(fs::read_to_string(rot.sandbox.join("SUMS")).unwrap(), "", "{own}");
        assert!(own != RANGE || !rot.target().exists(), "{own}");
    }
}

/// Kills a rank, or the master, at a random moment. The manifest must list every file once and
/// right, or the copy must say what it doesn't vouch for.
fn accidents(kind: MpiKind, part: u64, count: usize) {
    require!(needs::root(), kind.needed(), program!().needs_haul());
    let mpi = Mpi::find(kind).unwrap();
    let seed = random::seed(kind.name(), Some(5));
    let mut statuses = Vec::new();
    for number in 0..count {
        let mut random = seeded(seed * 1_000_000 + part * 1000 + number as u64);
        let options = [["--verify", "--manifest=SUMS"], ["--verify=both", "--manifest=SUMS"]][number % 2];
        // A file that the lost rank has named may be left alone by the next.
        let options = [&options[..], &["-n"][..usize::from(number % 3 == 2)]].concat();
        let scene = Scene::new(&mpi, Way::Clients(3), &options, FILES);
        let victim = [Victim::Rank, Victim::Master][number % 2];
        let when = random.random_range(0..FILES);
        let later = Duration::from_micros(random.random_range(0..30_000));
        let running = scene.start(&[]);
        let was_killed = scene.kill(victim, when, later);
        let outcome = running.finish().unwrap();
        let what = format!("{} {options:?} {victim:?} at {when} files, seed {seed}", kind.name());
        let wrong = scene.wrong(outcome.status() != Some(0));
        assert!(wrong.is_empty(), "{what}: {}", describe(&outcome, &wrong));
        scene.nobody_stays();
        check_after_loss(&scene, &outcome, &what);
        statuses.push((was_killed, outcome.status()));
    }
    assert!(statuses.iter().any(|(was_killed, _)| *was_killed), "nobody was killed: {statuses:?}");
    note!("{}: killed or not, and statuses: {statuses:?}", kind.name());
}

/// Checks a manifest against the files with their own names. Of the names of a file it lists one.
fn check_after_loss(scene: &Scene, outcome: &RunOutcome, what: &str) {
    let manifest = scene.sandbox.join("SUMS");
    let listed = if manifest.exists() { listed(&manifest) } else { BTreeMap::new() };
    let expected = expected(&scene.from(), "to", Algorithm::Blake3);
    for (path, hash) in &listed {
        assert_eq!(expected.get(path), Some(hash), "{what}: {path}");
    }
    let inode = |path: &String| fs::metadata(scene.sandbox.join(path)).unwrap().ino();
    let vouched: std::collections::BTreeSet<_> = listed.keys().map(inode).collect();
    assert_eq!(vouched.len(), listed.len(), "{what}: a file is listed by two names");
    let errors = outcome.errors();
    for path in files(&scene.to()).keys().filter(|path| !path.to_string_lossy().contains(".haul-")) {
        let path = format!("to/{}", path.display());
        let is_told = outcome.status() != Some(0) && errors.contains(&format!("'{path}'"));
        // If the job is lost for good, what it was doing is not known file by file.
        let is_lost = errors.contains("were not copied") || outcome.status().is_none();
        assert!(vouched.contains(&inode(&path)) || is_told || is_lost, "{what}: {path}: {errors}");
    }
    if outcome.status() == Some(0) {
        assert_eq!(files(&scene.to()), files(&scene.from()), "{what}");
    }
}

tests! {
    a_manifest_is_right_whoever_is_killed => accidents(MpiKind::OpenMpi4, 30, of_full(18, 3));
    a_manifest_is_right_whoever_is_killed_under_mpich => accidents(MpiKind::Mpich4, 31, of_full(12, 3));
}

/// A rank dies in the middle of a split file. What was reported is kept, with its hashes; the rest
/// is moved and verified by another job.
fn the_rest_of_a_file_is_verified(options: &[&str]) {
    require!(standin::needed(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let standin = Standin::start(1, &["--client-rate=8MB"]).unwrap();
    let sandbox = Sandbox::on_disk().unwrap();
    let source = standin.client(0).join("large");
    let content = random::bytes(3, 20_000_000);
    fs::write(&source, &content).unwrap();
    cold::make(&source).unwrap();
    let to = sandbox.join("to");
    fs::create_dir(&to).unwrap();
    let own = ["--range-size=1M", "--stats=json", "--manifest=SUMS", "-j1"];
    let copy = script(&sandbox, &mpi, Way::Clients(3), &own);
    let mark = sandbox.path().file_name().unwrap().to_str().unwrap().to_owned();
    let run = copy.run().args(options).arg(&source).arg(&to).env("HAUL_TEST", &mark);
    let running = run.env("HAUL_SILENCE", "10").in_folder(sandbox.path()).within(LIMIT).start().unwrap();
    let begun = || {
        let entries = fs::read_dir(&to).into_iter().flatten().flatten();
        let entries = entries.filter_map(|entry| entry.metadata().ok());
        entries.filter(|entry| entry.len() > 0).map(|entry| (entry.ino(), entry.len())).next()
    };
    let is_half_way = || begun().is_some_and(|(_, length)| length > 12_000_000);
    assert!(wait::until(LIMIT, is_half_way), "the copy does not begin");
    let (inode, _) = begun().unwrap();
    let is_rank = |rank: Option<u32>| rank.is_some_and(|rank| rank > 0);
    let victim = relatives(&mark).into_iter().find(|process| process.is_agent && is_rank(process.rank));
    assert!(kill(victim.unwrap().id));
    let outcome = running.finish().unwrap();
    assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
    assert!(outcome.errors().contains("restart"), "{options:?}: {}", outcome.errors());
    assert!(fs::read(to.join("large")).unwrap() == content, "{options:?}");
    // The same file: the ranges of the first job were kept.
    assert_eq!(fs::metadata(to.join("large")).unwrap().ino(), inode, "{options:?}");
    let path = to.join("large").display().to_string();
    let hash = Algorithm::Blake3.hash(&content).to_string();
    assert_eq!(listed(&sandbox.join("SUMS")), BTreeMap::from([(path, hash)]), "{options:?}");
}

tests! {
    the_rest_of_a_split_file_is_verified_after_a_loss => the_rest_of_a_file_is_verified(&["--verify"]);
    the_rest_of_a_split_file_is_listed_after_a_loss => the_rest_of_a_file_is_verified(&["-p"]);
}

/// A source is written to while it is copied; `--verify` implies `--if-changed=retry`. A file that
/// one rank copies is copied again, and its last copy is listed. A file that is split is an error.
#[test]
fn a_source_that_changes_is_copied_again_or_an_error() {
    require!(standin::needed(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    for (range, hash) in [("--range-size=1G", ""), (RANGE, ""), ("", "--hash=md5")] {
        let standin = Standin::start(1, &["--client-rate=8MB"]).unwrap();
        let sandbox = Sandbox::on_disk().unwrap();
        let source = standin.client(0).join("large");
        fs::write(&source, random::bytes(3, 17_000_000)).unwrap();
        cold::make(&source).unwrap();
        let to = sandbox.join("to");
        fs::create_dir(&to).unwrap();
        let own = [range, hash, "--verify", "--stats=json", "--manifest=SUMS"];
        let copy = script(&sandbox, &mpi, Way::Clients(2), &own);
        let run = copy.run().arg(&source).arg(&to).in_folder(sandbox.path());
        let running = run.within(LIMIT).start().unwrap();
        let is_begun = || {
            let entries = fs::read_dir(&to).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.metadata().ok()).any(|entry| entry.len() > 2_000_000)
        };
        assert!(wait::until(LIMIT, is_begun), "the copy does not begin");
        // At the beginning, which the copy has passed.
        File::options().write(true).open(&source).unwrap().write_all_at(b"other bytes", 0).unwrap();
        let outcome = running.finish().unwrap();
        let (told, printed) = (outcome.errors(), outcome.printed());
        if range == RANGE {
            assert_eq!(outcome.status(), Some(1), "{told}");
            assert!(told.contains("large'") && !to.join("large").exists(), "{told}");
            assert_eq!(fs::read_to_string(sandbox.join("SUMS")).unwrap(), "", "{told}");
            continue;
        }
        assert!(outcome.succeeded(), "{hash}: {told}");
        assert!(printed.contains("\"retried\":1,\"verified\":1"), "{hash}: {printed}");
        let content = fs::read(&source).unwrap();
        assert!(fs::read(to.join("large")).unwrap() == content && content.starts_with(b"other bytes"));
        let algorithm = if hash.is_empty() { Algorithm::Blake3 } else { Algorithm::Md5 };
        let entry = (to.join("large").display().to_string(), algorithm.hash(&content).to_string());
        assert_eq!(listed(&sandbox.join("SUMS")), BTreeMap::from([entry]), "{hash}");
    }
}

/// With a journal, what an earlier run has verified and nobody has changed isn't read again, as
/// with one process.
#[test]
fn a_rerun_with_a_journal_verifies_what_it_copies() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("from");
    build(&source);
    let count = files(&source).len();
    let own = [RANGE, "--verify", "--journal=journal", "--stats=json"];
    let copy = script(&sandbox, &mpi, Way::Clients(2), &own);
    let run = |verified: usize| {
        let run = copy.run().args(["-aT", "from", "to"]).in_folder(sandbox.path());
        let outcome = run.within(LIMIT).finish().unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let counted = format!("\"verified\":{verified},");
        assert!(outcome.printed().contains(&counted), "{counted} {}", outcome.printed());
        assert_eq!(files(&sandbox.join("to")), files(&source));
    };
    // A source that was just changed may change again unnoticed.
    let is_old = || fs::metadata(source.join("sparse")).unwrap().modified().unwrap().elapsed().unwrap();
    assert!(wait::until(LIMIT, || is_old() > Duration::from_millis(100)));
    run(count);
    run(0);
    fs::write(source.join("zeros"), random::bytes(1, 2_000_000)).unwrap();
    run(1);
}

#[test]
fn what_cannot_be_verified_or_listed_with_ranks_is_refused() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    for way in [Way::Clients(2), Way::Ranks(2)] {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::write(sandbox.join("file"), "content").unwrap();
        fs::create_dir(sandbox.join("directory")).unwrap();
        let copy = script(&sandbox, &mpi, way, &[]);
        for (options, wanted) in [
            (&["--manifest=list", "--hash=md5", "--range-size=1M"][..], "'--range-size' has no effect"),
            (&["--manifest=list", "--journal=journal"], "mutually exclusive"),
            (&["--manifest=list", "--resume"], "mutually exclusive"),
            (&["--verify", "--attributes-only"], "mutually exclusive"),
            (&["--verify", "--reflink=always"], "mutually exclusive"),
            (&["--manifest=list", "--link"], "mutually exclusive"),
            (&["--manifest=list", "--hash=sha256", "--ops=multi"], "use --ops=single"),
            (&["--manifest=list", "--manifest-format=mhl"], "cannot have blake3 hashes"),
            (&["--hash=md5"], "--manifest"),
            (&["--manifest=directory"], "cannot write 'directory'"),
            (&["--manifest=file"], "are the same file"),
        ] {
            let run = copy.run().args(options).args(["file", "copy"]).in_folder(sandbox.path());
            let outcome = run.within(LIMIT).finish().unwrap();
            let told = outcome.errors();
            assert!(outcome.status() == Some(1) && told.contains(wanted), "{way:?} {options:?}: {told}");
            for name in ["copy", "list", "journal"] {
                assert!(!sandbox.join(name).exists(), "{way:?} {options:?}: {name}");
            }
        }
        assert_eq!(fs::read_to_string(sandbox.join("file")).unwrap(), "content");
    }
}
