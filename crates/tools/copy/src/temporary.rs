//! Temporary names: a new file gets its own name when it is whole.
//!
//! Whoever copies may die at any moment. A file that is being made has a name that says so, in the directory of its own, and
//! is renamed after its last byte is written, its attributes are set and it is closed; so what has a name of its own is whole,
//! and a later run with `-n` or `-u` may trust it. The name is made of the run's number, the file's own name, the run's epoch
//! and the attempt: whoever makes the file again knows what an earlier attempt may have left, and removes it; a process that
//! was given up and lives on works on names that nobody else uses. A run that goes on by a journal removes what all earlier
//! runs with it have left in a directory before it finishes that.
//!
//! A file that is there already is written in place, as always.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_flow::{Context, DirCache, DirHandle, Entry, Problem, sweep};
use haul_sys::{Errno, Fd, remove, rename, rename_to_new};
use xxhash_rust::xxh3::xxh3_64;

use super::Copier;
use super::creation_mode::CreationMode;
use super::layouts::Original;
use super::options::{TemporaryNames, Update};
use super::regular::OpenTarget;
use super::target::{failure, open_directory, problem, target_name};
use super::wording;

/// What temporary names begin with.
pub(super) const PREFIX: &str = ".haul-";

/// True if a name is one that runs with this number give to files in the making.
fn is_temporary_name(name: &CStr, run: TemporaryNames) -> bool {
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
    /// Returns the name that an entry's copy has until it is whole. `None` where copies have their own names from the start.
    pub(super) fn temporary_name(&self, entry: &Entry<Self>, attempt: u32) -> Option<CString> {
        let TemporaryNames { number, epoch } = self.temporary_names.get()?;
        let name = xxh3_64(target_name(entry).to_bytes());
        CString::new(format!("{PREFIX}{number:016x}-{name:016x}-{epoch}-{attempt}")).ok()
    }

    /// Makes the target of an entry under a temporary name.
    pub(super) fn create_temporary(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        (directory, name): (&Fd, CString),
        source: Original<'_>,
        creation_mode: CreationMode,
    ) -> Result<OpenTarget, Problem> {
        let make = || self.make_file(cx, entry, (directory, &name), creation_mode.mode, source.layout);
        let made = match make() {
            // Of a run that was ended and goes on by its journal.
            Err(cause) if cause.is(Errno::EXIST) => remove(directory, &name).and_then(|()| make()),
            outcome => outcome,
        };
        let file = made.map_err(|cause| failure(entry, directory, wording::CANNOT_CREATE_FILE, cause))?;
        self.tell_copied(cx, entry);
        Ok(OpenTarget {
            creation_mode: Some(creation_mode),
            temporary_name: Some(name),
            ..OpenTarget::new(file)
        })
    }

    /// Removes what earlier runs with this journal have left in a directory. Nothing of it is in use any more: the journal's
    /// lock says that those runs are over, and this one has done the directory's entries. Unless the job is lost: then a later
    /// run goes on with what was begun.
    pub(super) fn sweep(&self, cache: &DirCache, held: &Arc<DirHandle>) -> Vec<Problem> {
        let run = match self.temporary_names.get() {
            Some(run) if run.epoch > 1 => *run,
            _ => return Vec::new(),
        };
        if self.keeps_temporary.load(Ordering::Relaxed) || held.is_absent() {
            return Vec::new();
        }
        let told =
            |cause| Problem::new(wording::CANNOT_SWEEP).naming(held.path()).because(cause).as_warning();
        let swept = sweep(cache, held, |name| is_temporary_name(name, run));
        swept.unwrap_or_else(|cause| vec![cause]).into_iter().map(told).collect()
    }

    /// Gives a file that is whole and closed its own name; takes away one that is not whole. Returns whether it is there.
    pub(super) fn give_name(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        temporary: Option<&CString>,
        moved: bool,
    ) -> bool {
        let Some(temporary) = temporary else { return moved };
        let named = open_directory(cx, entry).and_then(|directory| {
            if !moved {
                return remove(&*directory, temporary).map(|()| false);
            }
            match rename_to_new(&*directory, temporary, target_name(entry)) {
                // It was made meanwhile, by somebody else.
                Err(cause) if cause.is(Errno::EXIST) && self.options.existing.update == Update::All => {
                    rename(&*directory, temporary, target_name(entry)).map(|()| true)
                }
                Err(cause) => {
                    // The file is lost either way; the first failure is told.
                    remove(&*directory, temporary).unwrap_or_default();
                    Err(cause)
                }
                Ok(()) => Ok(true),
            }
        });
        named.unwrap_or_else(|cause| {
            cx.problem(problem(entry, wording::CANNOT_CREATE_FILE, cause));
            false
        })
    }
}
