//! Owner, mode and times: of an open file, or of a single name that cannot be opened (symbolic links, special files).
//!
//! Owner and mode are set by the C library's own functions, also where rustix calls the kernel: `fakeroot` has to see
//! them.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, Gid, Mode as RawMode, Timespec, Timestamps, Uid};

use crate::error::{Errno, Result};
use crate::fd::{last_errno, through_proc};
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

    /// Returns the numbers for `fchown`, of which the highest means "as it is".
    fn numbers(self) -> (libc::uid_t, libc::gid_t) {
        (self.user.unwrap_or(u32::MAX), self.group.unwrap_or(u32::MAX))
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
        || {
            // SAFETY: passes an open descriptor and a number.
            done(unsafe { libc::fchmod(file.as_raw_fd(), mode.bits()) })
        },
        || format!("{}, {:#o}", file.as_raw_fd(), mode.bits()),
    )
}

/// Sets the mode of the entry `name` of `directory`; fails on a symbolic link rather than following it.
///
/// The entry is opened as a mere reference and its mode set through `/proc/self/fd`, which names that very file
/// whatever happens to the name meanwhile. Where there is no `/proc`, Linux 6.6 has a call for it (`fchmodat2`).
///
/// # Errors
/// The kernel's; `EOPNOTSUPP` for a symbolic link.
pub fn change_mode_at(directory: impl AsFd, name: &CStr, mode: Mode) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Fchmod,
        || match change_mode_of_reference(directory, name, mode) {
            Err(Errno::NOENT) => {
                let (fd, flags) = (directory.as_raw_fd(), libc::AT_SYMLINK_NOFOLLOW);
                // SAFETY: passes a descriptor, a NUL-terminated name borrowed for the call, and two numbers.
                match unsafe { libc::syscall(libc::SYS_fchmodat2, fd, name.as_ptr(), mode.bits(), flags) } {
                    0 => Ok(()),
                    // Sandboxes answer calls they do not know with either.
                    _ => Err(match last_errno() {
                        Errno::NOSYS | Errno::PERM => Errno::NOENT,
                        errno => errno,
                    }),
                }
            }
            outcome => outcome,
        },
        || format!("{}, {name:?}, {:#o}", directory.as_raw_fd(), mode.bits()),
    )
}

fn change_mode_of_reference(directory: impl AsFd, name: &CStr, mode: Mode) -> rustix::io::Result<()> {
    use rustix::fs::OFlags;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let reference = rustix::fs::openat(directory, name, flags, RawMode::empty())?;
    if rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&reference)?.st_mode).is_symlink() {
        return Err(Errno::OPNOTSUPP);
    }
    let path = through_proc(&reference)?;
    // SAFETY: passes a NUL-terminated path borrowed for the call, and a number.
    done(unsafe { libc::chmod(path.as_ptr(), mode.bits()) })
}

/// Turns what a function of the C library returned into a result.
fn done(returned: libc::c_int) -> rustix::io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Sets owner and group of an open file.
///
/// # Errors
/// The kernel's.
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
