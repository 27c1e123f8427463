//! Runs `haul sync` in a directory of a test.

#![allow(dead_code, reason = "each test program needs a part of it")]

use std::path::{Path, PathBuf};

use haul_testkit::{CopyProgram, Facts, RunOutcome, Sandbox, Snapshot, TestRun};

/// Facts compared after a sync.
pub(crate) const FACTS: Facts = Facts::PRESERVED.difference(Facts::HOLES);

/// A tree with something of every kind, and links.
const SCENE: &str = "
    mkdir -p s/a/b s/empty; for n in 1 2 3 4; do echo $n >s/a/$n; echo $n >s/a/b/$n; done
    ln -s 1 s/a/link; ln -s nowhere s/dangling; ln s/a/1 s/twin; ln s/a/1 s/a/b/twin; mkfifo s/fifo
    setfattr -n user.key -v value s/a/2; chmod 2751 s/a/b; chmod 4755 s/a/3; touch -d @1000.123456789 s/a/3";

/// Makes a source `s`, and runs `script` beside it.
pub(crate) fn scene(script: &str) -> Sandbox {
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(&format!("{SCENE}\n{script}")).unwrap();
    sandbox
}

/// Runs `haul sync` with arguments that are separated by spaces.
pub(crate) fn sync(program: &CopyProgram, folder: &Path, line: &str) -> RunOutcome {
    let run = TestRun::new(program.path()).arg("sync").args(line.split(' '));
    run.env("LC_ALL", "C").in_folder(folder).finish().unwrap()
}

/// Runs a command that must succeed without a message, and returns what it printed.
pub(crate) fn succeed(program: &CopyProgram, folder: &Path, line: &str) -> String {
    let outcome = sync(program, folder, line);
    assert!(outcome.succeeded() && outcome.errors().is_empty(), "{line}: {}", outcome.errors());
    outcome.printed()
}

/// Runs a command that must fail, and returns its messages without the program's name.
pub(crate) fn fail(program: &CopyProgram, folder: &Path, line: &str) -> String {
    let outcome = sync(program, folder, line);
    assert_eq!(outcome.status(), Some(1), "{line}: {}", outcome.errors());
    let errors = outcome.errors();
    assert!(errors.starts_with("haul sync: "), "{line}: {errors}");
    errors.replace("haul sync: ", "")
}

pub(crate) fn take(sandbox: &Sandbox, name: &str) -> Snapshot {
    Snapshot::take(&sandbox.join(name), FACTS).unwrap()
}

/// Returns the paths below a directory, sorted.
pub(crate) fn paths(root: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(root).min_depth(1).sort_by_file_name();
    entries.into_iter().map(|entry| entry.unwrap().into_path()).collect()
}
