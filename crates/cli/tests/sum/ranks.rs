//! Several processes print the same as one.

use haul_testkit::mpi::Mpi;
use haul_testkit::{RunOutcome, skip};

use super::{ODD_NAMES, Scene, TREE, sorted_lines};

#[test]
fn ranks_print_what_one_process_prints() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(TREE);
    scene.script(&format!(
        "{ODD_NAMES}; $HAUL sum t > SUMS; $HAUL sum --hash=sha256 t >> SUMS; sed 's/^\\(\\\\*\\)./\\1f/' SUMS | head -3 > wrong; \
         echo rubbish >> wrong; sed 's/  t.*/  t\\/gone/' SUMS | head -1 >> wrong"
    ));
    for words in [
        "t",
        "--hash=md5 t/large t t/one",
        "--manifest-format=json t t",
        "t missing t/one",
        "-c SUMS",
        "-c --hash=sha256 SUMS",
        "-c wrong",
        "-c --ignore-missing --warn wrong",
        "-c missing",
    ] {
        let alone = scene.summed(words);
        for ranks in [1, 2, 4] {
            let own = mpi.options(ranks);
            let run = scene.sum(own.iter().map(String::as_str).chain(words.split_whitespace()));
            let outcome = mpi.with(run).finish().unwrap();
            // Messages have no order.
            let errors = |outcome: &RunOutcome| sorted_lines(&outcome.stderr, b'\n');
            assert_eq!(
                (outcome.status(), outcome.printed(), errors(&outcome)),
                (alone.status(), alone.printed(), errors(&alone)),
                "{words} by {ranks}"
            );
        }
    }
}

#[test]
fn ranks_leave_out_the_output_too() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of("mkdir -p t/d; echo a > t/a; echo b > t/d/b; echo old > t/SUMS");
    for _ in 0..2 {
        let own = mpi.options(2);
        let run = scene.sum(own.iter().map(String::as_str).chain(["-o", "t/SUMS", "t"]));
        let outcome = mpi.with(run).finish().unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        assert_eq!(scene.script("$HAUL sum -c t/SUMS"), "t/a: OK\nt/d/b: OK\n");
    }
}

#[test]
fn what_other_hosts_cannot_read_is_read_here() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of("printf abc > a; mkfifo fifo");
    let options = mpi.options(2).join(" ");
    let environment: String =
        mpi.environment().iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let script = format!(
        "printf abc > fifo & printf abc | {environment} $HAUL sum {options} --hash=md5 fifo a - /dev/null"
    );
    let md5 = "900150983cd24fb0d6963f7d28e17f72";
    let expected = format!("{md5}  fifo\n{md5}  a\n{md5}  -\nd41d8cd98f00b204e9800998ecf8427e  /dev/null\n");
    assert_eq!(scene.script(&script), expected);
}
