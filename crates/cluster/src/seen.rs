//! The entries of a journaled work item: stat'ed when it arrives, so that entries completed by an
//! earlier run are skipped, and stamped when it is done.
//!
//! ```text
//! item arrives ─► stat each source ─► known stamp = source now + target now? ── yes ─► skipped
//!                                               │ no
//!                                               ▼
//!                                copied ─► flushed ─► stat the target ─► new stamp
//! ```
//!
//! Invariant: only a complete entry gets a stamp (tests: `cli/tests/cluster/journal.rs`).

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{DirCache, DirNode, Entry, EntryOutcome, EntryReport, Reporter};
use haul_journal::{Stamp, StampedState, is_past_clock_tick};
use haul_sys::{EntryType, Fd, NameArena, file_system_id, stat_at, stat_path};

use crate::distributed::Distributed;

/// An entry of a work item, as first seen.
#[derive(Debug)]
struct FirstState {
    name: CString,
    source: Option<StampedState>,
    /// Stamp of a skipped entry; otherwise [`Stamp::NONE`].
    kept: Stamp,
    /// True if an earlier run completed it, and its source or target has changed since.
    has_changed: bool,
}

/// Entries of a journaled work item.
#[derive(Debug, Default)]
pub(crate) struct SeenEntries(Vec<FirstState>);

impl SeenEntries {
    /// Stats the sources. Returns the entries seen, and the names that are left to process. `known`
    /// holds the stamps of an earlier run, in the order of the names.
    pub(crate) fn look<T: Distributed>(
        tool: &T,
        cache: &DirCache,
        node: &Arc<DirNode<T>>,
        names: NameArena,
        known: &[Stamp],
    ) -> (Self, NameArena) {
        let names = Arc::new(names);
        let known = if known.len() == names.len() { known } else { &[] };
        let directory = cache.open(&node.source).ok();
        let place = directory.as_ref().and_then(|directory| SeenDirectory::new(directory));
        let (mut seen, mut left) = (Vec::with_capacity(names.len()), NameArena::new());
        for index in 0..names.len() {
            let (name, listed) = (names.name(index), names.entry(index));
            let entry = Entry { node: Arc::clone(node), name: name.into(), kind: listed.kind, seen: None };
            let source = place.as_ref().and_then(|place| {
                let stat = stat_path(Some(place.directory), name, tool.follow(&entry)).ok()?;
                is_past_clock_tick(&stat).then(|| StampedState::new(place.file_system, &stat))
            });
            let known = known.get(index).copied().filter(|known| *known != Stamp::NONE);
            let kept = known.filter(|known| *known == stamp(tool, cache, &entry, source.as_ref()));
            let has_changed = known.is_some() && kept.is_none();
            if kept.is_none() {
                left.push(name, listed.inode, listed.kind);
            }
            seen.push(FirstState {
                name: name.to_owned(),
                source,
                kept: kept.unwrap_or_default(),
                has_changed,
            });
        }
        (Self(seen), left)
    }

    /// Returns the numbers of entries that are skipped, and of those that have changed since an
    /// earlier run completed them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let count =
            |counts: fn(&FirstState) -> bool| self.0.iter().filter(|seen| counts(seen)).count() as u64;
        (count(|seen| seen.kept != Stamp::NONE), count(|seen| seen.has_changed))
    }

    /// Reports the entries that are skipped, if each entry is to be reported.
    pub(crate) fn report<T: Distributed>(&self, report: &dyn Reporter, node: &Arc<DirNode<T>>) {
        if !report.wants_entries() {
            return;
        }
        for FirstState { name, .. } in self.0.iter().filter(|seen| seen.kept != Stamp::NONE) {
            let kind = EntryType::Unknown;
            let entry = Entry { node: Arc::clone(node), name: name.as_c_str().into(), kind, seen: None };
            report.entry(EntryReport::new(EntryOutcome::Unchanged, entry.path()));
        }
    }

    /// Stamps the entries for which `may_be` is true, in the order of the names. Detached entries
    /// (`is_detached`) are left out.
    pub(crate) fn stamps<T: Distributed>(
        &self,
        tool: &T,
        cache: &DirCache,
        node: &Arc<DirNode<T>>,
        is_detached: impl Fn(&CStr) -> bool,
        may_be: impl Fn(&Entry<T>) -> bool,
    ) -> Vec<Stamp> {
        let stamp_of = |seen: &FirstState| {
            if seen.kept != Stamp::NONE {
                return seen.kept;
            }
            let name = seen.name.as_c_str().into();
            let kind = haul_sys::EntryType::Unknown;
            let entry = Entry { node: Arc::clone(node), name, kind, seen: None };
            match may_be(&entry) {
                true => stamp(tool, cache, &entry, seen.source.as_ref()),
                false => Stamp::NONE,
            }
        };
        self.0.iter().filter(|seen| !is_detached(&seen.name)).map(stamp_of).collect()
    }

    pub(crate) fn stamp_of<T: Distributed>(&self, tool: &T, cache: &DirCache, entry: &Entry<T>) -> Stamp {
        let seen = self.0.iter().find(|seen| seen.name.as_c_str() == entry.name());
        seen.map_or(Stamp::NONE, |seen| stamp(tool, cache, entry, seen.source.as_ref()))
    }
}

/// An open directory and the id of its file system.
struct SeenDirectory<'a> {
    directory: &'a Fd,
    file_system: u64,
}

impl<'a> SeenDirectory<'a> {
    fn new(directory: &'a Fd) -> Option<Self> {
        Some(Self { directory, file_system: file_system_id(directory).ok()? })
    }
}

/// Stamps an entry with the current state of its target. Returns no stamp if a `stat` fails.
fn stamp<T: Distributed>(
    tool: &T,
    cache: &DirCache,
    entry: &Entry<T>,
    source: Option<&StampedState>,
) -> Stamp {
    let look = || {
        let (held, name) = tool.target_of(entry)?;
        let directory = cache.open(held).ok()?;
        let target = stat_at(&*directory, name).ok()?;
        Some(Stamp::of(source?, &StampedState::new(file_system_id(&*directory).ok()?, &target)))
    };
    look().unwrap_or_default()
}
