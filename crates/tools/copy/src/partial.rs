//! Large files under a journal: recorded segment by segment, so that an interrupted copy resumes
//! where it stopped.
//!
//! ```text
//! created under a temporary name ─► journal: begun, ticket
//!        │   ┌──────────────────────────────────────────┐
//!        ▼   ▼                                          │
//!       segment ─► moved ─► flushed ─► journal: range ──┘ next segment
//!                                        │ last
//!                                        ▼
//!                              complete, named, recorded as other files
//! ```
//!
//! A later run finds the temporary file by its ticket. It moves only the segments that aren't
//! recorded, if the source is unchanged and the file is still the one that was begun. The journal
//! has the hash of each piece too if the target is verified: what an earlier run wrote is then
//! read again like the rest.
//!
//! Invariant: a segment is on storage before it is recorded (tests: `cli/tests/trust/resume.rs`).

use std::collections::HashSet;
use std::ffi::CString;
use std::ops::Range;
use std::sync::Mutex;

use haul_digest::PieceValue;
use haul_flow::{Finished, OpenFile, lock};
use haul_journal::{EntryKey, Journal, PartialFile, Stamp, is_past_clock_tick};
use haul_sys::{Errno, Error, Fd, Mode, Open, Stat, TEMPORARY_PREFIX};
use haul_sys::{open, remove, stat, synchronize, truncate};

use super::creation_mode;
use super::entry_copy::EntryCopy;
use super::journaled;
use super::layouts::{self, Original};
use super::open_target::{CopiedFile, OpenTarget};
use super::options::{Preserve, TemporaryNames};
use super::staged::Staged;
use super::ticket::Ticket;
use super::verify::Verification;
use super::{Copier, CopyKind};

/// Length of a segment, in bytes: long enough that its flush costs little, short enough that
/// little is copied twice. A multiple of the length of a piece (`haul_digest::PIECE_BYTES`), and
/// the values of its pieces fit in a record of the journal (64 KiB).
const SEGMENT_BYTES: u64 = 128 << 20;

/// Temporary names of files that are kept for a later run.
pub(super) type KeptNames = Mutex<HashSet<CString>>;

/// Progress of a file that is recorded by the segment.
#[derive(Debug)]
pub(super) struct Partial {
    key: EntryKey,
    /// Its segments recorded by earlier runs.
    done: PartialFile,
    progress: Mutex<SegmentProgress>,
}

/// The segments of a file that are not recorded.
#[derive(Debug, Default)]
struct SegmentProgress {
    /// The one that is being moved.
    current: Range<u64>,
    /// Those after it, in reverse order.
    rest: Vec<Range<u64>>,
    /// True if the journal has any of the content.
    has_recorded: bool,
}

/// Creates a target whose progress is recorded, or opens the part of it that an earlier run has
/// written. `None` if its progress is not to be recorded.
pub(super) fn create(
    copy: EntryCopy<'_>,
    directory: &Fd,
    mode: Mode,
    source: Original<'_>,
) -> Result<Option<OpenTarget>, Error> {
    let is_long = source.stat.size > SEGMENT_BYTES && copy.entry.node.owner.is_none();
    let Some(state) = copy.copier.journal.as_ref().filter(|_| is_long) else { return Ok(None) };
    // In a directory that others may write to, anyone may have changed the file since.
    let is_safe = is_past_clock_tick(source.stat) && !copy.entry.node.own.is_shared;
    let (true, Some(key), Some(run)) = (is_safe, journaled::key_of(copy), copy.copier.temporary_names.get())
    else {
        return Ok(None);
    };
    if let Some(begun) = state.journal.begun(key)
        && let Some(target) = open_again(copy, directory, source.stat, (key, begun))
    {
        return Ok(Some(target));
    }
    // Left by a run whose last records were lost in a power cut. Usually there are none.
    for epoch in 1..run.epoch {
        remove(directory, &temporary_name(key, TemporaryNames { epoch, ..*run })).unwrap_or_default();
    }
    let name = temporary_name(key, *run);
    let make = || layouts::make_temporary_file(copy, (directory, &name), mode, source.layout);
    let made = copy.with_room(|| match make() {
        // Left by an earlier attempt of this run.
        Err(cause) if cause.is(Errno::EXIST) => remove(directory, &name).and_then(|()| make()),
        outcome => outcome,
    });
    let file = made?;
    let ticket = Ticket::temporary(name.clone(), source.stat, &stat(&file)?);
    state.journal.file_begun(key, ticket.pack());
    let partial = Partial::new(key, PartialFile::default(), source.stat.size);
    Ok(Some(target_of(file, name, partial)))
}

