//! A stream: one worker moving a range of a file, block by block.
//!
//! A file has one stream or several. Several workers have one each if a large file was cut into
//! ranges. One worker has several if its engine should have several operations in flight per file
//! (`Ops::Multi`, `Ops::Batch`); these take their blocks from a common [`BlockCursor`]. Two workers
//! have one each if an idle worker helps with a large file in memory; these take their blocks from
//! its [`Turns`](super::turns::Turns).
//!
//! ```text
//!             ┌──────────── next block ───────────┐
//!             ▼                                   │
//!  advance ─► Read ─► tool looks ─► Write ... ────┤     engines that read, then write
//!             Pair ─► the rest: Write ... ────────┤     engines that do both in one operation
//!             CopyRange ──────────────────────────┘     copies in the kernel, or through a pipe
//! ```
//!
//! Invariant: a file has ended when `read` returned 0, or no more than the size that `fstat`
//! reported although it was asked for more. A 0 before that size must be confirmed by a second
//! read. A 0 from `copy_file_range` or `splice` means nothing. When the streams have moved as many
//! bytes as `fstat` reported and none has met EOF, a tool that copies to EOF asks for the rest
//! (`OpenFile::beyond`).

use std::ops::Range;
use std::sync::Arc;

use haul_engine::{Call, Outcome, Wait};
use haul_sys::{Buffer, CacheMode, Errno, Error, Operation, Pipe};
use haul_sys::{is_local, make_blocking, start_write_back};

use super::block_cursor::BlockCursor;
use super::holes::next_data;
use super::io::Io;
use super::prepare::kernel_copy_bytes;
use crate::cache_policy::{Tail, TransferMode, Writable};
use crate::context::Context;
use crate::decision::{Block, EntryFailure, Holes, Transfer, Write};
use crate::report::Tally;
use crate::room::{RoomWait, is_full};
use crate::tool::{OpenFile, Tool};

mod parallel;

pub use parallel::HELP_BYTES_MIN;

/// Bytes of a file that are written to disk together while it is copied (`Policy::writes_back`).
const WRITE_BACK_BYTES: u64 = 8 << 20;

/// One worker's transfer of a range of a file.
pub(super) struct Stream<T: Tool> {
    pub(super) file: Arc<OpenFile<T>>,
    position: u64,
    /// End of the range; `u64::MAX` if it is unknown.
    end: u64,
    /// End of the data at `position`, where the next hole begins.
    data_end: u64,
    /// True if a read returned 0 too early and is being repeated.
    end_doubted: bool,
    /// True if the read in flight asks for more than its range.
    asks_beyond: bool,
    block: BlockState,
    transfer: Transfer,
    /// True if it reads at the source's position, which has no offsets.
    sequential: bool,
    /// True once the source was made blocking, to wait for data.
    waits: bool,
    /// True once a copy through a pipe has failed.
    refuses_pipe: bool,
    /// True if another worker may help with it.
    may_get_help: bool,
    /// End of the range that another worker was asked to fetch, or 0.
    fetched: u64,
    /// Mode of the transfer in flight.
    tried: TransferMode,
    /// Cursor shared by several streams of one worker; `None` if this is the only one.
    cursor: Option<Arc<BlockCursor>>,
    /// Set while a write waits for free space.
    room: RoomWait,
    /// End of the range being written back ([`Policy::writes_back`](crate::Policy)).
    written_back: u64,
}

/// State of the current block.
enum BlockState {
    Idle,
    /// The source's block was read; the same range of the compared file is being read.
    Comparing {
        buffer: Buffer,
        read: usize,
    },
    Writing {
        read: usize,
        current: Range<usize>,
        rest: Vec<Range<usize>>,
    },
}

/// Next action for a stream.
pub(super) enum StreamStep<T: Tool> {
    /// Submit a call, and continue with its outcome.
    Call(Stream<T>, Call),
    /// End the stream: its range is done, or its file has failed.
    Done(Stream<T>),
}

