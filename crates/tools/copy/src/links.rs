//! Preserves hard links: names of one file in the source become names of one file in the target.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{Claim, DirHandle, EarlierBackup, EntryOutcome, FileKey, Problem, uninterrupted};
use haul_sys::{Errno, Error, Fd, FileType, Identity, Pinned, Stat, Timestamp};
use haul_sys::{link_at_path, rename, rename_to_new, stat_at, stat_path};

use super::backup::{self, MadeBackup};
use super::dry_run;
use super::entry_copy::EntryCopy;
use super::journaled;
use super::options::Preserve;
use super::place::{self, ClearedPlace, Foreseen, Left, TargetPlace};
use super::temporary;
use super::waiting;
use super::{Copier, CopyKind};

/// Temporary names tried. None is in use, unless an earlier process left it.
const TRIES: usize = 100;

/// A file created by this run. Birth times are compared only if both are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeFile(Identity, Option<Timestamp>);

impl MadeFile {
    pub(super) fn of(stat: &Stat) -> Self {
        Self(stat.identity, stat.born)
    }

    /// The file that a dry run would create.
    pub(super) fn foreseen() -> Self {
        Self(Identity { device: 0, inode: 0 }, None)
    }

    fn is(&self, stat: &Stat) -> bool {
        self.0 == stat.identity && (self.1 == stat.born || self.1.is_none() || stat.born.is_none())
    }
}

/// The first target name of a file, which further names are linked to as long as it still refers to
/// that file.
#[derive(Clone, Debug)]
pub(super) struct LinkedName {
    held: Arc<DirHandle>,
    name: CString,
    file: MadeFile,
    /// True if another user may replace it.
    is_shared: bool,
    /// The file's source as it was copied, if there is a journal. Boxed: there is one of
    /// these for every file with several names.
    source: Option<Box<Stat>>,
}

/// Source of links for further names.
enum FirstCopy {
    /// The first name: only this user can replace it.
    Named,
    /// The file the first name referred to when it was checked.
    Pinned(Pinned),
}

impl LinkedName {
    /// Path of the name, for messages.
    pub(super) fn path(&self) -> Vec<u8> {
        self.held.path_of(&self.name)
    }

