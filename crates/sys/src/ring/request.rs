//! What a ring is asked and what it answers.
//!
//! A [`RingRequest`] owns, or shares in owning, everything that the kernel looks at or writes to: descriptors, the name,
//! the buffer. The addresses given to the kernel lie in heap memory that does not move when the request does: a
//! [`Buffer`]'s pages and the arena of a [`Name`].

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::fs::{AtFlags, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::data::Cache;
use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::names::Name;
use crate::open::Open;
use crate::operation::Operation;
use crate::stat::Stat;

use super::slot::{CANCELLED, FIRST, SECOND, is_transient};

/// The most bytes the kernel moves in one transfer (`MAX_RW_COUNT`).
const TRANSFER_MAX: usize = 0x7fff_f000;

const NO_NAME: &CStr = c"";

/// An operation for the kernel to do when it can.
#[derive(Debug)]
pub enum RingRequest {
    /// Open one name in a held directory.
    Openat {
        /// The directory.
        directory: Arc<Fd>,
        /// The name, a single component.
        name: Name,
        /// How.
        how: Open,
    },
    /// Look at an open file.
    Statx {
        /// The file.
        file: Arc<Fd>,
    },
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
    /// far as the caller knows: a read that brings less than `length` leaves the write undone.
    Pair {
        /// The file read.
        source: Arc<Fd>,
        /// The file written; not one opened to append.
        target: Arc<Fd>,
        /// Where in both files, in bytes.
        offset: u64,
        /// Between the two.
        buffer: Buffer,
        /// How many bytes; no more than the buffer holds.
        length: usize,
        /// What it leaves in the page cache.
        cache: Cache,
    },
    /// Wait until the file's data and metadata are on the disk.
    Fsync {
        /// The file.
        file: Arc<Fd>,
    },
    /// Close a file for good.
    Close {
        /// The file.
        file: Fd,
    },
}

/// What came of a [`RingRequest`]; the variant is the request's.
#[derive(Debug)]
pub enum RingReply {
    /// The opened file.
    Opened(Result<Fd>),
    /// What the kernel knows of the file.
    Looked(Result<Stat>),
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
    /// The buffer, what was read, and how much of that was written: never more than was read.
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
    /// Whether the close lost anything.
    Closed(Result<()>),
}

/// Who has the descriptor of a close: the kernel, once it took the entry, or still this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Process,
    Kernel,
}

