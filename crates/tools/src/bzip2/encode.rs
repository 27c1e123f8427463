//! A block, compressed: sorted, its bytes named by how recently they were seen, and these numbers written in codes of several tables,
//! of which each fifty numbers take the one that suits them.

use super::bits::{BLOCK_MAGIC, BitWriter, Bits};
use super::recent::Recent;
use super::sort::Sorter;

/// Symbols that share a table.
pub(super) const GROUP: usize = 50;

/// Tables a block has at most.
pub(super) const TABLES_MAX: usize = 6;

/// Symbols there are at most: two for runs, one for each byte but the most recent one, and the end.
pub(super) const SYMBOLS_MAX: usize = 258;

/// The longest code that is made. Readers take up to 20.
const LENGTH_MAX: u32 = 17;

/// Times the choice of tables is improved.
const ROUNDS: usize = 4;

/// Bits for the costs of one table, beside those of the others: fifty codes of the longest fit.
const COST_BITS: usize = 10;

/// The lengths of a table's codes, by symbol.
type Lengths = [u8; SYMBOLS_MAX];

/// Compresses blocks; keeps its memory from one to the next.
#[derive(Default)]
pub(super) struct Encoder {
    sorter: Sorter,
    last: Vec<u8>,
    symbols: Vec<u16>,
    selectors: Vec<u8>,
}

impl Encoder {
    /// Compresses a block whose runs are counted already; `crc` is the checksum of what it stands for. It is not empty.
    pub(super) fn encode(&mut self, block: &[u8], crc: u32) -> Bits {
        let row = self.sorter.transform(block, &mut self.last);
        let mut writer = BitWriter::default();
        writer.push_magic(BLOCK_MAGIC);
        writer.push(crc, 32);
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

/// Writes which bytes there are: which sixteenths have any, and which of these.
fn push_used(writer: &mut BitWriter, used: &[bool; 256]) {
    let sixteenths = used.as_chunks::<16>().0;
    let mask = |bits: &mut dyn Iterator<Item = bool>| bits.fold(0, |mask, bit| mask << 1 | u32::from(bit));
    writer.push(mask(&mut sixteenths.iter().map(|some| some.contains(&true))), 16);
    for some in sixteenths.iter().filter(|some| some.contains(&true)) {
        writer.push(mask(&mut some.iter().copied()), 16);
    }
}

/// Replaces each byte by the number of others that were seen more recently: none is counted, in digits of one and two; others get one
/// more than the number. The symbol after the last such one ends the block.
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

/// Says how many tables pay for so many symbols.
fn tables_for(symbols: usize) -> usize {
    match symbols {
        0..200 => 2,
        200..600 => 3,
        600..1200 => 4,
        1200..2400 => 5,
        _ => TABLES_MAX,
    }
}

/// Makes tables for `count` symbols, and selects one for each group.
fn choose_tables(symbols: &[u16], count: usize, selectors: &mut Vec<u8>) -> Vec<Lengths> {
    let mut tables = first_tables(symbols, count);
    for _ in 0..ROUNDS {
        let mut frequencies = vec![[0_u32; SYMBOLS_MAX]; tables.len()];
        // The costs of a symbol in all tables in one number, so that they are added at once.
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

/// Makes the tables to begin with: each is good for a range of symbols, of which all have about the same share.
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

/// Finds the lengths of the codes that suit some frequencies best, none longer than [`LENGTH_MAX`] (Huffman, 1952).
fn lengths(frequencies: &[u32]) -> Lengths {
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

/// Finds the best lengths: joins the two lightest of leaves and joints again and again. Both come sorted, the leaves because they are
/// sorted, the joints because each is heavier than the one before.
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

/// Returns the codes of given lengths: shorter ones first, those of one length in the order of the symbols.
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

/// Writes the selectors by recency, each in as many ones, and a zero.
fn push_selectors(writer: &mut BitWriter, selectors: &[u8]) {
    let mut order: [u8; TABLES_MAX] = std::array::from_fn(|table| table as u8);
    for selector in selectors {
        let number = order.iter().position(|table| table == selector).unwrap_or_default();
        order[..=number].rotate_right(1);
        writer.push((1 << (number + 1)) - 2, number as u32 + 1);
    }
}

/// Writes the lengths of codes: the first, and then steps of one up or down.
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
