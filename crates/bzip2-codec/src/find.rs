//! Finds candidate block boundaries by scanning for the block magic at every bit offset.
//!
//! All eight alignments are tracked at once. For each alignment and each byte of the magic, one bit
//! records that all bytes so far match. Reading a byte shifts these bits and clears those that
//! don't match it (Baeza-Yates and Gonnet, "A New Approach to Text Searching", 1992).
//!
//! A hit is only a candidate: the bits of a block can look like the start of another.

use super::bits::{BLOCK_MAGIC, MAGIC_BITS};

/// Number of bytes that the magic can span.
const SPAN: usize = 7;

/// Lowest of the eight bits that are set once the magic has matched at an alignment.
const SEEN: u32 = (SPAN as u32 - 1) * 8;

/// For each byte: the alignments and positions at which it matches the magic.
static FITS: [u64; 256] = fits();

const fn fits() -> [u64; 256] {
    let mut fits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut way = 0;
        while way < 8 {
            // The magic at this alignment, and a mask of its bits.
            let number = BLOCK_MAGIC << (SPAN as u32 * 8 - MAGIC_BITS - way);
            let counts = ((1 << MAGIC_BITS) - 1) << (SPAN as u32 * 8 - MAGIC_BITS - way);
            let mut place = 0;
            while place < SPAN as u32 {
                let shift = (SPAN as u32 - 1 - place) * 8;
                let differs = (number >> shift ^ byte as u64) & (counts >> shift) & 0xff;
                if differs == 0 {
                    fits[byte] |= 1 << (place * 8 + way);
                }
                place += 1;
            }
            way += 1;
        }
        byte += 1;
    }
    fits
}

/// A scan over consecutive bytes.
#[derive(Default)]
pub struct Finder {
    ways: u64,
}

impl Finder {
    /// Scans up to the end of a magic number. Returns how many bytes were consumed, and the bit
    /// offset of the number within the byte that is [`SCANNED`] bytes before the end of those.
    pub fn scan(&mut self, bytes: &[u8]) -> Option<(usize, u32)> {
        for (index, byte) in bytes.iter().enumerate() {
            self.ways = (self.ways << 8 | 0xff) & FITS[usize::from(*byte)];
            if self.ways >> SEEN != 0 {
                let way = (self.ways >> SEEN).trailing_zeros();
                return Some((index + 1, way));
            }
        }
        None
    }
}

/// Number of bytes from the one in which a magic number begins to the last one scanned, inclusive.
pub const SCANNED: usize = SPAN;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bits::BitWriter;

    /// Finds all magic numbers bit by bit.
    fn plainly(bytes: &[u8]) -> Vec<u64> {
        let bit = |at: u64| u64::from(bytes[at as usize / 8] >> (7 - at % 8) & 1);
        let bits = bytes.len() as u64 * 8;
        let is_there = |at: &u64| (0..48).fold(0, |number, more| number << 1 | bit(at + more)) == BLOCK_MAGIC;
        (0..(bits + 1).saturating_sub(48)).filter(is_there).collect()
    }

    fn found(parts: &[&[u8]]) -> Vec<u64> {
        let (mut finder, mut places, mut before) = (Finder::default(), Vec::new(), 0);
        for part in parts {
            let mut rest = *part;
            while let Some((taken, way)) = finder.scan(rest) {
                before += taken;
                rest = &rest[taken..];
                places.push((before - SCANNED) as u64 * 8 + u64::from(way));
            }
            before += rest.len();
        }
        places
    }

    proptest! {
        #[test]
        fn every_magic_number_is_found(gaps in prop::collection::vec((any::<u32>(), 1..20_u32), 0..6), cut in 0..50_usize) {
            let mut writer = BitWriter::default();
            for (bits, count) in &gaps {
                writer.push(bits >> (32 - count), *count);
                writer.push_magic(BLOCK_MAGIC);
            }
            // A number is reported only once the byte after it was scanned.
            writer.push(0, 8);
            let bytes = writer.finish().bytes;
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let wanted = plainly(&bytes);
            prop_assert!(wanted.len() >= gaps.len());
            prop_assert_eq!(found(&[first, second]), wanted);
        }
    }
}
