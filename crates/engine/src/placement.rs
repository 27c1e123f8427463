//! Which operations the io_uring engine puts in its ring.

use haul_sys::Operation;

/// Which operations go through the ring.
///
/// The default is what the measurements in `docs/measurements/engine-ops.md` found, on ext4 at depth 64:
/// - read in the ring: cold, nine times as fast as one after the other; warm, no dearer;
/// - fsync in the ring: several in flight share a commit of the journal;
/// - open, create, stat and write in place: the kernel hands them to a thread, which costs more than it gains;
/// - close in place: no difference, and one thing less that can be in flight when a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bit n stands for the n-th of [`Placement::CANDIDATES`].
    ring: u8,
    pairs: bool,
}

impl Placement {
    /// The operations for which there is a choice.
    pub const CANDIDATES: [Operation; 6] = [
        Operation::Openat,
        Operation::Statx,
        Operation::Read,
        Operation::Write,
        Operation::Fsync,
        Operation::Close,
    ];

    /// Nothing goes through the ring.
    pub const NOTHING: Placement = Placement { ring: 0, pairs: false };

    /// Every single operation goes through the ring.
    pub const EVERYTHING: Placement = Placement { ring: 0b11_1111, pairs: false };

    /// Sends `operation` through the ring as well.
    #[must_use]
    pub fn with(self, operation: Operation) -> Self {
        Self { ring: self.ring | Self::bit(operation), ..self }
    }

    /// Does `operation` in place.
    #[must_use]
    pub fn without(self, operation: Operation) -> Self {
        Self { ring: self.ring & !Self::bit(operation), ..self }
    }

    /// Tells whether `operation` goes through the ring.
    #[must_use]
    pub fn has(self, operation: Operation) -> bool {
        self.ring & Self::bit(operation) != 0
    }

    /// Sends pairs through the ring, a read and a write bound together.
    #[must_use]
    pub fn with_pairs(self) -> Self {
        Self { pairs: true, ..self }
    }

    /// Does pairs in place, one after the other.
    #[must_use]
    pub fn without_pairs(self) -> Self {
        Self { pairs: false, ..self }
    }

    /// Tells whether pairs go through the ring.
    #[must_use]
    pub fn has_pairs(self) -> bool {
        self.pairs
    }

    fn bit(operation: Operation) -> u8 {
        let position = Self::CANDIDATES.iter().position(|each| *each == operation);
        position.map_or(0, |position| 1 << position)
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self::NOTHING.with(Operation::Read).with(Operation::Fsync)
    }
}
