//! I/O requests between files and memory, shared by all asynchronous interfaces: io_uring, kernel
//! AIO and POSIX AIO.
//!
//! A [`TransferRequest`] owns, or shares ownership of, everything the kernel reads or writes: the
//! files, and the pages of a [`Buffer`], which don't move when the transfer does. It consists of
//! one call or, for a pair, two: its [`TransferPart`]s.
//!
//! Each interface encodes the parts in its own way and decodes the kernel's results. This module
//! holds their common rules: that no part reaches beyond the buffer, how to do a transfer
//! synchronously, how its error is worded, and how its memory is leaked.

use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::data::CacheMode;
use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::operation::Operation;
use crate::raw_result::counted;

/// A read, write, pair or fsync to be done asynchronously.
#[derive(Debug)]
pub enum TransferRequest {
    /// Read into a buffer, from the buffer's start.
    Read {
        /// The file.
        file: Arc<Fd>,
        /// File offset, in bytes.
        offset: u64,
        /// Where to read to.
        buffer: Buffer,
        /// Maximum bytes to read; no more than the buffer's capacity.
        length: usize,
        /// Effect of the read on the page cache.
        cache: CacheMode,
    },
    /// Write from a buffer.
    Write {
        /// The file.
        file: Arc<Fd>,
        /// File offset, in bytes.
        offset: u64,
        /// Where to write from.
        buffer: Buffer,
        /// Range of bytes in the buffer.
        range: Range<usize>,
        /// Effect of the write on the page cache.
        cache: CacheMode,
    },
    /// Read into a buffer, and write those bytes to the same offset of another file. Use it
    /// only for bytes that are expected to exist: a ring doesn't write if the read brings less
    /// than `length`.
    Pair {
        /// The file to read.
        source: Arc<Fd>,
        /// The file to write; not opened for appending.
        target: Arc<Fd>,
        /// Offset in both files, in bytes.
        offset: u64,
        /// Holds the data; filled from its start.
        buffer: Buffer,
        /// Maximum bytes to copy; no more than the buffer's capacity.
        length: usize,
        /// Effect of both on the page cache.
        cache: CacheMode,
    },
    /// Wait until the file's data and metadata are on disk.
    Fsync {
        /// The file.
        file: Arc<Fd>,
    },
}

/// The result of a [`TransferRequest`], of the corresponding variant.
#[derive(Debug)]
pub enum Transferred {
    /// Result of a read.
    Read {
        /// The transfer's buffer.
        buffer: Buffer,
        /// Number of bytes read; 0 means EOF.
        result: Result<usize>,
    },
    /// Result of a write.
    Wrote {
        /// The transfer's buffer.
        buffer: Buffer,
        /// Number of bytes written.
        result: Result<usize>,
    },
    /// Result of a pair. Never more bytes are written than were read.
    Paired {
        /// The transfer's buffer.
        buffer: Buffer,
        /// Number of bytes read; 0 means EOF.
        read: Result<usize>,
        /// Number of them written.
        written: Result<usize>,
    },
    /// Result of an fsync.
    Synchronized(Result<()>),
}

/// One call of a transfer: a read, a write or an fsync.
///
/// The address of its bytes stays valid as long as the transfer lives and no further part is made
/// from it.
#[derive(Debug)]
pub(crate) struct TransferPart<'a> {
    pub(crate) operation: Operation,
    pub(crate) file: &'a Fd,
    pub(crate) offset: u64,
    /// Memory to read to or write from; empty for an fsync.
    pub(crate) bytes: &'a mut [u8],
    pub(crate) cache: CacheMode,
}

impl TransferRequest {
    /// Checks that the bytes it names are in its buffer.
    ///
    /// # Panics
    /// If they aren't.
    pub(crate) fn check(&mut self) {
        self.part(None);
    }

    /// Does the transfer now, synchronously.
    ///
    /// # Panics
    /// If it names bytes outside its buffer.
    #[must_use]
    pub fn perform_now(mut self) -> Transferred {
        let first = self.part(None).perform();
        self.finish(first)
    }

    /// Finishes the transfer synchronously, given the result of its first part: does the write of a
    /// pair that has read something.
    ///
    /// # Panics
    /// If more bytes were read than its buffer holds.
    #[must_use]
    pub fn finish(mut self, first: Result<usize>) -> Transferred {
        let written = match first {
            Ok(length @ 1..) if self.is_pair() => self.part(Some(length)).perform(),
            _ => Ok(0),
        };
        self.reply(first, written)
    }

