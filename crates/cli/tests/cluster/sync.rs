//! `haul sync` with what it keeps, links and foresees, by several processes: the same trees, lines
//! and errors as by one.

use std::time::Duration;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::run::TestRun;
use haul_testkit::{Sandbox, needs, note, require};

use crate::start::{Way, script};
use crate::tools::{Line, differences_with, line};

/// Makes `t` an older copy of `tree`, with more in it. No file has several names: which of them is
/// copied, and printed, is a matter of chance.
macro_rules! older {
    ($more:literal) => {
        concat!(
            "rm tree/a/twin; cp -a tree t; echo more >>tree/a/1; echo x >tree/a/b/3.txt; rm tree/c/word-1
             ln -sfn elsewhere tree/c/link; chmod 600 tree/a/4; echo new >tree/new
             seq 5 200000 >tree/c/large; mkdir -p t/old/deep t/a/more; echo y >t/old/deep/f
             chmod 751 t/old; chown 3 t/old/deep; echo z >t/a/more/g; chmod 700 t/a/b; rm t/a/6; mkdir t/a/6\n",
            $more
        )
    };
}

/// Prints which names below `new` are names of files of earlier copies.
const LINKED: &str =
    "[ -d new ] || exit 0; for e in monday sunday; do (cd new; find . -type f -o -type p | sort |
    while read f; do if [ \"$f\" -ef \"../$e/$f\" ]; then echo $e $f; fi; done); done";

/// Makes `monday` and `sunday` earlier copies of `tree`. `monday` lacks a directory, and has a file
/// and a link in place of two others.
const EARLIER: &str = "cp -a tree monday; cp -a tree sunday; echo more >>tree/a/1; chmod 600 tree/a/b/3.txt
    mkdir -p tree/d/e tree/f tree/g; for n in 1 2 3; do echo $n >tree/d/e/$n; echo $n >tree/f/$n; echo $n >tree/g/$n; done
    for t in monday sunday; do cp -a tree/d tree/g $t; done; rm -r monday/c monday/d; echo >monday/c
    ln -s ../sunday/d monday/d; echo other >sunday/c/word-2; mkdir new; cp -a tree/g new; ln tree/g/1 tree/f/one";

const LINES: &[Line] = &[
    Line {
        before: EARLIER,
        shown: LINKED,
        ..line("sync --link-dest=../monday --link-dest=../sunday tree new")
    },
    Line { before: EARLIER, shown: LINKED, ..line("sync --checksum --link-dest=../sunday tree new") },
    Line {
        before: "rm tree/a/twin; cp -a tree monday; echo more >>tree/a/1; chmod 4 tree/a/2; mkdir tree/d
                         ln -s x tree/d/l; cp -a tree/d monday; mkfifo tree/d/f tree/d/g; cp -a tree/d/f monday/d",
        shown: LINKED,
        ..line("sync -i --link-dest=../monday tree new")
    },
    Line { before: "rm tree/a/twin", ..line("sync -i --link-dest=../monday tree new") },
    Line { before: "echo >monday", ..line("sync -i --link-dest=../monday tree new") },
    Line { before: older!(""), ..line("sync -i --backup-dir=../kept tree t") },
    Line { before: older!("echo z >t/a/6/in"), ..line("sync -v --delete --backup-dir=../kept tree t") },
    Line {
        before: older!("echo more >>tree/a/5; ln tree/a/5 tree/c/five; ln tree/a/1 tree/c/one; echo q >>t/a/7; ln t/a/7 t/c/seven"),
        ..line("sync --delete --backup-dir=../kept tree t")
    },
    // A directory that keeps something is in the way of a file.
    Line {
        before: older!("echo z >t/a/6/in; echo z >t/a/6/kept.o"),
        ..line("sync -i --delete --exclude=*.o tree t")
    },
    // An earlier backup is replaced, unless it is a directory.
    Line {
        before: older!("mkdir -p kept/a/b kept/c/link; echo earlier >kept/a/b/3.txt; echo x >kept/c/link/in"),
        ..line("sync -v --backup-dir=../kept tree t")
    },
    Line { before: older!("echo >kept"), ..line("sync --backup-dir=../kept tree t") },
    Line { before: older!(""), ..line("sync --backup-dir=../no/kept tree t") },
];

/// Dry runs. Their lines are also those of the runs that follow.
const DRY: &[Line] = &[
    Line { before: older!(""), ..line("sync -n tree t") },
    Line { before: older!("echo z >t/a/6/in"), ..line("sync -n -i --delete tree t") },
    Line {
        before: older!("mkdir t/new"),
        ..line("sync -n -i --checksum --delete --backup-dir=../kept tree t")
    },
    Line { before: "rm tree/a/twin", ..line("sync -n -i tree t") },
    Line { before: older!("rm -r t/a"), ..line("sync -n -i --link-dest=../other tree t") },
    Line { before: older!("echo >t/a/b/x; chmod 7 tree/a"), ..line("sync -n -i --existing tree t") },
    Line { before: "rm tree/a/twin", ..line("cp -an tree other") },
    Line { before: "rm tree/a/twin", ..line("cp -a --dry-run tree other") },
    Line { before: "rm tree/a/twin", ..line("cp -r --dry-run --parents tree/a tree/c/word-1 other") },
    Line { before: "mkdir t; cp -a tree/a t/c", ..line("cp -rT --dry-run tree t") },
    line("cp -r --dry-run missing tree/a other/no/such"),
];

#[test]
fn a_dry_run_by_ranks_says_the_same() {
    require!(needs::root(), MpiKind::OpenMpi4.needed());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let all: Vec<_> = DRY.iter().collect();
    let ways: [(Way, &[&str]); 3] =
        [(Way::Clients(2), &[]), (Way::Clients(4), &["--walk=ranks"]), (Way::Ranks(3), &[])];
    let failures: Vec<_> =
        ways.iter().flat_map(|(way, own)| differences_with(&mpi, *way, own, &all)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// With files of several names, the lines are those of the run by ranks that follows, up to which
/// name comes first.
#[test]
fn a_dry_run_by_ranks_prints_as_many_links_as_the_run_makes() {
    require!(MpiKind::OpenMpi4.needed());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script(
            "mkdir -p s/d s/e t/d; for n in 1 2 3 4 5 6 7 8 9; do echo $n >s/$n; ln s/$n s/d/$n; ln s/$n s/e/$n; done
             echo other >t/d/3",
        )
        .unwrap();
    let haul = script(&sandbox, &mpi, Way::Clients(3), &[]);
    let run = |words: &str| {
        let run = TestRun::new(haul.path()).args(words.split(' ')).in_folder(sandbox.path());
        let outcome = run.within(Duration::from_secs(60)).finish().unwrap();
        assert!(outcome.succeeded(), "{words}: {}", outcome.errors());
        outcome.printed()
    };
    let count = |printed: &str, start: &str| printed.lines().filter(|line| line.starts_with(start)).count();
    let (dry, real) = (run("sync -n -i s t"), run("sync -i s t"));
    for start in ["hf", ">f", "cd", "."] {
        assert_eq!(count(&dry, start), count(&real, start), "{start}:\n{dry}\n{real}");
    }
    assert_eq!((count(&real, ">f"), count(&real, "hf")), (9, 18), "{real}");
}

#[test]
fn what_is_kept_and_linked_is_the_same_by_ranks() {
    require!(needs::root(), MpiKind::OpenMpi4.needed());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let all: Vec<_> = LINES.iter().collect();
    let ways: [(Way, &[&str]); 4] = [
        (Way::Clients(2), &[]),
        (Way::Clients(4), &[]),
        (Way::Clients(3), &["--walk=ranks"]),
        (Way::Ranks(3), &[]),
    ];
    let failures: Vec<_> =
        ways.iter().flat_map(|(way, own)| differences_with(&mpi, *way, own, &all)).collect();
    note!("{} lines of sync by ranks: {} differ", ways.len() * all.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
