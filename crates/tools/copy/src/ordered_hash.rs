//! Hashes that need a file's bytes in order. Without the feature `hashes` there are none.

#[cfg(feature = "hashes")]
use std::{fmt, sync::Mutex};

use haul_digest::{Algorithm, Digest};
#[cfg(feature = "hashes")]
use haul_digest::{OutOfOrder, StreamHash};
#[cfg(feature = "hashes")]
use haul_flow::lock;

/// The hash of content that one stream reads in order, leaving holes out.
#[cfg(feature = "hashes")]
pub(super) struct OrderedHash(Algorithm, Mutex<Result<StreamHash, OutOfOrder>>);

#[cfg(feature = "hashes")]
impl OrderedHash {
    /// Creates an empty hash; `None` if this build has none for the algorithm.
    pub(super) fn new(algorithm: Algorithm) -> Option<Self> {
        Some(Self(algorithm, Mutex::new(Ok(StreamHash::new(algorithm)))))
    }

    pub(super) fn add(&self, offset: u64, bytes: &[u8]) {
        let mut state = lock(&self.1);
        if let Ok(hash) = &mut *state
            && let Err(misplaced) = hash.insert(offset, bytes)
        {
            // Never with one stream. Should it happen, a wrong hash must not be passed on.
            *state = Err(misplaced);
        }
    }

    /// Starts over.
    pub(super) fn begin_again(&self) {
        *lock(&self.1) = Ok(StreamHash::new(self.0));
    }

    /// Returns the hash of a file of `length` bytes; `None` if its bytes were not added in order,
    /// or are more. Begins again.
    pub(super) fn finish(&self, length: u64) -> Option<Digest> {
        let state = std::mem::replace(&mut *lock(&self.1), Ok(StreamHash::new(self.0)));
        state.ok()?.finish(length)
    }
}

#[cfg(feature = "hashes")]
impl fmt::Debug for OrderedHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("OrderedHash").field(&self.0).finish()
    }
}

/// No such hash.
#[cfg(not(feature = "hashes"))]
#[derive(Debug)]
pub(super) enum OrderedHash {}

#[cfg(not(feature = "hashes"))]
impl OrderedHash {
    pub(super) fn new(_: Algorithm) -> Option<Self> {
        None
    }

    pub(super) fn add(&self, _: u64, _: &[u8]) {
        match *self {}
    }

    pub(super) fn begin_again(&self) {
        match *self {}
    }

    pub(super) fn finish(&self, _: u64) -> Option<Digest> {
        match *self {}
    }
}
