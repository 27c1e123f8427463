//! Characters in the user's locale, according to the C library.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Name of the C locale's character set.
const ASCII: &str = "ANSI_X3.4-1968";

/// `mbstate_t`. Larger than in any C library.
type ConversionState = [u64; 16];

unsafe extern "C" {
    // `wchar_t` has 32 bits, and a sign on some architectures only. `iswprint` wants it without.
    fn mbrtowc(wide: *mut c_uint, text: *const c_char, length: usize, state: *mut c_void) -> usize;
    fn mbsinit(state: *const c_void) -> c_int;
    fn iswprint(wide: c_uint) -> c_int;
}

/// Returns the character set of the user's locale (`LC_ALL`, `LC_CTYPE`, `LANG`), by its C library
/// name. Returns that of the C locale if the user's is not installed.
#[must_use]
pub fn character_set() -> String {
    // SAFETY: passes a number, a NUL-terminated name, and no locale to modify.
    let locale = unsafe { libc::newlocale(libc::LC_CTYPE_MASK, c"".as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return ASCII.to_owned();
    }
    // SAFETY: `locale` was made above and is freed below.
    let name = unsafe { libc::nl_langinfo_l(libc::CODESET, locale) };
    // SAFETY: the C library returns a NUL-terminated string that lives as long as `locale`, and
    // nobody writes to it.
    let name = unsafe { CStr::from_ptr(name) };
    let name = name.to_string_lossy().into_owned();
    // SAFETY: `locale` was made above and is used nowhere else.
    unsafe { libc::freelocale(locale) };
    name
}

/// Sets the process's character set to that of the user's locale, for [`first_character`]. Call it
/// before starting threads.
pub fn use_character_set() {
    // SAFETY: passes a number and a NUL-terminated name; no other thread reads the locale yet.
    unsafe { libc::setlocale(libc::LC_CTYPE, c"".as_ptr()) };
}

/// Returns the length in bytes of the first character in the process's locale, and whether it is
/// printable. Invalid bytes and an incomplete character at the end are not printable.
#[must_use]
pub fn first_character(text: &[u8]) -> (usize, bool) {
    let (mut length, mut is_printable) = (0, true);
    let mut state: ConversionState = [0; 16];
    loop {
        let rest = &text[length..];
        let mut wide: c_uint = 0;
        // SAFETY: the text is readable for its length, the other two are writable, and an all-zero
        // state is the initial one.
        let taken =
            unsafe { mbrtowc(&raw mut wide, rest.as_ptr().cast(), rest.len(), (&raw mut state).cast()) };
        match taken {
            0 => return (text.len().min(length.max(1)), is_printable && length > 0),
            // Invalid sequence.
            usize::MAX => return (length.max(1), false),
            // The text ends inside a character.
            _ if taken == usize::MAX - 1 => return (text.len(), false),
            _ => {}
        }
        // SAFETY: `iswprint` accepts any number that `mbrtowc` returns.
        is_printable &= unsafe { iswprint(wide) } != 0;
        length += taken;
        // SAFETY: the state was written above. In some character sets a second `mbrtowc` completes
        // a character.
        if unsafe { mbsinit((&raw const state).cast()) } != 0 {
            return (length, is_printable);
        }
    }
}
