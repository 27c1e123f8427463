//! One file on its way through a worker, from its open to its two closes. In between, `stream.rs`
//! moves its content.
//!
//! Each state has one call in flight. Its outcome determines the next step ([`FileStep`]), which
//! the worker performs: a call in another state, or the end of the file.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use haul_engine::{Call, Outcome, Wait};
use haul_sys::{Advice, Buffer, CacheMode, Errno, Error, Fd, FileType, Open, Operation, Stat};
use haul_sys::{advise, advise_range, is_in_memory, stat_path, truncate};

use super::io::{Io, SMALL_BYTES};
use super::prepare::{self, FETCH_AHEAD_BYTES, ranges_of};
use super::stream::{Stream, StreamStep};
use crate::cache_policy::CachePolicy;
use crate::context::{ClosedFile, Context};
use crate::decision::{EntryFailure, FileRange, Finished, Holes, OpenSource, Probe, Start, Transfer};
use crate::limits::{Limits, Side, measure_call};
use crate::open_file::MoveSetup;
use crate::tool::{Entry, Job, OpenFile, Tool};

/// Sizes of files, in bytes, that are worth a `posix_fadvise` while they wait for their turn. The
/// probing read makes the kernel fetch smaller ones whole. Larger ones would keep the disk from the
/// file that is being copied (docs/measurements/choices.md).
const ADVISED_BYTES: Range<u64> = (64 << 10) + 1..256 << 10;

/// State of a file in a slot.
pub(super) enum FileState<T: Tool> {
    /// Its open is in flight.
    Opening(Opening<T>),
    /// Its `fstat` is in flight.
    Stating(Opening<T>, Arc<Fd>),
    /// The read of its first block is in flight, or it is parked.
    Probing(StatedFile<T>),
    /// Its content is being moved.
    Moving(Stream<T>),
    /// The close of its target is in flight.
    ClosingTarget(ClosingFile<T>),
    /// The close of its source is in flight.
    ClosingSource(ClosingFile<T>),
}

/// Next action for a file.
pub(super) enum FileStep<T: Tool> {
    /// Submit a call, and continue with its outcome in this state.
    Call(FileState<T>, Call),
    /// Wait while the kernel fetches the first block.
    Park(StatedFile<T>),
    /// Begin these streams, the first ones in slots of their own.
    Streams(Vec<Stream<T>>),
    /// Free the slot. The worker has other streams of the file.
    StreamDone,
    /// Free the slot. The worker is done with the file.
    FileDone,
    /// Keep this state: the outcome belongs to another call.
    Other(FileState<T>),
}

impl<T: Tool> FileState<T> {
    pub(super) fn entry(&self) -> &Entry<T> {
        match self {
            Self::Opening(opening) | Self::Stating(opening, _) => &opening.entry,
            Self::Probing(file) => &file.entry,
            Self::Moving(stream) => &stream.file.entry,
            Self::ClosingTarget(closing) | Self::ClosingSource(closing) => &closing.entry,
        }
    }

    /// Continues after the outcome of the call in flight.
    pub(super) fn advance(self, cx: &Context<'_, T>, io: &mut Io, outcome: Outcome) -> FileStep<T> {
        match (self, outcome) {
            (Self::Opening(opening), Outcome::Opened(result)) => opening.opened(cx, result),
            (Self::Stating(opening, source), Outcome::Stated(result)) => {
                opening.stated(cx, io, source, result)
            }
            (Self::Probing(file), Outcome::Read { buffer, result }) => file.probed(cx, io, buffer, result),
            (Self::Moving(stream), outcome) => {
                let progress = stream.advance(cx, io, outcome);
                Self::after(cx, io, progress)
            }
            (Self::ClosingTarget(closing), Outcome::Closed(result)) => closing.target_closed(cx, result),
            (Self::ClosingSource(closing), Outcome::Closed(result)) => closing.source_closed(cx, result),
            (state, _) => FileStep::Other(state),
        }
    }

    pub(super) fn begin_stream(cx: &Context<'_, T>, io: &mut Io, stream: Stream<T>) -> FileStep<T> {
        let progress = stream.next(cx, io);
        Self::after(cx, io, progress)
    }

    fn after(cx: &Context<'_, T>, io: &mut Io, progress: StreamStep<T>) -> FileStep<T> {
        match progress {
            StreamStep::Call(stream, call) => FileStep::Call(Self::Moving(stream), call),
            StreamStep::Done(stream) => {
                let (file, is_last_here) = stream.end();
                release(cx, io, file, is_last_here)
            }
        }
    }
}

