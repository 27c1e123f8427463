//! The part of the tree that is being visited.
//!
//! A node is a directory that was entered and is not finished. Nodes know their parents, not their children, so a tree
//! of any size needs only the nodes that work is left for.
//!
//! Invariant: `pending` is one for the listing, as long as it goes on, plus one for each entry that is not finished;
//! so it falls to zero exactly once, after the last child (tests: the property tests of the planner's order).

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_sys::{EntryType, Identity, Name, Stat};

use crate::held::DirHandle;
use crate::owner::RootOwner;
use crate::tool::Tool;

/// A directory being visited.
pub struct DirNode<T: Tool> {
    /// The directory it was found in; none for the directory of an operand.
    pub parent: Option<Arc<DirNode<T>>>,
    /// The directory, to be opened through the run's cache.
    pub source: Arc<DirHandle>,
    /// What the kernel said of it when it was entered; none for the directory of an operand, which is not visited.
    pub stat: Option<Stat>,
    /// What the tool keeps for it.
    pub own: T::Directory,
    /// Who gave this process the entries, if another process walks the tree.
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

    /// Makes the root of entries that another process has sent. [`DirNode::expect`] says how many they are.
    #[must_use]
    pub fn root(source: Arc<DirHandle>, own: T::Directory, owner: Arc<dyn RootOwner<T>>) -> Arc<Self> {
        let pending = AtomicUsize::new(0);
        Arc::new(Self { parent: None, source, stat: None, own, owner: Some(owner), pending })
    }

    /// Tells whether the node is not a visited directory but the place where an operand stands.
    #[must_use]
    pub fn is_operands_place(&self) -> bool {
        match &self.owner {
            Some(owner) => owner.is_operands_place(),
            None => self.parent.is_none(),
        }
    }

    /// Tells whether the directory is `directory` or is below it: where links are followed, entering it again would
    /// never end.
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

    /// Records that `more` entries are to be finished.
    pub fn expect(&self, more: usize) {
        self.pending.fetch_add(more, Ordering::Relaxed);
    }

    /// Records that one entry, or the listing, is finished; returns whether it was the last.
    pub(crate) fn complete_one(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// An entry that was found: where, and under which name.
pub struct Entry<T: Tool> {
    /// The directory it is in.
    pub node: Arc<DirNode<T>>,
    /// Its name there.
    pub name: Name,
    /// What the listing says it is.
    pub kind: EntryType,
    /// Which file it was when it was looked at before being opened, if it was.
    pub seen: Option<Identity>,
}

impl<T: Tool> Entry<T> {
    /// Returns its path as the user would write it.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        self.node.source.path_of(self.name())
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &CStr {
        self.name.as_c_str()
    }

    /// Tells whether the user named it.
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
