//! Staged files: targets that get their own name only when they are complete.
//!
//! A copy may be killed at any moment, the disk may fill up, or the power may fail. After that, a
//! target's name must refer to the old file or the new one, never to part of it: `-u`, `-n` and
//! people trust names.
//!
//! ```text
//!               no name (O_TMPFILE) ──────────────────────────────► linkat            new file
//! created ──┬─►                     data, attributes ─► close
//!           │                                         └───────────► linkat, renameat  replaces a file
//!           └─► temporary name ────────────────────────────────────► renameat2         either
//! ```
//!
//! A file without a name vanishes with the process that has it open, so a killed run leaves nothing
//! behind. A temporary name is used where the file system has no `O_TMPFILE` (NFS), where another
//! process must be able to open the file (ranks, if it is large), and under preloaded libraries
//! that would lose track of the file. It is in the target's directory, because a rename can't cross
//! file systems.
//!
//! A file that replaces another one first gets the owner, mode and xattrs of that file: to a user,
//! the copy writes into the existing file, and so nothing but its content changes. What can't be
//! kept that way is refused before a byte is copied: a second hard link would be cut off, and a
//! symbolic link would become a file.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_flow::{EarlierBackup, Problem, TemporaryEntry, lock, uninterrupted};
use haul_sys::{Errno, Error, Fd, FileRef, FileType, Mode, Open, Operation, Owner, Stat};
use haul_sys::{
    change_mode, change_owner, flush_as_close_does, get_xattr, interposer, is_append_only, link_unnamed,
    list_xattrs, open, rename, rename_to_new, set_xattr, stat_at,
};

use super::CopyKind;
use super::backup;
use super::durable;
use super::entry_copy::EntryCopy;
use super::journaled;
use super::layouts::{self, Original};
use super::links::replace;
use super::object::{self, ACCESS_LIST};
use super::open_target::OpenTarget;
use super::options::{Atomic, Update};
use super::partial;
use super::target::is_plain_name;
use super::temporary;

/// Minimum size, in bytes, of a new file that is staged without `--atomic`: from there on the cost
/// of naming it later is below the noise. Of small files it is 15 to 30 percent, and a factor of
/// two in one directory of an xfs (docs/measurements/trust.md).
pub(super) const LARGE_BYTES: u64 = 1 << 20;

/// A target that doesn't have its own name yet.
#[derive(Debug)]
pub(super) struct Staged {
    /// Its temporary name; `None` if it has no name.
    pub(super) temporary_name: Option<CString>,
    /// Registers it for removal by a signal that ends the program, unless a later run continues it.
    _entry: Option<TemporaryEntry>,
    /// True if it replaces an entry of its name.
    pub(super) replaces: bool,
    /// Its number among the files whose names wait for a flush, starting at 1 (`durable.rs`); 0 if
    /// it isn't one of them.
    pub(super) written_at: AtomicU64,
}

impl Staged {
    /// A new file under a temporary name.
    pub(super) fn named(temporary_name: CString) -> Self {
        Self { temporary_name: Some(temporary_name), ..Self::unnamed() }
    }

    /// A new file without a name.
    fn unnamed() -> Self {
        Self { temporary_name: None, _entry: None, replaces: false, written_at: AtomicU64::new(0) }
    }
}

/// File systems on which files can be created without a name and named later, by device.
#[derive(Debug, Default)]
pub(super) struct UnnamedFiles(Mutex<HashMap<u64, bool>>);

/// Errors of a kernel or file system that has no unnamed files, or can't name them.
const UNSUPPORTED: [Errno; 6] =
    [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL, Errno::NOENT, Errno::NOSYS, Errno::PERM];

