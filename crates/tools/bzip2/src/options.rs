//! Options of `bzip2`.

use serde::{Deserialize, Serialize};

/// Exit status if a file was skipped or failed.
pub const TROUBLE: u8 = 1;

/// Exit status if compressed data was corrupt.
pub const CORRUPT: u8 = 2;

/// The operation to perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Compress.
    Compress {
        /// Block size in units of 100,000 bytes, 1 to 9.
        level: u8,
    },
    /// Decompress.
    Decompress,
    /// Test that files can be decompressed.
    Test,
}

/// Options of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The operation to perform.
    pub action: Action,
    /// Writes to standard output instead of replacing files.
    pub to_output: bool,
    /// True if standard output is a terminal, to which no compressed data is written.
    pub output_is_terminal: bool,
    /// Keeps input files.
    pub keep: bool,
    /// Overwrites outputs, follows symbolic links and accepts inputs with several hard links.
    pub force: bool,
    /// Recurses into directories.
    pub recursive: bool,
    /// Suppresses all but important errors.
    pub quiet: bool,
    /// Verbosity of the report on each file.
    pub verbosity: u8,
    /// Length of the longest name, to align verbose output.
    pub longest_name: usize,
}
