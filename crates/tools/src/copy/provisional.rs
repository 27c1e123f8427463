//! Provisional names: in a run of several processes, a new file gets its own name when it is whole.
//!
//! Any of the processes may die at any moment. A file that is being made has a name that says so, in the directory of its own,
//! and is renamed after its last byte is written, its attributes are set and it is closed; so what has a name of its own
//! is whole, and a later run with `-n` or `-u` may trust it. The name is made of the run's number, the file's own name, the
//! run's epoch and the attempt: whoever does the part again knows what an earlier attempt may have left, and removes it; a
//! process that was given up and lives on works on names that nobody else uses. A run that goes on by a journal removes what
//! all earlier runs with it have left in a directory before it finishes that.
//!
//! A file that is there already is written in place, as always.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_flow::{Desk, Found, Held, HeldCache, Part, Problem, RunId, sweep};
use haul_sys::{
    Errno, Error, Fd, Open, Operation, Stat, Timestamp, open, remove, rename, rename_to_new, stat, stat_at,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::Copier;
use super::births::Birth;
use super::layouts::Original;
use super::options::Update;
use super::regular::OpenTarget;
use super::target::{failure, open_directory, problem, target_name};
use super::wording;

/// What provisional names begin with.
const PREFIX: &str = ".haul-";

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
    /// Writes the ticket of a target that is made under a provisional name.
    pub(super) fn provisional(name: CString, source: &Stat, target: &Stat) -> Self {
        let (source, changed) = (fingerprint(source), time(source.changed));
        Self { name, follow: false, source, changed, target: target.identity.inode, epoch: None }
    }

    /// Writes the ticket of a target that was there before.
    pub(super) fn in_place(name: CString, source: &Stat, target: &Stat, run: RunId) -> Self {
        Self { follow: true, epoch: Some(run.epoch), ..Self::provisional(name, source, target) }
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

    fn is_provisional(&self) -> bool {
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

/// True if a name is one that runs with this number give to files in the making.
fn is_provisional_name(name: &CStr, run: RunId) -> bool {
    let is_hex = |part: &[u8]| part.len() == 16 && part.iter().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let number = format!("{PREFIX}{:016x}-", run.number);
    let rest = name.to_bytes().strip_prefix(number.as_bytes()).unwrap_or_default();
    let mut parts = rest.split(|byte| *byte == b'-');
    parts.next().is_some_and(is_hex)
        && parts.next().is_some_and(is_number)
        && parts.next().is_some_and(is_number)
        && parts.next().is_none()
}

impl Copier {
    /// Names an entry's copy for as long as it is made, if it is done in a part of a run of several processes.
    fn provisional_name(&self, found: &Found<Self>, attempt: u32) -> CString {
        let (RunId { number, epoch }, name) = (self.run, xxh3_64(target_name(found).to_bytes()));
        CString::new(format!("{PREFIX}{number:016x}-{name:016x}-{epoch}-{attempt}")).unwrap_or_default()
    }

    /// Removes what earlier runs with this journal have left in a directory. Nothing of it is in use any more: the journal's
    /// lock says that those runs are over, and this one has done the directory's entries. Unless the job is lost: then a later
    /// run goes on with what was begun.
    pub(super) fn sweep(&self, cache: &HeldCache, held: &Arc<Held>) -> Vec<Problem> {
        if self.run.epoch == 1 || self.is_lost.load(Ordering::Relaxed) || held.is_absent() {
            return Vec::new();
        }
        let told =
            |cause| Problem::new(wording::CANNOT_SWEEP).naming(held.path()).because(cause).as_warning();
        let swept = sweep(cache, held, |name| is_provisional_name(name, self.run));
        swept.unwrap_or_else(|cause| vec![cause]).into_iter().map(told).collect()
    }

    /// Makes the target of an entry of a part under a provisional name. `None` if it is not for that: something stands in
    /// its place, or the entry is of no part.
    pub(super) fn open_provisional(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        source: Original<'_>,
        birth: Birth,
    ) -> Result<Option<OpenTarget>, Problem> {
        let (Some(part), name) = (&found.node.part, target_name(found)) else { return Ok(None) };
        if name.to_bytes().ends_with(b"/") || name.to_bytes() == b"." {
            return Ok(None);
        }
        let Ok(directory) = open_directory(desk, found) else { return Ok(None) };
        let is_new = found.node.own.is_new();
        if let Some(target) = self.go_on_with(part, &directory, source.stat) {
            return Ok(Some(target));
        }
        if (!is_new || part.errand.attempt > 1)
            && !stat_at(&directory, name).is_err_and(|cause| cause.is(Errno::NOENT))
        {
            return Ok(None);
        }
        for earlier in 1..part.errand.attempt {
            // Mostly there is none.
            remove(&*directory, &self.provisional_name(found, earlier)).unwrap_or_default();
        }
        let provisional = self.provisional_name(found, part.errand.attempt);
        let make = || self.make_file(desk, found, (&directory, &provisional), birth.mode, source.layout);
        let made = match make() {
            // Of a run that was ended and goes on by its journal.
            Err(cause) if cause.is(Errno::EXIST) => remove(&*directory, &provisional).and_then(|()| make()),
            outcome => outcome,
        };
        let file = made.map_err(|cause| failure(found, &directory, wording::CANNOT_CREATE_FILE, cause))?;
        self.tell_copied(desk, found);
        let birth = Some(birth);
        Ok(Some(OpenTarget { birth, provisional: Some(provisional), ..OpenTarget::new(file) }))
    }

    /// Opens what an earlier attempt has made of a large file, if the source is still the same.
    fn go_on_with(&self, part: &Part, directory: &Fd, source: &Stat) -> Option<OpenTarget> {
        let begun = part.errand.begun.as_ref()?;
        let ticket = Ticket::unpack(&begun.ticket, source)
            .filter(|ticket| ticket.changed == time(source.changed))
            .filter(|ticket| ticket.epoch.is_none_or(|epoch| epoch == self.run.epoch));
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => {
                // The source is another file now: what was made of the old one is of no use.
                let stale: Ticket =
                    postcard::from_bytes(&begun.ticket).ok().filter(Ticket::is_provisional)?;
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
        let provisional = ticket.is_provisional().then_some(ticket.name);
        let before = provisional.is_none().then_some(there);
        Some(OpenTarget { provisional, before, ..OpenTarget::new(file) })
    }

    /// Gives a file that is whole and closed its own name; takes away one that is not whole. Returns whether it is there.
    pub(super) fn give_name(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        provisional: Option<&CString>,
        moved: bool,
    ) -> bool {
        let Some(provisional) = provisional else { return moved };
        let named = open_directory(desk, found).and_then(|directory| {
            if !moved {
                return remove(&*directory, provisional).map(|()| false);
            }
            match rename_to_new(&*directory, provisional, target_name(found)) {
                // It was made meanwhile, by somebody else.
                Err(cause) if cause.is(Errno::EXIST) && self.options.existing.update == Update::All => {
                    rename(&*directory, provisional, target_name(found)).map(|()| true)
                }
                Err(cause) => {
                    // The file is lost either way; the first failure is told.
                    remove(&*directory, provisional).unwrap_or_default();
                    Err(cause)
                }
                Ok(()) => Ok(true),
            }
        });
        named.unwrap_or_else(|cause| {
            desk.problem(problem(found, wording::CANNOT_CREATE_FILE, cause));
            false
        })
    }
}
