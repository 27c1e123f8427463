//! `haul sync` with what it keeps, by several processes: the same trees, lines and errors as by one.

use haul_testkit::mpi::{Kind, Mpi};
use haul_testkit::{needs, note, require};

use crate::start::Way;
use crate::tools::{Line, differences, line};

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

const LINES: &[Line] = &[
    Line { before: older!(""), ..line("sync -i --backup-dir=../kept tree t") },
    Line { before: older!("echo z >t/a/6/in"), ..line("sync -v --delete --backup-dir=../kept tree t") },
    Line {
        before: older!("ln tree/a/5 tree/c/five; ln tree/a/1 tree/c/one; echo q >>t/a/7; ln t/a/7 t/c/seven"),
        ..line("sync --delete --backup-dir=../kept tree t")
    },
    // What was kept before makes way, unless it is a directory.
    Line {
        before: older!("mkdir -p kept/a/b kept/c/link; echo earlier >kept/a/b/3.txt; echo x >kept/c/link/in"),
        ..line("sync -v --backup-dir=../kept tree t")
    },
    Line { before: older!("echo >kept"), ..line("sync --backup-dir=../kept tree t") },
    Line { before: older!(""), ..line("sync --backup-dir=../no/kept tree t") },
];

#[test]
fn what_is_kept_and_linked_is_the_same_by_ranks() {
    require!(needs::root(), Kind::OpenMpi4.needed());
    let mpi = Mpi::find(Kind::OpenMpi4).unwrap();
    let all: Vec<_> = LINES.iter().collect();
    let ways = [Way::Clients(2), Way::Clients(4), Way::Ranks(3)];
    let failures: Vec<_> = ways.iter().flat_map(|way| differences(&mpi, *way, &all)).collect();
    note!("{} lines of sync by ranks: {} differ", ways.len() * all.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
