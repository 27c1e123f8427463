//! Names that are one file in the source stay one file in the target.

use std::ffi::CString;
use std::sync::Arc;

use haul_flow::{Claim, Desk, Found, Held, Problem, Tally};
use haul_sys::{Errno, Error, FileType, Identity, Stat};
use haul_sys::{link, stat_at};

use super::Copier;
use super::options::{Dereference, Preserve};
use super::target::{open_directory, target_name, target_path};
use super::wording;

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
    pub(super) fn complete_link(&self, desk: &Desk<'_, Self>, file: Identity, first: LinkedName) {
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
        self.tell_copied(desk, found);
        if let Err(cause) = self.try_link(desk, found, first) {
            let problem = Problem::new(wording::CANNOT_LINK).naming(target_path(found));
            desk.problem(problem.naming(first.held.path_of(&first.name)).because(cause));
            return;
        }
        desk.count(Tally { hard_links: 1, ..Tally::default() });
    }

    fn try_link(&self, desk: &Desk<'_, Self>, found: &Found<Self>, first: &LinkedName) -> Result<(), Error> {
        let old = desk.cache().open(&first.held)?;
        let new = open_directory(desk, found)?;
        let name = target_name(found);
        match link(&old, &first.name, &new, name) {
            Err(cause) if cause.is(Errno::EXIST) => {
                let there = stat_at(&new, name)?;
                if there.identity == stat_at(&old, &first.name)?.identity {
                    return Ok(());
                }
                if there.kind == FileType::Directory {
                    return Err(cause);
                }
                haul_sys::remove(&new, name)?;
                link(&old, &first.name, &new, name)
            }
            outcome => outcome,
        }
    }
}
