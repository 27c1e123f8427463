//! Where copies go: target directories, and the names of targets in them.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_flow::{Context, DirHandle, Entry, Problem, Wording};
use haul_sys::{Errno, Error, Fd, Identity, Mode, Stat, stat_at, stat_path};

use super::Copier;
use super::attributes::SourceXattrs;
use super::creation_mode::CreationModes;
use super::wording;

/// The directories made in ones that were there before: the tops of what is new, each with the operand it is of. A walk
/// that meets one has left its source: the target is in it.
#[derive(Debug, Default)]
pub(super) struct Tops {
    made: Mutex<HashMap<Identity, usize>>,
}

impl Tops {
    /// Records the top of a new tree. Returns false if it is one already: no two names lead to one new directory,
    /// unless somebody moves them about.
    pub(super) fn record(&self, directory: Identity, operand: usize) -> bool {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(directory, operand).is_none()
    }

    /// Tells whether a directory with this inode number may be one of them.
    pub(super) fn may_be(&self, inode: u64) -> bool {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).keys().any(|top| top.inode == inode)
    }

    /// Returns the operand whose copy a directory is the top of.
    pub(super) fn operand(&self, directory: Identity) -> Option<usize> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).get(&directory).copied()
    }
}

/// The symbolic links that this run has made, kept only where symbolic links to directories are followed: none of these is.
#[derive(Debug)]
pub(super) struct MadeLinks(Option<Mutex<HashSet<Identity>>>);

impl MadeLinks {
    pub(super) fn new(are_kept: bool) -> Self {
        Self(are_kept.then(Mutex::default))
    }

    /// Makes a link and records it. Nobody who follows it can ask about it before it is recorded: the lock is held meanwhile.
    pub(super) fn make(
        &self,
        directory: &Fd,
        name: &CStr,
        make: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(made) = &self.0 else { return make() };
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        make()?;
        made.insert(stat_at(directory, name)?.identity);
        Ok(())
    }

    /// True if a name is that of such a link. To be asked after the name was followed.
    pub(super) fn has(&self, directory: &Fd, name: &CStr) -> bool {
        self.0.as_ref().is_some_and(|made| {
            let made = made.lock().unwrap_or_else(PoisonError::into_inner);
            stat_at(directory, name).is_ok_and(|there| made.contains(&there.identity))
        })
    }
}

/// One operand's copy: what its whole tree has in common.
#[derive(Debug)]
pub(super) struct Copy {
    /// Which of the operands it is of, in their order.
    pub(super) index: usize,
    /// The source as the user named it.
    pub(super) source: Vec<u8>,
    /// The target as messages name it.
    pub(super) target: Vec<u8>,
    /// Whether the user has been told that the target is in the source; once is enough.
    told: AtomicBool,
}

impl Copy {
    /// Records one operand's copy.
    pub(super) fn new(index: usize, source: Vec<u8>, target: Vec<u8>) -> Self {
        Self { index, source, target, told: AtomicBool::new(false) }
    }

    /// Tells whether this is the first time that it is asked.
    pub(super) fn tells_first(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

/// What the copy tool keeps for each directory being visited: the directory its entries are copied to.
#[derive(Debug)]
pub struct TargetDirectory {
    /// The directory.
    pub(super) held: Arc<DirHandle>,
    /// For the place of an operand, the name its copy gets.
    pub(super) rename: Option<CString>,
    /// The operand it belongs to.
    pub(super) copy: Arc<Copy>,
    /// What is to be done when it is left; nothing for the place of an operand.
    pub(super) made: Option<MadeDirectory>,
    /// Whether sharing blocks with the source was refused here.
    pub(super) reflink_refused: AtomicBool,
    /// True if somebody else may exchange its entries while they are made.
    pub(super) is_shared: bool,
    /// Whether new entries inherit an access list from it. Looked at only where modes are preserved.
    pub(super) gives_access_list: bool,
    /// What new files in it are born with.
    pub(super) creation_modes: CreationModes,
}

/// What leaving a target directory needs to know.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct MadeDirectory {
    /// What it was before; `None` if it was made by this run.
    pub(super) before: Option<Stat>,
    /// The mode it gets if the source's is not preserved, if it does not have it yet.
    pub(super) plain_mode: Option<Mode>,
    /// The source's extended attributes, read while it was open.
    pub(super) xattrs: SourceXattrs,
}

impl TargetDirectory {
    /// Makes the place of the `index`-th operand: `name` in `held` is where its copy goes.
    pub(super) fn place(
        held: Arc<DirHandle>,
        name: CString,
        (source, target): (Vec<u8>, Vec<u8>),
        index: usize,
        (is_shared, gives_access_list): (bool, bool),
    ) -> Self {
        let copy = Arc::new(Copy::new(index, source, target));
        Self {
            held,
            rename: Some(name),
            copy,
            made: None,
            reflink_refused: AtomicBool::new(false),
            is_shared,
            gives_access_list,
            creation_modes: CreationModes::default(),
        }
    }

