//! Extended attributes of open files. See `pinned.rs` for files that can't be opened.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::XattrFlags;

use crate::error::{Errno, Result};
use crate::fd::last_errno;
use crate::gate;
use crate::interposer::interposer;
use crate::operation::Operation;

/// Numbers of the system calls added in Linux 6.13, the same on every architecture
/// (uapi/asm-generic/unistd.h).
const SETXATTRAT: libc::c_long = 463;
const GETXATTRAT: libc::c_long = 464;
const LISTXATTRAT: libc::c_long = 465;
const REMOVEXATTRAT: libc::c_long = 466;

/// `struct xattr_args` from uapi/linux/xattr.h.
#[repr(C)]
struct XattrArguments {
    value: u64,
    size: u32,
    flags: u32,
}

impl XattrArguments {
    fn of(value: &[u8]) -> Self {
        let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
        Self { value: value.as_ptr() as u64, size, flags: 0 }
    }
}

/// Initial buffer size, in bytes. Most lists and values are small, so one call is enough.
pub(crate) const FIRST_TRY_BYTES: usize = 256;

/// The names of a file's extended attributes.
#[derive(Clone, Debug, Default)]
pub struct XattrNames(pub(crate) Vec<u8>);

impl XattrNames {
    /// Iterates over the names.
    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.0.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
    }

    /// Returns true if there are no attributes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Calls `fill` with a growing buffer until the result fits. Loops because the attribute may grow
/// between two calls.
pub(crate) fn fitting(
    mut fill: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; FIRST_TRY_BYTES];
    loop {
        match fill(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            // The kernel's own limit is 64 KiB (`XATTR_SIZE_MAX` in linux/limits.h).
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => {
                let wanted = buffer.len() * 8;
                buffer.resize(wanted, 0);
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Lists the attributes of an open file. The list is empty if the file system has no attributes.
///
/// # Errors
/// Any error from `flistxattr(2)`; `ENOSYS` in a sandbox without it, where a file may have
/// attributes.
pub fn list_xattrs(file: impl AsFd) -> Result<XattrNames> {
    let file = file.as_fd();
    gate::call(
        Operation::Flistxattr,
        || none_if_unsupported(fitting(|buffer| rustix::fs::flistxattr(file, buffer))),
        || file.as_raw_fd().to_string(),
    )
    .map(XattrNames)
}

pub(crate) fn none_if_unsupported(outcome: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Vec<u8>> {
    match outcome {
        // Some file systems lack attributes.
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        outcome => outcome,
    }
}

/// Returns true if `name` matches the shell pattern: `fnmatch` without flags, as libattr calls it.
#[must_use]
pub fn matches_pattern(pattern: &CStr, name: &CStr) -> bool {
    // SAFETY: passes two NUL-terminated strings borrowed for the call.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
}

/// Reads the attribute `key` of an open file.
///
/// # Errors
/// Any error from `fgetxattr(2)`; `ENODATA` if the file has no such attribute.
pub fn get_xattr(file: impl AsFd, key: &CStr) -> Result<Vec<u8>> {
    let file = file.as_fd();
    gate::call(
        Operation::Fgetxattr,
        || fitting(|buffer| rustix::fs::fgetxattr(file, key, buffer)),
        || format!("{}, {key:?}", file.as_raw_fd()),
    )
}

/// Sets the attribute `key` of an open file.
///
/// # Errors
/// Any error from `fsetxattr(2)`.
pub fn set_xattr(file: impl AsFd, key: &CStr, value: &[u8]) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fsetxattr,
        || rustix::fs::fsetxattr(file, key, value, XattrFlags::empty()),
        || format!("{}, {key:?}, {} bytes", file.as_raw_fd(), value.len()),
    )
}

/// Removes the attribute `key` of an open file. Succeeds if there is none.
///
/// # Errors
/// Any error from `fremovexattr(2)`.
pub fn remove_xattr(file: impl AsFd, key: &CStr) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fremovexattr,
        || match rustix::fs::fremovexattr(file, key) {
            // A file system without attributes has none to remove.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            outcome => outcome,
        },
        || format!("{}, {key:?}", file.as_raw_fd()),
    )
}

/// The system calls of Linux 6.13 that accept an empty path. The C library has no wrappers, so
/// interposing libraries don't see these calls. They are the fallback when there is no `/proc`, but
/// up to Linux 6.18 at least they refuse `O_PATH` descriptors, with `EBADF`.
pub(crate) mod empty_path {
    use super::*;

