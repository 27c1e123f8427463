//! A work item as the owner of its entries: where a rank differs from a run on one machine.
//!
//! A large file is led by the process that meets it, and its ranges are moved by any process:
//!
//! ```text
//! leader:  open, stat ─► tool makes target ─► file_opened(ticket) ·· ranges done ─► finish_file ─► file_closed
//! member:  open, stat ─► tool joins by ticket ─► moves the range ─► closes both ─► done
//! ```

use std::any::Any;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_flow::{
    Context, DirNode, Entry, EntryFailure, FileRange, Finished, FlowKind, Holes, OpenFile, OpenSource,
    OpenSubdir, Problem, RootOwner, Start, Tally, Transfer,
};
use haul_sys::synchronize;

use crate::distributed::{Distributed, Joined};
use crate::entered::{self, EnterOutcome};
use crate::item::{ItemKey, LargeFile, LargeFileRange, WorkItem};
use crate::kind::ClusterKind;

/// Maximum total size of an item's results, in bytes, because one message reports them.
const EMITTED_BYTES_MAX: usize = 64 << 20;

/// Maximum total size of the listings of an item's directories, in bytes, for the same reason.
const LISTED_BYTES_MAX: usize = 64 << 20;

impl<T: Distributed + 'static> RootOwner<T> for WorkItem<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn complete(&self, cx: &Context<'_, T>, root: &Arc<DirNode<T>>) {
        // The last entry may be a detached file, whose problems are not the item's.
        cx.set_current_node(Some(root));
        cx.tool().finish_item(cx, root);
        // Its counts must arrive no later than the item.
        cx.flush();
        match self.spec.stamps {
            Some(_) => self.sink.seal(cx, root),
            None => self.sink.done(self),
        }
    }

    fn problem(&self, entry: Option<&CStr>, problem: Problem) {
        let number = entry.and_then(|name| self.detached(name));
        self.sink.note(number.map_or_else(|| self.key(), ItemKey::Large), problem);
    }

    /// Hands an entry back if its result is too long and the tool can redo it; nothing is emitted
    /// then. If the tool can't, that is an error.
    fn emit(&self, cx: &Context<'_, T>, entry: &Entry<T>, result: Vec<u8>) {
        let mut is_lost = false;
        self.change(|outcome| {
            let name = entry.name();
            // It will be done again from the start.
            if outcome.bounced.iter().any(|bounced| bounced.as_c_str() == name) {
                return;
            }
            let before: usize = outcome.emitted.iter().map(|(_, result)| result.len()).sum();
            if before + result.len() <= EMITTED_BYTES_MAX {
                outcome.emitted.push((name.to_owned(), result));
            } else if cx.tool().can_redo(entry) {
                outcome.emitted.retain(|(of, _)| of.as_c_str() != name);
                outcome.bounced.push(name.to_owned());
            } else {
                is_lost = true;
            }
        });
        if is_lost {
            cx.problem(Problem::new(ClusterKind::ResultTooLong).naming(entry.path()));
        }
    }

    fn hand_back(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> bool {
        if self.spec.claimed {
            return false;
        }
        self.bounce(cx, entry);
        true
    }

    fn note_skipped(&self, entry: &Entry<T>) {
        self.leave_unstamped(entry.name());
    }

    fn note_linkable(&self, entry: &Entry<T>) {
        self.change(|outcome| outcome.completed.push(entry.name().to_owned()));
    }

    fn enter_dir(&self, cx: &Context<'_, T>, entry: &Entry<T>, opened: &OpenSubdir<'_>) {
        match entered::enter(cx, entry, opened, |bytes| reserve(&self.listed, bytes)) {
            EnterOutcome::Entered(entered) => self.change(|outcome| outcome.entered.push(*entered)),
            EnterOutcome::Bounced => return self.bounce(cx, entry),
            EnterOutcome::Deferred => return,
            EnterOutcome::Complete => {}
        }
        cx.release(&entry.node);
    }

    fn open_file(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        opened: &OpenSource<'_>,
    ) -> Option<Start<T::File>> {
        let LargeFileRange { range, size, by_kernel, ticket } = self.spec.piece.as_ref()?;
        // The file has changed since its leader cut it into ranges.
        if opened.stat.size != *size {
            cx.problem(Problem::new(FlowKind::Replaced).naming(entry.path()));
            return Some(Start::Done);
        }
        let joined = cx.tool().join(cx, entry, opened, ticket);
        let Some(Joined { own, target, inspect }) = joined else { return Some(Start::Done) };
        let transfer = if *by_kernel { Transfer::Kernel(Holes::Read) } else { Transfer::Blocks(Holes::Read) };
        Some(Start::MoveRange(FileRange { own, target, range: range.clone(), transfer, inspect }))
    }

    /// Announces a large file with an open target, and detaches its entry from the item.
    fn detach(&self, cx: &Context<'_, T>, file: &Arc<OpenFile<T>>, transfer: Transfer) -> bool {
        // Members move whole ranges: a file whose holes are skipped stays with its rank.
        if !matches!(transfer, Transfer::Blocks(Holes::Read) | Transfer::Kernel(Holes::Read)) {
            return false;
        }
        let Some(number) = self.sink.number_large_file(&file.stat) else { return false };
        let tool = cx.tool();
        // With a single stripe, several ranks would only contend for one storage target.
        let is_striped = tool.striping(file).is_none_or(|striping| striping.stripes != 1);
        let Some(ticket) = is_striped.then(|| tool.ticket(file)).flatten() else { return false };
        let name = file.entry.name().to_owned();
        self.change(|outcome| outcome.detached.push((name, number)));
        // Announce the file before its entry leaves the item: whoever learns that the item is done
        // must already know the file.
        self.sink.file_opened(tool, number, LargeFile { file: Arc::clone(file), transfer, ticket });
        cx.release(&file.entry.node);
        true
    }

    fn finish_file(&self, cx: &Context<'_, T>, file: &OpenFile<T>) -> Finished {
        let piece = self.spec.piece.as_ref();
        let is_shared = piece.is_some() || self.detached(file.entry.name()).is_some();
        if self.sink.flushes()
            && is_shared
            && let Some(target) = &file.target
            && let Err(cause) = synchronize(&**target)
            && file.fail()
        {
            // A journal may only record data that survives a crash of the host.
            cx.report_failure(&file.entry, EntryFailure::WriteTarget(&cause));
        }
        let Some(piece) = piece else {
            return if file.has_failed() { Finished::Failed } else { cx.tool().finish_file(cx, file) };
        };
        let is_whole = !file.has_failed() && file.length() >= piece.range.end;
        if !is_whole && file.fail() {
            cx.problem(Problem::new(FlowKind::Shorter).naming(file.entry.path()));
        }
        let result = is_whole.then(|| cx.tool().finish_range(cx, file, &piece.range)).flatten();
        let is_right = result.is_some();
        result.into_iter().for_each(|result| self.note_range_result(result));
        Finished::if_complete(is_right)
    }

    fn close_file(&self, cx: &Context<'_, T>, entry: &Entry<T>, own: T::File, moved: bool) {
        if self.spec.piece.is_some() {
            if moved {
                self.note_moved();
            }
            return cx.complete(entry);
        }
        cx.tool().close_file(cx, entry, own, moved);
        let Some(number) = self.detached(entry.name()) else { return cx.complete(entry) };
        cx.count(Tally { finished: 1, ..Tally::default() });
        cx.flush();
        self.sink.file_closed(cx, entry, number, moved);
    }
}

/// Adds a listing's size to those `listed`. Returns true if it fits.
fn reserve(listed: &AtomicUsize, bytes: usize) -> bool {
    // Not undone if it doesn't fit: later listings are bounced too, which is harmless.
    listed.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= LISTED_BYTES_MAX
}

impl<T: Distributed> WorkItem<T> {
    fn bounce(&self, cx: &Context<'_, T>, entry: &Entry<T>) {
        self.change(|outcome| outcome.bounced.push(entry.name().to_owned()));
        cx.release(&entry.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listings_of_an_item_fit_in_a_message() {
        let listed = AtomicUsize::new(0);
        let sizes = [LISTED_BYTES_MAX - 10, 10, 1, 0];
        assert_eq!(sizes.map(|bytes| reserve(&listed, bytes)), [true, true, false, false]);
    }
}
