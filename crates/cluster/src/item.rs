//! Parts: entries of one directory that another process does, and what comes back of them.
//!
//! ```text
//! process that walks                                 process that was given the part
//! Job::Files ─► pending-item ─► packed-item ─► (bytes) ─► receiver::admit ─► directory-node with a work-item ─► Job::Files
//!    ▲            kept until done                                        │ every entry settled
//!    └─ settle ◄─ pending-item::conclude ◄───── (bytes) ◄───── completion-sink::done ◄──┘
//! ```
//!
//! The process that was given a part knows neither the directory's parents nor when the directory is finished: it does
//! the entries, and says when all are settled. A large file leaves its part (it is *apart*): its content is moved in
//! [`Piece`]s by several processes, and the one that met it leads: it makes the target and finishes it.
//!
//! Invariant: a part is told to be done exactly once, after the last of its entries; a piece is told to be moved only if
//! every byte of it was (tests: `cluster/tests/parts.rs`, `cli/tests/cluster`).

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use haul_flow::{
    Batch, Context, DirCache, DirHandle, DirNode, Entry, Job, OpenFile, Problem, RootOwner, Tool, Transfer,
    plan,
};
use haul_sys::{EntryType, Error, Names, PackedNames, Stat};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::distributed::Distributed;
use crate::entered::Entered;
use crate::remote_path::{RemotePath, RemotePaths};
use crate::stamp::{SeenEntries, Stamp};

/// What a process is told of a part, apart from where it is and which entries are in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ItemSpec {
    /// The part's number in the run.
    pub number: u64,
    /// Which attempt at it this is, the first being 1.
    pub attempt: u32,
    /// Whether the entries are files with several names that this process was chosen to do.
    pub claimed: bool,
    /// Whether the entries are operands.
    pub operands: bool,
    /// The range of the part's only entry that is to be moved, if that is all.
    pub piece: Option<Piece>,
    /// What an earlier attempt has done of the part's only entry, a large file.
    pub begun: Option<PartialFile>,
    /// Where there is a journal, the stamps of an earlier run in the order of the entries, if all are known.
    pub stamps: Option<Vec<Stamp>>,
}

/// A range of a large file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// Where it begins and ends.
    pub range: Range<u64>,
    /// The file's length when its leader opened it, in bytes.
    pub size: u64,
    /// How it is moved inside this process: by the kernel, or else in blocks.
    pub by_kernel: bool,
    /// What the tool needs to open the target.
    pub ticket: Vec<u8>,
}

/// What is left of an earlier attempt at a large file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartialFile {
    /// What the tool needs to open the target.
    pub ticket: Vec<u8>,
    /// The ranges that were moved, in any order.
    pub done: Vec<Range<u64>>,
}

/// What a process knows a part by: the numbers of parts and of pieces are given by different processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKey {
    /// A part of this number.
    Item(u64),
    /// A piece of this number.
    Piece(u64),
}

/// A part in the process that does it: the owner of its entries.
pub struct WorkItem<T: Tool> {
    /// What this process was told of it.
    pub item: ItemSpec,
    pub(crate) sink: Arc<dyn CompletionSink<T>>,
    outcome: Mutex<ItemOutcome>,
    moved: AtomicBool,
    seen: OnceLock<SeenEntries>,
}

/// Hears what becomes of the parts that a process was given.
pub trait CompletionSink<T: Tool>: Send + Sync {
    /// Called when every entry of a part is complete, or is apart.
    fn done(&self, part: &WorkItem<T>);

