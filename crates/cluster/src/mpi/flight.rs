//! A message in flight, with the buffer that the library works on.

#![allow(unsafe_code)]

use super::library::{HandleSlot, Library, Matched};
use crate::transport::{Broken, Rank};

/// Placeholder until the library has returned a request. If it never does, the call failed, and the
/// request is not tested.
const UNKNOWN: HandleSlot = 0;

/// A message in flight, which owns its bytes until the library is done with them.
///
/// Invariant: while `request` is set, the library may read or write `bytes`, so nobody else does,
/// and they are not freed: dropping a flight early leaks them, even if the library failed. Moving
/// the `Vec` does not move its contents.
pub(super) struct Flight {
    /// The other rank.
    pub(super) peer: Rank,
    request: Option<HandleSlot>,
    bytes: Vec<u8>,
}

impl Flight {
    /// Starts to send.
    pub(super) fn send(library: &Library, to: Rank, tag: i32, bytes: Vec<u8>) -> Result<Self, Broken> {
        let mut flight = Self { peer: to, request: Some(UNKNOWN), bytes };
        // SAFETY: the bytes stay in the flight, untouched, until the request is done (see the
        // invariant).
        let request = unsafe { library.send(&flight.bytes, to.0, tag) }?;
        flight.request = Some(request);
        Ok(flight)
    }

    /// Starts to receive.
    pub(super) fn receive(library: &Library, matched: Matched) -> Result<Self, Broken> {
        let bytes = vec![0; matched.bytes];
        let mut flight = Self { peer: Rank(matched.from), request: Some(UNKNOWN), bytes };
        // SAFETY: same as in `send`.
        let request = unsafe { library.receive(matched, &mut flight.bytes) }?;
        flight.request = Some(request);
        Ok(flight)
    }

    /// Returns true if the message has arrived (when receiving) or its bytes are no longer needed
    /// (when sending).
    pub(super) fn is_done(&mut self, library: &Library) -> Result<bool, Broken> {
        if let Some(request) = &mut self.request {
            if !library.test(request)? {
                return Ok(false);
            }
            self.request = None;
        }
        Ok(true)
    }

    /// Returns the size of the message, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of a completed message.
    pub(super) fn into_bytes(mut self) -> Option<Vec<u8>> {
        if self.request.is_some() { None } else { Some(std::mem::take(&mut self.bytes)) }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.request.is_some() {
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}
