//! Entries that are not opened: symbolic links, special files, and whatever `-l` and `-s` make.

use std::cell::Cell;
use std::ffi::{CStr, CString};

use haul_flow::{Context, Creation, Entry, Handled, Problem, Tally};
use haul_sys::{EntryType, Errno, Error, Fd, FileType, Identity, Mode, Operation, Special, Stat, Times};
use haul_sys::{link_at_path, make_special, make_symlink, read_link, stat_path};

use super::Copier;
use super::attributes::{Object, Subject};
use super::links::{NameClaim, replace};
use super::options::{Make, Preserve};
use super::place::{Left, Made, Place};
use super::stream;
use super::target::{failure, not_ours, open_directory, problem, target_name, target_path};
use super::wording;

impl Copier {
    pub(super) fn handle_entry(
        &self,
        cx: &Context<'_, Self>,
        found: &Entry<Self>,
        kind: EntryType,
    ) -> Handled {
        match self.try_handle(cx, found, kind) {
            Ok(handled) => handled,
            Err(problem) => {
                cx.problem(problem);
                Handled::Over
            }
        }
    }

    fn try_handle(
        &self,
        cx: &Context<'_, Self>,
        found: &Entry<Self>,
        kind: EntryType,
    ) -> Result<Handled, Problem> {
        if kind == EntryType::Directory {
            return Err(Problem::new(wording::OMITTING_DIRECTORY).naming(found.path()));
        }
        if self.links_at_once(cx, found) {
            return Ok(Handled::Over);
        }
        let cannot_stat = |cause| Problem::new(wording::CANNOT_STAT).naming(found.path()).because(cause);
        let directory = cx.cache().open(&found.node.source).map_err(cannot_stat)?;
        let follow = self.follows_here(found);
        let source = stat_path(Some(&*directory), found.name(), follow).map_err(cannot_stat)?;
        let is_read = self.options.make == Make::Copy && !self.options.attributes_only;
        if is_read && source.kind == FileType::Regular {
            // It was something else when it was decided that it is not read like one; reading it by name could wait for ever.
            return Err(Problem::new(haul_flow::wording::REPLACED).naming(found.path()));
        }
        match self.options.make {
            Make::HardLink => return self.make_hard_link(cx, found, &directory, &source),
            Make::Symlink | Make::Copy => {}
        }
        let link = match self.claim(cx, found, &source) {
            NameClaim::First(link) => link,
            NameClaim::Waits => return Ok(Handled::Deferred),
            NameClaim::Over => return Ok(Handled::Over),
        };
        let made = match (self.is_read_as_file(source.kind), self.options.attributes_only) {
            _ if self.options.make == Make::Symlink => self.make_link_to_source(cx, found, &source),
            (true, true) => self.copy_without_data(cx, found, &directory, &source),
            (true, false) => stream::copy_special(self, cx, found, &directory, &source),
            (false, _) => self.remake(cx, found, &directory, &source),
        };
        match made {
            Ok(Made::Whole) => self.made(cx, found, link),
            // A file that is as good as a copy is one for its other names too.
            Ok(Made::Left(Left::AsCopy)) => {
                if let Some(file) = link {
                    self.complete_link(cx, found, file, None);
                }
            }
            Ok(Made::Left(Left::AsItIs) | Made::Broken) => self.abandon_link(cx, link),
            Err(problem) => {
                self.abandon_link(cx, link);
                return Err(problem);
            }
        }
        Ok(Handled::Over)
    }

    /// Makes the link that `-l` or `-s` asks for in one call, if the listing has said all that has to be known; returns
    /// whether it is there. If not, looking closer will tell why.
    fn links_at_once(&self, cx: &Context<'_, Self>, found: &Entry<Self>) -> bool {
        // What the listing says, not what a link that is followed leads to.
        let is_listed = !found.is_operand() && matches!(found.kind, EntryType::Regular | EntryType::Special);
        if !is_listed || self.options.existing.backs_up() {
            return false;
        }
        let (made, counted) = match self.options.make {
            Make::Copy => return false,
            Make::HardLink => {
                (self.hard_link_at_once(cx, found), Tally { hard_links: 1, ..Tally::default() })
            }
            // Its times, and the other names of its source, are not in the listing.
            Make::Symlink if self.preserves(Preserve::TIMESTAMPS) || self.preserves(Preserve::LINKS) => {
                return false;
            }
            Make::Symlink => (self.symlink_at_once(cx, found), Tally { symlinks: 1, ..Tally::default() }),
        };
        let is_there = made.is_ok();
        if is_there {
            self.tell_copied(cx, found);
            cx.count(counted);
        }
        is_there
    }

