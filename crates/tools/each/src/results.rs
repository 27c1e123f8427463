//! Results of commands: their output, and which of them failed.

use std::sync::Mutex;

use haul_flow::{Problem, Reporter, Standard, lock};
use haul_sys::ChildOutput;
use serde::{Deserialize, Serialize};

use super::EachKind;

/// Maximum number of files of failed commands listed at the end. Further ones are counted.
const LISTED_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CommandFailure {
    Status(i32),
    Signal(i32),
    NotStarted,
}

impl CommandFailure {
    fn problem(self, path: &[u8]) -> Problem {
        let problem = |kind: EachKind| Problem::new(kind).naming(path);
        match self {
            Self::Status(status) => problem(EachKind::Failed).naming(status.to_string()),
            Self::Signal(signal) => problem(EachKind::Signalled).naming(signal.to_string()),
            Self::NotStarted => problem(EachKind::NotStarted),
        }
    }
}

/// The result of a command, or of several for the blocks of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandResult {
    pub(super) output: Vec<u8>,
    pub(super) errors: Vec<u8>,
    pub(super) commands: u64,
    pub(super) failures: Vec<CommandFailure>,
    /// Paths of a failed command's files, except the one that the result belongs to.
    pub(super) others: Vec<Vec<u8>>,
}

/// Header of a serialised result, followed by the output and the errors.
#[derive(Serialize, Deserialize)]
struct Head {
    commands: u64,
    failures: Vec<CommandFailure>,
    others: Vec<Vec<u8>>,
    output_bytes: usize,
}

impl CommandResult {
    pub(super) fn of(ended: ChildOutput) -> Self {
        let failures = match ended.code() {
            Ok(0) => Vec::new(),
            Ok(status) => vec![CommandFailure::Status(status)],
            Err(signal) => vec![CommandFailure::Signal(signal)],
        };
        Self { output: ended.output, errors: ended.errors, commands: 1, failures, ..Self::default() }
    }

    pub(super) fn not_started() -> Self {
        Self { commands: 1, failures: vec![CommandFailure::NotStarted], ..Self::default() }
    }

    pub(super) fn append(&mut self, more: Self) {
        self.output.extend(more.output);
        self.errors.extend(more.errors);
        self.commands += more.commands;
        self.failures.extend(more.failures);
        self.others.extend(more.others);
    }

    pub(super) fn pack(self) -> Vec<u8> {
        let output_bytes = self.output.len();
        let head =
            Head { commands: self.commands, failures: self.failures, others: self.others, output_bytes };
        let mut packed = postcard::to_allocvec(&head).unwrap_or_default();
        packed.extend(self.output);
        packed.extend(self.errors);
        packed
    }

    pub(super) fn unpack(packed: &[u8]) -> Option<Self> {
        let (head, rest) = postcard::take_from_bytes::<Head>(packed).ok()?;
        let (output, errors) = rest.split_at_checked(head.output_bytes)?;
        let Head { commands, failures, others, .. } = head;
        Some(Self { output: output.to_vec(), errors: errors.to_vec(), commands, failures, others })
    }
}

#[derive(Default)]
pub(super) struct Results(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Output waiting to be sorted.
    waiting: Vec<(Vec<u8>, CommandResult)>,
    commands: u64,
    failed: u64,
    listed: Vec<(Vec<u8>, CommandFailure)>,
    /// Number of files of failed commands that are not listed.
    unlisted: u64,
}

impl Results {
    /// Adds the result for a path. Failures are recorded, and output that is not sorted is emitted,
    /// at once.
    pub(super) fn take(&self, path: Vec<u8>, mut result: CommandResult, sorted: bool, report: &dyn Reporter) {
        let mut kept = lock(&self.0);
        kept.commands += result.commands;
        let others = std::mem::take(&mut result.others);
        for failure in std::mem::take(&mut result.failures) {
            kept.failed += 1;
            // All of its files, so that the list is what has to be run again.
            for path in others.iter().chain([&path]) {
                report.record(failure.problem(path));
                if kept.listed.len() < LISTED_MAX {
                    kept.listed.push((path.clone(), failure));
                } else {
                    kept.unlisted += 1;
                }
            }
        }
        if sorted {
            kept.waiting.push((path, result));
        } else {
            pass_on(&result, report);
        }
    }

    /// Emits the waiting results and lists the failures. Returns true if there are any.
    pub(super) fn finish(&self, report: &dyn Reporter) -> bool {
        let mut kept = lock(&self.0);
        // A stable sort keeps the pieces of a file in order.
        kept.waiting.sort_by(|(one, _), (other, _)| order(one).cmp(order(other)));
        kept.waiting.drain(..).for_each(|(_, result)| pass_on(&result, report));
        if kept.failed == 0 {
            return false;
        }
        let warn = |problem: Problem| report.problem(problem.as_warning());
        let number = |number: u64| number.to_string().into_bytes();
        warn(Problem::new(EachKind::Summary).naming(number(kept.failed)).naming(number(kept.commands)));
        kept.listed.sort_by(|(one, _), (other, _)| order(one).cmp(order(other)));
        for (path, failure) in kept.listed.drain(..) {
            warn(failure.problem(&path));
        }
        if kept.unlisted > 0 {
            warn(Problem::new(EachKind::More).naming(number(kept.unlisted)));
        }
        true
    }
}

/// Returns a path's sort key, which puts a directory's content right after the directory.
fn order(path: &[u8]) -> impl Iterator<Item = u8> {
    path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte })
}

fn pass_on(result: &CommandResult, report: &dyn Reporter) {
    for (stream, bytes) in [(Standard::Output, &result.output), (Standard::Error, &result.errors)] {
        if !bytes.is_empty() {
            report.output(stream, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_arrives_as_it_was_sent() {
        let failures = vec![CommandFailure::Status(3), CommandFailure::Signal(9), CommandFailure::NotStarted];
        let result = CommandResult {
            output: b"out".to_vec(),
            errors: vec![0; 300],
            commands: 2,
            failures,
            others: vec![b"a".to_vec()],
        };
        assert_eq!(CommandResult::unpack(&result.clone().pack()), Some(result));
        assert_eq!(CommandResult::unpack(b"\x01\x00\x7f"), None);
    }
}
