//! Libraries that stand between this program and the C library: `fakeroot`, `eatmydata`, `libfaketime`, `pseudo`.
//!
//! Such a library is preloaded and defines functions of the C library itself. It sees the calls that go through
//! those functions and no others, so this crate makes them that way wherever the C library has a function. The
//! engines that hand operations to the kernel themselves go past it, which is why they ask here first.
//!
//! `fakeroot` keeps owners and modes in another process, by inode. Before 1.24.1 its `fchownat` and `fchmodat` knew no
//! `AT_EMPTY_PATH`: with an empty name they fail with `ENOENT`, where `chown` and `chmod` of `/proc/self/fd/N` reach the
//! inode that `N` holds, a symbolic link held by `O_PATH|O_NOFOLLOW` included.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// The functions that such libraries define: what opens, moves, makes, names and describes files.
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

/// Returns the file name of the preloaded library that defines a function this program uses for files, if there is one.
///
/// The first answer is kept: libraries are preloaded before `main`.
pub fn interposer() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<CString>> = OnceLock::new();
    let found = FOUND.get_or_init(find).as_deref()?;
    Some(Path::new(OsStr::from_bytes(found.to_bytes())))
}

/// A program without a dynamic loader has no preloaded libraries.
#[cfg(target_feature = "crt-static")]
fn find() -> Option<CString> {
    None
}

#[cfg(not(target_feature = "crt-static"))]
fn find() -> Option<CString> {
    // Only the C library defines this one.
    let (_, standard) = object_of(symbol(c"__libc_start_main")?)?;
    let (_, program) = object_of(find as *const libc::c_void)?;
    FUNCTIONS.iter().find_map(|function| {
        let (name, base) = object_of(symbol(function)?)?;
        // Sanitizers define some in the program itself. Before glibc 2.34, libpthread has its own `open` and `read`.
        let expected = base == standard || base == program || is_threads_library(&name);
        (!expected).then_some(name)
    })
}

/// Returns the address of the first definition of `name`, in the order in which the loader looks for it.
#[cfg(not(target_feature = "crt-static"))]
fn symbol(name: &CStr) -> Option<*const libc::c_void> {
    // SAFETY: `name` is NUL-terminated and borrowed for the call.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// Returns the file name of the object that `address` is in, and where that object is in memory.
#[cfg(not(target_feature = "crt-static"))]
fn object_of(address: *const libc::c_void) -> Option<(CString, usize)> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about, and `info` is writable.
    let known = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: all zeros is a valid `Dl_info`, and `dladdr` writes valid ones.
    let info = unsafe { info.assume_init() };
    if known == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the NUL-terminated name for as long as the object is loaded.
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
