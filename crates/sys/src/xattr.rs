//! Extended attributes of open files, and of single names that cannot be opened.
//!
//! A name is reached through `/proc/self/fd/N/name`, where `N` is the held directory and only the one component `name`
//! is resolved, without following a link there. Linux 6.13 has `getxattrat` and its siblings for that, but the C library
//! has no functions for them that `fakeroot` could see; they serve where there is no `/proc`.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::XattrFlags;

use crate::error::{Errno, Result};
use crate::fd::last_errno;
use crate::gate;
use crate::operation::Operation;

/// Numbers of the calls of Linux 6.13, the same on every architecture (uapi/asm-generic/unistd.h).
const SETXATTRAT: libc::c_long = 463;
const GETXATTRAT: libc::c_long = 464;
const LISTXATTRAT: libc::c_long = 465;
const REMOVEXATTRAT: libc::c_long = 466;

/// `struct xattr_args` of uapi/linux/xattr.h.
#[repr(C)]
struct Arguments {
    value: u64,
    size: u32,
    flags: u32,
}

/// Room offered first: most lists and values are small, so one call does.
const FIRST_TRY_BYTES: usize = 256;

/// The names of a file's extended attributes.
#[derive(Clone, Debug, Default)]
pub struct XattrNames(Vec<u8>);

impl XattrNames {
    /// Iterates over the names.
    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.0.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
    }

    /// Tells whether there is no attribute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Calls `fill` with room that grows until the answer fits; the answer may grow between two calls.
fn fitting(mut fill: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut room = vec![0; FIRST_TRY_BYTES];
    loop {
        match fill(&mut room) {
            Ok(length) => {
                room.truncate(length);
                return Ok(room);
            }
            Err(Errno::RANGE) if room.len() < 1 << 20 => {
                let wanted = room.len() * 8;
                room.resize(wanted, 0);
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Lists the attributes of an open file; none where the file system has no attributes.
///
/// # Errors
/// The kernel's.
pub fn list_xattrs(file: impl AsFd) -> Result<XattrNames> {
    let file = file.as_fd();
    gate::call(
        Operation::Flistxattr,
        || none_if_unsupported(fitting(|room| rustix::fs::flistxattr(file, room))),
        || file.as_raw_fd().to_string(),
    )
    .map(XattrNames)
}

fn none_if_unsupported(outcome: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Vec<u8>> {
    match outcome {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Vec::new()),
        outcome => outcome,
    }
}

/// Lists the attributes of the entry `name` of `directory`, of a symbolic link itself.
///
/// # Errors
/// The kernel's.
pub fn list_xattrs_at(directory: impl AsFd, name: &CStr) -> Result<XattrNames> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Flistxattr,
        || {
            none_if_unsupported(fitting(|room| {
                let outcome = rustix::fs::llistxattr(below(directory, name)?, &mut *room);
                // SAFETY: the kernel writes at most `room.len()` bytes to `room`, and reads the NUL-terminated name.
                or_call(outcome, || unsafe {
                    libc::syscall(
                        LISTXATTRAT,
                        directory.as_raw_fd(),
                        name.as_ptr(),
                        libc::AT_SYMLINK_NOFOLLOW,
                        room.as_mut_ptr(),
                        room.len(),
                    )
                })
            }))
        },
        || format!("{}, {name:?}", directory.as_raw_fd()),
    )
    .map(XattrNames)
}

/// Returns what the C library's function answered; where it found nothing, perhaps because there is no `/proc`, makes the
/// new call.
fn or_call(
    outcome: rustix::io::Result<usize>,
    call: impl FnOnce() -> libc::c_long,
) -> rustix::io::Result<usize> {
    match outcome {
        Err(Errno::NOENT) => usize::try_from(call()).map_err(|_| match last_errno() {
            // Sandboxes answer calls they do not know with either.
            Errno::NOSYS | Errno::PERM => Errno::NOENT,
            errno => errno,
        }),
        outcome => outcome,
    }
}

/// Names the entry by the held directory's descriptor.
fn below(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<CString> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    CString::new(path).map_err(|_| Errno::INVAL)
}

/// Reads the attribute `key` of an open file.
///
/// # Errors
/// The kernel's; `ENODATA` when there is none of this name.
pub fn get_xattr(file: impl AsFd, key: &CStr) -> Result<Vec<u8>> {
    let file = file.as_fd();
    gate::call(
        Operation::Fgetxattr,
        || fitting(|room| rustix::fs::fgetxattr(file, key, room)),
        || format!("{}, {key:?}", file.as_raw_fd()),
    )
}

/// Reads the attribute `key` of the entry `name` of `directory`, of a symbolic link itself.
///
/// # Errors
/// The kernel's.
pub fn get_xattr_at(directory: impl AsFd, name: &CStr, key: &CStr) -> Result<Vec<u8>> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Fgetxattr,
        || {
            fitting(|room| {
                let outcome = rustix::fs::lgetxattr(below(directory, name)?, key, &mut *room);
                let mut arguments =
                    Arguments { value: room.as_mut_ptr() as u64, size: room_bytes(room), flags: 0 };
                // SAFETY: `arguments` points to `room`, both live through the call; the kernel writes at most `size`.
                or_call(outcome, || unsafe {
                    libc::syscall(
                        GETXATTRAT,
                        directory.as_raw_fd(),
                        name.as_ptr(),
                        libc::AT_SYMLINK_NOFOLLOW,
                        key.as_ptr(),
                        &raw mut arguments,
                        size_of::<Arguments>(),
                    )
                })
            })
        },
        || format!("{}, {name:?}, {key:?}", directory.as_raw_fd()),
    )
}

