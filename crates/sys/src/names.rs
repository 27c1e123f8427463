//! Names of directory entries, stored together: one allocation for many names.
//!
//! A directory of a million files must not cost a million allocations, and an open still in
//! flight needs its name to stay at the same address. So names live in an arena that never
//! changes once it is shared, each with the terminating NUL that the kernel expects. A [`Name`]
//! keeps its arena alive.

use std::ffi::{CStr, CString};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::stat::FileType;

/// The type of an entry as a directory listing reports it. Only a hint: the descriptor's
/// [`crate::Stat`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryType {
    /// Not reported by the file system.
    Unknown,
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Special,
}

impl EntryType {
    /// Returns the type for a number from `self as u8`; `Unknown` for any other.
    #[must_use]
    pub fn of_number(number: u8) -> Self {
        let all = [Self::Unknown, Self::Regular, Self::Directory, Self::Symlink, Self::Special];
        all.into_iter().find(|kind| *kind as u8 == number).unwrap_or(Self::Unknown)
    }
}

impl From<FileType> for EntryType {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::Regular => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Special,
        }
    }
}

/// An entry of a listing, without its name.
#[derive(Clone, Copy, Debug)]
pub struct ListedEntry {
    /// Inode number from the listing. On a mount point it is that of the covered inode, so use it
    /// only for ordering.
    pub inode: u64,
    start: u32,
    /// Type from the listing.
    pub kind: EntryType,
}

/// A growing list of entries and their names.
#[derive(Debug, Default)]
pub struct NameArena {
    bytes: Vec<u8>,
    entries: Vec<ListedEntry>,
}

impl NameArena {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a list with the single entry `name`.
    #[must_use]
    pub fn of(name: &CStr, kind: EntryType) -> Self {
        let mut names = Self::new();
        names.push(name, 0, kind);
        names
    }

    /// Adds an entry. Returns false if the list already holds 4 GiB of names.
    pub fn push(&mut self, name: &CStr, inode: u64, kind: EntryType) -> bool {
        self.push_bytes(name.to_bytes(), inode, kind)
    }

    /// Adds an entry whose name has no NUL. Returns false if the list already holds 4 GiB of names.
    pub fn push_bytes(&mut self, name: &[u8], inode: u64, kind: EntryType) -> bool {
        let Ok(start) = u32::try_from(self.bytes.len()) else { return false };
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.entries.push(ListedEntry { inode, start, kind });
        true
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keeps the entries that `keep` accepts. It may correct their types.
    pub fn retain(&mut self, mut keep: impl FnMut(&CStr, &mut EntryType) -> bool) {
        let Self { bytes, entries } = self;
        entries.retain_mut(|entry| keep(name_at(bytes, entry.start), &mut entry.kind));
    }

    /// Sorts the entries by inode number, which on most file systems is the order on disk.
    pub fn sort_by_inode(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.inode);
    }

    /// Keeps the entries that `belongs` accepts; moves the others to the returned list.
    #[must_use]
    pub fn split_off(&mut self, mut belongs: impl FnMut(&ListedEntry) -> bool) -> NameArena {
        let mut others = NameArena::new();
        let entries = std::mem::take(&mut self.entries);
        for entry in entries {
            if belongs(&entry) {
                self.entries.push(entry);
            } else {
                others.push(self.at(entry.start), entry.inode, entry.kind);
            }
        }
        others
    }

    /// Copies the entries in `range` to a new list, with their names contiguous in that order.
    ///
    /// # Panics
    /// If `range` is outside the list.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> NameArena {
        let entries = &self.entries[range];
        let bytes = entries.iter().map(|entry| self.at(entry.start).count_bytes() + 1).sum();
        let mut part =
            NameArena { bytes: Vec::with_capacity(bytes), entries: Vec::with_capacity(entries.len()) };
        for entry in entries {
            part.push(self.at(entry.start), entry.inode, entry.kind);
        }
        part
    }

    /// Returns the `index`-th entry.
    ///
    /// # Panics
    /// If `index` is not less than [`NameArena::len`].
    #[must_use]
    pub fn entry(&self, index: usize) -> ListedEntry {
        self.entries[index]
    }

    /// Returns the name of the `index`-th entry.
    ///
    /// # Panics
    /// If `index` is not less than [`NameArena::len`].
    #[must_use]
    pub fn name(&self, index: usize) -> &CStr {
        self.at(self.entries[index].start)
    }

    fn at(&self, start: u32) -> &CStr {
        name_at(&self.bytes, start)
    }
}

fn name_at(bytes: &[u8], start: u32) -> &CStr {
    CStr::from_bytes_until_nul(&bytes[start as usize..]).unwrap_or_default()
}