/// Begins to move a range of a file.
pub(super) fn begin_range<T: Tool>(
    cx: &Context<'_, T>,
    io: &mut Io,
    file: Arc<OpenFile<T>>,
    range: Range<u64>,
    transfer: Transfer,
) -> FileStep<T> {
    let mut streams = Stream::new(file, range, transfer).split(io);
    match (streams.pop(), streams.is_empty()) {
        (Some(stream), true) => FileState::begin_stream(cx, io, stream),
        (last, _) => {
            streams.extend(last);
            FileStep::Streams(streams)
        }
    }
}

/// Fetches a range of a file that another worker will read.
pub(super) fn fetch<T: Tool>(
    cx: &Context<'_, T>,
    io: &mut Io,
    file: Arc<OpenFile<T>>,
    range: &Range<u64>,
) -> FileStep<T> {
    if !file.has_failed() {
        // Only a hint: if refused, only the speed changes.
        advise_range(&file.source, Advice::WillNeed, range.start, range.end - range.start)
            .unwrap_or_default();
    }
    release(cx, io, file, true)
}

/// A file being opened.
pub(super) struct Opening<T: Tool> {
    pub(super) entry: Entry<T>,
    /// True if a symbolic link at its name is followed.
    pub(super) follow: bool,
    /// Whether to probe for its first block.
    pub(super) probe: Probe,
    /// When its open was submitted, if that is to be measured.
    pub(super) begun: Option<Instant>,
}

impl<T: Tool> Opening<T> {
    /// Opens the file. Returns `None` if its directory can't be opened, which is reported.
    pub(super) fn begin(self, cx: &Context<'_, T>) -> Option<FileStep<T>> {
        let directory = match cx.cache().open(&self.entry.node.source) {
            Ok(directory) => directory,
            Err(cause) => {
                cx.give_up(&self.entry, EntryFailure::OpenParent(&cause));
                return None;
            }
        };
        let how = if self.follow { Open::READ.following() } else { Open::READ };
        let name = self.entry.name.clone();
        let begun = cx.run.limits.and_then(Limits::begin_call);
        Some(FileStep::Call(FileState::Opening(Self { begun, ..self }), Call::Open { directory, name, how }))
    }

    fn opened(self, cx: &Context<'_, T>, result: Result<Fd, Error>) -> FileStep<T> {
        if let (Some(limits), Some(begun)) = (cx.run.limits, self.begun) {
            limits.end_call(Side::Source, begun);
        }
        match result {
            Ok(source) => {
                let source = Arc::new(source);
                let file = Arc::clone(&source);
                return FileStep::Call(FileState::Stating(self, source), Call::Stat { file });
            }
            Err(cause) if self.is_replaced(cx, &cause) => cx.give_up(&self.entry, EntryFailure::Replaced),
            Err(cause) => cx.give_up(&self.entry, EntryFailure::OpenFile(&cause)),
        }
        FileStep::FileDone
    }

    /// Returns true if the open failed because something else has taken the file's place: a link
    /// (`ELOOP`) or a socket (`ENXIO`, which a regular file of FUSE may also give).
    fn is_replaced(&self, cx: &Context<'_, T>, cause: &Error) -> bool {
        let kind = || {
            let directory = cx.cache().open(&self.entry.node.source)?;
            stat_path(Some(&*directory), self.entry.name(), true).map(|now| now.kind)
        };
        cause.is(Errno::LOOP) || cause.is(Errno::NXIO) && !kind().is_ok_and(|kind| kind == FileType::Regular)
    }

    fn stated(
        self,
        cx: &Context<'_, T>,
        io: &mut Io,
        source: Arc<Fd>,
        result: Result<Stat, Error>,
    ) -> FileStep<T> {
        let Self { entry, probe, .. } = self;
        let is_another = |stat: &Stat| entry.seen.is_some_and(|seen| seen != stat.identity);
        let stat = match result {
            // Another file, or a FIFO, may have the name by now. `O_NONBLOCK` has kept the open
            // from waiting for one (tests/races.rs).
            Ok(stat) if is_another(&stat) || stat.kind != FileType::Regular => {
                cx.report_failure(&entry, EntryFailure::Replaced);
                return ClosingFile::skip(cx, entry, source);
            }
            Ok(stat) => stat,
            Err(cause) => {
                cx.report_failure(&entry, EntryFailure::StatFile(&cause));
                return ClosingFile::skip(cx, entry, source);
            }
        };
        // The first block of a sparse file may be a hole, and a block that was read is written.
        let may_be_found = stat.size > 0 && io.probed_device != Some((stat.identity.device, true));
        let through_pipe = !probe.inspects && io.suits_pipe(&source, stat.size);
        let is_probed = io.probes && may_be_found && !stat.is_sparse() && probe.includes(&stat);
        if through_pipe {
            io.note_cached(stat.size);
        }
        let file = StatedFile { entry, source, stat, through_pipe };
        if is_probed && !through_pipe { file.probe(io) } else { file.begin(cx, io, None) }
    }
}

