//! Clears a target's place, as `existing.rs` decides.
//!
//! The common case costs nothing: a target is created with a call that fails if something exists,
//! and only then is its place examined. With `-u`, `-n` and `-i` it is examined first, by name, so
//! a file that is skipped is never opened.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use haul_flow::{EarlierBackup, EntryOutcome, FlowKind, OutputLine, Problem, uninterrupted};
use haul_sys::{EntryType, Errno, Fd, FileType, Mode, Stat};
use haul_sys::{may_write, remove, remove_directory, stat_at, stat_followed, stat_path};

use super::CopyKind;
use super::backup::{self, MadeBackup, Turn, backup_name, base_of};
use super::entry_copy::EntryCopy;
use super::existing::{Decision, Details, ReplaceRefusal, Skip, TargetCase, decide, looks_at_link};
use super::journaled;
use super::mend;
use super::options::{Preserve, Update, UpdateRule};
use super::repeated;
use super::waiting::{has_made_way, in_the_way};

/// State of a target's place once it has been prepared.
pub(super) enum TargetPlace {
    /// It is free.
    Free(ClearedPlace),
    /// The existing entry stays until the copy is renamed over it (`--atomic`).
    Replaced(Stat),
    /// Something is there, to be overwritten or entered. There is no `stat` for a symbolic link to
    /// itself, which `-f` removes.
    Taken(Option<Stat>),
    /// The existing file stays and nothing is copied. Everything has been reported.
    Left(Left),
}

/// A place that is free, maybe because it was cleared.
#[derive(Default)]
pub(super) struct ClearedPlace {
    /// The name that the old file was renamed to.
    pub(super) backup: Option<MadeBackup>,
    /// The entry that was there.
    pub(super) before: Option<Stat>,
}

/// The target that stays when nothing is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Equivalent to a copy: the same as the source, or not older and accepted by GNU cp in its
    /// place.
    AsCopy,
    /// Anything else.
    AsItIs,
}

impl Left {
    fn after(copy: EntryCopy<'_>, skip: Skip) -> Self {
        match skip {
            // A sync never gives a newer file another name, or that of an older one.
            Skip::NotOlder if copy.options.existing.update.syncs() => Left::AsItIs,
            Skip::NotOlder | Skip::Unchanged => Left::AsCopy,
            Skip::Unwanted | Skip::NotReplacing | Skip::Declined => Left::AsItIs,
        }
    }
}

/// Result of creating an entry's copy in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CreateResult {
    /// It was created.
    Whole,
    /// It is missing or incomplete, and that was reported.
    Broken,
    /// The existing file stays, and that was reported.
    Left(Left),
    /// Another copy is writing to the existing file. The entry is retried after that.
    Waits,
}

impl CreateResult {
    pub(super) fn whole_if(whole: bool) -> Self {
        if whole { CreateResult::Whole } else { CreateResult::Broken }
    }
}

