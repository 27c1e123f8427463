//! Opening files: a single component below an open directory, or an operand's path.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType as RawType, Mode as RawMode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fd::{Fd, through_proc};
use crate::gate;
use crate::operation::Operation;
use crate::stat::{FileType, Mode, stat_at};

/// Flags and mode for opening a file. Start from one of the constants, and add to it with the
/// methods.
///
/// Every `Open` sets close-on-exec and never acquires a controlling terminal. A symbolic link in
/// the last component is followed only by [`Open::following`] and [`Open::create_through`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    flags: OFlags,
    mode: u32,
}

const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

/// The flag `O_NONBLOCK` for [`OpenOptionsExt::custom_flags`](std::os::unix::fs::OpenOptionsExt):
/// opening a FIFO doesn't wait for its other end.
pub const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

impl Open {
    /// Opens a file for reading. Doesn't block on a FIFO found where a regular file was expected.
    pub const READ: Open = Open { flags: OFlags::RDONLY.union(OFlags::NONBLOCK).union(ALWAYS), mode: 0 };
    /// Opens a directory for listing and for resolving names in it.
    pub const DIRECTORY: Open =
        Open { flags: OFlags::RDONLY.union(OFlags::DIRECTORY).union(ALWAYS), mode: 0 };
    /// Opens a directory for resolving names only: needs search permission, not read permission.
    pub const SEARCH: Open = Open { flags: OFlags::PATH.union(OFlags::DIRECTORY).union(ALWAYS), mode: 0 };
    /// Opens a reference to a file of any type (`O_PATH`): reads nothing, writes nothing,
    /// never blocks.
    pub const PATH: Open = Open { flags: OFlags::PATH.union(ALWAYS), mode: 0 };
    /// Opens an existing file for writing. Doesn't block on a FIFO found where a regular file
    /// was expected.
    pub const WRITE: Open = Open { flags: OFlags::WRONLY.union(OFlags::NONBLOCK).union(ALWAYS), mode: 0 };

    /// Creates a file for writing. Fails with `EEXIST` if the name exists. `mode` is subject to
    /// the umask.
    #[must_use]
    pub const fn create(mode: Mode) -> Open {
        let flags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(ALWAYS);
        Open { flags, mode: mode.bits() }
    }

    /// Creates an unnamed file for writing (`O_TMPFILE`), if the file system can. The name to open
    /// is that of its directory.
    #[must_use]
    pub const fn unnamed(mode: Mode) -> Open {
        let flags = OFlags::WRONLY.union(OFlags::TMPFILE).union(ALWAYS);
        Open { flags, mode: mode.bits() }
    }

    /// Creates a file for writing, through a dangling symbolic link if there is one. POSIX requires
    /// this of `cp`; it is unsafe in a directory that others can write to.
    #[must_use]
    pub const fn create_through(mode: Mode) -> Open {
        let flags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
        Open { flags, mode: mode.bits() }
    }

    /// Writes everything to the end of the file (`O_APPEND`).
    #[must_use]
    pub const fn appending(self) -> Open {
        Open { flags: self.flags.union(OFlags::APPEND), mode: self.mode }
    }

    /// Returns the flags, without the mode, as a number to pass to another haul process.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.flags.bits()
    }

    /// Returns true if a symbolic link in the last component is followed.
    #[must_use]
    pub const fn follows(self) -> bool {
        !self.flags.contains(OFlags::NOFOLLOW)
    }

    /// Returns true if the descriptor is only a reference (`O_PATH`), through which nothing is read
    /// or changed.
    #[must_use]
    pub const fn is_reference(self) -> bool {
        self.flags.contains(OFlags::PATH)
    }

    /// Restores an `Open` from [`Open::bits`], with mode 0.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Open {
        Open { flags: OFlags::from_bits_truncate(bits), mode: 0 }
    }

    /// Follows a symbolic link in the last component.
    #[must_use]
    pub const fn following(self) -> Open {
        Open { flags: self.flags.difference(OFlags::NOFOLLOW), mode: self.mode }
    }

    /// Blocks until a FIFO has a peer, and until it has data.
    #[must_use]
    pub const fn blocking(self) -> Open {
        Open { flags: self.flags.difference(OFlags::NONBLOCK), mode: self.mode }
    }

    /// Bypasses the page cache (`O_DIRECT`). Offsets, lengths and memory must be aligned as the
    /// file system requires; file systems without direct I/O fail with `EINVAL`.
    #[must_use]
    pub const fn direct(self) -> Open {
        Open { flags: self.flags.union(OFlags::DIRECT), mode: self.mode }
    }

    /// Makes every write wait until the data, and the metadata needed to read it, are on
    /// disk (`O_SYNC`).
    #[must_use]
    pub const fn synchronous(self) -> Open {
        Open { flags: self.flags.union(OFlags::SYNC), mode: self.mode }
    }

    /// Creates the file without a layout on Lustre (`O_LOV_DELAY_CREATE`). It can't be written
    /// until it gets one or is opened again. Has no effect on other file systems.
    #[must_use]
    pub const fn without_layout(self) -> Open {
        // Lustre looks for `O_ASYNC` together with `O_NOCTTY`, which every `Open` has.
        Open {
            flags: self.flags.union(OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned())),
            mode: self.mode,
        }
    }

    /// Returns the kernel's flags and mode, for engines that submit the open themselves.
    #[must_use]
    pub fn raw(self) -> (i32, u32) {
        (self.flags.bits().cast_signed(), self.mode)
    }
}

