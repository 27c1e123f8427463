//! Batches: some entries of a listing.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;

use haul_sys::{EntryType, Name, NameArena};

use crate::node::{DirNode, Entry};

/// Some entries of a listing.
#[derive(Clone)]
pub struct Batch {
    names: Arc<NameArena>,
    range: Range<usize>,
    /// True if entries of unknown type were stat'ed, and none is a directory.
    pub(crate) is_classified: bool,
}

impl Batch {
    /// Returns a batch of all entries in a list.
    #[must_use]
    pub fn whole(names: NameArena) -> Self {
        Self { range: 0..names.len(), names: Arc::new(names), is_classified: false }
    }

    /// Returns a batch of one entry that was stat'ed and is not a directory.
    pub(crate) fn classified(name: &CStr, kind: EntryType) -> Self {
        Self { is_classified: true, ..Self::whole(NameArena::of(name, kind)) }
    }

    /// Returns a batch of some of the entries, by their indices in the list.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        Self { range, ..self.clone() }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns true if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Removes the second half of the entries and returns it.
    pub(crate) fn split_off_half(&mut self) -> Self {
        let middle = self.range.start + self.range.len() / 2;
        let later = self.part(middle..self.range.end);
        self.range.end = middle;
        later
    }

    /// Removes the first entry and returns it, as an entry of `node`.
    pub(crate) fn next<D, O: ?Sized>(&mut self, node: &Arc<DirNode<D, O>>) -> Option<Entry<D, O>> {
        self.range.next().map(|index| self.entry(node, index))
    }

    fn entry<D, O: ?Sized>(&self, node: &Arc<DirNode<D, O>>, index: usize) -> Entry<D, O> {
        let kind = self.names.entry(index).kind;
        Entry { node: Arc::clone(node), name: Name::new(&self.names, index), kind, seen: None }
    }

    /// Returns true if no entry can be a directory, or a link to one: a link for which `follows` is
    /// true.
    pub fn has_no_directories<D, O: ?Sized>(
        &self,
        node: &Arc<DirNode<D, O>>,
        follows: impl Fn(&Entry<D, O>) -> bool,
    ) -> bool {
        let is_known = |entry: &Entry<D, O>| match entry.kind {
            EntryType::Regular | EntryType::Special => true,
            EntryType::Symlink => !follows(entry),
            EntryType::Unknown | EntryType::Directory => false,
        };
        self.is_classified || self.entries(node).iter().all(is_known)
    }

    /// Returns the inode numbers from the listing.
    pub fn inodes(&self) -> impl Iterator<Item = u64> {
        self.range.clone().map(|index| self.names.entry(index).inode)
    }

    /// Returns the entries, as entries of `node`.
    #[must_use]
    pub fn entries<D, O: ?Sized>(&self, node: &Arc<DirNode<D, O>>) -> Vec<Entry<D, O>> {
        self.range.clone().map(|index| self.entry(node, index)).collect()
    }
}
