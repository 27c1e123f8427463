//! Large files: searched in pieces by all workers, printed in order.
//!
//! A line belongs to the piece in which it ends. The worker with that piece reads back to the start
//! of the line, and a piece in which no line ends needs no search, so reading stays linear in the
//! file size however long lines are. Pieces are independent, a line of any length is found once,
//! and binary content is detected before the lines it affects. In a file that may be binary, NULs
//! also end lines: lines delimited by newlines alone could be as long as the file. Holes are
//! skipped unless empty lines are selected.
//!
//! One large file is searched at a time. All workers join in anyway, and an oversized result can be
//! flushed while it grows.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{Context, Entry, FlowKind, Problem, Stages, Tally, lock};
use haul_sys::{CacheMode, Errno, Error, Fd, Operation, Seek, read, seek, stat};

use super::content::{Examined, Window};
use super::options::ResultOrder;
use super::page::{JUDGED_BYTES, Page, TextPiece};
use super::{Grep, GrepKind};

/// Size of a piece, in bytes: a multiple of [`JUDGED_BYTES`], and small enough for a CPU cache.
pub(super) const PIECE_BYTES: u64 = 8 * JUDGED_BYTES as u64;

/// Files larger than this are searched in pieces, in bytes.
pub(super) const LARGE_BYTES: u64 = 8 * PIECE_BYTES;

/// Bytes read before a piece, which usually contain the start of its first line.
const LEAD_BYTES: u64 = 4096;

/// Maximum size of a buffer that is recycled, in bytes. A long line's buffer is freed.
pub(super) const BUFFER_BYTES_MAX: usize = 2 * PIECE_BYTES as usize;

/// Size of a result at which it is flushed while it grows, in bytes.
const KEPT_BYTES: usize = 16 << 20;

/// The same once the file has its turn: a low threshold, so that output starts early.
const KEPT_IN_TURN_BYTES: usize = 64 << 10;

pub(super) struct LargeSearch {
    entry: Entry<Grep>,
    source: Mutex<Option<Arc<Fd>>>,
    size: u64,
    next: AtomicU64,
    skips_holes: bool,
    stop: AtomicBool,
    has_failed: AtomicBool,
    page: Mutex<Page>,
}

pub(super) struct Searched {
    buffer: Vec<u8>,
    lines_end: usize,
    offset: u64,
    entry: Examined,
    /// True if the file ends before the piece does.
    is_short: bool,
}

impl LargeSearch {
    pub(super) fn new(
        entry: Entry<Grep>,
        source: Arc<Fd>,
        size: u64,
        page: Page,
        selects_empty: bool,
    ) -> Self {
        let (next, stop, has_failed) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let skips_holes = page.binary && !selects_empty;
        let source = Mutex::new(Some(source));
        Self { entry, source, size, next, skips_holes, stop, has_failed, page: Mutex::new(page) }
    }

    fn source(&self) -> Option<Arc<Fd>> {
        lock(&self.source).clone()
    }

