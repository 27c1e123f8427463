//! Files with holes in GNU's sparse format 1.0: the stored bytes begin with a map of where the
//! data goes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::in_blocks;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SparseMap {
    /// Ranges of data, in order, with gaps between them.
    pub(crate) data: Vec<Range<u64>>,
    pub(crate) size: u64,
}

/// A run of stored bytes: a part of the map, or a range of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredRun {
    Map(Range<usize>),
    Data(Range<u64>),
}

impl SparseMap {
    /// Encodes the map as it precedes the data: one number per line, padded to whole blocks.
    #[must_use]
    pub(crate) fn text(&self) -> Vec<u8> {
        // A hole at the end only shows by an empty range behind it.
        let last =
            Some(self.size..self.size).filter(|_| self.data.last().is_none_or(|last| last.end < self.size));
        let ranges: Vec<_> = self.data.iter().cloned().chain(last).collect();
        let mut text = format!("{}\n", ranges.len());
        for range in ranges {
            text.push_str(&format!("{}\n{}\n", range.start, range.end - range.start));
        }
        let mut text = text.into_bytes();
        text.resize(in_blocks(text.len() as u64) as usize, 0);
        text
    }

    /// Returns the number of stored bytes, including the map's `map_bytes`.
    #[must_use]
    pub(crate) fn stored_bytes(&self, map_bytes: usize) -> u64 {
        map_bytes as u64 + self.data.iter().map(|range| range.end - range.start).sum::<u64>()
    }

    /// Splits the range `wanted` of the stored bytes into parts of the map and of the file.
    #[must_use]
    pub(crate) fn stored(&self, map_bytes: usize, wanted: Range<u64>) -> Vec<StoredRun> {
        let map_end = map_bytes as u64;
        let mut parts = Vec::new();
        if wanted.start < map_end {
            parts.push(StoredRun::Map(wanted.start as usize..wanted.end.min(map_end) as usize));
        }
        let mut begins = map_end;
        for range in &self.data {
            let ends = begins + (range.end - range.start);
            let (from, to) = (wanted.start.max(begins), wanted.end.min(ends));
            if from < to {
                parts.push(StoredRun::Data(range.start + (from - begins)..range.start + (to - begins)));
            }
            begins = ends;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_the_map_and_then_the_data() {
        let map = SparseMap { data: vec![0..10, 100..300], size: 1000 };
        let text = map.text();
        assert!(text.starts_with(b"3\n0\n10\n100\n200\n1000\n0\n\0"));
        assert_eq!((text.len(), map.stored_bytes(512)), (512, 722));
        assert_eq!(
            map.stored(512, 0..722),
            [StoredRun::Map(0..512), StoredRun::Data(0..10), StoredRun::Data(100..300)]
        );
        assert_eq!(map.stored(512, 515..530), [StoredRun::Data(3..10), StoredRun::Data(100..108)]);
        assert_eq!(map.stored(512, 100..512), [StoredRun::Map(100..512)]);
        let full = SparseMap { data: vec![0..4, 6..10], size: 10 };
        assert!(full.text().starts_with(b"2\n0\n4\n6\n4\n\0"));
        let hole = SparseMap { data: vec![], size: 10 };
        assert!(hole.text().starts_with(b"1\n10\n0\n\0"));
    }
}
