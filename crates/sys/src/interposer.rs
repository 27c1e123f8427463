//! Libraries preloaded between this program and the C library: `fakeroot`, `eatmydata`,
//! `libfaketime`, `pseudo`.
//!
//! Such a library defines C library functions itself. It sees the calls made through those
//! functions and no others, so this crate uses the C library wherever it has a function. Engines
//! that submit operations to the kernel directly bypass such a library, so they ask here first.
//!
//! `fakeroot` tracks owners and modes by inode in another process. Before 1.24.1 its `fchownat` and
//! `fchmodat` didn't know `AT_EMPTY_PATH` and failed with `ENOENT` for an empty name. `chown` and
//! `chmod` of `/proc/self/fd/N` work: they reach the inode that `N` refers to, even if it is a
//! symbolic link opened with `O_PATH|O_NOFOLLOW`.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// File functions that such libraries define: opening, data, names and metadata.
const FUNCTIONS: &[&CStr] = &[
    c"open",
    c"openat",
    c"open64",
    c"openat64",
    c"read",
    c"pread",
    c"pread64",
    c"preadv2",
    c"write",
    c"pwrite",
    c"pwrite64",
    c"pwritev2",
    c"stat",
    c"lstat",
    c"fstat",
    c"fstatat",
    c"statx",
    c"__xstat",
    c"__fxstat",
    c"__fxstatat",
    c"chmod",
    c"fchmod",
    c"fchmodat",
    c"chown",
    c"fchown",
    c"fchownat",
    c"mkdirat",
    c"mknodat",
    c"symlinkat",
    c"linkat",
    c"unlinkat",
    c"renameat",
    c"fgetxattr",
    c"lgetxattr",
    c"fsetxattr",
    c"lsetxattr",
    c"utimensat",
    c"futimens",
    c"geteuid",
    c"fsync",
    c"fdatasync",
    c"fallocate",
    c"ftruncate",
];

/// Returns the file name of the preloaded library that interposes a file function used by this
/// program, if there is one.
///
/// The first answer is cached: libraries are preloaded before `main`.
pub fn interposer() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<CString>> = OnceLock::new();
    let found = FOUND.get_or_init(find).as_deref()?;
    Some(Path::new(OsStr::from_bytes(found.to_bytes())))
}

/// A statically linked program has no dynamic loader and so no preloaded libraries.
#[cfg(target_feature = "crt-static")]
fn find() -> Option<CString> {
    None
}

#[cfg(not(target_feature = "crt-static"))]
fn find() -> Option<CString> {
    // Only the C library defines this symbol.
    let (_, standard) = object_of(symbol(c"__libc_start_main")?)?;
    let (_, program) = object_of(find as *const libc::c_void)?;
    FUNCTIONS.iter().find_map(|function| {
        let (name, base) = object_of(symbol(function)?)?;
        // Sanitizers define some of these in the program itself. Before glibc 2.34, libpthread had
        // its own `open` and `read`.
        let expected = base == standard || base == program || is_threads_library(&name);
        (!expected).then_some(name)
    })
}

/// Returns the address of the first definition of `name` in the loader's search order.
#[cfg(not(target_feature = "crt-static"))]
fn symbol(name: &CStr) -> Option<*const libc::c_void> {
    // SAFETY: `name` is NUL-terminated and borrowed for the call.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// Returns the file name and the base address of the object that contains `address`.
#[cfg(not(target_feature = "crt-static"))]
fn object_of(address: *const libc::c_void) -> Option<(CString, usize)> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` accepts any address, and `info` is writable.
    let known = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: an all-zero `Dl_info` is valid, and so is what `dladdr` writes.
    let info = unsafe { info.assume_init() };
    if known == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the NUL-terminated name while the object is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((name.to_owned(), info.dli_fbase as usize))
}

#[cfg(not(target_feature = "crt-static"))]
fn is_threads_library(name: &CStr) -> bool {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    path.file_name().is_some_and(|file| file.as_bytes().starts_with(b"libpthread"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_interposed_by_default() {
        if std::env::var_os("LD_PRELOAD").is_none() && !Path::new("/etc/ld.so.preload").exists() {
            assert_eq!(interposer(), None);
        }
    }
}
