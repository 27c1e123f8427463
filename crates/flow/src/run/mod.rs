//! One run of a tool over its operands.
//!
//! [`Run`] is shared by all workers; [`Context`] is one worker's view of it, which tools get.
//! `walk.rs` turns directories into jobs, `worker.rs` drives files through their states, `file.rs`
//! handles one file, and `stream.rs` moves its content. The last entry of a directory finishes the
//! directory ([`Context::complete`]).

mod file;
mod stream;
mod walk;
mod worker;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_engine::{Choice, Engine, Made};
use haul_sys::{EntryType, Fd, Name, Names};

use crate::driver::{Driver, JobWeight, Step};
use crate::held::DirCache;
use crate::node::{DirNode, Entry};
use crate::owner::RootOwner;
use crate::report::{Problem, Report, RunInfo, Severity, Tally};
use crate::settings::Settings;
use crate::tool::{Failure, OpenFile, Policy, Reported, Tool, Transfer};
use crate::wording;
use crate::{Operand, Setup, Status};

use worker::Worker;

/// Maximum bytes a worker moves before it passes its counts on: often enough for a
/// progress display.
const COUNT_AFTER_BYTES: u64 = 4 << 20;

/// Work from outside a run that needs a worker's context.
pub type Visit<T> = Box<dyn FnOnce(&Context<'_, T>) + Send>;

/// A unit of work that any worker can do.
pub enum Job<T: Tool> {
    /// Enter these subdirectories of a directory.
    Enter(Arc<DirNode<T>>, Batch),
    /// Continue listing a directory that is too large to list at once. The descriptor's offset is
    /// the position.
    List(Arc<DirNode<T>>, Arc<Fd>),
    /// Do these entries of a directory, none of which is known to be a directory.
    Files(Arc<DirNode<T>>, Batch),
    /// Do these entries, which are classified already.
    Entries(Vec<Entry<T>>),
    /// Do work from outside the run that needs a worker's context: completing what another process
    /// has done.
    Visit(Visit<T>),
    /// Move this range of a large file.
    Range(Arc<OpenFile<T>>, Range<u64>, Transfer),
}

impl<T: Tool> Job<T> {
    /// Returns a job that finishes a large file whose ranges are done. Unless all of them were
    /// `moved`, the file has failed.
    #[must_use]
    pub fn finish(file: Arc<OpenFile<T>>, moved: bool) -> Self {
        if !moved {
            file.fail();
        }
        Job::Range(file, 0..0, Transfer::Nothing)
    }
}

/// Some entries of a listing.
#[derive(Clone)]
pub struct Batch {
    names: Arc<Names>,
    range: Range<usize>,
    /// True if the entries whose type the listing doesn't give were stat'ed, and are
    /// not directories.
    looked_at: bool,
}

impl Batch {
    /// Returns a batch of all entries in a list.
    #[must_use]
    pub fn whole(names: Names) -> Self {
        Self { range: 0..names.len(), names: Arc::new(names), looked_at: false }
    }

    /// Returns a batch of some of the entries, by their indices in the list.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        Self { range, ..self.clone() }
    }

    /// Returns a batch of one entry that was stat'ed and is not a directory.
    fn looked_at<T: Tool>(entry: &Entry<T>) -> Self {
        Self { looked_at: true, ..Self::whole(Names::of(entry.name(), entry.kind)) }
    }

    /// Returns true if no entry can be a directory, or a link to one that would be followed.
    pub fn has_no_directories<T: Tool>(&self, tool: &T, node: &Arc<DirNode<T>>) -> bool {
        let is_known = |entry: &Entry<T>| match entry.kind {
            EntryType::Regular | EntryType::Special => true,
            EntryType::Symlink => !tool.follow(entry),
            EntryType::Unknown | EntryType::Directory => false,
        };
        self.looked_at || self.entry(node).iter().all(is_known)
    }

    /// Returns the inode numbers from the listing.
    pub fn inodes(&self) -> impl Iterator<Item = u64> {
        self.range.clone().map(|index| self.names.entry(index).inode)
    }

    /// Returns the entries, as entries of `node`.
    #[must_use]
    pub fn entry<T: Tool>(&self, node: &Arc<DirNode<T>>) -> Vec<Entry<T>> {
        let nth = |index| Entry {
            node: Arc::clone(node),
            name: Name::new(&self.names, index),
            kind: self.names.entry(index).kind,
            seen: None,
        };
        self.range.clone().map(nth).collect()
    }
}

