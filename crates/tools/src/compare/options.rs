//! What is to be compared, and how it is told.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// Attributes that are compared beside names, types, contents and where links lead.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attributes: u8 {
        /// Permission bits and set-id bits.
        const MODE = 1;
        /// Owner and group.
        const OWNERSHIP = 2;
        /// Times of modification.
        const TIMESTAMPS = 4;
        /// Which names are one file.
        const LINKS = 8;
        /// Extended attributes, access lists among them.
        const XATTR = 16;
        /// Where files have holes.
        const HOLES = 32;
    }
}

/// What of the differences is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listing {
    /// Each, with what differs.
    #[default]
    Full,
    /// Each entry that differs, in one line, as `diff -rq` does.
    Brief,
    /// Each, as a JSON object.
    Json,
    /// None: the exit status says whether there are any, and the first ends the run.
    Nothing,
}

/// How two trees are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Which attributes are compared.
    pub attributes: Attributes,
    /// What is listed.
    pub listing: Listing,
    /// Whether symbolic links are followed (`-L`).
    pub dereference: bool,
    /// Whether other file systems are left out.
    pub one_file_system: bool,
    /// Patterns of names that are left out, on both sides.
    pub exclude: Vec<String>,
}

/// The two that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operands {
    /// The first.
    pub first: CString,
    /// The second.
    pub second: CString,
}