/// Opens the entry `name`, a single component, of `directory`.
///
/// # Errors
/// Any error from `openat(2)`; `ELOOP` if the entry is a symbolic link that must not be followed
/// (`ENOTDIR` with [`Open::DIRECTORY`]).
pub fn open(directory: impl AsFd, name: &CStr, how: Open) -> Result<Fd> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Openat,
        || open_or_wait(directory, name, how),
        || format!("{}, {name:?}, {:?}, {:#o}", directory.as_raw_fd(), how.flags, how.mode),
    )
    .map(Fd::new)
}

/// Opens the parent of an open directory. The caller must compare its identity with the expected
/// parent: the directory may have been moved.
///
/// # Errors
/// Any error from `openat(2)`.
pub fn open_parent(directory: impl AsFd) -> Result<Fd> {
    open(directory, c"..", Open::DIRECTORY)
}

/// Opens an operand by its path, relative to the current directory. Use it only for paths the user
/// named, never for entries found below them.
///
/// # Errors
/// Any error from `openat(2)`.
pub fn open_path(path: &CStr, how: Open) -> Result<Fd> {
    gate::call(
        Operation::Openat,
        || open_or_wait(CWD, path, how),
        || format!("AT_FDCWD, {path:?}, {:?}, {:#o}", how.flags, how.mode),
    )
    .map(Fd::new)
}

/// Opens a directory by its path, for resolving names only, and refuses symbolic links in
/// every component.
///
/// Walks one component at a time instead of calling `openat2`: sandboxes block that call and
/// interposing libraries don't know it.
///
/// # Errors
/// Any error from `openat(2)`; `ELOOP` if a component is a symbolic link.
pub fn open_path_without_links(path: &CStr) -> Result<Fd> {
    let bytes = path.to_bytes();
    let start = if bytes.starts_with(b"/") { c"/" } else { c"." };
    let mut directory = open_path(start, Open::SEARCH)?;
    for component in bytes.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
        // A slice of a C string has no NUL inside, so this can't fail.
        let name = CString::new(component).unwrap_or_default();
        directory = open(&directory, &name, Open::SEARCH).map_err(|cause| {
            // With `O_DIRECTORY` the kernel reports a symbolic link as `ENOTDIR` too.
            match stat_at(&directory, &name).is_ok_and(|there| there.kind == FileType::Symlink) {
                true => Error::new(Operation::Openat, cause.arguments().to_owned(), Errno::LOOP),
                false => cause,
            }
        })?;
    }
    Ok(directory)
}

/// Opens a file. If someone (a Samba client, `nfsd`) holds a lease on it, waits for the lease to
/// be released.
///
/// With `O_NONBLOCK`, which is set because of FIFOs, the kernel starts breaking the lease and fails
/// with `EWOULDBLOCK`. The file is then opened with `O_PATH`, which breaks no lease. If it is a
/// regular file, it is reopened through `/proc/self/fd` without `O_NONBLOCK`. The `O_PATH`
/// descriptor keeps referring to that regular file whatever happens to the name, so the reopen can
/// only wait for a lease: at most `/proc/sys/fs/lease-break-time`.
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
    // The path in `/proc` is itself a symbolic link, so `O_NOFOLLOW` must go.
    let waiting = how.flags.difference(OFlags::NONBLOCK.union(OFlags::NOFOLLOW));
    match rustix::fs::openat(CWD, through_proc(&reference)?, waiting, mode) {
        // Without `/proc`, report the first error.
        Err(Errno::NOENT) => outcome,
        reopened => reopened,
    }
}
