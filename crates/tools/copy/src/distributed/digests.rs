//! Hashes of files that ranks copy: emitted where the file is complete, listed where the walk is.
//!
//! They are sent like the results of entries, with the work item or large file that they belong to.
//! So each is listed once, even if a lost rank's work is done again, and only if its file is
//! complete.

use haul_cluster::item_of;
use haul_digest::Digest;
use haul_flow::Problem;

use crate::CopyKind;
use crate::entry_copy::EntryCopy;
use crate::options::Verify;
use crate::repeated;

/// Sends the size and hash of a complete file to the process that walks.
pub(crate) fn emit_digest(copy: EntryCopy<'_>, digest: (u64, Digest)) {
    match postcard::to_allocvec(&digest) {
        Ok(result) => copy.cx.emit(copy.entry, result),
        Err(_) => not_listed(copy),
    }
}

/// Lists the hashes that [`emit_digest`] sent.
pub(crate) fn list_digest(copy: EntryCopy<'_>, result: &[u8]) {
    match (&copy.copier.digests, postcard::from_bytes(result)) {
        (Some(sink), Ok(digest)) => sink.list(copy, digest),
        _ => not_listed(copy),
    }
}

fn not_listed(copy: EntryCopy<'_>) {
    copy.cx.problem(Problem::new(CopyKind::NotListed).naming(copy.target_path()));
}

/// Called when the existing target of an entry stays (`-n`, `-u`): it isn't recorded as a copy. If
/// the entry's work item is done again, the lost rank may have made that target, perhaps without
/// verifying it.
pub(crate) fn note_left(copy: EntryCopy<'_>) {
    copy.entry.node.owner.iter().for_each(|owner| owner.note_skipped(copy.entry));
    if repeated::is_repeated(copy)
        && (copy.options.verify != Verify::Never || copy.copier.listed_hash.is_some())
    {
        copy.cx.problem(Problem::new(CopyKind::MayBeUnverified).naming(copy.target_path()));
    }
}

/// Called when the existing target of an entry stays, judging by names alone. If the lost rank has
/// made it, other names of the file are linked to it.
pub(crate) fn note_left_unopened(copy: EntryCopy<'_>) {
    note_left(copy);
    let is_claimed = item_of(&*copy.entry.node).is_some_and(|item| item.spec.claimed);
    let is_done = || copy.open_directory().is_ok_and(|directory| repeated::is_done(copy, &directory));
    if is_claimed && is_done() {
        copy.entry.node.owner.iter().for_each(|owner| owner.note_linkable(copy.entry));
    }
}
