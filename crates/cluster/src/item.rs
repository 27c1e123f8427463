//! Work items: entries of one directory that another process completes, and the outcome it
//! sends back.
//!
//! ```text
//! walking process                                  process that received the item
//! Job::Files ─► PendingItem ─► PackedItem ─► (bytes) ─► PackedItem::admit
//!                   │ kept until done                        ▼
//!                   │                     DirNode with a WorkItem ─► Job::Files
//!                   ▼                                        │ every entry complete
//! complete ◄─ PendingItem::complete ◄─ (bytes) ◄─ CompletionSink::done
//! ```
//!
//! The receiving process knows neither the directory's parents nor when the directory is finished:
//! it processes the entries and reports when all are complete. A large file is *detached* from its
//! item: several processes move its content in ranges (each a [`LargeFileRange`]), and the process
//! that met it is its leader, which creates the target and finishes the file.
//!
//! Invariant: an item is reported done exactly once, after its last entry; a range is reported
//! moved only if every byte of it was (tests: `cluster/tests/items.rs`, `cli/tests/cluster`).

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haul_flow::{
    Batch, Context, DirNode, Entry, Job, OpenFile, Problem, Root, RootOwner, Tally, Tool, Transfer, lock,
    plan,
};
use haul_journal::{PartialFile, Stamp};
use haul_sys::{
    EntryType, Error, Fd, FileType, NameArena, PackedNames, Stat, c_string, leads_to_descriptor, stat_path,
};
use serde::{Deserialize, Serialize};

use crate::distributed::Distributed;
use crate::entered::Entered;
use crate::remote_path::{ItemReceiver, RemotePath};
use crate::seen::SeenEntries;

/// Description of a work item for the process that receives it, without its directory and entries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ItemSpec {
    /// Number of the item in this run.
    pub number: u64,
    /// Attempt number, starting at 1.
    pub attempt: u32,
    /// True if the entries are files with several names whose hard-link claim this process
    /// was given.
    pub claimed: bool,
    /// True if the entries are operands.
    pub operands: bool,
    /// If set, only this range of the item's single entry is moved.
    pub piece: Option<LargeFileRange>,
    /// Progress of an earlier attempt at the item's single entry, a large file.
    pub begun: Option<PartialFile>,
    /// Results of the ranges that it moved ([`Distributed::finish_range`]).
    pub begun_results: Vec<Vec<u8>>,
    /// With a journal: an earlier run's stamps, in the order of the entries.
    pub stamps: Option<Vec<Stamp>>,
}

/// A range of a large file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LargeFileRange {
    /// The range, in bytes.
    pub range: Range<u64>,
    /// Size of the file when its leader opened it, in bytes.
    pub size: u64,
    /// True to let the kernel copy it; false to move it in blocks.
    pub by_kernel: bool,
    /// The tool's data for opening the target; opaque here.
    pub ticket: Vec<u8>,
}

/// Key of the problems that a process collects for an item, a range or a large file. Their numbers
/// come from different processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKey {
    /// A work item.
    Item(u64),
    /// A range of a large file.
    Range(u64),
    /// A large file that this process leads.
    Large(u64),
}

/// A work item in the process that received it: the owner of its entries.
pub struct WorkItem<T: Tool> {
    /// The description that this process received.
    pub spec: ItemSpec,
    pub(crate) sink: Arc<dyn CompletionSink<T>>,
    outcome: Mutex<ItemOutcome>,
    moved: AtomicBool,
    /// Result of its range, for the leader.
    range_result: OnceLock<Vec<u8>>,
    /// Total size of the listings of its directories, in bytes.
    pub(crate) listed: AtomicUsize,
    seen: OnceLock<SeenEntries>,
    /// Entries that get no stamp, because they were skipped.
    unstamped: Mutex<HashSet<CString>>,
}

/// Called with the results of work items.
pub trait CompletionSink<T: Tool>: Send + Sync {
    /// Called when every entry of a work item is complete or detached.
    fn done(&self, item: &WorkItem<T>);