impl UnnamedFiles {
    /// True if it works in the directory of a copy. Tried once per file system, so that a failure
    /// to name a file shows before its bytes are copied, not after. A failure that may be the
    /// directory's alone, like `EACCES`, says nothing about the others.
    fn work(&self, copy: EntryCopy<'_>, directory: &Fd) -> bool {
        let place = &copy.entry.node.own.held;
        let device = place.identity().device;
        if let Some(work) = lock(&self.0).get(&device) {
            return *work;
        }
        let try_once = || {
            let file = open(directory, c".", Open::unnamed(Mode::OWNER))?;
            // A name that exists: a new one would be left behind by a signal at the wrong moment.
            match link_unnamed(&file, directory, c".") {
                Err(cause) if cause.is(Errno::EXIST) => file.close(),
                outcome => outcome,
            }
        };
        // Without the lock: it may wait for room.
        let work = match copy.with_room(try_once) {
            Ok(()) => true,
            Err(cause) if UNSUPPORTED.into_iter().any(|errno| cause.is(errno)) => false,
            Err(_) => return false,
        };
        *lock(&self.0).entry(device).or_insert(work)
    }
}

/// Creates a staged file, if the options want that and its name is free. `None` if it is to be
/// created under its own name.
pub(super) fn create(
    copy: EntryCopy<'_>,
    directory: &Fd,
    mode: Mode,
    source: Original<'_>,
) -> Result<Option<OpenTarget>, Error> {
    let name = copy.target_name();
    let is_wanted = match copy.options.atomic {
        // Complete when it is created.
        _ if copy.options.attributes_only => false,
        _ if journaled::is_recorded_first(copy, source.stat) => true,
        // The next sync may be told to skip what exists.
        _ if copy.options.replaces_whole() => true,
        Atomic::Never => false,
        // Until it had its name, that would be free for the backup of another file.
        Atomic::LargeFiles => source.stat.size >= LARGE_BYTES && !copy.options.existing.backs_up(),
        Atomic::Always => true,
    };
    if !is_wanted || !is_plain_name(name) {
        return Ok(None);
    }
    // Nothing else creates entries in a directory that this run made. Elsewhere, check now if the
    // name is taken: at the end the bytes would have been copied for nothing.
    if !copy.entry.node.own.is_new() && !stat_at(directory, name).is_err_and(|cause| cause.is(Errno::NOENT)) {
        return Ok(None);
    }
    create_incomplete(copy, directory, mode, source).map(Some)
}

/// Creates the replacement of an existing entry that keeps nothing of it.
pub(super) fn create_replacement(
    copy: EntryCopy<'_>,
    directory: &Fd,
    mode: Mode,
    source: Original<'_>,
) -> Result<OpenTarget, Error> {
    // In such a directory it could neither take the name nor be removed.
    if is_append_only(directory)? {
        let what = format!("{}, {:?}", directory.as_raw_fd(), copy.target_name());
        return Err(Error::new(Operation::Renameat, what, Errno::PERM));
    }
    let mut target = create_incomplete(copy, directory, mode, source)?;
    target.staged.iter_mut().for_each(|staged| staged.replaces = true);
    Ok(target)
}

/// Creates the replacement of an existing file, with its owner, mode and xattrs. `existing` is
/// open, and gets closed.
pub(super) fn replace_file(
    copy: EntryCopy<'_>,
    directory: &Fd,
    (existing, before): (Fd, Stat),
    source: Original<'_>,
) -> Result<OpenTarget, Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotReplace, cause);
    if let Some(kind) = refusal(copy, directory, &before).map_err(failed)? {
        return Err(Problem::new(kind).naming(copy.target_path()));
    }
    let mode = before.mode.and(Mode::OWNER);
    let target = create_replacement(copy, directory, mode, source).map_err(failed)?;
    match inherit(copy, (&existing, &before), &target.file).and_then(|()| existing.close()) {
        Ok(()) => Ok(OpenTarget { before: Some(before), ..target }),
        Err(cause) => {
            discard(copy, target.staged.as_ref());
            Err(failed(cause))
        }
    }
}

