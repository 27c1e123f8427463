//! What a run on many hosts can be asked to do: plain data, lowered once from what the user typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Who lists the directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// The launch process.
    #[default]
    Launch,
    /// The ranks: for file systems with many metadata servers.
    Ranks,
}

/// How a run uses many hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Ranks to start; `None` where none are to be started.
    pub clients: Option<u32>,
    /// Who pays for a batch job, as the batch system calls them.
    pub account: Option<String>,
    /// How long a batch job may run, in whole seconds.
    pub walltime: Option<Duration>,
    /// The queue (or partition) a batch job goes to.
    pub queue: Option<String>,
    /// Who lists the directories.
    pub walk: Walk,
    /// The MPI library to open instead of the one that fits the launcher.
    pub mpi_library: Option<PathBuf>,
    /// The words of a command line that starts the ranks, instead of the one that is found. The first is the program.
    pub launcher: Option<Vec<OsString>>,
    /// The bytes of a large file that one rank moves at a time; `None` for what suits the file.
    pub range_bytes: Option<u64>,
    /// Where what is finished is recorded, so that a later run of the same copy skips it.
    pub journal: Option<PathBuf>,
}
