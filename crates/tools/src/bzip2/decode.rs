//! A block, taken back: the codes are read, the bytes found by recency, the sorting undone, the runs expanded.
//!
//! The sorting is undone by going from row to row, each step to a place that is anywhere in megabytes: one after the other, every
//! step would wait for the memory. So it is done from many rows at once: marked rows cut the way through all rows in
//! pieces, several pieces are gone at a time, each to where the next begins, and are put together at the end.

use super::bits::{BLOCK_MAGIC, BitReader, Ended};
use super::crc::Crc;
use super::encode::{GROUP, SYMBOLS_MAX, TABLES_MAX};
use super::numbers::NUMBERS;
use super::recent::Recent;
use super::runs::{self, NoCount};

/// The most bytes a block has before its runs are expanded.
pub(super) const BLOCK_MAX: usize = 900_000;

/// The longest code a block may have.
const LENGTH_MAX: usize = 20;

/// Bits by which a code is looked up.
const LOOKUP_BITS: u32 = 10;

/// What a block stands for may be as long as this to be kept expanded; all longer ones are made of runs.
const EXPANDED_MAX: usize = 4 << 20;

/// Why a block cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It goes on where nothing is there any more.
    Ended,
    /// It is not what a compressor makes, or not what it was made.
    Damaged,
}

impl From<Ended> for Wrong {
    fn from(_: Ended) -> Self {
        Wrong::Ended
    }
}

impl From<NoCount> for Wrong {
    fn from(_: NoCount) -> Self {
        Wrong::Damaged
    }
}

/// A block that was taken back, and has the right checksum.
#[derive(Debug)]
pub(super) struct Block {
    /// Its content.
    pub(super) content: Content,
    /// Its bytes before runs are expanded; streams have a limit.
    pub(super) length: usize,
    /// The checksum of its content.
    pub(super) crc: u32,
    /// The bit after its last, counted from the beginning of what it was read from.
    pub(super) end: u64,
}

/// What a block stands for.
#[derive(Debug)]
pub(super) enum Content {
    /// Itself.
    Expanded(Vec<u8>),
    /// With its runs counted, because it would be too long.
    Counted(Vec<u8>),
}

impl Content {
    /// Passes it on, piece by piece.
    pub(super) fn pass(&self, take: &mut impl FnMut(&[u8])) {
        match self {
            Content::Expanded(bytes) => take(bytes),
            // That it can be expanded was seen when its checksum was taken.
            Content::Counted(block) => runs::expand(block, take).unwrap_or_default(),
        }
    }
}

/// Takes blocks back; keeps its memory from one to the next.
#[derive(Default)]
pub(super) struct Decoder {
    tables: Vec<Codes>,
    selectors: Vec<u8>,
    last: Vec<u8>,
    rows: Vec<u32>,
    block: Vec<u8>,
    walk: Walk,
}

impl Decoder {
    /// Takes back the block that begins at a bit of some bytes, with its magic number.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub(super) fn decode(&mut self, bytes: &[u8], bit: u64) -> Result<Block, Wrong> {
        let mut reader = BitReader::at(bytes, bit);
        if reader.read_magic()? != BLOCK_MAGIC {
            return Err(Wrong::Damaged);
        }
        let crc = reader.read(32)?;
        let randomized = reader.read_bit()?;
        let row = reader.read(24)? as usize;
        self.read_last(&mut reader)?;
        let end = reader.position();
        if row >= self.last.len() {
            return Err(Wrong::Damaged);
        }
        link_rows(&self.last, &mut self.rows);
        self.walk.go(&mut self.rows, row, &mut self.block);
        if randomized {
            undo_randomization(&mut self.block);
        }
        let (content, sum) = expand(&self.block)?;
        if sum != crc {
            return Err(Wrong::Damaged);
        }
        Ok(Block { content, length: self.block.len(), crc, end })
    }
}

