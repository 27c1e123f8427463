//! `haul sync` where a path, the environment or the kernel says less than usual about what SOURCE
//! and TARGET are: its safety checks work all the same, or it refuses to run.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::{Sandbox, TestRun, needs, program, require};

/// Returns the files below a directory with their contents.
fn files(root: &Path) -> BTreeMap<PathBuf, String> {
    let entries = walkdir::WalkDir::new(root).into_iter().map(|entry| entry.unwrap().into_path());
    let files = entries.filter(|path| path.is_file());
    files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn nothing_is_touched_if_the_trees_have_no_absolute_paths() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setpriv"));
    let lines = [
        "@s @t",
        "--delete @s @t",
        "--delete --backup-dir=../bk @s @t",
        "--link-dest=../old @s @t",
        "--delete @s @new",
        // SOURCE is in TARGET, or around it.
        "--delete @s/sub @s",
        "@s/sub @s",
        "@s @s/new",
        // The home directory.
        "--delete @s @home",
    ];
    let places = [
        // As with `sudo -u` or `su`.
        ("below a directory that this user can't search", "chmod 700 ..", ""),
        ("in a deleted directory", "mkdir gone; cd gone; rmdir ../gone", "../"),
    ];
    for (place, script, up) in places {
        for line in lines {
            let sandbox = Sandbox::in_memory().unwrap();
            let scene = "mkdir -p p/w; cd p/w; mkdir -p s/sub t bk old home; echo new >s/f; echo 1 >s/sub/f
                echo OLD >t/f; echo GONE >t/g; touch -d 2001-1-1 t/f; cp -p s/f old/f; echo x >home/x";
            sandbox.script(&format!("{scene}; chown -R 65534:65534 .")).unwrap();
            let before = files(sandbox.path());
            let line = line.replace('@', up);
            let command = format!(
                "cd p/w; export HOME=$PWD/home; {script}
                exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$HAUL\" sync {line}"
            );
            let run = TestRun::new(Path::new("sh")).args(["-efc", &command]).env("HAUL", ours.path());
            let outcome = run.in_folder(sandbox.path()).finish().unwrap();
            let what = format!("{place}: {line}: {}", outcome.errors());
            assert_eq!(outcome.status(), Some(1), "{what}");
            assert!(outcome.errors().contains(": cannot determine its absolute path: "), "{what}");
            assert_eq!(files(sandbox.path()), before, "{what}");
        }
    }
}
