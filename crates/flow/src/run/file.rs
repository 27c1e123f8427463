//! One file on its way through a worker: from its open to its two closes. In between, `lane.rs` moves its content.

use std::sync::Arc;

use haul_engine::{Call, Wait};
use haul_sys::{Advice, Buffer, Cache, Errno, Error, Fd, FileType, Open, Operation, Stat};
use haul_sys::{advise, allocate, synchronize, truncate};

use super::Job;
use super::lane::Lane;
use super::walk::replaced;
use super::worker::Worker;
use crate::node::{Found, Node};
use crate::plan;
use crate::report::Problem;
use crate::route::Route;
use crate::tool::{Begin, Holes, OpenFile, OpenedFile, Role, Tool, Transfer};
use crate::wording;

/// Files at most this long are fetched whole by the read that found them absent; longer ones are worth an advice.
const FETCHED_BY_READ_BYTES: u64 = 64 << 10;

/// Files at least this long are worth telling the kernel that they are read in order.
const SEQUENTIAL_BYTES: u64 = 1 << 20;

/// How much of a large file is asked for ahead; the kernel's own read-ahead goes on from there.
const FETCH_AHEAD_BYTES: u64 = 2 << 20;

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

impl<T: Tool> State<T> {
    /// Returns the directory that the file is in.
    pub(super) fn node(&self) -> Option<&Node<T>> {
        match self {
            Self::Free => None,
            Self::Opening(found) | Self::Looking(found, _) => Some(&found.node),
            Self::Probing(look) => Some(&look.found.node),
            Self::Moving(lane) => Some(lane.node()),
            Self::ClosingTarget(ending) | Self::ClosingSource(ending) => Some(&ending.found.node),
        }
    }
}

/// A file that was opened and looked at.
pub(super) struct Looked<T: Tool> {
    pub(super) found: Found<T>,
    pub(super) source: Arc<Fd>,
    pub(super) stat: Stat,
}

/// A file whose content is where it belongs, or has failed to be.
pub(super) struct Ending<T: Tool> {
    found: Found<T>,
    source: Option<Arc<Fd>>,
    own: Option<T::File>,
    moved: bool,
    settles: Settles,
}

/// What is over with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settles {
    /// Its entry.
    Entry,
    /// A large file whose entry is apart from its part.
    Large(u64),
    /// Nothing: the tool has kept the entry.
    Nothing,
}