/// Opens a target that an earlier run has named and not yet verified. `None` if it is missing, or
/// somebody has written to it since. Its last segment is moved again, and all of it is compared
/// with the recorded hashes.
pub(super) fn open_named(copy: EntryCopy<'_>, directory: &Fd, source: &Stat) -> Option<OpenTarget> {
    let state = copy.copier.journal.as_ref().filter(|_| copy.options.reads_device_again())?;
    let key = journaled::key_of(copy).filter(|_| source.size > SEGMENT_BYTES)?;
    // One that an earlier run has verified is copied like any other file.
    if state.journal.stamp(key) != Stamp::NONE || !copy.options.preserves(Preserve::TIMESTAMPS) {
        return None;
    }
    let begun = state.journal.begun(key)?;
    let ticket = Ticket::unpack(&begun.ticket).filter(|ticket| ticket.is_of_unchanged(source))?;
    let target = Partial::new(key, begun.clone(), source.size);
    if !ticket.is_temporary() || target.segments_without_hashes(source.size).len() != 1 {
        return None;
    }
    let file = open(directory, copy.target_name(), Open::WRITE).ok()?;
    let there = stat(&file).ok()?;
    let is_ours = there.owner == copy.copier.process.user && ticket.is_of_target(&there);
    let target = OpenTarget { partial: Some(Box::new(target)), ..OpenTarget::new(file) };
    let is_as_written = (there.size, there.modified) == (source.size, source.modified);
    (is_ours && is_as_written).then_some(target)
}

fn target_of(file: Fd, name: CString, partial: Partial) -> OpenTarget {
    OpenTarget {
        staged: Some(Staged::named(name)),
        partial: Some(Box::new(partial)),
        ..OpenTarget::new(file)
    }
}

/// Opens the part of a target that an earlier run has written, if the source is unchanged.
fn open_again(
    copy: EntryCopy<'_>,
    directory: &Fd,
    source: &Stat,
    (key, begun): (EntryKey, &PartialFile),
) -> Option<OpenTarget> {
    let ticket = Ticket::unpack(&begun.ticket)?;
    let usable = || {
        let file = ticket.open(directory, Open::WRITE).ok()?;
        let there = stat(&file).ok()?;
        let moved_to = begun.done.iter().map(|range| range.end).max().unwrap_or(0);
        let is_ours = there.owner == copy.copier.process.user && there.links == 1;
        let file = (is_ours && there.size >= moved_to).then_some(file)?;
        creation_mode::close_to_owner(copy, (&file, &there), directory, source).ok()?;
        Some(file)
    };
    if !ticket.is_temporary() {
        return None;
    }
    let file = if ticket.is_of_unchanged(source) { usable() } else { None };
    let Some(file) = file else {
        // The partial copy is useless. Usually it is gone.
        remove(directory, ticket.name()).unwrap_or_default();
        return None;
    };
    if copy.cx.report().wants_debug() {
        let bytes: u64 = begun.done.iter().map(|range| range.end - range.start).sum();
        let path = copy.target_path();
        copy.cx.report().debug(&format!("{}: has {bytes} bytes", String::from_utf8_lossy(&path)));
    }
    Some(target_of(file, ticket.name().to_owned(), Partial::new(key, begun.clone(), source.size)))
}

/// Returns the temporary name of a file of this run.
fn temporary_name(key: EntryKey, TemporaryNames { number, epoch }: TemporaryNames) -> CString {
    let name = format!("{TEMPORARY_PREFIX}{number:016x}-{:016x}-{epoch}-1", key.0);
    CString::new(name).unwrap_or_default()
}

impl Partial {
    fn new(key: EntryKey, done: PartialFile, size: u64) -> Self {
        let has_recorded = !done.done.is_empty();
        let rest = segments(&done.done, size);
        let progress = SegmentProgress { current: 0..0, rest, has_recorded };
        Self { key, done, progress: Mutex::new(progress) }
    }

    /// Returns the first segment to move. With a verification, gives it the hashes of what is
    /// there, and moves again what has none.
    pub(super) fn begin(&self, size: u64, verification: Option<&Verification>) -> Range<u64> {
        if let Some(verification) = verification {
            self.done.hashes.iter().for_each(|(range, values)| {
                verification.insert_pieces(range.start, &unpack_values(values));
            });
            lock(&self.progress).rest = self.segments_without_hashes(size);
        }
        self.next().unwrap_or(0..0)
    }

    /// Returns the segments that have no hashes, in reverse order.
    fn segments_without_hashes(&self, size: u64) -> Vec<Range<u64>> {
        let hashed: Vec<_> = self.done.hashes.iter().map(|(range, _)| range.clone()).collect();
        segments(&hashed, size)
    }

    fn next(&self) -> Option<Range<u64>> {
        let mut progress = lock(&self.progress);
        progress.current = progress.rest.pop()?;
        Some(progress.current.clone())
    }

