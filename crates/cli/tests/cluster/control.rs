//! A run of several ranks follows what is said to the process that started it (`haul ctl`).

use std::fs;
use std::time::Duration;

use haul_testkit::mpi::{Kind, Mpi};
use haul_testkit::run::{Ending, Run, Running};
use haul_testkit::{libc, program, require, wait};

use crate::kills::Scene;
use crate::start::Way;

/// Time for what takes milliseconds once the ranks have started.
const SOON: Duration = Duration::from_secs(60);

/// How long a paused run is watched.
const WATCHED: Duration = Duration::from_millis(500);

const KINDS: [Kind; 2] = [Kind::OpenMpi4, Kind::Mpich4];

const FILES: usize = 200;

fn ctl(scene: &Scene, words: &str) -> String {
    let haul = Run::new(&fs::canonicalize(program!().path()).unwrap()).in_folder(scene.sandbox.path());
    let outcome = haul.args(["ctl", "socket"]).args(words.split(' ')).finish().unwrap();
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
    assert!(wait::until(SOON, || scene.sandbox.join("socket").exists()));
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
                Way::Clients(_) => outcome.ending == Ending::Signalled(libc::SIGINT),
                Way::Ranks(_) => !outcome.succeeded() && outcome.ending != Ending::Hung,
            };
            assert!(is_right, "{kind:?} {way:?}: {:?} {}", outcome.ending, outcome.errors());
            assert!(scene.wrong(true).is_empty(), "{kind:?} {way:?}");
            assert!(!scene.wrong(false).is_empty(), "{kind:?} {way:?}: all was copied");
            assert!(!scene.sandbox.join("socket").exists());
            scene.nobody_stays();
        }
    }
}
