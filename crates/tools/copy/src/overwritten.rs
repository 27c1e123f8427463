//! Existing targets being overwritten, so that no two copies write to one at the same time, and no
//! other copy reads it meanwhile.
//!
//! Two targets may be one file: hard links, symbolic links, a directory that is mounted twice,
//! names that differ in case only. In the same way a target may be the source of another entry. GNU
//! cp copies one after the other, so each target ends with the content that one file had at one
//! time. Two writers at once would mix their contents, and a reader would find a part of a file.
//!
//! So a copy claims the file before it truncates it, and notes its source while it reads. That
//! holds for `--attributes-only` too, or the file would get some attributes of each source. A copy
//! whose target is claimed or read by others, or whose source is claimed, waits without blocking a
//! worker, holds nothing meanwhile, and starts again from the beginning once that is over. A rank
//! hands an entry back whose target has several names or is a symbolic link, and the process that
//! walks claims it before it sends the entry out again. (Ranks notice neither a directory that is
//! mounted twice nor that others read a target.)
//!
//! Invariant: every claim is released, every source that is read is noted until its copy ends, and
//! every entry that waited is then retried (tests: `hard_links.rs`,
//! `targets_that_are_one_file_get_the_content_of_one_source` and
//! `a_source_that_is_also_a_target_is_never_read_in_part`).

use std::collections::HashMap;
#[cfg(feature = "distributed")]
use std::ffi::CString;
#[cfg(feature = "distributed")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use haul_flow::{Entry, lock};
#[cfg(feature = "distributed")]
use haul_sys::stat_path;
use haul_sys::{Error, FileType, Identity, Stat, stat, stat_at};

use super::Copier;
use super::entry_copy::EntryCopy;
use super::open_target::OpenTarget;
use super::options::Atomic;

/// Number of locks, so that different files rarely share one.
const SHARDS: usize = 16;

/// Size of the filter of claimed files, in words of 64 bits.
const CLAIMED_WORDS: usize = 256;

/// The files being overwritten or read, and the entries that wait for each.
#[derive(Default)]
pub(super) struct OverwrittenFiles {
    shards: [Mutex<HashMap<Identity, FileUse>>; SHARDS],
    /// Files claimed for entries that ranks copy, by the entry's directory and name.
    #[cfg(feature = "distributed")]
    by_ranks: Mutex<HashMap<(usize, CString), Identity>>,
    /// Filter of the files that were ever claimed: a bit for each inode number modulo its size.
    claimed: ClaimedBits,
}

struct ClaimedBits([AtomicU64; CLAIMED_WORDS]);

impl Default for ClaimedBits {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl ClaimedBits {
    fn of(&self, file: Identity) -> (&AtomicU64, u64) {
        let bit = file.inode % (CLAIMED_WORDS as u64 * 64);
        (&self.0[(bit / 64) as usize], 1 << (bit % 64))
    }

    fn set(&self, file: Identity) {
        let (word, bit) = self.of(file);
        word.fetch_or(bit, Ordering::Relaxed);
    }

    fn has(&self, file: Identity) -> bool {
        let (word, bit) = self.of(file);
        word.load(Ordering::Relaxed) & bit != 0
    }
}

/// What this run does with a file.
#[derive(Default)]
struct FileUse {
    is_overwritten: bool,
    /// Number of copies that read it.
    readers: usize,
    /// The entries that wait.
    waiting: Vec<Entry<Copier>>,
}

impl OverwrittenFiles {
    fn shard(&self, file: Identity) -> MutexGuard<'_, HashMap<Identity, FileUse>> {
        lock(&self.shards[file.inode as usize % SHARDS])
    }

