//! An MPI library opened at run time, and the calls that haul makes.
//!
//! Functions are looked up by name once and called through pointers; [`Abi`] has the differences
//! between libraries. Libraries are never closed, because they leave threads, exit handlers and
//! hooks behind. All calls must come from the thread that opened the library, so [`Library`] is
//! not `Send`.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::abi::{Abi, Handle, MPICH, OPEN_MPI, STANDARD, StatusBuffer};
use super::refusal::{MpiRefusal, Unusable};
use crate::transport::Broken;

/// Size of buffers for texts, in bytes. The longest text of any MPI function is MPICH's version,
/// 8192 bytes.
const TEXT_BYTES: usize = 16 << 10;

/// Return code of a successful MPI function.
const SUCCESS: c_int = 0;

/// A request or a matched message: a handle written by a library.
pub(super) type HandleSlot = usize;

/// Declares the MPI functions used, with their C types, and their lookup.
macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// The MPI functions used.
        struct Functions { $($(#[$doc])* $field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl Functions {
            /// Looks up all functions. Fails with the name of the first that is missing.
            fn find(opened: *mut c_void) -> Result<Self, &'static CStr> {
                Ok(Self { $($field: {
                    let address = symbol(opened, $name).ok_or($name)?;
                    // SAFETY: the library has a function of this name, and the MPI standard says
                    // that it has these arguments (handles as `usize`, see `abi`). That this is an
                    // MPI library is an assumption: a library that uses MPI's names for other
                    // functions would be called wrongly, by any program.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(address) }
                },)* })
            }
        }
    };
}

functions! {
    /// `MPI_Initialized(flag)`
    initialized = c"MPI_Initialized" (*mut c_int);
    /// `MPI_Init_thread(argc, argv, required, provided)`
    init_thread = c"MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    /// `MPI_Comm_set_errhandler(comm, handler)`
    comm_set_errhandler = c"MPI_Comm_set_errhandler" (usize, usize);
    /// `MPI_Comm_size(comm, size)`
    comm_size = c"MPI_Comm_size" (usize, *mut c_int);
    /// `MPI_Comm_rank(comm, rank)`
    comm_rank = c"MPI_Comm_rank" (usize, *mut c_int);
    /// `MPI_Error_string(code, text, length)`
    error_string = c"MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    /// `MPI_Isend(bytes, count, type, to, tag, comm, request)`
    isend = c"MPI_Isend" (*const c_void, c_int, usize, c_int, c_int, usize, *mut HandleSlot);
    /// `MPI_Test(request, done, status)`
    test = c"MPI_Test" (*mut HandleSlot, *mut c_int, *mut StatusBuffer);
    /// `MPI_Improbe(from, tag, comm, found, message, status)`
    improbe = c"MPI_Improbe" (c_int, c_int, usize, *mut c_int, *mut HandleSlot, *mut StatusBuffer);
    /// `MPI_Imrecv(bytes, count, type, message, request)`
    imrecv = c"MPI_Imrecv" (*mut c_void, c_int, usize, *mut HandleSlot, *mut HandleSlot);
    /// `MPI_Get_count(status, type, count)`
    get_count = c"MPI_Get_count" (*const StatusBuffer, usize, *mut c_int);
    /// `MPI_Get_library_version(text, length)`
    get_library_version = c"MPI_Get_library_version" (*mut c_char, *mut c_int);
    /// `MPI_Get_processor_name(text, length)`
    get_processor_name = c"MPI_Get_processor_name" (*mut c_char, *mut c_int);
    /// `MPI_Finalize()`
    finalize = c"MPI_Finalize" ();
    /// `MPI_Abort(comm, code)`
    abort = c"MPI_Abort" (usize, c_int);
}

/// An open library.
pub(super) struct Library {
    functions: Functions,
    abi: &'static Abi,
    world: usize,
    byte: usize,
    errors_return: usize,
    path: PathBuf,
    /// MPI is called by one thread.
    _one_thread: PhantomData<*const ()>,
}

/// A matched message: one that has arrived or is about to, and can be received only by its handle.
pub(super) struct Matched {
    /// The source rank.
    pub(super) from: u32,
    /// Size of the message, in bytes.
    pub(super) bytes: usize,
    message: HandleSlot,
}

/// Why a library was not opened.
pub(super) enum NotOpened {
    /// There is no such file.
    Missing,
    /// It exists, but is not usable.
    Useless(MpiRefusal),
}

