//! Entries that a rank copies again, because the rank that began to was lost.
//!
//! A rank reports an entry only when its work item is complete, so what it had made is unknown.
//! An entry that has the name of a copy may be the lost rank's if it was created after the run
//! began, by the clock of the target's file system, or is in a directory that the run made. But
//! others may have created it meanwhile. So what is found is replaced only where that would happen
//! to a file that appears during the copy in any case, or where it has no data to lose, and it
//! counts as a copy only if it has the content of one:
//!
//! ```text
//!                         regular files      links, special files
//! everything is replaced  made again         made again if they are the same
//! -n, -u, none-fail       kept if the same   made again if they are the same: they may lack attributes
//! haul sync               kept               kept, as they got their names last
//! ```
//!
//! A directory is the lost rank's if it is empty, too: its entries are copied only after it was
//! reported. It is finished like one that this process has made.
//!
//! Invariant: an entry that is older than the run is treated as in a first attempt (tests:
//! `cli/tests/cluster/lost.rs`).

use std::collections::HashMap;
use std::sync::Mutex;

use haul_flow::lock;
use haul_sys::{Errno, Fd, FileType, Open, Stat, Timestamp, open, stat_at};

use super::entry_copy::EntryCopy;
use super::journaled;
use super::mend;
use super::options::{Make, Update};

/// When the run began, by the clocks of file systems. Known only to ranks and the process that
/// started them.
#[derive(Debug, Default)]
pub(super) struct StartTimes(Mutex<HashMap<u64, Timestamp>>);

impl StartTimes {
    /// Records the time on a device, unless it is known.
    #[cfg(feature = "distributed")]
    pub(super) fn record(&self, device: u64, began: Timestamp) {
        lock(&self.0).entry(device).or_insert(began);
    }

    pub(super) fn on(&self, device: u64) -> Option<Timestamp> {
        lock(&self.0).get(&device).copied()
    }
}

/// True if a lost rank may have done an entry's work already.
pub(super) fn is_repeated(copy: EntryCopy<'_>) -> bool {
    #[cfg(feature = "distributed")]
    if copy.entry.node.owner.is_some() {
        return haul_cluster::item_of(&*copy.entry.node).is_some_and(|item| item.spec.attempt > 1);
    }
    #[cfg(not(feature = "distributed"))]
    let _ = copy;
    false
}

/// True if what has the name of a copy is to be made again.
pub(super) fn is_made_again(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    if !is_repeated(copy) || copy.options.existing.update.syncs() {
        return false;
    }
    let Ok(there) = stat_at(directory, copy.target_name()) else { return false };
    match (copy.options.make, there.kind) {
        // It has all that it needs.
        (Make::HardLink, _) | (_, FileType::Directory) => false,
        (Make::Copy, FileType::Regular) => {
            // Without a birth time it may be an older file that was overwritten.
            let is_ours = there.links == 1 && is_of_run(copy, there.born) == Some(true);
            let has_data = copy.options.attributes_only && there.size > 0;
            is_ours && copy.options.existing.update == Update::All && !has_data
        }
        _ => is_copy(copy, directory, &there),
    }
}

/// True if a lost rank has made what has the name of a copy, and that is complete.
pub(super) fn is_done(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    is_repeated(copy)
        && stat_at(directory, copy.target_name()).is_ok_and(|there| is_copy(copy, directory, &there))
}

/// True if a lost rank made the directory that has the name of a copy. `None` if that is unknown.
pub(super) fn has_made_directory(copy: EntryCopy<'_>, parent: &Fd) -> Option<bool> {
    if !is_repeated(copy) {
        return Some(false);
    }
    let Ok(there) = stat_at(parent, copy.target_name()) else { return Some(false) };
    let is_foreign = copy.entry.node.own.is_shared && there.owner != copy.copier.process.user;
    if there.kind != FileType::Directory || is_foreign {
        return Some(false);
    }
    match open(parent, copy.target_name(), Open::DIRECTORY) {
        Ok(directory) if !mend::has_no_entries(&directory) => return Some(false),
        // The umask or an access list took the permission away.
        Err(cause) if !cause.is(Errno::ACCESS) => return Some(false),
        _ => {}
    }
    // Only its entries would change the time of its last modification.
    is_of_run(copy, there.born.or(Some(there.modified)))
}

/// True if an entry that was created then is newer than the run. `None` if that is unknown.
fn is_of_run(copy: EntryCopy<'_>, created: Option<Timestamp>) -> Option<bool> {
    let own = &copy.entry.node.own;
    if own.is_new() {
        return Some(true);
    }
    Some(created? > copy.copier.start_times.on(own.held.identity().device)?)
}

/// True if `there` was made in this run, and is what the copy would be.
fn is_copy(copy: EntryCopy<'_>, directory: &Fd, there: &Stat) -> bool {
    let created = match copy.options.make {
        // It is as old as the source, but got its last name later.
        Make::HardLink => there.changed,
        _ => there.born.unwrap_or(there.changed),
    };
    if is_of_run(copy, Some(created)) != Some(true) {
        return false;
    }
    let Ok(source) = copy.stat_source() else { return false };
    match copy.options.make {
        Make::HardLink => there.identity == source.identity,
        Make::Symlink => journaled::leads_to_source(copy, directory),
        Make::Copy if there.kind != source.kind => false,
        Make::Copy => match source.kind {
            FileType::Regular if copy.options.attributes_only => there.size == 0,
            FileType::Regular => there.size == source.size && mend::has_same_content(copy, directory),
            FileType::Symlink => mend::leads_to_the_same(copy, directory),
            _ => there.device_number == source.device_number,
        },
    }
}
