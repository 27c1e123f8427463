//! Races against an attacker who swaps names while the copy runs.
//!
//! A thread keeps exchanging two names with `renameat2(RENAME_EXCHANGE)`: a source directory or
//! file with a symbolic link to a secret, a target directory with a link that leads outside, a
//! file with a FIFO. No byte of the secret may reach the copy, nothing outside the target may be
//! created or changed, and nothing may hang. Each test counts the swaps, which proves that the
//! race ran. GNU cp runs in the same race: on directories it must fail at least once, or the race
//! proves nothing.
//!
//! `HAUL_RACE_RUNS` sets the number of runs of each race (300).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::flip::Flipper;
use haul_testkit::run::RunEnding;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::snapshot::SnapshotKind;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind as Made};
use haul_testkit::{CopyProgram, Facts, RunOutcome, Sandbox, Snapshot, needs, note, program, require};

const SECRET: &[u8] = b"THE SECRET THAT NOBODY MAY COPY";
const PUBLIC: &[u8] = b"public";
const HANG: Duration = Duration::from_secs(5);
const FILES: usize = 60;

/// Option sets for haul, used in turn.
const WAYS: [[&str; 3]; 8] = [
    ["--engine=sync", "-j1", "-a"],
    ["--engine=io-uring", "-j1", "-a"],
    ["--engine=sync", "-j4", "-r"],
    ["--engine=io-uring", "-j4", "-r"],
    ["--engine=posix-aio", "-j1", "-a"],
    ["--engine=kernel-aio", "-j4", "-r"],
    ["--engine=retry", "-j4", "-a"],
    ["--engine=posix-aio", "-j4", "-r"],
];

fn runs() -> usize {
    needs::count_from("HAUL_RACE_RUNS", 300)
}

/// A race: the fixture, the names to swap, and what counts as a failure after each run.
struct Race {
    sandbox: Sandbox,
    one: PathBuf,
    other: PathBuf,
    judge: fn(&Path) -> io::Result<Option<String>>,
    restore: fn(&Path) -> io::Result<()>,
}

/// Results of many runs of one program in one race.
#[derive(Default)]
struct Tally {
    runs: usize,
    failures: Vec<String>,
    hangs: Vec<String>,
    crashes: Vec<String>,
    refused: usize,
    flips: u64,
}

impl Race {
    /// Runs one copy of `source` to `target` while the names are swapped.
    fn run_once(&self, program: &CopyProgram, index: usize, tally: &mut Tally) {
        (self.restore)(self.sandbox.path()).unwrap();
        let way = WAYS[index % WAYS.len()];
        let run = program.run_with(&way[..2]).arg(way[2]).args(["-T", "source", "target"]);
        let flipper = Flipper::start(&self.one, &self.other).unwrap();
        let outcome: RunOutcome = run.in_folder(self.sandbox.path()).within(HANG).finish().unwrap();
        tally.flips += flipper.stop().unwrap();
        tally.runs += 1;
        tally.refused += usize::from(!outcome.succeeded());
        match outcome.ending {
            RunEnding::Hung => tally.hangs.push(format!("run {index} {way:?}")),
            _ if outcome.crashed() => {
                tally.crashes.push(format!("{way:?} {:?} {}", outcome.ending, outcome.errors()))
            }
            _ => {}
        }
        if let Some(failure) = (self.judge)(self.sandbox.path()).unwrap() {
            tally.failures.push(format!("run {index} {way:?}: {failure}"));
        }
    }

