//! `haul grep` beside GNU grep and ripgrep.
//!
//! - [`differential`]: random patterns, options and inputs, the same output, messages and exit status as GNU grep.
//! - [`trees`]: real trees, odd names, links, devices, holes.
//! - [`large`]: files that are searched in pieces.
//! - [`ends`]: where nobody takes what is found.
//! - [`streams`]: standard input and who reads it after, files that grow, results that wait.
//! - [`patterns`]: patterns that POSIX leaves open, and what is none.
//! - [`perl`]: patterns as Perl writes them.
//! - [`ranks`]: the same by several processes.
//! - [`references`]: back-references, judged by a definition and beside GNU grep.
//! - [`words`]: classes of characters, whole words, and patterns that are empty.

#![allow(clippy::unwrap_used, clippy::panic)]

mod differential;
mod ends;
mod large;
mod patterns;
mod perl;
mod ranks;
mod references;
mod streams;
mod trees;
mod words;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::{Outcome, Run, Sandbox};

/// A folder in which there is something to search.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Self {
        Self { sandbox: Sandbox::in_memory().unwrap() }
    }

    /// Makes one by a script of the shell, which is run inside.
    fn of(script: &str) -> Self {
        let scene = Self::new();
        scene.sandbox.script(script).unwrap();
        scene
    }

    fn path(&self) -> &Path {
        self.sandbox.path()
    }

    fn run<S: AsRef<OsStr>>(&self, program: &Path, words: impl IntoIterator<Item = S>, locale: &str) -> Run {
        Run::new(program).args(words).in_folder(self.path()).env("LC_ALL", locale)
    }

    /// Begins a command line of `haul grep` inside.
    fn haul<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>, locale: &str) -> Run {
        self.run(&haul(), ["grep"], locale).args(words)
    }

    /// Runs both programs with these words, separated by spaces; what they come to has to be the same, but for the order of
    /// lines if `sorted`, and but for what could not be read where a line was found by `-q`: then there was no need to meet it.
    /// Returns what haul's came to.
    fn same(&self, words: &str, sorted: bool) -> Outcome {
        let split = || words.split_whitespace();
        let theirs = self.run(Path::new("/usr/bin/grep"), split(), "C.UTF-8").finish().unwrap();
        let ours = self.haul(split(), "C.UTF-8").finish().unwrap();
        let is_quiet = theirs.status() == Some(0) && theirs.stdout.is_empty() && words.starts_with("-rq");
        let (mut left, mut right) = (verdict(&ours, sorted), verdict(&theirs, sorted));
        if is_quiet {
            (left.2, right.2) = (Vec::new(), Vec::new());
        }
        assert_eq!(left, right, "grep {words}");
        ours
    }
}

/// Returns the program under test.
fn haul() -> PathBuf {
    let named = std::env::var_os("HAUL_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap())
}

/// Gives the reason to skip a comparison with GNU grep.
fn needs_gnu() -> Option<String> {
    let version = Command::new("/usr/bin/grep").arg("--version").output();
    let is_known = version.is_ok_and(|output| output.stdout.starts_with(b"grep (GNU grep) 3."));
    (!is_known).then(|| "needs GNU grep 3 as /usr/bin/grep".to_owned())
}

/// Says what a run came to, in a form that two runs can be compared by.
fn verdict(outcome: &Outcome, sorted: bool) -> (Option<i32>, Vec<String>, Vec<String>) {
    let lines = |text: &str, sort: bool| {
        let mut lines: Vec<_> = text.split(['\n', '\0']).map(str::to_owned).collect();
        if sort {
            lines.sort_unstable();
        }
        lines
    };
    let errors = outcome.errors().replace("haul grep: ", "grep: ");
    (outcome.status(), lines(&outcome.printed(), sorted), lines(&errors, true))
}
