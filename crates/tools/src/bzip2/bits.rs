//! Strings of bits, the most significant of a byte first, as bzip2 has them.

/// What a block begins with: the digits of pi.
pub(super) const BLOCK_MAGIC: u64 = 0x3141_5926_5359;

/// What stands after the last block of a stream: those of its square root.
pub(super) const END_MAGIC: u64 = 0x1772_4538_5090;

/// Bits of either.
pub(super) const MAGIC_BITS: u32 = 48;

/// A string of bits in the making.
#[derive(Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// What is not in `bytes` yet, at the top.
    pending: u64,
    /// How many bits of it there are: below 32.
    filled: u32,
}

impl BitWriter {
    /// Appends the low `count` bits of a number: 1 to 32, and above them are zeros.
    pub(super) fn push(&mut self, bits: u32, count: u32) {
        self.pending |= u64::from(bits) << (64 - self.filled - count);
        self.filled += count;
        if self.filled >= 32 {
            self.bytes.extend_from_slice(&((self.pending >> 32) as u32).to_be_bytes());
            self.pending <<= 32;
            self.filled -= 32;
        }
    }

    /// Appends one of the magic numbers.
    pub(super) fn push_magic(&mut self, magic: u64) {
        self.push((magic >> 24) as u32, 24);
        self.push(magic as u32 & 0xff_ffff, 24);
    }

    /// Appends another string.
    pub(super) fn append(&mut self, other: &Bits) {
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

    /// Takes out the bytes that are whole.
    pub(super) fn take_whole(&mut self) -> Vec<u8> {
        while self.filled >= 8 {
            self.bytes.push((self.pending >> 56) as u8);
            self.pending <<= 8;
            self.filled -= 8;
        }
        std::mem::take(&mut self.bytes)
    }

    /// Fills the last byte with zeros and returns the string.
    pub(super) fn finish(mut self) -> Bits {
        let count = self.bytes.len() as u64 * 8 + u64::from(self.filled);
        self.filled = self.filled.next_multiple_of(8);
        Bits { bytes: self.take_whole(), count }
    }
}

/// A string of bits; zeros fill its last byte.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    /// The bytes.
    pub(super) bytes: Vec<u8>,
    /// How many bits there are.
    pub(super) count: u64,
}

/// The string of bits ended where more were needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// Reads a string of bits.
#[derive(Clone)]
pub(super) struct BitReader<'b> {
    bytes: &'b [u8],
    /// The bits to be read next, at the top; below them may be some that come after.
    pending: u64,
    /// How many of them count: as many as are there, up to the end of `bytes`.
    filled: u32,
    /// The byte after these.
    next: usize,
}

impl<'b> BitReader<'b> {
    /// Reads from a bit on.
    pub(super) fn at(bytes: &'b [u8], bit: u64) -> Self {
        let next = usize::try_from(bit / 8).unwrap_or(usize::MAX).min(bytes.len());
        let mut reader = Self { bytes, pending: 0, filled: 0, next };
        let skip = (bit % 8) as u32;
        reader.fill();
        reader.drop_bits(skip.min(reader.filled));
        reader
    }

    /// Returns which bit is next, counted from the beginning of the bytes.
    pub(super) fn position(&self) -> u64 {
        self.next as u64 * 8 - u64::from(self.filled)
    }

    /// Brings as many bits as there is room for: 56 at least, if they are there.
    fn fill(&mut self) {
        if let Some(bytes) = self.bytes.get(self.next..).and_then(<[u8]>::first_chunk::<8>) {
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

    /// Looks at the bits ahead, at the top of the number: at least 32, with anything after the end. To be followed by
    /// [`BitReader::skip`].
    pub(super) fn peek(&mut self) -> u64 {
        if self.filled < 32 {
            self.fill();
        }
        self.pending
    }

    /// Tells whether so many of the bits that were looked at are there, of 32 at most.
    pub(super) fn has(&self, count: u32) -> bool {
        self.filled >= count
    }

    /// Takes some of the bits that were looked at.
    pub(super) fn skip(&mut self, count: u32) -> Result<(), Ended> {
        if count > self.filled {
            return Err(Ended);
        }
        self.drop_bits(count);
        Ok(())
    }

    /// Reads a number of up to 32 bits.
    pub(super) fn read(&mut self, count: u32) -> Result<u32, Ended> {
        if count == 0 {
            return Ok(0);
        }
        let bits = (self.peek() >> (64 - count)) as u32;
        self.skip(count)?;
        Ok(bits)
    }

    /// Reads a bit.
    pub(super) fn read_bit(&mut self) -> Result<bool, Ended> {
        Ok(self.read(1)? == 1)
    }

    /// Reads a magic number.
    pub(super) fn read_magic(&mut self) -> Result<u64, Ended> {
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
            prop_assert_eq!(later.read_bit(), Err(Ended));
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
