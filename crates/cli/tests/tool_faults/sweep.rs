//! Fault sweep of the applets other than `cp`: every operation fails once, and nothing goes
//! wrong silently.
//!
//! Like the sweep of the copy: a run without a fault counts the operations. Then occurrences of
//! each operation fail with each errno, and reads and writes are shortened. A case passes if the
//! result is that of the run without a fault, or if the exit status reports a failure and messages
//! name each entry with a wrong result (see `verdict.rs`). Nothing may hang, panic, die by a
//! signal, or change its input.
//!
//! A full run (`HAUL_FULL=1`) covers every occurrence of each operation with each errno; others
//! take a sample, chosen by a seed that is printed (`HAUL_SEED`).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haul_testkit::random::{self, choose, seeded};
use haul_testkit::run::{RunEnding, TestRun};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::{Facts, RunOutcome, Sandbox, Snapshot, compare, needs, note, program, require, tests};

use crate::scenes::{Product, SCENES, Scene, tree};
use crate::verdict::{self, Wrong, Wrongs, explains, wrong};

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EINTR", "ENOMEM", "EACCES", "EMFILE"];
const SHORT: [&str; 3] = ["short=0", "short=1", "short=-1"];
const TRANSFERS: [&str; 3] = ["read", "write", "copy_file_range"];
const HANG: Duration = Duration::from_secs(20);
/// Cases per scene, unless the run is full.
const SAMPLE: usize = 150;

#[derive(Clone, Debug)]
struct Case {
    operation: String,
    occurrence: u64,
    effect: &'static str,
}

