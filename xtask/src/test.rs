//! `test`: runs every test, and tells what was skipped and why.
//!
//! The tests of the fault hook need a build with the hook compiled in, so they run in a second and third round. A test
//! that cannot run on this machine ends early and adds a line to the file that `HAUL_SKIPS` names; cargo counts it as
//! passed, so the skips are taken off again here. The last line is `N passed, N failed, N skipped`.

use std::collections::BTreeMap;
use std::process::Command;

use crate::setup::setup;
use crate::steps::{Failure, cargo, run_listening, say};

/// What cargo's test runner told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: usize,
    failed: usize,
    /// The names of those that failed.
    failures: Vec<String>,
    /// Rounds that ended badly.
    broken: usize,
}

/// Installs what the tests use, as far as it may; then runs the rounds, all of them even if one fails.
pub(crate) fn test() -> Result<(), Failure> {
    setup()?;
    let skips = std::env::temp_dir().join(format!("haul-skips-{}", std::process::id()));
    let rounds: [&[&str]; 3] = [
        &["test", "--workspace", "--no-fail-fast"],
        &[
            "test",
            "--package",
            "haul-sys",
            "--package",
            "haul-engine",
            "--features",
            "fault",
            "--no-fail-fast",
        ],
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
    let mut totals = Totals::default();
    for round in rounds {
        run_round(cargo(round).env("HAUL_SKIPS", &skips), &mut totals)?;
    }
    let skipped = std::fs::read_to_string(&skips).unwrap_or_default();
    if !skipped.is_empty() {
        std::fs::remove_file(&skips)
            .map_err(|error| Failure(format!("cannot remove {}: {error}", skips.display())))?;
    }
    conclude(&totals, &skipped)
}

fn run_round(command: &mut Command, totals: &mut Totals) -> Result<(), Failure> {
    let succeeded = run_listening(command, |line| totals.read(line))?;
    totals.broken += usize::from(!succeeded);
    Ok(())
}

impl Totals {
    /// Reads a line of a test binary: `test some::test ... FAILED`, or its closing `test result: ok. 3 passed; ...`.
    fn read(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
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

/// Tells the skips with their reasons, the failures, and the totals.
fn conclude(totals: &Totals, skipped: &str) -> Result<(), Failure> {
    let skips = skips_by_reason(skipped);
    let count: usize = skips.values().map(Vec::len).sum();
    if count > 0 {
        say("\nskipped tests:");
    }
    for (reason, tests) in &skips {
        say(&format!("{:>4}  {reason}: {}", tests.len(), tests.join(", ")));
    }
    say(&format!(
        "\n{} passed, {} failed, {count} skipped",
        totals.passed.saturating_sub(count),
        totals.failed
    ));
    if totals.failed == 0 && totals.broken == 0 && totals.passed > 0 {
        return Ok(());
    }
    Err(Failure(format!("{} of 3 rounds of tests went wrong", totals.broken)))
}

/// Sorts `SKIPPED test: reason` lines by reason, each test once.
fn skips_by_reason(lines: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut seen = Vec::new();
    let mut skips: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines.lines() {
        let Some((test, reason)) = line.strip_prefix("SKIPPED ").and_then(|line| line.split_once(": "))
        else {
            continue;
        };
        if !seen.contains(&test) {
            seen.push(test);
            skips.entry(reason).or_default().push(test);
        }
    }
    skips
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
        totals.read("test some::test ... ok");
        totals.read("test some::other ... FAILED");
        let failures = vec!["some::other".to_owned()];
        assert_eq!(totals, Totals { passed: 15, failed: 2, failures, broken: 0 });
    }

    #[test]
    fn skips_are_told_by_reason_and_once_a_test() {
        let lines =
            "SKIPPED a::b: needs root\nSKIPPED c: needs root\nSKIPPED c: needs root\nSKIPPED d: needs: x\n";
        let skips = skips_by_reason(lines);
        assert_eq!(skips.get("needs root"), Some(&vec!["a::b", "c"]));
        assert_eq!(skips.get("needs: x"), Some(&vec!["d"]));
    }
}
