//! Entries that are not opened: symbolic links, special files, and whatever `-l` and `-s` make.

use std::ffi::CString;

use haul_flow::{Claim, Desk, Found, Handled, Problem, Tally};
use haul_sys::{
    EntryType, Errno, Error, Fd, FileType, Identity, Mode, Special, Stat, Times, change_times_at,
};
use haul_sys::{link_at_path, make_special, make_symlink, read_link, stat_at, stat_path};

use super::Copier;
use super::attributes::{Object, Subject};
use super::links::LinkedName;
use super::options::{Dereference, Existing, Make, Preserve};
use super::stream;
use super::target::{failure, open_directory, target_name, target_path};
use super::wording;

impl Copier {
    pub(super) fn handle_entry(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        kind: EntryType,
    ) -> Handled {
        match self.try_handle(desk, found, kind) {
            Ok(handled) => handled,
            Err(problem) => {
                desk.problem(problem);
                Handled::Over
            }
        }
    }

    fn try_handle(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        kind: EntryType,
    ) -> Result<Handled, Problem> {
        if kind == EntryType::Directory {
            return Err(Problem::new(wording::OMITTING_DIRECTORY).naming(found.path()));
        }
        let cannot_stat = |cause| Problem::new(wording::CANNOT_STAT).naming(found.path()).because(cause);
        let directory = desk.cache().open(&found.node.source).map_err(cannot_stat)?;
        let follow = self.follows_here(found);
        let source = stat_path(Some(&*directory), found.name(), follow).map_err(cannot_stat)?;
        match self.options.make {
            Make::HardLink => return self.make_hard_link(desk, found, &directory, &source),
            Make::Symlink => return self.make_link_to_source(desk, found, &source),
            Make::Copy => {}
        }
        if !self.options.recursive && kind == EntryType::Special {
            return stream::copy_special(self, desk, found, &source);
        }
        let link = match self.claim(desk, found, &source) {
            Claim::First(link) => link,
            Claim::Waits => return Ok(Handled::Deferred),
            Claim::Known(..) => return Ok(Handled::Over),
        };
        match self.remake(desk, found, &directory, &source) {
            Ok(()) => self.made(desk, found, link),
            Err(problem) => {
                self.abandon_link(desk, link);
                return Err(problem);
            }
        }
        Ok(Handled::Over)
    }

    /// Records that an entry's copy stands.
    fn made(&self, desk: &Desk<'_, Self>, found: &Found<Self>, link: Option<Identity>) {
        if let Some(file) = link {
            self.complete_link(desk, file, LinkedName::of(found));
        }
        if found.is_operand() {
            self.record_created(desk, found);
        }
    }

    /// Makes a symbolic link or special file like the source, with its attributes.
    fn remake(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        source_directory: &Fd,
        source: &Stat,
    ) -> Result<(), Problem> {
        let name = target_name(found);
        let problem =
            |wording| move |cause: Error| Problem::new(wording).naming(target_path(found)).because(cause);
        let cannot_create = match source.kind {
            FileType::Symlink => wording::CANNOT_CREATE_LINK,
            FileType::Fifo => wording::CANNOT_CREATE_FIFO,
            FileType::Unknown => return Err(Problem::new(wording::UNKNOWN_TYPE).naming(found.path())),
            _ => wording::CANNOT_CREATE_SPECIAL,
        };
        let directory = open_directory(desk, found).map_err(problem(cannot_create))?;
        let content = match source.kind {
            FileType::Symlink => {
                let unreadable =
                    |cause| Problem::new(wording::CANNOT_READ_LINK).naming(found.path()).because(cause);
                Some(read_link(source_directory, found.name()).map_err(unreadable)?)
            }
            _ => None,
        };
        let make = || match &content {
            Some(content) => make_symlink(content, &directory, name),
            None => {
                let mode = source.mode.without(self.omitted(source.kind));
                let special = Special { kind: source.kind, mode, device_number: source.device_number };
                make_special(&directory, name, special)
            }
        };
        match make() {
            Ok(()) => self.tell_copied(desk, found),
            Err(cause) if cause.is(Errno::EXIST) => {
                match self.clear_place(desk, found, &directory, source, cause) {
                    Ok(()) => self.tell_copied(desk, found),
                    Err(Refused::Unneeded) => return Ok(()),
                    Err(Refused::Because(cause)) => {
                        self.tell_copied(desk, found);
                        return Err(problem(cannot_create)(cause));
                    }
                    Err(Refused::Said(problem)) => return Err(problem),
                }
                make().map_err(problem(cannot_create))?;
            }
            Err(cause) => {
                let problem = failure(found, &directory, cannot_create, cause);
                self.tell_tried(desk, found, &problem);
                return Err(problem);
            }
        }
        self.count_remade(desk, source.kind);
        self.give_named_attributes(desk, found, source_directory, &directory, source);
        Ok(())
    }

