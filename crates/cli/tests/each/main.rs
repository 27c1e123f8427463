//! `haul each` compared with `find`, `xargs` and the shell: files, arguments, output, exit status.
//!
//! - [`choice`]: the files that match are those that `find` finds.
//! - [`commands`]: arguments, output, failures and termination.
//! - [`blocks`]: files in blocks whose output is joined.
//! - [`ranks`]: several processes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod blocks;
mod choice;
mod commands;
mod ranks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::{Outcome, Run, Sandbox};

/// A directory with files for commands.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    /// Creates a directory and runs a shell script in it.
    fn of(script: &str) -> Self {
        let scene = Self { sandbox: Sandbox::in_memory().unwrap() };
        assert_eq!(scene.shell(script).status(), Some(0), "{script}");
        scene
    }

    fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// Runs a shell script in the directory.
    fn shell(&self, script: &str) -> Outcome {
        Run::new(Path::new("/bin/bash")).args(["-ec", script]).in_folder(self.path()).finish().unwrap()
    }

    /// Begins a `haul each` command line in the directory.
    fn each<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Run {
        Run::new(&haul()).arg("each").args(words).in_folder(self.path())
    }

    /// Runs `haul each` with `words`, separated by spaces.
    fn run(&self, words: &str) -> Outcome {
        self.each(words.split_whitespace()).finish().unwrap()
    }
}

fn haul() -> PathBuf {
    fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap()
}

/// Returns the lines of a text, sorted.
fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns true if any process has this text in its command line.
fn runs(text: &str) -> bool {
    Command::new("pgrep").args(["-f", "--", text]).output().unwrap().status.success()
}
