//! `haul cmp` beside `diff` and `cmp`, and alone where they have nothing to say.
//!
//! - [`rivals`]: the same lines and the same exit status as `diff -rq --no-dereference` and `cmp`.
//! - [`attributes`]: every attribute is seen, and nothing else is.
//! - [`hard`]: what must not be opened, loops, files that change, what cannot be read, many differences.
//! - [`streams`]: pipes, devices and standard input are read.
//! - [`ranks`]: the same by several processes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod attributes;
mod hard;
mod ranks;
mod rivals;
mod streams;

use std::fs;
use std::path::Path;

use haul_testkit::{Outcome, Run, Sandbox};

/// A folder in which there are things to compare.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    /// Makes an empty one.
    fn new() -> Self {
        Self { sandbox: Sandbox::in_memory().unwrap() }
    }

    /// Makes one by a script of the shell, which is run inside.
    fn of(script: &str) -> Self {
        let scene = Self::new();
        scene.shell(script);
        scene
    }

    fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// Runs a script of the shell inside.
    fn shell(&self, script: &str) {
        self.sandbox.script(script).unwrap();
    }

    /// Writes a file.
    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    /// Begins a command line of `haul cmp` inside.
    fn cmp<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Run {
        Run::new(&haul()).arg("cmp").args(words).in_folder(self.path())
    }

    /// Runs `haul cmp` with these words, separated by spaces.
    fn compare(&self, words: &str) -> Outcome {
        self.cmp(words.split_whitespace()).finish().unwrap()
    }

    /// Runs another program with these words.
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

/// Says what a run came to, in a form that two runs can be compared by.
fn verdict(outcome: &Outcome) -> (Option<i32>, String, String) {
    let errors = outcome.errors().replace("haul cmp: ", "cmp: ").replace("diff: ", "cmp: ");
    // In the C locale GNU's `cmp` has POSIX's word for a byte.
    (outcome.status(), outcome.printed().replace(" differ: char ", " differ: byte "), errors)
}
