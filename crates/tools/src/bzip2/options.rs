//! What `bzip2` can be told.

use serde::{Deserialize, Serialize};

/// The exit status if a file was not done.
pub const TROUBLE: u8 = 1;

/// The exit status if compressed data was wrong.
pub const CORRUPT: u8 = 2;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Files are compressed, in blocks of so many hundred thousand bytes, 1 to 9.
    Compress {
        /// How many.
        level: u8,
    },
    /// They are decompressed.
    Decompress,
    /// Whether they can be is found out.
    Test,
}

/// How it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// What is done.
    pub action: Action,
    /// Whether all goes to standard output, rather than to files that take the places of others.
    pub to_output: bool,
    /// Whether inputs stay.
    pub keep: bool,
    /// Whether outputs replace what is there, and files with several names, or that links lead to, are done.
    pub force: bool,
    /// Whether directories are entered.
    pub recursive: bool,
    /// Whether only errors that matter are told.
    pub quiet: bool,
    /// How much is told of each file.
    pub verbosity: u8,
    /// The length of the longest name, so that figures stand below each other.
    pub longest_name: usize,
}
