//! Compares the content of regular files.
//!
//! The framework reads a file and the same ranges of its counterpart, and each pair of blocks is
//! compared here. If a file has changed since its `stat`, that is an error: nobody can say what
//! was compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_flow::{Block, Context, Entry, EntryOutcome, OpenFile, OpenSource, Problem, Start};
use haul_sys::{Error, Fd, FileRef, Open, Stat, read_all, stat};

use super::CompareKind;
use super::Comparer;
use super::counterpart::{StatPair, difference, second_path};
use super::difference::What;
use super::findings::EntryResult;
use super::ranges::{Ranges, mismatch};

/// Minimum size of files compared in ranges by all workers, in bytes. Shorter ones are only a
/// few blocks.
const RANGES_FROM_BYTES: u64 = 4 << 20;

/// A file whose blocks are being compared.
pub struct Compared {
    pub(super) second: Arc<Fd>,
    second_stat: Stat,
    /// Position of the first difference found so far.
    differs_at: AtomicU64,
}

/// True if a file was replaced or written to since its `stat`.
pub(super) fn has_changed(file: &Fd, before: &Stat) -> Result<bool, Error> {
    let now = stat(file)?;
    let was = (before.identity, before.size, before.modified);
    Ok((now.identity, now.size, now.modified) != was)
}

/// True if a file has as many bytes as `stat` says. Files of procfs have content although their
/// size is 0; some return nothing if the buffer is too small for all of it. Files of sysfs, which
/// occupy no blocks, are shorter than their size. A read error is reported when the content is
/// compared.
fn is_size(file: &Fd, stat: &Stat) -> bool {
    match stat.size.checked_sub(1) {
        None => matches!(read_all(file, 0, &mut [0; 4096]), Ok(0)),
        Some(last) => !stat.is_sparse() || matches!(read_all(file, last, &mut [0; 2]), Ok(1)),
    }
}

impl Comparer {
    pub(super) fn begin_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Compared> {
        let errors_before = cx.errors();
        let start = self.begin_compared(cx, entry, opened);
        if matches!(start, Start::Done) {
            Self::count(cx, entry, EntryOutcome::File, errors_before);
        }
        start
    }

    fn begin_compared(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Compared> {
        let Some(pair) = self.pair(cx, entry, opened.stat) else { return Start::Done };
        let Some(second) = self.open_second(cx, entry, Open::READ) else { return Start::Done };
        let sizes = (pair.first.size, pair.second.size);
        let are_known = || is_size(opened.source, &pair.first) && is_size(&second, &pair.second);
        if sizes.0 != sizes.1 && !self.names_files(entry) && are_known() {
            let mut result = EntryResult { differences: Vec::new(), linked: self.linked(entry, &pair) };
            result.differences.push(difference(entry, What::Size(sizes.0, sizes.1)));
            self.add_attributes(cx, entry, &pair, (opened.source, &second), &mut result);
            Self::emit_result(cx, entry, &result);
            Self::close(cx, second, || second_path(entry));
            return Start::Done;
        }
        let is_direct = self.options.direct && sizes.0 > 0 && sizes.1 > 0;
        if is_direct && !Self::bypasses_cache(cx, entry, (opened.source, &second)) {
            Self::close(cx, second, || second_path(entry));
            return Start::Done;
        }
        if sizes.0 >= RANGES_FROM_BYTES || self.names_files(entry) {
            Ranges::begin(self, cx, entry.clone(), Arc::clone(opened.source), second, pair);
            return Start::Deferred;
        }
        if is_direct {
            self.compare_direct(cx, entry, (opened, &second), &pair);
            Self::close(cx, second, || second_path(entry));
            return Start::Done;
        }
        let second = Arc::new(second);
        let other = Arc::clone(&second);
        let own = Compared { second, second_stat: pair.second, differs_at: AtomicU64::new(u64::MAX) };
        Start::Compare { own, other }
    }

    /// True if the operands are two files, not two trees.
    pub(super) fn names_files(&self, entry: &Entry<Self>) -> bool {
        entry.is_operand()
    }

    pub(super) fn compare_block(&self, file: &OpenFile<Self>, block: Block<'_>) {
        if let Some(at) = mismatch(block.bytes, block.other) {
            file.own.differs_at.fetch_min(block.offset + at as u64, Ordering::Relaxed);
        }
    }

    /// Completes a file whose blocks were compared.
    pub(super) fn complete_blocks(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> bool {
        let (entry, own) = (&file.entry, &file.own);
        let at = match self.differs_at(file) {
            Ok(at) => at,
            Err(cause) => {
                Self::trouble(cx, CompareKind::ErrorReading, second_path(entry), cause);
                return false;
            }
        };
        let pair = StatPair { first: file.stat, second: own.second_stat };
        let mut result = EntryResult { differences: Vec::new(), linked: self.linked(entry, &pair) };
        result.differences.extend(at.map(|at| difference(entry, What::Content(at))));
        self.complete(cx, entry, &pair, (&file.source, &own.second), result)
    }

    /// Returns the first difference, once all blocks are compared. The counterpart must end
    /// where the file does; that is checked only if the file's length was not the size the
    /// kernel reported.
    fn differs_at(&self, file: &OpenFile<Self>) -> Result<Option<u64>, Error> {
        let (own, length) = (&file.own, file.length());
        let at = own.differs_at.load(Ordering::Relaxed);
        if at < u64::MAX {
            return Ok(Some(at));
        }
        let is_as_long = length == file.stat.size && length == own.second_stat.size && length > 0;
        let goes_on = !is_as_long && read_all(&own.second, length, &mut [0])? > 0;
        Ok(goes_on.then_some(length))
    }

    /// Emits the result for two files that were read to the end, and reports those that changed
    /// while they were read. Returns true if neither did, and their attributes could be read.
    pub(super) fn complete(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        pair: &StatPair,
        (first, second): (&Fd, &Fd),
        mut result: EntryResult,
    ) -> bool {
        let sides = [(first, &pair.first, entry.path()), (second, &pair.second, second_path(entry))];
        let errors_before = cx.errors();
        for (file, stat, path) in sides {
            match has_changed(file, stat) {
                Ok(false) => {}
                Ok(true) => cx.problem(Problem::new(CompareKind::Changed).naming(path)),
                Err(cause) => Self::trouble(cx, CompareKind::CannotStat, path, cause),
            }
        }
        self.add_attributes(cx, entry, pair, (first, second), &mut result);
        Self::emit_result(cx, entry, &result);
        cx.errors() == errors_before
    }

    fn add_attributes(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        pair: &StatPair,
        (first, second): (&Fd, &Fd),
        result: &mut EntryResult,
    ) {
        let files = [first, second].map(|file| Some(FileRef::Open(file)));
        result.differences.extend(self.attributes(cx, entry, pair, files));
    }

    pub(super) fn close(cx: &Context<'_, Self>, file: Fd, path: impl FnOnce() -> Vec<u8>) {
        if let Err(cause) = file.close() {
            Self::trouble(cx, CompareKind::FailedToClose, path(), cause);
        }
    }

    pub(super) fn end_file(cx: &Context<'_, Self>, entry: &Entry<Self>, own: Compared, is_compared: bool) {
        let errors_before = cx.errors();
        if let Some(second) = Arc::into_inner(own.second) {
            Self::close(cx, second, || second_path(entry));
        }
        if is_compared {
            Self::count(cx, entry, EntryOutcome::File, errors_before);
        }
    }
}
