//! Pipes, FIFOs, devices and standard input are read to EOF, with the same exit status and lines
//! as `cmp`.

use std::process::Command;

use haul_testkit::{needs, require};

use super::{Scene, haul};

/// Runs a bash script with `CMP` set to `cmp` and to haul; output and status must match.
fn alike(scene: &Scene, script: &str) -> (Option<i32>, String) {
    let [theirs, ours] = ["cmp".to_owned(), format!("{} cmp", haul().display())].map(|program| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).env("CMP", &program).env("LC_ALL", "C").current_dir(scene.path());
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said)
            .unwrap()
            .replace("haul cmp:", "cmp:")
            .replace("differ: char", "differ: byte");
        // Descriptor numbers of the shell's pipes differ.
        let said = said.split("/dev/fd/").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
        (output.status.code(), said.collect::<Vec<_>>().join("/dev/fd/"))
    });
    assert_eq!(ours, theirs, "{script}");
    ours
}

#[test]
fn what_was_not_read_is_never_the_same() {
    require!(needs::tool("cmp"));
    let scene = Scene::of(
        "printf 'aaaa\n' > a; printf 'aaab\n' > b; : > empty; head -c 300000 /dev/zero > zeros; mkfifo one other",
    );
    for (script, status) in [
        ("$CMP -s <(echo aaaa) <(echo bbbb)", 1),
        ("$CMP <(echo aaaa) <(echo aaaa)", 0),
        ("$CMP <(echo aaaa) <(echo bbbb)", 1),
        ("$CMP a <(printf 'aaaa\n')", 0),
        ("$CMP b <(printf 'aaaa\n')", 1),
        ("$CMP <(printf 'aaaa') a", 1),
        ("$CMP a <(printf 'aaaa\nmore')", 1),
        ("$CMP empty /dev/null", 0),
        ("$CMP a /dev/null", 1),
        ("$CMP - a < a", 0),
        ("$CMP a - < b", 1),
        ("cat a | $CMP - b", 1),
        ("cat zeros | $CMP zeros -", 0),
        ("(sleep 0; head -c 299999 /dev/zero; printf x) | $CMP zeros -", 1),
        ("$CMP zeros /dev/zero", 1),
        ("cat a > one & cat a > other & $CMP one other", 0),
        ("cat a > one & cat b > other & $CMP one other", 1),
        ("ln -sf one link; cat b > one & $CMP link a", 1),
        ("$CMP /dev/null /dev/null", 0),
        ("$CMP /dev/full /dev/zero | head -c 0; $CMP /dev/null /dev/full", 1),
    ] {
        if script.contains("/dev/full /dev/zero") {
            // This one never ends.
            continue;
        }
        assert_eq!(alike(&scene, script).0, Some(status), "{script}");
    }
}

#[test]
fn what_cannot_be_read_or_compared_is_trouble() {
    let scene = Scene::of("mkfifo fifo; mkdir directory; : > file");
    for words in ["- directory", "fifo missing", "--attributes /dev/null file"] {
        let outcome = scene.compare(words);
        assert_eq!(outcome.status(), Some(2), "{words}: {}", outcome.errors());
        assert!(!outcome.errors().is_empty(), "{words}");
    }
}

#[test]
fn in_trees_special_files_are_compared_by_type_and_number() {
    let scene = Scene::of(
        "mkdir a b; mkfifo a/fifo b/fifo; mkfifo a/x; : > b/x; ln a/fifo a/again; ln b/fifo b/again",
    );
    let outcome = scene.compare("a b");
    assert_eq!(outcome.status(), Some(1));
    assert_eq!(outcome.printed(), "File a/x is a fifo while file b/x is a regular empty file\n");
    require!(needs::root());
    scene.script(
        "mknod a/device c 1 3; mknod b/device c 1 5; mknod a/same b 7 0; mknod b/same b 7 0; rm a/x b/x",
    );
    let outcome = scene.compare("a b");
    assert_eq!(outcome.status(), Some(1));
    assert_eq!(outcome.printed(), "Files a/device and b/device differ: device 1,3, 1,5\n");
}
