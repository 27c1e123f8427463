//! Descriptors that the parent process has opened for this one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use crate::data::write_stream;
use crate::error::{Errno, Error, Result};
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;

/// Duplicates a descriptor that the parent process has left open for writing. Children of this
/// process inherit neither of the two.
///
/// Must be called before this process opens files: one of them might have got the number.
///
/// # Errors
/// Any error from `fcntl(2)`; `EBADF` if the descriptor is not open for writing.
pub fn inherited_for_writing(number: u16) -> Result<Fd> {
    // SAFETY: the descriptor is only used below, by calls that fail if it isn't open.
    let inherited = unsafe { BorrowedFd::borrow_raw(i32::from(number)) };
    let duplicate = || {
        let flags = fcntl_getfl(inherited)?;
        let access = flags & OFlags::RWMODE;
        if access == OFlags::RDONLY || flags.contains(OFlags::PATH) {
            return Err(Errno::BADF);
        }
        fcntl_setfd(inherited, FdFlags::CLOEXEC)?;
        // Above the standard streams, of which one may be closed.
        fcntl_dupfd_cloexec(inherited, 3)
    };
    gate::call(Operation::Fcntl, duplicate, || format!("{number}, F_DUPFD_CLOEXEC, 3")).map(Fd::new)
}

/// Keeps children from inheriting a descriptor that the parent process has left open. If it isn't
/// open, there is nothing to inherit.
pub fn keep_from_children(number: u16) {
    // SAFETY: the descriptor is only used by this call, which fails if it isn't open.
    let inherited = unsafe { BorrowedFd::borrow_raw(i32::from(number)) };
    fcntl_setfd(inherited, FdFlags::CLOEXEC).unwrap_or_default();
}

/// Writes all bytes at the descriptor's position, also if the parent process has made it
/// non-blocking (`O_NONBLOCK`). Waits no longer than `patience` for the reader of a pipe or socket.
///
/// This needs no more than `PIPE_BUF` bytes at a time: a pipe that has room takes as many without
/// blocking (pipe(7)).
///
/// # Errors
/// If a write fails, or writes nothing; `ETIMEDOUT` if the reader took nothing for so long.
pub fn write_all_within(file: impl AsFd, mut bytes: &[u8], patience: Duration) -> Result<()> {
    let file = file.as_fd();
    let failure = |why: &str, errno| Err(Error::new(Operation::Write, why.to_owned(), errno));
    let limit = Timespec::try_from(patience).ok();
    while !bytes.is_empty() {
        let is_ready = gate::call(
            Operation::Write,
            || poll(&mut [PollFd::new(&file, PollFlags::OUT)], limit.as_ref()),
            || format!("{}, POLLOUT", file.as_raw_fd()),
        )? > 0;
        if !is_ready {
            return failure("the reader takes nothing", Errno::TIMEDOUT);
        }
        match write_stream(file, bytes) {
            Ok(0) => return failure("0 bytes written", Errno::NOSPC),
            Ok(written) => bytes = &bytes[written..],
            Err(cause) if cause.is(Errno::AGAIN) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}
