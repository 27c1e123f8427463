//! Options of a comparison.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// Attributes compared in addition to names, types, contents and link targets.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attributes: u8 {
        /// Permission and set-ID bits.
        const MODE = 1;
        /// Owner and group.
        const OWNERSHIP = 2;
        /// Modification times.
        const TIMESTAMPS = 4;
        /// Groups of names that are hard links to the same file.
        const LINKS = 8;
        /// Extended attributes, including ACLs.
        const XATTR = 16;
        /// Positions of holes.
        const HOLES = 32;
    }
}

/// Format of the list of differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DifferenceListing {
    /// Every difference, in detail.
    #[default]
    Full,
    /// One line per differing entry, as in `diff -rq`.
    Brief,
    /// Every difference, as a JSON object.
    Json,
    /// Nothing; only the exit status matters, and the first difference ends the run.
    Nothing,
}

/// Options of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The attributes to compare.
    pub attributes: Attributes,
    /// Format of the list of differences.
    pub listing: DifferenceListing,
    /// Follows symbolic links (`-L`).
    pub dereference: bool,
    /// Reads files past the page cache.
    pub direct: bool,
    /// Skips directories on other file systems.
    pub one_file_system: bool,
}

/// The two operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operands {
    /// The first.
    pub first: CString,
    /// The second.
    pub second: CString,
}
