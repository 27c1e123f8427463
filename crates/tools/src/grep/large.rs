//! Large files: searched in pieces by all workers, shown in order.
//!
//! A line belongs to the piece in which it ends; the worker that has the piece reads back to where the line begins, and pieces
//! in which no line ends have nothing to be searched, so that what is read grows with the file, however long its lines are. No
//! piece depends on another, a line of any length is found once, and what makes a file binary is known before the lines it
//! concerns. In a file that may be binary a NUL ends a line as well: lines that a newline ends could be as long as the file.
//! Holes are passed over where no empty line is selected.
//!
//! One large file is searched at a time: all workers do it anyway, and a result that is too large to be kept can be output
//! while it grows.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_flow::{Desk, Found, Problem, Stages, Tally, wording as flow};
use haul_sys::{Cache, Errno, Error, Fd, Operation, Seek, read, seek, stat};

use super::content::{Examined, JUDGED_BYTES, Window};
use super::options::Order;
use super::page::{Page, Piece};
use super::{Grep, wording};

/// Bytes of a piece: a multiple of what is judged at a time, and no more than stays in a processor's cache.
pub(super) const PIECE_BYTES: u64 = 8 * JUDGED_BYTES as u64;

/// Files longer than this are searched in pieces.
pub(super) const LARGE_BYTES: u64 = 8 * PIECE_BYTES;

/// Bytes before a piece that are read with it, in which its first line begins as a rule.
const LEAD_BYTES: u64 = 4096;

/// Bytes of the largest buffer that is kept for another piece: not that of a long line.
pub(super) const BUFFER_BYTES_MAX: usize = 2 * PIECE_BYTES as usize;

/// Bytes of a result after which it is output while it grows.
const KEPT_BYTES: usize = 16 << 20;

/// The same where its turn has come, so that nobody waits.
const KEPT_IN_TURN_BYTES: usize = 64 << 10;

/// A large file that is being searched.
pub(super) struct Large {
    found: Found<Grep>,
    source: Mutex<Option<Arc<Fd>>>,
    size: u64,
    next: AtomicU64,
    /// Whether there are holes in which nothing can be selected.
    skips_holes: bool,
    stop: AtomicBool,
    page: Mutex<Page>,
}

/// A piece that was searched.
pub(super) struct Searched {
    buffer: Vec<u8>,
    lines_end: usize,
    offset: u64,
    found: Examined,
    /// Whether the file ends before the piece does.
    is_short: bool,
}

impl Large {
    pub(super) fn new(
        found: Found<Grep>,
        source: Arc<Fd>,
        size: u64,
        page: Page,
        selects_empty: bool,
    ) -> Self {
        let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let skips_holes = page.binary && !selects_empty;
        let source = Mutex::new(Some(source));
        Self { found, source, size, next, skips_holes, stop, page: Mutex::new(page) }
    }

    fn source(&self) -> Option<Arc<Fd>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns where the next piece begins that may have lines. A line that ends where a hole begins does so in the hole's first
    /// piece, so that is none of those left out.
    fn after_holes(&self, start: u64) -> u64 {
        let source = if self.skips_holes { self.source() } else { None };
        match source.map(|source| seek(&*source, Seek::Data, start.saturating_sub(1))) {
            Some(Ok(Some(data))) => start.max(data / PIECE_BYTES * PIECE_BYTES),
            Some(Ok(None)) => self.size,
            _ => start,
        }
    }

    fn read(&self, mut buffer: Vec<u8>, range: Range<u64>, ends: [u8; 2]) -> Result<Loaded, Error> {
        let Some(source) = self.source() else { return Ok(Loaded { buffer, own: 0, offset: range.start }) };
        let from = range.start.saturating_sub(LEAD_BYTES);
        read_range(&source, from..range.end, &mut buffer)?;
        let own = length(from..range.start).min(buffer.len());
        if let Some(end) = memchr::memrchr2(ends[0], ends[1], &buffer[..own]) {
            buffer.drain(..=end);
            return Ok(Loaded { buffer, own: own - end - 1, offset: from + end as u64 + 1 });
        }
        // Where no line ends, none belongs to the piece. Were it read from its beginning all the same, a long line would be read
        // again by each of its pieces.
        let has_end = range.end == self.size || memchr::memchr2(ends[0], ends[1], &buffer[own..]).is_some();
        if from == 0 || !has_end {
            return Ok(Loaded { buffer, own, offset: from });
        }
        let start = line_start(&source, from, ends, &mut buffer)?;
        read_range(&source, start..range.end, &mut buffer)?;
        let own = length(start..range.start).min(buffer.len());
        Ok(Loaded { buffer, own, offset: start })
    }
}

