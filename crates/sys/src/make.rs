//! Creating, linking, renaming and removing single names in open directories.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, CWD, FileType as RawType, Mode as RawMode, RenameFlags};

use crate::error::{Errno, Result};
use crate::fd::through_proc;
use crate::gate;
use crate::interposer::interposer;
use crate::operation::Operation;
use crate::stat::{FileType, Mode};

/// Creates the directory `name` in `directory`. `mode` is subject to the umask.
///
/// # Errors
/// Any error from `mkdirat(2)`.
pub fn make_directory(directory: impl AsFd, name: &CStr, mode: Mode) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Mkdirat,
        || rustix::fs::mkdirat(directory, name, RawMode::from_raw_mode(mode.bits())),
        || format!("{}, {name:?}, {:#o}", directory.as_raw_fd(), mode.bits()),
    )
}

/// A FIFO, socket, device, or empty regular file to create.
#[derive(Clone, Copy, Debug)]
pub struct Special {
    /// Its type.
    pub kind: FileType,
    /// Its mode, subject to the umask.
    pub mode: Mode,
    /// The device number, if it is a device.
    pub device_number: u64,
}

/// Creates the special or empty regular file `name` in `directory` without opening it.
///
/// # Errors
/// Any error from `mknodat(2)`; `EINVAL` for a type other than FIFO, socket, device and
/// regular file.
pub fn make_special(directory: impl AsFd, name: &CStr, special: Special) -> Result<()> {
    let directory = directory.as_fd();
    let kind = match special.kind {
        FileType::Fifo => RawType::Fifo,
        FileType::Socket => RawType::Socket,
        FileType::CharacterDevice => RawType::CharacterDevice,
        FileType::BlockDevice => RawType::BlockDevice,
        FileType::Regular => RawType::RegularFile,
        _ => RawType::Unknown,
    };
    gate::call(
        Operation::Mknodat,
        || {
            if kind == RawType::Unknown {
                return Err(Errno::INVAL);
            }
            let mode = RawMode::from_raw_mode(special.mode.bits());
            // fakeroot creates a regular file instead, with an open that would truncate an existing
            // file or block on a FIFO. So check that the name is free.
            if interposer().is_some() {
                match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => {}
                    there => return there.and(Err(Errno::EXIST)),
                }
            }
            rustix::fs::mknodat(directory, name, kind, mode, special.device_number)
        },
        || format!("{}, {name:?}, {special:?}", directory.as_raw_fd()),
    )
}

/// Creates the symbolic link `name` in `directory`, pointing to `content`.
///
/// # Errors
/// Any error from `symlinkat(2)`.
pub fn make_symlink(content: &CStr, directory: impl AsFd, name: &CStr) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Symlinkat,
        || rustix::fs::symlinkat(content, directory, name),
        || format!("{content:?}, {}, {name:?}", directory.as_raw_fd()),
    )
}

/// Creates a hard link `new_name` in `new_directory` to the entry `name` of `directory`. Doesn't
/// follow a symbolic link.
///
/// # Errors
/// Any error from `linkat(2)`.
pub fn link(directory: impl AsFd, name: &CStr, new_directory: impl AsFd, new_name: &CStr) -> Result<()> {
    let (directory, new_directory) = (directory.as_fd(), new_directory.as_fd());
    gate::call(
        Operation::Linkat,
        || rustix::fs::linkat(directory, name, new_directory, new_name, AtFlags::empty()),
        || format!("{}, {name:?}, {}, {new_name:?}", directory.as_raw_fd(), new_directory.as_raw_fd()),
    )
}