/// Waits for the turn to make a backup in the target's directory; `None` if no backups
/// are made.
pub(super) fn turn(copy: EntryCopy<'_>) -> Option<Turn<'_>> {
    let backs_up = copy.options.existing.backs_up();
    backs_up.then(|| copy.copier.backups.turn(copy.entry.node.own.held.identity()))
}

/// True if the source is a file that the program itself writes to, which is not copied; it was then
/// reported. Usually the walk has left it out, unless a file system lists other inode numbers.
pub(super) fn leaves_own_file(copy: EntryCopy<'_>, source: &Stat) -> bool {
    let is_own = copy.options.own_files.contains(&source.identity);
    if is_own {
        copy.count(EntryOutcome::Skipped);
        copy.cx.problem(Problem::new(FlowKind::OwnFile).naming(copy.entry.path()).as_warning());
    }
    is_own
}

/// True if the entry's target exists and stays, judging by names alone; it was then reported.
pub(super) fn leaves(copy: EntryCopy<'_>, kind: EntryType) -> bool {
    let existing = &copy.options.existing;
    if existing.update == Update::All && !existing.ask {
        return false;
    }
    if existing.ask {
        copy.copier.agreed.store(false, Ordering::Relaxed);
    }
    let kind = match kind {
        EntryType::Regular => FileType::Regular,
        EntryType::Symlink => FileType::Symlink,
        EntryType::Directory => return false,
        EntryType::Special | EntryType::Unknown => FileType::Unknown,
    };
    let follow = !looks_at_link(copy.options, kind);
    let Ok(directory) = copy.open_directory() else { return false };
    let there = match stat_path(Some(&*directory), copy.target_name(), follow) {
        Ok(there) => there,
        Err(cause) if cause.is(Errno::NOENT) && existing.update.makes_nothing_new() => {
            report_skip(copy, Skip::Unwanted);
            return true;
        }
        // Errors here and below are reported when the copy is made.
        Err(_) => return false,
    };
    if journaled::is_ours(copy, &directory) || is_unreachable(copy) {
        return false;
    }
    match existing.update {
        Update::Different(UpdateRule { only_missing: true, .. }) | Update::None => {
            report_skip(copy, Skip::Unwanted)
        }
        Update::NoneFail if repeated::is_done(copy, &directory) => report_skip(copy, Skip::Unwanted),
        Update::NoneFail => report_skip(copy, Skip::NotReplacing),
        Update::Older | Update::All | Update::Different(_) => {
            return leaves_after_look(copy, &directory, &there);
        }
    }
    true
}

/// True for a source in a directory that may be listed but not searched. Costs a call only there.
fn is_unreachable(copy: EntryCopy<'_>) -> bool {
    let process = &copy.copier.process;
    let may_be_closed = |directory: Stat| {
        let search = if directory.owner == process.user { 0o100 } else { 0o011 };
        !copy.copier.capabilities.read_all() && !directory.mode.contains(Mode::new(search))
    };
    copy.entry.node.stat.is_some_and(may_be_closed) && copy.stat_source().is_err()
}

fn leaves_after_look(copy: EntryCopy<'_>, directory: &Fd, there: &Stat) -> bool {
    let Ok(source) = copy.stat_source() else { return false };
    let follows = copy.follows();
    let may_be_linked = copy.options.preserves(Preserve::LINKS) && (source.links > 1 || follows);
    if may_be_linked && !copy.options.existing.ask {
        // Other names of the file need to know.
        return false;
    }
    let scene = TargetConflict { copy, directory, source: &source, there };
    match decide(&scene.case(), &scene) {
        Decision::Stays | Decision::Remove | Decision::RemoveDirectory | Decision::BackUp => {
            copy.copier.agreed.store(copy.options.existing.ask, Ordering::Relaxed);
            return false;
        }
        Decision::Skip(Skip::NotOlder | Skip::Unchanged) if may_be_linked => return false,
        Decision::Skip(skip) => {
            report_skip(copy, skip);
            if skip == Skip::Unchanged {
                mend::mend(copy, directory, &source, there);
            }
        }
        Decision::Done => {}
        Decision::Refuse(refusal) => copy.cx.problem(refused(copy, refusal)),
    }
    true
}

/// Returns the refusal to copy onto an existing target, for a source that is not open: opening
/// a FIFO blocks, and GNU cp reports a source that can't be opened only if nothing is wrong
/// with the target. With `-i`, [`leaves`] has decided.
pub(super) fn refuses(copy: EntryCopy<'_>, source: &Stat) -> Option<Problem> {
    let existing = &copy.options.existing;
    let follow = !looks_at_link(copy.options, source.kind);
    let directory = copy.open_directory().ok()?;
    let there = match stat_path(Some(&*directory), copy.target_name(), follow) {
        Ok(_) if existing.ask => return None,
        Ok(there) => there,
        // Nothing is there, or what `-f` removes.
        Err(cause) if cause.is(Errno::NOENT) || (cause.is(Errno::LOOP) && follow && existing.force) => {
            return None;
        }
        Err(cause) => return Some(copy.problem(CopyKind::CannotStat, cause)),
    };
    let scene = TargetConflict { copy, directory: &directory, source, there: &there };
    match decide(&scene.case(), &scene) {
        Decision::Refuse(refusal) => Some(refused(copy, refusal)),
        _ => None,
    }
}

/// Effect that a copy would have on its target.
pub(super) enum Foreseen {
    /// The copy would be made where nothing is.
    Made,
    /// It would not be made, because a dangling symbolic link is there.
    Dangling,
    /// The existing entry would be overwritten or entered.
    Stays(Stat),
    /// It would be removed first.
    Removed,
    /// The copy would be renamed over it (`--atomic`).
    Replaced(Stat),
    /// It would be renamed to this first.
    BackedUp(Stat, CString),
    /// It would stay, and nothing would be copied. Everything has been reported.
    Left(Left),
}

/// Decides as [`clear`] does, and changes nothing.
pub(super) fn foresee(copy: EntryCopy<'_>, source: &Stat) -> Result<Foreseen, Problem> {
    let name = copy.target_name();
    let follow = !looks_at_link(copy.options, source.kind);
    if is_in_absent(copy) {
        if copy.options.existing.update.makes_nothing_new() {
            report_skip(copy, Skip::Unwanted);
            return Ok(Foreseen::Left(Left::AsItIs));
        }
        // The directory would be made, maybe where something else is now.
        return Ok(Foreseen::Made);
    }
    let directory = match copy.open_directory() {
        Ok(directory) => directory,
        Err(cause) if cause.is(Errno::NOENT) => return Ok(Foreseen::Made),
        Err(cause) => return Err(copy.problem(CopyKind::CannotStat, cause)),
    };
    let there = match stat_path(Some(&*directory), name, follow) {
        Ok(there) => there,
        Err(cause) if cause.is(Errno::NOENT) => {
            let is_dangling = follow && !copy.options.through_dangling && stat_at(&*directory, name).is_ok();
            return Ok(if is_dangling { Foreseen::Dangling } else { Foreseen::Made });
        }
        Err(cause) if cause.is(Errno::LOOP) && follow && copy.options.existing.force => {
            return Ok(Foreseen::Removed);
        }
        Err(cause) => return Err(copy.problem(CopyKind::CannotStat, cause)),
    };
    let scene = TargetConflict { copy, directory: &directory, source, there: &there };
    Ok(match decide(&scene.case(), &scene) {
        Decision::Stays => Foreseen::Stays(there),
        Decision::Remove if is_replaced(copy, source) => Foreseen::Replaced(there),
        Decision::Remove => Foreseen::Removed,
        Decision::RemoveDirectory if has_made_way(copy, &there) => Foreseen::Made,
        Decision::RemoveDirectory if copy.options.existing.update.deletes_later() => {
            return Err(in_the_way(copy));
        }
        Decision::RemoveDirectory if mend::is_empty(copy, &directory) => Foreseen::Removed,
        Decision::RemoveDirectory => return Err(refused(copy, ReplaceRefusal::OtherOntoDirectory)),
        Decision::BackUp => Foreseen::BackedUp(there, backup_name(&directory, name, &copy.options.existing)),
        Decision::Skip(skip) => {
            report_skip(copy, skip);
            Foreseen::Left(Left::after(copy, skip))
        }
        Decision::Done => Foreseen::Left(Left::AsItIs),
        Decision::Refuse(refusal) => return Err(refused(copy, refusal)),
    })
}

/// Prepares a target's place where something exists, or did a moment ago.
pub(super) fn clear(
    copy: EntryCopy<'_>,
    directory: &Fd,
    turn: &mut Option<Turn<'_>>,
    source: &Stat,
) -> Result<TargetPlace, Problem> {
    let name = copy.target_name();
    let follow = !looks_at_link(copy.options, source.kind);
    let there = match stat_path(Some(directory), name, follow) {
        Ok(there) => there,
        Err(cause) if cause.is(Errno::NOENT) => {
            check_just_created_link(copy, directory)?;
            return Ok(TargetPlace::Free(ClearedPlace::default()));
        }
        Err(cause) if cause.is(Errno::LOOP) && follow && copy.options.existing.force => {
            return Ok(TargetPlace::Taken(None));
        }
        Err(cause) => return Err(copy.problem(CopyKind::CannotStat, cause)),
    };
    let scene = TargetConflict { copy, directory, source, there: &there };
    let freed = |backup| ClearedPlace { backup, before: Some(there) };
    match decide(&scene.case(), &scene) {
        Decision::Stays => {
            check_just_created_link(copy, directory)?;
            Ok(TargetPlace::Taken(Some(there)))
        }
        Decision::Remove if is_replaced(copy, source) => Ok(TargetPlace::Replaced(there)),
        Decision::Remove => {
            uninterrupted(|| backup::keep(copy, directory, EarlierBackup::Replaced))?;
            make_room(copy, directory, source)?;
            Ok(TargetPlace::Free(freed(None)))
        }
        Decision::RemoveDirectory if copy.options.existing.update.deletes_later() => Err(in_the_way(copy)),
        Decision::RemoveDirectory => {
            match copy.with_room(|| remove_directory(directory, name)) {
                Ok(()) => copy.print_removed(),
                Err(cause) if cause.is(Errno::NOENT) => {}
                Err(cause) if cause.is(Errno::NOTEMPTY) || cause.is(Errno::EXIST) => {
                    return Err(refused(copy, ReplaceRefusal::OtherOntoDirectory));
                }
                Err(cause) => return Err(copy.problem(CopyKind::CannotRemove, cause)),
            }
            Ok(TargetPlace::Free(freed(None)))
        }
        Decision::BackUp => {
            let Some(turn) = turn else { return Ok(TargetPlace::Taken(Some(there))) };
            copy.with_room(|| turn.back_up(directory, name, &copy.options.existing))
                .map(|name| name.map(|name| MadeBackup { name, file: there.identity }))
                .map(|backup| TargetPlace::Free(freed(backup)))
                .map_err(|cause| copy.problem(CopyKind::CannotBackup, cause))
        }
        Decision::Skip(skip) => {
            report_skip(copy, skip);
            Ok(TargetPlace::Left(Left::after(copy, skip)))
        }
        Decision::Done => Ok(TargetPlace::Left(Left::AsItIs)),
        Decision::Refuse(refusal) => Err(refused(copy, refusal)),
    }
}

/// True if a file, `there` in `directory` under the name of a copy, is as its source apart from
/// attributes.
pub(super) fn is_same(copy: EntryCopy<'_>, directory: &Fd, source: &Stat, there: &Stat) -> bool {
    let Update::Different(difference) = copy.options.existing.update else { return false };
    TargetConflict { copy, directory, source, there }.is_same(difference)
}

/// True if a directory is left out because of the type of its target; it was then counted.
pub(super) fn leaves_directory(copy: EntryCopy<'_>) -> bool {
    let Update::Different(UpdateRule { only_existing, only_missing, .. }) = copy.options.existing.update
    else {
        return false;
    };
    if !only_existing && !only_missing {
        return false;
    }
    let there = copy.open_directory().and_then(|directory| stat_at(&directory, copy.target_name()));
    let is_left = match there {
        _ if is_in_absent(copy) => only_existing,
        Ok(there) => only_missing && there.kind != FileType::Directory,
        Err(cause) => only_existing && cause.is(Errno::NOENT),
    };
    if is_left {
        report_skip(copy, Skip::Unwanted);
    }
    is_left
}

/// True in a dry run if the directory of the target would have to be made.
fn is_in_absent(copy: EntryCopy<'_>) -> bool {
    copy.entry.node.own.held.is_absent() && !copy.entry.is_operand()
}

/// True if the copy is renamed over an entry that would otherwise be removed, which can't be done
/// to a directory.
fn is_replaced(copy: EntryCopy<'_>, source: &Stat) -> bool {
    copy.options.replaces_whole() && source.kind != FileType::Directory
}

/// Refuses to write through a symbolic link that an earlier operand created as the target.
fn check_just_created_link(copy: EntryCopy<'_>, directory: &Fd) -> Result<(), Problem> {
    if !copy.copier.made_targets.are_kept() || !copy.entry.is_operand() || copy.options.existing.backs_up() {
        return Ok(());
    }
    let name = copy.target_name();
    match stat_at(directory, name) {
        Ok(there)
            if there.kind == FileType::Symlink
                && copy.copier.made_targets.has(copy.target_path(), there.identity) =>
        {
            let problem = Problem::new(CopyKind::JustCreatedLink);
            Err(problem.naming(copy.entry.path()).naming(copy.target_path()))
        }
        _ => Ok(()),
    }
}

/// Removes the existing target.
pub(super) fn make_room(copy: EntryCopy<'_>, directory: &Fd, source: &Stat) -> Result<(), Problem> {
    match remove(directory, copy.target_name()) {
        Ok(()) => {
            match source.kind {
                FileType::Directory => copy.print_removed(),
                _ => copy.print_replaced(),
            }
            Ok(())
        }
        Err(cause) if cause.is(Errno::NOENT) => Ok(()),
        Err(cause) => Err(copy.problem(CopyKind::CannotRemove, cause)),
    }
}

/// Counts a skipped entry, and reports it if requested.
fn report_skip(copy: EntryCopy<'_>, skip: Skip) {
    let outcome = if skip == Skip::Unchanged { EntryOutcome::Unchanged } else { EntryOutcome::Skipped };
    // One that becomes another name of the copy is counted as that.
    if !(copy.is_further_name && Left::after(copy, skip) == Left::AsCopy) {
        copy.count(outcome);
    }
    if skip == Skip::Declined {
        copy.copier.declined.store(true, Ordering::Relaxed);
    }
    if skip == Skip::NotReplacing {
        copy.cx.problem(Problem::new(CopyKind::NotReplacing).naming(copy.target_path()));
    } else if copy.options.debug && skip != Skip::Unchanged {
        copy.cx.report().line(OutputLine::new(CopyKind::Skipped, vec![copy.target_path()]));
    }
}

fn refused(copy: EntryCopy<'_>, refusal: ReplaceRefusal) -> Problem {
    let of_source = |kind| Problem::new(kind).naming(copy.entry.path()).naming(copy.target_path());
    let of_target = |kind| Problem::new(kind).naming(copy.target_path()).naming(copy.entry.path());
    match refusal {
        ReplaceRefusal::SameFile => of_source(CopyKind::SameFile),
        ReplaceRefusal::DirectoryOntoOther => of_target(CopyKind::DirectoryOntoOther),
        ReplaceRefusal::OtherOntoDirectory => of_target(CopyKind::OtherOntoDirectory),
        ReplaceRefusal::JustCreated => of_target(CopyKind::JustCreated),
        ReplaceRefusal::BackupDestroysSource => of_target(CopyKind::BackupDestroys),
        ReplaceRefusal::OwnFile => of_target(CopyKind::OntoOwnFile),
        ReplaceRefusal::OntoSource => Problem::new(CopyKind::OntoSource).naming(copy.target_path()),
    }
}

/// An entry and its existing target.
struct TargetConflict<'s> {
    copy: EntryCopy<'s>,
    /// The target's directory.
    directory: &'s Fd,
    source: &'s Stat,
    there: &'s Stat,
}

