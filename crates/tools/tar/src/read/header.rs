//! Header blocks: 512 bytes that describe a member. Pure functions of the bytes, for every format
//! in use: v7, ustar, GNU, star.

use super::number::{Number, number};
use crate::format::BLOCK;

pub(crate) type RawBlock = [u8; BLOCK];

/// Format of a header, by the fields after those that all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// No more fields.
    V7,
    /// A prefix of the name.
    Posix,
    /// GNU's fields, such as sparse maps.
    Gnu,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedHeader {
    /// The letter of its type.
    pub(crate) kind: u8,
    /// Name, joined with its prefix.
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    /// Mode; some tars write more than permissions into it.
    pub(crate) mode: Number,
    pub(crate) user: Number,
    pub(crate) group: Number,
    /// Bytes that follow.
    pub(crate) size: Number,
    pub(crate) modified: Number,
    pub(crate) user_name: Vec<u8>,
    pub(crate) group_name: Vec<u8>,
    /// Major and minor number of a device.
    pub(crate) device: (Number, Number),
    pub(crate) dialect: Dialect,
}

/// Meaning of a block where a header is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedBlock {
    /// All zeros, of which two blocks end the archive.
    Zeros,
    Header(Box<ParsedHeader>),
    /// Anything else: its checksum is wrong.
    Other,
}

/// Parses a block where a header is expected.
pub(crate) fn header(block: &RawBlock) -> ParsedBlock {
    if block.iter().all(|byte| *byte == 0) {
        return ParsedBlock::Zeros;
    }
    if !has_right_sum(block) {
        return ParsedBlock::Other;
    }
    let dialect = dialect(block);
    let has_more = dialect != Dialect::V7;
    let more = |field: &[u8]| if has_more { text(field) } else { Vec::new() };
    ParsedBlock::Header(Box::new(ParsedHeader {
        kind: block[156],
        name: name(block, dialect),
        link: text(&block[157..257]),
        mode: number(&block[100..108]),
        user: number(&block[108..116]),
        group: number(&block[116..124]),
        size: number(&block[124..136]),
        modified: number(&block[136..148]),
        user_name: more(&block[265..297]),
        group_name: more(&block[297..329]),
        device: if has_more {
            (number(&block[329..337]), number(&block[337..345]))
        } else {
            (Number::Blank, Number::Blank)
        },
        dialect,
    }))
}

fn dialect(block: &RawBlock) -> Dialect {
    match &block[257..265] {
        b"ustar  \0" => Dialect::Gnu,
        magic if magic.starts_with(b"ustar\0") => Dialect::Posix,
        _ => Dialect::V7,
    }
}

/// True if the checksum is right: the sum of all bytes, with its own field taken for blanks. Some
/// old tars added signed bytes.
fn has_right_sum(block: &RawBlock) -> bool {
    let Number::Is(written) = number(&block[148..156]) else { return false };
    let of = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let signed_of = |bytes: &[u8]| bytes.iter().map(|byte| i32::from(byte.cast_signed())).sum::<i32>();
    let blanks = 8 * u32::from(b' ');
    let unsigned = of(block) - of(&block[148..156]) + blanks;
    let signed = || signed_of(block) - signed_of(&block[148..156]) + blanks.cast_signed();
    written == i64::from(unsigned) || written == i64::from(signed())
}

fn name(block: &RawBlock, dialect: Dialect) -> Vec<u8> {
    // star has times behind a shorter prefix, and marks that at the end of the block.
    let prefix = if &block[508..512] == b"tar\0" { &block[345..476] } else { &block[345..500] };
    let name = text(&block[..100]);
    match dialect {
        Dialect::Posix if prefix[0] != 0 => [text(prefix).as_slice(), b"/", &name].concat(),
        _ => name,
    }
}

/// Returns a text field up to its NUL.
pub(crate) fn text(field: &[u8]) -> Vec<u8> {
    field.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(dialect: &[u8], change: impl FnOnce(&mut RawBlock)) -> RawBlock {
        let mut block = [0; BLOCK];
        block[..4].copy_from_slice(b"name");
        block[100..107].copy_from_slice(b"0000644");
        block[124..135].copy_from_slice(b"00000000012");
        block[156] = b'0';
        block[257..257 + dialect.len()].copy_from_slice(dialect);
        block[345..351].copy_from_slice(b"before");
        change(&mut block);
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    fn read(block: &RawBlock) -> ParsedHeader {
        match header(block) {
            ParsedBlock::Header(header) => *header,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_prefix_belongs_to_the_name_only_where_there_is_one() {
        assert_eq!(read(&block(b"ustar\x0000", |_| {})).name, b"before/name");
        assert_eq!(read(&block(b"ustar  \0", |_| {})).name, b"name");
        assert_eq!(read(&block(b"", |_| {})).name, b"name");
        let star = block(b"ustar\x0000", |block| {
            block[345..476].fill(b'p');
            block[476..488].copy_from_slice(b"00000000001 ");
            block[508..512].copy_from_slice(b"tar\0");
        });
        assert_eq!(read(&star).name.len(), 131 + 1 + 4);
        let full = block(b"ustar\x0000", |block| {
            block[..100].fill(b'n');
            block[345..500].fill(b'p');
        });
        assert_eq!(read(&full).name.len(), 256);
    }

    #[test]
    fn a_wrong_sum_is_no_header_and_a_signed_one_is_right() {
        let mut wrong = block(b"ustar\x0000", |_| {});
        wrong[0] ^= 1;
        assert_eq!(header(&wrong), ParsedBlock::Other);
        assert_eq!(header(&[0; BLOCK]), ParsedBlock::Zeros);
        let mut signed = block(b"", |block| block[..4].copy_from_slice(b"\xe4\xf6\xfca"));
        let sum = |block: &RawBlock| {
            let bytes = block[..148].iter().chain(&block[156..]);
            bytes.map(|byte| i64::from(byte.cast_signed())).sum::<i64>() + 256
        };
        let sum = sum(&signed);
        signed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert_eq!(read(&signed).name, b"\xe4\xf6\xfca");
    }
}
