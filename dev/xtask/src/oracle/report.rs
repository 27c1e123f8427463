//! Reports the results: a table per suite, user and file system, totals, and regressions
//! from the baseline.

use super::run::{TestOutcome, TestVerdict};
use super::stage::TestedProgram;
use crate::steps::{StepFailure, say};

/// The outcomes for one suite, user and file system.
#[derive(Debug)]
pub(crate) struct Table {
    /// For example `9.7 root ext4`.
    pub(crate) title: String,
    /// The programs; the baseline comes first.
    pub(crate) programs: Vec<TestedProgram>,
    /// Each test and its outcomes, in the order of the programs.
    pub(crate) rows: Vec<(String, Vec<Option<TestOutcome>>)>,
}

/// The verdicts, as rows and totals name them.
const WORDS: [(&str, &str); 5] =
    [("PASS", "pass"), ("FAIL", "fail"), ("SKIP", "skip"), ("ERROR", "error"), ("N/A", "not applicable")];

impl Table {
    pub(crate) fn print(&self) {
        let names: String = self.programs.iter().map(|program| format!("{:<16}", program.name())).collect();
        say(&format!("\n{:<34}{}", self.title, names.trim_end()));
        for (test, outcomes) in &self.rows {
            say(row(test, outcomes).trim_end());
        }
    }

    /// Returns the totals, one line per program.
    pub(crate) fn totals(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, program) in self.programs.iter().enumerate() {
            let column = || self.rows.iter().filter_map(|(_, outcomes)| outcomes.get(index)?.as_ref());
            let count = |wanted| column().filter(|outcome| word(&outcome.verdict) == wanted).count();
            let totals = WORDS.map(|(word, name)| format!("{:>3} {name}", count(word))).join(" ");
            lines.push(format!("{:<18}{:<17}{totals}", self.title, program.name()));
        }
        lines
    }

    /// Lists the tests that the baseline passes and another program doesn't, with their logs.
    pub(crate) fn regressions(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (test, outcomes) in &self.rows {
            let Some((Some(baseline), others)) = outcomes.split_first() else { continue };
            if baseline.verdict != TestVerdict::Pass {
                continue;
            }
            for (program, outcome) in self.programs.iter().skip(1).zip(others) {
                let Some(outcome) = outcome else { continue };
                if !matches!(outcome.verdict, TestVerdict::Pass | TestVerdict::NotApplicable(_)) {
                    lines.push(format!(
                        "{} {test}, {}: {}, see {}",
                        self.title,
                        program.name(),
                        word(&outcome.verdict),
                        outcome.log.display()
                    ));
                }
            }
        }
        lines
    }
}

fn row(test: &str, outcomes: &[Option<TestOutcome>]) -> String {
    let cells: String = outcomes
        .iter()
        .map(|outcome| match outcome {
            Some(outcome) => format!("{:<8}{:>6.1}  ", word(&outcome.verdict), outcome.seconds),
            None => format!("{:<16}", ""),
        })
        .collect();
    let reasons = outcomes.iter().flatten().filter_map(|outcome| match &outcome.verdict {
        TestVerdict::Skip(reason) | TestVerdict::Error(reason) => Some(reason.as_str()),
        TestVerdict::NotApplicable(reason) => Some(reason),
        TestVerdict::Pass | TestVerdict::Fail => None,
    });
    let mut reasons: Vec<_> = reasons.collect();
    reasons.dedup();
    format!("  {test:<32}{cells}{}", reasons.join("; "))
}

fn word(verdict: &TestVerdict) -> &'static str {
    match verdict {
        TestVerdict::Pass => "PASS",
        TestVerdict::Fail => "FAIL",
        TestVerdict::Skip(_) => "SKIP",
        TestVerdict::Error(_) => "ERROR",
        TestVerdict::NotApplicable(_) => "N/A",
    }
}

/// Prints the totals of all tables, and the list of regressions.
pub(crate) fn print_and_check(tables: &[Table]) -> Result<(), StepFailure> {
    if tables.is_empty() {
        return Err(StepFailure(
            "no test was run: nothing fits what was asked for, or can be run here".to_owned(),
        ));
    }
    say("");
    tables.iter().flat_map(Table::totals).for_each(|line| say(&line));
    let regressions: Vec<_> = tables.iter().flat_map(Table::regressions).collect();
    if regressions.is_empty() {
        say("\nbaseline passes, haul does not: nothing");
        return Ok(());
    }
    say("\nbaseline passes, haul does not:");
    regressions.iter().for_each(|line| say(&format!("  {line}")));
    Err(StepFailure(format!("{} tests that GNU cp passes go wrong", regressions.len())))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn outcome(verdict: TestVerdict) -> Option<TestOutcome> {
        Some(TestOutcome { verdict, log: PathBuf::from("/logs/x.log"), seconds: 0.5 })
    }

    fn table(rows: Vec<(TestVerdict, TestVerdict)>) -> Table {
        let rows = rows.into_iter().enumerate();
        Table {
            title: "9.7 root ext4".to_owned(),
            programs: vec![TestedProgram::Baseline, TestedProgram::Haul(Some("retry".to_owned()))],
            rows: rows
                .map(|(test, (first, second))| {
                    (format!("cp/{test}.sh"), vec![outcome(first), outcome(second)])
                })
                .collect(),
        }
    }

    #[test]
    fn what_only_the_baseline_passes_is_listed() {
        let skip = || TestVerdict::Skip("no".to_owned());
        let table = table(vec![
            (TestVerdict::Pass, TestVerdict::Pass),
            (TestVerdict::Pass, TestVerdict::Fail),
            (TestVerdict::Pass, skip()),
            (TestVerdict::Pass, TestVerdict::NotApplicable("other")),
            (TestVerdict::Fail, TestVerdict::Fail),
            (skip(), TestVerdict::Fail),
        ]);
        assert_eq!(
            table.regressions(),
            [
                "9.7 root ext4 cp/1.sh, haul:retry: FAIL, see /logs/x.log",
                "9.7 root ext4 cp/2.sh, haul:retry: SKIP, see /logs/x.log",
            ]
        );
        let totals = "  1 pass   3 fail   1 skip   0 error   1 not applicable";
        assert!(table.totals()[1].ends_with(totals), "{:?}", table.totals());
        assert!(print_and_check(&[table]).is_err() && print_and_check(&[]).is_err());
        assert!(print_and_check(&[self::table(vec![(TestVerdict::Pass, TestVerdict::Pass)])]).is_ok());
    }

    #[test]
    fn a_test_that_a_program_left_out_is_no_failure() {
        let mut table = table(vec![(TestVerdict::Pass, TestVerdict::Pass)]);
        table.rows[0].1[1] = None;
        assert!(table.regressions().is_empty());
    }
}
