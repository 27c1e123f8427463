//! A worker's view of its run, which it passes to the tool: settings, cache, reporter.
//!
//! A [`Context`] belongs to one worker. It adds up counts and keeps closed files until enough of
//! them wait ([`Policy::closed_waiting`]), so that workers seldom meet at the reporter. Where the
//! entry at hand has an owner, problems and results go to that instead of the reporter.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use haul_sys::{EntryType, Error, Name, NameArena};

use crate::batch::Batch;
use crate::decision::{
    ClosedWaiting, EntryFailure, Finished, Handled, OpenSource, Policy, Reported, Start, Transfer,
};
use crate::directory_cache::DirCache;
use crate::driver::Driver;
use crate::kind::FlowKind;
use crate::limits::{Limits, Load};
use crate::operand::Operand;
use crate::report::{EntryOutcome, EntryReport, Problem, Reporter, Severity, Tally};
use crate::selection::Selector;
use crate::settings::Settings;
use crate::tool::{DirNode, Entry, Job, OpenFile, RootOwner, Tool};

/// Maximum bytes a worker moves before it passes its counts on: often enough for a
/// progress display.
const COUNT_AFTER_BYTES: u64 = 4 << 20;

/// State shared by all workers of a run.
pub(crate) struct RunShared<'r, T: Tool> {
    pub(crate) tool: &'r T,
    pub(crate) cache: &'r DirCache,
    pub(crate) settings: Settings,
    pub(crate) selector: &'r Selector,
    pub(crate) report: &'r dyn Reporter,
    /// True if the reporter wants a report of each entry.
    pub(crate) wants_entries: bool,
    pub(crate) driver: &'r dyn Driver<Job<T>>,
    pub(crate) policy: Policy,
    /// Rate limits of the run, if there are or may be any.
    pub(crate) limits: Option<&'r Limits>,
    pub(crate) has_failed: AtomicBool,
    /// Workers that are doing something, rather than waiting.
    pub(crate) busy: AtomicUsize,
    /// Operands that are not finished.
    pub(crate) unfinished: AtomicUsize,
}

/// One worker's view of the run, which tools get.
pub struct Context<'r, T: Tool> {
    pub(crate) run: &'r RunShared<'r, T>,
    pub(crate) worker: usize,
    /// Starts the workers that the driver wants.
    start_workers: &'r dyn Fn(),
    tally: Cell<Tally>,
    /// Set when the tool has read content while it plans an entry, or opens its target.
    has_read: Cell<bool>,
    errors: Cell<u64>,
    /// Owner of the entries that the worker is processing.
    owner: RefCell<Option<CurrentOwner<T>>>,
    /// Closed files waiting for [`Tool::close_file`].
    closed: RefCell<ClosedFiles<T>>,
    /// Closed files that [`Context::close_waiting`] is passing to the tool.
    closing: RefCell<VecDeque<ClosedFile<T>>>,
}

/// An owner of entries, and the name of the entry in work if it is a single one.
type CurrentOwner<T> = (Arc<dyn RootOwner<T>>, Option<Name>);

/// A closed file that the tool has not been passed yet.
pub(crate) struct ClosedFile<T: Tool> {
    pub(crate) entry: Entry<T>,
    pub(crate) own: T::File,
    /// Length of the content, in bytes.
    pub(crate) length: u64,
    /// True if the content was moved.
    pub(crate) moved: bool,
}

/// Closed files waiting for [`Tool::close_file`].
struct ClosedFiles<T: Tool> {
    files: VecDeque<ClosedFile<T>>,
    /// Length of all of them.
    bytes: u64,
    /// When the first of them was closed.
    since: Instant,
}

impl<T: Tool> Default for ClosedFiles<T> {
    fn default() -> Self {
        Self { files: VecDeque::new(), bytes: 0, since: Instant::now() }
    }
}