impl Decoder {
    /// Reads all that a block has after its head: which bytes there are, tables, and the last bytes of its sorted rotations.
    fn read_last(&mut self, reader: &mut BitReader<'_>) -> Result<(), Wrong> {
        let (used, count) = read_used(reader)?;
        let mut recent = Recent::new(&used[..count]);
        let tables = reader.read(3)? as usize;
        if !(2..=TABLES_MAX).contains(&tables) {
            return Err(Wrong::Damaged);
        }
        self.read_selectors(reader, tables)?;
        self.tables.truncate(tables);
        self.tables.resize_with(tables, Codes::default);
        for table in &mut self.tables {
            table.read(reader, count + 2)?;
        }
        self.last.clear();
        let end = count as u16 + 1;
        let mut run = Run::default();
        // A copy, so that what is read is kept at hand.
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
                    return Err(Wrong::Damaged);
                }
                self.last.push(byte);
            }
        }
        Err(Wrong::Damaged)
    }

    /// Reads which table each group takes.
    fn read_selectors(&mut self, reader: &mut BitReader<'_>, tables: usize) -> Result<(), Wrong> {
        let count = reader.read(15)? as usize;
        if count == 0 {
            return Err(Wrong::Damaged);
        }
        let mut order: [u8; TABLES_MAX] = std::array::from_fn(|table| table as u8);
        self.selectors.clear();
        for _ in 0..count {
            let mut number = 0;
            while reader.read_bit()? {
                number += 1;
                if number == tables {
                    return Err(Wrong::Damaged);
                }
            }
            order[..=number].rotate_right(1);
            self.selectors.push(order[0]);
        }
        Ok(())
    }
}

/// Reads which bytes a block has, and how many.
fn read_used(reader: &mut BitReader<'_>) -> Result<([u8; 256], usize), Wrong> {
    let (mut used, mut count) = ([0; 256], 0);
    let sixteenths = reader.read(16)?;
    for sixteenth in (0..16).filter(|sixteenth| sixteenths >> (15 - sixteenth) & 1 == 1) {
        let bytes = reader.read(16)?;
        for byte in (0..16).filter(|byte| bytes >> (15 - byte) & 1 == 1) {
            used[count] = sixteenth * 16 + byte;
            count += 1;
        }
    }
    if count == 0 { Err(Wrong::Damaged) } else { Ok((used, count)) }
}

/// A run of the most recent byte, in digits of one and two.
#[derive(Default)]
struct Run {
    length: usize,
    digits: u32,
}

impl Run {
    fn add(&mut self, digit: u32) -> Result<(), Wrong> {
        self.length += (digit as usize) << self.digits;
        self.digits += 1;
        if self.length > BLOCK_MAX { Err(Wrong::Damaged) } else { Ok(()) }
    }

    fn end(&mut self, byte: u8, last: &mut Vec<u8>) -> Result<(), Wrong> {
        if self.length > 0 {
            if last.len() + self.length > BLOCK_MAX {
                return Err(Wrong::Damaged);
            }
            last.resize(last.len() + self.length, byte);
            *self = Self::default();
        }
        Ok(())
    }
}

/// The codes of a table: shorter ones are less, those of a length are numbered on.
#[derive(Default)]
struct Codes {
    /// Of each length: the first code.
    firsts: [i32; LENGTH_MAX + 1],
    /// How many there are.
    counts: [i32; LENGTH_MAX + 1],
    /// Where their symbols are.
    starts: [i32; LENGTH_MAX + 1],
    symbols: Vec<u16>,
    /// By the bits ahead: the symbol, and in the lowest five bits the length of its code. None of the rest has length 0.
    lookup: Vec<u16>,
}