    const EMPTY: &CStr = c"";

    pub(crate) fn list(file: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        let (fd, flags, length) = (file.as_raw_fd(), libc::AT_EMPTY_PATH, buffer.len());
        // SAFETY: the kernel reads the NUL-terminated name and writes at most `length` bytes
        // to `buffer`.
        length_of(unsafe {
            libc::syscall(LISTXATTRAT, fd, EMPTY.as_ptr(), flags, buffer.as_mut_ptr(), length)
        })
    }

    pub(crate) fn get(file: BorrowedFd<'_>, key: &CStr, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        // The kernel writes at most `buffer.len()` bytes.
        call(
            GETXATTRAT,
            file,
            key,
            XattrArguments { value: buffer.as_mut_ptr() as u64, ..XattrArguments::of(buffer) },
        )
    }

    pub(crate) fn set(file: BorrowedFd<'_>, key: &CStr, value: &[u8]) -> rustix::io::Result<()> {
        call(SETXATTRAT, file, key, XattrArguments::of(value)).map(drop)
    }

    pub(crate) fn remove(file: BorrowedFd<'_>, key: &CStr) -> rustix::io::Result<()> {
        let (fd, flags) = (file.as_raw_fd(), libc::AT_EMPTY_PATH);
        // SAFETY: passes a descriptor, a number and two NUL-terminated names borrowed for the call.
        length_of(unsafe { libc::syscall(REMOVEXATTRAT, fd, EMPTY.as_ptr(), flags, key.as_ptr()) }).map(drop)
    }

    /// Makes a call whose arguments point to memory that the caller keeps borrowed until
    /// it returns.
    fn call(
        number: libc::c_long,
        file: BorrowedFd<'_>,
        key: &CStr,
        mut arguments: XattrArguments,
    ) -> rustix::io::Result<usize> {
        let (fd, flags, arguments) = (file.as_raw_fd(), libc::AT_EMPTY_PATH, &raw mut arguments);
        let size = size_of::<XattrArguments>();
        // SAFETY: `arguments` outlives the call, and so does the memory it describes; the kernel
        // stays within its size.
        length_of(unsafe { libc::syscall(number, fd, EMPTY.as_ptr(), flags, key.as_ptr(), arguments, size) })
    }

    fn length_of(outcome: libc::c_long) -> rustix::io::Result<usize> {
        usize::try_from(outcome).map_err(|_| match last_errno() {
            // Sandboxes return either one for system calls they don't know.
            Errno::NOSYS | Errno::PERM => Errno::NOENT,
            errno => errno,
        })
    }
}

/// The same calls with a directory and a name, instead of a path through `/proc`: resolving that
/// path takes four fifths of the time of `llistxattr(2)` (docs/measurements/sync.md).
pub(crate) mod by_name {
    use super::*;

    /// Set once the kernel, or a sandbox, has refused the call.
    static IS_MISSING: AtomicBool = AtomicBool::new(false);

    /// Lists the attributes of the entry `name` of a directory; if it is a symbolic link, those of
    /// the link itself. Returns `None` if the call can't be used: before Linux 6.13, or under an
    /// interposing library, which wouldn't see it.
    pub(crate) fn list(
        directory: BorrowedFd<'_>,
        name: &CStr,
        names: &mut [u8],
    ) -> Option<rustix::io::Result<usize>> {
        // Relaxed: a thread that sees it late asks the kernel once more.
        if IS_MISSING.load(Ordering::Relaxed) || interposer().is_some() {
            return None;
        }
        let (fd, flags, length) = (directory.as_raw_fd(), libc::AT_SYMLINK_NOFOLLOW, names.len());
        // SAFETY: the kernel reads the NUL-terminated name and writes at most `length` bytes
        // to `names`.
        let listed =
            unsafe { libc::syscall(LISTXATTRAT, fd, name.as_ptr(), flags, names.as_mut_ptr(), length) };
        match usize::try_from(listed).map_err(|_| last_errno()) {
            // Sandboxes return either one for system calls they don't know. If the error is about
            // the file after all, the other call returns it too.
            Err(Errno::NOSYS | Errno::PERM) => {
                IS_MISSING.store(true, Ordering::Relaxed);
                None
            }
            outcome => Some(outcome),
        }
    }
}
