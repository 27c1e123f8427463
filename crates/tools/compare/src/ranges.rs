//! Compares large files, and two file operands, in ranges by all workers.
//!
//! The difference that counts is the first in the file, not the first found: results are consumed
//! in order, and lines before them are counted if a line number is reported. Ranges after a
//! difference are not read, unless they are already in progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{BLOCK_BYTES, Context, Entry, EntryOutcome, Stages, Tally, lock};
use haul_sys::{Advice, Buffer, Error, Fd, Seek, advise_range, read_all};

use super::CompareKind;
use super::Comparer;
use super::attributes::next;
use super::counterpart::{StatPair, difference, second_path};
use super::difference::{Side, What};
use super::direct::read_direct;
use super::findings::EntryResult;
use super::options::DifferenceListing;

/// Size of a range, in bytes: large enough to amortise its overhead, small enough to share.
const RANGE_BYTES: u64 = 2 << 20;

pub(super) struct Ranges {
    entry: Entry<Comparer>,
    first: Mutex<Option<Arc<Fd>>>,
    second: Mutex<Option<Arc<Fd>>>,
    pair: StatPair,
    counts_lines: bool,
    /// True if the files are read past the page cache.
    is_direct: bool,
    position: Mutex<u64>,
    /// Where both files end; `u64::MAX` if only reading can tell.
    end: u64,
    /// True once the remaining ranges can't change the result.
    over: AtomicBool,
    sum: Mutex<RangeTotal>,
}

/// Combined result of the ranges so far.
#[derive(Default)]
struct RangeTotal {
    lines: u64,
    ends_with_line: bool,
    what: Option<What>,
    failed: bool,
}

pub(super) struct Range {
    start: u64,
    length: u64,
    /// True if a hole that both files have ends here.
    is_after_hole: bool,
    files: (Arc<Fd>, Arc<Fd>),
}

pub(super) struct RangeResult {
    /// Position of the first difference, and the side that ends there, if one does.
    differs: Option<(u64, Option<Side>)>,
    failure: Option<(Side, Error)>,
    /// Number of line ends in the equal part.
    lines: u64,
    /// True if the equal part ends with a line end; `None` if it is empty or lines are not counted.
    ends_with_line: Option<bool>,
}

impl Ranges {
    /// Starts comparing two open files. Completes the entry at the end.
    pub(super) fn begin(
        tool: &Comparer,
        cx: &Context<'_, Comparer>,
        entry: Entry<Comparer>,
        first: Arc<Fd>,
        second: Fd,
        pair: StatPair,
    ) {
        let (one, other) = (pair.first.size, pair.second.size);
        // A size proves nothing: files of procfs have content although their size is 0, those of
        // sysfs are shorter than theirs, and others grow. If the sizes agree, reading up to there
        // is enough: a file that changed is reported.
        let end = if one > 0 && one == other { one } else { u64::MAX };
        let counts_lines = tool.names_files(&entry)
            && matches!(tool.options.listing, DifferenceListing::Full | DifferenceListing::Json);
        let second = Arc::new(second);
        for file in [&*first, &second] {
            // Only advice: failure affects nothing but speed.
            haul_sys::advise(file, Advice::Sequential, 0).unwrap_or_default();
        }
        let ranges = Self {
            entry,
            first: Mutex::new(Some(first)),
            second: Mutex::new(Some(second)),
            pair,
            counts_lines,
            is_direct: tool.options.direct && one > 0 && other > 0,
            position: Mutex::new(0),
            end,
            over: AtomicBool::new(false),
            sum: Mutex::default(),
        };
        cx.begin_sequence(Arc::new(ranges), 2 * cx.settings().jobs);
    }

    fn files(&self) -> Option<(Arc<Fd>, Arc<Fd>)> {
        let file = |file: &Mutex<Option<Arc<Fd>>>| lock(file).clone();
        Some((file(&self.first)?, file(&self.second)?))
    }

    /// Skips holes that both files have.
    fn data_from(&self, position: u64, (first, second): &(Arc<Fd>, Arc<Fd>)) -> u64 {
        let StatPair { first: one, second: other } = &self.pair;
        let shorter = one.size.min(other.size);
        // Direct reads begin at a multiple of a sector, which a hole's end need not be.
        if self.is_direct || position >= shorter || !one.is_sparse() || !other.is_sparse() {
            return position;
        }
        let data = |file: &Fd| next(file, Seek::Data, position, shorter).unwrap_or(position);
        data(first).min(data(second))
    }