    /// Returns the start of the next piece that may hold lines. A hole's first NUL may end the line
    /// before it, so the piece with that NUL is not skipped.
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
        // A piece in which no line ends owns no line. Reading its line from the start anyway would
        // read a long line again for each of its pieces.
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

/// A piece's bytes, from the start of its first line.
struct Loaded {
    buffer: Vec<u8>,
    own: usize,
    offset: u64,
}

fn length(range: Range<u64>) -> usize {
    usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
}

/// Searches backward for the start of the line that spans a position. The bytes are not kept:
/// the caller reads the line again in one go, which is cheaper than shifting the buffer at every
/// step back.
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

/// Reads a range, stopping early only at EOF.
fn read_range(source: &Fd, range: Range<u64>, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let length = length(range.clone());
    buffer.resize(length, 0);
    let mut filled = 0;
    while filled < length {
        match read(source, range.start + filled as u64, &mut buffer[filled..], CacheMode::Keep)? {
            // A false EOF must not hide lines: if the size says there is more, it is an I/O error.
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

impl Stages<Grep> for LargeSearch {
    type Piece = Range<u64>;
    type Output = Result<Searched, Error>;

    fn next(&self, cx: &Context<'_, Grep>) -> Option<Range<u64>> {
        if self.stop.load(Ordering::Relaxed) || cx.tool().is_over() {
            return None;
        }
        // Not `fetch_add`: one worker at a time is in here.
        let start = self.after_holes(self.next.load(Ordering::Relaxed));
        self.next.store(start.saturating_add(PIECE_BYTES), Ordering::Relaxed);
        (start < self.size).then(|| start..self.size.min(start + PIECE_BYTES))
    }

    fn work(&self, cx: &Context<'_, Grep>, piece: Range<u64>) -> Result<Searched, Error> {
        let search = &cx.tool().search;
        let ends = search.line_ends();
        let loaded = self.read(cx.tool().buffers.take().unwrap_or_default(), piece.clone(), ends)?;
        let Loaded { buffer, own, offset } = loaded;
        let lines_end = if piece.end == self.size {
            buffer.len()
        } else {
            memchr::memrchr2(ends[0], ends[1], &buffer[own..]).map_or(0, |end| own + end + 1)
        };
        let window = Window { bytes: &buffer, own, lines_end, offset, whole: false };
        let entry = cx.tool().with_scratch(|scratch| search.examine(scratch, window));
        let is_short = offset + (buffer.len() as u64) < piece.end;
        Ok(Searched { buffer, lines_end, offset, entry, is_short })
    }

    fn put(&self, cx: &Context<'_, Grep>, made: Result<Searched, Error>) {
        let tool = cx.tool();
        let mut page = lock(&self.page);
        let problem = match made {
            Ok(Searched { buffer, lines_end, offset, entry, is_short }) => {
                let piece = TextPiece { text: &buffer[..lines_end], offset };
                let name = || tool.path(&self.entry);
                tool.with_scratch(|scratch| tool.search.show(scratch, &mut page, (piece, &entry), name));
                cx.count(Tally { bytes: lines_end as u64, ..Tally::default() });
                tool.return_buffer(buffer);
                is_short.then(|| Problem::new(FlowKind::Shorter))
            }
            Err(cause) => Some(Problem::new(GrepKind::CannotRead).because(cause)),
        };
        // GNU grep would not have read as far as this piece.
        if let Some(problem) = problem.filter(|_| !page.done) {
            cx.problem(problem.naming(tool.path(&self.entry)));
            page.done = true;
            self.has_failed.store(true, Ordering::Relaxed);
        }
        if page.done {
            self.stop.store(true, Ordering::Relaxed);
        }
        let is_in_turn = tool.search.options.order == ResultOrder::Named;
        if page.out.len() > if is_in_turn { KEPT_IN_TURN_BYTES } else { KEPT_BYTES } {
            tool.emit_part(cx, &self.entry, &mut page);
        }
    }

    fn end(&self, cx: &Context<'_, Grep>) {
        let page = std::mem::take(&mut *lock(&self.page));
        let errors_before = cx.errors();
        cx.tool().emit_page(cx, &self.entry, page);
        let source = lock(&self.source).take();
        let closed = source.and_then(Arc::into_inner).map_or(Ok(()), Fd::close);
        if let Err(cause) = closed {
            let name = cx.tool().path(&self.entry);
            cx.problem(Problem::new(GrepKind::CannotRead).naming(name).because(cause));
        }
        // Relaxed: the sequence ends after everything that it did.
        if !self.has_failed.load(Ordering::Relaxed) && cx.errors() == errors_before {
            cx.tool().count(cx, &self.entry);
        }
        cx.tool().large_is_over(cx);
        cx.complete(&self.entry);
    }
}
