//! Entries and the journal: what an earlier run completed is skipped, and what this run completes
//! is recorded.
//!
//! ```text
//! plan ─► source now + target now = stamp in the journal? ── yes ─► skipped
//!                 │ no
//!                 ▼
//! opened: source stat'ed ─► copied ─► named ─► flushed ─► target stat'ed ─► stamp ─► journal
//! ```
//!
//! A file is recorded only if nobody can have changed it unnoticed: its source was older than a
//! tick of the clock when it was opened, and its target still has the size and mtime that this run
//! gave it. Hard links are recorded for each name, and with the target's mode and owner instead of
//! its ctime, which every further link changes.
//!
//! New directories, except those in new directories, are recorded before anything is copied to
//! them. Until the copy is complete, later runs finish them, and those in them, as if they had made
//! them: an interrupted run may have left them with a temporary mode.
//!
//! An entry that has its name but no stamp is made again, since its state is unknown: it may lack a
//! verification, or its other names. It is replaced rather than written to, because it may not be
//! writable. An entry that `-n`, `-u` and the like would leave alone is made again only if it is
//! certain that an interrupted run made it. So those entries are recorded before they get their
//! names ([`is_recorded_first`]):
//!
//! ```text
//!                       in a directory that an        elsewhere
//!                       interrupted run made
//! everything replaced   each entry                    recorded entries: files that can't be opened
//! -n, -u, sync          recorded entries: all         recorded entries: all
//! ```
//!
//! Invariant: data is flushed before its record is written (tests: `cli/tests/trust/resume.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haul_flow::{DirHandle, EntryOutcome, OpenFile, Problem, Tally, lock};
use haul_journal::{EntryKey, Journal, MadeEntry, Stamp, StampedState, is_past_clock_tick};
use haul_sys::{Error, Fd, FileType, Mode, Stat, file_system_id, read_link, stat, stat_at};

use super::durable;
use super::entry_copy::EntryCopy;
use super::options::{Make, Preserve, Update};
use super::repeated;
use super::target::is_plain_name;
use super::{Copier, CopyKind};

/// The journal of a run, and the ids of the file systems it copies between, by device.
#[derive(Debug)]
pub(super) struct JournalState {
    pub(super) journal: Arc<Journal>,
    file_systems: Mutex<HashMap<u64, u64>>,
}

impl JournalState {
    pub(super) fn new(journal: Arc<Journal>) -> Self {
        Self { journal, file_systems: Mutex::default() }
    }

    fn file_system_of(&self, held: &DirHandle, open: impl Fn() -> Result<Arc<Fd>, Error>) -> Option<u64> {
        let device = held.identity().device;
        if let Some(id) = lock(&self.file_systems).get(&device) {
            return Some(*id);
        }
        let id = open().and_then(|directory| file_system_id(&*directory)).ok()?;
        lock(&self.file_systems).insert(device, id);
        Some(id)
    }
}

/// A file that is being copied, and recorded if it gets complete.
#[derive(Debug)]
pub(super) struct JournaledFile {
    /// True if a change of the source since it was stat'ed will show in its times.
    is_settled: AtomicBool,
    written: OnceLock<Written>,
}

/// A target whose content and attributes are written.
#[derive(Debug)]
struct Written {
    source: Stat,
    target: Stat,
    /// Its number among the files that wait for a flush (`durable.rs`).
    number: u64,
}

impl JournaledFile {
    /// Begins a file whose source was just stat'ed; `None` without a journal.
    pub(super) fn begin(copier: &Copier, source: &Stat) -> Option<Self> {
        let is_settled = AtomicBool::new(is_past_clock_tick(source));
        copier.journal.as_ref().map(|_| Self { is_settled, written: OnceLock::new() })
    }

    /// Forgets the content, which is copied again from a source that was just stat'ed.
    pub(super) fn begin_again(&self, source: &Stat) {
        self.is_settled.store(is_past_clock_tick(source), Ordering::Relaxed);
    }

    /// Records the content written to an open target.
    pub(super) fn end(&self, copy: EntryCopy<'_>, file: &OpenFile<Copier>, target: &Fd) {
        // If the source has grown or shrunk since, or the target can't be stat'ed, the file
        // isn't recorded, so the next run copies it again.
        if self.is_settled.load(Ordering::Relaxed)
            && file.length() == file.stat.size
            && let Ok(target) = stat(target)
        {
            let number = durable::note_written(copy);
            self.written.get_or_init(|| Written { source: file.stat, target, number });
        }
    }

    /// Returns the source as it was copied, if that is known.
    pub(super) fn source(&self) -> Option<Stat> {
        self.written.get().map(|written| written.source)
    }

