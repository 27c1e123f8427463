//! BLAKE3 of a file whose blocks come in any order.

use std::collections::TryReserveError;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::algorithm::{Algorithm, Digest};
use crate::pieces::{PIECE_BYTES, PIECE_LEVEL, PieceValue, Pieces};
use crate::subtrees::{Addition, HashedContent, LEVEL_MAX, Malformed, Subtrees};

/// Computes BLAKE3 of a file. Blocks of any size come in any order, from several threads.
///
/// A block is hashed in aligned subtrees without a lock, so threads hash at the same time. Blocks
/// that begin at multiples of a power of two, and have such a length, are hashed fastest.
///
/// Memory: about 50 bytes per subtree that waits for its sibling, and up to 1 KiB for each end of
/// a block that is not at a multiple of 1 KiB. Reading a file in order keeps a few dozen.
pub struct TreeHash {
    subtrees: Mutex<Subtrees>,
    level_max: u8,
}

impl Default for TreeHash {
    fn default() -> Self {
        Self { subtrees: Mutex::default(), level_max: LEVEL_MAX }
    }
}

impl fmt::Debug for TreeHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TreeHash").finish_non_exhaustive()
    }
}

impl TreeHash {
    /// Creates an empty hash.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty hash that keeps the value of each piece: about 50 MiB per TiB.
    #[must_use]
    pub fn with_pieces() -> Self {
        Self { level_max: PIECE_LEVEL, ..Self::default() }
    }

    /// Adds the block at `offset`. Bytes that come twice must be the same.
    pub fn insert(&self, offset: u64, bytes: &[u8]) {
        self.add(offset, HashedContent::Bytes(bytes));
    }

    /// Adds a range of zeros. Optional: ranges that were never added count as zeros. But holes that
    /// are added are hashed by the threads that add them, instead of by the one that finishes.
    pub fn insert_zeros(&self, range: Range<u64>) {
        self.add(range.start, HashedContent::Zeros(range.end.saturating_sub(range.start)));
    }

    /// Returns the values of the pieces in `range`, which begins at a multiple of [`PIECE_BYTES`].
    /// All of its content was added. The hash must keep pieces.
    #[must_use]
    pub fn pieces_in(&self, range: Range<u64>) -> Vec<PieceValue> {
        let subtrees = self.lock();
        let starts = range.clone().step_by(PIECE_BYTES as usize);
        starts.map(|start| subtrees.value(start, PIECE_BYTES.min(range.end - start))).collect()
    }

    /// Adds whole pieces from `start`, a multiple of [`PIECE_BYTES`], by their values. Only for
    /// files longer than a piece. The hash must keep pieces.
    pub fn insert_pieces(&self, start: u64, values: &[PieceValue]) {
        let addition = Addition::of_pieces(start, values);
        self.lock().add(addition, self.level_max);
    }

    fn add(&self, offset: u64, content: HashedContent<'_>) {
        let addition = Addition::of(offset, content, self.level_max);
        self.lock().add(addition, self.level_max);
    }

    /// Removes and returns the hashes added so far, for [`TreeHash::merge`] in another process.
    #[must_use]
    pub fn take(&self) -> Subtrees {
        std::mem::take(&mut *self.lock())
    }

    /// Adds the hashes of another process.
    ///
    /// # Errors
    /// If it can't be part of a file, or if pieces are kept here but weren't there. Nothing
    /// is added.
    pub fn merge(&self, other: Subtrees) -> Result<(), Malformed> {
        self.lock().merge(other, self.level_max)
    }

    /// Returns true if the content added at `start`, a multiple of [`PIECE_BYTES`], is this piece:
    /// a whole one, or the last one of a file. Content that was not added is zeros. Quick only if
    /// the hash was created to keep pieces.
    ///
    /// [`PIECE_BYTES`]: crate::PIECE_BYTES
    #[must_use]
    pub fn has_piece(&self, start: u64, bytes: &[u8]) -> bool {
        let value = HashedContent::Bytes(bytes).value(start);
        self.lock().value(start, bytes.len() as u64) == value
    }

    /// Returns the hash of a file of `length` bytes. What was not added is zeros. Returns `None` if
    /// bytes after its end were added.
    #[must_use]
    pub fn finish(&self, length: u64) -> Option<Digest> {
        let root = self.lock().root(length)?;
        Some(Digest::of(Algorithm::Blake3, root.as_bytes()))
    }

    /// Returns the hash of a file of `length` bytes with the values of its pieces, or `None` if
    /// bytes after its end were added. Quick only if the hash was created to keep them.
    ///
    /// # Errors
    /// If there isn't enough memory: 32 bytes for each piece.
    pub fn finish_pieces(&self, length: u64) -> Result<Option<Pieces>, TryReserveError> {
        Pieces::of(&self.lock(), length)
    }

    fn lock(&self) -> MutexGuard<'_, Subtrees> {
        self.subtrees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
