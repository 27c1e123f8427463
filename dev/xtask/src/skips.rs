//! Compares skipped tests with the committed list of permitted skips.
//!
//! A test that can't run appends `SKIPPED package/crate::test: reason` to the file named by
//! `HAUL_SKIPS`. If no line in `dev/xtask/skips.txt` excuses the skip here, the run fails, because
//! the test should have done something.

use std::collections::{BTreeMap, BTreeSet};

use crate::environment;
use crate::steps::{StepFailure, say, workspace};

/// A line of the list: if the condition holds, these tests may skip for this reason.
struct Excuse<'a> {
    condition: &'a str,
    reason: &'a str,
    tests: &'a str,
}

type Skip = (String, String);

#[derive(Debug, Default)]
pub(crate) struct Skips {
    /// Number of skipped tests, each counted once per round, because cargo counted it as
    /// passed that often.
    pub(crate) count: usize,
    all: BTreeSet<Skip>,
}

impl Skips {
    /// Adds the records of one round.
    pub(crate) fn add(&mut self, lines: &str) {
        let skips: Vec<Skip> = lines.lines().filter_map(parse).collect();
        self.count += skips.iter().map(|(test, _)| test).collect::<BTreeSet<_>>().len();
        self.all.extend(skips);
    }

    /// Prints the skips by reason, and fails if any isn't on the list.
    pub(crate) fn print_and_check(&self) -> Result<(), StepFailure> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (test, reason) in &self.all {
            by_reason.entry(reason).or_default().push(test);
        }
        if !by_reason.is_empty() {
            say("\nskipped tests:");
        }
        for (reason, tests) in &by_reason {
            say(&format!("{:>4}  {reason}: {}", tests.len(), tests.join(", ")));
        }
        let list = fs_err::read_to_string(workspace().join("dev/xtask/skips.txt"))?;
        let unexcused = unexcused(&self.all, &list, environment::holds)?;
        if unexcused.is_empty() {
            return Ok(());
        }
        say("\nskipped although nothing in dev/xtask/skips.txt excuses it here:");
        unexcused.iter().for_each(|(test, reason)| say(&format!("      {test}: {reason}")));
        Err(StepFailure(format!("{} skips that dev/xtask/skips.txt does not excuse", unexcused.len())))
    }
}

/// Returns the skips that no line of the list excuses.
fn unexcused<'a>(
    skips: &'a BTreeSet<Skip>,
    list: &str,
    holds: impl Fn(&str) -> Result<bool, StepFailure>,
) -> Result<Vec<&'a Skip>, StepFailure> {
    let excuses = excuses_of(list)?;
    // Evaluate every condition, so that a misspelled one fails on every machine.
    let hold = excuses.iter().map(|excuse| holds(excuse.condition)).collect::<Result<Vec<_>, _>>()?;
    let mut left = Vec::new();
    for skip in skips {
        let (test, reason) = skip;
        let mut is_excused = false;
        for (excuse, hold) in excuses.iter().zip(&hold) {
            let names_test = || excuse.tests.split_whitespace().any(|tests| matches(tests, test));
            is_excused |= matches(excuse.reason, reason)
                && names_test()
                && match excuse.missing_in(reason) {
                    Some(name) => holds(&format!("missing {name}"))?,
                    None => *hold,
                };
        }
        if !is_excused {
            left.push(skip);
        }
    }
    Ok(left)
}

impl Excuse<'_> {
    /// Returns what is missing according to a reason, if the condition is `missing *`.
    fn missing_in<'a>(&self, reason: &'a str) -> Option<&'a str> {
        let (before, after) = self.reason.split_once('*').filter(|_| self.condition == "missing *")?;
        reason.strip_prefix(before)?.strip_suffix(after)
    }
}

/// Parses the list: `condition | reason | tests` per line; `#` starts a comment.
fn excuses_of(list: &str) -> Result<Vec<Excuse<'_>>, StepFailure> {
    let lines = list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split(" | ").map(str::trim).collect::<Vec<_>>()[..] {
            [condition, reason, tests] if !tests.is_empty() => Ok(Excuse { condition, reason, tests }),
            _ => Err(StepFailure(format!("dev/xtask/skips.txt: not 'condition | reason | tests': {line}"))),
        })
        .collect()
}

/// Parses `SKIPPED test: reason`. A test name contains colons but no space.
fn parse(line: &str) -> Option<Skip> {
    let (test, reason) = line.strip_prefix("SKIPPED ")?.split_once(": ")?;
    Some((test.to_owned(), reason.to_owned()))
}

