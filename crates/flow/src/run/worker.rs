//! The worker: takes jobs and drives files through their states, several at a time.
//!
//! ```text
//!               ┌────────────── window of slots, each one file ──────────────┐
//! chunk ─admit─►│ Opening ─► Stating ─► Probing ─► Moving ─► ClosingTarget ─► │─► settled
//!               │                          │          ▲       ClosingSource  │
//!               │                          └► parked ─┘ (oldest first)        │
//!               └─────────────────────────────────────────────────────────────┘
//! ```
//!
//! With an engine that blocks, the look-ahead is here: a file whose first block is not in the page cache is parked
//! while the kernel fetches it, and the worker goes on opening others; when the window is full or nothing is left to
//! open, the file parked first goes on. With an engine that does not block, files wait in the engine instead.
//!
//! Where a tool is crowded, a worker takes no job as long as others have something in hand: the crowd waits for that.
//!
//! Left to choose (`Choice::Auto`), a worker begins with blocking calls, which are the fastest way to data in memory.
//! When some small files in a cursor turn out not to be there, it changes to a ring, which passes many reads to the disk at
//! once so that neighbours are fetched together (docs/measurements/).
//!
//! Termination: every step admits an entry, completes an operation, resumes a parked file, or reports that the worker
//! is idle; entries, operations per entry and parked files are finite.
//!
//! With [`Ops::Multi`] and [`Ops::Batch`] a file has several slots, one for each of its streams.
//!
//! Invariant: a slot in use has exactly one operation in flight, or is parked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_engine::{Call, Caps, Choice, Done, Engine, Op, Ops, Outcome, Used};
use haul_sys::{Buffer, DirectoryReader, EntryType, Name};

use super::file::State;
use super::stream::Stream;
use super::{Batch, Context, Job, Run};
use crate::driver::{Progress, Step};
use crate::node::{DirNode, Entry};
use crate::policy::Gauge;
use crate::report::{RunInfo, Tally};
use crate::tool::{Failure, Plan, Tool};

/// Small files in a cursor whose data is not in memory, after which a ring pays for itself: making one costs about as much as
/// copying a few dozen.
const ABSENT_IN_A_ROW: usize = 32;

/// Files longer than this fill the disk's queue by themselves, fetched ahead: a ring gains nothing for them, and every
/// operation in it has a buffer (docs/measurements/choices.md).
const SMALL_BYTES: u64 = 64 << 10;

/// How long a worker that is held back waits before it looks again.
const HELD_BACK: Duration = Duration::from_micros(500);

/// One worker of a run.
pub(super) struct Worker<'r, T: Tool> {
    pub(super) cx: Context<'r, T>,
    pub(super) engine: Box<dyn Engine>,
    depth: usize,
    /// Whether a block is read and written in one go.
    pub(super) pairs: bool,
    /// Whether a file's first block is looked for before the file is begun.
    pub(super) probes: bool,
    may_change_engine: bool,
    absent_in_a_row: usize,
    reader: DirectoryReader,
    chunk: Option<(Arc<DirNode<T>>, Batch)>,
    pub(super) slots: Vec<Option<State<T>>>,
    free: Vec<usize>,
    /// Files in flight, at most `window`.
    pub(super) files: usize,
    pub(super) window: usize,
    pub(super) parked: VecDeque<usize>,
    /// Whether others know that this worker does something.
    is_known_busy: bool,
    done: Vec<Done>,
    buffers: Vec<Buffer>,
    pub(super) block_bytes: usize,
}

impl<'r, T: Tool> Worker<'r, T> {
    /// Makes the `me`-th worker of a run, with an engine of its own. Call on the thread that will step it.
    pub(super) fn new(run: &'r Run<'r, T>, me: usize, engine: Box<dyn Engine>) -> Self {
        let caps = engine.caps();
        let window = if caps.blocks { run.settings.window } else { run.settings.window.min(caps.depth) };
        let mut worker = Self {
            cx: Context::new(run, me),
            engine,
            depth: caps.depth,
            pairs: false,
            probes: false,
            // A preloaded library sees blocking calls only.
            may_change_engine: run.settings.engine == Choice::Auto && haul_sys::interposer().is_none(),
            absent_in_a_row: 0,
            reader: DirectoryReader::new(),
            chunk: None,
            slots: (0..window).map(|_| None).collect(),
            free: (0..window).rev().collect(),
            files: 0,
            window,
            parked: VecDeque::with_capacity(window),
            is_known_busy: false,
            done: Vec::with_capacity(window),
            buffers: Vec::new(),
            block_bytes: run.settings.block_bytes,
        };
        worker.adapt(caps);
        worker
    }

    /// Adapts to an engine that was just made.
    fn adapt(&mut self, caps: Caps) {
        let switches = self.cx.run.settings.switches;
        self.depth = caps.depth;
        self.pairs = caps.pairs;
        // What the look would bring into the cache is not wanted there, or would be read twice.
        self.probes = switches.read_ahead && !switches.direct && !switches.drop_cache && !caps.pairs;
        if !switches.registered_buffers {
            return;
        }
        let mut buffers: Vec<_> = (0..caps.depth).map(|_| Buffer::new(self.block_bytes)).collect();
        if let Err(cause) = self.engine.register(&mut buffers) {
            let report = self.cx.report();
            report.debug(&format!("the {} engine has no registered buffers: {cause:#}", caps.name));
        }
        self.buffers = buffers;
    }

