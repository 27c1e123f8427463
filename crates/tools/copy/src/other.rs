//! Entries that are not opened: symbolic links, special files, and whatever `-l` and `-s` create.

use std::cell::Cell;
use std::ffi::{CStr, CString};

use haul_flow::{Creation, EntryOutcome, FlowKind, Handled, Problem};
use haul_sys::{
    EntryType, Errno, Error, Fd, FileRef, FileType, Identity, Mode, Open, Operation, Pinned, Special, Stat,
    Times,
};
use haul_sys::{link_at_path, make_special, make_symlink, open, read_link, stat_at, stat_path};

use super::attributes::NewAttributes;
use super::backup::{self, MadeBackup};
use super::creation_mode;
use super::dry_run;
use super::earlier;
use super::entry_copy::EntryCopy;
use super::journaled;
use super::layouts::Original;
use super::links::{self, MadeFile, NameClaim, replace};
use super::mend;
use super::open_target::PreparedTarget;
use super::options::{Make, Preserve, Update};
use super::overwritten;
use super::place::{self, ClearedPlace, CreateResult, Left, TargetPlace};
use super::regular;
use super::source_xattrs;
use super::stream;
use super::target::is_plain_name;
use super::without_data;
use super::{Copier, CopyKind};

pub(super) fn handle(copy: EntryCopy<'_>, kind: EntryType) -> Handled {
    match try_handle(copy, kind) {
        Ok(handled) => handled,
        Err(problem) => {
            copy.cx.problem(problem);
            Handled::Done
        }
    }
}

fn try_handle(copy: EntryCopy<'_>, kind: EntryType) -> Result<Handled, Problem> {
    if kind == EntryType::Directory {
        return Err(Problem::new(CopyKind::OmittingDirectory).naming(copy.entry.path()));
    }
    if links_at_once(copy) {
        return Ok(Handled::Done);
    }
    let cannot_stat = |cause| copy.cannot_stat_source(cause);
    let directory = copy.cx.cache().open(&copy.entry.node.source).map_err(cannot_stat)?;
    let follow = copy.follows();
    let source = stat_path(Some(&*directory), copy.entry.name(), follow).map_err(cannot_stat)?;
    let is_read = copy.options.make == Make::Copy && !copy.options.attributes_only;
    if is_read && source.kind == FileType::Regular {
        // It was something else when the walk decided not to read it. Reading it by name could
        // block forever.
        return Err(Problem::new(FlowKind::Replaced).naming(copy.entry.path()));
    }
    match copy.options.make {
        Make::HardLink => return make_hard_link(copy, &directory, &source),
        Make::Symlink | Make::Copy => {}
    }
    let link = match links::claim(copy, &source) {
        NameClaim::First(link) => link,
        NameClaim::Waits => return Ok(Handled::Deferred),
        NameClaim::Over => return Ok(Handled::Done),
    };
    if let Some(target) = link.and_then(|_| journaled::stays(copy, &source)) {
        link.iter().for_each(|file| {
            links::complete(copy, *file, Some(MadeFile::of(&target)), Some(source));
        });
        return Ok(Handled::Done);
    }
    if let Some((file, linked)) = link.and_then(|file| Some((file, earlier::link(copy, &source)?))) {
        links::complete(copy, file, Some(MadeFile::of(&linked)), Some(source));
        return Ok(Handled::Done);
    }
    let errors_before = copy.cx.errors();
    let made = match (is_read_as_file(copy.copier, source.kind), copy.options.attributes_only) {
        _ if copy.options.make == Make::Symlink => make_link_to_source(copy, &source),
        (true, true) => without_data::make(copy, &directory, &source),
        (true, false) => copy_content(copy, &directory, &source),
        (false, _) => remake(copy, &directory, &source),
    };
    match made {
        Ok(CreateResult::Whole) => {
            // A copy that lacks an attribute counts, but the next run tries again.
            let recorded = Some(source).filter(|_| copy.cx.errors() == errors_before);
            recorded.iter().for_each(|source| journaled::record(copy, source));
            complete(copy, link, recorded);
        }
        // A file as good as a copy can also serve the source's other names.
        Ok(CreateResult::Left(left)) => regular::end_left(copy, &source, left, link),
        Ok(CreateResult::Broken) => links::abandon(copy, link),
        Ok(CreateResult::Waits) => {
            links::abandon(copy, link);
            return Ok(Handled::Deferred);
        }
        Err(problem) => {
            links::abandon(copy, link);
            return Err(problem);
        }
    }
    Ok(Handled::Done)
}

