//! `--strict`: nothing that already existed in the target is followed, written to or changed.
//!
//! In each case, the target's owner has prepared it so that a plain copy reaches a file elsewhere.
//! The same command without `--strict` must reach that file, or the case proves nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_testkit::flip::Flipper;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::{Facts, Sandbox, Snapshot, needs, note, program, require};

/// A prepared target, the command, and whether the strict copy succeeds.
struct Case {
    name: &'static str,
    prepare: fn(&Path),
    command: &'static [&'static str],
    succeeds: bool,
    /// Path of the copy, which must exist after a success.
    copy: &'static str,
}

const CASES: [Case; 9] = [
    Case {
        name: "link to a file",
        prepare: |target| symlink("../outside/file", target.join("file")).unwrap(),
        command: &["-r", "source/.", "target"],
        succeeds: true,
        copy: "target/file",
    },
    Case {
        name: "link to a file, one operand",
        prepare: |target| symlink("../outside/file", target.join("file")).unwrap(),
        command: &["source/file", "target/file"],
        succeeds: true,
        copy: "target/file",
    },
    Case {
        name: "other name of a file",
        prepare: |target| fs::hard_link(target.join("../outside/file"), target.join("file")).unwrap(),
        command: &["-r", "source/.", "target"],
        succeeds: true,
        copy: "target/file",
    },
    Case {
        name: "other name of a file, with --update",
        prepare: |target| fs::hard_link(target.join("../outside/file"), target.join("file")).unwrap(),
        command: &["-u", "source/file", "target"],
        succeeds: true,
        copy: "target/file",
    },
    Case {
        name: "target that is a link",
        prepare: |target| symlink("../outside", target.join("link")).unwrap(),
        command: &["-r", "source/.", "target/link"],
        succeeds: false,
        copy: "",
    },
    Case {
        name: "target below a link",
        prepare: |target| symlink("../outside", target.join("link")).unwrap(),
        command: &["source/file", "target/link/file"],
        succeeds: false,
        copy: "",
    },
    Case {
        name: "target directory named by -t",
        prepare: |target| symlink("../outside", target.join("link")).unwrap(),
        command: &["-t", "target/link", "source/file"],
        succeeds: false,
        copy: "",
    },
    Case {
        name: "link on the way of --parents",
        prepare: |target| symlink("../outside", target.join("source")).unwrap(),
        command: &["--parents", "source/file", "target"],
        succeeds: false,
        copy: "",
    },
    Case {
        name: "attributes of a directory",
        prepare: |target| {
            fs::rename(target.join("../outside"), target.join("directory")).unwrap();
            symlink("target/directory", target.join("../outside")).unwrap();
        },
        command: &["-a", "source/.", "target"],
        succeeds: true,
        copy: "target/directory/inner",
    },
];

fn build(root: &Path, case: &Case) {
    remove_tree(root);
    for folder in ["source/directory", "target", "outside"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (file, content) in
        [("source/file", "new"), ("source/directory/inner", "new"), ("outside/file", "old")]
    {
        fs::write(root.join(file), content).unwrap();
    }
    let old = fs::File::open(root.join("outside/file")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::set_permissions(root.join("outside"), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    (case.prepare)(&root.join("target"));
}

/// Describes everything outside that a copy could change, except link counts.
fn outside(root: &Path) -> String {
    let folder = fs::canonicalize(root.join("outside")).unwrap();
    let snapshot = Snapshot::take(&folder, Facts::MODE | Facts::OWNER).unwrap();
    let facts: Vec<_> = snapshot.entries().iter().map(|(path, entry)| (path.clone(), entry.mode)).collect();
    let inner = fs::symlink_metadata(folder.join("inner")).is_ok();
    let kept = facts.iter().filter(|(path, _)| !(inner && path.ends_with(b"inner"))).collect::<Vec<_>>();
    format!("{kept:?} {:?}", fs::read(folder.join("file")).unwrap())
}

#[test]
fn nothing_that_was_there_is_reached() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let root = sandbox.join("root");
    for case in &CASES {
        build(&root, case);
        let before = outside(&root);
        let plain = ours.run().args(case.command).in_folder(&root).finish().unwrap();
        assert_ne!(outside(&root), before, "{}: without --strict: {}", case.name, plain.errors());
        for engine in ["--engine=sync", "--engine=io-uring"] {
            build(&root, case);
            let run = ours.run_with(&[engine, "--strict"]).args(case.command).in_folder(&root);
            let outcome = run.finish().unwrap();
            assert_eq!(outside(&root), before, "{} {engine}: {}", case.name, outcome.errors());
            assert_eq!(outcome.succeeded(), case.succeeds, "{} {engine}: {}", case.name, outcome.errors());
            assert_eq!(outcome.stderr.is_empty(), case.succeeds, "{}", case.name);
            if case.succeeds {
                assert_eq!(fs::read(root.join(case.copy)).unwrap(), b"new", "{} {engine}", case.name);
            }
        }
    }
}

#[test]
fn a_file_exchanged_for_a_link_is_never_written_through() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let root = sandbox.path().to_owned();
    fs::create_dir(root.join("source")).unwrap();
    fs::create_dir(root.join("target")).unwrap();
    fs::write(root.join("source/file"), "new").unwrap();
    fs::write(root.join("outside"), "old").unwrap();
    let (file, other) = (root.join("target/file"), root.join("other"));
    let mut plain_failed = 0;
    for index in 0..needs::count_from("HAUL_RACE_RUNS", 300) {
        for strict in [true, false] {
            for path in [&file, &other] {
                fs::remove_file(path).unwrap_or_default();
            }
            fs::write(&file, "here before").unwrap();
            symlink(root.join("outside"), &other).unwrap();
            let own: &[&str] = if strict { &["--strict", "-a"] } else { &["-a"] };
            let engine = ["--engine=sync", "--engine=io-uring"][index % 2];
            let run = ours.run_with(&[engine]).args(own).args(["-T", "source", "target"]).in_folder(&root);
            let flipper = Flipper::start(&file, &other).unwrap();
            let outcome = run.finish().unwrap();
            assert!(!outcome.crashed(), "{}", outcome.errors());
            // The flipper fails once the copy has removed one of the two names.
            flipper.stop().map_or_else(drop, drop);
            let kept = fs::read(root.join("outside")).unwrap() == b"old";
            assert!(kept || !strict, "run {index}: written through a link: {}", outcome.errors());
            plain_failed += usize::from(!kept);
            fs::write(root.join("outside"), "old").unwrap();
        }
    }
    note!("without --strict, {plain_failed} runs wrote through the link");
    assert!(plain_failed > 0, "the race is too weak");
}

#[test]
fn options_that_write_to_what_exists_are_refused() {
    let ours = program!();
    require!(ours.needs_haul());
    for other in ["--keep-directory-symlink", "--attributes-only"] {
        let outcome = ours.run_with(&["--strict"]).args([other, "a", "b"]).finish().unwrap();
        assert_eq!(outcome.status(), Some(1));
        let wanted = format!("options --strict and {other} are mutually exclusive");
        assert!(outcome.errors().contains(&wanted), "{}", outcome.errors());
    }
}
