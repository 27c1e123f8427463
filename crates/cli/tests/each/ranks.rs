//! Several processes run the same commands as one.

use haul_testkit::mpi::Mpi;
use haul_testkit::skip;

use super::Scene;

#[test]
fn ranks_run_what_one_process_runs() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(
        "mkdir t; for d in $(seq 15); do mkdir t/$d; for f in $(seq 20); do seq $f > t/$d/$f; done; done; seq 50000 > t/long",
    );
    for words in [
        "--sort=path t -- wc -l {}",
        "--sort=path t -- grep -l 7 {}",
        "--sort=path --block 32K t -- tail -1",
        "--sort=path --type d,f --name 1* t -- echo {/} {//}",
        "--sort=path --exclude 1* t -- false",
    ] {
        let alone = scene.outcome(words);
        for ranks in [1, 2, 4] {
            let own = mpi.options(ranks);
            let run = scene.each(own.iter().map(String::as_str).chain(words.split_whitespace()));
            let outcome = mpi.with(run).finish().unwrap();
            assert_eq!(
                (outcome.status(), outcome.printed(), outcome.errors()),
                (alone.status(), alone.printed(), alone.errors()),
                "{words} by {ranks}"
            );
        }
        assert!(!alone.printed().is_empty() || alone.status() == Some(1), "{words}");
    }
}

/// Runs a script for each file with two ranks of one worker each; returns the exit status and
/// the errors.
fn halted(mpi: &Mpi, scene: &Scene, halt: &str, script: &str) -> (Option<i32>, String) {
    let mut words = mpi.options(2).to_vec();
    words.extend(["-j1", halt, "t", "--", "sh", "-c", script, "{}", "{}"].map(str::to_owned));
    let run = scene.each(words.iter().map(String::as_str));
    let outcome = mpi.with(run).finish().unwrap();
    (outcome.status(), outcome.errors())
}

#[test]
fn a_failure_ends_the_commands_of_all_ranks() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of("mkdir t t/1 t/2; for f in $(seq 200); do echo > t/1/$f; echo > t/2/$f; done");
    // The first command waits. The second, on the other rank, fails once the first one runs.
    let script = "mkdir first 2> /dev/null || exit 3; sleep 60; touch slept";
    let (status, errors) = halted(&mpi, &scene, "--halt=now", script);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("exit status 3"), "{errors}");
    assert!(!scene.path().join("slept").exists());
}

#[test]
fn no_rank_begins_more_after_a_failure() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(
        "mkdir t t/1 t/2 begun; (cd t/1; seq 3000 | xargs touch); (cd t/2; seq 3000 | xargs touch)",
    );
    // Without notice, a rank would run all the 128 commands that it holds, for more than
    // six seconds.
    let script = "mkdir first 2> /dev/null && exit 3; mktemp -p begun > /dev/null; sleep 0.05";
    let (status, errors) = halted(&mpi, &scene, "--halt=soon", script);
    assert_eq!(status, Some(1), "{errors}");
    let begun = std::fs::read_dir(scene.path().join("begun")).unwrap().count();
    assert!(begun < 100, "{begun} were begun");
}
