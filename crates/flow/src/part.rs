//! Parts: entries of one directory that another process does, and what comes back of them.
//!
//! ```text
//! process that walks                                 process that was given the part
//! Job::Files ─► Parcel ─► PackedPart ─► (bytes) ─► Arrivals::admit ─► Node with a Part ─► Job::Files
//!    ▲            kept until done                                        │ every entry settled
//!    └─ settle ◄─ Parcel::conclude ◄───── (bytes) ◄───── Outlet::done ◄──┘
//! ```
//!
//! The process that was given a part knows neither the directory's parents nor when the directory is finished: it does
//! the entries, and says when all are settled. A large file leaves its part (it is *apart*): its content is moved in
//! [`Piece`]s by several processes, and the one that met it leads: it makes the target and finishes it.
//!
//! Invariant: a part is told to be done exactly once, after the last of its entries; a piece is told to be moved only if
//! every byte of it was (tests: `flow/tests/parts.rs`, `cli/tests/cluster`).

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use haul_sys::{EntryType, Error, PackedNames, Stat};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::entered::Entered;
use crate::node::{Found, Node};
use crate::plan;
use crate::report::Problem;
use crate::run::{Batch, Desk, Job};
use crate::stamp::{SeenEntries, Stamp};
use crate::tool::{OpenFile, Tool, Transfer};
use crate::ways::{Way, Ways};
use crate::{Held, HeldCache, wording};

/// Bytes that the results of a part may have together: it is reported in one message.
const TOLD_BYTES_MAX: usize = 64 << 20;

/// What a process is told of a part, apart from where it is and which entries are in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Errand {
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
    pub begun: Option<Begun>,
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
pub struct Begun {
    /// What the tool needs to open the target.
    pub ticket: Vec<u8>,
    /// The ranges that were moved, in any order.
    pub done: Vec<Range<u64>>,
}

/// What a process knows a part by: the numbers of parts and of pieces are given by different processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKey {
    /// A part of this number.
    Part(u64),
    /// A piece of this number.
    Piece(u64),
}

/// A part in the process that does it.
#[derive(Debug)]
pub struct Part {
    /// What this process was told of it.
    pub errand: Errand,
    outcome: Mutex<PartOutcome>,
    moved: AtomicBool,
    seen: OnceLock<SeenEntries>,
}

/// What became of a part's entries, as far as they are not simply over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOutcome {
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

impl Part {
    pub(crate) fn new(errand: Errand) -> Self {
        Self { errand, outcome: Mutex::default(), moved: AtomicBool::new(false), seen: OnceLock::new() }
    }