    /// Called instead of [`CompletionSink::done`] for a part that is journaled: it is to be on storage before it is done.
    fn seal(&self, cx: &Context<'_, T>, node: &Arc<DirNode<T>>);

    /// Flushes the parts that wait for that, until none is left.
    fn flush(&self, cx: &Context<'_, T>);

    /// Keeps a problem of a part until that is done.
    fn note(&self, part: ItemKey, problem: Problem);

    /// True if what is moved of a large file is to be on storage before that is reported.
    fn flushes(&self) -> bool;

    /// Returns a number for a large file, if its content may be moved by several processes.
    fn large(&self, stat: &Stat) -> Option<u64>;

    /// Called when the target of a large file is made. The file is to be kept until its pieces are over, and then offered as
    /// [`Job::finish`].
    fn begun(&self, tool: &T, number: u64, file: LargeFile<T>);

    /// Called when a large file is closed, finished well or not.
    fn over(&self, cx: &Context<'_, T>, entry: &Entry<T>, number: u64, moved: bool);
}

/// A large file whose target is made.
pub struct LargeFile<T: Tool> {
    /// The file.
    pub file: Arc<OpenFile<T>>,
    /// How its content is to be moved.
    pub transfer: Transfer,
    /// What the tool needs to open the target.
    pub ticket: Vec<u8>,
}

/// Returns the part that an entry's directory was given to this process in, if it was.
#[must_use]
pub fn item_of<T: Tool + 'static>(node: &DirNode<T>) -> Option<&WorkItem<T>> {
    node.owner.as_ref()?.as_any().downcast_ref()
}

/// What became of a part's entries, as far as they are not simply over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemOutcome {
    /// Entries that only the process that walks can decide.
    pub returned: Vec<CString>,
    /// Of a claimed part, the entries whose copy stands.
    pub completed: Vec<CString>,
    /// Large files among them, with the numbers under which they will be told of.
    pub apart: Vec<(CString, u64)>,
    /// Directories among them, which were entered.
    pub entered: Vec<Entered>,
    /// Results of entries, in the order in which they came.
    pub told: Vec<(CString, Vec<u8>)>,
    /// Of a journaled part, the stamps of its entries, but for those that are apart.
    pub stamps: Vec<Stamp>,
}

impl<T: Tool> WorkItem<T> {
    pub(crate) fn new(item: ItemSpec, sink: Arc<dyn CompletionSink<T>>) -> Self {
        let (outcome, moved) = (Mutex::default(), AtomicBool::new(false));
        Self { item, sink, outcome, moved, seen: OnceLock::new() }
    }