    fn hard_link_at_once(&self, cx: &Context<'_, Self>, found: &Entry<Self>) -> Result<(), Error> {
        let (source, target) = (cx.cache().open(&found.node.source)?, open_directory(cx, found)?);
        link_at_path(Some(&*source), found.name(), false, &target, target_name(found))
    }

    fn symlink_at_once(&self, cx: &Context<'_, Self>, found: &Entry<Self>) -> Result<(), Error> {
        let (content, target) = (found.path(), open_directory(cx, found)?);
        if !content.starts_with(b"/") && !self.is_current_directory(found) {
            return Err(Error::new(Operation::Symlinkat, "a relative link".to_owned(), Errno::INVAL));
        }
        let content = CString::new(content).unwrap_or_default();
        make_symlink(&content, &target, target_name(found))
    }

    /// Tells whether something is copied as if it were a regular file.
    fn is_read_as_file(&self, kind: FileType) -> bool {
        match kind {
            FileType::Regular => true,
            FileType::Symlink | FileType::Directory => false,
            _ => !self.options.recursive || self.options.copy_contents,
        }
    }

    /// Records that an entry's copy stands.
    fn made(&self, cx: &Context<'_, Self>, found: &Entry<Self>, link: Option<Identity>) {
        if let Some(file) = link {
            self.complete_link(cx, found, file, None);
        }
        if found.is_operand() {
            self.record_created(cx, found);
        }
    }

    /// Makes a symbolic link or special file like the source, with its attributes.
    fn remake(
        &self,
        cx: &Context<'_, Self>,
        found: &Entry<Self>,
        source_directory: &Fd,
        source: &Stat,
    ) -> Result<Made, Problem> {
        let name = target_name(found);
        let cannot_create = match source.kind {
            FileType::Symlink => wording::CANNOT_CREATE_LINK,
            FileType::Fifo => wording::CANNOT_CREATE_FIFO,
            FileType::Unknown => return Err(Problem::new(wording::UNKNOWN_TYPE).naming(found.path())),
            _ => wording::CANNOT_CREATE_SPECIAL,
        };
        let directory = self.open_place(cx, found).map_err(|cause| problem(found, cannot_create, cause))?;
        let content = match source.kind {
            FileType::Symlink => {
                let unreadable =
                    |cause| Problem::new(wording::CANNOT_READ_LINK).naming(found.path()).because(cause);
                Some(read_link(source_directory, found.name()).map_err(unreadable)?)
            }
            _ => None,
        };
        let special = match &content {
            Some(_) => SYMLINK,
            None => Special {
                kind: source.kind,
                mode: source.mode.without(self.omitted(source.kind)),
                device_number: source.device_number,
            },
        };
        let creation = Cell::new(Creation::begin(special, found.node.own.is_shared));
        let make = |name: &CStr| {
            creation.set(Creation::begin(special, found.node.own.is_shared));
            match &content {
                Some(content) => {
                    self.made_links.make(&directory, name, || make_symlink(content, &directory, name))
                }
                None => make_special(&directory, name, special),
            }
        };
        match make(name) {
            Ok(()) => self.tell_copied(cx, found),
            Err(cause) if cause.is(Errno::EXIST) => {
                let replaces = self.options.existing.force && source.kind == FileType::Symlink;
                let place = Taken { directory: &directory, source, replaces, exists: cause };
                let failed = |cause| problem(found, cannot_create, cause);
                if let Some(left) = self.make_in_place(cx, found, place, &make, &failed)? {
                    return Ok(Made::Left(left));
                }
            }
            Err(cause) => {
                let problem = failure(found, &directory, cannot_create, cause);
                self.tell_tried(cx, found, &problem);
                return Err(problem);
            }
        }
        self.give_pinned_attributes(cx, found, source_directory, (&directory, creation.get()), source)?;
        self.count_remade(cx, source.kind);
        Ok(Made::Whole)
    }

