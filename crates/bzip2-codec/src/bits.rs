//! Bit strings, most significant bit first, as in bzip2.

/// Start of a block: the digits of pi.
pub const BLOCK_MAGIC: u64 = 0x3141_5926_5359;

/// End of a stream: the digits of the square root of pi.
pub const END_MAGIC: u64 = 0x1772_4538_5090;

/// Length of either magic number, in bits.
pub const MAGIC_BITS: u32 = 48;

/// Writes a bit string.
#[derive(Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits not yet in `bytes`, left-aligned.
    pending: u64,
    /// Number of pending bits, below 32.
    filled: u32,
}

impl BitWriter {
    /// Appends the low `count` bits of `bits`: 1 to 32. The higher bits must be zero.
    pub fn push(&mut self, bits: u32, count: u32) {
        self.pending |= u64::from(bits) << (64 - self.filled - count);
        self.filled += count;
        if self.filled >= 32 {
            self.bytes.extend_from_slice(&((self.pending >> 32) as u32).to_be_bytes());
            self.pending <<= 32;
            self.filled -= 32;
        }
    }

    /// Appends a 48-bit magic number.
    pub fn push_magic(&mut self, magic: u64) {
        self.push((magic >> 24) as u32, 24);
        self.push(magic as u32 & 0xff_ffff, 24);
    }

    /// Appends another bit string.
    pub fn append(&mut self, other: &Bits) {
        let whole = other.count as usize / 8;
        let (words, rest) = other.bytes[..whole].as_chunks::<4>();
        self.bytes.reserve(other.bytes.len() + 8);
        words.iter().for_each(|word| self.push(u32::from_be_bytes(*word), 32));
        rest.iter().for_each(|byte| self.push(u32::from(*byte), 8));
        let last = (other.count % 8) as u32;
        if last > 0 {
            self.push(u32::from(other.bytes[whole] >> (8 - last)), last);
        }
    }

    /// Removes and returns the complete bytes.
    pub fn take_whole(&mut self) -> Vec<u8> {
        while self.filled >= 8 {
            self.bytes.push((self.pending >> 56) as u8);
            self.pending <<= 8;
            self.filled -= 8;
        }
        std::mem::take(&mut self.bytes)
    }

    /// Pads the last byte with zeros and returns the string.
    pub fn finish(mut self) -> Bits {
        let count = self.bytes.len() as u64 * 8 + u64::from(self.filled);
        self.filled = self.filled.next_multiple_of(8);
        Bits { bytes: self.take_whole(), count }
    }
}

/// A bit string, padded to whole bytes with zeros.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// The bits, the first in the highest bit of the first byte.
    pub bytes: Vec<u8>,
    /// Number of bits.
    pub count: u64,
}

/// The bit string ended too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOfBits;

/// Reads a bit string.
#[derive(Clone)]
pub struct BitReader<'b> {
    bytes: &'b [u8],
    /// The next bits, left-aligned. Bits after the first `filled` may be look-ahead.
    pending: u64,
    /// Number of valid pending bits; never more than are left in `bytes`.
    filled: u32,
    /// Index of the byte after the pending bits.
    next: usize,
}

impl<'b> BitReader<'b> {
    /// Starts reading at a bit.
    pub fn at(bytes: &'b [u8], bit: u64) -> Self {
        let next = usize::try_from(bit / 8).unwrap_or(usize::MAX).min(bytes.len());
        let mut reader = Self { bytes, pending: 0, filled: 0, next };
        let skip = (bit % 8) as u32;
        reader.fill();
        reader.drop_bits(skip.min(reader.filled));
        reader
    }

    /// Returns the index of the next bit.
    pub fn position(&self) -> u64 {
        self.next as u64 * 8 - u64::from(self.filled)
    }

