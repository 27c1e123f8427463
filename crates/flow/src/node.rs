//! The part of the tree that is being visited.
//!
//! A directory node is a directory that was entered and is not finished. Nodes know their parents,
//! not their children, so a tree of any size needs only the nodes with work left.
//!
//! Invariant: `pending` is one for the listing, as long as it goes on, plus one for each unfinished
//! entry, so it falls to zero exactly once, after the last child (tests: `tests/order.rs`).

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_sys::{EntryType, Identity, Name, Stat};

use crate::held::DirHandle;
use crate::owner::RootOwner;
use crate::tool::Tool;

/// A directory being visited.
pub struct DirNode<T: Tool> {
    /// The parent; `None` for an operand's directory.
    pub parent: Option<Arc<DirNode<T>>>,
    /// The directory's handle, to be opened through the run's cache.
    pub source: Arc<DirHandle>,
    /// Result of `stat` when it was entered; `None` for an operand's directory, which is
    /// not visited.
    pub stat: Option<Stat>,
    /// The tool's state for it.
    pub own: T::Directory,
    /// Owner of the entries, if another process walks the tree.
    pub owner: Option<Arc<dyn RootOwner<T>>>,
    pending: AtomicUsize,
}

impl<T: Tool> DirNode<T> {
    pub(crate) fn new(
        parent: Option<Arc<DirNode<T>>>,
        source: Arc<DirHandle>,
        stat: Option<Stat>,
        own: T::Directory,
    ) -> Arc<Self> {
        Arc::new(Self { parent, source, stat, own, owner: None, pending: AtomicUsize::new(1) })
    }

    /// Creates the root node of entries that another process has sent. [`DirNode::expect`] sets
    /// their number.
    #[must_use]
    pub fn root(source: Arc<DirHandle>, own: T::Directory, owner: Arc<dyn RootOwner<T>>) -> Arc<Self> {
        let pending = AtomicUsize::new(0);
        Arc::new(Self { parent: None, source, stat: None, own, owner: Some(owner), pending })
    }

    /// Returns true if the node is an operand's directory, not a visited one.
    #[must_use]
    pub fn is_operands_place(&self) -> bool {
        match &self.owner {
            Some(owner) => owner.is_operands_place(),
            None => self.parent.is_none(),
        }
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
        self.pending.fetch_add(more, Ordering::Relaxed);
    }

    /// Records that one entry, or the listing, is finished. Returns true if it was the last.
    pub(crate) fn complete_one(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// An entry: a name in a directory.
pub struct Entry<T: Tool> {
    /// The directory it is in.
    pub node: Arc<DirNode<T>>,
    /// Its name there.
    pub name: Name,
    /// Its type according to the listing.
    pub kind: EntryType,
    /// Its identity, if it was stat'ed before being opened.
    pub seen: Option<Identity>,
}

impl<T: Tool> Entry<T> {
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

    /// Returns true if the user named it.
    #[must_use]
    pub fn is_operand(&self) -> bool {
        self.node.is_operands_place()
    }
}

impl<T: Tool> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { node: Arc::clone(&self.node), name: self.name.clone(), kind: self.kind, seen: self.seen }
    }
}
