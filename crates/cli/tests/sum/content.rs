//! Hashes are the same whoever reads the content.

use haul_testkit::{needs, require};

use super::{ODD_NAMES, Scene, TREE};

#[test]
fn engines_and_workers_change_nothing() {
    let scene = Scene::of(TREE);
    scene.script(ODD_NAMES);
    for hash in ["blake3", "sha256"] {
        let expected = scene.summed(&format!("--hash={hash} -j1 --engine=sync t"));
        assert!(expected.succeeded(), "{}", expected.errors());
        let mut engines = vec!["sync", "posix-aio", "retry", "auto"];
        engines.extend(needs::io_uring().is_none().then_some("io-uring"));
        engines.extend(needs::kernel_aio().is_none().then_some("kernel-aio"));
        for engine in engines {
            for jobs in [1, 2, 3, 8] {
                let got = scene.summed(&format!("--hash={hash} -j{jobs} --engine={engine} t"));
                assert_eq!((got.status(), &got.stdout), (Some(0), &expected.stdout), "{engine} -j{jobs}");
            }
        }
    }
}

#[test]
fn operands_are_listed_in_order_and_trees_by_path() {
    let scene =
        Scene::of("mkdir -p t/b t/a/a; for f in t/b/1 t/a/2 t/a/a/3 t/a-b t/c z; do echo $f > $f; done");
    let names = |words: &str| {
        let printed = scene.summed(words).printed();
        printed.lines().map(|line| line.split("  ").nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let tree = ["t/a/2", "t/a/a/3", "t/a-b", "t/b/1", "t/c"];
    assert_eq!(names("t"), tree);
    assert_eq!(names("z t/b t z -j4"), [&["z", "t/b/1"], &tree[..], &["z"]].concat());
    assert_eq!(names("t/ ./z"), [&tree[..], &["./z"]].concat());
    assert_eq!(names(".")[..2], ["./t/a/2", "./t/a/a/3"]);
}

#[test]
fn holes_are_zeros() {
    let scene = Scene::of(
        "truncate -s 300K small; truncate -s 20M large; printf x >> large; printf y | dd of=large bs=1 seek=9000000 conv=notrunc status=none; \
         truncate -s 5M empty; cp --sparse=never small full-small; cp --sparse=never large full-large",
    );
    for hash in ["blake3", "xxh128", "md5"] {
        scene.script(&format!(
            "test \"$($HAUL sum --hash={hash} < large | cut -d' ' -f1)\" = \"$($HAUL sum --hash={hash} large | cut -d' ' -f1)\"; \
             $HAUL sum --hash={hash} small large full-small full-large | cut -d' ' -f1 > h; test $(sort -u h | wc -l) = 2"
        ));
    }
    scene.script("test \"$(md5sum < empty)\" = \"$($HAUL sum --hash=md5 < empty)\"");
}

#[test]
fn streams_and_special_files_are_read_if_they_are_named() {
    let scene =
        Scene::of("printf abc > a; mkfifo fifo; ln -s a link; mkdir t; ln -s ../a t/link; mkfifo t/fifo");
    let md5 = "900150983cd24fb0d6963f7d28e17f72";
    for (script, expected) in [
        ("$HAUL sum --hash=md5 < a", format!("{md5}  -\n")),
        ("cat a | $HAUL sum --hash=md5 -", format!("{md5}  -\n")),
        ("cat a | $HAUL sum --hash=md5 - a -", format!("{md5}  -\n{md5}  a\nd41d8cd98f00b204e9800998ecf8427e  -\n")),
        ("cat a > fifo & $HAUL sum --hash=md5 fifo", format!("{md5}  fifo\n")),
        ("$HAUL sum --hash=md5 link", format!("{md5}  link\n")),
        ("$HAUL sum --hash=md5 /dev/null", "d41d8cd98f00b204e9800998ecf8427e  /dev/null\n".to_owned()),
        ("$HAUL sum --hash=md5 t", String::new()),
        ("$HAUL sum --hash=md5 -L t/link", format!("{md5}  t/link\n")),
        ("rm t/fifo; $HAUL sum --hash=md5 -L t", format!("{md5}  t/link\n")),
        ("ln -s t tree; $HAUL sum --hash=md5 -L tree", format!("{md5}  tree/link\n")),
        ("$HAUL sum --hash=md5 < /dev/null --manifest-format=json", "{\"path\":\"-\",\"size\":0,\"hash\":\"d41d8cd98f00b204e9800998ecf8427e\",\"algorithm\":\"md5\"}\n".to_owned()),
    ] {
        assert_eq!(scene.script(script), expected, "{script}");
    }
    // Its size is 0, but it has content.
    scene.script("test \"$($HAUL sum --hash=md5 /proc/version)\" = \"$(md5sum /proc/version)\"");
    let closed = scene.shell("$HAUL sum <&-");
    assert_eq!((closed.status(), closed.errors().as_str()), (Some(1), "haul sum: -: Bad file descriptor\n"));
}

#[test]
fn links_that_lead_back_are_left() {
    let scene = Scene::of("mkdir -p t/s; echo a > t/s/f; ln -s .. t/s/up");
    let outcome = scene.summed("-L t");
    assert_eq!(outcome.printed().lines().count(), 1);
    assert_eq!(outcome.errors(), "haul sum: t/s/up: recursive directory loop\n");
    assert_eq!(outcome.status(), Some(1));
}

#[test]
fn what_cannot_be_read_has_no_line_and_fails() {
    let scene = Scene::of("mkdir -p t/d; echo a > t/a; echo b > t/d/b; ln -s nowhere dangling");
    for (words, lines, errors) in [
        ("t/a nope t/d/b", 2, "haul sum: nope: No such file or directory\n"),
        ("t/a/x t/a", 1, "haul sum: t/a/x: Not a directory\n"),
        ("dangling", 0, "haul sum: dangling: No such file or directory\n"),
        ("no/where t", 2, "haul sum: no/where: No such file or directory\n"),
    ] {
        let outcome = scene.summed(words);
        assert_eq!(outcome.status(), Some(1), "{words}");
        assert_eq!((outcome.printed().lines().count(), outcome.errors().as_str()), (lines, errors));
    }
    require!(needs::root());
    scene.script("chmod 711 . t; chmod 600 t/a; chmod 700 t/d; chmod 644 t/d/b; echo c > t/c; chmod 644 t/c");
    let outcome = scene.sum(["t/c", "t/a", "t/d"]).as_nobody().finish().unwrap();
    assert_eq!(outcome.status(), Some(1));
    assert!(outcome.printed().ends_with("  t/c\n") && outcome.printed().lines().count() == 1);
    let errors = outcome.errors();
    let mut errors: Vec<_> = errors.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["haul sum: t/a: Permission denied", "haul sum: t/d: Permission denied"]);
    scene.script("chmod 644 t/a; $HAUL sum t/a t/c > SUMS; chmod 600 t/a; chmod 644 SUMS");
    let outcome = scene.sum(["-c", "SUMS"]).as_nobody().finish().unwrap();
    assert_eq!(outcome.printed(), "t/a: FAILED open or read\nt/c: OK\n");
    assert!(outcome.errors().ends_with("WARNING: 1 listed file could not be read\n"), "{}", outcome.errors());
    assert_eq!(outcome.status(), Some(1));
}

#[test]
fn many_large_files_need_few_descriptors() {
    let scene = Scene::of("mkdir t; for n in $(seq 1 80); do truncate -s 5M t/$n; printf $n >> t/$n; done");
    let outcome = scene.sum(["-j4", "t"]).open_files(40).finish().unwrap();
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""));
    assert_eq!(outcome.printed().lines().count(), 80);
}

#[test]
fn statistics_count_files_and_bytes() {
    let scene = Scene::of("mkdir -p t/d; seq 1 2000000 > t/large; printf abc > t/d/a; : > t/e");
    let outcome = scene.summed("--stats=json -o SUMS t");
    let bytes = std::fs::metadata(scene.path().join("t/large")).unwrap().len() + 3;
    let printed = outcome.printed();
    for wanted in ["\"files\":3".to_owned(), format!("\"bytes\":{bytes}"), "\"directories\":2".to_owned()] {
        assert!(printed.contains(&wanted), "{wanted} in {printed}");
    }
}
