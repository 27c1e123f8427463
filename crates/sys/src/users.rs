//! User and group names, from the system's databases.
//!
//! The C library queries whatever the system is configured for (files, LDAP ...), so a lookup may
//! be slow: cache the results of many. Nothing here fails; unknown users and groups just have no
//! name or id.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// Initial size of the string buffer, in bytes.
const BUFFER_BYTES_MIN: usize = 1 << 10;

/// Maximum size of the string buffer, in bytes: a group may have many members.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Queries a database with a buffer that grows until the entry fits. `ask` is one of the `get*_r`
/// functions and returns an errno. `take` copies what is wanted out of the entry, whose strings are
/// in the buffer.
fn entry<E, R>(
    mut ask: impl FnMut(*mut E, *mut c_char, usize, *mut *mut E) -> c_int,
    take: impl FnOnce(&E) -> R,
) -> Option<R> {
    let mut buffer: Vec<c_char> = vec![0; BUFFER_BYTES_MIN];
    loop {
        let mut filled = MaybeUninit::<E>::zeroed();
        let mut found = std::ptr::null_mut();
        match ask(filled.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found) {
            libc::ERANGE if buffer.len() < BUFFER_BYTES_MAX => buffer.resize(buffer.len() * 8, 0),
            libc::EINTR => {}
            0 if !found.is_null() => {
                // SAFETY: the C library has filled the entry; its strings are in `buffer`, which is
                // still alive.
                return Some(take(unsafe { filled.assume_init_ref() }));
            }
            _ => return None,
        }
    }
}

/// Copies a string of an entry.
fn text(start: *const c_char) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: strings of entries are NUL-terminated and in a buffer that outlives this call.
    unsafe { CStr::from_ptr(start) }.to_bytes().to_vec()
}

/// Returns the name of a user, if known.
#[must_use]
pub fn user_name(number: u32) -> Option<Vec<u8>> {
    entry(
        // SAFETY: passes pointers to an entry, to a buffer of the given length, and to the result.
        |filled, buffer, length, found| unsafe { libc::getpwuid_r(number, filled, buffer, length, found) },
        |user: &libc::passwd| text(user.pw_name),
    )
}

/// Returns the home directory of a user, if known.
#[must_use]
pub fn user_home(number: u32) -> Option<Vec<u8>> {
    entry(
        // SAFETY: passes pointers to an entry, to a buffer of the given length, and to the result.
        |filled, buffer, length, found| unsafe { libc::getpwuid_r(number, filled, buffer, length, found) },
        |user: &libc::passwd| text(user.pw_dir),
    )
}

/// Returns the name of a group, if known.
#[must_use]
pub fn group_name(number: u32) -> Option<Vec<u8>> {
    entry(
        // SAFETY: passes pointers to an entry, to a buffer of the given length, and to the result.
        |filled, buffer, length, found| unsafe { libc::getgrgid_r(number, filled, buffer, length, found) },
        |group: &libc::group| text(group.gr_name),
    )
}

/// Returns the id of a user, if known.
#[must_use]
pub fn user_number(name: &CStr) -> Option<u32> {
    entry(
        // SAFETY: passes a NUL-terminated name, and pointers as above.
        |filled, buffer, length, found| unsafe {
            libc::getpwnam_r(name.as_ptr(), filled, buffer, length, found)
        },
        |user: &libc::passwd| user.pw_uid,
    )
}

/// Returns the id of a group, if known.
#[must_use]
pub fn group_number(name: &CStr) -> Option<u32> {
    entry(
        // SAFETY: passes a NUL-terminated name, and pointers as above.
        |filled, buffer, length, found| unsafe {
            libc::getgrnam_r(name.as_ptr(), filled, buffer, length, found)
        },
        |group: &libc::group| group.gr_gid,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_by_name_and_number() {
        assert_eq!(user_name(0).as_deref(), Some(b"root".as_slice()));
        assert_eq!(group_name(0).as_deref(), Some(b"root".as_slice()));
        assert_eq!((user_number(c"root"), group_number(c"root")), (Some(0), Some(0)));
        assert_eq!((user_name(0xffff_fff0), user_number(c"nobody by this name")), (None, None));
    }
}
