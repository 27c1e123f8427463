//! Tests the bound: with look-ahead and without, it makes the copy that is expected, or fails.

#![expect(clippy::unwrap_used, reason = "a test stops at whatever it did not expect, its own parts included")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};

use haul_testkit::Sandbox;
use haul_testkit::compare::compare;
use haul_testkit::snapshot::{Facts, Snapshot};

const MODES: [&[&str]; 2] = [&[], &["--ahead"]];

fn bound(sandbox: &Sandbox, words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_haul-bound");
    Command::new(program).args(words).current_dir(sandbox.path()).output().unwrap()
}

#[test]
fn the_bound_copies_contents_links_and_permissions() {
    let sandbox = Sandbox::in_memory().unwrap();
    for directory in 0..10 {
        let path = sandbox.join(format!("source/{directory}/empty"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..130 {
            let content = vec![file; usize::from(file) * 5000];
            fs::write(path.with_file_name(format!("file-{file}")), content).unwrap();
        }
        symlink("file-1", path.with_file_name("link")).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o750)).unwrap();
    }
    let facts = Facts::CONTENT | Facts::MODE;
    let source = Snapshot::take(&sandbox.join("source"), facts).unwrap();
    for mode in MODES {
        let output = bound(&sandbox, &[mode, &["source", "target"]].concat());
        assert!(output.status.success(), "{mode:?}: {output:?}");
        let target = Snapshot::take(&sandbox.join("target"), facts).unwrap();
        let differences = compare(&source, &target, facts).unwrap();
        assert!(differences.is_empty(), "{mode:?}: {:?}", differences.list);
        fs::remove_dir_all(sandbox.join("target")).unwrap();
    }
}

#[test]
fn the_bound_fails_at_the_first_error() {
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p pipe there source; mkfifo pipe/pipe; echo 1 > source/file").unwrap();
    for mode in MODES {
        for (operands, error) in [
            (&["pipe", "new"][..], "\"pipe\" has mode"),
            (&["missing", "new"], "No such file or directory"),
            (&["source", "there"], "File exists"),
            (&["source"], "Usage: "),
        ] {
            let output = bound(&sandbox, &[mode, operands].concat());
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{mode:?} {operands:?}: {errors}");
            assert!(errors.contains(error), "{mode:?} {operands:?}: {errors}");
            fs::remove_dir_all(sandbox.join("new")).unwrap_or_default();
        }
    }
}
