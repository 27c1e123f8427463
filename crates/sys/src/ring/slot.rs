//! The state of one request in flight.
//!
//! A request is one entry for the kernel, or two for a pair: its *parts*. Each part has one completion, in whichever
//! order; the request is finished when none is due any more.

use rustix::io::Errno;

use crate::answer::{asked, is_transient, word};
use crate::operation::Operation;

use super::request::{Holder, RingRequest};

/// Which part of a request an entry is: the only one, or the first of a pair.
pub(super) const FIRST: usize = 0;

/// The write of a pair.
pub(super) const SECOND: usize = 1;

/// What the kernel answers for the part of a chain that it did not begin, because the part before it was not done whole.
pub(super) const CANCELLED: i32 = word(Errno::CANCELED);

/// A place for one request.
pub(super) struct Slot {
    pub(super) token: u64,
    pub(super) request: Option<RingRequest>,
    pub(super) holder: Holder,
    /// How often it was given to the kernel in vain; `ATTEMPTS_MAX` means that it is not given again.
    pub(super) attempts: u8,
    /// The parts whose completion is yet to come, queued or in the kernel: bit 0 the first, bit 1 the second.
    due: u8,
    /// What became of each part, as the kernel words it. A part that never went there has its result from the start.
    pub(super) results: [i32; 2],
}

impl Slot {
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

    /// Expects the completion of a part.
    pub(super) fn expect(&mut self, part: usize) {
        self.due |= 1 << part;
    }

    pub(super) fn is_due(&self, part: usize) -> bool {
        self.due & (1 << part) != 0
    }

    /// Tells whether every part has its result.
    pub(super) fn is_finished(&self) -> bool {
        self.due == 0
    }

    /// Notes a part's result; tells whether it was the last.
    pub(super) fn settle(&mut self, part: usize, result: i32) -> bool {
        self.due &= !(1 << part);
        self.results[part] = result;
        self.is_finished()
    }

    /// Ends it for good, whatever was known of its parts.
    pub(super) fn fail(&mut self, errno: Errno) {
        self.due = 0;
        self.results = [word(errno), CANCELLED];
    }

    pub(super) fn is_pair(&self) -> bool {
        self.request.as_ref().is_some_and(RingRequest::is_pair)
    }

    pub(super) fn is_close(&self) -> bool {
        matches!(self.request, Some(RingRequest::Close { .. }))
    }

    /// Tells whether the kernel says to ask again.
    pub(super) fn is_postponed(&self) -> bool {
        is_transient(self.results[FIRST]) && !(self.is_close() && self.attempts == 0)
    }
}

/// Words a part for `user_data`; the cancellations' mark is the mark of none.
pub(super) fn mark(index: usize, part: usize) -> u64 {
    (index as u64) << 1 | part as u64
}

/// Returns the slot and the part that a mark stands for.
pub(super) fn marked(mark: u64) -> (usize, usize) {
    let index = usize::try_from(mark >> 1).unwrap_or(usize::MAX);
    (index, if mark & 1 == 0 { FIRST } else { SECOND })
}

/// For each part the bytes to ask the kernel for, or its result if it is not to be asked.
pub(super) type Plan = [std::result::Result<usize, i32>; 2];

/// Asks the fault hook about each part of a request.
pub(super) fn plan(request: &RingRequest) -> Plan {
    let length = request.length();
    let first = asked(request.operation(), length);
    let second = match request {
        // The write of a pair is for the whole length or, when the read will not bring that, not at all: what the kernel
        // itself makes of a read that is short.
        request if request.is_pair() && first == Ok(length) => asked(Operation::Write, length),
        _ => Err(CANCELLED),
    };
    [first, second]
}
