//! What kernel AIO is asked and what it answers.
//!
//! An [`AioRequest`] owns the buffer that the kernel reads or writes, whose pages do not move when the request does, and
//! shares in owning the files.

use std::mem;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::context::Ask;
use crate::buffer::Buffer;
use crate::data::Cache;
use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::operation::Operation;

/// An operation for the kernel to do when it can.
#[derive(Debug)]
pub enum AioRequest {
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
    /// Read a block, then write what was read to the same place of another file.
    Pair {
        /// The file read.
        source: Arc<Fd>,
        /// The file written.
        target: Arc<Fd>,
        /// Where in both, in bytes.
        offset: u64,
        /// Between the two.
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

/// What came of an [`AioRequest`]; the variant is the request's.
#[derive(Debug)]
pub enum AioReply {
    /// The buffer, and how many bytes it now holds.
    Read {
        /// The request's buffer.
        buffer: Buffer,
        /// How many bytes were read; 0 is the end of the file.
        result: Result<usize>,
    },
    /// The buffer, and how many bytes were written.
    Wrote {
        /// The request's buffer.
        buffer: Buffer,
        /// How many bytes were written.
        result: Result<usize>,
    },
    /// The buffer, what was read and how much of it was written.
    Paired {
        /// The request's buffer.
        buffer: Buffer,
        /// How many bytes were read; 0 is the end of the file.
        read: Result<usize>,
        /// How many of them were written.
        written: Result<usize>,
    },
    /// Whether the file is on the disk.
    Synchronized(Result<()>),
}

impl AioRequest {
    /// Says what to ask of the kernel next. `read` is how much of a pair was read; `None` if nothing was tried yet.
    ///
    /// The answer holds an address in the buffer that `self` owns, which must stay until the kernel is done with it.
    ///
    /// # Panics
    /// When the bytes are not in its buffer: the check that keeps the kernel inside our memory.
    pub(super) fn ask(&mut self, read: Option<usize>) -> Ask {
        let flags = |cache: &Cache| cache.flags().bits();
        match (self, read) {
            (
                Self::Read { file, offset, buffer, length, cache }
                | Self::Pair { source: file, offset, buffer, length, cache, .. },
                None,
            ) => {
                let bytes = &mut buffer.bytes_mut()[..*length];
                let (address, length) = (bytes.as_mut_ptr().expose_provenance(), bytes.len());
                let (operation, file, flags) = (Operation::Read, file.as_raw_fd(), flags(cache));
                Ask { operation, file, address, length, offset: *offset, flags }
            }
            (Self::Pair { target, offset, buffer, cache, .. }, Some(length)) => {
                let bytes = &buffer.bytes()[..length];
                write(target, *offset, bytes, flags(cache))
            }
            (Self::Write { file, offset, buffer, range, cache }, _) => {
                write(file, *offset, &buffer.bytes()[range.clone()], flags(cache))
            }
            // A read that is not a pair's has no second part: it could only be read again.
            (Self::Read { file, .. } | Self::Fsync { file }, _) => {
                let (operation, file) = (Operation::Fsync, file.as_raw_fd());
                Ask { operation, file, address: 0, length: 0, offset: 0, flags: 0 }
            }
        }
    }

    /// Does it now, or what is left of it, with calls that wait.
    pub(super) fn in_place(self, read: Option<usize>) -> AioReply {
        match self {
            Self::Read { file, offset, mut buffer, length, cache } => {
                let result = crate::read(&*file, offset, &mut buffer.bytes_mut()[..length], cache);
                AioReply::Read { buffer, result }
            }
            Self::Write { file, offset, buffer, range, cache } => {
                let result = crate::write(&*file, offset, &buffer.bytes()[range], cache);
                AioReply::Wrote { buffer, result }
            }
            Self::Pair { source, target, offset, mut buffer, length, cache } => {
                let read = match read {
                    Some(length) => Ok(length),
                    None => crate::read(&*source, offset, &mut buffer.bytes_mut()[..length], cache),
                };
                let written = match read {
                    Ok(length @ 1..) => crate::write(&*target, offset, &buffer.bytes()[..length], cache),
                    Ok(0) | Err(_) => Ok(0),
                };
                AioReply::Paired { buffer, read, written }
            }
            Self::Fsync { file } => AioReply::Synchronized(crate::synchronize(&*file)),
        }
    }

    /// Turns what came of the last part into a reply. `read` is how much of a pair was read before.
    pub(super) fn reply(self, read: Option<usize>, outcome: Result<usize>) -> AioReply {
        match (self, read) {
            (Self::Read { buffer, .. }, _) => AioReply::Read { buffer, result: outcome },
            (Self::Write { buffer, .. }, _) => AioReply::Wrote { buffer, result: outcome },
            (Self::Pair { buffer, .. }, None) => AioReply::Paired { buffer, read: outcome, written: Ok(0) },
            (Self::Pair { buffer, .. }, Some(read)) => {
                AioReply::Paired { buffer, read: Ok(read), written: outcome }
            }
            (Self::Fsync { .. }, _) => AioReply::Synchronized(outcome.map(drop)),
        }
    }

    /// Gives up for good the memory that the kernel may use after we stop listening to it; a new buffer of the same
    /// capacity takes its place. The files can go: the kernel has a hold on them of its own.
    pub(super) fn leak(&mut self) {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } | Self::Pair { buffer, .. } => {
                let replacement = Buffer::new(buffer.capacity());
                mem::forget(mem::replace(buffer, replacement));
            }
            Self::Fsync { .. } => {}
        }
    }
}

impl Ask {
    /// Makes the failure of what was asked, worded as the synchronous call does.
    pub(super) fn failure(&self, errno: rustix::io::Errno) -> Error {
        let Self { file, offset, length, .. } = self;
        let arguments = match self.operation {
            Operation::Read => format!("{file}, {offset}"),
            Operation::Write => format!("{file}, {offset}, {length}"),
            _ => file.to_string(),
        };
        Error::new(self.operation, arguments, errno)
    }
}

fn write(file: &Fd, offset: u64, bytes: &[u8], flags: u32) -> Ask {
    let address = bytes.as_ptr().expose_provenance();
    Ask { operation: Operation::Write, file: file.as_raw_fd(), address, length: bytes.len(), offset, flags }
}
