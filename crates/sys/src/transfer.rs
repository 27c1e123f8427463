//! Bytes on their way between files and memory, by whichever asynchronous way: a ring, kernel AIO or POSIX AIO.
//!
//! A [`Transfer`] owns, or shares in owning, everything that the kernel looks at or writes to: the files, and the pages of
//! a [`Buffer`], which do not move when the transfer does. It is made of calls, its [`Part`]s: one, or for a pair two.
//!
//! Each way words the parts for its own interface and says what the kernel answered. What must be equal for all of them is
//! here: that no part reaches beyond the buffer, how a transfer is done in place, how its failure reads, and how its memory
//! is given up.

use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::answer::counted;
use crate::buffer::Buffer;
use crate::data::Cache;
use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::operation::Operation;

/// An operation on the bytes of files, to be done when it can be.
#[derive(Debug)]
pub enum Transfer {
    /// Read into a buffer, from its start.
    Read {
        /// The file.
        file: Arc<Fd>,
        /// Where in the file, in bytes.
        offset: u64,
        /// Where to.
        buffer: Buffer,
        /// How many bytes at most; no more than the buffer holds.
        length: usize,
        /// What it leaves in the page cache.
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
        /// What it leaves in the page cache.
        cache: Cache,
    },
    /// Read into a buffer, and write what was read to the same place of another file. Only for bytes that are there, as
    /// far as the caller knows: a ring leaves the write undone when the read brings less than `length`.
    Pair {
        /// The file read.
        source: Arc<Fd>,
        /// The file written; not one opened to append.
        target: Arc<Fd>,
        /// Where in both files, in bytes.
        offset: u64,
        /// Between the two; filled from its start.
        buffer: Buffer,
        /// How many bytes at most; no more than the buffer holds.
        length: usize,
        /// What it leaves in the page cache.
        cache: Cache,
    },
    /// Wait until the file's data and metadata are on the disk.
    Fsync {
        /// The file.
        file: Arc<Fd>,
    },
}

/// What came of a [`Transfer`]; the variant is the transfer's.
#[derive(Debug)]
pub enum Transferred {
    /// The buffer, and how many bytes it now holds.
    Read {
        /// The transfer's buffer.
        buffer: Buffer,
        /// How many bytes were read; 0 is the end of the file.
        result: Result<usize>,
    },
    /// The buffer, and how many bytes were written.
    Wrote {
        /// The transfer's buffer.
        buffer: Buffer,
        /// How many bytes were written.
        result: Result<usize>,
    },
    /// The buffer, what was read, and how much of that was written: never more than was read.
    Paired {
        /// The transfer's buffer.
        buffer: Buffer,
        /// How many bytes were read; 0 is the end of the file.
        read: Result<usize>,
        /// How many of them were written.
        written: Result<usize>,
    },
    /// Whether the file is on the disk.
    Synchronized(Result<()>),
}

/// One call of a transfer: a read, a write or an fsync.
///
/// Addresses taken of its bytes are good for as long as its transfer lasts, and no further part is made meanwhile.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) operation: Operation,
    pub(crate) file: &'a Fd,
    pub(crate) offset: u64,
    /// Where to or from; nowhere for an fsync.
    pub(crate) bytes: &'a mut [u8],
    pub(crate) cache: Cache,
}

impl Transfer {
    /// Checks that the bytes it names are in its buffer.
    ///
    /// # Panics
    /// When they are not.
    pub(crate) fn check(&mut self) {
        self.part(None);
    }

    /// Does it now, with the calls that wait.
    ///
    /// # Panics
    /// When it names bytes that its buffer does not have.
    #[must_use]
    pub fn in_place(mut self) -> Transferred {
        let first = self.part(None).perform();
        self.finish(first)
    }

    /// Does what is left of it, with the call that waits, after its first part: the write of a pair that has read
    /// something.
    ///
    /// # Panics
    /// When more was read than its buffer holds.
    #[must_use]
    pub fn finish(mut self, first: Result<usize>) -> Transferred {
        let written = match first {
            Ok(length @ 1..) if self.is_pair() => self.part(Some(length)).perform(),
            _ => Ok(0),
        };
        self.reply(first, written)
    }

    /// Puts together what came of its parts; `written` counts only for a pair.
    pub(crate) fn reply(self, first: Result<usize>, written: Result<usize>) -> Transferred {
        match self {
            Self::Read { buffer, .. } => Transferred::Read { buffer, result: first },
            Self::Write { buffer, .. } => Transferred::Wrote { buffer, result: first },
            Self::Pair { buffer, .. } => Transferred::Paired { buffer, read: first, written },
            Self::Fsync { .. } => Transferred::Synchronized(first.map(drop)),
        }
    }

    /// Returns its first part, or with `read`, which is how much a pair has read, the pair's second. The others have one.
    ///
    /// # Panics
    /// When the bytes are not in its buffer: the check that keeps the kernel inside our memory.
    pub(crate) fn part(&mut self, read: Option<usize>) -> Part<'_> {
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
            (Self::Fsync { file }, _) => (Operation::Fsync, file, 0, &mut [][..], Cache::Keep),
        };
        Part { operation, file, offset, bytes, cache }
    }

    /// Reads what the kernel answered to a part, which is named as for [`Transfer::part`].
    pub(crate) fn outcome(&mut self, read: Option<usize>, answer: i32) -> Result<usize> {
        counted(answer).map_err(|errno| self.part(read).failure(errno))
    }

    /// Returns the operation of its first part.
    pub(crate) fn operation(&self) -> Operation {
        match self {
            // A pair begins with its read.
            Self::Read { .. } | Self::Pair { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::Fsync { .. } => Operation::Fsync,
        }
    }

    /// Returns how many bytes it asks to move, without a look at the buffer, which the kernel may have.
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

    /// Returns what it leaves in the page cache.
    pub(crate) fn cache(&self) -> Cache {
        match self {
            Self::Read { cache, .. } | Self::Write { cache, .. } | Self::Pair { cache, .. } => *cache,
            Self::Fsync { .. } => Cache::Keep,
        }
    }

    /// Returns the buffer that it moves bytes through.
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } | Self::Pair { buffer, .. } => {
                Some(buffer)
            }
            Self::Fsync { .. } => None,
        }
    }

    /// Gives up for good the memory that the kernel may use after we stop listening to it.
    ///
    /// What is left can be answered and dropped: the buffer is a new one of the same capacity.
    pub(crate) fn leak_buffer(&mut self) {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } | Self::Pair { buffer, .. } => {
                let replacement = Buffer::new(buffer.capacity());
                mem::forget(mem::replace(buffer, replacement));
            }
            Self::Fsync { .. } => {}
        }
    }

    /// Gives up for good the descriptors, where the kernel may look them up after we stop listening to it.
    pub(crate) fn leak_files(&self) {
        match self {
            Self::Read { file, .. } | Self::Write { file, .. } | Self::Fsync { file } => {
                mem::forget(Arc::clone(file));
            }
            Self::Pair { source, target, .. } => mem::forget([Arc::clone(source), Arc::clone(target)]),
        }
    }
}

impl Part<'_> {
    /// Makes the call that waits; an fsync moves nothing.
    fn perform(self) -> Result<usize> {
        let Self { operation, file, offset, bytes, cache } = self;
        match operation {
            Operation::Read => crate::read(file, offset, bytes, cache),
            Operation::Write => crate::write(file, offset, bytes, cache),
            _ => crate::synchronize(file).map(|()| 0),
        }
    }

    /// Makes its failure, worded as that of the call that waits.
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