    /// Makes something that cannot be written into, where something stands in its place. Returns what stays, if anything
    /// does, and that was told.
    fn make_in_place(
        &self,
        cx: &Context<'_, Self>,
        found: &Entry<Self>,
        taken: Taken<'_>,
        make: &dyn Fn(&CStr) -> Result<(), Error>,
        failed: &dyn Fn(Error) -> Problem,
    ) -> Result<Option<Left>, Problem> {
        let Taken { directory, source, replaces, exists } = taken;
        let mut turn = self.turn(found);
        match self.clear(cx, found, directory, &mut turn, source)? {
            Place::Left(left) => Ok(Some(left)),
            Place::Taken(_) => {
                self.tell_copied(cx, found);
                let outcome =
                    if replaces { replace(directory, target_name(found), make) } else { Err(exists) };
                outcome.map(|()| None).map_err(failed)
            }
            Place::Free(backup) => {
                self.tell_copied_over(cx, found, backup.as_deref());
                make(target_name(found)).map(|()| None).map_err(|cause| {
                    self.put_back(cx, found, backup.as_deref());
                    failed(cause)
                })
            }
        }
    }

    /// Gives what was made its attributes. What can't be given is reported; the copy stands.
    ///
    /// # Errors
    /// When it was replaced, or can't be pinned.
    fn give_pinned_attributes(
        &self,
        cx: &Context<'_, Self>,
        found: &Entry<Self>,
        source_directory: &Fd,
        (directory, creation): (&Fd, Creation),
        source: &Stat,
    ) -> Result<(), Problem> {
        let plain = source.mode.without(self.umask);
        let made_with = source.mode.without(self.omitted(source.kind)).without(self.umask);
        let plain_mode = match self.options.default_mode {
            true => Some(default_mode(source.kind).without(self.umask)),
            false => (plain != made_with).then_some(plain),
        };
        let gets_mode = plain_mode.is_some() && source.kind != FileType::Symlink;
        let keeps = self.options.preserve.difference(Preserve::LINKS);
        if keeps.is_empty() && !self.reads_xattrs() && !gets_mode {
            return Ok(());
        }
        let pinned = creation
            .pin(directory, target_name(found), found.node.own.is_shared)
            .map_err(|cause| not_ours(found, wording::PERMISSIONS, cause))?;
        let xattrs = self.read_named_xattrs(cx, (source_directory, found.name()), &|| found.path());
        let subject = Subject {
            object: Object::Pinned(&pinned),
            stat: source,
            xattrs: &xattrs,
            before: None,
            plain_mode,
            has_access_list: found.node.own.gives_access_list,
            creation_mode: None,
            target_path: &|| target_path(found),
        };
        self.give_attributes(cx, &subject);
        Ok(())
    }

    fn count_remade(&self, cx: &Context<'_, Self>, kind: FileType) {
        let counted = match kind {
            FileType::Symlink => Tally { symlinks: 1, ..Tally::default() },
            _ => Tally { specials: 1, ..Tally::default() },
        };
        cx.count(counted);
    }

    fn make_hard_link(
        &self,
        cx: &Context<'_, Self>,
        found: &Entry<Self>,
        source_directory: &Fd,
        source: &Stat,
    ) -> Result<Handled, Problem> {
        let failed = |cause| {
            let problem = Problem::new(wording::CANNOT_LINK).naming(target_path(found)).naming(found.path());
            problem.because(cause)
        };
        let directory = self.open_place(cx, found).map_err(failed)?;
        let follow = self.follows_here(found);
        let make = |name: &CStr| link_at_path(Some(source_directory), found.name(), follow, &directory, name);
        match make(target_name(found)) {
            Ok(()) => self.tell_copied(cx, found),
            Err(cause) if cause.is(Errno::EXIST) => {
                let replaces = self.options.existing.force || self.options.existing.ask;
                let taken = Taken { directory: &directory, source, replaces, exists: cause };
                if self.make_in_place(cx, found, taken, &make, &failed)?.is_some() {
                    return Ok(Handled::Over);
                }
            }
            Err(cause) => {
                let looked = failure(found, &directory, wording::CANNOT_LINK, cause.clone());
                self.tell_tried(cx, found, &looked);
                return Err(if looked.wording == wording::CANNOT_STAT { looked } else { failed(cause) });
            }
        }
        cx.count(Tally { hard_links: 1, ..Tally::default() });
        self.made(cx, found, None);
        Ok(Handled::Over)
    }

