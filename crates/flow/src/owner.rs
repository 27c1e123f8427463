//! The seam to a run of several processes: owners of entries that another process has sent.
//!
//! In such a run one process, the launch process, walks the tree and sends work items to the
//! others. Each item that arrives here becomes a root node with an owner, which stands between the
//! run and the tool for the entries below that root. The framework calls the owner wherever such
//! entries differ:
//! - results and problems go back to the launch process;
//! - a directory is entered on behalf of the launch process;
//! - a large file is moved by several processes;
//! - the last completed entry completes the work item.
//!
//! A run that walks its own operands has no owners, and calls nothing here.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use haul_sys::{Error, Fd, Stat};

use crate::node::{DirNode, Entry};
use crate::report::Problem;
use crate::run::Context;
use crate::tool::{OpenFile, OpenSource, Tool, Transfer};

/// Stands between the run and the tool for the entries below one root.
pub trait RootOwner<T: Tool>: Send + Sync {
    /// Returns the owner itself, for code that knows its type.
    fn as_any(&self) -> &dyn Any;

    /// Returns true if the entries are operands, not the contents of a directory.
    fn is_operands_place(&self) -> bool;

    /// Called when the last entry is complete.
    fn complete(&self, cx: &Context<'_, T>, root: &Arc<DirNode<T>>);

    /// Called with a problem of one of the entries. Returns it if it should be reported now.
    fn problem(&self, problem: Problem) -> Option<Problem>;

    /// Called with the result of an entry, instead of [`Tool::emitted`].
    fn emit(&self, cx: &Context<'_, T>, entry: &Entry<T>, result: Vec<u8>);

    /// Called when the tool hands an entry back, because only the launch process can decide about
    /// it. Completes the entry, or returns false if the launch process has already decided that it
    /// is done here.
    fn hand_back(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> bool;

    /// Called when other names of a file may be linked to the copy of `entry`, which was handed
    /// back once.
    fn note_linkable(&self, entry: &Entry<T>);

    /// Called when a directory was stat'ed, and opened if possible. Completes the entry.
    fn enter_dir(&self, cx: &Context<'_, T>, entry: &Entry<T>, opened: &OpenSubdir<'_>);

    /// Called when a file was opened and stat'ed, before [`Tool::open_file`]. Returns how much of
    /// it this process moves.
    fn open_file(&self, cx: &Context<'_, T>, entry: &Entry<T>, opened: &OpenSource<'_>) -> Share<T::File>;

    /// Called when the target of a file is open. Returns true if the file is detached:
    /// the owner keeps it until its content was moved, by other processes too, and then
    /// offers [`Job::finish`](crate::Job::finish).
    fn detach(&self, cx: &Context<'_, T>, file: &Arc<OpenFile<T>>, transfer: Transfer) -> bool;

    /// Called instead of [`Tool::finish_file`].
    fn finish_file(&self, cx: &Context<'_, T>, file: &OpenFile<T>) -> bool;

    /// Called instead of [`Tool::close_file`]. Completes the entry.
    fn close_file(&self, cx: &Context<'_, T>, entry: &Entry<T>, own: T::File, moved: bool);
}

/// An opened directory, for an owner.
pub struct OpenSubdir<'a> {
    /// The descriptor, or why the directory can't be read.
    pub source: Result<&'a Arc<Fd>, &'a Error>,
    /// Result of `stat`.
    pub stat: &'a Stat,
    /// True if a symbolic link led to it.
    pub follow: bool,
}

/// How much of a file this process moves.
pub enum Share<F> {
    /// All of it, as the tool decides.
    Whole,
    /// A range of it, to a target that is already open.
    Range(FileRange<F>),
    /// No data to move: the file is done, or its failure was reported.
    Nothing,
}

/// A range of a file that this process moves.
pub struct FileRange<F> {
    /// The tool's state for the file.
    pub own: F,
    /// The target.
    pub target: Fd,
    /// The range, in bytes.
    pub range: Range<u64>,
    /// Method of moving the content.
    pub transfer: Transfer,
    /// True if [`Tool::block`] must see each block before it is written.
    pub inspect: bool,
}
