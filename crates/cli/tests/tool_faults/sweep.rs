//! The fault sweep of the tools beside the copy: every operation fails once, and nothing is wrong in silence.
//!
//! As in `faults.rs`, a run without a fault counts how often each operation happens; then occurrences of each are made to fail
//! with each error number, and reads and writes are shortened. A case is good when the result is that of the run without a
//! fault, or when the run says what went wrong, with an exit status that says so too. Nothing may hang, panic, die by a signal, or
//! touch what it was to read.
//!
//! A full run (`HAUL_FULL=1`) takes every occurrence of each operation with each error; others a sample, chosen by a seed that is
//! printed (`HAUL_SEED`).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haul_testkit::run::{Ending, Run};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{Kind, Node, Piece, Spec};
use haul_testkit::{Facts, Outcome, Sandbox, Snapshot, compare, needs, note, program, require};

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EINTR", "ENOMEM", "EACCES", "EMFILE"];
const SHORT: [&str; 3] = ["short=0", "short=1", "short=-1"];
const TRANSFERS: [&str; 3] = ["read", "write", "copy_file_range"];
const HANG: Duration = Duration::from_secs(20);
/// Cases of a scene in a run that is not full.
const SAMPLE: usize = 150;

/// Where the result of a scene is.
#[derive(Clone, Copy, Debug)]
enum Product {
    /// On standard output, its lines in any order.
    Lines,
    /// On standard output.
    Output,
    /// In files and directories of the working directory, which begins as `source` does. What a run takes away is gone only if
    /// it was replaced.
    Folder,
}

/// A line, and what is to come of it.
#[derive(Clone, Copy, Debug)]
struct Scene {
    name: &'static str,
    words: &'static [&'static str],
    product: Product,
    /// The exit status without a fault.
    status: i32,
    /// What makes the working directory of what the tree has, for a shell.
    before: &'static str,
    /// A line for a shell that shows what was made in a form that is the same for the same content.
    shown: &'static str,
}

