//! The four system calls of the kernel's AIO and the two structures they use (`linux/aio_abi.h`).
//!
//! The C library has neither wrappers nor a header for them. A [`Context`] is a kernel queue of
//! operations in flight with a ring of completion events. It is identified by the address where the
//! ring is mapped into this process.
//!
//! Promise: once [`Context::destroy`] has succeeded, the kernel no longer touches memory of any
//! operation of the context. `io_destroy` cancels operations if it can and waits for the rest
//! (Linux 3.16 and later).

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_long, c_ulong};
use rustix::io::Errno;

use crate::error::Result;
use crate::fd::last_errno;
use crate::gate::{self, FaultDecision};
use crate::operation::Operation;
use crate::raw_result::negated;
use crate::transfer::TransferPart;

/// Signals an eventfd on completion (`IOCB_FLAG_RESFD`).
const SIGNAL: u32 = 1;

/// Maximum operations in one `io_submit`. Their addresses are gathered on the stack.
const SUBMIT_MAX: usize = 256;

/// One operation (`struct iocb`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct ControlBlock {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: u32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// One completion (`struct io_event`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct IoEvent {
    data: u64,
    block: u64,
    result: i64,
    result_too: i64,
}

const _: () = assert!(size_of::<ControlBlock>() == 64 && size_of::<IoEvent>() == 32);

impl ControlBlock {
    /// Encodes a part, limited to `length` bytes. Its event carries `index` and signals `eventfd`.
    ///
    /// The block holds an address in the part's buffer, which must stay valid until the kernel is
    /// done with it.
    pub(super) fn new(index: usize, part: TransferPart<'_>, length: usize, eventfd: BorrowedFd<'_>) -> Self {
        let start = part.bytes.as_mut_ptr().expose_provenance() as u64;
        let (opcode, buffer) = match part.operation {
            Operation::Read => (0, start),
            Operation::Write => (1, start),
            // `IOCB_CMD_FSYNC`, the only other operation of a transfer. It must have no address.
            _ => (2, 0),
        };
        Self {
            data: index as u64,
            opcode,
            file: part.file.as_raw_fd().cast_unsigned(),
            buffer,
            length: length as u64,
            offset: part.offset.cast_signed(),
            rw_flags: part.cache.flags().bits(),
            flags: SIGNAL,
            eventfd: eventfd.as_raw_fd().cast_unsigned(),
            ..Self::default()
        }
    }
}

impl IoEvent {
    /// Returns the operation's index and its raw result.
    pub(super) fn take(&self) -> (usize, i32) {
        let answer = i32::try_from(self.result).unwrap_or(negated(Errno::IO));
        (usize::try_from(self.data).unwrap_or(usize::MAX), answer)
    }
}

/// A kernel AIO context.
#[derive(Debug)]
pub(super) struct Context {
    /// Its `aio_context_t`; `None` once destroyed.
    name: Option<c_ulong>,
    /// Number of `io_submit` and `io_getevents` calls.
    calls: u64,
}

impl Context {
    /// Creates a context for `entries` operations in flight.
    ///
    /// # Errors
    /// Any error from `io_setup(2)`: `EAGAIN` if `fs.aio-max-nr` is exhausted, `ENOSYS` or `EPERM`
    /// if AIO is missing or forbidden.
    pub(super) fn new(entries: usize) -> Result<Self> {
        let name = gate::call(
            Operation::IoSetup,
            || {
                let mut name: c_ulong = 0;
                let entries = entries as c_ulong;
                // SAFETY: `name` is zero, as the call requires, and outlives the call.
                let outcome = unsafe { libc::syscall(libc::SYS_io_setup, entries, &raw mut name) };
                number(outcome).map(|_| name)
            },
            || entries.to_string(),
        )?;
        Ok(Self { name: Some(name), calls: 0 })
    }

