//! `haul grep` compared with GNU grep and ripgrep.
//!
//! - [`colors`]: on a terminal, and `NO_COLOR`.
//! - [`differential`]: random patterns, options and inputs: same output, messages and exit status
//!   as GNU grep.
//! - [`trees`]: real trees, odd names, links, devices, holes.
//! - [`large`]: files searched in pieces.
//! - [`ends`]: output that nobody reads.
//! - [`streams`]: standard input and its next reader, growing files, delayed results.
//! - [`patterns`]: patterns that POSIX leaves undefined, and invalid ones.
//! - [`perl`]: Perl patterns.
//! - [`ranks`]: several processes.
//! - [`references`]: back-references, checked against a definition and GNU grep.
//! - [`words`]: character classes, whole words, and empty patterns.

#![allow(clippy::unwrap_used, clippy::panic)]

mod colors;
mod differential;
mod ends;
mod large;
mod patterns;
mod perl;
mod ranks;
mod references;
#[path = "../scene/mod.rs"]
mod scene;
mod streams;
mod trees;
mod words;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use haul_testkit::{RunOutcome, TestRun};
use scene::{Scene, haul};

impl Scene {
    fn gnu<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>, locale: &str) -> TestRun {
        self.run(Path::new("/usr/bin/grep"), words).env("LC_ALL", locale)
    }

    fn haul<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>, locale: &str) -> TestRun {
        self.applet("grep", words).env("LC_ALL", locale)
    }

    /// Runs both programs with `words`, separated by spaces, and asserts the same result. Lines may
    /// be reordered if `sorted`. Errors don't count if `-rq` found a match, since either program
    /// may stop before it meets them. Returns haul's outcome.
    fn same(&self, words: &str, sorted: bool) -> RunOutcome {
        let split = || words.split_whitespace();
        let theirs = self.gnu(split(), "C.UTF-8").finish().unwrap();
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

/// Returns the reason to skip a comparison with GNU grep, if any.
fn needs_gnu() -> Option<String> {
    let version = Command::new("/usr/bin/grep").arg("--version").output();
    let is_known = version.is_ok_and(|output| output.stdout.starts_with(b"grep (GNU grep) 3."));
    (!is_known).then(|| "needs GNU grep 3 as /usr/bin/grep".to_owned())
}

/// Normalises the status, output and messages of a run for comparison.
fn verdict(outcome: &RunOutcome, sorted: bool) -> (Option<i32>, Vec<String>, Vec<String>) {
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
