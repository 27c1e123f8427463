//! The same by several processes.

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
        let alone = scene.run(words);
        for ranks in [1, 2, 4] {
            let own = format!(
                "--clients={ranks} --launcher={} --mpi-lib={}",
                mpi.launcher().display(),
                mpi.library().display()
            );
            let run = scene.each(own.split_whitespace().chain(words.split_whitespace()));
            let run = mpi.environment().iter().fold(run, |run, (name, value)| run.env(name, value));
            let outcome = run.finish().unwrap();
            assert_eq!(
                (outcome.status(), outcome.printed(), outcome.errors()),
                (alone.status(), alone.printed(), alone.errors()),
                "{words} by {ranks}"
            );
        }
        assert!(!alone.printed().is_empty() || alone.status() == Some(1), "{words}");
    }
}
