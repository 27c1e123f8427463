//! Selects which operations the io_uring engine submits to its ring.

use haul_sys::Operation;

/// The set of operations that go through the ring.
///
/// The default follows `docs/measurements/engine-ops.md`, measured on ext4 at depth 64:
/// - read in the ring: nine times as fast as sequential reads if cold, no slower if cached;
/// - fsync in the ring: several in flight share a journal commit;
/// - open, create, stat and write synchronously: the kernel punts them to a thread, which costs
///   more than it gains;
/// - close synchronously: no difference in speed, and one thing less in flight when a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bit n stands for `CANDIDATES[n]`.
    ring: u8,
    pairs: bool,
}

impl Placement {
    /// All operations that can go through the ring.
    pub const CANDIDATES: [Operation; 6] = [
        Operation::Openat,
        Operation::Statx,
        Operation::Read,
        Operation::Write,
        Operation::Fsync,
        Operation::Close,
    ];

    /// No operation goes through the ring.
    pub const NOTHING: Placement = Placement { ring: 0, pairs: false };

    /// Every operation except pairs goes through the ring.
    pub const EVERYTHING: Placement = Placement { ring: 0b11_1111, pairs: false };

    /// Adds `operation` to those in the ring.
    #[must_use]
    pub fn with(self, operation: Operation) -> Self {
        Self { ring: self.ring | Self::bit(operation), ..self }
    }

    /// Removes `operation` from those in the ring.
    #[must_use]
    pub fn without(self, operation: Operation) -> Self {
        Self { ring: self.ring & !Self::bit(operation), ..self }
    }

    /// Returns true if `operation` goes through the ring.
    #[must_use]
    pub fn has(self, operation: Operation) -> bool {
        self.ring & Self::bit(operation) != 0
    }

    /// Sends pairs through the ring, as a linked read and write.
    #[must_use]
    pub fn with_pairs(self) -> Self {
        Self { pairs: true, ..self }
    }

    /// Returns true if pairs go through the ring.
    #[must_use]
    pub fn has_pairs(self) -> bool {
        self.pairs
    }

    fn bit(operation: Operation) -> u8 {
        let position = Self::CANDIDATES.iter().position(|each| *each == operation);
        // `copy_file_range` has no opcode in a ring, so it has no bit.
        position.map_or(0, |position| 1 << position)
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self::NOTHING.with(Operation::Read).with(Operation::Fsync)
    }
}
