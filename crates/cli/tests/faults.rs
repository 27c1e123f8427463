//! The fault sweep: every operation fails once, and nothing is lost in silence.
//!
//! Needs the feature `fault`, which compiles a hook into the one place through which all system calls and completions pass.
//! A run without a fault counts how often each operation happens; then each occurrence of each operation is made to fail with
//! each error number, and each read and write is shortened. A case is good when the copy is right and the status 0, or the
//! status is 1 and every entry that is not right is named in a message (see `haul_testkit::verdict`, which has tests of its
//! own). Nothing may hang, panic or die by a signal.
//!
//! Scenes: a fresh copy with one worker and with four, and a copy onto an older one. A full run (`HAUL_FULL=1`) takes every
//! occurrence; others a sample from each pair of operation and error, chosen by a seed that is printed (`HAUL_SEED`).

#![cfg(feature = "fault")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haul_testkit::everything::ACCESS_ACL;
use haul_testkit::run::Ending;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{Kind, Node, Piece, Spec, acl};
use haul_testkit::verdict::{Verdict, judge};
use haul_testkit::{Facts, Program, Sandbox, Snapshot, compare, needs, note, program, require};

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EINTR", "ENOMEM", "EACCES", "EMFILE"];
const SHORT: [&str; 3] = ["short=0", "short=1", "short=-1"];
const TRANSFERS: [&str; 3] = ["read", "write", "copy_file_range"];
const SAMPLE: usize = 400;
const FULL_AT_LEAST: usize = 3000;
const HANG: Duration = Duration::from_secs(20);

/// How a copy begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    FreshAlone,
    FreshTogether,
    OntoOlder,
}

const SCENES: [Scene; 3] = [Scene::FreshAlone, Scene::FreshTogether, Scene::OntoOlder];

impl Scene {
    fn jobs(self) -> &'static str {
        if self == Self::FreshTogether { "-j4" } else { "-j1" }
    }
}

#[derive(Clone, Debug)]
struct Case {
    scene: Scene,
    operation: String,
    occurrence: u64,
    effect: &'static str,
}

/// The tree that is copied: about a dozen entries, one of each kind that a copier can lose something of.
fn tree() -> Spec {
    let data = |bytes| Piece::Data { seed: 3, bytes };
    let sparse = vec![data(5000), Piece::Hole(1 << 20), data(70_000), Piece::Hole(300_000)];
    let acl_bytes = acl(0o640, 1, 6);
    Spec {
        nodes: vec![
            Node::new(0, "outer", Kind::Directory).mode(0o750).modified(1_000_000_000, 1),
            Node::new(1, "inner", Kind::Directory)
                .mode(0o1777)
                .modified(1_000_000_001, 2)
                .attribute("user.d", "dir"),
            Node::new(0, "bare", Kind::Directory).mode(0o555),
            Node::new(2, "sparse", Kind::File(sparse)),
            Node::file(1, "blocks", 4, 300_001).owner(1, 2),
            Node::file(0, "setuid", 5, 100).mode(0o6755).owner(3, 4),
            Node::file(2, "attributes", 6, 4096)
                .mode(0o640)
                .attribute("user.a", "b")
                .attribute(ACCESS_ACL, acl_bytes),
            Node::file(0, b"not-\xff-text".to_vec(), 7, 10),
            Node::file(0, "nothing", 7, 0).mode(0o400),
            Node::new(0, "pipe", Kind::Fifo).mode(0o620),
            Node::new(2, "symlink", Kind::Symlink(b"../blocks".to_vec())).owner(5, 6),
            Node::new(0, "socket", Kind::Socket),
            Node::new(2, "linked", Kind::HardLink(2)),
            Node::new(0, "linked-too", Kind::HardLink(1)),
        ],
    }
}

/// What lies in the target when a copy goes onto an older one: other contents, other modes, and not everything.
fn older() -> Spec {
    let mut nodes = tree().nodes;
    nodes.retain(|node| !matches!(node.kind, Kind::HardLink(_) | Kind::Fifo | Kind::Socket));
    for node in &mut nodes {
        node.mode = 0o700;
        node.attributes.clear();
        node.owner = None;
        if let Kind::File(pieces) = &mut node.kind {
            *pieces = vec![Piece::Data { seed: 99, bytes: 9000 }];
        }
    }
    Spec { nodes }
}

struct Sweep {
    program: Program,
    engine: &'static str,
    sandbox: Sandbox,
    expected: Snapshot,
}

/// What one case came to.
struct Result {
    fired: bool,
    verdict: std::result::Result<Verdict, String>,
}

impl Sweep {
    fn new(engine: &'static str) -> io::Result<Self> {
        let sandbox = Sandbox::in_memory()?;
        tree().build(&sandbox.join("source"))?;
        let expected = Snapshot::take(&sandbox.join("source"), Facts::PRESERVED)?;
        Ok(Self { program: program!(), engine, sandbox, expected })
    }

    /// Runs one copy into a target of its own, with `fault` as the hook's order, and gives the verdict and the hook's log.
    fn copy(&self, scene: Scene, fault: &str, worker: usize) -> io::Result<(Result, String)> {
        let [target, log] = ["target", "log"].map(|name| self.sandbox.join(format!("{name}-{worker}")));
        remove_tree(&target);
        fs::write(&log, "")?;
        if scene == Scene::OntoOlder {
            older().build(&target)?;
        }
        let source = self.sandbox.join("source");
        let run = self.program.run_with(&[self.engine, scene.jobs()]);
        let run = run.args(["-a", "-T"]).args([&source, &target]).within(HANG);
        let outcome = run.env("HAUL_FAULT", fault).env("HAUL_FAULT_LOG", &log).finish()?;
        let verdict = match outcome.ending {
            Ending::Hung => Err("hung".to_owned()),
            _ => self.verdict(&outcome, &source, &target),
        };
        let log = fs::read_to_string(&log)?;
        let fired = log.lines().any(|line| line.starts_with("fired "));
        Ok((Result { fired, verdict }, log))
    }