    /// Ends a use of a file. Returns the entries that can be retried.
    fn end(&self, file: Identity, end: impl FnOnce(&mut FileUse)) -> Vec<Entry<Copier>> {
        let mut shard = self.shard(file);
        let Some(known) = shard.get_mut(&file) else { return Vec::new() };
        end(known);
        let waiting = std::mem::take(&mut known.waiting);
        if !known.is_overwritten && known.readers == 0 {
            shard.remove(&file);
        }
        waiting
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
pub(super) fn claim(copy: EntryCopy<'_>, source: &Stat, there: Option<&Stat>) -> OverwriteClaim {
    let is_overwritten = copy.options.atomic != Atomic::Always;
    let Some(there) = there.filter(|there| is_overwritten && there.kind == FileType::Regular) else {
        return OverwriteClaim::First(None);
    };
    // Another rank may be writing to it under another name.
    let is_rank = copy.entry.node.owner.is_some();
    if is_rank && (there.links > 1 || is_link(copy)) && copy.cx.hand_back(copy.entry) {
        return OverwriteClaim::Waits;
    }
    let mut shard = copy.copier.overwritten.shard(there.identity);
    let known = shard.entry(there.identity).or_default();
    // A copy that reads its own target refuses to overwrite it.
    let own = usize::from(there.identity == source.identity);
    if known.is_overwritten || known.readers > own {
        known.waiting.push(copy.entry.clone());
        return OverwriteClaim::Waits;
    }
    known.is_overwritten = true;
    copy.copier.overwritten.claimed.set(there.identity);
    OverwriteClaim::First(Some(there.identity))
}

/// Claims a target that was just created under its own name, where other entries may reach it by
/// another name before it is complete.
pub(super) fn claim_new(copy: EntryCopy<'_>, source: &Stat, target: &OpenTarget) -> OverwriteClaim {
    let own = &copy.entry.node.own;
    // A directory that this run made is reached under another name only through a link that is
    // followed. Names that differ in case only are replaced as a whole (`regular::is_made_here`).
    let is_reached = !own.is_new() || copy.options.existing.keep_directory_symlink;
    if !is_reached || target.staged.is_some() || copy.entry.node.owner.is_some() {
        return OverwriteClaim::First(None);
    }
    let Ok(made) = stat(&target.file) else { return OverwriteClaim::First(None) };
    let was_claimed = copy.copier.overwritten.claimed.has(made.identity);
    let claim = claim(copy, source, Some(&made));
    if let OverwriteClaim::First(claimed) = claim
        && was_claimed
        && stat(&target.file).is_ok_and(|now| now.size > 0)
    {
        // Another entry has overwritten it before it was claimed here, and is done.
        release(copy, claimed);
        copy.cx.retry(copy.entry.clone());
        return OverwriteClaim::Waits;
    }
    claim
}

/// Notes that the source of an entry is read. Returns false if it is being overwritten, or was
/// after `source` was read; the entry is retried then. `look` reads it again.
pub(super) fn begin_reading(
    copy: EntryCopy<'_>,
    source: &Stat,
    look: impl FnOnce() -> Result<Stat, Error>,
) -> bool {
    if copy.entry.node.owner.is_some() {
        return true;
    }
    let overwritten = &copy.copier.overwritten;
    {
        let mut shard = overwritten.shard(source.identity);
        let known = shard.entry(source.identity).or_default();
        if known.is_overwritten {
            known.waiting.push(copy.entry.clone());
            return false;
        }
        known.readers += 1;
    }
    // Its first block may have been read already, and its attributes are those of the old content.
    let state = |stat: &Stat| (stat.size, stat.modified, stat.changed);
    let is_stale =
        overwritten.claimed.has(source.identity) && look().is_ok_and(|now| state(&now) != state(source));
    if is_stale {
        end_reading(copy, source.identity);
        copy.cx.retry(copy.entry.clone());
    }
    !is_stale
}

/// Notes that the source of an entry, `file`, is read no more, and retries the entries that waited
/// for that.
pub(super) fn end_reading(copy: EntryCopy<'_>, file: Identity) {
    if copy.entry.node.owner.is_none() {
        let waiting = copy.copier.overwritten.end(file, |known| known.readers -= 1);
        waiting.into_iter().for_each(|entry| copy.cx.retry(entry));
    }
}

fn is_link(copy: EntryCopy<'_>) -> bool {
    let looked = copy.open_directory().and_then(|directory| stat_at(&directory, copy.target_name()));
    looked.is_ok_and(|there| there.kind == FileType::Symlink)
}

/// Releases a claimed file, if there is one, and retries the entries that waited for it.
pub(super) fn release(copy: EntryCopy<'_>, claimed: Option<Identity>) {
    let Some(file) = claimed else { return };
    let waiting = copy.copier.overwritten.end(file, |known| known.is_overwritten = false);
    waiting.into_iter().for_each(|entry| copy.cx.retry(entry));
}

/// Claims the target of an entry that a rank will copy. Returns false if the entry has to wait.
#[cfg(feature = "distributed")]
pub(super) fn claim_for_rank(copy: EntryCopy<'_>, source: &Stat) -> bool {
    // If it can't be stat'ed, the rank reports why.
    let there = copy
        .open_directory()
        .and_then(|directory| stat_path(Some(&*directory), copy.target_name(), true))
        .ok();
    match claim(copy, source, there.as_ref()) {
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