impl Library {
    /// Opens a library by its path, or by a name that the dynamic loader resolves.
    pub(super) fn open(path: &Path) -> Result<Self, NotOpened> {
        let opened = load(path)?;
        Self::known(opened, path).map_err(NotOpened::Useless)
    }

    /// Determines the ABI and looks up the functions.
    fn known(opened: *mut c_void, path: &Path) -> Result<Self, MpiRefusal> {
        let useless = |why| MpiRefusal::NotMpi { library: path.to_owned(), why };
        let without = |name: &CStr| useless(Unusable::Lacks(name.to_string_lossy().into_owned()));
        let functions = Functions::find(opened).map_err(without)?;
        let abi = abi_of(opened, path).map_err(useless)?;
        let handle = |handle: Handle| match handle {
            Handle::Number(number) => Ok(number),
            Handle::Symbol(name) => symbol(opened, name).map(|at| at as usize).ok_or_else(|| without(name)),
        };
        Ok(Self {
            functions,
            abi,
            world: handle(abi.world)?,
            byte: handle(abi.byte)?,
            errors_return: handle(abi.errors_return)?,
            path: path.to_owned(),
            _one_thread: PhantomData,
        })
    }

    /// Returns the path or name it was opened by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the ABI.
    pub(super) fn abi(&self) -> &'static str {
        self.abi.name
    }

    /// Returns name and version, according to the library.
    pub(super) fn version(&self) -> String {
        let version = text(|text, length| {
            // SAFETY: `text` points to more bytes than MPI's longest text and `length` to an int;
            // both outlive the call. The function may be called at any time.
            unsafe { (self.functions.get_library_version)(text, length) }
        });
        let first = version.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
        // Open MPI appends who built it, after a comma; MPICH puts tabs before its version.
        let first = first.split(',').next().unwrap_or_default();
        first.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(super) fn host(&self) -> Option<String> {
        text(|text, length| {
            // SAFETY: same as in `version`; MPI was started, see `start`.
            unsafe { (self.functions.get_processor_name)(text, length) }
        })
    }

    /// Initialises MPI and has it return errors. A library that fails here may end the
    /// process instead.
    pub(super) fn start(&self) -> Result<(), Unusable> {
        let mut already = 0;
        // SAFETY: `already` outlives the call; the function may be called at any time.
        let code = unsafe { (self.functions.initialized)(&raw mut already) };
        if code != SUCCESS || already != 0 {
            return Err(Unusable::Initialised);
        }
        let wanted = self.abi.thread_funneled;
        let mut given = 0;
        // SAFETY: MPI was not started before; both arguments of `main` may be null; `given`
        // outlives the call.
        let code = unsafe {
            (self.functions.init_thread)(std::ptr::null_mut(), std::ptr::null_mut(), wanted, &raw mut given)
        };
        if code != SUCCESS {
            return Err(Unusable::Failed(self.error(code)));
        }
        if given < wanted {
            return Err(Unusable::OneThread);
        }
        // SAFETY: MPI was started; both handles are the library's own.
        let code = unsafe { (self.functions.comm_set_errhandler)(self.world, self.errors_return) };
        if code == SUCCESS { Ok(()) } else { Err(Unusable::Failed(self.error(code))) }
    }

    pub(super) fn size(&self) -> Result<u32, Unusable> {
        let mut size = 0;
        // SAFETY: MPI was started; the handle is the library's own; `size` outlives the call.
        let code = unsafe { (self.functions.comm_size)(self.world, &raw mut size) };
        if code == SUCCESS {
            u32::try_from(size).map_err(|_| Unusable::Impossible(size))
        } else {
            Err(Unusable::Failed(self.error(code)))
        }
    }

    pub(super) fn rank(&self) -> Result<u32, Unusable> {
        let mut rank = 0;
        // SAFETY: same as in `size`.
        let code = unsafe { (self.functions.comm_rank)(self.world, &raw mut rank) };
        if code == SUCCESS {
            u32::try_from(rank).map_err(|_| Unusable::Impossible(rank))
        } else {
            Err(Unusable::Failed(self.error(code)))
        }
    }

    /// Starts to send bytes to an existing rank.
    ///
    /// # Safety
    /// The bytes must stay in place and unchanged until [`Library::test`] returns true for the
    /// request; forever, if it never does.
    pub(super) unsafe fn send(&self, bytes: &[u8], to: u32, tag: c_int) -> Result<HandleSlot, Broken> {
        let doing = "sending a message";
        let count = self.count(bytes.len(), doing)?;
        let to = c_int::try_from(to).map_err(|_| broken(doing, format!("there is no rank {to}")))?;
        let mut request = 0;
        // SAFETY: MPI was started; the bytes are readable now and, by this function's contract,
        // until the request is done; the handles are the library's own; `request` outlives the
        // call, which is all the library needs.
        let code = unsafe {
            (self.functions.isend)(
                bytes.as_ptr().cast(),
                count,
                self.byte,
                to,
                tag,
                self.world,
                &raw mut request,
            )
        };
        self.judge(code, doing).map(|()| request)
    }

    /// Starts to receive a matched message into a buffer of its size.
    ///
    /// # Safety
    /// The buffer must stay in place and untouched until [`Library::test`] returns true for the
    /// request; forever, if it never does.
    pub(super) unsafe fn receive(&self, matched: Matched, buffer: &mut [u8]) -> Result<HandleSlot, Broken> {
        let doing = "receiving a message";
        let count = self.count(buffer.len(), doing)?;
        let mut message = matched.message;
        let mut request = 0;
        // SAFETY: MPI was started; the message was matched and is received only once, because it is
        // consumed; the buffer is writable now and, by this function's contract, until the request
        // is done; `message` and `request` outlive the call, which is all the library needs.
        let code = unsafe {
            (self.functions.imrecv)(
                buffer.as_mut_ptr().cast(),
                count,
                self.byte,
                &raw mut message,
                &raw mut request,
            )
        };
        self.judge(code, doing).map(|()| request)
    }

    /// Returns true if a request is done. It must not be tested again then.
    pub(super) fn test(&self, request: &mut HandleSlot) -> Result<bool, Broken> {
        let mut done = 0;
        let mut status = StatusBuffer::default();
        // SAFETY: MPI was started; the request came from the library; `done` and `status` outlive
        // the call, and `status` has room for a status of any library.
        let code = unsafe { (self.functions.test)(&raw mut *request, &raw mut done, &raw mut status) };
        self.judge(code, "asking for a message's progress").map(|()| done != 0)
    }

    /// Matches the next message with this tag, if one has arrived or was announced.
    pub(super) fn probe(&self, tag: c_int) -> Result<Option<Matched>, Broken> {
        let doing = "looking for messages";
        let (mut found, mut message, mut count) = (0, 0, 0);
        let mut status = StatusBuffer::default();
        // SAFETY: MPI was started; the handle is the library's own; the variables outlive the call,
        // and `status` has room for a status of any library.
        let code = unsafe {
            (self.functions.improbe)(
                self.abi.any_source,
                tag,
                self.world,
                &raw mut found,
                &raw mut message,
                &raw mut status,
            )
        };
        self.judge(code, doing)?;
        if found == 0 {
            return Ok(None);
        }
        // SAFETY: the status was just filled in; the handle is the library's own; `count` outlives
        // the call.
        let code = unsafe { (self.functions.get_count)(&raw const status, self.byte, &raw mut count) };
        self.judge(code, doing)?;
        let from = status.0.get(self.abi.status_source).copied().unwrap_or(-1);
        match (u32::try_from(from), usize::try_from(count)) {
            (Ok(from), Ok(bytes)) => Ok(Some(Matched { from, bytes, message })),
            _ => Err(broken(doing, format!("a message of {count} bytes from rank {from}"))),
        }
    }

    /// Finalizes MPI. Blocks until all ranks get here, like any MPI program.
    pub(super) fn finish(&self) -> Result<(), Broken> {
        // SAFETY: MPI was started, and is not used afterwards: the one caller consumes the world.
        let code = unsafe { (self.functions.finalize)() };
        self.judge(code, "ending MPI")
    }

    /// Ends all ranks. Does not return if the library follows the standard.
    pub(super) fn abort(&self, status: c_int) {
        // SAFETY: MPI was started; the handle is the library's own. If the call returns, the
        // caller exits.
        unsafe { (self.functions.abort)(self.world, status) };
    }

    fn judge(&self, code: c_int, doing: &'static str) -> Result<(), Broken> {
        if code == SUCCESS { Ok(()) } else { Err(broken(doing, self.error(code))) }
    }

    fn count(&self, bytes: usize, doing: &'static str) -> Result<c_int, Broken> {
        let most = c_int::MAX;
        c_int::try_from(bytes)
            .map_err(|_| broken(doing, format!("a message of {bytes} bytes is longer than {most}")))
    }

    fn error(&self, code: c_int) -> String {
        let said = text(|text, length| {
            // SAFETY: same as in `version`. The function may be called at any time, for any code.
            unsafe { (self.functions.error_string)(code, text, length) }
        });
        said.filter(|said| !said.is_empty()).map_or_else(
            || format!("error {code}"),
            // MPICH's text is a stack of lines.
            |said| said.split_whitespace().collect::<Vec<_>>().join(" "),
        )
    }
}