    /// Refills the pending bits to at least 56, if that many are left.
    fn fill(&mut self) {
        if let Some(bytes) = self.bytes.get(self.next..).and_then(<[u8]>::first_chunk::<8>) {
            // The bits beyond `filled` will be set again, to the same values.
            self.pending |= u64::from_be_bytes(*bytes) >> self.filled;
            let taken = (63 - self.filled) / 8;
            self.next += taken as usize;
            self.filled += taken * 8;
            return;
        }
        while self.filled <= 56 && self.next < self.bytes.len() {
            self.pending |= u64::from(self.bytes[self.next]) << (56 - self.filled);
            self.next += 1;
            self.filled += 8;
        }
    }

    fn drop_bits(&mut self, count: u32) {
        self.pending <<= count;
        self.filled -= count;
    }

    /// Returns at least the next 32 bits, left-aligned; bits past the end are undefined. Consume
    /// them with [`BitReader::skip`].
    pub fn peek(&mut self) -> u64 {
        if self.filled < 32 {
            self.fill();
        }
        self.pending
    }

    /// True if at least `count` bits are left, up to 32, after [`BitReader::peek`].
    pub fn has(&self, count: u32) -> bool {
        self.filled >= count
    }

    /// Consumes bits that were peeked at.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn skip(&mut self, count: u32) -> Result<(), EndOfBits> {
        if count > self.filled {
            return Err(EndOfBits);
        }
        self.drop_bits(count);
        Ok(())
    }

    /// Reads up to 32 bits.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn read(&mut self, count: u32) -> Result<u32, EndOfBits> {
        if count == 0 {
            return Ok(0);
        }
        let bits = (self.peek() >> (64 - count)) as u32;
        self.skip(count)?;
        Ok(bits)
    }

    /// Reads one bit.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn read_bit(&mut self) -> Result<bool, EndOfBits> {
        Ok(self.read(1)? == 1)
    }

    /// Reads a 48-bit magic number.
    ///
    /// # Errors
    /// At the end of the bytes.
    pub fn read_magic(&mut self) -> Result<u64, EndOfBits> {
        Ok(u64::from(self.read(24)?) << 24 | u64::from(self.read(24)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = Vec<(u32, u32)>> {
        prop::collection::vec((any::<u32>(), 1..=32_u32), 0..100)
    }

    fn written(numbers: &[(u32, u32)]) -> BitWriter {
        let mut writer = BitWriter::default();
        numbers.iter().for_each(|(bits, count)| writer.push(bits >> (32 - count), *count));
        writer
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in numbers(), skip in 0..20_u64) {
            let bits = written(&numbers).finish();
            prop_assert_eq!(bits.bytes.len() as u64, bits.count.div_ceil(8));
            let mut reader = BitReader::at(&bits.bytes, 0);
            for (bits, count) in &numbers {
                prop_assert_eq!(reader.read(*count), Ok(bits >> (32 - count)));
            }
            prop_assert_eq!(reader.position(), bits.count);
            let mut later = BitReader::at(&bits.bytes, skip);
            prop_assert_eq!(later.position(), skip.min(bits.bytes.len() as u64 * 8));
            let left = bits.bytes.len() as u64 * 8 - later.position();
            prop_assert!((0..left).all(|_| later.read_bit().is_ok()));
            prop_assert_eq!(later.read_bit(), Err(EndOfBits));
        }

        #[test]
        fn strings_are_joined(one in numbers(), other in numbers()) {
            let mut joined = written(&one);
            joined.append(&written(&other).finish());
            prop_assert_eq!(joined.finish(), written(&[one, other].concat()).finish());
        }

        #[test]
        fn what_is_whole_can_be_taken_before_the_end(one in numbers(), other in numbers()) {
            let mut writer = written(&one);
            let mut taken = writer.take_whole();
            other.iter().for_each(|(bits, count)| writer.push(bits >> (32 - count), *count));
            taken.extend(writer.finish().bytes);
            prop_assert_eq!(taken, written(&[one, other].concat()).finish().bytes);
        }
    }
}
