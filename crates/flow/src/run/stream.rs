//! A stream: one worker moving a range of a file, block by block.
//!
//! A file has one stream or several. Several workers have one each if a large file was cut into
//! ranges. One worker has several if its engine should have several operations in flight per file
//! ([`Ops::Multi`], [`Ops::Batch`]); these take their blocks from a common [`BlockCursor`].
//!
//! ```text
//!             ┌──────────── next block ───────────┐
//!             ▼                                   │
//!  advance ─► Read ─► tool looks ─► Write ... ────┤     engines that read, then write
//!             Pair ─► what is left: Write ... ────┤     engines that do both in one operation
//!             CopyRange ──────────────────────────┘     copies inside the kernel
//! ```
//!
//! Invariant: a file has ended when as many bytes as `fstat` reported have been moved, or when
//! `read` returned 0. A 0 before the reported size must be confirmed by a second read. A 0 from
//! `copy_file_range` means nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_engine::{Call, Ops, Outcome, Wait};
use haul_sys::{Buffer, Cache, Errno, Error, Fd, Operation, Seek, seek};

use super::file::State;
use super::worker::Worker;
use crate::cache_policy::{Special, Tail, Writable};
use crate::node::DirNode;
use crate::report::Tally;
use crate::tool::{Block, Failure, Holes, OpenFile, Tool, Transfer, Write};

/// Maximum bytes per `copy_file_range`: enough to hide the cost of the call, few enough to
/// show progress.
const KERNEL_COPY_BYTES: u64 = 8 << 20;

/// One worker's transfer of a range of a file.
pub(super) struct Stream<T: Tool> {
    file: Arc<OpenFile<T>>,
    position: u64,
    /// End of the range; `u64::MAX` if it is unknown.
    end: u64,
    /// End of the data at `position`, where the next hole begins.
    data_end: u64,
    /// True if a read returned 0 too early and is being repeated.
    end_doubted: bool,
    doing: Doing,
    transfer: Transfer,
    /// Special properties of the transfer in flight.
    tried: Special,
    /// Source of the next block, if several streams of one worker share a range.
    cursor: Option<Arc<BlockCursor>>,
}

/// The blocks of a range, each taken by one stream.
struct BlockCursor {
    next: AtomicU64,
    end: u64,
    block_bytes: u64,
}

impl BlockCursor {
    fn take(&self) -> Option<Range<u64>> {
        let start = self.next.fetch_add(self.block_bytes, Ordering::Relaxed);
        (start < self.end).then(|| start..self.end.min(start.saturating_add(self.block_bytes)))
    }
}

/// Progress of the current block.
enum Doing {
    Nothing,
    /// The source's block was read; the same range of the compared file is being read.
    Beside {
        buffer: Buffer,
        read: usize,
    },
    Writing {
        read: usize,
        current: Range<usize>,
        rest: Vec<Range<usize>>,
    },
}

impl<T: Tool> Stream<T> {
    pub(super) fn node(&self) -> &DirNode<T> {
        &self.file.entry.node
    }

    pub(super) fn new(file: Arc<OpenFile<T>>, range: Range<u64>, transfer: Transfer) -> Self {
        let data_end = if transfer.skips_holes() { range.start } else { range.end };
        Self {
            file,
            position: range.start,
            end: range.end,
            data_end,
            end_doubted: false,
            doing: Doing::Nothing,
            transfer,
            tried: Special::default(),
            cursor: None,
        }
    }

    fn with_cursor(file: Arc<OpenFile<T>>, cursor: Arc<BlockCursor>, transfer: Transfer) -> Self {
        Self { cursor: Some(cursor), ..Self::new(file, 0..0, transfer) }
    }

    /// Goes on to the cursor's next block. Returns false if there is none.
    fn take_from_cursor(&mut self) -> bool {
        let Some(block) = self.cursor.as_ref().and_then(|cursor| cursor.take()) else { return false };
        (self.position, self.end, self.data_end) = (block.start, block.end, block.end);
        true
    }

