//! Removes the entries that a survey found, with everything below them, from the leaves up.
//!
//! Every directory is opened below its parent's descriptor, and no link is followed. An entry must
//! be what the survey found, and the source must still not have it. Below it, only directories are
//! entered that were there when the entries were counted, and whose entries are still the same. So
//! a directory that has taken the place of another, or that somebody uses, is left alone with all
//! that is in it.
//!
//! With ranks, these remove the files (`distributed.rs`).

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{
    BackupDirectory, CancelToken, Context, DirHandle, DirNode, Enter, Entry, EntryFailure, EntryOutcome,
    EntryReport, Handled, OpenDir, OpenSource, Original, OutputLine, Plan, Policy, Problem, Reported, Room,
    Scope, Selector, Start, Tool, lock, path_below,
};
use haul_sys::{
    EntryType, Errno, Error, Fd, FileType, Identity, Mode, Stat, Times, Timestamp, change_mode, change_times,
    is_mount_root, remove, remove_directory, stat, stat_at, stat_path,
};

use super::kind::DeleteKind;
use super::options::Options;

/// Errors of a lookup by a name that the file system can't have: too long, or in another encoding.
const IMPOSSIBLE_NAME: [Errno; 3] = [Errno::NAMETOOLONG, Errno::INVAL, Errno::ILSEQ];

/// Survey results for a directory's entries.
#[derive(Default)]
pub struct Surveyed {
    /// The rules that hold for them, if any do.
    scope: Option<Arc<Scope>>,
    /// The directory in which the source must not have them; `None` if that doesn't matter.
    source: Option<Arc<DirHandle>>,
    /// True if some of them stay, so that the directory does.
    keeps_some: AtomicBool,
    /// When the directory was last accessed and modified, to be set again; `None` if the times that
    /// the deletion gives it stay.
    times: Option<Times>,
}

impl Surveyed {
    /// Creates the state for entries to which the rules of `scope` apply.
    pub(super) fn under(scope: Option<Arc<Scope>>, source: Option<Arc<DirHandle>>) -> Self {
        Self { scope, source, ..Self::default() }
    }

    /// Records the times of the directory.
    pub(super) fn keep_times(&mut self, times: Option<Times>) {
        self.times = times;
    }

    /// Returns the directory in which the source must not have the entries.
    #[cfg(feature = "distributed")]
    pub(super) fn source(&self) -> Option<&Arc<DirHandle>> {
        self.source.as_ref()
    }

    /// Returns the same for another run.
    pub(super) fn again(&self) -> Self {
        Self::under(self.scope.clone(), self.source.clone())
    }
}

/// Stage of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Count,
    Delete,
}

/// The tool that counts the entries to delete, and deletes them.
pub struct Deleter {
    stage: Stage,
    options: Options,
    /// Path of the target, for messages.
    target: Vec<u8>,
    selector: Selector,
    cancel: CancelToken,
    /// True if nothing more may be deleted.
    is_stopped: AtomicBool,
    /// Backups of deleted entries (`--backup-dir`).
    backup_directory: Option<BackupDirectory>,
    /// Where the run waits for room for backups.
    room: Option<Room>,
    /// Held while a read-only directory is made writable.
    writable: Mutex<()>,
    /// The directories that were counted, each with its last modification then.
    known: Mutex<HashMap<Identity, Timestamp>>,
    counted: AtomicU64,
}

impl Deleter {
    /// Creates the tool that counts. Entries that `selector` leaves out stay.
    pub(super) fn counting(options: Options, target: &CStr, selector: Selector, cancel: CancelToken) -> Self {
        let (known, counted) = (Mutex::default(), AtomicU64::new(0));
        let target = target.to_bytes().to_vec();
        let backup_directory = options.backup_place.clone().map(BackupDirectory::new);
        let room = options.waits_for_room.then(|| Room::new(cancel.clone()));
        let (stage, is_stopped, writable) = (Stage::Count, AtomicBool::new(false), Mutex::default());
        Self {
            stage,
            options,
            target,
            selector,
            cancel,
            is_stopped,
            backup_directory,
            room,
            writable,
            known,
            counted,
        }
    }

