//! Decompressing, in stages: the input is cut where blocks may begin, each is taken back alone, and what is sure is put together.

use std::sync::{Mutex, PoisonError};

use haul_flow::{Desk, Stages};

use super::Bzip2;
use super::decode::{Block, Content, Decoder, Wrong};
use super::find::{Finder, SCANNED};
use super::job::Job;
use super::unpack::{Piece, Stop, Unpacker};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// The longest piece: no block is longer, compressed.
const PIECE_MAX: usize = 4 << 20;

/// Decompresses one input.
pub(super) struct Decompress {
    job: Job,
    cutter: Mutex<Cutter>,
    unpacker: Mutex<(Unpacker, Option<Stop>)>,
}

/// Cuts the input.
#[derive(Default)]
pub(super) struct Cutter {
    finder: Finder,
    /// What was read; what is before `begun` is in pieces already.
    bytes: Vec<u8>,
    /// Where the next piece begins there.
    begun: usize,
    /// How far it was scanned.
    scanned: usize,
    /// Where its first byte is in the input.
    start: u64,
    /// The bit of the next piece in which a block may begin.
    candidate: Option<u64>,
    ended: bool,
}

impl Cutter {
    /// Cuts off a piece up to a place, where the next begins, with the byte there if both have a part of it.
    fn cut(&mut self, place: usize, next: Option<u64>) -> Piece {
        let end = place + usize::from(next.is_some());
        let bytes = self.bytes[self.begun..end].to_vec();
        let start = self.start + self.begun as u64;
        self.begun = place;
        Piece { start, bytes, candidate: std::mem::replace(&mut self.candidate, next), last: false }
    }

    /// Cuts off a piece if the next one begins in what was read.
    pub(super) fn next(&mut self) -> Option<Piece> {
        match self.finder.scan(&self.bytes[self.scanned..]) {
            Some((taken, way)) => {
                self.scanned += taken;
                Some(self.cut(self.scanned - SCANNED, Some(u64::from(way))))
            }
            None => {
                self.scanned = self.bytes.len();
                // A number may have begun in the last bytes.
                let place = self.scanned.saturating_sub(SCANNED);
                (place >= self.begun + PIECE_MAX).then(|| self.cut(place, None))
            }
        }
    }

    /// Makes room for what is to be read.
    pub(super) fn forget(&mut self) {
        self.bytes.drain(..self.begun);
        self.start += self.begun as u64;
        self.scanned -= self.begun;
        self.begun = 0;
    }

    /// Takes what was read.
    #[cfg(test)]
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes all that is left.
    pub(super) fn last(&mut self) -> Piece {
        let piece = self.cut(self.bytes.len(), None);
        Piece { last: true, ..piece }
    }
}

impl Decompress {
    /// Begins.
    pub(super) fn new(job: Job, passes_foreign: bool) -> Self {
        Self { job, cutter: Mutex::default(), unpacker: Mutex::new((Unpacker::new(passes_foreign), None)) }
    }
}

impl Stages<Bzip2> for Decompress {
    type Piece = Piece;
    type Made = (Piece, Option<Result<Block, Wrong>>);

    fn next(&self, desk: &Desk<'_, Bzip2>) -> Option<Piece> {
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
            self.job.read(desk, &mut cutter.bytes, held + READ_BYTES)?;
            if cutter.bytes.len() == held {
                cutter.ended = true;
                return Some(cutter.last());
            }
        }
    }

    fn work(&self, desk: &Desk<'_, Bzip2>, piece: Piece) -> Self::Made {
        let decode =
            |bit| desk.tool().decoders.with(|decoder: &mut Decoder| decoder.decode(&piece.bytes, bit));
        let made = piece.candidate.map(decode);
        (piece, made)
    }

    fn put(&self, desk: &Desk<'_, Bzip2>, (piece, made): Self::Made) {
        let mut unpacker = self.unpacker.lock().unwrap_or_else(PoisonError::into_inner);
        let (unpacker, stop) = &mut *unpacker;
        if stop.is_some() {
            return;
        }
        self.job.took(desk, piece.bytes.len());
        let mut pass = |content: Content| content.pass(&mut |bytes| self.job.write(desk, bytes));
        if let Err(why) = unpacker.take(&piece, made, &mut pass) {
            *stop = Some(why);
        }
        if stop.is_some() || unpacker.has_met_garbage() {
            self.job.stop_reading();
        }
    }

    fn end(&self, desk: &Desk<'_, Bzip2>) {
        let unpacker = self.unpacker.lock().unwrap_or_else(PoisonError::into_inner);
        let (unpacker, stop) = &*unpacker;
        if unpacker.has_met_garbage() {
            self.job.met_garbage(desk);
        }
        self.job.finish(desk, *stop);
    }
}
