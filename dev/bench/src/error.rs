//! Errors that end a benchmark.
//!
//! A candidate that fails is a result, not an error (see `series`). After one of these errors there
//! is no result; each names the remedy or what was left behind.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// The reason a tree was not made or a benchmark did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request cannot be met on this machine; nothing was touched.
    #[error("{0}")]
    Refused(String),
    #[error("cannot {doing}: {source}")]
    Io {
        /// The operation and its file, as in "read /proc/stat".
        doing: String,
        source: io::Error,
    },
    /// A system program (mount, mkfs, ...) failed.
    #[error("{line}: {status}{}{said}", if said.is_empty() { "" } else { ": " })]
    Program {
        /// The command line.
        line: String,
        status: ExitStatus,
        /// The last line it wrote to standard error.
        said: String,
    },
    /// A tree was started but not finished.
    #[error("{cause}\n{} is incomplete: {made} of {wanted} files were made; remove it and start again", destination.display())]
    PartlyMade {
        destination: PathBuf,
        /// Number of files finished.
        made: u64,
        wanted: u64,
        #[source]
        cause: Box<Error>,
    },
    /// A run that must succeed failed, or copied wrong.
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
    #[error("{}cleaning up failed; left behind:\n  {}", before(cause), leftovers.join("\n  "))]
    LeftBehind {
        /// Leftovers and how to remove them, one per line.
        leftovers: Vec<String>,
        /// The error that came before the cleanup, if any.
        #[source]
        cause: Option<Box<Error>>,
    },
}

fn before(cause: &Option<Box<Error>>) -> String {
    cause.as_ref().map(|cause| format!("{cause}\n")).unwrap_or_default()
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

pub(crate) type Result<T> = std::result::Result<T, Error>;
