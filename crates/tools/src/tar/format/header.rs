//! One header block.

use super::BLOCK_BYTES;

/// The size of a block, for arrays.
const BLOCK: usize = BLOCK_BYTES as usize;

/// The room that a header has for a name, and for what stands before it.
pub(super) const NAME_BYTES: usize = 100;
pub(super) const PREFIX_BYTES: usize = 155;
/// Of the name of an owner or a group, which a NUL ends.
pub(super) const OWNER_BYTES: usize = 31;

/// A field of digits: where it is, and how long, with the NUL that ends it.
pub(super) struct Field {
    start: usize,
    bytes: usize,
}

impl Field {
    pub(super) const MODE: Field = Field { start: 100, bytes: 8 };
    pub(super) const OWNER: Field = Field { start: 108, bytes: 8 };
    pub(super) const GROUP: Field = Field { start: 116, bytes: 8 };
    pub(super) const SIZE: Field = Field { start: 124, bytes: 12 };
    pub(super) const MODIFIED: Field = Field { start: 136, bytes: 12 };
    pub(super) const DEVICE_MAJOR: Field = Field { start: 329, bytes: 8 };
    pub(super) const DEVICE_MINOR: Field = Field { start: 337, bytes: 8 };

    /// Tells whether a number fits as octal digits.
    pub(super) fn holds(&self, number: i64) -> bool {
        number >= 0 && number >> (3 * (self.bytes - 1)) == 0
    }
}

/// Which flavour of the format a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Magic {
    Posix,
    Gnu,
}

/// A header block in the making.
pub(super) struct Block([u8; BLOCK]);

impl Block {
    /// Begins a block of a type. What is not put in it is empty, and its numbers are 0.
    pub(super) fn new(kind: u8, magic: Magic) -> Self {
        let mut block = Self([0; BLOCK]);
        block.0[156] = kind;
        block.put(
            257,
            match magic {
                Magic::Posix => b"ustar\x0000",
                Magic::Gnu => b"ustar  \0",
            },
        );
        for field in [Field::MODE, Field::OWNER, Field::GROUP, Field::SIZE, Field::MODIFIED] {
            block.number(&field, 0);
        }
        block
    }

    fn put(&mut self, start: usize, bytes: &[u8]) {
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts a name, as far as there is room.
    pub(super) fn name(&mut self, name: &[u8]) {
        self.put(0, &name[..name.len().min(NAME_BYTES)]);
    }

    /// Puts a name of several parts, as far as there is room.
    pub(super) fn name_parts(&mut self, parts: [&[u8]; 4]) {
        let mut at = 0;
        for part in parts {
            let fits = &part[..part.len().min(NAME_BYTES - at)];
            self.put(at, fits);
            at += fits.len();
        }
    }

    /// Puts what stands before the name and a slash.
    pub(super) fn prefix(&mut self, prefix: &[u8]) {
        self.put(345, &prefix[..prefix.len().min(PREFIX_BYTES)]);
    }

    /// Puts what a link leads to, as far as there is room.
    pub(super) fn link(&mut self, link: &[u8]) {
        self.put(157, &link[..link.len().min(NAME_BYTES)]);
    }

    /// Puts the names of owner and group, as far as there is room beside a NUL.
    pub(super) fn names(&mut self, owner: &[u8], group: &[u8]) {
        self.put(265, &owner[..owner.len().min(OWNER_BYTES)]);
        self.put(297, &group[..group.len().min(OWNER_BYTES)]);
    }

    /// Puts a number that fits in octal digits.
    pub(super) fn number(&mut self, field: &Field, number: u64) {
        let mut rest = number;
        for place in (field.start..field.start + field.bytes - 1).rev() {
            self.0[place] = b'0' + (rest & 7) as u8;
            rest >>= 3;
        }
    }

    /// Puts any number: in base 256, which GNU's format has for those that do not fit in digits.
    pub(super) fn any_number(&mut self, field: &Field, number: i64) {
        if field.holds(number) {
            return self.number(field, number.unsigned_abs());
        }
        let sign = if number < 0 { 0xff } else { 0 };
        let bytes = number.to_be_bytes();
        for place in 0..field.bytes {
            let from_end = field.bytes - 1 - place;
            self.0[field.start + place] = bytes.len().checked_sub(1 + from_end).map_or(sign, |at| bytes[at]);
        }
        self.0[field.start] |= 0x80;
    }

    /// Ends the block with the sum of its bytes.
    pub(super) fn finished(mut self) -> [u8; BLOCK] {
        self.0[148..156].fill(b' ');
        let sum = self.0.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        for (place, shift) in (148..154).zip([15, 12, 9, 6, 3, 0]) {
            self.0[place] = b'0' + ((sum >> shift) & 7) as u8;
        }
        self.0[154] = 0;
        self.0
    }

    /// Ends the block, and appends it.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.finished());
    }
}