const SCENES: &[Scene] = &[
    Scene {
        name: "cmp of two equal trees",
        words: &["cmp", "--attributes", "tree", "other"],
        product: Product::Lines,
        status: 0,
        before: "cp -a tree other",
        shown: "",
    },
    Scene {
        name: "cmp of two that differ",
        words: &["cmp", "-j1", "tree", "other"],
        product: Product::Lines,
        status: 1,
        before: "cp -a tree other; printf x >> other/outer/inner/blocks; rm other/nothing; ln -sf elsewhere other/link",
        shown: "",
    },
    Scene {
        name: "cmp of two files, in ranges",
        words: &["cmp", "tree/outer/inner/blocks", "other"],
        product: Product::Output,
        status: 1,
        before: "cp tree/outer/inner/blocks other; printf y | dd of=other bs=1 seek=600000 conv=notrunc",
        shown: "",
    },
    Scene {
        name: "each file through a command",
        words: &["each", "--sort=path", "--size=+10", "tree", "--", "cat", "{}"],
        product: Product::Output,
        status: 0,
        before: "true",
        shown: "",
    },
    Scene {
        name: "each block of a file through a command",
        words: &["each", "--block=64K", "tree/outer/inner/blocks", "--", "cat"],
        product: Product::Output,
        status: 0,
        before: "true",
        shown: "",
    },
    Scene {
        name: "a search of a tree",
        words: &["grep", "-rna", "word", "tree"],
        product: Product::Lines,
        status: 0,
        before: "true",
        shown: "",
    },
    Scene {
        name: "a search of a large file, in pieces, after one of another",
        words: &["grep", "-nC1", "99999$", "tree/one", "large"],
        product: Product::Output,
        status: 0,
        before: "seq 1 1000000 > large; echo 99999 >> tree/one",
        shown: "",
    },
    Scene {
        name: "an archive that is made, in places",
        words: &["tar", "--sort=name", "--xattrs", "-Scf", "a.tar", "tree"],
        product: Product::Folder,
        status: 0,
        before: "mkdir tree/more; seq 1 400000 > tree/more/large",
        shown: "tar -tvf a.tar | sort -k6; tar -xOf a.tar | cksum",
    },
    Scene {
        name: "an archive that is made in one run",
        words: &["tar", "--jobs=2", "--xattrs", "-cf", "a.tar", "tree"],
        product: Product::Folder,
        status: 0,
        before: "mkdir tree/more; seq 1 400000 > tree/more/large; seq 1 900000 > tree/larger",
        // Which name of a file comes first is not decided.
        shown: "mkdir out; tar -xpf a.tar -C out; cd out; find . -printf '%p %y %m %U %G %n %s %T@ %l\\n' | grep -v '^. ' | sort; find . -type f | sort | xargs cksum",
    },
    Scene {
        name: "an archive that is made, as a stream",
        words: &["tar", "--sort=name", "--jobs=1", "-c", "tree"],
        product: Product::Output,
        status: 0,
        before: "true",
        shown: "",
    },
    Scene {
        name: "bzip2 of a tree",
        words: &["bzip2", "-r1", "-j2", "packed"],
        product: Product::Folder,
        status: 0,
        before: "cp -a tree packed; find packed -type f -links +1 -delete",
        shown: "find packed | sort; find packed -name '*.bz2' | sort | xargs bzip2 -dc",
    },
    Scene {
        name: "bzip2 -d of a tree",
        words: &["bzip2", "-dr", "-j2", "packed"],
        product: Product::Folder,
        status: 0,
        before: "cp -a tree packed; find packed -type f -links +1 -delete; find packed -type f -exec bzip2 -1 {} +",
        shown: "find packed | sort; find packed -type f | sort | xargs cat",
    },
    Scene {
        name: "bzip2 of a file of several blocks, to standard output",
        words: &["bzip2", "-1c", "-j2", "tree/outer/inner/blocks"],
        product: Product::Output,
        status: 0,
        before: "true",
        shown: "",
    },
    Scene {
        name: "bzip2 -d of a file of several blocks, to standard output",
        words: &["bzip2", "-dc", "-j2", "packed.bz2"],
        product: Product::Output,
        status: 0,
        before: "bzip2 -1c tree/outer/inner/blocks > packed.bz2",
        shown: "",
    },
    Scene {
        name: "an archive that is unpacked, in places",
        words: &["tar", "-xpf", "a.tar", "-C", "out"],
        product: Product::Folder,
        status: 0,
        before: "tar -cSf a.tar tree; mkdir out",
        shown: "cd out; find . -printf '%p %y %m %U %G %n %s %T@ %l\\n' | grep -v '^. ' | sort; find . -type f | sort | xargs cksum",
    },
    Scene {
        name: "an archive that is unpacked, as a stream",
        words: &["tar", "-xz", "-f", "a.tgz", "-C", "out"],
        product: Product::Folder,
        status: 0,
        before: "tar -cSzf a.tgz tree; mkdir out",
        shown: "cd out; find . -printf '%p %y %m %U %G %n %s %T@ %l\\n' | grep -v '^. ' | sort; find . -type f | sort | xargs cksum",
    },
    Scene {
        name: "an archive that is listed",
        words: &["tar", "-tvf", "a.tar"],
        product: Product::Output,
        status: 0,
        before: "tar -cSf a.tar tree",
        shown: "",
    },
];

#[derive(Clone, Debug)]
struct Case {
    operation: String,
    occurrence: u64,
    effect: &'static str,
}