/// Entries serialised for another process: names and, from the listing, types and inode numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedNames {
    /// NUL-terminated names.
    names: Vec<u8>,
    kinds: Vec<u8>,
    /// One for each entry, or none if they aren't needed.
    inodes: Vec<u64>,
}

impl PackedNames {
    /// Packs a list.
    #[must_use]
    pub fn of(names: &NameArena) -> Self {
        let mut packed = Self::default();
        for (index, entry) in names.entries.iter().enumerate() {
            packed.push(names.name(index), entry.kind);
            packed.inodes.push(entry.inode);
        }
        packed
    }

    /// Adds an entry without an inode number.
    pub fn push(&mut self, name: &CStr, kind: EntryType) {
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.kinds.push(kind as u8);
    }

    /// Adds the inode number of the entry that was added last. Every entry must have one, or none.
    pub fn push_inode(&mut self, inode: u64) {
        self.inodes.push(inode);
    }

    /// Returns the names, each terminated by a NUL.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.names
    }

    /// Unpacks the list, in its order. Inode numbers that were not sent become 0.
    #[must_use]
    pub fn unpack(self) -> NameArena {
        let Self { names: bytes, kinds, inodes } = self;
        let mut entries = Vec::with_capacity(kinds.len());
        let mut start = 0;
        let inodes = inodes.into_iter().chain(std::iter::repeat(0));
        for ((name, kind), inode) in bytes.split_inclusive(|byte| *byte == 0).zip(kinds).zip(inodes) {
            entries.push(ListedEntry { inode, start, kind: EntryType::of_number(kind) });
            // No message is as long as 4 GiB.
            start = start.saturating_add(u32::try_from(name.len()).unwrap_or(u32::MAX));
        }
        NameArena { bytes, entries }
    }
}

/// A single name that keeps its arena alive. Cheap to clone.
#[derive(Clone)]
pub struct Name {
    names: Arc<NameArena>,
    index: u32,
}

impl Name {
    /// Refers to the `index`-th name of a list.
    ///
    /// # Panics
    /// If `index` is not less than [`NameArena::len`].
    #[must_use]
    pub fn new(names: &Arc<NameArena>, index: usize) -> Self {
        debug_assert!(index < names.len());
        // A list of more than 4 GiB of names can't be made, so there are fewer names than that.
        Self { index: u32::try_from(index).unwrap_or(u32::MAX), names: Arc::clone(names) }
    }

    /// Returns its inode number, as in the list.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.names.entries[self.index as usize].inode
    }

    /// Returns the name, at an address that stays valid while any clone of this lives.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        self.names.name(self.index as usize)
    }
}

impl From<&CStr> for Name {
    fn from(name: &CStr) -> Self {
        Self::new(&Arc::new(NameArena::of(name, EntryType::Unknown)), 0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_c_str().fmt(out)
    }
}

/// Converts bytes of a C string, which contain no NUL.
#[must_use]
pub fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_inode_and_split_by_kind() {
        let mut names = NameArena::new();
        names.push(c"late", 9, EntryType::Regular);
        names.push(c"directory", 1, EntryType::Directory);
        names.push(c"early", 3, EntryType::Regular);
        names.sort_by_inode();
        let directories = names.split_off(|entry| entry.kind != EntryType::Directory);
        assert_eq!(names.len(), 2);
        assert_eq!((names.name(0), names.name(1)), (c"early", c"late"));
        assert_eq!(directories.name(0), c"directory");
        let part = names.part(1..2);
        assert_eq!((part.len(), part.name(0), part.entry(0).inode), (1, c"late", 9));
        let name = Name::new(&Arc::new(names), 1);
        assert_eq!(name.as_c_str(), c"late");
    }

    #[test]
    fn packed_names_come_out_as_they_were() {
        let entries = [
            (c"", 3, EntryType::Special),
            (c"\xff b\n", u64::MAX, EntryType::Unknown),
            (c"c", 0, EntryType::Directory),
        ];
        let (mut names, mut without_inodes) = (NameArena::new(), PackedNames::default());
        for (name, inode, kind) in entries {
            names.push(name, inode, kind);
            without_inodes.push(name, kind);
        }
        assert_eq!(without_inodes.bytes(), b"\0\xff b\n\0c\0");
        let (with, without) = (PackedNames::of(&names).unpack(), without_inodes.unpack());
        for (index, (name, inode, kind)) in entries.into_iter().enumerate() {
            assert_eq!(
                (with.name(index), with.entry(index).inode, with.entry(index).kind),
                (name, inode, kind)
            );
            assert_eq!((without.name(index), without.entry(index).inode), (name, 0));
        }
        assert_eq!((with.len(), without.len()), (3, 3));
    }
}
