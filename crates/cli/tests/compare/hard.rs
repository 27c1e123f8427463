//! Special files, loops, changing files, unreadable files, and many differences.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_testkit::{needs, require, strace};

use super::{Scene, verdict};

#[test]
fn fifos_and_devices_are_compared_and_never_opened() {
    require!(needs::root().or_else(|| needs::tool("strace")));
    let scene = Scene::of(
        "mkdir a b; mkfifo a/p b/p; mknod a/same c 1 3; mknod b/same c 1 3; mknod a/other b 7 1; mknod b/other b 7 2; \
         mkfifo a/q; echo > b/q; echo > a/r; mkfifo b/r; mknod b/s c 1 3; ln -s x a/s",
    );
    let log = scene.path().join("log");
    for words in ["--attributes=mode,ownership,links,xattr a b", "-L a b"] {
        let run = scene.cmp(words.split_whitespace());
        let (outcome, calls) = strace::record(run, "openat,open", &log).unwrap();
        // `O_PATH` refers to the name without opening the file.
        let opening = calls.iter().filter(|call| !call.has_flag(2, "O_PATH"));
        let opened: Vec<_> = opening.filter_map(|call| call.path(1)).collect();
        assert!(opened.iter().any(|path| path.ends_with(b"b")), "nothing was traced: {opened:?}");
        for name in [&b"p"[..], b"q", b"same", b"other", b"s"] {
            assert!(!opened.iter().any(|path| path == name), "{words}: {opened:?}");
        }
        let of_r = opened.iter().filter(|path| *path == b"r").count();
        assert_eq!(of_r, 1, "{words}: the file of the first tree, not the FIFO of the second");
        let printed = outcome.printed();
        assert!(printed.contains("Files a/other and b/other differ: device 7,1, 7,2\n"), "{printed}");
        assert!(printed.contains("File a/q is a fifo while file b/q is a regular file\n"), "{printed}");
        assert!(printed.contains("File a/r is a regular file while file b/r is a fifo\n"), "{printed}");
        assert!(!printed.contains("same") && !printed.contains("a/p"), "{printed}");
    }
}

#[test]
fn links_that_lead_back_end() {
    let scene = Scene::of("mkdir -p a/d b/d; ln -s .. a/d/up; ln -s .. b/d/up; echo 1 > a/f; echo 1 > b/f");
    assert_eq!(scene.compare("a b").status(), Some(0));
    let outcome = scene.compare("-L a b");
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(outcome.errors(), "haul cmp: 'a/d/up': recursive directory loop\n");
}

#[test]
fn a_tree_and_one_inside_it_can_be_compared() {
    let scene = Scene::of("mkdir -p a/a/a; echo 1 | tee a/f > a/a/f; echo 2 > a/a/a/f");
    let outcome = scene.compare("a a/a");
    let wanted = "Only in a/a: a\nFiles a/a/f and a/a/a/f differ: byte 1\n";
    assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(1), wanted));
    assert_eq!(scene.compare("a a").status(), Some(0));
    assert_eq!(scene.compare("a ./a/").status(), Some(0));
    assert_eq!(scene.compare("a/f a/f").status(), Some(0));
}

#[test]
fn what_is_one_file_is_not_read() {
    require!(needs::tool("strace"));
    let scene =
        Scene::of("mkdir a b; head -c 100000 /dev/zero > a/f; ln a/f b/f; mkdir a/d; ln -s ../a/d b/d");
    let log = scene.path().join("log");
    let run = scene.cmp(["--engine=sync", "-L", "a", "b"]);
    let (outcome, calls) = strace::record(run, "openat,getdents64", &log).unwrap();
    assert_eq!((outcome.status(), outcome.printed()), (Some(0), String::new()));
    let files = calls.iter().filter(|call| call.path(1).as_deref() == Some(b"f")).count();
    assert_eq!(files, 1, "the file of two names is opened in the first tree only");
}

#[test]
fn a_file_that_changes_during_the_run_is_an_error() {
    let scene = Scene::of("truncate -s 256M a; cp --sparse=always a b; printf x | tee -a a >> b");
    // Data rather than holes, so that reading takes a while.
    scene.write("a", &vec![7; 96 << 20]);
    fs::copy(scene.path().join("a"), scene.path().join("b")).unwrap();
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut file = fs::File::options().write(true).open(scene.path().join("b")).unwrap();
            // Rewrites the same byte, so the content never differs.
            while !over.load(Ordering::Relaxed) {
                file.seek(SeekFrom::Start(50)).unwrap();
                file.write_all(&[7]).unwrap();
                begun.store(true, Ordering::Relaxed);
            }
        });
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let outcome = scene.compare("a b");
        over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        outcome
    });
    assert_eq!(outcome.errors(), "haul cmp: 'b' changed while it was being compared\n");
    assert_eq!((outcome.status(), outcome.printed()), (Some(2), String::new()));
}

#[test]
fn what_cannot_be_read_is_trouble_and_the_rest_is_compared() {
    require!(needs::root());
    let scene = Scene::of(
        "mkdir -p a/closed a/d b/closed b/d; echo 1 | tee a/f > b/f; echo 1 > a/g; echo 2 > b/g; echo 1 | tee a/d/x > b/d/x; \
         chmod 000 b/f a/closed b/d",
    );
    let outcome = scene.cmp(["a", "b"]).as_nobody().finish().unwrap();
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(outcome.printed(), "Files a/g and b/g differ: byte 1\n");
    let mut errors: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
    errors.sort();
    let wanted = [
        "haul cmp: cannot access 'a/closed': Permission denied",
        "haul cmp: cannot open 'b/d': Permission denied",
        "haul cmp: cannot open 'b/f': Permission denied",
    ];
    assert_eq!(errors, wanted);
}

