//! Extended attributes that copies treat specially, and operations on a file's attributes that only
//! copies need.

use std::ffi::CStr;

use haul_sys::{Errno, Error, FileRef, FileType, Mode, Stat, change_mode, set_xattr};

pub(super) const ACCESS_LIST: &CStr = c"system.posix_acl_access";
pub(super) const DEFAULT_ACCESS_LIST: &CStr = c"system.posix_acl_default";

/// Xattr with a file's SELinux context.
pub(super) const SECURITY_LABEL: &CStr = c"security.selinux";

/// Reads an ACL without listing the xattrs, which a sandbox may refuse. `None` if the file has no
/// ACL.
pub(super) fn access_list(file: FileRef<'_>, key: &CStr) -> Result<Option<Vec<u8>>, Error> {
    match file.get_xattr(key) {
        Ok(list) => Ok(Some(list)),
        Err(cause) if matches!(cause.errno(), Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// True unless the file system has no ACLs.
pub(super) fn has_access_lists(file: FileRef<'_>) -> bool {
    !file.get_xattr(ACCESS_LIST).is_err_and(|cause| cause.is(Errno::OPNOTSUPP))
}

/// Sets an xattr on a file its owner may not write. `user.*` requires write permission, which the
/// source's mode or the umask may not grant. Not for directories, which GNU leaves alone.
pub(super) fn set_xattr_as_writer(file: FileRef<'_>, key: &CStr, value: &[u8]) -> Result<(), Error> {
    let FileRef::Open(file) = file else { return file.set_xattr(key, value) };
    let Stat { kind, mode, .. } = haul_sys::stat(file)?;
    if kind != FileType::Regular {
        return set_xattr(file, key, value);
    }
    change_mode(file, mode.or(Mode::OWNER_WRITE))?;
    let outcome = set_xattr(file, key, value);
    change_mode(file, mode).and(outcome)
}

/// Adds the set-id and sticky bits a special file has now: it was created with them, and a change
/// of owner may have cleared some.
pub(super) fn with_special_bits(file: FileRef<'_>, mode: Mode) -> Result<Mode, Error> {
    match file {
        FileRef::Open(_) => Ok(mode),
        FileRef::Pinned(pinned) => Ok(mode.without(Mode::SPECIAL).or(pinned.stat()?.mode.and(Mode::SPECIAL))),
    }
}
