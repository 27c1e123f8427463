//! Processes that die at any moment: every remaining file is right or known to be missing, and no
//! process is left behind.
//!
//! The moment depends on the progress of the copy, so that fast and slow machines cover all of it:
//! a number of files that must exist, and a short pause after that. Both come from a seed that is
//! printed (`HAUL_SEED`).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_testkit::compare::{About, TreeDifference};
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::needs::{self, is_full_run};
use haul_testkit::random::{self, Rng, seeded};
use haul_testkit::run::Running;
use haul_testkit::rustix::process::{Pid, Signal, kill_process};
use haul_testkit::spec::{self, EntrySpec, Spec};
use haul_testkit::{
    CopyProgram, Facts, RunOutcome, Sandbox, Snapshot, TestRun, compare, note, program, require, tests, wait,
};

use crate::start::{Process, Way, relatives, script};

const DIRECTORIES: usize = 12;
pub(crate) const FILES: usize = 1440;
pub(crate) const LARGE: [u64; 3] = [5_000_000, 3_000_001, 4_194_304];

const DYING_MAX: Duration = Duration::from_secs(10);

const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// A rank other than 0.
    Rank,
    /// Rank 0.
    Master,
    /// `mpirun`.
    Launcher,
    /// The process that the user started.
    Launch,
}

/// Builds the source: small files, some with hard links in two directories, and large files.
fn build(root: &Path, files: usize) {
    let directory =
        |number| EntrySpec::new(0, format!("d{number}"), spec::SpecKind::Directory).modified(1000, 7);
    let mut nodes: Vec<_> = (0..DIRECTORIES).map(directory).collect();
    for number in 0..files {
        let (parent, seed) = (number % DIRECTORIES + 1, number as u64);
        nodes.push(EntrySpec::file(parent, format!("f{number}"), seed, 10 + seed % 9000).mode(0o640));
    }
    for (seed, bytes) in LARGE.into_iter().enumerate() {
        nodes.push(EntrySpec::file(seed + 1, format!("large{seed}"), seed as u64, bytes));
    }
    nodes.extend(
        (0..20).map(|which| {
            EntrySpec::new(which + 3, format!("twin{which}"), spec::SpecKind::HardLink(7 * which))
        }),
    );
    Spec { nodes }.build(root).unwrap();
}

/// A copy during which a process will be killed.
pub(crate) struct Scene {
    pub(crate) sandbox: Sandbox,
    copy: CopyProgram,
    mark: String,
}

impl Scene {
    pub(crate) fn new(mpi: &Mpi, way: Way, own: &[&str], files: usize) -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        build(&sandbox.join("from"), files);
        let own = [&["--range-size=256K", "-j2"], own].concat();
        let copy = script(&sandbox, mpi, way, &own);
        let mark = sandbox.path().file_name().unwrap().to_str().unwrap().to_owned();
        Self { sandbox, copy, mark }
    }

    pub(crate) fn from(&self) -> PathBuf {
        self.sandbox.join("from")
    }

    pub(crate) fn to(&self) -> PathBuf {
        self.sandbox.join("to")
    }

    pub(crate) fn start(&self, options: &[&str]) -> Running {
        self.start_with(self.copy.run().args(options).args(["-aT", "from", "to"]))
    }

    /// Starts a command line of another tool.
    pub(crate) fn start_line(&self, words: &str) -> Running {
        self.start_with(TestRun::new(self.copy.path()).args(words.split(' ')))
    }

    fn start_with(&self, run: TestRun) -> Running {
        let run = run.in_folder(self.sandbox.path()).env("HAUL_TEST", &self.mark);
        run.env("HAUL_SILENCE", "10").within(LIMIT).start().unwrap()
    }

    pub(crate) fn relatives(&self) -> Vec<Process> {
        relatives(&self.mark)
    }

    pub(crate) fn find(&self, victim: Victim) -> Option<Process> {
        let is = |process: &Process| match victim {
            Victim::Rank => process.is_agent && process.rank.is_some_and(|rank| rank > 0),
            Victim::Master => process.is_agent && process.rank == Some(0),
            Victim::Launcher => process.rank.is_none() && process.program.starts_with("mpi"),
            Victim::Launch => process.rank.is_none() && process.program.starts_with("haul"),
        };
        self.relatives().into_iter().find(is)
    }

    /// Kills a process a little after `when` files are copied. Returns false if it ended
    /// before that.
    pub(crate) fn kill(&self, victim: Victim, when: usize, later: Duration) -> bool {
        let to = self.to();
        let mut process = None;
        let mut begun = false;
        let is_there = wait::until(LIMIT, || {
            process = process.take().or_else(|| self.find(victim));
            // A process that was just started doesn't have its environment yet.
            begun |= process.is_some() || !self.relatives().is_empty();
            process.is_some() && copied(&to, when) || begun && self.relatives().is_empty()
        });
        let moment = Instant::now() + later;
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        let Some(process) = process.filter(|_| is_there) else { return false };
        kill(process.id)
    }

    /// Returns the differences from the source. If the copy may be unfinished, entries may be
    /// missing, but every file under its final name must be right.
    pub(crate) fn wrong(&self, may_be_unfinished: bool) -> Vec<TreeDifference> {
        let facts = Facts::PRESERVED;
        let expected = Snapshot::take(&self.from(), facts).unwrap();
        let Ok(found) = Snapshot::take(&self.to(), facts) else { return Vec::new() };
        let mut list = compare(&expected, &found, facts).unwrap().list;
        if may_be_unfinished {
            let is_directory = |path: &[u8]| self.from().join(as_path(path)).is_dir();
            let of_unfinished = |difference: &TreeDifference| match difference.about {
                About::Missing => true,
                About::Extra => is_provisional(&difference.path),
                // A missing name lowers the link count of the others.
                About::Links => true,
                _ => is_directory(&difference.path),
            };
            list.retain(|difference| !of_unfinished(difference));
        }
        list
    }

    pub(crate) fn nobody_stays(&self) {
        let mut left = Vec::new();
        let gone = wait::until(DYING_MAX, || {
            left = self.relatives();
            left.is_empty()
        });
        if !gone {
            // After its ranks have ended, Open MPI 4's mpirun may wait forever for a lock of its
            // own in `PMIx_server_finalize`.
            let hangs =
                |process: &Process| process.program == "mpirun.openmpi" && ranks_have_ended(process.id);
            assert!(left.iter().all(hangs), "left behind: {left:?}");
            note!("mpirun hangs in its own end: {left:?}");
            assert!(left.iter().all(|process| kill(process.id)));
        }
    }
}