/// The tree that the tools work on: a few text files, one of several blocks, one with holes, and what is no file.
fn tree() -> Spec {
    let data = |bytes| Piece::Data { seed: 3, bytes };
    Spec {
        nodes: vec![
            Node::new(0, "outer", Kind::Directory).mode(0o755),
            Node::new(1, "inner", Kind::Directory).mode(0o700),
            Node::file(2, "blocks", 4, 700_001),
            Node::new(1, "sparse", Kind::File(vec![data(5000), Piece::Hole(1 << 20), data(70_000)])),
            Node::file(0, "one", 5, 100),
            Node::file(1, "two", 6, 4096).mode(0o640),
            Node::file(0, "nothing", 7, 0),
            Node::new(0, "link", Kind::Symlink(b"one".to_vec())),
            Node::new(2, "twin", Kind::HardLink(5)),
            Node::new(1, "pipe", Kind::Fifo),
        ],
    }
}

/// A scene under test.
struct Sweep {
    haul: PathBuf,
    scene: Scene,
    sandbox: Sandbox,
    /// What the working directory is at the beginning.
    source: PathBuf,
    /// What a run without a fault comes to.
    wanted: Vec<u8>,
}

/// Runs a line of a shell, which has to succeed, and gives what it printed.
fn shell(line: &str, folder: &Path) -> Vec<u8> {
    let output =
        Command::new("sh").args(["-ec", line]).current_dir(folder).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Sweep {
    fn new(haul: PathBuf, scene: Scene) -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        let source = sandbox.join("source");
        fs::create_dir(&source).unwrap();
        tree().build(&source.join("tree")).unwrap();
        // Text with the same words in each file, and times that do not depend on when this is run.
        shell(
            "for file in tree/one tree/outer/two tree/outer/inner/blocks; do printf 'a word\\nanother\\n' >> $file; done",
            &source,
        );
        shell(scene.before, &source);
        shell("find . -depth -exec touch -h -d @1000000000 {} +", &source);
        let mut sweep = Self { haul, scene, sandbox, source, wanted: Vec::new() };
        let (outcome, log) = sweep.run("count", 0);
        assert_eq!(outcome.status(), Some(scene.status), "{}: {}", scene.name, outcome.errors());
        assert!(log.lines().count() >= 4, "{}: the hook counted next to nothing: {log}", scene.name);
        sweep.wanted = sweep.product(&outcome, 0);
        sweep
    }

    fn folder(&self, worker: usize) -> PathBuf {
        self.sandbox.join(format!("work-{worker}"))
    }

    /// Runs the line in a working directory of its own; gives the outcome and the hook's log.
    fn run(&self, fault: &str, worker: usize) -> (Outcome, String) {
        let (folder, log) = (self.folder(worker), self.sandbox.join(format!("log-{worker}")));
        remove_tree(&folder);
        fs::write(&log, "").unwrap();
        shell(&format!("cp -a '{}' '{}'", self.source.display(), folder.display()), self.sandbox.path());
        let run = Run::new(&self.haul).args(self.scene.words).within(HANG).in_folder(&folder);
        let outcome = run.env("HAUL_FAULT", fault).env("HAUL_FAULT_LOG", &log).finish().unwrap();
        (outcome, fs::read_to_string(&log).unwrap())
    }

    /// Returns what a run has come to.
    fn product(&self, outcome: &Outcome, worker: usize) -> Vec<u8> {
        match self.scene.product {
            Product::Output => outcome.stdout.clone(),
            Product::Lines => {
                let mut lines: Vec<_> = outcome.stdout.split_inclusive(|byte| *byte == b'\n').collect();
                lines.sort_unstable();
                lines.concat()
            }
            Product::Folder => shell(self.scene.shown, &self.folder(worker)),
        }
    }

    /// Lists every case, in groups of one operation and effect.
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

    /// Runs a case; tells whether the fault struck, and whether its being told of was what saved it.
    fn try_case(&self, case: &Case, worker: usize) -> (bool, Result<Verdict, String>) {
        let fault = format!("{}:{}:{}", case.operation, case.occurrence, case.effect);
        let (outcome, log) = self.run(&fault, worker);
        let fired = log.lines().any(|line| line.starts_with("fired "));
        (fired, self.verdict(&outcome, worker))
    }

    fn verdict(&self, outcome: &Outcome, worker: usize) -> Result<Verdict, String> {
        if outcome.ending == Ending::Hung {
            return Err("hung".to_owned());
        }
        if outcome.crashed() {
            return Err(format!("{:?}: {}", outcome.ending, outcome.errors()));
        }
        self.is_untouched(worker)?;
        let status = outcome.status().unwrap_or(-1);
        let told = !outcome.stderr.is_empty();
        if status != self.scene.status {
            // Which errors a tool knows differ; that one was told does not.
            return if told && status > 0 {
                Ok(Verdict::Reported)
            } else {
                Err(format!("status {status} without a word"))
            };
        }
        if self.product(outcome, worker) == self.wanted {
            return Ok(Verdict::Right);
        }
        if told && status > 1 {
            return Ok(Verdict::Reported);
        }
        Err(format!("status {status}, and the result is wrong: {}", outcome.errors()))
    }

    /// Fails if anything is gone or changed of what was there before. What a tool is to take away, it may, once it has made what
    /// replaces it: then the result shows it.
    fn is_untouched(&self, worker: usize) -> Result<(), String> {
        let look = |folder: &Path| {
            Snapshot::take(&folder.join("tree"), Facts::PRESERVED).map_err(|error| error.to_string())
        };
        let (before, after) = (look(&self.source)?, look(&self.folder(worker))?);
        let differences = compare(&before, &after, Facts::PRESERVED).map_err(|error| error.to_string())?;
        if differences.list.is_empty() {
            Ok(())
        } else {
            Err(format!("the source was changed: {differences:?}"))
        }
    }
}

