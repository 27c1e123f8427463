//! Opening files: a single component below a held directory, or an operand's path.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType as RawType, Mode as RawMode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fd::{Fd, through_proc};
use crate::gate;
use crate::operation::Operation;
use crate::stat::{FileType, Mode, stat_at};

/// How to open a file. Starts from one of the constants; the methods add to it.
///
/// Every way of opening is close-on-exec, never makes a terminal the controlling one, and follows no symbolic link in
/// the last component unless [`Open::following`] was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    flags: OFlags,
    mode: u32,
}

const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

impl Open {
    /// A file to read. Does not block on a FIFO that stands where a regular file was expected.
    pub const READ: Open = Open { flags: OFlags::RDONLY.union(OFlags::NONBLOCK).union(ALWAYS), mode: 0 };
    /// A directory to list and to resolve names in.
    pub const DIRECTORY: Open =
        Open { flags: OFlags::RDONLY.union(OFlags::DIRECTORY).union(ALWAYS), mode: 0 };
    /// A directory to resolve names in only: works where it may be searched but not listed.
    pub const SEARCH: Open = Open { flags: OFlags::PATH.union(OFlags::DIRECTORY).union(ALWAYS), mode: 0 };
    /// A file of any type, as a mere reference: nothing is read, written or waited for.
    pub const PATH: Open = Open { flags: OFlags::PATH.union(ALWAYS), mode: 0 };
    /// An existing file to write. Does not block on a FIFO that stands where a regular file was expected.
    pub const WRITE: Open = Open { flags: OFlags::WRONLY.union(OFlags::NONBLOCK).union(ALWAYS), mode: 0 };

    /// A new file to write: fails with `EEXIST` when the name is taken, by whatever. `mode` is subject to the umask.
    #[must_use]
    pub const fn create(mode: Mode) -> Open {
        let flags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(ALWAYS);
        Open { flags, mode: mode.bits() }
    }

    /// A new file to write that has no name, where the file system can make one: the name to open is its directory's.
    #[must_use]
    pub const fn unnamed(mode: Mode) -> Open {
        let flags = OFlags::WRONLY.union(OFlags::TMPFILE).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
        Open { flags, mode: mode.bits() }
    }

    /// A new file to write, through a dangling symbolic link if there is one: POSIX's `cp`, unsafe in hostile places.
    #[must_use]
    pub const fn create_through(mode: Mode) -> Open {
        let flags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
        Open { flags, mode: mode.bits() }
    }

    /// Returns the flags as a number that another process of this program understands; a mode is not in it.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.flags.bits()
    }

    /// Tells whether a symbolic link in the last component is followed.
    #[must_use]
    pub const fn follows(self) -> bool {
        !self.flags.contains(OFlags::NOFOLLOW)
    }

    /// Makes the way of opening that [`Open::bits`] has described.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Open {
        Open { flags: OFlags::from_bits_truncate(bits), mode: 0 }
    }

    /// Follows a symbolic link in the last component.
    #[must_use]
    pub const fn following(self) -> Open {
        Open { flags: self.flags.difference(OFlags::NOFOLLOW), mode: self.mode }
    }

    /// Waits for the other end of a FIFO, and for data in one.
    #[must_use]
    pub const fn blocking(self) -> Open {
        Open { flags: self.flags.difference(OFlags::NONBLOCK), mode: self.mode }
    }

    /// Moves data between the caller's memory and the disk, past the page cache (`O_DIRECT`). Offsets, lengths and memory
    /// must then be aligned as the file system wants it; `EINVAL` where it cannot at all.
    #[must_use]
    pub const fn direct(self) -> Open {
        Open { flags: self.flags.union(OFlags::DIRECT), mode: self.mode }
    }

    /// Has every write wait until the data, and what is needed to find it, is on the disk (`O_SYNC`).
    #[must_use]
    pub const fn synchronous(self) -> Open {
        Open { flags: self.flags.union(OFlags::SYNC), mode: self.mode }
    }

    /// Makes the file without a layout where files have one (Lustre's `O_LOV_DELAY_CREATE`): nothing can be written to it
    /// until it was given one, or was opened again. Means nothing elsewhere.
    #[must_use]
    pub const fn without_layout(self) -> Open {
        // Together with `O_NOCTTY`, which all have.
        Open {
            flags: self.flags.union(OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned())),
            mode: self.mode,
        }
    }

    /// Returns the kernel's flag word and mode, for engines that pass an open to the kernel themselves.
    #[must_use]
    pub fn raw(self) -> (i32, u32) {
        (self.flags.bits().cast_signed(), self.mode)
    }
}

