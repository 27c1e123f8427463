//! A file held by an `O_PATH` descriptor, and its metadata read and changed through
//! that descriptor.
//!
//! Symbolic links, FIFOs, sockets and devices can't be opened for this: a link has no open form,
//! opening a FIFO blocks, and opening a device may do anything. So most programs change them by
//! name, and anyone who can write to the directory can swap the name for another file in between. A
//! [`Pinned`] is the object itself: nothing done through it reaches anything else.
//!
//! The kernel accepts an `O_PATH` descriptor in two forms: `AT_EMPTY_PATH`, and the magic link
//! `/proc/self/fd/N`, which leads to the object and no further even if that is a symbolic link.
//! Each call tries one and falls back to the other: libraries that interpose the C library
//! (fakeroot) know only paths, and a chroot may lack `/proc`.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, CWD, Mode as RawMode, OFlags, XattrFlags};

use crate::error::{Errno, Result};
use crate::fd::{Fd, duplicate, last_errno, through_proc};
use crate::gate;
use crate::metadata::{Owner, Times, done};
use crate::open::{Open, open};
use crate::operation::Operation;
use crate::stat::{FileType, Mode, Stat, stat};
use crate::xattr::{FIRST_TRY_BYTES, XattrNames, by_name, empty_path, fitting, none_if_unsupported};

/// The number of `fchmodat2(2)`, of Linux 6.6: the same on every architecture that Rust supports.
/// The crate libc has it for some only.
const FCHMODAT2: libc::c_long = 452;

/// A file of any type, held by an `O_PATH` descriptor.
#[derive(Debug)]
pub struct Pinned(Fd);

impl Pinned {
    /// Pins the entry `name` of `directory`; if it is a symbolic link, the link itself.
    ///
    /// # Errors
    /// Any error from `openat(2)`.
    pub fn open(directory: impl AsFd, name: &CStr) -> Result<Self> {
        open(directory, name, Open::PATH).map(Self)
    }

    /// Pins the entry `name` of `directory`; if it is a symbolic link, its target.
    ///
    /// # Errors
    /// Any error from `openat(2)`.
    pub fn follow(directory: impl AsFd, name: &CStr) -> Result<Self> {
        open(directory, name, Open::PATH.following()).map(Self)
    }

    /// Pins the object that an `O_PATH` descriptor refers to.
    ///
    /// # Errors
    /// Any error from `fcntl(2)`.
    pub fn of(reference: &Fd) -> Result<Self> {
        duplicate(reference).map(Self)
    }