    fn make_link_to_source(
        &self,
        cx: &Context<'_, Self>,
        found: &Entry<Self>,
        source: &Stat,
    ) -> Result<Made, Problem> {
        let content = found.path();
        let failed = |cause| {
            let problem = Problem::new(wording::CANNOT_CREATE_LINK_TO).naming(target_path(found));
            problem.naming(found.path()).because(cause)
        };
        let directory = self.open_place(cx, found).map_err(failed)?;
        let leads = content.starts_with(b"/") || self.is_current_directory(found);
        let content = CString::new(content).unwrap_or_default();
        let creation = Cell::new(Creation::begin(SYMLINK, found.node.own.is_shared));
        let make = |name: &CStr| {
            creation.set(Creation::begin(SYMLINK, found.node.own.is_shared));
            make_symlink(&content, &directory, name)
        };
        if leads && !self.options.existing.backs_up() && make(target_name(found)).is_ok() {
            self.tell_copied(cx, found);
        } else {
            // Something is in the way, or something else is wrong with the place: looking at it will tell.
            let mut turn = self.turn(found);
            let backup = match self.clear(cx, found, &directory, &mut turn, source)? {
                Place::Left(left) => return Ok(Made::Left(left)),
                Place::Taken(_) => None,
                Place::Free(backup) => backup,
            };
            self.tell_copied_over(cx, found, backup.as_deref());
            let outcome = match leads {
                true => self.make_or_replace(&directory, target_name(found), &make).map_err(failed),
                false => Err(Problem::new(wording::RELATIVE_LINK).naming(target_path(found))),
            };
            if let Err(problem) = outcome {
                self.put_back(cx, found, backup.as_deref());
                return Err(problem);
            }
        }
        if self.preserves(Preserve::TIMESTAMPS) {
            let times = Times { accessed: source.accessed, modified: source.modified };
            creation
                .get()
                .pin(&directory, target_name(found), found.node.own.is_shared)
                .and_then(|link| link.change_times(times))
                .map_err(|cause| not_ours(found, wording::TIMES, cause))?;
        }
        cx.count(Tally { symlinks: 1, ..Tally::default() });
        Ok(Made::Whole)
    }

    /// Makes a symbolic link, with `-f` also in the place of what is there.
    fn make_or_replace(
        &self,
        directory: &Fd,
        name: &CStr,
        make: &dyn Fn(&CStr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match make(name) {
            Err(cause) if cause.is(Errno::EXIST) && self.options.existing.force => {
                replace(directory, name, make)
            }
            outcome => outcome,
        }
    }

    /// Tells whether an entry's copy goes to the directory that relative names start from.
    fn is_current_directory(&self, found: &Entry<Self>) -> bool {
        let here = stat_path::<&Fd>(None, c".", true);
        here.is_ok_and(|here| here.identity == found.node.own.held.identity())
    }
}

/// A place in which something stands.
struct Taken<'a> {
    /// The directory it is in.
    directory: &'a Fd,
    /// What the source is.
    source: &'a Stat,
    /// Whether what is not removed first is replaced in one go.
    replaces: bool,
    /// The error that said so.
    exists: Error,
}

/// A new symbolic link.
const SYMLINK: Special = Special { kind: FileType::Symlink, mode: Mode::ALL, device_number: 0 };

/// The mode of a special file that gets none from its source.
fn default_mode(kind: FileType) -> Mode {
    if kind == FileType::Socket { Mode::ALL } else { Mode::READ_WRITE }
}