/// Opens the entry `name`, a single component, of `directory`.
///
/// # Errors
/// The kernel's; `ELOOP` when the entry is a symbolic link that is not to be followed (`ENOTDIR` for directories).
pub fn open(directory: impl AsFd, name: &CStr, how: Open) -> Result<Fd> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Openat,
        || open_or_wait(directory, name, how),
        || format!("{}, {name:?}, {:?}, {:#o}", directory.as_raw_fd(), how.flags, how.mode),
    )
    .map(Fd::new)
}

/// Opens the parent of an open directory. The caller compares its identity with the parent it expects.
///
/// # Errors
/// The kernel's.
pub fn open_parent(directory: impl AsFd) -> Result<Fd> {
    open(directory, c"..", Open::DIRECTORY)
}

/// Opens an operand by its path, from the current directory. Only for what the user named, never below it.
///
/// # Errors
/// The kernel's.
pub fn open_path(path: &CStr, how: Open) -> Result<Fd> {
    gate::call(
        Operation::Openat,
        || open_or_wait(CWD, path, how),
        || format!("AT_FDCWD, {path:?}, {:?}, {:#o}", how.flags, how.mode),
    )
    .map(Fd::new)
}

/// Opens a directory by its path, for resolving names in only; no component may be a symbolic link.
///
/// Walks component by component, which needs no `openat2`: sandboxes refuse it, and interposing libraries don't know it.
///
/// # Errors
/// The kernel's; `ELOOP` when a component is a symbolic link.
pub fn open_path_without_links(path: &CStr) -> Result<Fd> {
    let bytes = path.to_bytes();
    let start = if bytes.starts_with(b"/") { c"/" } else { c"." };
    let mut directory = open_path(start, Open::SEARCH)?;
    for component in bytes.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
        // Part of a C string, so without a NUL.
        let name = CString::new(component).unwrap_or_default();
        directory = open(&directory, &name, Open::SEARCH).map_err(|cause| {
            // With `O_DIRECTORY` the kernel says `ENOTDIR` of a link, too.
            match stat_at(&directory, &name).is_ok_and(|there| there.kind == FileType::Symlink) {
                true => Error::new(Operation::Openat, cause.arguments().to_owned(), Errno::LOOP),
                false => cause,
            }
        })?;
    }
    Ok(directory)
}

/// Opens a file, and waits for who holds a lease on it (a Samba client, `nfsd`) to give way.
///
/// `O_NONBLOCK`, which is there for FIFOs, makes the kernel answer `EWOULDBLOCK` for a leased file after it asked for the
/// lease back. The file is then opened once more, as a reference (`O_PATH`, which breaks no lease), and if that is a regular
/// file, opened through `/proc/self/fd` without `O_NONBLOCK`. What the reference holds stays a regular file whatever
/// happens to its name, so this waits for a lease and for nothing else: at most `/proc/sys/fs/lease-break-time`.
fn open_or_wait(directory: BorrowedFd<'_>, name: &CStr, how: Open) -> rustix::io::Result<OwnedFd> {
    let mode = RawMode::from_raw_mode(how.mode);
    let outcome = rustix::fs::openat(directory, name, how.flags, mode);
    if !matches!(outcome, Err(Errno::AGAIN)) || !how.flags.contains(OFlags::NONBLOCK) {
        return outcome;
    }
    let reference = OFlags::PATH.union(OFlags::CLOEXEC).union(how.flags.intersection(OFlags::NOFOLLOW));
    let Ok(reference) = rustix::fs::openat(directory, name, reference, RawMode::empty()) else {
        return outcome;
    };
    let is_regular = |stat: rustix::fs::Stat| RawType::from_raw_mode(stat.st_mode) == RawType::RegularFile;
    if !rustix::fs::fstat(&reference).is_ok_and(is_regular) {
        return outcome;
    }
    // The path is a link itself.
    let waiting = how.flags.difference(OFlags::NONBLOCK.union(OFlags::NOFOLLOW));
    match rustix::fs::openat(CWD, through_proc(&reference)?, waiting, mode) {
        // Without /proc the caller learns why the first attempt failed.
        Err(Errno::NOENT) => outcome,
        reopened => reopened,
    }
}
