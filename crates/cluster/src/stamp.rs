//! Stamps: the state of an entry's source and target at completion, so that a later run can skip
//! the entry if neither has changed.
//!
//! ```text
//! item arrives ─► stat each source ─► known stamp = source now + target now? ── yes ─► skipped
//!                                               │ no
//!                                               ▼
//!                                copied ─► flushed ─► stat the target ─► new stamp
//! ```
//!
//! Sources are stat'ed *before* they are opened and targets *after* everything is done, so a source
//! that changes in between no longer matches its stamp and is copied again. A stamp covers, for
//! both sides, the file system id, inode number, type, size, mtime and ctime. Device numbers are
//! left out because they differ between hosts.
//!
//! Invariant: only a complete entry gets a stamp (tests: `cli/tests/cluster/journal.rs`).

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{DirCache, DirNode, Entry};
use haul_sys::{Fd, FileType, Names, Stat, file_system_id, stat_at, stat_path};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::distributed::Distributed;

/// Hash of the states of an entry's source and target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp(pub u64);

impl Stamp {
    /// No stamp: the entry is never skipped.
    pub const NONE: Self = Self(0);
}

/// One run of a copy that may take several. Temporary names are derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunId {
    /// Number shared by all runs with one journal.
    pub number: u64,
    /// Number of this run, starting at 1.
    pub epoch: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State([u64; 7], FileType);

impl State {
    fn new(file_system: u64, stat: &Stat) -> Self {
        let time = |time: haul_sys::Timestamp| (time.seconds.cast_unsigned(), u64::from(time.nanoseconds));
        let ((modified, modified_ns), (changed, changed_ns)) = (time(stat.modified), time(stat.changed));
        let state = [file_system, stat.identity.inode, stat.size, modified, modified_ns, changed, changed_ns];
        Self(state, stat.kind)
    }

    /// A target of another type is not the copy itself: a followed symbolic link, for instance.
    fn stamp(&self, target: &Self) -> Stamp {
        if self.1 != target.1 || self.1 == FileType::Directory {
            return Stamp::NONE;
        }
        let bytes: Vec<u8> = self.0.iter().chain(&target.0).flat_map(|number| number.to_le_bytes()).collect();
        // 0 means no stamp.
        Stamp(xxh3_64(&bytes).max(1))
    }
}

/// An entry of a work item, as first seen.
#[derive(Debug)]
struct Seen {
    name: CString,
    source: Option<State>,
    /// Stamp of a skipped entry; otherwise [`Stamp::NONE`].
    kept: Stamp,
}

/// Entries of a journaled work item.
#[derive(Debug, Default)]
pub(crate) struct SeenEntries(Vec<Seen>);

impl SeenEntries {
    /// Stats the sources. Returns the entries seen, and the names that are left to process. `known`
    /// holds the stamps of an earlier run, in the order of the names.
    pub(crate) fn look<T: Distributed>(
        tool: &T,
        cache: &DirCache,
        (node, names): (&Arc<DirNode<T>>, Names),
        known: &[Stamp],
    ) -> (Self, Names) {
        let names = Arc::new(names);
        let known = if known.len() == names.len() { known } else { &[] };
        let directory = cache.open(&node.source).ok();
        let place = directory.as_ref().and_then(|directory| Place::new(directory));
        let (mut seen, mut left) = (Vec::with_capacity(names.len()), Names::new());
        for index in 0..names.len() {
            let (name, listed) = (names.name(index), names.entry(index));
            let entry = Entry { node: Arc::clone(node), name: name.into(), kind: listed.kind, seen: None };
            let source = place.as_ref().and_then(|place| {
                let stat = stat_path(Some(place.directory), name, tool.follow(&entry)).ok()?;
                Some(State::new(place.file_system, &stat))
            });
            let known = known.get(index).copied().filter(|known| *known != Stamp::NONE);
            let kept = known.filter(|known| *known == stamp(tool, cache, &entry, source.as_ref()));
            if kept.is_none() {
                left.push(name, listed.inode, listed.kind);
            }
            seen.push(Seen { name: name.to_owned(), source, kept: kept.unwrap_or_default() });
        }
        (Self(seen), left)
    }

    /// Stamps the entries for which `may_be` is true, in the order of the names. Detached entries
    /// (`is_detached`) are left out.
    pub(crate) fn stamps<T: Distributed>(
        &self,
        (tool, cache): (&T, &DirCache),
        node: &Arc<DirNode<T>>,
        is_detached: impl Fn(&CStr) -> bool,
        may_be: impl Fn(&Entry<T>) -> bool,
    ) -> Vec<Stamp> {
        let stamp_of = |seen: &Seen| {
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
struct Place<'a> {
    directory: &'a Fd,
    file_system: u64,
}

impl<'a> Place<'a> {
    fn new(directory: &'a Fd) -> Option<Self> {
        Some(Self { directory, file_system: file_system_id(directory).ok()? })
    }
}

/// Stamps an entry with the current state of its target. Returns no stamp if a `stat` fails.
fn stamp<T: Distributed>(tool: &T, cache: &DirCache, entry: &Entry<T>, source: Option<&State>) -> Stamp {
    let look = || {
        let (held, name) = tool.made(entry)?;
        let directory = cache.open(held).ok()?;
        let target = stat_at(&*directory, name).ok()?;
        Some(source?.stamp(&State::new(file_system_id(&*directory).ok()?, &target)))
    };
    look().unwrap_or_default()
}
