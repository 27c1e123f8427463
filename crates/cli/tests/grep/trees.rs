//! Real trees, odd names, links, devices, holes: what is searched and what is not.

use std::path::Path;
use std::process::Command;

use haul_testkit::{everything, needs, require};

use super::{Scene, haul, needs_gnu, verdict};

/// A tree with typical and odd entries.
const TREE: &str = "mkdir -p t/s/deep t/.hidden; echo 'abc needle' > t/x.c; echo needle > t/s/y.h; echo needle > t/-z; \
    ln -s x.c t/link; ln -s s t/dirlink; ln -s nowhere t/dangling; echo needle > t/.hidden/.f; mkfifo t/fifo; \
    printf 'needle\\0\\n' > t/bin; : > t/empty; printf needle > $'t/new\\nline'; printf 'a needle\\n' > $'t/\\377'; \
    echo needle > 't/s/deep/a b.c'; truncate -s 300000 t/holes; echo needle >> t/holes; echo needle > top.c";

#[test]
fn trees_are_searched_as_by_gnu_grep() {
    require!(needs_gnu());
    let scene = Scene::of(&format!("{TREE}; printf 'x* \\r\\n.f\\t\\n \\n' >spaces"));
    for words in [
        "-r needle t",
        "-r needle",
        "-rn needle .",
        "-rh needle t",
        "-rc needle t",
        "-rl needle t top.c",
        "-rL needle t/",
        "-r needle t/s/ t",
        "-rH needle top.c",
        "-r needle top.c",
        "-rZl needle t",
        "-r --include=*.c needle t",
        "-r --include=*.c --exclude=x* needle t",
        "-r --exclude=x* --include=*.c needle t",
        "-r --exclude-dir=s needle t",
        "-r --exclude-dir=t needle t",
        "-r --exclude-dir=t needle",
        "-r --exclude-dir=s/ needle t",
        "-r --exclude-dir=s needle t/s/ t/s/deep/",
        "-r --exclude-dir=s/ needle t/s/",
        "-r --exclude-dir=s needle ./t/s/ t/s//",
        "-r --exclude-dir=s// needle t/s//",
        "-r --exclude-dir=t/s needle t/s/",
        "-r --exclude-dir=t/s/ needle t/s/ t/s",
        "-r --exclude-dir=./t/s needle ./t/s/ ./t/s",
        "-r --exclude-dir=t needle t/",
        "-r --exclude-dir=t needle t//",
        "-r --exclude-dir=t* needle t/",
        "-r --exclude-dir=s? needle t/s/ t/s//",
        "-r --exclude-dir=deep needle t/s/ t/",
        "--exclude-dir=s needle t/s/ t/s",
        "-d skip --exclude-dir=s needle t/s/",
        "-r --exclude=s needle t/s/",
        "-r --include=s needle t/s/",
        "-c --exclude=x.c needle t//x.c ./t/x.c t/x.c/",
        "-c --exclude=x.c/ needle t/x.c",
        "-rc --exclude=*/ needle t",
        "-r --exclude-from=spaces needle t",
        "-rc --exclude=x.c/ needle t",
        "-rc --include=x.c/ needle t",
        "-r --exclude=t/ needle t",
        "-r --exclude-dir=.* needle t",
        "-r --exclude-dir= needle t/ t ./.",
        "-r --exclude-dir= needle t/s// ./",
        "-c --exclude=/x.c needle t//x.c t/x.c",
        "-c --exclude=/x.? needle t//x.c t/x.c",
        "--exclude=*.c needle t/x.c",
        "--exclude=x.c needle t/x.c",
        "--include=y* needle t/x.c t/s/y.h",
        "-r --include=t/*.c needle t",
        "-rl --include=[x\\].c] needle t",
        "-rl --include=[\\-]z needle t",
        "-rl --include=[[:none:]] needle t",
        "-rl --exclude=? needle t",
        "needle t",
        "-c needle t top.c",
        "-L needle t top.c",
        "-s needle t nope top.c",
        "-d skip needle t top.c",
        "-d recurse needle t",
        "-D skip needle t/fifo",
        "-rI needle t",
        "-ra needle t",
        "-rv needle t",
        "-rq needle t nope",
        "-q nothing nope",
        "-r nothing t",
        "-R needle t/s",
        "-rw needle t",
        "-rT needle t",
        "--directories=read needle t",
        "needle top.c t/x.c top.c",
        "-rA1 needle t/s",
        "-f nope needle",
        "-r -m1 needle t",
    ] {
        scene.same(words, true);
    }
    // GNU grep reports dangling links and loops in its walk order, so don't compare these messages.
    // With -R, the FIFO would be read, and has no writer.
    let ours = scene.haul(["-R", "-D", "skip", "needle", "t"], "C.UTF-8").finish().unwrap();
    assert_eq!(ours.status(), Some(2));
    assert_eq!(ours.errors().matches("t/dangling: No such file or directory").count(), 1);
    assert_eq!(ours.printed().matches("t/dirlink/y.h:needle").count(), 1);
}

