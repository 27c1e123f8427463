//! Entries that are not opened: symbolic links, special files, and whatever `-l` and `-s` create.

use std::cell::Cell;
use std::ffi::{CStr, CString};

use haul_flow::{Context, Creation, Entry, FlowKind, Handled, Problem, Tally};
use haul_sys::{EntryType, Errno, Error, Fd, FileType, Identity, Mode, Operation, Special, Stat, Times};
use haul_sys::{link_at_path, make_special, make_symlink, read_link, stat_path};

use super::Copier;
use super::CopyKind;
use super::attributes::{Object, Subject};
use super::links::{NameClaim, replace};
use super::options::{Make, Preserve};
use super::place::{Left, Made, Place};
use super::stream;
use super::target::{failure, not_ours, open_directory, problem, target_name, target_path};

impl Copier {
    pub(super) fn handle_entry(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        kind: EntryType,
    ) -> Handled {
        match self.try_handle(cx, entry, kind) {
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
        entry: &Entry<Self>,
        kind: EntryType,
    ) -> Result<Handled, Problem> {
        if kind == EntryType::Directory {
            return Err(Problem::new(CopyKind::OmittingDirectory).naming(entry.path()));
        }
        if self.links_at_once(cx, entry) {
            return Ok(Handled::Over);
        }
        let cannot_stat = |cause| Problem::new(CopyKind::CannotStat).naming(entry.path()).because(cause);
        let directory = cx.cache().open(&entry.node.source).map_err(cannot_stat)?;
        let follow = self.follows_here(entry);
        let source = stat_path(Some(&*directory), entry.name(), follow).map_err(cannot_stat)?;
        let is_read = self.options.make == Make::Copy && !self.options.attributes_only;
        if is_read && source.kind == FileType::Regular {
            // It was something else when the walk decided not to read it. Reading it by name could
            // block forever.
            return Err(Problem::new(FlowKind::Replaced).naming(entry.path()));
        }
        match self.options.make {
            Make::HardLink => return self.make_hard_link(cx, entry, &directory, &source),
            Make::Symlink | Make::Copy => {}
        }
        let link = match self.claim(cx, entry, &source) {
            NameClaim::First(link) => link,
            NameClaim::Waits => return Ok(Handled::Deferred),
            NameClaim::Over => return Ok(Handled::Over),
        };
        let made = match (self.is_read_as_file(source.kind), self.options.attributes_only) {
            _ if self.options.make == Make::Symlink => self.make_link_to_source(cx, entry, &source),
            (true, true) => self.copy_without_data(cx, entry, &directory, &source),
            (true, false) => stream::copy_special(self, cx, entry, &directory, &source),
            (false, _) => self.remake(cx, entry, &directory, &source),
        };
        match made {
            Ok(Made::Whole) => self.made(cx, entry, link),
            // A file as good as a copy can also serve the source's other names.
            Ok(Made::Left(Left::AsCopy)) => {
                if let Some(file) = link {
                    self.complete_link(cx, entry, file, None);
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

    /// Creates the link for `-l` or `-s` in one call, if the directory listing says enough; returns
    /// true on success. Otherwise the full path reports why.
    fn links_at_once(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> bool {
        // The listed type, not that of a followed link's target.
        let is_listed = !entry.is_operand() && matches!(entry.kind, EntryType::Regular | EntryType::Special);
        if !is_listed || self.options.existing.backs_up() {
            return false;
        }
        let (made, counted) = match self.options.make {
            Make::Copy => return false,
            Make::HardLink => {
                (self.hard_link_at_once(cx, entry), Tally { hard_links: 1, ..Tally::default() })
            }
            // A listing has neither its times nor the other names of its source.
            Make::Symlink if self.preserves(Preserve::TIMESTAMPS) || self.preserves(Preserve::LINKS) => {
                return false;
            }
            Make::Symlink => (self.symlink_at_once(cx, entry), Tally { symlinks: 1, ..Tally::default() }),
        };
        let is_there = made.is_ok();
        if is_there {
            self.tell_copied(cx, entry);
            cx.count(counted);
        }
        is_there
    }

    fn hard_link_at_once(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Result<(), Error> {
        let (source, target) = (cx.cache().open(&entry.node.source)?, open_directory(cx, entry)?);
        link_at_path(Some(&*source), entry.name(), false, &target, target_name(entry))
    }

    fn symlink_at_once(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Result<(), Error> {
        let (content, target) = (entry.path(), open_directory(cx, entry)?);
        if !content.starts_with(b"/") && !self.is_current_directory(entry) {
            return Err(Error::new(Operation::Symlinkat, "a relative link".to_owned(), Errno::INVAL));
        }
        let content = CString::new(content).unwrap_or_default();
        make_symlink(&content, &target, target_name(entry))
    }

    /// True if content is copied as from a regular file.
    fn is_read_as_file(&self, kind: FileType) -> bool {
        match kind {
            FileType::Regular => true,
            FileType::Symlink | FileType::Directory => false,
            _ => !self.options.recursive || self.options.copy_contents,
        }
    }

    /// Completes the hard-link claim and the records of a finished copy.
    fn made(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, link: Option<Identity>) {
        if let Some(file) = link {
            self.complete_link(cx, entry, file, None);
        }
        if entry.is_operand() {
            self.record_created(cx, entry);
        }
    }

    /// Recreates a symbolic link or special file with its attributes.
    fn remake(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source_directory: &Fd,
        source: &Stat,
    ) -> Result<Made, Problem> {
        let name = target_name(entry);
        let cannot_create = match source.kind {
            FileType::Symlink => CopyKind::CannotCreateLink,
            FileType::Fifo => CopyKind::CannotCreateFifo,
            FileType::Unknown => return Err(Problem::new(CopyKind::UnknownType).naming(entry.path())),
            _ => CopyKind::CannotCreateSpecial,
        };
        let directory = self.open_place(cx, entry).map_err(|cause| problem(entry, cannot_create, cause))?;
        let content = match source.kind {
            FileType::Symlink => {
                let unreadable =
                    |cause| Problem::new(CopyKind::CannotReadLink).naming(entry.path()).because(cause);
                Some(read_link(source_directory, entry.name()).map_err(unreadable)?)
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
        let creation = Cell::new(Creation::begin(special, entry.node.own.is_shared));
        let make = |name: &CStr| {
            creation.set(Creation::begin(special, entry.node.own.is_shared));
            match &content {
                Some(content) => {
                    self.made_links.make(&directory, name, || make_symlink(content, &directory, name))
                }
                None => make_special(&directory, name, special),
            }
        };
        match make(name) {
            Ok(()) => self.tell_copied(cx, entry),
            Err(cause) if cause.is(Errno::EXIST) => {
                let replaces = self.options.existing.force && source.kind == FileType::Symlink;
                let place = Taken { directory: &directory, source, replaces, exists: cause };
                let failed = |cause| problem(entry, cannot_create, cause);
                if let Some(left) = self.make_in_place(cx, entry, place, &make, &failed)? {
                    return Ok(Made::Left(left));
                }
            }
            Err(cause) => {
                let problem = failure(entry, &directory, cannot_create, cause);
                self.tell_tried(cx, entry, &problem);
                return Err(problem);
            }
        }
        self.give_pinned_attributes(cx, entry, source_directory, (&directory, creation.get()), source)?;
        self.count_remade(cx, source.kind);
        Ok(Made::Whole)
    }

    /// Creates something that can't be written into, where something exists. Returns what stays, if
    /// anything, which was reported.
    fn make_in_place(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        taken: Taken<'_>,
        make: &dyn Fn(&CStr) -> Result<(), Error>,
        failed: &dyn Fn(Error) -> Problem,
    ) -> Result<Option<Left>, Problem> {
        let Taken { directory, source, replaces, exists } = taken;
        let mut turn = self.turn(entry);
        match self.clear(cx, entry, directory, &mut turn, source)? {
            Place::Left(left) => Ok(Some(left)),
            Place::Taken(_) => {
                self.tell_copied(cx, entry);
                let outcome =
                    if replaces { replace(directory, target_name(entry), make) } else { Err(exists) };
                outcome.map(|()| None).map_err(failed)
            }
            Place::Free(backup) => {
                self.tell_copied_over(cx, entry, backup.as_deref());
                make(target_name(entry)).map(|()| None).map_err(|cause| {
                    self.put_back(cx, entry, backup.as_deref());
                    failed(cause)
                })
            }
        }
    }

    /// Sets a new entry's attributes. Failures are reported; the copy counts anyway.
    ///
    /// # Errors
    /// When it was replaced, or can't be pinned.
    fn give_pinned_attributes(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
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
            .pin(directory, target_name(entry), entry.node.own.is_shared)
            .map_err(|cause| not_ours(entry, CopyKind::Permissions, cause))?;
        let xattrs = self.read_named_xattrs(cx, (source_directory, entry.name()), &|| entry.path());
        let subject = Subject {
            object: Object::Pinned(&pinned),
            stat: source,
            xattrs: &xattrs,
            before: None,
            plain_mode,
            has_access_list: entry.node.own.gives_access_list,
            creation_mode: None,
            target_path: &|| target_path(entry),
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
        entry: &Entry<Self>,
        source_directory: &Fd,
        source: &Stat,
    ) -> Result<Handled, Problem> {
        let failed = |cause| {
            let problem = Problem::new(CopyKind::CannotLink).naming(target_path(entry)).naming(entry.path());
            problem.because(cause)
        };
        let directory = self.open_place(cx, entry).map_err(failed)?;
        let follow = self.follows_here(entry);
        let make = |name: &CStr| link_at_path(Some(source_directory), entry.name(), follow, &directory, name);
        match make(target_name(entry)) {
            Ok(()) => self.tell_copied(cx, entry),
            Err(cause) if cause.is(Errno::EXIST) => {
                let replaces = self.options.existing.force || self.options.existing.ask;
                let taken = Taken { directory: &directory, source, replaces, exists: cause };
                if self.make_in_place(cx, entry, taken, &make, &failed)?.is_some() {
                    return Ok(Handled::Over);
                }
            }
            Err(cause) => {
                let looked = failure(entry, &directory, CopyKind::CannotLink, cause.clone());
                self.tell_tried(cx, entry, &looked);
                return Err(if looked.kind == CopyKind::CannotStat { looked } else { failed(cause) });
            }
        }
        cx.count(Tally { hard_links: 1, ..Tally::default() });
        self.made(cx, entry, None);
        Ok(Handled::Over)
    }

    fn make_link_to_source(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: &Stat,
    ) -> Result<Made, Problem> {
        let content = entry.path();
        let failed = |cause| {
            let problem = Problem::new(CopyKind::CannotCreateLinkTo).naming(target_path(entry));
            problem.naming(entry.path()).because(cause)
        };
        let directory = self.open_place(cx, entry).map_err(failed)?;
        let leads = content.starts_with(b"/") || self.is_current_directory(entry);
        let content = CString::new(content).unwrap_or_default();
        let creation = Cell::new(Creation::begin(SYMLINK, entry.node.own.is_shared));
        let make = |name: &CStr| {
            creation.set(Creation::begin(SYMLINK, entry.node.own.is_shared));
            make_symlink(&content, &directory, name)
        };
        if leads && !self.options.existing.backs_up() && make(target_name(entry)).is_ok() {
            self.tell_copied(cx, entry);
        } else {
            // Something exists, or something is wrong with the directory; `clear` finds out.
            let mut turn = self.turn(entry);
            let backup = match self.clear(cx, entry, &directory, &mut turn, source)? {
                Place::Left(left) => return Ok(Made::Left(left)),
                Place::Taken(_) => None,
                Place::Free(backup) => backup,
            };
            self.tell_copied_over(cx, entry, backup.as_deref());
            let outcome = match leads {
                true => self.make_or_replace(&directory, target_name(entry), &make).map_err(failed),
                false => Err(Problem::new(CopyKind::RelativeLink).naming(target_path(entry))),
            };
            if let Err(problem) = outcome {
                self.put_back(cx, entry, backup.as_deref());
                return Err(problem);
            }
        }
        if self.preserves(Preserve::TIMESTAMPS) {
            let times = Times { accessed: source.accessed, modified: source.modified };
            creation
                .get()
                .pin(&directory, target_name(entry), entry.node.own.is_shared)
                .and_then(|link| link.change_times(times))
                .map_err(|cause| not_ours(entry, CopyKind::Times, cause))?;
        }
        cx.count(Tally { symlinks: 1, ..Tally::default() });
        Ok(Made::Whole)
    }

    /// Creates a symbolic link; with `-f` replaces an existing entry.
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

    /// True if an entry's copy goes to the current directory.
    fn is_current_directory(&self, entry: &Entry<Self>) -> bool {
        let here = stat_path::<&Fd>(None, c".", true);
        here.is_ok_and(|here| here.identity == entry.node.own.held.identity())
    }
}

/// A place where something exists.
struct Taken<'a> {
    /// Its directory.
    directory: &'a Fd,
    /// The source's `stat`.
    source: &'a Stat,
    /// True if an entry that is not removed first is replaced atomically.
    replaces: bool,
    /// The `EEXIST` error.
    exists: Error,
}

/// A new symbolic link.
const SYMLINK: Special = Special { kind: FileType::Symlink, mode: Mode::ALL, device_number: 0 };

/// Mode of a special file that gets none from its source.
fn default_mode(kind: FileType) -> Mode {
    if kind == FileType::Socket { Mode::ALL } else { Mode::READ_WRITE }
}
