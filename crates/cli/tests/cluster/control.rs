//! A run of several ranks follows what is said to the process that started it (`haul ctl`).

use std::fs;
use std::time::{Duration, Instant};

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::run::{RunEnding, Running, TestRun};
use haul_testkit::rustix::process::{Pid, Signal, kill_process};
use haul_testkit::{RunOutcome, libc, program, require, wait};

use crate::kills::{LARGE, Scene, Victim};
use crate::start::Way;

/// Time for what takes milliseconds once the ranks have started.
const SOON: Duration = Duration::from_secs(60);

/// Time for which a paused run is watched.
const WATCHED: Duration = Duration::from_millis(500);

const KINDS: [MpiKind; 2] = [MpiKind::OpenMpi4, MpiKind::Mpich4];

const FILES: usize = 200;

fn try_ctl(scene: &Scene, words: &str) -> RunOutcome {
    let haul = TestRun::new(&fs::canonicalize(program!().path()).unwrap()).in_folder(scene.sandbox.path());
    haul.args(["ctl", "socket"]).args(words.split(' ')).finish().unwrap()
}

fn ctl(scene: &Scene, words: &str) -> String {
    let outcome = try_ctl(scene, words);
    assert!(outcome.succeeded(), "{words}: {}", outcome.errors());
    outcome.printed()
}

/// Returns the bytes moved so far.
fn bytes(scene: &Scene) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&ctl(scene, "status --json")).unwrap();
    status["bytes"].as_u64().unwrap()
}

/// Starts a run that would take hours, and waits until the ranks have moved something.
fn start(scene: &Scene) -> Running {
    let running = scene.start(&["--bwlimit=1", "--control=socket"]);
    // It has a name before it is listened to.
    assert!(wait::until(SOON, || try_ctl(scene, "status").succeeded()));
    assert!(wait::until(SOON, || bytes(scene) > 0));
    running
}

#[test]
fn all_ranks_pause_and_go_on() {
    for kind in KINDS {
        require!(kind.needed());
        for way in [Way::Clients(3), Way::Ranks(3)] {
            let scene = Scene::new(&Mpi::find(kind).unwrap(), way, &[], FILES);
            let running = start(&scene);
            ctl(&scene, "pause");
            ctl(&scene, "bwlimit none");
            let mut before = 0;
            let stands_still = wait::until(SOON, || {
                std::thread::sleep(WATCHED);
                std::mem::replace(&mut before, bytes(&scene)) == before
            });
            let copied = fs::read_dir(scene.to()).unwrap().count();
            assert!(
                stands_still && before < 12_000_000,
                "{kind:?} {way:?}: {before} bytes, {copied} entries"
            );
            ctl(&scene, "resume");
            let outcome = running.finish().unwrap();
            assert!(outcome.succeeded(), "{kind:?} {way:?}: {:?} {}", outcome.ending, outcome.errors());
            assert!(scene.wrong(false).is_empty(), "{kind:?} {way:?}");
            assert!(!scene.sandbox.join("socket").exists());
        }
    }
}

#[test]
fn ranks_that_complete_nothing_are_shown() {
    require!(KINDS[0].needed());
    for way in [Way::Clients(2), Way::Ranks(2)] {
        let scene = Scene::new(&Mpi::find(KINDS[0]).unwrap(), way, &[], FILES);
        let running =
            scene.start(&["--bwlimit=1", "--control=socket", "--progress=always", "-g", "--progress=always"]);
        assert!(wait::until(SOON, || scene.sandbox.join("socket").exists() && bytes(&scene) > 0));
        ctl(&scene, "pause");
        // Longer than the five seconds after which a rank is called slow.
        std::thread::sleep(Duration::from_secs(9));
        ctl(&scene, "stop");
        let outcome = running.finish().unwrap();
        let shown = outcome.errors();
        let is_shown = shown.contains(": nothing completed for 0:0") && shown.contains("rank 0 on ");
        assert!(is_shown, "{way:?}: {shown}");
    }
}

#[test]
fn ranks_together_keep_to_a_limit_that_is_changed_while_they_wait() {
    const RATE: f64 = 8e6;
    for kind in KINDS {
        require!(kind.needed());
        for way in [Way::Clients(3), Way::Ranks(3)] {
            let scene = Scene::new(&Mpi::find(kind).unwrap(), way, &[], FILES);
            let running = start(&scene);
            let (before, began) = (bytes(&scene), Instant::now());
            ctl(&scene, "bwlimit 8MB");
            let outcome = running.finish().unwrap();
            assert!(outcome.succeeded(), "{kind:?} {way:?}: {:?} {}", outcome.ending, outcome.errors());
            // But for what is made up for or granted ahead, and one block of each worker.
            let left = (LARGE.iter().sum::<u64>() - before) as f64 - 6.0 * 262_144.0;
            let least = left / RATE - 0.3;
            assert!(began.elapsed().as_secs_f64() > least, "{kind:?} {way:?}: {:?}", began.elapsed());
            assert!(scene.wrong(false).is_empty(), "{kind:?} {way:?}");
        }
    }
}

#[test]
fn new_ranks_are_granted_what_those_before_waited_for() {
    require!(MpiKind::OpenMpi4.needed());
    let scene = Scene::new(&Mpi::find(MpiKind::OpenMpi4).unwrap(), Way::Clients(3), &[], FILES);
    let running = start(&scene);
    // Now the launch process waits too.
    ctl(&scene, "iops-limit 1");
    let rank = scene.find(Victim::Rank).unwrap();
    let process = Pid::from_raw(rank.id.cast_signed()).unwrap();
    kill_process(process, Signal::KILL).unwrap();
    let again = || scene.find(Victim::Rank).is_some_and(|other| other.id != rank.id);
    assert!(wait::until(SOON, again));
    ctl(&scene, "bwlimit 100MB");
    ctl(&scene, "iops-limit 100000");
    let outcome = running.finish().unwrap();
    assert!(outcome.succeeded(), "{:?} {}", outcome.ending, outcome.errors());
    assert!(scene.wrong(false).is_empty());
    scene.nobody_stays();
}

#[test]
fn a_stopped_run_leaves_whole_files_and_no_process() {
    for kind in KINDS {
        require!(kind.needed());
        for way in [Way::Clients(3), Way::Ranks(3)] {
            let scene = Scene::new(&Mpi::find(kind).unwrap(), way, &[], FILES);
            let running = start(&scene);
            ctl(&scene, "stop");
            let outcome = running.finish().unwrap();
            // Launchers have their own statuses for a rank that a signal has ended.
            let is_right = match way {
                Way::Clients(_) => outcome.ending == RunEnding::Signalled(libc::SIGINT),
                Way::Ranks(_) => !outcome.succeeded() && outcome.ending != RunEnding::Hung,
            };
            assert!(is_right, "{kind:?} {way:?}: {:?} {}", outcome.ending, outcome.errors());
            assert!(scene.wrong(true).is_empty(), "{kind:?} {way:?}");
            assert!(!scene.wrong(false).is_empty(), "{kind:?} {way:?}: all was copied");
            assert!(!scene.sandbox.join("socket").exists());
            scene.nobody_stays();
        }
    }
}