#[test]
fn a_directory_above_itself_is_reported_and_left() {
    let scene = Scene::of("mkdir -p t/s; ln -s .. t/s/up; echo needle > t/f");
    let ours = scene.haul(["-R", "needle", "t"], "C.UTF-8").finish().unwrap();
    assert_eq!((ours.status(), ours.printed().as_str()), (Some(0), "t/f:needle\n"));
    assert_eq!(ours.errors(), "haul grep: t/s/up: warning: recursive directory loop\n");
}

#[test]
fn what_is_wrong_is_worded_and_silenced_as_by_gnu_grep() {
    require!(needs_gnu());
    let scene = Scene::of("mkdir t; cd t; mkdir s; ln -s .. s/up; ln -s nowhere s/dangling; echo needle > f");
    let folder = scene.path().join("t");
    for words in [
        "-R needle",
        "-Rs needle",
        "-R needle .",
        "-Rs needle s",
        "-R needle s",
        "-rs needle f nofile",
        "-Rc needle --exclude=dangling",
        "-Rc needle . --include=f",
        "-Rc needle s --exclude-dir=dangling",
        "-c needle nowhere --exclude=nowhere",
        "-rc needle nowhere --exclude=nowhere",
        "needle f s >> out",
        "needle f out >> out",
        "-s needle f out >> out",
        "-r needle >> out",
    ] {
        let run = |program: &str| {
            std::fs::write(folder.join("out"), "needle\n").unwrap();
            let line = format!("cd t; {program} {words}; echo $?; cat out");
            let outcome =
                scene.run(Path::new("/bin/bash"), ["-c", &line]).env("LC_ALL", "C.UTF-8").finish().unwrap();
            let (_, lines, errors) = verdict(&outcome, true);
            (lines, errors.join(" ").replace("/usr/bin/grep", "grep").replace(program, "grep"))
        };
        assert_eq!(run(&format!("{} grep", super::haul().display())), run("/usr/bin/grep"), "{words}");
    }
}

#[test]
fn results_are_whole_and_sorted_if_asked_for() {
    let scene = Scene::of(
        "mkdir -p t/b t/a/a; for f in t/b/1 t/a/2 t/a/a/3 t/a-b t/c; do seq -f \"%g $f\" 2000 > $f; done",
    );
    let sorted = scene.haul(["-r", "--sort=path", "1", "t/b", "t", "-j4"], "C").finish().unwrap().printed();
    let mut files: Vec<&str> = sorted.lines().map(|line| line.split(':').next().unwrap()).collect();
    files.dedup();
    assert_eq!(files, ["t/b/1", "t/a/2", "t/a/a/3", "t/a-b", "t/b/1", "t/c"]);
    let found = scene.haul(["-r", "1", "t", "-j4"], "C").finish().unwrap().printed();
    let mut files: Vec<&str> = found.lines().map(|line| line.split(':').next().unwrap()).collect();
    files.dedup();
    assert_eq!(files.len(), 5, "results of files are mixed: {files:?}");
}

