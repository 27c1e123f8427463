//! The worker, the core loop: takes jobs and drives several files at a time through their states.
//!
//! ```text
//!               ┌────────────── window of slots, each one file ───────────────┐
//! batch ─admit─►│ Opening ─► Stating ─► Probing ─► Moving ─► ClosingTarget ─► │─► complete
//!               │                          │          ▲      ClosingSource    │
//!               │                          └► parked ─┘ (oldest first)        │
//!               └─────────────────────────────────────────────────────────────┘
//! ```
//!
//! With [`Ops::Multi`] and [`Ops::Batch`] a file has several slots, one for each of its streams.
//!
//! Look-ahead: with an engine that blocks, a file whose first block is not in the page cache is
//! parked while the kernel fetches it, and the worker opens other files. When the window is full or
//! nothing is left to open, the oldest parked file resumes. With an engine that doesn't block,
//! files wait in the engine instead.
//!
//! Backpressure: while the tool's gauge is over its limit, a worker takes no job as long as
//! anything is in hand, its own or another worker's. That work is what the backlog waits for.
//!
//! Engine choice: with `Choice::Auto` a worker begins with blocking calls, the fastest way
//! to cached data. When several small files in a row turn out not to be cached, it changes
//! to a ring, which passes many reads to the disk at once, so that neighbours are fetched
//! together (docs/measurements/).
//!
//! Termination: every step admits an entry, completes an operation, resumes a parked file, waits
//! for other workers' jobs, or reports that the worker is idle. Entries, operations per entry and
//! parked files are finite.
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

/// Number of uncached small files in a row after which a ring pays for itself. Creating one costs
/// about as much as copying a few dozen files.
const ABSENT_IN_A_ROW: usize = 32;

/// Maximum size of a small file, in bytes. Larger files fill the disk's queue by themselves
/// when fetched ahead: a ring gains nothing for them, and every operation in it has a
/// buffer (docs/measurements/choices.md).
const SMALL_BYTES: u64 = 64 << 10;

/// Pause of a worker under backpressure before it checks again.
const HELD_BACK: Duration = Duration::from_micros(500);

pub(super) struct Worker<'r, T: Tool> {
    pub(super) cx: Context<'r, T>,
    pub(super) engine: Box<dyn Engine>,
    depth: usize,
    /// True if the engine reads and writes a block in one operation.
    pub(super) pairs: bool,
    /// True if a file's first block is looked for in the page cache before [`Tool::open_file`].
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
    /// True if this worker is counted in [`Run`]'s `busy`.
    is_known_busy: bool,
    done: Vec<Done>,
    buffers: Vec<Buffer>,
    pub(super) block_bytes: usize,
}

impl<'r, T: Tool> Worker<'r, T> {
    /// Creates worker `me` of a run, with an engine of its own. Must be called on the thread that
    /// will step it.
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

    /// Adapts to a new engine.
    fn adapt(&mut self, caps: Caps) {
        let switches = self.cx.run.settings.switches;
        self.depth = caps.depth;
        self.pairs = caps.pairs;
        // Direct I/O and `drop_cache` don't want the block in the cache, and a pair would read
        // it twice.
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

    /// Called when the first block of a file was in the page cache.
    pub(super) fn note_present(&mut self) {
        self.absent_in_a_row = 0;
    }

    /// Called when the first block of a file of `bytes` bytes was not in the page cache.
    pub(super) fn note_absent(&mut self, bytes: u64) {
        if bytes <= SMALL_BYTES {
            self.absent_in_a_row += 1;
        }
    }

    /// Changes to a ring if the data has to come from the disk: at most once, with nothing
    /// in flight.
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

    /// Counts this worker as busy or not, so that others can see it.
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

    /// Returns true if the current batch has entries left.
    fn has_entries(&self) -> bool {
        self.chunk.as_ref().is_some_and(|(_, batch)| !batch.range.is_empty())
    }

    fn is_under_backpressure(&self) -> bool {
        self.cx.run.policy.backpressure.as_ref().is_some_and(Gauge::is_over)
    }

    /// Backpressure: returns true while this worker must not take another job, because it or
    /// another worker has something in hand.
    fn is_held_back(&self) -> bool {
        let has_some = self.engine.in_flight() > 0 || !self.parked.is_empty();
        let others = || self.cx.run.busy.load(Ordering::Relaxed) > usize::from(self.is_known_busy);
        !self.has_entries() && self.is_under_backpressure() && (has_some || others())
    }

    /// Admits the next entry of the current batch, or else takes a job. Returns false if there
    /// is none.
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

    /// Classifies an entry, asks the tool what it needs, and begins it.
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
            // Now known not to be a directory, so another process may do it.
            let batch = Batch::looked_at(&entry);
            return self.cx.share(Job::Files(entry.node, batch));
        }
        match self.cx.run.tool.plan(&self.cx, &entry, classified.kind) {
            Plan::Read(probe) => self.open(entry, classified.follow, probe),
            Plan::Skip => self.cx.complete(&entry),
            Plan::Enter | Plan::Handle => self.cx.handle(&entry, classified.kind),
        }
    }

    /// Puts a state in a free slot, and returns the slot.
    pub(super) fn occupy(&mut self, state: State<T>) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(state);
        slot
    }

    /// Frees a slot whose file is done in this worker.
    pub(super) fn vacate(&mut self, slot: usize) {
        self.files -= 1;
        self.leave(slot);
    }

    /// Frees one of a file's slots.
    pub(super) fn leave(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.free.push(slot);
    }

    /// Returns how many more operations the engine accepts, at least one.
    pub(super) fn room(&self) -> usize {
        self.depth.saturating_sub(self.engine.in_flight()).max(1)
    }

    /// Submits an operation for `slot`. If the engine is full, reaps a completion first.
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

    /// Waits for at least one completion, and advances the file of each that arrived.
    fn complete(&mut self) {
        let outcome = match self.cx.run.settings.ops {
            // Submitted and waited for together. An engine that can, does both in one call.
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
            // Reuse the allocation, unless `advance` has reaped more.
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

    pub(super) fn take_buffer(&mut self) -> Buffer {
        self.buffers.pop().unwrap_or_else(|| Buffer::new(self.block_bytes))
    }

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
        // Files parked before the engine changed come first: a ring may always have something
        // in flight.
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
        // The engine blocks and there is nothing left to open, or the window is full.
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
    /// Logs what the engine did (`--debug`): whether the requested features were really used.
    fn drop(&mut self) {
        let (report, used) = (self.cx.report(), self.engine.used());
        if report.wants_debug() && used != Used::default() {
            report.debug(&format!("worker {}, {}: {used}", self.cx.me, self.engine.caps().name));
        }
    }
}
