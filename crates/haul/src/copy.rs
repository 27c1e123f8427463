//! A copy as a builder.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{error, fmt};

use haul_copy::{CopyOptions, CopyRequest, Dereference, Operands, Outcome, Preserve, Refused};
use haul_flow::{
    Alone, CancelToken, Config, EntryReport, Line, Problem, Report, Severity, Standard, Tally, lock,
};

/// A copy to run: sources, a target, and how to copy.
///
/// Without options it is `cp SOURCE TARGET`: files only, links followed, nothing preserved but
/// the mode.
#[derive(Clone, Debug)]
#[must_use = "a copy does nothing until it is run"]
pub struct Copy {
    sources: Vec<PathBuf>,
    target: Target,
    options: CopyOptions,
    config: Config,
    cancel: CancelToken,
}

/// Where the copies go.
#[derive(Clone, Debug)]
enum Target {
    /// To this path, or into it if it is a directory.
    To(PathBuf),
    /// To this path, even if it is a directory.
    Exactly(PathBuf),
    /// Into this directory.
    Into(PathBuf),
}

impl Copy {
    /// Copies `source` to `target`, or into `target` if that is a directory, as `cp` does.
    pub fn new(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self::with([source], Target::To(target.as_ref().into()))
    }

    /// Copies `source` to `target`: the contents of a directory go into an existing `target`
    /// (`cp -T`).
    pub fn exactly(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self::with([source], Target::Exactly(target.as_ref().into()))
    }

    /// Copies each source into an existing directory (`cp -t`).
    pub fn into_directory<P: AsRef<Path>>(
        sources: impl IntoIterator<Item = P>,
        directory: impl AsRef<Path>,
    ) -> Self {
        Self::with(sources, Target::Into(directory.as_ref().into()))
    }

    fn with<P: AsRef<Path>>(sources: impl IntoIterator<Item = P>, target: Target) -> Self {
        Self {
            sources: sources.into_iter().map(|source| source.as_ref().into()).collect(),
            target,
            options: CopyOptions::default(),
            config: Config::default(),
            cancel: CancelToken::default(),
        }
    }

    /// Copies directories with their content, and symbolic links as links (`cp -r`).
    pub fn recursive(self) -> Self {
        let options = CopyOptions { recursive: true, dereference: Dereference::Never, ..self.options };
        Self { options, ..self }
    }

    /// Preserves all attributes and hard links, and reports those it can't (`cp --preserve=all`,
    /// without the SELinux context).
    pub fn preserve_all(self) -> Self {
        let options = CopyOptions {
            preserve: Preserve::all(),
            require_preserve: true,
            reduce_diagnostics: true,
            ..self.options
        };
        Self { options, ..self }
    }

    /// Changes any of the options.
    pub fn options(mut self, change: impl FnOnce(&mut CopyOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sets how the machine is used: workers, engine, block size. By default haul decides.
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Lets `token` cancel the copy. Once it is cancelled no more entries begin; files that are
    /// being copied are completed.
    pub fn cancel_with(self, token: &CancelToken) -> Self {
        Self { cancel: token.clone(), ..self }
    }

    /// Runs the copy and collects its problems.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(&self) -> Result<Summary, Error> {
        self.run_with(&Quiet)
    }

    /// Runs the copy, and calls `report` as it goes. The summary has the problems too.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_with(&self, report: &dyn Report) -> Result<Summary, Error> {
        let operands = self.operands()?;
        let Self { options, config, cancel, .. } = self;
        let collector = Collector { inner: report, summary: Mutex::default() };
        let request = CopyRequest {
            operands: &operands,
            options,
            config,
            cancel,
            digests: None,
            journal: None,
            deletion: None,
        };
        let outcome = haul_copy::run(&Alone, request, &collector);
        let summary = collector.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(Outcome::Success) => Ok(summary),
            Ok(Outcome::Failure) => Err(Error::Incomplete(Box::new(summary))),
            Ok(Outcome::Cancelled) => Err(Error::Cancelled(Box::new(summary))),
            Err(Refused::Usage(problem) | Refused::Fatal(problem)) => Err(Error::NotStarted(problem)),
        }
    }

    fn operands(&self) -> Result<Operands, Error> {
        let c_string = |path: &PathBuf| {
            CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::NulInPath(path.clone()))
        };
        let mut names = self.sources.iter().map(c_string).collect::<Result<Vec<_>, _>>()?;
        let (target_directory, no_target_directory) = match &self.target {
            Target::Into(directory) => (Some(c_string(directory)?), false),
            Target::To(target) | Target::Exactly(target) => {
                names.push(c_string(target)?);
                (None, matches!(self.target, Target::Exactly(_)))
            }
        };
        Ok(Operands { names, target_directory, no_target_directory, ..Operands::default() })
    }
}

/// What a copy did.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Counts of entries and bytes.
    pub tally: Tally,
    /// Errors and warnings, in the order they were met.
    pub problems: Vec<Problem>,
}

/// Why a copy is not complete.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A path contains a NUL byte, which no path on Linux can.
    NulInPath(PathBuf),
    /// The copy could not start. Nothing was touched.
    NotStarted(Problem),
    /// Some entries could not be copied. At least one problem is an error.
    Incomplete(Box<Summary>),
    /// The copy was cancelled.
    Cancelled(Box<Summary>),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NulInPath(path) => write!(out, "{} contains a NUL byte", path.display()),
            Self::NotStarted(problem) => write!(out, "{problem}"),
            Self::Incomplete(summary) => {
                let problems = &summary.problems;
                let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
                match (errors.next(), errors.count()) {
                    (Some(first), 0) => write!(out, "{first}"),
                    (Some(first), more) => write!(out, "{first}, and {more} more errors"),
                    (None, _) => out.write_str("not everything was copied"),
                }
            }
            Self::Cancelled(_) => out.write_str("the copy was cancelled"),
        }
    }
}

impl error::Error for Error {}

/// Collects a summary, and passes everything on.
struct Collector<'a> {
    inner: &'a dyn Report,
    summary: Mutex<Summary>,
}

impl Collector<'_> {
    fn change(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut lock(&self.summary));
    }
}

impl Report for Collector<'_> {
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
    fn line(&self, line: Line) {
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
    fn ask(&self, question: &Line) -> bool {
        self.inner.ask(question)
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
struct Quiet;

impl Report for Quiet {
    fn count(&self, _: Tally) {}
    fn problem(&self, _: Problem) {}
    fn line(&self, _: Line) {}
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}