/// Creates a hard link to `path`, relative to `directory` or, if `None`, to the current directory.
/// `follow` decides whether a symbolic link in the last component is followed.
///
/// # Errors
/// Any error from `linkat(2)`.
pub fn link_at_path<D: AsFd>(
    directory: Option<D>,
    path: &CStr,
    follow: bool,
    new_directory: impl AsFd,
    new_name: &CStr,
) -> Result<()> {
    let new_directory = new_directory.as_fd();
    let flags = if follow { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
    gate::call(
        Operation::Linkat,
        || match &directory {
            Some(directory) => rustix::fs::linkat(directory, path, new_directory, new_name, flags),
            None => rustix::fs::linkat(CWD, path, new_directory, new_name, flags),
        },
        || format!("{path:?}, {}, {new_name:?}, {flags:?}", new_directory.as_raw_fd()),
    )
}

/// Gives an unnamed file ([`Open::unnamed`](crate::Open::unnamed)) the name `name` in `directory`,
/// which must not exist.
///
/// # Errors
/// Any error from `linkat(2)`; `EEXIST` if the name exists.
pub fn link_unnamed(file: impl AsFd, directory: impl AsFd, name: &CStr) -> Result<()> {
    let (file, directory) = (file.as_fd(), directory.as_fd());
    gate::call(
        Operation::Linkat,
        || match rustix::fs::linkat(file, c"", directory, name, AtFlags::EMPTY_PATH) {
            // Before Linux 6.10 an empty path needs CAP_DAC_READ_SEARCH; without it the call fails
            // as if the file were not there. Then the way is through /proc, which open(2)
            // describes.
            Err(Errno::NOENT) => {
                let path = through_proc(file)?;
                rustix::fs::linkat(CWD, &path, directory, name, AtFlags::SYMLINK_FOLLOW)
            }
            outcome => outcome,
        },
        || format!("{}, \"\", {}, {name:?}, AT_EMPTY_PATH", file.as_raw_fd(), directory.as_raw_fd()),
    )
}

/// Removes the entry `name` of `directory`, which must not be a directory.
///
/// # Errors
/// Any error from `unlinkat(2)`.
pub fn remove(directory: impl AsFd, name: &CStr) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Unlinkat,
        || rustix::fs::unlinkat(directory, name, AtFlags::empty()),
        || format!("{}, {name:?}", directory.as_raw_fd()),
    )
}

/// Removes the empty directory `name` of `directory`.
///
/// # Errors
/// Any error from `unlinkat(2)`; `ENOTEMPTY` if it is not empty.
pub fn remove_directory(directory: impl AsFd, name: &CStr) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Unlinkat,
        || rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR),
        || format!("{}, {name:?}, AT_REMOVEDIR", directory.as_raw_fd()),
    )
}

/// Renames the entry `name` of `directory` to `new_name`, replacing the entry that has that name.
///
/// # Errors
/// Any error from `renameat(2)`.
pub fn rename(directory: impl AsFd, name: &CStr, new_name: &CStr) -> Result<()> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Renameat,
        || rustix::fs::renameat(directory, name, directory, new_name),
        || format!("{}, {name:?}, {new_name:?}", directory.as_raw_fd()),
    )
}

/// Renames an entry, a name in a directory, to one of another directory, replacing any entry of
/// that name.
///
/// # Errors
/// Any error from `renameat(2)`.
pub fn rename_across<D: AsFd>((directory, name): (D, &CStr), (to, new_name): (D, &CStr)) -> Result<()> {
    let (directory, to) = (directory.as_fd(), to.as_fd());
    gate::call(
        Operation::Renameat,
        || rustix::fs::renameat(directory, name, to, new_name),
        || format!("{}, {name:?}, {}, {new_name:?}", directory.as_raw_fd(), to.as_raw_fd()),
    )
}

/// Renames the entry `name` of `directory` to `new_name`, which must not exist.
///
/// If the file system lacks `RENAME_NOREPLACE`, the name is checked first, which leaves a race.
///
/// # Errors
/// Any error from `renameat2(2)`; `EEXIST` if the name exists.
pub fn rename_to_new(directory: impl AsFd, name: &CStr, new_name: &CStr) -> Result<()> {
    let directory = directory.as_fd();
    let flags = RenameFlags::NOREPLACE;
    gate::call(
        Operation::Renameat,
        || match rustix::fs::renameat_with(directory, name, directory, new_name, flags) {
            // `EINVAL` is from file systems without the flag, `ENOSYS` from kernels before 3.15 and
            // from sandboxes (rename(2)).
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match rustix::fs::statat(directory, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(Errno::EXIST),
                    Err(Errno::NOENT) => rustix::fs::renameat(directory, name, directory, new_name),
                    Err(errno) => Err(errno),
                }
            }
            outcome => outcome,
        },
        || format!("{}, {name:?}, {new_name:?}, {flags:?}", directory.as_raw_fd()),
    )
}

/// Reads the target of the symbolic link `name` of `directory`.
///
/// # Errors
/// Any error from `readlinkat(2)`.
pub fn read_link(directory: impl AsFd, name: &CStr) -> Result<CString> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Readlinkat,
        || rustix::fs::readlinkat(directory, name, Vec::new()),
        || format!("{}, {name:?}", directory.as_raw_fd()),
    )
}
