//! Targets of files that a rank creates: under temporary names, resumed after a loss, and joined by
//! other ranks.

use std::ffi::CString;

use haul_cluster::{WorkItem, item_of};
use haul_flow::Problem;
use haul_sys::{
    Errno, Error, Fd, Open, Operation, Stat, TEMPORARY_PREFIX, Timestamp, open, remove, stat, stat_at,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::Copier;
use crate::creation_mode::CreationMode;
use crate::entry_copy::EntryCopy;
use crate::kind::CopyKind;
use crate::layouts::{self, Original};
use crate::open_target::OpenTarget;
use crate::options::TemporaryNames;
use crate::staged::Staged;
use crate::target::is_plain_name;

/// Lets another process open a file that is being created, and verify that its source is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    /// The target's name, in the work item's directory.
    name: CString,
    /// True if a symbolic link of that name is followed.
    follow: bool,
    /// The source's inode number, size and modification time.
    source: (u64, u64, (i64, u32)),
    /// The source's change time. A later attempt requires it to be unchanged; ranks that join do
    /// not: a new name or mode does not make it another file.
    changed: (i64, u32),
    /// The target's inode number.
    target: u64,
    /// Epoch of a target that others may write to, so that no later run trusts its content.
    epoch: Option<u32>,
}

impl Ticket {
    /// Ticket of a target with a temporary name.
    pub(super) fn temporary(name: CString, source: &Stat, target: &Stat) -> Self {
        let (source, changed) = (fingerprint(source), time(source.changed));
        Self { name, follow: false, source, changed, target: target.identity.inode, epoch: None }
    }

    /// Ticket of a target that existed before.
    pub(super) fn in_place(name: CString, source: &Stat, target: &Stat, epoch: u32) -> Self {
        Self { follow: true, epoch: Some(epoch), ..Self::temporary(name, source, target) }
    }

    pub(super) fn pack(&self) -> Option<Vec<u8>> {
        postcard::to_allocvec(self).ok()
    }

    /// Unpacks a ticket if it is for this source.
    pub(super) fn unpack(packed: &[u8], source: &Stat) -> Option<Self> {
        let ticket: Self = postcard::from_bytes(packed).ok()?;
        (ticket.source == fingerprint(source)).then_some(ticket)
    }

    fn is_temporary(&self) -> bool {
        self.name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes())
    }

    /// Opens the target. Another user may own its directory and may have replaced the file.
    ///
    /// # Errors
    /// `ESTALE` if it is not the file that the ticket's writer has open; otherwise the kernel's.
    pub(super) fn open(&self, directory: &Fd, how: Open) -> Result<Fd, Error> {
        let how = if self.follow { how.following() } else { how };
        let file = open(directory, &self.name, how)?;
        match stat(&file)?.identity.inode == self.target {
            true => Ok(file),
            false => Err(Error::new(Operation::Openat, format!("{:?}", self.name), Errno::STALE)),
        }
    }
}

fn fingerprint(source: &Stat) -> (u64, u64, (i64, u32)) {
    (source.identity.inode, source.size, time(source.modified))
}

fn time(time: Timestamp) -> (i64, u32) {
    (time.seconds, time.nanoseconds)
}

/// Creates a work item entry's target under a temporary name, or opens what an earlier attempt
/// left of it. `None` if a file exists in its place.
pub(crate) fn open_temporary(
    copy: EntryCopy<'_>,
    source: Original<'_>,
    creation_mode: CreationMode,
) -> Result<Option<OpenTarget>, Problem> {
    let (Some(item), name) = (item_of(&*copy.entry.node), copy.target_name()) else { return Ok(None) };
    if !is_plain_name(name) {
        return Ok(None);
    }
    let Ok(directory) = copy.open_directory() else { return Ok(None) };
    let is_new = copy.entry.node.own.is_new();
    if let Some(target) = go_on_with(copy.copier, item, &directory, source.stat) {
        return Ok(Some(target));
    }
    if (!is_new || item.spec.attempt > 1)
        && !stat_at(&directory, name).is_err_and(|cause| cause.is(Errno::NOENT))
    {
        return Ok(None);
    }
    for earlier in 1..item.spec.attempt {
        if let Some(name) = temporary_name(copy, earlier) {
            // Usually there is none.
            remove(&*directory, &name).unwrap_or_default();
        }
    }
    let Some(name) = temporary_name(copy, item.spec.attempt) else { return Ok(None) };
    create_temporary(copy, (&directory, name), source, creation_mode).map(Some)
}

/// Opens what an earlier attempt wrote of a large file, if the source is unchanged.
fn go_on_with(copier: &Copier, item: &WorkItem<Copier>, directory: &Fd, source: &Stat) -> Option<OpenTarget> {
    let begun = item.spec.begun.as_ref()?;
    let ticket = Ticket::unpack(&begun.ticket, source)
        .filter(|ticket| ticket.changed == time(source.changed))
        .filter(|ticket| {
            ticket
                .epoch
                .is_none_or(|epoch| copier.temporary_names.get().is_some_and(|run| run.epoch == epoch))
        });
    let ticket = match ticket {
        Some(ticket) => ticket,
        None => {
            // The source has changed, so what was copied of it is useless.
            let stale: Ticket = postcard::from_bytes(&begun.ticket).ok().filter(Ticket::is_temporary)?;
            remove(directory, &stale.name).unwrap_or_default();
            return None;
        }
    };
    let file = ticket.open(directory, Open::WRITE).ok()?;
    let there = stat(&file).ok()?;
    let moved_to = begun.done.iter().map(|range| range.end).max().unwrap_or(0);
    if there.identity.inode != ticket.target || there.size < moved_to {
        return None;
    }
    let temporary_name = ticket.is_temporary().then_some(ticket.name);
    let before = temporary_name.is_none().then_some(there);
    Some(OpenTarget { staged: temporary_name.map(Staged::named), before, ..OpenTarget::new(file) })
}

/// Returns the temporary name for an entry's copy. `None` if copies are created under their
/// own names.
fn temporary_name(copy: EntryCopy<'_>, attempt: u32) -> Option<CString> {
    let TemporaryNames { number, epoch } = copy.copier.temporary_names.get()?;
    let name = xxh3_64(copy.target_name().to_bytes());
    CString::new(format!("{TEMPORARY_PREFIX}{number:016x}-{name:016x}-{epoch}-{attempt}")).ok()
}

/// Creates an entry's target under a temporary name.
fn create_temporary(
    copy: EntryCopy<'_>,
    (directory, name): (&Fd, CString),
    source: Original<'_>,
    creation_mode: CreationMode,
) -> Result<OpenTarget, Problem> {
    let make = || layouts::make_file(copy, (directory, &name), creation_mode.mode, source.layout);
    let made = match make() {
        // Left by an interrupted run with the same journal.
        Err(cause) if cause.is(Errno::EXIST) => remove(directory, &name).and_then(|()| make()),
        outcome => outcome,
    };
    let file = made.map_err(|cause| copy.failure(directory, CopyKind::CannotCreateFile, cause))?;
    copy.tell_copied();
    Ok(OpenTarget {
        creation_mode: Some(creation_mode),
        staged: Some(Staged::named(name)),
        ..OpenTarget::new(file)
    })
}
