//! Driver of the launch process: directories are processed here, files by the ranks.
//!
//! ```text
//! worker:   share(files) ─► table, link ─► ranks
//! receiver: link ─► heartbeats: answers;  reports ─► handler
//! handler:  reports ─► the user;  table row ─► Job::Callback ─► worker: complete
//! ```
//!
//! It extends the local driver in two ways: a distributable job goes over the link instead of into
//! a queue, and two threads receive and handle the reports. Every row of the table holds a feed of
//! the local driver, so the run ends when the workers have nothing to do and nothing is in flight.
//!
//! Bound: a worker that would exceed [`outstanding_max`] waits. The handler makes space without the
//! workers, so the wait ends when the ranks complete something or are given up.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_flow::{
    CancelToken, DirHandle, Driver, Entry, Executor, Feed, Job, JobSpec, Limits, Local, Operand, Policy,
    Problem, Status, Tally, lock, plan,
};
use haul_journal::{Journal, Stamp};
use haul_sys::leads_to_descriptor;

use super::group::{ProcessGroup, Received, Restart};
use super::outstanding::{LargeInFlight, Outstanding, Sent, entry_key};
use crate::distributed::Distributed;
use crate::error::JobError;
use crate::item::{ItemOutcome, ItemSpec, PackedItem, PendingItem};
use crate::kind::ClusterKind;
use crate::schedule::ItemId;
use crate::wire::{PackedProblem, ProgressReport, RangeDone, ToMaster, UserOutput, pack};

/// Maximum entries in flight with few ranks.
const OUTSTANDING_ENTRIES: usize = 1 << 20;

/// Maximum entries in flight per rank: two full bundles, and as many again in rank 0's queue.
const OUTSTANDING_ENTRIES_EACH: usize = 4 << 10;

/// Minimum and maximum interval at which the receiver checks whether the run has ended: short after
/// a message, which may have been the last.
const RECEIVE_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Driver of the launch process.
struct Remote<'a, T: Distributed> {
    local: &'a Local<Job<T>>,
    group: &'a ProcessGroup,
    spec: &'a JobSpec<'a, T>,
    table: Mutex<Outstanding<'a, T>>,
    has_space: Condvar,
    ended: AtomicBool,
    /// Entries that will not be copied.
    lost: AtomicU64,
    closed: AtomicBool,
    /// Entries found so far.
    seen: AtomicU64,
    /// True if a rank has reported an error.
    failed: AtomicBool,
    cancel: CancelToken,
    /// True if the ranks know that the run is cancelled.
    cancelled: AtomicBool,
    /// Number of changes of the limits of which the ranks know.
    limits_sent: AtomicU64,
    /// The paths of operands, and whether they lead through a descriptor of this process.
    operands: Mutex<HashMap<PathBuf, bool>>,
}

