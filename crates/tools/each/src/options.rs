//! Options of `each`.

use haul_sys::Timestamp;
use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// Types of entries to run the command for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Kinds: u8 {
        /// Regular files.
        const FILES = 1;
        /// Directories.
        const DIRECTORIES = 2;
        /// Symbolic links.
        const LINKS = 4;
    }
}

/// Sizes of files to run the command for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    /// Larger than this.
    Above(u64),
    /// Smaller than this.
    Below(u64),
    /// Exactly this.
    Exactly(u64),
}

impl Size {
    pub(super) fn admits(self, bytes: u64) -> bool {
        match self {
            Self::Above(limit) => bytes > limit,
            Self::Below(limit) => bytes < limit,
            Self::Exactly(wanted) => bytes == wanted,
        }
    }
}

/// The reaction to a failed command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Halt {
    /// Run the others anyway.
    #[default]
    Never,
    /// Start no more commands.
    Soon,
    /// Start no more commands, and terminate those in progress.
    Now,
}

/// Options of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Words of the command.
    pub command: Vec<Vec<u8>>,
    /// True if they are a script for `sh`.
    pub shell: bool,
    /// Name patterns, any of which may match; if empty, all names match.
    pub names: Vec<String>,
    /// True in a UTF-8 locale, where `?` and brackets in patterns match characters.
    pub utf8: bool,
    /// Types of entries to match.
    pub kinds: Kinds,
    /// Sizes of regular files to match.
    pub size: Option<Size>,
    /// Matches entries modified after this time.
    pub newer: Option<Timestamp>,
    /// Follows symbolic links everywhere, not only operands.
    pub dereference: bool,
    /// The reaction to a failed command.
    pub halt: Halt,
    /// Emits output in path order.
    pub sorted: bool,
    /// Shows the commands without running them.
    pub dry_run: bool,
    /// Size of the blocks of lines that commands get on standard input, in bytes. Only a longer
    /// line exceeds it.
    pub block_bytes: Option<u64>,
    /// Number of files per command.
    pub batch: usize,
}
