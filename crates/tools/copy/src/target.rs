//! Target directories, and the names of targets in them.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{DirCache, DirHandle, Entry, lock};
use haul_sys::{Error, Fd, FileRef, Identity, Mode, Pinned, Stat, stat_at};

use super::Copier;
use super::object::DEFAULT_ACCESS_LIST;
use super::options::{CopyOptions, Preserve};
use super::xattr_rules::SourceXattrs;

/// Directories created inside existing ones: the tops of new trees, each with its operand. A walk
/// that meets one has left its source, because the target is inside it.
#[derive(Debug, Default)]
pub(super) struct Tops {
    made: Mutex<HashMap<Identity, usize>>,
}

impl Tops {
    /// Records the top of a new tree. Returns false if it was recorded before: no two names lead to
    /// one new directory unless someone moves them.
    pub(super) fn record(&self, directory: Identity, operand: usize) -> bool {
        lock(&self.made).insert(directory, operand).is_none()
    }

    /// True if a directory with this inode number may be a top.
    #[cfg(feature = "distributed")]
    pub(super) fn may_be(&self, inode: u64) -> bool {
        lock(&self.made).keys().any(|top| top.inode == inode)
    }

    /// Returns the operand whose copy has `directory` as its top.
    pub(super) fn operand(&self, directory: Identity) -> Option<usize> {
        lock(&self.made).get(&directory).copied()
    }
}

/// Symbolic links created by this run, which must never be followed. Recorded only where symbolic
/// links to directories are followed.
#[derive(Debug)]
pub(super) struct MadeLinks(Option<Mutex<HashSet<Identity>>>);

impl MadeLinks {
    pub(super) fn new(are_kept: bool) -> Self {
        Self(are_kept.then(Mutex::default))
    }

    /// Creates a link and records it. The lock is held throughout, so nobody who follows the link
    /// can query it before it is recorded.
    pub(super) fn make(
        &self,
        directory: &Fd,
        name: &CStr,
        make: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(made) = &self.0 else { return make() };
        let mut made = lock(made);
        make()?;
        made.insert(stat_at(directory, name)?.identity);
        Ok(())
    }

    /// True if `name` is such a link. Query it only after following the name.
    pub(super) fn has(&self, directory: &Fd, name: &CStr) -> bool {
        self.0.as_ref().is_some_and(|made| {
            let made = lock(made);
            stat_at(directory, name).is_ok_and(|there| made.contains(&there.identity))
        })
    }
}

/// Targets created from operands; recorded only if there are several groups of operands.
#[derive(Debug)]
pub(super) struct MadeTargets(Option<Mutex<HashSet<MadeTarget>>>);

/// The path of a target, as it is shown, and its identity.
type MadeTarget = (Vec<u8>, Identity);

impl MadeTargets {
    pub(super) fn new(are_kept: bool) -> Self {
        Self(are_kept.then(Mutex::default))
    }

    pub(super) fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn record(&self, path: Vec<u8>, target: Identity) {
        if let Some(made) = &self.0 {
            lock(made).insert((path, target));
        }
    }

    pub(super) fn has(&self, path: Vec<u8>, target: Identity) -> bool {
        self.0.as_ref().is_some_and(|made| lock(made).contains(&(path, target)))
    }
}

/// Outcome of the first file created in a directory: owner and mode as requested, or not.
#[derive(Debug, Default)]
pub(super) struct CreationModes(AtomicU8);

const UNKNOWN: u8 = 0;
const AS_ASKED: u8 = 1;
const OTHERWISE: u8 = 2;

impl CreationModes {
    pub(super) fn learn(&self, as_asked: bool) {
        let found = if as_asked { AS_ASKED } else { OTHERWISE };
        // A mismatch is sticky.
        self.0.fetch_max(found, Ordering::Relaxed);
    }

    pub(super) fn are_as_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) == AS_ASKED
    }

    pub(super) fn are_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) == UNKNOWN
    }
}

/// State shared by the whole copy of one operand.
#[derive(Debug)]
pub(super) struct OperandCopy {
    /// Index of the operand.
    pub(super) index: usize,
    /// The source as the user named it.
    pub(super) source: Vec<u8>,
    /// The target's path in messages.
    pub(super) target: Vec<u8>,
    /// True if the target's parent doesn't exist (`missing/new`): creating the target then fails.
    pub(super) lacks_parent: bool,
    /// True once the target was reported to be inside the source.
    is_reported: AtomicBool,
}

impl OperandCopy {
    pub(super) fn new(index: usize, source: Vec<u8>, target: Vec<u8>, lacks_parent: bool) -> Self {
        Self { index, source, target, lacks_parent, is_reported: AtomicBool::new(false) }
    }

    /// True on the first call only.
    pub(super) fn reports_first(&self) -> bool {
        !self.is_reported.swap(true, Ordering::Relaxed)
    }
}

