//! Block compression: Burrows-Wheeler transform, move-to-front, then Huffman coding with several
//! tables, of which each group of 50 symbols uses the best.

use super::bits::{BLOCK_MAGIC, BitWriter, Bits};
use super::recent::Recent;
use super::sort::Sorter;

/// Number of symbols in a group, which share a table.
pub const GROUP: usize = 50;

/// Maximum number of tables per block.
pub const TABLES_MAX: usize = 6;

/// Maximum number of symbols: two for runs, one for each byte but the most recent, and end
/// of block.
pub const SYMBOLS_MAX: usize = 258;

/// Maximum length of a code we write, in bits. Readers accept up to 20.
const LENGTH_MAX: u32 = 17;

/// Number of rounds that refine the tables.
const ROUNDS: usize = 4;

/// Bits per table in a packed sum of costs: a group of maximum-length codes fits.
const COST_BITS: usize = 10;

/// Code lengths of a table, by symbol.
type Lengths = [u8; SYMBOLS_MAX];

/// Compresses blocks, reusing its memory.
#[derive(Default)]
pub struct Encoder {
    sorter: Sorter,
    last: Vec<u8>,
    symbols: Vec<u16>,
    selectors: Vec<u8>,
}

impl Encoder {
    /// Compresses a non-empty block after run-length encoding. `crc` is the checksum of the
    /// original bytes.
    pub fn encode(&mut self, block: &[u8], crc: u32) -> Bits {
        let row = self.sorter.transform(block, &mut self.last);
        let mut writer = BitWriter::default();
        writer.push_magic(BLOCK_MAGIC);
        writer.push(crc, 32);
        // The first bit, a zero, says that the block isn't randomized.
        writer.push(row as u32, 25);
        let used = used_bytes(&self.last);
        push_used(&mut writer, &used);
        let bytes: Vec<_> = (0..=255_u8).filter(|byte| used[usize::from(*byte)]).collect();
        name_by_recency(&self.last, &bytes, &mut self.symbols);
        let count = bytes.len() + 2;
        let tables = choose_tables(&self.symbols, count, &mut self.selectors);
        writer.push(tables.len() as u32, 3);
        writer.push(self.selectors.len() as u32, 15);
        push_selectors(&mut writer, &self.selectors);
        tables.iter().for_each(|lengths| push_lengths(&mut writer, &lengths[..count]));
        let codes: Vec<_> = tables.iter().map(|lengths| codes(&lengths[..count])).collect();
        for (group, selector) in self.symbols.chunks(GROUP).zip(&self.selectors) {
            let (lengths, codes) = (&tables[usize::from(*selector)], &codes[usize::from(*selector)]);
            for symbol in group {
                writer.push(codes[usize::from(*symbol)], u32::from(lengths[usize::from(*symbol)]));
            }
        }
        writer.finish()
    }
}

fn used_bytes(bytes: &[u8]) -> [bool; 256] {
    let mut used = [false; 256];
    bytes.iter().for_each(|byte| used[usize::from(*byte)] = true);
    used
}

/// Writes the set of bytes that occur: a bitmap of 16 ranges, then a bitmap of each
/// non-empty range.
fn push_used(writer: &mut BitWriter, used: &[bool; 256]) {
    let sixteenths = used.as_chunks::<16>().0;
    let mask = |bits: &mut dyn Iterator<Item = bool>| bits.fold(0, |mask, bit| mask << 1 | u32::from(bit));
    writer.push(mask(&mut sixteenths.iter().map(|some| some.contains(&true))), 16);
    for some in sixteenths.iter().filter(|some| some.contains(&true)) {
        writer.push(mask(&mut some.iter().copied()), 16);
    }
}

/// Move-to-front coding: replaces each byte by the number of distinct bytes seen since. Runs of
/// zeros are written in bijective base 2, with digits one and two; other numbers are shifted by
/// one. The last symbol ends the block.
fn name_by_recency(last: &[u8], bytes: &[u8], symbols: &mut Vec<u16>) {
    symbols.clear();
    symbols.reserve(last.len() + 1);
    let mut recent = Recent::new(bytes);
    let mut run = 0;
    for byte in last {
        if recent.first() == *byte {
            run += 1;
            continue;
        }
        push_run(symbols, &mut run);
        symbols.push(recent.find(*byte) as u16 + 1);
    }
    push_run(symbols, &mut run);
    symbols.push(bytes.len() as u16 + 1);
}

fn push_run(symbols: &mut Vec<u16>, run: &mut u32) {
    while *run > 0 {
        let two = run.is_multiple_of(2);
        symbols.push(u16::from(two));
        *run = (*run - 1) / 2;
    }
}

/// Returns how many tables pay off for this many symbols.
fn tables_for(symbols: usize) -> usize {
    // bzip2's own limits.
    match symbols {
        0..200 => 2,
        200..600 => 3,
        600..1200 => 4,
        1200..2400 => 5,
        _ => TABLES_MAX,
    }
}

