//! Finds an entry's counterpart in the second tree.
//!
//! Each directory of the first tree has a handle on its counterpart, and an entry's counterpart
//! has the same name there. It is examined before it is opened, so that FIFOs and devices are
//! never opened.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{Context, DirHandle, Entry, OpenDir, Problem};
use haul_sys::{DirectoryReader, EntryType, Errno, Error, Fd, FileType, NameArena, Open, Stat};
use haul_sys::{open, stat_at, stat_path};

use super::CompareKind;
use super::Comparer;
use super::difference::{EntryKind, FoundDifference, Side, What};
use super::findings::{EntryResult, Linked};
use super::options::Attributes;

/// The counterpart of a directory in the first tree.
pub struct CounterpartDirectory {
    pub(super) held: Arc<DirHandle>,
    /// Name of an operand's counterpart, which may differ from the operand's.
    pub(super) name: Option<CString>,
}

impl CounterpartDirectory {
    pub(super) fn name<'a>(&'a self, entry: &'a Entry<Comparer>) -> &'a CStr {
        self.name.as_deref().unwrap_or_else(|| entry.name())
    }
}

/// The `stat` results of an entry and its counterpart.
pub(super) struct StatPair {
    pub(super) first: Stat,
    pub(super) second: Stat,
}

pub(super) fn second_path(entry: &Entry<Comparer>) -> Vec<u8> {
    let counterpart = &entry.node.own;
    counterpart.held.path_of(counterpart.name(entry))
}

/// Creates a difference between an entry and its counterpart.
pub(super) fn difference(entry: &Entry<Comparer>, what: What) -> FoundDifference {
    FoundDifference { first: entry.path(), second: second_path(entry), what }
}

/// Creates the difference for an entry that exists on one side only.
pub(super) fn only(directory: Vec<u8>, name: &CStr, side: Side) -> What {
    What::OnlyIn(side, directory, name.to_bytes().to_vec())
}

impl Comparer {
    /// True if a symbolic link is followed, in both trees alike.
    pub(super) fn follows_here(&self, entry: &Entry<Self>) -> bool {
        self.options.dereference || entry.is_operand()
    }

    pub(super) fn trouble(cx: &Context<'_, Self>, kind: CompareKind, path: Vec<u8>, cause: Error) {
        cx.problem(Problem::new(kind).naming(path).because(cause));
    }

    pub(super) fn emit_result(cx: &Context<'_, Self>, entry: &Entry<Self>, result: &EntryResult) {
        if !result.is_empty() {
            cx.emit(entry, postcard::to_allocvec(result).unwrap_or_default());
        }
    }

    pub(super) fn emit_difference(cx: &Context<'_, Self>, entry: &Entry<Self>, what: What) {
        let differences = vec![difference(entry, what)];
        Self::emit_result(cx, entry, &EntryResult { differences, linked: None });
    }

    /// Looks up an entry's counterpart. Returns `None` if nothing is left to compare: the
    /// counterpart is missing or of another type, which is a difference; it is the same file; or it
    /// can't be examined, which is reported.
    pub(super) fn pair(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, first: &Stat) -> Option<StatPair> {
        let second = match self.look(cx, entry) {
            Ok(second) => second,
            Err(cause) if cause.is(Errno::NOENT) && !entry.is_operand() && !self.dangles(cx, entry) => {
                let what = only(entry.node.source.path(), entry.name(), Side::First);
                Self::emit_difference(cx, entry, what);
                return None;
            }
            Err(cause) => {
                Self::trouble(cx, CompareKind::CannotStat, second_path(entry), cause);
                return None;
            }
        };
        if second.kind != first.kind {
            Self::emit_difference(cx, entry, What::Types(kind(first), kind(&second)));
            return None;
        }
        let pair = StatPair { first: *first, second };
        if pair.second.identity != pair.first.identity {
            return Some(pair);
        }
        // Its hard links may still differ between the trees.
        if let Some(linked) = self.linked(entry, &pair) {
            Self::emit_result(cx, entry, &EntryResult { differences: Vec::new(), linked: Some(linked) });
        }
        None
    }

