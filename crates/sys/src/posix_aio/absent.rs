//! Stubs for C libraries other than glibc: POSIX AIO fails with `ENOSYS`.
//!
//! Other C libraries have these calls too, but with other layouts, and none lets its number of
//! threads be set.

use std::os::raw::c_void;

use rustix::io::Errno;

use crate::operation::Operation;
use crate::transfer::TransferPart;

pub(super) const LIST_MAX: usize = 1;

pub(super) fn init(_threads: usize, _requests: usize) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// A control block that is never used.
pub(super) struct PosixControlBlock;

impl PosixControlBlock {
    pub(super) fn new() -> Self {
        Self
    }

    /// # Safety
    /// No requirements.
    pub(super) unsafe fn prepare(
        &self,
        _: TransferPart<'_>,
        _: usize,
        _: extern "C" fn(libc::sigval),
        _: *mut c_void,
    ) {
    }

    /// # Safety
    /// No requirements.
    pub(super) unsafe fn enqueue(&self, _: Operation) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    pub(super) fn is_over(&self) -> bool {
        true
    }

    pub(super) fn was_left_out(&self) -> bool {
        true
    }

    /// # Safety
    /// No requirements.
    pub(super) unsafe fn answer(&self) -> i32 {
        -1
    }
}

/// # Safety
/// No requirements.
pub(super) unsafe fn enqueue_list<'a>(_: impl Iterator<Item = &'a PosixControlBlock>) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