    /// Records the segment that was moved, and returns the next one. `None` if that was the last
    /// one, or the source has shrunk.
    pub(super) fn advance(
        &self,
        copy: EntryCopy<'_>,
        file: &OpenFile<Copier>,
        target: &Fd,
    ) -> Option<Finished> {
        let current = lock(&self.progress).current.clone();
        if file.length() < file.stat.size || lock(&self.progress).rest.is_empty() {
            return None;
        }
        let hashes = file.own.verification.as_ref().map(|hash| pack_values(&hash.pieces_in(current.clone())));
        // A hole at its end may be missing.
        let extend = || match stat(target)?.size < current.end {
            true => truncate(target, current.end),
            false => Ok(()),
        };
        if let Err(cause) = extend().and_then(|()| synchronize(target)) {
            copy.cx.problem(copy.problem(CopyKind::Syncing, cause));
            return Some(Finished::Failed);
        }
        let journal = self.journal(copy)?;
        journal.range_moved(self.key, current, hashes.unwrap_or_default());
        // Also the record that the file was begun. Without these a power cut would cost the whole
        // file.
        journal.flush();
        lock(&self.progress).has_recorded = true;
        self.next().map(Finished::Next)
    }

    /// Discards the records, before the target is emptied.
    pub(super) fn begin_again(&self, copy: EntryCopy<'_>) {
        *lock(&self.progress) = SegmentProgress::default();
        if let Some(journal) = self.journal(copy) {
            // No target has this ticket.
            journal.file_begun(self.key, Vec::new());
        }
    }

    /// Keeps a file that could not be completed for a later run. Returns false if nothing of it
    /// was recorded.
    pub(super) fn keep(&self, copy: EntryCopy<'_>, own: &CopiedFile) -> bool {
        let has_recorded = lock(&self.progress).has_recorded;
        let staged = own.staged.as_ref().filter(|_| has_recorded);
        let name = staged.and_then(|staged| staged.temporary_name.clone());
        lock(&copy.copier.kept_names).extend(name);
        has_recorded
    }

    fn journal<'c>(&self, copy: EntryCopy<'c>) -> Option<&'c Journal> {
        copy.copier.journal.as_ref().map(|state| &*state.journal)
    }
}

/// Returns the segments of a file of `size` bytes without those that are done, in reverse order.
fn segments(done: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    let mut done: Vec<_> = done.to_vec();
    done.sort_unstable_by_key(|range| range.start);
    let (mut left, mut start) = (Vec::new(), 0);
    for range in done.into_iter().chain(std::iter::once(size..size)) {
        while start < range.start.min(size) {
            let end = (start / SEGMENT_BYTES + 1) * SEGMENT_BYTES;
            let end = end.min(range.start).min(size);
            left.push(start..end);
            start = end;
        }
        start = start.max(range.end);
    }
    left.reverse();
    left
}

fn pack_values(values: &[PieceValue]) -> Vec<u8> {
    values.concat()
}

fn unpack_values(bytes: &[u8]) -> Vec<PieceValue> {
    bytes.as_chunks().0.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of every length around three segments, of which some ranges are done.
    #[test]
    fn segments_and_what_is_done_make_up_the_file() {
        const S: u64 = SEGMENT_BYTES;
        let cases: [&[(u64, u64)]; 7] = [
            &[],
            &[(0, S)],
            &[(S, 2 * S)],
            &[(2 * S, 3 * S), (0, S)],
            &[(5, 10), (3, 7), (20, S + 1)],
            &[(0, 3 * S + 1)],
            &[(S - 1, S - 1), (S, 4 * S)],
        ];
        for done in cases {
            let done: Vec<_> = done.iter().map(|(start, end)| *start..*end).collect();
            for size in [0, 1, S - 1, S, S + 1, 3 * S - 1, 3 * S, 3 * S + 1] {
                let left = segments(&done, size);
                let is_segment = |range: &Range<u64>| {
                    range.start < range.end && (range.start / S == (range.end - 1) / S) && range.end <= size
                };
                assert!(left.iter().all(is_segment), "{done:?}, {size}: {left:?}");
                assert!(left.is_sorted_by(|later, earlier| later.start >= earlier.end));
                let mut all: Vec<_> = done.iter().chain(&left).cloned().collect();
                all.sort_unstable_by_key(|range| range.start);
                let covered = all.iter().fold(0, |end, range| match range.start <= end {
                    true => range.end.max(end),
                    false => end,
                });
                assert!(covered >= size, "{done:?}, {size}: {left:?}");
                let is_disjoint = |range: &Range<u64>| {
                    done.iter()
                        .all(|done| done.is_empty() || range.end <= done.start || done.end <= range.start)
                };
                assert!(left.iter().all(is_disjoint), "{done:?}, {size}: {left:?}");
            }
        }
    }
}
