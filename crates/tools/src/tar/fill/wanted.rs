//! What of a file is wanted in a span, and what became of it.

use std::ffi::CString;
use std::ops::Range;

use haul_sys::{Advice, Cache, Error, Fd, Stat, advise_range, read};
use serde::{Deserialize, Serialize};

use crate::tar::format::{SparseMap, Stored, in_blocks};
use crate::tar::plan::{Planned, Span};

/// A file of which something belongs in a span.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    /// Its name in its directory.
    pub(super) name: CString,
    /// What it was when it was looked at.
    pub(super) stat: Stat,
    /// The number of the member.
    pub(super) member: usize,
    /// Which bytes of what is stored of it are wanted.
    pub(super) stored: Range<u64>,
    /// Where they go, in the span.
    pub(super) at: usize,
    /// What of the span is the member's: headers, content, and zeros behind it.
    pub(super) span: Range<usize>,
    /// Whether it is a piece of a large member.
    pub(super) is_piece: bool,
    /// Whether the member begins here.
    pub(super) is_first: bool,
    /// Where its data is, and that as text, if it is stored without its holes.
    pub(super) map: Option<(SparseMap, Vec<u8>)>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// It is not in the archive.
    Void,
    /// It was read; or as much of it as could be, if an error was told.
    Read {
        /// Bytes that were not there.
        missing: u64,
        /// Whether it is not what it was.
        changed: bool,
    },
}

impl Outcome {
    /// Packs it to be told.
    pub(super) fn packed(self) -> Vec<u8> {
        postcard::to_allocvec(&self).unwrap_or_default()
    }

    /// Unpacks it; what cannot be is a change, so that it is told of.
    pub(super) fn unpack(packed: &[u8]) -> Self {
        postcard::from_bytes(packed).unwrap_or(Self::Read { missing: 0, changed: true })
    }
}

impl Wanted {
    /// Says what of a member is wanted in a span.
    pub(super) fn of(member: usize, planned: &Planned, span: &Span) -> Self {
        let (entry, content) = (&planned.entry, planned.content());
        let whole = entry.stored_bytes();
        let begins = span.bytes.start.max(content);
        let ends = span.bytes.end.min(content + in_blocks(whole));
        let stored = begins - content..whole.min(span.bytes.end - content);
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

    /// Reads what is wanted into the span; returns how many bytes were not there.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn read(&self, file: &Fd, span: &mut [u8]) -> Result<u64, Error> {
        let parts = match &self.map {
            Some((map, text)) => map.stored(text.len(), self.stored.clone()),
            None => vec![Stored::Data(self.stored.clone())],
        };
        let (mut at, mut missing) = (self.at, 0);
        for part in parts {
            match (part, &self.map) {
                (Stored::Map(range), Some((_, text))) => {
                    span[at..at + range.len()].copy_from_slice(&text[range.clone()]);
                    at += range.len();
                }
                (Stored::Map(_), None) => {}
                (Stored::Data(range), _) => {
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

/// Asks the kernel for a range, and as much behind it, which somebody will want next.
fn fetch_ahead(file: &Fd, range: &Range<u64>) {
    // Only advice: a refusal changes nothing but the speed.
    advise_range(file, Advice::WillNeed, range.start, 2 * (range.end - range.start)).unwrap_or_default();
}

/// Reads until the bytes are full or the file ends; returns how many were read.
fn read_all(file: &Fd, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
    let mut done = 0;
    while done < bytes.len() {
        match read(file, offset + done as u64, &mut bytes[done..], Cache::Keep)? {
            0 => break,
            length => done += length,
        }
    }
    Ok(done)
}
