//! The seam to a run of several processes: whoever gave this process a part of the tree.
//!
//! A run that walks its own operands has no owners, and calls nothing here. Where another process walks, each part of the tree
//! that it sends becomes a root with an owner, which stands between the run and the tool for the entries below that root. The
//! framework calls it at the points where such entries differ: results and problems go back to the process that walks, a large
//! file is moved by several processes, a directory is entered for the process that walks, and the end of the last entry is the
//! end of the part.

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
    /// The owner itself, for those who know its type.
    fn as_any(&self) -> &dyn Any;

    /// True if the entries are operands rather than what a directory has in it.
    fn is_operands_place(&self) -> bool;

    /// Called when the last entry is complete.
    fn complete(&self, cx: &Context<'_, T>, root: &Arc<DirNode<T>>);

    /// Called with a problem of one of the entries. Returns it if it is to be reported now.
    fn problem(&self, problem: Problem) -> Option<Problem>;

    /// Called with the result of an entry, instead of [`Tool::emitted`].
    fn emit(&self, cx: &Context<'_, T>, entry: &Entry<T>, result: Vec<u8>);

    /// Called when the tool gives an entry back, as only the process that walks can decide about it. Completes the entry, or
    /// returns false if that has decided already that it is to be done here.
    fn hand_back(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> bool;

    /// Called when other names of its file may be linked to the copy of an entry that was handed back once.
    fn note_linkable(&self, entry: &Entry<T>);

    /// Called when a directory was opened, or could not be, but was looked at. Completes the entry.
    fn enter_dir(&self, cx: &Context<'_, T>, entry: &Entry<T>, opened: &OpenSubdir<'_>);

    /// Called when a file was opened and stat'ed, before [`Tool::open_file`]. Says whether only a range of it is to be moved here.
    fn open_file(&self, cx: &Context<'_, T>, entry: &Entry<T>, opened: &OpenSource<'_>) -> Share<T::File>;

    /// Called when the target of a file is open. Returns true if the owner keeps the file until its content was moved, by other
    /// processes as well, and then offers [`Job::finish`](crate::Job::finish).
    fn detach(&self, cx: &Context<'_, T>, file: &Arc<OpenFile<T>>, transfer: Transfer) -> bool;

    /// Called instead of [`Tool::finish_file`].
    fn finish_file(&self, cx: &Context<'_, T>, file: &OpenFile<T>) -> bool;

    /// Called instead of [`Tool::close_file`]. Completes the entry.
    fn close_file(&self, cx: &Context<'_, T>, entry: &Entry<T>, own: T::File, moved: bool);
}

/// A directory that was opened, for an owner.
pub struct OpenSubdir<'a> {
    /// The descriptor, or why it may not be read.
    pub source: Result<&'a Arc<Fd>, &'a Error>,
    /// What the kernel says of it.
    pub stat: &'a Stat,
    /// True if a symbolic link led to it.
    pub follow: bool,
}

/// What of a file this process moves.
pub enum Share<F> {
    /// All of it, as the tool says.
    Whole,
    /// A range of it, to a target that is open already.
    Range(FileRange<F>),
    /// Nothing: it is complete, or has failed and that was reported.
    Nothing,
}

/// A range of a file that this process moves.
pub struct FileRange<F> {
    /// What the tool keeps for the file.
    pub own: F,
    /// The target.
    pub target: Fd,
    /// The range, in bytes.
    pub range: Range<u64>,
    /// How it is moved.
    pub transfer: Transfer,
    /// Whether [`Tool::block`] sees each block before it is written.
    pub inspect: bool,
}