/// Returns true if all children of a process are dead.
fn ranks_have_ended(id: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let is_dead = |child: &str| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| !rest.trim_start().starts_with(['R', 'S', 'D', 'T', 't']))
    };
    children.split_whitespace().all(is_dead)
}

fn as_path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

pub(crate) fn is_provisional(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b".haul-")
}

pub(crate) fn kill(id: u32) -> bool {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// Returns true if a copy's directories hold at least `least` entries.
fn copied(to: &Path, least: usize) -> bool {
    let mut found = 0;
    for directory in 0..DIRECTORIES {
        found += fs::read_dir(to.join(format!("d{directory}"))).map_or(0, Iterator::count);
        if found >= least {
            return true;
        }
    }
    found >= least
}

/// Returns the finished files with a single name, and their ctimes.
pub(crate) fn changes(root: &Path) -> BTreeSet<(PathBuf, (i64, i64))> {
    let mut found = BTreeSet::new();
    for directory in 0..DIRECTORIES {
        let entries = fs::read_dir(root.join(format!("d{directory}"))).into_iter().flatten().flatten();
        let whole = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with(".haul-"));
        let changed = |entry: &fs::DirEntry| {
            let facts = entry.metadata().unwrap();
            // A further hard link also changes the ctime.
            (facts.nlink() == 1).then(|| (entry.path(), (facts.ctime(), facts.ctime_nsec())))
        };
        found.extend(whole.filter_map(|entry| changed(&entry)));
    }
    found
}

pub(crate) fn describe(outcome: &RunOutcome, wrong: &[TreeDifference]) -> String {
    let wrong: Vec<_> = wrong.iter().take(10).map(|difference| format!("{difference:?}")).collect();
    format!("{:?}\n{}{}", outcome.ending, outcome.errors(), wrong.join("\n"))
}

/// Kills one process, and checks what is left of the copy. Returns the exit status.
fn accident(mpi: &Mpi, way: Way, victim: Victim, seed: u64) -> i32 {
    let mut random = seeded(seed);
    let scene = Scene::new(mpi, way, &[], FILES);
    let when = random.random_range(0..FILES + 100);
    let later = Duration::from_micros(random.random_range(0..30_000));
    let running = scene.start(&[]);
    scene.kill(victim, when, later);
    let outcome = running.finish().unwrap();
    let what = format!("{} {way:?} {victim:?} at {when} files, seed {seed}", mpi.kind().name());
    let status = outcome.status();
    let wrong = scene.wrong(status != Some(0));
    assert!(wrong.is_empty(), "{what}: {}", describe(&outcome, &wrong));
    scene.nobody_stays();
    match status {
        Some(0) => {}
        // Launchers use exit statuses of their own for killed jobs.
        Some(_) if matches!(way, Way::Ranks(_)) => {}
        Some(1) => assert!(!outcome.errors().is_empty(), "{what}: no message"),
        _ => panic!("{what}: {}", describe(&outcome, &[])),
    }
    // A rerun that trusts existing files completes the copy.
    let again = if random.random() { "-n" } else { "-u" };
    let run = program!().run().args([again, "-aT", "from", "to"]).in_folder(scene.sandbox.path());
    let outcome = run.finish().unwrap();
    let mut wrong = scene.wrong(false);
    // A file that was linked while its other names were missing remains a separate file.
    wrong.retain(|difference| difference.about != About::Links && !is_provisional(&difference.path));
    assert!(outcome.succeeded() && wrong.is_empty(), "{what}, {again}: {}", describe(&outcome, &wrong));
    status.unwrap_or(-1)
}