/// A file that was opened and stat'ed.
pub(super) struct StatedFile<T: Tool> {
    pub(super) entry: Entry<T>,
    source: Arc<Fd>,
    stat: Stat,
    /// True if it may be copied through a pipe.
    through_pipe: bool,
}

impl<T: Tool> StatedFile<T> {
    pub(super) fn size(&self) -> u64 {
        self.stat.size
    }

    /// Reads the first block, if it is in the page cache.
    fn probe(self, io: &mut Io) -> FileStep<T> {
        // One byte more than the file has: without it, the read has met EOF.
        let length = io.length_of_block(self.stat.size.saturating_add(1), CacheMode::Keep);
        let buffer = io.take_buffer(length);
        let (file, offset, cache) = (Arc::clone(&self.source), 0, CacheMode::Keep);
        // With a window of 1 there is nothing else to do while the kernel fetches it.
        let wait = if io.window > 1 { Wait::Never } else { Wait::Allowed };
        FileStep::Call(FileState::Probing(self), Call::Read { file, offset, buffer, length, wait, cache })
    }

    fn probed(
        self,
        cx: &Context<'_, T>,
        io: &mut Io,
        buffer: Buffer,
        result: Result<Option<usize>, Error>,
    ) -> FileStep<T> {
        if let Ok(Some(length @ 1..)) = result {
            io.note_cached(self.stat.size);
            return self.begin(cx, io, Some((buffer, length)));
        }
        io.return_buffer(buffer);
        if !matches!(result, Ok(None)) {
            // Unexpected EOF, or an error: the stream reads again and reports the result.
            return self.begin(cx, io, None);
        }
        let device = self.stat.identity.device;
        if io.probed_device.is_none_or(|(probed, _)| probed != device) {
            io.probed_device = Some((device, is_in_memory(&self.source).unwrap_or(false)));
        }
        if io.probed_device == Some((device, true)) {
            return self.begin(cx, io, None);
        }
        if self.stat.size <= SMALL_BYTES {
            io.note_uncached();
        }
        if ADVISED_BYTES.contains(&self.stat.size) && io.settings.switches.advise {
            // Only a hint: if refused, only the speed changes.
            advise(&self.source, Advice::WillNeed, self.stat.size).unwrap_or_default();
        }
        FileStep::Park(self)
    }

    /// Asks the tool what to do with the file, and starts to move its content. `block` is its first
    /// block, if that was read already.
    pub(super) fn begin(
        self,
        cx: &Context<'_, T>,
        io: &mut Io,
        block: Option<(Buffer, usize)>,
    ) -> FileStep<T> {
        let first = block.as_ref().map(|(buffer, length)| &buffer.bytes()[..*length]);
        let opened = OpenSource { source: &self.source, stat: &self.stat, first };
        let open = || cx.open_file(&self.entry, &opened);
        let has_target = |start: &Start<T::File>| !cx.take_has_read() && matches!(start, Start::Move { .. });
        let start = measure_call(cx.run.limits, Side::Target, open, has_target);
        let mut part = None;
        let (own, target, transfer, inspect, other) = match start {
            Start::Move { own, target, transfer, inspect, part: first } => {
                part = first;
                (own, Some(target), transfer, inspect, None)
            }
            Start::Inspect { own, transfer } => (own, None, transfer, true, None),
            Start::Compare { own, other } => (own, None, Transfer::Blocks(Holes::Read), true, Some(other)),
            Start::MoveRange(range) => {
                io.recycle(block);
                return self.begin_shared(cx, io, range);
            }
            Start::Done => {
                io.recycle(block);
                return ClosingFile::skip(cx, self.entry, self.source);
            }
            Start::Deferred => {
                io.recycle(block);
                let (source, end) = (Some(self.source), CloseAction::Nothing);
                return ClosingFile { entry: self.entry, source, end, moved: true }.close_source(cx);
            }
        };
        let Self { entry, source, stat, through_pipe } = self;
        let (transfer, cache_policy) = match &target {
            Some(target) => prepare::copy(cx, io, &entry, (&source, target), &stat, transfer),
            None => (transfer, CachePolicy::cached()),
        };
        if let (None, Some(other), true) = (&block, &other, io.caps.blocks) {
            // If the source had to be fetched, so must this file. Only a hint: if refused, only the
            // speed changes.
            advise(&**other, Advice::WillNeed, stat.size.min(FETCH_AHEAD_BYTES)).unwrap_or_default();
        }
        let is_whole = part.is_none();
        let setup = MoveSetup { transfer, cache_policy, inspect, through_pipe, other, is_whole };
        let file = Arc::new(OpenFile::<T>::new(entry, source, stat, target, own, setup));
        if let Some((_, length)) = &block
            && *length as u64 == stat.size
            && *length < io.settings.block_bytes
        {
            file.note_end(stat.size);
        }
        if cx.detach(&file, transfer) || transfer == Transfer::Nothing {
            io.recycle(block);
            return release(cx, io, file, true);
        }
        if let Some(part) = part {
            // The probing read is of no use in a file that is resumed somewhere else.
            io.recycle(block);
            return begin_part(cx, io, file, &part);
        }
        let range = share_ranges(cx, &file, ranges_of(&io.settings, &stat), transfer);
        match block {
            Some((buffer, length)) => {
                let progress = Stream::new(file, range, transfer).take_block(cx, io, buffer, length);
                FileState::after(cx, io, progress)
            }
            None => begin_range(cx, io, file, range, transfer),
        }
    }

