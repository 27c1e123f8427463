//! The names of users and groups, as the system's databases have them.
//!
//! The C library looks in whatever the system is set up for (files, LDAP ...), so a question may take long: whoever asks for
//! many remembers the answers. Nothing here fails: what is not known has no name or number.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// Room for the texts of an entry, offered first.
const FIRST_TRY_BYTES: usize = 1 << 10;

/// The most room that is offered: a group may have many members.
const ROOM_BYTES_MAX: usize = 1 << 20;

/// Asks a database with room that grows until the answer fits. `ask` returns the error number, and whether there is an entry;
/// `take` reads what is wanted of the entry, whose texts are in the room.
fn entry<E, R>(
    mut ask: impl FnMut(*mut E, *mut c_char, usize, *mut *mut E) -> c_int,
    take: impl FnOnce(&E) -> R,
) -> Option<R> {
    let mut room: Vec<c_char> = vec![0; FIRST_TRY_BYTES];
    loop {
        let mut filled = MaybeUninit::<E>::zeroed();
        let mut found = std::ptr::null_mut();
        match ask(filled.as_mut_ptr(), room.as_mut_ptr(), room.len(), &raw mut found) {
            libc::ERANGE if room.len() < ROOM_BYTES_MAX => room.resize(room.len() * 8, 0),
            libc::EINTR => {}
            0 if !found.is_null() => {
                // SAFETY: the C library says that it has filled the entry; its texts are in `room`, which lives on.
                return Some(take(unsafe { filled.assume_init_ref() }));
            }
            _ => return None,
        }
    }
}

/// Copies a text of an entry.
fn text(start: *const c_char) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: texts of entries are NUL-terminated, in room that lives until the entry was taken.
    unsafe { CStr::from_ptr(start) }.to_bytes().to_vec()
}

/// Returns the name of a user.
#[must_use]
pub fn user_name(number: u32) -> Option<Vec<u8>> {
    entry(
        // SAFETY: passes pointers to an entry, to room of the length given, and to where the answer goes.
        |filled, room, length, found| unsafe { libc::getpwuid_r(number, filled, room, length, found) },
        |user: &libc::passwd| text(user.pw_name),
    )
}

/// Returns the name of a group.
#[must_use]
pub fn group_name(number: u32) -> Option<Vec<u8>> {
    entry(
        // SAFETY: passes pointers to an entry, to room of the length given, and to where the answer goes.
        |filled, room, length, found| unsafe { libc::getgrgid_r(number, filled, room, length, found) },
        |group: &libc::group| text(group.gr_name),
    )
}

/// Returns the number of a user.
#[must_use]
pub fn user_number(name: &CStr) -> Option<u32> {
    entry(
        // SAFETY: passes a NUL-terminated name, and pointers as above.
        |filled, room, length, found| unsafe { libc::getpwnam_r(name.as_ptr(), filled, room, length, found) },
        |user: &libc::passwd| user.pw_uid,
    )
}

/// Returns the number of a group.
#[must_use]
pub fn group_number(name: &CStr) -> Option<u32> {
    entry(
        // SAFETY: passes a NUL-terminated name, and pointers as above.
        |filled, room, length, found| unsafe { libc::getgrnam_r(name.as_ptr(), filled, room, length, found) },
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
