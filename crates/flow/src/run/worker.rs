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
//! The states and their transitions are in `file.rs`. With [`Ops::Multi`] and [`Ops::Batch`] a file
//! has several slots, one for each of its streams.
//!
//! Look-ahead: with an engine that blocks, a file whose first block is not in the page cache is
//! parked while the kernel fetches it, and the worker opens other files. When the window is full or
//! nothing is left to open, the oldest parked file resumes. With an engine that doesn't block,
//! files wait in the engine instead.
//!
//! Backpressure: while the tool's gauge is over its limit, a worker takes no job as long as any
//! work is in progress, its own or another worker's. The backlog waits for that work.
//!
//! Engine choice: with `EngineChoice::Auto` a worker begins with blocking calls, the fastest way
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
use std::time::{Duration, Instant};

use haul_engine::{Call, Caps, Done, Engine, EngineChoice, Op, Ops, Used};
use haul_sys::{DirectoryReader, EntryType};

use super::file::{FileState, FileStep, Opening, begin_range, fetch};
use super::io::Io;
use super::walk;
use crate::batch::Batch;
use crate::context::Context;
use crate::decision::{EntryFailure, Plan};
use crate::limits::{Load, Side, measure_call};
use crate::policy::Gauge;
use crate::report::{RunInfo, Tally};
use crate::settings::Settings;
use crate::tool::{DirNode, Entry, Job, Tool};

/// Maximum bytes of parked files: beyond it no more files are opened. Enough to keep a disk busy.
/// Without a limit a worker would hoard a whole batch of large files that others could move.
const PARKED_BYTES_MAX: u64 = 16 << 20;

/// Interval at which a worker under backpressure checks again.
const BACKPRESSURE_PAUSE: Duration = Duration::from_micros(500);

/// A thread's share of a run.
pub(crate) struct Worker<'r, T: Tool> {
    cx: Context<'r, T>,
    engine: Box<dyn Engine>,
    /// Resources for the files in flight.
    io: Io,
    may_change_engine: bool,
    reader: DirectoryReader,
    /// Entries that are not admitted yet, and their directory.
    batch: Option<(Arc<DirNode<T>>, Batch)>,
    batch_taken: Instant,
    slots: Vec<Option<FileState<T>>>,
    free: Vec<usize>,
    /// Files in flight, at most the window.
    files: usize,
    parked: VecDeque<usize>,
    parked_bytes: u64,
    /// An entry to handle once no other work is in progress, because that may block.
    alone: Option<(Entry<T>, EntryType)>,
    /// True if this worker is counted in the run's `busy`.
    is_known_busy: bool,
    done: Vec<Done>,
}

impl<'r, T: Tool> Worker<'r, T> {
    /// Creates a worker with an engine of its own. Must be called on the thread that will run it.
    pub(crate) fn new(cx: Context<'r, T>, engine: Box<dyn Engine>) -> Self {
        let window = cx.settings().window_of(cx.worker);
        let io = Io::new(Settings { window, ..*cx.settings() }, engine.caps());
        let mut worker = Self {
            // A preloaded library sees blocking calls only.
            may_change_engine: cx.settings().engine == EngineChoice::Auto && haul_sys::interposer().is_none(),
            cx,
            engine,
            reader: DirectoryReader::new(),
            batch: None,
            batch_taken: Instant::now(),
            slots: Vec::new(),
            free: Vec::new(),
            files: 0,
            parked: VecDeque::with_capacity(io.window),
            parked_bytes: 0,
            alone: None,
            is_known_busy: false,
            done: Vec::with_capacity(io.window),
            io,
        };
        worker.register_buffers();
        worker
    }

