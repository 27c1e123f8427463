//! What a run tells its caller while it goes on. Library code never prints.

use std::ops::AddAssign;

use haul_sys::{Error, Standard};

/// A sentence for the user with `{}` where a file's name belongs. The text of every sentence is a constant in a
/// `wording` module, so that problems can be matched by comparing, and one place per crate holds what users read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wording(pub &'static str);

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The user should know; the exit status stays.
    Warning,
    /// Something asked for was not done: the exit status says so.
    Error,
}

/// Something that went wrong with an entry. The run goes on.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The sentence.
    pub wording: Wording,
    /// The names that fill its holes: raw bytes of paths, as the user would write them.
    pub names: Vec<Vec<u8>>,
    /// The failed system call, if one failed: its reason ends the message.
    pub cause: Option<Error>,
    /// Whether the exit status is affected.
    pub severity: Severity,
    /// The host it happened on, if not this one.
    pub host: Option<String>,
}

impl Problem {
    /// Makes an error without names yet.
    #[must_use]
    pub fn new(wording: Wording) -> Self {
        Self { wording, names: Vec::new(), cause: None, severity: Severity::Error, host: None }
    }

    /// Fills the next hole.
    #[must_use]
    pub fn naming(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Gives the failed call.
    #[must_use]
    pub fn because(mut self, cause: Error) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Makes it a warning.
    #[must_use]
    pub fn as_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

/// A line of output the user asked for (`--verbose`), in the same form as a problem's sentence.
#[derive(Clone, Debug)]
pub struct Line {
    /// The sentence.
    pub wording: Wording,
    /// The names that fill its holes.
    pub names: Vec<Vec<u8>>,
}

/// Counts of what was found and done. Amounts are added up by [`Report::count`], never set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Entries seen in listings and among the operands, whatever became of them.
    pub discovered: u64,
    /// Entries dealt with, well or not: what of `found` is over.
    pub finished: u64,
    /// Regular files done.
    pub files: u64,
    /// Directories done.
    pub directories: u64,
    /// Symbolic links done.
    pub symlinks: u64,
    /// FIFOs, sockets and devices done.
    pub specials: u64,
    /// Further names given to files already done.
    pub hard_links: u64,
    /// Entries left as they were, as asked.
    pub skipped: u64,
    /// Bytes of regular files done, holes included.
    pub bytes: u64,
    /// Files whose blocks are shared with the source instead of copied.
    pub reflinked: u64,
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
        self.bytes += more.bytes;
        self.reflinked += more.reflinked;
    }
}

/// What a run has to work with, once it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// The name of the engine in use, which is not always the one asked for.
    pub engine: &'static str,
    /// The workers.
    pub jobs: usize,
}

/// Who listens to a run. Called from every worker at once, so implementations lock where they must, and briefly:
/// workers call [`Report::count`] once for many entries.
pub trait Report: Sync {
    /// Tells what the run works with: before anything is done, and again when a worker changes its engine.
    fn started(&self, _info: RunInfo) {}

    /// Adds to the counts.
    fn count(&self, more: Tally);

    /// Tells of a problem, once.
    fn problem(&self, problem: Problem);

    /// Gives a line that `--verbose` asked for.
    fn line(&self, line: Line);

    /// Passes on bytes for a standard stream, all of which stay together.
    fn output(&self, stream: Standard, bytes: &[u8]);

    /// Asks the user; the question does not end its line. Returns whether the answer is yes. Where nobody can be asked, it
    /// is no.
    fn ask(&self, _question: &Line) -> bool {
        false
    }

    /// Passes on what other processes have printed, when it may say why something went wrong.
    fn note(&self, _printed: &[u8]) {}

    /// Says what was chosen and why, for `--debug`.
    fn debug(&self, text: &str);

    /// Tells whether anybody reads [`Report::debug`], for texts that cost something to make.
    fn wants_debug(&self) -> bool {
        false
    }
}
