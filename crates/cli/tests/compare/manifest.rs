//! A tree compared with a manifest.

use haul_testkit::mpi::Mpi;
use haul_testkit::{needs, require, skip};

use super::Scene;

const TREE: &str = "mkdir -p t/d/e t/empty; for n in 1 2 3 4 5; do seq $n 1000 > t/$n; seq $n 900 > t/d/$n; done; seq 1 1000000 > t/d/e/large; \
    printf x > $'t/new\\nline'; ln -s 1 t/link; mkfifo t/fifo";

/// Differences after [`CHANGES`], sorted by path.
const DIFFERENCES: &str = "File t/2 differs from its hash in SUMS\nOnly in SUMS: 3\nOnly in SUMS: d/4\nFile t/d/e/large differs from its hash in SUMS\n\
    Only in t/d: new\nOnly in t: other\n";

const CHANGES: &str = "echo more >> t/2; rm t/3 t/d/4; printf y | dd of=t/d/e/large bs=1 seek=5000000 conv=notrunc status=none; \
    echo > t/d/new; echo > t/other";

#[test]
fn every_difference_is_listed_and_nothing_else() {
    for make in [
        "$HAUL sum -o SUMS t",
        "$HAUL sum --hash=sha256 -o SUMS t",
        "cd t; $HAUL sum --hash=md5 -o ../SUMS .",
        "cd t; $HAUL sum --hash=xxh128 --tag -o ../SUMS . ",
        "cd t; $HAUL sum --hash=xxh64 --manifest-format=mhl -o ../SUMS .",
        "find t -type f -print0 | xargs -0 sha256sum > SUMS",
        "$HAUL sum --manifest-format=json -o SUMS $PWD/t; sed -i \"s#$PWD/t/##\" SUMS",
    ] {
        let scene = Scene::of(TREE);
        scene.script(make);
        for words in
            ["--manifest=SUMS t", "--manifest=SUMS t/", "--manifest SUMS -q t", "-j1 --manifest=SUMS ./t/"]
        {
            let same = scene.compare(words);
            let words_differ = words.contains("./t") && scene.script("head -1 SUMS").contains("  t/");
            if !words_differ {
                assert_eq!(
                    (same.status(), same.printed().as_str(), same.errors().as_str()),
                    (Some(0), "", ""),
                    "{make}: {words}"
                );
            }
        }
        scene.script(CHANGES);
        let differs = scene.compare("--manifest=SUMS t");
        assert_eq!(
            (differs.status(), differs.printed().as_str()),
            (Some(1), DIFFERENCES),
            "{make}: {}",
            differs.errors()
        );
        let quiet = scene.compare("-q --manifest=SUMS t");
        assert_eq!((quiet.status(), quiet.printed().as_str()), (Some(1), ""));
    }
}

#[test]
fn a_moved_copy_is_compared_by_the_names_below_it() {
    let scene = Scene::of(TREE);
    scene.script(
        "(cd t; $HAUL sum -o SUMS .); rm t/fifo; cp -a t copy; $HAUL cmp --manifest=copy/SUMS copy; cd copy; \
         $HAUL cmp --manifest=SUMS .",
    );
    // The manifest itself is passed over, but not another file of its name.
    let outcome = scene.compare("--manifest=t/SUMS copy");
    assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(1), "Only in copy: SUMS\n"));
}

#[test]
fn the_algorithm_is_not_guessed_if_it_is_named() {
    let scene = Scene::of("mkdir t; echo a > t/a; $HAUL sum --hash=xxh128 -o SUMS t");
    assert_eq!(scene.compare("--manifest=SUMS t").status(), Some(1));
    assert_eq!(scene.compare("--hash=xxh128 --manifest=SUMS t").status(), Some(0));
}

#[test]
fn what_cannot_be_compared_is_trouble() {
    let scene = Scene::of(
        "mkdir t; echo a > t/a; $HAUL sum -o SUMS t; (cat SUMS; echo rubbish) > bad; sed s#t/a#../a# SUMS > out; sed 's#t/a#/etc/passwd#' SUMS > root; : > empty",
    );
    for (words, error) in [
        ("--manifest=missing t", "haul cmp: missing: No such file or directory\n"),
        ("--manifest=SUMS missing", "haul cmp: missing: No such file or directory\n"),
        ("--manifest=SUMS t/a", "haul cmp: t/a: Not a directory\n"),
        ("--manifest=bad t", "haul cmp: bad: 2: improperly formatted checksum line\n"),
        ("--manifest=out t", "haul cmp: ../a: the name leads out of the tree\n"),
        ("--manifest=root t", "haul cmp: /etc/passwd: the name leads out of the tree\n"),
        ("--manifest=SUMS --json t", "haul cmp: option '--json' has no effect with '--manifest'\n"),
        ("--manifest=SUMS -x a t", "haul cmp: option '--exclude' has no effect with '--manifest'\n"),
        ("--manifest=SUMS t t", "haul cmp: extra operand 't'\n"),
        ("--hash=md5 t t", "haul cmp: option '--hash' has no effect without '--manifest'\n"),
    ] {
        let outcome = scene.compare(words);
        assert_eq!(outcome.status(), Some(2), "{words}: {}", outcome.errors());
        assert!(outcome.errors().starts_with(error), "{words}: {}", outcome.errors());
    }
    assert_eq!(scene.compare("--manifest=empty t").printed(), "Only in t: a\n");
    // Nothing was read that could be missing from the tree.
    scene.script("echo rubbish > rubbish");
    for manifest in ["missing", "rubbish", "t"] {
        let outcome = scene.compare(&format!("--manifest={manifest} t"));
        assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(2), ""), "{manifest}");
    }
    require!(needs::root());
    scene.script("chmod 711 . t; chmod 644 SUMS; chmod 600 t/a; chmod 755 t");
    let outcome = scene.cmp(["--manifest=SUMS", "t"]).as_nobody().finish().unwrap();
    assert_eq!(
        (outcome.status(), outcome.errors().as_str()),
        (Some(2), "haul cmp: t/a: Permission denied\n")
    );
}

#[test]
fn ranks_find_the_same() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(TREE);
    scene.script("$HAUL sum -o SUMS t");
    for changes in ["true", CHANGES] {
        scene.script(changes);
        let alone = scene.compare("--manifest=SUMS t");
        let own = mpi.options(3);
        let run = scene.cmp(own.iter().map(String::as_str).chain(["--manifest=SUMS", "t"]));
        let outcome = mpi.with(run).finish().unwrap();
        assert_eq!((outcome.status(), outcome.printed()), (alone.status(), alone.printed()));
    }
}