/// Returns why a file, `there` by the name of a copy in `directory`, can't be replaced as a whole.
pub(super) fn refusal(copy: EntryCopy<'_>, directory: &Fd, there: &Stat) -> Result<Option<CopyKind>, Error> {
    if there.links > 1 {
        return Ok(Some(CopyKind::ReplacesLinked));
    }
    let is_link = stat_at(directory, copy.target_name())?.kind == FileType::Symlink;
    Ok(is_link.then_some(CopyKind::ReplacesSymlink))
}

/// Gives a new file the owner, xattrs and mode of the file it replaces.
fn inherit(copy: EntryCopy<'_>, (existing, before): (&Fd, &Stat), new: &Fd) -> Result<(), Error> {
    let created = haul_sys::stat(new)?;
    if (created.owner, created.group) != (before.owner, before.group) {
        change_owner(new, Owner { user: Some(before.owner), group: Some(before.group) })?;
    }
    let names = match list_xattrs(existing) {
        Err(cause) if matches!(cause.errno(), Errno::OPNOTSUPP | Errno::NOSYS) => None,
        outcome => Some(outcome?),
    };
    // A sandbox that lacks the call may still allow reading the attributes it would list.
    if names.is_none()
        && let Some(list) = object::access_list(FileRef::Open(existing), ACCESS_LIST)?
    {
        set_xattr(new, ACCESS_LIST, &list)?;
    }
    for key in names.iter().flat_map(|names| names.iter()) {
        // The kernel removes capabilities from a file that is written to.
        if key != c"security.capability" {
            set_xattr(new, key, &get_xattr(existing, key)?)?;
        }
    }
    // The kernel does the same when a process without CAP_FSETID writes to a file.
    let keeps = copy.copier.capabilities.keep_set_id();
    change_mode(new, if keeps { before.mode } else { before.mode.without(Mode::SET_ID) })
}

fn create_incomplete(
    copy: EntryCopy<'_>,
    directory: &Fd,
    mode: Mode,
    source: Original<'_>,
) -> Result<OpenTarget, Error> {
    if let Some(target) = partial::create(copy, directory, mode, source)? {
        return Ok(target);
    }
    // A rank's file may be opened by other ranks; `distributed` knows which.
    if copy.entry.node.owner.is_none()
        && let Some(target) = create_unnamed(copy, directory, mode, source)?
    {
        return Ok(target);
    }
    let name = temporary::new_name(copy.copier);
    let make = || {
        let file = layouts::make_temporary_file(copy, (directory, &name), mode, source.layout)?;
        Ok((file, TemporaryEntry::register(&copy.entry.node.own.held, &name)))
    };
    let (file, entry) = copy.with_room(|| uninterrupted(make))?;
    let staged = Staged { _entry: Some(entry), ..Staged::named(name) };
    Ok(OpenTarget { staged: Some(staged), ..OpenTarget::new(file) })
}

/// Creates a file without a name. `None` if it must have one, or the file system can't do that.
pub(super) fn create_unnamed(
    copy: EntryCopy<'_>,
    directory: &Fd,
    mode: Mode,
    source: Original<'_>,
) -> Result<Option<OpenTarget>, Error> {
    // A layout is set by creating a file under a name.
    let may_be_unnamed =
        source.layout.is_none() && interposer().is_none() && !durable::flushes_before_names(copy);
    if !may_be_unnamed || !copy.copier.unnamed_files.work(copy, directory) {
        return Ok(None);
    }
    let file = copy.with_room(|| open(directory, c".", Open::unnamed(mode)))?;
    Ok(Some(OpenTarget { staged: Some(Staged::unnamed()), ..OpenTarget::new(file) }))
}

