//! Reassembles compressed pieces: parses the stream in order, each element where the last
//! one ended.
//!
//! A piece comes with the block decoded speculatively at its candidate bit. The result counts only
//! if a block is due at exactly that bit. A false candidate in the middle of a block therefore only
//! cuts the block in two: a block that lacks its end is kept and decoded again here once enough
//! bytes have come.
//!
//! Invariant: nothing is passed on unless its checksum was right (tests: mutations).

use super::bits::{BLOCK_MAGIC, BitReader, END_MAGIC, EndOfBits};
use super::crc;
use super::decode::{BlockContent, DecodeError, DecodedBlock, Decoder};

/// Start of a stream header; the block size follows as a digit.
const HEADER: &[u8] = b"BZh";

/// Unit of the block size digit, in bytes.
pub const LEVEL_BYTES: usize = 100_000;

/// A piece of the compressed input.
pub struct InputPiece {
    /// Offset in the input. Pieces may overlap by one byte.
    pub start: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The bit at which a block may begin.
    pub candidate: Option<u64>,
    /// True for the last piece.
    pub last: bool,
}

/// Why decompression stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The input is not a bzip2 file.
    Foreign,
    /// The input is truncated.
    Ended,
    /// The input is corrupt.
    Damaged,
}

/// The element that must come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedElement {
    Header,
    /// A block or the end of the stream.
    Block,
    /// End of input: the trailing bytes are not a bzip2 stream.
    Nothing,
    /// Foreign input to be passed through unchanged.
    Bytes,
}

/// Result of a parsing step: it succeeded, or it needs more input.
enum ParseStep {
    Done,
    Missing,
}

/// Parses pieces in order.
pub struct Unpacker {
    next: ExpectedElement,
    /// Bytes not yet consumed.
    rest: Vec<u8>,
    /// Input offset of `rest`.
    rest_start: u64,
    /// Input position of the next bit.
    position: u64,
    level: usize,
    crc: u32,
    streams: u64,
    passes_foreign: bool,
    has_only_zeros: bool,
    /// Number of bytes needed before an incomplete block is decoded again.
    wanted: usize,
    decoder: Decoder,
}

impl Unpacker {
    /// Creates a parser. If `passes_foreign`, input that isn't a bzip2 stream is passed through.
    pub fn new(passes_foreign: bool) -> Self {
        Self {
            next: ExpectedElement::Header,
            rest: Vec::new(),
            rest_start: 0,
            position: 0,
            level: 0,
            crc: 0,
            streams: 0,
            passes_foreign,
            has_only_zeros: false,
            wanted: 0,
            decoder: Decoder::default(),
        }
    }

    /// True if trailing garbage follows the last stream.
    pub fn has_met_garbage(&self) -> bool {
        self.next == ExpectedElement::Nothing
    }

    /// True if the trailing garbage accepted so far is all zeros.
    #[must_use]
    pub fn has_only_zeros(&self) -> bool {
        self.has_only_zeros
    }

    /// Accepts a piece and the block decoded at its candidate, and passes on verified content.
    ///
    /// # Errors
    ///
    /// Why decompression stopped.
    pub fn take(
        &mut self,
        piece: &InputPiece,
        made: Option<Result<DecodedBlock, DecodeError>>,
        pass: &mut impl FnMut(BlockContent),
    ) -> Result<(), Stop> {
        let held = self.rest_start + self.rest.len() as u64;
        let new = usize::try_from(held.saturating_sub(piece.start)).unwrap_or(usize::MAX);
        self.rest.extend_from_slice(piece.bytes.get(new..).unwrap_or_default());
        let mut made = piece.candidate.map(|bit| piece.start * 8 + bit).zip(made);
        loop {
            let step = match self.next {
                ExpectedElement::Nothing => break,
                ExpectedElement::Bytes => {
                    pass(BlockContent::Expanded(self.rest.clone()));
                    break;
                }
                ExpectedElement::Header => self.header(piece.last)?,
                ExpectedElement::Block => self.block(piece, &mut made, pass)?,
            };
            if let ParseStep::Missing = step {
                break;
            }
        }
        let used = match self.next {
            ExpectedElement::Header | ExpectedElement::Block => self.place() / 8,
            ExpectedElement::Nothing | ExpectedElement::Bytes => self.rest.len() as u64,
        };
        let used = usize::try_from(used).unwrap_or(usize::MAX).min(self.rest.len());
        self.rest.drain(..used);
        self.rest_start += used as u64;
        Ok(())
    }

    /// Returns the position of the next bit within `rest`.
    fn place(&self) -> u64 {
        self.position - self.rest_start * 8
    }

    fn header(&mut self, last: bool) -> Result<ParseStep, Stop> {
        // The end of a stream is padded to whole bytes.
        self.position = self.position.next_multiple_of(8);
        let at = usize::try_from(self.place() / 8).unwrap_or(usize::MAX);
        let bytes = self.rest.get(at..).unwrap_or_default();
        let known = bytes.iter().zip(HEADER).take_while(|(byte, known)| byte == known).count();
        match (bytes.get(known), known == HEADER.len()) {
            (Some(digit @ b'1'..=b'9'), true) => {
                (self.level, self.crc) = (usize::from(digit - b'0'), 0);
                self.position += 32;
                self.next = ExpectedElement::Block;
                Ok(ParseStep::Done)
            }
            (Some(_), _) if self.streams > 0 => {
                self.has_only_zeros = bytes.iter().all(|byte| *byte == 0);
                self.next = ExpectedElement::Nothing;
                Ok(ParseStep::Done)
            }
            (Some(_), _) if self.passes_foreign => {
                self.next = ExpectedElement::Bytes;
                Ok(ParseStep::Done)
            }
            (Some(_), _) => Err(Stop::Foreign),
            (None, _) if !last || (bytes.is_empty() && self.streams > 0) => Ok(ParseStep::Missing),
            (None, _) => Err(Stop::Ended),
        }
    }

    fn block(
        &mut self,
        piece: &InputPiece,
        made: &mut Option<(u64, Result<DecodedBlock, DecodeError>)>,
        pass: &mut impl FnMut(BlockContent),
    ) -> Result<ParseStep, Stop> {
        let missing = |_: EndOfBits| if piece.last { Err(Stop::Ended) } else { Ok(ParseStep::Missing) };
        let mut reader = BitReader::at(&self.rest, self.place());
        match reader.read_magic() {
            Ok(BLOCK_MAGIC) => {}
            Ok(END_MAGIC) => {
                return match reader.read(32) {
                    Ok(crc) if crc == self.crc => {
                        self.position += 48 + 32;
                        self.streams += 1;
                        self.next = ExpectedElement::Header;
                        Ok(ParseStep::Done)
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
            None if self.rest.len() < self.wanted && !piece.last => return Ok(ParseStep::Missing),
            None => (self.rest_start, self.decoder.decode(&self.rest, self.place())),
        };
        match decoded {
            Ok(block) if block.length <= self.level * LEVEL_BYTES => {
                self.position = begin * 8 + block.end;
                self.crc = crc::combine(self.crc, block.crc);
                self.wanted = 0;
                pass(block.content);
                Ok(ParseStep::Done)
            }
            Ok(_) | Err(DecodeError::Damaged) => Err(Stop::Damaged),
            Err(DecodeError::Ended) => {
                // Doubling bounds the total cost of all attempts to twice that of the last.
                self.wanted = self.rest.len() * 2;
                missing(EndOfBits)
            }
        }
    }
}