impl TargetConflict<'_> {
    fn case(&self) -> TargetCase<'_> {
        TargetCase {
            options: self.copy.options,
            source: self.source,
            there: self.there,
            follows: self.copy.follows(),
            is_operand: self.copy.entry.is_operand(),
            is_dots: matches!(base_of(self.copy.entry.name()), b"." | b".."),
        }
    }

    fn look_at_source(&self, follow: bool) -> Option<Stat> {
        let directory = self.copy.cx.cache().open(&self.copy.entry.node.source).ok()?;
        stat_path(Some(&*directory), self.copy.entry.name(), follow).ok()
    }

    /// Builds the `-i` question. An unwritable target gets a different one.
    fn question(&self) -> OutputLine {
        let target = self.copy.target_path();
        let writable = self.there.kind == FileType::Symlink
            || self.copy.copier.process.user == 0
            || may_write(self.directory, self.copy.target_name());
        if writable {
            return OutputLine::new(CopyKind::Overwrite, vec![target]);
        }
        let existing = &self.copy.options.existing;
        let goes = existing.remove || existing.force;
        let (mode, letters) = (format!("{:04o}", self.there.mode.bits()), letters(self.there.mode));
        let kind = if goes { CopyKind::Replace } else { CopyKind::Unwritable };
        OutputLine::new(kind, vec![target, mode.into_bytes(), letters.into_bytes()])
    }
}

