//! Existing targets being overwritten, so that no two copies write to one at a time.
//!
//! Two targets may be one file: hard links, symbolic links, a directory that is mounted twice,
//! names that differ in case only. GNU cp writes the sources to it one after the other, so it ends
//! with the content of one of them. Two writers at once would mix their contents.
//!
//! So a copy claims the file before it truncates it. Other copies wait without blocking a worker,
//! and start again from the beginning once it is released. A rank hands an entry back whose target
//! has several names or is a symbolic link, and the process that walks claims it before it sends
//! the entry out again. (Ranks don't notice a directory that is mounted twice.)
//!
//! Invariant: every claim is released, and every entry that waited is then retried (test:
//! `hard_links.rs`, `targets_that_are_one_file_get_the_content_of_one_source`).

use std::collections::HashMap;
use std::collections::hash_map;
#[cfg(feature = "distributed")]
use std::ffi::CString;
#[cfg(feature = "distributed")]
use std::sync::Arc;
use std::sync::Mutex;

use haul_flow::{Entry, lock};
#[cfg(feature = "distributed")]
use haul_sys::stat_path;
use haul_sys::{FileType, Identity, Stat, stat_at};

use super::Copier;
use super::entry_copy::EntryCopy;
use super::options::Atomic;

/// Number of locks, so that different files rarely share one.
const SHARDS: usize = 16;

/// The files being overwritten, and the entries that wait for each.
#[derive(Default)]
pub(super) struct OverwrittenFiles {
    shards: [Mutex<WaitingEntries>; SHARDS],
    /// Files claimed for entries that ranks copy, by the entry's directory and name.
    #[cfg(feature = "distributed")]
    by_ranks: Mutex<HashMap<(usize, CString), Identity>>,
}

type WaitingEntries = HashMap<Identity, Vec<Entry<Copier>>>;

impl OverwrittenFiles {
    fn shard(&self, file: Identity) -> &Mutex<WaitingEntries> {
        &self.shards[file.inode as usize % SHARDS]
    }
}

/// Who overwrites a file.
pub(super) enum OverwriteClaim {
    /// The caller, which must release what it claimed, if anything.
    First(Option<Identity>),
    /// Another copy. The entry is retried after that.
    Waits,
}

/// Claims an existing target, unless it isn't overwritten in place.
pub(super) fn claim(copy: EntryCopy<'_>, there: Option<&Stat>) -> OverwriteClaim {
    let is_overwritten = copy.options.atomic != Atomic::Always && !copy.options.attributes_only;
    let Some(there) = there.filter(|there| is_overwritten && there.kind == FileType::Regular) else {
        return OverwriteClaim::First(None);
    };
    // Another rank may be writing to it under another name.
    let is_rank = copy.entry.node.owner.is_some();
    if is_rank && (there.links > 1 || is_link(copy)) && copy.cx.hand_back(copy.entry) {
        return OverwriteClaim::Waits;
    }
    match lock(copy.copier.overwritten.shard(there.identity)).entry(there.identity) {
        hash_map::Entry::Occupied(mut waiting) => {
            waiting.get_mut().push(copy.entry.clone());
            OverwriteClaim::Waits
        }
        hash_map::Entry::Vacant(free) => {
            free.insert(Vec::new());
            OverwriteClaim::First(Some(there.identity))
        }
    }
}

fn is_link(copy: EntryCopy<'_>) -> bool {
    let looked = copy.open_directory().and_then(|directory| stat_at(&directory, copy.target_name()));
    looked.is_ok_and(|there| there.kind == FileType::Symlink)
}

/// Releases a claimed file, if there is one, and retries the entries that waited for it.
pub(super) fn release(copy: EntryCopy<'_>, claimed: Option<Identity>) {
    let Some(file) = claimed else { return };
    let waiting = lock(copy.copier.overwritten.shard(file)).remove(&file);
    waiting.into_iter().flatten().for_each(|entry| copy.cx.retry(entry));
}

/// Claims the target of an entry that a rank will copy. Returns false if the entry has to wait.
#[cfg(feature = "distributed")]
pub(super) fn claim_for_rank(copy: EntryCopy<'_>) -> bool {
    // If it can't be stat'ed, the rank reports why.
    let there = copy
        .open_directory()
        .and_then(|directory| stat_path(Some(&*directory), copy.target_name(), true))
        .ok();
    match claim(copy, there.as_ref()) {
        OverwriteClaim::First(claimed) => {
            if let Some(file) = claimed {
                lock(&copy.copier.overwritten.by_ranks).insert(key(copy), file);
            }
            true
        }
        OverwriteClaim::Waits => false,
    }
}

/// Releases the target of an entry that a rank has copied, or couldn't copy.
#[cfg(feature = "distributed")]
pub(super) fn release_for_rank(copy: EntryCopy<'_>) {
    let claimed = lock(&copy.copier.overwritten.by_ranks).remove(&key(copy));
    release(copy, claimed);
}

#[cfg(feature = "distributed")]
fn key(copy: EntryCopy<'_>) -> (usize, CString) {
    (Arc::as_ptr(&copy.entry.node) as *const () as usize, copy.entry.name().to_owned())
}
