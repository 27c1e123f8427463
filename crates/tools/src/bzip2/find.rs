//! Where blocks may begin: a scan for their magic number at every bit.
//!
//! All eight ways in which the number can lie over bytes are followed at once: of each way and each byte of the number a bit says
//! whether all bytes up to there fit. A byte read moves these bits on and strikes out those that it does not fit (Baeza-Yates and
//! Gonnet, "A New Approach to Text Searching", 1992).
//!
//! What is found is a candidate, no more: the bits of a block can look like the beginning of another.

use super::bits::{BLOCK_MAGIC, MAGIC_BITS};

/// Bytes over which the number can lie.
const SPAN: usize = 7;

/// The bit that is set when the number has been seen in the first of the eight ways.
const SEEN: u32 = (SPAN as u32 - 1) * 8;

/// Of each byte: in which ways it can be which byte of the number.
static FITS: [u64; 256] = fits();

const fn fits() -> [u64; 256] {
    let mut fits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut way = 0;
        while way < 8 {
            // The number, `way` bits after the beginning of a byte, with ones for the bits that count.
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

/// A scan over bytes that come one after the other.
#[derive(Default)]
pub(super) struct Finder {
    ways: u64,
}

impl Finder {
    /// Scans bytes up to where a magic number has ended; returns how many bytes that took, and by how many bits the number began
    /// after the beginning of the seventh byte from there, backwards.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Option<(usize, u32)> {
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

/// Bytes from the one a magic number begins in to the one that [`Finder::scan`] had to see, with both.
pub(super) const SCANNED: usize = SPAN;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bzip2::bits::BitWriter;

    /// Finds all numbers bit by bit.
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
            // The scan sees a number when it has seen the byte after it.
            writer.push(0, 8);
            let bytes = writer.finish().bytes;
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let wanted = plainly(&bytes);
            prop_assert!(wanted.len() >= gaps.len());
            prop_assert_eq!(found(&[first, second]), wanted);
        }
    }
}
