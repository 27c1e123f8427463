//! `--link-dest`: hard-links entries that an earlier copy already has.
//!
//! The directories of the earlier copies are held with each target directory. An entry is linked
//! if nothing has its name in the target, and an earlier copy has a file of that name with the same
//! content and attributes. It isn't opened for that. Of a source with several names, only the first
//! to be copied is looked up; the others are linked to it as usual.
//!
//! A rank is sent the remote paths of the earlier directories with that of the target directory,
//! and checks them the same way.

use std::ffi::CString;
use std::sync::Arc;

use haul_flow::{DirHandle, EntryOutcome};
#[cfg(feature = "distributed")]
use haul_sys::Identity;
use haul_sys::{EntryType, Fd, FileType, Open, Stat, link_at_path, open, stat, stat_at};

use super::entry_copy::EntryCopy;
use super::journaled;
use super::mend;
use super::options::{Make, Preserve};
use super::place;
use super::waiting;

/// Returns the directories of earlier copies that belong to a target directory.
pub(super) fn counterparts(copy: EntryCopy<'_>) -> Box<[Arc<DirHandle>]> {
    let cache = copy.cx.cache();
    if copy.entry.is_operand() {
        let top = |path: &CString| {
            let opened = cache.hold_operand(path, Open::SEARCH.following(), path.to_bytes().to_vec());
            // One that is missing was reported before the copy began.
            opened.ok()
        };
        return copy.options.link_dest.iter().filter_map(top).collect();
    }
    let below = |above: &Arc<DirHandle>| {
        let directory = cache.open(above).ok()?;
        let fd = open(&*directory, copy.target_name(), Open::SEARCH).ok()?;
        let identity = stat(&fd).ok().filter(|stat| stat.kind == FileType::Directory)?.identity;
        Some(cache.hold(above, copy.target_name(), Open::SEARCH, identity, Some(Arc::new(fd))))
    };
    copy.entry.node.own.earlier.iter().filter_map(below).collect()
}

/// A directory of an earlier copy, as another process has found it below one that it was sent.
#[cfg(feature = "distributed")]
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct FoundBelow {
    /// Inode number of the directory above it; `None` if it is the top of the earlier copy.
    above: Option<u64>,
    inode: u64,
}

/// Describes directories of earlier copies for the process that sent those above them.
#[cfg(feature = "distributed")]
pub(super) fn found_below(earlier: &[Arc<DirHandle>]) -> Vec<FoundBelow> {
    let found = |held: &Arc<DirHandle>| {
        let above = held.parent().map(|above| above.identity().inode);
        FoundBelow { above, inode: held.identity().inode }
    };
    earlier.iter().map(found).collect()
}

/// Holds the directories of earlier copies that another process has found for an entry. Each is
/// opened, and checked, when a file is looked up in it.
#[cfg(feature = "distributed")]
pub(super) fn hold_found(copy: EntryCopy<'_>, found: &[FoundBelow]) -> Box<[Arc<DirHandle>]> {
    if copy.entry.is_operand() {
        return counterparts(copy);
    }
    let hold = |found: &FoundBelow| {
        let is_above = |held: &&Arc<DirHandle>| Some(held.identity().inode) == found.above;
        let above = copy.entry.node.own.earlier.iter().find(is_above)?;
        // Device numbers differ between hosts. Nothing can be linked to another file system.
        let identity = Identity { device: above.identity().device, inode: found.inode };
        Some(copy.cx.cache().hold(above, copy.target_name(), Open::SEARCH, identity, None))
    };
    found.iter().filter_map(hold).collect()
}

/// Links an entry that was not opened, if an earlier copy has it. True if it is done.
pub(super) fn links_unopened(copy: EntryCopy<'_>, kind: EntryType) -> bool {
    if copy.entry.node.own.earlier.is_empty() || kind == EntryType::Directory {
        return false;
    }
    // Errors show again when the entry is copied.
    let Ok(source) = copy.stat_source() else { return false };
    let has_names = copy.options.preserves(Preserve::LINKS) && (source.links > 1 || copy.follows());
    !has_names && link(copy, &source).is_some()
}

/// Links an entry, if an earlier copy has it. Returns the `stat` of the file that it is a name of.
pub(super) fn link(copy: EntryCopy<'_>, source: &Stat) -> Option<Stat> {
    let earlier = &copy.entry.node.own.earlier;
    if earlier.is_empty() || source.kind == FileType::Directory || copy.options.make != Make::Copy {
        return None;
    }
    let is_there = || stat_at(&*copy.open_directory()?, copy.target_name());
    if copy.options.dry_run && is_there().is_ok_and(|there| !waiting::has_made_way(copy, &there)) {
        return None;
    }
    let linked = earlier.iter().find_map(|directory| {
        let directory = copy.cx.cache().open(directory).ok()?;
        let there = stat_at(&*directory, copy.target_name()).ok()?;
        let is_same = place::is_same(copy, &directory, source, &there)
            && mend::has_same_attributes(copy, &directory, source, &there);
        let is_linked = is_same && (copy.options.dry_run || make(copy, &directory, &there));
        is_linked.then_some(there)
    })?;
    copy.count(EntryOutcome::HardLink);
    journaled::record(copy, source);
    Some(linked)
}

/// Makes the link. False if that fails, or if it leads to another file by now; then the entry is
/// copied over what is there.
fn make(copy: EntryCopy<'_>, earlier: &Fd, there: &Stat) -> bool {
    let name = copy.target_name();
    let link = || {
        let target = copy.open_directory()?;
        link_at_path(Some(earlier), name, false, &target, name)?;
        stat_at(&target, name)
    };
    link().is_ok_and(|linked| linked.identity == there.identity)
}