/// Kills processes of each kind in turn.
fn accidents(kind: MpiKind, part: u64, count: usize) {
    require!(needs::root(), kind.needed(), program!().needs_haul());
    let mpi = Mpi::find(kind).unwrap();
    let seed = random::seed(kind.name(), Some(5));
    let mut statuses = Vec::new();
    for number in 0..count {
        let victim = [Victim::Rank, Victim::Master, Victim::Launcher][number % 3];
        statuses.push(accident(
            &mpi,
            Way::Clients(3),
            victim,
            seed * 1_000_000 + part * 1000 + number as u64,
        ));
    }
    note!("{}: {count} processes killed, statuses {statuses:?}", kind.name());
}

pub(crate) fn of_full(full: usize, usual: usize) -> usize {
    if is_full_run() { full } else { usual }
}

tests! {
    whoever_is_killed_the_copy_is_right_or_known_to_be_wrong => accidents(MpiKind::OpenMpi4, 0, of_full(24, 3));
    whoever_is_killed_under_mpich_the_copy_is_right_or_known_to_be_wrong
        => accidents(MpiKind::Mpich4, 1, of_full(20, 3));
}

/// Without a separate launch process, nothing restarts the copy, but what exists is right.
#[test]
fn the_launcher_of_a_plain_job_is_killed() {
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let seed = random::seed("the launcher", Some(5)) * 1_000_000 + 2000;
    for number in 0..of_full(6, 1) as u64 {
        accident(&mpi, Way::Ranks(3), Victim::Launcher, seed + number);
    }
}

/// If the process that the user started is killed, its ranks end too. The same command with the
/// same journal completes the copy without repeating finished work.
#[test]
fn a_journal_goes_on_where_a_killed_copy_ended() {
    const MANY: usize = 24_000;
    // Each of three ranks has two batches in flight and has completed another that isn't recorded
    // yet. Files with several names are never recorded.
    const NOT_RECORDED: usize = 3 * 3 * 1024 + 2 * 20 * 32;
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    for seed in 0..of_full(5, 1) as u64 {
        let mut random = seeded(seed + 99);
        let scene = Scene::new(&mpi, Way::Clients(3), &["--journal=journal"], MANY);
        let running = scene.start(&[]);
        let when = MANY / 2 + random.random_range(0..MANY / 4);
        assert!(scene.kill(Victim::Launch, when, Duration::ZERO));
        let killed = running.finish().unwrap();
        scene.nobody_stays();
        let wrong = scene.wrong(killed.status() != Some(0));
        assert!(wrong.is_empty(), "seed {seed}: {}", describe(&killed, &wrong));
        let before = changes(&scene.to());
        let outcome = scene.start(&[]).finish().unwrap();
        let wrong = scene.wrong(false);
        assert!(outcome.succeeded() && wrong.is_empty(), "seed {seed}: {}", describe(&outcome, &wrong));
        let again = before.difference(&changes(&scene.to())).count();
        note!("journal: {} files were there, {again} of them were copied again", before.len());
        assert!(
            before.len() >= when / 2 && again <= NOT_RECORDED,
            "{again} of {} were copied again",
            before.len()
        );
    }
}

/// Resumes a copy in which one directory is unfinished. Its files are hard links of files in
/// the other.
#[test]
fn names_of_one_file_are_linked_when_a_journal_goes_on() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let scene = Scene::new(&mpi, Way::Clients(2), &["--journal=journal"], 0);
    fs::remove_dir_all(scene.from()).unwrap();
    let directory = |name: &str| EntrySpec::new(0, name, spec::SpecKind::Directory);
    let mut nodes = vec![directory("one"), directory("two")];
    nodes.extend((0..10).map(|number| EntrySpec::file(1, format!("f{number}"), number, 10)));
    nodes.push(EntrySpec::file(1, "large", 7, 2_000_000));
    nodes.extend(
        (0..11).map(|which| EntrySpec::new(2, format!("twin{which}"), spec::SpecKind::HardLink(which))),
    );
    Spec { nodes }.build(&scene.from()).unwrap();
    for unfinished in ["one", "two"] {
        let outcome = scene.start(&[]).finish().unwrap();
        let wrong = scene.wrong(false);
        assert!(outcome.succeeded() && wrong.is_empty(), "{}", describe(&outcome, &wrong));
        fs::remove_dir_all(scene.to().join(unfinished)).unwrap();
        let outcome = scene.start(&[]).finish().unwrap();
        let wrong = scene.wrong(false);
        assert!(outcome.succeeded() && wrong.is_empty(), "{unfinished}: {}", describe(&outcome, &wrong));
    }
}
