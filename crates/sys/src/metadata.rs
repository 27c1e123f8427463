//! Owner, mode and times of an open file. See `pinned.rs` for files that can't be opened.
//!
//! Owner and mode are set through the C library's functions, because `fakeroot` must see the calls
//! and rustix bypasses it.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{Gid, Timespec, Timestamps, Uid};

use crate::error::Result;
use crate::fd::last_errno;
use crate::gate;
use crate::operation::Operation;
use crate::stat::{Mode, Timestamp};

/// An owner and a group; `None` leaves that one unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The numeric user id.
    pub user: Option<u32>,
    /// The numeric group id.
    pub group: Option<u32>,
}

impl Owner {
    pub(crate) fn raw(self) -> (Option<Uid>, Option<Gid>) {
        (self.user.map(Uid::from_raw), self.group.map(Gid::from_raw))
    }

    /// Returns the ids for `fchown`, where -1 means "unchanged".
    fn numbers(self) -> (libc::uid_t, libc::gid_t) {
        (self.user.unwrap_or(u32::MAX), self.group.unwrap_or(u32::MAX))
    }
}

/// Times of last access and last modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Last access.
    pub accessed: Timestamp,
    /// Last modification.
    pub modified: Timestamp,
}

impl Times {
    pub(crate) fn raw(self) -> Timestamps {
        let raw = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanoseconds) };
        Timestamps { last_access: raw(self.accessed), last_modification: raw(self.modified) }
    }
}

/// Sets the mode of an open file.
///
/// # Errors
/// Any error from `fchmod(2)`.
pub fn change_mode(file: impl AsFd, mode: Mode) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fchmod,
        || {
            // SAFETY: passes an open descriptor and a number.
            done(unsafe { libc::fchmod(file.as_raw_fd(), mode.bits()) })
        },
        || format!("{}, {:#o}", file.as_raw_fd(), mode.bits()),
    )
}

/// Converts the return value of a C library function.
pub(crate) fn done(returned: libc::c_int) -> rustix::io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Sets the owner and group of an open file.
///
/// # Errors
/// Any error from `fchown(2)`.
pub fn change_owner(file: impl AsFd, owner: Owner) -> Result<()> {
    let (file, (user, group)) = (file.as_fd(), owner.numbers());
    gate::call(
        Operation::Fchown,
        || {
            // SAFETY: passes an open descriptor and two numbers.
            done(unsafe { libc::fchown(file.as_raw_fd(), user, group) })
        },
        || format!("{}, {owner:?}", file.as_raw_fd()),
    )
}

/// Sets the times of an open file.
///
/// # Errors
/// Any error from `futimens(3)`.
pub fn change_times(file: impl AsFd, times: Times) -> Result<()> {
    let (file, raw) = (file.as_fd(), times.raw());
    gate::call(
        Operation::Utimensat,
        || rustix::fs::futimens(file, &raw),
        || format!("{}, {times:?}", file.as_raw_fd()),
    )
}
