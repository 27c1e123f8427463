//! Reporting from a run to its caller. Library code never prints.

use std::fmt;
use std::ops::AddAssign;
use std::path::Path;
use std::time::Duration;

use haul_sys::{Errno, Error, Operation, Standard};

use crate::kind::Kind;
use crate::sentence::{Quoting, fill, quoted};

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The user should know. The exit status is not affected.
    Warning,
    /// Something requested was not done. The run fails.
    Error,
}

/// A problem with an entry; the run goes on. Also the error of whatever can't begin.
///
/// `Display` prints the kind's sentence with the names, which can't break the line, the reason, and
/// the host if it isn't this one: `cannot stat 'a/b': No such file or directory`. `{:#}` has the
/// failed call for the reason: `statx(5, "b", ...) = -1 (No such file or directory)`.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Its kind.
    pub kind: Kind,
    /// Names that belong to it: raw bytes of paths, as the user would write them, and values.
    pub names: Vec<Vec<u8>>,
    /// The failed system call, if there was one.
    pub cause: Option<Error>,
    /// Error or warning.
    pub severity: Severity,
    /// Host where it happened, if not this one.
    pub host: Option<String>,
}

impl Problem {
    /// Creates an error without names.
    #[must_use]
    pub fn new(kind: impl Into<Kind>) -> Self {
        Self { kind: kind.into(), names: Vec::new(), cause: None, severity: Severity::Error, host: None }
    }

    /// Adds a name.
    #[must_use]
    pub fn naming(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Sets the failed call.
    #[must_use]
    pub fn because(mut self, cause: Error) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Turns it into a warning.
    #[must_use]
    pub fn as_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Returns why the call failed, in the system's words.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        // Without /proc the kernel offers no way to reach the attributes of a file behind an
        // `O_PATH` descriptor, and its error doesn't say so.
        let attributes =
            [Operation::Flistxattr, Operation::Fgetxattr, Operation::Fsetxattr, Operation::Fremovexattr];
        let may_need_proc =
            (cause.is(Errno::BADF) || cause.is(Errno::NOENT)) && attributes.contains(&cause.operation());
        Some(match may_need_proc && !Path::new("/proc/self").exists() {
            true => format!("{cause} (/proc is not mounted)"),
            false => cause.to_string(),
        })
    }

    /// Renders the problem with `sentence`, in which `show` formats each name. `Display` uses the
    /// kind's own sentence.
    #[must_use]
    pub fn render(&self, sentence: &str, show: impl Fn(Quoting, &[u8]) -> Vec<u8>) -> Vec<u8> {
        self.text(sentence, self.reason(), show)
    }

    fn text(
        &self,
        sentence: &str,
        reason: Option<String>,
        show: impl Fn(Quoting, &[u8]) -> Vec<u8>,
    ) -> Vec<u8> {
        let mut text = fill(sentence, &self.names, reason.as_deref(), show);
        if let Some(host) = &self.host {
            text.extend_from_slice(format!(" (on {host})").as_bytes());
        }
        text
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match out.alternate() {
            true => self.cause.as_ref().map(|cause| format!("{cause:#}")),
            false => self.reason(),
        };
        out.write_str(&String::from_utf8_lossy(&self.text(self.kind.sentence(), reason, quoted)))
    }
}

impl std::error::Error for Problem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// A line of output that the user asked for (`--verbose`), in the same form as a problem.
#[derive(Clone, Debug)]
pub struct OutputLine {
    /// Its kind.
    pub kind: Kind,
    /// Names that belong to it.
    pub names: Vec<Vec<u8>>,
}

impl OutputLine {
    /// Creates a line.
    #[must_use]
    pub fn new(kind: impl Into<Kind>, names: Vec<Vec<u8>>) -> Self {
        Self { kind: kind.into(), names }
    }

    /// Renders the line with `sentence`, in which `show` formats each name. `Display` uses the
    /// kind's own sentence.
    #[must_use]
    pub fn render(&self, sentence: &str, show: impl Fn(Quoting, &[u8]) -> Vec<u8>) -> Vec<u8> {
        fill(sentence, &self.names, None, show)
    }
}

impl fmt::Display for OutputLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.render(self.kind.sentence(), quoted)))
    }
}

