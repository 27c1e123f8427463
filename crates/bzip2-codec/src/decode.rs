//! Block decompression: decodes the Huffman codes and the move-to-front list, inverts the
//! transform, and expands the runs.
//!
//! Inverting the transform chases a pointer per byte through megabytes, so a single chain would
//! wait for memory at every step. Instead, marked rows cut the chain into pieces, several pieces
//! are followed at once, each up to the next mark, and the results are concatenated.

use super::bits::{BLOCK_MAGIC, BitReader, EndOfBits};
use super::crc::Crc;
use super::encode::{GROUP, SYMBOLS_MAX, TABLES_MAX};
use super::numbers::NUMBERS;
use super::recent::Recent;
use super::runs::{self, NoCount};

/// Maximum size of a block before its runs are expanded, in bytes.
pub const BLOCK_MAX: usize = 900_000;

/// Maximum length of a code, in bits.
const LENGTH_MAX: usize = 20;

/// Number of bits resolved by table lookup.
const LOOKUP_BITS: u32 = 10;

/// Maximum size of content kept expanded, in bytes. Only content made of runs is longer.
const EXPANDED_MAX: usize = 4 << 20;

/// Why a block can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends within it.
    Ended,
    /// It is corrupt.
    Damaged,
}

impl From<EndOfBits> for DecodeError {
    fn from(_: EndOfBits) -> Self {
        DecodeError::Ended
    }
}

impl From<NoCount> for DecodeError {
    fn from(_: NoCount) -> Self {
        DecodeError::Damaged
    }
}

/// A decoded block whose checksum was right.
#[derive(Debug)]
pub struct DecodedBlock {
    /// The content.
    pub content: BlockContent,
    /// Size before its runs are expanded, which the stream limits.
    pub length: usize,
    /// Checksum of the content.
    pub crc: u32,
    /// Bit index of the block's end in the input it was read from.
    pub end: u64,
}

/// The content of a block.
#[derive(Debug)]
pub enum BlockContent {
    /// The content itself.
    Expanded(Vec<u8>),
    /// The content still run-length encoded, because it is too long.
    Counted(Vec<u8>),
}

impl BlockContent {
    /// Passes on the content in parts.
    pub fn pass(&self, take: &mut impl FnMut(&[u8])) {
        match self {
            BlockContent::Expanded(bytes) => take(bytes),
            // Can't fail: it was expanded once already for the checksum.
            BlockContent::Counted(block) => runs::expand(block, take).unwrap_or_default(),
        }
    }
}

/// Decodes blocks, reusing its memory.
#[derive(Default)]
pub struct Decoder {
    tables: Vec<Codes>,
    selectors: Vec<u8>,
    last: Vec<u8>,
    rows: Vec<u32>,
    block: Vec<u8>,
    walk: ChainWalk,
}

impl Decoder {
    /// Decodes the block that begins, with its magic number, at a bit of some bytes.
    ///
    /// # Errors
    ///
    /// If the block is truncated or corrupt.
    pub fn decode(&mut self, bytes: &[u8], bit: u64) -> Result<DecodedBlock, DecodeError> {
        let mut reader = BitReader::at(bytes, bit);
        if reader.read_magic()? != BLOCK_MAGIC {
            return Err(DecodeError::Damaged);
        }
        let crc = reader.read(32)?;
        let randomized = reader.read_bit()?;
        let row = reader.read(24)? as usize;
        self.read_last(&mut reader)?;
        let end = reader.position();
        if row >= self.last.len() {
            return Err(DecodeError::Damaged);
        }
        link_rows(&self.last, &mut self.rows);
        self.walk.go(&mut self.rows, row, &mut self.block);
        if randomized {
            undo_randomization(&mut self.block);
        }
        let (content, sum) = expand(&self.block)?;
        if sum != crc {
            return Err(DecodeError::Damaged);
        }
        Ok(DecodedBlock { content, length: self.block.len(), crc, end })
    }
}

