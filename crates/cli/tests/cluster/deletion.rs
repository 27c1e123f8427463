//! `haul sync --delete` by several processes: who deletes, and what stays when something goes
//! wrong.
//!
//! Ranks start after the survey, so what the script does that starts them (`HAUL_AGENT`) is done
//! between survey and deletion.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::flip::Flipper;
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::run::{RunOutcome, TestRun};
use haul_testkit::strace::parse;
use haul_testkit::{CopyProgram, Sandbox, needs, note, program, require};

use crate::start::{Way, agent, relatives, script};
use crate::tools::{Line, differences_with, line};

const LIMIT: Duration = Duration::from_secs(60);

const RANKS: u32 = 4;

/// Files only in the target, at its top and in each of eight directories.
const FILES: usize = 300;

/// A source, and a target that has much more.
const SCENE: &str = "
    mkdir -p s/both; for n in 1 2 3; do echo $n >s/$n; echo $n >s/both/$n; done; cp -a s t
    for d in t t/both t/1st t/2nd t/2nd/in t/3rd t/3rd/in/in t/4th t/5th; do
        mkdir -p $d; for n in $(seq 300); do : >$d/old$n; done
    done; ln -s ../../s t/1st/link; mkfifo t/1st/fifo";

struct Scene {
    sandbox: Sandbox,
    haul: CopyProgram,
    mark: String,
}

impl Scene {
    fn new(more: &str) -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(SCENE).unwrap();
        sandbox.script(more).unwrap();
        let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
        let haul = script(&sandbox, &mpi, Way::Clients(RANKS), &[]);
        let mark = sandbox.path().file_name().unwrap().to_str().unwrap().to_owned();
        Self { sandbox, haul, mark }
    }

    /// Returns a sync with `--delete` from `s` to `t`.
    fn sync(&self, options: &[&str]) -> TestRun {
        let run =
            TestRun::new(self.haul.path()).args(["sync", "--delete", "--max-delete=100%"]).args(options);
        let run = run.args(["s", "t"]).in_folder(self.sandbox.path()).env("LC_ALL", "C");
        run.env("HAUL_TEST", &self.mark).env("HAUL_SILENCE", "10").within(LIMIT)
    }

    fn agent(&self, code: &str) -> PathBuf {
        agent(&self.sandbox, code)
    }

    fn finish(&self, run: TestRun) -> RunOutcome {
        let outcome = run.finish().unwrap();
        assert_eq!(relatives(&self.mark), []);
        outcome
    }

    /// Returns how many of the extra files are left.
    fn left(&self) -> usize {
        let is_old = |entry: &walkdir::DirEntry| entry.file_name().to_string_lossy().starts_with("old");
        walkdir::WalkDir::new(self.sandbox.join("t")).into_iter().flatten().filter(is_old).count()
    }

    fn is_equal(&self) -> bool {
        let names = |root: &str| {
            let root = self.sandbox.join(root);
            let entries = walkdir::WalkDir::new(&root).sort_by_file_name().into_iter();
            let below = |path: &Path| path.strip_prefix(&root).unwrap().to_owned();
            entries.map(|entry| below(entry.unwrap().path())).collect::<Vec<_>>()
        };
        names("s") == names("t")
    }
}

macro_rules! needed {
    ($($more:expr),*) => {
        require!(MpiKind::OpenMpi4.needed(), program!().needs_haul() $(, $more)*);
    };
}

/// Lines with a deletion, by one process and by ranks.
const LINES: &[Line] = &[
    Line { before: MANY, ..line("sync -v --delete --max-delete=100% tree t") },
    Line { before: MANY, ..line("sync -i --delete --max-delete=100% tree t") },
    Line { before: MANY, ..line("sync -n -i --delete --max-delete=100% tree t") },
    Line { before: MANY, ..line("sync -i --delete --max-delete=20 tree t") },
    Line { before: MANY, ..line("sync -i --delete --max-delete=100% --exclude=*7 --exclude=x/in tree t") },
    Line { before: MANY, ..line("sync -i --delete-excluded --max-delete=100% --exclude=*7 tree t") },
    Line { before: MANY, ..line("sync -i --delete --max-delete=100% --max-size=1 tree t") },
    Line { before: MANY, ..line("sync -i --delete --max-delete=100% --backup-dir=../kept tree t") },
    Line { before: MANY, ..line("sync -i --delete --max-delete=100% tree/missing t") },
];

