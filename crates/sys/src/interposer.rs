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
#[cfg_attr(target_feature = "crt-static", expect(dead_code, reason = "no loader, no preloaded library"))]
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
    let objects = loaded::objects();
    let index_of = |address: usize| objects.iter().position(|object| object.contains(address));
    let program = index_of(find as *const () as usize);
    // Only the C library defines this symbol.
    let standard = index_of(symbol(c"__libc_start_main")?);
    // Most programs have no other objects, and 43 symbols needn't be looked up.
    let usual =
        [program, standard, index_of(auxiliary(libc::AT_BASE)), index_of(auxiliary(libc::AT_SYSINFO_EHDR))];
    if (0..objects.len()).all(|index| usual.contains(&Some(index))) {
        return None;
    }
    let found = FUNCTIONS.iter().filter_map(|function| index_of(symbol(function)?)).find(|index| {
        // Sanitizers define some of these in the program itself. Before glibc 2.34, libpthread had
        // its own `open` and `read`.
        ![program, standard].contains(&Some(*index)) && !is_threads_library(&objects[*index].name)
    });
    found.map(|index| objects[index].name.clone())
}

/// Returns the address of the first definition of `name` in the loader's search order.
#[cfg(not(target_feature = "crt-static"))]
fn symbol(name: &CStr) -> Option<usize> {
    // SAFETY: `name` is NUL-terminated and borrowed for the call.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address as usize)
}

/// Returns an entry of the auxiliary vector (getauxval(3)), or 0.
#[cfg(not(target_feature = "crt-static"))]
fn auxiliary(kind: libc::c_ulong) -> usize {
    // SAFETY: passes only a number.
    let value = unsafe { libc::getauxval(kind) };
    usize::try_from(value).unwrap_or_default()
}

#[cfg(not(target_feature = "crt-static"))]
fn is_threads_library(name: &CStr) -> bool {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    path.file_name().is_some_and(|file| file.as_bytes().starts_with(b"libpthread"))
}

/// The objects that the dynamic loader has loaded.
///
/// Not by `dladdr(3)`, which also searches an object's symbols for the nearest one: for 43
/// functions that took half the time of a small copy.
#[cfg(not(target_feature = "crt-static"))]
mod loaded {
    use std::ffi::{CStr, CString};
    use std::ops::Range;

    use libc::{c_int, c_void, dl_phdr_info, size_t};

    pub(super) struct LoadedObject {
        /// File name, empty for the program.
        pub(super) name: CString,
        segments: Vec<Range<usize>>,
    }

    impl LoadedObject {
        pub(super) fn contains(&self, address: usize) -> bool {
            self.segments.iter().any(|segment| segment.contains(&address))
        }
    }

    pub(super) fn objects() -> Vec<LoadedObject> {
        let mut objects = Vec::new();
        // SAFETY: `add` has the type asked for, and `objects`, which it gets, is borrowed for the
        // call.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut objects).cast()) };
        objects
    }

    /// Adds an object to the list at `objects`.
    unsafe extern "C" fn add(info: *mut dl_phdr_info, _: size_t, objects: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description for the time of the call.
        let info = unsafe { &*info };
        let headers = match info.dlpi_phdr.is_null() {
            true => &[],
            // SAFETY: there are as many headers as it says.
            false => unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) },
        };
        let name = match info.dlpi_name.is_null() {
            true => CString::default(),
            // SAFETY: the loader keeps the NUL-terminated name while the object is loaded.
            false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned(),
        };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let segments = loaded.map(|header| {
            let start = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
            start..start + header.p_memsz as usize
        });
        // SAFETY: `objects` passes a vector of this type, which nobody else uses at the same time.
        let objects = unsafe { &mut *objects.cast::<Vec<LoadedObject>>() };
        objects.push(LoadedObject { name, segments: segments.collect() });
        0
    }
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