impl<T: Tool> JobWeight for Job<T> {
    fn finds_work(&self) -> bool {
        matches!(self, Job::Enter(..) | Job::List(..))
    }

    fn entries(&self) -> usize {
        match self {
            Job::Enter(_, batch) | Job::Files(_, batch) => batch.range.len(),
            Job::Entries(entry) => entry.len(),
            Job::List(..) | Job::Range(..) | Job::Visit(..) => 0,
        }
    }
}

/// State shared by all workers of a run.
pub struct Run<'r, T: Tool> {
    /// The tool.
    pub tool: &'r T,
    /// The directory cache.
    pub cache: &'r DirCache,
    /// Resolved settings.
    pub settings: Settings,
    /// The reporter.
    pub report: &'r dyn Report,
    /// The driver.
    pub driver: &'r dyn Driver<Job<T>>,
    pub(crate) policy: Policy,
    engine: &'r Mutex<Option<Box<dyn Engine>>>,
    failed: AtomicBool,
    /// Workers that are doing something, rather than waiting.
    busy: AtomicUsize,
    /// Operands that are not finished.
    unfinished: AtomicUsize,
}

impl<'r, T: Tool> Run<'r, T> {
    pub(crate) fn new(tool: &'r T, setup: &'r Setup<'r, T>) -> Self {
        let Setup { settings, cache, report, driver, engine } = setup;
        Self {
            tool,
            cache,
            settings: *settings,
            report: *report,
            driver: *driver,
            policy: tool.policy(),
            engine,
            failed: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
        }
    }

    /// Fails a run without errors that has lost an entry: it was deferred and never completed, a
    /// bug in the tool or the framework.
    pub(crate) fn check_finished(&self) {
        if self.status() == Status::Success && self.unfinished.load(Ordering::Relaxed) > 0 {
            self.failed.store(true, Ordering::Relaxed);
            self.report.problem(Problem::new(wording::UNFINISHED));
        }
    }

    /// Shares the operands' jobs, before any worker runs.
    pub(crate) fn offer(&self, operands: impl Iterator<Item = Operand<T>>) {
        let mut entry = 0;
        for (job, entries) in operands.filter_map(Operand::job) {
            self.unfinished.fetch_add(1, Ordering::Relaxed);
            self.driver.share(0, job);
            entry += entries as u64;
        }
        self.report.count(Tally { discovered: entry, ..Tally::default() });
    }

    /// Creates worker `me`, with an engine of its own.
    pub(crate) fn worker(&self, me: usize) -> Box<dyn Step + '_> {
        let ready = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        let made = match ready {
            Some(engine) => Made { engine, note: None },
            None => haul_engine::make(self.settings.engine, &self.settings.engine_setup()),
        };
        if me == 0 {
            self.report.started(RunInfo { engine: made.engine.caps().name, jobs: self.settings.jobs });
            if self.report.wants_debug() {
                self.tell_settings(&*made.engine, made.note.as_deref());
            }
        }
        Box::new(Worker::new(self, me, made.engine))
    }

    /// Logs what was chosen, and why not something better.
    fn tell_settings(&self, engine: &dyn Engine, note: Option<&str>) {
        if let Some(note) = note {
            self.report.debug(note);
        }
        let Settings { jobs, window, block_bytes, held, .. } = self.settings;
        let caps = engine.caps();
        if let Some(library) = haul_sys::interposer() {
            let effect = match self.settings.engine {
                Choice::Auto => "not changing from sync to io-uring, whose calls it does not see",
                Choice::Sync | Choice::Retry => "it sees all calls of this engine",
                _ => "it does not see the reads and writes of this engine",
            };
            self.report.debug(&format!("{} is preloaded: {effect}", library.display()));
        }
        let asked = if self.settings.engine == Choice::Auto { " (auto)" } else { "" };
        self.report.debug(&format!(
            "engine {}{asked}, {jobs} workers, {} files in flight each, blocks of {block_bytes} bytes, {held} directories held",
            caps.name,
            if caps.blocks { window } else { window.min(caps.depth) },
        ));
    }

    pub(crate) fn status(&self) -> Status {
        if self.failed.load(Ordering::Relaxed) { Status::Failure } else { Status::Success }
    }
}