    /// Does a small amount of work. Returns false if the worker has no work in progress and found
    /// no job to take.
    pub(crate) fn step(&mut self) -> bool {
        if self.engine.in_flight() == 0 && self.done.is_empty() {
            self.choose_engine();
        }
        // Files parked before the engine changed come first: a ring may always have something
        // in flight.
        while !self.io.caps.blocks
            && self.engine.in_flight() < self.io.caps.depth
            && let Some(slot) = self.parked.pop_front()
        {
            self.resume(slot);
        }
        while self.alone.is_none() && self.has_room() && !self.is_held_back() {
            // Before a job is taken: otherwise others could see nobody busy while this worker holds
            // one.
            self.note_busy(true);
            if !self.admit() {
                break;
            }
            // Entries that aren't read are done at once, so thousands may pass through this loop.
            self.cx.start_workers();
        }
        if self.engine.in_flight() > 0 || !self.done.is_empty() {
            self.complete();
            return true;
        }
        // The engine blocks and there is nothing left to open, or the window is full.
        if let Some(slot) = self.parked.pop_front() {
            self.resume(slot);
            return true;
        }
        if self.cx.close_waiting() {
            return true;
        }
        let is_held_back = self.is_held_back();
        self.note_busy(false);
        if let Some((entry, kind)) = self.alone.take() {
            // The counts must not wait with it.
            self.cx.flush();
            self.cx.set_current_entry(&entry);
            self.cx.expect_to_block();
            self.cx.handle(&entry, kind);
            return true;
        }
        if is_held_back {
            std::thread::sleep(BACKPRESSURE_PAUSE);
        } else {
            // The worker may sleep now, and its counts must not sleep with it.
            self.cx.flush();
        }
        is_held_back
    }

    /// Returns true if another file may be opened.
    fn has_room(&self) -> bool {
        self.engine.in_flight() < self.io.caps.depth
            && self.files < self.io.window
            && self.parked_bytes < PARKED_BYTES_MAX
    }

    /// Admits the next entry of the current batch, or else takes a job. Returns false if there are
    /// no jobs.
    fn admit(&mut self) -> bool {
        if let Some((node, batch)) = &mut self.batch {
            let driver = self.cx.run.driver;
            if batch.len() > 1 && driver.should_split(self.batch_taken) {
                let rest = Job::Files(Arc::clone(node), batch.split_off_half());
                driver.share_first(self.cx.worker, rest);
            }
            if let Some(entry) = batch.next(node) {
                let is_classified = batch.is_classified;
                self.start(entry, is_classified);
                return true;
            }
            self.batch = None;
            self.cx.flush();
        }
        match self.cx.run.driver.take(self.cx.worker) {
            None => return false,
            Some(Job::Files(node, batch)) => {
                self.batch = Some((node, batch));
                self.batch_taken = Instant::now();
            }
            Some(Job::Enter(node, mut batch)) => {
                self.cx.set_current_node(Some(&node));
                // Share it in halves, so that other workers can start on them.
                while batch.len() > 1 {
                    self.cx.share(Job::Enter(Arc::clone(&node), batch.split_off_half()));
                }
                if let Some(entry) = batch.next(&node) {
                    drop((node, batch));
                    walk::visit(&self.cx, &mut self.reader, entry, false);
                }
            }
            Some(Job::List(node, fd)) => {
                walk::list(&self.cx, &mut self.reader, &node, fd, walk::Window::Next)
            }
            Some(Job::Callback(callback)) => {
                self.cx.set_current_node(None);
                callback(&self.cx);
            }
            Some(Job::Alone(entry, kind)) => self.alone = Some((entry, kind)),
            Some(Job::Entries(entries)) => entries.into_iter().for_each(|entry| self.start(entry, true)),
            Some(Job::Range(file, range, transfer)) => {
                self.cx.set_current_entry(&file.entry);
                let slot = self.take_slot();
                self.files += 1;
                self.io.queue_space = self.queue_space();
                let next = begin_range(&self.cx, &mut self.io, file, range, transfer);
                self.drive(slot, next);
            }
            Some(Job::Fetch(file, range)) => {
                self.cx.set_current_entry(&file.entry);
                let slot = self.take_slot();
                self.files += 1;
                self.io.queue_space = self.queue_space();
                let next = fetch(&self.cx, &mut self.io, file, &range);
                self.drive(slot, next);
            }
        }
        true
    }

