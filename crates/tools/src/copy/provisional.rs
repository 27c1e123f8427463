//! Provisional names: in a run of several processes, a new file gets its own name when it is whole.
//!
//! Any of the processes may die at any moment. A file that is being made has a name that says so, in the directory of its own,
//! and is renamed after its last byte is written, its attributes are set and it is closed; so what has a name of its own
//! is whole, and a later run with `-n` or `-u` may trust it. The name is made of the run, the file's own name and the
//! attempt: whoever does the part again knows what an earlier attempt may have left, and removes it; a process that was
//! given up and lives on works on names that nobody else uses.
//!
//! A file that is there already is written in place, as always.

use std::ffi::CString;

use haul_flow::{Desk, Found, Part, Problem};
use haul_sys::{Errno, Error, Fd, Open, Stat, open, remove, rename, rename_to_new, stat, stat_at};
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
}

impl Ticket {
    /// Writes the ticket of a target in its directory.
    pub(super) fn new(name: CString, follow: bool, source: &Stat) -> Self {
        Self { name, follow, source: fingerprint(source) }
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

    /// Opens the target.
    pub(super) fn open(&self, directory: &Fd) -> Result<Fd, Error> {
        let how = if self.follow { Open::WRITE.following() } else { Open::WRITE };
        open(directory, &self.name, how)
    }
}

fn fingerprint(source: &Stat) -> (u64, u64, (i64, u32)) {
    let changed = source.modified;
    (source.identity.inode, source.size, (changed.seconds, changed.nanoseconds))
}

impl Copier {
    /// Names an entry's copy for as long as it is made, if it is done in a part of a run of several processes.
    fn provisional_name(&self, found: &Found<Self>, attempt: u32) -> CString {
        let (run, name) = (self.run, xxh3_64(target_name(found).to_bytes()));
        CString::new(format!("{PREFIX}{run:016x}-{name:016x}-{attempt}")).unwrap_or_default()
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
        let ticket = &part.errand.begun.as_ref()?.ticket;
        let ticket = match Ticket::unpack(ticket, source) {
            Some(ticket) => ticket,
            None => {
                // The source is another file now: what was made of the old one is of no use.
                let stale: Ticket = postcard::from_bytes(ticket).ok().filter(Ticket::is_provisional)?;
                remove(directory, &stale.name).unwrap_or_default();
                return None;
            }
        };
        let file = ticket.open(directory).ok()?;
        let provisional = ticket.is_provisional().then_some(ticket.name);
        let before = if provisional.is_none() { Some(stat(&file).ok()?) } else { None };
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
