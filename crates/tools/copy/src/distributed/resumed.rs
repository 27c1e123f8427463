//! Targets of files that a rank creates: without a name, or under temporary ones, resumed after a
//! loss, and joined by other ranks.

use std::ffi::CString;

use haul_cluster::{WorkItem, item_of};
use haul_flow::Problem;
use haul_sys::{Errno, Fd, Open, Stat, TEMPORARY_PREFIX, remove, stat, stat_at};
use xxhash_rust::xxh3::xxh3_64;

use crate::Copier;
use crate::creation_mode::{self, CreationMode};
use crate::entry_copy::EntryCopy;
use crate::kind::CopyKind;
use crate::layouts::{self, Original};
use crate::open_target::OpenTarget;
use crate::options::TemporaryNames;
use crate::repeated;
use crate::staged::{self, Staged};
use crate::target::is_plain_name;
use crate::ticket::Ticket;

/// Creates a work item entry's target without its name, or opens the file that an earlier attempt
/// left of it. `None` if a file exists in its place, unless an earlier attempt made that.
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
    if let Some(target) = go_on_with(copy, item, &directory, source.stat) {
        return Ok(Some(target));
    }
    let may_be_taken = !copy.entry.node.own.is_new() || item.spec.attempt > 1;
    let is_taken = may_be_taken && !stat_at(&directory, name).is_err_and(|cause| cause.is(Errno::NOENT));
    if is_taken && !repeated::is_made_again(copy, &directory) {
        return Ok(None);
    }
    for earlier in 1..item.spec.attempt {
        if let Some(name) = temporary_name(copy, earlier) {
            // Usually it doesn't exist.
            remove(&*directory, &name).unwrap_or_default();
        }
    }
    let Some(name) = temporary_name(copy, item.spec.attempt) else { return Ok(None) };
    let size = source.stat.size;
    let unnamed = match size >= staged::LARGE_BYTES || item.may_split(size) {
        // Its progress can be seen.
        true => None,
        // It costs less than a temporary name, and leaves nothing behind.
        false => staged::create_unnamed(copy, &directory, creation_mode.mode, source)
            .map_err(|cause| copy.failure(&directory, CopyKind::CannotCreateFile, cause))?,
    };
    let mut target = match unnamed {
        Some(target) => target,
        None => create_temporary(copy, (&directory, name), source, creation_mode)?,
    };
    target.staged.iter_mut().for_each(|staged| staged.replaces = is_taken);
    copy.print_copied();
    Ok(Some(OpenTarget { creation_mode: Some(creation_mode), ..target }))
}

/// Opens an earlier attempt's part of a large file, if the source is unchanged.
fn go_on_with(
    copy: EntryCopy<'_>,
    item: &WorkItem<Copier>,
    directory: &Fd,
    source: &Stat,
) -> Option<OpenTarget> {
    let begun = item.spec.begun.as_ref()?;
    let ticket = Ticket::unpack(&begun.ticket)?;
    let epoch = copy.copier.temporary_names.get().map(|run| run.epoch);
    if !ticket.is_of_unchanged(source) || ticket.epoch().is_some_and(|of| Some(of) != epoch) {
        // The source has changed, so the partial copy is useless.
        if ticket.is_temporary() {
            remove(directory, ticket.name()).unwrap_or_default();
        }
        return None;
    }
    let file = ticket.open(directory, Open::WRITE).ok()?;
    let there = stat(&file).ok()?;
    let moved_to = begun.done.iter().map(|range| range.end).max().unwrap_or(0);
    if there.size < moved_to {
        return None;
    }
    if ticket.is_temporary() {
        creation_mode::close_to_owner(copy, (&file, &there), directory, source).ok()?;
    }
    let temporary_name = ticket.is_temporary().then(|| ticket.name().to_owned());
    let before = temporary_name.is_none().then_some(there);
    let mut target =
        OpenTarget { staged: temporary_name.map(Staged::named), before, ..OpenTarget::new(file) };
    // What the lost rank was about to replace is still there.
    let is_taken = stat_at(directory, copy.target_name()).is_ok();
    let replaces = is_taken && (item.spec.attempt > 1 || copy.options.replaces_whole());
    target.staged.iter_mut().for_each(|staged| staged.replaces = replaces);
    Some(target)
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
    let make = || layouts::make_temporary_file(copy, (directory, &name), creation_mode.mode, source.layout);
    let made = match make() {
        // Left by an interrupted run with the same journal.
        Err(cause) if cause.is(Errno::EXIST) => remove(directory, &name).and_then(|()| make()),
        outcome => outcome,
    };
    let file = made.map_err(|cause| copy.failure(directory, CopyKind::CannotCreateFile, cause))?;
    Ok(OpenTarget { staged: Some(Staged::named(name)), ..OpenTarget::new(file) })
}
