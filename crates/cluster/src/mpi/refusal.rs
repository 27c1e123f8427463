//! Why a job's MPI is not used.

use std::fmt;
use std::path::PathBuf;

/// Why MPI is not used. Each variant prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No library was found.
    NotFound {
        /// Names that were tried.
        tried: Vec<String>,
    },
    /// The library exists but can't be opened.
    NotOpened {
        /// Path of the library.
        library: PathBuf,
        /// Error of the dynamic loader.
        why: String,
    },
    /// The library was opened, but is not a known MPI.
    NotMpi {
        /// Path of the library.
        library: PathBuf,
        /// The reason.
        why: String,
    },
    /// MPI does not start.
    NotStarted {
        /// Description of the library.
        library: String,
        /// Error of the library.
        why: String,
    },
    /// Library and launcher disagree on the number of ranks. If the library were trusted, each
    /// process would be the only one of its own job, and all would do the same work at the
    /// same time.
    OtherSize {
        /// Number of ranks according to the launcher.
        launcher: u32,
        /// Number of ranks according to the library.
        size: u32,
        /// Description of the library.
        library: String,
    },
    /// Library and launcher disagree on the rank of this process.
    OtherRank {
        /// Rank according to the launcher.
        launcher: u32,
        /// Rank according to the library.
        rank: u32,
        /// Description of the library.
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
