//! Names that are being made, or will be, before it is their turn.
//!
//! Members are made by many workers at once, but what becomes of a name that comes twice, or of a file below a name that was
//! a link before, must not depend on who is faster. So the reader records every name that a piece touches until the piece
//! was put; a member that meets one of them, as its own name or as a directory above it, is not made in parallel but when
//! its piece is put, after everything before it.
//!
//! Names are known by hashes of the way to them. Two that have the same hash are taken for one, which costs time only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Stands for the way to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Trace(pub(super) u64);

impl Trace {
    /// The place where everything is extracted to.
    pub(super) const ROOT: Trace = Trace(0);

    /// Stands for a name in the directory that this stands for.
    pub(super) fn of(self, name: &[u8]) -> Self {
        Self(xxh3_64_with_seed(name, self.0 ^ 0x9e37_79b9_7f4a_7c15))
    }
}

/// The names under way, and how many pieces touch each.
#[derive(Debug, Default)]
pub(super) struct Flight(Mutex<HashMap<Trace, u32>>);

impl Flight {
    /// Tells whether a name is under way.
    pub(super) fn has(&self, name: Trace) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&name)
    }

    /// Records a name.
    pub(super) fn begin(&self, name: Trace) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }

    /// Takes the names of a piece out, each as often as it was recorded.
    pub(super) fn end(&self, names: &[Trace]) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let (flight, name) = (Flight::default(), Trace::ROOT.of(b"a").of(b"b"));
        assert_ne!(name, Trace::ROOT.of(b"b").of(b"a"));
        flight.begin(name);
        flight.begin(name);
        flight.end(&[name]);
        assert!(flight.has(name));
        flight.end(&[name]);
        assert!(!flight.has(name));
    }
}