impl<T: Tool> Stream<T> {
    pub(super) fn new(file: Arc<OpenFile<T>>, range: Range<u64>, transfer: Transfer) -> Self {
        let data_end = if transfer.skips_holes() { range.start } else { range.end };
        let may_get_help = range == (0..file.stat.size);
        Self {
            file,
            position: range.start,
            end: range.end,
            data_end,
            end_doubted: false,
            asks_beyond: false,
            block: BlockState::Idle,
            transfer,
            sequential: false,
            waits: false,
            refuses_pipe: false,
            may_get_help,
            fetched: 0,
            tried: TransferMode::default(),
            cursor: None,
            room: RoomWait::default(),
            written_back: range.start,
        }
    }

    /// Reads a file without offsets from its start to its end.
    pub(super) fn sequential(file: Arc<OpenFile<T>>) -> Self {
        Self { sequential: true, ..Self::new(file, 0..u64::MAX, Transfer::Blocks(Holes::Read)) }
    }

    /// Starts the write-back of the copied bytes, if requested.
    fn start_write_back(&mut self, cx: &Context<'_, T>) {
        if cx.run.policy.writes_back
            && self.cursor.is_none()
            && self.position >= self.written_back.saturating_add(WRITE_BACK_BYTES)
            && let Some(target) = &self.file.target
        {
            // Only a hint: the flush writes the rest, and reports all errors.
            start_write_back(&**target, self.written_back..self.position).unwrap_or_default();
            self.written_back = self.position;
        }
    }

    /// Continues with the next operation, or ends the stream.
    pub(super) fn next(mut self, cx: &Context<'_, T>, io: &mut Io) -> StreamStep<T> {
        self.start_write_back(cx);
        self.get_help(cx, io);
        if self.file.has_failed()
            || self.file.has_refused_offsets()
            || (self.position >= self.end && !self.take_next(io))
        {
            self.end_wait(cx);
            return StreamStep::Done(self);
        }
        if self.position >= self.data_end {
            match next_data(&self.file.source, self.position..self.end) {
                Ok(Some(data)) => {
                    // Holes count too: progress is measured in the file's size.
                    cx.count(Tally { bytes: data.start - self.position, ..Tally::default() });
                    (self.position, self.data_end) = (data.start, data.end);
                }
                Ok(None) => {
                    cx.count(Tally { bytes: self.end - self.position, ..Tally::default() });
                    return StreamStep::Done(self);
                }
                Err(cause) => return self.fail(cx, EntryFailure::Read(&cause)),
            }
        }
        // Noted before the call: another stream may make the policy fall back before this one
        // fails.
        self.tried = self.file.cache_policy.mode();
        let (left, cache) = (self.data_end - self.position, self.file.cache_policy.cache());
        let (source, offset) = (Arc::clone(&self.file.source), self.position);
        let is_through_pipe =
            matches!(self.transfer, Transfer::Blocks(_)) && self.file.target.is_some() && self.may_use_pipe();
        let pipe = if is_through_pipe { io.take_pipe(left) } else { None };
        let call = match (self.transfer, &self.file.target, pipe) {
            (Transfer::Kernel(_), Some(target), _) => {
                let length = usize::try_from(left.min(kernel_copy_bytes(cx))).unwrap_or(usize::MAX);
                Call::CopyRange { source, target: Arc::clone(target), offset, length, pipe: None }
            }
            (Transfer::Blocks(_), Some(target), Some(pipe)) => {
                let length = io.length_of_block(left, cache);
                Call::CopyRange { source, target: Arc::clone(target), offset, length, pipe: Some(pipe) }
            }
            (Transfer::Blocks(_), Some(target), None) if self.does_pairs(io) => {
                let length = self.file.cache_policy.whole_sectors(io.length_of_block(left, cache));
                let (target, buffer) = (Arc::clone(target), io.take_buffer(length));
                Call::Pair { source, target, offset, buffer, length, cache }
            }
            _ if self.sequential => {
                let length = io.length_of_block(left, cache);
                let buffer = io.take_buffer(length);
                let length = length.min(buffer.capacity());
                Call::ReadStream { file: source, buffer, length }
            }
            _ => {
                // A direct read asks for whole sectors, also at EOF. A pair can't: it would write
                // them.
                let wanted = io.length_of_block(left + u64::from(self.is_last()), cache);
                let length = self.file.cache_policy.sectors_around(wanted);
                let buffer = io.take_buffer(length);
                let length = length.min(buffer.capacity());
                self.asks_beyond = length as u64 > left;
                Call::Read { file: source, offset, buffer, length, wait: Wait::Allowed, cache }
            }
        };
        StreamStep::Call(self, call)
    }

