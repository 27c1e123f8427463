//! Same lines and exit status as `diff -rq --no-dereference` and `cmp`.

use haul_testkit::needs;
use haul_testkit::require;

use super::{Scene, verdict};

/// Scripts that build pairs of trees `a` and `b`.
const TREES: [&str; 14] = [
    "mkdir a b",
    "mkdir -p a/x/y b/x/y; echo 1 | tee a/x/y/f > b/x/y/f",
    "mkdir a b; echo 1 > a/f; echo 2 > b/f",
    "mkdir a b; echo 1 > a/f; echo 11 > b/f; : > a/g; echo > b/g",
    "mkdir a b; touch a/only-a a/both b/both b/only-b b/.hidden",
    "mkdir -p a/d/deep b/e; touch a/d/deep/f b/e/f",
    "mkdir -p a/x b/x; touch a/x/1 a/x-y a/x.c a/X b/x/2 b/x-y b/xx",
    "mkdir a b; mkdir a/p b/q; echo > a/q; echo > b/p; ln -s p a/r; mkdir b/r; : > a/s; mkdir b/s",
    "mkdir a b; ln -s one a/l; ln -s two b/l; ln -s same a/m; ln -s same b/m; ln -s gone a/n; echo > b/n",
    "mkdir a b; mkfifo a/f; echo > b/f; mkfifo b/g; ln -s x a/g",
    "mkdir a b; echo 1 > a/f; ln a/f a/g; echo 1 > b/f; cp b/f b/g",
    "mkdir a; for i in $(seq 300); do mkdir a/$i; echo $i > a/$i/f; done; cp -r a b; echo > b/7/f; rm b/299/f",
    "mkdir a b; touch -d 2001-01-01 a/f; touch b/f; chmod 600 a/f",
    "head -c 5000000 /dev/urandom > x; mkdir a b; cp x a; cp x b; cp x a/y; cp x b/y; printf Z >> b/y; \
     cp x a/z; cp x b/z; printf '\\0' | dd of=b/z bs=1 seek=4999999 conv=notrunc status=none",
];

/// Contents of pairs of files.
const FILES: [(&[u8], &[u8]); 14] = [
    (b"", b""),
    (b"", b"x"),
    (b"x", b""),
    (b"abc\n", b"abc\n"),
    (b"abc\ndef\n", b"abc\ndxf\n"),
    (b"abc\n", b"abc\ndef\n"),
    (b"abc\ndef\n", b"abc\n"),
    (b"ab", b"abc\n"),
    (b"abc\nd", b"abc\nde"),
    (b"\n\n\n\n", b"\n\n\nx"),
    (b"\n\n\n", b"\n\n\n\n"),
    (b"x", b"y"),
    (b"\0\xff", b"\0\xfe"),
    (b"same", b"same"),
];

#[test]
fn trees_are_reported_as_by_diff() {
    require!(needs::tool("diff"));
    for script in TREES {
        let scene = Scene::of(script);
        let diff = verdict(&scene.rival("diff -rq --no-dereference a b"));
        assert_eq!(verdict(&scene.compare("--brief a b")), diff, "{script}");
        // The same entries differ, though the lines are worded differently.
        let full = scene.compare("a b");
        let told = full
            .printed()
            .lines()
            .map(|line| line.split(": b").next().unwrap().to_owned())
            .collect::<Vec<_>>();
        assert_eq!(full.status(), diff.0, "{script}");
        assert_eq!(told.len(), diff.1.lines().count(), "{script}: {told:?}");
        let quiet = scene.compare("-q a b");
        assert_eq!((quiet.status(), quiet.printed()), (diff.0, String::new()), "{script}");
    }
}

#[test]
fn every_engine_reports_the_same() {
    require!(needs::tool("diff"));
    let scene = Scene::of(TREES[11]);
    let diff = verdict(&scene.rival("diff -rq --no-dereference a b"));
    for way in haul_testkit::program::each_engine() {
        let way = way.join(" ");
        assert_eq!(verdict(&scene.compare(&format!("--brief {way} a b"))), diff, "{way}");
    }
}

#[test]
fn files_are_reported_as_by_cmp() {
    require!(needs::tool("cmp"));
    let scene = Scene::new();
    for (first, second) in FILES {
        scene.write("a", first);
        scene.write("b", second);
        assert_eq!(
            verdict(&scene.compare("a b")),
            verdict(&scene.rival("cmp a b")),
            "{first:?} and {second:?}"
        );
    }
}

#[test]
fn the_first_difference_of_large_files_is_where_cmp_says() {
    require!(needs::tool("cmp"));
    const BYTES: usize = 9 << 20;
    let scene = Scene::new();
    let mut text: Vec<u8> =
        (0..BYTES).map(|index| if index % 61 == 60 { b'\n' } else { b'a' + (index % 23) as u8 }).collect();
    scene.write("a", &text);
    let boundary = 2 << 20;
    for at in
        [0, 1, (256 << 10) - 1, 256 << 10, boundary - 1, boundary, boundary + 1, 2 * boundary, BYTES - 1]
    {
        // Add a second difference further on, which another worker may find first.
        for place in [at, (at + (3 << 20)).min(BYTES - 1)] {
            text[place] ^= 0x40;
        }
        scene.write("b", &text);
        for place in [at, (at + (3 << 20)).min(BYTES - 1)] {
            text[place] ^= 0x40;
        }
        if at < BYTES - 1 {
            assert_eq!(verdict(&scene.compare("a b")), verdict(&scene.rival("cmp a b")), "at {at}");
        }
    }
    for length in [boundary - 1, boundary, boundary + 1, BYTES - 1] {
        scene.write("b", &text[..length]);
        for words in ["a b", "b a"] {
            assert_eq!(
                verdict(&scene.compare(words)),
                verdict(&scene.rival(&format!("cmp {words}"))),
                "{words}, {length} bytes"
            );
        }
    }
    scene.write("b", &text);
    assert_eq!(scene.compare("a b -j1").status(), Some(0));
}

#[test]
fn a_file_is_compared_with_that_of_its_name_in_a_directory() {
    let scene = Scene::of("mkdir d; echo 1 > f; echo 2 > d/f");
    for words in ["f d", "d/ f"] {
        let outcome = scene.compare(words);
        assert_eq!(outcome.status(), Some(1), "{words}: {}", outcome.errors());
        assert!(outcome.printed().ends_with("differ: byte 1, line 1\n"), "{}", outcome.printed());
    }
    let outcome = scene.compare("f missing");
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(outcome.errors(), "haul cmp: cannot stat 'missing': No such file or directory\n");
}
