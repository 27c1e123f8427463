//! The library: the behaviour that a program which embeds the copy relies on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use haul::flow::{OutputLine, Reporter, Standard, Tally};
use haul::{CancelToken, Copy, CopyKind, Error, FlowKind, Problem};
use haul_sys::{Errno, Operation};

/// Cancels a token at the first count.
struct Canceller(CancelToken);

impl Reporter for Canceller {
    fn count(&self, _: Tally) {
        self.0.cancel();
    }
    fn problem(&self, _: Problem) {}
    fn line(&self, _: OutputLine) {}
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("below")).unwrap();
    fs::write(root.join("file"), "one").unwrap();
    fs::write(root.join("below/file"), "three").unwrap();
}

#[test]
fn a_tree_is_copied_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    tree(&source);
    let summary = Copy::new(&source, &target).recursive().run().unwrap();
    assert_eq!((summary.tally.files, summary.tally.directories, summary.tally.bytes), (2, 2, 8));
    assert!(summary.problems.is_empty());
    assert_eq!(fs::read(target.join("below/file")).unwrap(), b"three");

    // A second copy goes into the existing directory; an exact one does not.
    Copy::new(&source, &target).recursive().run().unwrap();
    assert!(target.join("source/file").exists());
    fs::write(source.join("file"), "new").unwrap();
    Copy::exactly(&source, &target).recursive().run().unwrap();
    assert_eq!(fs::read(target.join("file")).unwrap(), b"new");
    let into = folder.path().join("into");
    fs::create_dir(&into).unwrap();
    Copy::into_directory([source.join("file"), source.join("below")], &into).recursive().run().unwrap();
    assert!(into.join("file").exists() && into.join("below/file").exists());
}

#[test]
fn an_error_prints_as_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "it's"].map(|name| folder.path().join(name));
    let printed = |copy: Copy| copy.run().unwrap_err().to_string();
    let missing = format!(r"cannot stat '{}/it\'s': No such file or directory", folder.path().display());
    assert_eq!(printed(Copy::new(&other, &one)), missing);
    let two = printed(Copy::into_directory([&other, &one], &folder));
    assert_eq!(two, missing + ", and 1 more error");
    assert_eq!(printed(Copy::new("a\0b", &one)), r#""a\0b" contains a NUL byte"#);
}

#[test]
fn an_error_can_be_matched() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let Err(Error::Incomplete(summary)) = Copy::new(&missing, folder.path().join("target")).run() else {
        panic!("a missing source is copied")
    };
    let [problem] = summary.problems.as_slice() else { panic!("{summary:?}") };
    let cause = problem.cause.as_ref().unwrap();
    assert_eq!(FlowKind::of(problem.kind), Some(FlowKind::CannotStat));
    assert_eq!(problem.names, [missing.to_str().unwrap().as_bytes()]);
    assert_eq!((cause.operation(), cause.errno()), (Operation::Statx, Errno::NOENT));

    let Err(Error::NotStarted(problem)) = Copy::into_directory([&missing], &missing).run() else {
        panic!("a missing directory is a target")
    };
    assert_eq!(CopyKind::of(problem.kind), Some(CopyKind::TargetDirectory));
    assert!(
        matches!(Copy::new("a\0b", &missing).run(), Err(Error::NulInPath(path)) if path == Path::new("a\0b"))
    );
}

#[test]
fn special_files_are_refused_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    tree(&source);
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    let copy = Copy::exactly(&source, &target).recursive();
    let Err(Error::Incomplete(summary)) = copy.clone().options(|options| options.refuse_special = true).run()
    else {
        panic!("a socket is copied")
    };
    let [problem] = summary.problems.as_slice() else { panic!("{summary:?}") };
    assert_eq!(CopyKind::of(problem.kind), Some(CopyKind::SpecialRefused));
    assert_eq!(problem.names, [source.join("socket").to_str().unwrap().as_bytes()]);
    assert!(target.join("below/file").exists() && !target.join("socket").exists());
    copy.run().unwrap();
    assert!(target.join("socket").exists());
}

#[test]
fn a_cancelled_copy_begins_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    tree(&source);
    let token = CancelToken::default();
    let copy = Copy::new(&source, &target).recursive().cancel_with(&token);
    let outcome = copy.run_with(&Canceller(token.clone()));
    assert!(matches!(outcome, Err(Error::Cancelled(_))), "{outcome:?}");
    assert!(!target.exists());
}

#[test]
fn the_process_is_left_as_it_was() {
    let state = || {
        let text = |path: &str| fs::read_to_string(path).unwrap();
        let umask =
            text("/proc/self/status").lines().find(|line| line.starts_with("Umask")).map(str::to_owned);
        (text("/proc/self/limits"), umask)
    };
    let folder = tempfile::tempdir().unwrap();
    tree(&folder.path().join("source"));
    let before = state();
    Copy::new(folder.path().join("source"), folder.path().join("target")).recursive().run().unwrap();
    assert_eq!(state(), before);
}
