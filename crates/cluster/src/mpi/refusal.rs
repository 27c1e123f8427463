//! Why a job's MPI is not used.

use std::fmt;
use std::path::PathBuf;

/// Why there is no world: each prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No library is where one is looked for.
    NotFound {
        /// The names that were tried.
        tried: Vec<String>,
    },
    /// The library is there and cannot be opened.
    NotOpened {
        /// Which one.
        library: PathBuf,
        /// What the system's loader says.
        why: String,
    },
    /// It was opened, and is no MPI library that is known here.
    NotMpi {
        /// Which one.
        library: PathBuf,
        /// What tells so.
        why: String,
    },
    /// MPI does not start.
    NotStarted {
        /// Which library.
        library: String,
        /// What it says.
        why: String,
    },
    /// The library knows of another number of ranks than the launcher. Were it believed, each process would be the only
    /// one of a job of its own, and all would do the same work at the same time.
    OtherSize {
        /// How many ranks the launcher says there are.
        launcher: u32,
        /// How many the library says there are.
        size: u32,
        /// Which library.
        library: String,
    },
    /// The library takes this process for another rank than the launcher does.
    OtherRank {
        /// Which rank the launcher says this is.
        launcher: u32,
        /// Which rank the library says this is.
        rank: u32,
        /// Which library.
        library: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { tried } => {
                write!(out, "no MPI library found (tried {})", tried.join(", "))
            }
            Self::NotOpened { library, why } => {
                write!(out, "cannot open the MPI library '{}': {why}", library.display())
            }
            Self::NotMpi { library, why } => {
                write!(out, "'{}' is not a usable MPI library: {why}", library.display())
            }
            Self::NotStarted { library, why } => write!(out, "{library} does not start: {why}"),
            Self::OtherSize { launcher, size, library } => write!(
                out,
                "the launcher says {launcher} ranks, but {library} says {size}: it belongs to another MPI"
            ),
            Self::OtherRank { launcher, rank, library } => write!(
                out,
                "the launcher says rank {launcher}, but {library} says {rank}: it belongs to another MPI"
            ),
        }
    }
}

impl std::error::Error for Refusal {}