    /// Returns the tool that deletes the entries that this one has counted.
    pub(super) fn deleting(self) -> Self {
        Self { stage: Stage::Delete, ..self }
    }

    /// True if directories are to have the times that they had before.
    pub(super) fn restores_times(&self) -> bool {
        self.options.keeps_times && !self.options.dry_run
    }

    /// Returns how many entries were counted.
    pub(super) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    #[cfg(feature = "distributed")]
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the path of the target, for messages.
    #[cfg(feature = "distributed")]
    pub(super) fn target(&self) -> &[u8] {
        &self.target
    }

    /// Deletes nothing more.
    #[cfg(feature = "distributed")]
    pub(super) fn stop(&self) {
        // Relaxed: nothing depends on when exactly others see it.
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Records that an entry stays, in the process that walks ([`Tool::emitted`]).
    fn keep(cx: &Context<'_, Self>, entry: &Entry<Self>) {
        cx.emit(entry, Vec::new());
    }

    /// True if it is known without a look at an entry that it doesn't stay.
    #[cfg(feature = "distributed")]
    pub(super) fn is_selected_by_name(&self, entry: &Entry<Self>) -> bool {
        let is_excluded = |scope: &Scope| self.selector.excludes(scope, entry.name(), entry.kind);
        !self.selector.has_limits()
            && !entry.node.own.scope.as_deref().is_some_and(is_excluded)
            && !self.may_be_own(entry)
    }

    /// True if an entry has the inode number of one of the program's own files.
    fn may_be_own(&self, entry: &Entry<Self>) -> bool {
        self.options.own_files.iter().any(|own| own.inode == entry.name.inode())
    }

    fn cannot_remove(path: Vec<u8>, cause: Error) -> Problem {
        Problem::new(DeleteKind::CannotRemove).naming(path).because(cause)
    }

    /// Returns the problem of an entry that can't be looked at.
    fn cannot_look(&self, path: Vec<u8>, cause: Error) -> Problem {
        match self.stage {
            Stage::Count => Problem::new(DeleteKind::CannotList).naming(path).because(cause),
            Stage::Delete => Self::cannot_remove(path, cause),
        }
    }

    /// True if an entry that the survey found is still only in the target. `there` is what has its
    /// name there now.
    fn is_extra(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, there: &Stat) -> Result<bool, Problem> {
        if there.identity.inode != entry.name.inode() || EntryType::from(there.kind) != entry.kind {
            return Err(Problem::new(DeleteKind::Replaced).naming(entry.path()));
        }
        let Some(source) = &entry.node.own.source else { return Ok(true) };
        let in_source = cx
            .cache()
            .open(source)
            .and_then(|directory| stat_path(Some(&*directory), entry.name(), self.options.follows));
        match in_source {
            Err(cause) if IMPOSSIBLE_NAME.contains(&cause.errno()) || cause.is(Errno::NOENT) => Ok(true),
            // A directory is removed in favour of anything else.
            Ok(source) => Ok(there.kind == FileType::Directory && source.kind != FileType::Directory),
            Err(cause) => Err(Self::cannot_remove(entry.path(), cause)),
        }
    }

    /// True for one of the program's own files.
    fn is_own(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> bool {
        let own = &self.options.own_files;
        let look = || stat_at(&*cx.cache().open(&entry.node.source)?, entry.name());
        // The inode number in the listing rules out most of them without a `stat`.
        self.may_be_own(entry) && look().is_ok_and(|there| own.contains(&there.identity))
    }

    fn remove_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Result<(), Problem> {
        let failed = |cause| Self::cannot_remove(entry.path(), cause);
        let directory = cx.cache().open(&entry.node.source).map_err(failed)?;
        if entry.is_operand() {
            match stat_at(&*directory, entry.name()) {
                Ok(there) if self.is_extra(cx, entry, &there)? => {}
                Err(cause) if !cause.is(Errno::NOENT) => return Err(failed(cause)),
                _ => return Ok(()),
            }
        }
        match self.remove_or_keep(cx, entry, &directory) {
            Ok(()) => self.report_deleted(cx, DeleteKind::Removed, entry.path()),
            Err(cause) if cause.is(Errno::NOENT) && is_gone(&directory, entry.name()) => {}
            Err(cause) => return Err(failed(cause)),
        }
        Ok(())
    }

    fn remove_or_keep(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        directory: &Fd,
    ) -> Result<(), Error> {
        match &self.backup_directory {
            _ if self.options.dry_run => Ok(()),
            None => self.with_permission(directory, || remove(directory, entry.name())),
            Some(backup) => {
                let path = entry.node.source.path();
                let original = Original { directory, below: path_below(&path, &self.target) };
                let take = || backup.take(cx.cache(), original, entry.name());
                self.with_permission(directory, || match &self.room {
                    Some(room) => room.retry(cx.report(), &|| entry.path(), take),
                    None => take(),
                })
            }
        }
    }

    /// Removes a name from `directory` with `remove_name`. If the owner of the directory may not
    /// write to it, it is made writable for the duration, as rsync does.
    fn with_permission(
        &self,
        directory: &Fd,
        remove_name: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let refused = match remove_name() {
            Err(cause) if cause.is(Errno::ACCESS) => cause,
            outcome => return outcome,
        };
        // Another worker must not take the permission for one that the directory had.
        let _turn = lock(&self.writable);
        let mode = stat(directory)?.mode;
        let lacks_permission = mode.or(Mode::OWNER) != mode;
        // Nobody but the owner can.
        if lacks_permission && change_mode(directory, mode.or(Mode::OWNER)).is_err() {
            return Err(refused);
        }
        let outcome = remove_name();
        if lacks_permission {
            change_mode(directory, mode)?;
        }
        outcome
    }

    /// Removes a directory that is empty now.
    fn remove_emptied(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) -> Result<(), Problem> {
        let (Some(above), Some(stat)) = (&node.parent, &node.stat) else { return Ok(()) };
        let name: &CStr = node.source.name();
        let failed = |cause| Self::cannot_remove(node.source.path(), cause);
        if !self.options.dry_run {
            // Once this directory is gone, an evicted parent can only be reopened from the top.
            cx.cache().reopen_parent(&node.source);
            let directory = cx.cache().open(&above.source).map_err(failed)?;
            match stat_at(&*directory, name) {
                Ok(there) if there.identity == stat.identity => {}
                Ok(_) => return Err(Problem::new(DeleteKind::Replaced).naming(node.source.path())),
                Err(cause) if cause.is(Errno::NOENT) => return Ok(()),
                Err(cause) => return Err(failed(cause)),
            }
            self.with_permission(&directory, || remove_directory(&*directory, name)).map_err(failed)?;
        }
        self.report_deleted(cx, DeleteKind::RemovedDirectory, node.source.path());
        Ok(())
    }

    /// Gives a directory the times that it had before entries were removed from it.
    fn restore_times(cx: &Context<'_, Self>, node: &DirNode<Self>) {
        let Some(times) = node.own.times else { return };
        let set = cx.cache().open(&node.source).and_then(|fd| change_times(&*fd, times));
        if let Err(cause) = set {
            cx.problem(Problem::new(DeleteKind::Times).naming(node.source.path()).because(cause));
        }
    }

    fn report_deleted(&self, cx: &Context<'_, Self>, kind: DeleteKind, path: Vec<u8>) {
        cx.count_entry(EntryOutcome::Deleted, |outcome| EntryReport::new(outcome, path.clone()));
        if self.options.itemize {
            let slash = if kind == DeleteKind::RemovedDirectory { "/" } else { "" };
            let below = [path_below(&path, &self.target), slash.as_bytes()].concat();
            cx.report().line(OutputLine::new(DeleteKind::Itemized, vec![below]));
        } else if self.options.verbose {
            cx.report().line(OutputLine::new(kind, vec![path]));
        }
    }

    /// Checks a directory before it is entered.
    fn may_enter(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Result<bool, Problem> {
        let identity = opened.stat.identity;
        let fd = opened.source.map_err(|cause| self.cannot_look(entry.path(), cause.clone()))?;
        let is_elsewhere = identity.device != entry.node.source.identity().device
            || is_mount_root(fd).map_err(|cause| self.cannot_look(entry.path(), cause))?;
        match self.stage {
            _ if self.options.source_parts.contains(&identity) => {
                Err(Problem::new(DeleteKind::IsSource).naming(entry.path()))
            }
            _ if is_elsewhere => match self.options.one_file_system {
                true => Ok(false),
                false => Err(Problem::new(DeleteKind::MountPoint).naming(entry.path())),
            },
            Stage::Count => {
                lock(&self.known).insert(identity, opened.stat.modified);
                self.counted.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
            Stage::Delete => {
                let problem = |kind| Err(Problem::new(kind).naming(entry.path()));
                match lock(&self.known).get(&identity) {
                    None => return problem(DeleteKind::Replaced),
                    Some(modified) if *modified != opened.stat.modified => {
                        return problem(DeleteKind::Changed);
                    }
                    Some(_) => {}
                }
                Ok(!entry.is_operand() || self.is_extra(cx, entry, opened.stat)?)
            }
        }
    }
}

impl Tool for Deleter {
    type Directory = Surveyed;
    type File = ();

    fn policy(&self) -> Policy {
        Policy { starts_workers_late: true, cancel: self.cancel.clone(), ..Policy::default() }
    }

    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        let is_selected = || {
            let scope = entry.node.own.scope.as_deref();
            let selects = |directory: &Fd| self.selector.selects(scope, directory, entry.name(), kind);
            (scope.is_none() && !self.selector.has_limits())
                || cx.cache().open(&entry.node.source).is_ok_and(|directory| selects(&directory))
        };
        // The survey has judged the entries of a directory of both trees.
        let is_kept = || !entry.is_operand() && (!is_selected() || self.is_own(cx, entry));
        if self.cancel.is_cancelled() || self.is_stopped.load(Ordering::Relaxed) || is_kept() {
            Self::keep(cx, entry);
            return Plan::Skip;
        }
        if kind == EntryType::Directory { Plan::Enter } else { Plan::Handle }
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<Surveyed> {
        match self.may_enter(cx, entry, opened) {
            Ok(true) => {}
            Ok(false) => {
                Self::keep(cx, entry);
                return Enter::Done;
            }
            Err(problem) => {
                Self::keep(cx, entry);
                cx.problem(problem);
                return Enter::Done;
            }
        }
        let above = &entry.node.own.scope;
        let scope = above.as_ref().map(|above| self.selector.below(above, entry.name()));
        Enter::Visit(Surveyed::under(scope, None))
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        if self.stage == Stage::Count {
            self.counted.fetch_add(1, Ordering::Relaxed);
        } else if let Err(problem) = self.remove_file(cx, entry) {
            Self::keep(cx, entry);
            cx.problem(problem);
        }
        Handled::Done
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        if self.stage == Stage::Count {
            return;
        }
        if node.holds_operands() {
            return Self::restore_times(cx, node);
        }
        let mut stays =
            node.own.keeps_some.load(Ordering::Relaxed) || self.is_stopped.load(Ordering::Relaxed);
        if !stays && let Err(problem) = self.remove_emptied(cx, node) {
            cx.problem(problem);
            stays = true;
        }
        if stays && let Some(above) = &node.parent {
            above.own.keeps_some.store(true, Ordering::Relaxed);
        }
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        let problem = match failure {
            // Somebody else has removed it.
            EntryFailure::Classify(cause) | EntryFailure::OpenDir(cause) if cause.is(Errno::NOENT) => {
                return Reported::Yes;
            }
            EntryFailure::Classify(cause) | EntryFailure::OpenDir(cause) => {
                self.cannot_look(entry.path(), cause.clone())
            }
            EntryFailure::Replaced => Problem::new(DeleteKind::Replaced).naming(entry.path()),
            _ => return Reported::No,
        };
        Self::keep(cx, entry);
        cx.problem(problem);
        Reported::Yes
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        Start::Done
    }

    /// The only result is that an entry stays.
    fn emitted(&self, _: &Context<'_, Self>, entry: &Entry<Self>, _: &[u8]) {
        // Relaxed: the counter of the directory's unfinished entries orders it.
        entry.node.own.keeps_some.store(true, Ordering::Relaxed);
    }
}

/// True if a directory has no entry of this name. A missing directory for backups is no proof.
fn is_gone(directory: &Fd, name: &CStr) -> bool {
    stat_at(directory, name).is_err_and(|cause| cause.is(Errno::NOENT))
}
