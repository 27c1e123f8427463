//! The same by several processes.

use haul_testkit::mpi::Mpi;
use haul_testkit::skip;

use super::{Scene, verdict};

#[test]
fn ranks_find_what_one_process_finds() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(
        "mkdir -p t/s; for f in t/{a,b,c,d,e} t/s/{x,y,z}; do seq -f \"%g $f\" 500 > $f; done; \
         seq 2000000 > t/large; printf '1\\0\\n' > t/binary; seq 30 > top",
    );
    // Of each way to show something one line, and of one all numbers of ranks: each run takes most of a second.
    let lines: [(&str, &[u32]); 6] = [
        ("-rn 7", &[1, 2, 4]),
        ("-rc 1", &[4]),
        ("-rL 499", &[4]),
        ("-rA1 250", &[4]),
        ("-rq 1", &[4]),
        ("-r nothing", &[2]),
    ];
    for (words, numbers) in lines {
        let words = format!("{words} t top nope");
        let alone = scene.haul(words.split_whitespace(), "C").finish().unwrap();
        for ranks in numbers {
            let own = format!(
                "--clients={ranks} --launcher={} --mpi-lib={}",
                mpi.launcher().display(),
                mpi.library().display()
            );
            let run = scene.haul(own.split_whitespace().chain(words.split_whitespace()), "C");
            let run = mpi.environment().iter().fold(run, |run, (name, value)| run.env(name, value));
            let outcome = run.finish().unwrap();
            let is_quiet = words.starts_with("-rq");
            assert_eq!(outcome.status(), alone.status(), "{words} by {ranks}: {}", outcome.errors());
            if !is_quiet {
                assert_eq!(verdict(&outcome, true), verdict(&alone, true), "{words} by {ranks}");
            }
        }
    }
}