#[test]
fn output_that_is_lost_is_trouble() {
    require!((!Path::new("/dev/full").exists()).then(|| "needs /dev/full".to_owned()));
    let scene = Scene::of("mkdir a b; touch a/f");
    let outcome = scene.cmp(["a", "b"]).stdout_to(Path::new("/dev/full")).finish().unwrap();
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(outcome.errors(), "haul cmp: write error: No space left on device\n");
}

#[test]
fn many_differences_are_reported_in_the_order_of_the_paths() {
    let scene = Scene::of(
        "mkdir a b; for d in $(seq 40); do mkdir a/$d b/$d; (cd a/$d; touch $(seq 100)); done; touch b/7/new",
    );
    let outcome = scene.compare("a b -j8");
    let printed = outcome.printed();
    let paths: Vec<String> =
        printed.lines().map(|line| line.trim_start_matches("Only in a/").replacen(": ", "/", 1)).collect();
    assert_eq!(paths.len(), 4001);
    let mut sorted = paths.clone();
    let key = |path: &String| path.trim_start_matches("Only in b/").replace('/', "\0");
    sorted.sort_by_key(key);
    assert_eq!(paths, sorted);
}

/// The size of a file in sysfs is that of a page, whatever it contains.
#[test]
fn files_shorter_than_their_size_are_compared_by_content() {
    let directory = "/sys/kernel/mm/transparent_hugepage";
    require!((!Path::new(directory).join("enabled").exists()).then(|| "needs sysfs".to_owned()));
    let scene = Scene::of(&format!(
        "mkdir a b c; cp {directory}/enabled f; cp f longer; echo x >>longer; head -c 5 f >shorter; \
         head -c 4096 /dev/zero >page; cp {directory}/enabled {directory}/defrag a; \
         cp a/* b; echo x >>b/enabled; cp a/* c; printf x | dd of=c/defrag conv=notrunc status=none"
    ));
    for words in ["--", "-s"] {
        for name in ["f", "longer", "shorter", "page"] {
            let pairs = [format!("{name} {directory}/enabled"), format!("{directory}/enabled {name}")];
            for pair in pairs {
                // GNU cmp -s goes by the sizes.
                let mut expected = verdict(&scene.rival(&format!("cmp {pair}")));
                if words == "-s" {
                    expected.1.clear();
                    expected.2.clear();
                }
                assert_eq!(verdict(&scene.compare(&format!("{words} {pair}"))), expected, "{words} {pair}");
            }
        }
    }
    for (tree, differ) in [("a", 0), ("b", 1), ("c", 1)] {
        for pair in [format!("{tree} {directory}"), format!("{directory} {tree}")] {
            let outcome = scene.compare(&pair);
            let lines = outcome.printed().lines().filter(|line| line.starts_with("Files")).count();
            assert_eq!(lines, differ, "{pair}: {}", outcome.printed());
        }
    }
}

/// The end of a file in a hole that both have is the end of no line.
#[test]
fn an_end_after_a_hole_is_where_cmp_says() {
    require!(needs::tool("cmp"));
    let scene = Scene::on_disk(
        "(head -c 2097151 /dev/zero | tr '\\0' x; echo) >a; truncate -s 5M a; cp --sparse=always a b; truncate -s 6M b; \
         printf 'x\\n' >c; truncate -s 9M c; printf y >>c",
    );
    for words in ["a b", "b a", "a c", "b c", "c b"] {
        assert_eq!(verdict(&scene.compare(words)), verdict(&scene.rival(&format!("cmp {words}"))), "{words}");
    }
}

/// The size of procfs files is 0, whatever they contain.
#[test]
fn files_of_unknown_size_are_compared_by_content() {
    let scene = Scene::of("cp -r /proc/sys/fs/inotify copy; mkdir a b; : > a/f; echo x > b/f");
    for words in ["copy /proc/sys/fs/inotify", "/proc/sys/fs/inotify copy"] {
        let outcome = scene.compare(words);
        assert_eq!((outcome.status(), outcome.printed()), (Some(0), String::new()), "{words}");
    }
    scene.script(
        "for f in copy/*; do echo more >> $f; break; done; for f in copy/*; do last=$f; done; : > $last",
    );
    for words in ["copy /proc/sys/fs/inotify", "/proc/sys/fs/inotify copy"] {
        let outcome = scene.compare(words);
        assert_eq!(
            (outcome.status(), outcome.printed().lines().count()),
            (Some(1), 2),
            "{}",
            outcome.printed()
        );
    }
    assert_eq!(scene.compare("a b").printed(), "Files a/f and b/f differ: size 0, 2\n");
    assert_eq!(scene.compare("b a").printed(), "Files b/f and a/f differ: size 2, 0\n");
}

/// The name is there: only what it leads to is not.
#[test]
fn a_dangling_link_is_not_missing() {
    for (first, second) in [("echo x > a/l", "ln -s nowhere b/l"), ("ln -s nowhere a/l", "echo x > b/l")] {
        let scene = Scene::of(&format!("mkdir a b; {first}; {second}"));
        let outcome = scene.compare("-L a b");
        assert_eq!(outcome.status(), Some(2), "{}", outcome.printed());
        assert!(outcome.errors().contains("l': No such file or directory"), "{}", outcome.errors());
        assert_eq!(outcome.printed(), "");
    }
}
