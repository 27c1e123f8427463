//! Owned descriptors that report the result of `close`.

use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::process::Stdio;

use crate::error::Result;
use crate::gate;
use crate::operation::Operation;

/// An open descriptor, or the current directory (`AT_FDCWD`), which needs none.
///
/// End one with [`Fd::close`]: a network or FUSE file system may report a lost write only there.
/// Dropping it also closes it, as a backstop for unwinding and for descriptors that were never
/// written to.
pub struct Fd(Option<OwnedFd>);

impl Fd {
    pub(crate) fn new(owned: OwnedFd) -> Self {
        Self(Some(owned))
    }

    /// Returns the current directory, for resolving names only. Nothing calls `chdir` during a run,
    /// so it is as stable as an open directory.
    #[must_use]
    pub const fn current_directory() -> Self {
        Self(None)
    }

    /// Hands the descriptor to a program about to be started.
    pub(crate) fn into_stdio(self) -> Stdio {
        self.0.map_or_else(Stdio::null, Stdio::from)
    }

    /// Closes the descriptor.
    ///
    /// The call is never retried: Linux frees the number even when `close` fails, and another
    /// thread may already have reused it.
    ///
    /// # Errors
    /// Any error from `close(2)`: if the file was written to, data may be lost.
    pub fn close(self) -> Result<()> {
        let Some(owned) = self.0 else { return Ok(()) };
        let raw = owned.into_raw_fd();
        gate::call_once(
            Operation::Close,
            || {
                // SAFETY: `raw` was owned by `self`, which is consumed, so nothing else closes or
                // uses the number.
                match unsafe { libc::close(raw) } {
                    0 => Ok(()),
                    _ => Err(last_errno()),
                }
            },
            || raw.to_string(),
        )
    }
}

/// Reports whether a file system has lost bytes of an open file, as far as `close` would report it:
/// NFS, SMB and FUSE write out their cached data whenever a descriptor is closed. Elsewhere
/// this does nothing.
///
/// # Errors
/// Any error from `fcntl(2)` or `close(2)`.
pub fn flush_as_close_does(file: &Fd) -> Result<()> {
    duplicate(file)?.close()
}

/// Returns another descriptor of the same open file.
pub(crate) fn duplicate(file: &Fd) -> Result<Fd> {
    let duplicated = gate::call(
        Operation::Fcntl,
        || rustix::io::fcntl_dupfd_cloexec(file, 3),
        || format!("{file:?}, F_DUPFD_CLOEXEC, 3"),
    );
    duplicated.map(Fd::new)
}

/// Returns `errno` after a C library call.
pub(crate) fn last_errno() -> rustix::io::Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(rustix::io::Errno::IO, rustix::io::Errno::from_raw_os_error)
}

/// Returns the `/proc/self/fd` path of an open file, for functions that accept only paths.
pub(crate) fn through_proc(file: impl AsFd) -> rustix::io::Result<CString> {
    CString::new(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())).map_err(|_| rustix::io::Errno::INVAL)
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(rustix::fs::CWD, AsFd::as_fd)
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for Fd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.as_raw_fd())
    }
}
