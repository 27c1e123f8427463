//! Maps of sparse files: the parts of a file that the archive holds. Every map is checked
//! before use.
//!
//! Four encodings are in use: GNU's old header with blocks that continue it, and the versions
//! 0.0, 0.1 and 1.0 in extended headers. In the last one the map precedes the content, as lines
//! of digits.

use super::header::RawBlock;
use super::number::{Number, number};
use crate::format::BLOCK;

/// A part of a file that the archive holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Maximum extents of one file: 32 MiB of memory, and more than any real file has.
pub(crate) const EXTENTS_MAX: usize = 1 << 21;

/// Maximum length of a file, in bytes: the largest file offset.
pub(crate) const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Checks a map: extents are in order, do not overlap or pass the end, and have as much content as
/// the archive holds. Removes empty ones, which only mark the end.
pub(crate) fn checked(mut map: Vec<Extent>, size: u64, stored: u64) -> Option<Vec<Extent>> {
    let mut end = 0;
    let mut content = 0_u64;
    for extent in &map {
        let next = extent.offset.checked_add(extent.length)?;
        if extent.offset < end || next > size {
            return None;
        }
        end = next;
        content = content.checked_add(extent.length)?;
    }
    map.retain(|extent| extent.length > 0);
    (content == stored && size <= FILE_BYTES_MAX).then_some(map)
}

/// Reads the extents of an old GNU header, or of a block that continues it; returns true if another
/// block follows. `None` if they are malformed.
fn take(fields: &[u8], more: u8, map: &mut Vec<Extent>) -> Option<bool> {
    for pair in fields.chunks_exact(24) {
        let (offset, length) = (number(&pair[..12]), number(&pair[12..]));
        // Unused places at the end are blank.
        if length == Number::Blank {
            break;
        }
        map.push(Extent { offset: offset.natural()?, length: length.natural()? });
    }
    Some(more != 0)
}

/// Reads the extents in an old GNU header, and the length of the file; the flag is true if a
/// block follows.
pub(crate) fn old_header(block: &RawBlock, map: &mut Vec<Extent>) -> Option<(u64, bool)> {
    let more = take(&block[386..482], block[482], map)?;
    Some((number(&block[483..495]).natural()?, more))
}

/// Reads the extents of a block that continues an old header; returns true if another one follows.
pub(crate) fn old_continuation(block: &RawBlock, map: &mut Vec<Extent>) -> Option<bool> {
    let more = take(&block[..504], block[504], map)?;
    (map.len() <= EXTENTS_MAX).then_some(more)
}

/// Parses `GNU.sparse.map` of version 0.1: offsets and lengths, separated by commas.
pub(crate) fn list(value: &[u8]) -> Option<Vec<Extent>> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let mut map = Vec::new();
    let mut numbers = value.split(|byte| *byte == b',').map(decimal);
    while let Some(offset) = numbers.next() {
        map.push(Extent { offset: offset?, length: numbers.next()?? });
        if map.len() > EXTENTS_MAX {
            return None;
        }
    }
    Some(map)
}

/// Parses the map of version 1.0, block by block: a line with the number of extents, then two lines
/// for each.
#[derive(Debug, Default)]
pub(crate) struct MapInFront {
    line: Vec<u8>,
    expected: Option<u64>,
    offset: Option<u64>,
    map: Vec<Extent>,
}

impl MapInFront {
    /// Parses the next block; returns true if the map is complete. `None` if it is malformed.
    pub(crate) fn take(&mut self, block: &RawBlock) -> Option<bool> {
        for &byte in block {
            if byte != b'\n' {
                self.line.push(byte);
                // No number has more digits.
                if self.line.len() > 20 {
                    return None;
                }
                continue;
            }
            let value = decimal(&self.line)?;
            self.line.clear();
            match (self.expected, self.offset.take()) {
                (None, _) if value > EXTENTS_MAX as u64 => return None,
                (None, _) => self.expected = Some(value),
                (Some(_), None) => self.offset = Some(value),
                (Some(_), Some(offset)) => self.map.push(Extent { offset, length: value }),
            }
            if self.expected == Some(self.map.len() as u64) {
                return Some(true);
            }
        }
        Some(false)
    }

    pub(crate) fn finish(self) -> Vec<Extent> {
        self.map
    }
}

/// Parses decimal digits, and nothing else.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    match digits.iter().all(u8::is_ascii_digit) {
        true => std::str::from_utf8(digits).ok()?.parse().ok(),
        false => None,
    }
}

/// Returns `bytes` rounded up to whole blocks.
pub(crate) fn padded(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(BLOCK as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(extents: &[(u64, u64)]) -> Vec<Extent> {
        extents.iter().map(|&(offset, length)| Extent { offset, length }).collect()
    }

    #[test]
    fn only_a_map_that_can_be_is_taken() {
        let taken = |extents: &[(u64, u64)], size, stored| checked(map(extents), size, stored);
        assert_eq!(taken(&[(0, 10), (20, 5), (100, 0)], 100, 15), Some(map(&[(0, 10), (20, 5)])));
        assert_eq!(taken(&[], 1 << 60, 0), Some(vec![]));
        assert_eq!(taken(&[(0, 10), (9, 5)], 100, 15), None, "one over another");
        assert_eq!(taken(&[(20, 5), (0, 10)], 100, 15), None, "out of order");
        assert_eq!(taken(&[(90, 11)], 100, 11), None, "beyond the end");
        assert_eq!(taken(&[(0, 10)], 100, 11), None, "less than the archive holds");
        assert_eq!(taken(&[(u64::MAX, 2)], u64::MAX, 2), None, "around the end of all numbers");
        assert_eq!(taken(&[], u64::MAX, 0), None, "longer than a file can be");
    }

    #[test]
    fn the_map_in_front_may_end_in_the_middle_of_a_block() {
        let mut text = b"3\n0\n10\n20\n5\n100\n0\n".to_vec();
        text.resize(BLOCK, 0);
        let mut reader = MapInFront::default();
        assert_eq!(reader.take(&text.try_into().unwrap()), Some(true));
        assert_eq!(reader.finish(), map(&[(0, 10), (20, 5), (100, 0)]));
        let mut empty = [0; BLOCK];
        empty[..2].copy_from_slice(b"0\n");
        assert_eq!(MapInFront::default().take(&empty), Some(true));
        assert_eq!(MapInFront::default().take(&[b'1'; BLOCK]), None);
        assert_eq!(MapInFront::default().take(&[b'\n'; BLOCK]), None);
        let mut many = [b' '; BLOCK];
        many[..8].copy_from_slice(b"9999999\n");
        assert_eq!(MapInFront::default().take(&many), None);
    }

    #[test]
    fn a_list_has_pairs() {
        assert_eq!(list(b"0,10,20,5"), Some(map(&[(0, 10), (20, 5)])));
        assert_eq!(list(b""), Some(vec![]));
        for wrong in [&b"0"[..], b"0,10,20", b"a,b", b"0,,1,2", b"0,99999999999999999999"] {
            assert_eq!(list(wrong), None);
        }
    }
}