/// Counts of entries and bytes. [`Reporter::count`] adds amounts, and never sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Entries seen in listings and among the operands, whatever their outcome.
    pub discovered: u64,
    /// Completed entries, failed or not: those of `discovered` that are done.
    pub finished: u64,
    /// Regular files done.
    pub files: u64,
    /// Directories done.
    pub directories: u64,
    /// Symbolic links done.
    pub symlinks: u64,
    /// FIFOs, sockets and devices done.
    pub specials: u64,
    /// Hard links created to files already done.
    pub hard_links: u64,
    /// Entries left alone, as requested.
    pub skipped: u64,
    /// Entries left out by the selection. What is below excluded directories isn't counted.
    pub excluded: u64,
    /// Bytes of regular files done, holes included.
    pub bytes: u64,
    /// Files that share blocks with the source instead of copying them.
    pub reflinked: u64,
    /// Files whose content was read again and found right.
    pub verified: u64,
    /// Pieces of files that were wrong on storage and were written again.
    pub repaired: u64,
    /// Files copied again because their source had changed.
    pub retried: u64,
    /// Entries that an earlier run with the same journal has completed, and that are as it left
    /// them; with `haul sync`, those that are as their sources.
    pub unchanged: u64,
    /// Entries that an earlier run has completed, but whose source or target has changed since.
    pub changed: u64,
    /// Entries that are as their sources, and were given other attributes.
    pub mended: u64,
    /// Entries removed because the source doesn't have them.
    pub deleted: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.discovered += more.discovered;
        self.finished += more.finished;
        self.files += more.files;
        self.directories += more.directories;
        self.symlinks += more.symlinks;
        self.specials += more.specials;
        self.hard_links += more.hard_links;
        self.skipped += more.skipped;
        self.excluded += more.excluded;
        self.bytes += more.bytes;
        self.reflinked += more.reflinked;
        self.verified += more.verified;
        self.repaired += more.repaired;
        self.retried += more.retried;
        self.unchanged += more.unchanged;
        self.changed += more.changed;
        self.mended += more.mended;
        self.deleted += more.deleted;
    }
}

/// Outcome of an entry. Each outcome is one of the counts of [`Tally`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum EntryOutcome {
    /// A regular file is done.
    File,
    /// A directory is done, or was entered.
    Directory,
    /// A symbolic link is done.
    Symlink,
    /// A FIFO, socket or device is done.
    Special,
    /// A file already done has got another name.
    HardLink,
    /// It was left alone, as requested.
    Skipped,
    /// It was as an earlier run left it, or as its source.
    Unchanged,
    /// It was as its source, and was given other attributes.
    Mended,
    /// It was removed because the source doesn't have it.
    Deleted,
    /// Its content was read again and found right.
    Verified,
}

impl From<EntryOutcome> for Tally {
    fn from(outcome: EntryOutcome) -> Self {
        let mut tally = Self::default();
        let count = match outcome {
            EntryOutcome::File => &mut tally.files,
            EntryOutcome::Directory => &mut tally.directories,
            EntryOutcome::Symlink => &mut tally.symlinks,
            EntryOutcome::Special => &mut tally.specials,
            EntryOutcome::HardLink => &mut tally.hard_links,
            EntryOutcome::Skipped => &mut tally.skipped,
            EntryOutcome::Unchanged => &mut tally.unchanged,
            EntryOutcome::Mended => &mut tally.mended,
            EntryOutcome::Deleted => &mut tally.deleted,
            EntryOutcome::Verified => &mut tally.verified,
        };
        *count = 1;
        tally
    }
}

/// An entry and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EntryReport {
    /// Its outcome.
    pub outcome: EntryOutcome,
    /// Its path, as the user would write it.
    pub path: Vec<u8>,
    /// Path of its target, if it has one.
    pub target: Option<Vec<u8>>,
    /// Length of its content, if that was moved.
    pub bytes: Option<u64>,
}

impl EntryReport {
    /// Creates a report without a target.
    #[must_use]
    pub fn new(outcome: EntryOutcome, path: Vec<u8>) -> Self {
        Self { outcome, path, target: None, bytes: None }
    }
}

/// Engine and workers of a run, once they are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Name of the engine in use, which may not be the requested one.
    pub engine: &'static str,
    /// Number of workers.
    pub jobs: usize,
}