    /// Called instead of [`CompletionSink::done`] for a journaled item, whose data must be on
    /// storage before it is done.
    fn seal(&self, cx: &Context<'_, T>, node: &Arc<DirNode<T>>);

    /// Flushes waiting work items until none is left.
    fn flush(&self, cx: &Context<'_, T>);

    /// Keeps a problem of a work item, range or large file until that is done.
    fn note(&self, key: ItemKey, problem: Problem);

    /// True if ranges of large files must be on storage before they are reported.
    fn flushes(&self) -> bool;

    /// True if a file of `size` bytes may be moved by several processes.
    fn is_large(&self, size: u64) -> bool;

    /// Returns a number for a large file; `None` if the file is too small for several processes.
    fn number_large_file(&self, stat: &Stat) -> Option<u64>;

    /// Called when the target of a large file has been created. The sink keeps the file until all
    /// ranges are complete, then offers it as [`Job::finish`].
    fn file_opened(&self, tool: &T, number: u64, file: LargeFile<T>);

    /// Called when a large file has been closed, whether it succeeded or failed.
    fn file_closed(&self, cx: &Context<'_, T>, entry: &Entry<T>, number: u64, moved: bool);
}

/// A large file with an open target.
pub struct LargeFile<T: Tool> {
    /// The file.
    pub file: Arc<OpenFile<T>>,
    /// Method of moving its content.
    pub transfer: Transfer,
    /// The tool's data for opening the target; opaque here.
    pub ticket: Vec<u8>,
}

/// Returns the work item that a directory belongs to; `None` if this process walked it.
#[must_use]
pub fn item_of<T: Tool + 'static>(node: &DirNode<T>) -> Option<&WorkItem<T>> {
    node.owner.as_ref()?.as_any().downcast_ref()
}

/// Outcome of a work item's entries, except those that are simply complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemOutcome {
    /// Bounced entries: only the walking process can decide about them.
    pub bounced: Vec<CString>,
    /// For an item with a hard-link claim: entries whose copy exists.
    pub completed: Vec<CString>,
    /// Detached large files, with the numbers they will be reported under.
    pub detached: Vec<(CString, u64)>,
    /// Directories that were entered.
    pub entered: Vec<Entered>,
    /// Results of entries, in the order emitted.
    pub emitted: Vec<(CString, Vec<u8>)>,
    /// For a journaled item: stamps of its entries, except detached ones.
    pub stamps: Vec<Stamp>,
}

impl ItemOutcome {
    /// Returns the size in a message of those parts that may be large, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let emitted: usize = self.emitted.iter().map(|(_, result)| result.len()).sum();
        emitted + self.entered.iter().map(Entered::bytes).sum::<usize>()
    }
}

impl<T: Tool> WorkItem<T> {
    pub(crate) fn new(spec: ItemSpec, sink: Arc<dyn CompletionSink<T>>) -> Self {
        let (outcome, moved) = (Mutex::default(), AtomicBool::new(false));
        let (range_result, listed, seen) = (OnceLock::new(), AtomicUsize::new(0), OnceLock::new());
        Self { spec, sink, outcome, moved, range_result, listed, seen, unstamped: Mutex::default() }
    }

    /// True if a file of `size` bytes may be moved by several processes, which then open its
    /// target.
    #[must_use]
    pub fn may_split(&self, size: u64) -> bool {
        self.sink.is_large(size)
    }

    /// Returns the key of the item within this process. Its detached files have keys of their own.
    #[must_use]
    pub fn key(&self) -> ItemKey {
        match self.spec.piece {
            Some(_) => ItemKey::Range(self.spec.number),
            None => ItemKey::Item(self.spec.number),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ItemOutcome)) {
        change(&mut lock(&self.outcome));
    }

    /// Returns the outcome. It is final once the item is done.
    #[must_use]
    pub fn outcome(&self) -> ItemOutcome {
        lock(&self.outcome).clone()
    }

    /// Stamps those entries of a journaled item for which `may_be` is true. Called after the last
    /// entry is complete.
    pub fn stamp(&self, cx: &Context<'_, T>, node: &Arc<DirNode<T>>, may_be: impl Fn(&Entry<T>) -> bool)
    where
        T: Distributed,
    {
        let Some(seen) = self.seen.get() else { return };
        let ItemOutcome { detached, bounced, .. } = self.outcome();
        let detached: HashSet<_> = detached.into_iter().map(|(name, _)| name).collect();
        let bounced: HashSet<_> = bounced.into_iter().collect();
        let unstamped = lock(&self.unstamped);
        let is_done = |name: &CStr| !bounced.contains(name) && !unstamped.contains(name);
        let may_be = |entry: &Entry<T>| is_done(entry.name()) && may_be(entry);
        let stamps = seen.stamps(cx.tool(), cx.cache(), node, |name| detached.contains(name), may_be);
        self.change(|outcome| outcome.stamps = stamps);
    }

    pub(crate) fn leave_unstamped(&self, name: &CStr) {
        if self.spec.stamps.is_some() {
            lock(&self.unstamped).insert(name.to_owned());
        }
    }

    /// Stamps a single entry of a journaled item.
    pub fn stamp_of(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> Stamp
    where
        T: Distributed,
    {
        self.seen.get().map_or(Stamp::NONE, |seen| seen.stamp_of(cx.tool(), cx.cache(), entry))
    }

    /// Returns the number of a detached entry.
    pub(crate) fn detached(&self, name: &CStr) -> Option<u64> {
        let outcome = lock(&self.outcome);
        outcome.detached.iter().find(|(detached, _)| detached.as_c_str() == name).map(|(_, number)| *number)
    }

    /// Removes and returns the results of a detached entry. They are reported with its file, which
    /// may end long after the item.
    pub(crate) fn take_emitted(&self, name: &CStr) -> Vec<Vec<u8>> {
        let mut outcome = lock(&self.outcome);
        let taken = outcome.emitted.extract_if(.., |(of, _)| of.as_c_str() == name);
        taken.map(|(_, result)| result).collect()
    }

    /// Keeps the result of the range until its files are closed.
    pub(crate) fn note_range_result(&self, result: Vec<u8>) {
        self.range_result.get_or_init(|| result);
    }

    /// Returns the result of the range; empty if there is none.
    pub(crate) fn range_result(&self) -> Vec<u8> {
        self.range_result.get().cloned().unwrap_or_default()
    }

    pub(crate) fn note_moved(&self) {
        self.moved.store(true, Ordering::Release);
    }

    /// True if every byte of the range was moved.
    #[must_use]
    pub fn was_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire)
    }
}

