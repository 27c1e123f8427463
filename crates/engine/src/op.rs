//! Operations and their completions.

use std::ops::Range;
use std::sync::Arc;

#[cfg(doc)]
use crate::Caps;
use haul_sys::{Buffer, CacheMode, Fd, Name, Open, Operation, Pipe, Result, Stat};

/// Identifies an operation to its caller. Engines return it unexamined.
pub type Token = u64;

/// Controls whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The read may wait.
    Allowed,
    /// Read only cached data. If there is none, the kernel starts to fetch it and the
    /// completion is [`Outcome::Read`] with `None`. An engine that never blocks its caller treats
    /// this as [`Wait::Allowed`].
    Never,
}

/// An operation and the token that identifies its completion.
#[derive(Debug)]
pub struct Op {
    /// Token returned with the completion.
    pub token: Token,
    /// The operation.
    pub call: Call,
}

/// The operation itself. It owns, or shares ownership of, everything that the kernel accesses.
#[derive(Debug)]
pub enum Call {
    /// Open a name in an open directory.
    Open {
        /// The directory.
        directory: Arc<Fd>,
        /// The name, a single component.
        name: Name,
        /// Flags and mode.
        how: Open,
    },
    /// Get the metadata of an open file.
    Stat {
        /// The file.
        file: Arc<Fd>,
    },
    /// Read into a buffer.
    Read {
        /// The file.
        file: Arc<Fd>,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Destination; filled from its start.
        buffer: Buffer,
        /// Maximum length, in bytes; no more than the buffer holds.
        length: usize,
        /// Controls waiting for the disk.
        wait: Wait,
        /// Use of the page cache. [`CacheMode::Drop`] only if [`Caps::drops_cache`] is true.
        cache: CacheMode,
    },
    /// Read at the file's position, for files that have no offsets. May wait.
    ReadStream {
        /// The file.
        file: Arc<Fd>,
        /// Destination; filled from its start.
        buffer: Buffer,
        /// Maximum length, in bytes; no more than the buffer holds.
        length: usize,
    },
    /// Write from a buffer.
    Write {
        /// The file.
        file: Arc<Fd>,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Source of the data.
        buffer: Buffer,
        /// Range of the buffer to write.
        range: Range<usize>,
        /// Use of the page cache, as for a read.
        cache: CacheMode,
    },
    /// Read a block of one file and write it at the same offset of another. If [`Caps::pairs`] is
    /// true, the engine does both without returning to its caller in between.
    Pair {
        /// File to read.
        source: Arc<Fd>,
        /// File to write.
        target: Arc<Fd>,
        /// Offset in both files, in bytes.
        offset: u64,
        /// Holds the data in between; filled from its start.
        buffer: Buffer,
        /// Maximum length, in bytes; no more than the buffer holds.
        length: usize,
        /// Use of the page cache, as for a read.
        cache: CacheMode,
    },
    /// Copy inside the kernel, at the same offset of both files.
    CopyRange {
        /// File to read.
        source: Arc<Fd>,
        /// File to write.
        target: Arc<Fd>,
        /// Offset in both files, in bytes.
        offset: u64,
        /// Maximum length, in bytes.
        length: usize,
        /// Pipe to copy through (`splice`), or `None` to let the kernel choose a way
        /// (`copy_file_range`), which may share blocks.
        pipe: Option<Pipe>,
    },
    /// Flush the file to disk.
    Synchronize {
        /// The file.
        file: Arc<Fd>,
    },
    /// Close a file.
    Close {
        /// The file, with no other owner.
        file: Fd,
    },
}

impl Call {
    /// Returns the system call that performs it; for a pair, the first one, and for a copy the one
    /// without a pipe.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Open { .. } => Operation::Openat,
            Self::Stat { .. } => Operation::Statx,
            // An error before a pair starts is reported as one of its read.
            Self::Read { .. } | Self::ReadStream { .. } | Self::Pair { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::CopyRange { .. } => Operation::CopyFileRange,
            Self::Synchronize { .. } => Operation::Fsync,
            Self::Close { .. } => Operation::Close,
        }
    }
}

/// A completed operation.
#[derive(Debug)]
pub struct Done {
    /// Token from the [`Op`].
    pub token: Token,
    /// Its result.
    pub outcome: Outcome,
}

/// The result of an operation. Its variant corresponds to that of the [`Call`].
#[derive(Debug)]
pub enum Outcome {
    /// The opened file.
    Opened(Result<Fd>),
    /// Metadata of the file.
    Stated(Result<Stat>),
    /// A read's buffer and its number of bytes: 0 at EOF, `None` if the read would have waited.
    Read {
        /// The operation's buffer.
        buffer: Buffer,
        /// Number of bytes read.
        result: Result<Option<usize>>,
    },
    /// A write's buffer and its number of bytes.
    Wrote {
        /// The operation's buffer.
        buffer: Buffer,
        /// Number of bytes written.
        result: Result<usize>,
    },
    /// A pair's buffer, the number of bytes read, and how many of those were written.
    ///
    /// The data is at the start of the buffer. `written` also counts from there and never exceeds
    /// `read`. It is less if the write was short, or was skipped because the read was short; the
    /// caller must write the rest.
    Paired {
        /// The operation's buffer.
        buffer: Buffer,
        /// Number of bytes read; 0 at EOF.
        read: Result<usize>,
        /// Number of these bytes that were written.
        written: Result<usize>,
    },
    /// The result of a copy inside the kernel.
    Copied {
        /// The operation's pipe, unless bytes were left in it.
        pipe: Option<Pipe>,
        /// Number of bytes copied; 0 does not mean EOF.
        result: Result<usize>,
    },
    /// Result of the fsync.
    Synchronized(Result<()>),
    /// Result of the close, which may report lost data.
    Closed(Result<()>),
}