/// Exits this process at once, without running exit handlers of a library that is still at work.
pub(super) fn exit_now(status: u8) -> ! {
    // Output that can't be flushed now is lost either way.
    std::io::stdout().flush().unwrap_or_default();
    // SAFETY: the only argument is a number, and nothing runs in this process afterwards.
    unsafe { libc::_exit(c_int::from(status)) }
}

fn broken(doing: &'static str, why: String) -> Broken {
    Broken::Transport { doing, why }
}

/// Opens a shared library for good.
///
/// Its symbols are global, because Open MPI loads components that expect to find them there (Open
/// MPI's manual, "Dynamically loading libmpi at runtime").
fn load(path: &Path) -> Result<*mut c_void, NotOpened> {
    let useless = |why: String| NotOpened::Useless(MpiRefusal::NotOpened { library: path.to_owned(), why });
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| useless(error.to_string()))?;
    // SAFETY: the name is a string that ends in NUL. Opening a library runs its initialisers, which
    // is the purpose of opening an MPI library; the user, or the launcher's environment, chose it.
    let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !opened.is_null() {
        return Ok(opened);
    }
    let said = loader_error();
    // The loader reports the kind of failure only as text. A library that exists but lacks a
    // dependency is an error worth reporting.
    match said.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&said) {
        "cannot open shared object file: No such file or directory" => Err(NotOpened::Missing),
        why => Err(useless(why.to_owned())),
    }
}

