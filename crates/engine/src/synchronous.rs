//! Synchronous implementation of every [`Call`].
//!
//! The synchronous engine is nothing else. Asynchronous engines use it for operations that they
//! can't submit to the kernel's queue, or that measurements show they shouldn't. It keeps the
//! engine contract: the buffer is always returned, short transfers stay short, and the outcome's
//! variant matches the call.

use haul_sys as sys;
use haul_sys::TransferRequest;

use crate::op::{Call, Outcome, Wait};

/// Performs the operation now, waiting for the disk if the call allows it.
///
/// # Panics
/// If a read or write exceeds its buffer, which is a bug in the caller.
pub(crate) fn perform(call: Call) -> Outcome {
    match call {
        Call::Open { directory, name, how } => Outcome::Opened(sys::open(&*directory, name.as_c_str(), how)),
        Call::Stat { file } => Outcome::Stated(sys::stat(&*file)),
        Call::Read { file, offset, mut buffer, length, wait, cache } => {
            let bytes = &mut buffer.bytes_mut()[..length];
            let result = match wait {
                Wait::Allowed => sys::read(&*file, offset, bytes, cache).map(Some),
                Wait::Never => sys::read_cached(&*file, offset, bytes, cache),
            };
            Outcome::Read { buffer, result }
        }
        Call::ReadStream { file, mut buffer, length } => {
            let result = sys::read_stream(&*file, &mut buffer.bytes_mut()[..length]).map(Some);
            Outcome::Read { buffer, result }
        }
        Call::Write { file, offset, buffer, range, cache } => {
            let result = sys::write(&*file, offset, &buffer.bytes()[range], cache);
            Outcome::Wrote { buffer, result }
        }
        Call::Pair { source, target, offset, buffer, length, cache } => {
            TransferRequest::Pair { source, target, offset, buffer, length, cache }.perform_now().into()
        }
        Call::CopyRange { source, target, offset, length, pipe } => {
            let (pipe, result) = match pipe {
                None => (None, sys::copy_range(&*source, &*target, offset, length)),
                Some(pipe) => pipe.copy(&*source, &*target, offset, length),
            };
            Outcome::Copied { pipe, result }
        }
        Call::Synchronize { file } => Outcome::Synchronized(sys::synchronize(&*file)),
        Call::Close { file } => Outcome::Closed(file.close()),
    }
}
