//! Clears a target's place, as `existing.rs` decides.
//!
//! The common case costs nothing: a target is created with a call that fails if something exists,
//! and only then is its place examined. With `-u`, `-n` and `-i` it is examined first, by name, so
//! a file that is skipped is never opened.

use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;

use haul_flow::{Context, Entry, Line, Problem, Tally};
use haul_sys::{EntryType, Errno, Error, Fd, FileType, Mode, Stat};
use haul_sys::{may_write, remove, rename, stat_at, stat_path};

use super::Copier;
use super::CopyKind;
use super::backup::{Turn, base_of};
use super::existing::{Case, Decision, Refusal, Sight, Skip, decide, looks_at_link};
use super::options::{Preserve, Update};
use super::target::{open_directory, problem, target_name, target_path};

/// State of a target's place once it has been prepared.
pub(super) enum Place {
    /// It is free. The old file may be kept under the given name.
    Free(Option<CString>),
    /// Something is there, to be overwritten or entered. There is no `stat` for a symbolic link to
    /// itself, which `-f` removes.
    Taken(Option<Stat>),
    /// The existing file stays and nothing is copied. Everything has been reported.
    Left(Left),
}

/// The target that stays when nothing is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// A file no older than the source: as good as its copy.
    AsCopy,
    /// Anything else.
    AsItIs,
}

/// Result of creating an entry's copy in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// It was created.
    Whole,
    /// It is missing or incomplete, and that was reported.
    Broken,
    /// The existing file stays, and that was reported.
    Left(Left),
}

impl Made {
    pub(super) fn whole_if(whole: bool) -> Self {
        if whole { Made::Whole } else { Made::Broken }
    }
}

