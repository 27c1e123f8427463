//! Directories named by several operands: which ones this run has copied, and where to.
//!
//! Hard links to a directory can't be made in the target, so a directory is copied only once
//! (except where links are followed). As with GNU, only successful copies count: if a directory
//! could not be copied, the next operand that names it, or a directory above it, tries again.
//! Operands that could meet here are never in flight together (`groups::groups`).

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard};

use haul_flow::lock;
use haul_sys::Identity;

/// The copy of a directory that an operand names.
#[derive(Clone, Debug)]
pub(super) struct NamedCopy {
    /// Index of its operand.
    pub(super) operand: usize,
    /// The directory it was made in, and its name there.
    pub(super) place: (Identity, CString),
    /// Its path in messages.
    pub(super) shown: Vec<u8>,
}

impl NamedCopy {
    /// True if a copy to `name` in `directory` would be the same one.
    pub(super) fn is_in(&self, directory: Identity, name: &CStr) -> bool {
        (self.place.0, &*self.place.1) == (directory, name)
    }
}

/// Copies of named directories; kept only if there are several operands.
#[derive(Debug)]
pub(super) struct NamedCopies(Option<Mutex<HashMap<Identity, NamedCopy>>>);

impl NamedCopies {
    pub(super) fn new(several: bool) -> Self {
        Self(several.then(Mutex::default))
    }

    fn table(&self) -> Option<MutexGuard<'_, HashMap<Identity, NamedCopy>>> {
        self.0.as_ref().map(|table| lock(table))
    }

    /// True if copies are recorded.
    #[cfg(feature = "distributed")]
    pub(super) fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Records a directory's copy; the first one wins.
    pub(super) fn record(&self, directory: Identity, copy: impl FnOnce() -> NamedCopy) {
        if let Some(mut table) = self.table() {
            table.entry(directory).or_insert_with(copy);
        }
    }

    pub(super) fn of(&self, directory: Identity) -> Option<NamedCopy> {
        self.table()?.get(&directory).cloned()
    }

    /// True if a directory with this inode number may have been copied.
    #[cfg(feature = "distributed")]
    pub(super) fn may_have(&self, inode: u64) -> bool {
        self.table().is_some_and(|table| table.keys().any(|directory| directory.inode == inode))
    }
}