    /// Builds the reply from the results of its parts; `written` counts only for a pair.
    pub(crate) fn reply(self, first: Result<usize>, written: Result<usize>) -> Transferred {
        match self {
            Self::Read { buffer, .. } => Transferred::Read { buffer, result: first },
            Self::Write { buffer, .. } => Transferred::Wrote { buffer, result: first },
            Self::Pair { buffer, .. } => Transferred::Paired { buffer, read: first, written },
            Self::Fsync { .. } => Transferred::Synchronized(first.map(drop)),
        }
    }

    /// Returns the first part or, if `read` is the number of bytes a pair has read, the
    /// pair's write.
    ///
    /// # Panics
    /// If the bytes aren't in the buffer. This check keeps the kernel inside our memory.
    pub(crate) fn part(&mut self, read: Option<usize>) -> TransferPart<'_> {
        let (operation, file, offset, bytes, cache) = match (self, read) {
            (Self::Pair { target, offset, buffer, cache, .. }, Some(length)) => {
                (Operation::Write, target, *offset, &mut buffer.bytes_mut()[..length], *cache)
            }
            (
                Self::Read { file, offset, buffer, length, cache }
                | Self::Pair { source: file, offset, buffer, length, cache, .. },
                _,
            ) => (Operation::Read, file, *offset, &mut buffer.bytes_mut()[..*length], *cache),
            (Self::Write { file, offset, buffer, range, cache }, _) => {
                (Operation::Write, file, *offset, &mut buffer.bytes_mut()[range.clone()], *cache)
            }
            (Self::Fsync { file }, _) => (Operation::Fsync, file, 0, &mut [][..], CacheMode::Keep),
        };
        TransferPart { operation, file, offset, bytes, cache }
    }

    /// Converts the raw result of a part, identified as in [`TransferRequest::part`].
    pub(crate) fn outcome(&mut self, read: Option<usize>, answer: i32) -> Result<usize> {
        counted(answer).map_err(|errno| self.part(read).failure(errno))
    }

    pub(crate) fn operation(&self) -> Operation {
        match self {
            // A pair starts with its read.
            Self::Read { .. } | Self::Pair { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::Fsync { .. } => Operation::Fsync,
        }
    }

    /// Returns how many bytes it asks to move, without touching the buffer, which the kernel may
    /// be using.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Read { length, .. } | Self::Pair { length, .. } => *length,
            Self::Write { range, .. } => range.len(),
            Self::Fsync { .. } => 0,
        }
    }

    pub(crate) fn is_pair(&self) -> bool {
        matches!(self, Self::Pair { .. })
    }

    pub(crate) fn cache(&self) -> CacheMode {
        match self {
            Self::Read { cache, .. } | Self::Write { cache, .. } | Self::Pair { cache, .. } => *cache,
            Self::Fsync { .. } => CacheMode::Keep,
        }
    }

    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } | Self::Pair { buffer, .. } => {
                Some(buffer)
            }
            Self::Fsync { .. } => None,
        }
    }

    /// Leaks the memory that the kernel may use after the interface is given up.
    ///
    /// The rest can still be answered and dropped: the buffer is replaced by a new one of the
    /// same capacity.
    pub(crate) fn leak_buffer(&mut self) {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } | Self::Pair { buffer, .. } => {
                let replacement = Buffer::new(buffer.capacity());
                mem::forget(mem::replace(buffer, replacement));
            }
            Self::Fsync { .. } => {}
        }
    }

    /// Leaks the descriptors, if the kernel may look them up after the interface is given up.
    pub(crate) fn leak_files(&self) {
        match self {
            // A clone that is never dropped keeps the descriptor open.
            Self::Read { file, .. } | Self::Write { file, .. } | Self::Fsync { file } => {
                mem::forget(Arc::clone(file));
            }
            Self::Pair { source, target, .. } => mem::forget([Arc::clone(source), Arc::clone(target)]),
        }
    }
}

impl TransferPart<'_> {
    /// Makes the call synchronously. An fsync moves 0 bytes.
    fn perform(self) -> Result<usize> {
        let Self { operation, file, offset, bytes, cache } = self;
        match operation {
            Operation::Read => crate::read(file, offset, bytes, cache),
            Operation::Write => crate::write(file, offset, bytes, cache),
            _ => crate::synchronize(file).map(|()| 0),
        }
    }

    /// Returns the error for this call, with the arguments that the synchronous call would print.
    fn failure(&self, errno: Errno) -> Error {
        let file = self.file.as_raw_fd();
        let arguments = match self.operation {
            Operation::Read => format!("{file}, {}", self.offset),
            Operation::Write => format!("{file}, {}, {}", self.offset, self.bytes.len()),
            _ => file.to_string(),
        };
        Error::new(self.operation, arguments, errno)
    }
}
