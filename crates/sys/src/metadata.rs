//! Owner, mode and times: of an open file, or of a single name that cannot be opened (symbolic links, special files).

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, Gid, Mode as RawMode, Timespec, Timestamps, Uid};

use crate::error::{Errno, Result};
use crate::fd::last_errno;
use crate::gate;
use crate::operation::Operation;
use crate::stat::{Mode, Timestamp};

/// An owner and a group; `None` leaves what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub user: Option<u32>,
    /// The group's number.
    pub group: Option<u32>,
}

impl Owner {
    pub(crate) fn raw(self) -> (Option<Uid>, Option<Gid>) {
        (self.user.map(Uid::from_raw), self.group.map(Gid::from_raw))
    }
}

/// Times of last access and modification.
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
/// The kernel's.
pub fn change_mode(file: impl AsFd, mode: Mode) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fchmod,
        || rustix::fs::fchmod(file, RawMode::from_raw_mode(mode.bits())),
        || format!("{}, {:#o}", file.as_raw_fd(), mode.bits()),
    )
}

/// Sets the mode of the entry `name` of `directory`; fails on a symbolic link rather than following it.
///
/// Linux has this call since 6.6 (`fchmodat2`). Before, the entry is opened as a mere reference and its mode set
/// through `/proc/self/fd`, which names that very file whatever happens to the name meanwhile.
///
/// # Errors
/// The kernel's; `EOPNOTSUPP` for a symbolic link.
pub fn change_mode_at(directory: impl AsFd, name: &CStr, mode: Mode) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Fchmod,
        || {
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            // SAFETY: passes a descriptor, a NUL-terminated name borrowed for the call, and two numbers.
            let outcome = unsafe {
                libc::syscall(libc::SYS_fchmodat2, directory.as_raw_fd(), name.as_ptr(), mode.bits(), flags)
            };
            match outcome {
                0 => Ok(()),
                _ => match last_errno() {
                    // Sandboxes answer calls they do not know with either.
                    Errno::NOSYS | Errno::PERM => change_mode_of_reference(directory, name, mode),
                    errno => Err(errno),
                },
            }
        },
        || format!("{}, {name:?}, {:#o}", directory.as_raw_fd(), mode.bits()),
    )
}

fn change_mode_of_reference(directory: impl AsFd, name: &CStr, mode: Mode) -> rustix::io::Result<()> {
    use rustix::fs::{CWD, OFlags};
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let reference = rustix::fs::openat(directory, name, flags, RawMode::empty())?;
    if rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&reference)?.st_mode).is_symlink() {
        return Err(Errno::OPNOTSUPP);
    }
    let path = format!("/proc/self/fd/{}", reference.as_raw_fd());
    rustix::fs::chmodat(CWD, path, RawMode::from_raw_mode(mode.bits()), AtFlags::empty())
}

/// Sets owner and group of an open file.
///
/// # Errors
/// The kernel's.
pub fn change_owner(file: impl AsFd, owner: Owner) -> Result<()> {
    let (file, (user, group)) = (file.as_fd(), owner.raw());
    gate::call(
        Operation::Fchown,
        || rustix::fs::fchown(file, user, group),
        || format!("{}, {owner:?}", file.as_raw_fd()),
    )
}

/// Sets owner and group of the entry `name` of `directory`, of a symbolic link itself.
///
/// # Errors
/// The kernel's.
pub fn change_owner_at(directory: impl AsFd, name: &CStr, owner: Owner) -> Result<()> {
    let (directory, (user, group)) = (directory.as_fd(), owner.raw());
    gate::call(
        Operation::Fchown,
        || rustix::fs::chownat(directory, name, user, group, AtFlags::SYMLINK_NOFOLLOW),
        || format!("{}, {name:?}, {owner:?}", directory.as_raw_fd()),
    )
}

/// Sets the times of an open file.
///
/// # Errors
/// The kernel's.
pub fn change_times(file: impl AsFd, times: Times) -> Result<()> {
    let (file, raw) = (file.as_fd(), times.raw());
    gate::call(
        Operation::Utimensat,
        || rustix::fs::futimens(file, &raw),
        || format!("{}, {times:?}", file.as_raw_fd()),
    )
}

/// Sets the times of the entry `name` of `directory`, of a symbolic link itself.
///
/// # Errors
/// The kernel's.
pub fn change_times_at(directory: impl AsFd, name: &CStr, times: Times) -> Result<()> {
    let (directory, raw) = (directory.as_fd(), times.raw());
    gate::call(
        Operation::Utimensat,
        || rustix::fs::utimensat(directory, name, &raw, AtFlags::SYMLINK_NOFOLLOW),
        || format!("{}, {name:?}, {times:?}", directory.as_raw_fd()),
    )
}