impl Decoder {
    /// Reads everything after the block's header: the bytes used, the tables, and the
    /// transformed bytes.
    fn read_last(&mut self, reader: &mut BitReader<'_>) -> Result<(), DecodeError> {
        let (used, count) = read_used(reader)?;
        let mut recent = Recent::new(&used[..count]);
        let tables = reader.read(3)? as usize;
        if !(2..=TABLES_MAX).contains(&tables) {
            return Err(DecodeError::Damaged);
        }
        self.read_selectors(reader, tables)?;
        self.tables.truncate(tables);
        self.tables.resize_with(tables, Codes::default);
        for table in &mut self.tables {
            table.read(reader, count + 2)?;
        }
        self.last.clear();
        let end = count as u16 + 1;
        let mut run = ByteRun::default();
        // A local copy, so that its fields can stay in registers.
        let mut bits = reader.clone();
        for selector in &self.selectors {
            let table = &self.tables[usize::from(*selector)];
            for _ in 0..GROUP {
                let symbol = table.read_symbol(&mut bits)?;
                if symbol <= 1 {
                    run.add(u32::from(symbol) + 1)?;
                    continue;
                }
                run.end(recent.first(), &mut self.last)?;
                if symbol == end {
                    *reader = bits;
                    return Ok(());
                }
                let byte = recent.take(usize::from(symbol - 1));
                if self.last.len() == BLOCK_MAX {
                    return Err(DecodeError::Damaged);
                }
                self.last.push(byte);
            }
        }
        Err(DecodeError::Damaged)
    }

    /// Reads which table each group uses.
    fn read_selectors(&mut self, reader: &mut BitReader<'_>, tables: usize) -> Result<(), DecodeError> {
        let count = reader.read(15)? as usize;
        if count == 0 {
            return Err(DecodeError::Damaged);
        }
        let mut order: [u8; TABLES_MAX] = std::array::from_fn(|table| table as u8);
        self.selectors.clear();
        for _ in 0..count {
            let mut number = 0;
            while reader.read_bit()? {
                number += 1;
                if number == tables {
                    return Err(DecodeError::Damaged);
                }
            }
            order[..=number].rotate_right(1);
            self.selectors.push(order[0]);
        }
        Ok(())
    }
}

/// Reads which bytes a block uses, and how many.
fn read_used(reader: &mut BitReader<'_>) -> Result<([u8; 256], usize), DecodeError> {
    let (mut used, mut count) = ([0; 256], 0);
    let sixteenths = reader.read(16)?;
    for sixteenth in (0..16).filter(|sixteenth| sixteenths >> (15 - sixteenth) & 1 == 1) {
        let bytes = reader.read(16)?;
        for byte in (0..16).filter(|byte| bytes >> (15 - byte) & 1 == 1) {
            used[count] = sixteenth * 16 + byte;
            count += 1;
        }
    }
    if count == 0 { Err(DecodeError::Damaged) } else { Ok((used, count)) }
}

/// A run of the most recent byte, in digits of one and two.
#[derive(Default)]
struct ByteRun {
    length: usize,
    digits: u32,
}

impl ByteRun {
    fn add(&mut self, digit: u32) -> Result<(), DecodeError> {
        self.length += (digit as usize) << self.digits;
        self.digits += 1;
        if self.length > BLOCK_MAX { Err(DecodeError::Damaged) } else { Ok(()) }
    }

    fn end(&mut self, byte: u8, last: &mut Vec<u8>) -> Result<(), DecodeError> {
        if self.length > 0 {
            if last.len() + self.length > BLOCK_MAX {
                return Err(DecodeError::Damaged);
            }
            last.resize(last.len() + self.length, byte);
            *self = Self::default();
        }
        Ok(())
    }
}

/// Canonical codes: shorter ones are less, and codes of a length are consecutive.
#[derive(Default)]
struct Codes {
    /// The first code of each length.
    firsts: [i32; LENGTH_MAX + 1],
    /// The number of codes of each length.
    counts: [i32; LENGTH_MAX + 1],
    /// Index of each length's first symbol.
    starts: [i32; LENGTH_MAX + 1],
    symbols: Vec<u16>,
    /// Indexed by the next bits: the symbol, with its code's length in the low five bits. A length
    /// of 0 means that no code this short matches.
    lookup: Vec<u16>,
}

