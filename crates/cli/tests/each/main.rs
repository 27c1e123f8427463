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
#[path = "../scene/mod.rs"]
mod scene;

use std::process::Command;

use haul_testkit::{RunOutcome, TestRun};
use scene::Scene;

impl Scene {
    fn each<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> TestRun {
        self.applet("each", words)
    }

    /// Runs `haul each` with `words`, separated by spaces.
    fn outcome(&self, words: &str) -> RunOutcome {
        self.each(words.split_whitespace()).finish().unwrap()
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns true if any process has this text in its command line.
fn runs(text: &str) -> bool {
    Command::new("pgrep").args(["-f", "--", text]).output().unwrap().status.success()
}
