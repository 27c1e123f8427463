//! Targets that exist before ranks replace them: what is left out isn't recorded, what was begun is
//! finished, and work that is done again after a loss takes no part of the lost rank's for a copy.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::{TestRun, program, require, wait};

use crate::kills::{Scene, Victim, describe, kill};
use crate::start::Way;

const FILES: usize = 200;

const SOON: Duration = Duration::from_secs(60);

/// Makes a target in which each file has another content, and is older.
fn build_older(scene: &Scene) {
    let script =
        "cp -a from to; find to -type f -links 1 -exec sh -c 'for f; do echo old $f >$f; done' sh {} +
        find to -type f -exec touch -d 2001-01-01 {} +";
    scene.sandbox.script(script).unwrap();
}

/// Regular files with one name, relative to `from`.
fn files(scene: &Scene) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(scene.from()).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| {
        let metadata = entry.metadata().unwrap();
        metadata.is_file() && std::os::unix::fs::MetadataExt::nlink(&metadata) == 1
    });
    files.map(|entry| entry.path().strip_prefix(scene.from()).unwrap().to_owned()).collect()
}

fn old(file: &std::path::Path) -> Vec<u8> {
    format!("old to/{}\n", file.display()).into_bytes()
}

/// Waits until a run has replaced some files of the target.
fn begun(scene: &Scene, files: &[PathBuf]) -> bool {
    wait::until(SOON, || {
        let is_new = |file: &&PathBuf| fs::read(scene.to().join(file)).is_ok_and(|there| there != old(file));
        files.iter().filter(is_new).count() >= 20
    })
}

fn complete(scene: &Scene, what: &str) {
    let outcome = scene.start(&[]).finish().unwrap();
    let wrong = scene.wrong(false);
    assert!(outcome.succeeded() && wrong.is_empty(), "{what}: {}", describe(&outcome, &wrong));
}

#[test]
fn what_limits_leave_out_is_not_recorded() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    for options in [&["--max-size=100"], &["--newer-than=0s"]] {
        let scene = Scene::new(&mpi, Way::Clients(3), &["--journal=journal"], FILES);
        build_older(&scene);
        let outcome = scene.start(options).finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        complete(&scene, &format!("after {options:?}"));
    }
}

#[test]
fn a_stopped_run_finishes_what_it_has_begun_and_records_no_more() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let scene = Scene::new(&mpi, Way::Clients(3), &["--journal=journal"], FILES);
    build_older(&scene);
    let running = scene.start(&["--bwlimit=1M", "--control=socket"]);
    let files = files(&scene);
    assert!(begun(&scene, &files));
    let haul = TestRun::new(&fs::canonicalize(program!().path()).unwrap()).in_folder(scene.sandbox.path());
    haul.args(["ctl", "socket", "stop"]).succeed().unwrap();
    let outcome = running.finish().unwrap();
    assert!(outcome.errors().contains("stopped as requested"), "{}", outcome.errors());
    for file in files {
        let there = fs::read(scene.to().join(&file)).unwrap();
        let source = fs::read(scene.from().join(&file)).unwrap();
        assert!(there == source || there == old(&file), "{} has a part", file.display());
    }
    complete(&scene, "after the stop");
}

#[test]
fn existing_targets_survive_a_lost_rank() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    for line in ["cp -auT", "sync --no-preserve=timestamps --backup-dir=BAK"] {
        let scene = Scene::new(&mpi, Way::Clients(3), &[], FILES);
        build_older(&scene);
        let line = line.replace("BAK", scene.sandbox.join("bak").to_str().unwrap());
        let running = scene.start_line(&format!("{line} --bwlimit=1M from to"));
        let files = files(&scene);
        assert!(begun(&scene, &files));
        assert!(kill(scene.find(Victim::Rank).unwrap().id));
        let outcome = running.finish().unwrap();
        assert!(outcome.succeeded(), "{line}: {}", outcome.errors());
        for file in files {
            let same =
                fs::read(scene.to().join(&file)).unwrap() == fs::read(scene.from().join(&file)).unwrap();
            assert!(same, "{line}: {}", file.display());
            if line.starts_with("sync") {
                let kept = fs::read(scene.sandbox.join("bak").join(&file)).unwrap();
                assert_eq!(kept, old(&file), "the original of {} is lost", file.display());
            }
        }
    }
}