/// What a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Reported,
}

/// Takes all cases in a full run, or a sample in which each operation and effect is.
fn choose(mut groups: Vec<Vec<Case>>, seed: u64) -> Vec<Case> {
    if needs::is_full_run() {
        return groups.into_iter().flatten().collect();
    }
    let mut state = seed;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut cases = Vec::new();
    while cases.len() < SAMPLE && !groups.is_empty() {
        let index = below(groups.len());
        let group = &mut groups[index];
        let one = below(group.len());
        cases.push(group.swap_remove(one));
        if group.is_empty() || cases.len() % 2 == 0 {
            groups.swap_remove(index);
        }
    }
    cases
}

fn sweep(scene: Scene) {
    let program = program!();
    require!(program.needs_haul());
    require!(needs::root());
    let sweep = Sweep::new(fs::canonicalize(program.path()).unwrap(), scene);
    let seed = needs::count_from("HAUL_SEED", std::process::id() as usize) as u64;
    let cases = choose(sweep.groups(), seed);
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
        "fault sweep, {}: HAUL_SEED={seed} cases={} fired={fired} right={right} failures={}",
        scene.name,
        cases.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}: HAUL_SEED={seed}:\n{}", scene.name, failures.join("\n"));
    assert!(fired * 10 >= cases.len() * 8, "{}: only {fired} of {} faults fired", scene.name, cases.len());
}

/// Sweeps the scenes of a tool.
fn sweep_tool(tool: &str) {
    let scenes: Vec<_> = SCENES.iter().filter(|scene| scene.words[0] == tool).collect();
    assert!(!scenes.is_empty(), "no scene of {tool}");
    scenes.into_iter().for_each(|scene| sweep(*scene));
}

#[test]
fn cmp_is_never_wrong_in_silence() {
    sweep_tool("cmp");
}

#[test]
fn each_is_never_wrong_in_silence() {
    sweep_tool("each");
}

#[test]
fn a_command_that_cannot_be_started_or_heard_is_told_of() {
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

#[test]
fn grep_is_never_wrong_in_silence() {
    sweep_tool("grep");
}

#[test]
fn bzip2_is_never_wrong_in_silence() {
    require!(needs::tool("bzip2"));
    sweep_tool("bzip2");
}

#[test]
fn tar_is_never_wrong_in_silence() {
    require!(needs::tool("tar"));
    sweep_tool("tar");
}
