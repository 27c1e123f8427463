//! Fault sweep: every operation fails once, and nothing is lost silently.
//!
//! Needs the feature `fault`, which compiles a hook into the one place through which all system
//! calls and completions pass. A run without a fault counts the operations. Then each occurrence of
//! each operation fails with each errno, and each read and write is shortened. A case passes if the
//! copy is right and the status 0, or if the status is 1 and a message names every entry that is
//! not right (see `haul_testkit::verdict`, which has its own tests). Nothing may hang, panic or die
//! by a signal.
//!
//! Each engine is swept with its default and with each kind of operation (`--ops`), buffered on
//! tmpfs and with direct I/O (`--direct`) on ext4: forty sweeps, and one more leaves the choice to
//! haul, which copies long files through a pipe. Each first proves, by the counted
//! operations, that the requested engine is in use. If the fault makes the run reject the engine
//! before anything is touched, the message must name it and the target must be unchanged.
//!
//! Scenes: a fresh copy with one worker and with four; a copy onto an older one, which is
//! overwritten, removed, backed up, replaced as a whole or made equal (`haul sync`); a staged and a
//! verified copy; and one with switches that make calls of their own. A full run (`HAUL_FULL=1`)
//! covers every occurrence of each operation with each errno. Other runs take a sample of these
//! pairs, half of it from the engines' own operations, chosen by a seed that is printed
//! (`HAUL_SEED`).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_testkit::compare::About;
use haul_testkit::mount::Mount;
use haul_testkit::random::{self, choose, seeded};
use haul_testkit::run::{RunEnding, TestRun};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::verdict::{CopyVerdict, judge, judge_refusal};
use haul_testkit::{
    CopyProgram, Differences, Facts, RunOutcome, Sandbox, Snapshot, compare, needs, note, program, require,
    tests,
};

use crate::scenes::{SCENES, Scene, build_with_age, mostly_same, older, tree};

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EINTR", "ENOMEM", "EACCES", "EMFILE"];
/// Errnos that mean "not supported" or "not now" to an engine.
const REFUSALS: [&str; 5] = ["EAGAIN", "EINVAL", "ENOSYS", "EOPNOTSUPP", "EPERM"];
const SHORT: [&str; 3] = ["short=0", "short=1", "short=-1"];
const TRANSFERS: [&str; 4] = ["read", "write", "copy_file_range", "splice"];
/// Operations in which engines and switches differ; they also fail with [`REFUSALS`].
const MACHINERY: [&str; 23] = [
    "read",
    "write",
    "copy_file_range",
    "pipe2",
    "splice",
    "fallocate",
    "fadvise64",
    "sync_file_range",
    "cachestat",
    "fcntl",
    "io_uring_setup",
    "io_uring_register",
    "io_uring_enter",
    "aio_init",
    "aio_read",
    "aio_write",
    "aio_fsync",
    "lio_listio",
    "io_setup",
    "io_submit",
    "io_getevents",
    "io_destroy",
    "eventfd2",
];
/// Cases of a sampled sweep: with default operations, and with others.
const SAMPLE_DEFAULT: usize = 300;
const SAMPLE: usize = 120;
const FULL_AT_LEAST: usize = 3000;
const HANG: Duration = Duration::from_secs(20);
const DISK_BYTES: u64 = 128 << 20;

/// Configuration of an engine.
#[derive(Clone, Copy, Debug)]
struct Way {
    engine: &'static str,
    ops: Option<&'static str>,
    direct: bool,
}

impl Way {
    fn options(self) -> Vec<String> {
        let mut options = vec![format!("--engine={}", self.engine)];
        if let Some(ops) = self.ops {
            // Small blocks, so that several blocks of a file are in flight.
            options.extend([format!("--ops={ops}"), "--block-size=16K".into(), "--queue-depth=6".into()]);
        }
        options.extend(self.direct.then(|| "--direct".to_owned()));
        options
    }