    /// Continues after an operation.
    pub(super) fn advance(self, cx: &Context<'_, T>, io: &mut Io, outcome: Outcome) -> StreamStep<T> {
        match outcome {
            Outcome::Read { buffer, result } => {
                let result = result.map(Option::unwrap_or_default);
                match self.block {
                    BlockState::Comparing { .. } => self.read_compared(cx, io, buffer, result),
                    _ => self.read(cx, io, buffer, result),
                }
            }
            Outcome::Paired { buffer, read: Ok(read @ 1..), written } => {
                self.paired(cx, io, (buffer, read), written)
            }
            Outcome::Paired { buffer, read, .. } => self.read(cx, io, buffer, read),
            Outcome::Wrote { buffer, result } => self.wrote(cx, io, buffer, result),
            Outcome::Copied { pipe, result } => self.copied(cx, io, pipe, result),
            // The engine's contract excludes it: no such call is in flight.
            _ => self.next(cx, io),
        }
    }

    fn read(
        mut self,
        cx: &Context<'_, T>,
        io: &mut Io,
        buffer: Buffer,
        result: Result<usize, Error>,
    ) -> StreamStep<T> {
        let cause = match result {
            Ok(length) if length > 0 => {
                if self.asks_beyond && self.is_last() && length as u64 == self.end - self.position {
                    self.file.note_end(self.end);
                }
                return self.take_block(cx, io, buffer, length);
            }
            Ok(_) => {
                io.return_buffer(buffer);
                // A 0 before the known end may be false: read once more.
                if self.has_known_end() && !self.end_doubted {
                    self.end_doubted = true;
                    return self.next(cx, io);
                }
                self.file.note_end(self.position);
                return StreamStep::Done(self);
            }
            Err(cause) => cause,
        };
        io.return_buffer(buffer);
        if cause.is(Errno::SPIPE) && self.file.refuse_offsets() {
            return StreamStep::Done(self);
        }
        // A few regular files honour the `O_NONBLOCK` of the open and have no data yet.
        if cause.is(Errno::AGAIN) && !self.waits && make_blocking(&self.file.source).is_ok() {
            self.waits = true;
            cx.expect_to_block();
            return self.next(cx, io);
        }
        if self.falls_back(cx, &cause) {
            self.next(cx, io)
        } else {
            self.fail(cx, EntryFailure::Read(&cause))
        }
    }

