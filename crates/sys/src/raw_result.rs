//! Raw results of asynchronous operations, as the kernel returns them: a count, or a
//! negative errno.
//!
//! The kernel moves less than 2 GiB in one transfer, so 32 bits hold any result.

use rustix::io::Errno;

use crate::gate::{self, FaultDecision};
use crate::operation::Operation;

/// Returns the raw result for a failure.
pub(crate) const fn negated(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

/// Converts a raw result into a count or an errno.
pub(crate) fn counted(answer: i32) -> std::result::Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| Errno::from_raw_os_error(answer.saturating_neg()))
}

/// Returns true if the operation did not take place but a retry may succeed.
pub(crate) fn is_transient(answer: i32) -> bool {
    answer == negated(Errno::INTR) || answer == negated(Errno::AGAIN)
}

/// Asks the fault hook about an operation of `length` bytes. Returns how many bytes to ask the
/// kernel for, or the raw result to use instead.
pub(crate) fn asked(operation: Operation, length: usize) -> std::result::Result<usize, i32> {
    match gate::verdict(operation, length) {
        FaultDecision::Fail(errno) => Err(negated(errno)),
        FaultDecision::Shorten(0) if length > 0 => Err(0),
        FaultDecision::Shorten(shorter) => Ok(shorter.min(length)),
        FaultDecision::Pass => Ok(length),
    }
}
