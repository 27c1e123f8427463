//! The directories that several operands name: which of them this run has copied, and to where.
//!
//! Names of one directory would have to become names of one directory in the target, which cannot be, so a directory is
//! copied once (but where links are followed). As with GNU, only what was copied counts: a directory whose copy could not be
//! made is copied anew for the next operand that names it, or that it is in. Operands that could meet here are never under way
//! together (`operands::groups`).

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_sys::Identity;

/// The copy of a directory that an operand names.
#[derive(Clone, Debug)]
pub(super) struct NamedCopy {
    /// Which of the operands it is of.
    pub(super) operand: usize,
    /// The directory it was made in, and its name there.
    pub(super) place: (Identity, CString),
    /// Its path as messages name it.
    pub(super) shown: Vec<u8>,
}

impl NamedCopy {
    /// True if a copy would be made in the same place.
    pub(super) fn is_in(&self, directory: Identity, name: &CStr) -> bool {
        (self.place.0, &*self.place.1) == (directory, name)
    }
}

/// The copies of named directories, kept only if several operands are.
#[derive(Debug)]
pub(super) struct NamedCopies(Option<Mutex<HashMap<Identity, NamedCopy>>>);

impl NamedCopies {
    pub(super) fn new(several: bool) -> Self {
        Self(several.then(Mutex::default))
    }

    fn table(&self) -> Option<MutexGuard<'_, HashMap<Identity, NamedCopy>>> {
        self.0.as_ref().map(|table| table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if copies are kept.
    pub(super) fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Records that a directory was copied; the first copy stays the one.
    pub(super) fn record(&self, directory: Identity, copy: impl FnOnce() -> NamedCopy) {
        if let Some(mut table) = self.table() {
            table.entry(directory).or_insert_with(copy);
        }
    }

    /// Returns the copy of a directory.
    pub(super) fn of(&self, directory: Identity) -> Option<NamedCopy> {
        self.table()?.get(&directory).cloned()
    }

    /// True if a directory with this inode number may have been copied.
    pub(super) fn may_have(&self, inode: u64) -> bool {
        self.table().is_some_and(|table| table.keys().any(|directory| directory.inode == inode))
    }
}