const MANY: &str = "rm tree/a/twin; cp -a tree t; mkdir -p t/x/in/deep t/y
    for d in t t/a t/x t/x/in t/x/in/deep; do for n in $(seq 150); do echo $n >$d/more$n; done; done
    echo way >tree/way; mkdir t/way; echo in >t/way/in; touch -d @7 t t/a";

#[test]
fn ranks_delete_what_one_process_deletes() {
    needed!(needs::root());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let all: Vec<_> = LINES.iter().collect();
    let ways: [(Way, &[&str]); 3] =
        [(Way::Clients(2), &[]), (Way::Clients(4), &["--walk=ranks"]), (Way::Ranks(3), &[])];
    let failures: Vec<_> =
        ways.iter().flat_map(|(way, own)| differences_with(&mpi, *way, own, &all)).collect();
    note!("{} deletions by ranks: {} differ", ways.len() * all.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_rank_deletes_files_and_the_launch_process_directories() {
    needed!(needs::tool("strace"));
    let scene = Scene::new("");
    let agent =
        scene.agent("set -- strace -f -qq -y --seccomp-bpf -e trace=unlinkat -o calls.$rank -- \"$@\"");
    let outcome = scene.finish(scene.sync(&["-v"]).env("HAUL_AGENT", &agent));
    assert!(outcome.succeeded() && scene.is_equal(), "{}", outcome.errors());
    let removed: Vec<_> = (0..RANKS)
        .map(|rank| {
            let log = fs::read(scene.sandbox.join(format!("calls.{rank}"))).unwrap();
            let calls = parse(&String::from_utf8_lossy(&log));
            let of_target = |call: &&haul_testkit::strace::TracedCall| {
                let name = call.path(1).unwrap_or_default();
                [b"old".as_slice(), b"link", b"fifo"].iter().any(|start| name.starts_with(start))
            };
            calls.iter().filter(of_target).filter(|call| !call.failed()).count()
        })
        .collect();
    note!("files removed by each rank: {removed:?}");
    assert_eq!(removed.iter().sum::<usize>(), 9 * FILES + 2, "{removed:?}");
    // The split isn't deterministic: the launch process sends new items to the rank that is free.
    assert!(removed.iter().all(|count| *count > 0), "{removed:?}");
    let printed = outcome.printed();
    let count = |what: &str| printed.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("removed '"), count("removed directory '")), (9 * FILES + 2, 8));
    // A directory's line comes after those of what was in it.
    let last = |what: &str| printed.rfind(what).unwrap();
    assert!(last("t/3rd/in/in/old") < last("directory 't/3rd/in/in'"), "{printed}");
}

#[test]
fn after_an_error_of_a_rank_nothing_is_deleted() {
    needed!(needs::tool("strace"));
    let scene = Scene::new("echo new >s/new");
    // The new file can't get its name.
    let agent =
        scene.agent("set -- strace -f -qq -o none -e inject=linkat,renameat,renameat2:error=EIO -- \"$@\"");
    let outcome = scene.finish(scene.sync(&[]).env("HAUL_AGENT", &agent));
    let told = outcome.errors();
    assert_eq!((outcome.status(), scene.left()), (Some(1), 9 * FILES), "{told}");
    assert!(told.contains("new") && told.contains("Input/output error"), "{told}");
    assert!(told.contains("nothing was deleted"), "{told}");
}

