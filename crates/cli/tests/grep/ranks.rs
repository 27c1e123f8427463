//! Several processes find the same as one.

use haul_testkit::mpi::Mpi;
use haul_testkit::{RunOutcome, skip};

use super::{Scene, verdict};

/// Runs `haul grep` with `words`, separated by spaces, on several ranks.
fn by_ranks(scene: &Scene, mpi: &Mpi, ranks: u32, words: &str) -> RunOutcome {
    let own = mpi.options(ranks);
    let run = scene.haul(own.iter().map(String::as_str).chain(words.split_whitespace()), "C");
    mpi.with(run).finish().unwrap()
}

#[test]
fn what_is_too_much_to_be_sent_is_found_all_the_same() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(
        "mkdir t; for f in 1 2 3 4 5 6; do printf '%0999d\\n' $f > t/$f; done; \
         yes $(printf '%0999d' 7) | head -n 80000 > t/large",
    );
    let outcome = by_ranks(&scene, &mpi, 3, "-r 0 t");
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""));
    let printed = outcome.printed();
    for name in ["1", "2", "3", "4", "5", "6"] {
        let line = format!("t/{name}:{name:0>999}");
        assert_eq!(printed.lines().filter(|shown| *shown == line).count(), 1, "{name}");
    }
    let line = format!("t/large:{:0>999}", 7);
    assert_eq!(printed.lines().filter(|shown| *shown == line).count(), 80_000);
    assert_eq!(printed.lines().count(), 80_006);
}

#[test]
fn ranks_find_what_one_process_finds() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(
        "mkdir -p t/s; for f in t/{a,b,c,d,e} t/s/{x,y,z}; do seq -f \"%g $f\" 500 > $f; done; \
         seq 2000000 > t/large; printf '1\\0\\n' > t/binary; seq 30 > top",
    );
    // Each run takes most of a second, so only the first line runs with several numbers of ranks.
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
            let outcome = by_ranks(&scene, &mpi, *ranks, &words);
            let is_quiet = words.starts_with("-rq");
            assert_eq!(outcome.status(), alone.status(), "{words} by {ranks}: {}", outcome.errors());
            if !is_quiet {
                assert_eq!(verdict(&outcome, true), verdict(&alone, true), "{words} by {ranks}");
            }
        }
    }
}
