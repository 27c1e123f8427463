//! Entries that the selection leaves out in one tree or in both.

use super::{Scene, verdict};

/// Runs `haul cmp`, and expects nothing but these lines.
fn expect(scene: &Scene, words: &str, printed: &str) {
    let wanted = (Some(i32::from(!printed.is_empty())), printed.to_owned(), String::new());
    assert_eq!(verdict(&scene.compare(words)), wanted, "{words}");
}

#[test]
fn a_file_within_the_limits_in_either_tree_is_compared() {
    let scene = Scene::of(
        "mkdir a b; for t in a b; do head -c 2000 /dev/zero >$t/large; echo >$t/small; done; echo x >>b/large; \
         echo 1 >a/grown; head -c 2000 /dev/zero >b/grown; head -c 2000 /dev/zero >a/shrunk; echo 1 >b/shrunk; \
         head -c 2000 /dev/zero | tee a/gone >b/new; ln -s nowhere a/type; head -c 2000 /dev/zero >b/type; \
         touch -d @1000 a/grown a/shrunk; touch -d @3000 b/grown b/shrunk; \
         touch -d @1000 a/large b/large a/small b/small a/gone b/new b/type",
    );
    let [grown, shrunk] = [
        "Files a/grown and b/grown differ: size 2, 2000\n",
        "Files a/shrunk and b/shrunk differ: size 2000, 2\n",
    ];
    let types = "File a/type is a symbolic link while file b/type is a regular file\n";
    for words in ["--max-size=1K", "--newer-than=@2000", "--max-size=1K -j1"] {
        expect(&scene, &format!("{words} a b"), &[grown, shrunk, types].concat());
    }
    let all = [
        grown,
        "Files a/large and b/large differ: size 2000, 2002\nOnly in a: gone\nOnly in b: new\n",
        shrunk,
        types,
    ];
    let sorted = |lines: &str| {
        let mut lines: Vec<_> = lines.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for words in ["--min-size=1K a b", "--older-than=@2000 a b"] {
        let outcome = scene.compare(words);
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(1), ""), "{words}");
        assert_eq!(sorted(&outcome.printed()), sorted(&all.concat()), "{words}");
    }
}

/// A link is followed to the file whose size counts, in both trees.
#[test]
fn limits_are_those_of_followed_links() {
    let scene = Scene::of(
        "mkdir a b; head -c 2000 /dev/zero >large; echo >small; ln -s ../large b/new; ln -s ../large a/gone; \
         ln -s ../large a/f; ln -s ../small b/f; ln -s ../small b/more",
    );
    let wanted = "Files a/f and b/f differ: size 2000, 1\nOnly in b: more\n";
    expect(&scene, "-L --max-size=1K a b", wanted);
}

#[test]
fn an_entry_that_the_rules_exclude_in_one_tree_is_compared() {
    let scene = Scene::of(
        "mkdir -p a/build b a/both/x b/both b/dir; echo 1 >b/build; echo 1 >a/dir; mkdir a/x.o; echo 1 >b/x.o",
    );
    let dir = "File a/dir is a regular file while file b/dir is a directory\n";
    let build = "File a/build is a directory while file b/build is a regular file\n";
    let object = "File a/x.o is a directory while file b/x.o is a regular file\n";
    let both = "Only in a/both: x\n";
    expect(&scene, "--exclude=build/ --exclude=dir/ a b", &[both, build, dir, object].concat());
    expect(&scene, "--exclude=build --exclude=both/ --exclude=*.o a b", dir);
    expect(&scene, "--exclude=*/ --max-size=1 --exclude=dir a b", "");
}

#[test]
fn two_files_that_are_left_out_are_not_equal() {
    let scene = Scene::of(
        "mkdir d; head -c 2000 /dev/zero | tee x.o d/x.o >y.o; echo 1 >x.c; echo 1 >y.c; touch -d @1000 x.o y.o d/x.o",
    );
    for (words, second) in [
        ("--max-size=1K x.o y.o", "y.o"),
        ("--newer-than=@2000 x.o y.o", "y.o"),
        ("--exclude=*.o x.o y.o", "y.o"),
        ("-q --exclude=*.o x.o y.o", "y.o"),
        ("--max-size=1K x.o d", "d/x.o"),
        ("--max-size=1K x.o x.o", "x.o"),
        ("--exclude=x.o --max-size=1K x.o y.o", "y.o"),
    ] {
        let outcome = scene.compare(words);
        let message = format!("haul cmp: 'x.o' and '{second}' were not compared: both are left out\n");
        assert_eq!(
            (outcome.status(), outcome.printed(), outcome.errors()),
            (Some(2), String::new(), message)
        );
    }
    // One of them is enough.
    let differ = |first: &str, second: &str| format!("{first} {second} differ: byte 1, line 1\n");
    for options in ["--max-size=1K", "--exclude=*.o", "--newer-than=@2000"] {
        expect(&scene, &format!("{options} x.o y.c"), &differ("x.o", "y.c"));
        expect(&scene, &format!("{options} x.c y.o"), &differ("x.c", "y.o"));
        expect(&scene, &format!("{options} x.c y.c"), "");
    }
}

#[test]
fn a_selection_is_of_no_use_for_streams() {
    let scene = Scene::of("echo 1 >f; echo f >list");
    for words in ["--max-size=1K", "--exclude=f", "--files-from=list", "--gitignore", "--exclude-caches"] {
        for operands in ["- f", "f /dev/null"] {
            let outcome =
                scene.cmp(format!("{words} {operands}").split_whitespace()).input(b"1\n").finish().unwrap();
            let message = "haul cmp: --exclude and the like choose among files, not pipes or devices\n";
            assert_eq!(verdict(&outcome).0, Some(2), "{words}");
            assert_eq!(outcome.errors(), message, "{words} {operands}");
        }
    }
}
