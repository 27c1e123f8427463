//! Cuts compressed input at candidate block boundaries, so that several threads can decode it.

use crate::find::{Finder, SCANNED};
use crate::unpack::InputPiece;

/// Maximum size of a piece, in bytes. No compressed block is longer.
const PIECE_MAX: usize = 4 << 20;

/// Cuts the input into pieces.
#[derive(Default)]
pub struct Cutter {
    finder: Finder,
    /// Bytes read; those before `begun` are already in pieces.
    bytes: Vec<u8>,
    /// Index of the next piece's first byte.
    begun: usize,
    scanned: usize,
    /// Input offset of `bytes`.
    start: u64,
    /// The bit of the next piece at which a block may begin.
    candidate: Option<u64>,
}

impl Cutter {
    /// Cuts off the piece that ends at `place`. If the next one starts at a candidate, both share
    /// the byte there.
    fn cut(&mut self, place: usize, next: Option<u64>) -> InputPiece {
        let end = place + usize::from(next.is_some());
        let bytes = self.bytes[self.begun..end].to_vec();
        let start = self.start + self.begun as u64;
        self.begun = place;
        InputPiece { start, bytes, candidate: std::mem::replace(&mut self.candidate, next), last: false }
    }

    /// Cuts off a piece if a boundary is in the bytes read.
    pub fn cut_next(&mut self) -> Option<InputPiece> {
        match self.finder.scan(&self.bytes[self.scanned..]) {
            Some((taken, way)) => {
                self.scanned += taken;
                Some(self.cut(self.scanned - SCANNED, Some(u64::from(way))))
            }
            None => {
                self.scanned = self.bytes.len();
                // A magic number may have begun in the last bytes.
                let place = self.scanned.saturating_sub(SCANNED);
                (place >= self.begun + PIECE_MAX).then(|| self.cut(place, None))
            }
        }
    }

    /// Drops bytes that are already in pieces.
    pub fn forget(&mut self) {
        self.bytes.drain(..self.begun);
        self.start += self.begun as u64;
        self.scanned -= self.begun;
        self.begun = 0;
    }

    /// Accepts more input.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Cuts off everything that is left.
    pub fn last(&mut self) -> InputPiece {
        let piece = self.cut(self.bytes.len(), None);
        InputPiece { last: true, ..piece }
    }

    /// Returns the buffer to which more input is to be appended.
    pub fn input(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the input that is in no piece yet.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.begun..]
    }
}