    /// Shows the tool a block, and writes the bytes it selects.
    pub(super) fn take_block(
        mut self,
        cx: &Context<'_, T>,
        io: &mut Io,
        buffer: Buffer,
        length: usize,
    ) -> StreamStep<T> {
        // Direct I/O reads whole sectors, and the file may have grown: ignore bytes beyond the
        // stream's range.
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let length = length.min(left);
        self.end_doubted = false;
        self.file.note_block();
        if self.file.other.is_some() {
            return self.read_other(io, (buffer, length));
        }
        let block = Block { offset: self.position, bytes: &buffer.bytes()[..length], other: &[] };
        let write = if self.file.inspect { cx.tool().block(&self.file, block) } else { Write::All };
        let (current, mut rest) = match write {
            Write::End => {
                io.return_buffer(buffer);
                self.file.note_end(self.position);
                return StreamStep::Done(self);
            }
            _ if self.file.target.is_none() => (0..0, Vec::new()),
            Write::All => (0..length, Vec::new()),
            Write::Parts(parts) => (0..0, parts),
            Write::Nothing => (0..0, Vec::new()),
        };
        // `write` takes them from the back.
        rest.reverse();
        if let Some(turns) = self.file.turns.get()
            && !turns.wait(self.position, || cx.flush())
        {
            io.return_buffer(buffer);
            return StreamStep::Done(self);
        }
        self.block = BlockState::Writing { read: length, current, rest };
        self.write(cx, io, buffer)
    }

    /// Writes the next range of a block, or advances to the next block.
    fn write(mut self, cx: &Context<'_, T>, io: &mut Io, buffer: Buffer) -> StreamStep<T> {
        loop {
            let BlockState::Writing { read, rest, current } = &mut self.block else {
                io.return_buffer(buffer);
                return self.next(cx, io);
            };
            while current.start >= current.end
                && let Some(part) = rest.pop()
            {
                *current = part;
            }
            let target = self.file.target.as_ref().filter(|_| current.start < current.end);
            let Some(target) = target else {
                let bytes = *read as u64;
                self.block = BlockState::Idle;
                self.position += bytes;
                if let Some(turns) = self.file.turns.get() {
                    turns.note_written(self.position);
                }
                io.return_buffer(buffer);
                cx.moved(bytes);
                return self.next(cx, io);
            };
            let (range, offset) = (current.clone(), self.position + current.start as u64);
            self.tried = self.file.cache_policy.mode();
            match self.file.cache_policy.writable(target, offset, (buffer.bytes(), range)) {
                Ok(Writable::Now(range)) => {
                    let (file, cache) = (Arc::clone(target), self.file.cache_policy.cache());
                    return StreamStep::Call(self, Call::Write { file, offset, buffer, range, cache });
                }
                Ok(Writable::Last) => *current = 0..0,
                Err(cause) => {
                    io.return_buffer(buffer);
                    return self.fail(cx, EntryFailure::WriteTarget(&cause));
                }
            }
        }
    }

    fn wrote(
        mut self,
        cx: &Context<'_, T>,
        io: &mut Io,
        buffer: Buffer,
        result: Result<usize, Error>,
    ) -> StreamStep<T> {
        let cause = match result {
            Ok(written) if written > 0 => {
                self.end_wait(cx);
                if let BlockState::Writing { current, .. } = &mut self.block {
                    current.start = (current.start + written).min(current.end);
                }
                return self.write(cx, io, buffer);
            }
            // GNU treats a write of 0 bytes without an error as no space.
            Ok(_) => Error::new(Operation::Write, "0 bytes written".to_owned(), Errno::NOSPC),
            Err(cause) if self.falls_back(cx, &cause) => return self.write(cx, io, buffer),
            Err(cause) => cause,
        };
        if self.waits_for_room(cx, &cause) {
            return self.write(cx, io, buffer);
        }
        io.return_buffer(buffer);
        self.fail(cx, EntryFailure::WriteTarget(&cause))
    }

    /// Fails the file. Several streams may meet the same full disk; one reports it.
    fn fail(mut self, cx: &Context<'_, T>, failure: EntryFailure<'_>) -> StreamStep<T> {
        self.end_wait(cx);
        if self.file.fail() {
            cx.report_failure(&self.file.entry, failure);
        }
        StreamStep::Done(self)
    }

    /// Returns true if the file's end is known, so that a read may ask for all remaining bytes.
    fn has_known_end(&self) -> bool {
        self.end != u64::MAX
    }

