//! Names that are one file in the source stay one file in the target.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{Claim, Desk, Found, Held, Problem, Tally, temporary_name};
use haul_sys::{Errno, Error, Fd, Identity, Stat};
use haul_sys::{link_at_path, remove, rename, stat_path};

use super::Copier;
use super::options::{Dereference, Make, Preserve};
use super::place::{Left, Place};
use super::target::{open_directory, target_name, target_path};
use super::wording;

/// Names tried for what will be renamed at once. None is taken, but by what an earlier process left.
const TRIES: usize = 100;

/// The first name of a file in the target: what further names are linked to.
#[derive(Clone, Debug)]
pub(super) struct LinkedName {
    held: Arc<Held>,
    name: CString,
}

impl LinkedName {
    /// The name an entry was copied to.
    pub(super) fn of(found: &Found<Copier>) -> Self {
        Self { held: Arc::clone(&found.node.own.held), name: target_name(found).to_owned() }
    }
}

impl Copier {
    /// Says who copies the file an entry is a name of, if it may have several names.
    ///
    /// `First(None)` means that nobody else can be interested; `First(Some(file))` obliges the caller to complete or
    /// abandon `file`. A known file is linked here.
    pub(super) fn claim(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        stat: &Stat,
    ) -> Claim<Option<Identity>, ()> {
        let follows = match self.options.dereference {
            Dereference::Always => true,
            Dereference::Operands => found.is_operand(),
            Dereference::Never => false,
        };
        if !self.preserves(Preserve::LINKS) || !(stat.links > 1 || follows) {
            return Claim::First(None);
        }
        if let Some(part) = &found.node.part {
            // Only the process that walks knows of all names.
            if part.errand.claimed {
                return Claim::First(Some(stat.identity));
            }
            desk.give_back(found);
            return Claim::Waits;
        }
        match self.links.claim(stat.identity, found.clone()) {
            Claim::First(_) => Claim::First(Some(stat.identity)),
            Claim::Waits => Claim::Waits,
            Claim::Known(found, first) => {
                self.link_to(desk, &found, &first);
                Claim::Known(None, ())
            }
        }
    }

    /// Links the names that waited for a file that is now copied.
    pub(super) fn complete_link(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        file: Identity,
        first: LinkedName,
    ) {
        desk.note_completed(found);
        for waiting in self.links.complete(file, first.clone()) {
            self.link_to(desk, &waiting, &first);
            desk.settle(&waiting);
        }
    }

    /// Lets the names that waited for a file that could not be copied be tried from the beginning.
    pub(super) fn abandon_link(&self, desk: &Desk<'_, Self>, file: Option<Identity>) {
        if let Some(file) = file {
            for waiting in self.links.abandon(file) {
                desk.retry(waiting);
            }
        }
    }

    /// Gives the copy of an entry's file the further name that the entry asks for.
    fn link_to(&self, desk: &Desk<'_, Self>, found: &Found<Self>, first: &LinkedName) {
        match self.try_link(desk, found, first) {
            Ok(true) => desk.count(Tally { hard_links: 1, ..Tally::default() }),
            Ok(false) => {}
            Err(problem) => desk.problem(problem),
        }
    }

    /// Links; returns whether the entry has its copy.
    fn try_link(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        first: &LinkedName,
    ) -> Result<bool, Problem> {
        let failed = |cause| {
            let problem = Problem::new(wording::CANNOT_LINK).naming(target_path(found));
            problem.naming(first.held.path_of(&first.name)).because(cause)
        };
        let old = desk.cache().open(&first.held).map_err(failed)?;
        let new = open_directory(desk, found).map_err(failed)?;
        // The first name may be a symbolic link that `-s` has made. Where links are followed GNU follows it too.
        let follow = self.options.make == Make::Symlink && self.follows_here(found);
        let make = |name: &CStr| link_at_path(Some(&*old), &first.name, follow, &new, name);
        match make(target_name(found)) {
            Err(cause) if cause.is(Errno::EXIST) => {}
            outcome => {
                self.tell_copied(desk, found);
                return outcome.map(|()| true).map_err(failed);
            }
        }
        let unseen = |cause| Problem::new(wording::CANNOT_STAT).naming(found.path()).because(cause);
        let source = desk
            .cache()
            .open(&found.node.source)
            .and_then(|directory| stat_path(Some(&*directory), found.name(), self.follows_here(found)))
            .map_err(unseen)?;
        let mut turn = self.turn(found);
        match self.clear(desk, found, &new, &mut turn, &source)? {
            Place::Left(Left::AsItIs) => return Ok(false),
            // It is not older than the source, but it has to be the file that the source's other names became.
            Place::Left(Left::AsCopy) => {}
            Place::Taken(_) => self.tell_copied(desk, found),
            Place::Free(backup) => {
                self.tell_copied_over(desk, found, backup.as_deref());
                return make(target_name(found)).map(|()| true).map_err(|cause| {
                    self.put_back(desk, found, backup.as_deref());
                    failed(cause)
                });
            }
        }
        replace(&new, target_name(found), &make).map_err(failed)?;
        self.tell_removed(desk, found);
        Ok(true)
    }
}

/// Puts what `make` makes under a name in the place of what has that name, in one go: somebody who looks finds the one or
/// the other.
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
    // Also after a renaming that went well: of two names of one file, the kernel leaves both.
    match remove(directory, &passing) {
        Err(cause) if !cause.is(Errno::NOENT) => outcome.and(Err(cause)),
        _ => outcome,
    }
}
