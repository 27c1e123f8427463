//! The part of a file that a span wants, and the outcome of reading it.

use std::ffi::CString;
use std::ops::Range;

use haul_sys::{Advice, Error, Fd, Stat, advise_range, read_all};
use serde::{Deserialize, Serialize};

use crate::format::{SparseMap, StoredRun, in_blocks};
use crate::layout::{PlacedMember, Span};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SpanFile {
    pub(super) name: CString,
    /// Its `stat` from the survey.
    pub(super) stat: Stat,
    pub(super) member: usize,
    /// Wanted range of the stored content.
    pub(super) stored: Range<u64>,
    /// Offset in the span where that goes.
    pub(super) at: usize,
    /// The member's range of the span: headers, content, and padding.
    pub(super) span: Range<usize>,
    /// True if it is a piece of a large member.
    pub(super) is_piece: bool,
    /// True if the member begins here.
    pub(super) is_first: bool,
    /// Data ranges, and the same as text, if the file is stored without its holes.
    pub(super) map: Option<(SparseMap, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ReadOutcome {
    /// It is not in the archive.
    LeftOut,
    /// It was read, completely or, if an error was reported, as far as possible.
    Read {
        missing: u64,
        /// True if the file changed since the survey.
        changed: bool,
        /// True if it could not be read.
        has_failed: bool,
    },
}

impl ReadOutcome {
    /// Encodes it for the process that walks.
    pub(super) fn packed(self) -> Vec<u8> {
        postcard::to_allocvec(&self).unwrap_or_default()
    }

    /// Decodes it. Malformed bytes count as a change, so that the file is reported.
    pub(super) fn unpack(packed: &[u8]) -> Self {
        postcard::from_bytes(packed).unwrap_or(Self::Read { missing: 0, changed: true, has_failed: false })
    }
}

impl SpanFile {
    /// Returns the part of a member that a span wants.
    pub(super) fn of(member: usize, planned: &PlacedMember, span: &Span) -> Self {
        let (entry, content) = (&planned.entry, planned.content());
        let launch = entry.stored_bytes();
        let begins = span.bytes.start.max(content);
        let ends = span.bytes.end.min(content + in_blocks(launch));
        let stored = begins - content..launch.min(span.bytes.end - content);
        let in_span = |offset: u64| (offset - span.bytes.start) as usize;
        Self {
            name: entry.name.clone(),
            stat: entry.stat,
            member,
            stored,
            at: in_span(begins),
            span: in_span(planned.offset.max(span.bytes.start))..in_span(ends),
            is_piece: span.is_piece,
            is_first: planned.offset >= span.bytes.start,
            map: entry.map().cloned(),
        }
    }

    /// Reads the wanted content into the span; returns the number of bytes missing from the file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn read(&self, file: &Fd, span: &mut [u8]) -> Result<u64, Error> {
        let parts = match &self.map {
            Some((map, text)) => map.stored(text.len(), self.stored.clone()),
            None => vec![StoredRun::Data(self.stored.clone())],
        };
        let (mut at, mut missing) = (self.at, 0);
        for part in parts {
            match (part, &self.map) {
                (StoredRun::Map(range), Some((_, text))) => {
                    span[at..at + range.len()].copy_from_slice(&text[range.clone()]);
                    at += range.len();
                }
                (StoredRun::Map(_), None) => {}
                (StoredRun::Data(range), _) => {
                    let length = (range.end - range.start) as usize;
                    fetch_ahead(file, &range);
                    let got = read_all(file, range.start, &mut span[at..at + length])?;
                    missing += (length - got) as u64;
                    at += length;
                }
            }
        }
        Ok(missing)
    }
}

/// Prefetches a range, and as much behind it, which will be wanted next.
fn fetch_ahead(file: &Fd, range: &Range<u64>) {
    // Only advice: a failure costs nothing but speed.
    advise_range(file, Advice::WillNeed, range.start, 2 * (range.end - range.start)).unwrap_or_default();
}
