//! What a ring is asked and what it answers.
//!
//! A [`RingRequest`] owns, or shares in owning, everything that the kernel looks at or writes to: descriptors, the name,
//! what a [`Transfer`] has. The addresses given to the kernel lie in heap memory that does not move when the request does:
//! a [`Buffer`]'s pages and the arena of a [`Name`].

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::fs::{AtFlags, OFlags, Statx};
use rustix::io::Errno;

use crate::answer::{counted, is_transient, word};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::names::Name;
use crate::open::Open;
use crate::operation::Operation;
use crate::stat::Stat;
use crate::transfer::{Part, Transfer, Transferred};

use super::slot::{CANCELLED, FIRST, SECOND};

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
    /// Move bytes.
    Transfer(Transfer),
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
    /// What was moved.
    Transferred(Transferred),
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
            Self::Transfer(transfer) => transfer.operation(),
            Self::Close { .. } => Operation::Close,
        }
    }

    /// Returns how many bytes it asks to move.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Transfer(transfer) => transfer.length(),
            _ => 0,
        }
    }

    pub(super) fn is_pair(&self) -> bool {
        matches!(self, Self::Transfer(transfer) if transfer.is_pair())
    }

    /// Returns the file that a part moves bytes of.
    pub(super) fn file(&self, part: usize) -> Option<&Arc<Fd>> {
        match self {
            Self::Transfer(Transfer::Pair { target, .. }) if part == SECOND => Some(target),
            Self::Transfer(
                Transfer::Pair { source: file, .. }
                | Transfer::Read { file, .. }
                | Transfer::Write { file, .. },
            ) => Some(file),
            _ => None,
        }
    }

    /// Returns the buffer that it moves bytes through.
    pub(super) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Transfer(transfer) => transfer.buffer(),
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
        match self {
            Self::Openat { directory, name, how } => {
                let (flags, mode) = how.raw();
                opcode::OpenAt::new(fd(directory), name.as_c_str().as_ptr()).flags(flags).mode(mode).build()
            }
            Self::Statx { file } => opcode::Statx::new(fd(file), NO_NAME.as_ptr(), statx.cast())
                .flags(AtFlags::EMPTY_PATH.bits().cast_signed())
                .mask(crate::stat::WANTED.bits())
                .build(),
            Self::Transfer(transfer) => {
                let read = (part == SECOND).then(|| transfer.length());
                entry(transfer.part(read), length, fixed)
            }
            Self::Close { file } => opcode::Close::new(fd(file)).build(),
        }
    }

    /// Does it now, with the call that waits.
    #[must_use]
    pub fn in_place(self) -> RingReply {
        match self {
            Self::Openat { directory, name, how } => {
                RingReply::Opened(crate::open(&*directory, name.as_c_str(), how))
            }
            Self::Statx { file } => RingReply::Looked(crate::stat(&*file)),
            Self::Transfer(transfer) => RingReply::Transferred(transfer.in_place()),
            Self::Close { file } => RingReply::Closed(file.close()),
        }
    }

    /// Turns the numbers the kernel answered with into a reply; only a pair has two. `statx` is what it wrote, if it was
    /// asked to look.
    pub(super) fn reply(self, results: [i32; 2], holder: Holder, statx: &UnsafeCell<Statx>) -> RingReply {
        let result = results[FIRST];
        let outcome = |operation, arguments: std::fmt::Arguments<'_>| {
            counted(result).map_err(|errno| Error::new(operation, arguments.to_string(), errno))
        };
        match self {
            Self::Transfer(transfer) => RingReply::Transferred(reply(transfer, results)),
            Self::Openat { directory, name, how } => {
                let (flags, mode) = how.raw();
                let flags = OFlags::from_bits_retain(flags.cast_unsigned());
                let (directory, name) = (directory.as_raw_fd(), name.as_c_str());
                let arguments = format_args!("{directory}, {name:?}, {flags:?}, {mode:#o}");
                RingReply::Opened(outcome(Operation::Openat, arguments).map(|_| opened(result)))
            }
            Self::Statx { file } => {
                let arguments = format_args!("{}, {NO_NAME:?}, {:?}", file.as_raw_fd(), AtFlags::EMPTY_PATH);
                RingReply::Looked(outcome(Operation::Statx, arguments).map(|_| looked(statx)))
            }
            Self::Close { file } => {
                let closed = outcome(Operation::Close, format_args!("{}", file.as_raw_fd()));
                match holder {
                    // The number is free, or another file's already: it must not be closed again.
                    Holder::Kernel => mem::forget(file),
                    // The close always runs; its result is replaced by the failure that kept it from the kernel.
                    Holder::Process => drop(file),
                }
                RingReply::Closed(closed.map(drop))
            }
        }
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

    /// Gives up for good the memory and descriptors that the kernel may use after we stop listening to it. It looks up the
    /// files of the second entry of a chain only when it begins with that.
    ///
    /// What is left can be answered and dropped.
    pub(super) fn leak(&mut self) {
        match self {
            Self::Openat { directory, name, .. } => {
                mem::forget(Arc::clone(directory));
                mem::forget(name.clone());
            }
            Self::Statx { file } => mem::forget(Arc::clone(file)),
            Self::Transfer(transfer) => {
                transfer.leak_files();
                transfer.leak_buffer();
            }
            Self::Close { .. } => {}
        }
    }
}

/// Words a part of a transfer for the kernel, bounded by `length`.
fn entry(part: Part<'_>, length: usize, fixed: Option<u16>) -> squeue::Entry {
    let length = u32::try_from(length.min(TRANSFER_MAX)).unwrap_or(u32::MAX);
    let (file, start, offset) = (fd(part.file), part.bytes.as_mut_ptr(), part.offset);
    let flags = part.cache.flags().bits().cast_signed();
    match (part.operation, fixed) {
        (Operation::Read, None) => {
            opcode::Read::new(file, start, length).offset(offset).rw_flags(flags).build()
        }
        (Operation::Read, Some(index)) => {
            opcode::ReadFixed::new(file, start, length, index).offset(offset).rw_flags(flags).build()
        }
        (Operation::Write, None) => {
            opcode::Write::new(file, start, length).offset(offset).rw_flags(flags).build()
        }
        (Operation::Write, Some(index)) => {
            opcode::WriteFixed::new(file, start, length, index).offset(offset).rw_flags(flags).build()
        }
        // A transfer has no other.
        _ => opcode::Fsync::new(file).build(),
    }
}

/// Puts the results of a transfer together. What the kernel cancelled or put off of a pair is not an error but work not yet
/// done: it is done now, one after the other, or left to the caller.
fn reply(mut transfer: Transfer, [first, second]: [i32; 2]) -> Transferred {
    if is_transient(first) || transfer.is_pair() && first == CANCELLED {
        return transfer.in_place();
    }
    let read = transfer.outcome(None, first);
    let asked = Some(transfer.length());
    let written = match second {
        _ if read.is_err() || second == CANCELLED => Ok(0),
        _ if is_transient(second) => return transfer.finish(read),
        // The kernel did not break the chain, and has written what it had not read.
        _ if second > first => transfer.outcome(asked, word(Errno::IO)),
        _ => transfer.outcome(asked, second),
    };
    transfer.reply(read, written)
}

fn fd(file: &impl AsRawFd) -> types::Fd {
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
