//! Characters of the user's locale, as the C library knows them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The name of the character set of the C locale.
const ASCII: &str = "ANSI_X3.4-1968";

/// `mbstate_t`, which is smaller in every C library.
type State = [u64; 16];

unsafe extern "C" {
    fn mbrtowc(wide: *mut libc::wchar_t, text: *const c_char, length: usize, state: *mut c_void) -> usize;
    fn mbsinit(state: *const c_void) -> c_int;
    fn iswprint(wide: c_uint) -> c_int;
}

/// Returns the name of the character set of the user's locale (`LC_ALL`, `LC_CTYPE`, `LANG`), as the C library knows it;
/// that of the C locale where the one asked for is not installed.
#[must_use]
pub fn character_set() -> String {
    // SAFETY: passes a number, a NUL-terminated name, and no locale to change.
    let locale = unsafe { libc::newlocale(libc::LC_CTYPE_MASK, c"".as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return ASCII.to_owned();
    }
    // SAFETY: `locale` was made above and is freed below.
    let name = unsafe { libc::nl_langinfo_l(libc::CODESET, locale) };
    // SAFETY: the C library returns a NUL-terminated text that lives as long as `locale`, and nobody writes to it.
    let name = unsafe { CStr::from_ptr(name) };
    let name = name.to_string_lossy().into_owned();
    // SAFETY: `locale` was made above and is used nowhere else.
    unsafe { libc::freelocale(locale) };
    name
}

/// Makes the character set of the user's locale the process's, for [`first_character`]. To be called before threads begin.
pub fn use_character_set() {
    // SAFETY: passes a number and a NUL-terminated name; no other thread reads the locale yet.
    unsafe { libc::setlocale(libc::LC_CTYPE, c"".as_ptr()) };
}

/// Returns how many bytes the first character of a text is in the process's locale, and whether it is printable. A byte
/// that begins no character, and a rest that is only a part of one, are not printable.
#[must_use]
pub fn first_character(text: &[u8]) -> (usize, bool) {
    let (mut length, mut is_printable) = (0, true);
    let mut state: State = [0; 16];
    loop {
        let rest = &text[length..];
        let mut wide: libc::wchar_t = 0;
        // SAFETY: the text is readable for its length, the other two are writable, and a state of zeros is the initial one.
        let taken =
            unsafe { mbrtowc(&raw mut wide, rest.as_ptr().cast(), rest.len(), (&raw mut state).cast()) };
        match taken {
            0 => return (text.len().min(length.max(1)), is_printable && length > 0),
            // No character.
            usize::MAX => return (length.max(1), false),
            // The text ends within a character.
            _ if taken == usize::MAX - 1 => return (text.len(), false),
            _ => {}
        }
        // SAFETY: takes any number that `mbrtowc` has given.
        is_printable &= unsafe { iswprint(wide.cast_unsigned()) } != 0;
        length += taken;
        // SAFETY: the state was written above. Some sets have characters that only a second one brings to an end.
        if unsafe { mbsinit((&raw const state).cast()) } != 0 {
            return (length, is_printable);
        }
    }
}