impl Details for TargetConflict<'_> {
    fn source_link(&self) -> Option<Stat> {
        self.look_at_source(false)
    }

    fn there_link(&self) -> Option<Stat> {
        stat_at(self.directory, self.copy.target_name()).ok()
    }

    fn source_end(&self) -> Option<Stat> {
        self.look_at_source(true)
    }

    fn there_end(&self) -> Option<Stat> {
        stat_followed(self.directory, self.copy.target_name()).ok()
    }

    fn is_one_entry(&self) -> bool {
        base_of(self.copy.entry.name()) == base_of(self.copy.target_name())
            && self.copy.entry.node.source.identity() == self.copy.entry.node.own.held.identity()
    }

    fn is_older(&self) -> bool {
        if self.copy.options.preserves(Preserve::TIMESTAMPS) {
            return self.copy.copier.resolutions.is_older(self.directory, self.there, self.source);
        }
        self.there.modified < self.source.modified
    }

    fn is_ours(&self) -> bool {
        journaled::is_ours(self.copy, self.directory)
    }

    fn is_same(&self, difference: UpdateRule) -> bool {
        let (source, there) = (self.source, self.there);
        // Setting attributes would change the file's other names too, which may be in an earlier
        // copy, or those of another file in the source. That the source has as many doesn't mean
        // that they are the same.
        let may_be_shared = there.links > 1;
        match source.kind {
            kind if kind != there.kind => false,
            FileType::Directory => true,
            _ if may_be_shared && !mend::has_same_attributes(self.copy, self.directory, source, there) => {
                false
            }
            FileType::Regular if source.size != there.size => false,
            FileType::Regular if difference.by_content => mend::has_same_content(self.copy, self.directory),
            FileType::Regular => {
                let resolutions = &self.copy.copier.resolutions;
                resolutions.is_same_time(self.directory, there, source, difference.window)
            }
            FileType::Symlink => mend::leads_to_the_same(self.copy, self.directory),
            _ => source.device_number == there.device_number,
        }
    }

    fn agrees(&self) -> bool {
        // The user already agreed before the source was opened: don't ask again.
        self.copy.copier.agreed.swap(false, Ordering::Relaxed) || self.copy.cx.report().ask(&self.question())
    }

    fn is_just_created(&self) -> bool {
        self.copy.copier.made_targets.has(self.copy.target_path(), self.there.identity)
    }

    fn is_backup_of_target(&self) -> bool {
        let mut backup = self.copy.target_name().to_bytes().to_vec();
        backup.extend_from_slice(self.copy.options.existing.suffix.to_bytes());
        let Ok(backup) = CString::new(backup) else { return false };
        self.copy.entry.name() == &*backup
            && stat_followed(self.directory, &backup).is_ok_and(|kept| kept.identity == self.source.identity)
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