impl<'a, T: Distributed + 'static> Remote<'a, T> {
    fn new(local: &'a Local<Job<T>>, group: &'a ProcessGroup, spec: &'a JobSpec<'a, T>) -> Self {
        Self {
            local,
            group,
            spec,
            table: Mutex::default(),
            has_space: Condvar::new(),
            ended: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            cancel: spec.run.tool.policy().cancel,
            cancelled: AtomicBool::new(false),
            limits_sent: AtomicU64::new(0),
            operands: Mutex::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Outstanding<'a, T>> {
        lock(&self.table)
    }

    /// Sends a work item, with its records in the journal.
    fn send(&self, pending: PendingItem<T>, item: ItemSpec) {
        let is_recorded = T::MAY_BE_REPEATED && !item.claimed;
        let Some(journal) = self.group.journal().filter(|_| is_recorded) else {
            return self.dispatch(pending, item);
        };
        let pending = if journal.has_begun() { self.send_begun(journal, pending, &item) } else { pending };
        let stamps = pending.entries().iter().map(|entry| self.known(journal, entry)).collect();
        self.dispatch(pending, ItemSpec { stamps: Some(stamps), ..item });
    }

    /// Returns the stamp that an earlier run gave to an entry.
    fn known(&self, journal: &Journal, entry: &Entry<T>) -> Stamp {
        entry_key(self.spec.run.tool, entry).map_or(Stamp::NONE, |key| journal.stamp(key))
    }

    /// Sends the large files of an item that an earlier run has begun and not completed as items of
    /// their own, with the ranges that were moved. Returns the rest of the item.
    fn send_begun(&self, journal: &Journal, mut pending: PendingItem<T>, item: &ItemSpec) -> PendingItem<T> {
        let entries: Vec<_> = pending.entries().to_vec();
        for entry in entries {
            if self.known(journal, &entry) != Stamp::NONE {
                continue;
            }
            let begun = entry_key(self.spec.run.tool, &entry).and_then(|key| journal.begun(key));
            let Some((begun, alone)) = begun.and_then(|begun| Some((begun, pending.take(entry.name())?)))
            else {
                continue;
            };
            let (begun, stamps) = (Some(begun.for_ranks()), Some(vec![Stamp::NONE]));
            self.dispatch(alone, ItemSpec { begun, stamps, ..item.clone() });
        }
        pending
    }

    /// True if only this process can open the directory of a job's entries.
    fn is_below_descriptor(&self, job: &Job<T>) -> bool {
        let node = match job {
            Job::Enter(node, _) | Job::Files(node, _) => node,
            Job::Entries(entries) => match entries.first() {
                Some(entry) => &entry.node,
                None => return false,
            },
            _ => return false,
        };
        // Finds the directory that operands are in, and the operand if the node is in or below one.
        let (mut above, mut operand): (&DirHandle, Option<&DirHandle>) = (&node.source, None);
        while let Some(parent) = above.parent() {
            (above, operand) = (parent, Some(above));
        }
        let path: PathBuf =
            iter::once(above).chain(operand).map(|part| OsStr::from_bytes(part.name().to_bytes())).collect();
        let mut operands = lock(&self.operands);
        if let Some(known) = operands.get(&path) {
            return *known;
        }
        let is_below = leads_to_descriptor(&path);
        operands.insert(path, is_below);
        is_below
    }

    /// Returns the maximum number of entries of the items that a job becomes. The walk has already
    /// cut its listings into batches; a tool may have any number of operands.
    fn item_entries(&self, pending: &PendingItem<T>) -> usize {
        let is_operand = || pending.entries().first().is_some_and(Entry::is_operand);
        if T::OPERANDS_ARE_CUT && is_operand() {
            self.batch_entries(pending.entry_count())
        } else {
            usize::MAX
        }
    }

    fn dispatch(&self, pending: PendingItem<T>, item: ItemSpec) {
        let entries = pending.entry_count();
        if entries == 0 {
            return;
        }
        // Opened before the wait: the run must not end while this item waits for room.
        let feed = self.local.feed();
        let most = outstanding_max(self.group.workers());
        let mut table = self.table();
        while table.entries() >= most {
            table = self.has_space.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        // With the table locked: items inserted before the job is given up are given up with it.
        if self.group.is_lost() {
            drop(table);
            return self.abandon(pending, &item, feed);
        }
        let item = ItemSpec { number: table.number(), attempt: 1, ..item };
        self.post(&pending, &item, entries);
        table.insert(Sent { pending, item, entries, feed });
    }

    /// Posts a work item to the link. If the link is broken, the handler sends everything in the
    /// table again, so the caller must hold the table's lock.
    fn post(&self, pending: &PendingItem<T>, item: &ItemSpec, entries: usize) {
        let packed: PackedItem = pending.pack(self.spec.run.tool, item.clone());
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        let (item, directory) = (ItemId(item.number), packed.source.inode());
        self.group.post(ToMaster::Item { item, directory, entries, body: pack(&packed) });
    }

    /// Shares a job that completes the entries that another process has processed.
    fn complete(&self, feed: Feed<'a, Job<T>>, pending: PendingItem<T>, claimed: bool, outcome: ItemOutcome) {
        feed.share(Job::Callback(Box::new(move |cx| pending.complete(cx, claimed, outcome))));
    }

    /// Has a worker complete entries that nobody will process.
    fn abandon(&self, pending: PendingItem<T>, item: &ItemSpec, feed: Feed<'a, Job<T>>) {
        self.lost.fetch_add(pending.entry_count() as u64, Ordering::Relaxed);
        self.complete(feed, pending, item.claimed, ItemOutcome::default());
    }

    /// Handles reports until the run ends or the job is lost for good.
    fn handle_reports(&self) {
        let report = self.spec.run.report;
        while let Some(why) = self.handle_reports_of_attempt() {
            report.slow_ranks(Vec::new());
            if self.ended.load(Ordering::Acquire) {
                // Nothing is in flight any more; the loss is reported when the ranks are shut down.
                return;
            }
            if !T::MAY_BE_REPEATED {
                // At once: ending the job takes a while.
                self.spec.run.tool.lost();
            }
            match self.group.restart(self.spec, &why) {
                Some(again) => self.resume(again),
                None => return self.give_up(),
            }
        }
        // Deletion may follow, which shows progress too.
        report.slow_ranks(Vec::new());
    }

    /// Handles reports until the run ends, or the attempt is lost. Returns why it is lost.
    fn handle_reports_of_attempt(&self) -> Option<JobError> {
        let (sender, receiver) = channel();
        std::thread::scope(|threads| {
            threads.spawn(|| self.receive(sender));
            for received in receiver {
                match received {
                    Received::Report(host, report) => self.handle_report(&host, *report),
                    Received::Remark(text) => self.spec.run.report.debug(&text),
                    Received::SlowRanks(slow) => self.spec.run.report.slow_ranks(slow),
                    Received::Grant(load) => self.with_limits(|limits| limits.grant(load)),
                    Received::Nothing => {}
                    Received::Lost(why) => return Some(why),
                }
            }
            None
        })
    }

    /// Receives messages for [`Self::handle_reports`] until the run ends or the attempt is lost.
    /// Heartbeats must be answered at any time, but handling a report may block if nobody reads the
    /// output, as in `less`.
    fn receive(&self, handler: Sender<Received>) {
        let mut timeout = RECEIVE_PAUSES.0;
        while !self.ended.load(Ordering::Acquire) {
            let received = self.group.receive(timeout);
            let is_lost = matches!(received, Received::Lost(_));
            timeout = if let Received::Nothing = received {
                (timeout * 2).min(RECEIVE_PAUSES.1)
            } else {
                // The other end is closed only after a loss, which is the last message.
                handler.send(received).unwrap_or_default();
                RECEIVE_PAUSES.0
            };
            if is_lost {
                return;
            }
            self.send_cancel();
            self.send_limits();
            self.close();
        }
    }

    /// Sends the ranks, once, the cancellation of the run.
    fn send_cancel(&self) {
        if self.cancel.is_cancelled() && !self.cancelled.swap(true, Ordering::Relaxed) {
            self.group.post(ToMaster::Cancel);
        }
    }

    fn with_limits(&self, act: impl FnOnce(&Limits)) {
        if let Some(limits) = self.spec.run.limits {
            act(limits);
        }
    }

    /// Sends the limits if they have changed, and requests the load for the workers here.
    fn send_limits(&self) {
        let Some(limits) = self.spec.run.limits else { return };
        let changes = limits.changes();
        if self.limits_sent.swap(changes, Ordering::Relaxed) != changes {
            self.group.post(ToMaster::Limits(limits.values()));
        }
        if let Some(load) = limits.ask() {
            self.group.post(ToMaster::Request(load));
        }
    }

    /// Once the walk is complete, tells rank 0 that no more items will come, so that it shares the
    /// rest evenly.
    fn close(&self) {
        if self.local.is_idle() && !self.closed.swap(true, Ordering::Relaxed) {
            self.group.post(ToMaster::Closed);
        }
    }

    /// Reports problems of entries that won't be retried.
    fn report_problems(&self, host: &str, problems: Vec<PackedProblem>) {
        if problems.iter().any(PackedProblem::is_error) {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.group.report_problems(host, problems, self.spec.run.report);
    }

    fn handle_report(&self, host: &str, report: ProgressReport) {
        let ProgressReport { opened, items, ranges, files, mut user_output, cancelled } = report;
        if cancelled {
            self.cancel.cancel();
        }
        let UserOutput { problems, .. } = &mut user_output;
        self.report_problems(host, std::mem::take(problems));
        self.group.report_output(host, user_output, self.spec.run.report);
        let journal = self.group.journal();
        // Announced files come first: the ranges, items and files below refer to them.
        for opened in &opened {
            let key = self.table().detach_file(opened, self.spec.run.tool, self.local.feed());
            if let (Some(journal), Some(key)) = (journal, key) {
                journal.file_begun(key, opened.ticket.clone());
            }
        }
        ranges.into_iter().for_each(|done| self.range_done(done));
        for done in items {
            let Some(mut sent) = self.table().item_done(done.item) else { continue };
            self.report_problems(host, done.problems);
            // Invariant: a detached file was removed from its item when it was announced, so
            // nothing large is completed with its item.
            let unannounced =
                done.outcome.detached.iter().filter(|(name, _)| sent.pending.take(name).is_some());
            self.lost.fetch_add(unannounced.count() as u64, Ordering::Relaxed);
            // Items with errors are not recorded: the next run may succeed with them.
            if let Some(journal) = journal.filter(|_| done.error_free) {
                record(journal, self.spec.run.tool, &sent, &done.outcome.stamps);
            }
            self.complete(sent.feed, sent.pending, sent.item.claimed, done.outcome);
        }
        for done in files {
            let Some(large) = self.table().file_done(done.file) else { continue };
            let is_error_free = !done.problems.iter().any(PackedProblem::is_error);
            self.report_problems(host, problems_to_report(&large, done.moved, done.problems));
            let is_stamped = done.moved && is_error_free && done.stamp != Stamp::NONE;
            if let (Some(journal), Some(key)) = (journal.filter(|_| is_stamped), large.key) {
                journal.done([(key, done.stamp)]);
            }
            let name = large.pending.entries().first().map(|entry| entry.name().to_owned());
            let emitted =
                done.emitted.into_iter().filter_map(|result| Some((name.clone()?, result))).collect();
            let completed = name.filter(|_| done.moved).into_iter().collect();
            let outcome = ItemOutcome { completed, emitted, ..ItemOutcome::default() };
            self.complete(large.feed, large.pending, large.item.claimed, outcome);
        }
        self.has_space.notify_all();
    }

    fn range_done(&self, done: RangeDone) {
        self.spec.run.report.count(Tally { bytes: done.bytes, ..Tally::default() });
        self.table().keep_problems(done.file, done.problems);
        if !done.moved {
            return;
        }
        let key = self.table().range_moved(done.file, done.range.clone(), done.result);
        if let (Some(journal), Some(key)) = (self.group.journal(), key) {
            journal.range_moved(key, done.range, Vec::new());
        }
    }

    /// Sends everything left to the ranks of another attempt, including what the walk has added to
    /// the table since.
    fn resume(&self, Restart { why, without, ready }: Restart) {
        let problem = match without {
            None => Problem::new(ClusterKind::Restarting).naming(why.text),
            Some(hosts) => Problem::new(ClusterKind::RestartingWithout).naming(why.text).naming(hosts),
        };
        self.spec.run.report.problem(problem.as_warning());
        // Invariant: items that are in the table when the ranks become ready are sent here; later
        // ones are sent by the thread that adds them.
        let mut table = self.table();
        self.group.adopt(ready);
        // The new ranks have received neither message.
        self.closed.store(false, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
        self.limits_sent.store(0, Ordering::Relaxed);
        // Nor the request that the old rank 0 had.
        self.with_limits(Limits::depend_on_grants);
        self.send_cancel();
        for sent in table.begin_attempt() {
            self.post(&sent.pending, &sent.item, sent.pending.entry_count());
        }
        drop(table);
        // Entries were removed from the table, so there is room.
        self.has_space.notify_all();
    }

    /// Gives up everything in flight. Entries found later are abandoned when they are found.
    fn give_up(&self) {
        self.spec.run.tool.lost();
        self.with_limits(Limits::use_own_clocks);
        let left = self.table().give_up();
        left.into_iter().for_each(|(pending, item, feed)| self.abandon(pending, &item, feed));
        self.has_space.notify_all();
    }

    /// Runs the tool over the operands, with a second thread that handles reports.
    pub(crate) fn run(&self, operands: Vec<Operand<T::Directory>>) -> Status {
        std::thread::scope(|threads| {
            threads.spawn(|| self.handle_reports());
            let status = haul_flow::run(&self.spec.run, self, operands);
            self.ended.store(true, Ordering::Release);
            status
        })
    }

    /// Reports, after the run, the entries that were not copied because the job is lost.
    fn report_losses(&self) {
        let lost = self.lost.load(Ordering::Relaxed);
        let why = || self.group.why_lost().to_string();
        let problem = if self.is_cut_short() {
            Problem::new(ClusterKind::CutShort).naming(why())
        } else if lost > 0 {
            Problem::new(ClusterKind::Lost).naming(why()).naming(lost.to_string())
        } else {
            return;
        };
        self.spec.run.report.problem(problem);
    }

    /// True if the run was cut short: the job is lost, and the tool's work can't be repeated.
    fn is_cut_short(&self) -> bool {
        !T::MAY_BE_REPEATED && self.group.is_lost()
    }

    /// True if something was not copied because the job is lost, or if a rank has reported
    /// an error.
    fn has_failed(&self) -> bool {
        let is_lost = self.lost.load(Ordering::Relaxed) > 0 || self.is_cut_short();
        is_lost || self.failed.load(Ordering::Relaxed)
    }
}

impl<T: Distributed + 'static> Driver<Job<T>> for Remote<'_, T> {
    fn workers(&self) -> usize {
        self.local.workers()
    }

    fn recruit(&self, me: usize) -> Option<usize> {
        self.local.recruit(me)
    }

    fn start_all(&self) {
        self.local.start_all();
    }

    fn not_started(&self) {
        self.local.not_started();
    }

    fn take_remark(&self) -> Option<String> {
        self.local.take_remark()
    }

    fn share(&self, me: usize, job: Job<T>) {
        let claimed = matches!(job, Job::Entries(_));
        let tool = self.spec.run.tool;
        let pending = match self.group.walks_in_ranks() {
            _ if self.is_below_descriptor(&job) => Err(job),
            true => PendingItem::of_directories(tool, job).or_else(|job| PendingItem::of(tool, job)),
            false => PendingItem::of(tool, job),
        };
        match pending {
            Ok(pending) => {
                let most = self.item_entries(&pending);
                let items = pending.cut(most);
                items.for_each(|item| self.send(item, ItemSpec { claimed, ..ItemSpec::default() }));
            }
            Err(job) => self.local.share(me, job),
        }
    }

    fn take(&self, me: usize) -> Option<Job<T>> {
        self.local.take(me)
    }

    fn classifies_first(&self) -> bool {
        true
    }

    fn batch_entries(&self, entry: usize) -> usize {
        let seen = self.seen.fetch_add(entry as u64, Ordering::Relaxed) + entry as u64;
        plan::item_entries(seen, self.group.workers())
    }

    fn wait(&self, me: usize) -> bool {
        self.local.wait(me)
    }
}

impl<T: Distributed + 'static> Executor<T> for ProcessGroup {
    fn prepare(&self, spec: &JobSpec<'_, T>) -> Status {
        self.make_ready(spec).unwrap_or_else(|problem| {
            spec.run.report.problem(problem);
            Status::Failure
        })
    }

    fn execute(&self, spec: &JobSpec<'_, T>, operands: Vec<Operand<T::Directory>>) -> Status {
        if self.prepare(spec) == Status::Failure {
            return Status::Failure;
        }
        let local = Local::of(&spec.run.settings, &Policy::default()).limited(spec.run.limits);
        let remote = Remote::new(&local, self, spec);
        remote.with_limits(Limits::depend_on_grants);
        let status = remote.run(operands);
        remote.with_limits(Limits::use_own_clocks);
        remote.report_losses();
        if remote.has_failed() { Status::Failure } else { status }
    }
}

/// Chooses the problems of a large file to report: all, unless ranges failed. Of their errors only
/// the first is reported, because the others are consequences. `own` are the leader's problems.
fn problems_to_report<T: Distributed>(
    large: &LargeInFlight<'_, T>,
    moved: bool,
    own: Vec<PackedProblem>,
) -> Vec<PackedProblem> {
    let (errors, mut reported): (Vec<_>, Vec<_>) =
        large.problems.iter().cloned().partition(PackedProblem::is_error);
    reported.extend(errors.into_iter().take(if moved { usize::MAX } else { 1 }));
    reported.extend(own);
    if !moved && !reported.iter().any(PackedProblem::is_error) {
        let path = large.pending.entries().first().map(Entry::path).unwrap_or_default();
        reported.push(PackedProblem::from(Problem::new(ClusterKind::NotMoved).naming(path)));
    }
    reported
}

/// Records the completed entries of an item that the journal doesn't have yet.
fn record<T: Distributed>(journal: &Journal, tool: &T, sent: &Sent<'_, T>, stamps: &[Stamp]) {
    // Entries with a hard-link claim are never recorded: a later run that skipped them would not
    // know the file to link the other names to.
    if sent.item.claimed || stamps.len() != sent.pending.entry_count() {
        return;
    }
    let stamped = sent.pending.entries().iter().zip(stamps).filter(|(_, stamp)| **stamp != Stamp::NONE);
    let keyed = stamped.filter_map(|(entry, stamp)| Some((entry_key(tool, entry)?, *stamp)));
    journal.done(keyed.filter(|(key, stamp)| journal.stamp(*key) != *stamp));
}

/// Returns the maximum number of entries in flight to `ranks` ranks.
fn outstanding_max(ranks: usize) -> usize {
    OUTSTANDING_ENTRIES.max(ranks.saturating_mul(OUTSTANDING_ENTRIES_EACH))
}