fn room_bytes(room: &[u8]) -> u32 {
    u32::try_from(room.len()).unwrap_or(u32::MAX)
}

/// Sets the attribute `key` of an open file.
///
/// # Errors
/// The kernel's.
pub fn set_xattr(file: impl AsFd, key: &CStr, value: &[u8]) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fsetxattr,
        || rustix::fs::fsetxattr(file, key, value, XattrFlags::empty()),
        || format!("{}, {key:?}, {} bytes", file.as_raw_fd(), value.len()),
    )
}

/// Sets the attribute `key` of the entry `name` of `directory`, of a symbolic link itself.
///
/// # Errors
/// The kernel's.
pub fn set_xattr_at(directory: impl AsFd, name: &CStr, key: &CStr, value: &[u8]) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Fsetxattr,
        || match rustix::fs::lsetxattr(below(directory, name)?, key, value, XattrFlags::empty()) {
            Err(Errno::NOENT) => set_at(directory, name, libc::AT_SYMLINK_NOFOLLOW, key, value),
            outcome => outcome,
        },
        || format!("{}, {name:?}, {key:?}, {} bytes", directory.as_raw_fd(), value.len()),
    )
}

/// `setxattrat`, which Linux has since 6.13.
pub(crate) fn set_at(
    directory: impl AsFd,
    name: &CStr,
    flags: i32,
    key: &CStr,
    value: &[u8],
) -> rustix::io::Result<()> {
    let mut arguments = Arguments { value: value.as_ptr() as u64, size: room_bytes(value), flags: 0 };
    // SAFETY: `arguments` points to `value`, both live through the call; the kernel only reads them.
    let outcome = unsafe {
        libc::syscall(
            SETXATTRAT,
            directory.as_fd().as_raw_fd(),
            name.as_ptr(),
            flags,
            key.as_ptr(),
            &raw mut arguments,
            size_of::<Arguments>(),
        )
    };
    if outcome == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Removes the attribute `key` of an open file; one that is not there is no error.
///
/// # Errors
/// The kernel's.
pub fn remove_xattr(file: impl AsFd, key: &CStr) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fremovexattr,
        || match rustix::fs::fremovexattr(file, key) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            outcome => outcome,
        },
        || format!("{}, {key:?}", file.as_raw_fd()),
    )
}

/// Removes the attribute `key` of the entry `name` of `directory`, of a symbolic link itself; one that is not there is no
/// error.
///
/// # Errors
/// The kernel's.
pub fn remove_xattr_at(directory: impl AsFd, name: &CStr, key: &CStr) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Fremovexattr,
        || {
            let removed = match rustix::fs::lremovexattr(below(directory, name)?, key) {
                Err(Errno::NOENT) => remove_at(directory, name, libc::AT_SYMLINK_NOFOLLOW, key),
                outcome => outcome,
            };
            match removed {
                Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
                outcome => outcome,
            }
        },
        || format!("{}, {name:?}, {key:?}", directory.as_raw_fd()),
    )
}

/// `removexattrat`, which Linux has since 6.13.
pub(crate) fn remove_at(directory: impl AsFd, name: &CStr, flags: i32, key: &CStr) -> rustix::io::Result<()> {
    // SAFETY: passes a descriptor, two NUL-terminated names borrowed for the call, and a number.
    let outcome = unsafe {
        libc::syscall(REMOVEXATTRAT, directory.as_fd().as_raw_fd(), name.as_ptr(), flags, key.as_ptr())
    };
    if outcome == 0 { Ok(()) } else { Err(last_errno()) }
}
