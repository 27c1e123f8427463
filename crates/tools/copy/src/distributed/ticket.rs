//! Targets of files that a rank makes: under temporary names, gone on with after a loss, and joined by other ranks.

use std::ffi::CString;

use haul_cluster::{WorkItem, item_of};
use haul_flow::{Context, Entry, Problem};
use haul_sys::{Errno, Error, Fd, Open, Operation, Stat, Timestamp, open, remove, stat, stat_at};
use serde::{Deserialize, Serialize};

use crate::Copier;
use crate::creation_mode::CreationMode;
use crate::layouts::Original;
use crate::regular::OpenTarget;
use crate::target::{open_directory, target_name};
use crate::temporary::PREFIX;

/// What another process needs to open a file that is being made, and to see that it is of the same source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    /// The name of the target, in the directory that the part says.
    name: CString,
    /// Whether a symbolic link of that name is followed.
    follow: bool,
    /// The source's inode number, length, and time of modification.
    source: (u64, u64, (i64, u32)),
    /// When the source was changed last: whoever goes on in a later attempt has to find it unchanged. Not those that join:
    /// another name or mode does not make it another file.
    changed: (i64, u32),
    /// The target's inode number.
    target: u64,
    /// The epoch of a target that others may write to, so that no later run trusts what is in it.
    epoch: Option<u32>,
}

impl Ticket {
    /// Writes the ticket of a target that is made under a temporary name.
    pub(super) fn temporary(name: CString, source: &Stat, target: &Stat) -> Self {
        let (source, changed) = (fingerprint(source), time(source.changed));
        Self { name, follow: false, source, changed, target: target.identity.inode, epoch: None }
    }

    /// Writes the ticket of a target that was there before.
    pub(super) fn in_place(name: CString, source: &Stat, target: &Stat, epoch: u32) -> Self {
        Self { follow: true, epoch: Some(epoch), ..Self::temporary(name, source, target) }
    }

    /// Packs it.
    pub(super) fn pack(&self) -> Option<Vec<u8>> {
        postcard::to_allocvec(self).ok()
    }

    /// Unpacks it, if it is of this source.
    pub(super) fn unpack(packed: &[u8], source: &Stat) -> Option<Self> {
        let ticket: Self = postcard::from_bytes(packed).ok()?;
        (ticket.source == fingerprint(source)).then_some(ticket)
    }

    fn is_temporary(&self) -> bool {
        self.name.to_bytes().starts_with(PREFIX.as_bytes())
    }

    /// Opens the target. Its directory may be somebody else's, who may have put another file in its place.
    ///
    /// # Errors
    /// `ESTALE` when it is not the file that the rank that wrote this has open; else the kernel's.
    pub(super) fn open(&self, directory: &Fd) -> Result<Fd, Error> {
        let how = if self.follow { Open::WRITE.following() } else { Open::WRITE };
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

impl Copier {
    /// Makes the target of an entry of a part under a temporary name, or opens what an earlier attempt has made of it. `None` if
    /// something stands in its place.
    pub(crate) fn open_in_part(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: Original<'_>,
        creation_mode: CreationMode,
    ) -> Result<Option<OpenTarget>, Problem> {
        let (Some(part), name) = (item_of(&*entry.node), target_name(entry)) else { return Ok(None) };
        if name.to_bytes().ends_with(b"/") || name.to_bytes() == b"." {
            return Ok(None);
        }
        let Ok(directory) = open_directory(cx, entry) else { return Ok(None) };
        let is_new = entry.node.own.is_new();
        if let Some(target) = self.go_on_with(part, &directory, source.stat) {
            return Ok(Some(target));
        }
        if (!is_new || part.item.attempt > 1)
            && !stat_at(&directory, name).is_err_and(|cause| cause.is(Errno::NOENT))
        {
            return Ok(None);
        }
        for earlier in 1..part.item.attempt {
            if let Some(name) = self.temporary_name(entry, earlier) {
                // Mostly there is none.
                remove(&*directory, &name).unwrap_or_default();
            }
        }
        let Some(name) = self.temporary_name(entry, part.item.attempt) else { return Ok(None) };
        self.create_temporary(cx, entry, (&directory, name), source, creation_mode).map(Some)
    }

    /// Opens what an earlier attempt has made of a large file, if the source is still the same.
    fn go_on_with(&self, part: &WorkItem<Self>, directory: &Fd, source: &Stat) -> Option<OpenTarget> {
        let begun = part.item.begun.as_ref()?;
        let ticket = Ticket::unpack(&begun.ticket, source)
            .filter(|ticket| ticket.changed == time(source.changed))
            .filter(|ticket| {
                ticket
                    .epoch
                    .is_none_or(|epoch| self.temporary_names.get().is_some_and(|run| run.epoch == epoch))
            });
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => {
                // The source is another file now: what was made of the old one is of no use.
                let stale: Ticket = postcard::from_bytes(&begun.ticket).ok().filter(Ticket::is_temporary)?;
                remove(directory, &stale.name).unwrap_or_default();
                return None;
            }
        };
        let file = ticket.open(directory).ok()?;
        let there = stat(&file).ok()?;
        let moved_to = begun.done.iter().map(|range| range.end).max().unwrap_or(0);
        if there.identity.inode != ticket.target || there.size < moved_to {
            return None;
        }
        let temporary_name = ticket.is_temporary().then_some(ticket.name);
        let before = temporary_name.is_none().then_some(there);
        Some(OpenTarget { temporary_name, before, ..OpenTarget::new(file) })
    }
}