impl RingRequest {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Openat { .. } => Operation::Openat,
            Self::Statx { .. } => Operation::Statx,
            // A pair begins with its read.
            Self::Read { .. } | Self::Pair { .. } => Operation::Read,
            Self::Write { .. } => Operation::Write,
            Self::Fsync { .. } => Operation::Fsync,
            Self::Close { .. } => Operation::Close,
        }
    }

    /// Returns how many bytes it asks to move.
    ///
    /// # Panics
    /// When they are not in its buffer: the check that keeps the kernel inside our memory.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Read { buffer, length, .. } | Self::Pair { buffer, length, .. } => {
                buffer.bytes()[..*length].len()
            }
            Self::Write { buffer, range, .. } => buffer.bytes()[range.clone()].len(),
            _ => 0,
        }
    }

    /// Returns the file that a part moves bytes of.
    pub(super) fn file(&self, part: usize) -> Option<&Arc<Fd>> {
        match self {
            Self::Pair { target, .. } if part == SECOND => Some(target),
            Self::Pair { source: file, .. } | Self::Read { file, .. } | Self::Write { file, .. } => {
                Some(file)
            }
            _ => None,
        }
    }

    /// Returns the buffer that it moves bytes through.
    pub(super) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } | Self::Pair { buffer, .. } => {
                Some(buffer)
            }
            _ => None,
        }
    }

    /// Words a part for the kernel. `length` (at most [`RingRequest::length`]) bounds a transfer; `fixed` is the number
    /// under which the kernel knows the buffer; `statx` is where the answer to a look goes.
    ///
    /// The entry holds addresses in memory that `self` owns, and `statx`: both must stay until it has completed.
    pub(super) fn entry(
        &mut self,
        part: usize,
        length: usize,
        fixed: Option<u16>,
        statx: *mut Statx,
    ) -> squeue::Entry {
        let length = u32::try_from(length.min(TRANSFER_MAX)).unwrap_or(u32::MAX);
        match self {
            Self::Openat { directory, name, how } => {
                let (flags, mode) = how.raw();
                opcode::OpenAt::new(fd(directory), name.as_c_str().as_ptr()).flags(flags).mode(mode).build()
            }
            Self::Statx { file } => opcode::Statx::new(fd(file), NO_NAME.as_ptr(), statx.cast())
                .flags(AtFlags::EMPTY_PATH.bits().cast_signed())
                .mask(StatxFlags::BASIC_STATS.bits())
                .build(),
            Self::Pair { target, offset, buffer, cache, .. } if part == SECOND => {
                write_entry(target, buffer.bytes().as_ptr(), length, fixed, *offset, *cache)
            }
            Self::Read { file, offset, buffer, cache, .. }
            | Self::Pair { source: file, offset, buffer, cache, .. } => {
                read_entry(file, buffer.bytes_mut().as_mut_ptr(), length, fixed, *offset, *cache)
            }
            Self::Write { file, offset, buffer, range, cache } => {
                let start = buffer.bytes()[range.clone()].as_ptr();
                write_entry(file, start, length, fixed, *offset, *cache)
            }
            Self::Fsync { file } => opcode::Fsync::new(fd(file)).build(),
            Self::Close { file } => opcode::Close::new(types::Fd(file.as_raw_fd())).build(),
        }
    }

    /// Does it now, with the call that waits.
    pub(super) fn in_place(self) -> RingReply {
        match self {
            Self::Openat { directory, name, how } => {
                RingReply::Opened(crate::open(&*directory, name.as_c_str(), how))
            }
            Self::Statx { file } => RingReply::Looked(crate::stat(&*file)),
            Self::Read { file, offset, mut buffer, length, cache } => {
                let result = crate::read(&*file, offset, &mut buffer.bytes_mut()[..length], cache);
                RingReply::Read { buffer, result }
            }
            Self::Write { file, offset, buffer, range, cache } => {
                let result = crate::write(&*file, offset, &buffer.bytes()[range], cache);
                RingReply::Wrote { buffer, result }
            }
            Self::Pair { source, target, offset, mut buffer, length, cache } => {
                let read = crate::read(&*source, offset, &mut buffer.bytes_mut()[..length], cache);
                let written = match read {
                    Ok(length @ 1..) => crate::write(&*target, offset, &buffer.bytes()[..length], cache),
                    Ok(0) | Err(_) => Ok(0),
                };
                RingReply::Paired { buffer, read, written }
            }
            Self::Fsync { file } => RingReply::Synchronized(crate::synchronize(&*file)),
            Self::Close { file } => RingReply::Closed(file.close()),
        }
    }

    /// Turns the numbers the kernel answered with into a reply; only a pair has two. `statx` is what it wrote, if it was
    /// asked to look.
    pub(super) fn reply(self, results: [i32; 2], holder: Holder, statx: &UnsafeCell<Statx>) -> RingReply {
        let result = results[FIRST];
        let outcome = self.outcome(FIRST, result);
        match self {
            Self::Pair { .. } => self.paired(results),
            Self::Openat { .. } => RingReply::Opened(outcome.map(|_| opened(result))),
            Self::Statx { .. } => RingReply::Looked(outcome.map(|_| looked(statx))),
            Self::Read { buffer, .. } => RingReply::Read { buffer, result: outcome },
            Self::Write { buffer, .. } => RingReply::Wrote { buffer, result: outcome },
            Self::Fsync { .. } => RingReply::Synchronized(outcome.map(drop)),
            Self::Close { file } => {
                match holder {
                    // The number is free, or another file's already: it must not be closed again.
                    Holder::Kernel => mem::forget(file),
                    // The close always runs; its result is replaced by the failure that kept it from the kernel.
                    Holder::Process => drop(file),
                }
                RingReply::Closed(outcome.map(drop))
            }
        }
    }

    /// Puts the two results of a pair together. What the kernel cancelled or put off is not an error but work not yet
    /// done: it is done now, one after the other, or left to the caller.
    fn paired(self, results: [i32; 2]) -> RingReply {
        let [first, second] = results;
        if is_transient(first) || first == CANCELLED {
            return self.in_place();
        }
        let read = self.outcome(FIRST, first);
        let written = match (&read, second) {
            (Err(_), _) | (_, CANCELLED) => Ok(0),
            (Ok(length), second) if is_transient(second) => self.write_in_place(*length),
            // The kernel did not break the chain, and has written what it had not read.
            (Ok(_), second) if second > first => self.outcome(SECOND, -Errno::IO.raw_os_error()),
            (Ok(_), second) => self.outcome(SECOND, second),
        };
        match self {
            Self::Pair { buffer, .. } => RingReply::Paired { buffer, read, written },
            other => other.in_place(),
        }
    }

    /// Writes what the read of a pair has brought.
    fn write_in_place(&self, length: usize) -> Result<usize> {
        match self {
            Self::Pair { target, offset, buffer, cache, .. } => {
                crate::write(&**target, *offset, &buffer.bytes()[..length], *cache)
            }
            _ => Ok(0),
        }
    }

    /// Words the result of a part.
    fn outcome(&self, part: usize, result: i32) -> Result<usize> {
        usize::try_from(result).map_err(|_| {
            let operation = if part == SECOND { Operation::Write } else { self.operation() };
            let errno = Errno::from_raw_os_error(result.saturating_neg());
            Error::new(operation, self.arguments(part), errno)
        })
    }

    /// Drops it unanswered, `result` being what the kernel made of it: a descriptor that the kernel has closed is not
    /// closed again, and one that it has opened is.
    pub(super) fn abandon(self, result: i32, holder: Holder) {
        match self {
            Self::Close { file } if holder == Holder::Kernel => mem::forget(file),
            Self::Openat { .. } if result >= 0 => drop(opened(result)),
            _ => {}
        }
    }

    /// Gives up for good the memory and descriptors that the kernel may use after we stop listening to it.
    ///
    /// What is left can be answered and dropped: the buffer is a new one of the same capacity.
    pub(super) fn leak(&mut self) {
        match self {
            Self::Openat { directory, name, .. } => {
                mem::forget(Arc::clone(directory));
                mem::forget(name.clone());
            }
            Self::Statx { file } | Self::Fsync { file } => mem::forget(Arc::clone(file)),
            Self::Read { file, buffer, .. } | Self::Write { file, buffer, .. } => {
                mem::forget(Arc::clone(file));
                let replacement = Buffer::new(buffer.capacity());
                mem::forget(mem::replace(buffer, replacement));
            }
            Self::Pair { source, target, buffer, .. } => {
                mem::forget([Arc::clone(source), Arc::clone(target)]);
                let replacement = Buffer::new(buffer.capacity());
                mem::forget(mem::replace(buffer, replacement));
            }
            Self::Close { .. } => {}
        }
    }

    /// Words a part's arguments as the synchronous call does.
    fn arguments(&self, part: usize) -> String {
        match self {
            Self::Openat { directory, name, how } => {
                let (flags, mode) = how.raw();
                let flags = OFlags::from_bits_retain(flags.cast_unsigned());
                format!("{}, {:?}, {flags:?}, {mode:#o}", directory.as_raw_fd(), name.as_c_str())
            }
            Self::Statx { file } => {
                format!("{}, {NO_NAME:?}, {:?}", file.as_raw_fd(), AtFlags::EMPTY_PATH)
            }
            Self::Pair { target, offset, length, .. } if part == SECOND => {
                format!("{}, {offset}, {length}", target.as_raw_fd())
            }
            Self::Read { file, offset, .. } | Self::Pair { source: file, offset, .. } => {
                format!("{}, {offset}", file.as_raw_fd())
            }
            Self::Write { file, offset, range, .. } => {
                format!("{}, {offset}, {}", file.as_raw_fd(), range.len())
            }
            Self::Fsync { file } => file.as_raw_fd().to_string(),
            Self::Close { file } => file.as_raw_fd().to_string(),
        }
    }
}

