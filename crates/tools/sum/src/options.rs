//! Options of computing and checking hashes.

use std::ffi::CString;

use haul_digest::Algorithm;
use haul_digest::manifest::{Creator, Format};
use serde::{Deserialize, Serialize};

/// An operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SumOperand {
    /// Standard input.
    Input,
    /// A path.
    Path(CString),
}

/// Options of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Follows symbolic links in trees (`-L`).
    pub dereference: bool,
    /// Ignores listed files that don't exist.
    pub ignore_missing: bool,
    /// Files that are passed over: the manifest, which every process must recognise.
    pub(crate) left_out: Vec<OwnFile>,
}

/// A file that the run itself writes or replaces. Device numbers differ between hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnFile {
    /// Inode number of its directory.
    pub(crate) directory: u64,
    pub(crate) name: CString,
    /// Its inode number.
    pub(crate) inode: u64,
}

impl Options {
    /// Returns the options for an algorithm, with all else off.
    #[must_use]
    pub fn of(algorithm: Algorithm) -> Self {
        Self { algorithm, ..Self::default() }
    }
}

/// Format of a list of hashes.
#[derive(Clone, Debug)]
pub struct HashListing {
    /// The format.
    pub format: Format,
    /// Ends lines with NUL and escapes nothing.
    pub zero: bool,
    /// Who lists them.
    pub creator: Creator,
}

/// Options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Algorithm of hashes that don't name theirs.
    pub hint: Option<Algorithm>,
    /// The lines to print.
    pub printed: Printed,
    /// Fails if a line can't be used.
    pub strict: bool,
}

/// The lines that a check prints. As in coreutils, the flags override each other: the last counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Printed {
    /// A line for each file.
    #[default]
    Files,
    /// A line for each file that is not right (`--quiet`).
    Failures,
    /// Nothing (`--status`).
    Nothing,
    /// A line for each file, and a message for each line that can't be used (`--warn`).
    BadLines,
}
