//! A lane: one worker moving one piece of a file after another.
//!
//! A file has one lane, or several: those of other workers, where a large file was cut in ranges, and those of the same
//! worker, where its engine is to have several operations in flight for one file ([`Ops::Multi`], [`Ops::Batch`]). The
//! latter take their blocks from a common row ([`Row`]).
//!
//! ```text
//!             ┌──────────── next block ───────────┐
//!             ▼                                   │
//!  advance ─► Read ─► tool looks ─► Write ... ────┤     engines that read and write one after the other
//!             Pair ─► what is left: Write ... ────┤     engines that do both in one go
//!             CopyRange ──────────────────────────┘     the kernel copies by itself
//! ```
//!
//! Invariant: a file is at its end when as many bytes as `fstat` counted have been moved, or when `read` returned 0;
//! a 0 before the counted size is asked for once more, and a 0 of `copy_file_range` means nothing at all.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_engine::{Call, Ops, Outcome, Wait};
use haul_sys::{Buffer, Cache, Errno, Error, Fd, Operation, Seek, seek};

use super::file::State;
use super::worker::Worker;
use crate::node::Node;
use crate::report::Tally;
use crate::route::{Special, Tail, Writable};
use crate::tool::{Block, Failure, Holes, OpenFile, Tool, Transfer, Write};

/// Bytes the kernel is asked to copy at a time: long enough to cost nothing, short enough to show progress.
const KERNEL_COPY_BYTES: u64 = 8 << 20;

/// A range of a file being moved by one worker.
pub(super) struct Lane<T: Tool> {
    file: Arc<OpenFile<T>>,
    position: u64,
    end: u64,
    data_end: u64,
    end_doubted: bool,
    doing: Doing,
    transfer: Transfer,
    /// What is special about the transfer in flight.
    tried: Special,
    /// Where the next block comes from, if several lanes of one worker share a range.
    row: Option<Arc<Row>>,
}

/// The blocks of a range, each of which one lane takes.
struct Row {
    next: AtomicU64,
    end: u64,
    block_bytes: u64,
}

impl Row {
    /// Takes the next block, if one is left.
    fn take(&self) -> Option<Range<u64>> {
        let start = self.next.fetch_add(self.block_bytes, Ordering::Relaxed);
        (start < self.end).then(|| start..self.end.min(start.saturating_add(self.block_bytes)))
    }
}

/// What of a block remains to be written.
enum Doing {
    Nothing,
    /// What was read of the source waits for the same range of the file beside it.
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

impl<T: Tool> Lane<T> {
    /// Returns the directory that the file is in.
    pub(super) fn node(&self) -> &Node<T> {
        &self.file.found.node
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
            row: None,
        }
    }

    /// Makes a lane that takes its blocks from a row.
    fn of_row(file: Arc<OpenFile<T>>, row: Arc<Row>, transfer: Transfer) -> Self {
        Self { row: Some(row), ..Self::new(file, 0..0, transfer) }
    }

    /// Goes on to the next block of the row; returns whether there is one.
    fn take_from_row(&mut self) -> bool {
        let Some(block) = self.row.as_ref().and_then(|row| row.take()) else { return false };
        (self.position, self.end, self.data_end) = (block.start, block.end, block.end);
        true
    }

    /// Tells whether it is known where the file ends, so that as many bytes may be asked for as are left.
    fn has_known_end(&self) -> bool {
        self.end != u64::MAX
    }
}

