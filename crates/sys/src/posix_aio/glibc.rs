//! The calls of the C library's POSIX AIO, on glibc.
//!
//! Layouts that the `libc` crate lacks are declared here, after glibc's `aio.h` and `bits/types/sigevent_t.h`, and checked
//! against those it has when this is compiled.

use std::cell::UnsafeCell;
use std::mem::{self, MaybeUninit, offset_of};
use std::os::fd::AsRawFd;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::answer::word;
use crate::fd::last_errno;
use crate::gate::{self, Verdict};
use crate::operation::Operation;
use crate::transfer::Part;

/// The most operations passed in one list: as many pointers as are worth keeping on the stack.
pub(super) const LIST_MAX: usize = 256;

/// The stack of a notification's thread, in bytes. It does little, and as many of them as requests may live at a time: the
/// default of 8 MiB each would soon exceed what the C library keeps mapped for the next, and any limit on addresses.
const NOTIFICATION_STACK_BYTES: usize = 128 << 10;

/// `struct aioinit`.
#[repr(C)]
struct Init {
    threads: c_int,
    requests: c_int,
    unused: [c_int; 4],
    idle_seconds: c_int,
    reserved: c_int,
}

/// `struct sigevent`, with its function and attributes in the place of a thread's number.
#[repr(C)]
struct Notification {
    value: *mut c_void,
    signal: c_int,
    way: c_int,
    function: extern "C" fn(libc::sigval),
    attributes: *mut libc::pthread_attr_t,
    unused: [u64; 4],
}

const _: () = {
    assert!(size_of::<Notification>() == size_of::<libc::sigevent>());
    assert!(align_of::<Notification>() == align_of::<libc::sigevent>());
    assert!(offset_of!(Notification, value) == offset_of!(libc::sigevent, sigev_value));
    assert!(offset_of!(Notification, way) == offset_of!(libc::sigevent, sigev_notify));
    assert!(offset_of!(Notification, function) == offset_of!(libc::sigevent, sigev_notify_thread_id));
    assert!(size_of::<Init>() == size_of::<[c_int; 8]>());
};

unsafe extern "C" {
    fn aio_init(init: *const Init);
}

/// Asks for this many threads and requests. The C library keeps one set of both for the whole process, and listens only
/// until the first request.
#[allow(clippy::unnecessary_wraps, reason = "its twin for other C libraries refuses")]
pub(super) fn init(threads: usize, requests: usize) -> Result<(), Errno> {
    let number = |count| c_int::try_from(count).unwrap_or(c_int::MAX);
    let (threads, requests) = (number(threads), number(requests));
    // An idle time of 0 leaves it as it is, a second.
    let init = Init { threads, requests, unused: [0; 4], idle_seconds: 0, reserved: 0 };
    // SAFETY: `init` has the layout of `struct aioinit` and is only read during the call.
    unsafe { aio_init(&raw const init) };
    Ok(())
}

/// A control block: what the C library is to do, and what came of it.
///
/// The methods that are `unsafe` touch fields that nobody else may touch at the time; [`super::Slot`] says who does when.
pub(super) struct Control(UnsafeCell<libc::aiocb>);

impl Control {
    pub(super) fn new() -> Self {
        // SAFETY: `aiocb` is made of integers and pointers, for which zero is a value.
        Self(UnsafeCell::new(unsafe { MaybeUninit::zeroed().assume_init() }))
    }

    /// Writes down the job: a part, bounded by `length`. When it is over, `function` is called with `value` on a thread of
    /// its own.
    ///
    /// # Safety
    /// The C library does not have the block.
    pub(super) unsafe fn prepare(
        &self,
        part: Part<'_>,
        length: usize,
        function: extern "C" fn(libc::sigval),
        value: *mut c_void,
    ) {
        // SAFETY: the caller says that nobody else uses the block.
        let block = unsafe { &mut *self.0.get() };
        let notification = Notification {
            value,
            signal: 0,
            way: libc::SIGEV_THREAD,
            function,
            attributes: attributes(),
            unused: [0; 4],
        };
        block.aio_fildes = part.file.as_raw_fd();
        block.aio_lio_opcode = match part.operation {
            Operation::Read => libc::LIO_READ,
            Operation::Write => libc::LIO_WRITE,
            // An fsync, which has no place in a list.
            _ => libc::LIO_NOP,
        };
        block.aio_reqprio = 0;
        block.aio_buf = part.bytes.as_mut_ptr().cast();
        block.aio_nbytes = length;
        block.aio_offset = part.offset.cast_signed();
        // SAFETY: the two are layouts of one type of C, as the assertions above check, and no byte is uninitialised.
        block.aio_sigevent = unsafe { mem::transmute::<Notification, libc::sigevent>(notification) };
    }

