//! The requests of a ring and their replies.
//!
//! A [`RingRequest`] owns, or shares ownership of, everything the kernel reads or writes:
//! descriptors, the name, the contents of a [`TransferRequest`]. The addresses passed to the kernel
//! are in heap memory that doesn't move when the request does: a [`Buffer`]'s pages and the arena
//! of a [`Name`].

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::fs::{AtFlags, OFlags, Statx};
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::names::Name;
use crate::open::Open;
use crate::operation::Operation;
use crate::raw_result::{counted, is_transient, negated};
use crate::stat::Stat;
use crate::transfer::{TransferPart, TransferRequest, Transferred};

/// Index of the only part of a request, or of the read of a pair.
pub(super) const FIRST: usize = 0;

/// Index of the write of a pair.
pub(super) const SECOND: usize = 1;

/// Result of the part of a chain that the kernel didn't start because the part before it failed or
/// was short.
pub(super) const CANCELLED: i32 = negated(Errno::CANCELED);

/// Maximum bytes the kernel moves in one transfer (`MAX_RW_COUNT`).
const TRANSFER_MAX: usize = 0x7fff_f000;

const NO_NAME: &CStr = c"";

/// An operation to submit to a ring.
#[derive(Debug)]
pub enum RingRequest {
    /// Open a single name in an open directory.
    Openat {
        /// The directory.
        directory: Arc<Fd>,
        /// The name, a single component.
        name: Name,
        /// Flags and mode.
        how: Open,
    },
    /// `statx` an open file.
    Statx {
        /// The file.
        file: Arc<Fd>,
    },
    /// Move bytes.
    Transfer(TransferRequest),
    /// Close a file for good.
    Close {
        /// The file.
        file: Fd,
    },
}

/// The result of a [`RingRequest`], of the corresponding variant.
#[derive(Debug)]
pub enum RingReply {
    /// The opened file.
    Opened(Result<Fd>),
    /// The file's metadata.
    Stated(Result<Stat>),
    /// The result of the transfer.
    Transferred(Transferred),
    /// The result of the close.
    Closed(Result<()>),
}

/// Who owns the descriptor of a close: the kernel once it has accepted the entry, until then
/// this process.
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

    pub(super) fn length(&self) -> usize {
        match self {
            Self::Transfer(transfer) => transfer.length(),
            _ => 0,
        }
    }

    pub(super) fn is_pair(&self) -> bool {
        matches!(self, Self::Transfer(transfer) if transfer.is_pair())
    }

    /// Returns the file that a part reads or writes.
    pub(super) fn file(&self, part: usize) -> Option<&Arc<Fd>> {
        match self {
            Self::Transfer(TransferRequest::Pair { target, .. }) if part == SECOND => Some(target),
            Self::Transfer(
                TransferRequest::Pair { source: file, .. }
                | TransferRequest::Read { file, .. }
                | TransferRequest::Write { file, .. },
            ) => Some(file),
            _ => None,
        }
    }

    pub(super) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Transfer(transfer) => transfer.buffer(),
            _ => None,
        }
    }

    /// Encodes a part as a submission entry. `length` (at most [`RingRequest::length`])
    /// limits a transfer; `fixed` is the buffer's registered index; `statx` receives the
    /// result of a `statx`.
    ///
    /// The entry holds addresses in memory that `self` owns, and `statx`: both must stay valid
    /// until it has completed.
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
                // Encoded before its read has run, so for the whole length: the kernel cancels the
                // write of a short read.
                let read = (part == SECOND).then(|| transfer.length());
                entry(transfer.part(read), length, fixed)
            }
            Self::Close { file } => opcode::Close::new(fd(file)).build(),
        }
    }

    /// Does the request now, synchronously.
    #[must_use]
    pub fn perform_now(self) -> RingReply {
        match self {
            Self::Openat { directory, name, how } => {
                RingReply::Opened(crate::open(&*directory, name.as_c_str(), how))
            }
            Self::Statx { file } => RingReply::Stated(crate::stat(&*file)),
            Self::Transfer(transfer) => RingReply::Transferred(transfer.perform_now()),
            Self::Close { file } => RingReply::Closed(file.close()),
        }
    }

    /// Converts the raw results into a reply; only a pair has two. `statx` holds the result of
    /// a `statx`.
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
                RingReply::Stated(outcome(Operation::Statx, arguments).map(|_| stat_from(statx)))
            }
            Self::Close { file } => {
                let closed = outcome(Operation::Close, format_args!("{}", file.as_raw_fd()));
                match holder {
                    // The number is free, or already another file's: it must not be closed again.
                    Holder::Kernel => mem::forget(file),
                    // The close always runs; its result is replaced by the failure that kept it
                    // from the kernel.
                    Holder::Process => drop(file),
                }
                RingReply::Closed(closed.map(drop))
            }
        }
    }

    /// Drops the request unanswered, given its raw result. A descriptor that the kernel has closed
    /// isn't closed again, and one that it has opened is closed.
    pub(super) fn abandon(self, result: i32, holder: Holder) {
        match self {
            Self::Close { file } if holder == Holder::Kernel => mem::forget(file),
            Self::Openat { .. } if result >= 0 => drop(opened(result)),
            _ => {}
        }
    }

    /// Leaks the memory and descriptors that the kernel may use after the ring is given up. That
    /// includes the files of a chain's second entry, which the kernel looks up only when it starts
    /// that entry.
    ///
    /// The rest of the request can still be answered and dropped.
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

/// Encodes a part of a transfer, limited to `length` bytes.
fn entry(part: TransferPart<'_>, length: usize, fixed: Option<u16>) -> squeue::Entry {
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
        // A transfer has no other operation.
        _ => opcode::Fsync::new(file).build(),
    }
}

/// Combines the results of a transfer. A part of a pair that the kernel cancelled or postponed
/// is not an error but work still to do: it is done now, synchronously and in order, or left to
/// the caller.
fn reply(mut transfer: TransferRequest, [first, second]: [i32; 2]) -> Transferred {
    if is_transient(first) || transfer.is_pair() && first == CANCELLED {
        return transfer.perform_now();
    }
    let read = transfer.outcome(None, first);
    let asked = Some(transfer.length());
    let written = match second {
        _ if read.is_err() || second == CANCELLED => Ok(0),
        _ if is_transient(second) => return transfer.finish(read),
        // The kernel did not break the chain and has written more than was read.
        _ if second > first => transfer.outcome(asked, negated(Errno::IO)),
        _ => transfer.outcome(asked, second),
    };
    transfer.reply(read, written)
}

fn fd(file: &impl AsRawFd) -> types::Fd {
    types::Fd(file.as_raw_fd())
}

fn stat_from(statx: &UnsafeCell<Statx>) -> Stat {
    // SAFETY: the kernel has completed the operation, so it no longer writes here, and the slot
    // isn't reused before this reply. The memory began as an all-zero `Statx`, and any bits the
    // kernel wrote are valid.
    Stat::from(unsafe { &*statx.get() })
}

fn opened(raw: RawFd) -> Fd {
    // SAFETY: the kernel has just returned this descriptor from an open, and only this completion
    // reports it.
    Fd::new(unsafe { OwnedFd::from_raw_fd(raw) })
}
