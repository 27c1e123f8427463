//! Operations and their completions.

use std::ops::Range;
use std::sync::Arc;

#[cfg(doc)]
use crate::Caps;
use haul_sys::{Buffer, Cache, Fd, Name, Open, Operation, Result, Stat};

/// The caller's mark on an operation; engines return it and do not look at it.
pub type Token = u64;

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It may.
    Allowed,
    /// Only what is in the page cache is read. If nothing is, the kernel begins to fetch it and the completion is
    /// [`Outcome::Read`] with `None`. An engine that never blocks its caller treats this as [`Wait::Allowed`].
    Never,
}

/// An operation on its way to the kernel.
#[derive(Debug)]
pub struct Op {
    /// The caller's mark.
    pub token: Token,
    /// What to do.
    pub call: Call,
}

/// What an operation does. It owns, or shares in owning, everything that the kernel will look at.
#[derive(Debug)]
pub enum Call {
    /// Open one name in a held directory.
    Open {
        /// The directory.
        directory: Arc<Fd>,
        /// The name, a single component.
        name: Name,
        /// How.
        how: Open,
    },
    /// Look at an open file.
    Stat {
        /// The file.
        file: Arc<Fd>,
    },
    /// Read into a buffer.
    Read {
        /// The file.
        file: Arc<Fd>,
        /// Where in the file, in bytes.
        offset: u64,
        /// Where to; filled from its start.
        buffer: Buffer,
        /// How many bytes at most; no more than the buffer holds.
        length: usize,
        /// Whether it may wait for the disk.
        wait: Wait,
        /// What it leaves in the page cache; an engine without [`Caps::drops_cache`] is never asked to leave nothing.
        cache: Cache,
    },
    /// Write from a buffer.
    Write {
        /// The file.
        file: Arc<Fd>,
        /// Where in the file, in bytes.
        offset: u64,
        /// Where from.
        buffer: Buffer,
        /// Which bytes of the buffer.
        range: Range<usize>,
        /// What it leaves in the page cache, as with a read.
        cache: Cache,
    },
    /// Read a block of one file, and write what was read to the same place of another. An engine for which
    /// [`Caps::pairs`] holds does both without coming back to its caller in between.
    Pair {
        /// The file read.
        source: Arc<Fd>,
        /// The file written.
        target: Arc<Fd>,
        /// Where in both files, in bytes.
        offset: u64,
        /// Between the two; filled from its start.
        buffer: Buffer,
        /// How many bytes at most; no more than the buffer holds.
        length: usize,
        /// What it leaves in the page cache, as with a read.
        cache: Cache,
    },
    /// Copy inside the kernel, between the same offsets.
    CopyRange {
        /// The file read.
        source: Arc<Fd>,
        /// The file written.
        target: Arc<Fd>,
        /// Where in both files, in bytes.
        offset: u64,
        /// How many bytes at most.
        length: usize,
    },
    /// Wait until the file is on the disk.
    Synchronize {
        /// The file.
        file: Arc<Fd>,
    },
    /// Close a file for good.
    Close {
        /// The file; nobody else holds it.
        file: Fd,
    },
}

impl Call {
    /// Returns the system call that does it, the first one for a pair.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Open { .. } => Operation::Openat,
            Self::Stat { .. } => Operation::Statx,
            // A pair begins with its read, and an error before it begins is one of reading.
            Self::Read { .. } | Self::Pair { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::CopyRange { .. } => Operation::CopyFileRange,
            Self::Synchronize { .. } => Operation::Fsync,
            Self::Close { .. } => Operation::Close,
        }
    }
}

/// A finished operation.
#[derive(Debug)]
pub struct Done {
    /// The caller's mark.
    pub token: Token,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an operation; the variant is that of its [`Call`].
#[derive(Debug)]
pub enum Outcome {
    /// The opened file.
    Opened(Result<Fd>),
    /// What the kernel knows of the file.
    Looked(Result<Stat>),
    /// The buffer, and how many bytes it now holds; 0 is the end of the file, `None` that the read would have waited.
    Read {
        /// The operation's buffer.
        buffer: Buffer,
        /// How many bytes were read.
        result: Result<Option<usize>>,
    },
    /// The buffer, and how many bytes of the range were written.
    Wrote {
        /// The operation's buffer.
        buffer: Buffer,
        /// How many bytes were written.
        result: Result<usize>,
    },
    /// The buffer, what was read, and how much of that was written.
    ///
    /// What was read is in the buffer from its start. `written` counts from there too and never exceeds it; it is less
    /// when the write was short, or did not take place because the read was short: then the rest is still to be written.
    Paired {
        /// The operation's buffer.
        buffer: Buffer,
        /// How many bytes were read; 0 is the end of the file.
        read: Result<usize>,
        /// How many of them were written.
        written: Result<usize>,
    },
    /// How many bytes were copied; 0 is not the end of the file.
    Copied(Result<usize>),
    /// Whether the file is on the disk.
    Synchronized(Result<()>),
    /// Whether the close lost anything.
    Closed(Result<()>),
}
