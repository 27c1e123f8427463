//! `hash_tree` and `Sum`: hashes as values.

#![cfg(feature = "sum")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use haul::{Algorithm, CancelToken, Error, FlowKind, Sum, hash_tree};

/// A tree whose order by path isn't that of its bytes: `-` sorts before `/`.
fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/file"), "abc").unwrap();
    fs::write(folder.path().join("a-b"), "").unwrap();
    folder
}

#[test]
fn hashes_are_those_of_other_programs_and_sorted() {
    let folder = tree();
    let files = hash_tree(folder.path()).unwrap();
    let listed: Vec<_> = files
        .iter()
        .map(|file| (file.path.strip_prefix(folder.path()).unwrap().to_owned(), file.bytes))
        .collect();
    assert_eq!(listed, [(PathBuf::from("a/file"), Some(3)), (PathBuf::from("a-b"), Some(0))]);
    // The test vectors of BLAKE3 and SHA-256.
    let blake3 = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    assert_eq!(files[0].digest.to_string(), blake3);
    let sum = Sum::new([folder.path()]).algorithm(Algorithm::Sha256);
    let hashes = sum.run().unwrap();
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hashes.files[0].digest.to_string(), sha256);
    assert_eq!((hashes.summary.tally.files, hashes.summary.tally.bytes), (2, 3));
}

#[test]
fn a_missing_file_is_an_error_and_a_cancelled_run_hashes_nothing() {
    let folder = tree();
    let paths = [folder.path().join("a-b"), folder.path().join("missing")];
    let Err(Error::Incomplete(summary)) = Sum::new(paths).run() else { panic!("a missing file is hashed") };
    assert_eq!(FlowKind::of(summary.problems[0].kind), None, "{summary:?}");
    assert_eq!(summary.problems[0].cause.as_ref().unwrap().errno(), haul_sys::Errno::NOENT);
    assert_eq!(summary.tally.files, 1);

    let token = CancelToken::default();
    token.cancel();
    let Err(Error::Cancelled(summary)) = Sum::new([folder.path()]).cancel_with(&token).run() else {
        panic!("a cancelled run is complete")
    };
    assert_eq!(summary.tally.files, 0);
}