/// Creates the link for `-l` or `-s` in one call, if the directory listing says enough; returns
/// true on success. Otherwise the full path reports why.
fn links_at_once(copy: EntryCopy<'_>) -> bool {
    // The listed type, not that of a followed link's target.
    let is_listed =
        !copy.entry.is_operand() && matches!(copy.entry.kind, EntryType::Regular | EntryType::Special);
    if !is_listed || copy.options.existing.backs_up() {
        return false;
    }
    let (made, outcome) = match copy.options.make {
        Make::Copy => return false,
        Make::HardLink => (hard_link_at_once(copy), EntryOutcome::HardLink),
        // A listing has neither its times nor the other names of its source.
        Make::Symlink
            if copy.options.preserves(Preserve::TIMESTAMPS) || copy.options.preserves(Preserve::LINKS) =>
        {
            return false;
        }
        Make::Symlink => (symlink_at_once(copy), EntryOutcome::Symlink),
    };
    let is_there = made.is_ok();
    if is_there {
        copy.print_copied();
        copy.count(outcome);
    }
    is_there
}

fn hard_link_at_once(copy: EntryCopy<'_>) -> Result<(), Error> {
    let (source, target) = (copy.cx.cache().open(&copy.entry.node.source)?, copy.open_directory()?);
    link_at_path(Some(&*source), copy.entry.name(), false, &target, copy.target_name())
}

fn symlink_at_once(copy: EntryCopy<'_>) -> Result<(), Error> {
    let (content, target) = (copy.entry.path(), copy.open_directory()?);
    if !content.starts_with(b"/") && !is_current_directory(copy) {
        return Err(Error::new(Operation::Symlinkat, "a relative link".to_owned(), Errno::INVAL));
    }
    let content = CString::new(content).unwrap_or_default();
    make_symlink(&content, &target, copy.target_name())
}

/// True if content is copied as from a regular file.
fn is_read_as_file(copier: &Copier, kind: FileType) -> bool {
    match kind {
        FileType::Regular => true,
        FileType::Symlink | FileType::Directory => false,
        _ => copier.options.reads_special(),
    }
}

/// Completes the hard-link claim and the records of a finished copy.
fn complete(copy: EntryCopy<'_>, link: Option<Identity>, source: Option<Stat>) {
    if let Some(file) = link {
        links::complete(copy, file, None, source);
    }
    copy.record_made();
}

/// Copies a special file's content like a regular file's, as `cp` does without `-r` or
/// with `--copy-contents`.
fn copy_content(copy: EntryCopy<'_>, directory: &Fd, stat: &Stat) -> Result<CreateResult, Problem> {
    if let Some(refusal) = place::refuses(copy, stat) {
        return Err(refusal);
    }
    let unreadable = |cause| Problem::new(FlowKind::CannotOpen).naming(copy.entry.path()).because(cause);
    let how = if copy.follows() { Open::READ.following() } else { Open::READ };
    // GNU prints the `--verbose` line before it opens the source.
    let print = |_: &Error| copy.print_copied();
    let source = open(directory, copy.entry.name(), how.blocking()).inspect_err(print).map_err(unreadable)?;
    let made =
        match regular::open_target(copy, Original::of(stat), creation_mode::private(copy.copier, stat))? {
            PreparedTarget::Open(target) => {
                let claimed = target.claimed;
                let is_whole = stream::fill(copy, (&source, stat), target);
                overwritten::release(copy, claimed);
                CreateResult::whole_if(is_whole)
            }
            PreparedTarget::Left(left) => CreateResult::Left(left),
            PreparedTarget::Waits => CreateResult::Waits,
        };
    match source.close() {
        Ok(()) => Ok(made),
        Err(cause) => Err(Problem::new(FlowKind::FailedToClose).naming(copy.entry.path()).because(cause)),
    }
}