    /// Notes that the first block of a file was in memory.
    pub(super) fn note_present(&mut self) {
        self.absent_in_a_row = 0;
    }

    /// Notes that the first block of a file of `bytes` bytes was not in memory.
    pub(super) fn note_absent(&mut self, bytes: u64) {
        if bytes <= SMALL_BYTES {
            self.absent_in_a_row += 1;
        }
    }

    /// Changes to a ring if the data has to come from the disk, once; nothing is in flight.
    fn choose_engine(&mut self) {
        if !self.may_change_engine || self.absent_in_a_row < ABSENT_IN_A_ROW {
            return;
        }
        self.may_change_engine = false;
        let settings = self.cx.run.settings;
        let made = haul_engine::make(Choice::Uring, &settings.engine_setup());
        let caps = made.engine.caps();
        if caps.blocks {
            let why = made.note.unwrap_or_default();
            return self.cx.report().debug(&format!("the data is not in memory, but {why}"));
        }
        self.cx.report().started(RunInfo { engine: caps.name, jobs: settings.jobs });
        self.cx
            .report()
            .debug(&format!("the data is not in memory: worker {} reads by {}", self.cx.me, caps.name));
        self.engine = made.engine;
        self.adapt(caps);
    }

    /// Tells others whether this worker does something.
    fn note_busy(&mut self, is_busy: bool) {
        if is_busy != self.is_known_busy {
            self.is_known_busy = is_busy;
            let busy = &self.cx.run.busy;
            if is_busy {
                busy.fetch_add(1, Ordering::Relaxed)
            } else {
                busy.fetch_sub(1, Ordering::Relaxed)
            };
        }
    }

    /// Tells whether the job taken last has entries that are not begun.
    fn has_entries(&self) -> bool {
        self.chunk.as_ref().is_some_and(|(_, batch)| !batch.range.is_empty())
    }

    fn is_under_backpressure(&self) -> bool {
        self.cx.run.policy.backpressure.as_ref().is_some_and(Gauge::is_over)
    }

    /// Tells whether another job has to wait for what is in hand, of this worker or another.
    fn is_held_back(&self) -> bool {
        let has_some = self.engine.in_flight() > 0 || !self.parked.is_empty();
        let others = || self.cx.run.busy.load(Ordering::Relaxed) > usize::from(self.is_known_busy);
        !self.has_entries() && self.is_under_backpressure() && (has_some || others())
    }

    /// Takes the next entry or job, if there is one; returns whether there was.
    fn admit(&mut self) -> bool {
        if let Some((node, mut batch)) = self.chunk.take() {
            if let Some(index) = batch.range.next() {
                let name = Name::new(&batch.names, index);
                let kind = batch.names.entry(index).kind;
                let entry = Entry { node: Arc::clone(&node), name, kind, seen: None };
                let looked_at = batch.looked_at;
                self.chunk = Some((node, batch));
                self.start(entry, looked_at);
                return true;
            }
            self.cx.flush();
        }
        match self.cx.run.driver.take(self.cx.me) {
            None => return false,
            Some(Job::Files(node, batch)) => self.chunk = Some((node, batch)),
            Some(Job::Enter(node, batch)) => {
                self.cx.attend(Some(&node));
                self.cx.enter_batch(&mut self.reader, &node, batch);
            }
            Some(Job::List(node, fd)) => self.cx.list(&mut self.reader, &node, fd),
            Some(Job::Visit(visit)) => {
                self.cx.attend(None);
                visit(&self.cx);
            }
            Some(Job::Entries(entry)) => entry.into_iter().for_each(|entry| self.start(entry, true)),
            Some(Job::Range(file, range, transfer)) => {
                let slot = self.occupy(State::Free);
                self.files += 1;
                self.move_range(slot, Stream::new(file, range, transfer), None);
            }
        }
        true
    }

    /// Finds out what an entry needs and begins it.
    fn start(&mut self, mut entry: Entry<T>, looked_at: bool) {
        self.cx.attend(Some(&entry.node));
        let classified = match self.cx.classify(&mut entry) {
            Ok(classified) => classified,
            Err(cause) => return self.cx.give_up(&entry, Failure::Classify(&cause)),
        };
        if classified.kind == EntryType::Directory {
            return self.cx.visit(&mut self.reader, entry, classified.follow);
        }
        let was_unknown = entry.kind == EntryType::Unknown || classified.follow;
        if was_unknown && !looked_at && self.cx.run.driver.classifies_first() {
            // Now that it is known to be no directory, another process may do it.
            let batch = Batch::looked_at(&entry);
            return self.cx.share(Job::Files(entry.node, batch));
        }
        match self.cx.run.tool.plan(&self.cx, &entry, classified.kind) {
            Plan::Read(probe) => self.open(entry, classified.follow, probe),
            Plan::Skip => self.cx.complete(&entry),
            Plan::Enter | Plan::Handle => self.cx.handle(&entry, classified.kind),
        }
    }