    /// Classifies an entry, asks the tool what it needs, and begins it.
    fn start(&mut self, mut entry: Entry<T>, is_classified: bool) {
        self.cx.set_current_entry(&entry);
        let classified = match walk::classify(&self.cx, &mut entry) {
            Ok(classified) => classified,
            Err(cause) => return self.cx.give_up(&entry, EntryFailure::Classify(&cause)),
        };
        if classified.kind == EntryType::Directory {
            return walk::visit(&self.cx, &mut self.reader, entry, classified.follow);
        }
        match walk::is_selected(&self.cx, &entry, &classified) {
            Ok(true) => {}
            Ok(false) => {
                self.cx.count(Tally { excluded: 1, ..Tally::default() });
                return self.cx.skip(&entry);
            }
            Err(cause) => return self.cx.give_up(&entry, EntryFailure::Classify(&cause)),
        }
        let was_unknown = entry.kind == EntryType::Unknown || classified.follow;
        if was_unknown && !is_classified && self.cx.run.driver.classifies_first() {
            // Now known not to be a directory, so another process may do it.
            let batch = Batch::classified(entry.name(), entry.kind);
            return self.cx.share(Job::Files(entry.node, batch));
        }
        self.cx.wait_for(Load::ENTRY);
        let plan = || self.cx.run.tool.plan(&self.cx, &entry, classified.kind);
        let looks = |plan: &Plan| !self.cx.take_has_read() && matches!(plan, Plan::Skip);
        match measure_call(self.cx.run.limits, Side::Source, plan, looks) {
            Plan::Read(probe) => {
                let opening = Opening { entry, follow: classified.follow, probe, begun: None };
                if let Some(next) = opening.begin(&self.cx) {
                    let slot = self.take_slot();
                    self.files += 1;
                    self.drive(slot, next);
                }
            }
            Plan::Skip => self.cx.skip(&entry),
            Plan::Enter | Plan::Handle => self.cx.handle(&entry, classified.kind),
            // Shared, because this worker may still have the rest of a batch.
            Plan::HandleAlone => {
                self.cx.run.driver.share_first(self.cx.worker, Job::Alone(entry, classified.kind));
            }
        }
    }

    /// Waits for at least one completion, and advances the file of each that arrived.
    fn complete(&mut self) {
        let outcome = match self.io.settings.ops {
            // Submitted and waited for together. An engine that can, does both in one call.
            Some(Ops::Batch) => self.engine.reap(self.engine.in_flight(), &mut self.done),
            _ => self.engine.flush().and_then(|()| self.engine.reap(1, &mut self.done)),
        };
        self.log_failure(outcome);
        let mut done = std::mem::take(&mut self.done);
        for Done { token, outcome } in done.drain(..) {
            let slot = token as usize;
            let Some(state) = self.slots.get_mut(slot).and_then(Option::take) else { continue };
            self.cx.set_current_entry(state.entry());
            self.io.queue_space = self.queue_space();
            let next = state.advance(&self.cx, &mut self.io, outcome);
            self.drive(slot, next);
        }
        if self.done.is_empty() {
            // Reuse the allocation, unless `drive` has reaped more.
            self.done = done;
        }
    }

    /// Resumes a parked file.
    fn resume(&mut self, slot: usize) {
        if let Some(FileState::Probing(file)) = self.slots[slot].take() {
            self.parked_bytes -= file.size().min(PARKED_BYTES_MAX);
            self.cx.set_current_entry(&file.entry);
            self.io.queue_space = self.queue_space();
            let next = file.begin(&self.cx, &mut self.io, None);
            self.drive(slot, next);
        }
    }

    /// Performs the next step of the file in a slot.
    fn drive(&mut self, slot: usize, next: FileStep<T>) {
        match next {
            FileStep::Call(state, call) => self.submit(slot, state, call),
            FileStep::Park(file) => {
                self.parked_bytes += file.size().min(PARKED_BYTES_MAX);
                self.slots[slot] = Some(FileState::Probing(file));
                self.parked.push_back(slot);
            }
            FileStep::Streams(streams) => {
                let last = streams.len() - 1;
                for (index, stream) in streams.into_iter().enumerate() {
                    let slot = if index == last { slot } else { self.take_slot() };
                    let next = FileState::begin_stream(&self.cx, &mut self.io, stream);
                    self.drive(slot, next);
                }
            }
            FileStep::Other(state) => self.slots[slot] = Some(state),
            FileStep::StreamDone => self.free.push(slot),
            FileStep::FileDone => {
                self.files -= 1;
                self.free.push(slot);
            }
        }
    }