impl<'r, T: Tool> Context<'r, T> {
    pub(crate) fn new(run: &'r RunShared<'r, T>, worker: usize, start_workers: &'r dyn Fn()) -> Self {
        let (owner, closed, closing) = (RefCell::new(None), RefCell::default(), RefCell::default());
        let (tally, has_read, errors) = (Cell::default(), Cell::default(), Cell::new(0));
        Self { run, worker, start_workers, tally, has_read, errors, owner, closed, closing }
    }

    /// Returns the tool.
    #[must_use]
    pub fn tool(&self) -> &'r T {
        self.run.tool
    }

    /// Returns the resolved settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// Returns which entries the run leaves out.
    #[must_use]
    pub fn selector(&self) -> &'r Selector {
        self.run.selector
    }

    /// Returns the directory cache.
    #[must_use]
    pub fn cache(&self) -> &'r DirCache {
        self.run.cache
    }

    /// Returns the reporter.
    #[must_use]
    pub fn report(&self) -> &'r dyn Reporter {
        self.run.report
    }

    /// Starts further workers, if there is work for them.
    pub(crate) fn start_workers(&self) {
        (self.start_workers)();
    }

    /// Starts all other workers, so that they do the rest. Must be called before something that
    /// may block for any length of time, like opening a FIFO.
    pub fn expect_to_block(&self) {
        self.run.driver.start_all();
        self.start_workers();
    }

    /// Reports a problem. If it is an error, the run has failed.
    pub fn problem(&self, problem: Problem) {
        if problem.severity == Severity::Error {
            // Relaxed: it is read after the workers' threads were joined.
            self.run.has_failed.store(true, Ordering::Relaxed);
            self.errors.set(self.errors.get() + 1);
        }
        match &*self.owner.borrow() {
            Some((owner, entry)) => owner.problem(entry.as_ref().map(Name::as_c_str), problem),
            None => self.run.report.problem(problem),
        }
    }

    /// Returns the number of errors this worker has reported. A step failed if the number grew.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.get()
    }

    /// Reports a failure of an entry, unless the tool does. Returns what the tool answered.
    pub fn report_failure(&self, entry: &Entry<T>, failure: EntryFailure<'_>) -> Reported {
        let reported = self.run.tool.failed(self, entry, failure);
        if reported == Reported::No {
            self.problem(failure.problem(entry.path()));
        }
        reported
    }

    /// Reports a failure of an entry, and completes it unless the tool keeps it.
    pub(crate) fn give_up(&self, entry: &Entry<T>, failure: EntryFailure<'_>) {
        if self.report_failure(entry, failure) != Reported::Deferred {
            self.complete(entry);
        }
    }

    /// Completes an entry without doing anything.
    pub(crate) fn skip(&self, entry: &Entry<T>) {
        entry.node.owner.iter().for_each(|owner| owner.note_skipped(entry));
        self.complete(entry);
    }

    /// Reports that the run waits for room for the target of an entry.
    pub(crate) fn report_no_room(&self, entry: &Entry<T>, cause: &Error) {
        if self.run.tool.failed(self, entry, EntryFailure::NoRoom(cause)) == Reported::No {
            self.run.report.waits_for_room(Some(&entry.path()));
        }
    }

    /// Logs something about an entry (`--debug`).
    pub(crate) fn remark(&self, entry: &Entry<T>, what: &str) {
        if self.run.report.wants_debug() {
            self.run.report.debug(&format!("{}: {what}", String::from_utf8_lossy(&entry.path())));
        }
    }

    /// Sets the directory in work. Its owner, if any, receives the problems that follow.
    pub fn set_current_node(&self, node: Option<&DirNode<T>>) {
        self.set_current(node, None);
    }

    /// Sets the entry in work. Its owner, if any, receives the problems that follow.
    pub fn set_current_entry(&self, entry: &Entry<T>) {
        self.set_current(Some(&entry.node), Some(&entry.name));
    }

    fn set_current(&self, node: Option<&DirNode<T>>, name: Option<&Name>) {
        let owner = node.and_then(|node| node.owner.as_ref());
        // Called for each entry: a run on one machine has no owners, and must not touch a refcount.
        if owner.is_some() || self.owner.borrow().is_some() {
            self.owner.replace(owner.map(|owner| (Arc::clone(owner), name.cloned())));
        }
    }

    /// Emits the result of an entry: passes it to [`Tool::emitted`], in the process that walks
    /// the tree.
    pub fn emit(&self, entry: &Entry<T>, result: Vec<u8>) {
        match &entry.node.owner {
            Some(owner) => owner.emit(self, entry, result),
            None => self.run.tool.emitted(self, entry, &result),
        }
    }

    /// Hands an entry back to the process that walks the tree, if that is another: only it knows
    /// the whole tree. Returns false in that process, and if it has already decided that the entry
    /// is done here.
    pub fn hand_back(&self, entry: &Entry<T>) -> bool {
        entry.node.owner.as_ref().is_some_and(|owner| owner.hand_back(self, entry))
    }

    /// Passes an entry to [`Tool::handle`], and completes it unless that is deferred.
    pub(crate) fn handle(&self, entry: &Entry<T>, kind: EntryType) {
        if self.run.tool.handle(self, entry, kind) == Handled::Done {
            self.complete(entry);
        }
    }

    /// Asks the owner, or the tool, what to do with an open file.
    pub(crate) fn open_file(&self, entry: &Entry<T>, opened: &OpenSource<'_>) -> Start<T::File> {
        let owner = entry.node.owner.as_ref();
        let answer = owner.and_then(|owner| owner.open_file(self, entry, opened));
        answer.unwrap_or_else(|| self.run.tool.open_file(self, entry, opened))
    }

    /// Returns true if the owner has detached a file: other processes move its content too.
    pub(crate) fn detach(&self, file: &Arc<OpenFile<T>>, transfer: Transfer) -> bool {
        file.entry.node.owner.as_ref().is_some_and(|owner| owner.detach(self, file, transfer))
    }

    /// Passes a file whose content was moved to the owner, or to the tool, to be finished.
    pub(crate) fn finish_file(&self, file: &OpenFile<T>) -> Finished {
        match &file.entry.node.owner {
            Some(owner) => owner.finish_file(self, file),
            None => self.run.tool.finish_file(self, file),
        }
    }

    /// Passes a closed file to the owner, or to the tool, and completes its entry.
    pub(crate) fn close_file(&self, file: ClosedFile<T>) {
        let ClosedFile { entry, own, length, moved } = file;
        if let Some(owner) = &entry.node.owner {
            return owner.close_file(self, &entry, own, moved);
        }
        let ClosedWaiting { files_max, bytes_max, age_max } = self.run.policy.closed_waiting;
        if files_max == 0 {
            self.run.tool.close_file(self, &entry, own, moved);
            return self.complete(&entry);
        }
        let is_full = {
            let mut closed = self.closed.borrow_mut();
            if closed.files.is_empty() {
                closed.since = Instant::now();
            }
            closed.bytes = closed.bytes.saturating_add(length);
            closed.files.push_back(ClosedFile { entry, own, length, moved });
            let is_old = closed.since.elapsed() >= age_max;
            is_old || closed.files.len() >= files_max || closed.bytes >= bytes_max
        };
        if is_full {
            self.close_waiting();
        }
    }

    /// Passes the waiting closed files to the tool, and completes their entries. Returns false if
    /// there are none.
    pub(crate) fn close_waiting(&self) -> bool {
        let closed = std::mem::take(&mut *self.closed.borrow_mut());
        if closed.files.is_empty() {
            return false;
        }
        self.set_current_node(None);
        self.closing.replace(closed.files);
        while let Some(ClosedFile { entry, own, moved, .. }) = self.next_closed() {
            self.run.tool.close_file(self, &entry, own, moved);
            self.complete(&entry);
        }
        true
    }

    fn next_closed(&self) -> Option<ClosedFile<T>> {
        self.closing.borrow_mut().pop_front()
    }

    /// Shows the tool up to `count` files that will be passed to [`Tool::close_file`] after the
    /// present one, so that it can prepare for them. Only files that have waited
    /// ([`Policy::closed_waiting`]).
    pub fn peek_closing(&self, count: usize, look: impl FnMut((&Entry<T>, &T::File))) {
        let closing = self.closing.borrow();
        closing.iter().take(count).map(|file| (&file.entry, &file.own)).for_each(look);
    }

    /// Adds to the counts, which reach the reporter in batches.
    pub fn count(&self, more: Tally) {
        let mut tally = self.tally.get();
        tally += more;
        self.tally.set(tally);
        if tally.bytes >= COUNT_AFTER_BYTES {
            self.flush();
        }
    }

    /// Counts the outcome of an entry, and reports it if the reporter wants each.
    pub fn count_entry(&self, outcome: EntryOutcome, report: impl FnOnce(EntryOutcome) -> EntryReport) {
        self.count(outcome.into());
        if self.run.wants_entries {
            self.run.report.entry(report(outcome));
        }
    }

    /// Counts a block of a file that was moved, and waits if the run may not move more yet.
    pub fn moved(&self, bytes: u64) {
        self.count(Tally { bytes, ..Tally::default() });
        self.wait_for(Load { bytes, operations: 1 });
    }

    /// Waits if the run may not read this much yet. A tool calls it for what it reads while it
    /// plans an entry or opens its target: how long that takes says nothing about the latency of
    /// calls.
    pub fn wait_to_read(&self, bytes: u64) {
        self.has_read.set(true);
        self.wait_for(Load { bytes, operations: 1 });
    }

    /// Returns true if the tool has read content since the last call.
    pub(crate) fn take_has_read(&self) -> bool {
        self.has_read.take()
    }

    /// Waits if the run may not do this yet.
    pub(crate) fn wait_for(&self, load: Load) {
        if let Some(limits) = self.run.limits
            && limits.is_active()
        {
            // The counts must not wait with the worker.
            self.flush();
            limits.wait(load, &self.run.policy.cancel);
        }
    }

    /// Passes the counts to the reporter.
    pub fn flush(&self) {
        let tally = self.tally.take();
        if tally != Tally::default() {
            self.run.report.count(tally);
        }
    }

    /// Completes an entry: nothing more will happen to it. If it was the last in its directory,
    /// finishes the directory, then its parent, and so on upwards, without recursion.
    pub fn complete(&self, entry: &Entry<T>) {
        self.count(Tally { finished: 1, ..Tally::default() });
        self.release(&entry.node);
    }

    /// Completes one of the entries expected in a directory, without counting it.
    pub fn release(&self, node: &Arc<DirNode<T>>) {
        if node.owner.is_some() {
            // Another worker may complete the last entry: the owner must have the counts by then.
            self.flush();
        }
        let mut node = node;
        while node.complete_one() {
            if let Some(owner) = &node.owner {
                return owner.complete(self, node);
            }
            self.run.tool.finish_dir(self, node);
            // The parent is likely next: reopen it through `..` while this descriptor is open.
            self.run.cache.reopen_parent(&node.source);
            if let Err(cause) = self.run.cache.close(&node.source) {
                self.problem(Problem::new(FlowKind::FailedToClose).naming(node.source.path()).because(cause));
            }
            let Some(parent) = &node.parent else {
                self.run.unfinished.fetch_sub(1, Ordering::Relaxed);
                return;
            };
            node = parent;
        }
    }

    /// Offers another operand while the run goes on.
    pub fn offer(&self, operand: Operand<T::Directory>) {
        if let Some((job, entries)) = Job::of_operand(operand) {
            // Before the job is shared: it may be finished at once.
            self.run.unfinished.fetch_add(1, Ordering::Relaxed);
            self.count(Tally { discovered: entries as u64, ..Tally::default() });
            self.share(job);
        }
    }

    /// Retries a deferred entry from the beginning, before other jobs.
    pub fn retry(&self, entry: Entry<T>) {
        let batch = Batch::whole(NameArena::of(entry.name(), entry.kind));
        self.run.driver.share_first(self.worker, Job::Files(entry.node, batch));
    }

    /// Offers a job to all workers.
    pub fn share(&self, job: Job<T>) {
        self.run.driver.share(self.worker, job);
    }
}