    /// Gives the job to the C library; `operation` is its part's.
    ///
    /// # Safety
    /// The block was prepared; it, and the memory and descriptor that the job names, stay until the job is over and its
    /// function was called.
    pub(super) unsafe fn enqueue(&self, operation: Operation) -> Result<(), Errno> {
        let (operation, call): (_, unsafe extern "C" fn(*mut libc::aiocb) -> c_int) = match operation {
            Operation::Read => (Operation::AioRead, libc::aio_read),
            Operation::Write => (Operation::AioWrite, libc::aio_write),
            _ => (Operation::AioFsync, synchronize),
        };
        if let Verdict::Fail(errno) = gate::verdict(operation, 0) {
            return Err(errno);
        }
        // SAFETY: as required of our caller.
        match unsafe { call(self.0.get()) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Tells whether the C library is done with the job, its notification apart.
    pub(super) fn is_over(&self) -> bool {
        // SAFETY: the block is a valid one; this is the call to look at it while the C library has it.
        unsafe { libc::aio_error(self.0.get()) != libc::EINPROGRESS }
    }

    /// Tells, after a list was not taken as a whole, whether this job of it was not: glibc has then noted an error, but not
    /// the -1 of a call that failed. One that it had no memory to look at is not recognised.
    pub(super) fn was_left_out(&self) -> bool {
        // SAFETY: as in `is_over`.
        let error = unsafe { libc::aio_error(self.0.get()) };
        if error == libc::EINPROGRESS || error == 0 {
            return false;
        }
        // SAFETY: the job is over, so nobody writes to the block.
        unsafe { libc::aio_return(self.0.get()) == 0 }
    }

    /// Returns what came of the job, as the kernel words it.
    ///
    /// # Safety
    /// The job's function was called.
    pub(super) unsafe fn answer(&self) -> i32 {
        // `aio_return` alone first: `aio_error` takes the lock under which glibc starts the notifications.
        // SAFETY: the job is over, as the caller says.
        let moved = unsafe { libc::aio_return(self.0.get()) };
        if moved >= 0 {
            return i32::try_from(moved).unwrap_or(word(Errno::IO));
        }
        // SAFETY: as above.
        let error = unsafe { libc::aio_error(self.0.get()) };
        -error
    }
}

/// Gives several jobs to the C library in one call.
///
/// # Errors
/// When it did not take all of them; [`Control::was_left_out`] says which.
///
/// # Safety
/// As [`Control::enqueue`], for each; there are no more than [`LIST_MAX`].
pub(super) unsafe fn enqueue_list<'a>(controls: impl Iterator<Item = &'a Control>) -> Result<(), Errno> {
    let mut list = [ptr::null_mut(); LIST_MAX];
    let mut count = 0;
    for (place, control) in list.iter_mut().zip(controls) {
        *place = control.0.get();
        count += 1;
    }
    // SAFETY: `list` holds `count` valid blocks, each with its own notification; the list itself needs none.
    match unsafe { libc::lio_listio(libc::LIO_NOWAIT, list.as_ptr(), count, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Gives an `fsync` to the C library, in the shape of the other calls.
///
/// # Safety
/// As `aio_fsync`.
unsafe extern "C" fn synchronize(block: *mut libc::aiocb) -> c_int {
    // SAFETY: as required of our caller.
    unsafe { libc::aio_fsync(libc::O_SYNC, block) }
}

/// Returns the attributes of the notifications' threads: detached, with a small stack. Null, for the defaults, where the
/// system does not let us have them.
fn attributes() -> *mut libc::pthread_attr_t {
    static ATTRIBUTES: OnceLock<Option<libc::pthread_attr_t>> = OnceLock::new();
    let attributes = ATTRIBUTES.get_or_init(|| {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: initialises the memory it is given.
        if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: has just been initialised.
        let mut attributes = unsafe { attributes.assume_init() };
        // SAFETY: the attributes are valid.
        let detached =
            unsafe { libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED) };
        // SAFETY: as above.
        let sized = unsafe { libc::pthread_attr_setstacksize(&raw mut attributes, NOTIFICATION_STACK_BYTES) };
        (detached == 0 && sized == 0).then_some(attributes)
    });
    // The C library only reads them, and they last as long as the process.
    attributes.as_ref().map_or(ptr::null_mut(), |attributes| ptr::from_ref(attributes).cast_mut())
}