    /// Runs haul the requested number of times, and GNU cp as often or until it has failed
    /// ten times.
    fn hold(self, name: &str, gnu_must_fail: bool) {
        let (ours, gnu) = (program!(), CopyProgram::gnu().unwrap());
        let (mut our_tally, mut gnu_tally) = (Tally::default(), Tally::default());
        for index in 0..runs() {
            self.run_once(&ours, index, &mut our_tally);
            if gnu_tally.failures.len() + gnu_tally.hangs.len() < 10 {
                self.run_once(&gnu, index, &mut gnu_tally);
            }
        }
        // A rare failure needs more runs to show up.
        for index in runs()..10 * runs() {
            if !gnu_must_fail || !gnu_tally.failures.is_empty() {
                break;
            }
            self.run_once(&gnu, index, &mut gnu_tally);
        }
        for (who, tally) in [("haul", &our_tally), ("GNU cp", &gnu_tally)] {
            note!(
                "race {name}: {who}: runs={} failures={} hangs={} crashes={} runs that reported an error={} swaps={}",
                tally.runs,
                tally.failures.len(),
                tally.hangs.len(),
                tally.crashes.len(),
                tally.refused,
                tally.flips
            );
        }
        assert!(
            our_tally.flips >= our_tally.runs as u64 * 20,
            "the race did not run: {} swaps",
            our_tally.flips
        );
        if gnu_must_fail {
            assert!(
                !gnu_tally.failures.is_empty(),
                "GNU cp held in all {} runs: the race is too weak",
                gnu_tally.runs
            );
        }
        // If GNU cp stands in for haul, this only exercises the race.
        if ours.is_haul() {
            assert!(our_tally.failures.is_empty(), "{}", our_tally.failures.join("\n"));
            assert!(our_tally.hangs.is_empty(), "hangs: {}", our_tally.hangs.join("\n"));
            // A program that gives up whenever names change would be safe and useless.
            assert!(our_tally.refused < our_tally.runs, "no run succeeded");
            assert!(our_tally.crashes.is_empty(), "{}", our_tally.crashes.join("\n"));
        }
    }
}

/// Writes files of the same names, whose content tells where they came from.
fn fill(folder: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    (0..FILES).try_for_each(|index| fs::write(folder.join(format!("file-{index}")), content))
}

/// Searches regular files below `root` for the secret, without following links.
fn find_secret(root: &Path) -> io::Result<Option<String>> {
    if fs::symlink_metadata(root).is_err() {
        return Ok(None);
    }
    let snapshot = Snapshot::take(root, Facts::MODE)?;
    for (path, entry) in snapshot.entries() {
        if entry.kind == SnapshotKind::File
            && fs::read(snapshot.locate(path))?.windows(SECRET.len()).any(|part| part == SECRET)
        {
            return Ok(Some(format!("the secret is in {}", snapshot.locate(path).display())));
        }
    }
    Ok(None)
}

fn remove_target(sandbox: &Path) -> io::Result<()> {
    remove_tree(&sandbox.join("target"));
    Ok(())
}

