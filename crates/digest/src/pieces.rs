//! Values of a file's pieces.

use std::collections::TryReserveError;
use std::ops::Range;

use blake3::hazmat::{ChainingValue, Mode, merge_subtrees_non_root, merge_subtrees_root};
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Digest};
use crate::subtrees::{HashedContent, Subtrees};

/// Length of a piece, in bytes. A file is compared and repaired by the piece.
pub const PIECE_BYTES: u64 = 1 << 20;

/// Value of a piece: the BLAKE3 chaining value of its subtree, which depends on its offset.
pub type PieceValue = ChainingValue;

/// Level of a piece's subtree: it has 2^10 chunks of 1 KiB.
pub(crate) const PIECE_LEVEL: u8 = 10;

/// The values of all pieces of a file, and its BLAKE3 hash, which is made from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pieces {
    length: u64,
    digest: Digest,
    values: Vec<ChainingValue>,
}

impl Pieces {
    pub(crate) fn of(subtrees: &Subtrees, length: u64) -> Result<Option<Self>, TryReserveError> {
        if !subtrees.is_within(length) {
            return Ok(None);
        }
        // A sparse file may have more pieces than there is memory for.
        let (count, mut values) = (length.div_ceil(PIECE_BYTES), Vec::new());
        values.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX))?;
        let starts = (0..count).map(|index| index * PIECE_BYTES);
        values.extend(starts.map(|start| subtrees.value(start, PIECE_BYTES.min(length - start))));
        let root = if count > 1 {
            let (left, right) = values.split_at(left_pieces(values.len()));
            Some(merge_subtrees_root(&folded(left), &folded(right), Mode::Hash))
        } else {
            // The root of a single piece isn't made from the piece's value.
            subtrees.root(length)
        };
        let digest = root.map(|root| Digest::of(Algorithm::Blake3, root.as_bytes()));
        Ok(digest.map(|digest| Self { length, digest, values }))
    }

    /// Returns the hash of the file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the length of the file, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns true if the piece at `start`, a multiple of [`PIECE_BYTES`], consists of these
    /// bytes.
    #[must_use]
    pub fn has(&self, start: u64, bytes: &[u8]) -> bool {
        let index = usize::try_from(start / PIECE_BYTES).unwrap_or(usize::MAX);
        let length = PIECE_BYTES.min(self.length.saturating_sub(start));
        bytes.len() as u64 == length
            && self.values.get(index) == Some(&HashedContent::Bytes(bytes).value(start))
    }

    /// Returns the pieces that differ from those of another file, in order. Where only one file has
    /// a piece, it differs.
    pub fn mismatches<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Range<u64>> + 'a {
        let end = self.length.max(other.length);
        let differs = |index: &usize| self.values.get(*index) != other.values.get(*index);
        (0..self.values.len().max(other.values.len())).filter(differs).map(move |index| {
            let start = index as u64 * PIECE_BYTES;
            start..end.min(start + PIECE_BYTES)
        })
    }
}

/// Returns the number of pieces in the left subtree: the largest power of two below `pieces`.
fn left_pieces(pieces: usize) -> usize {
    pieces.next_power_of_two() / 2
}

/// Returns the value of a subtree made of whole pieces, of which the last one of a file may be
/// short. The recursion is no deeper than the tree.
fn folded(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [] => ChainingValue::default(),
        [value] => *value,
        _ => {
            let (left, right) = values.split_at(left_pieces(values.len()));
            merge_subtrees_non_root(&folded(left), &folded(right), Mode::Hash)
        }
    }
}