fn read_entry(
    file: &Arc<Fd>,
    start: *mut u8,
    length: u32,
    fixed: Option<u16>,
    offset: u64,
    cache: Cache,
) -> squeue::Entry {
    match fixed {
        Some(index) => {
            opcode::ReadFixed::new(fd(file), start, length, index).offset(offset).rw_flags(raw(cache)).build()
        }
        None => opcode::Read::new(fd(file), start, length).offset(offset).rw_flags(raw(cache)).build(),
    }
}

fn write_entry(
    file: &Arc<Fd>,
    start: *const u8,
    length: u32,
    fixed: Option<u16>,
    offset: u64,
    cache: Cache,
) -> squeue::Entry {
    match fixed {
        Some(index) => opcode::WriteFixed::new(fd(file), start, length, index)
            .offset(offset)
            .rw_flags(raw(cache))
            .build(),
        None => opcode::Write::new(fd(file), start, length).offset(offset).rw_flags(raw(cache)).build(),
    }
}

fn raw(cache: Cache) -> i32 {
    cache.flags().bits().cast_signed()
}

fn fd(file: &Arc<Fd>) -> types::Fd {
    types::Fd(file.as_raw_fd())
}

fn looked(statx: &UnsafeCell<Statx>) -> Stat {
    // SAFETY: the kernel has answered, so it writes here no more, and the slot is not given out again before this
    // reply. The memory began as a `Statx` of zeros, and any bits the kernel put there are one too.
    Stat::from(unsafe { &*statx.get() })
}

fn opened(raw: RawFd) -> Fd {
    // SAFETY: the kernel has just answered an open with this descriptor, and only this completion says so.
    Fd::new(unsafe { OwnedFd::from_raw_fd(raw) })
}
