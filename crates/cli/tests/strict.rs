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

/// A name, what the target's owner has prepared, the command, and the path of the copy if the
/// strict one succeeds.
type Case = (&'static str, fn(&Path), &'static str, Option<&'static str>);

const CASES: [Case; 9] = [
    ("link to a file", link_file, "-r source/. target", Some("target/file")),
    ("link to a file, one operand", link_file, "source/file target/file", Some("target/file")),
    ("other name of a file", name_file, "-r source/. target", Some("target/file")),
    ("other name of a file, with --update", name_file, "-u source/file target", Some("target/file")),
    ("target that is a link", link_folder, "-r source/. target/link", None),
    ("target below a link", link_folder, "source/file target/link/file", None),
    ("target directory named by -t", link_folder, "-t target/link source/file", None),
    ("link on the way of --parents", link_source, "--parents source/file target", None),
    ("attributes of a directory", move_folder, "-a source/. target", Some("target/directory/inner")),
];

fn link_file(target: &Path) {
    symlink("../outside/file", target.join("file")).unwrap();
}

fn name_file(target: &Path) {
    fs::hard_link(target.join("../outside/file"), target.join("file")).unwrap();
}

fn link_folder(target: &Path) {
    symlink("../outside", target.join("link")).unwrap();
}

fn link_source(target: &Path) {
    symlink("../outside", target.join("source")).unwrap();
}

fn move_folder(target: &Path) {
    fs::rename(target.join("../outside"), target.join("directory")).unwrap();
    symlink("target/directory", target.join("../outside")).unwrap();
}

fn build(root: &Path, prepare: fn(&Path)) {
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
    prepare(&root.join("target"));
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
    for (name, prepare, command, copy) in CASES {
        let words = || command.split(' ');
        build(&root, prepare);
        let before = outside(&root);
        let plain = ours.run().args(words()).in_folder(&root).finish().unwrap();
        assert_ne!(outside(&root), before, "{name}: without --strict: {}", plain.errors());
        for engine in ["--engine=sync", "--engine=io-uring"] {
            build(&root, prepare);
            let run = ours.run_with(&[engine, "--strict"]).args(words()).in_folder(&root);
            let outcome = run.finish().unwrap();
            assert_eq!(outside(&root), before, "{name} {engine}: {}", outcome.errors());
            assert_eq!(outcome.succeeded(), copy.is_some(), "{name} {engine}: {}", outcome.errors());
            assert_eq!(outcome.stderr.is_empty(), copy.is_some(), "{name}");
            if let Some(copy) = copy {
                assert_eq!(fs::read(root.join(copy)).unwrap(), b"new", "{name} {engine}");
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