impl Copier {
    /// Waits for the turn to make a backup in the target's directory; `None` if no backups
    /// are made.
    pub(super) fn turn(&self, entry: &Entry<Self>) -> Option<Turn<'_>> {
        let backs_up = self.options.existing.backs_up();
        backs_up.then(|| self.backups.turn(entry.node.own.held.identity()))
    }

    /// True if the entry's target exists and stays, judging by names alone; it was then reported.
    pub(super) fn leaves(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> bool {
        let existing = &self.options.existing;
        if existing.update == Update::All && !existing.ask {
            return false;
        }
        if existing.ask {
            self.agreed.store(false, Ordering::Relaxed);
        }
        let kind = match kind {
            EntryType::Regular => FileType::Regular,
            EntryType::Symlink => FileType::Symlink,
            EntryType::Directory => return false,
            EntryType::Special | EntryType::Unknown => FileType::Unknown,
        };
        let follow = !looks_at_link(&self.options, kind);
        let Ok(directory) = open_directory(cx, entry) else { return false };
        // Errors here and below are reported when the copy is made.
        let Ok(there) = stat_path(Some(&*directory), target_name(entry), follow) else { return false };
        match existing.update {
            Update::None => self.tell_skip(cx, entry, Skip::Unwanted),
            Update::NoneFail => self.tell_skip(cx, entry, Skip::Told),
            Update::Older | Update::All => return self.leaves_after_look(cx, entry, &directory, &there),
        }
        true
    }

    fn leaves_after_look(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        directory: &Fd,
        there: &Stat,
    ) -> bool {
        let Ok(source) = self.stat_source(cx, entry) else { return false };
        let follows = self.follows_here(entry);
        let may_be_linked = self.preserves(Preserve::LINKS) && (source.links > 1 || follows);
        if may_be_linked && !self.options.existing.ask {
            // Other names of the file need to know.
            return false;
        }
        let scene = Scene { copier: self, cx, entry, directory, source: &source, there };
        match decide(&scene.case(), &scene) {
            Decision::Stays | Decision::Remove | Decision::BackUp => {
                self.agreed.store(self.options.existing.ask, Ordering::Relaxed);
                return false;
            }
            Decision::Skip(Skip::NotOlder) if may_be_linked => return false,
            Decision::Skip(skip) => self.tell_skip(cx, entry, skip),
            Decision::Done => {}
            Decision::Refuse(refusal) => cx.problem(refused(entry, refusal)),
        }
        true
    }

    /// Stats a source that is not open, following links where the copy does.
    pub(super) fn stat_source(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Result<Stat, Error> {
        let directory = cx.cache().open(&entry.node.source)?;
        stat_path(Some(&*directory), entry.name(), self.follows_here(entry))
    }

    /// Returns the refusal to copy onto an existing target, for a source that is not open: opening
    /// a FIFO blocks, and GNU cp reports a source that can't be opened only if nothing is wrong
    /// with the target. With `-i`, [`leaves`](Self::leaves) has decided.
    pub(super) fn refuses(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: &Stat,
    ) -> Option<Problem> {
        if self.options.existing.ask {
            return None;
        }
        let follow = !looks_at_link(&self.options, source.kind);
        let directory = open_directory(cx, entry).ok()?;
        let there = match stat_path(Some(&*directory), target_name(entry), follow) {
            Ok(there) => there,
            Err(cause) if cause.is(Errno::NOTDIR) => {
                return Some(problem(entry, CopyKind::CannotStat, cause));
            }
            // Creating the copy will report any real problem.
            Err(_) => return None,
        };
        let scene = Scene { copier: self, cx, entry, directory: &directory, source, there: &there };
        match decide(&scene.case(), &scene) {
            Decision::Refuse(refusal) => Some(refused(entry, refusal)),
            _ => None,
        }
    }

    /// Prepares a target's place where something exists, or did a moment ago.
    pub(super) fn clear(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        directory: &Fd,
        turn: &mut Option<Turn<'_>>,
        source: &Stat,
    ) -> Result<Place, Problem> {
        let name = target_name(entry);
        let follow = !looks_at_link(&self.options, source.kind);
        let there = match stat_path(Some(directory), name, follow) {
            Ok(there) => there,
            Err(cause) if cause.is(Errno::NOENT) => {
                self.check_just_created_link(entry, directory)?;
                return Ok(Place::Free(None));
            }
            Err(cause) if cause.is(Errno::LOOP) && follow && self.options.existing.force => {
                return Ok(Place::Taken(None));
            }
            Err(cause) => return Err(problem(entry, CopyKind::CannotStat, cause)),
        };
        let scene = Scene { copier: self, cx, entry, directory, source, there: &there };
        match decide(&scene.case(), &scene) {
            Decision::Stays => {
                self.check_just_created_link(entry, directory)?;
                Ok(Place::Taken(Some(there)))
            }
            Decision::Remove => {
                self.make_room(cx, entry, directory)?;
                Ok(Place::Free(None))
            }
            Decision::BackUp => {
                let Some(turn) = turn else { return Ok(Place::Taken(Some(there))) };
                turn.back_up(directory, name, &self.options.existing)
                    .map(Place::Free)
                    .map_err(|cause| problem(entry, CopyKind::CannotBackup, cause))
            }
            Decision::Skip(skip) => {
                self.tell_skip(cx, entry, skip);
                Ok(Place::Left(if skip == Skip::NotOlder { Left::AsCopy } else { Left::AsItIs }))
            }
            Decision::Done => Ok(Place::Left(Left::AsItIs)),
            Decision::Refuse(refusal) => Err(refused(entry, refusal)),
        }
    }

    /// Refuses to write through a symbolic link that an earlier operand created as the target.
    fn check_just_created_link(&self, entry: &Entry<Self>, directory: &Fd) -> Result<(), Problem> {
        if self.created.is_none() || !entry.is_operand() || self.options.existing.backs_up() {
            return Ok(());
        }
        let name = target_name(entry);
        match stat_at(directory, name) {
            Ok(there) if there.kind == FileType::Symlink && self.was_just_created(name, there.identity) => {
                let problem = Problem::new(CopyKind::JustCreatedLink);
                Err(problem.naming(entry.path()).naming(target_path(entry)))
            }
            _ => Ok(()),
        }
    }

    /// Removes the existing target.
    pub(super) fn make_room(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        directory: &Fd,
    ) -> Result<(), Problem> {
        match remove(directory, target_name(entry)) {
            Ok(()) => {
                self.tell_removed(cx, entry);
                Ok(())
            }
            Err(cause) if cause.is(Errno::NOENT) => Ok(()),
            Err(cause) => Err(problem(entry, CopyKind::CannotRemove, cause)),
        }
    }

    /// Restores a backup after its replacement could not be created.
    pub(super) fn put_back(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, backup: Option<&CStr>) {
        let Some(backup) = backup else { return };
        let outcome =
            open_directory(cx, entry).and_then(|directory| rename(directory, backup, target_name(entry)));
        match outcome {
            Ok(()) if self.options.verbose => {
                let names = vec![entry.node.own.held.path_of(backup), target_path(entry)];
                cx.report().line(Line::new(CopyKind::Unbackup, names));
            }
            Ok(()) => {}
            Err(cause) => cx.problem(problem(entry, CopyKind::CannotUnbackup, cause)),
        }
    }

    /// Prints the `--verbose` line for an entry.
    pub(super) fn tell_copied(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        self.tell_copied_over(cx, entry, None);
    }

    /// Prints the `--verbose` line for an entry that replaced something kept as `backup`.
    pub(super) fn tell_copied_over(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        backup: Option<&CStr>,
    ) {
        if !self.options.verbose {
            return;
        }
        let mut names = vec![entry.path(), target_path(entry)];
        let kind = if backup.is_some() { CopyKind::CopiedWithBackup } else { CopyKind::Copied };
        names.extend(backup.map(|backup| entry.node.own.held.path_of(backup)));
        cx.report().line(Line::new(kind, names));
    }

    /// Prints the `--verbose` line for a removed target.
    pub(super) fn tell_removed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        if self.options.verbose {
            cx.report().line(Line::new(CopyKind::Removed, vec![target_path(entry)]));
        }
    }

    /// Counts a skipped entry, and reports it if requested.
    fn tell_skip(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, skip: Skip) {
        cx.count(Tally { skipped: 1, ..Tally::default() });
        if skip == Skip::Declined {
            self.declined.store(true, Ordering::Relaxed);
        }
        if skip == Skip::Told {
            cx.problem(Problem::new(CopyKind::NotReplacing).naming(target_path(entry)));
        } else if self.options.debug {
            cx.report().line(Line::new(CopyKind::Skipped, vec![target_path(entry)]));
        }
    }
}