impl Codes {
    /// Reads the code lengths of `count` symbols.
    fn read(&mut self, reader: &mut BitReader<'_>, count: usize) -> Result<(), DecodeError> {
        let mut lengths = [0_u8; SYMBOLS_MAX];
        let mut length = reader.read(5)? as usize;
        for place in &mut lengths[..count] {
            loop {
                if !(1..=LENGTH_MAX).contains(&length) {
                    return Err(DecodeError::Damaged);
                }
                if !reader.read_bit()? {
                    break;
                }
                length = if reader.read_bit()? { length - 1 } else { length + 1 };
            }
            *place = length as u8;
        }
        self.number(&lengths[..count]);
        Ok(())
    }

    fn number(&mut self, lengths: &[u8]) {
        self.counts = [0; LENGTH_MAX + 1];
        lengths.iter().for_each(|length| self.counts[usize::from(*length)] += 1);
        let (mut code, mut start) = (0, 0);
        self.symbols.clear();
        for length in 1..=LENGTH_MAX {
            (self.firsts[length], self.starts[length]) = (code, start);
            code = (code + self.counts[length]) << 1;
            start += self.counts[length];
            let its = (0..).zip(lengths).filter(|(_, other)| usize::from(**other) == length);
            self.symbols.extend(its.map(|(symbol, _)| symbol));
        }
        self.lookup.clear();
        let entries = (0..1_u64 << LOOKUP_BITS).map(|ahead| {
            match self.find(ahead << (64 - LOOKUP_BITS), 1..=LOOKUP_BITS as usize) {
                Some((symbol, length)) => symbol << 5 | length as u16,
                None => 0,
            }
        });
        self.lookup = entries.collect();
    }

    /// Finds the symbol of the next code, and its length, if that is in the range.
    fn find(&self, ahead: u64, lengths: std::ops::RangeInclusive<usize>) -> Option<(u16, u32)> {
        for length in lengths {
            let code = (ahead >> (64 - length)) as i32;
            // It is not below the first, since shorter codes have been ruled out.
            if code < self.firsts[length] + self.counts[length] {
                let place = self.starts[length] + code - self.firsts[length];
                let symbol = self.symbols.get(usize::try_from(place).ok()?)?;
                return Some((*symbol, length as u32));
            }
        }
        None
    }

    fn read_symbol(&self, reader: &mut BitReader<'_>) -> Result<u16, DecodeError> {
        let ahead = reader.peek();
        let entry = self.lookup[(ahead >> (64 - LOOKUP_BITS)) as usize];
        let (symbol, length) = match u32::from(entry & 31) {
            0 => match self.find(ahead, LOOKUP_BITS as usize + 1..=LENGTH_MAX) {
                Some(found) => found,
                // The bits looked at may lie beyond the end.
                None if !reader.has(LENGTH_MAX as u32) => return Err(DecodeError::Ended),
                None => return Err(DecodeError::Damaged),
            },
            length => (entry >> 5, length),
        };
        reader.skip(length)?;
        Ok(symbol)
    }
}

/// Builds the links of the inverse transform: for each row, the first byte of its rotation in the
/// low eight bits, and the row of the next rotation above them.
fn link_rows(last: &[u8], rows: &mut Vec<u32>) {
    let mut counts = [0; 256];
    last.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let mut sum = 0;
    let mut places = counts.map(|count| {
        sum += count;
        sum - count
    });
    rows.resize(last.len(), 0);
    for (row, &byte) in (0..).zip(last) {
        let place = &mut places[usize::from(byte)];
        // 28 bits at most, so there is room for `MARK`.
        rows[*place] = row << 8 | u32::from(byte);
        *place += 1;
    }
}

/// Flags a row at which a piece of the chain begins.
const MARK: u32 = 1 << 31;

/// Number of pieces followed at once.
const CURSORS: usize = 8;

/// Number of steps between checks for finished pieces.
const STEPS: usize = 128;

/// Number of pieces a long chain is cut into.
const PIECES: usize = 256;

/// Minimum distance between marked rows.
const DISTANCE_MIN: usize = 4 * STEPS;

/// The chain through all rows, in pieces.
#[derive(Default)]
struct ChainWalk {
    starts: Vec<u32>,
    pieces: Vec<ChainPiece>,
}

/// A piece of the chain: its bytes, and the index of the piece after it.
#[derive(Default)]
struct ChainPiece {
    bytes: Vec<u8>,
    next: usize,
}