/// Returns true if the text matches the pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tests whose skips the list doesn't excuse if only `condition` holds.
    fn left(recorded: &str, list: &str, condition: &str) -> Vec<String> {
        let mut skips = Skips::default();
        skips.add(recorded);
        let left = unexcused(&skips.all, list, |asked| Ok(asked == condition)).unwrap();
        left.into_iter().map(|(test, _)| test.clone()).collect()
    }

    #[test]
    fn a_skip_needs_an_excuse_that_holds_here() {
        let recorded = "SKIPPED p/a::b: needs root\nSKIPPED p/a::c: needs root\nSKIPPED p/d: needs: x (1)\n";
        let list = "# why\n\nnot-root | needs root | p/a::*\nno-x | needs: x* | q/e p/d\n";
        assert_eq!(left(recorded, list, "not-root"), ["p/d"]);
        assert_eq!(left(recorded, list, "no-x"), ["p/a::b", "p/a::c"]);
        assert_eq!(left(recorded, list, "root").len(), 3);
        assert_eq!(left(recorded, &list.replace("a::*", "a::b"), "not-root"), ["p/a::c", "p/d"]);
        assert_eq!(left(recorded, &list.replace("root |", "root too |"), "not-root").len(), 3);
        // Two reasons for one test need two excuses.
        assert_eq!(left("SKIPPED p/d: needs: x\nSKIPPED p/d: needs y\n", list, "no-x"), ["p/d"]);
    }

    #[test]
    fn a_missing_program_is_the_one_that_the_reason_names() {
        let list = "missing * | needs the command * | p/*\n";
        let recorded = "SKIPPED p/a: needs the command x\nSKIPPED p/b: needs the command y\n";
        assert_eq!(left(recorded, list, "missing x"), ["p/b"]);
        assert_eq!(left(recorded, list, "missing *"), ["p/a", "p/b"]);
    }

    /// Records of `haul-engine` and `haul-sys` tests when a filter refuses `io_uring_setup`.
    #[test]
    fn a_refused_ring_is_excused_only_where_there_is_none() {
        let list = std::fs::read_to_string(workspace().join("dev/xtask/skips.txt")).unwrap();
        let recorded = "SKIPPED haul-engine/contract::io_uring::depth_1::plain::line_1: \
                        the kernel refuses the engine: io_uring_setup(64) = -1 (Operation not permitted)\n\
                        SKIPPED haul-sys/haul_sys::ring::tests::x: \
                        the kernel refuses a ring: io_uring_setup(64) = -1 (Function not implemented)\n";
        assert_eq!(left(recorded, &list, "no-io_uring"), [""; 0]);
        assert_eq!(left(recorded, &list, "not-root").len(), 2);
        let elsewhere = recorded.replace("io_uring::depth", "sync::depth");
        assert_eq!(left(&elsewhere, &list, "no-io_uring").len(), 1);
    }

    #[test]
    fn a_test_is_counted_once_a_round() {
        let mut skips = Skips::default();
        skips.add("SKIPPED a: needs x\nSKIPPED a: needs y\nSKIPPED b: needs x\nsomething else\n");
        skips.add("SKIPPED a: needs x\n");
        assert_eq!(skips.count, 3);
    }

    #[test]
    fn a_list_that_is_not_one_is_refused() {
        for list in ["root | needs x", "root | needs x | ", "root, needs x, test"] {
            assert!(excuses_of(list).is_err(), "{list}");
        }
        assert!(unexcused(&BTreeSet::new(), "rot | x | y", environment::holds).is_err());
    }

    #[test]
    fn the_committed_list_can_be_read_here() {
        let list = std::fs::read_to_string(workspace().join("dev/xtask/skips.txt")).unwrap();
        assert!(excuses_of(&list).unwrap().len() > 5);
        unexcused(&BTreeSet::new(), &list, environment::holds).unwrap();
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let good = [("a", "a"), ("*", ""), ("a*", "a"), ("*b", "ab"), ("a*c*e", "abcde"), ("a**b", "ab")];
        let bad = [("a", "ab"), ("a*", "ba"), ("a*a", "a"), ("a*c*e", "aec"), ("", "a")];
        assert!(good.iter().all(|(pattern, text)| matches(pattern, text)));
        assert!(!bad.iter().any(|(pattern, text)| matches(pattern, text)));
    }
}
