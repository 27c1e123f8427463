//! Answers of asynchronous calls, as the kernel words them: a count, or an error's number below zero.
//!
//! The kernel moves less than 2 GiB in one transfer, so 32 bits hold any answer.

use rustix::io::Errno;

use crate::gate::{self, Verdict};
use crate::operation::Operation;

/// Words a failure.
pub(crate) const fn word(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

/// Takes a count and an error's number apart.
pub(crate) fn counted(answer: i32) -> std::result::Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| Errno::from_raw_os_error(answer.saturating_neg()))
}

/// Tells whether an answer means that the operation did not take place but may the next time.
pub(crate) fn is_transient(answer: i32) -> bool {
    answer == word(Errno::INTR) || answer == word(Errno::AGAIN)
}

/// Asks the fault hook about an operation that would move `length` bytes: how many to ask the kernel for, or what is put
/// in place of its answer.
pub(crate) fn asked(operation: Operation, length: usize) -> std::result::Result<usize, i32> {
    match gate::verdict(operation, length) {
        Verdict::Fail(errno) => Err(word(errno)),
        Verdict::Shorten(0) if length > 0 => Err(0),
        Verdict::Shorten(shorter) => Ok(shorter.min(length)),
        Verdict::Pass => Ok(length),
    }
}