    /// True if an entry's counterpart is a link that leads nowhere.
    pub(super) fn dangles(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> bool {
        let counterpart = &entry.node.own;
        let look = |directory: Arc<Fd>| stat_at(&*directory, counterpart.name(entry));
        self.follows_here(entry) && cx.cache().open(&counterpart.held).and_then(look).is_ok()
    }

    pub(super) fn look(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Result<Stat, Error> {
        let counterpart = &entry.node.own;
        let directory = cx.cache().open(&counterpart.held)?;
        stat_path(Some(&*directory), counterpart.name(entry), self.follows_here(entry))
    }

    /// Opens an entry's counterpart, a file or a directory.
    pub(super) fn open_second(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, how: Open) -> Option<Fd> {
        let counterpart = &entry.node.own;
        let how = if self.follows_here(entry) { how.following() } else { how };
        let opened = cx
            .cache()
            .open(&counterpart.held)
            .and_then(|parent| open(&*parent, counterpart.name(entry), how));
        match opened {
            Ok(fd) => Some(fd),
            Err(cause) => {
                Self::trouble(cx, CompareKind::CannotOpen, second_path(entry), cause);
                None
            }
        }
    }

    /// Returns a record for the hard-link comparison, if that is requested and either file has
    /// several names.
    pub(super) fn linked(&self, entry: &Entry<Self>, pair: &StatPair) -> Option<Linked> {
        let several = pair.first.links > 1 || pair.second.links > 1;
        let several = several && pair.first.kind != FileType::Directory;
        let compared = self.options.attributes.contains(Attributes::LINKS);
        (several && compared).then(|| Linked {
            first: entry.path(),
            second: second_path(entry),
            files: (pair.first.identity, pair.second.identity),
        })
    }

    /// Creates a handle on an entered directory's counterpart.
    pub(super) fn hold(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        fd: Arc<Fd>,
        stat: &Stat,
    ) -> CounterpartDirectory {
        let above = &entry.node.own;
        let how = if self.follows_here(entry) { Open::DIRECTORY.following() } else { Open::DIRECTORY };
        let held = cx.cache().hold(&above.held, above.name(entry), how, stat.identity, Some(fd));
        CounterpartDirectory { held, name: None }
    }

    /// Finds the entries that the selection takes only in the second of two directories.
    ///
    /// The first is listed through a new descriptor, because the walk's descriptor holds the
    /// walk's offset.
    pub(super) fn only_in_second(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
        second: &Fd,
    ) -> Vec<FoundDifference> {
        let Ok(source) = opened.source else { return Vec::new() };
        let scope = opened.scope.map(Arc::as_ref);
        let listed = self.readers.with(DirectoryReader::default, |reader| {
            let theirs = list(reader, second).map_err(|cause| (second_path(entry), cause))?;
            let ours = open(&**source, c".", Open::DIRECTORY).and_then(|fd| {
                let names = list(reader, &fd)?;
                fd.close()?;
                Ok(names)
            });
            ours.map(|ours| (ours, theirs)).map_err(|cause| (entry.path(), cause))
        });
        match listed {
            Ok((ours, theirs)) => {
                let known: HashMap<_, _> = entries(&ours).collect();
                let what = |name: &CStr, kind| match known.get(name) {
                    None => self
                        .is_selected_in_second(cx, scope, (second, name), kind)
                        .then(|| only(second_path(entry), name, Side::Second)),
                    Some(ours) => {
                        self.excluded_in_first(cx, scope?, name, [(&**source, *ours), (second, kind)])
                    }
                };
                let difference = |(name, kind): (&CStr, EntryType)| {
                    let what = what(name, kind)?;
                    let [first, second] =
                        [entry.path(), second_path(entry)].map(|path| joined(&path, name.to_bytes()));
                    Some(FoundDifference { first, second, what })
                };
                entries(&theirs).filter_map(difference).collect()
            }
            Err((path, cause)) => {
                Self::trouble(cx, CompareKind::CannotList, path, cause);
                Vec::new()
            }
        }
    }
}

fn list(reader: &mut DirectoryReader, directory: &Fd) -> Result<NameArena, Error> {
    let mut names = NameArena::new();
    while reader.read(directory, &mut names, usize::MAX)? {}
    Ok(names)
}

/// Returns a file's type as `diff` names it.
pub(super) fn kind(stat: &Stat) -> EntryKind {
    EntryKind { kind: stat.kind, is_empty: stat.kind == FileType::Regular && stat.size == 0 }
}

/// Joins a directory's path, which may end in slashes, and a name.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let end = directory.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    [&directory[..end], b"/", name].concat()
}

fn entries(names: &NameArena) -> impl Iterator<Item = (&CStr, EntryType)> {
    (0..names.len()).map(|index| (names.name(index), names.entry(index).kind))
}