    /// Records a complete file. It is closed and has its name.
    pub(super) fn record(&self, copy: EntryCopy<'_>) {
        let Some(Written { source, target, number }) = self.written.get() else { return };
        if let Err(problem) = durable::flush_before(copy, *number) {
            copy.cx.problem(problem);
            return;
        }
        let is_same = |now: &Stat| {
            (now.identity, now.size, now.modified) == (target.identity, target.size, target.modified)
        };
        record_if(copy, source, is_same);
    }
}

/// True if the source may have other names, so that its hard-link claim comes first.
fn has_other_names(copy: EntryCopy<'_>, source: &Stat) -> bool {
    copy.options.preserves(Preserve::LINKS) && (source.links > 1 || copy.follows())
}

/// State of an entry in the journal, for an entry that isn't open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// An earlier run has completed it, and nothing has changed since.
    Done,
    /// An earlier run has completed it. It may have other names, so [`stays`] decides, once it has
    /// its hard-link claim: other names may be linked to it.
    OneOfSeveralNames,
    /// It is to be copied.
    Unknown,
}

/// Looks an entry up that isn't open.
pub(super) fn look(copy: EntryCopy<'_>) -> Look {
    if copy.options.make != Make::Copy {
        return look_at_made_link(copy);
    }
    let Some((state, known)) = known(copy) else { return Look::Unknown };
    match copy.stat_source() {
        Ok(source) if has_other_names(copy, &source) => Look::OneOfSeveralNames,
        Ok(source) if stays_as(copy, (state, known), &source).is_some() => Look::Done,
        // Errors are reported when it is copied.
        _ => Look::Unknown,
    }
}

/// Returns the target's `stat` if an earlier run has completed an entry, and nothing has changed
/// since. The caller has its hard-link claim.
pub(super) fn stays(copy: EntryCopy<'_>, source: &Stat) -> Option<Stat> {
    stays_as(copy, known(copy)?, source)
}

/// Returns the stamp that an earlier run gave to an entry.
fn known(copy: EntryCopy<'_>) -> Option<(&JournalState, Stamp)> {
    let state = copy.copier.journal.as_ref()?;
    let known = state.journal.stamp(key_of(copy)?);
    (known != Stamp::NONE).then_some((state, known))
}

fn stays_as(copy: EntryCopy<'_>, (state, known): (&JournalState, Stamp), source: &Stat) -> Option<Stat> {
    let target = copy.open_directory().and_then(|directory| stat_at(&directory, copy.target_name())).ok();
    let target = target.filter(|target| stamp(copy, state, source, target) == Some(known));
    match target {
        Some(_) => copy.count(EntryOutcome::Unchanged),
        None => copy.cx.count(Tally { changed: 1, ..Tally::default() }),
    }
    if target.is_some() {
        copy.record_made();
    }
    target
}

/// Records an entry that was complete when it was created: a symbolic link or special file, or
/// another name of a file. `source` was stat'ed before.
pub(super) fn record(copy: EntryCopy<'_>, source: &Stat) {
    // Another user may have replaced it by now.
    if is_past_clock_tick(source) && !copy.entry.node.own.is_shared {
        record_if(copy, source, |_| true);
    }
}

fn record_if(copy: EntryCopy<'_>, source: &Stat, is_ours: impl Fn(&Stat) -> bool) {
    let Some(state) = &copy.copier.journal else { return };
    let look = || {
        let target = copy.open_directory().and_then(|directory| stat_at(&directory, copy.target_name()));
        let target = target.ok().filter(is_ours)?;
        Some((key_of(copy)?, stamp(copy, state, source, &target)?))
    };
    state.journal.done(look().filter(|(_, stamp)| *stamp != Stamp::NONE));
    failure(copy.copier).into_iter().for_each(|problem| copy.cx.problem(problem));
}

/// Returns the first error of writing to the journal, once.
pub(super) fn failure(copier: &Copier) -> Option<Problem> {
    let journal = &copier.journal.as_ref()?.journal;
    let error = journal.take_failure()?;
    let path = journal.path().as_os_str().as_encoded_bytes();
    Some(Problem::new(CopyKind::JournalLost).naming(path).naming(error.to_string()))
}

/// Records an entry that this run has made, until the copy is complete.
pub(super) fn record_made(copier: &Copier, made: &Stat) {
    // Without a birth time no later run could recognize it.
    if let (Some(state), Some(made)) = (&copier.journal, MadeEntry::of(made)) {
        state.journal.entry_made(made);
    }
}

/// True if an earlier run has made an existing entry, and none has completed the copy since.
pub(super) fn is_unfinished(copier: &Copier, there: &Stat) -> bool {
    let (Some(state), Some(there)) = (&copier.journal, MadeEntry::of(there)) else { return false };
    state.journal.is_unfinished(there)
}