    /// Returns the evidence in the counts of a good copy that another engine was used, if any.
    fn misses(self, scene: Scene, counts: &BTreeMap<String, u64>) -> Option<String> {
        let options = scene.options();
        let through_pipe = self.engine == "auto"
            && options.contains(&"--reflink=never")
            && !options.contains(&"--drop-cache");
        let listed = self.ops == Some("batch");
        // Operations of one engine only, and whether this configuration uses them.
        let marks = [
            ("io_uring_enter", self.engine == "io-uring"),
            ("io_submit", self.engine == "kernel-aio"),
            ("io_getevents", self.engine == "kernel-aio"),
            ("aio_init", self.engine == "posix-aio"),
            ("aio_read", self.engine == "posix-aio" && !listed),
            ("aio_write", self.engine == "posix-aio" && !listed),
            ("lio_listio", self.engine == "posix-aio" && listed),
            ("fcntl", self.direct || through_pipe),
            ("splice", through_pipe),
        ];
        let wrong = marks.iter().find(|(operation, wanted)| counts.contains_key(*operation) != *wanted);
        wrong.map(|(operation, wanted)| format!("{operation} was to happen: {wanted}; {counts:?}"))
    }
}

#[derive(Clone, Debug)]
struct Case {
    scene: Scene,
    operation: String,
    occurrence: u64,
    effect: &'static str,
}

struct Sweep {
    program: CopyProgram,
    way: Way,
    sandbox: Sandbox,
    expected: Snapshot,
    older: Snapshot,
    mostly_same: Snapshot,
    nothing: Snapshot,
}

struct CaseResult {
    fired: bool,
    verdict: Result<CopyVerdict, String>,
}

impl Sweep {
    fn new(way: Way, sandbox: Sandbox) -> io::Result<Self> {
        let look = |name: &str| Snapshot::take(&sandbox.join(name), Facts::PRESERVED);
        tree().build(&sandbox.join("source"))?;
        build_with_age(&older(), &sandbox.join("older"))?;
        build_with_age(&mostly_same(), &sandbox.join("mostly-same"))?;
        fs::create_dir(sandbox.join("nothing"))?;
        let (expected, older, nothing) = (look("source")?, look("older")?, look("nothing")?);
        let mostly_same = look("mostly-same")?;
        Ok(Self { program: program!(), way, expected, older, mostly_same, nothing, sandbox })
    }

    /// Runs one copy into a target of its own with `fault` for the hook; returns the outcome and
    /// the hook's log.
    fn copy(
        &self,
        scene: Scene,
        more: &[&str],
        fault: &str,
        worker: usize,
    ) -> io::Result<(RunOutcome, String)> {
        let [target, log] = ["target", "log"].map(|name| self.sandbox.join(format!("{name}-{worker}")));
        remove_tree(&target);
        remove_tree(&self.kept(worker));
        fs::write(&log, "")?;
        match scene {
            Scene::Synced => build_with_age(&mostly_same(), &target)?,
            _ if scene.is_onto_older() => build_with_age(&older(), &target)?,
            _ => {}
        }
        let run = self.command(scene, worker).args(more);
        let outcome = run.env("HAUL_FAULT", fault).env("HAUL_FAULT_LOG", &log).finish()?;
        Ok((outcome, fs::read_to_string(&log)?))
    }

    /// Directory for what is replaced or deleted.
    fn kept(&self, worker: usize) -> PathBuf {
        self.sandbox.join(format!("kept-{worker}"))
    }

    fn command(&self, scene: Scene, worker: usize) -> TestRun {
        let run = match scene {
            Scene::Synced => {
                let run = TestRun::new(self.program.path()).arg("sync").args(self.way.options());
                run.arg(format!("--backup-dir={}", self.kept(worker).display()))
            }
            // Alone, `-a` leaves out silently what attributes there is no room for, as GNU cp does.
            _ => self.program.run_with(&self.way.options()).args(["-a", "--preserve=xattr", "-T"]),
        };
        let run = run.args(scene.options());
        run.args([self.sandbox.join("source"), self.sandbox.join(format!("target-{worker}"))]).within(HANG)
    }

    /// Runs the same command without a fault after one that has failed. It must complete the copy.
    fn resume(&self, worker: usize) -> Result<(), String> {
        let outcome = self.command(Scene::Resumed, worker).finish().map_err(|error| error.to_string())?;
        if !outcome.succeeded() {
            return Err(format!("not resumed: {}", outcome.errors()));
        }
        let target = self.sandbox.join(format!("target-{worker}"));
        let differences = self.differences(&self.expected, &target)?;
        match differences.is_empty() {
            true => Ok(()),
            false => Err(format!("wrong after it was resumed: {differences}")),
        }
    }