/// A work item in the walking process, kept until it is done.
pub struct PendingItem<T: Tool> {
    entries: Vec<Entry<T>>,
}

/// A work item in transit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackedItem {
    /// Its description.
    pub spec: ItemSpec,
    /// The source directory.
    pub source: RemotePath,
    /// The tool's state of the directory, packed.
    pub own: Vec<u8>,
    /// The entries.
    pub names: PackedNames,
}

impl PackedItem {
    /// Creates the jobs of this received item, each of at most `batch_entries` entries so that
    /// several workers share it. Skips entries whose known stamps still match.
    ///
    /// # Errors
    /// If a directory can't be held or is another one; its path comes with the error.
    pub fn admit<T: Distributed + 'static>(
        self,
        receiver: &ItemReceiver<'_>,
        tool: &T,
        sink: Arc<dyn CompletionSink<T>>,
        batch_entries: usize,
    ) -> Result<Vec<Job<T>>, (Vec<u8>, Error)> {
        let source = receiver.hold(&self.source)?;
        let own = tool.unpack(&self.own, receiver)?;
        let names = self.names.unpack();
        let known = self.spec.stamps.clone();
        let item = Arc::new(WorkItem::new(self.spec, sink));
        let owner = Arc::clone(&item) as Arc<dyn RootOwner<T>>;
        let holds_operands = item.spec.operands;
        let node: DirNode<T> = Root { source, own, owner, holds_operands }.into();
        let node = Arc::new(node);
        let (names, last) = match known {
            Some(known) => {
                let (seen, names) = SeenEntries::look(tool, receiver.cache, &node, names, &known);
                let (unchanged, changed) = seen.counts();
                item.seen.get_or_init(|| seen);
                // The item must complete even if every entry is skipped.
                node.expect(1);
                let (node, item) = (Arc::clone(&node), Arc::clone(&item));
                let last = move |cx: &Context<'_, T>| {
                    cx.count(Tally { unchanged, changed, finished: unchanged, ..Tally::default() });
                    if let Some(seen) = item.seen.get() {
                        seen.report(cx.report(), &node);
                    }
                    cx.release(&node);
                };
                (names, Some(Job::Callback(Box::new(last))))
            }
            None => (names, None),
        };
        node.expect(names.len());
        let jobs = plan::batches(names.len(), batch_entries);
        let whole = Batch::whole(names);
        let files = jobs.map(|range| Job::Files(Arc::clone(&node), whole.part(range)));
        Ok(files.chain(last).collect())
    }
}

/// True if only the launch process can open an entry: under its name, another process would find
/// its own standard input, or a FIFO or device of its own host.
fn is_bound_to_process<T: Distributed>(tool: &T, entry: &Entry<T>) -> bool {
    let is_known = matches!(entry.kind, EntryType::Regular | EntryType::Directory);
    if is_known || !(entry.is_operand() || tool.follow(entry)) {
        return false;
    }
    let path = entry.path();
    if leads_to_descriptor(Path::new(OsStr::from_bytes(&path))) {
        return true;
    }
    // A failed `stat` is reported by the process that gets the entry.
    let kind = stat_path::<&Fd>(None, &c_string(&path), true).map(|stat| stat.kind);
    entry.is_operand() && kind.is_ok_and(|kind| !matches!(kind, FileType::Regular | FileType::Directory))
}

impl<T: Distributed> PendingItem<T> {
    /// Accepts a job of directories that another process may enter.
    ///
    /// # Errors
    /// Any other job is handed back.
    pub fn of_directories(tool: &T, job: Job<T>) -> Result<Self, Job<T>> {
        match job {
            Job::Enter(node, batch) if tool.is_distributable(&node) => {
                let may = batch.inodes().all(|inode| tool.may_be_entered_elsewhere(&node, inode));
                match may {
                    true => Ok(Self { entries: batch.entries(&node) }),
                    false => Err(Job::Enter(node, batch)),
                }
            }
            other => Err(other),
        }
    }

