//! One file on its way through a worker, from its open to its two closes. In between, `stream.rs`
//! moves its content.

use std::sync::Arc;

use haul_engine::{Call, Wait};
use haul_sys::{Advice, Buffer, Cache, Errno, Error, Fd, FileType, Open, Operation, Stat};
use haul_sys::{advise, allocate, truncate};

use super::Job;
use super::stream::Stream;
use super::walk::replaced;
use super::worker::Worker;
use crate::cache_policy::CachePolicy;
use crate::node::{DirNode, Entry};
use crate::owner::{FileRange, Share};
use crate::plan;
use crate::tool::{Failure, Holes, MoveSetup, OpenFile, OpenSource, Probe, Start, Tool, Transfer};

/// Maximum size of a file that the probing read makes the kernel fetch whole, in bytes. Larger
/// files are worth a `posix_fadvise`.
const FETCHED_BY_READ_BYTES: u64 = 64 << 10;

/// Minimum size of a file that is announced to the kernel as read sequentially, in bytes.
const SEQUENTIAL_BYTES: u64 = 1 << 20;

/// Maximum bytes of a large file requested ahead. The kernel's own read-ahead continues from there.
const FETCH_AHEAD_BYTES: u64 = 2 << 20;

/// Minimum length of one worker's share of a range, in bytes: a typical stripe of a parallel
/// file system.
const SHARE_BYTES_MIN: u64 = 1 << 20;

/// State of a file in a slot.
pub(super) enum State<T: Tool> {
    /// The slot was just taken.
    Free,
    /// Its open is in flight.
    Opening(Entry<T>, Probe),
    /// Its `fstat` is in flight.
    Stating(Entry<T>, Probe, Arc<Fd>),
    /// The read of its first block is in flight, or it is parked.
    Probing(StatedFile<T>),
    /// Its content is being moved.
    Moving(Stream<T>),
    /// The close of its target is in flight.
    ClosingTarget(Ending<T>),
    /// The close of its source is in flight.
    ClosingSource(Ending<T>),
}

impl<T: Tool> State<T> {
    pub(super) fn node(&self) -> Option<&DirNode<T>> {
        match self {
            Self::Free => None,
            Self::Opening(entry, _) | Self::Stating(entry, ..) => Some(&entry.node),
            Self::Probing(look) => Some(&look.entry.node),
            Self::Moving(stream) => Some(stream.node()),
            Self::ClosingTarget(ending) | Self::ClosingSource(ending) => Some(&ending.entry.node),
        }
    }
}

/// A file that was opened and stat'ed.
pub(super) struct StatedFile<T: Tool> {
    pub(super) entry: Entry<T>,
    pub(super) source: Arc<Fd>,
    pub(super) stat: Stat,
}

/// A file being closed: its content was moved, or has failed.
pub(super) struct Ending<T: Tool> {
    entry: Entry<T>,
    source: Option<Arc<Fd>>,
    end: End<T>,
    moved: bool,
}

/// Action after a file is closed.
enum End<T: Tool> {
    /// Pass the tool's state to [`Tool::close_file`], and complete the entry.
    File(T::File),
    /// Complete the entry: the tool never had the file, or is done with it.
    Skipped,
    /// Leave the entry to the tool, which completes it later.
    Nothing,
}

