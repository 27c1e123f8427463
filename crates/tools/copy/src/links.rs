//! Preserves hard links: names of one file in the source become names of one file in the target.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{Claim, Context, DirHandle, Entry, FileKey, Problem, Tally, temporary_name};
use haul_sys::{Errno, Error, Fd, Identity, Pinned, Stat, Timestamp};
use haul_sys::{link_at_path, remove, rename, stat_at, stat_path};

use super::Copier;
use super::CopyKind;
use super::options::{Dereference, Make, Preserve};
use super::place::{Left, Place};
use super::target::{open_directory, target_name, target_path};

/// Temporary names tried. None is in use, unless an earlier process left it.
const TRIES: usize = 100;

/// A file created by this run. Birth times are compared only if both are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeFile(Identity, Option<Timestamp>);

impl MadeFile {
    pub(super) fn of(stat: &Stat) -> Self {
        Self(stat.identity, stat.born)
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
}

/// Source of links for further names.
enum FirstCopy {
    /// The first name: only this user can replace it.
    Named,
    /// The file the first name referred to when it was checked.
    Pinned(Pinned),
}

impl LinkedName {
    /// Finds the first copy; `None` if it was replaced or removed.
    fn find(&self, directory: &Fd) -> Result<Option<FirstCopy>, Error> {
        let look = || {
            if self.is_shared {
                let pinned = Pinned::open(directory, &self.name)?;
                Ok((pinned.stat()?, FirstCopy::Pinned(pinned)))
            } else {
                Ok((stat_at(directory, &self.name)?, FirstCopy::Named))
            }
        };
        match look() {
            Ok((there, copy)) => Ok(self.file.is(&there).then_some(copy)),
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
    /// The existing target stays, and that was reported.
    Left,
    /// The first name is gone or refers to another file.
    Stale,
}

impl Copier {
    /// Decides who copies the file an entry is a name of. If it has been copied, links the
    /// entry here.
    pub(super) fn claim(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, stat: &Stat) -> NameClaim {
        let follows = match self.options.dereference {
            Dereference::Always => true,
            Dereference::Operands => entry.is_operand(),
            Dereference::Never => false,
        };
        if !self.preserves(Preserve::LINKS) || !(stat.links > 1 || follows) {
            return NameClaim::First(None);
        }
        if entry.node.owner.is_some() {
            // Only the process that walks knows all names.
            return match cx.hand_back(entry) {
                true => NameClaim::Waits,
                false => NameClaim::First(Some(stat.identity)),
            };
        }
        loop {
            match self.links.claim(FileKey::from(stat), entry.clone()) {
                Claim::First(_) => return NameClaim::First(Some(stat.identity)),
                Claim::Waits => return NameClaim::Waits,
                Claim::Alone(_) => return NameClaim::First(None),
                Claim::Known(entry, first) => {
                    if self.is_linked(cx, &entry, &first) {
                        return NameClaim::Over;
                    }
                    // Once forgotten, the next claim comes first, or finds what another worker
                    // made meanwhile.
                    self.forget(stat.identity, &first);
                }
            }
        }
    }

    fn forget(&self, file: Identity, stale: &LinkedName) {
        self.links.forget(file, |first| first.file.0 == stale.file.0);
    }

    /// Links the names that waited for a file that is now copied. Without `made`, stats the entry's
    /// target to identify it.
    pub(super) fn complete_link(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        file: Identity,
        made: Option<MadeFile>,
    ) {
        if let Some(owner) = &entry.node.owner {
            return owner.note_linkable(entry);
        }
        let by_name = || {
            let directory = open_directory(cx, entry)?;
            stat_at(&directory, target_name(entry)).map(|stat| MadeFile::of(&stat))
        };
        let made = match made.map_or_else(by_name, Ok) {
            Ok(made) => made,
            Err(cause) => {
                // Already gone: nothing to link to. Any other failure makes the other names
                // separate files, which is an error.
                if !cause.is(Errno::NOENT) {
                    cx.problem(Problem::new(CopyKind::CannotStat).naming(target_path(entry)).because(cause));
                }
                return self.abandon_link(cx, Some(file));
            }
        };
        let held = Arc::clone(&entry.node.own.held);
        let first = LinkedName {
            held,
            name: target_name(entry).to_owned(),
            file: made,
            is_shared: entry.node.own.is_shared,
        };
        for waiting in self.links.complete(file, first.clone()) {
            if self.is_linked(cx, &waiting, &first) {
                cx.complete(&waiting);
            } else {
                self.forget(file, &first);
                cx.retry(waiting);
            }
        }
    }

    /// Retries the names that waited for a file that could not be copied.
    pub(super) fn abandon_link(&self, cx: &Context<'_, Self>, file: Option<Identity>) {
        if let Some(file) = file {
            for waiting in self.links.abandon(file) {
                cx.retry(waiting);
            }
        }
    }

    /// Links an entry's name to the copy of its file. Returns false if that copy is gone; reports
    /// all other failures.
    fn is_linked(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, first: &LinkedName) -> bool {
        match self.try_link(cx, entry, first) {
            Ok(Linking::Done) => cx.count(Tally { hard_links: 1, ..Tally::default() }),
            Ok(Linking::Left) => {}
            Ok(Linking::Stale) => return false,
            Err(problem) => cx.problem(problem),
        }
        true
    }

    fn try_link(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        first: &LinkedName,
    ) -> Result<Linking, Problem> {
        let failed = |cause| {
            let problem = Problem::new(CopyKind::CannotLink).naming(target_path(entry));
            problem.naming(first.held.path_of(&first.name)).because(cause)
        };
        let old = cx.cache().open(&first.held).map_err(failed)?;
        // The first name may be a symbolic link made by `-s`. Where links are followed, GNU follows
        // it too.
        let follow = self.options.make == Make::Symlink && self.follows_here(entry);
        let Some(copy) = first.find(&old).map_err(failed)? else { return Ok(Linking::Stale) };
        let new = open_directory(cx, entry).map_err(failed)?;
        let make = |name: &CStr| match &copy {
            FirstCopy::Pinned(pinned) if !follow => pinned.link(&new, name),
            _ => link_at_path(Some(&*old), &first.name, follow, &new, name),
        };
        match make(target_name(entry)) {
            Err(cause) if cause.is(Errno::EXIST) => {}
            outcome => {
                self.tell_copied(cx, entry);
                return outcome.map(|()| Linking::Done).map_err(failed);
            }
        }
        let unseen = |cause| Problem::new(CopyKind::CannotStat).naming(entry.path()).because(cause);
        let source = cx
            .cache()
            .open(&entry.node.source)
            .and_then(|directory| stat_path(Some(&*directory), entry.name(), self.follows_here(entry)))
            .map_err(unseen)?;
        let mut turn = self.turn(entry);
        match self.clear(cx, entry, &new, &mut turn, &source)? {
            Place::Left(Left::AsItIs) => return Ok(Linking::Left),
            // It is no older than the source, but must become the same file as the source's
            // other names.
            Place::Left(Left::AsCopy) => {}
            Place::Taken(_) => self.tell_copied(cx, entry),
            Place::Free(backup) => {
                self.tell_copied_over(cx, entry, backup.as_deref());
                match make(target_name(entry)) {
                    // A dangling symbolic link.
                    Err(cause) if cause.is(Errno::EXIST) && backup.is_none() => {}
                    outcome => {
                        return outcome.map(|()| Linking::Done).map_err(|cause| {
                            self.put_back(cx, entry, backup.as_deref());
                            failed(cause)
                        });
                    }
                }
            }
        }
        replace(&new, target_name(entry), &make).map_err(failed)?;
        self.tell_removed(cx, entry);
        Ok(Linking::Done)
    }
}

/// Replaces `name` atomically with what `make` creates: observers see either the old entry or the
/// new one.
pub(super) fn replace(
    directory: &Fd,
    name: &CStr,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut tried = 0;
    let passing = loop {
        let passing = temporary_name();
        match make(&passing) {
            Ok(()) => break passing,
            Err(cause) if cause.is(Errno::EXIST) && tried < TRIES => tried += 1,
            Err(cause) => return Err(cause),
        }
    };
    let outcome = rename(directory, &passing, name);
    // Needed even after success: rename(2) does nothing if both names are the same file.
    match remove(directory, &passing) {
        Err(cause) if !cause.is(Errno::NOENT) => outcome.and(Err(cause)),
        _ => outcome,
    }
}