    /// Submits an operation for `slot`. If the engine is full, reaps a completion first.
    fn submit(&mut self, slot: usize, state: FileState<T>, call: Call) {
        self.slots[slot] = Some(state);
        let mut op = Op { token: slot as u64, call };
        while let Err(refused) = self.engine.submit(op) {
            op = *refused;
            let outcome = self.engine.reap(1, &mut self.done);
            self.log_failure(outcome);
        }
    }

    fn log_failure(&self, outcome: haul_sys::Result<()>) {
        if let Err(cause) = outcome {
            self.cx.report().debug(&format!("the {} engine failed: {cause:#}", self.io.caps.name));
        }
    }

    fn take_slot(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        })
    }

    /// Returns the free space in the engine's queue, in operations; at least one.
    fn queue_space(&self) -> usize {
        self.io.caps.depth.saturating_sub(self.engine.in_flight()).max(1)
    }

    /// Counts this worker as busy or not, so that others can see it.
    fn note_busy(&mut self, is_busy: bool) {
        if is_busy != self.is_known_busy {
            self.is_known_busy = is_busy;
            let busy = &self.cx.run.busy;
            if is_busy {
                // Relaxed: workers that see it late hold back late, and check again.
                busy.fetch_add(1, Ordering::Relaxed)
            } else {
                busy.fetch_sub(1, Ordering::Relaxed)
            };
        }
    }

    /// Backpressure: returns true while this worker must not take another job, because it or
    /// another worker has work in progress.
    fn is_held_back(&self) -> bool {
        let has_entries = self.batch.as_ref().is_some_and(|(_, batch)| !batch.is_empty());
        let is_over = || self.cx.run.policy.backpressure.as_ref().is_some_and(Gauge::is_over);
        let has_work = || self.engine.in_flight() > 0 || !self.parked.is_empty();
        let others_busy = || self.cx.run.busy.load(Ordering::Relaxed) > usize::from(self.is_known_busy);
        !has_entries && is_over() && (has_work() || others_busy())
    }

    /// Changes to a ring if the data has to come from the disk: at most once, with nothing
    /// in flight.
    fn choose_engine(&mut self) {
        if !self.may_change_engine || !self.io.suits_ring() {
            return;
        }
        self.may_change_engine = false;
        let settings = *self.cx.settings();
        let made = haul_engine::make(EngineChoice::Uring, &settings.engine_setup());
        let Caps { name, blocks, .. } = made.engine.caps();
        let report = self.cx.report();
        if blocks {
            let why = made.note.unwrap_or_default();
            return report.debug(&format!("the data is not cached, but {why}"));
        }
        report.started(RunInfo { engine: name, jobs: settings.jobs });
        report.debug(&format!("the data is not cached: worker {} switches to {name}", self.cx.worker));
        self.engine = made.engine;
        self.io.adapt(self.engine.caps());
        self.register_buffers();
    }

    fn register_buffers(&mut self) {
        if !self.io.settings.switches.registered_buffers {
            return;
        }
        let mut buffers: Vec<_> = (0..self.io.caps.depth).map(|_| self.io.new_buffer()).collect();
        if let Err(cause) = self.engine.register(&mut buffers) {
            let name = self.io.caps.name;
            self.cx.report().debug(&format!("the {name} engine has no registered buffers: {cause:#}"));
        }
        self.io.large_buffers = buffers;
    }
}

impl<T: Tool> Drop for Worker<'_, T> {
    /// Logs what the engine did (`--debug`): whether the requested features were really used.
    fn drop(&mut self) {
        let (report, used) = (self.cx.report(), self.engine.used());
        if report.wants_debug() && used != Used::default() {
            report.debug(&format!("worker {}, {}: {used}", self.cx.worker, self.io.caps.name));
        }
    }
}
