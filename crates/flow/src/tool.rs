//! The interface between a tool, the framework, and a run of several processes.
//!
//! A [`Tool`] decides what each entry needs, what to do with a directory that is entered, with a
//! block that was read, and how to finish a file or a directory. The framework walks, plans, opens,
//! reads, writes, closes, and schedules; a worker passes the tool its [`Context`], through which
//! the tool reports and completes entries. The arguments and answers are in `decision.rs`.
//!
//! The life of a file, with the tool's part on the right:
//!
//! ```text
//! entry ─► plan ───────────────────────────────────► Plan::Read
//!   open, fstat
//!   first block, if it is in the cache
//!                          open_file ──────────────► Start::Move { target, transfer, .. }
//!   read ...
//!                          block ──────────────────► Write::All
//!   write ...
//!                          finish_file (attributes)
//!   close target, close source: results checked
//!                          close_file (success or not)
//! ```
//!
//! In a run of several processes the launch process walks the tree and sends work items to the
//! others. Each item that arrives becomes a root node with a [`RootOwner`], which stands between
//! the run and the tool for the entries below it. A run that walks its own operands has no owners.

use std::any::Any;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;

use haul_sys::{EntryType, Fd, Standard};

use crate::batch::Batch;
use crate::context::Context;
use crate::decision::{
    Block, Enter, EntryFailure, Finished, Handled, OpenDir, OpenSource, OpenSubdir, Plan, Policy, Reported,
    Start, Transfer, Write,
};
use crate::driver::JobWeight;
use crate::operand::Operand;
use crate::report::Problem;
use crate::{node, open_file};

/// A directory being visited by a tool.
pub type DirNode<T> = node::DirNode<<T as Tool>::Directory, dyn RootOwner<T>>;

/// An entry of a directory being visited by a tool.
pub type Entry<T> = node::Entry<<T as Tool>::Directory, dyn RootOwner<T>>;

/// A file whose content is being moved for a tool.
pub type OpenFile<T> = open_file::OpenFile<Entry<T>, <T as Tool>::File>;

/// A tool: decides how the entries of a tree are processed. Its methods are called from many
/// workers at once.
pub trait Tool: Sync + Sized {
    /// State kept for each directory, from [`Tool::enter_dir`] to [`Tool::finish_dir`].
    type Directory: Send + Sync;
    /// State kept for each file, from [`Tool::open_file`] to [`Tool::close_file`].
    type File: Send + Sync;

    /// Returns the job order, the backpressure gauge and the cancel token of the run.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// Returns true if a symbolic link at this entry should be followed. By default none is.
    fn follow(&self, _entry: &Entry<Self>) -> bool {
        false
    }

    /// Decides what an entry of this type needs. The type is never `Unknown`: the framework looks
    /// up what a listing leaves open. For a followed link, it is the type of the link's target.
    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan;

    /// Called when a directory was opened. Creates its counterpart.
    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<Self::Directory>;