/// Names a complete file that has no name. It is still open. Returns false if that failed and was
/// reported.
pub(super) fn name_open(copy: EntryCopy<'_>, staged: Option<&Staged>, file: &Fd) -> bool {
    let Some(Staged { temporary_name: None, replaces, .. }) = staged else { return true };
    let name = copy.target_name();
    let failed = |cause| copy.problem(CopyKind::CannotCreateFile, cause);
    let named = copy.open_directory().map_err(failed).and_then(|directory| {
        if copy.entry.node.owner.is_some() {
            // Its host may be lost. On a file system that other hosts share, the data must be there
            // before the name is, as it is when a file is renamed after its close.
            flush_as_close_does(file).map_err(failed)?;
        }
        if !replaces {
            match copy.with_room(|| link_unnamed(file, &directory, name)) {
                // Someone else has created it since.
                Err(cause) if cause.is(Errno::EXIST) && replaces_new_names(copy) => {}
                outcome => return outcome.map_err(failed),
            }
        }
        // linkat(2) can't replace a name.
        let make = |passing: &CStr| copy.with_room(|| link_unnamed(file, &directory, passing));
        replace(copy, &directory, &make, &failed)
    });
    named.map_err(|problem| copy.cx.problem(problem)).is_ok()
}

/// Renames a complete, closed file to its own name if it has a temporary one, or removes an
/// incomplete one. Returns true if the file is complete and in place.
pub(super) fn name_closed(copy: EntryCopy<'_>, staged: Option<&Staged>, is_complete: bool) -> bool {
    let Some(Staged { temporary_name: Some(temporary), replaces, written_at, .. }) = staged else {
        return is_complete;
    };
    let is_flushed = is_complete
        && durable::flush_before(copy, written_at.load(Ordering::Relaxed))
            .map_err(|problem| copy.cx.problem(problem))
            .is_ok();
    if !is_flushed {
        discard(copy, staged);
        return false;
    }
    let failed = |cause| copy.problem(CopyKind::CannotCreateFile, cause);
    let give_name = || {
        let directory = copy.open_directory().map_err(failed)?;
        let (name, may_replace) = (copy.target_name(), *replaces || replaces_new_names(copy));
        if may_replace {
            backup::keep(copy, &directory, EarlierBackup::Replaced)?;
        }
        // Preserving a file created under this name in the meantime costs a lookup on NFS and
        // Lustre, which lack RENAME_NOREPLACE.
        let renamed = copy.with_room(|| match may_replace {
            true => rename(&*directory, temporary, name),
            false => rename_to_new(&*directory, temporary, name),
        });
        renamed.map_err(failed)
    };
    if let Err(problem) = uninterrupted(give_name) {
        copy.cx.problem(problem);
        discard(copy, staged);
        return false;
    }
    true
}

/// Removes an incomplete file that has a temporary name.
pub(super) fn discard(copy: EntryCopy<'_>, staged: Option<&Staged>) {
    let Some(temporary) = staged.and_then(|staged| staged.temporary_name.as_ref()) else { return };
    match copy.open_directory() {
        Ok(directory) => temporary::remove(copy, &directory, temporary),
        Err(cause) => copy.cx.problem(copy.problem(CopyKind::CannotRemove, cause)),
    }
}

/// True if a file that appears under a target's name during the copy is replaced, like one that was
/// there before.
fn replaces_new_names(copy: EntryCopy<'_>) -> bool {
    let existing = &copy.options.existing;
    let are_replaced = match existing.update {
        Update::All => true,
        Update::Different(rule) => !rule.only_missing && !rule.keeps_newer,
        _ => false,
    };
    // With backups, it may be that of another file.
    are_replaced && !existing.backs_up()
}

/// Closes a target that was not needed, and removes it if it is new.
pub(super) fn take_back(copy: EntryCopy<'_>, file: Fd, staged: Option<&Staged>, is_new: bool) {
    let mut outcome = file.close();
    if staged.is_some() {
        discard(copy, staged);
    } else if is_new {
        let removed =
            copy.open_directory().and_then(|directory| haul_sys::remove(directory, copy.target_name()));
        outcome = outcome.and(removed);
    }
    if let Err(cause) = outcome {
        copy.cx.problem(Problem::new(CopyKind::CannotRemove).naming(copy.target_path()).because(cause));
    }
}
