//! Names in flight: those being made, or to be made in turn.
//!
//! Many workers make members at once. But the fate of a name that comes twice, or of a file below a
//! name that was a link before, must not depend on who is faster. So the reader records every name
//! that a piece touches until the piece was put. A member that meets one of them, as its own name
//! or as a directory above it, is not made in parallel, but when its piece is put, after everything
//! before it.
//!
//! Names are identified by hashes of their paths. A collision costs only time.

use std::collections::HashMap;
use std::sync::Mutex;

use haul_flow::lock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PathHash(pub(super) u64);

impl PathHash {
    pub(super) const ROOT: PathHash = PathHash(0);

    /// Returns the hash of a name in this directory.
    pub(super) fn of(self, name: &[u8]) -> Self {
        Self(xxh3_64_with_seed(name, self.0 ^ 0x9e37_79b9_7f4a_7c15))
    }
}

/// Names in flight, and the number of pieces that touch each.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<PathHash, u32>>);

impl InFlight {
    pub(super) fn has(&self, name: PathHash) -> bool {
        lock(&self.0).contains_key(&name)
    }

    pub(super) fn begin(&self, name: PathHash) {
        *lock(&self.0).entry(name).or_default() += 1;
    }

    /// Removes the names of a piece, each as often as it was recorded.
    pub(super) fn end(&self, names: &[PathHash]) {
        let mut counts = lock(&self.0);
        for name in names {
            match counts.get_mut(name) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(counts.remove(name)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_under_way_as_often_as_it_was_recorded() {
        let (flight, name) = (InFlight::default(), PathHash::ROOT.of(b"a").of(b"b"));
        assert_ne!(name, PathHash::ROOT.of(b"b").of(b"a"));
        flight.begin(name);
        flight.begin(name);
        flight.end(&[name]);
        assert!(flight.has(name));
        flight.end(&[name]);
        assert!(!flight.has(name));
    }
}
