//! Extended attributes of open files. What can't be opened is pinned (`pinned.rs`).

use std::ffi::CStr;
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

impl Arguments {
    fn of(value: &[u8]) -> Self {
        let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
        Self { value: value.as_ptr() as u64, size, flags: 0 }
    }
}

/// Room offered first: most lists and values are small, so one call does.
const FIRST_TRY_BYTES: usize = 256;

/// The names of a file's extended attributes.
#[derive(Clone, Debug, Default)]
pub struct XattrNames(pub(crate) Vec<u8>);

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
pub(crate) fn fitting(
    mut fill: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
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

pub(crate) fn none_if_unsupported(outcome: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Vec<u8>> {
    match outcome {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Vec::new()),
        outcome => outcome,
    }
}

/// True if `name` is one of those that the shell's pattern stands for: `fnmatch` without flags, as libattr calls it.
#[must_use]
pub fn matches_pattern(pattern: &CStr, name: &CStr) -> bool {
    // SAFETY: passes two NUL-terminated strings borrowed for the call.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
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

/// The calls of Linux 6.13 that take an `O_PATH` descriptor with an empty path. The C library has no functions for them, so
/// no interposing library sees them: they serve where there is no `/proc`.
pub(crate) mod empty_path {
    use super::*;

    const EMPTY: &CStr = c"";

    pub(crate) fn list(file: BorrowedFd<'_>, room: &mut [u8]) -> rustix::io::Result<usize> {
        let (fd, flags, length) = (file.as_raw_fd(), libc::AT_EMPTY_PATH, room.len());
        // SAFETY: the kernel writes at most `length` bytes to `room`, and reads the NUL-terminated name.
        length_of(unsafe { libc::syscall(LISTXATTRAT, fd, EMPTY.as_ptr(), flags, room.as_mut_ptr(), length) })
    }

    pub(crate) fn get(file: BorrowedFd<'_>, key: &CStr, room: &mut [u8]) -> rustix::io::Result<usize> {
        // The kernel writes at most as many bytes to `room`.
        call(GETXATTRAT, file, key, Arguments { value: room.as_mut_ptr() as u64, ..Arguments::of(room) })
    }

    pub(crate) fn set(file: BorrowedFd<'_>, key: &CStr, value: &[u8]) -> rustix::io::Result<()> {
        call(SETXATTRAT, file, key, Arguments::of(value)).map(drop)
    }

    pub(crate) fn remove(file: BorrowedFd<'_>, key: &CStr) -> rustix::io::Result<()> {
        let (fd, flags) = (file.as_raw_fd(), libc::AT_EMPTY_PATH);
        // SAFETY: passes a descriptor, two NUL-terminated names borrowed for the call, and a number.
        length_of(unsafe { libc::syscall(REMOVEXATTRAT, fd, EMPTY.as_ptr(), flags, key.as_ptr()) }).map(drop)
    }

    /// Makes a call whose arguments point to memory that the caller has borrowed for it.
    fn call(
        number: libc::c_long,
        file: BorrowedFd<'_>,
        key: &CStr,
        mut arguments: Arguments,
    ) -> rustix::io::Result<usize> {
        let (fd, flags, arguments) = (file.as_raw_fd(), libc::AT_EMPTY_PATH, &raw mut arguments);
        let size = size_of::<Arguments>();
        // SAFETY: `arguments` lives through the call and describes memory that does too; the kernel stays within its size.
        length_of(unsafe { libc::syscall(number, fd, EMPTY.as_ptr(), flags, key.as_ptr(), arguments, size) })
    }

    fn length_of(outcome: libc::c_long) -> rustix::io::Result<usize> {
        usize::try_from(outcome).map_err(|_| match last_errno() {
            // Sandboxes answer calls that they don't know with either.
            Errno::NOSYS | Errno::PERM => Errno::NOENT,
            errno => errno,
        })
    }
}
