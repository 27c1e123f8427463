//! Temporary names that ranks use, and the removal of those that earlier runs have left.
//!
//! Several ranks open one file, so they must be able to compute its temporary name. It consists of
//! the run's number, a hash of the file's own name, the run's epoch and the attempt. So a later
//! attempt knows what an earlier one may have left, and removes it, and a process that was given up
//! but lives on uses names no one else does. A run that resumes from a journal removes what earlier
//! runs left in a directory before it finishes that directory. A copy on one machine uses
//! `haul_sys::temporary_name`, and with a journal names that contain its number, so that a run on
//! another host, or in another container, recognizes them.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_flow::{DirCache, DirHandle, Problem, lock};
use haul_sys::{Errno, Error, Fd, TEMPORARY_PREFIX, is_left_behind, run_of, stat_at};
use haul_sys::{temporary_name, temporary_name_of_run};

use super::entry_copy::EntryCopy;
use super::options::{Atomic, TemporaryNames};
use super::{Copier, CopyKind};

/// Returns a name for an entry that is renamed or removed later.
pub(super) fn new_name(copier: &Copier) -> CString {
    match copier.temporary_names.get() {
        Some(run) => temporary_name_of_run(run.number.wrapping_add(run.epoch.into())),
        None => temporary_name(),
    }
}

/// Removes an entry under a temporary name, if it is there. A failure is reported.
pub(super) fn remove(copy: EntryCopy<'_>, directory: &Fd, name: &CStr) {
    if let Err(cause) = haul_sys::remove(directory, name)
        && !cause.is(Errno::NOENT)
        // A read-only file system gives its error for a name that isn't there, too.
        && stat_at(directory, name).is_ok()
    {
        let path = copy.entry.node.own.held.path_of(name);
        copy.cx.problem(Problem::new(CopyKind::CannotRemove).naming(path).because(cause));
    }
}

/// Keeps an entry's copy from being removed as a leftover.
pub(super) fn note_copied(copier: &Copier, name: &CStr) {
    if name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
        lock(&copier.kept_names).insert(name.to_owned());
    }
}

/// True if an earlier run with this number got the name from [`new_name`].
fn is_earlier_name(name: &CStr, run: TemporaryNames) -> bool {
    let epoch = run_of(name).map_or(0, |of| of.wrapping_sub(run.number));
    (1..run.epoch.into()).contains(&epoch)
}

/// True if runs with this number may have given the name to an incomplete file.
fn is_temporary_name(name: &CStr, run: TemporaryNames) -> bool {
    let is_hex = |part: &[u8]| part.len() == 16 && part.iter().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let Some(rest) = name.to_bytes().strip_prefix(TEMPORARY_PREFIX.as_bytes()) else { return false };
    let number = format!("{:016x}", run.number);
    let mut parts = rest.split(|byte| *byte == b'-');
    parts.next().is_some_and(|part| part == number.as_bytes())
        && parts.next().is_some_and(is_hex)
        && parts.next().is_some_and(is_number)
        && parts.next().is_some_and(is_number)
        && parts.next().is_none()
}

/// Removes temporary files of earlier runs from a directory: with a journal or `--atomic`, those
/// that used it and any run on this host. Nothing of it is in use: the journal's lock, or the name,
/// proves that those runs ended, and this one has completed the directory's entries. If the job is
/// lost everything is kept, so a later run can continue with it.
///
/// A name that `source` has, or that this process copies from another place, isn't removed: it may
/// be all there is of a file. Only the process that walks removes anything, and `source` tells it
/// what ranks copy.
pub(super) fn sweep(
    copier: &Copier,
    cache: &DirCache,
    held: &Arc<DirHandle>,
    source: Option<&Arc<DirHandle>>,
) -> Vec<Problem> {
    let run = copier.temporary_names.get().filter(|run| run.epoch > 1);
    let is_wanted = run.is_some() || copier.options.atomic == Atomic::Always;
    if !is_wanted {
        return Vec::new();
    }
    if copier.keeps_temporary.load(Ordering::Relaxed) || held.is_absent() {
        return Vec::new();
    }
    let warning = |cause| Problem::new(CopyKind::CannotSweep).naming(held.path()).because(cause).as_warning();
    let kept = lock(&copier.kept_names).clone();
    let is_in_source = |name: &CStr| {
        let look = |source| stat_at(&*cache.open(source)?, name);
        source.is_some_and(|source| !look(source).is_err_and(|cause: Error| cause.is(Errno::NOENT)))
    };
    let is_leftover = |name: &CStr| {
        let is_of_run = |run: &TemporaryNames| is_temporary_name(name, *run) || is_earlier_name(name, *run);
        (run.is_some_and(is_of_run) || is_left_behind(name)) && !kept.contains(name) && !is_in_source(name)
    };
    let swept = cache.open(held).and_then(|directory| haul_flow::sweep(&directory, is_leftover));
    swept.unwrap_or_else(|cause| vec![cause]).into_iter().map(warning).collect()
}