    /// Gives what was made its attributes, by name. What cannot be given is reported; the copy stands.
    fn give_named_attributes(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        source_directory: &Fd,
        directory: &Fd,
        source: &Stat,
    ) {
        let xattrs = self.read_xattrs(desk, Object::Named(source_directory, found.name()), &|| found.path());
        let plain = source.mode.without(self.umask);
        let made_with = source.mode.without(self.omitted(source.kind)).without(self.umask);
        let subject = Subject {
            object: Object::Named(directory, target_name(found)),
            stat: source,
            xattrs: &xattrs,
            before: None,
            plain_mode: match self.options.default_mode {
                true => Some(default_mode(source.kind).without(self.umask)),
                false => (plain != made_with).then_some(plain),
            },
            has_access_list: found.node.own.gives_access_list,
            birth: None,
            target_path: &|| target_path(found),
        };
        self.give_attributes(desk, &subject);
    }

    fn count_remade(&self, desk: &Desk<'_, Self>, kind: FileType) {
        let counted = match kind {
            FileType::Symlink => Tally { symlinks: 1, ..Tally::default() },
            _ => Tally { specials: 1, ..Tally::default() },
        };
        desk.count(counted);
    }

    /// Makes room for something that cannot be written into: what is there goes, as far as GNU lets it go.
    fn clear_place(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        directory: &Fd,
        source: &Stat,
        exists: Error,
    ) -> Result<(), Refused> {
        let there = stat_at(directory, target_name(found))
            .map_err(|cause| Refused::Said(cannot_stat(found, cause)))?;
        if there.identity == source.identity
            && source.kind == FileType::Symlink
            && found.name() != target_name(found)
        {
            // Two names of one link: it is there already.
            return Err(Refused::Unneeded);
        }
        self.check_existing(found, source, &there).map_err(Refused::Said)?;
        if self.leads_to(desk, found, source, &there) {
            let problem = Problem::new(wording::SAME_FILE);
            return Err(Refused::Said(problem.naming(found.path()).naming(target_path(found))));
        }
        let goes =
            self.options.dereference != Dereference::Always || self.options.existing == Existing::Force;
        if !goes {
            return Err(Refused::Because(exists));
        }
        self.make_room(desk, found, directory).map_err(Refused::Said)
    }

    /// Tells whether what stands in the target's place is removed for what cannot be written into it.
    fn gives_way(&self, source: &Stat, there: &Stat) -> bool {
        let special = self.options.dereference != Dereference::Always && source.kind != FileType::Regular;
        let linked = self.preserves(Preserve::LINKS) && there.links > 1;
        self.options.existing == Existing::Force || special || linked
    }

    /// Tells whether the source is a symbolic link to what stands in the target's place, which would be lost.
    fn leads_to(&self, desk: &Desk<'_, Self>, found: &Found<Self>, source: &Stat, there: &Stat) -> bool {
        source.kind == FileType::Symlink
            && there.kind != FileType::Symlink
            && desk
                .cache()
                .open(&found.node.source)
                .and_then(|directory| stat_path(Some(&*directory), found.name(), true))
                .is_ok_and(|end| end.identity == there.identity)
    }

