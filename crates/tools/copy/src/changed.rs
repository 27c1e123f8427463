//! Sources that change while they are copied (`--if-changed`).

use std::sync::atomic::Ordering;

use haul_flow::{FlowKind, OpenFile, Problem, Tally};
use haul_sys::{Fd, FileType, Stat, is_generated_by_kernel, stat, truncate};

use super::entry_copy::EntryCopy;
use super::options::IfChanged;
use super::target::target_path;
use super::verify::Verification;
use super::{Copier, CopyKind};

/// Checks if the source has changed while it was copied, if requested. Returns its `stat` if it
/// has to be copied again.
pub(super) fn source_now(copy: EntryCopy<'_>, file: &OpenFile<Copier>) -> Result<Option<Stat>, Problem> {
    let retries_max = match copy.options.if_changed {
        IfChanged::Ignore => return Ok(None),
        IfChanged::Warn => 0,
        IfChanged::Retry(retries) => retries,
    };
    let unreadable = |cause| Problem::new(FlowKind::CannotFstat).naming(copy.entry.path()).because(cause);
    let now = stat(&file.source).map_err(unreadable)?;
    if has_stayed((&file.source, &file.stat), &now, file.length()) {
        return Ok(None);
    }
    if file.own.retries.fetch_add(1, Ordering::Relaxed) < retries_max {
        return Ok(Some(now));
    }
    copy.cx.problem(Problem::new(CopyKind::SourceChanged).naming(copy.entry.path()));
    Ok(None)
}

/// Reports a regular file that has changed while it was copied to a stream, if requested. What was
/// written there can't be taken back, so it isn't copied again.
pub(super) fn report_change(copy: EntryCopy<'_>, (source, before): (&Fd, &Stat), length: u64) {
    if copy.options.if_changed == IfChanged::Ignore || before.kind != FileType::Regular {
        return;
    }
    let problem = match stat(source) {
        Ok(now) if has_stayed((source, before), &now, length) => return,
        Ok(_) => Problem::new(CopyKind::SourceChanged),
        Err(cause) => Problem::new(FlowKind::CannotFstat).because(cause),
    };
    copy.cx.problem(problem.naming(copy.entry.path()));
}

/// True if a source of which `length` bytes were copied is as it was before.
fn has_stayed((source, before): (&Fd, &Stat), now: &Stat, length: u64) -> bool {
    // In raw nanoseconds: a file system that rounds one of the two would look like a change.
    let state = |stat: &Stat| (stat.size, stat.modified, stat.changed);
    state(now) == state(before) && (length == before.size || !has_known_size(source, before))
}

/// True unless the size of a file says nothing about its content, as in `/proc`, where it is 0, and
/// in `/sys`, where it is a page.
fn has_known_size(file: &Fd, stat: &Stat) -> bool {
    stat.size > 0 && !is_generated_by_kernel(file).unwrap_or(false)
}

/// Empties a target whose content is moved again. Returns false if that failed and was reported.
pub(super) fn empty_again(copy: EntryCopy<'_>, file: &OpenFile<Copier>, target: &Fd) -> bool {
    copy.cx.count(Tally { retried: 1, ..Tally::default() });
    file.own.verification.iter().for_each(Verification::begin_again);
    file.own.partial.iter().for_each(|partial| partial.begin_again(copy));
    let emptied = truncate(target, 0).map_err(|cause| {
        let problem = Problem::new(FlowKind::ErrorWriting).naming(target_path(&file.entry));
        copy.cx.problem(problem.because(cause));
    });
    emptied.is_ok()
}
