//! Copies directories: created when entered, given their attributes when left.
//!
//! A new directory is created with the permissions its owner needs to work in it, and none for
//! others that the source does not grant. What was withheld, and what the umask or `-p` decides, is
//! set after the last entry.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_flow::{Context, Creation, DirNode, Enter, Entry, FlowKind, OpenDir, Problem, Tally, is_shared};
use haul_sys::{Errno, Error, Fd, FileType, Identity, Mode, Open, Operation, Special, Stat};
use haul_sys::{make_directory, open, stat};

use super::Copier;
use super::CopyKind;
use super::attributes::{Object, Subject};
use super::existing::looks_at_link;
use super::named::NamedCopy;
use super::options::{Dereference, Preserve};
use super::place::Place;
use super::target::{
    CreationModes, MadeDirectory, TargetDirectory, failure, not_ours, open_directory, problem,
    shown_directory, target_name, target_path,
};
use super::xattr_rules::SourceXattrs;

/// A target directory that was created or found.
struct Ready {
    fd: Arc<Fd>,
    stat: Stat,
    is_new: bool,
}

impl Copier {
    pub(super) fn enter_directory(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<TargetDirectory> {
        if self.is_own_copy(cx, entry, opened.stat.identity) {
            return Enter::Over;
        }
        if let Some(refusal) = self.refusal(entry, opened.stat) {
            cx.problem(self.refuse(cx, entry, opened.stat, refusal));
            return Enter::Over;
        }
        let ready = match self.ready_directory(entry, opened.stat, cx) {
            Ok(Some(ready)) => ready,
            Ok(None) => return Enter::Over,
            Err(problem) => {
                cx.problem(problem);
                return Enter::Over;
            }
        };
        let above = &entry.node.own;
        if entry.is_operand() {
            self.named.record(opened.stat.identity, || NamedCopy {
                operand: above.copy.index,
                place: (above.held.identity(), target_name(entry).to_owned()),
                shown: target_path(entry),
            });
        }
        if ready.is_new {
            let above_is_new = above.made.as_ref().is_some_and(|made| made.before.is_none());
            if !above_is_new && !self.tops.record(ready.stat.identity, above.copy.index) {
                cx.problem(Problem::new(CopyKind::ReplacedWhileMade).naming(target_path(entry)));
                return Enter::Over;
            }
            self.tell_copied(cx, entry);
            if let Ok(source) = opened.source {
                self.give_directory_layout(cx, entry, (source, opened.stat), (&ready.fd, &ready.stat));
            }
        }
        cx.count(Tally { directories: 1, ..Tally::default() });
        let xattrs = match opened.source {
            Ok(source) => self.read_xattrs(cx, Object::Open(source), &|| entry.path()),
            Err(_) => SourceXattrs::default(),
        };
        let follow = !ready.is_new && !looks_at_link(&self.options, FileType::Directory);
        let how = if follow { Open::DIRECTORY.following() } else { Open::DIRECTORY };
        let gives_access_list = self.gives_access_list(&ready.fd);
        let crossing =
            entry.node.stat.is_some_and(|above| above.identity.device != opened.stat.identity.device);
        let held = cx.cache().hold_shown(
            (&above.held, target_name(entry)),
            how,
            ready.stat.identity,
            Some(Arc::clone(&ready.fd)),
            shown_directory(entry),
        );
        let own = TargetDirectory {
            held,
            rename: None,
            copy: Arc::clone(&above.copy),
            made: Some(MadeDirectory {
                before: (!ready.is_new).then_some(ready.stat),
                plain_mode: self.plain_directory_mode(opened.stat, &ready),
                xattrs,
            }),
            reflink_refused: AtomicBool::new(above.refuses_reflink()),
            is_shared: !ready.is_new && is_shared(&ready.stat, self.process.user),
            gives_access_list,
            creation_modes: CreationModes::default(),
        };
        if self.options.one_file_system && crossing { Enter::Bare(own) } else { Enter::Visit(own) }
    }

    /// Reports once that the target is inside the source.
    fn tell_into_itself(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        let copy = &entry.node.own.copy;
        if copy.tells_first() {
            let problem = Problem::new(CopyKind::IntoItself);
            cx.problem(problem.naming(copy.source.clone()).naming(copy.target.clone()));
        }
    }

    /// True if a directory is the top of a tree this run created, and so must be skipped. Reports
    /// what GNU reports.
    ///
    /// GNU copies operands one after another, and so refuses what an earlier one created. Here the
    /// order of the operands decides too, no matter which is copied first.
    fn is_own_copy(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, directory: Identity) -> bool {
        let Some(operand) = self.tops.operand(directory) else { return false };
        if operand <= entry.node.own.copy.index {
            self.tell_into_itself(cx, entry);
        }
        true
    }

    /// Returns the refusal of a directory already copied for another operand, or of a cyclic
    /// symbolic link.
    fn refusal(&self, entry: &Entry<Self>, source: &Stat) -> Option<Problem> {
        let follows = self.follows_here(entry);
        if self.options.dereference == Dereference::Always && entry.node.is_within(source.identity) {
            return Some(Problem::new(CopyKind::CyclicLink).naming(entry.path()));
        }
        let own = &entry.node.own;
        let copied = self.named.of(source.identity).filter(|copied| copied.operand < own.copy.index)?;
        if copied.is_in(own.held.identity(), target_name(entry)) {
            let problem = Problem::new(CopyKind::DirectoryTwice).naming(own.copy.source.clone());
            return Some(problem.as_warning());
        }
        let problem = || Problem::new(CopyKind::NoDirectoryLink).naming(target_path(entry));
        (!follows).then(|| problem().naming(copied.shown))
    }

    /// Returns the error for a refused directory. As with GNU, problems with the existing target
    /// come first.
    fn refuse(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: &Stat,
        refusal: Problem,
    ) -> Problem {
        let Ok(parent) = open_directory(cx, entry) else { return refusal };
        if self.options.existing.backs_up() {
            return refusal;
        }
        // Without backups `clear` removes nothing for a directory, so this only checks.
        self.clear(cx, entry, &parent, &mut None, source).err().unwrap_or(refusal)
    }

    /// Creates or finds the target directory. `None` if it is skipped, which was reported.
    fn ready_directory(
        &self,
        entry: &Entry<Self>,
        source: &Stat,
        cx: &Context<'_, Self>,
    ) -> Result<Option<Ready>, Problem> {
        let parent = open_directory(cx, entry)
            .map_err(|cause| problem(entry, CopyKind::CannotCreateDirectory, cause))?;
        let exists = match self.make_new_directory(entry, source, &parent) {
            Ok(ready) => return ready.map(Some),
            Err(cause) if cause.is(Errno::EXIST) => cause,
            Err(cause) => return Err(failure(entry, &parent, CopyKind::CannotCreateDirectory, cause)),
        };
        let mut turn = self.turn(entry);
        match self.clear(cx, entry, &parent, &mut turn, source)? {
            Place::Left(_) => Ok(None),
            Place::Taken(Some(there)) if there.kind == FileType::Directory => {
                self.existing_directory(entry, &parent).map(Some)
            }
            Place::Taken(_) => Err(problem(entry, CopyKind::CannotCreateDirectory, exists)),
            Place::Free(backup) => {
                let made = self
                    .make_new_directory(entry, source, &parent)
                    .map_err(|cause| problem(entry, CopyKind::CannotCreateDirectory, cause))
                    .and_then(|ready| ready);
                if made.is_err() {
                    self.put_back(cx, entry, backup.as_deref());
                }
                made.map(Some)
            }
        }
    }

    /// Creates a directory where nothing exists. The outer error is the one from `mkdir`.
    fn make_new_directory(
        &self,
        entry: &Entry<Self>,
        source: &Stat,
        parent: &Fd,
    ) -> Result<Result<Ready, Problem>, Error> {
        let (name, mode) = (target_name(entry), self.new_directory_mode(source).or(Mode::OWNER));
        let creation = Creation::begin(
            Special { kind: FileType::Directory, mode, device_number: 0 },
            entry.node.own.is_shared,
        );
        make_directory(parent, name, mode)?;
        let opened = creation.open_directory(parent, name, entry.node.own.is_shared);
        // `stat` has the mode it was created with, so that finishing knows the effect of the umask
        // and the parent.
        Ok(opened.map(|(fd, stat)| Ready { fd: Arc::new(fd), stat, is_new: true }).map_err(|cause| {
            let kind = match cause.operation() {
                Operation::Fchmod => CopyKind::SettingPermissions,
                _ => CopyKind::CannotStat,
            };
            not_ours(entry, kind, cause)
        }))
    }

    fn existing_directory(&self, entry: &Entry<Self>, parent: &Fd) -> Result<Ready, Problem> {
        let name = target_name(entry);
        let follow = !looks_at_link(&self.options, FileType::Directory);
        let how = |how: Open| if follow { how.following() } else { how };
        let fd = match open(parent, name, how(Open::DIRECTORY)) {
            // A directory may be writable without being readable.
            Err(cause) if cause.is(Errno::ACCESS) => open(parent, name, how(Open::SEARCH)),
            outcome => outcome,
        };
        let fd = fd.map_err(|cause| problem(entry, CopyKind::CannotStat, cause))?;
        if follow && self.made_links.has(parent, name) {
            let problem = Problem::new(CopyKind::JustCreatedLink);
            return Err(problem.naming(entry.path()).naming(target_path(entry)));
        }
        let stat = stat(&fd).map_err(|cause| problem(entry, CopyKind::CannotStat, cause))?;
        Ok(Ready { fd: Arc::new(fd), stat, is_new: false })
    }

    /// Mode a directory is created with, before its owner's permissions are added.
    fn new_directory_mode(&self, source: &Stat) -> Mode {
        source.mode.without(self.omitted(source.kind))
    }

    /// Mode a new directory gets at the end if the source's is not preserved: the source's less the
    /// umask, with the set-id and sticky bits it was created with. `None` if it already has it.
    fn plain_directory_mode(&self, source: &Stat, ready: &Ready) -> Option<Mode> {
        let made = ready.stat.mode;
        let plain = if self.options.default_mode {
            Mode::ALL.without(self.umask).or(made.and(Mode::SPECIAL))
        } else {
            // It was created with all owner permissions. Any it lacks were removed by the umask, or
            // by an inherited ACL, which overrides the umask.
            let owner = source.mode.and(made).and(Mode::OWNER);
            let omitted = source.mode.and(self.omitted(source.kind)).without(self.umask);
            made.without(Mode::OWNER).or(owner).or(omitted)
        };
        let changes = self.options.default_mode || plain != made.or(Mode::OWNER);
        (ready.is_new && changes).then_some(plain)
    }

    pub(super) fn leave_directory(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        let own = &node.own;
        let (Some(made), Some(source)) = (&own.made, &node.stat) else { return };
        let path = || own.held.path();
        let keeps_its_own = self.options.strict && made.before.is_some();
        // Before its times are set.
        if made.before.is_some() {
            self.sweep(cx.cache(), &own.held).into_iter().for_each(|problem| cx.problem(problem));
        }
        match cx.cache().open(&own.held) {
            Ok(_) if keeps_its_own => {}
            Ok(fd) => {
                let subject = Subject {
                    object: Object::Open(&fd),
                    stat: source,
                    xattrs: &made.xattrs,
                    before: made.before.as_ref(),
                    plain_mode: made.plain_mode,
                    has_access_list: own.gives_access_list,
                    creation_mode: None,
                    target_path: &path,
                };
                self.give_attributes(cx, &subject);
            }
            Err(cause) => {
                cx.problem(Problem::new(CopyKind::Permissions).naming(path()).because(cause));
            }
        }
        if self.options.existing.backs_up() {
            self.backups.forget(own.held.identity());
        }
        cx.cache().lift(&own.held);
        if let Err(cause) = cx.cache().close(&own.held) {
            cx.problem(Problem::new(FlowKind::FailedToClose).naming(path()).because(cause));
        }
    }

    /// Prints the `--verbose` line for an entry whose copy failed after GNU would have checked
    /// its target.
    pub(super) fn tell_tried(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, problem: &Problem) {
        if problem.kind != CopyKind::CannotStat {
            self.tell_copied(cx, entry);
        }
    }

    /// Permissions withheld from a new entry until its owner is set.
    pub(super) fn omitted(&self, kind: FileType) -> Mode {
        if self.preserves(Preserve::OWNERSHIP) {
            Mode::GROUP_AND_OTHER
        } else if kind == FileType::Directory {
            Mode::GROUP_AND_OTHER_WRITE
        } else {
            Mode::default()
        }
    }
}