fn loader_error() -> String {
    // SAFETY: no arguments; the text belongs to this thread.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: not null, so a string that ends in NUL, valid until this thread's next call of
    // the loader.
    let said = unsafe { CStr::from_ptr(said) };
    said.to_string_lossy().into_owned()
}

fn symbol(opened: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `opened` is a library that was opened and is never closed; the name ends in NUL.
    let address = unsafe { libc::dlsym(opened, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Calls a function that writes a text and its length.
fn text(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> Option<String> {
    let mut bytes = vec![0u8; TEXT_BYTES];
    let mut length = 0;
    if write(bytes.as_mut_ptr().cast(), &raw mut length) != SUCCESS {
        return None;
    }
    let written = CStr::from_bytes_until_nul(&bytes).ok()?;
    Some(written.to_string_lossy().into_owned())
}

/// Determines a library's ABI.
///
/// A library with the standard ABI answers `MPI_Abi_get_version`; MPICH's native library has the
/// function and returns -1. Open MPI plans to layer both ABIs over one inner library, whose symbols
/// are visible through either. There the file name decides, which the standard fixes.
fn abi_of(opened: *mut c_void, path: &Path) -> Result<&'static Abi, Unusable> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let named_standard = [path, &real]
        .iter()
        .any(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("mpi_abi")));
    let open_mpi = symbol(opened, c"ompi_mpi_comm_world").is_some();
    let version = standard_version(opened);
    match version {
        Some(1..) if named_standard || !open_mpi => Ok(&STANDARD),
        // Drafts of the standard had other values.
        _ if named_standard => Err(Unusable::DraftAbi),
        _ if open_mpi => Ok(&OPEN_MPI),
        _ => Ok(&MPICH),
    }
}

/// Returns the version of the standard ABI, if the library has it.
fn standard_version(opened: *mut c_void) -> Option<c_int> {
    let address = symbol(opened, c"MPI_Abi_get_version")?;
    // SAFETY: MPI 5.0 defines this function with these arguments.
    let ask = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(address)
    };
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: both variables outlive the call; the function may be called at any time.
    let code = unsafe { ask(&raw mut major, &raw mut minor) };
    (code == SUCCESS).then_some(major)
}