    fn try_case(&self, case: &Case, worker: usize) -> io::Result<CaseResult> {
        let fault = format!("{}:{}:{}", case.operation, case.occurrence, case.effect);
        let (outcome, log) = self.copy(case.scene, &[], &fault, worker)?;
        let fired = log.lines().any(|line| line.starts_with("fired "));
        let mut verdict = match self.lost_its_message(case, &outcome) {
            true => self.is_right(worker),
            false => self.verdict(&outcome, case.scene, worker),
        };
        if case.scene == Scene::Resumed && !outcome.succeeded() {
            verdict = verdict.and_then(|verdict| self.resume(worker).map(|()| verdict));
        }
        Ok(CaseResult { fired, verdict })
    }

    /// True if the fault may have hit the one message of a good copy: a verified copy in memory
    /// warns that it did not bypass the page cache. Then only the status can report the fault.
    fn lost_its_message(&self, case: &Case, outcome: &RunOutcome) -> bool {
        let warns = case.scene == Scene::Verified && !self.way.direct;
        let is_reported = outcome.ending == RunEnding::Exited(1) && outcome.stderr.is_empty();
        warns && case.operation == "write" && is_reported
    }

    fn is_right(&self, worker: usize) -> Result<CopyVerdict, String> {
        let target = self.sandbox.join(format!("target-{worker}"));
        let differences = self.differences(&self.expected, &target)?;
        match differences.is_empty() {
            true => Ok(CopyVerdict::Reported),
            false => Err(format!("status 1 without a message: {differences}")),
        }
    }

    fn verdict(&self, outcome: &RunOutcome, scene: Scene, worker: usize) -> Result<CopyVerdict, String> {
        if outcome.ending == RunEnding::Hung {
            return Err("hung".to_owned());
        }
        let (source, target) = (self.sandbox.join("source"), self.sandbox.join(format!("target-{worker}")));
        let before = match scene {
            Scene::Synced => &self.mostly_same,
            _ if scene.is_onto_older() => &self.older,
            _ => &self.nothing,
        };
        let changes = || {
            let appeared = !scene.is_onto_older() && fs::symlink_metadata(&target).is_ok();
            if appeared { Err("the target was made".to_owned()) } else { self.differences(before, &target) }
        };
        let refusal = judge_refusal(outcome, self.way.engine, changes);
        refusal.unwrap_or_else(|| {
            let mut differences = self.differences(&self.expected, &target)?;
            if scene == Scene::OntoOlderKept {
                self.is_kept("older", &target, (&target, "~"))?;
                differences.list.retain(|difference| !difference.path.ends_with(b"~"));
            }
            if scene == Scene::Synced {
                self.is_kept("mostly-same", &target, (&self.kept(worker), ""))?;
                differences.leave_out_parents();
                if outcome.errors().contains("nothing was deleted from ") {
                    differences.list.retain(|difference| difference.about != About::Extra);
                }
            }
            judge(outcome, &self.expected, &differences, [&source, &target])
        })
    }