    /// Returns what this process knows the part by.
    #[must_use]
    pub fn key(&self) -> ItemKey {
        match self.item.piece {
            Some(_) => ItemKey::Piece(self.item.number),
            None => ItemKey::Item(self.item.number),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ItemOutcome)) {
        change(&mut self.outcome.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns what became of the entries, once the part is done.
    #[must_use]
    pub fn outcome(&self) -> ItemOutcome {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stamps the entries of a journaled part that `may_be` stamped, after the last of them is over.
    pub fn stamp(&self, cx: &Context<'_, T>, node: &Arc<DirNode<T>>, may_be: impl Fn(&Entry<T>) -> bool)
    where
        T: Distributed,
    {
        let Some(seen) = self.seen.get() else { return };
        let ItemOutcome { apart, returned, .. } = self.outcome();
        let apart: HashSet<_> = apart.into_iter().map(|(name, _)| name).collect();
        let returned: HashSet<_> = returned.into_iter().collect();
        let may_be = |entry: &Entry<T>| !returned.contains(entry.name()) && may_be(entry);
        let stamps = seen.stamps((cx.tool(), cx.cache()), node, |name| apart.contains(name), may_be);
        self.change(|outcome| outcome.stamps = stamps);
    }

    /// Stamps one entry of a journaled part.
    pub fn stamp_of(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> Stamp
    where
        T: Distributed,
    {
        self.seen.get().map_or(Stamp::NONE, |seen| seen.stamp_of(cx.tool(), cx.cache(), entry))
    }

    /// Returns the number of an entry that is apart.
    pub(crate) fn apart(&self, name: &CStr) -> Option<u64> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.apart.iter().find(|(apart, _)| apart.as_c_str() == name).map(|(_, number)| *number)
    }

    /// Records that all of the piece was moved.
    pub(crate) fn note_moved(&self) {
        self.moved.store(true, Ordering::Release);
    }

    /// Tells whether all of the piece was moved.
    #[must_use]
    pub fn was_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire)
    }
}

/// A part in the process that walks: kept until it is done.
pub struct PendingItem<T: Tool> {
    entry: Vec<Entry<T>>,
}

/// A part on its way: what another process needs to do it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackedItem {
    /// What it is told.
    pub item: ItemSpec,
    /// The directory.
    pub source: RemotePath,
    /// What the tool keeps for the directory.
    pub own: Vec<u8>,
    /// The entries.
    pub names: PackedNames,
}

impl PackedItem {
    /// Returns what tells the part from every other of the same run, and is the same in a later one: where its directory is,
    /// which it is, and the names.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        let mut text = self.source.path();
        text.push(0);
        text.extend_from_slice(&self.source.inode().to_le_bytes());
        text.extend_from_slice(self.names.bytes());
        xxh3_128(&text)
    }
}

impl<T: Distributed> PendingItem<T> {
    /// Takes a job of directories that another process may enter; gives any other back.
    ///
    /// # Errors
    /// The job.
    pub fn of_directories(tool: &T, job: Job<T>) -> Result<Self, Job<T>> {
        match job {
            Job::Enter(node, batch) if tool.may_travel(&node) => {
                let may = batch.inodes().all(|inode| tool.may_be_entered_elsewhere(&node, inode));
                match may {
                    true => Ok(Self { entry: batch.entry(&node) }),
                    false => Err(Job::Enter(node, batch)),
                }
            }
            other => Err(other),
        }
    }

    /// Takes a job whose entries another process may do; gives any other back.
    ///
    /// # Errors
    /// The job.
    pub fn of(tool: &T, job: Job<T>) -> Result<Self, Job<T>> {
        match job {
            Job::Entries(entry) => Ok(Self { entry }),
            Job::Files(node, batch) if tool.may_travel(&node) && batch.has_no_directories(tool, &node) => {
                Ok(Self { entry: batch.entry(&node) })
            }
            other => Err(other),
        }
    }

    /// Makes one of an entry.
    #[must_use]
    pub fn of_one(entry: Entry<T>) -> Self {
        Self { entry: vec![entry] }
    }

    /// Says how many entries it has.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entry.len()
    }

    /// Returns the entries.
    #[must_use]
    pub fn entry(&self) -> &[Entry<T>] {
        &self.entry
    }

    /// Packs it.
    #[must_use]
    pub fn pack(&self, tool: &T, item: ItemSpec) -> PackedItem {
        let node = self.entry.first().map(|entry| &entry.node);
        let mut packed = PackedItem {
            item: ItemSpec { operands: node.is_some_and(|node| node.is_operands_place()), ..item },
            source: node.map(|node| RemotePath::to(&node.source)).unwrap_or_default(),
            own: node.map(|node| tool.pack(&node.own)).unwrap_or_default(),
            names: PackedNames::default(),
        };
        self.entry.iter().for_each(|entry| packed.names.push(entry.name(), entry.kind));
        packed
    }

    /// Takes one entry out, to be kept by itself. The others keep their order.
    pub fn take(&mut self, name: &CStr) -> Option<Self> {
        let index = self.entry.iter().position(|entry| entry.name() == name)?;
        Some(Self { entry: vec![self.entry.remove(index)] })
    }

