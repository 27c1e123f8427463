//! Why a job's MPI is not used.

use std::fmt;
use std::path::PathBuf;

/// Why MPI is not used. Each variant prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MpiRefusal {
    /// This program is linked statically, and has no dynamic loader.
    Static,
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
        why: Unusable,
    },
    /// MPI does not start.
    NotStarted {
        /// Description of the library.
        library: String,
        /// The reason.
        why: Unusable,
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

/// Why a library can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It lacks a symbol.
    Lacks(String),
    /// Its ABI is a draft of the standard one.
    DraftAbi,
    /// MPI was initialised before in this process.
    Initialised,
    /// It doesn't support threads.
    OneThread,
    /// It gave an impossible size or rank.
    Impossible(i32),
    /// A call failed; the text is the library's.
    Failed(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks(symbol) => write!(out, "it has no {symbol}"),
            Self::DraftAbi => out.write_str("its standard ABI is a draft, not that of MPI 5.0"),
            Self::Initialised => out.write_str("MPI was already initialised in this process"),
            Self::OneThread => out.write_str("it does not support processes with several threads"),
            Self::Impossible(number) => write!(out, "it reports {number} as size or rank"),
            Self::Failed(why) => out.write_str(why),
        }
    }
}

impl fmt::Display for MpiRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => {
                out.write_str("this build of haul is static and can't load MPI; use the build for glibc")
            }
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

impl std::error::Error for MpiRefusal {}