    fn compare(&self, range: &Range, buffers: (&mut Buffer, &mut Buffer)) -> RangeResult {
        let ends_with_line = range.is_after_hole.then_some(false);
        let mut outcome = RangeResult { differs: None, failure: None, lines: 0, ends_with_line };
        let (mut offset, end) = (range.start, range.start + range.length);
        let block = buffers.0.capacity().min(buffers.1.capacity()) as u64;
        while offset < end {
            let length = usize::try_from(block.min(end - offset)).unwrap_or(usize::MAX);
            let [one, other] = [(&range.files.0, &mut *buffers.0), (&range.files.1, &mut *buffers.1)].map(
                |(file, buffer)| match self.is_direct {
                    true => read_direct(file, offset, buffer, length),
                    false => read_all(file, offset, &mut buffer.bytes_mut()[..length]),
                },
            );
            let (one, other) = match (one, other) {
                (Ok(one), Ok(other)) => (&buffers.0.bytes()[..one], &buffers.1.bytes()[..other]),
                (Err(cause), _) => return RangeResult { failure: Some((Side::First, cause)), ..outcome },
                (_, Err(cause)) => return RangeResult { failure: Some((Side::Second, cause)), ..outcome },
            };
            let at = mismatch(one, other);
            let same = &one[..at.unwrap_or(one.len())];
            if self.counts_lines {
                outcome.lines += same.iter().filter(|byte| **byte == b'\n').count() as u64;
                outcome.ends_with_line = same.last().map(|byte| *byte == b'\n').or(outcome.ends_with_line);
            }
            if let Some(at) = at {
                let shorter = if at == one.len() { Some(Side::First) } else { None };
                let shorter = shorter.or((at == other.len()).then_some(Side::Second));
                outcome.differs = Some((offset + at as u64, shorter));
                // All ranges before this one have been handed out.
                self.over.store(true, Ordering::Relaxed);
                return outcome;
            }
            if one.len() < length {
                // Both end here.
                self.over.store(true, Ordering::Relaxed);
                return outcome;
            }
            offset += length as u64;
        }
        outcome
    }
}

/// Returns the index at which two slices first differ or the shorter one ends.
pub(super) fn mismatch(one: &[u8], other: &[u8]) -> Option<usize> {
    // Most blocks are equal, and memcmp is faster than the loop below.
    if one == other {
        return None;
    }
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    Some(differs.unwrap_or_else(|| one.len().min(other.len())))
}

impl Stages<Comparer> for Ranges {
    type Piece = Range;
    type Output = RangeResult;

    fn next(&self, _: &Context<'_, Comparer>) -> Option<Range> {
        let mut position = lock(&self.position);
        let files = self.files().filter(|_| !self.over.load(Ordering::Relaxed))?;
        let start = self.data_from(*position, &files);
        let (length, is_after_hole) = (RANGE_BYTES.min(self.end - start), start > *position);
        *position = start + length;
        if length == 0 {
            return None;
        }
        for file in [&files.0, &files.1].into_iter().filter(|_| !self.is_direct) {
            // Only advice: failure affects nothing but speed.
            // Both files are read ahead while other ranges are compared.
            advise_range(&**file, Advice::WillNeed, start, length).unwrap_or_default();
        }
        Some(Range { start, length, is_after_hole, files })
    }

    fn work(&self, cx: &Context<'_, Comparer>, range: Range) -> RangeResult {
        let (buffers, new) = (&cx.tool().buffers, || Buffer::new(BLOCK_BYTES));
        let outcome =
            buffers.with(new, |first| buffers.with(new, |second| self.compare(&range, (first, second))));
        cx.count(Tally { bytes: range.length.min(self.pair.first.size), ..Tally::default() });
        outcome
    }

    fn put(&self, cx: &Context<'_, Comparer>, outcome: RangeResult) {
        let mut sum = lock(&self.sum);
        if sum.failed || sum.what.is_some() {
            return;
        }
        sum.lines += outcome.lines;
        sum.ends_with_line = outcome.ends_with_line.unwrap_or(sum.ends_with_line);
        if let Some((side, cause)) = outcome.failure {
            sum.failed = true;
            self.over.store(true, Ordering::Relaxed);
            let path = if side == Side::First { self.entry.path() } else { second_path(&self.entry) };
            Comparer::trouble(cx, CompareKind::ErrorReading, path, cause);
        } else if let Some((at, shorter)) = outcome.differs {
            let named = cx.tool().names_files(&self.entry);
            sum.what = Some(match shorter {
                Some(side) if named => What::Ends(side, at, sum.lines, sum.ends_with_line),
                _ if named => What::Named(at, sum.lines),
                _ => What::Content(at),
            });
        }
    }

    fn end(&self, cx: &Context<'_, Comparer>) {
        let tool = cx.tool();
        let Some((first, second)) = self.files() else { return cx.complete(&self.entry) };
        let errors_before = cx.errors();
        let mut sum = lock(&self.sum);
        let is_read = !sum.failed;
        if is_read {
            let what = sum.what.take();
            let mut result =
                EntryResult { differences: Vec::new(), linked: tool.linked(&self.entry, &self.pair) };
            result.differences.extend(what.map(|what| difference(&self.entry, what)));
            tool.complete(cx, &self.entry, &self.pair, (&first, &second), result);
        }
        // So that `into_inner` finds the last references.
        drop((first, second, sum));
        for (held, path) in [(&self.first, self.entry.path()), (&self.second, second_path(&self.entry))] {
            let file = lock(held).take();
            if let Some(file) = file.and_then(Arc::into_inner) {
                Comparer::close(cx, file, || path);
            }
        }
        if is_read {
            Comparer::count(cx, &self.entry, EntryOutcome::File, errors_before);
        }
        cx.complete(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found_and_an_end_is_one() {
        assert_eq!(mismatch(b"abc", b"abc"), None);
        assert_eq!(mismatch(b"abc", b"abd"), Some(2));
        assert_eq!(mismatch(b"abc", b"ab"), Some(2));
        assert_eq!(mismatch(b"", b"x"), Some(0));
    }
}