impl<T: Tool> Worker<'_, T> {
    pub(super) fn open(&mut self, entry: Entry<T>, follow: bool, probe: Probe) {
        let directory = match self.cx.cache().open(&entry.node.source) {
            Ok(directory) => directory,
            Err(cause) => return self.cx.give_up(&entry, Failure::OpenPlace(&cause)),
        };
        let how = if follow { Open::READ.following() } else { Open::READ };
        let name = entry.name.clone();
        let slot = self.occupy(State::Free);
        self.files += 1;
        self.submit(slot, State::Opening(entry, probe), Call::Open { directory, name, how });
    }

    pub(super) fn opened(&mut self, slot: usize, entry: Entry<T>, probe: Probe, result: Result<Fd, Error>) {
        match result {
            Ok(source) => {
                let source = Arc::new(source);
                let call = Call::Stat { file: Arc::clone(&source) };
                self.submit(slot, State::Stating(entry, probe, source), call);
            }
            Err(cause) => {
                self.vacate(slot);
                let failure = if replaced(&cause) { Failure::Replaced } else { Failure::OpenFile(&cause) };
                self.cx.give_up(&entry, failure);
            }
        }
    }

    pub(super) fn looked(
        &mut self,
        slot: usize,
        entry: Entry<T>,
        (probe, source): (Probe, Arc<Fd>),
        result: Result<Stat, Error>,
    ) {
        let stat = match result {
            Ok(stat) => stat,
            Err(cause) => {
                self.cx.report_failure(&entry, Failure::StatFile(&cause));
                return self.abandon(slot, entry, source);
            }
        };
        let another = entry.seen.is_some_and(|seen| seen != stat.identity);
        if another || stat.kind != FileType::Regular {
            self.cx.report_failure(&entry, Failure::Replaced);
            return self.abandon(slot, entry, source);
        }
        let probe = self.probes && stat.size > 0 && !stat.is_sparse() && probe.includes(&stat);
        let look = StatedFile { entry, source, stat };
        if probe { self.probe(slot, look) } else { self.begin(slot, look, None) }
    }

    /// Reads the first block, if it is in the page cache.
    fn probe(&mut self, slot: usize, look: StatedFile<T>) {
        let buffer = self.take_buffer();
        let length = self.length_of_block(look.stat.size);
        let file = Arc::clone(&look.source);
        // With a window of 1 there is nothing else to do while the kernel fetches it.
        let wait = if self.window > 1 { Wait::Never } else { Wait::Allowed };
        self.submit(
            slot,
            State::Probing(look),
            Call::Read { file, offset: 0, buffer, length, wait, cache: Cache::Keep },
        );
    }

    pub(super) fn length_of_block(&self, bytes: u64) -> usize {
        usize::try_from(bytes).unwrap_or(usize::MAX).min(self.block_bytes)
    }

    pub(super) fn probed(
        &mut self,
        slot: usize,
        look: StatedFile<T>,
        buffer: Buffer,
        result: Result<Option<usize>, Error>,
    ) {
        match result {
            Ok(Some(length)) if length > 0 => {
                self.note_present();
                self.begin(slot, look, Some((buffer, length)));
            }
            Ok(None) => {
                self.note_absent(look.stat.size);
                self.return_buffer(buffer);
                if look.stat.size > FETCHED_BY_READ_BYTES && self.cx.run.settings.switches.advise {
                    // Only a hint: if refused, only the speed changes.
                    advise(&look.source, Advice::WillNeed, look.stat.size.min(FETCH_AHEAD_BYTES))
                        .unwrap_or_default();
                }
                self.slots[slot] = Some(State::Probing(look));
                self.parked.push_back(slot);
            }
            // Unexpected EOF, or an error: the stream reads again and reports what it finds.
            Ok(Some(_)) | Err(_) => {
                self.return_buffer(buffer);
                self.begin(slot, look, None);
            }
        }
    }

    /// Resumes a parked file.
    pub(super) fn resume(&mut self, slot: usize) {
        if let Some(State::Probing(look)) = self.slots[slot].take() {
            self.cx.attend(Some(&look.entry.node));
            self.begin(slot, look, None);
        }
    }

    /// Asks the tool what to do with the file, and starts to move its content. `block` is its first
    /// block, if that was read already.
    fn begin(&mut self, slot: usize, look: StatedFile<T>, block: Option<(Buffer, usize)>) {
        let StatedFile { entry, source, stat } = look;
        let first = block.as_ref().map(|(buffer, length)| &buffer.bytes()[..*length]);
        let opened = OpenSource { source: &source, stat: &stat, first };
        if let Some(owner) = entry.node.owner.clone() {
            match owner.open_file(&self.cx, &entry, &opened) {
                Share::Whole => {}
                Share::Range(share) => {
                    self.discard(block);
                    return self.move_share(slot, StatedFile { entry, source, stat }, share);
                }
                Share::Nothing => {
                    self.discard(block);
                    return self.abandon(slot, entry, source);
                }
            }
        }
        let (own, target, transfer, inspect, other) = match self
            .cx
            .tool()
            .open_file(&self.cx, &entry, &opened)
        {
            Start::Move { own, target, transfer, inspect } => (own, Some(target), transfer, inspect, None),
            Start::Inspect { own, transfer } => (own, None, transfer, true, None),
            Start::Compare { own, other } => (own, None, Transfer::Blocks(Holes::Read), true, Some(other)),
            Start::Done => {
                self.discard(block);
                return self.abandon(slot, entry, source);
            }
            Start::Deferred => {
                self.discard(block);
                let ending = Ending { entry, source: Some(source), end: End::Nothing, moved: true };
                return self.close_source(slot, ending);
            }
        };
        let (transfer, cache_policy) = match &target {
            Some(target) => {
                self.reserve(&entry, target, &stat, transfer);
                self.prepare(&entry, (&source, target), &stat, transfer)
            }
            None => (transfer, CachePolicy::usual()),
        };
        let setup = MoveSetup { cache_policy, inspect, other };
        let file = Arc::new(OpenFile::new(entry, source, stat, target, own, setup));
        if block.is_none()
            && self.engine.caps().blocks
            && let Some(other) = &file.other
        {
            // If the source had to be fetched, so must this file. Only a hint: if refused, only the
            // speed changes.
            advise(&**other, Advice::WillNeed, file.stat.size.min(FETCH_AHEAD_BYTES)).unwrap_or_default();
        }
        let owner = file.entry.node.owner.as_ref();
        if owner.is_some_and(|owner| owner.detach(&self.cx, &file, transfer)) || transfer == Transfer::Nothing
        {
            self.discard(block);
            return self.let_go(slot, file, true);
        }
        let stream = self.share_ranges(file, transfer);
        self.move_range(slot, stream, block);
    }

    /// Moves a range of a file whose other ranges other processes move.
    fn move_share(
        &mut self,
        slot: usize,
        StatedFile { entry, source, stat }: StatedFile<T>,
        FileRange { own, target, range, transfer, inspect }: FileRange<T::File>,
    ) {
        // Only a hint. Read-ahead would fetch what other processes read, and this range is read by
        // several workers at once anyway.
        advise(&source, Advice::Random, 0).unwrap_or_default();
        let (transfer, cache_policy) = self.route_of(&entry, (&source, &target), transfer);
        let setup = MoveSetup { cache_policy, inspect, other: None };
        let file = Arc::new(OpenFile::new(entry, source, stat, Some(target), own, setup));
        // Cut for the workers of this process, so that one reads while another writes.
        let length = range.end - range.start;
        let share = (length / self.cx.run.settings.jobs.max(1) as u64).max(SHARE_BYTES_MIN);
        let mut shares = plan::ranges(length, share, SHARE_BYTES_MIN)
            .map(|part| range.start + part.start..range.start + part.end);
        let first = shares.next().unwrap_or(range.clone());
        for share in shares {
            self.cx.share(Job::Range(Arc::clone(&file), share, transfer));
        }
        self.move_range(slot, Stream::new(file, first, transfer), None);
    }

    /// Reserves the target's space, if `switches.allocate` is on.
    fn reserve(&self, entry: &Entry<T>, target: &Fd, stat: &Stat, transfer: Transfer) {
        let wanted = self.cx.run.settings.switches.allocate && transfer != Transfer::Nothing;
        if wanted
            && stat.size > 0
            && !transfer.skips_holes()
            && let Err(cause) = allocate(target, stat.size)
        {
            self.remark(entry, &format!("its space is not reserved: {cause:#}"));
        }
    }

    /// Applies the switches before the file's first byte moves.
    pub(super) fn prepare(
        &self,
        entry: &Entry<T>,
        (source, target): (&Fd, &Fd),
        stat: &Stat,
        transfer: Transfer,
    ) -> (Transfer, CachePolicy) {
        let switches = &self.cx.run.settings.switches;
        if switches.advise && stat.size >= SEQUENTIAL_BYTES && transfer != Transfer::Nothing {
            // Only a hint: the kernel reads further ahead, or does not.
            advise(source, Advice::Sequential, 0).unwrap_or_default();
        }
        self.route_of(entry, (source, target), transfer)
    }

    /// Chooses the cache policy of a file.
    pub(super) fn route_of(
        &self,
        entry: &Entry<T>,
        (source, target): (&Fd, &Fd),
        transfer: Transfer,
    ) -> (Transfer, CachePolicy) {
        let settings = &self.cx.run.settings;
        let switches = &settings.switches;
        if transfer == Transfer::Nothing {
            return (transfer, CachePolicy::usual());
        }
        if !(switches.direct || switches.drop_cache) {
            return (transfer, CachePolicy::usual());
        }
        // A copy inside the kernel goes through the page cache.
        let transfer = transfer.in_blocks();
        if switches.direct && transfer != Transfer::Blocks(Holes::Read) {
            self.remark(entry, "it has holes: goes through the page cache");
            return (transfer, CachePolicy::usual());
        }
        let drops = self.engine.caps().drops_cache;
        let note = |why: &str| self.remark(entry, &format!("goes through the page cache: {why}"));
        (transfer, CachePolicy::choose(switches, (source, target), settings.block_bytes, drops, note))
    }

    /// Logs something about a file (`--debug`).
    pub(super) fn remark(&self, entry: &Entry<T>, what: &str) {
        if self.cx.report().wants_debug() {
            self.cx.report().debug(&format!("{}: {what}", String::from_utf8_lossy(&entry.path())));
        }
    }

    /// Cuts a large file into ranges, shares all but the first, and returns a stream for the first.
    fn share_ranges(&self, file: Arc<OpenFile<T>>, transfer: Transfer) -> Stream<T> {
        let size = file.stat.size;
        if size == 0 {
            return Stream::new(file, 0..u64::MAX, transfer);
        }
        let range_bytes = self.cx.run.settings.range_bytes.max(self.block_bytes as u64);
        let mut ranges = plan::ranges(size, range_bytes, u64::from(file.stat.block_size));
        let first = ranges.next().unwrap_or(0..size);
        for range in ranges {
            self.cx.share(Job::Range(Arc::clone(&file), range, transfer));
        }
        Stream::new(file, first, transfer)
    }

    fn discard(&mut self, block: Option<(Buffer, usize)>) {
        if let Some((buffer, _)) = block {
            self.return_buffer(buffer);
        }
    }

    /// Drops one reference to a file; the last one finishes it. `is_last_here` is true if this
    /// worker has no other stream of the file.
    pub(super) fn let_go(&mut self, slot: usize, file: Arc<OpenFile<T>>, is_last_here: bool) {
        let Some(mut file) = Arc::into_inner(file) else {
            return if is_last_here { self.vacate(slot) } else { self.leave(slot) };
        };
        let tail = file.target.as_ref().and_then(|target| file.cache_policy.take_tail(target));
        match tail {
            Some(Ok(tail)) if !file.has_failed() => return self.write_tail(slot, file, &tail),
            Some(Err(cause)) if file.fail() => {
                self.cx.report_failure(&file.entry, Failure::WriteTarget(&cause));
            }
            _ => {}
        }
        self.finish(slot, file);
    }

    fn finish(&mut self, slot: usize, file: OpenFile<T>) {
        if let Some(target) = &file.target
            && self.cx.run.settings.switches.allocate
            && file.length() < file.stat.size
        {
            // The file has shrunk: release the space reserved beyond its end. If that fails, it
            // stays reserved.
            truncate(&**target, file.length()).unwrap_or_default();
        }
        if let Err(cause) = file.cache_policy.tidy(&file.source, file.target.as_ref())
            && file.fail()
        {
            self.cx.report_failure(&file.entry, Failure::WriteTarget(&cause));
        }
        let moved = !file.has_failed()
            && match &file.entry.node.owner {
                Some(owner) => owner.finish_file(&self.cx, &file),
                None => self.cx.tool().finish_file(&self.cx, &file),
            };
        let OpenFile { entry, source, target, own, other, .. } = file;
        // Drop this reference first: the tool closes the compared file.
        drop(other);
        let ending = Ending { entry, source: Some(source), end: End::File(own), moved };
        match target.map(Arc::into_inner) {
            None => self.close_source(slot, ending),
            Some(Some(file)) => self.submit(slot, State::ClosingTarget(ending), Call::Close { file }),
            // A broken ring may still hold the file: nobody will learn whether its close lost data.
            Some(None) => {
                let held = Error::new(Operation::Close, "held by a broken ring".to_owned(), Errno::BUSY);
                self.target_closed(slot, ending, Err(held));
            }
        }
    }

    /// Ends a file before anything was moved.
    fn abandon(&mut self, slot: usize, entry: Entry<T>, source: Arc<Fd>) {
        self.close_source(slot, Ending { entry, source: Some(source), end: End::Skipped, moved: false });
    }

    pub(super) fn target_closed(&mut self, slot: usize, mut ending: Ending<T>, result: Result<(), Error>) {
        if let Err(cause) = result {
            self.cx.report_failure(&ending.entry, Failure::CloseTarget(&cause));
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
            self.cx.report_failure(&ending.entry, Failure::CloseSource(&cause));
            ending.moved = false;
        }
        self.vacate(slot);
        let Ending { entry, end, moved, .. } = ending;
        match (end, &entry.node.owner) {
            (End::File(own), Some(owner)) => return owner.close_file(&self.cx, &entry, own, moved),
            (End::File(own), None) => self.cx.tool().close_file(&self.cx, &entry, own, moved),
            (End::Skipped, _) => {}
            (End::Nothing, _) => return,
        }
        self.cx.complete(&entry);
    }
}