    /// Finds the first copy and the type of its name; `None` if it was replaced or removed.
    fn find(&self, directory: &Fd) -> Result<Option<(FileType, FirstCopy)>, Error> {
        let look = || {
            if self.is_shared {
                let pinned = Pinned::open(directory, &self.name)?;
                Ok((pinned.stat()?, FirstCopy::Pinned(pinned)))
            } else {
                Ok((stat_at(directory, &self.name)?, FirstCopy::Named))
            }
        };
        match look() {
            Ok((there, copy)) => Ok(self.file.is(&there).then_some((there.kind, copy))),
            Err(cause) if Error::is(&cause, Errno::NOENT) => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}

/// Who copies a file that has several names.
pub(super) enum NameClaim {
    /// The caller. With an identity, other names may wait, and the caller must complete or
    /// abandon it.
    First(Option<Identity>),
    /// Another worker is copying it; the entry is handled when that is done.
    Waits,
    /// It was copied, and the entry's name was linked to it or the failure reported.
    Over,
}

/// Result of linking a further name.
enum Linking {
    Done,
    /// An earlier run has linked it.
    Kept,
    /// The existing target stays, and that was reported.
    Left,
    /// The first name is gone or refers to another file.
    Stale,
}

/// Decides who copies the file an entry is a name of. If it has been copied, links the
/// entry here.
pub(super) fn claim(copy: EntryCopy<'_>, stat: &Stat) -> NameClaim {
    if !copy.options.preserves(Preserve::LINKS) || !(stat.links > 1 || copy.follows()) {
        return NameClaim::First(None);
    }
    if copy.entry.node.owner.is_some() {
        // Only the process that walks knows all names.
        return match copy.cx.hand_back(copy.entry) {
            true => NameClaim::Waits,
            false => NameClaim::First(Some(stat.identity)),
        };
    }
    loop {
        match copy.copier.links.claim(FileKey::from(stat), copy.entry.clone()) {
            Claim::First(_) => return NameClaim::First(Some(stat.identity)),
            Claim::Waits => return NameClaim::Waits,
            Claim::Alone(_) => return NameClaim::First(None),
            Claim::Known(entry, first) => {
                if is_linked(copy.with(&entry), &first) {
                    return NameClaim::Over;
                }
                // Once forgotten, the next claim comes first, or finds the file that another
                // worker made since.
                forget(copy.copier, stat.identity, &first);
            }
        }
    }
}

fn forget(copier: &Copier, file: Identity, stale: &LinkedName) {
    copier.links.forget(file, |first| first.file.0 == stale.file.0);
}

/// Links the names that waited for a file that is now copied. Without `made`, stats the entry's
/// target to identify it. `source` is the source as it was copied, for the journal.
pub(super) fn complete(copy: EntryCopy<'_>, file: Identity, made: Option<MadeFile>, source: Option<Stat>) {
    if let Some(owner) = &copy.entry.node.owner {
        return owner.note_linkable(copy.entry);
    }
    let by_name = || {
        let directory = copy.open_directory()?;
        stat_at(&directory, copy.target_name()).map(|stat| MadeFile::of(&stat))
    };
    let made = match made.map_or_else(by_name, Ok) {
        Ok(made) => made,
        Err(cause) => {
            // Already gone: nothing to link to. Any other failure makes the other names
            // separate files, which is an error.
            if !cause.is(Errno::NOENT) {
                copy.cx.problem(Problem::new(CopyKind::CannotStat).naming(copy.target_path()).because(cause));
            }
            return abandon(copy, Some(file));
        }
    };
    let held = Arc::clone(&copy.entry.node.own.held);
    let first = LinkedName {
        held,
        name: copy.target_name().to_owned(),
        file: made,
        is_shared: copy.entry.node.own.is_shared,
        source: source.filter(|_| copy.copier.journal.is_some()).map(Box::new),
    };
    for waiting in copy.copier.links.complete(file, first.clone()) {
        if is_linked(copy.with(&waiting), &first) {
            copy.cx.complete(&waiting);
        } else {
            forget(copy.copier, file, &first);
            copy.cx.retry(waiting);
        }
    }
}

/// Retries the names that waited for a file that could not be copied.
pub(super) fn abandon(copy: EntryCopy<'_>, file: Option<Identity>) {
    if let Some(file) = file {
        for waiting in copy.copier.links.abandon(file) {
            copy.cx.retry(waiting);
        }
    }
}

/// Links an entry's name to the copy of its file. Returns false if that copy is gone; reports
/// all other failures.
fn is_linked(copy: EntryCopy<'_>, first: &LinkedName) -> bool {
    match try_link(EntryCopy { is_further_name: true, ..copy }, first) {
        Ok(Linking::Done) => {
            copy.count(EntryOutcome::HardLink);
            first.source.iter().for_each(|source| journaled::record(copy, source));
        }
        Ok(Linking::Kept) => copy.count(EntryOutcome::Unchanged),
        Ok(Linking::Left) => {}
        Ok(Linking::Stale) => return false,
        Err(problem) => copy.cx.problem(problem),
    }
    true
}

/// Decides as [`try_link`] does, and changes nothing.
fn foresee_link(copy: EntryCopy<'_>, first: &LinkedName) -> Result<Linking, Problem> {
    let cannot_stat = |cause| copy.cannot_stat_source(cause);
    let source = copy.stat_source().map_err(cannot_stat)?;
    let there = copy.open_directory().and_then(|directory| stat_at(&directory, copy.target_name())).ok();
    let there = there.filter(|there| !waiting::has_made_way(copy, there));
    if there.is_some_and(|there| first.file.is(&there)) {
        return Ok(Linking::Kept);
    }
    let is_directory = |there: Option<Stat>| there.is_some_and(|there| there.kind == FileType::Directory);
    // One that is kept in the place of the first name can't get another name.
    let kept = copy.cx.cache().open(&first.held).and_then(|held| stat_at(&held, &first.name)).ok();
    let links_directory = is_directory(kept.filter(|kept| first.file.is(kept)));
    let overwrite = || match is_directory(there) {
        _ if links_directory => Ok(()),
        true => Err(cannot_link(copy, first, dry_run::error(Errno::ISDIR))),
        false => {
            copy.print_replaced();
            Ok(())
        }
    };
    match place::foresee(copy, &source)? {
        Foreseen::Left(Left::AsItIs) => return Ok(Linking::Left),
        Foreseen::Left(Left::AsCopy) if !copy.options.existing.update.syncs() => overwrite()?,
        Foreseen::BackedUp(_, backup) => copy.print_linked(first, there.as_ref(), Some(&backup)),
        Foreseen::Stays(_) | Foreseen::Replaced(_) | Foreseen::Left(Left::AsCopy) => {
            copy.print_linked(first, there.as_ref(), None);
            overwrite()?;
        }
        Foreseen::Removed => {
            copy.print_removed();
            copy.print_linked(first, there.as_ref(), None);
        }
        Foreseen::Made | Foreseen::Dangling => {
            copy.print_linked(first, None, None);
            // A dangling symbolic link.
            if there.is_some() && !links_directory {
                copy.print_replaced();
            }
        }
    }
    match links_directory {
        true => Err(cannot_link(copy, first, dry_run::error(Errno::PERM))),
        false => Ok(Linking::Done),
    }
}

fn cannot_link(copy: EntryCopy<'_>, first: &LinkedName, cause: Error) -> Problem {
    let problem = Problem::new(CopyKind::CannotLink).naming(copy.target_path());
    problem.naming(first.path()).because(cause)
}

fn try_link(copy: EntryCopy<'_>, first: &LinkedName) -> Result<Linking, Problem> {
    if copy.options.dry_run {
        return foresee_link(copy, first);
    }
    let failed = |cause| cannot_link(copy, first, cause);
    let old = copy.cx.cache().open(&first.held).map_err(failed)?;
    let Some((kind, first_copy)) = first.find(&old).map_err(failed)? else { return Ok(Linking::Stale) };
    // The first name may be a symbolic link: made by `-s`, or an existing one to the file that was
    // written. Where links are followed, GNU follows it too.
    let follow = kind == FileType::Symlink && copy.follows();
    let new = copy.open_directory().map_err(failed)?;
    let make_once = |name: &CStr| match &first_copy {
        FirstCopy::Pinned(pinned) if !follow => pinned.link(&new, name),
        _ => link_at_path(Some(&*old), &first.name, follow, &new, name),
    };
    let make = |name: &CStr| copy.with_room(|| make_once(name));
    match make(copy.target_name()) {
        Err(cause) if cause.is(Errno::EXIST) => {}
        outcome => {
            copy.print_linked(first, None, None);
            return outcome.map(|()| Linking::Done).map_err(failed);
        }
    }
    let may_be_linked = copy.copier.journal.is_some() || copy.options.existing.update.syncs();
    let is_linked = |there: Stat| first.file.is(&there) && may_be_linked;
    let before = stat_at(&new, copy.target_name()).ok();
    if before.is_some_and(is_linked) {
        // By an earlier run.
        return Ok(Linking::Kept);
    }
    let unseen = |cause| copy.cannot_stat_source(cause);
    let source = copy
        .cx
        .cache()
        .open(&copy.entry.node.source)
        .and_then(|directory| stat_path(Some(&*directory), copy.entry.name(), copy.follows()))
        .map_err(unseen)?;
    let mut turn = place::turn(copy);
    let mut earlier = EarlierBackup::Replaced;
    match place::clear(copy, &new, &mut turn, &source)? {
        TargetPlace::Left(Left::AsItIs) => return Ok(Linking::Left),
        // It seems equal to the source, but must become the same file as the source's other names.
        // It may be what a killed run has made, after that run has kept what was there.
        TargetPlace::Left(Left::AsCopy) if copy.options.existing.update.syncs() => {
            earlier = EarlierBackup::Stays;
            copy.print_linked(first, before.as_ref(), None);
        }
        TargetPlace::Left(Left::AsCopy) => {}
        TargetPlace::Taken(_) | TargetPlace::Replaced(_) => copy.print_linked(first, before.as_ref(), None),
        TargetPlace::Free(ClearedPlace { backup, before }) => {
            copy.print_linked(first, before.as_ref(), backup.as_ref().map(MadeBackup::name));
            match make(copy.target_name()) {
                // A dangling symbolic link.
                Err(cause) if cause.is(Errno::EXIST) && backup.is_none() => {}
                outcome => {
                    return outcome.map(|()| Linking::Done).map_err(|cause| {
                        backup::put_back(copy, backup.as_ref());
                        failed(cause)
                    });
                }
            }
        }
    }
    replace_entry(copy, &new, &make, &failed, earlier)?;
    copy.print_replaced();
    Ok(Linking::Done)
}

/// Replaces an entry's target atomically with the entry that `make` creates: observers see either
/// the old entry or the new one. `failed` makes a problem of an error.
pub(super) fn replace(
    copy: EntryCopy<'_>,
    directory: &Fd,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
    failed: &dyn Fn(Error) -> Problem,
) -> Result<(), Problem> {
    replace_entry(copy, directory, make, failed, EarlierBackup::Replaced)
}

fn replace_entry(
    copy: EntryCopy<'_>,
    directory: &Fd,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
    failed: &dyn Fn(Error) -> Problem,
    earlier: EarlierBackup,
) -> Result<(), Problem> {
    uninterrupted(|| {
        let passing = make_temporary(copy, directory, make).map_err(failed)?;
        let outcome = backup::keep(copy, directory, earlier)
            .and_then(|()| rename(directory, &passing, copy.target_name()).map_err(failed));
        // Needed even after success: rename(2) does nothing if both names are the same file.
        temporary::remove(copy, directory, &passing);
        outcome
    })
}

/// Creates an entry's target, which must not exist, atomically with all that `make` gives to it.
pub(super) fn make_whole(
    copy: EntryCopy<'_>,
    directory: &Fd,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
) -> Result<(), Error> {
    // Before anything is made that would have to be removed again. Nothing else creates entries in
    // a directory that this run made.
    if !copy.entry.node.own.is_new() && stat_at(directory, copy.target_name()).is_ok() {
        return Err(dry_run::error(Errno::EXIST));
    }
    uninterrupted(|| {
        let passing = make_temporary(copy, directory, make)?;
        rename_to_new(directory, &passing, copy.target_name())
            .inspect_err(|_| temporary::remove(copy, directory, &passing))
    })
}

/// Creates an entry under a temporary name.
fn make_temporary(
    copy: EntryCopy<'_>,
    directory: &Fd,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
) -> Result<CString, Error> {
    let mut tried = 0;
    loop {
        let passing = temporary::new_name(copy.copier);
        match make(&passing) {
            Ok(()) => return Ok(passing),
            Err(cause) if cause.is(Errno::EXIST) && tried < TRIES => tried += 1,
            Err(cause) => {
                // It may exist without its attributes. An entry that replaced it isn't removed.
                if !cause.is(Errno::EXIST) && !cause.is(Errno::STALE) {
                    temporary::remove(copy, directory, &passing);
                }
                return Err(cause);
            }
        }
    }
}
