//! A directory in which haul's applets and the programs they are compared with run.

#![allow(dead_code, reason = "each test program needs a part of it")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::{RunOutcome, Sandbox, TestRun};

pub(crate) struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    /// Creates an empty directory in memory.
    pub(crate) fn new() -> Self {
        Self { sandbox: Sandbox::in_memory().unwrap() }
    }

    /// Creates a directory in memory and runs a shell script in it.
    pub(crate) fn of(script: &str) -> Self {
        let scene = Self::new();
        scene.script(script);
        scene
    }

    /// Creates a directory on disk and runs a shell script in it.
    pub(crate) fn on_disk(script: &str) -> Self {
        let scene = Self { sandbox: Sandbox::on_disk().unwrap() };
        scene.script(script);
        scene
    }

    pub(crate) fn path(&self) -> &Path {
        self.sandbox.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    /// Runs a shell script in the directory; `$HAUL` is the program under test.
    pub(crate) fn shell(&self, script: &str) -> RunOutcome {
        let bash = self.run(Path::new("/bin/bash"), ["-c", script]);
        bash.env("HAUL", haul()).env("LC_ALL", "C.UTF-8").finish().unwrap()
    }

    /// Runs a script that stops at the first failing command, which there must not be; returns its
    /// output.
    pub(crate) fn script(&self, script: &str) -> String {
        let outcome = self.shell(&format!("set -e\n{script}"));
        assert!(outcome.succeeded(), "{script}: {:?}: {}", outcome.ending, outcome.errors());
        outcome.printed()
    }

    /// Begins a command line of a program in the directory.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, program: &Path, words: impl IntoIterator<Item = S>) -> TestRun {
        TestRun::new(program).args(words).in_folder(self.path())
    }

    /// Begins a command line of one of haul's applets in the directory.
    pub(crate) fn applet<S: AsRef<OsStr>>(&self, name: &str, words: impl IntoIterator<Item = S>) -> TestRun {
        self.run(&haul(), [name]).args(words)
    }

    /// Runs another program from `/usr/bin` with its arguments, separated by spaces.
    pub(crate) fn rival(&self, words: &str) -> RunOutcome {
        let mut words = words.split_whitespace();
        let program = Path::new("/usr/bin").join(words.next().unwrap());
        self.run(&program, words).finish().unwrap()
    }
}

pub(crate) fn haul() -> PathBuf {
    let named = std::env::var_os("HAUL_BIN").map(PathBuf::from);
    fs::canonicalize(named.as_deref().unwrap_or(Path::new(env!("CARGO_BIN_EXE_haul")))).unwrap()
}