    /// Returns its metadata.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn stat(&self) -> Result<Stat> {
        stat(&self.0)
    }

    /// Opens it for reading, if it is a regular file; returns `None` for anything else, which is
    /// not opened. Waits for a lease on it.
    ///
    /// # Errors
    /// Any error from `statx(2)` and `openat(2)`; `ENOENT` without `/proc`.
    pub fn open_regular(&self) -> Result<Option<Fd>> {
        if self.stat()?.kind != FileType::Regular {
            return Ok(None);
        }
        // The magic link leads to the file that was just checked, whatever has its name now. It is
        // a link itself, so no `O_NOFOLLOW`.
        let flags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
        gate::call(
            Operation::Openat,
            || rustix::fs::openat(CWD, through_proc(&self.0)?, flags, RawMode::empty()),
            || format!("/proc/self/fd/{}, {flags:?}", self.0.as_raw_fd()),
        )
        .map(|fd| Some(Fd::new(fd)))
    }

    /// Sets its mode.
    ///
    /// # Errors
    /// Any error from `chmod(2)`; `EOPNOTSUPP` for a symbolic link.
    pub fn change_mode(&self, mode: Mode) -> Result<()> {
        // Through the C library: fakeroot must see the call, and rustix bypasses it.
        let by_path = || {
            let path = through_proc(&self.0)?;
            // SAFETY: passes a NUL-terminated path borrowed for the call, and a number.
            done(unsafe { libc::chmod(path.as_ptr(), mode.bits()) })
        };
        let by_descriptor = || {
            let (fd, flags) = (self.0.as_raw_fd(), libc::AT_EMPTY_PATH);
            // SAFETY: passes a descriptor, an empty NUL-terminated name, and two numbers.
            match unsafe { libc::syscall(FCHMODAT2, fd, c"".as_ptr(), mode.bits(), flags) } {
                0 => Ok(()),
                _ => Err(last_errno()),
            }
        };
        let perform = || by_path_first(by_path, by_descriptor);
        self.call(Operation::Fchmod, perform, || format!("{:#o}", mode.bits()))
    }

    /// Sets its owner and group.
    ///
    /// # Errors
    /// Any error from `fchownat(2)`.
    pub fn change_owner(&self, owner: Owner) -> Result<()> {
        let (user, group) = owner.raw();
        self.call(
            Operation::Fchown,
            || {
                by_descriptor_first(
                    || rustix::fs::chownat(&self.0, c"", user, group, AtFlags::EMPTY_PATH),
                    || rustix::fs::chownat(CWD, through_proc(&self.0)?, user, group, AtFlags::empty()),
                )
            },
            || format!("{owner:?}"),
        )
    }

    /// Sets its times.
    ///
    /// # Errors
    /// Any error from `utimensat(2)`.
    pub fn change_times(&self, times: Times) -> Result<()> {
        let raw = times.raw();
        self.call(
            Operation::Utimensat,
            || {
                by_descriptor_first(
                    || rustix::fs::utimensat(&self.0, c"", &raw, AtFlags::EMPTY_PATH),
                    || rustix::fs::utimensat(CWD, through_proc(&self.0)?, &raw, AtFlags::empty()),
                )
            },
            || format!("{times:?}"),
        )
    }

    /// Creates a hard link to it: `new_name` in `new_directory`.
    ///
    /// # Errors
    /// Any error from `linkat(2)`; `EEXIST` if the name exists.
    pub fn link(&self, new_directory: impl AsFd, new_name: &CStr) -> Result<()> {
        let new_directory = new_directory.as_fd();
        // The magic link first: `AT_EMPTY_PATH` needs a capability (linkat(2)).
        let by_path = || {
            let path = through_proc(&self.0)?;
            rustix::fs::linkat(CWD, path, new_directory, new_name, AtFlags::SYMLINK_FOLLOW)
        };
        let by_descriptor = || rustix::fs::linkat(&self.0, c"", new_directory, new_name, AtFlags::EMPTY_PATH);
        gate::call(
            Operation::Linkat,
            || by_path_first(by_path, by_descriptor),
            || format!("{}, {}, {new_name:?}", self.0.as_raw_fd(), new_directory.as_raw_fd()),
        )
    }

    /// Returns the `O_PATH` descriptor itself.
    #[must_use]
    pub fn into_descriptor(self) -> Fd {
        self.0
    }

    /// Returns the descriptor, for querying its file system.
    #[must_use]
    pub fn descriptor(&self) -> &Fd {
        &self.0
    }

    /// Lists its extended attributes. The list is empty if the file system has no attributes.
    ///
    /// # Errors
    /// Any error from `listxattr(2)`; `ENOSYS` in a sandbox without it, where a file may have
    /// attributes.
    pub fn list_xattrs(&self) -> Result<XattrNames> {
        let list = |buffer: &mut [u8]| match rustix::fs::listxattr(through_proc(&self.0)?, &mut *buffer) {
            Err(Errno::NOENT) => empty_path::list(self.as_fd(), buffer),
            outcome => outcome,
        };
        let call = || none_if_unsupported(fitting(list));
        gate::call(Operation::Flistxattr, call, || self.0.as_raw_fd().to_string()).map(XattrNames)
    }

    /// Reads its extended attribute `key`.
    ///
    /// # Errors
    /// Any error from `getxattr(2)`; `ENODATA` if there is no such attribute.
    pub fn get_xattr(&self, key: &CStr) -> Result<Vec<u8>> {
        let get = |buffer: &mut [u8]| match rustix::fs::getxattr(through_proc(&self.0)?, key, &mut *buffer) {
            Err(Errno::NOENT) => empty_path::get(self.as_fd(), key, buffer),
            outcome => outcome,
        };
        gate::call(Operation::Fgetxattr, || fitting(get), || format!("{}, {key:?}", self.0.as_raw_fd()))
    }

    /// Sets its extended attribute `key`.
    ///
    /// # Errors
    /// Any error from `setxattr(2)`.
    pub fn set_xattr(&self, key: &CStr, value: &[u8]) -> Result<()> {
        self.call(
            Operation::Fsetxattr,
            || {
                by_path_first(
                    || rustix::fs::setxattr(through_proc(&self.0)?, key, value, XattrFlags::empty()),
                    || empty_path::set(self.as_fd(), key, value),
                )
            },
            || format!("{key:?}, {} bytes", value.len()),
        )
    }

    /// Removes its extended attribute `key`. Succeeds if there is none.
    ///
    /// # Errors
    /// Any error from `removexattr(2)`.
    pub fn remove_xattr(&self, key: &CStr) -> Result<()> {
        self.call(
            Operation::Fremovexattr,
            || {
                let removed = by_path_first(
                    || rustix::fs::removexattr(through_proc(&self.0)?, key),
                    || empty_path::remove(self.as_fd(), key),
                );
                match removed {
                    // A file system without attributes has none to remove.
                    Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
                    outcome => outcome,
                }
            },
            || format!("{key:?}"),
        )
    }

    fn call(
        &self,
        operation: Operation,
        perform: impl FnMut() -> rustix::io::Result<()>,
        describe: impl FnOnce() -> String,
    ) -> Result<()> {
        gate::call(operation, perform, || format!("{}, {}", self.0.as_raw_fd(), describe()))
    }
}