#[test]
fn what_is_output_to_is_not_searched() {
    require!(needs_gnu());
    let scene = Scene::of("echo needle > out; echo needle > in; : > new");
    let out = scene.path().join("out");
    let run = scene.haul(["needle", "in", "out"], "C").stdout_to(&scene.path().join("new")).finish().unwrap();
    assert_eq!(run.status(), Some(0));
    assert_eq!(std::fs::read(scene.path().join("new")).unwrap(), b"in:needle\nout:needle\n");
    let script = format!("exec {} grep needle in out >> out", super::haul().display());
    let run = scene.run(Path::new("/bin/sh"), ["-c", &script]).env("LC_ALL", "C").finish().unwrap();
    assert_eq!(run.status(), Some(2));
    assert_eq!(run.errors(), "haul grep: out: input file is also the output\n");
    assert_eq!(std::fs::read(out).unwrap(), b"needle\nin:needle\n");
}

#[test]
fn everything_there_is_can_be_met() {
    require!(needs_gnu());
    let scene = Scene::new();
    everything::spec().build(&scene.path().join("t")).unwrap();
    // A hole of many gigabytes is skipped, unless its empty lines are selected or it counts as
    // one line.
    scene.same("-rc . t", true);
    let mut remove = Command::new("find");
    let removed = remove.args(["t", "-name", "hole-huge", "-delete"]).current_dir(scene.path()).status();
    assert!(removed.unwrap().success());
    for words in [
        "-rl a",
        "-rLa b",
        // On the large files, GNU grep takes minutes for the parts of long lines.
        "-rob --exclude=*-* [0-9]",
        "-rvc a",
        "-rxc .*",
        // Group separators depend on which file GNU grep meets first.
        "--no-group-separator -rnA1 1",
    ] {
        scene.same(&format!("{words} t"), true);
    }
}

#[test]
fn real_trees_come_to_the_same_as_gnu_greps_and_ripgreps() {
    require!(needs_gnu());
    let scene = Scene::new();
    for words in ["-rn return", "-rc int", "-riw struct", "-roE [a-z]+_t\\b", "-rl -F ("] {
        scene.same(&format!("{words} /usr/include/linux /usr/include/x86_64-linux-gnu/sys"), true);
    }
    scene
        .same("-rIh Copyright.*[0-9]{4} -E /usr/share/doc/bash /usr/share/doc/tar /usr/share/doc/grep", true);
    require!(needs::tool("rg"));
    let rg = needs::find_tool("rg").unwrap();
    let words = ["-n", "--no-heading", "-uuu", "define .*_H", "/usr/include/linux"];
    let theirs = scene.run(&rg, words).env("LC_ALL", "C.UTF-8").finish().unwrap();
    let ours = scene.haul(["-rn", "define .*_H", "/usr/include/linux"], "C.UTF-8").finish().unwrap();
    assert_eq!(verdict(&ours, true), verdict(&theirs, true));
    assert!(ours.printed().lines().count() > 100);
}

#[test]
fn dereferencing_recursion_reads_fifos_and_cannot_be_undone() {
    require!(needs_gnu());
    let scene = Scene::of("mkdir d other; echo needle >other/x; ln -s ../other d/l; mkfifo d/p");
    for words in ["-R", "-Rr", "-R -d recurse", "-rR", "-R -D skip", "-r"] {
        let run = |program: &str| {
            let line =
                format!("(echo needle >d/p) & {program} {words} needle d | sort; kill $! 2>/dev/null; true");
            let run = scene.run(Path::new("/bin/bash"), ["-c", &line]).env("LC_ALL", "C");
            run.finish().unwrap().printed()
        };
        assert_eq!(run(&format!("{} grep", haul().display())), run("/usr/bin/grep"), "{words}");
    }
}

#[test]
fn columns_are_as_wide_as_gnu_s_for_each_size() {
    require!(needs_gnu());
    let scene = Scene::of(
        "for size in 1 8 9 10 98 99 100 999; do yes a | tr -d '\\n' | head -c $size | sed 's/a$//' >$size; echo >>$size; done",
    );
    for options in ["-T", "-bT", "-nT", "-bnT"] {
        for size in ["1", "8", "9", "10", "98", "99", "100", "999"] {
            scene.same(&format!("{options} -e a -e ^$ {size}"), false);
        }
    }
}