    /// Submits operations in the order of `indices`; returns how many the kernel accepted. An error
    /// refers to the first one.
    ///
    /// # Safety
    /// Memory that the blocks name must stay valid until their events have been seen or the context
    /// has been destroyed.
    pub(super) unsafe fn submit(
        &mut self,
        blocks: &mut [ControlBlock],
        indices: impl Iterator<Item = usize>,
    ) -> std::result::Result<usize, Errno> {
        let mut addresses = [ptr::null_mut(); SUBMIT_MAX];
        let mut count = 0;
        let start = blocks.as_mut_ptr();
        for (address, index) in addresses.iter_mut().zip(indices) {
            assert!(index < blocks.len(), "an operation without a block");
            *address = start.wrapping_add(index);
            count += 1;
        }
        if let FaultDecision::Fail(errno) = gate::verdict(Operation::IoSubmit, 0) {
            return Err(errno);
        }
        let name = self.name.ok_or(Errno::INVAL)?;
        self.calls += 1;
        // SAFETY: the first `count` addresses point to blocks, which the kernel reads (and marks)
        // only during the call; the caller guarantees the memory that the blocks name.
        number(unsafe { libc::syscall(libc::SYS_io_submit, name, count as c_long, addresses.as_mut_ptr()) })
    }

    /// Returns the number of `io_submit` and `io_getevents` calls.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Checks whether submission is allowed, by submitting nothing.
    ///
    /// # Errors
    /// Any error from `io_submit(2)`: `ENOSYS` or `EPERM` if AIO is forbidden.
    pub(super) fn try_submit(&self) -> std::result::Result<(), Errno> {
        let none: *mut *mut ControlBlock = ptr::null_mut();
        let name = self.name.ok_or(Errno::INVAL)?;
        // SAFETY: with a count of 0 the kernel reads no pointers.
        number(unsafe { libc::syscall(libc::SYS_io_submit, name, 0, none) }).map(drop)
    }

    /// Fetches events, waiting until there are at least `min`. Returns how many it got.
    pub(super) fn fetch(&mut self, min: usize, events: &mut [IoEvent]) -> std::result::Result<usize, Errno> {
        if let FaultDecision::Fail(errno) = gate::verdict(Operation::IoGetevents, 0) {
            return Err(errno);
        }
        let name = self.name.ok_or(Errno::INVAL)?;
        let (least, most) = (min.min(events.len()) as c_long, events.len() as c_long);
        let mut no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if min == 0 { &raw mut no_time } else { ptr::null_mut() };
        self.calls += 1;
        // SAFETY: the kernel writes at most `most` events to `events`, whose fields are valid for
        // any bits, and reads the timeout if there is one; both outlive the call.
        number(unsafe {
            libc::syscall(libc::SYS_io_getevents, name, least, most, events.as_mut_ptr(), timeout)
        })
    }

    /// Destroys the context: cancels the operations in flight or waits for them. The events are
    /// lost.
    ///
    /// # Errors
    /// Any error from `io_destroy(2)`; the kernel may then still touch the memory of operations
    /// in flight.
    pub(super) fn destroy(&mut self) -> Result<()> {
        let Some(name) = self.name.take() else { return Ok(()) };
        gate::call(
            Operation::IoDestroy,
            // SAFETY: passes no pointers; `name` came from `io_setup` and hasn't been destroyed.
            || number(unsafe { libc::syscall(libc::SYS_io_destroy, name) }).map(drop),
            || format!("{name:#x}"),
        )
    }
}

impl Drop for Context {
    /// Destroys a context whose twin couldn't be created. It has nothing in flight.
    fn drop(&mut self) {
        let destroyed = self.destroy();
        debug_assert!(destroyed.is_ok(), "a context of our own could not be destroyed");
    }
}

/// Converts the return value of a C library call.
fn number(outcome: c_long) -> std::result::Result<usize, Errno> {
    usize::try_from(outcome).map_err(|_| last_errno())
}