    /// Returns what this process knows the part by.
    #[must_use]
    pub fn key(&self) -> PartKey {
        match self.errand.piece {
            Some(_) => PartKey::Piece(self.errand.number),
            None => PartKey::Part(self.errand.number),
        }
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut PartOutcome)) {
        change(&mut self.outcome.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns what became of the entries, once the part is done.
    #[must_use]
    pub fn outcome(&self) -> PartOutcome {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stamps the entries of a journaled part that `may_be` stamped, after the last of them is over.
    pub fn stamp<T: Portable>(
        &self,
        desk: &Desk<'_, T>,
        node: &Arc<Node<T>>,
        may_be: impl Fn(&Found<T>) -> bool,
    ) {
        let Some(seen) = self.seen.get() else { return };
        let PartOutcome { apart, returned, .. } = self.outcome();
        let apart: HashSet<_> = apart.into_iter().map(|(name, _)| name).collect();
        let returned: HashSet<_> = returned.into_iter().collect();
        let may_be = |found: &Found<T>| !returned.contains(found.name()) && may_be(found);
        let stamps = seen.stamps((desk.tool(), desk.cache()), node, |name| apart.contains(name), may_be);
        self.note(|outcome| outcome.stamps = stamps);
    }

    /// Stamps one entry of a journaled part.
    pub fn stamp_of<T: Portable>(&self, desk: &Desk<'_, T>, found: &Found<T>) -> Stamp {
        self.seen.get().map_or(Stamp::NONE, |seen| seen.stamp_of(desk.tool(), desk.cache(), found))
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

/// Hears what becomes of the parts that a run was given.
pub trait Outlet<T: Tool>: Sync {
    /// Hears that every entry of a part is settled, or is apart.
    fn done(&self, part: &Part);

    /// Called instead of [`Outlet::done`] for a part that is journaled: it is to be on storage before it is done.
    fn seal(&self, _desk: &Desk<'_, T>, node: &Arc<Node<T>>) {
        if let Some(part) = &node.part {
            self.done(part);
        }
    }

    /// Called with a problem with an entry of a part, which is told only when the part is over: what is lost with this process
    /// is tried again. Returns what is to be told at once.
    fn keep(&self, _part: PartKey, problem: Problem) -> Option<Problem> {
        Some(problem)
    }

    /// Flushes the parts that are to be sealed.
    fn flush(&self, _desk: &Desk<'_, T>) {}

    /// Returns a number for a large file, if its content may be moved by several processes.
    fn large(&self, stat: &Stat) -> Option<u64>;

    /// Hears of a large file whose target is made. The file is to be kept until its pieces are over, and then given back as
    /// [`Job::finish`].
    fn begun(&self, tool: &T, number: u64, file: LargeFile<T>);

    /// Hears that a large file is over: closed, and finished well or not.
    fn over(&self, desk: &Desk<'_, T>, found: &Found<T>, number: u64, moved: bool);

    /// Hears that the tool has called the run off.
    fn call_off(&self);
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

/// What a tool needs so that its entries can be done by another process. What has a default is for tools whose entries are
/// decided where the walk is, or whose directories are entered elsewhere.
pub trait Portable: Tool {
    /// The tool's name, by which other processes know which it is.
    const NAME: &'static str;

    /// Says what other processes have to know to do parts of this run.
    fn brief(&self) -> Vec<u8>;

    /// Makes the tool of a process that is given parts; `None` if the brief is of another version.
    fn briefed(brief: &[u8]) -> Option<Self>;

    /// Tells whether an entry may be done by a process that knows nothing of the rest of the run.
    fn may_travel(&self, _node: &Node<Self>) -> bool {
        true
    }

    /// Packs what the tool keeps for a directory, as far as its entries need it.
    fn pack(&self, own: &Self::Directory) -> Vec<u8>;

    /// Unpacks what [`Portable::pack`] has packed, in the process that does the entries.
    ///
    /// # Errors
    /// A directory that cannot be held as it was, and its path.
    fn unpack(&self, packed: &[u8], arrivals: &Arrivals<'_>) -> Result<Self::Directory, (Vec<u8>, Error)>;

    /// Returns where the copy of an entry is, once it is made: the directory, and the name there. `None` for tools that make
    /// none, and for an entry that must not be skipped by a journal.
    fn made<'a>(&self, _found: &'a Found<Self>) -> Option<(&'a Arc<Held>, &'a CStr)> {
        None
    }

    /// Called when the job is lost for good, before what is left is abandoned: a later run may go on with it.
    fn lost(&self) {}

    /// Tells whether a large file is finished by what depends on the end of its content, as attributes do, so that its leader
    /// counts the ranges itself.
    fn leader_counts(&self) -> bool {
        false
    }

    /// Tells whether a directory may be entered by another process, going by the inode number that its listing shows.
    fn may_be_entered_elsewhere(&self, _node: &Node<Self>, _inode: u64) -> bool {
        false
    }

    /// Unpacks, in the process that walks, what the tool keeps for a directory that another process has entered
    /// ([`Tool::pack_entered`]). `None` if it cannot be, and that was told.
    fn unpack_entered(
        &self,
        _desk: &Desk<'_, Self>,
        _found: &Found<Self>,
        _packed: &[u8],
    ) -> Option<Self::Directory> {
        None
    }

    /// Decides, in the process that walks, what becomes of an entry that was returned. `true` if it is to be done by some
    /// process after all, as claimed; if not, it is settled, or kept, here.
    fn decide_returned(&self, desk: &Desk<'_, Self>, found: &mut Found<Self>) -> bool {
        desk.settle(found);
        false
    }

    /// Hears, in the process that walks, whether the copy of a claimed entry stands.
    fn claimed_is_over(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>, _stands: bool) {}
}

/// A part in the process that walks: kept until it is done.
pub struct Parcel<T: Tool> {
    found: Vec<Found<T>>,
}

/// A part on its way: what another process needs to do it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackedPart {
    /// What it is told.
    pub errand: Errand,
    /// The directory.
    pub source: Way,
    /// What the tool keeps for the directory.
    pub own: Vec<u8>,
    /// The entries.
    pub names: PackedNames,
}

impl PackedPart {
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

impl<T: Portable> Parcel<T> {
    /// Takes a job of directories that another process may enter; gives any other back.
    ///
    /// # Errors
    /// The job.
    pub fn of_directories(tool: &T, job: Job<T>) -> Result<Self, Job<T>> {
        match job {
            Job::Enter(node, batch) if tool.may_travel(&node) => {
                let may = batch.inodes().all(|inode| tool.may_be_entered_elsewhere(&node, inode));
                match may {
                    true => Ok(Self { found: batch.found(&node) }),
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
            Job::Claimed(found) => Ok(Self { found }),
            Job::Files(node, batch) if tool.may_travel(&node) && batch.has_no_directories(tool, &node) => {
                Ok(Self { found: batch.found(&node) })
            }
            other => Err(other),
        }
    }

    /// Makes one of an entry.
    #[must_use]
    pub fn of_one(found: Found<T>) -> Self {
        Self { found: vec![found] }
    }

    /// Says how many entries it has.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.found.len()
    }

    /// Returns the entries.
    #[must_use]
    pub fn found(&self) -> &[Found<T>] {
        &self.found
    }

    /// Packs it.
    #[must_use]
    pub fn pack(&self, tool: &T, errand: Errand) -> PackedPart {
        let node = self.found.first().map(|found| &found.node);
        let mut packed = PackedPart {
            errand: Errand { operands: node.is_some_and(|node| node.is_operands_place()), ..errand },
            source: node.map(|node| Way::to(&node.source)).unwrap_or_default(),
            own: node.map(|node| tool.pack(&node.own)).unwrap_or_default(),
            names: PackedNames::default(),
        };
        self.found.iter().for_each(|found| packed.names.push(found.name(), found.kind));
        packed
    }

    /// Takes one entry out, to be kept by itself. The others keep their order.
    pub fn take(&mut self, name: &CStr) -> Option<Self> {
        let index = self.found.iter().position(|found| found.name() == name)?;
        Some(Self { found: vec![self.found.remove(index)] })
    }

    /// Settles its entries, which another process has done, and shares those that some process is to do as claimed.
    pub fn conclude(self, desk: &Desk<'_, T>, claimed: bool, outcome: PartOutcome) {
        let PartOutcome { returned, completed, entered, told, apart: _, stamps: _ } = outcome;
        let mut told = by_name(told);
        let [returned, completed] = [returned, completed].map(HashSet::<CString>::from_iter);
        let mut entered: HashMap<_, _> =
            entered.into_iter().map(|entered| (entered.name.clone(), entered)).collect();
        let mut again = Vec::new();
        for mut found in self.found {
            for result in told.remove(found.name()).unwrap_or_default() {
                desk.tool().told(desk, &found, &result);
            }
            let is_returned = returned.contains(found.name());
            if is_returned && found.kind == EntryType::Directory {
                desk.enter_here(&found);
            } else if let Some(entered) = entered.remove(found.name()) {
                desk.go_on_in(&found, entered);
            } else if !is_returned {
                if claimed {
                    desk.tool().claimed_is_over(desk, &found, completed.contains(found.name()));
                }
                desk.release(&found.node);
            } else if desk.tool().decide_returned(desk, &mut found) {
                again.push(found);
            }
        }
        if !again.is_empty() {
            desk.share(Job::Claimed(again));
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

/// What a process that is given parts knows of the directories they are in.
pub struct Arrivals<'a> {
    /// The directories held.
    pub cache: &'a HeldCache,
    /// Those known by the ways to them.
    pub ways: &'a Ways,
}

impl Arrivals<'_> {
    /// Holds the directory at the end of a way.
    ///
    /// # Errors
    /// When it cannot be opened, or is not the one it was; with its path.
    pub fn hold(&self, way: &Way) -> Result<Arc<Held>, (Vec<u8>, Error)> {
        self.ways.hold(self.cache, way).map_err(|cause| (way.path(), cause))
    }

    /// Makes the jobs of a part that has arrived, each of at most `chunk` entries, so that several workers do it. Entries whose
    /// stamps are known and still right are skipped.
    ///
    /// # Errors
    /// A directory that cannot be held as it was, and its path.
    pub fn admit<T: Portable + 'static>(
        &self,
        tool: &T,
        packed: PackedPart,
        chunk: usize,
    ) -> Result<Vec<Job<T>>, (Vec<u8>, Error)> {
        let source = self.hold(&packed.source)?;
        let own = tool.unpack(&packed.own, self)?;
        let names = packed.names.unpack();
        let known = packed.errand.stamps.clone();
        let node = Node::of_part(source, own, Part::new(packed.errand));
        let (names, last) = match (known, &node.part) {
            (Some(known), Some(part)) => {
                let (seen, names) = SeenEntries::look(tool, self.cache, (&node, names), &known);
                part.seen.get_or_init(|| seen);
                // If nothing is left to be done the part is over all the same.
                node.expect(1);
                let node = Arc::clone(&node);
                (names, Some(Job::Visit(Box::new(move |desk: &Desk<'_, T>| desk.release(&node)))))
            }
            _ => (names, None),
        };
        node.expect(names.len());
        let jobs = plan::chunks(names.len(), chunk);
        let whole = Batch::whole(names);
        let files = jobs.map(|range| Job::Files(Arc::clone(&node), whole.part(range)));
        Ok(files.chain(last).collect())
    }
}

impl<T: Tool> Desk<'_, T> {
    /// Gives an entry back to the process that walks, which alone can decide what becomes of it. Only for entries of a
    /// part.
    pub fn give_back(&self, found: &Found<T>) {
        if let Some(part) = &found.node.part {
            part.note(|outcome| outcome.returned.push(found.name().to_owned()));
        }
        self.release(&found.node);
    }

    /// Tells the result of an entry to the process that walks: [`Tool::told`]. Results of a part may have 64 MiB together. An entry
    /// with more is given back, with nothing told of it, if the tool can do it again; if not, what is beyond that is an error.
    pub fn tell(&self, found: &Found<T>, result: Vec<u8>) {
        let Some(part) = &found.node.part else { return self.tool().told(self, found, &result) };
        let mut is_lost = false;
        part.note(|outcome| {
            let name = found.name();
            if outcome.returned.iter().any(|returned| returned.as_c_str() == name) {
                return;
            }
            let before: usize = outcome.told.iter().map(|(_, result)| result.len()).sum();
            if before + result.len() <= TOLD_BYTES_MAX {
                outcome.told.push((name.to_owned(), result));
            } else if self.tool().can_do_again(found) {
                outcome.told.retain(|(of, _)| of.as_c_str() != name);
                outcome.returned.push(name.to_owned());
            } else {
                is_lost = true;
            }
        });
        if is_lost {
            self.problem(Problem::new(wording::RESULT_TOO_LONG).naming(found.path()));
        }
    }

    /// Records that the copy of an entry of a claimed part stands.
    pub fn note_completed(&self, found: &Found<T>) {
        if let Some(part) = &found.node.part {
            part.note(|outcome| outcome.completed.push(found.name().to_owned()));
        }
    }

    /// Takes a large file out of its part.
    pub(crate) fn set_apart(&self, found: &Found<T>, number: u64) {
        if let Some(part) = &found.node.part {
            part.note(|outcome| outcome.apart.push((found.name().to_owned(), number)));
        }
        self.release(&found.node);
    }
}