    /// Settles its entries, which another process has done, and shares those that some process is to do as claimed.
    pub fn conclude(self, cx: &Context<'_, T>, claimed: bool, outcome: ItemOutcome) {
        let ItemOutcome { returned, completed, entered, told, apart: _, stamps: _ } = outcome;
        let mut told = by_name(told);
        let [returned, completed] = [returned, completed].map(HashSet::<CString>::from_iter);
        let mut entered: HashMap<_, _> =
            entered.into_iter().map(|entered| (entered.name.clone(), entered)).collect();
        let mut again = Vec::new();
        for mut entry in self.entry {
            for result in told.remove(entry.name()).unwrap_or_default() {
                cx.tool().emitted(cx, &entry, &result);
            }
            let is_returned = returned.contains(entry.name());
            if is_returned && entry.kind == EntryType::Directory {
                enter_here(cx, &entry);
            } else if let Some(entered) = entered.remove(entry.name()) {
                entered.go_on(cx, &entry);
            } else if !is_returned {
                if claimed {
                    cx.tool().claimed_is_over(cx, &entry, completed.contains(entry.name()));
                }
                cx.release(&entry.node);
            } else if cx.tool().decide_returned(cx, &mut entry) {
                again.push(entry);
            }
        }
        if !again.is_empty() {
            cx.share(Job::Entries(again));
        }
    }
}

/// Sorts results by the names of their entries.
fn by_name(told: Vec<(CString, Vec<u8>)>) -> HashMap<CString, Vec<Vec<u8>>> {
    let mut results: HashMap<CString, Vec<Vec<u8>>> = HashMap::new();
    for (name, result) in told {
        results.entry(name).or_default().push(result);
    }
    results
}

/// Enters a directory in this process, which walks, that was handed back.
fn enter_here<T: Tool>(cx: &Context<'_, T>, entry: &Entry<T>) {
    let names = Names::of(entry.name(), entry.kind);
    cx.share(Job::Files(Arc::clone(&entry.node), Batch::whole(names)));
}

/// What a process that is given parts knows of the directories they are in.
pub struct ItemReceiver<'a> {
    /// The directories held.
    pub cache: &'a DirCache,
    /// Those known by the ways to them.
    pub ways: &'a RemotePaths,
}

impl ItemReceiver<'_> {
    /// Holds the directory at the end of a way.
    ///
    /// # Errors
    /// When it cannot be opened, or is not the one it was; with its path.
    pub fn hold(&self, way: &RemotePath) -> Result<Arc<DirHandle>, (Vec<u8>, Error)> {
        self.ways.hold(self.cache, way).map_err(|cause| (way.path(), cause))
    }

    /// Makes the jobs of a part that has arrived, each of at most `chunk` entries, so that several workers do it. Entries whose
    /// stamps are known and still right are skipped.
    ///
    /// # Errors
    /// A directory that cannot be held as it was, and its path.
    pub fn admit<T: Distributed + 'static>(
        &self,
        tool: &T,
        sink: Arc<dyn CompletionSink<T>>,
        packed: PackedItem,
        chunk: usize,
    ) -> Result<Vec<Job<T>>, (Vec<u8>, Error)> {
        let source = self.hold(&packed.source)?;
        let own = tool.unpack(&packed.own, self)?;
        let names = packed.names.unpack();
        let known = packed.item.stamps.clone();
        let part = Arc::new(WorkItem::new(packed.item, sink));
        let node = DirNode::root(source, own, Arc::clone(&part) as Arc<dyn RootOwner<T>>);
        let (names, last) = match known {
            Some(known) => {
                let (seen, names) = SeenEntries::look(tool, self.cache, (&node, names), &known);
                part.seen.get_or_init(|| seen);
                // If nothing is left to be done the part is over all the same.
                node.expect(1);
                let node = Arc::clone(&node);
                (names, Some(Job::Visit(Box::new(move |cx: &Context<'_, T>| cx.release(&node)))))
            }
            None => (names, None),
        };
        node.expect(names.len());
        let jobs = plan::chunks(names.len(), chunk);
        let whole = Batch::whole(names);
        let files = jobs.map(|range| Job::Files(Arc::clone(&node), whole.part(range)));
        Ok(files.chain(last).collect())
    }
}