/// A rank that has completed none of its work for some time.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SlowRank {
    /// Its number.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// For how long.
    pub since: Duration,
}

/// Receives the reports of a run. Called from all workers at once: implementations must not hold a
/// lock for long. Workers call [`Reporter::count`] once for many entries.
pub trait Reporter: Sync {
    /// Called with engine and workers before anything is done, and again when a worker changes
    /// its engine.
    fn started(&self, _info: RunInfo) {}

    /// Adds to the counts.
    fn count(&self, more: Tally);

    /// Reports a problem. Called once for each.
    fn problem(&self, problem: Problem);

    /// Reports a failure to programs that follow the run (`--events`). For people, the tool's own
    /// output and outcome show it.
    fn record(&self, _problem: Problem) {}

    /// Prints a line that `--verbose` asked for.
    fn line(&self, line: OutputLine);

    /// Called when an entry is counted, if [`Reporter::wants_entries`].
    fn entry(&self, _entry: EntryReport) {}

    /// Returns true if [`Reporter::entry`] is to be called. The answer must not change.
    fn wants_entries(&self) -> bool {
        false
    }

    /// Writes bytes to a standard stream, contiguously.
    fn output(&self, stream: Standard, bytes: &[u8]);

    /// Returns true once standard output has failed: nothing more will be written to it. The run
    /// fails in the end, so a tool with no other result need not go on.
    fn has_lost_output(&self) -> bool {
        false
    }

    /// Asks the user a question, printed without a newline. Returns true for yes; false for no, or
    /// if nobody can be asked.
    fn ask(&self, _question: &OutputLine) -> bool {
        false
    }

    /// Called when the run begins to wait for free space on the file system of a target, and with
    /// `None` when it goes on ([`Policy::room`](crate::Policy::room)).
    fn waits_for_room(&self, _target: Option<&[u8]>) {}

    /// Called with the ranks that are slow now, about once a second, and with none when no rank is.
    fn slow_ranks(&self, _slow: Vec<SlowRank>) {}

    /// Passes on output of other processes that may explain a problem.
    fn note(&self, _printed: &[u8]) {}

    /// Logs a choice and its reason, for `--debug`.
    fn debug(&self, text: &str);

    /// Returns true if the texts passed to [`Reporter::debug`] are shown. If not, callers needn't
    /// format them.
    fn wants_debug(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKind;

    crate::kinds! {
        "test"
        /// Kinds of this test.
        enum TestKind {
            /// Has its reason within.
            Within = "Can't open {escape}: {cause}.",
        }
    }

    fn cause() -> Error {
        Error::new(Operation::Openat, r#"5, "b", O_RDONLY"#.to_owned(), Errno::ACCESS)
    }

    #[test]
    fn a_problem_prints_as_a_sentence_with_the_reason_at_its_end() {
        let problem = Problem::new(FlowKind::CannotOpen).naming("a/b");
        assert_eq!(problem.to_string(), "cannot open 'a/b' for reading");
        let problem = problem.because(cause());
        assert_eq!(problem.to_string(), "cannot open 'a/b' for reading: Permission denied");
        let elsewhere = Problem { host: Some("node7".to_owned()), ..problem };
        assert_eq!(elsewhere.to_string(), "cannot open 'a/b' for reading: Permission denied (on node7)");
        assert_eq!(
            format!("{elsewhere:#}"),
            r#"cannot open 'a/b' for reading: openat(5, "b", O_RDONLY) = -1 (Permission denied) (on node7)"#
        );
    }

    #[test]
    fn a_reason_within_the_sentence_is_not_repeated() {
        let problem = Problem::new(TestKind::Within).naming(b"a\xff".as_slice()).because(cause());
        assert_eq!(problem.to_string(), r"Can't open a\xff: Permission denied.");
        let sentence = FlowKind::KINDS[0].sentence();
        let words = problem.render(sentence, |_, name| name.to_ascii_uppercase());
        assert_eq!(words, b"cannot access A\xff: Permission denied");
    }

    #[test]
    fn a_line_prints_as_a_sentence() {
        let line = OutputLine::new(FlowKind::BadIgnoreLine, vec![b"a b".to_vec(), b"{}".to_vec()]);
        assert_eq!(line.to_string(), "'a b': ignoring the invalid pattern '{}'");
    }
}