impl ChainWalk {
    /// Follows the chain from `row` for as many steps as there are rows, and collects the bytes.
    /// Any input is safe: the links are a permutation, so every chain is a ring.
    fn go(&mut self, rows: &mut [u32], row: usize, block: &mut Vec<u8>) {
        let distance = rows.len().div_ceil(PIECES).max(DISTANCE_MIN);
        self.starts.clear();
        self.starts.push(row as u32);
        self.starts.extend(
            (0..rows.len()).step_by(distance).filter(|start| *start != row).map(|start| start as u32),
        );
        self.starts.iter().for_each(|start| rows[*start as usize] |= MARK);
        self.pieces.resize_with(self.starts.len().max(self.pieces.len()), ChainPiece::default);
        self.go_pieces(rows);
        block.clear();
        block.reserve(rows.len());
        let mut piece = 0;
        while block.len() < rows.len() {
            let ChainPiece { bytes, next } = &self.pieces[piece];
            block.extend_from_slice(&bytes[..bytes.len().min(rows.len() - block.len())]);
            piece = *next;
        }
    }

    fn go_pieces(&mut self, rows: &[u32]) {
        // An idle cursor stands on a marked row, which stops it.
        let mut cursors = [self.starts[0]; CURSORS];
        let mut under_way = [None; CURSORS];
        let mut begun = 0;
        loop {
            for (cursor, piece) in cursors.iter_mut().zip(&mut under_way).filter(|(_, piece)| piece.is_none())
            {
                let Some(start) = self.starts.get(begun) else { break };
                let first = rows[*start as usize];
                *cursor = (first & !MARK) >> 8;
                self.pieces[begun].bytes.clear();
                self.pieces[begun].bytes.push(first as u8);
                *piece = Some(begun);
                begun += 1;
            }
            if under_way.iter().all(Option::is_none) {
                return;
            }
            let (bytes, counts) = step(rows, &mut cursors);
            for (cursor, piece) in under_way.iter_mut().enumerate() {
                let Some(number) = *piece else { continue };
                self.pieces[number].bytes.extend_from_slice(&bytes[cursor][..counts[cursor]]);
                if counts[cursor] < STEPS {
                    let next = self.starts.iter().position(|start| *start == cursors[cursor]);
                    self.pieces[number].next = next.unwrap_or_default();
                    *piece = None;
                }
            }
        }
    }
}

/// Advances all cursors by [`STEPS`] steps, or up to a marked row. Returns the bytes met and
/// their counts.
#[allow(clippy::needless_range_loop, reason = "the step is the place in every cursor's bytes")]
fn step(rows: &[u32], cursors: &mut [u32; CURSORS]) -> ([[u8; STEPS]; CURSORS], [usize; CURSORS]) {
    let (mut bytes, mut counts) = ([[0; STEPS]; CURSORS], [0; CURSORS]);
    for at in 0..STEPS {
        for cursor in 0..CURSORS {
            let link = rows[cursors[cursor] as usize];
            bytes[cursor][at] = link as u8;
            // Branch-free, because the branch would be mispredicted.
            let goes = link < MARK;
            counts[cursor] += usize::from(goes);
            cursors[cursor] = if goes { link >> 8 } else { cursors[cursor] };
        }
    }
    (bytes, counts)
}

/// Undoes block randomisation: early bzip2 versions flipped bits in blocks that were hard to sort.
fn undo_randomization(block: &mut [u8]) {
    let mut at = 0;
    for number in NUMBERS.iter().cycle() {
        // bzip2 counts down from each number, and flips when it gets to one.
        let Some(byte) = block.get_mut(at + usize::from(*number) - 2) else { return };
        *byte ^= 1;
        at += usize::from(*number);
    }
}

/// Expands the runs of a block, and computes its checksum.
fn expand(block: &[u8]) -> Result<(BlockContent, u32), NoCount> {
    let mut crc = Crc::new();
    let mut bytes = Vec::with_capacity(block.len());
    let mut is_whole = true;
    runs::expand(block, &mut |more| {
        crc.update(more);
        is_whole = is_whole && bytes.len() + more.len() <= EXPANDED_MAX;
        if is_whole {
            bytes.extend_from_slice(more);
        }
    })?;
    let content =
        if is_whole { BlockContent::Expanded(bytes) } else { BlockContent::Counted(block.to_vec()) };
    Ok((content, crc.finish()))
}