    fn make_hard_link(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        source_directory: &Fd,
        source: &Stat,
    ) -> Result<Handled, Problem> {
        let name = target_name(found);
        let failed = |cause| {
            let problem = Problem::new(wording::CANNOT_LINK).naming(target_path(found)).naming(found.path());
            problem.because(cause)
        };
        let directory = open_directory(desk, found).map_err(failed)?;
        let follow = self.follows_here(found);
        let make = || link_at_path(Some(source_directory), found.name(), follow, &directory, name);
        let outcome = match make() {
            Err(cause) if cause.is(Errno::EXIST) => {
                let there = stat_at(&directory, name).map_err(|cause| cannot_stat(found, cause))?;
                if there.identity == source.identity {
                    return Ok(Handled::Over);
                }
                self.check_existing(found, source, &there)?;
                if !self.gives_way(source, &there) {
                    self.tell_copied(desk, found);
                    return Err(failed(cause));
                }
                self.make_room(desk, found, &directory)?;
                make()
            }
            outcome => outcome,
        };
        if let Err(cause) = outcome {
            let looked = failure(found, &directory, wording::CANNOT_LINK, cause.clone());
            self.tell_tried(desk, found, &looked);
            return Err(if looked.wording == wording::CANNOT_STAT { looked } else { failed(cause) });
        }
        self.tell_copied(desk, found);
        desk.count(Tally { hard_links: 1, ..Tally::default() });
        self.made(desk, found, None);
        Ok(Handled::Over)
    }

    fn make_link_to_source(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        source: &Stat,
    ) -> Result<Handled, Problem> {
        let (name, content) = (target_name(found), found.path());
        let failed = |cause| {
            let problem = Problem::new(wording::CANNOT_CREATE_LINK_TO).naming(target_path(found));
            problem.naming(found.path()).because(cause)
        };
        let directory = open_directory(desk, found).map_err(failed)?;
        match stat_at(&directory, name) {
            Ok(there) => {
                self.check_existing(found, source, &there)?;
                if self.gives_way(source, &there) {
                    self.make_room(desk, found, &directory)?;
                }
            }
            Err(cause) if cause.is(Errno::NOENT) => {}
            Err(cause) => return Err(cannot_stat(found, cause)),
        }
        self.tell_copied(desk, found);
        if !content.starts_with(b"/") && !self.is_current_directory(found) {
            return Err(Problem::new(wording::RELATIVE_LINK).naming(target_path(found)));
        }
        let content = CString::new(content).unwrap_or_default();
        make_symlink(&content, &directory, name).map_err(failed)?;
        if self.preserves(Preserve::TIMESTAMPS) {
            let times = Times { accessed: source.accessed, modified: source.modified };
            change_times_at(&directory, name, times)
                .map_err(|cause| Problem::new(wording::TIMES).naming(target_path(found)).because(cause))?;
        }
        desk.count(Tally { symlinks: 1, ..Tally::default() });
        self.made(desk, found, None);
        Ok(Handled::Over)
    }

    /// Tells whether an entry's copy goes to the directory that relative names start from.
    fn is_current_directory(&self, found: &Found<Self>) -> bool {
        let here = stat_path::<&Fd>(None, c".", true);
        here.is_ok_and(|here| here.identity == found.node.own.held.identity())
    }
}

/// Words that an entry's place cannot be looked at.
fn cannot_stat(found: &Found<Copier>, cause: Error) -> Problem {
    Problem::new(wording::CANNOT_STAT).naming(target_path(found)).because(cause)
}

/// The mode of a special file that gets none from its source.
fn default_mode(kind: FileType) -> Mode {
    if kind == FileType::Socket { Mode::ALL } else { Mode::READ_WRITE }
}

/// Why what stands in the place stays.
enum Refused {
    Unneeded,
    Because(Error),
    Said(Problem),
}