/// The copy tool's state for a directory being visited: the directory its entries are copied to.
#[derive(Debug)]
pub struct TargetDirectory {
    /// The directory.
    pub(super) held: Arc<DirHandle>,
    /// At an operand's parent, the name of the operand's copy.
    pub(super) rename: Option<CString>,
    /// The same directory in earlier copies (`--link-dest`).
    pub(super) earlier: Box<[Arc<DirHandle>]>,
    /// The operand it belongs to.
    pub(super) operand: Arc<OperandCopy>,
    /// Needed to finish the directory; `None` at an operand's parent.
    pub(super) made: Option<MadeDirectory>,
    /// True once sharing blocks with the source was refused here.
    pub(super) reflink_refused: AtomicBool,
    /// True if another user may replace its entries while they are created.
    pub(super) is_shared: bool,
    /// True if new entries inherit an ACL from it. Checked only if modes are preserved.
    pub(super) gives_access_list: bool,
    /// Decides if new files in it are created with their final mode.
    pub(super) creation_modes: CreationModes,
}

/// State needed to finish a target directory.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct MadeDirectory {
    /// The directory before this run; `None` if this run made it.
    pub(super) before: Option<Stat>,
    /// True if an interrupted run with the same journal made it.
    pub(super) is_unfinished: bool,
    /// Mode to set if the source's is not preserved; `None` if it already has it.
    pub(super) plain_mode: Option<Mode>,
    /// The source's xattrs, read while it was open.
    pub(super) xattrs: SourceXattrs,
}

/// Properties of a directory that operands are copied to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParentFacts {
    /// True if another user may replace its entries while they are created.
    pub(super) is_shared: bool,
    /// True if new entries inherit an ACL from it.
    pub(super) gives_access_list: bool,
}

impl TargetDirectory {
    /// Target of an operand: its copy becomes `name` in `held`.
    pub(super) fn place(
        held: Arc<DirHandle>,
        name: CString,
        operand: OperandCopy,
        facts: ParentFacts,
    ) -> Self {
        let ParentFacts { is_shared, gives_access_list } = facts;
        Self {
            held,
            rename: Some(name),
            earlier: Box::default(),
            operand: Arc::new(operand),
            made: None,
            reflink_refused: AtomicBool::new(false),
            is_shared,
            gives_access_list,
            creation_modes: CreationModes::default(),
        }
    }

    /// True if this run made it.
    pub(super) fn is_new(&self) -> bool {
        self.made.as_ref().is_some_and(|made| made.before.is_none())
    }

    /// True if interrupted runs with the same journal made every directory that is in it. Not where
    /// others may write: what those runs made there is finished, because its own permissions come
    /// last.
    pub(super) fn holds_unfinished(&self) -> bool {
        !self.is_shared && self.made.as_ref().is_some_and(|made| made.is_unfinished)
    }

    pub(super) fn refuse_reflink(&self) {
        self.reflink_refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn refuses_reflink(&self) -> bool {
        self.reflink_refused.load(Ordering::Relaxed)
    }
}

/// Returns the name of an entry's copy.
pub(super) fn target_name(entry: &Entry<Copier>) -> &CStr {
    entry.node.own.rename.as_deref().unwrap_or(entry.name())
}

/// True if a new file can get this name. For others, the kernel's error is the one that GNU cp
/// reports.
pub(super) fn is_plain_name(name: &CStr) -> bool {
    name != c"." && !name.to_bytes().ends_with(b"/")
}

/// Returns the path of an entry's copy, for messages.
pub(super) fn target_path(entry: &Entry<Copier>) -> Vec<u8> {
    match entry.is_operand() {
        true => entry.node.own.operand.target.clone(),
        false => entry.node.own.held.path_of(target_name(entry)),
    }
}

/// True if new entries of a directory inherit an ACL. Checked only if modes are preserved.
pub(super) fn gives_access_list(options: &CopyOptions, directory: FileRef<'_>) -> bool {
    options.preserves(Preserve::MODE) && has_default_list(directory)
}

/// The same for a directory that operands are copied to, whose handle only allows lookups.
pub(super) fn gives_operands_access_list(
    options: &CopyOptions,
    cache: &DirCache,
    held: &Arc<DirHandle>,
) -> bool {
    let pin = || cache.open(held).and_then(|place| Pinned::open(&*place, c"."));
    options.preserves(Preserve::MODE) && pin().is_ok_and(|pinned| has_default_list(FileRef::Pinned(&pinned)))
}

fn has_default_list(directory: FileRef<'_>) -> bool {
    match directory.list_xattrs() {
        Ok(names) => names.iter().any(|key| key == DEFAULT_ACCESS_LIST),
        Err(_) => directory.get_xattr(DEFAULT_ACCESS_LIST).is_ok(),
    }
}
