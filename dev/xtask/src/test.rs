//! `test`: runs every test, and prints which were skipped and why.
//!
//! Fault hook tests need a build with the hook, so they run in a second and third round. A test
//! that can't run on this machine ends early and appends a line to the file named by `HAUL_SKIPS`.
//! Cargo counts it as passed, so skips are subtracted here. The run fails if `dev/xtask/skips.txt`
//! doesn't excuse a skip, or if a round runs no test. The last line is
//! `N passed, N failed, N skipped`.

use std::process::Command;

use crate::dist::STATIC;
use crate::setup::setup;
use crate::skips::Skips;
use crate::steps::{StepFailure, cargo, is_installed, output_of, run, run_listening, say};

/// Arguments for cargo, by round.
const ROUNDS: [&[&str]; 3] = [
    &["test", "--workspace", "--no-fail-fast"],
    &["test", "--package", "haul-sys", "--package", "haul-engine", "--features", "fault", "--no-fail-fast"],
    &[
        "test",
        "--package",
        "haul-cli",
        "--features",
        "fault",
        "--test",
        "faults",
        "--test",
        "tool_faults",
        "--no-fail-fast",
    ],
];

/// Results parsed from cargo's test output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    failed: usize,
    /// Output of failed tests. It is repeated at the end, where people look first.
    failures: Vec<String>,
    /// True while reading the output of failed tests.
    in_failures: bool,
    /// Number of failed rounds.
    broken: usize,
}

/// Maximum lines repeated for each failed test.
const LINES_REPEATED: usize = 30;

/// Installs what the tests use, if possible, then runs all rounds, even if one fails.
pub(crate) fn test() -> Result<(), StepFailure> {
    setup()?;
    check_static()?;
    let (mut totals, mut skips) = (Totals::default(), Skips::default());
    for round in ROUNDS {
        run_round(&mut cargo(round), &mut totals, &mut skips)?;
    }
    print_and_check(&totals, &skips, ROUNDS.len())
}

/// Checks that the static program for x86_64 compiles, if its target is installed. Otherwise only
/// the tests of packages would find that it doesn't, half an hour later.
fn check_static() -> Result<(), StepFailure> {
    let [(_, static_target, compiler), _] = STATIC;
    if !is_installed("rustup") || !is_installed(compiler) {
        return Ok(());
    }
    let listed = output_of(Command::new("rustup").args(["target", "list", "--installed"]))?;
    match String::from_utf8_lossy(&listed).lines().any(|target| target == static_target) {
        true => run(&mut cargo(&["check", "--package", "haul-cli", "--target", static_target])),
        false => Ok(()),
    }
}

/// Runs a test command, and adds up the results and skips.
pub(crate) fn run_round(
    command: &mut Command,
    totals: &mut Totals,
    skips: &mut Skips,
) -> Result<(), StepFailure> {
    let path = std::env::temp_dir().join(format!("haul-skips-{}", std::process::id()));
    // Create an empty file, so that a missing file afterwards means that nobody could write it.
    fs_err::write(&path, "")?;
    let passed = totals.passed;
    let succeeded = run_listening(command.env("HAUL_SKIPS", &path), |line| totals.read(line))?;
    totals.broken += usize::from(!succeeded || totals.passed == passed);
    skips.add(&fs_err::read_to_string(&path)?);
    Ok(fs_err::remove_file(&path)?)
}

impl Totals {
    /// Parses a line printed by a test binary: the output between `---- some::test stdout ----` and
    /// the list of `failures:`, and the final `test result: ok. 3 passed; ...`.
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

/// Prints the skips, failures and totals. Fails unless everything passed and every skip is excused.
pub(crate) fn print_and_check(totals: &Totals, skips: &Skips, rounds: usize) -> Result<(), StepFailure> {
    let excused = skips.print_and_check();
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
        return Err(StepFailure(format!("{} of {rounds} rounds of tests went wrong", totals.broken)));
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
