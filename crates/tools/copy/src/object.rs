//! A file whose attributes are read or set, by descriptor and never by name.

use std::ffi::CStr;

use haul_sys::{Errno, Error, Fd, FileType, Mode, Owner, Pinned, Stat, Times, XattrNames};
use haul_sys::{change_mode, change_owner, change_times, stat};
use haul_sys::{get_xattr, list_xattrs, remove_xattr, set_xattr};

pub(super) const ACCESS_LIST: &CStr = c"system.posix_acl_access";
pub(super) const DEFAULT_ACCESS_LIST: &CStr = c"system.posix_acl_default";

/// Xattr with a file's SELinux context.
pub(super) const SECURITY_LABEL: &CStr = c"security.selinux";

/// A file to read or set attributes of: always an object, never a name, which may lead to another
/// file by now.
#[derive(Clone, Copy)]
pub(super) enum Object<'a> {
    /// An open file or directory.
    Open(&'a Fd),
    /// A symbolic link, a special file, or a directory that can't be read.
    Pinned(&'a Pinned),
}

impl Object<'_> {
    /// Descriptor for finding out which file system it is on.
    pub(super) fn descriptor(&self) -> &Fd {
        match self {
            Object::Open(file) => file,
            Object::Pinned(pinned) => pinned.descriptor(),
        }
    }

    pub(super) fn list(self) -> Result<XattrNames, Error> {
        match self {
            Object::Open(file) => list_xattrs(file),
            Object::Pinned(pinned) => pinned.list_xattrs(),
        }
    }

    pub(super) fn get(self, key: &CStr) -> Result<Vec<u8>, Error> {
        match self {
            Object::Open(file) => get_xattr(file, key),
            Object::Pinned(pinned) => pinned.get_xattr(key),
        }
    }

    /// Reads an ACL without listing the xattrs, which a sandbox may refuse. `None` if the file has
    /// no ACL.
    pub(super) fn access_list(self, key: &CStr) -> Result<Option<Vec<u8>>, Error> {
        match self.get(key) {
            Ok(list) => Ok(Some(list)),
            Err(cause) if matches!(cause.errno(), Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => {
                Ok(None)
            }
            Err(cause) => Err(cause),
        }
    }

    pub(super) fn stat(self) -> Result<Stat, Error> {
        match self {
            Object::Open(file) => stat(file),
            Object::Pinned(pinned) => pinned.stat(),
        }
    }

    pub(super) fn set(self, key: &CStr, value: &[u8]) -> Result<(), Error> {
        match self {
            Object::Open(file) => set_xattr(file, key, value),
            Object::Pinned(pinned) => pinned.set_xattr(key, value),
        }
    }

    /// Removes an xattr, if it is there.
    pub(super) fn remove(self, key: &CStr) -> Result<(), Error> {
        match self {
            Object::Open(file) => remove_xattr(file, key),
            Object::Pinned(pinned) => pinned.remove_xattr(key),
        }
    }

    pub(super) fn own(self, owner: Owner) -> Result<(), Error> {
        match self {
            Object::Open(file) => change_owner(file, owner),
            Object::Pinned(pinned) => pinned.change_owner(owner),
        }
    }

    pub(super) fn chmod(self, mode: Mode) -> Result<(), Error> {
        match self {
            Object::Open(file) => change_mode(file, mode),
            Object::Pinned(pinned) => pinned.change_mode(mode),
        }
    }

    /// Sets an xattr on a file its owner may not write. `user.*` requires write permission, which
    /// the source's mode or the umask may not grant. Not for directories, which GNU leaves alone.
    pub(super) fn set_as_writer(self, key: &CStr, value: &[u8]) -> Result<(), Error> {
        let Object::Open(file) = self else { return self.set(key, value) };
        let Stat { kind, mode, .. } = haul_sys::stat(file)?;
        if kind != FileType::Regular {
            return set_xattr(file, key, value);
        }
        change_mode(file, mode.or(Mode::OWNER_WRITE))?;
        let outcome = set_xattr(file, key, value);
        change_mode(file, mode).and(outcome)
    }

    /// Adds the set-id and sticky bits a special file has now: it was created with them, and a
    /// change of owner may have cleared some.
    pub(super) fn with_its_special_bits(self, mode: Mode) -> Result<Mode, Error> {
        match self {
            Object::Open(_) => Ok(mode),
            Object::Pinned(pinned) => {
                Ok(mode.without(Mode::SPECIAL).or(pinned.stat()?.mode.and(Mode::SPECIAL)))
            }
        }
    }

    pub(super) fn touch(self, times: Times) -> Result<(), Error> {
        match self {
            Object::Open(file) => change_times(file, times),
            Object::Pinned(pinned) => pinned.change_times(times),
        }
    }
}
