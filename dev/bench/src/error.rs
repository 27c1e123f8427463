//! Errors that end a benchmark.
//!
//! A candidate that fails is a result, not an error (see `series`). After one of these errors there
//! is no result; each names the remedy or what was left behind.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// The reason a tree was not made or a benchmark did not finish.
#[derive(Debug)]
pub(crate) enum Error {
    /// The request cannot be met on this machine; nothing was touched.
    Refused(String),
    /// A system call failed.
    Io {
        /// The operation and its file, as in "read /proc/stat".
        doing: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// A system program (mount, mkfs, ...) failed.
    Program {
        /// The command line.
        line: String,
        status: ExitStatus,
        /// The last line it wrote to standard error.
        said: String,
    },
    /// A tree was started but not finished.
    PartlyMade {
        /// Top directory of the tree.
        destination: PathBuf,
        /// Number of files finished.
        made: u64,
        /// Number of files requested.
        wanted: u64,
        /// The error that stopped it.
        cause: Box<Error>,
    },
    /// Interrupted by a signal.
    Interrupted,
    /// Cleanup failed.
    LeftBehind {
        /// Leftovers and how to remove them, one per line.
        leftovers: Vec<String>,
        /// The error that came before the cleanup, if any.
        cause: Option<Box<Error>>,
    },
}

impl Error {
    /// Returns a closure that adds the operation and its file to an `io::Error`.
    pub(crate) fn doing<'a>(verb: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
        move |source| Error::Io { doing: format!("{verb} {}", path.display()), source }
    }

    /// Adds that it was the results that could not be written.
    pub(crate) fn no_output(source: io::Error) -> Error {
        Error::Io { doing: "write the results".to_owned(), source }
    }

    /// Returns `run`, or the error that names what could not be cleaned up after it.
    pub(crate) fn unless_left<T>(run: Result<T>, leftovers: Vec<String>) -> Result<T> {
        if leftovers.is_empty() {
            return run;
        }
        Err(Error::LeftBehind { leftovers, cause: run.err().map(Box::new) })
    }

    /// Returns true if a signal is the root cause.
    pub(crate) fn is_interruption(&self) -> bool {
        match self {
            Error::Interrupted => true,
            Error::PartlyMade { cause, .. } | Error::LeftBehind { cause: Some(cause), .. } => {
                cause.is_interruption()
            }
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(why) => out.write_str(why),
            Error::Io { doing, source } => write!(out, "cannot {doing}: {source}"),
            Error::Program { line, status, said } if said.is_empty() => write!(out, "{line}: {status}"),
            Error::Program { line, status, said } => write!(out, "{line}: {status}: {said}"),
            Error::PartlyMade { destination, made, wanted, cause } => write!(
                out,
                "{cause}\n{} is incomplete: {made} of {wanted} files were made; remove it and start again",
                destination.display()
            ),
            Error::Interrupted => out.write_str("interrupted"),
            Error::LeftBehind { leftovers, cause } => {
                if let Some(cause) = cause {
                    writeln!(out, "{cause}")?;
                }
                write!(out, "cleaning up failed; left behind:")?;
                leftovers.iter().try_for_each(|leftover| write!(out, "\n  {leftover}"))
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::PartlyMade { cause, .. } | Error::LeftBehind { cause: Some(cause), .. } => Some(cause),
            _ => None,
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;