    /// Puts a state in a free slot.
    pub(super) fn occupy(&mut self, state: State<T>) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(state);
        slot
    }

    /// Empties a slot whose file is over, as far as this worker goes.
    pub(super) fn vacate(&mut self, slot: usize) {
        self.files -= 1;
        self.leave(slot);
    }

    /// Empties one of a file's slots.
    pub(super) fn leave(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.free.push(slot);
    }

    /// Returns how many more operations the engine takes, at least one.
    pub(super) fn room(&self) -> usize {
        self.depth.saturating_sub(self.engine.in_flight()).max(1)
    }

    /// Passes an operation for `slot` to the engine, which has room: of `depth` operations in flight, one is missing.
    pub(super) fn submit(&mut self, slot: usize, state: State<T>, call: Call) {
        self.slots[slot] = Some(state);
        let mut op = Op { token: slot as u64, call };
        while let Err(refused) = self.engine.submit(op) {
            op = *refused;
            if let Err(cause) = self.engine.reap(1, &mut self.done) {
                self.cx.report().debug(&format!("the {} engine failed: {cause:#}", self.engine.caps().name));
            }
        }
    }

    /// Waits for at least one completion and advances the files of all that came.
    fn complete(&mut self) {
        let outcome = match self.cx.run.settings.ops {
            // Passed on and waited for together: an engine that can, does both in one call.
            Some(Ops::Batch) => self.engine.reap(self.engine.in_flight(), &mut self.done),
            _ => self.engine.flush().and_then(|()| self.engine.reap(1, &mut self.done)),
        };
        if let Err(cause) = outcome {
            self.cx.report().debug(&format!("the {} engine failed: {cause:#}", self.engine.caps().name));
        }
        let mut done = std::mem::take(&mut self.done);
        for Done { token, outcome } in done.drain(..) {
            self.advance(token as usize, outcome);
        }
        if self.done.is_empty() {
            self.done = done;
        }
    }

    fn advance(&mut self, slot: usize, outcome: Outcome) {
        let Some(state) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        self.cx.attend(state.node());
        match (state, outcome) {
            (State::Opening(entry, probe), Outcome::Opened(result)) => {
                self.opened(slot, entry, probe, result)
            }
            (State::Stating(entry, probe, source), Outcome::Stated(result)) => {
                self.looked(slot, entry, (probe, source), result)
            }
            (State::Probing(look), Outcome::Read { buffer, result }) => {
                self.probed(slot, look, buffer, result)
            }
            (State::Moving(stream), outcome) => self.moved(slot, stream, outcome),
            (State::ClosingTarget(ending), Outcome::Closed(result)) => {
                self.target_closed(slot, ending, result)
            }
            (State::ClosingSource(ending), Outcome::Closed(result)) => {
                self.source_closed(slot, ending, result)
            }
            (state, _) => self.slots[slot] = Some(state),
        }
    }

    /// Takes a buffer from the pool.
    pub(super) fn take_buffer(&mut self) -> Buffer {
        self.buffers.pop().unwrap_or_else(|| Buffer::new(self.block_bytes))
    }

    /// Returns a buffer to the pool.
    pub(super) fn return_buffer(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }

    pub(super) fn count(&self, more: Tally) {
        self.cx.count(more);
    }
}

impl<T: Tool> Step for Worker<'_, T> {
    fn step(&mut self) -> Progress {
        if self.engine.in_flight() == 0 && self.done.is_empty() {
            self.choose_engine();
        }
        // Files that were parked before the engine was changed come first: with a ring there may always be something in flight.
        while !self.parked.is_empty()
            && !self.engine.caps().blocks
            && self.engine.in_flight() < self.depth
            && let Some(slot) = self.parked.pop_front()
        {
            self.resume(slot);
        }
        while self.engine.in_flight() < self.depth && self.files < self.window {
            if self.is_held_back() {
                break;
            }
            self.note_busy(true);
            if !self.admit() {
                break;
            }
        }
        if self.engine.in_flight() > 0 || !self.done.is_empty() {
            self.complete();
            return Progress::Worked;
        }
        if let Some(slot) = self.parked.pop_front() {
            self.resume(slot);
            return Progress::Worked;
        }
        let is_held_back = self.is_held_back();
        self.note_busy(false);
        if is_held_back {
            std::thread::sleep(HELD_BACK);
            return Progress::Worked;
        }
        self.cx.flush();
        Progress::Idle
    }
}

impl<T: Tool> Drop for Worker<'_, T> {
    /// Tells what the engine did, under `--debug`: whether what was asked for was really used.
    fn drop(&mut self) {
        let (report, used) = (self.cx.report(), self.engine.used());
        if report.wants_debug() && used != Used::default() {
            report.debug(&format!("worker {}, {}: {used}", self.cx.me, self.engine.caps().name));
        }
    }
}