    fn verdict(
        &self,
        outcome: &haul_testkit::Outcome,
        source: &Path,
        target: &PathBuf,
    ) -> std::result::Result<Verdict, String> {
        let differences = if fs::symlink_metadata(target).is_ok() {
            let found = Snapshot::take(target, Facts::PRESERVED).map_err(|error| error.to_string())?;
            compare(&self.expected, &found, Facts::PRESERVED).map_err(|error| error.to_string())?
        } else {
            let nothing = self.sandbox.join("nothing-at-all");
            fs::create_dir_all(&nothing).map_err(|error| error.to_string())?;
            let found = Snapshot::take(&nothing, Facts::PRESERVED).map_err(|error| error.to_string())?;
            compare(&self.expected, &found, Facts::PRESERVED).map_err(|error| error.to_string())?
        };
        judge(outcome, &self.expected, &differences, [source, target])
    }

    /// Counts how often each operation happens in a good copy.
    fn count(&self, scene: Scene) -> BTreeMap<String, u64> {
        let (result, log) = self.copy(scene, "count", 0).unwrap();
        assert_eq!(result.verdict, Ok(Verdict::Right), "without a fault the copy must be right ({scene:?})");
        let pairs = log.lines().filter_map(|line| line.split_once(' '));
        let counts: BTreeMap<_, _> =
            pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect();
        assert!(counts.len() >= 8, "the hook counted next to nothing: {log:?}");
        counts
    }

    /// Lists every case, in groups of one scene, operation and effect.
    fn groups(&self) -> Vec<Vec<Case>> {
        let mut groups = Vec::new();
        for scene in SCENES {
            for (operation, count) in self.count(scene) {
                let shortened = TRANSFERS.contains(&operation.as_str());
                let effects = ERRORS.iter().chain(SHORT.iter().filter(|_| shortened));
                groups.extend(effects.map(|&effect| {
                    let case = |occurrence| Case { scene, operation: operation.clone(), occurrence, effect };
                    (1..=count).map(case).collect()
                }));
            }
        }
        groups
    }

    /// Runs the cases on two threads and gives what each came to, in order.
    fn run(&self, cases: &[Case]) -> Vec<Result> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for worker in 0..2 {
                let (next, results) = (&next, &results);
                scope.spawn(move || {
                    while let Some((index, case)) = take(next, cases) {
                        let fault = format!("{}:{}:{}", case.operation, case.occurrence, case.effect);
                        let (result, _) = self.copy(case.scene, &fault, worker).unwrap();
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

/// Takes all cases of a full run, or some of each group, spread by the seed.
fn choose(groups: Vec<Vec<Case>>, seed: u64) -> Vec<Case> {
    if needs::is_full_run() {
        return groups.into_iter().flatten().collect();
    }
    let each = SAMPLE.div_ceil(groups.len().max(1)).max(1);
    let mut state = seed;
    let mut cases = Vec::new();
    for group in groups {
        let step = (group.len() / each).max(1);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let first = usize::try_from(state >> 33).unwrap() % step;
        cases.extend(group.into_iter().skip(first).step_by(step).take(each));
    }
    cases
}

fn sweep(engine: &'static str) {
    let sweep = Sweep::new(engine).unwrap();
    require!(sweep.program.needs_haul());
    let seed = needs::count_from("HAUL_SEED", std::process::id() as usize) as u64;
    let uses_ring = sweep.count(Scene::FreshAlone).contains_key("io_uring_enter");
    assert_eq!(uses_ring, engine.ends_with("io-uring"), "the engine in use is not the one asked for");
    let cases = choose(sweep.groups(), seed);
    let results = sweep.run(&cases);

    let count = |fact: &dyn Fn(&Result) -> bool| results.iter().filter(|result| fact(result)).count();
    let fired = count(&|result| result.fired);
    let right = count(&|result| result.verdict == Ok(Verdict::Right));
    let reported = count(&|result| result.verdict == Ok(Verdict::Reported));
    let failures: Vec<String> = cases
        .iter()
        .zip(&results)
        .filter_map(|(case, result)| Some(format!("{case:?}: {}", result.verdict.as_ref().err()?)))
        .collect();
    note!(
        "fault sweep {engine}: HAUL_SEED={seed} cases={} fired={fired} right copies={right} reported errors={reported} failures={}",
        cases.len(),
        failures.len()
    );
    assert!(
        failures.is_empty(),
        "{} of {} cases lost something in silence, crashed or hung:\n{}",
        failures.len(),
        cases.len(),
        failures[..failures.len().min(60)].join("\n")
    );
    assert!(fired * 10 >= cases.len() * 9, "only {fired} of {} faults fired", cases.len());
    if needs::is_full_run() {
        assert!(fired >= FULL_AT_LEAST, "a full sweep has at least {FULL_AT_LEAST} cases, this one {fired}");
    }
}

#[test]
fn sync_never_loses_in_silence() {
    require!(needs::root());
    sweep("--engine=sync");
}

#[test]
fn io_uring_never_loses_in_silence() {
    require!(needs::root());
    require!(needs::io_uring());
    sweep("--engine=io-uring");
}
