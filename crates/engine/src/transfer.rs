//! Conversion between calls and the transfers that asynchronous engines submit.

use haul_sys::{TransferRequest, Transferred};

use crate::{Call, Outcome};

/// Converts a call into a transfer, or returns it if it isn't one.
///
/// [`Wait::Never`](crate::Wait::Never) is dropped, because the worker doesn't wait
/// for the transfer.
pub(crate) fn transfer(call: Call) -> std::result::Result<TransferRequest, Call> {
    Ok(match call {
        Call::Read { file, offset, buffer, length, cache, .. } => {
            TransferRequest::Read { file, offset, buffer, length, cache }
        }
        Call::Write { file, offset, buffer, range, cache } => {
            TransferRequest::Write { file, offset, buffer, range, cache }
        }
        Call::Pair { source, target, offset, buffer, length, cache } => {
            TransferRequest::Pair { source, target, offset, buffer, length, cache }
        }
        Call::Synchronize { file } => TransferRequest::Fsync { file },
        call => return Err(call),
    })
}

impl From<Transferred> for Outcome {
    fn from(transferred: Transferred) -> Self {
        match transferred {
            Transferred::Read { buffer, result } => Self::Read { buffer, result: result.map(Some) },
            Transferred::Wrote { buffer, result } => Self::Wrote { buffer, result },
            Transferred::Paired { buffer, read, written } => Self::Paired { buffer, read, written },
            Transferred::Synchronized(result) => Self::Synchronized(result),
        }
    }
}