#[test]
fn a_rank_that_dies_ends_the_deletion() {
    needed!(needs::tool("strace"));
    for victim in [0, 2] {
        let scene = Scene::new("");
        let agent = scene.agent(&format!(
            "echo >>started\n[ $rank != {victim} ] || set -- strace -f -qq -o none -e inject=unlinkat:signal=KILL:when=5 -- \"$@\""
        ));
        let outcome = scene.finish(scene.sync(&[]).env("HAUL_AGENT", &agent));
        let (told, left) = (outcome.errors(), scene.left());
        note!("rank {victim} dies: {left} of {} files are left: {told}", 9 * FILES);
        assert_eq!(outcome.status(), Some(1), "{told}");
        assert!(told.contains("not everything was done") && !told.contains("restarting"), "{told}");
        assert!(!told.contains("cannot remove"), "{told}");
        assert!(left > 0, "{told}");
        let started = fs::read_to_string(scene.sandbox.join("started")).unwrap();
        assert_eq!(started.lines().count(), RANKS as usize, "ranks were started again");
        // Another run does the rest.
        let outcome = scene.finish(scene.sync(&[]));
        assert!(outcome.succeeded() && scene.is_equal(), "{}", outcome.errors());
    }
}

#[test]
fn what_has_changed_since_the_survey_stays() {
    needed!();
    let scene = Scene::new("mkdir outside; echo precious >outside/old1; echo precious >outside/other");
    let agent = scene.agent(
        "if [ $rank = 0 ]; then
            echo new >t/new; mv t/new t/old7
            echo wanted >s/old8
            mv t/both/old9 t/both/away
            mv t/4th away; ln -s ../outside t/4th
            mv t/5th/old5 t/5th/kept; mv t/5th old5th; cp -a outside t/5th
        fi",
    );
    let outcome = scene.finish(scene.sync(&[]).env("HAUL_AGENT", &agent));
    let told = outcome.errors();
    assert_eq!(outcome.status(), Some(1), "{told}");
    let is_there = |path: &str| scene.sandbox.join(path).exists();
    for kept in
        ["t/old7", "t/old8", "t/both/away", "outside/old1", "outside/other", "t/5th/old1", "t/5th/other"]
    {
        assert!(is_there(kept), "{kept}: {told}");
    }
    for replaced in ["'t/old7'", "'t/4th'", "'t/5th'"] {
        assert!(told.contains(replaced), "{replaced}: {told}");
    }
    assert!(!is_there("t/old6") && !is_there("t/both/old10") && !is_there("t/1st"), "{told}");
    assert_eq!(fs::read_dir(scene.sandbox.join("away")).unwrap().count(), FILES);
    assert_eq!(fs::read_dir(scene.sandbox.join("old5th")).unwrap().count(), FILES);
}

#[test]
fn ranks_follow_no_link_that_takes_the_place_of_a_directory() {
    needed!();
    let scene = Scene::new(
        "mkdir -p outside/in; ln -s outside swap
         for n in $(seq 300); do echo precious >outside/old$n; echo precious >outside/in/old$n; done",
    );
    let (mut flips, mut raced) = (0, 0);
    for _ in 0..5 {
        scene
            .sandbox
            .script(
                "if [ ! -L swap ]; then rm -rf 2nd; mv swap 2nd; ln -s outside swap; fi; rm -rf t/2nd; mkdir -p t/2nd/in
                 for n in $(seq 300); do : >t/2nd/old$n; : >t/2nd/in/old$n; done",
            )
            .unwrap();
        let flipper = Flipper::start(&scene.sandbox.join("t/2nd"), &scene.sandbox.join("swap")).unwrap();
        let outcome = scene.finish(scene.sync(&[]));
        raced += usize::from(outcome.status() == Some(1));
        flips += flipper.flips();
        // It ends by itself if the directory is gone.
        flipper.stop().unwrap_or_default();
        let outside = walkdir::WalkDir::new(scene.sandbox.join("outside")).into_iter().count();
        assert_eq!(outside, 2 + 2 * FILES, "deleted outside the target: {}", outcome.errors());
    }
    note!("{flips} exchanges, {raced} of 5 deletions noticed one");
    assert!(flips > 0);
}
