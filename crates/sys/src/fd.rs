//! Owned descriptors whose close is a result.

use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::process::Stdio;

use crate::error::Result;
use crate::gate;
use crate::operation::Operation;

/// An open descriptor, or the current directory (`AT_FDCWD`), which needs none.
///
/// [`Fd::close`] is the way to end one, because a network or FUSE file system may report a lost write only there.
/// Dropping it closes it too, as a backstop for unwinding and for descriptors through which nothing was written.
pub struct Fd(Option<OwnedFd>);

impl Fd {
    pub(crate) fn new(owned: OwnedFd) -> Self {
        Self(Some(owned))
    }

    /// Returns the current directory, for resolving names in only. Nobody changes it while there
    /// is a run, so it is as fixed as a directory that is open.
    #[must_use]
    pub const fn current_directory() -> Self {
        Self(None)
    }

    /// Gives the descriptor to a program that is to be started.
    pub(crate) fn into_stdio(self) -> Stdio {
        self.0.map_or_else(Stdio::null, Stdio::from)
    }

    /// Closes the descriptor.
    ///
    /// The descriptor is gone afterwards even when an error is returned, as on Linux the number is free at once; so the
    /// call is never repeated.
    ///
    /// # Errors
    /// What `close` returned: for a file that was written to, data may be lost.
    pub fn close(self) -> Result<()> {
        let Some(owned) = self.0 else { return Ok(()) };
        let raw = owned.into_raw_fd();
        gate::call_once(
            Operation::Close,
            || {
                // SAFETY: `raw` was owned by `self`, which is consumed, so nobody else closes or uses the number.
                match unsafe { libc::close(raw) } {
                    0 => Ok(()),
                    _ => Err(last_errno()),
                }
            },
            || raw.to_string(),
        )
    }
}

/// Reads `errno` after a call through the C library.
pub(crate) fn last_errno() -> rustix::io::Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(rustix::io::Errno::IO, rustix::io::Errno::from_raw_os_error)
}

/// Names an open file by its descriptor: the way to it for functions that want a path.
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