/// Builds tables for `count` symbols, and selects one for each group.
fn choose_tables(symbols: &[u16], count: usize, selectors: &mut Vec<u8>) -> Vec<Lengths> {
    let mut tables = first_tables(symbols, count);
    for _ in 0..ROUNDS {
        let mut frequencies = vec![[0_u32; SYMBOLS_MAX]; tables.len()];
        // A symbol's costs in all tables, packed into one integer so that one addition sums
        // them all.
        let costs: [u64; SYMBOLS_MAX] = std::array::from_fn(|symbol| {
            let cost = |(at, table): (usize, &Lengths)| u64::from(table[symbol]) << (at * COST_BITS);
            tables.iter().enumerate().map(cost).sum()
        });
        selectors.clear();
        for group in symbols.chunks(GROUP) {
            let all: u64 = group.iter().map(|symbol| costs[usize::from(*symbol)]).sum();
            let cost = |table: &usize| all >> (table * COST_BITS) & ((1 << COST_BITS) - 1);
            let best = (0..tables.len()).min_by_key(cost).unwrap_or_default();
            selectors.push(best as u8);
            let frequencies = &mut frequencies[best];
            group.iter().for_each(|symbol| frequencies[usize::from(*symbol)] += 1);
        }
        for (table, frequencies) in tables.iter_mut().zip(&frequencies) {
            *table = lengths(&frequencies[..count]);
        }
    }
    tables
}

/// Builds the initial tables, each favouring a range of symbols with about the same
/// total frequency.
fn first_tables(symbols: &[u16], count: usize) -> Vec<Lengths> {
    let mut frequencies = [0; SYMBOLS_MAX];
    symbols.iter().for_each(|symbol| frequencies[usize::from(*symbol)] += 1);
    let tables = tables_for(symbols.len());
    let (mut start, mut left) = (0, symbols.len());
    let table = |index: usize| {
        let share = left / (tables - index);
        let (mut end, mut sum) = (start, 0);
        while end < count && (sum < share || end == start) {
            sum += frequencies[end];
            end += 1;
        }
        let range = start..end;
        (start, left) = (end, left - sum);
        std::array::from_fn(|symbol| if range.contains(&symbol) { 0 } else { 15 })
    };
    (0..tables).map(table).collect()
}

/// Computes optimal code lengths of at most [`LENGTH_MAX`] (Huffman, 1952).
fn lengths(frequencies: &[u32]) -> Lengths {
    // The format has a code for each symbol, also for those that no group with this table has.
    let mut weights: Vec<_> = frequencies.iter().map(|frequency| (*frequency).max(1)).collect();
    loop {
        let lengths = unlimited_lengths(&weights);
        if lengths.iter().all(|length| *length <= LENGTH_MAX) {
            let mut table = [0; SYMBOLS_MAX];
            table.iter_mut().zip(lengths).for_each(|(short, length)| *short = length as u8);
            return table;
        }
        // Flatter frequencies have shorter codes.
        weights.iter_mut().for_each(|weight| *weight = *weight / 2 + 1);
    }
}

/// Computes optimal code lengths by merging the two lightest nodes repeatedly. Leaves are sorted,
/// and merged nodes are created in order of weight, so two queues suffice.
fn unlimited_lengths(weights: &[u32]) -> Vec<u32> {
    let leaves = weights.len();
    let mut sorted: Vec<_> = (0..leaves).collect();
    sorted.sort_by_key(|leaf| weights[*leaf]);
    let mut parents = vec![0; 2 * leaves - 1];
    let mut joints: Vec<u32> = Vec::with_capacity(leaves);
    let (mut leaf, mut joint) = (0, 0);
    for parent in leaves..2 * leaves - 1 {
        let mut lightest = || {
            let takes_leaf = match (sorted.get(leaf), joints.get(joint)) {
                (Some(place), Some(weight)) => weights[*place] <= *weight,
                (place, _) => place.is_some(),
            };
            let (node, weight) = if takes_leaf {
                leaf += 1;
                (sorted[leaf - 1], weights[sorted[leaf - 1]])
            } else {
                joint += 1;
                (leaves + joint - 1, joints[joint - 1])
            };
            parents[node] = parent;
            weight
        };
        let weight = lightest() + lightest();
        joints.push(weight);
    }
    let mut depths = vec![0; 2 * leaves - 1];
    for node in (0..2 * leaves - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    depths.truncate(leaves);
    depths
}

/// Assigns canonical codes: shorter ones first, and by symbol within a length.
fn codes(lengths: &[u8]) -> [u32; SYMBOLS_MAX] {
    let mut codes = [0; SYMBOLS_MAX];
    let mut next = 0;
    for length in 1..=LENGTH_MAX {
        for (code, _) in codes.iter_mut().zip(lengths).filter(|(_, its)| u32::from(**its) == length) {
            *code = next;
            next += 1;
        }
        next <<= 1;
    }
    codes
}

/// Writes the selectors, move-to-front coded, in unary.
fn push_selectors(writer: &mut BitWriter, selectors: &[u8]) {
    let mut order: [u8; TABLES_MAX] = std::array::from_fn(|table| table as u8);
    for selector in selectors {
        let number = order.iter().position(|table| table == selector).unwrap_or_default();
        order[..=number].rotate_right(1);
        writer.push((1 << (number + 1)) - 2, number as u32 + 1);
    }
}

/// Writes code lengths: the first one, then steps of one up or down.
fn push_lengths(writer: &mut BitWriter, lengths: &[u8]) {
    let mut current = lengths[0];
    writer.push(u32::from(current), 5);
    for &length in lengths {
        while current != length {
            let up = length > current;
            writer.push(if up { 0b10 } else { 0b11 }, 2);
            current = if up { current + 1 } else { current - 1 };
        }
        writer.push(0, 1);
    }
}