    /// Moves a range of a file whose other ranges other processes move.
    fn begin_shared(self, cx: &Context<'_, T>, io: &mut Io, part: FileRange<T::File>) -> FileStep<T> {
        let FileRange { own, target, range, transfer, inspect } = part;
        let Self { entry, source, stat, through_pipe } = self;
        // Only a hint. Read-ahead would fetch what other processes read, and this range is read by
        // several workers at once anyway.
        advise(&source, Advice::Random, 0).unwrap_or_default();
        let (transfer, cache_policy) =
            prepare::choose_policy(cx, io, &entry, (&source, &target), (stat.size, transfer));
        let setup = MoveSetup { transfer, cache_policy, inspect, through_pipe, other: None, is_whole: false };
        let file = Arc::new(OpenFile::<T>::new(entry, source, stat, Some(target), own, setup));
        let range = share_ranges(cx, &file, prepare::shares_of(&io.settings, &range), transfer);
        begin_range(cx, io, file, range, transfer)
    }
}

/// Begins to move a part of a file, shared by all workers.
fn begin_part<T: Tool>(
    cx: &Context<'_, T>,
    io: &mut Io,
    file: Arc<OpenFile<T>>,
    part: &Range<u64>,
) -> FileStep<T> {
    if part.end == u64::MAX {
        // A 0 from a copy inside the kernel wouldn't mean EOF.
        return begin_range(cx, io, file, part.clone(), Transfer::Blocks(Holes::Read));
    }
    let transfer = file.transfer;
    let range = share_ranges(cx, &file, prepare::ranges_in(&io.settings, &file.stat, part), transfer);
    begin_range(cx, io, file, range, transfer)
}

/// Shares all ranges of a file but the first, and returns that.
fn share_ranges<T: Tool>(
    cx: &Context<'_, T>,
    file: &Arc<OpenFile<T>>,
    mut ranges: impl Iterator<Item = Range<u64>>,
    transfer: Transfer,
) -> Range<u64> {
    let first = ranges.next().unwrap_or(0..0);
    for range in ranges {
        cx.share(Job::Range(Arc::clone(file), range, transfer));
    }
    first
}

