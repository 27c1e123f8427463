//! Compressed bytes in pieces, put together again: what a stream is made of, one after the other, and each where the one before ended.
//!
//! A piece comes with what was made of the block that may begin in it. That counts only if a block has to begin just there, so a
//! magic number in the middle of a block does no harm but that its block is cut: what lacks its end is kept until enough has
//! come to try again, here.
//!
//! Invariant: nothing is passed on whose checksum was not right (tests: mutations).

use super::bits::{BLOCK_MAGIC, BitReader, END_MAGIC, Ended};
use super::crc;
use super::decode::{Block, Content, Decoder, Wrong};

/// What every stream begins with; a digit follows, the size of its blocks.
const HEADER: &[u8] = b"BZh";

/// Bytes that the digit counts in.
pub(super) const LEVEL_BYTES: usize = 100_000;

/// Some of the compressed bytes.
pub(super) struct Piece {
    /// Where it begins. It may begin with the last byte of the piece before.
    pub(super) start: u64,
    /// The bytes.
    pub(super) bytes: Vec<u8>,
    /// The bit in which a block may begin.
    pub(super) candidate: Option<u64>,
    /// Whether it is the last.
    pub(super) last: bool,
}

/// Why no more can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is not of this format at all.
    Foreign,
    /// It ends too early.
    Ended,
    /// It is damaged.
    Damaged,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The beginning of a stream.
    Header,
    /// A block, or the end of a stream.
    Block,
    /// Nothing: what follows the last stream is none.
    Nothing,
    /// No streams, but bytes to be passed on as they are.
    Bytes,
}

/// Whether there is more to be done with what is there.
enum Step {
    Done,
    Missing,
}

/// Puts pieces together.
pub(super) struct Unpacker {
    next: Next,
    /// What was not used yet.
    rest: Vec<u8>,
    /// Where its first byte was.
    rest_start: u64,
    /// The bit that comes next.
    position: u64,
    level: usize,
    crc: u32,
    streams: u64,
    passes_foreign: bool,
    /// How much must be there before a block that lacked its end is tried again.
    wanted: usize,
    decoder: Decoder,
}

impl Unpacker {
    /// Begins; passes on what is no stream at all if that is wanted.
    pub(super) fn new(passes_foreign: bool) -> Self {
        Self {
            next: Next::Header,
            rest: Vec::new(),
            rest_start: 0,
            position: 0,
            level: 0,
            crc: 0,
            streams: 0,
            passes_foreign,
            wanted: 0,
            decoder: Decoder::default(),
        }
    }

    /// Tells whether bytes follow the last stream that are none.
    pub(super) fn has_met_garbage(&self) -> bool {
        self.next == Next::Nothing
    }

    /// Takes a piece, with what was made of its candidate, and passes on what is sure.
    ///
    /// # Errors
    ///
    /// Says why no more can be had.
    pub(super) fn take(
        &mut self,
        piece: &Piece,
        made: Option<Result<Block, Wrong>>,
        pass: &mut impl FnMut(Content),
    ) -> Result<(), Stop> {
        let held = self.rest_start + self.rest.len() as u64;
        let new = usize::try_from(held.saturating_sub(piece.start)).unwrap_or(usize::MAX);
        self.rest.extend_from_slice(piece.bytes.get(new..).unwrap_or_default());
        let mut made = piece.candidate.map(|bit| piece.start * 8 + bit).zip(made);
        loop {
            let step = match self.next {
                Next::Nothing => break,
                Next::Bytes => {
                    pass(Content::Expanded(self.rest.clone()));
                    break;
                }
                Next::Header => self.header(piece.last)?,
                Next::Block => self.block(piece, &mut made, pass)?,
            };
            if let Step::Missing = step {
                break;
            }
        }
        let used = match self.next {
            Next::Header | Next::Block => self.place() / 8,
            Next::Nothing | Next::Bytes => self.rest.len() as u64,
        };
        let used = usize::try_from(used).unwrap_or(usize::MAX).min(self.rest.len());
        self.rest.drain(..used);
        self.rest_start += used as u64;
        Ok(())
    }

    /// Returns where a bit is in what is there.
    fn place(&self) -> u64 {
        self.position - self.rest_start * 8
    }

    fn header(&mut self, last: bool) -> Result<Step, Stop> {
        self.position = self.position.next_multiple_of(8);
        let at = usize::try_from(self.place() / 8).unwrap_or(usize::MAX);
        let bytes = self.rest.get(at..).unwrap_or_default();
        let known = bytes.iter().zip(HEADER).take_while(|(byte, known)| byte == known).count();
        match (bytes.get(known), known == HEADER.len()) {
            (Some(digit @ b'1'..=b'9'), true) => {
                (self.level, self.crc) = (usize::from(digit - b'0'), 0);
                self.position += 32;
                self.next = Next::Block;
                Ok(Step::Done)
            }
            (Some(_), _) if self.streams > 0 => {
                self.next = Next::Nothing;
                Ok(Step::Done)
            }
            (Some(_), _) if self.passes_foreign => {
                self.next = Next::Bytes;
                Ok(Step::Done)
            }
            (Some(_), _) => Err(Stop::Foreign),
            (None, _) if !last || (bytes.is_empty() && self.streams > 0) => Ok(Step::Missing),
            (None, _) => Err(Stop::Ended),
        }
    }

    fn block(
        &mut self,
        piece: &Piece,
        made: &mut Option<(u64, Result<Block, Wrong>)>,
        pass: &mut impl FnMut(Content),
    ) -> Result<Step, Stop> {
        let missing = |_: Ended| if piece.last { Err(Stop::Ended) } else { Ok(Step::Missing) };
        let mut reader = BitReader::at(&self.rest, self.place());
        match reader.read_magic() {
            Ok(BLOCK_MAGIC) => {}
            Ok(END_MAGIC) => {
                return match reader.read(32) {
                    Ok(crc) if crc == self.crc => {
                        self.position += 48 + 32;
                        self.streams += 1;
                        self.next = Next::Header;
                        Ok(Step::Done)
                    }
                    Ok(_) => Err(Stop::Damaged),
                    Err(ended) => missing(ended),
                };
            }
            Ok(_) => return Err(Stop::Damaged),
            Err(ended) => return missing(ended),
        }
        let (begin, decoded) = match made.take_if(|(bit, _)| *bit == self.position) {
            Some((_, decoded)) => (piece.start, decoded),
            None if self.rest.len() < self.wanted && !piece.last => return Ok(Step::Missing),
            None => (self.rest_start, self.decoder.decode(&self.rest, self.place())),
        };
        match decoded {
            Ok(block) if block.length <= self.level * LEVEL_BYTES => {
                self.position = begin * 8 + block.end;
                self.crc = crc::combine(self.crc, block.crc);
                self.wanted = 0;
                pass(block.content);
                Ok(Step::Done)
            }
            Ok(_) | Err(Wrong::Damaged) => Err(Stop::Damaged),
            Err(Wrong::Ended) => {
                // Twice as much, so that all the trying takes no longer than the last time does, twice.
                self.wanted = self.rest.len() * 2;
                missing(Ended)
            }
        }
    }
}
