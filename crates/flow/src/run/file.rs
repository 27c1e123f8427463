//! One file on its way through a worker: from its open to its two closes. In between, `stream.rs` moves its content.

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

/// Files at most this long are fetched whole by the read that found them absent; longer ones are worth an advice.
const FETCHED_BY_READ_BYTES: u64 = 64 << 10;

/// Files at least this long are worth telling the kernel that they are read in order.
const SEQUENTIAL_BYTES: u64 = 1 << 20;

/// How much of a large file is asked for ahead; the kernel's own read-ahead goes on from there.
const FETCH_AHEAD_BYTES: u64 = 2 << 20;

/// Minimum length of what one worker moves of a range, in bytes: a stripe, as parallel file systems usually have them.
const SHARE_BYTES_MIN: u64 = 1 << 20;

/// Where a file is in its life.
pub(super) enum State<T: Tool> {
    /// Just given a slot.
    Free,
    /// Its open is in flight.
    Opening(Entry<T>, Probe),
    /// Its fstat is in flight.
    Stating(Entry<T>, Probe, Arc<Fd>),
    /// Its first block is being looked for; or it is parked.
    Probing(StatedFile<T>),
    /// Its content is being moved.
    Moving(Stream<T>),
    /// Its target is being closed.
    ClosingTarget(Ending<T>),
    /// Its source is being closed.
    ClosingSource(Ending<T>),
}

impl<T: Tool> State<T> {
    /// Returns the directory that the file is in.
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

/// A file that was opened and looked at.
pub(super) struct StatedFile<T: Tool> {
    pub(super) entry: Entry<T>,
    pub(super) source: Arc<Fd>,
    pub(super) stat: Stat,
}

/// A file whose content is where it belongs, or has failed to be.
pub(super) struct Ending<T: Tool> {
    entry: Entry<T>,
    source: Option<Arc<Fd>>,
    end: End<T>,
    moved: bool,
}

/// What follows the closing of a file.
enum End<T: Tool> {
    /// The tool hears of it, with what it keeps for the file, and the entry is complete.
    File(T::File),
    /// The entry is complete: the tool never had the file, or is done with it.
    Skipped,
    /// Nothing: the tool has kept the entry.
    Nothing,
}

impl<T: Tool> Worker<'_, T> {
    /// Begins a file: opens it.
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

    /// Looks for the first block in the page cache.
    fn probe(&mut self, slot: usize, look: StatedFile<T>) {
        let buffer = self.take_buffer();
        let length = self.length_of_block(look.stat.size);
        let file = Arc::clone(&look.source);
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
                    // Only advice: a refusal changes nothing but the speed.
                    advise(&look.source, Advice::WillNeed, look.stat.size.min(FETCH_AHEAD_BYTES))
                        .unwrap_or_default();
                }
                self.slots[slot] = Some(State::Probing(look));
                self.parked.push_back(slot);
            }
            // An end where none was expected, or an error: the stream asks again, and says what it finds.
            Ok(Some(_)) | Err(_) => {
                self.return_buffer(buffer);
                self.begin(slot, look, None);
            }
        }
    }

    /// Goes on with a file whose data the kernel was asked for.
    pub(super) fn resume(&mut self, slot: usize) {
        if let Some(State::Probing(look)) = self.slots[slot].take() {
            self.cx.attend(Some(&look.entry.node));
            self.begin(slot, look, None);
        }
    }

    /// Asks the tool what becomes of the file, and starts to move its content; `block` is what was read of it already.
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
            // Where the source had to be fetched, so has this. Only advice: a refusal changes nothing but the speed.
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
        // Only advice: reading ahead of a range is reading what others read, and its parts are read at once anyway.
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

    /// Reserves a target's space, if that is wanted.
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

    /// Does what the switches ask for before a file's first byte moves.
    pub(super) fn prepare(
        &self,
        entry: &Entry<T>,
        (source, target): (&Fd, &Fd),
        stat: &Stat,
        transfer: Transfer,
    ) -> (Transfer, CachePolicy) {
        let switches = &self.cx.run.settings.switches;
        if switches.advise && stat.size >= SEQUENTIAL_BYTES && transfer != Transfer::Nothing {
            // Only advice: the kernel reads further ahead, or does not.
            advise(source, Advice::Sequential, 0).unwrap_or_default();
        }
        self.route_of(entry, (source, target), transfer)
    }

    /// Chooses which way a file's data goes.
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
        // What the kernel copies by itself goes through its cache.
        let transfer = transfer.in_blocks();
        if switches.direct && transfer != Transfer::Blocks(Holes::Read) {
            self.remark(entry, "it has holes: goes through the page cache");
            return (transfer, CachePolicy::usual());
        }
        let drops = self.engine.caps().drops_cache;
        let note = |why: &str| self.remark(entry, &format!("goes through the page cache: {why}"));
        (transfer, CachePolicy::choose(switches, (source, target), settings.block_bytes, drops, note))
    }

    /// Tells something of a file under `--debug`.
    pub(super) fn remark(&self, entry: &Entry<T>, what: &str) {
        if self.cx.report().wants_debug() {
            self.cx.report().debug(&format!("{}: {what}", String::from_utf8_lossy(&entry.path())));
        }
    }

    /// Cuts a large file in ranges, offers all but the first to everybody, and returns the stream of the first.
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

    /// Lets go of a file after a stream, and finishes it after its last: of those that let go of it, exactly one is the last.
    /// `is_last_here` tells whether this worker has no other stream of it.
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
            // What was reserved beyond the end of a file that has shrunk meanwhile is given back, or stays reserved.
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
        // Before the tool closes it.
        drop(other);
        let ending = Ending { entry, source: Some(source), end: End::File(own), moved };
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