impl<T: Tool> Worker<'_, T> {
    /// Begins a file: opens it.
    pub(super) fn open(&mut self, found: Found<T>, follow: bool) {
        let directory = match self.desk.cache().open(&found.node.source) {
            Ok(directory) => directory,
            Err(cause) => {
                self.desk.tool().not_begun(&self.desk, &found);
                return self.desk.give_up(&found, wording::CANNOT_ACCESS, cause);
            }
        };
        let how = if follow { Open::READ.following() } else { Open::READ };
        let name = found.name.clone();
        let slot = self.occupy(State::Free);
        self.files += 1;
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
                self.desk.tool().not_begun(&self.desk, &found);
                match cause.errno() {
                    _ if replaced(&cause) => self.desk.give_up_replaced(&found),
                    _ if self.desk.tool().not_opened(&self.desk, &found, &cause) => self.desk.settle(&found),
                    Errno::NOENT => self.desk.give_up(&found, wording::CANNOT_STAT, cause),
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
                self.desk.tool().not_begun(&self.desk, &found);
                self.desk.problem(Problem::new(wording::CANNOT_FSTAT).naming(path).because(cause));
                return self.abandon(slot, found, source);
            }
        };
        let another = found.seen.is_some_and(|seen| seen != stat.identity);
        if another || stat.kind != FileType::Regular {
            self.desk.tool().not_begun(&self.desk, &found);
            self.desk.problem(Problem::new(wording::REPLACED).naming(found.path()));
            return self.abandon(slot, found, source);
        }
        let probe = self.probes && stat.size > 0 && !stat.is_sparse();
        let probe = probe && self.desk.tool().reads_first(&found, &stat);
        let look = Looked { found, source, stat };
        if probe { self.probe(slot, look) } else { self.begin(slot, look, None) }
    }

    /// Looks for the first block in the page cache.
    fn probe(&mut self, slot: usize, look: Looked<T>) {
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
        look: Looked<T>,
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
                if look.stat.size > FETCHED_BY_READ_BYTES && self.desk.run.settings.switches.advise {
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
            self.desk.attend(Some(&look.found.node));
            self.begin(slot, look, None);
        }
    }

    /// Lets the tool begin the file and starts to move its content; `block` is what was read of it already.
    fn begin(&mut self, slot: usize, look: Looked<T>, block: Option<(Buffer, usize)>) {
        if look.found.node.piece().is_some() {
            self.discard(block);
            return self.join(slot, look);
        }
        let Looked { found, source, stat } = look;
        let first = block.as_ref().map(|(buffer, length)| &buffer.bytes()[..*length]);
        let opened = OpenedFile { source: &source, stat: &stat, first };
        let begun = self.desk.tool().begin(&self.desk, &found, &opened);
        let (own, target, transfer) = match begun {
            Begin::Move { own, target, transfer } => (own, target, transfer),
            Begin::Over => {
                self.discard(block);
                return self.abandon(slot, found, source);
            }
            Begin::Deferred => {
                self.discard(block);
                let ending =
                    Ending { found, source: Some(source), own: None, moved: true, settles: Settles::Nothing };
                return self.close_source(slot, ending);
            }
        };
        let (transfer, route) = match &target {
            Some(target) => {
                self.reserve(&found, target, &stat, transfer);
                self.prepare(&found, (&source, target), &stat, transfer)
            }
            None => (transfer, Route::usual()),
        };
        let role = self.role(&stat, transfer);
        let mut file = Arc::new(OpenFile::new(found, source, stat, target, own, (route, role)));
        if block.is_none()
            && self.engine.caps().blocks
            && let Some(beside) = self.desk.tool().beside(&file)
        {
            // Where the source had to be fetched, so has this. Only advice: a refusal changes nothing but the speed.
            advise(&*beside, Advice::WillNeed, file.stat.size.min(FETCH_AHEAD_BYTES)).unwrap_or_default();
        }
        if self.leads(&mut file, transfer) || transfer == Transfer::Nothing {
            self.discard(block);
            return self.let_go(slot, file, true);
        }
        let lane = self.share_ranges(file, transfer);
        self.move_range(slot, lane, block);
    }

    /// Reserves a target's space, if that is wanted.
    fn reserve(&self, found: &Found<T>, target: &Fd, stat: &Stat, transfer: Transfer) {
        let wanted = self.desk.run.settings.switches.allocate && transfer != Transfer::Nothing;
        if wanted
            && stat.size > 0
            && !transfer.skips_holes()
            && let Err(cause) = allocate(target, stat.size)
        {
            self.remark(found, &format!("its space is not reserved: {cause:#}"));
        }
    }

    /// Does what the switches ask for before a file's first byte moves.
    pub(super) fn prepare(
        &self,
        found: &Found<T>,
        (source, target): (&Fd, &Fd),
        stat: &Stat,
        transfer: Transfer,
    ) -> (Transfer, Route) {
        let switches = &self.desk.run.settings.switches;
        if switches.advise && stat.size >= SEQUENTIAL_BYTES && transfer != Transfer::Nothing {
            // Only advice: the kernel reads further ahead, or does not.
            advise(source, Advice::Sequential, 0).unwrap_or_default();
        }
        self.route_of(found, (source, target), transfer)
    }

    /// Chooses which way a file's data goes.
    pub(super) fn route_of(
        &self,
        found: &Found<T>,
        (source, target): (&Fd, &Fd),
        transfer: Transfer,
    ) -> (Transfer, Route) {
        let settings = &self.desk.run.settings;
        let switches = &settings.switches;
        if transfer == Transfer::Nothing {
            return (transfer, Route::usual());
        }
        if !(switches.direct || switches.drop_cache) {
            return (transfer, Route::usual());
        }
        // What the kernel copies by itself goes through its cache.
        let transfer = transfer.in_blocks();
        if switches.direct && transfer != Transfer::Blocks(Holes::Read) {
            self.remark(found, "it has holes: goes through the page cache");
            return (transfer, Route::usual());
        }
        let drops = self.engine.caps().drops_cache;
        let note = |why: &str| self.remark(found, &format!("goes through the page cache: {why}"));
        (transfer, Route::choose(switches, (source, target), settings.block_bytes, drops, note))
    }

    /// Tells something of a file under `--debug`.
    pub(super) fn remark(&self, found: &Found<T>, what: &str) {
        if self.desk.report().wants_debug() {
            self.desk.report().debug(&format!("{}: {what}", String::from_utf8_lossy(&found.path())));
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

    /// Lets go of a file after a lane, and finishes it after its last: of those that let go of it, exactly one is the last.
    /// `is_last_here` tells whether this worker has no other lane of it.
    pub(super) fn let_go(&mut self, slot: usize, file: Arc<OpenFile<T>>, is_last_here: bool) {
        let Some(mut file) = Arc::into_inner(file) else {
            return if is_last_here { self.vacate(slot) } else { self.leave(slot) };
        };
        let tail = file.target.as_ref().and_then(|target| file.route.take_tail(target));
        match tail {
            Some(Ok(tail)) if !file.has_failed() => return self.write_tail(slot, file, &tail),
            Some(Err(cause)) if file.fail() => self.report_write(&file, cause),
            _ => {}
        }
        self.finish(slot, file);
    }

    /// Reports that not all of a file could be written.
    fn report_write(&self, file: &OpenFile<T>, cause: Error) {
        let path = self.desk.tool().target_path(&file.found);
        self.desk.problem(Problem::new(wording::ERROR_WRITING).naming(path).because(cause));
    }

    fn finish(&mut self, slot: usize, file: OpenFile<T>) {
        if let Some(target) = &file.target
            && self.desk.run.settings.switches.allocate
            && file.length() < file.stat.size
        {
            // What was reserved beyond the end of a file that has shrunk meanwhile is given back, or stays reserved.
            truncate(&**target, file.length()).unwrap_or_default();
        }
        if let Err(cause) = file.route.tidy(&file.source, file.target.as_ref())
            && file.fail()
        {
            self.report_write(&file, cause);
        }
        if self.desk.run.settings.flush
            && file.role != Role::Whole
            && let Some(target) = &file.target
            && !file.has_failed()
            && let Err(cause) = synchronize(&**target)
            && file.fail()
        {
            // What a journal says was moved must outlive the host.
            self.report_write(&file, cause);
        }
        let moved =
            !file.has_failed() && (file.role == Role::Member || self.desk.tool().finish(&self.desk, &file));
        let moved = moved && self.is_all_there(&file);
        let OpenFile { found, source, target, own, role, .. } = file;
        let (own, settles) = match role {
            Role::Whole => (Some(own), Settles::Entry),
            Role::Leader(number) => (Some(own), Settles::Large(number)),
            Role::Member => (None, Settles::Entry),
        };
        let ending = Ending { found, source: Some(source), own, moved, settles };
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
    pub(super) fn abandon(&mut self, slot: usize, found: Found<T>, source: Arc<Fd>) {
        self.close_source(
            slot,
            Ending { found, source: Some(source), own: None, moved: false, settles: Settles::Entry },
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
        match ending.settles {
            Settles::Entry => {
                if let (true, Some(part)) = (ending.moved, &ending.found.node.part) {
                    part.note_moved();
                }
                self.desk.settle(&ending.found);
            }
            Settles::Large(number) => self.large_is_over(&ending.found, number, ending.moved),
            Settles::Nothing => {}
        }
    }
}