impl Codes {
    /// Reads the lengths of the codes of so many symbols.
    fn read(&mut self, reader: &mut BitReader<'_>, count: usize) -> Result<(), Wrong> {
        let mut lengths = [0_u8; SYMBOLS_MAX];
        let mut length = reader.read(5)? as usize;
        for place in &mut lengths[..count] {
            loop {
                if !(1..=LENGTH_MAX).contains(&length) {
                    return Err(Wrong::Damaged);
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

    /// Finds the symbol of the code ahead, and its length, which is in a range.
    fn find(&self, ahead: u64, lengths: std::ops::RangeInclusive<usize>) -> Option<(u16, u32)> {
        for length in lengths {
            let code = (ahead >> (64 - length)) as i32;
            if code < self.firsts[length] + self.counts[length] {
                let place = self.starts[length] + code - self.firsts[length];
                let symbol = self.symbols.get(usize::try_from(place).ok()?)?;
                return Some((*symbol, length as u32));
            }
        }
        None
    }

    fn read_symbol(&self, reader: &mut BitReader<'_>) -> Result<u16, Wrong> {
        let ahead = reader.peek();
        let entry = self.lookup[(ahead >> (64 - LOOKUP_BITS)) as usize];
        let (symbol, length) = match u32::from(entry & 31) {
            0 => match self.find(ahead, LOOKUP_BITS as usize + 1..=LENGTH_MAX) {
                Some(found) => found,
                // What was looked at may be no bits at all.
                None if !reader.has(LENGTH_MAX as u32) => return Err(Wrong::Ended),
                None => return Err(Wrong::Damaged),
            },
            length => (entry >> 5, length),
        };
        reader.skip(length)?;
        Ok(symbol)
    }
}

/// Says of each row which rotation comes first there, by its first byte, in the lowest eight bits, and above them in which row the
/// next rotation is.
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
        rows[*place] = row << 8 | u32::from(byte);
        *place += 1;
    }
}

/// Where rows are marked: a piece of the way begins there.
const MARK: u32 = 1 << 31;

/// Pieces of the way that are gone at once.
const LANES: usize = 8;

/// Steps between two looks at which pieces have ended.
const STEPS: usize = 128;

/// Pieces in which a way through all rows is cut, if they are long enough.
const PIECES: usize = 256;

/// The least distance between two marked rows.
const DISTANCE_MIN: usize = 4 * STEPS;

/// A way through all rows, in pieces.
#[derive(Default)]
struct Walk {
    starts: Vec<u32>,
    pieces: Vec<Piece>,
}

/// A piece of it: the bytes met, and which piece comes after.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    next: usize,
}

impl Walk {
    /// Goes from a row through as many as there are, and collects the bytes. Any rows will do: they are each other's
    /// next in some order, so from each the way leads in a ring.
    fn go(&mut self, rows: &mut [u32], row: usize, block: &mut Vec<u8>) {
        let distance = rows.len().div_ceil(PIECES).max(DISTANCE_MIN);
        self.starts.clear();
        self.starts.push(row as u32);
        self.starts.extend(
            (0..rows.len()).step_by(distance).filter(|start| *start != row).map(|start| start as u32),
        );
        self.starts.iter().for_each(|start| rows[*start as usize] |= MARK);
        self.pieces.resize_with(self.starts.len().max(self.pieces.len()), Piece::default);
        self.go_pieces(rows);
        block.clear();
        block.reserve(rows.len());
        let mut piece = 0;
        while block.len() < rows.len() {
            let Piece { bytes, next } = &self.pieces[piece];
            block.extend_from_slice(&bytes[..bytes.len().min(rows.len() - block.len())]);
            piece = *next;
        }
    }

    fn go_pieces(&mut self, rows: &[u32]) {
        // A lane without a piece stands on a marked row, which holds it.
        let mut lanes = [self.starts[0]; LANES];
        let mut under_way = [None; LANES];
        let mut begun = 0;
        loop {
            for (lane, piece) in lanes.iter_mut().zip(&mut under_way).filter(|(_, piece)| piece.is_none()) {
                let Some(start) = self.starts.get(begun) else { break };
                let first = rows[*start as usize];
                *lane = (first & !MARK) >> 8;
                self.pieces[begun].bytes.clear();
                self.pieces[begun].bytes.push(first as u8);
                *piece = Some(begun);
                begun += 1;
            }
            if under_way.iter().all(Option::is_none) {
                return;
            }
            let (bytes, counts) = step(rows, &mut lanes);
            for (lane, piece) in under_way.iter_mut().enumerate() {
                let Some(number) = *piece else { continue };
                self.pieces[number].bytes.extend_from_slice(&bytes[lane][..counts[lane]]);
                if counts[lane] < STEPS {
                    let next = self.starts.iter().position(|start| *start == lanes[lane]);
                    self.pieces[number].next = next.unwrap_or_default();
                    *piece = None;
                }
            }
        }
    }
}

/// Goes [`STEPS`] steps in all lanes, or fewer where a marked row is met; returns the bytes met and their numbers.
#[allow(clippy::needless_range_loop, reason = "the step is the place in every lane's bytes")]
fn step(rows: &[u32], lanes: &mut [u32; LANES]) -> ([[u8; STEPS]; LANES], [usize; LANES]) {
    let (mut bytes, mut counts) = ([[0; STEPS]; LANES], [0; LANES]);
    for at in 0..STEPS {
        for lane in 0..LANES {
            let link = rows[lanes[lane] as usize];
            bytes[lane][at] = link as u8;
            // Without a branch, which would be guessed wrong.
            let goes = link < MARK;
            counts[lane] += usize::from(goes);
            lanes[lane] = if goes { link >> 8 } else { lanes[lane] };
        }
    }
    (bytes, counts)
}

/// Takes back what the first versions of bzip2 did to blocks that were hard to sort: every so often a bit was changed.
fn undo_randomization(block: &mut [u8]) {
    let mut at = 0;
    for number in NUMBERS.iter().cycle() {
        let Some(byte) = block.get_mut(at + usize::from(*number) - 2) else { return };
        *byte ^= 1;
        at += usize::from(*number);
    }
}

/// Expands the runs of a block, and takes the checksum.
fn expand(block: &[u8]) -> Result<(Content, u32), NoCount> {
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
    let content = if is_whole { Content::Expanded(bytes) } else { Content::Counted(block.to_vec()) };
    Ok((content, crc.finish()))
}
