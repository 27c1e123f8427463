//! What POSIX AIO is asked and what it answers.
//!
//! As in a ring, a request owns, or shares in owning, everything that its jobs name: descriptors, and the pages of a
//! [`Buffer`], which do not move when the request does.

use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::Arc;

use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::data::Cache;
use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::operation::Operation;

/// An operation for the C library's threads.
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
    },
    /// Read from one file, and write what was read to the same place of another.
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
    /// The buffer, and how many bytes it now holds; 0 is the end of the file.
    Read {
        /// The request's buffer.
        buffer: Buffer,
        /// How many bytes were read.
        result: Result<usize>,
    },
    /// The buffer, and how many bytes were written.
    Wrote {
        /// The request's buffer.
        buffer: Buffer,
        /// How many bytes were written.
        result: Result<usize>,
    },
    /// The buffer, what was read, and how much of that was written.
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

/// What one call of the C library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Read,
    Write,
    Synchronize,
}

/// One call of the C library. It is as good as the request that it comes from lasts.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(target_env = "gnu", target_pointer_width = "64")),
    allow(dead_code, reason = "never done")
)]
pub(super) struct Job {
    pub(super) what: Move,
    pub(super) file: RawFd,
    pub(super) offset: u64,
    pub(super) start: *mut u8,
    pub(super) length: usize,
}

impl Job {
    pub(super) fn operation(&self) -> Operation {
        match self.what {
            Move::Read => Operation::Read,
            Move::Write => Operation::Write,
            Move::Synchronize => Operation::Fsync,
        }
    }
}

impl AioRequest {
    /// Checks that the bytes it names are in its buffer: what keeps the kernel inside our memory.
    ///
    /// # Panics
    /// When they are not.
    pub(super) fn check(&self) {
        match self {
            Self::Read { buffer, length, .. } | Self::Pair { buffer, length, .. } => {
                assert!(*length <= buffer.capacity(), "{length} bytes of {buffer:?}");
            }
            Self::Write { buffer, range, .. } => {
                assert!(
                    range.start <= range.end && range.end <= buffer.capacity(),
                    "{range:?} of {buffer:?}"
                );
            }
            Self::Fsync { .. } => {}
        }
    }

    /// Returns what is done first.
    pub(super) fn first(&mut self) -> Job {
        match self {
            Self::Read { file, offset, buffer, length }
            | Self::Pair { source: file, offset, buffer, length, .. } => Job {
                what: Move::Read,
                file: file.as_raw_fd(),
                offset: *offset,
                start: buffer.bytes_mut().as_mut_ptr(),
                length: *length,
            },
            Self::Write { file, offset, buffer, range } => Job {
                what: Move::Write,
                file: file.as_raw_fd(),
                offset: *offset,
                start: buffer.bytes()[range.clone()].as_ptr().cast_mut(),
                length: range.len(),
            },
            Self::Fsync { file } => Job {
                what: Move::Synchronize,
                file: file.as_raw_fd(),
                offset: 0,
                start: ptr::null_mut(),
                length: 0,
            },
        }
    }

    /// Returns what is done after `first` came of the first: the write of a pair that has read something.
    pub(super) fn second(&self, first: isize) -> Option<Job> {
        match (self, usize::try_from(first)) {
            (Self::Pair { target, offset, buffer, .. }, Ok(read @ 1..)) => Some(Job {
                what: Move::Write,
                file: target.as_raw_fd(),
                offset: *offset,
                start: buffer.bytes()[..read].as_ptr().cast_mut(),
                length: read,
            }),
            _ => None,
        }
    }

    /// Turns what came of the two calls into a reply. What the C library did not do, or was kept from by something that
    /// passes, is done here and now.
    pub(super) fn reply(self, first: isize, second: Option<isize>) -> AioReply {
        if passes(first) {
            return self.in_place();
        }
        let first = counted(first).map_err(|errno| self.error(errno));
        match self {
            Self::Read { buffer, .. } => AioReply::Read { buffer, result: first },
            Self::Write { buffer, .. } => AioReply::Wrote { buffer, result: first },
            Self::Fsync { .. } => AioReply::Synchronized(first.map(drop)),
            Self::Pair { target, offset, buffer, .. } => {
                let written = match (&first, second) {
                    (Ok(0) | Err(_), _) => Ok(0),
                    (Ok(_), Some(written)) if !passes(written) => {
                        counted(written).map_err(|errno| write_error(&target, offset, &first, errno))
                    }
                    (Ok(read), _) => crate::write(&*target, offset, &buffer.bytes()[..*read], Cache::Keep),
                };
                AioReply::Paired { buffer, read: first, written }
            }
        }
    }

    /// Does it now, with the calls that wait.
    fn in_place(self) -> AioReply {
        match self {
            Self::Read { file, offset, mut buffer, length } => {
                let result = crate::read(&*file, offset, &mut buffer.bytes_mut()[..length], Cache::Keep);
                AioReply::Read { buffer, result }
            }
            Self::Write { file, offset, buffer, range } => {
                let result = crate::write(&*file, offset, &buffer.bytes()[range], Cache::Keep);
                AioReply::Wrote { buffer, result }
            }
            Self::Pair { source, target, offset, mut buffer, length } => {
                let read = crate::read(&*source, offset, &mut buffer.bytes_mut()[..length], Cache::Keep);
                let written = match read {
                    Ok(read @ 1..) => crate::write(&*target, offset, &buffer.bytes()[..read], Cache::Keep),
                    Ok(0) | Err(_) => Ok(0),
                };
                AioReply::Paired { buffer, read, written }
            }
            Self::Fsync { file } => AioReply::Synchronized(crate::synchronize(&*file)),
        }
    }

    /// Words the failure of its first call as the synchronous one does.
    fn error(&self, errno: Errno) -> Error {
        let (operation, arguments) = match self {
            Self::Read { file, offset, .. } | Self::Pair { source: file, offset, .. } => {
                (Operation::Read, format!("{}, {offset}", file.as_raw_fd()))
            }
            Self::Write { file, offset, range, .. } => {
                (Operation::Write, format!("{}, {offset}, {}", file.as_raw_fd(), range.len()))
            }
            Self::Fsync { file } => (Operation::Fsync, file.as_raw_fd().to_string()),
        };
        Error::new(operation, arguments, errno)
    }
}

fn write_error(target: &Fd, offset: u64, read: &Result<usize>, errno: Errno) -> Error {
    let length = read.as_ref().copied().unwrap_or(0);
    Error::new(Operation::Write, format!("{}, {offset}, {length}", target.as_raw_fd()), errno)
}

/// Tells whether a result only says: not now.
fn passes(result: isize) -> bool {
    matches!(counted(result), Err(Errno::INTR | Errno::AGAIN))
}

/// Takes a count and an error's number apart.
fn counted(result: isize) -> std::result::Result<usize, Errno> {
    usize::try_from(result).map_err(|_| i32::try_from(-result).map_or(Errno::IO, Errno::from_raw_os_error))
}
