//! `--keep-directory-symlink` follows links that existed before the run, but none that the
//! run created.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_testkit::program::each_engine;
use haul_testkit::{Sandbox, program};

/// Builds directories, files (names ending in `f`) and, for entries with a target, links.
fn build(folder: &Path, entries: &[(&str, &str)]) {
    for (name, leads_to) in entries {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match *leads_to {
            "" if name.ends_with('f') => fs::write(path, "content").unwrap(),
            "" => fs::create_dir_all(path).unwrap(),
            _ => symlink(leads_to, path).unwrap(),
        }
    }
}

/// Entries of the directory, arguments of the copy, and whether the result is independent
/// of timing.
struct Scene {
    entries: &'static [(&'static str, &'static str)],
    words: &'static [&'static str],
    is_ordered: bool,
}

/// In each scene, a copied link leads to `out`, where nothing may arrive.
const SCENES: [Scene; 5] = [
    Scene {
        entries: &[("out", ""), ("b/s/d", "../../out"), ("a/s/d/f", ""), ("i", "")],
        words: &["-a", "b/s", "a/s", "i"],
        is_ordered: true,
    },
    Scene {
        entries: &[("out", ""), ("b/s/x/y/d", "../../../../out"), ("a/s/x/y/d/e/f", ""), ("i", "")],
        words: &["-r", "--copy-contents", "b/s", "a/s", "i"],
        is_ordered: true,
    },
    Scene {
        entries: &[("out", ""), ("b/s", "../out"), ("a/s/f", ""), ("i", "")],
        words: &["-a", "b/s", "a/s", "i"],
        is_ordered: true,
    },
    // A second hard link to a link that the run created.
    Scene {
        entries: &[("out", ""), ("b/s/d", "../../out"), ("a/s/e/f", ""), ("i", "")],
        words: &["-a", "b/s", "a/s", "i"],
        is_ordered: true,
    },
    // An existing link leads from one directory to another, so that both are copied to one
    // name concurrently.
    Scene {
        entries: &[
            ("out", ""),
            ("a/s/d/x", "../../../out"),
            ("a/s/e/x/f", ""),
            ("i/s/e", ""),
            ("i/s/d", "e"),
        ],
        words: &["-a", "a/s", "i"],
        is_ordered: false,
    },
];

#[test]
fn no_link_that_the_run_made_is_followed() {
    let ours = program!();
    let sandbox = Sandbox::in_memory().unwrap();
    for (number, scene) in SCENES.iter().enumerate() {
        for (turn, engine) in each_engine().iter().enumerate() {
            for run in 0..if scene.is_ordered { 2 } else { 10 } {
                let folder = sandbox.join(format!("{number}-{turn}-{run}"));
                build(&folder, scene.entries);
                if number == 3 {
                    fs::hard_link(folder.join("b/s/d"), folder.join("b/s/e")).unwrap();
                }
                let jobs = if run % 2 == 0 { "-j1" } else { "-j4" };
                let words = [&["--keep-directory-symlink", jobs], scene.words].concat();
                let outcome = ours.run_with(engine).args(&words).in_folder(&folder).finish().unwrap();
                let case = format!("{engine:?} {words:?}: {}", outcome.errors());
                assert_eq!(fs::read_dir(folder.join("out")).unwrap().count(), 0, "{case}");
                assert_eq!(outcome.status(), Some(1), "{case}");
                if scene.is_ordered {
                    assert!(outcome.errors().contains("through just-created symlink"), "{case}");
                }
            }
        }
    }
}

#[test]
fn links_that_were_there_are_followed() {
    let ours = program!();
    let sandbox = Sandbox::in_memory().unwrap();
    let entries = [("out", ""), ("i/s/d", "../../out"), ("a/s/l", "../../out"), ("a/s/d/f", "")];
    build(sandbox.path(), &entries);
    let words = ["-a", "--keep-directory-symlink", "a/s", "i"];
    ours.run().args(words).in_folder(sandbox.path()).succeed().unwrap();
    assert!(sandbox.join("out/f").exists());
}
