//! Stamps: the state that source and target of an entry were in when the entry was done, so that a later run can skip it if
//! both are still what they were.
//!
//! ```text
//! part arrives ─► look at each source ─► known stamp = source now + target now? ── yes ─► skipped
//!                                                 │ no
//!                                                 ▼
//!                                  copied ─► flushed ─► look at the target ─► new stamp
//! ```
//!
//! The source is looked at *before* it is opened and the target *after* everything is done, so a source that changes in
//! between has another state than its stamp says, and is copied again. A stamp covers the file system's id, inode number,
//! type, size, and the times of modification and change of both. The device number is left out: it differs between hosts.
//!
//! Invariant: only a whole entry gets a stamp (tests: `cli/tests/cluster/journal.rs`).

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{DirCache, DirNode, Entry};
use haul_sys::{Fd, FileType, Names, Stat, file_system_id, stat_at, stat_path};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::distributed::Distributed;

/// The state of an entry's source and target, as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp(pub u64);

impl Stamp {
    /// No stamp: the entry is never skipped.
    pub const NONE: Self = Self(0);
}

/// One run of a copy that may take several: what names of files in the making are derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunId {
    /// The number that all runs with one journal share.
    pub number: u64,
    /// Which of them this is, the first being 1.
    pub epoch: u32,
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State([u64; 7], FileType);

impl State {
    fn new(file_system: u64, stat: &Stat) -> Self {
        let time = |time: haul_sys::Timestamp| (time.seconds.cast_unsigned(), u64::from(time.nanoseconds));
        let ((modified, modified_ns), (changed, changed_ns)) = (time(stat.modified), time(stat.changed));
        let state = [file_system, stat.identity.inode, stat.size, modified, modified_ns, changed, changed_ns];
        Self(state, stat.kind)
    }

    /// A target of another type is not a copy of its own: it is a link that was followed, say.
    fn stamp(&self, target: &Self) -> Stamp {
        if self.1 != target.1 || self.1 == FileType::Directory {
            return Stamp::NONE;
        }
        let bytes: Vec<u8> = self.0.iter().chain(&target.0).flat_map(|number| number.to_le_bytes()).collect();
        Stamp(xxh3_64(&bytes).max(1))
    }
}

/// An entry of a part as it was found.
#[derive(Debug)]
struct Seen {
    name: CString,
    source: Option<State>,
    /// The stamp of an entry that is skipped.
    kept: Stamp,
}

/// The entries of a part that is journaled.
#[derive(Debug, Default)]
pub(crate) struct SeenEntries(Vec<Seen>);

impl SeenEntries {
    /// Looks at the sources; returns what was seen and the names that are to be done. `known` are the stamps of an earlier
    /// run, in the order of the names.
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

    /// Stamps the entries that `may_be` stamped, in the order of the names, without those that are `apart`.
    pub(crate) fn stamps<T: Distributed>(
        &self,
        (tool, cache): (&T, &DirCache),
        node: &Arc<DirNode<T>>,
        apart: impl Fn(&CStr) -> bool,
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
        self.0.iter().filter(|seen| !apart(&seen.name)).map(stamp_of).collect()
    }

    /// Stamps one entry.
    pub(crate) fn stamp_of<T: Distributed>(&self, tool: &T, cache: &DirCache, entry: &Entry<T>) -> Stamp {
        let seen = self.0.iter().find(|seen| seen.name.as_c_str() == entry.name());
        seen.map_or(Stamp::NONE, |seen| stamp(tool, cache, entry, seen.source.as_ref()))
    }
}

/// An open directory, and the file system it is on.
struct Place<'a> {
    directory: &'a Fd,
    file_system: u64,
}

impl<'a> Place<'a> {
    fn new(directory: &'a Fd) -> Option<Self> {
        Some(Self { directory, file_system: file_system_id(directory).ok()? })
    }
}

/// Stamps an entry by the state of its target now. What cannot be looked at gets no stamp.
fn stamp<T: Distributed>(tool: &T, cache: &DirCache, entry: &Entry<T>, source: Option<&State>) -> Stamp {
    let look = || {
        let (held, name) = tool.made(entry)?;
        let directory = cache.open(held).ok()?;
        let target = stat_at(&*directory, name).ok()?;
        Some(source?.stamp(&State::new(file_system_id(&*directory).ok()?, &target)))
    };
    look().unwrap_or_default()
}