    /// Fails unless every file of the target as it was built still exists, under its name or as a
    /// backup: below another directory, or with a suffix.
    fn is_kept(&self, built: &str, target: &Path, backup: (&Path, &str)) -> Result<(), String> {
        let built = self.sandbox.join(built);
        let entries = walkdir::WalkDir::new(&built).into_iter().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_file()) {
            let path = entry.path().strip_prefix(&built).map_err(|error| error.to_string())?;
            let content = fs::read(entry.path()).map_err(|error| error.to_string())?;
            let mut kept = backup.0.join(path).into_os_string();
            kept.push(backup.1);
            let places = [target.join(path).into(), kept];
            if !places.iter().any(|place| fs::read(place).is_ok_and(|found| found == content)) {
                return Err(format!("what was in {} is lost", path.display()));
            }
        }
        Ok(())
    }

    /// Compares `target`, which may be missing, with the expected tree.
    fn differences(&self, expected: &Snapshot, target: &PathBuf) -> Result<Differences, String> {
        if fs::symlink_metadata(target).is_err() {
            return compare(expected, &self.nothing, Facts::PRESERVED).map_err(|error| error.to_string());
        }
        let found = Snapshot::take(target, Facts::PRESERVED).map_err(|error| error.to_string())?;
        compare(expected, &found, Facts::PRESERVED).map_err(|error| error.to_string())
    }

    /// Counts the operations of a good copy.
    fn count(&self, scene: Scene) -> BTreeMap<String, u64> {
        let (outcome, log) = self.copy(scene, &[], "count", 0).unwrap();
        let verdict = self.verdict(&outcome, scene, 0);
        assert_eq!(
            verdict,
            Ok(CopyVerdict::Right),
            "without a fault the copy must be right ({:?}, {scene:?}): {}",
            self.way,
            outcome.errors()
        );
        let pairs = log.lines().filter_map(|line| line.split_once(' '));
        let counts: BTreeMap<_, _> =
            pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect();
        assert!(counts.len() >= 8, "the hook counted next to nothing: {log:?}");
        if scene == Scene::Switched {
            // Direct I/O leaves no cache to drop, except for files with holes, which are buffered.
            for operation in ["fallocate", "cachestat", "sync_file_range"] {
                let goes_direct = self.way.direct && operation != "fallocate";
                assert!(counts.contains_key(operation) || goes_direct, "no {operation}: {counts:?}");
            }
        }
        let marks: &[&str] = match scene {
            Scene::Staged => &["syncfs", "renameat2"],
            Scene::OntoOlderReplaced => &["fsync", "linkat", "renameat2"],
            Scene::Verified => &["syncfs", "cachestat"],
            Scene::Resumed => &["syncfs", "fstatfs"],
            _ => &[],
        };
        for operation in marks {
            assert!(counts.contains_key(*operation), "{scene:?}: no {operation}: {counts:?}");
        }
        counts
    }

    /// Asserts that the requested engine is in use.
    fn prove_engine(&self) {
        for scene in SCENES {
            assert_eq!(self.way.misses(scene, &self.count(scene)), None, "{:?}, {scene:?}", self.way);
        }
        let (outcome, _) = self.copy(Scene::FreshAlone, &["--debug"], "count", 0).unwrap();
        let said = format!("{}{}", outcome.printed(), outcome.errors());
        let name = if self.way.engine == "auto" { "sync (auto)" } else { self.way.engine };
        assert!(said.contains(&format!("engine {name}, ")), "{:?}: {said}", self.way);
    }

    /// Lists every case, grouped by scene, operation and effect.
    fn groups(&self) -> Vec<Vec<Case>> {
        let mut groups = Vec::new();
        for scene in SCENES {
            for (operation, count) in self.count(scene) {
                let shortened = TRANSFERS.contains(&operation.as_str());
                let refused = MACHINERY.contains(&operation.as_str());
                let effects = ERRORS.iter().chain(SHORT.iter().filter(|_| shortened));
                let effects = effects.chain(REFUSALS.iter().filter(|_| refused));
                groups.extend(effects.map(|&effect| {
                    let case = |occurrence| Case { scene, operation: operation.clone(), occurrence, effect };
                    (1..=count).map(case).collect()
                }));
            }
        }
        groups
    }

    /// Runs the cases on two threads; returns their results in order.
    fn run(&self, cases: &[Case]) -> Vec<CaseResult> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for worker in 0..2 {
                let (next, results) = (&next, &results);
                scope.spawn(move || {
                    while let Some((index, case)) = take(next, cases) {
                        let result = self.try_case(case, worker).unwrap();
                        results.lock().unwrap().push((index, result));
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap();
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

fn take<'a>(next: &AtomicUsize, cases: &'a [Case]) -> Option<(usize, &'a Case)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    cases.get(index).map(|case| (index, case))
}

/// Returns all cases in a full run. Otherwise, picks one case each of random groups, half of them
/// about [`MACHINERY`].
fn sampled(groups: Vec<Vec<Case>>, seed: u64, sample: usize) -> Vec<Case> {
    if needs::is_full_run() {
        return groups.into_iter().flatten().collect();
    }
    let random = &mut seeded(seed);
    let is_machinery = |group: &Vec<Case>| MACHINERY.contains(&group[0].operation.as_str());
    let (machinery, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_machinery);
    [machinery, others]
        .map(|groups| {
            let count = groups.len().min(sample / 2);
            choose(groups, count, random)
        })
        .concat()
}

/// Sweeps an engine with its default and with each kind of operation.
fn sweep_engine(engine: &'static str, direct: bool, place: &dyn Fn() -> Sandbox) {
    require!(program!().needs_haul());
    for ops in [None, Some("single"), Some("multi"), Some("batch")] {
        sweep(Way { engine, ops, direct }, place());
    }
}

fn sweep(way: Way, sandbox: Sandbox) {
    let begun = Instant::now();
    let sweep = Sweep::new(way, sandbox).unwrap();
    let seed = random::seed(format!("fault sweep {way:?}"), None);
    sweep.prove_engine();
    let is_default = way.ops.is_none() && !way.direct;
    let cases = sampled(sweep.groups(), seed, if is_default { SAMPLE_DEFAULT } else { SAMPLE });
    let results = sweep.run(&cases);

    let count = |fact: &dyn Fn(&CaseResult) -> bool| results.iter().filter(|result| fact(result)).count();
    let fired = count(&|result| result.fired);
    let right = count(&|result| result.verdict == Ok(CopyVerdict::Right));
    let reported = count(&|result| result.verdict == Ok(CopyVerdict::Reported));
    let failures: Vec<String> = cases
        .iter()
        .zip(&results)
        .filter_map(|(case, result)| Some(format!("{case:?}: {}", result.verdict.as_ref().err()?)))
        .collect();
    let way = way.options().join(" ");
    note!(
        "fault sweep {way}: cases={} fired={fired} right copies={right} reported errors={reported} failures={} in {:.1} s",
        cases.len(),
        failures.len(),
        begun.elapsed().as_secs_f64()
    );
    assert!(
        failures.is_empty(),
        "{way}: HAUL_SEED={seed}: {} of {} cases lost something in silence, crashed or hung:\n{}",
        failures.len(),
        cases.len(),
        failures[..failures.len().min(60)].join("\n")
    );
    assert!(fired * 10 >= cases.len() * 9, "{way}: only {fired} of {} faults fired", cases.len());
    if needs::is_full_run() {
        assert!(fired >= FULL_AT_LEAST, "a full sweep has at least {FULL_AT_LEAST} cases, this one {fired}");
    }
}

/// Sweeps the engine that haul chooses.
fn sweep_default_engine() {
    require!(needs::root(), program!().needs_haul());
    sweep(Way { engine: "auto", ops: None, direct: false }, Sandbox::in_memory().unwrap());
}

fn sweep_in_memory(engine: &'static str) {
    require!(needs::root());
    sweep_engine(engine, false, &|| Sandbox::in_memory().unwrap());
}

fn sweep_on_disk(engine: &'static str) {
    require!(needs::loop_mount("ext4"));
    let disk = Mount::image("ext4", DISK_BYTES).unwrap();
    sweep_engine(engine, true, &|| Sandbox::below(disk.path()).unwrap());
}

tests! {
    auto_never_loses_in_silence => sweep_default_engine();
    sync_never_loses_in_silence => sweep_in_memory("sync");
    io_uring_never_loses_in_silence [needs::io_uring()] => sweep_in_memory("io-uring");
    posix_aio_never_loses_in_silence [needs::posix_aio()] => sweep_in_memory("posix-aio");
    kernel_aio_never_loses_in_silence [needs::kernel_aio()] => sweep_in_memory("kernel-aio");
    retry_never_loses_in_silence => sweep_in_memory("retry");
    sync_past_the_cache_never_loses_in_silence => sweep_on_disk("sync");
    io_uring_past_the_cache_never_loses_in_silence [needs::io_uring()] => sweep_on_disk("io-uring");
    posix_aio_past_the_cache_never_loses_in_silence [needs::posix_aio()] => sweep_on_disk("posix-aio");
    kernel_aio_past_the_cache_never_loses_in_silence [needs::kernel_aio()] => sweep_on_disk("kernel-aio");
    retry_past_the_cache_never_loses_in_silence => sweep_on_disk("retry");
}
