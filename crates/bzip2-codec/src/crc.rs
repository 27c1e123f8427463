//! bzip2's checksum: the Ethernet CRC-32, most significant bit first.

/// The generator polynomial.
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// Number of bytes processed per step.
const STEP: usize = 8;

/// `TABLES[n]` maps a byte to its contribution when `n` more bytes follow in the step.
static TABLES: [[u32; 256]; STEP] = tables();

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = (byte as u32) << 24;
        let mut place = 0;
        while place < STEP {
            let mut bit = 0;
            while bit < 8 {
                rest = if rest >> 31 == 1 { rest << 1 ^ POLYNOMIAL } else { rest << 1 };
                bit += 1;
            }
            tables[place][byte] = rest;
            place += 1;
        }
        byte += 1;
    }
    tables
}

/// A checksum in progress.
#[derive(Clone, Copy)]
pub struct Crc(u32);

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc {
    /// Begins a checksum.
    #[must_use]
    pub fn new() -> Self {
        Self(u32::MAX)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let (steps, rest) = bytes.as_chunks::<STEP>();
        let mut sum = self.0;
        // The lookups of a step don't depend on each other.
        for step in steps {
            let word = u64::from_be_bytes(*step) ^ u64::from(sum) << 32;
            let parts = word.to_be_bytes();
            sum = (0..STEP).fold(0, |sum, at| sum ^ TABLES[STEP - 1 - at][usize::from(parts[at])]);
        }
        for byte in rest {
            sum = sum << 8 ^ TABLES[0][usize::from((sum >> 24) as u8 ^ byte)];
        }
        self.0 = sum;
    }

    /// Returns the checksum.
    pub fn finish(self) -> u32 {
        !self.0
    }
}

/// Combines a block's checksum with that of its stream.
pub fn combine(stream: u32, block: u32) -> u32 {
    stream.rotate_left(1) ^ block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_text_has_the_usual_checksum() {
        let mut crc = Crc::new();
        crc.update(b"123456789");
        assert_eq!(crc.finish(), 0xfc89_1918);
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_come() {
        let bytes: Vec<_> = (0..100_u8).collect();
        let mut whole = Crc::new();
        whole.update(&bytes);
        for cut in 0..=bytes.len() {
            let mut crc = Crc::new();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            assert_eq!(crc.finish(), whole.finish());
        }
    }
}
