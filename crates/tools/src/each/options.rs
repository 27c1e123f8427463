//! Which files, which command, and what becomes of its output.

use haul_sys::Timestamp;
use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// Types of entries that a command is run for.
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

/// Which lengths files may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    /// More bytes than this.
    Above(u64),
    /// Fewer.
    Below(u64),
    /// As many.
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

/// What happens when a command fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Halt {
    /// The others are run all the same.
    #[default]
    Never,
    /// No more are begun.
    Soon,
    /// No more are begun, and those that run are ended.
    Now,
}

/// What is run, for which files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The words of the command.
    pub command: Vec<Vec<u8>>,
    /// Whether they are a script for `sh`.
    pub shell: bool,
    /// Patterns of names; any will do, and none means all.
    pub names: Vec<String>,
    /// Patterns of names that are left out, with all below them.
    pub exclude: Vec<String>,
    /// Which types.
    pub kinds: Kinds,
    /// Which lengths of regular files.
    pub size: Option<Size>,
    /// The moment after which they were modified.
    pub newer: Option<Timestamp>,
    /// Whether symbolic links are followed everywhere; those that are named always are.
    pub dereference: bool,
    /// What happens when a command fails.
    pub halt: Halt,
    /// Whether output comes in the order of the paths.
    pub sorted: bool,
    /// Whether the commands are only shown.
    pub dry_run: bool,
    /// Bytes of a file, cut at the end of a line, that one command gets on its standard input.
    pub block_bytes: Option<u64>,
    /// Files of one command.
    pub batch: usize,
}
