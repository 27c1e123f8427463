//! What stops a benchmark.
//!
//! A candidate that fails is a result and no error (see `series`); these are the things after which
//! there is no result, and each says what to do about it or what was left behind.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Says why a tree was not made, or a comparison not run to its end.
#[derive(Debug)]
pub enum Error {
    /// What was asked for cannot be done here; nothing was touched.
    Refused(String),
    /// A system call failed.
    Io {
        /// What was being done, with the name of the file.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A system program (mount, a maker of file systems, ...) failed.
    Program {
        /// The command line.
        line: String,
        /// How it ended.
        status: ExitStatus,
        /// The last thing it said on standard error.
        said: String,
    },
    /// A tree was begun and not finished.
    PartlyMade {
        /// Where it is.
        destination: PathBuf,
        /// Files finished.
        made: u64,
        /// Files asked for.
        wanted: u64,
        /// What stopped it.
        cause: Box<Error>,
    },
    /// A signal asked for the end.
    Interrupted,
    /// Cleaning up failed.
    LeftBehind {
        /// What is still there and how to remove it, one thing a line.
        leftovers: Vec<String>,
        /// What had gone wrong before, if anything had.
        cause: Option<Box<Error>>,
    },
}

impl Error {
    /// Makes the closure that dresses an `io::Error` with what was being done to which file.
    pub(crate) fn doing<'a>(verb: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
        move |source| Error::Io { doing: format!("{verb} {}", path.display()), source }
    }

    /// Says whether a signal is at the bottom of it.
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

/// What the functions of this crate return.
pub(crate) type Result<T> = std::result::Result<T, Error>;