    /// Returns true if the file's end is known, so that a read may ask for all remaining bytes.
    fn has_known_end(&self) -> bool {
        self.end != u64::MAX
    }
}

impl<T: Tool> Worker<'_, T> {
    /// Begins to move a range of a file, in one stream or as many as the engine should have.
    /// `block` is the first block, if that was read already.
    pub(super) fn move_range(&mut self, slot: usize, stream: Stream<T>, block: Option<(Buffer, usize)>) {
        self.cx.attend(Some(stream.node()));
        if let Some((buffer, length)) = block {
            return self.take_block(slot, stream, buffer, length);
        }
        let streams = self.lanes_for(&stream);
        if streams <= 1 {
            return self.advance_lane(slot, stream);
        }
        let Stream { file, position, end, transfer, .. } = stream;
        let cursor =
            BlockCursor { next: AtomicU64::new(position), end, block_bytes: self.block_bytes as u64 };
        let cursor = Arc::new(cursor);
        for _ in 1..streams {
            let beside = self.occupy(State::Free);
            self.advance_lane(beside, Stream::with_cursor(Arc::clone(&file), Arc::clone(&cursor), transfer));
        }
        self.advance_lane(slot, Stream::with_cursor(file, cursor, transfer));
    }

    /// Returns the number of streams for a range.
    fn lanes_for(&self, stream: &Stream<T>) -> u64 {
        let several = matches!(self.cx.run.settings.ops, Some(Ops::Multi | Ops::Batch));
        if !several || !stream.has_known_end() || stream.transfer != Transfer::Blocks(Holes::Read) {
            return 1;
        }
        let blocks = (stream.end - stream.position).div_ceil(self.block_bytes as u64);
        blocks.min(self.room() as u64)
    }

    /// Submits a stream's next operation, or ends the stream.
    pub(super) fn advance_lane(&mut self, slot: usize, mut stream: Stream<T>) {
        if stream.file.has_failed() || (stream.position >= stream.end && !stream.take_from_cursor()) {
            return self.end_lane(slot, stream);
        }
        if stream.position >= stream.data_end {
            match next_data(&stream) {
                Ok(Some(data)) => {
                    self.count(Tally { bytes: data.start - stream.position, ..Tally::default() });
                    (stream.position, stream.data_end) = (data.start, data.end);
                }
                Ok(None) => {
                    self.count(Tally { bytes: stream.end - stream.position, ..Tally::default() });
                    return self.end_lane(slot, stream);
                }
                Err(cause) => return self.fail_lane(slot, stream, Failure::Read(&cause)),
            }
        }
        stream.tried = stream.file.cache_policy.special();
        let call = self.next_call(&stream);
        self.submit(slot, State::Moving(stream), call);
    }

    /// Returns the next call for a stream that is not at its end.
    fn next_call(&mut self, stream: &Stream<T>) -> Call {
        let left = stream.data_end - stream.position;
        let (offset, cache) = (stream.position, stream.file.cache_policy.cache());
        let source = Arc::clone(&stream.file.source);
        match (stream.transfer, &stream.file.target) {
            (Transfer::Kernel(_), Some(target)) => Call::CopyRange {
                source,
                target: Arc::clone(target),
                offset,
                length: usize::try_from(left.min(KERNEL_COPY_BYTES)).unwrap_or(usize::MAX),
            },
            (Transfer::Blocks(_), Some(target)) if self.does_pairs(stream) => {
                let (target, buffer) = (Arc::clone(target), self.take_buffer());
                let length = stream.file.cache_policy.whole_sectors(self.length_of_block(left));
                Call::Pair { source, target, offset, buffer, length, cache }
            }
            _ => {
                let buffer = self.take_buffer();
                let length = stream
                    .file
                    .cache_policy
                    .sectors_around(self.length_of_block(left))
                    .min(buffer.capacity());
                Call::Read { file: source, offset, buffer, length, wait: Wait::Allowed, cache }
            }
        }
    }

    /// Returns true if the engine may write what it reads without the tool looking at it. Requires
    /// a known length: a pair must not meet EOF.
    fn does_pairs(&self, stream: &Stream<T>) -> bool {
        let length = self.length_of_block(stream.data_end - stream.position);
        self.pairs
            && stream.has_known_end()
            && !stream.end_doubted
            && stream.file.cache_policy.whole_sectors(length) > 0
            && !stream.file.inspect
    }

    /// Continues after an operation of a stream.
    pub(super) fn moved(&mut self, slot: usize, stream: Stream<T>, outcome: Outcome) {
        match outcome {
            Outcome::Read { buffer, result } => {
                let result = result.map(Option::unwrap_or_default);
                match stream.doing {
                    Doing::Beside { .. } => self.has_read_beside(slot, stream, buffer, result),
                    _ => self.has_read(slot, stream, buffer, result),
                }
            }
            Outcome::Paired { buffer, read: Ok(read @ 1..), written } => {
                self.paired(slot, stream, (buffer, read), written);
            }
            Outcome::Paired { buffer, read, .. } => self.has_read(slot, stream, buffer, read),
            Outcome::Wrote { buffer, result } => self.wrote(slot, stream, buffer, result),
            Outcome::Copied(result) => self.copied(slot, stream, result),
            _ => self.slots[slot] = Some(State::Moving(stream)),
        }
    }

    fn has_read(&mut self, slot: usize, stream: Stream<T>, buffer: Buffer, result: Result<usize, Error>) {
        let cause = match result {
            Ok(length) if length > 0 => return self.take_block(slot, stream, buffer, length),
            Ok(_) => {
                self.return_buffer(buffer);
                return self.reached_end(slot, stream);
            }
            Err(cause) => cause,
        };
        self.return_buffer(buffer);
        if self.takes_the_plain_path(&stream, &cause) {
            return self.advance_lane(slot, stream);
        }
        self.fail_lane(slot, stream, Failure::Read(&cause));
    }

    /// Continues after a pair that has read something, and writes what the pair has not.
    fn paired(
        &mut self,
        slot: usize,
        mut stream: Stream<T>,
        (buffer, read): (Buffer, usize),
        written: Result<usize, Error>,
    ) {
        stream.end_doubted = false;
        stream.file.note_block();
        let done = written.as_ref().copied().unwrap_or(0).min(read);
        stream.doing = Doing::Writing { read, current: done..read, rest: Vec::new() };
        match written {
            Ok(_) => self.write_on(slot, stream, buffer),
            Err(cause) => self.wrote(slot, stream, buffer, Err(cause)),
        }
    }

    /// Handles a read of 0 bytes.
    fn reached_end(&mut self, slot: usize, mut stream: Stream<T>) {
        // A 0 before the known end may be false: read once more.
        if stream.has_known_end() && !stream.end_doubted {
            stream.end_doubted = true;
            return self.advance_lane(slot, stream);
        }
        stream.file.note_end(stream.position);
        self.end_lane(slot, stream);
    }

    /// Shows the tool a block, and writes what it wants written.
    fn take_block(&mut self, slot: usize, mut stream: Stream<T>, buffer: Buffer, length: usize) {
        // Direct I/O reads whole sectors, and the file may have grown: ignore bytes beyond the
        // stream's range.
        let left = usize::try_from(stream.end - stream.position).unwrap_or(usize::MAX);
        let length = length.min(left);
        stream.end_doubted = false;
        stream.file.note_block();
        if let Some(other) = stream.file.other.clone() {
            return self.read_beside(slot, stream, other, (buffer, length));
        }
        let block = Block { offset: stream.position, bytes: &buffer.bytes()[..length], other: &[] };
        let write = if stream.file.inspect { self.cx.tool().block(&stream.file, block) } else { Write::All };
        let (current, mut rest) = match write {
            Write::End => {
                self.return_buffer(buffer);
                stream.file.note_end(stream.position);
                return self.end_lane(slot, stream);
            }
            _ if stream.file.target.is_none() => (0..0, Vec::new()),
            Write::All => (0..length, Vec::new()),
            Write::Parts(parts) => (0..0, parts),
            Write::Nothing => (0..0, Vec::new()),
        };
        rest.reverse();
        stream.doing = Doing::Writing { read: length, current, rest };
        self.write_on(slot, stream, buffer);
    }

    /// Reads the same range of the compared file.
    fn read_beside(
        &mut self,
        slot: usize,
        mut stream: Stream<T>,
        file: Arc<Fd>,
        (first, length): (Buffer, usize),
    ) {
        let (offset, buffer) = (stream.position, self.take_buffer());
        let length = length.min(buffer.capacity());
        stream.doing = Doing::Beside { buffer: first, read: length };
        let call = Call::Read { file, offset, buffer, length, wait: Wait::Allowed, cache: Cache::Keep };
        self.submit(slot, State::Moving(stream), call);
    }

    /// Shows the tool a block and the same range of the compared file. After a short read of the
    /// latter, the rest is read again with the next block.
    fn has_read_beside(
        &mut self,
        slot: usize,
        mut stream: Stream<T>,
        beside: Buffer,
        result: Result<usize, Error>,
    ) {
        let Doing::Beside { buffer, read } = std::mem::replace(&mut stream.doing, Doing::Nothing) else {
            return self.return_buffer(beside);
        };
        if let (Ok(0), false, Some(file)) = (&result, stream.end_doubted, stream.file.other.clone()) {
            // An EOF of the compared file must be confirmed too.
            stream.end_doubted = true;
            self.return_buffer(beside);
            return self.read_beside(slot, stream, file, (buffer, read));
        }
        stream.end_doubted = false;
        let outcome = result.map(|length| {
            // EOF: the compared file ends here.
            let taken = if length == 0 { read } else { length };
            let (bytes, other) = (&buffer.bytes()[..taken], &beside.bytes()[..length]);
            self.cx.tool().block(&stream.file, Block { offset: stream.position, bytes, other });
            taken as u64
        });
        self.return_buffer(buffer);
        self.return_buffer(beside);
        match outcome {
            Ok(taken) => {
                stream.position += taken;
                self.count(Tally { bytes: taken, ..Tally::default() });
                self.advance_lane(slot, stream);
            }
            Err(cause) => {
                if stream.file.fail() {
                    self.cx.report_failure(&stream.file.entry, Failure::ReadCompared(&cause));
                }
                self.end_lane(slot, stream);
            }
        }
    }

    /// Writes the next range of a block, or goes on to the next block.
    fn write_on(&mut self, slot: usize, mut stream: Stream<T>, buffer: Buffer) {
        let Doing::Writing { read, rest, current } = &mut stream.doing else {
            return self.return_buffer(buffer);
        };
        if current.start >= current.end {
            match rest.pop() {
                Some(part) => *current = part,
                None => {
                    let read = *read;
                    stream.doing = Doing::Nothing;
                    stream.position += read as u64;
                    self.return_buffer(buffer);
                    self.count(Tally { bytes: read as u64, ..Tally::default() });
                    return self.advance_lane(slot, stream);
                }
            }
        }
        let (range, Some(target)) = (current.clone(), &stream.file.target) else {
            rest.clear();
            *current = 0..0;
            return self.write_on(slot, stream, buffer);
        };
        let offset = stream.position + range.start as u64;
        stream.tried = stream.file.cache_policy.special();
        match stream.file.cache_policy.writable(target, offset, (buffer.bytes(), range)) {
            Ok(Writable::Now(range)) => {
                let (file, cache) = (Arc::clone(target), stream.file.cache_policy.cache());
                self.submit(slot, State::Moving(stream), Call::Write { file, offset, buffer, range, cache });
            }
            Ok(Writable::Last) => {
                *current = 0..0;
                self.write_on(slot, stream, buffer);
            }
            Err(cause) => {
                self.return_buffer(buffer);
                self.fail_lane(slot, stream, Failure::WriteTarget(&cause));
            }
        }
    }

    /// Writes the bytes that were kept until the rest of the file was written.
    pub(super) fn write_tail(&mut self, slot: usize, file: OpenFile<T>, tail: &Tail) {
        let mut buffer = self.take_buffer();
        let length = tail.bytes.len();
        buffer.bytes_mut()[..length].copy_from_slice(&tail.bytes);
        // A stream at its end: the bytes were read and counted before.
        let mut stream = Stream::new(Arc::new(file), tail.offset..tail.offset, Transfer::Blocks(Holes::Read));
        stream.doing = Doing::Writing { read: 0, current: 0..length, rest: Vec::new() };
        self.write_on(slot, stream, buffer);
    }

    fn wrote(&mut self, slot: usize, mut stream: Stream<T>, buffer: Buffer, result: Result<usize, Error>) {
        let cause = match result {
            Ok(written) if written > 0 => {
                if let Doing::Writing { current, .. } = &mut stream.doing {
                    current.start = (current.start + written).min(current.end);
                }
                return self.write_on(slot, stream, buffer);
            }
            // GNU treats a write of 0 bytes without an error as no space.
            Ok(_) => Error::new(Operation::Write, "0 bytes written".to_owned(), Errno::NOSPC),
            Err(cause) if self.takes_the_plain_path(&stream, &cause) => {
                return self.write_on(slot, stream, buffer);
            }
            Err(cause) => cause,
        };
        self.return_buffer(buffer);
        self.fail_lane(slot, stream, Failure::WriteTarget(&cause));
    }

    /// Makes the cache policy fall back if that may help. Returns true if the failed operation
    /// should be retried.
    fn takes_the_plain_path(&self, stream: &Stream<T>, cause: &Error) -> bool {
        let file = &stream.file;
        let plainer =
            file.cache_policy.becomes_plainer(cause, stream.tried, &file.source, file.target.as_ref());
        if plainer {
            let name = String::from_utf8_lossy(&file.entry.path()).into_owned();
            self.cx.report().debug(&format!("{name}: goes on through the page cache: {cause:#}"));
        }
        plainer
    }

    /// Continues after `copy_file_range`. Falls back to blocks if the kernel can't copy, or reports
    /// a false EOF.
    fn copied(&mut self, slot: usize, mut stream: Stream<T>, result: Result<usize, Error>) {
        match result {
            Ok(copied) if copied > 0 => {
                stream.file.note_kernel();
                stream.position += copied as u64;
                self.count(Tally { bytes: copied as u64, ..Tally::default() });
            }
            Err(cause) if matches!(cause.errno(), Errno::NOSPC | Errno::DQUOT | Errno::IO) => {
                return self.fail_lane(slot, stream, Failure::WriteTarget(&cause));
            }
            Ok(_) | Err(_) => stream.transfer = stream.transfer.in_blocks(),
        }
        self.advance_lane(slot, stream);
    }

    fn fail_lane(&mut self, slot: usize, stream: Stream<T>, failure: Failure<'_>) {
        // Several streams may meet the same full disk; one reports it.
        if stream.file.fail() {
            self.cx.report_failure(&stream.file.entry, failure);
        }
        self.end_lane(slot, stream);
    }

    fn end_lane(&mut self, slot: usize, stream: Stream<T>) {
        let Stream { file, cursor, .. } = stream;
        let is_last_here = cursor.is_none_or(|cursor| Arc::into_inner(cursor).is_some());
        self.let_go(slot, file, is_last_here);
    }
}

/// Returns the data at or after a stream's position; `None` if only holes are left in its range.
fn next_data<T: Tool>(stream: &Stream<T>) -> Result<Option<Range<u64>>, Error> {
    let source = &stream.file.source;
    let start = match seek(source, Seek::Data, stream.position) {
        Ok(Some(start)) if start < stream.end => start,
        Ok(_) => return Ok(None),
        // The file system doesn't report holes: treat everything as data.
        Err(cause) if cause.is(Errno::INVAL) || cause.is(Errno::OPNOTSUPP) => {
            return Ok(Some(stream.position..stream.end));
        }
        Err(cause) => return Err(cause),
    };
    let hole = seek(source, Seek::Hole, start)?.unwrap_or(stream.end);
    Ok(Some(start..hole.clamp(start + 1, stream.end)))
}
