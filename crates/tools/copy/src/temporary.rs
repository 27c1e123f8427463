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

use haul_flow::{DirCache, DirHandle, DirNode, Problem, lock};
use haul_sys::{Errno, Error, Fd, TEMPORARY_PREFIX, is_left_behind, run_of, stat_at};
use haul_sys::{temporary_name, temporary_name_of_run};

use super::entry_copy::EntryCopy;
use super::groups;
use super::options::{CopyOptions, Dereference, TemporaryNames};
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

/// Removes temporary files from a directory whose entries are complete: those of earlier runs with
/// this journal, and with `--atomic` or in a sync, where it is the copy of `node`, those of any run
/// on this host. None is in use: the journal's lock, or the name, proves that those runs have
/// ended. If the job is lost everything is kept, so a later run can continue with it.
///
/// But a source, or its copy, may have such a name, and may be the only one of its kind. In the
/// copy of a directory, names that the source also has are kept. Elsewhere they are unknown, so the
/// leftovers of other runs are removed from no other directory: neither from those that operands
/// are copied to, nor where [`sweeps_copies`] and [`may_be_source`] find that other sources are
/// copied there or taken from there. Only the process that walks removes anything: ranks don't know
/// what others copy.
pub(super) fn sweep(
    copier: &Copier,
    cache: &DirCache,
    held: &Arc<DirHandle>,
    node: Option<&DirNode<Copier>>,
) -> Vec<Problem> {
    let run = copier.temporary_names.get().filter(|run| run.epoch > 1);
    let copied = node.filter(|_| sweeps_copies(copier));
    if run.is_none() && copied.is_none() || held.is_absent() {
        return Vec::new();
    }
    if copier.keeps_temporary.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let warning = |cause| Problem::new(CopyKind::CannotSweep).naming(held.path()).because(cause).as_warning();
    let kept = lock(&copier.kept_names).clone();
    let is_in_source = |name: &CStr| {
        let look = |node: &DirNode<Copier>| stat_at(&*cache.open(&node.source)?, name);
        node.is_some_and(|node| !look(node).is_err_and(|cause: Error| cause.is(Errno::NOENT)))
    };
    let is_leftover = |name: &CStr| {
        let is_of_run = |run: &TemporaryNames| is_temporary_name(name, *run) || is_earlier_name(name, *run);
        let is_of_other = |node| is_left_behind(name) && !may_be_source(copier, cache, node);
        let is_old = run.is_some_and(is_of_run) || copied.is_some_and(is_of_other);
        is_old && !kept.contains(name) && !is_in_source(name)
    };
    let swept = cache.open(held).and_then(|directory| haul_flow::sweep(&directory, is_leftover));
    swept.unwrap_or_else(|cause| vec![cause]).into_iter().map(warning).collect()
}

/// True if the copies of directories are swept of what other runs have left: no two directories of
/// the source are copied onto one, and none is reached by a link.
fn sweeps_copies(copier: &Copier) -> bool {
    let CopyOptions { dereference, existing, .. } = &copier.options;
    let has_several_groups = copier.made_targets.are_kept();
    let follows_links = *dereference == Dereference::Always || existing.keep_directory_symlink;
    copier.options.replaces_whole() && !has_several_groups && !follows_links
}

/// True if the copy of a directory may itself be in the tree that is copied: `cp -r a a/b`. The
/// rules of a sync leave it out then.
fn may_be_source(copier: &Copier, cache: &DirCache, node: &DirNode<Copier>) -> bool {
    let is_source = |directory| node.is_within(directory);
    !copier.options.existing.update.syncs()
        && groups::is_within(&node.own.held, is_source, cache) != Some(false)
}
