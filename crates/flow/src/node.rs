//! The part of the tree that is being visited.
//!
//! A directory node is a directory that was entered and is not finished. Nodes know their parents,
//! not their children, so a tree of any size needs only the nodes with work left.
//!
//! Invariant: `pending` is one for the listing while it is in progress, plus one for each
//! unfinished entry, so it falls to zero exactly once, after the last child (tests:
//! `tests/order.rs`).
//!
//! The types here don't depend on a tool: `D` is the tool's state for a directory, `O` the owner of
//! entries that another process has sent. `tool.rs` has the names that tools use.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_sys::{EntryType, Identity, Name, Stat};

use crate::directory_cache::DirHandle;
use crate::selection::Scope;

/// A directory being visited.
pub struct DirNode<D, O: ?Sized> {
    /// The parent; `None` for an operand's directory.
    pub parent: Option<Arc<Self>>,
    /// The directory's handle, to be opened through the run's cache.
    pub source: Arc<DirHandle>,
    /// Result of `stat` when it was entered; `None` for an operand's directory, which is
    /// not visited.
    pub stat: Option<Stat>,
    /// The selection's rules for its entries; `None` if all are kept.
    pub scope: Option<Arc<Scope>>,
    /// The tool's state for it.
    pub own: D,
    /// Owner of the entries, if another process walks the tree.
    pub owner: Option<Arc<O>>,
    holds_operands: bool,
    pending: AtomicUsize,
}

impl<D, O: ?Sized> Drop for DirNode<D, O> {
    /// Drops the nodes above one after the other: in a deep tree, each inside the drop of the one
    /// below it would exceed the stack.
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(node) = above {
            above = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

/// The root node of entries that another process has sent.
pub struct Root<D, O: ?Sized> {
    /// The directory's handle.
    pub source: Arc<DirHandle>,
    /// The tool's state for it.
    pub own: D,
    /// Owner of the entries.
    pub owner: Arc<O>,
    /// True if the user named the entries.
    pub holds_operands: bool,
}

impl<D, O: ?Sized> From<Root<D, O>> for DirNode<D, O> {
    /// Creates the node, without entries: [`DirNode::expect`] sets their number.
    fn from(Root { source, own, owner, holds_operands }: Root<D, O>) -> Self {
        let (owner, pending) = (Some(owner), AtomicUsize::new(0));
        Self { parent: None, source, stat: None, scope: None, own, owner, holds_operands, pending }
    }
}

impl<D, O: ?Sized> DirNode<D, O> {
    pub(crate) fn for_operands(source: Arc<DirHandle>, own: D) -> Self {
        let pending = AtomicUsize::new(1);
        Self {
            parent: None,
            source,
            stat: None,
            scope: None,
            own,
            owner: None,
            holds_operands: true,
            pending,
        }
    }

    pub(crate) fn below(
        parent: &Arc<Self>,
        source: Arc<DirHandle>,
        (stat, scope): (Stat, Option<Arc<Scope>>),
        own: D,
    ) -> Arc<Self> {
        let (parent, stat, pending) = (Some(Arc::clone(parent)), Some(stat), AtomicUsize::new(1));
        Arc::new(Self { parent, source, stat, scope, own, owner: None, holds_operands: false, pending })
    }

    /// Returns true if the node is an operand's directory, not a visited one.
    #[must_use]
    pub fn holds_operands(&self) -> bool {
        self.holds_operands
    }

    /// Returns true if the directory is `directory` or is below it. Where links are followed,
    /// entering `directory` again would never end.
    #[must_use]
    pub fn is_within(&self, directory: Identity) -> bool {
        let mut node = self;
        loop {
            if node.stat.is_some_and(|stat| stat.identity == directory) {
                return true;
            }
            match &node.parent {
                Some(parent) => node = parent,
                None => return false,
            }
        }
    }

    /// Records that `more` entries must be finished.
    pub fn expect(&self, more: usize) {
        // Relaxed: whoever adds entries still holds a count, or hasn't shared the node, so zero
        // can't be reached at the same time.
        self.pending.fetch_add(more, Ordering::Relaxed);
    }

    /// Records that one entry, or the listing, is finished. Returns true if it was the last.
    pub(crate) fn complete_one(&self) -> bool {
        // Release publishes the work done in the directory; Acquire lets the last one, who finishes
        // it, see all of that.
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// An entry: a name in a directory.
pub struct Entry<D, O: ?Sized> {
    /// The directory it is in.
    pub node: Arc<DirNode<D, O>>,
    /// Its name there.
    pub name: Name,
    /// Its type according to the listing.
    pub kind: EntryType,
    /// Its identity, if it was stat'ed before being opened.
    pub seen: Option<Identity>,
}

impl<D, O: ?Sized> Entry<D, O> {
    /// Returns its path, as the user would write it.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        self.node.source.path_of(self.name())
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &CStr {
        self.name.as_c_str()
    }

    /// Returns true if the user named the entry on the command line.
    #[must_use]
    pub fn is_operand(&self) -> bool {
        self.node.holds_operands()
    }
}

impl<D, O: ?Sized> Clone for Entry<D, O> {
    fn clone(&self) -> Self {
        Self { node: Arc::clone(&self.node), name: self.name.clone(), kind: self.kind, seen: self.seen }
    }
}
