//! Extended attributes that copies treat specially, and operations on a file's attributes that only
//! copies need.

use std::ffi::CStr;

use haul_sys::{Errno, Error, FileRef, FileType, Mode, Stat};

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

/// Changes an xattr of a file, also if its owner may not write to it. `user.*` requires write
/// permission, which the source's mode or the umask may not grant. Not for directories, which GNU
/// leaves alone.
///
/// # Errors
/// The error of the first attempt, or of setting the mode again.
pub(super) fn change_xattr(
    file: FileRef<'_>,
    change: impl Fn(FileRef<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let cause = match change(file) {
        Err(cause) if cause.is(Errno::ACCESS) => cause,
        outcome => return outcome,
    };
    let Ok(Stat { kind: FileType::Regular, mode, .. }) = file.stat() else { return Err(cause) };
    if file.change_mode(mode.or(Mode::OWNER_WRITE)).is_err() {
        return Err(cause);
    }
    let outcome = change(file).map_err(|_| cause);
    file.change_mode(mode).and(outcome)
}

/// Adds the set-id and sticky bits a special file has now: it was created with them, and a change
/// of owner may have cleared some.
pub(super) fn with_special_bits(file: FileRef<'_>, mode: Mode) -> Result<Mode, Error> {
    match file {
        FileRef::Open(_) => Ok(mode),
        FileRef::Pinned(pinned) => Ok(mode.without(Mode::SPECIAL).or(pinned.stat()?.mode.and(Mode::SPECIAL))),
    }
}