/// True if the copy of an entry is recorded before it gets its name, because a later run could
/// not replace it otherwise: existing files stay, or it is one that its owner can't open.
pub(super) fn is_recorded_first(copy: EntryCopy<'_>, source: &Stat) -> bool {
    let own = &copy.entry.node.own;
    copy.copier.journal.is_some()
        && match copy.options.existing.update {
            Update::All => {
                let is_read_only =
                    source.kind == FileType::Regular && !source.mode.contains(Mode::OWNER_WRITE);
                is_read_only
                    && !copy.copier.capabilities.write_all()
                    && !own.is_new()
                    && !own.holds_unfinished()
            }
            _ => !copy.options.attributes_only,
        }
}

/// Records a complete entry that doesn't have its name yet, if that is due.
pub(super) fn record_first(copy: EntryCopy<'_>, source: &Stat, look: impl FnOnce() -> Result<Stat, Error>) {
    if is_recorded_first(copy, source)
        && let Ok(made) = look()
    {
        record_made(copy.copier, &made);
    }
}

/// True if an interrupted run, or a lost rank, made the entry that has the name of a copy, or would
/// have made the same: it is replaced, whatever the options say about existing files.
pub(super) fn is_ours(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    if repeated::is_made_again(copy, directory) {
        return true;
    }
    let may_be_ours = copy.entry.node.own.holds_unfinished() || is_resumed(copy);
    let Some(there) = may_be_ours.then(|| stat_at(directory, copy.target_name()).ok()).flatten() else {
        return false;
    };
    // Those that got no data have none to lose.
    let is_whole = copy.options.attributes_only && there.size > 0;
    let is_replaced = copy.options.existing.update == Update::All && copy.entry.node.own.holds_unfinished();
    there.kind != FileType::Directory
        && !is_whole
        // A completed entry is the user's, who may have changed it since.
        && known(copy).is_none()
        && (is_replaced || is_unfinished(copy.copier, &there) || leads_to_source(copy, directory))
}

/// True if the journal is that of an earlier run.
fn is_resumed(copy: EntryCopy<'_>) -> bool {
    copy.copier.journal.as_ref().is_some_and(|state| state.journal.run().epoch > 1)
}

/// With `-s`, true if the name of a copy is a symbolic link to its source.
pub(super) fn leads_to_source(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    copy.options.make == Make::Symlink
        && read_link(directory, copy.target_name())
            .is_ok_and(|content| content.to_bytes() == &*copy.entry.path())
}

/// With `-l` and `-s`, looks whether an earlier run has made the link. It needs no stamp.
fn look_at_made_link(copy: EntryCopy<'_>) -> Look {
    let is_made = || {
        let directory = copy.open_directory()?;
        let there = stat_at(&directory, copy.target_name())?;
        let source = copy.stat_source()?;
        Ok::<_, Error>(match copy.options.make {
            Make::HardLink => there.identity == source.identity,
            _ => {
                let has_times =
                    !copy.options.preserves(Preserve::TIMESTAMPS) || there.modified == source.modified;
                has_times && !has_other_names(copy, &source) && leads_to_source(copy, &directory)
            }
        })
    };
    if !is_resumed(copy) || !is_made().unwrap_or(false) {
        return Look::Unknown;
    }
    copy.count(EntryOutcome::Unchanged);
    copy.record_made();
    Look::Done
}

/// Flushes the journal.
pub(super) fn flush(copier: &Copier) -> Option<Problem> {
    copier.journal.as_ref()?.journal.flush();
    failure(copier)
}

/// Returns the key of an entry. Only a plain name in a directory identifies it in later runs too.
pub(super) fn key_of(copy: EntryCopy<'_>) -> Option<EntryKey> {
    let held = &copy.entry.node.own.held;
    let is_plain = is_plain_name(copy.target_name()) && !held.is_absent();
    is_plain.then(|| EntryKey::new(&copy.entry.path(), &held.path_of(copy.target_name())))
}

fn stamp(copy: EntryCopy<'_>, state: &JournalState, source: &Stat, target: &Stat) -> Option<Stamp> {
    let (from, to) = (&copy.entry.node.source, &copy.entry.node.own.held);
    let source_system = state.file_system_of(from, || copy.cx.cache().open(from))?;
    let target_system = state.file_system_of(to, || copy.open_directory())?;
    let of_target = if has_other_names(copy, source) { StampedState::of_linked } else { StampedState::new };
    Some(Stamp::of(&StampedState::new(source_system, source), &of_target(target_system, target)))
}