#[test]
fn a_source_directory_swapped_for_a_link() {
    require!(CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    fill(&source.join("before"), PUBLIC).unwrap();
    fill(&source.join("swapped"), PUBLIC).unwrap();
    fill(&source.join("swapped/below"), PUBLIC).unwrap();
    fill(&sandbox.join("secret"), SECRET).unwrap();
    fill(&sandbox.join("secret/below"), SECRET).unwrap();
    std::os::unix::fs::symlink(sandbox.join("secret"), sandbox.join("link")).unwrap();
    let (one, other) = (source.join("swapped"), sandbox.join("link"));
    let judge = |sandbox: &Path| find_secret(&sandbox.join("target"));
    Race { sandbox, one, other, judge, restore: remove_target }.hold("source directory", true);
}

#[test]
fn a_source_file_swapped_for_a_link() {
    require!(CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    fill(&source, PUBLIC).unwrap();
    fs::write(sandbox.join("secret"), SECRET).unwrap();
    std::os::unix::fs::symlink(sandbox.join("secret"), sandbox.join("link")).unwrap();
    let (one, other) = (source.join("file-30"), sandbox.join("link"));
    let judge = |sandbox: &Path| find_secret(&sandbox.join("target"));
    Race { sandbox, one, other, judge, restore: remove_target }.hold("source file", false);
}

/// Returns what changed outside the target, if anything.
fn outside_is_untouched(sandbox: &Path) -> io::Result<Option<String>> {
    let outside = sandbox.join("outside");
    let mut names: Vec<_> =
        fs::read_dir(&outside)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    if names != ["file-30", "guard"] {
        return Ok(Some(format!(
            "{} entries outside of the target, such as {:?}",
            names.len(),
            names.first()
        )));
    }
    let snapshot = Snapshot::take(&outside, Facts::all())?;
    let held = fs::read(outside.join("guard"))? == PUBLIC && fs::read(outside.join("file-30"))? == PUBLIC;
    let modes = snapshot.entries()[b"".as_slice()].mode == 0o711
        && snapshot.entries()[b"file-30".as_slice()].mode == 0o611;
    Ok((!held || !modes)
        .then(|| format!("what lies outside has changed: content kept={held} modes kept={modes}")))
}

fn restore_outside_and_target(sandbox: &Path) -> io::Result<()> {
    for name in ["outside", "target"] {
        remove_tree(&sandbox.join(name));
    }
    let file = |name: &str| EntrySpec::new(0, name, Made::File(Vec::new())).mode(0o611);
    Spec { nodes: vec![file("guard"), file("file-30")] }.build(&sandbox.join("outside"))?;
    fs::write(sandbox.join("outside/guard"), PUBLIC)?;
    fs::write(sandbox.join("outside/file-30"), PUBLIC)?;
    fs::set_permissions(sandbox.join("outside"), std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
    fs::create_dir_all(sandbox.join("target/swapped/below"))
}

#[test]
fn a_target_directory_swapped_for_a_link() {
    require!(CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    fill(&sandbox.join("source/swapped"), b"copied").unwrap();
    fill(&sandbox.join("source/swapped/below"), b"copied").unwrap();
    std::os::unix::fs::symlink(sandbox.join("outside"), sandbox.join("link")).unwrap();
    let (one, other) = (sandbox.join("target/swapped"), sandbox.join("link"));
    Race { sandbox, one, other, judge: outside_is_untouched, restore: restore_outside_and_target }
        .hold("target directory", true);
}

#[test]
fn a_target_directory_made_by_the_copy_and_swapped() {
    require!(CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    fill(&sandbox.join("source/swapped/below"), b"copied").unwrap();
    std::os::unix::fs::symlink(sandbox.join("outside"), sandbox.join("link")).unwrap();
    // The whole subtree below the swapped name is the copy's own work; only its top existed before.
    let restore = |sandbox: &Path| {
        restore_outside_and_target(sandbox)?;
        fs::remove_dir(sandbox.join("target/swapped/below"))
    };
    let (one, other) = (sandbox.join("target/swapped"), sandbox.join("link"));
    Race { sandbox, one, other, judge: outside_is_untouched, restore }.hold("new target directory", true);
}

#[test]
fn a_file_swapped_for_a_fifo() {
    require!(CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    fill(&source, PUBLIC).unwrap();
    Spec { nodes: vec![EntrySpec::new(0, "fifo", Made::Fifo)] }.build(sandbox.path()).unwrap();
    let (one, other) = (source.join("file-30"), sandbox.join("fifo"));
    // The copy is either a FIFO or the whole file, whichever the name was at the time.
    let judge = |sandbox: &Path| {
        let target = sandbox.join("target");
        let snapshot = Snapshot::take(&target, Facts::MODE)?;
        let Some(entry) = snapshot.entries().get(b"file-30".as_slice()) else { return Ok(None) };
        let whole = match entry.kind {
            SnapshotKind::Fifo => true,
            SnapshotKind::File => fs::read(target.join("file-30"))? == PUBLIC,
            _ => false,
        };
        Ok((!whole).then(|| format!("a {:?} of {} bytes", entry.kind, entry.bytes)))
    };
    Race { sandbox, one, other, judge, restore: remove_target }.hold("file and FIFO", false);
}