/// One worker's view of the run, which tools get.
pub struct Context<'r, T: Tool> {
    run: &'r Run<'r, T>,
    me: usize,
    tally: Cell<Tally>,
    /// Owner of the entries that the worker is handling.
    owner: RefCell<Option<Arc<dyn RootOwner<T>>>>,
}

impl<'r, T: Tool> Context<'r, T> {
    pub(crate) fn new(run: &'r Run<'r, T>, me: usize) -> Self {
        Self { run, me, tally: Cell::new(Tally::default()), owner: RefCell::new(None) }
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

    /// Returns the directory cache.
    #[must_use]
    pub fn cache(&self) -> &'r DirCache {
        self.run.cache
    }

    /// Returns the reporter.
    #[must_use]
    pub fn report(&self) -> &'r dyn Report {
        self.run.report
    }

    /// Reports a problem. If it is an error, the run has failed.
    pub fn problem(&self, problem: Problem) {
        if problem.severity == Severity::Error {
            self.run.failed.store(true, Ordering::Relaxed);
        }
        let problem = match &*self.owner.borrow() {
            Some(owner) => owner.problem(problem),
            None => Some(problem),
        };
        if let Some(problem) = problem {
            self.run.report.problem(problem);
        }
    }

    /// Reports a failure of an entry, unless the tool does.
    pub fn report_failure(&self, entry: &Entry<T>, failure: Failure<'_>) {
        if self.run.tool.failed(self, entry, failure) == Reported::No {
            self.problem(failure.problem(entry));
        }
    }

    /// Sets the owner of the problems that follow: the owner of `node`, or nobody.
    pub fn attend(&self, node: Option<&DirNode<T>>) {
        let owner = node.and_then(|node| node.owner.as_ref());
        if owner.is_some() || self.owner.borrow().is_some() {
            self.owner.replace(owner.cloned());
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

    /// Adds to the counts, which reach the reporter in batches.
    pub fn count(&self, more: Tally) {
        let mut tally = self.tally.get();
        tally += more;
        self.tally.set(tally);
        if tally.bytes >= COUNT_AFTER_BYTES {
            self.flush();
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
    /// finishes the directory, then its parent, and so on upwards, without recursion however deep
    /// the tree is.
    pub fn complete(&self, entry: &Entry<T>) {
        self.count(Tally { finished: 1, ..Tally::default() });
        self.release(&entry.node);
    }

    /// Completes one of the entries expected in a directory, without counting it.
    pub fn release(&self, node: &Arc<DirNode<T>>) {
        let mut node = node;
        while node.complete_one() {
            if let Some(owner) = &node.owner {
                return owner.complete(self, node);
            }
            self.run.tool.finish_dir(self, node);
            // The parent is likely next: reopen it through `..` while this descriptor is
            // still open.
            self.run.cache.lift(&node.source);
            if let Err(cause) = self.run.cache.close(&node.source) {
                let path = node.source.path();
                self.problem(Problem::new(wording::FAILED_TO_CLOSE).naming(path).because(cause));
            }
            let Some(parent) = &node.parent else {
                self.run.unfinished.fetch_sub(1, Ordering::Relaxed);
                return;
            };
            node = parent;
        }
    }

    /// Offers another operand while the run goes on.
    pub fn offer(&self, operand: Operand<T>) {
        if let Some((job, entries)) = operand.job() {
            self.run.unfinished.fetch_add(1, Ordering::Relaxed);
            self.count(Tally { discovered: entries as u64, ..Tally::default() });
            self.share(job);
        }
    }

    /// Retries a deferred entry from the beginning, before other jobs.
    pub fn retry(&self, entry: Entry<T>) {
        let batch = Batch::whole(Names::of(entry.name(), entry.kind));
        self.run.driver.share_first(self.me, Job::Files(entry.node, batch));
    }

    /// Offers a job to all workers.
    pub fn share(&self, job: Job<T>) {
        self.run.driver.share(self.me, job);
    }
}
