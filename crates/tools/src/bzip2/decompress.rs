//! Decompression in stages: cut the input at candidate block boundaries, decode each block alone,
//! and reassemble what is verified.

use std::sync::{Mutex, PoisonError};

use haul_flow::{Context, Stages};

use super::Bzip2;
use super::decode::{Block, Content, Decoder, Wrong};
use super::find::{Finder, SCANNED};
use super::job::Job;
use super::unpack::{Piece, Stop, Unpacker};

/// Size of a read, in bytes.
const READ_BYTES: usize = 1 << 20;

/// Maximum size of a piece, in bytes. No compressed block is longer.
const PIECE_MAX: usize = 4 << 20;

pub(super) struct Decompress {
    job: Job,
    cutter: Mutex<Cutter>,
    unpacker: Mutex<(Unpacker, Option<Stop>)>,
}

/// Cuts the input into pieces.
#[derive(Default)]
pub(super) struct Cutter {
    finder: Finder,
    /// Bytes read; those before `begun` are already in pieces.
    bytes: Vec<u8>,
    /// Index of the next piece's first byte.
    begun: usize,
    /// Number of bytes scanned.
    scanned: usize,
    /// Input offset of `bytes`.
    start: u64,
    /// The bit of the next piece at which a block may begin.
    candidate: Option<u64>,
    ended: bool,
}

impl Cutter {
    /// Cuts off the piece that ends at `place`. If the next one starts at a candidate, both share
    /// the byte there.
    fn cut(&mut self, place: usize, next: Option<u64>) -> Piece {
        let end = place + usize::from(next.is_some());
        let bytes = self.bytes[self.begun..end].to_vec();
        let start = self.start + self.begun as u64;
        self.begun = place;
        Piece { start, bytes, candidate: std::mem::replace(&mut self.candidate, next), last: false }
    }

    /// Cuts off a piece if a boundary is in the bytes read.
    pub(super) fn next(&mut self) -> Option<Piece> {
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
    pub(super) fn forget(&mut self) {
        self.bytes.drain(..self.begun);
        self.start += self.begun as u64;
        self.scanned -= self.begun;
        self.begun = 0;
    }

    #[cfg(test)]
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Cuts off everything that is left.
    pub(super) fn last(&mut self) -> Piece {
        let piece = self.cut(self.bytes.len(), None);
        Piece { last: true, ..piece }
    }
}

impl Decompress {
    pub(super) fn new(job: Job, passes_foreign: bool) -> Self {
        Self { job, cutter: Mutex::default(), unpacker: Mutex::new((Unpacker::new(passes_foreign), None)) }
    }
}

impl Stages<Bzip2> for Decompress {
    type Piece = Piece;
    type Made = (Piece, Option<Result<Block, Wrong>>);

    fn next(&self, cx: &Context<'_, Bzip2>) -> Option<Piece> {
        let mut cutter = self.cutter.lock().unwrap_or_else(PoisonError::into_inner);
        if cutter.ended {
            return None;
        }
        loop {
            if let Some(piece) = cutter.next() {
                return Some(piece);
            }
            cutter.forget();
            let held = cutter.bytes.len();
            self.job.read(cx, &mut cutter.bytes, held + READ_BYTES)?;
            if cutter.bytes.len() == held {
                cutter.ended = true;
                return Some(cutter.last());
            }
        }
    }

    fn work(&self, cx: &Context<'_, Bzip2>, piece: Piece) -> Self::Made {
        let decode = |bit| cx.tool().decoders.with(|decoder: &mut Decoder| decoder.decode(&piece.bytes, bit));
        let made = piece.candidate.map(decode);
        (piece, made)
    }

    fn put(&self, cx: &Context<'_, Bzip2>, (piece, made): Self::Made) {
        let mut unpacker = self.unpacker.lock().unwrap_or_else(PoisonError::into_inner);
        let (unpacker, stop) = &mut *unpacker;
        if stop.is_some() {
            return;
        }
        self.job.took(cx, piece.bytes.len());
        let mut pass = |content: Content| content.pass(&mut |bytes| self.job.write(cx, bytes));
        if let Err(why) = unpacker.take(&piece, made, &mut pass) {
            *stop = Some(why);
        }
        if stop.is_some() || unpacker.has_met_garbage() {
            self.job.stop_reading();
        }
    }

    fn end(&self, cx: &Context<'_, Bzip2>) {
        let unpacker = self.unpacker.lock().unwrap_or_else(PoisonError::into_inner);
        let (unpacker, stop) = &*unpacker;
        if unpacker.has_met_garbage() {
            self.job.met_garbage(cx);
        }
        self.job.finish(cx, *stop);
    }
}