/// Runs a shell line, which must succeed.
pub(crate) fn shell(line: &str, folder: &Path) {
    let output =
        Command::new("sh").args(["-ec", line]).current_dir(folder).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

struct Sweep {
    haul: PathBuf,
    scene: Scene,
    sandbox: Sandbox,
    /// Initial working directory.
    source: PathBuf,
    /// Working directory after a run without a fault.
    expected: PathBuf,
    /// Output of that run.
    printed: Vec<u8>,
}

impl Sweep {
    fn new(haul: PathBuf, scene: Scene) -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        let [source, expected] = ["source", "expected"].map(|name| sandbox.join(name));
        fs::create_dir(&source).unwrap();
        tree().build(&source.join("tree")).unwrap();
        // Text with the same words in each file, and fixed times.
        shell(
            "for file in tree/one tree/outer/two tree/outer/inner/blocks; do printf 'a word\\nanother\\n' >> $file; done",
            &source,
        );
        shell(scene.before, &source);
        shell("find . -depth -exec touch -h -d @1000000000 {} +", &source);
        let mut sweep = Self { haul, scene, sandbox, source, expected, printed: Vec::new() };
        let (outcome, log) = sweep.run("count", 0);
        assert_eq!(outcome.status(), Some(scene.status), "{}: {}", scene.name, outcome.errors());
        assert!(log.lines().count() >= 4, "{}: the hook counted next to nothing: {log}", scene.name);
        sweep.unpack(&outcome, 0).unwrap();
        fs::rename(sweep.folder(0), &sweep.expected).unwrap();
        sweep.printed = outcome.stdout;
        // Run again without a fault, so that the verdict itself is checked.
        let (again, _) = sweep.run("count", 0);
        let verdict = sweep.verdict(&again, 0);
        assert_eq!(verdict, Ok(Verdict::Right), "{}, without a fault: {}", scene.name, again.errors());
        sweep
    }

    fn folder(&self, worker: usize) -> PathBuf {
        self.sandbox.join(format!("work-{worker}"))
    }

    /// Runs the line in a working directory of its own; returns the outcome and the hook's log.
    fn run(&self, fault: &str, worker: usize) -> (RunOutcome, String) {
        let (folder, log) = (self.folder(worker), self.sandbox.join(format!("log-{worker}")));
        remove_tree(&folder);
        fs::write(&log, "").unwrap();
        shell(&format!("cp -a '{}' '{}'", self.source.display(), folder.display()), self.sandbox.path());
        let run = TestRun::new(&self.haul).args(self.scene.words).within(HANG).in_folder(&folder);
        let outcome = run.env("HAUL_FAULT", fault).env("HAUL_FAULT_LOG", &log).finish().unwrap();
        (outcome, fs::read_to_string(&log).unwrap())
    }

    /// Unpacks the archive that a run created, if any, as `unpacked` in its directory.
    fn unpack(&self, outcome: &RunOutcome, worker: usize) -> Result<(), String> {
        let folder = self.folder(worker);
        match self.scene.product {
            Product::ArchiveStream => fs::write(folder.join("a.tar"), &outcome.stdout).unwrap(),
            Product::Archive => {}
            _ => return Ok(()),
        }
        fs::create_dir(folder.join("unpacked")).unwrap();
        let line = ["-xpf", "a.tar", "-C", "unpacked"];
        let tar = Command::new("tar").args(line).current_dir(&folder).env("LC_ALL", "C").output().unwrap();
        // Hard links to skipped members show up in the unpacked tree; all other messages are about
        // the archive.
        let is_of_links =
            |line: &str| line.contains("Cannot hard link to") || line.contains("due to previous errors");
        let messages = String::from_utf8_lossy(&tar.stderr).into_owned();
        if messages.lines().all(is_of_links) { Ok(()) } else { Err(messages) }
    }

    fn wrongs(&self, outcome: &RunOutcome, worker: usize) -> Wrongs {
        let (folder, got) = (self.folder(worker), &outcome.stdout);
        let both = |name: &str| (self.expected.join(name), folder.join(name));
        match self.scene.product {
            Product::Differences => verdict::differences(&self.printed, got),
            Product::Matches => verdict::matches(&self.printed, got),
            Product::Hashes => verdict::hashes(&self.printed, got),
            Product::Manifest => {
                let (expected, found) = both("SUMS");
                verdict::manifest(&fs::read(expected).unwrap(), fs::read(found).ok().as_deref())
            }
            Product::Verdicts => verdict::verdicts(&self.printed, got),
            Product::Stream(input) => verdict::stream(input, &self.printed, got),
            Product::Blocks(input) => verdict::blocks(input, &self.printed, got),
            Product::Contents(files) => {
                let piece = |file: &&'static str| (*file, fs::read(self.source.join(file)).unwrap());
                verdict::contents(&files.iter().map(piece).collect::<Vec<_>>(), got)
            }
            Product::Archive | Product::ArchiveStream => {
                if let Err(error) = self.unpack(outcome, worker) {
                    let text = format!("it cannot be unpacked: {error}");
                    return Ok(vec![wrong("a.tar", text)]);
                }
                let (expected, found) = both("unpacked");
                verdict::tree(&expected, &found, true)
            }
            Product::Extracted(_) => {
                let (expected, found) = both("out");
                verdict::tree(&expected, &found, false)
            }
            Product::Replaced(outputs_end) => {
                let (expected, found) = both("packed");
                verdict::replaced(&self.source.join("packed"), &expected, &found, outputs_end)
            }
        }
    }

    /// Returns names that stand for the whole result.
    fn whole(&self) -> &'static [&'static str] {
        match self.scene.product {
            Product::Archive => &["a.tar"],
            Product::Manifest => &["SUMS"],
            Product::Verdicts => &["sums", "standard output", "write error"],
            // Standard output, as GNU tar calls it.
            Product::ArchiveStream => &["-"],
            // GNU tar says "Unexpected EOF in archive" and "does not look like a tar archive".
            Product::Extracted("a.tgz") => &["a.tgz", "archive", "out"],
            Product::Extracted(_) => &["a.tar", "archive", "out"],
            Product::Replaced(_) => &["packed"],
            Product::Contents(_) | Product::Blocks(_) => {
                &["skipping the remaining commands", "standard output", "write error"]
            }
            _ => &["standard output", "stdout", "write error"],
        }
    }

    /// Lists every case, grouped by operation and effect.
    fn groups(&self) -> Vec<Vec<Case>> {
        let (_, log) = self.run("count", 0);
        let pairs = log.lines().filter_map(|line| line.split_once(' '));
        let counts: BTreeMap<_, u64> =
            pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect();
        let mut groups = Vec::new();
        for (operation, count) in counts {
            let shortened = TRANSFERS.contains(&operation.as_str());
            for effect in ERRORS.iter().chain(SHORT.iter().filter(|_| shortened)) {
                let case = |occurrence| Case { operation: operation.clone(), occurrence, effect };
                groups.push((1..=count).map(case).collect());
            }
        }
        groups
    }

    /// Runs a case; returns whether the fault fired, and the verdict.
    fn try_case(&self, case: &Case, worker: usize) -> (bool, Result<Verdict, String>) {
        let fault = format!("{}:{}:{}", case.operation, case.occurrence, case.effect);
        let (outcome, log) = self.run(&fault, worker);
        let fired = log.lines().any(|line| line.starts_with("fired "));
        (fired, self.verdict(&outcome, worker))
    }

    fn verdict(&self, outcome: &RunOutcome, worker: usize) -> Result<Verdict, String> {
        if outcome.ending == RunEnding::Hung {
            return Err("hung".to_owned());
        }
        if outcome.crashed() {
            return Err(format!("{:?}: {}", outcome.ending, outcome.errors()));
        }
        self.is_untouched(worker)?;
        let (status, messages) = (outcome.status().unwrap_or(-1), outcome.errors());
        let told = |text: String| format!("status {status}: {text}; messages: {messages}");
        let wrongs = self.wrongs(outcome, worker).map_err(told)?;
        if status == self.scene.status {
            let silent = wrongs.first().map(|first| told(format!("{}: {}", first.entry, first.text)));
            return silent.map_or(Ok(Verdict::Right), Err);
        }
        if !self.scene.failed().contains(&status) {
            return Err(told("no status of a failure".to_owned()));
        }
        if messages.is_empty() {
            return Err(told("without a word".to_owned()));
        }
        let is_explained = |wrong: &Wrong| {
            wrong.is_explained(&messages) || self.whole().iter().any(|name| explains(&messages, name))
        };
        match wrongs.iter().find(|wrong| !is_explained(wrong)) {
            Some(wrong) => Err(told(format!("nothing names {}: {}", wrong.entry, wrong.text))),
            None => Ok(Verdict::Reported),
        }
    }

    /// Fails if any input that the applet only reads is missing or changed.
    fn is_untouched(&self, worker: usize) -> Result<(), String> {
        let look =
            |folder: &Path| Snapshot::take(folder, Facts::PRESERVED).map_err(|error| error.to_string());
        let (before, after) = (look(&self.source)?, look(&self.folder(worker))?);
        let differences = compare(&before, &after, Facts::PRESERVED).map_err(|error| error.to_string())?;
        let own: &[u8] = match self.scene.product {
            Product::Archive => b"a.tar",
            Product::Manifest => b"SUMS",
            Product::Extracted(_) => b"out",
            Product::Replaced(_) => b"packed",
            _ => b".",
        };
        let is_own = |path: &[u8]| path.is_empty() || path.split(|byte| *byte == b'/').next() == Some(own);
        match differences.list.iter().find(|difference| !is_own(&difference.path)) {
            Some(difference) => Err(format!("the source was changed: {difference:?}")),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Reported,
}

fn sweep(scene: Scene) {
    let program = program!();
    require!(program.needs_haul(), needs::root());
    let sweep = Sweep::new(fs::canonicalize(program.path()).unwrap(), scene);
    let seed = random::seed(scene.name, None);
    // All cases in a full run, or else a random sample spread over operations and effects.
    let count = if needs::is_full_run() { usize::MAX } else { SAMPLE };
    let cases = choose(sweep.groups(), count, &mut seeded(seed));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (next, results, sweep, cases) = (&next, &results, &sweep, &cases);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (fired, verdict) = sweep.try_case(case, worker);
                    results.lock().unwrap().push((case.clone(), fired, verdict));
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    let fired = results.iter().filter(|(_, fired, _)| *fired).count();
    let right = results.iter().filter(|(.., verdict)| *verdict == Ok(Verdict::Right)).count();
    let failures: Vec<_> = results
        .iter()
        .filter_map(|(case, _, verdict)| Some(format!("{case:?}: {}", verdict.as_ref().err()?)))
        .collect();
    note!(
        "fault sweep, {}: cases={} fired={fired} right={right} reported={} failures={}",
        scene.name,
        cases.len(),
        cases.len() - right - failures.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}: HAUL_SEED={seed}:\n{}", scene.name, failures.join("\n"));
    assert!(fired * 10 >= cases.len() * 8, "{}: only {fired} of {} faults fired", scene.name, cases.len());
}

fn sweep_tool(tool: &str) {
    let scenes: Vec<_> = SCENES.iter().filter(|scene| scene.words[0] == tool).collect();
    assert!(!scenes.is_empty(), "no scene of {tool}");
    scenes.into_iter().for_each(|scene| sweep(*scene));
}

tests! {
    cmp_is_never_wrong_in_silence => sweep_tool("cmp");
    each_is_never_wrong_in_silence => sweep_tool("each");
}

#[test]
fn a_command_that_cannot_be_started_or_heard_is_reported() {
    let program = program!();
    require!(program.needs_haul());
    let scenes = SCENES.iter().filter(|scene| scene.words[0] == "each");
    for scene in scenes {
        let sweep = Sweep::new(fs::canonicalize(program.path()).unwrap(), *scene);
        for fault in ["execve:2:EAGAIN", "wait4:1:EIO"] {
            let (outcome, log) = sweep.run(fault, 0);
            assert!(log.contains("fired "), "{}, {fault}: {log}", scene.name);
            assert_eq!(outcome.status(), Some(2), "{}, {fault}: {}", scene.name, outcome.errors());
            assert!(outcome.errors().contains("the command") || outcome.errors().contains("cannot run"));
        }
    }
}

tests! {
    sum_is_never_wrong_in_silence => sweep_tool("sum");
    grep_is_never_wrong_in_silence => sweep_tool("grep");
    bzip2_is_never_wrong_in_silence [needs::tool("bzip2")] => sweep_tool("bzip2");
    tar_is_never_wrong_in_silence [needs::tool("tar")] => sweep_tool("tar");
}