    /// True if this is the file's only stream, and the next read may reach the reported size. Only
    /// then may a read ask for more, to find EOF: bytes appended while other streams still move
    /// earlier ranges must not be missed.
    fn is_last(&self) -> bool {
        self.end == self.file.stat.size && self.data_end == self.end && Arc::strong_count(&self.file) == 1
    }

    /// Makes the cache policy fall back if that may help. Returns true if the failed operation
    /// should be retried.
    fn falls_back(&self, cx: &Context<'_, T>, cause: &Error) -> bool {
        let OpenFile::<T> { cache_policy, source, target, entry, .. } = &*self.file;
        let falls_back = cache_policy.fall_back(cause, self.tried, source, target.as_ref());
        if falls_back {
            cx.remark(entry, &format!("falling back to the page cache: {cause:#}"));
        }
        falls_back
    }

    /// Waits for free space if the target's file system is full and the policy is to wait. Returns
    /// true if the failed operation should be retried.
    fn waits_for_room(&mut self, cx: &Context<'_, T>, cause: &Error) -> bool {
        let (Some(room), Some(target)) = (&cx.run.policy.room, &self.file.target) else { return false };
        // Network file systems may report a full disk late, for bytes written earlier (NFS).
        if !is_full(cause) || self.file.has_failed() || !is_local(&**target).unwrap_or(false) {
            return false;
        }
        // The worker may sleep now, and its counts must not sleep with it.
        cx.flush();
        room.wait(&mut self.room, &|| cx.report_no_room(&self.file.entry, cause))
    }

    /// Ends the wait for free space, if there was one.
    fn end_wait(&mut self, cx: &Context<'_, T>) {
        if let Some(room) = &cx.run.policy.room {
            room.end(&mut self.room, cx.report());
        }
    }

    // Pairs: engines that read and write in one operation.

    /// Returns true if the engine may write the bytes it reads without showing them to the tool.
    /// Requires a known length: a pair must not meet EOF, and so can't find it.
    fn does_pairs(&self, io: &Io) -> bool {
        let cache = self.file.cache_policy.cache();
        let left = self.data_end - self.position;
        let length = io.length_of_block(left, cache);
        let finds_end =
            length as u64 == left && self.is_last() && io.length_of_block(left + 1, cache) > length;
        io.caps.pairs
            && self.has_known_end()
            && !finds_end
            && !self.end_doubted
            && self.file.cache_policy.whole_sectors(length) > 0
            && !self.file.inspect
    }

    /// Continues after a pair that has read something, and writes the rest of it.
    fn paired(
        mut self,
        cx: &Context<'_, T>,
        io: &mut Io,
        (buffer, read): (Buffer, usize),
        written: Result<usize, Error>,
    ) -> StreamStep<T> {
        self.end_doubted = false;
        self.file.note_block();
        // If the write failed, everything that was read remains to be written.
        let done = written.as_ref().copied().unwrap_or(0).min(read);
        self.block = BlockState::Writing { read, current: done..read, rest: Vec::new() };
        match written {
            Ok(_) => self.write(cx, io, buffer),
            Err(cause) => self.wrote(cx, io, buffer, Err(cause)),
        }
    }

    // Copies inside the kernel.

    /// Returns true if the stream may use a pipe: the file suits one, and the tool doesn't look at
    /// its content.
    fn may_use_pipe(&self) -> bool {
        self.file.through_pipe
            && self.file.cache_policy.cache() == CacheMode::Keep
            && !self.refuses_pipe
            && !self.file.inspect
            && self.file.turns.get().is_none()
            && self.has_known_end()
    }