impl AsFd for Pinned {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Tries the descriptor with an empty path, then the magic link. A kernel that knows
/// `AT_EMPTY_PATH` (for `utimensat` since 5.8) can't fail with `ENOENT` or `EINVAL` here: an
/// interposing library has looked up the empty path.
fn by_descriptor_first(
    by_descriptor: impl FnOnce() -> rustix::io::Result<()>,
    by_path: impl FnOnce() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match by_descriptor() {
        Err(Errno::NOENT | Errno::INVAL) => by_path(),
        outcome => outcome,
    }
}

/// Tries the magic link. If there is no `/proc`, tries the descriptor with an empty path, a newer
/// system call that no interposing library knows.
fn by_path_first(
    by_path: impl FnOnce() -> rustix::io::Result<()>,
    by_descriptor: impl FnOnce() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match by_path() {
        Err(Errno::NOENT | Errno::NOTDIR) => by_descriptor(),
        outcome => outcome,
    }
}

/// Returns true if the entry `name` of a directory, itself if it is a symbolic link, has extended
/// attributes other than those for which `ignores` is true. Makes one call; pinning the entry would
/// take three. Also returns true if the names don't fit in a small buffer.
///
/// # Errors
/// Any error from `listxattrat(2)` or `llistxattr(2)`.
pub fn has_xattrs_at(directory: impl AsFd, name: &CStr, ignores: impl Fn(&CStr) -> bool) -> Result<bool> {
    let directory = directory.as_fd();
    let counts = |name: &[u8]| CStr::from_bytes_with_nul(name).is_ok_and(|name| !ignores(name));
    let call = || {
        let mut names = [0; FIRST_TRY_BYTES];
        let listed = by_name::list(directory, name, &mut names);
        match listed.unwrap_or_else(|| list_through_proc(directory, name, &mut names)) {
            Ok(length) => Ok(names[..length].split_inclusive(|byte| *byte == 0).any(counts)),
            // More names than fit.
            Err(Errno::RANGE) => Ok(true),
            // Some file systems lack attributes.
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno),
        }
    };
    match gate::call(Operation::Flistxattr, call, || format!("{}, {name:?}", directory.as_raw_fd())) {
        // There may be no `/proc`.
        Err(cause) if cause.is(Errno::NOENT) => {
            Pinned::open(directory, name)?.list_xattrs().map(|names| names.iter().any(|name| !ignores(name)))
        }
        outcome => outcome,
    }
}

