//! `-Z`: gives a copy's SELinux context the type that the policy assigns to its path.
//!
//! The kernel has labeled the new file by the policy's transitions; only the type is replaced, as
//! `restorecon` does. GNU cp asks the kernel for that context up front, with the same result.
//!
//! Like GNU cp, haul reports a failure without changing the exit status, and leaves files alone
//! that have no matching context or can't have one.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use haul_flow::Problem;
use haul_sys::{Errno, Error, FileContexts, FileRef, FileType, LIBSELINUX, Operation};

use super::object::SECURITY_LABEL;
use super::options::Label;
use super::{Copier, CopyKind, CopyOptions};

/// Opens the policy's file contexts if `-Z` needs them.
pub(super) fn open(options: &CopyOptions) -> Result<Option<FileContexts>, Problem> {
    if options.label != Label::Policy {
        return Ok(None);
    }
    let problem = |kind| Problem::new(kind).naming(LIBSELINUX.to_bytes());
    match FileContexts::open() {
        Ok(None) => Err(problem(CopyKind::NoContextLibrary)),
        Ok(contexts) => Ok(contexts),
        Err(cause) => Err(problem(CopyKind::NoContextList).because(cause)),
    }
}

/// With `-Z`, sets a copy's type to its path's default.
///
/// # Errors
/// A warning.
pub(super) fn give(copier: &Copier, object: FileRef<'_>, path: &dyn Fn() -> Vec<u8>) -> Result<(), Problem> {
    let Some(contexts) = &copier.contexts else { return Ok(()) };
    match relabel(contexts, object, &path()) {
        Err(cause) if !matches!(cause.errno(), Errno::NOENT | Errno::NODATA | Errno::OPNOTSUPP) => {
            Err(Problem::new(CopyKind::SettingLabel).naming(path()).because(cause).as_warning())
        }
        _ => Ok(()),
    }
}

fn relabel(contexts: &FileContexts, object: FileRef<'_>, path: &[u8]) -> Result<(), Error> {
    let kind = object.stat()?.kind;
    let default = contexts.lookup(&absolute(path, kind)?, kind)?;
    let now = object.get_xattr(SECURITY_LABEL)?;
    match with_type_of(&now, &default) {
        Some(context) if context != now => object.set_xattr(SECURITY_LABEL, &context),
        Some(_) => Ok(()),
        None => Err(Error::new(Operation::Fsetxattr, format!("{default:?}"), Errno::INVAL)),
    }
}

/// Makes a path absolute, as the library requires. It is only looked up, never opened.
fn absolute(path: &[u8], kind: FileType) -> Result<CString, Error> {
    let failed = |errno| Error::new(Operation::Statx, String::from_utf8_lossy(path).into_owned(), errno);
    let shown = Path::new(OsStr::from_bytes(path));
    let resolved = match (shown.parent(), shown.file_name()) {
        // Without `/./`, which no policy pattern contains.
        _ if shown.is_absolute() => Ok(shown.components().collect()),
        (Some(parent), Some(name)) if kind != FileType::Directory => {
            Path::new(".").join(parent).canonicalize().map(|parent| parent.join(name))
        }
        _ => shown.canonicalize(),
    };
    let resolved = resolved.map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    CString::new(OsString::from(resolved).into_vec()).map_err(|_| failed(Errno::INVAL))
}

/// Replaces the type (third field) of one context with another's. The kernel ends contexts with
/// a NUL.
fn with_type_of(context: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let mut fields: Vec<_> = context.splitn(4, |byte| *byte == b':').collect();
    let wanted = other.split(|byte| *byte == b':').nth(2)?;
    let ends_in_nul = fields.get(2)?.ends_with(b"\0");
    fields[2] = wanted;
    let mut joined = fields.join(&b':');
    if ends_in_nul {
        joined.push(0);
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_type_is_replaced() {
        let put = |context: &[u8], other: &[u8]| with_type_of(context, other);
        assert_eq!(put(b"u:r:t:s0:c1\0", b"a:b:c:s1").unwrap(), b"u:r:c:s0:c1\0");
        assert_eq!(put(b"u:r:t\0", b"a:b:c").unwrap(), b"u:r:c\0");
        assert_eq!(put(b"u:r:t", b"a:b:c:s0").unwrap(), b"u:r:c");
        assert_eq!((put(b"u:r", b"a:b:c"), put(b"u:r:t", b"a:b")), (None, None));
    }
}
