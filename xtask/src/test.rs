//! `test`: runs every test, and tells what was skipped and why.
//!
//! The tests of the fault hook need a build with the hook compiled in, so they run in a second and third round. A test
//! that cannot run on this machine ends early and adds a line to the file that `HAUL_SKIPS` names; cargo counts it as
//! passed, so the skips are taken off again here. A skip that `xtask/skips.txt` doesn't excuse fails the run, and so
//! does a round in which no test ran. The last line is `N passed, N failed, N skipped`.

use std::process::Command;

use crate::setup::setup;
use crate::skips::Skips;
use crate::steps::{Failure, cargo, run_listening, say};

/// The rounds: words for cargo.
const ROUNDS: [&[&str]; 3] = [
    &["test", "--workspace", "--no-fail-fast"],
    &["test", "--package", "haul-sys", "--package", "haul-engine", "--features", "fault", "--no-fail-fast"],
    &[
        "test",
        "--package",
        "haul",
        "--features",
        "fault",
        "--test",
        "faults",
        "--test",
        "tool_faults",
        "--no-fail-fast",
    ],
];

/// What cargo's test runner told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    failed: usize,
    /// What the failed tests printed, repeated at the end: that is where people look first.
    failures: Vec<String>,
    /// Whether the lines being read are what failed tests printed.
    in_failures: bool,
    /// Rounds that ended badly.
    broken: usize,
}

/// Lines repeated of each failed test.
const LINES_REPEATED: usize = 30;

/// Installs what the tests use, as far as it may; then runs the rounds, all of them even if one fails.
pub(crate) fn test() -> Result<(), Failure> {
    setup()?;
    let (mut totals, mut skips) = (Totals::default(), Skips::default());
    for round in ROUNDS {
        run_round(&mut cargo(round), &mut totals, &mut skips)?;
    }
    conclude(&totals, &skips, ROUNDS.len())
}

/// Runs a test command, and adds up what it and its tests report.
pub(crate) fn run_round(
    command: &mut Command,
    totals: &mut Totals,
    skips: &mut Skips,
) -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("haul-skips-{}", std::process::id()));
    let failed = |error| Failure(format!("{}: {error}", path.display()));
    // Made empty here: a list that is missing afterwards is one that nobody could write.
    std::fs::write(&path, "").map_err(failed)?;
    let passed = totals.passed;
    let succeeded = run_listening(command.env("HAUL_SKIPS", &path), |line| totals.read(line))?;
    totals.broken += usize::from(!succeeded || totals.passed == passed);
    skips.add(&std::fs::read_to_string(&path).map_err(failed)?);
    std::fs::remove_file(&path).map_err(failed)
}

impl Totals {
    /// Reads a line of a test binary: what comes after `---- some::test stdout ----`, up to the list of `failures:`, and
    /// its closing `test result: ok. 3 passed; ...`.
    fn read(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.failures.push(String::new());
            self.in_failures = true;
        }
        self.in_failures &= line != "failures:";
        if let Some(failure) = self.failures.last_mut()
            && self.in_failures
            && failure.lines().count() < LINES_REPEATED
        {
            failure.push_str(line);
            failure.push('\n');
        }
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let amount = |word: &str| {
            let (before, _) = result.split_once(word)?;
            before.split_whitespace().last()?.parse::<usize>().ok()
        };
        self.passed += amount(" passed").unwrap_or_default();
        self.failed += amount(" failed").unwrap_or_default();
    }
}

/// Prints the skips, the failures and the totals, and fails unless all is as it should be.
pub(crate) fn conclude(totals: &Totals, skips: &Skips, rounds: usize) -> Result<(), Failure> {
    let excused = skips.conclude();
    for failure in &totals.failures {
        say(&format!("\n{}", failure.trim_end()));
    }
    say(&format!(
        "\n{} passed, {} failed, {} skipped",
        totals.passed.saturating_sub(skips.count),
        totals.failed,
        skips.count
    ));
    if totals.failed > 0 || totals.broken > 0 {
        return Err(Failure(format!("{} of {rounds} rounds of tests went wrong", totals.broken)));
    }
    excused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up() {
        let mut totals = Totals::default();
        totals.read(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s",
        );
        totals.read("test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(totals, Totals { passed: 15, failed: 2, ..Totals::default() });
    }

    #[test]
    fn what_failed_tests_printed_is_kept() {
        let mut totals = Totals::default();
        for line in [
            "test some::test ... FAILED",
            "",
            "failures:",
            "",
            "---- some::test stdout ----",
            "thread 'some::test' panicked",
            "---- some::other stdout ----",
            "expected 1",
            "",
            "failures:",
            "    some::other",
            "    some::test",
        ] {
            totals.read(line);
        }
        let failures = totals.failures.iter().map(|failure| failure.trim_end()).collect::<Vec<_>>();
        assert_eq!(
            failures,
            [
                "---- some::test stdout ----\nthread 'some::test' panicked",
                "---- some::other stdout ----\nexpected 1"
            ]
        );
    }
}