impl<T: Tool> Worker<'_, T> {
    /// Begins to move a range of a file: in one lane, or in as many as the engine is to have. `block` is what was read of
    /// it already.
    pub(super) fn move_range(&mut self, slot: usize, lane: Lane<T>, block: Option<(Buffer, usize)>) {
        self.desk.attend(Some(lane.node()));
        if let Some((buffer, length)) = block {
            return self.take_block(slot, lane, buffer, length);
        }
        let lanes = self.lanes_for(&lane);
        if lanes <= 1 {
            return self.advance_lane(slot, lane);
        }
        let Lane { file, position, end, transfer, .. } = lane;
        let row = Row { next: AtomicU64::new(position), end, block_bytes: self.block_bytes as u64 };
        let row = Arc::new(row);
        for _ in 1..lanes {
            let beside = self.occupy(State::Free);
            self.advance_lane(beside, Lane::of_row(Arc::clone(&file), Arc::clone(&row), transfer));
        }
        self.advance_lane(slot, Lane::of_row(file, row, transfer));
    }

    /// Says in how many lanes a range is best moved.
    fn lanes_for(&self, lane: &Lane<T>) -> u64 {
        let several = matches!(self.desk.run.settings.ops, Some(Ops::Multi | Ops::Batch));
        if !several || !lane.has_known_end() || lane.transfer != Transfer::Blocks(Holes::Read) {
            return 1;
        }
        let blocks = (lane.end - lane.position).div_ceil(self.block_bytes as u64);
        blocks.min(self.room() as u64)
    }

    /// Takes the next piece of a lane's range in hand, or ends the lane.
    pub(super) fn advance_lane(&mut self, slot: usize, mut lane: Lane<T>) {
        if lane.file.has_failed() || (lane.position >= lane.end && !lane.take_from_row()) {
            return self.end_lane(slot, lane);
        }
        if lane.position >= lane.data_end {
            match next_data(&lane) {
                Ok(Some(data)) => {
                    self.count(Tally { bytes: data.start - lane.position, ..Tally::default() });
                    (lane.position, lane.data_end) = (data.start, data.end);
                }
                Ok(None) => {
                    self.count(Tally { bytes: lane.end - lane.position, ..Tally::default() });
                    return self.end_lane(slot, lane);
                }
                Err(cause) => return self.fail_lane(slot, lane, Failure::Read(&cause)),
            }
        }
        lane.tried = lane.file.route.special();
        let call = self.next_call(&lane);
        self.submit(slot, State::Moving(lane), call);
    }

    /// Words what is to be done next for a lane that is not at its end.
    fn next_call(&mut self, lane: &Lane<T>) -> Call {
        let left = lane.data_end - lane.position;
        let (offset, cache) = (lane.position, lane.file.route.cache());
        let source = Arc::clone(&lane.file.source);
        match (lane.transfer, &lane.file.target) {
            (Transfer::Kernel(_), Some(target)) => Call::CopyRange {
                source,
                target: Arc::clone(target),
                offset,
                length: usize::try_from(left.min(KERNEL_COPY_BYTES)).unwrap_or(usize::MAX),
            },
            (Transfer::Blocks(_), Some(target)) if self.does_pairs(lane) => {
                let (target, buffer) = (Arc::clone(target), self.take_buffer());
                let length = lane.file.route.whole_sectors(self.length_of_block(left));
                Call::Pair { source, target, offset, buffer, length, cache }
            }
            _ => {
                let buffer = self.take_buffer();
                let length =
                    lane.file.route.sectors_around(self.length_of_block(left)).min(buffer.capacity());
                Call::Read { file: source, offset, buffer, length, wait: Wait::Allowed, cache }
            }
        }
    }

    /// Tells whether the engine may write what it reads without anybody looking at it in between. Only where the length is
    /// known: a pair asks for bytes that are there.
    fn does_pairs(&self, lane: &Lane<T>) -> bool {
        let length = self.length_of_block(lane.data_end - lane.position);
        self.pairs
            && lane.has_known_end()
            && !lane.end_doubted
            && lane.file.route.whole_sectors(length) > 0
            && !lane.file.inspect
    }

    /// Goes on after an operation of a lane.
    pub(super) fn moved(&mut self, slot: usize, lane: Lane<T>, outcome: Outcome) {
        match outcome {
            Outcome::Read { buffer, result } => {
                let result = result.map(Option::unwrap_or_default);
                match lane.doing {
                    Doing::Beside { .. } => self.has_read_beside(slot, lane, buffer, result),
                    _ => self.has_read(slot, lane, buffer, result),
                }
            }
            Outcome::Paired { buffer, read: Ok(read @ 1..), written } => {
                self.paired(slot, lane, (buffer, read), written);
            }
            Outcome::Paired { buffer, read, .. } => self.has_read(slot, lane, buffer, read),
            Outcome::Wrote { buffer, result } => self.wrote(slot, lane, buffer, result),
            Outcome::Copied(result) => self.copied(slot, lane, result),
            _ => self.slots[slot] = Some(State::Moving(lane)),
        }
    }

    fn has_read(&mut self, slot: usize, lane: Lane<T>, buffer: Buffer, result: Result<usize, Error>) {
        let cause = match result {
            Ok(length) if length > 0 => return self.take_block(slot, lane, buffer, length),
            Ok(_) => {
                self.return_buffer(buffer);
                return self.reached_end(slot, lane);
            }
            Err(cause) => cause,
        };
        self.return_buffer(buffer);
        if self.takes_the_plain_path(&lane, &cause) {
            return self.advance_lane(slot, lane);
        }
        self.fail_lane(slot, lane, Failure::Read(&cause));
    }

    /// Goes on after a pair that has read something: what it has not written is still to be.
    fn paired(
        &mut self,
        slot: usize,
        mut lane: Lane<T>,
        (buffer, read): (Buffer, usize),
        written: Result<usize, Error>,
    ) {
        lane.end_doubted = false;
        lane.file.note_block();
        let done = written.as_ref().copied().unwrap_or(0).min(read);
        lane.doing = Doing::Writing { read, current: done..read, rest: Vec::new() };
        match written {
            Ok(_) => self.write_on(slot, lane, buffer),
            Err(cause) => self.wrote(slot, lane, buffer, Err(cause)),
        }
    }

    /// Deals with a read of 0 bytes.
    fn reached_end(&mut self, slot: usize, mut lane: Lane<T>) {
        if lane.has_known_end() && !lane.end_doubted {
            lane.end_doubted = true;
            return self.advance_lane(slot, lane);
        }
        lane.file.note_end(lane.position);
        self.end_lane(slot, lane);
    }

    /// Shows the tool a block and writes what it wants written.
    fn take_block(&mut self, slot: usize, mut lane: Lane<T>, buffer: Buffer, length: usize) {
        // Past the page cache whole sectors are read, and a file may have grown: no more than the lane's range counts.
        let left = usize::try_from(lane.end - lane.position).unwrap_or(usize::MAX);
        let length = length.min(left);
        lane.end_doubted = false;
        lane.file.note_block();
        if let Some(other) = lane.file.other.clone() {
            return self.read_beside(slot, lane, other, (buffer, length));
        }
        let block = Block { offset: lane.position, bytes: &buffer.bytes()[..length], other: &[] };
        let write = if lane.file.inspect { self.desk.tool().block(&lane.file, block) } else { Write::All };
        let (current, mut rest) = match write {
            Write::End => {
                self.return_buffer(buffer);
                lane.file.note_end(lane.position);
                return self.end_lane(slot, lane);
            }
            _ if lane.file.target.is_none() => (0..0, Vec::new()),
            Write::All => (0..length, Vec::new()),
            Write::Parts(parts) => (0..0, parts),
            Write::Nothing => (0..0, Vec::new()),
        };
        rest.reverse();
        lane.doing = Doing::Writing { read: length, current, rest };
        self.write_on(slot, lane, buffer);
    }

    /// Reads the range of a block in the file beside.
    fn read_beside(
        &mut self,
        slot: usize,
        mut lane: Lane<T>,
        file: Arc<Fd>,
        (first, length): (Buffer, usize),
    ) {
        let (offset, buffer) = (lane.position, self.take_buffer());
        let length = length.min(buffer.capacity());
        lane.doing = Doing::Beside { buffer: first, read: length };
        let call = Call::Read { file, offset, buffer, length, wait: Wait::Allowed, cache: Cache::Keep };
        self.submit(slot, State::Moving(lane), call);
    }

    /// Shows the tool a block and what was read beside it. What is missing of the latter is read again, with the next block.
    fn has_read_beside(
        &mut self,
        slot: usize,
        mut lane: Lane<T>,
        beside: Buffer,
        result: Result<usize, Error>,
    ) {
        let Doing::Beside { buffer, read } = std::mem::replace(&mut lane.doing, Doing::Nothing) else {
            return self.return_buffer(beside);
        };
        if let (Ok(0), false, Some(file)) = (&result, lane.end_doubted, lane.file.other.clone()) {
            // As an end of the source, one of the file beside is believed when it is said twice.
            lane.end_doubted = true;
            self.return_buffer(beside);
            return self.read_beside(slot, lane, file, (buffer, read));
        }
        lane.end_doubted = false;
        let outcome = result.map(|length| {
            // Nothing at all: the file beside ends here.
            let taken = if length == 0 { read } else { length };
            let (bytes, other) = (&buffer.bytes()[..taken], &beside.bytes()[..length]);
            self.desk.tool().block(&lane.file, Block { offset: lane.position, bytes, other });
            taken as u64
        });
        self.return_buffer(buffer);
        self.return_buffer(beside);
        match outcome {
            Ok(taken) => {
                lane.position += taken;
                self.count(Tally { bytes: taken, ..Tally::default() });
                self.advance_lane(slot, lane);
            }
            Err(cause) => {
                if lane.file.fail() {
                    self.desk.report_failure(&lane.file.found, Failure::ReadCompared(&cause));
                }
                self.end_lane(slot, lane);
            }
        }
    }

    /// Writes the next part of a block, or goes on to the next block.
    fn write_on(&mut self, slot: usize, mut lane: Lane<T>, buffer: Buffer) {
        let Doing::Writing { read, rest, current } = &mut lane.doing else {
            return self.return_buffer(buffer);
        };
        if current.start >= current.end {
            match rest.pop() {
                Some(part) => *current = part,
                None => {
                    let read = *read;
                    lane.doing = Doing::Nothing;
                    lane.position += read as u64;
                    self.return_buffer(buffer);
                    self.count(Tally { bytes: read as u64, ..Tally::default() });
                    return self.advance_lane(slot, lane);
                }
            }
        }
        let (range, Some(target)) = (current.clone(), &lane.file.target) else {
            rest.clear();
            *current = 0..0;
            return self.write_on(slot, lane, buffer);
        };
        let offset = lane.position + range.start as u64;
        lane.tried = lane.file.route.special();
        match lane.file.route.writable(target, offset, (buffer.bytes(), range)) {
            Ok(Writable::Now(range)) => {
                let (file, cache) = (Arc::clone(target), lane.file.route.cache());
                self.submit(slot, State::Moving(lane), Call::Write { file, offset, buffer, range, cache });
            }
            Ok(Writable::Last) => {
                *current = 0..0;
                self.write_on(slot, lane, buffer);
            }
            Err(cause) => {
                self.return_buffer(buffer);
                self.fail_lane(slot, lane, Failure::WriteTarget(&cause));
            }
        }
    }

    /// Writes what was kept of a file until everything else of it was written.
    pub(super) fn write_tail(&mut self, slot: usize, file: OpenFile<T>, tail: &Tail) {
        let mut buffer = self.take_buffer();
        let length = tail.bytes.len();
        buffer.bytes_mut()[..length].copy_from_slice(&tail.bytes);
        // A lane at its end, as the bytes were read and counted.
        let mut lane = Lane::new(Arc::new(file), tail.offset..tail.offset, Transfer::Blocks(Holes::Read));
        lane.doing = Doing::Writing { read: 0, current: 0..length, rest: Vec::new() };
        self.write_on(slot, lane, buffer);
    }

    fn wrote(&mut self, slot: usize, mut lane: Lane<T>, buffer: Buffer, result: Result<usize, Error>) {
        let cause = match result {
            Ok(written) if written > 0 => {
                if let Doing::Writing { current, .. } = &mut lane.doing {
                    current.start = (current.start + written).min(current.end);
                }
                return self.write_on(slot, lane, buffer);
            }
            // A write of nothing without an error: the same as no space, as GNU takes it.
            Ok(_) => Error::new(Operation::Write, "0 bytes written".to_owned(), Errno::NOSPC),
            Err(cause) if self.takes_the_plain_path(&lane, &cause) => {
                return self.write_on(slot, lane, buffer);
            }
            Err(cause) => cause,
        };
        self.return_buffer(buffer);
        self.fail_lane(slot, lane, Failure::WriteTarget(&cause));
    }

    /// Tells whether what failed is to be tried again without what is special about the file's way.
    fn takes_the_plain_path(&self, lane: &Lane<T>, cause: &Error) -> bool {
        let file = &lane.file;
        let plainer = file.route.becomes_plainer(cause, lane.tried, &file.source, file.target.as_ref());
        if plainer {
            let name = String::from_utf8_lossy(&file.found.path()).into_owned();
            self.desk.report().debug(&format!("{name}: goes on through the page cache: {cause:#}"));
        }
        plainer
    }

    /// Goes on after `copy_file_range`; where the kernel cannot, or pretends that the file has ended, in blocks.
    fn copied(&mut self, slot: usize, mut lane: Lane<T>, result: Result<usize, Error>) {
        match result {
            Ok(copied) if copied > 0 => {
                lane.file.note_kernel();
                lane.position += copied as u64;
                self.count(Tally { bytes: copied as u64, ..Tally::default() });
            }
            Err(cause) if matches!(cause.errno(), Errno::NOSPC | Errno::DQUOT | Errno::IO) => {
                return self.fail_lane(slot, lane, Failure::WriteTarget(&cause));
            }
            Ok(_) | Err(_) => lane.transfer = lane.transfer.in_blocks(),
        }
        self.advance_lane(slot, lane);
    }

    fn fail_lane(&mut self, slot: usize, lane: Lane<T>, failure: Failure<'_>) {
        // Of several lanes that meet the same full disk, one reports it.
        if lane.file.fail() {
            self.desk.report_failure(&lane.file.found, failure);
        }
        self.end_lane(slot, lane);
    }

    fn end_lane(&mut self, slot: usize, lane: Lane<T>) {
        let Lane { file, row, .. } = lane;
        let is_last_here = row.is_none_or(|row| Arc::into_inner(row).is_some());
        self.let_go(slot, file, is_last_here);
    }
}

/// Finds the data at or after a lane's position; `None` when only holes are left in its range.
fn next_data<T: Tool>(lane: &Lane<T>) -> Result<Option<Range<u64>>, Error> {
    let source = &lane.file.source;
    let start = match seek(source, Seek::Data, lane.position) {
        Ok(Some(start)) if start < lane.end => start,
        Ok(_) => return Ok(None),
        // The file system cannot tell: all of it is data.
        Err(cause) if cause.is(Errno::INVAL) || cause.is(Errno::OPNOTSUPP) => {
            return Ok(Some(lane.position..lane.end));
        }
        Err(cause) => return Err(cause),
    };
    let hole = seek(source, Seek::Hole, start)?.unwrap_or(lane.end);
    Ok(Some(start..hole.clamp(start + 1, lane.end)))
}