/// Drops one reference to a file; the last one finishes it. `is_last_here` is true if this worker
/// has no other stream of the file.
fn release<T: Tool>(
    cx: &Context<'_, T>,
    io: &mut Io,
    file: Arc<OpenFile<T>>,
    is_last_here: bool,
) -> FileStep<T> {
    // If several workers drop it at once, exactly one gets the file (`Arc::into_inner`).
    let Some(mut file) = Arc::into_inner(file) else {
        return if is_last_here { FileStep::FileDone } else { FileStep::StreamDone };
    };
    file.turns.take();
    if file.begin_sequential() && !file.has_failed() {
        return FileState::begin_stream(cx, io, Stream::sequential(Arc::new(file)));
    }
    let tail = file.target.as_ref().and_then(|target| file.cache_policy.take_tail(&file.source, target));
    match tail {
        Some(Ok(tail)) if !file.has_failed() => {
            let progress = Stream::write_tail(cx, io, file, &tail);
            return FileState::after(cx, io, progress);
        }
        Some(Err(cause)) if file.fail() => {
            cx.report_failure(&file.entry, EntryFailure::WriteTarget(&cause));
        }
        _ => {}
    }
    if let Some(target) = &file.target
        && io.settings.switches.allocate
        && file.length() < file.stat.size
    {
        // The file has shrunk: release the space reserved beyond its end. If that fails, it
        // stays reserved.
        truncate(&**target, file.length()).unwrap_or_default();
    }
    if let Err(cause) = file.cache_policy.drop_pages(&file.source, file.target.as_ref())
        && file.fail()
    {
        cx.report_failure(&file.entry, EntryFailure::WriteTarget(&cause));
    }
    let moved = match file.has_failed() {
        true => false,
        false => match cx.finish_file(&file) {
            Finished::Again { stat, transfer } => return move_again(cx, io, file, (stat, transfer)),
            Finished::Next(range) => return begin_part(cx, io, Arc::new(file), &range),
            finished => finished == Finished::Done,
        },
    };
    let length = file.length();
    let OpenFile::<T> { entry, source, target, own, other, .. } = file;
    // Drop this reference first: the tool closes the compared file.
    drop(other);
    let closing = ClosingFile { entry, source: Some(source), end: CloseAction::File(own, length), moved };
    match target.map(Arc::into_inner) {
        None => closing.close_source(cx),
        Some(Some(file)) => FileStep::Call(FileState::ClosingTarget(closing), Call::Close { file }),
        // A broken ring may still hold the file: nobody will learn whether its close lost data.
        Some(None) => {
            let held = Error::new(Operation::Close, "held by a broken ring".to_owned(), Errno::BUSY);
            closing.target_closed(cx, Err(held))
        }
    }
}

/// Moves all of a file's content again, because its source has changed.
fn move_again<T: Tool>(
    cx: &Context<'_, T>,
    io: &mut Io,
    mut file: OpenFile<T>,
    (stat, transfer): (Stat, Transfer),
) -> FileStep<T> {
    file.begin_again(stat);
    let file = Arc::new(file);
    let range = share_ranges(cx, &file, ranges_of(&io.settings, &stat), transfer);
    begin_range(cx, io, file, range, transfer)
}

/// A file being closed: its content was moved, or has failed.
pub(super) struct ClosingFile<T: Tool> {
    entry: Entry<T>,
    source: Option<Arc<Fd>>,
    end: CloseAction<T::File>,
    moved: bool,
}

/// Action after a file is closed.
enum CloseAction<F> {
    /// Pass the tool's state to `Tool::close_file`, and complete the entry. The number is the
    /// content's length in bytes.
    File(F, u64),
    /// Complete the entry: the tool never had the file, or is done with it.
    Skipped,
    /// Leave the entry to the tool, which completes it later.
    Nothing,
}

impl<T: Tool> ClosingFile<T> {
    /// Ends a file before anything was moved.
    fn skip(cx: &Context<'_, T>, entry: Entry<T>, source: Arc<Fd>) -> FileStep<T> {
        Self { entry, source: Some(source), end: CloseAction::Skipped, moved: false }.close_source(cx)
    }

    fn target_closed(mut self, cx: &Context<'_, T>, result: Result<(), Error>) -> FileStep<T> {
        if let Err(cause) = result {
            cx.report_failure(&self.entry, EntryFailure::CloseTarget(&cause));
            self.moved = false;
        }
        self.close_source(cx)
    }

    fn close_source(mut self, cx: &Context<'_, T>) -> FileStep<T> {
        match self.source.take().and_then(Arc::into_inner) {
            Some(file) => FileStep::Call(FileState::ClosingSource(self), Call::Close { file }),
            // The tool has kept the source open, and closes it (`Start::Deferred`).
            None => self.source_closed(cx, Ok(())),
        }
    }

    fn source_closed(self, cx: &Context<'_, T>, result: Result<(), Error>) -> FileStep<T> {
        let Self { entry, end, mut moved, .. } = self;
        if let Err(cause) = result {
            cx.report_failure(&entry, EntryFailure::CloseSource(&cause));
            moved = false;
        }
        match end {
            CloseAction::File(own, length) => cx.close_file(ClosedFile { entry, own, length, moved }),
            CloseAction::Skipped => cx.complete(&entry),
            CloseAction::Nothing => {}
        }
        FileStep::FileDone
    }
}