    /// Continues after a copy inside the kernel. Falls back to blocks if the kernel can't copy, or
    /// reports a false EOF.
    fn copied(
        mut self,
        cx: &Context<'_, T>,
        io: &mut Io,
        pipe: Option<Pipe>,
        result: Result<usize, Error>,
    ) -> StreamStep<T> {
        let through_pipe = matches!(self.transfer, Transfer::Blocks(_));
        if through_pipe {
            io.return_pipe(pipe);
        }
        match result {
            Ok(copied) if copied > 0 => {
                self.end_wait(cx);
                match through_pipe {
                    true => self.file.note_block(),
                    false => self.file.note_kernel(),
                }
                self.position += copied as u64;
                cx.moved(copied as u64);
            }
            Err(cause) if self.waits_for_room(cx, &cause) => {}
            // The disk's errors, not the call's: writing blocks would meet them again.
            Err(cause) if matches!(cause.errno(), Errno::NOSPC | Errno::DQUOT | Errno::IO) => {
                return self.fail(cx, EntryFailure::WriteTarget(&cause));
            }
            // 0 comes from file systems that don't know their files' sizes, an error from those
            // that can't copy between the two files (`EXDEV`, `EINVAL`, `EOPNOTSUPP`).
            Ok(_) | Err(_) if through_pipe => self.refuses_pipe = true,
            Ok(_) | Err(_) => self.transfer = self.transfer.in_blocks(),
        }
        self.next(cx, io)
    }

    // Direct I/O.

    /// Begins to write the bytes that were kept until the rest of the file was written.
    pub(super) fn write_tail(
        cx: &Context<'_, T>,
        io: &mut Io,
        file: OpenFile<T>,
        tail: &Tail,
    ) -> StreamStep<T> {
        let length = tail.bytes.len();
        let mut buffer = io.take_buffer(length);
        buffer.bytes_mut()[..length].copy_from_slice(&tail.bytes);
        // A stream at its end: the bytes were read and counted before.
        let mut stream = Self::new(Arc::new(file), tail.offset..tail.offset, Transfer::Blocks(Holes::Read));
        stream.block = BlockState::Writing { read: 0, current: 0..length, rest: Vec::new() };
        stream.write(cx, io, buffer)
    }

    // The compared file.

    /// Reads the same range of the compared file.
    fn read_other(mut self, io: &mut Io, (first, read): (Buffer, usize)) -> StreamStep<T> {
        let Some(file) = self.file.other.clone() else { return StreamStep::Done(self) };
        let (offset, buffer) = (self.position, io.take_buffer(read));
        let length = read.min(buffer.capacity());
        self.block = BlockState::Comparing { buffer: first, read };
        let (wait, cache) = (Wait::Allowed, CacheMode::Keep);
        StreamStep::Call(self, Call::Read { file, offset, buffer, length, wait, cache })
    }

    /// Shows the tool a block and the same range of the compared file. After a short read of the
    /// latter, the rest is read again with the next block.
    fn read_compared(
        mut self,
        cx: &Context<'_, T>,
        io: &mut Io,
        other: Buffer,
        result: Result<usize, Error>,
    ) -> StreamStep<T> {
        let BlockState::Comparing { buffer, read } = std::mem::replace(&mut self.block, BlockState::Idle)
        else {
            io.return_buffer(other);
            return self.next(cx, io);
        };
        if let (Ok(0), false) = (&result, self.end_doubted) {
            // An EOF of the compared file must be confirmed too.
            self.end_doubted = true;
            io.return_buffer(other);
            return self.read_other(io, (buffer, read));
        }
        self.end_doubted = false;
        let outcome = result.map(|length| {
            // EOF: the compared file ends here.
            let taken = if length == 0 { read } else { length };
            let (bytes, other) = (&buffer.bytes()[..taken], &other.bytes()[..length]);
            cx.tool().block(&self.file, Block { offset: self.position, bytes, other });
            taken as u64
        });
        io.return_buffer(buffer);
        io.return_buffer(other);
        match outcome {
            Ok(bytes) => {
                self.position += bytes;
                cx.moved(bytes);
                self.next(cx, io)
            }
            Err(cause) => self.fail(cx, EntryFailure::ReadCompared(&cause)),
        }
    }
}
