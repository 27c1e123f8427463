//! One file on its way through a worker: the transitions between its states.
//!
//! Invariant: a file is at its end when as many bytes as `fstat` counted have been moved, or when `read` returned 0;
//! a 0 before the counted size is asked for once more, and a 0 of `copy_file_range` means nothing at all.

use std::ops::Range;
use std::sync::Arc;

use haul_engine::{Call, Outcome, Wait};
use haul_sys::{Advice, Buffer, Cache, Errno, Error, Fd, FileType, Operation, Seek, Stat};
use haul_sys::{Open, advise, seek};

use super::Job;
use super::walk::replaced;
use super::worker::Worker;
use crate::node::Found;
use crate::plan;
use crate::report::{Problem, Tally, Wording};
use crate::tool::{Begin, Block, OpenFile, OpenedFile, Tool, Transfer};
use crate::wording;

/// Files at most this long are fetched whole by the read that found them absent; longer ones are worth an advice.
const FETCHED_BY_READ_BYTES: u64 = 64 << 10;

/// Files at least this long are worth telling the kernel that they are read in order.
const SEQUENTIAL_BYTES: u64 = 1 << 20;

/// How much of a large file is asked for ahead; the kernel's own read-ahead goes on from there.
const FETCH_AHEAD_BYTES: u64 = 2 << 20;

/// Bytes the kernel is asked to copy at a time: long enough to cost nothing, short enough to show progress.
const KERNEL_COPY_BYTES: u64 = 8 << 20;

/// Where a file is in its life.
pub(super) enum State<T: Tool> {
    /// Just given a slot.
    Free,
    /// Its open is in flight.
    Opening(Found<T>),
    /// Its fstat is in flight.
    Looking(Found<T>, Arc<Fd>),
    /// Its first block is being looked for; or it is parked.
    Probing(Looked<T>),
    /// Its content is being moved.
    Moving(Lane<T>),
    /// Its target is being closed.
    ClosingTarget(Ending<T>),
    /// Its source is being closed.
    ClosingSource(Ending<T>),
}

/// A file that was opened and looked at.
pub(super) struct Looked<T: Tool> {
    found: Found<T>,
    source: Arc<Fd>,
    stat: Stat,
}

/// A range of a file being moved by one worker.
pub(super) struct Lane<T: Tool> {
    file: Arc<OpenFile<T>>,
    position: u64,
    end: u64,
    data_end: u64,
    end_doubted: bool,
    doing: Doing,
    transfer: Transfer,
}

/// What of a block remains to be written.
enum Doing {
    Nothing,
    Writing { read: usize, current: Range<usize>, rest: Vec<Range<usize>> },
}

/// A file whose content is where it belongs, or has failed to be.
pub(super) struct Ending<T: Tool> {
    found: Found<T>,
    source: Option<Arc<Fd>>,
    own: Option<T::File>,
    moved: bool,
    settles: bool,
}

impl<T: Tool> Lane<T> {
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
        }
    }
}