/// Recreates a symbolic link or special file with its attributes.
fn remake(copy: EntryCopy<'_>, source_directory: &Fd, source: &Stat) -> Result<CreateResult, Problem> {
    let cannot_create = match source.kind {
        FileType::Symlink => CopyKind::CannotCreateLink,
        FileType::Fifo => CopyKind::CannotCreateFifo,
        FileType::Unknown => return Err(Problem::new(CopyKind::UnknownType).naming(copy.entry.path())),
        _ => CopyKind::CannotCreateSpecial,
    };
    if copy.options.refuse_special && source.kind != FileType::Symlink {
        return Err(Problem::new(CopyKind::SpecialRefused).naming(copy.entry.path()));
    }
    let directory = copy.open_place().map_err(|cause| copy.problem(cannot_create, cause))?;
    let content = match source.kind {
        FileType::Symlink => {
            let unreadable =
                |cause| Problem::new(CopyKind::CannotReadLink).naming(copy.entry.path()).because(cause);
            Some(read_link(source_directory, copy.entry.name()).map_err(unreadable)?)
        }
        _ => None,
    };
    let special = match &content {
        Some(_) => SYMLINK,
        None => Special {
            kind: source.kind,
            mode: source.mode.without(creation_mode::omitted(copy.copier, source.kind)),
            device_number: source.device_number,
        },
    };
    let is_whole = Cell::new(false);
    let make_once = |name: &CStr| {
        let creation = Creation::begin(special, copy.entry.node.own.is_shared);
        match &content {
            Some(content) => {
                copy.copier.made_links.make(&directory, name, || make_symlink(content, &directory, name))
            }
            None => make_special(&directory, name, special),
        }?;
        is_whole.set(give_attributes(copy, source_directory, (&directory, name, creation), source)?);
        journaled::record_first(copy, source, || stat_at(&directory, name));
        Ok(())
    };
    let make = |name: &CStr| copy.with_room(|| make_once(name));
    let failed = |cause| copy.not_ours(cannot_create, cause);
    match make_new(copy, &directory, &make) {
        Ok(()) => copy.print_copied(),
        Err(cause) if cause.is(Errno::EXIST) => {
            let replaces = copy.options.existing.force && source.kind == FileType::Symlink;
            let place = Taken { directory: &directory, source, replaces, exists: cause };
            match make_in_place(copy, place, &make, &failed) {
                Ok(None) => {}
                Ok(Some(left)) => return Ok(CreateResult::Left(left)),
                Err(Problem { cause: Some(cause), .. })
                    if cause.is(Errno::EXIST) && is_same_link(copy, source) =>
                {
                    is_whole.set(give_to_same_link(copy, &directory, source).map_err(failed)?);
                }
                Err(problem) => return Err(problem),
            }
        }
        Err(cause) if cause.is(Errno::STALE) => return Err(failed(cause)),
        Err(cause) => {
            let problem = copy.failure(&directory, cannot_create, cause);
            copy.print_tried(&problem);
            return Err(problem);
        }
    }
    if is_whole.get() {
        count_remade(copy, source.kind);
    }
    Ok(CreateResult::Whole)
}

/// True if the target is a symbolic link like the source. With `-u`, GNU cp takes one that can't be
/// replaced, because of `--attributes-only`, for the copy.
pub(super) fn is_same_link(copy: EntryCopy<'_>, source: &Stat) -> bool {
    copy.options.existing.update == Update::Older
        && source.kind == FileType::Symlink
        && copy.open_directory().is_ok_and(|directory| mend::leads_to_the_same(copy, &directory))
}

/// Gives an existing symbolic link the attributes of the source. Returns false if that failed,
/// which is reported.
fn give_to_same_link(copy: EntryCopy<'_>, directory: &Fd, source: &Stat) -> Result<bool, Error> {
    let pinned = Pinned::open(directory, copy.target_name())?;
    let there = pinned.stat()?;
    if there.kind != FileType::Symlink {
        return Err(dry_run::error(Errno::STALE));
    }
    let (object, xattrs) = (FileRef::Pinned(&pinned), source_xattrs::read_named(copy, None));
    let attributes =
        NewAttributes { before: Some(&there), ..NewAttributes::of(copy, object, source, &xattrs) };
    Ok(attributes.give())
}