fn refused(entry: &Entry<Copier>, refusal: Refusal) -> Problem {
    let of_source = |kind| Problem::new(kind).naming(entry.path()).naming(target_path(entry));
    let of_target = |kind| Problem::new(kind).naming(target_path(entry)).naming(entry.path());
    match refusal {
        Refusal::SameFile => of_source(CopyKind::SameFile),
        Refusal::DirectoryOntoOther => of_target(CopyKind::DirectoryOntoOther),
        Refusal::OtherOntoDirectory => of_target(CopyKind::OtherOntoDirectory),
        Refusal::JustCreated => of_target(CopyKind::JustCreated),
        Refusal::BackupDestroysSource => of_target(CopyKind::BackupDestroys),
    }
}

/// An entry and its existing target.
struct Scene<'s> {
    copier: &'s Copier,
    cx: &'s Context<'s, Copier>,
    entry: &'s Entry<Copier>,
    /// The target's directory.
    directory: &'s Fd,
    source: &'s Stat,
    there: &'s Stat,
}

impl Scene<'_> {
    fn case(&self) -> Case<'_> {
        Case {
            options: &self.copier.options,
            source: self.source,
            there: self.there,
            follows: self.copier.follows_here(self.entry),
            is_operand: self.entry.is_operand(),
            is_dots: matches!(base_of(self.entry.name()), b"." | b".."),
        }
    }

    fn look_at_source(&self, follow: bool) -> Option<Stat> {
        let directory = self.cx.cache().open(&self.entry.node.source).ok()?;
        stat_path(Some(&*directory), self.entry.name(), follow).ok()
    }

    /// Builds the `-i` question. An unwritable target gets a different one.
    fn question(&self) -> Line {
        let target = target_path(self.entry);
        let writable = self.there.kind == FileType::Symlink
            || self.copier.process.user == 0
            || may_write(self.directory, target_name(self.entry));
        if writable {
            return Line::new(CopyKind::Overwrite, vec![target]);
        }
        let existing = &self.copier.options.existing;
        let goes = existing.remove || existing.force;
        let (mode, letters) = (format!("{:04o}", self.there.mode.bits()), letters(self.there.mode));
        let kind = if goes { CopyKind::Replace } else { CopyKind::Unwritable };
        Line::new(kind, vec![target, mode.into_bytes(), letters.into_bytes()])
    }
}

impl Sight for Scene<'_> {
    fn source_link(&self) -> Option<Stat> {
        self.look_at_source(false)
    }

    fn there_link(&self) -> Option<Stat> {
        stat_at(self.directory, target_name(self.entry)).ok()
    }

    fn source_end(&self) -> Option<Stat> {
        self.look_at_source(true)
    }

    fn there_end(&self) -> Option<Stat> {
        stat_path(Some(self.directory), target_name(self.entry), true).ok()
    }

    fn is_one_entry(&self) -> bool {
        base_of(self.entry.name()) == base_of(target_name(self.entry))
            && self.entry.node.source.identity() == self.entry.node.own.held.identity()
    }

    fn is_older(&self) -> bool {
        if self.copier.preserves(Preserve::TIMESTAMPS) {
            return self.copier.resolutions.is_older(self.there, self.source);
        }
        self.there.modified < self.source.modified
    }

    fn agrees(&self) -> bool {
        // Don't ask again what was agreed to before the source was opened.
        self.copier.agreed.swap(false, Ordering::Relaxed) || self.cx.report().ask(&self.question())
    }

    fn is_just_created(&self) -> bool {
        self.copier.was_just_created(target_name(self.entry), self.there.identity)
    }

    fn is_backup_of_target(&self) -> bool {
        let mut backup = target_name(self.entry).to_bytes().to_vec();
        backup.extend_from_slice(self.copier.options.existing.suffix.to_bytes());
        let Ok(backup) = CString::new(backup) else { return false };
        self.entry.name() == &*backup
            && stat_path(Some(self.directory), &backup, true)
                .is_ok_and(|kept| kept.identity == self.source.identity)
    }
}

/// Formats a mode as `ls` does, without the type.
fn letters(mode: Mode) -> String {
    let bits = mode.bits();
    let mut letters = String::with_capacity(9);
    for (shift, special, with, without) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let of = |bit: u32, letter| if bits >> shift & bit != 0 { letter } else { '-' };
        letters.push(of(4, 'r'));
        letters.push(of(2, 'w'));
        letters.push(match (bits & special != 0, of(1, 'x')) {
            (false, letter) => letter,
            (true, 'x') => with,
            (true, _) => without,
        });
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_as_ls_does() {
        for (mode, text) in
            [(0o444, "r--r--r--"), (0o7777, "rwsrwsrwt"), (0o7000, "--S--S--T"), (0o750, "rwxr-x---")]
        {
            assert_eq!(letters(Mode::new(mode)), text);
        }
    }
}
