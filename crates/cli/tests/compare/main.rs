//! `haul cmp` compared with `diff` and `cmp`, and on its own where they have no answer.
//!
//! - [`rivals`]: same lines and exit status as `diff -rq --no-dereference` and `cmp`.
//! - [`attributes`]: every attribute is compared, and nothing else is.
//! - [`direct`]: from the device.
//! - [`hard`]: special files, loops, changing files, unreadable files, many differences.
//! - [`manifest`]: a tree and a manifest.
//! - [`streams`]: pipes, devices and standard input.
//! - [`ranks`]: several processes.
//! - [`selected`]: entries that the selection leaves out in one tree or in both.

#![allow(clippy::unwrap_used, clippy::panic)]

mod attributes;
mod direct;
mod hard;
mod manifest;
mod ranks;
mod rivals;
#[path = "../scene/mod.rs"]
mod scene;
mod selected;
mod streams;

use haul_testkit::{RunOutcome, TestRun};
use scene::{Scene, haul};

impl Scene {
    fn cmp<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> TestRun {
        self.applet("cmp", words)
    }

    /// Runs `haul cmp` with `words`, separated by spaces.
    fn compare(&self, words: &str) -> RunOutcome {
        self.cmp(words.split_whitespace()).finish().unwrap()
    }
}

/// Normalises the status, output and messages of a run for comparison.
fn verdict(outcome: &RunOutcome) -> (Option<i32>, String, String) {
    let errors = outcome.errors().replace("haul cmp: ", "cmp: ").replace("diff: ", "cmp: ");
    // In the C locale, GNU `cmp` says "char" like POSIX.
    (outcome.status(), outcome.printed().replace(" differ: char ", " differ: byte "), errors)
}
