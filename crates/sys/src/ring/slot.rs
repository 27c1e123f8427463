//! The state of one request in flight.
//!
//! A request is one entry in the submission queue, or two for a pair: its *parts*. Each part has
//! one completion, in any order. The request is finished when no completion is due.

use rustix::io::Errno;

use crate::operation::Operation;
use crate::raw_result::{asked, is_transient, negated};

use super::request::{CANCELLED, FIRST, Holder, RingRequest, SECOND};

pub(super) struct RingSlot {
    pub(super) token: u64,
    pub(super) request: Option<RingRequest>,
    pub(super) holder: Holder,
    /// Failed submissions so far. A request with `ATTEMPTS_MAX` is not submitted again.
    pub(super) attempts: u8,
    /// Parts whose completion is still due, queued or in the kernel: bit 0 the first, bit 1
    /// the second.
    due: u8,
    /// Raw result of each part. A part that is never submitted has its result from the start.
    pub(super) results: [i32; 2],
}

impl RingSlot {
    pub(super) fn empty() -> Self {
        Self {
            token: 0,
            request: None,
            holder: Holder::Process,
            attempts: 0,
            due: 0,
            results: [CANCELLED; 2],
        }
    }

    pub(super) fn of(token: u64, request: RingRequest) -> Self {
        Self { token, request: Some(request), ..Self::empty() }
    }

    pub(super) fn expect(&mut self, part: usize) {
        self.due |= 1 << part;
    }

    pub(super) fn is_due(&self, part: usize) -> bool {
        self.due & (1 << part) != 0
    }

    /// True if every part has its result.
    pub(super) fn is_finished(&self) -> bool {
        self.due == 0
    }

    /// Records the result of a part; returns true if it was the last one.
    pub(super) fn record(&mut self, part: usize, result: i32) -> bool {
        self.due &= !(1 << part);
        self.results[part] = result;
        self.is_finished()
    }

    /// Fails the request for good and discards any results.
    pub(super) fn fail(&mut self, errno: Errno) {
        self.due = 0;
        self.results = [negated(errno), CANCELLED];
    }

    pub(super) fn is_pair(&self) -> bool {
        self.request.as_ref().is_some_and(RingRequest::is_pair)
    }

    pub(super) fn is_close(&self) -> bool {
        matches!(self.request, Some(RingRequest::Close { .. }))
    }

    /// True if the kernel asks to retry. Never for a close that was submitted (`attempts` is 0):
    /// its descriptor is gone even after `EINTR`.
    pub(super) fn is_postponed(&self) -> bool {
        is_transient(self.results[FIRST]) && !(self.is_close() && self.attempts == 0)
    }
}

/// Encodes a part as `user_data`. Never yields `CANCELLATION`.
pub(super) fn mark(index: usize, part: usize) -> u64 {
    (index as u64) << 1 | part as u64
}

/// Decodes a mark into slot and part.
pub(super) fn marked(mark: u64) -> (usize, usize) {
    let index = usize::try_from(mark >> 1).unwrap_or(usize::MAX);
    (index, if mark & 1 == 0 { FIRST } else { SECOND })
}

/// For each part, the number of bytes to ask the kernel for, or its result if it isn't submitted.
pub(super) type PartPlans = [std::result::Result<usize, i32>; 2];

/// Asks the fault hook about each part of a request.
pub(super) fn plan(request: &RingRequest) -> PartPlans {
    let length = request.length();
    let first = asked(request.operation(), length);
    let second = match request {
        // The write of a pair is submitted for the whole length, or not at all if the read will be
        // short: just as the kernel cancels the link after a short read.
        request if request.is_pair() && first == Ok(length) => asked(Operation::Write, length),
        _ => Err(CANCELLED),
    };
    [first, second]
}
