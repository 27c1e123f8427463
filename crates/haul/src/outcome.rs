//! Results of a run: a summary, or an error.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{error, fmt};

use haul_copy::{CopyOutcome, CopyRefusal};
use haul_flow::{EntryReport, OutputLine, Problem, Reporter, Severity, SlowRank, Standard, Tally, lock};

/// Counts and problems of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Counts of entries and bytes.
    pub tally: Tally,
    /// Errors and warnings, in the order they were met.
    pub problems: Vec<Problem>,
}

/// Why a run is not complete.
///
/// `Display` prints a sentence: that of the first error, and how many more there are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A path contains a NUL byte, which no path on Linux can.
    NulInPath(PathBuf),
    /// The run could not start. Nothing was touched.
    NotStarted(Problem),
    /// Some entries could not be copied, deleted or read. At least one problem is an error.
    Incomplete(Box<Summary>),
    /// The run was cancelled before it was complete.
    Cancelled(Box<Summary>),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NulInPath(path) => write!(out, "{path:?} contains a NUL byte"),
            Self::NotStarted(problem) => write!(out, "{problem}"),
            Self::Incomplete(summary) => {
                let problems = &summary.problems;
                let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
                match (errors.next(), errors.count()) {
                    (Some(first), 0) => write!(out, "{first}"),
                    (Some(first), 1) => write!(out, "{first}, and 1 more error"),
                    (Some(first), more) => write!(out, "{first}, and {more} more errors"),
                    (None, _) => out.write_str("not everything was done"),
                }
            }
            Self::Cancelled(_) => out.write_str("the run was cancelled"),
        }
    }
}

impl error::Error for Error {}

/// Collects a summary, and passes everything on.
pub(crate) struct Collector<'a> {
    inner: &'a dyn Reporter,
    summary: Mutex<Summary>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(inner: &'a dyn Reporter) -> Self {
        Self { inner, summary: Mutex::default() }
    }

    /// True if a problem was an error.
    pub(crate) fn has_failed(&self) -> bool {
        let summary = lock(&self.summary);
        summary.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Returns the summary of a run that has ended.
    pub(crate) fn into_summary(self) -> Summary {
        self.summary.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result of a copy.
    pub(crate) fn finish(self, outcome: Result<CopyOutcome, CopyRefusal>) -> Result<Summary, Error> {
        let summary = self.into_summary();
        match outcome {
            Ok(CopyOutcome::Success) => Ok(summary),
            Ok(CopyOutcome::Failure) => Err(Error::Incomplete(Box::new(summary))),
            Ok(CopyOutcome::Cancelled) => Err(Error::Cancelled(Box::new(summary))),
            Err(CopyRefusal::Usage(problem) | CopyRefusal::Fatal(problem)) => Err(Error::NotStarted(problem)),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut lock(&self.summary));
    }
}

impl Reporter for Collector<'_> {
    fn started(&self, info: haul_flow::RunInfo) {
        self.inner.started(info);
    }
    fn count(&self, more: Tally) {
        self.change(|summary| summary.tally += more);
        self.inner.count(more);
    }
    fn problem(&self, problem: Problem) {
        self.change(|summary| summary.problems.push(problem.clone()));
        self.inner.problem(problem);
    }
    fn line(&self, line: OutputLine) {
        self.inner.line(line);
    }
    fn entry(&self, entry: EntryReport) {
        self.inner.entry(entry);
    }
    fn wants_entries(&self) -> bool {
        self.inner.wants_entries()
    }
    fn output(&self, stream: Standard, bytes: &[u8]) {
        self.inner.output(stream, bytes);
    }
    fn ask(&self, question: &OutputLine) -> bool {
        self.inner.ask(question)
    }
    fn waits_for_room(&self, target: Option<&[u8]>) {
        self.inner.waits_for_room(target);
    }
    fn slow_ranks(&self, slow: Vec<SlowRank>) {
        self.inner.slow_ranks(slow);
    }
    fn note(&self, printed: &[u8]) {
        self.inner.note(printed);
    }
    fn debug(&self, text: &str) {
        self.inner.debug(text);
    }
    fn wants_debug(&self) -> bool {
        self.inner.wants_debug()
    }
}

/// Reports nothing.
pub(crate) struct Quiet;

impl Reporter for Quiet {
    fn count(&self, _: Tally) {}
    fn problem(&self, _: Problem) {}
    fn line(&self, _: OutputLine) {}
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

/// Converts a path for the kernel.
pub(crate) fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::NulInPath(path.into()))
}