fn list_through_proc(directory: BorrowedFd<'_>, name: &CStr, names: &mut [u8]) -> rustix::io::Result<usize> {
    let mut path = through_proc(directory)?.into_bytes();
    path.push(b'/');
    path.extend_from_slice(name.to_bytes());
    rustix::fs::llistxattr(path.as_slice(), names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::stat::Timestamp;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("haul-pinned-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn what_is_pinned_is_changed_though_the_name_leads_elsewhere() {
        let folder = folder("renamed");
        for name in ["one", "other"] {
            std::fs::write(folder.join(name), name).unwrap();
            std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o644)).unwrap();
        }
        let directory = std::fs::File::open(&folder).unwrap();
        let pinned = Pinned::open(&directory, c"one").unwrap();
        std::fs::rename(folder.join("one"), folder.join("moved")).unwrap();
        std::fs::rename(folder.join("other"), folder.join("one")).unwrap();
        let moment = Timestamp { seconds: 1_000_000, nanoseconds: 5 };
        pinned.change_mode(Mode::OWNER_READ).unwrap();
        pinned.change_times(Times { accessed: moment, modified: moment }).unwrap();
        pinned.change_owner(Owner { user: None, group: None }).unwrap();
        pinned.remove_xattr(c"user.absent").unwrap();
        let (moved, one) = (folder.join("moved").metadata().unwrap(), folder.join("one").metadata().unwrap());
        assert_eq!((moved.mode() & 0o7777, moved.mtime(), moved.mtime_nsec()), (0o400, 1_000_000, 5));
        assert_eq!(one.mode() & 0o7777, 0o644);
        assert_ne!(one.mtime(), 1_000_000);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_pinned_gets_the_further_name() {
        let folder = folder("linked");
        std::fs::write(folder.join("one"), "one").unwrap();
        symlink("one", folder.join("link")).unwrap();
        let directory = std::fs::File::open(&folder).unwrap();
        let [one, link] = [c"one", c"link"].map(|name| Pinned::open(&directory, name).unwrap());
        std::fs::rename(folder.join("one"), folder.join("moved")).unwrap();
        std::fs::write(folder.join("one"), "other").unwrap();
        one.link(&directory, c"further").unwrap();
        assert!(one.link(&directory, c"further").unwrap_err().is(Errno::EXIST));
        assert_eq!(std::fs::read(folder.join("further")).unwrap(), b"one");
        // The link itself, not its target.
        link.link(&directory, c"further-link").unwrap();
        assert!(folder.join("further-link").symlink_metadata().unwrap().is_symlink());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn attributes_are_found_by_name_and_through_proc() {
        let folder = folder("listed");
        for name in ["without", "with", "many"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        symlink("with", folder.join("link")).unwrap();
        let directory = std::fs::File::open(&folder).unwrap();
        let has = |name: &CStr| has_xattrs_at(&directory, name, |_| false).unwrap();
        // Where security modules label every file, all have some.
        let is_labelled = has(c"without");
        let set = |name: &CStr, key: &CStr| Pinned::open(&directory, name)?.set_xattr(key, b"value");
        let can_set = set(c"with", c"user.key").is_ok();
        for number in 0..if can_set { 20 } else { 0 } {
            let key = std::ffi::CString::new(format!("user.{number:020}")).unwrap();
            set(c"many", &key).unwrap();
        }
        assert_eq!(has(c"link"), is_labelled);
        assert_eq!([has(c"with"), has(c"many")], [can_set || is_labelled; 2]);
        let others = |name: &CStr| has_xattrs_at(&directory, name, |key| key == c"user.key").unwrap();
        assert_eq!([others(c"with"), others(c"many")], [is_labelled, can_set || is_labelled]);
        assert!(has_xattrs_at(&directory, c"absent", |_| false).unwrap_err().is(Errno::NOENT));
        for name in [c"without", c"with", c"many", c"link", c"absent"] {
            let (mut names, mut others) = ([0; FIRST_TRY_BYTES], [0; FIRST_TRY_BYTES]);
            let listed = list_through_proc(directory.as_fd(), name, &mut names);
            if let Some(other) = by_name::list(directory.as_fd(), name, &mut others) {
                assert_eq!((listed, names), (other, others), "{name:?}");
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_is_changed_itself() {
        let folder = folder("link");
        std::fs::write(folder.join("end"), "").unwrap();
        symlink("end", folder.join("link")).unwrap();
        let directory = std::fs::File::open(&folder).unwrap();
        let pinned = Pinned::open(&directory, c"link").unwrap();
        let moment = Timestamp { seconds: 77, nanoseconds: 0 };
        pinned.change_times(Times { accessed: moment, modified: moment }).unwrap();
        assert!(pinned.change_mode(Mode::OWNER_READ).unwrap_err().is(Errno::OPNOTSUPP));
        assert_eq!(folder.join("link").symlink_metadata().unwrap().mtime(), 77);
        assert_ne!(folder.join("end").metadata().unwrap().mtime(), 77);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
