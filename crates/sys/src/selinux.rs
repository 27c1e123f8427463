//! File contexts of the SELinux policy, looked up by path with libselinux.
//!
//! The library is loaded at run time, so haul needs it neither to build nor to run without `-Z`.
//! The calls are those of `selinux/label.h`. Their `_raw` forms return contexts untranslated, like
//! the attribute `security.selinux`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::{Mutex, PoisonError};

use crate::error::{Errno, Error, Result};
use crate::fd::last_errno;
use crate::operation::Operation;
use crate::stat::FileType;

/// Name of the library; its number is the ABI version.
pub const LIBSELINUX: &CStr = c"libselinux.so.1";

/// `SELABEL_CTX_FILE`.
const FILES: c_uint = 0;

type Open = unsafe extern "C" fn(c_uint, *const c_void, c_uint) -> *mut c_void;
type Lookup = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const c_char, c_int) -> c_int;
type Free = unsafe extern "C" fn(*mut c_char);

/// The file contexts of the loaded policy.
#[derive(Debug)]
pub struct FileContexts {
    // Not every release of the library lets several threads share a handle.
    handle: Mutex<Handle>,
    lookup: Lookup,
    free: Free,
}

/// Returned by `selabel_open`; never closed.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

// SAFETY: the library ties a handle to no thread; the mutex serialises its users.
unsafe impl Send for Handle {}

impl FileContexts {
    /// Loads the library and opens the file contexts of the current policy. `None` if there is no
    /// such library.
    ///
    /// # Errors
    /// Any error from `selabel_open(3)` if it can't read them.
    pub fn open() -> Result<Option<Self>> {
        // SAFETY: passes a NUL-terminated string. The system's library is trusted with what its
        // initialisers do.
        let library = unsafe { libc::dlopen(LIBSELINUX.as_ptr(), libc::RTLD_NOW) };
        let Some(library) = NonNull::new(library) else { return Ok(None) };
        let symbols = [c"selabel_open", c"selabel_lookup_raw", c"freecon"].map(|name| symbol(library, name));
        let [Some(open), Some(lookup), Some(free)] = symbols else { return Ok(None) };
        // SAFETY: `selabel_open` has this type in `selinux/label.h`.
        let open = unsafe { std::mem::transmute::<NonNull<c_void>, Open>(open) };
        // SAFETY: `selabel_lookup_raw` has this type in `selinux/label.h`.
        let lookup = unsafe { std::mem::transmute::<NonNull<c_void>, Lookup>(lookup) };
        // SAFETY: `freecon` has this type in `selinux/selinux.h`.
        let free = unsafe { std::mem::transmute::<NonNull<c_void>, Free>(free) };
        // SAFETY: passes no options, and their count is 0.
        let handle = unsafe { open(FILES, null(), 0) };
        let handle = NonNull::new(handle).ok_or_else(|| failed("selabel_open".to_owned()))?;
        Ok(Some(Self { handle: Mutex::new(Handle(handle)), lookup, free }))
    }

    /// Looks up the context for a file of this type at an absolute path.
    ///
    /// # Errors
    /// Any error from `selabel_lookup(3)`; `ENOENT` if the policy has no context for it.
    pub fn lookup(&self, path: &CStr, kind: FileType) -> Result<Vec<u8>> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut context = null_mut();
        let mode = c_int::try_from(file_type_bits(kind)).unwrap_or_default();
        // SAFETY: the handle is open and locked, the path is NUL-terminated, and the result
        // is writable.
        let outcome = unsafe { (self.lookup)(handle.0.as_ptr(), &raw mut context, path.as_ptr(), mode) };
        if outcome != 0 || context.is_null() {
            return Err(failed(format!("selabel_lookup {path:?}")));
        }
        // SAFETY: on success the library has set it to a NUL-terminated string.
        let found = unsafe { CStr::from_ptr(context) }.to_bytes().to_vec();
        // SAFETY: `freecon` frees strings returned by a lookup, and this one is not used again.
        unsafe { (self.free)(context) };
        Ok(found)
    }
}

fn symbol(library: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the library is open and never closed; the name is NUL-terminated.
    NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
}

fn failed(call: String) -> Error {
    Error::new(Operation::Fgetxattr, call, Errno::from_raw_os_error(last_errno().raw_os_error()))
}

fn file_type_bits(kind: FileType) -> libc::mode_t {
    match kind {
        FileType::Regular => libc::S_IFREG,
        FileType::Directory => libc::S_IFDIR,
        FileType::Symlink => libc::S_IFLNK,
        FileType::Fifo => libc::S_IFIFO,
        FileType::Socket => libc::S_IFSOCK,
        FileType::CharacterDevice => libc::S_IFCHR,
        FileType::BlockDevice => libc::S_IFBLK,
        FileType::Unknown => 0,
    }
}