    /// Called when the last entry of a directory, or of an operand, is complete. Finishes
    /// the counterpart.
    fn finish_dir(&self, _cx: &Context<'_, Self>, _node: &DirNode<Self>) {}

    /// Handles an entry for which [`Tool::plan`] returned [`Plan::Handle`]: a link, a device,
    /// another name of a file.
    fn handle(&self, _cx: &Context<'_, Self>, _entry: &Entry<Self>, _kind: EntryType) -> Handled {
        Handled::Done
    }

    /// Called when a file was opened and stat'ed. Decides what happens to its content.
    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Self::File>;

    /// Called for each block that was read. Blocks of a large file come from several workers, in
    /// any order.
    fn block(&self, _file: &OpenFile<Self>, _block: Block<'_>) -> Write {
        Write::All
    }

    /// Called when all of a file's content was moved, before it is closed.
    fn finish_file(&self, _cx: &Context<'_, Self>, _file: &OpenFile<Self>) -> Finished {
        Finished::Done
    }

    /// Called after a file was closed, once for each state that [`Tool::open_file`] returned.
    /// `moved` is false if anything failed.
    fn close_file(&self, _cx: &Context<'_, Self>, _entry: &Entry<Self>, _own: Self::File, _moved: bool) {}

    /// Called when the framework failed on an entry, before the failure is reported.
    fn failed(&self, _cx: &Context<'_, Self>, _entry: &Entry<Self>, _failure: EntryFailure<'_>) -> Reported {
        Reported::No
    }

    /// Called with each result passed to [`Context::emit`]: in the process that walks the tree,
    /// exactly once, even if the entry was redone elsewhere. By default the result goes to
    /// standard output.
    fn emitted(&self, cx: &Context<'_, Self>, _entry: &Entry<Self>, result: &[u8]) {
        cx.report().output(Standard::Output, result);
    }
}

/// Stands between the run and the tool for the entries below one root.
pub trait RootOwner<T: Tool>: Send + Sync {
    /// Returns the owner itself, for code that knows its type.
    fn as_any(&self) -> &dyn Any;

    /// Called when the last entry is complete.
    fn complete(&self, cx: &Context<'_, T>, root: &Arc<DirNode<T>>);

    /// Called with a problem, instead of the reporter. `entry` names the entry that has it;
    /// `None` for a problem of the directory or of several entries.
    fn problem(&self, entry: Option<&CStr>, problem: Problem);

    /// Called with the result of an entry, instead of [`Tool::emitted`].
    fn emit(&self, cx: &Context<'_, T>, entry: &Entry<T>, result: Vec<u8>);

    /// Called when the tool hands an entry back, because only the launch process can decide about
    /// it. Completes the entry, or returns false if the launch process has already decided that it
    /// is done here.
    fn hand_back(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> bool;

    /// Called when other names of a file may be linked to the copy of `entry`, which was handed
    /// back before.
    fn note_linkable(&self, entry: &Entry<T>);

    /// Called when an entry is skipped, or its target left as it is, for a reason that may not hold
    /// in a later run: its copy doesn't count as complete.
    fn note_skipped(&self, entry: &Entry<T>);

    /// Called when a directory was stat'ed, and opened if possible. Completes the entry.
    fn enter_dir(&self, cx: &Context<'_, T>, entry: &Entry<T>, opened: &OpenSubdir<'_>);

    /// Called when a file was opened and stat'ed. Returns what to do, or `None` to ask
    /// [`Tool::open_file`].
    fn open_file(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        opened: &OpenSource<'_>,
    ) -> Option<Start<T::File>>;

    /// Called when the target of a file is open. Returns true if the file is detached: the owner
    /// keeps it until its content was moved, by other processes too, and then offers
    /// [`Job::finish`].
    fn detach(&self, cx: &Context<'_, T>, file: &Arc<OpenFile<T>>, transfer: Transfer) -> bool;

    /// Called instead of [`Tool::finish_file`].
    fn finish_file(&self, cx: &Context<'_, T>, file: &OpenFile<T>) -> Finished;

    /// Called instead of [`Tool::close_file`]. Completes the entry.
    fn close_file(&self, cx: &Context<'_, T>, entry: &Entry<T>, own: T::File, moved: bool);
}

/// A function that needs a worker's context.
pub type Callback<T> = Box<dyn FnOnce(&Context<'_, T>) + Send>;

/// A unit of work that any worker can do.
pub enum Job<T: Tool> {
    /// Enter these subdirectories of a directory.
    Enter(Arc<DirNode<T>>, Batch),
    /// Continue listing a directory that is too large to list at once, at the descriptor's offset.
    List(Arc<DirNode<T>>, Arc<Fd>),
    /// Process these entries of a directory, none of which is known to be a directory.
    Files(Arc<DirNode<T>>, Batch),
    /// Handle this entry of a kind, with no other work in progress
    /// ([`Plan::HandleAlone`](crate::Plan)).
    Alone(Entry<T>, EntryType),
    /// Process these entries, which are classified already.
    Entries(Vec<Entry<T>>),
    /// Call this function on a worker, with its context.
    Callback(Callback<T>),
    /// Move this range of a large file.
    Range(Arc<OpenFile<T>>, Range<u64>, Transfer),
    /// Fetch this range of a large file into the page cache: another worker moves it soon.
    Fetch(Arc<OpenFile<T>>, Range<u64>),
}

impl<T: Tool> Job<T> {
    /// Returns the job of an operand and its number of entries; `None` if there are none.
    pub(crate) fn of_operand(operand: Operand<T::Directory>) -> Option<(Self, usize)> {
        let Operand { place, names, own } = operand;
        let entries = names.len();
        let node = Arc::new(DirNode::<T>::for_operands(place, own));
        // The node starts with a count of one.
        node.expect(entries.checked_sub(1)?);
        Some((Job::Files(node, Batch::whole(names)), entries))
    }

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

impl<T: Tool> JobWeight for Job<T> {
    fn finds_work(&self) -> bool {
        matches!(self, Job::Enter(..) | Job::List(..))
    }

    fn entries(&self) -> usize {
        match self {
            Job::Enter(_, batch) | Job::Files(_, batch) => batch.len(),
            Job::Entries(entries) => entries.len(),
            Job::Alone(..) => 1,
            Job::List(..) | Job::Range(..) | Job::Fetch(..) | Job::Callback(..) => 0,
        }
    }
}