impl<T: Tool> Worker<'_, T> {
    /// Begins a file: opens it.
    pub(super) fn open(&mut self, found: Found<T>, follow: bool) {
        let directory = match self.desk.cache().open(&found.node.source) {
            Ok(directory) => directory,
            Err(cause) => return self.desk.give_up(&found, wording::CANNOT_ACCESS, cause),
        };
        let how = if follow { Open::READ.following() } else { Open::READ };
        let name = found.name.clone();
        let slot = self.occupy(State::Free);
        self.submit(slot, State::Opening(found), Call::Open { directory, name, how });
    }

    pub(super) fn opened(&mut self, slot: usize, found: Found<T>, result: Result<Fd, Error>) {
        match result {
            Ok(source) => {
                let source = Arc::new(source);
                let call = Call::Stat { file: Arc::clone(&source) };
                self.submit(slot, State::Looking(found, source), call);
            }
            Err(cause) => {
                self.vacate(slot);
                match cause.errno() {
                    Errno::NOENT => self.desk.give_up(&found, wording::CANNOT_STAT, cause),
                    _ if replaced(&cause) => self.desk.give_up_replaced(&found),
                    _ => self.desk.give_up(&found, wording::CANNOT_OPEN, cause),
                }
            }
        }
    }

    pub(super) fn looked(
        &mut self,
        slot: usize,
        found: Found<T>,
        source: Arc<Fd>,
        result: Result<Stat, Error>,
    ) {
        let stat = match result {
            Ok(stat) => stat,
            Err(cause) => {
                let path = found.path();
                self.desk.problem(Problem::new(wording::CANNOT_FSTAT).naming(path).because(cause));
                return self.abandon(slot, found, source);
            }
        };
        let another = found.seen.is_some_and(|seen| seen != stat.identity);
        if another || stat.kind != FileType::Regular {
            self.desk.problem(Problem::new(wording::REPLACED).naming(found.path()));
            return self.abandon(slot, found, source);
        }
        let probe = stat.size > 0 && !stat.is_sparse() && self.desk.tool().reads_first(&found, &stat);
        let look = Looked { found, source, stat };
        if probe { self.probe(slot, look) } else { self.begin(slot, look, None) }
    }

    /// Looks for the first block in the page cache.
    fn probe(&mut self, slot: usize, look: Looked<T>) {
        let buffer = self.take_buffer();
        let length = self.length_of_block(look.stat.size);
        let file = Arc::clone(&look.source);
        let wait = if self.slots.len() > 1 { Wait::Never } else { Wait::Allowed };
        self.submit(
            slot,
            State::Probing(look),
            Call::Read { file, offset: 0, buffer, length, wait, cache: Cache::Keep },
        );
    }

    fn length_of_block(&self, bytes: u64) -> usize {
        usize::try_from(bytes).unwrap_or(usize::MAX).min(self.block_bytes)
    }

    pub(super) fn probed(
        &mut self,
        slot: usize,
        look: Looked<T>,
        buffer: Buffer,
        result: Result<Option<usize>, Error>,
    ) {
        match result {
            Ok(Some(length)) if length > 0 => {
                self.note_presence(true);
                self.begin(slot, look, Some((buffer, length)));
            }
            Ok(None) => {
                self.note_presence(false);
                self.return_buffer(buffer);
                if look.stat.size > FETCHED_BY_READ_BYTES {
                    // Only advice: a refusal changes nothing but the speed.
                    advise(&look.source, Advice::WillNeed, look.stat.size.min(FETCH_AHEAD_BYTES))
                        .unwrap_or_default();
                }
                self.slots[slot] = Some(State::Probing(look));
                self.parked.push_back(slot);
            }
            // An end where none was expected, or an error: the lane asks again, and says what it finds.
            Ok(Some(_)) | Err(_) => {
                self.return_buffer(buffer);
                self.begin(slot, look, None);
            }
        }
    }

    /// Goes on with a file whose data the kernel was asked for.
    pub(super) fn resume(&mut self, slot: usize) {
        if let Some(State::Probing(look)) = self.slots[slot].take() {
            self.begin(slot, look, None);
        }
    }

    /// Lets the tool begin the file and starts to move its content; `block` is what was read of it already.
    fn begin(&mut self, slot: usize, look: Looked<T>, block: Option<(Buffer, usize)>) {
        let Looked { found, source, stat } = look;
        let begun = self.desk.tool().begin(&self.desk, &found, &OpenedFile { source: &source, stat: &stat });
        let (own, target, transfer) = match begun {
            Begin::Move { own, target, transfer } => (own, target, transfer),
            Begin::Over => {
                self.discard(block);
                return self.abandon(slot, found, source);
            }
            Begin::Deferred => {
                self.discard(block);
                let ending = Ending { found, source: Some(source), own: None, moved: true, settles: false };
                return self.close_source(slot, ending);
            }
        };
        let file = Arc::new(OpenFile::new(found, source, stat, target, own));
        if transfer == Transfer::Nothing {
            self.discard(block);
            return self.finish(slot, file);
        }
        if file.stat.size >= SEQUENTIAL_BYTES {
            // Only advice: the kernel reads further ahead, or does not.
            advise(&file.source, Advice::Sequential, 0).unwrap_or_default();
        }
        let lane = self.share_ranges(file, transfer);
        match block {
            Some((buffer, length)) => self.take_block(slot, lane, buffer, length),
            None => self.advance_lane(slot, lane),
        }
    }

    /// Cuts a large file in ranges, offers all but the first to everybody, and returns the lane of the first.
    fn share_ranges(&self, file: Arc<OpenFile<T>>, transfer: Transfer) -> Lane<T> {
        let size = file.stat.size;
        if size == 0 {
            return Lane::new(file, 0..u64::MAX, transfer);
        }
        let range_bytes = self.desk.run.settings.range_bytes.max(self.block_bytes as u64);
        let mut ranges = plan::ranges(size, range_bytes, u64::from(file.stat.block_size));
        let first = ranges.next().unwrap_or(0..size);
        for range in ranges {
            self.desk.share(Job::Range(Arc::clone(&file), range, transfer));
        }
        Lane::new(file, first, transfer)
    }

    fn discard(&mut self, block: Option<(Buffer, usize)>) {
        if let Some((buffer, _)) = block {
            self.return_buffer(buffer);
        }
    }

    /// Takes the next piece of a lane's range in hand, or ends the lane.
    pub(super) fn advance_lane(&mut self, slot: usize, mut lane: Lane<T>) {
        if lane.position >= lane.end || lane.file.has_failed() {
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
                Err(cause) => return self.fail_lane(slot, lane, wording::ERROR_READING, cause),
            }
        }
        let left = lane.data_end - lane.position;
        let file = Arc::clone(&lane.file.source);
        let call = match (lane.transfer, &lane.file.target) {
            (Transfer::Kernel(_), Some(target)) => Call::CopyRange {
                source: file,
                target: Arc::clone(target),
                offset: lane.position,
                length: usize::try_from(left.min(KERNEL_COPY_BYTES)).unwrap_or(usize::MAX),
            },
            _ => {
                let (buffer, length) = (self.take_buffer(), self.length_of_block(left));
                Call::Read {
                    file,
                    offset: lane.position,
                    buffer,
                    length,
                    wait: Wait::Allowed,
                    cache: Cache::Keep,
                }
            }
        };
        self.submit(slot, State::Moving(lane), call);
    }

    pub(super) fn moved(&mut self, slot: usize, lane: Lane<T>, outcome: Outcome) {
        match outcome {
            Outcome::Read { buffer, result } => match result {
                Ok(Some(length)) if length > 0 => self.take_block(slot, lane, buffer, length),
                Ok(_) => {
                    self.return_buffer(buffer);
                    self.reached_end(slot, lane);
                }
                Err(cause) => {
                    self.return_buffer(buffer);
                    self.fail_lane(slot, lane, wording::ERROR_READING, cause);
                }
            },
            Outcome::Wrote { buffer, result } => self.wrote(slot, lane, buffer, result),
            Outcome::Copied(result) => self.copied(slot, lane, result),
            _ => self.slots[slot] = Some(State::Moving(lane)),
        }
    }

    /// Deals with a read of 0 bytes.
    fn reached_end(&mut self, slot: usize, mut lane: Lane<T>) {
        let expected = lane.end != u64::MAX;
        if expected && !lane.end_doubted {
            lane.end_doubted = true;
            return self.advance_lane(slot, lane);
        }
        lane.file.note_end(lane.position);
        self.end_lane(slot, lane);
    }

    /// Shows the tool a block and writes what it wants written.
    fn take_block(&mut self, slot: usize, mut lane: Lane<T>, buffer: Buffer, length: usize) {
        lane.end_doubted = false;
        lane.file.note_block();
        let (current, mut rest) =
            match self.desk.tool().block(&lane.file, lane.position, &buffer.bytes()[..length]) {
                _ if lane.file.target.is_none() => (0..0, Vec::new()),
                Block::Keep => (0..length, Vec::new()),
                Block::Parts(parts) => (0..0, parts),
                Block::Taken => (0..0, Vec::new()),
            };
        rest.reverse();
        lane.doing = Doing::Writing { read: length, current, rest };
        self.write_on(slot, lane, buffer);
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
        let call = Call::Write {
            file: Arc::clone(target),
            offset: lane.position + range.start as u64,
            buffer,
            range,
            cache: Cache::Keep,
        };
        self.submit(slot, State::Moving(lane), call);
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
            Err(cause) => cause,
        };
        self.return_buffer(buffer);
        self.fail_lane(slot, lane, wording::ERROR_WRITING, cause);
    }

    /// Goes on after `copy_file_range`; where the kernel cannot, or pretends that the file has ended, in blocks.
    fn copied(&mut self, slot: usize, mut lane: Lane<T>, result: Result<usize, Error>) {
        match result {
            Ok(copied) if copied > 0 => {
                lane.position += copied as u64;
                self.count(Tally { bytes: copied as u64, ..Tally::default() });
            }
            Err(cause) if matches!(cause.errno(), Errno::NOSPC | Errno::DQUOT | Errno::IO) => {
                return self.fail_lane(slot, lane, wording::ERROR_WRITING, cause);
            }
            Ok(_) | Err(_) => lane.transfer = lane.transfer.in_blocks(),
        }
        self.advance_lane(slot, lane);
    }

    fn fail_lane(&mut self, slot: usize, lane: Lane<T>, wording: Wording, cause: Error) {
        let found = &lane.file.found;
        let path = if wording == wording::ERROR_READING {
            found.path()
        } else {
            self.desk.tool().target_path(found)
        };
        self.desk.problem(Problem::new(wording).naming(path).because(cause));
        lane.file.fail();
        self.end_lane(slot, lane);
    }

    fn end_lane(&mut self, slot: usize, lane: Lane<T>) {
        self.finish(slot, lane.file);
    }

    /// Finishes a file when its last lane has ended: of the workers that let go of it, exactly one is the last.
    fn finish(&mut self, slot: usize, file: Arc<OpenFile<T>>) {
        let Some(file) = Arc::into_inner(file) else { return self.vacate(slot) };
        let moved = !file.has_failed() && self.desk.tool().finish(&self.desk, &file);
        let OpenFile { found, source, target, own, .. } = file;
        let ending = Ending { found, source: Some(source), own: Some(own), moved, settles: true };
        match target.map(Arc::into_inner) {
            None => self.close_source(slot, ending),
            Some(Some(file)) => self.submit(slot, State::ClosingTarget(ending), Call::Close { file }),
            // A ring that broke down may hold the file still: nobody will learn whether its close lost anything.
            Some(None) => {
                let held = Error::new(Operation::Close, "held by a broken ring".to_owned(), Errno::BUSY);
                self.target_closed(slot, ending, Err(held));
            }
        }
    }

    /// Ends a file that is over before anything was moved.
    fn abandon(&mut self, slot: usize, found: Found<T>, source: Arc<Fd>) {
        self.close_source(
            slot,
            Ending { found, source: Some(source), own: None, moved: false, settles: true },
        );
    }

    pub(super) fn target_closed(&mut self, slot: usize, mut ending: Ending<T>, result: Result<(), Error>) {
        if let Err(cause) = result {
            let path = self.desk.tool().target_path(&ending.found);
            self.desk.problem(Problem::new(wording::FAILED_TO_CLOSE).naming(path).because(cause));
            ending.moved = false;
        }
        self.close_source(slot, ending);
    }

    fn close_source(&mut self, slot: usize, mut ending: Ending<T>) {
        match ending.source.take().and_then(Arc::into_inner) {
            Some(file) => self.submit(slot, State::ClosingSource(ending), Call::Close { file }),
            None => self.source_closed(slot, ending, Ok(())),
        }
    }

    pub(super) fn source_closed(&mut self, slot: usize, mut ending: Ending<T>, result: Result<(), Error>) {
        if let Err(cause) = result {
            let path = ending.found.path();
            self.desk.problem(Problem::new(wording::FAILED_TO_CLOSE).naming(path).because(cause));
            ending.moved = false;
        }
        self.vacate(slot);
        if let Some(own) = ending.own {
            self.desk.tool().end(&self.desk, &ending.found, own, ending.moved);
        }
        if ending.settles {
            self.desk.settle(&ending.found);
        }
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