    /// Tells whether it is reached through a symbolic link, if one is in its place.
    pub(super) fn follows(&self) -> bool {
        self.held.follows()
    }

    /// Tells whether it was made by this run.
    pub(super) fn is_new(&self) -> bool {
        self.made.as_ref().is_some_and(|made| made.before.is_none())
    }

    /// Remembers that blocks cannot be shared between source and target here.
    pub(super) fn refuse_reflink(&self) {
        self.reflink_refused.store(true, Ordering::Relaxed);
    }

    /// Tells whether sharing blocks was refused here.
    pub(super) fn refuses_reflink(&self) -> bool {
        self.reflink_refused.load(Ordering::Relaxed)
    }
}

/// Returns the name an entry's copy gets.
pub(super) fn target_name(entry: &Entry<Copier>) -> &CStr {
    entry.node.own.rename.as_deref().unwrap_or(entry.name())
}

/// Returns the path of an entry's copy, as messages name it.
pub(super) fn target_path(entry: &Entry<Copier>) -> Vec<u8> {
    match entry.is_operand() {
        true => entry.node.own.copy.target.clone(),
        false => entry.node.own.held.path_of(target_name(entry)),
    }
}

/// Returns the path under which what is in an operand's copy is named; `None` below, where it follows from the names.
pub(super) fn shown_directory(entry: &Entry<Copier>) -> Option<Vec<u8>> {
    let target = &entry.node.own.copy.target;
    let end = target.iter().rposition(|byte| *byte != b'/').map_or(target.len(), |last| last + 1);
    entry.is_operand().then(|| target[..end].to_vec())
}

/// Words a failure that is about an entry's copy.
pub(super) fn problem(entry: &Entry<Copier>, wording: Wording, cause: Error) -> Problem {
    Problem::new(wording).naming(target_path(entry)).because(cause)
}

/// Words the failure to make an entry's copy. GNU looks at the place first, unless it has just made the directory, and
/// says so when it cannot: a name that is too long, or goes through a file.
pub(super) fn failure(entry: &Entry<Copier>, directory: &Fd, wording: Wording, cause: Error) -> Problem {
    let above = &entry.node.own.made;
    let above_is_new = above.as_ref().is_some_and(|made| made.before.is_none());
    let problem = |wording, cause| Problem::new(wording).naming(target_path(entry)).because(cause);
    match stat_path(Some(directory), target_name(entry), true) {
        Err(looked) if !above_is_new && !looked.is(Errno::NOENT) => problem(wording::CANNOT_STAT, looked),
        _ => problem(wording, cause),
    }
}

/// Words why what was just made does not get its attributes: something else is in its place, or the cause.
pub(super) fn not_ours(entry: &Entry<Copier>, wording: Wording, cause: Error) -> Problem {
    match cause.is(Errno::STALE) {
        true => Problem::new(wording::REPLACED_WHILE_MADE).naming(target_path(entry)),
        false => problem(entry, wording, cause),
    }
}

impl Copier {
    /// Opens the directory in which an entry's copy is made. GNU tells of an entry before it finds that there is none.
    pub(super) fn open_place(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Result<Arc<Fd>, Error> {
        let opened = open_directory(cx, entry);
        if opened.as_ref().is_err_and(|cause| cause.is(Errno::NOENT)) {
            self.tell_copied(cx, entry);
        }
        opened
    }
}

/// Opens the directory an entry's copy goes to.
pub(super) fn open_directory(cx: &Context<'_, Copier>, entry: &Entry<Copier>) -> Result<Arc<Fd>, Error> {
    cx.cache().open(&entry.node.own.held)
}