/// Bytes of a piece, from where its first line begins.
struct Loaded {
    buffer: Vec<u8>,
    own: usize,
    offset: u64,
}

fn length(range: Range<u64>) -> usize {
    usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
}

/// Looks back for where the line begins that goes over a place. What is looked at is not kept: whoever wants the line then reads
/// it to where it belongs, rather than move it with each step back.
fn line_start(source: &Fd, place: u64, ends: [u8; 2], buffer: &mut Vec<u8>) -> Result<u64, Error> {
    let mut to = place;
    while to > 0 {
        let from = to.saturating_sub(PIECE_BYTES);
        read_range(source, from..to, buffer)?;
        if let Some(end) = memchr::memrchr2(ends[0], ends[1], buffer) {
            return Ok(from + end as u64 + 1);
        }
        to = from;
    }
    Ok(0)
}

/// Reads a range of a file, as far as there is one.
fn read_range(source: &Fd, range: Range<u64>, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let length = length(range.clone());
    buffer.resize(length, 0);
    let mut filled = 0;
    while filled < length {
        match read(source, range.start + filled as u64, &mut buffer[filled..], Cache::Keep)? {
            // Where there still is more, an end that is none may not hide lines.
            0 if stat(source)?.size > range.start + filled as u64 => {
                return Err(Error::new(Operation::Read, String::new(), Errno::IO));
            }
            0 => break,
            more => filled += more,
        }
    }
    buffer.truncate(filled);
    Ok(())
}

impl Stages<Grep> for Large {
    type Piece = Range<u64>;
    type Made = Result<Searched, Error>;

    fn next(&self, desk: &Desk<'_, Grep>) -> Option<Range<u64>> {
        if self.stop.load(Ordering::Relaxed) || desk.tool().is_over() {
            return None;
        }
        let start = self.after_holes(self.next.load(Ordering::Relaxed));
        self.next.store(start.saturating_add(PIECE_BYTES), Ordering::Relaxed);
        (start < self.size).then(|| start..self.size.min(start + PIECE_BYTES))
    }

    fn work(&self, desk: &Desk<'_, Grep>, piece: Range<u64>) -> Result<Searched, Error> {
        let search = &desk.tool().search;
        let ends = search.line_ends();
        let loaded = self.read(desk.tool().take_buffer(), piece.clone(), ends)?;
        let Loaded { buffer, own, offset } = loaded;
        let lines_end = if piece.end == self.size {
            buffer.len()
        } else {
            memchr::memrchr2(ends[0], ends[1], &buffer[own..]).map_or(0, |end| own + end + 1)
        };
        let window = Window { bytes: &buffer, own, lines_end, offset, whole: false };
        let found = desk.tool().with_scratch(|scratch| search.examine(scratch, window));
        let is_short = offset + (buffer.len() as u64) < piece.end;
        Ok(Searched { buffer, lines_end, offset, found, is_short })
    }

    fn put(&self, desk: &Desk<'_, Grep>, made: Result<Searched, Error>) {
        let tool = desk.tool();
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = match made {
            Ok(Searched { buffer, lines_end, offset, found, is_short }) => {
                let piece = Piece { text: &buffer[..lines_end], offset };
                let name = || tool.path(&self.found);
                tool.with_scratch(|scratch| tool.search.show(scratch, &mut page, (piece, &found), name));
                desk.count(Tally { bytes: lines_end as u64, ..Tally::default() });
                tool.return_buffer(buffer);
                is_short.then(|| Problem::new(flow::SHORTER))
            }
            Err(cause) => Some(Problem::new(wording::CANNOT_READ).because(cause)),
        };
        if let Some(problem) = problem.filter(|_| !page.done) {
            desk.problem(problem.naming(tool.path(&self.found)));
            page.done = true;
        }
        if page.done {
            self.stop.store(true, Ordering::Relaxed);
        }
        let is_in_turn = tool.search.options.order == Order::Named;
        if page.out.len() > if is_in_turn { KEPT_IN_TURN_BYTES } else { KEPT_BYTES } {
            tool.tell_some(desk, &self.found, &mut page);
        }
    }

    fn end(&self, desk: &Desk<'_, Grep>) {
        let page = std::mem::take(&mut *self.page.lock().unwrap_or_else(PoisonError::into_inner));
        desk.tool().tell(desk, &self.found, page);
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        let closed = source.and_then(Arc::into_inner).map_or(Ok(()), Fd::close);
        if let Err(cause) = closed {
            let name = desk.tool().path(&self.found);
            desk.problem(Problem::new(wording::CANNOT_READ).naming(name).because(cause));
        }
        desk.tool().large_is_over(desk);
        desk.settle(&self.found);
    }
}