/// Creates an entry where nothing is. With `--atomic`, and in a sync, it has its name only when it
/// is complete.
fn make_new(
    copy: EntryCopy<'_>,
    directory: &Fd,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
) -> Result<(), Error> {
    match copy.options.replaces_whole() && is_plain_name(copy.target_name()) {
        true => links::make_whole(copy, directory, make),
        false => make(copy.target_name()),
    }
}

/// Creates something that can't be written into, where something exists. Returns what stays, if
/// anything, which was reported.
fn make_in_place(
    copy: EntryCopy<'_>,
    taken: Taken<'_>,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
    failed: &dyn Fn(Error) -> Problem,
) -> Result<Option<Left>, Problem> {
    let Taken { directory, source, replaces, exists } = taken;
    let mut turn = place::turn(copy);
    match place::clear(copy, directory, &mut turn, source)? {
        TargetPlace::Left(left) => Ok(Some(left)),
        TargetPlace::Taken(there) => {
            copy.print_copied_onto(there.as_ref(), None);
            let outcome = match replaces {
                true => replace(copy, directory, make, failed),
                false => Err(failed(exists)),
            };
            outcome.map(|()| None)
        }
        TargetPlace::Replaced(there) => {
            copy.print_replaced();
            copy.print_copied_onto(Some(&there), None);
            replace(copy, directory, make, failed).map(|()| None)
        }
        TargetPlace::Free(ClearedPlace { backup, before }) => {
            copy.print_copied_onto(before.as_ref(), backup.as_ref().map(MadeBackup::name));
            make_new(copy, directory, make).map(|()| None).map_err(|cause| {
                // With ESTALE another entry has the name now, which the backup must not replace.
                if !cause.is(Errno::STALE) {
                    backup::put_back(copy, backup.as_ref());
                }
                failed(cause)
            })
        }
    }
}

/// Gives a new entry, `name` in `directory`, its attributes. Returns false if that failed, which is
/// reported.
///
/// # Errors
/// When it was replaced, or can't be pinned.
fn give_attributes(
    copy: EntryCopy<'_>,
    source_directory: &Fd,
    (directory, name, creation): (&Fd, &CStr, Creation),
    source: &Stat,
) -> Result<bool, Error> {
    let omitted =
        source.mode.and(creation_mode::omitted(copy.copier, source.kind)).without(copy.copier.umask);
    let gets_mode = source.kind != FileType::Symlink && (copy.options.default_mode || !omitted.is_empty());
    let keeps = copy.options.preserve.difference(Preserve::LINKS);
    if keeps.is_empty() && !copy.options.reads_xattrs() && !gets_mode {
        return Ok(true);
    }
    let pinned = creation.pin(directory, name, copy.entry.node.own.is_shared)?;
    let plain_mode = match copy.options.default_mode {
        true => Some(default_mode(source.kind).without(copy.copier.umask)),
        false if !gets_mode || copy.options.preserves(Preserve::MODE) => None,
        // An inherited ACL may have denied more than the umask.
        false => Some(pinned.stat()?.mode.or(omitted)),
    };
    let xattrs = source_xattrs::read_named(copy, Some(source_directory));
    let object = FileRef::Pinned(&pinned);
    Ok(NewAttributes { plain_mode, ..NewAttributes::of(copy, object, source, &xattrs) }.give())
}

fn count_remade(copy: EntryCopy<'_>, kind: FileType) {
    copy.count(match kind {
        FileType::Symlink => EntryOutcome::Symlink,
        _ => EntryOutcome::Special,
    });
}

fn make_hard_link(copy: EntryCopy<'_>, source_directory: &Fd, source: &Stat) -> Result<Handled, Problem> {
    let failed = |cause| {
        let problem = Problem::new(CopyKind::CannotLink).naming(copy.target_path()).naming(copy.entry.path());
        problem.because(cause)
    };
    let directory = copy.open_place().map_err(failed)?;
    let follow = copy.follows();
    let make_once =
        |name: &CStr| link_at_path(Some(source_directory), copy.entry.name(), follow, &directory, name);
    let make = |name: &CStr| copy.with_room(|| make_once(name));
    match make(copy.target_name()) {
        Ok(()) => copy.print_copied(),
        Err(cause) if cause.is(Errno::EXIST) => {
            let replaces = copy.options.existing.force || copy.options.existing.ask;
            let taken = Taken { directory: &directory, source, replaces, exists: cause };
            if make_in_place(copy, taken, &make, &failed)?.is_some() {
                return Ok(Handled::Done);
            }
        }
        Err(cause) => {
            let looked = copy.failure(&directory, CopyKind::CannotLink, cause.clone());
            copy.print_tried(&looked);
            return Err(if looked.kind == CopyKind::CannotStat { looked } else { failed(cause) });
        }
    }
    copy.count(EntryOutcome::HardLink);
    complete(copy, None, None);
    Ok(Handled::Done)
}

