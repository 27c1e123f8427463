//! `haul cmp` compared with `diff` and `cmp`, and on its own where they have no answer.
//!
//! - [`rivals`]: same lines and exit status as `diff -rq --no-dereference` and `cmp`.
//! - [`attributes`]: every attribute is compared, and nothing else is.
//! - [`hard`]: special files, loops, changing files, unreadable files, many differences.
//! - [`streams`]: pipes, devices and standard input.
//! - [`ranks`]: several processes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod attributes;
mod hard;
mod ranks;
mod rivals;
mod streams;

use std::fs;
use std::path::Path;

use haul_testkit::{Outcome, Run, Sandbox};

/// A directory with entries to compare.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    /// Creates an empty directory.
    fn new() -> Self {
        Self { sandbox: Sandbox::in_memory().unwrap() }
    }

    /// Creates a directory and runs a shell script in it.
    fn of(script: &str) -> Self {
        let scene = Self::new();
        scene.shell(script);
        scene
    }

    fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// Runs a shell script in the directory.
    fn shell(&self, script: &str) {
        self.sandbox.script(script).unwrap();
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    /// Begins a `haul cmp` command line in the directory.
    fn cmp<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Run {
        Run::new(&haul()).arg("cmp").args(words).in_folder(self.path())
    }

    /// Runs `haul cmp` with `words`, separated by spaces.
    fn compare(&self, words: &str) -> Outcome {
        self.cmp(words.split_whitespace()).finish().unwrap()
    }

    /// Runs another program from `/usr/bin` with its arguments.
    fn rival(&self, words: &str) -> Outcome {
        let mut words = words.split_whitespace();
        let program = Path::new("/usr/bin").join(words.next().unwrap());
        Run::new(&program).args(words).in_folder(self.path()).finish().unwrap()
    }
}

/// Returns the program under test.
fn haul() -> std::path::PathBuf {
    fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap()
}

/// Normalises the status, output and messages of a run for comparison.
fn verdict(outcome: &Outcome) -> (Option<i32>, String, String) {
    let errors = outcome.errors().replace("haul cmp: ", "cmp: ").replace("diff: ", "cmp: ");
    // In the C locale, GNU `cmp` says "char" like POSIX.
    (outcome.status(), outcome.printed().replace(" differ: char ", " differ: byte "), errors)
}
