//! The POSIX AIO calls on glibc.
//!
//! Layouts that the `libc` crate lacks are declared here, following glibc's `aio.h` and
//! `bits/types/sigevent_t.h`, and checked at compile time against those it has.

use std::cell::UnsafeCell;
use std::mem::{self, MaybeUninit, offset_of};
use std::os::fd::AsRawFd;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::fd::last_errno;
use crate::gate::{self, FaultDecision};
use crate::operation::Operation;
use crate::raw_result::negated;
use crate::transfer::TransferPart;

/// Maximum operations in one list. Their addresses are gathered on the stack.
pub(super) const LIST_MAX: usize = 256;

/// Stack size of a notification thread, in bytes. It does little, and there may be as many as
/// requests in flight: at the default of 8 MiB each they would soon exceed glibc's stack cache and
/// any address space limit.
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

/// `struct sigevent`, with the function and attributes variant of its union.
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

/// Sets the numbers of threads and requests. The C library keeps one pair of them for the whole
/// process, and ignores this call after the first request.
#[allow(clippy::unnecessary_wraps, reason = "its twin for other C libraries refuses")]
pub(super) fn init(threads: usize, requests: usize) -> Result<(), Errno> {
    let number = |count| c_int::try_from(count).unwrap_or(c_int::MAX);
    let (threads, requests) = (number(threads), number(requests));
    // An idle time of 0 keeps the default of one second.
    let init = Init { threads, requests, unused: [0; 4], idle_seconds: 0, reserved: 0 };
    // SAFETY: `init` has the layout of `struct aioinit` and is only read during the call.
    unsafe { aio_init(&raw const init) };
    Ok(())
}

/// A control block: the operation, and its result once complete.
///
/// The `unsafe` methods touch fields that nobody else may touch at the time:
/// [`super::slot::PosixAioSlot`] defines who may when.
pub(super) struct PosixControlBlock(UnsafeCell<libc::aiocb>);

impl PosixControlBlock {
    pub(super) fn new() -> Self {
        // SAFETY: `aiocb` is made of integers and pointers, for which zero is a value.
        Self(UnsafeCell::new(unsafe { MaybeUninit::zeroed().assume_init() }))
    }

    /// Writes the operation into the block: a part, limited to `length` bytes. On completion,
    /// `function` is called with `value` on a thread of its own.
    ///
    /// # Safety
    /// The C library doesn't have the block.
    pub(super) unsafe fn prepare(
        &self,
        part: TransferPart<'_>,
        length: usize,
        function: extern "C" fn(libc::sigval),
        value: *mut c_void,
    ) {
        // SAFETY: the caller guarantees that nobody else uses the block.
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
            // An fsync, which can't be part of a list.
            _ => libc::LIO_NOP,
        };
        block.aio_reqprio = 0;
        block.aio_buf = part.bytes.as_mut_ptr().cast();
        block.aio_nbytes = length;
        block.aio_offset = part.offset.cast_signed();
        // SAFETY: both are layouts of one C type, as the assertions above check, and no byte
        // is uninitialised.
        block.aio_sigevent = unsafe { mem::transmute::<Notification, libc::sigevent>(notification) };
    }

    /// Passes the operation to the C library; `operation` is that of its part.
    ///
    /// # Safety
    /// The block was prepared. The block, and the memory and descriptor it names, stay valid until
    /// the operation has completed and its function was called.
    pub(super) unsafe fn enqueue(&self, operation: Operation) -> Result<(), Errno> {
        let (operation, call): (_, unsafe extern "C" fn(*mut libc::aiocb) -> c_int) = match operation {
            Operation::Read => (Operation::AioRead, libc::aio_read),
            Operation::Write => (Operation::AioWrite, libc::aio_write),
            _ => (Operation::AioFsync, synchronize),
        };
        if let FaultDecision::Fail(errno) = gate::verdict(operation, 0) {
            return Err(errno);
        }
        // SAFETY: upheld by our caller.
        match unsafe { call(self.0.get()) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Returns true if the operation has completed. Its notification may still be due.
    pub(super) fn is_over(&self) -> bool {
        // SAFETY: the block is valid, and `aio_error` may be called while the C library has it.
        unsafe { libc::aio_error(self.0.get()) != libc::EINPROGRESS }
    }

    /// After a list was only partly accepted, returns true if this operation was left out: glibc
    /// then has set an error but not the return value -1 of a failed call. One that glibc had no
    /// memory to look at is not recognised.
    pub(super) fn was_left_out(&self) -> bool {
        // SAFETY: as in `is_over`.
        let error = unsafe { libc::aio_error(self.0.get()) };
        if error == libc::EINPROGRESS || error == 0 {
            return false;
        }
        // SAFETY: the operation has completed, so nobody writes to the block.
        unsafe { libc::aio_return(self.0.get()) == 0 }
    }

    /// Returns the raw result of the operation.
    ///
    /// # Safety
    /// The function of the operation was called.
    pub(super) unsafe fn answer(&self) -> i32 {
        // `aio_return` first: `aio_error` takes the lock that glibc holds while it
        // starts notifications.
        // SAFETY: the operation has completed, as the caller guarantees.
        let moved = unsafe { libc::aio_return(self.0.get()) };
        if moved >= 0 {
            return i32::try_from(moved).unwrap_or(negated(Errno::IO));
        }
        // SAFETY: as above.
        let error = unsafe { libc::aio_error(self.0.get()) };
        -error
    }
}

/// Passes several operations to the C library in one call.
///
/// # Errors
/// If it did not accept all of them; [`PosixControlBlock::was_left_out`] finds those it didn't.
///
/// # Safety
/// Those of [`PosixControlBlock::enqueue`], for each block; there are at most [`LIST_MAX`].
pub(super) unsafe fn enqueue_list<'a>(
    controls: impl Iterator<Item = &'a PosixControlBlock>,
) -> Result<(), Errno> {
    let mut list = [ptr::null_mut(); LIST_MAX];
    let mut count = 0;
    for (place, control) in list.iter_mut().zip(controls) {
        *place = control.0.get();
        count += 1;
    }
    // SAFETY: `list` holds `count` valid blocks, each with its own notification; the list itself
    // has none.
    match unsafe { libc::lio_listio(libc::LIO_NOWAIT, list.as_ptr(), count, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// `aio_fsync` with the signature of the other calls.
///
/// # Safety
/// Those of `aio_fsync`.
unsafe extern "C" fn synchronize(block: *mut libc::aiocb) -> c_int {
    // SAFETY: upheld by our caller.
    unsafe { libc::aio_fsync(libc::O_SYNC, block) }
}

/// Returns the attributes of notification threads: detached, with a small stack. Null, for the
/// defaults, if the system refuses them.
fn attributes() -> *mut libc::pthread_attr_t {
    static ATTRIBUTES: OnceLock<Option<libc::pthread_attr_t>> = OnceLock::new();
    let attributes = ATTRIBUTES.get_or_init(|| {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: initialises the memory it is given.
        if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: it has just been initialised.
        let mut attributes = unsafe { attributes.assume_init() };
        // SAFETY: the attributes are valid.
        let detached =
            unsafe { libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED) };
        // SAFETY: as above.
        let sized = unsafe { libc::pthread_attr_setstacksize(&raw mut attributes, NOTIFICATION_STACK_BYTES) };
        (detached == 0 && sized == 0).then_some(attributes)
    });
    // The C library only reads them, and they live as long as the process.
    attributes.as_ref().map_or(ptr::null_mut(), |attributes| ptr::from_ref(attributes).cast_mut())
}
