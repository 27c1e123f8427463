//! Options of a distributed run: plain data, lowered once from the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Processes that list the directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalkPlacement {
    /// The launch process.
    #[default]
    Launch,
    /// The ranks, for file systems with many metadata servers.
    Ranks,
}

/// Options for running on other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Number of ranks to start; `None` to start none.
    pub clients: Option<u32>,
    /// Account that a batch job is charged to.
    pub account: Option<String>,
    /// Time limit of a batch job, in whole seconds.
    pub walltime: Option<Duration>,
    /// Queue (or partition) for a batch job.
    pub queue: Option<String>,
    /// Processes that list the directories.
    pub walk: WalkPlacement,
    /// MPI library to open instead of the one that matches the launcher.
    pub mpi_library: Option<PathBuf>,
    /// Command line that starts the ranks, instead of the detected launcher. The first word is
    /// the program.
    pub launcher: Option<Vec<OsString>>,
    /// Size of a range of a large file, in bytes; `None` to choose it per file.
    pub range_bytes: Option<u64>,
    /// Journal of completed work, so that a later run of the same copy skips it.
    pub journal: Option<PathBuf>,
}