    /// Accepts a job whose entries another process may complete.
    ///
    /// # Errors
    /// Any other job is handed back.
    pub fn of(tool: &T, job: Job<T>) -> Result<Self, Job<T>> {
        match job {
            Job::Entries(entries) => Ok(Self { entries }),
            Job::Files(node, batch)
                if tool.is_distributable(&node)
                    && batch.has_no_directories(&node, |entry| tool.follow(entry)) =>
            {
                let entries = batch.entries(&node);
                let may = |entry| tool.entry_is_distributable(entry) && !is_bound_to_process(tool, entry);
                match entries.iter().all(may) {
                    true => Ok(Self { entries }),
                    false => Err(Job::Files(node, batch)),
                }
            }
            other => Err(other),
        }
    }

    /// Creates an item of one entry.
    #[must_use]
    pub fn of_one(entry: Entry<T>) -> Self {
        Self { entries: vec![entry] }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    /// Packs the item for sending.
    #[must_use]
    pub fn pack(&self, tool: &T, spec: ItemSpec) -> PackedItem {
        let node = self.entries.first().map(|entry| &entry.node);
        let mut packed = PackedItem {
            spec: ItemSpec { operands: node.is_some_and(|node| node.holds_operands()), ..spec },
            source: node.map(|node| RemotePath::to(&node.source)).unwrap_or_default(),
            own: node.map(|node| tool.pack(&node.own)).unwrap_or_default(),
            names: PackedNames::default(),
        };
        for entry in &self.entries {
            packed.names.push(entry.name(), entry.kind);
            if T::SENDS_INODES {
                packed.names.push_inode(entry.name.inode());
            }
        }
        packed
    }

    /// Cuts the item into items of at most `most` entries, in their order.
    pub fn cut(self, most: usize) -> impl Iterator<Item = Self> {
        let mut left = self.entries.into_iter().peekable();
        std::iter::from_fn(move || {
            left.peek()?;
            Some(Self { entries: left.by_ref().take(most.max(1)).collect() })
        })
    }

    /// Removes one entry and returns it as an item of its own. The others keep their order.
    pub fn take(&mut self, name: &CStr) -> Option<Self> {
        let index = self.entries.iter().position(|entry| entry.name() == name)?;
        Some(Self { entries: vec![self.entries.remove(index)] })
    }

    /// Completes the entries that another process has processed. Those that need a second pass with
    /// a hard-link claim become a new job.
    pub fn complete(self, cx: &Context<'_, T>, claimed: bool, outcome: ItemOutcome) {
        let ItemOutcome { bounced, completed, entered, emitted, detached: _, stamps: _ } = outcome;
        let mut emitted = by_name(emitted);
        let [bounced, completed] = [bounced, completed].map(HashSet::<CString>::from_iter);
        let mut entered: HashMap<_, _> =
            entered.into_iter().map(|entered| (entered.name.clone(), entered)).collect();
        let mut again = Vec::new();
        for mut entry in self.entries {
            // Results come first: completing the entry may finish its directory.
            for result in emitted.remove(entry.name()).unwrap_or_default() {
                cx.tool().emitted(cx, &entry, &result);
            }
            let is_bounced = bounced.contains(entry.name());
            if is_bounced && entry.kind == EntryType::Directory {
                enter_here(cx, &entry);
            } else if let Some(entered) = entered.remove(entry.name()) {
                entered.resume(cx, &entry);
            } else if !is_bounced {
                if claimed {
                    cx.tool().claim_ended(cx, &entry, completed.contains(entry.name()));
                }
                // Not `complete`, which counts the entry: the rank has done that.
                cx.release(&entry.node);
            } else if cx.tool().decide_bounced(cx, &mut entry) {
                again.push(entry);
            }
        }
        if !again.is_empty() {
            cx.share(Job::Entries(again));
        }
    }
}

/// Groups results by entry name.
fn by_name(emitted: Vec<(CString, Vec<u8>)>) -> HashMap<CString, Vec<Vec<u8>>> {
    let mut results: HashMap<CString, Vec<Vec<u8>>> = HashMap::new();
    for (name, result) in emitted {
        results.entry(name).or_default().push(result);
    }
    results
}

/// Enters a bounced directory in this process.
fn enter_here<T: Tool>(cx: &Context<'_, T>, entry: &Entry<T>) {
    let names = NameArena::of(entry.name(), entry.kind);
    cx.share(Job::Files(Arc::clone(&entry.node), Batch::whole(names)));
}
