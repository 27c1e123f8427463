//! Encodes one header block.

use super::BLOCK;

/// Maximum length of a name, and of the prefix before it, in bytes.
pub(super) const NAME_BYTES: usize = 100;
pub(super) const PREFIX_BYTES: usize = 155;
/// Maximum length of an owner's or group's name in bytes, without the NUL that ends it.
pub(super) const OWNER_BYTES: usize = 31;

/// Offset and length of a field of digits, including the NUL that ends it.
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

    /// True if a number fits as octal digits.
    pub(super) fn holds(&self, number: i64) -> bool {
        number >= 0 && number >> (3 * (self.bytes - 1)) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Magic {
    Posix,
    Gnu,
}

pub(super) struct HeaderBlock([u8; BLOCK]);

impl HeaderBlock {
    /// Creates a block of a type. Fields are empty, and numbers are 0.
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

    /// Sets the name, truncated if necessary.
    pub(super) fn name(&mut self, name: &[u8]) {
        self.put(0, &name[..name.len().min(NAME_BYTES)]);
    }

    /// Sets the name from several parts, truncated if necessary.
    pub(super) fn name_parts(&mut self, parts: [&[u8]; 4]) {
        let mut at = 0;
        for part in parts {
            let fits = &part[..part.len().min(NAME_BYTES - at)];
            self.put(at, fits);
            at += fits.len();
        }
    }

    /// Sets the prefix, which precedes the name and a slash, truncated if necessary.
    pub(super) fn prefix(&mut self, prefix: &[u8]) {
        self.put(345, &prefix[..prefix.len().min(PREFIX_BYTES)]);
    }

    /// Sets the target of a link, truncated if necessary.
    pub(super) fn link(&mut self, link: &[u8]) {
        self.put(157, &link[..link.len().min(NAME_BYTES)]);
    }

    /// Sets the names of owner and group, truncated if necessary to leave room for a NUL.
    pub(super) fn names(&mut self, owner: &[u8], group: &[u8]) {
        self.put(265, &owner[..owner.len().min(OWNER_BYTES)]);
        self.put(297, &group[..group.len().min(OWNER_BYTES)]);
    }

    /// Sets a number that fits in octal digits.
    pub(super) fn number(&mut self, field: &Field, number: u64) {
        let mut rest = number;
        for place in (field.start..field.start + field.bytes - 1).rev() {
            self.0[place] = b'0' + (rest & 7) as u8;
            rest >>= 3;
        }
    }

    /// Sets any number: in base 256, as in GNU's format, if it does not fit in digits.
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

    /// Sets the checksum and returns the block.
    pub(super) fn finished(mut self) -> [u8; BLOCK] {
        // The checksum counts its own field as blanks.
        self.0[148..156].fill(b' ');
        let sum = self.0.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        // Six digits, a NUL, and one of the blanks, as GNU tar writes it.
        for (place, shift) in (148..154).zip([15, 12, 9, 6, 3, 0]) {
            self.0[place] = b'0' + ((sum >> shift) & 7) as u8;
        }
        self.0[154] = 0;
        self.0
    }

    /// Sets the checksum and appends the block to `out`.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.finished());
    }
}