/// True if a symbolic link to the source, as the user named it, leads to it from the target.
pub(super) fn link_leads_to_source(copy: EntryCopy<'_>) -> bool {
    copy.entry.path().starts_with(b"/") || is_current_directory(copy)
}

fn make_link_to_source(copy: EntryCopy<'_>, source: &Stat) -> Result<CreateResult, Problem> {
    let content = copy.entry.path();
    let failed = |cause| {
        let problem = Problem::new(CopyKind::CannotCreateLinkTo).naming(copy.target_path());
        problem.naming(copy.entry.path()).because(cause)
    };
    let directory = copy.open_place().map_err(failed)?;
    let leads = link_leads_to_source(copy);
    let content = CString::new(content).unwrap_or_default();
    let is_shared = copy.entry.node.own.is_shared;
    let timed = Cell::new(Ok(()));
    let make_once = |name: &CStr| {
        let creation = Creation::begin(SYMLINK, is_shared);
        make_symlink(&content, &directory, name)?;
        if copy.options.preserves(Preserve::TIMESTAMPS) {
            let times = Times { accessed: source.accessed, modified: source.modified };
            let pinned = creation.pin(&directory, name, is_shared);
            timed.set(pinned.and_then(|link| link.change_times(times)));
        }
        Ok(())
    };
    let make = |name: &CStr| copy.with_room(|| make_once(name));
    if leads && !copy.options.existing.backs_up() && make_new(copy, &directory, &make).is_ok() {
        copy.print_copied();
    } else {
        // Something exists, or something is wrong with the directory; `clear` finds out.
        let (mut turn, mut is_replaced) = (place::turn(copy), false);
        let freed = match place::clear(copy, &directory, &mut turn, source)? {
            TargetPlace::Left(left) => return Ok(CreateResult::Left(left)),
            TargetPlace::Taken(there) => ClearedPlace { before: there, backup: None },
            TargetPlace::Replaced(there) => {
                copy.print_removed();
                is_replaced = true;
                ClearedPlace { before: Some(there), backup: None }
            }
            TargetPlace::Free(freed) => freed,
        };
        copy.print_copied_onto(freed.before.as_ref(), freed.backup.as_ref().map(MadeBackup::name));
        let outcome = match leads {
            true if is_replaced => replace(copy, &directory, &make, &failed),
            true => make_or_replace(copy, &directory, &make, &failed),
            false => Err(Problem::new(CopyKind::RelativeLink).naming(copy.target_path())),
        };
        if let Err(problem) = outcome {
            backup::put_back(copy, freed.backup.as_ref());
            return Err(problem);
        }
    }
    timed.into_inner().map_err(|cause| copy.not_ours(CopyKind::Times, cause))?;
    copy.count(EntryOutcome::Symlink);
    Ok(CreateResult::Whole)
}

/// Creates a symbolic link; with `-f` replaces an existing entry.
fn make_or_replace(
    copy: EntryCopy<'_>,
    directory: &Fd,
    make: &dyn Fn(&CStr) -> Result<(), Error>,
    failed: &dyn Fn(Error) -> Problem,
) -> Result<(), Problem> {
    match make_new(copy, directory, make) {
        Err(cause) if cause.is(Errno::EXIST) && copy.options.existing.force => {
            replace(copy, directory, make, failed)
        }
        outcome => outcome.map_err(failed),
    }
}

/// True if an entry's copy goes to the current directory.
fn is_current_directory(copy: EntryCopy<'_>) -> bool {
    let here = stat_path::<&Fd>(None, c".", true);
    here.is_ok_and(|here| here.identity == copy.entry.node.own.held.identity())
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
