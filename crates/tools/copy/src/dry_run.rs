//! `--dry-run`: decides about every entry, prints the actions, and changes nothing.
//!
//! The walk and the rules (`existing.rs`) are those of the copy. Where the copy makes
//! something, this looks at what has its name and prints the lines of `--verbose`. A directory that
//! would be made gets the handle of one that doesn't exist, so that nothing is found in it.
//!
//! Failures that only show in the attempt are not foreseen: an unreadable source, an unwritable
//! target, a full disk. Nor are the copies of earlier operands: if two operands have the same
//! target, each is judged by itself.
//!
//! Invariant: no call from here writes (test: `a_dry_run_makes_no_call_that_writes`).

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_flow::{DirHandle, Enter, EntryOutcome, FlowKind, Handled, OpenDir, Problem, Tally};
use haul_sys::{EntryType, Errno, Error, FileType, Identity, Mode, Open, Operation, Stat, c_string};

use super::CopyKind;
use super::backup;
use super::directory;
use super::earlier;
use super::entry_copy::EntryCopy;
use super::existing::looks_at_link;
use super::links::{self, MadeFile, NameClaim};
use super::mend;
use super::options::{Atomic, Make};
use super::other;
use super::place::{self, CreateResult, Foreseen, Left};
use super::staged;
use super::target::{CreationModes, MadeDirectory, TargetDirectory};
use super::xattr_rules::SourceXattrs;

/// Decides about a directory that was opened.
pub(super) fn enter(copy: EntryCopy<'_>, opened: &OpenDir<'_>, is_bare: bool) -> Enter<TargetDirectory> {
    let foreseen = match place::foresee(copy, opened.stat) {
        Ok(foreseen) => foreseen,
        Err(problem) => {
            copy.cx.problem(problem);
            return Enter::Done;
        }
    };
    let there = match foreseen {
        Foreseen::Left(_) => return Enter::Done,
        Foreseen::Stays(there) if is_closed(copy, &there) => {
            let problem = Problem::new(CopyKind::Unforeseen).naming(copy.target_path());
            copy.cx.problem(problem.as_warning());
            return Enter::Done;
        }
        Foreseen::Stays(there) if there.kind == FileType::Directory => {
            directory::record_existing(copy, there.identity);
            // In the second part it was printed already.
            if !copy.copier.is_rest {
                mend::print_entered(copy, opened, &there);
            }
            Some(there)
        }
        Foreseen::Stays(_) | Foreseen::Dangling => {
            copy.cx.problem(copy.problem(CopyKind::CannotCreateDirectory, error(Errno::EXIST)));
            return Enter::Done;
        }
        Foreseen::Made if lacks_parent(copy) => {
            copy.cx.problem(copy.problem(CopyKind::CannotCreateDirectory, error(Errno::NOENT)));
            return Enter::Done;
        }
        Foreseen::Made => {
            copy.print_copied();
            None
        }
        Foreseen::Removed | Foreseen::Replaced(_) => {
            copy.print_removed();
            copy.print_copied();
            None
        }
        // GNU doesn't print the backup's name for a directory.
        Foreseen::BackedUp(..) => {
            copy.print_copied();
            None
        }
    };
    copy.count(EntryOutcome::Directory);
    if there.is_none() && is_in_itself(copy, opened.stat.identity) {
        copy.report_into_itself();
    }
    let above = &copy.entry.node.own;
    let own = TargetDirectory {
        held: hold(copy, there.as_ref()),
        rename: None,
        earlier: earlier::counterparts(copy),
        operand: Arc::clone(&above.operand),
        made: Some(MadeDirectory {
            before: there,
            is_unfinished: false,
            plain_mode: None,
            xattrs: SourceXattrs::default(),
        }),
        reflink_refused: AtomicBool::new(false),
        is_shared: false,
        gives_access_list: false,
        creation_modes: CreationModes::default(),
    };
    if is_bare { Enter::Bare(own) } else { Enter::Visit(own) }
}

/// True for an existing directory that only the real run can look into, because it makes it
/// accessible.
fn is_closed(copy: EntryCopy<'_>, there: &Stat) -> bool {
    let is_listable = there.mode.contains(Mode::OWNER_LIST);
    there.kind == FileType::Directory && !is_listable && directory::may_be_opened(copy, there)
}

/// Returns a handle of the target directory that is there, or of one that isn't.
fn hold(copy: EntryCopy<'_>, there: Option<&Stat>) -> Arc<DirHandle> {
    let (cache, above) = (copy.cx.cache(), &copy.entry.node.own.held);
    let Some(there) = there else {
        let path = copy.target_path();
        return cache.hold_absent(&c_string(&path), Open::SEARCH, path);
    };
    let follow = !looks_at_link(copy.options, FileType::Directory);
    let how = if follow { Open::SEARCH.following() } else { Open::SEARCH };
    let name: (_, &CStr) = (above, copy.target_name());
    cache.hold_shown(name, how, there.identity, None, copy.shown_directory())
}

/// True if the copy of the operand would be made in this directory, which is part of its source.
fn is_in_itself(copy: EntryCopy<'_>, directory: Identity) -> bool {
    let mut node = &copy.entry.node;
    while let Some(parent) = &node.parent {
        node = parent;
    }
    node.own.held.identity() == directory
}

/// Decides about anything but a directory.
pub(super) fn handle(copy: EntryCopy<'_>, kind: EntryType) -> Handled {
    let decided = decide(copy, kind);
    decided.unwrap_or_else(|problem| {
        copy.cx.problem(problem);
        Handled::Done
    })
}

fn decide(copy: EntryCopy<'_>, kind: EntryType) -> Result<Handled, Problem> {
    if kind == EntryType::Directory {
        return Err(Problem::new(CopyKind::OmittingDirectory).naming(copy.entry.path()));
    }
    let cannot_stat = |cause| copy.cannot_stat_source(cause);
    let source = copy.stat_source().map_err(cannot_stat)?;
    if source.kind == FileType::Regular && place::leaves_own_file(copy, &source) {
        return Ok(Handled::Done);
    }
    let link = match copy.options.make {
        Make::HardLink => None,
        Make::Copy | Make::Symlink => match links::claim(copy, &source) {
            NameClaim::First(link) => link,
            NameClaim::Waits => return Ok(Handled::Deferred),
            NameClaim::Over => return Ok(Handled::Done),
        },
    };
    if link.is_some() && earlier::link(copy, &source).is_some() {
        link.iter().for_each(|file| links::complete(copy, *file, Some(MadeFile::foreseen()), None));
        return Ok(Handled::Done);
    }
    let made = foresee(copy, &source).inspect_err(|_| links::abandon(copy, link))?;
    match (made, link) {
        (CreateResult::Left(Left::AsItIs) | CreateResult::Broken | CreateResult::Waits, link) => {
            links::abandon(copy, link)
        }
        (_, None) => {}
        (CreateResult::Left(Left::AsCopy), Some(file)) => links::complete(copy, file, None, None),
        (CreateResult::Whole, Some(file)) => links::complete(copy, file, Some(MadeFile::foreseen()), None),
    }
    Ok(Handled::Done)
}

/// Prints and counts the entry that would be made.
fn foresee(copy: EntryCopy<'_>, source: &Stat) -> Result<CreateResult, Problem> {
    let foreseen = place::foresee(copy, source)?;
    match &foreseen {
        Foreseen::Left(left) => {
            if *left == Left::AsCopy {
                mend::mend_entry(copy, source);
            }
            return Ok(CreateResult::Left(*left));
        }
        Foreseen::Made | Foreseen::Dangling => copy.print_copied(),
        Foreseen::Stays(there) if there.kind == FileType::Directory => copy.print_copied(),
        Foreseen::Stays(there) => copy.print_copied_onto(Some(there), None),
        Foreseen::Removed => {
            copy.print_removed();
            copy.print_copied();
        }
        Foreseen::Replaced(there) => {
            copy.print_replaced();
            copy.print_copied_onto(Some(there), None);
        }
        Foreseen::BackedUp(there, backup) => copy.print_copied_onto(Some(there), Some(backup)),
    }
    if let Some(problem) = failure(copy, source, &foreseen) {
        if let Foreseen::BackedUp(_, backup) = &foreseen {
            backup::report_put_back(copy, backup);
        }
        return Err(problem);
    }
    match (copy.options.make, source.kind) {
        (Make::HardLink, _) => copy.count(EntryOutcome::HardLink),
        (Make::Symlink, _) | (Make::Copy, FileType::Symlink) => copy.count(EntryOutcome::Symlink),
        (Make::Copy, FileType::Regular) => {
            copy.cx.count(Tally { bytes: source.size, ..Tally::default() });
            copy.count_file(source.size);
        }
        (Make::Copy, _) => copy.count(EntryOutcome::Special),
    }
    Ok(CreateResult::Whole)
}

/// Returns why anything but a directory could not be made.
fn failure(copy: EntryCopy<'_>, source: &Stat, foreseen: &Foreseen) -> Option<Problem> {
    let options = copy.options;
    let of_target = |kind: CopyKind| Problem::new(kind).naming(copy.target_path());
    let is_written = options.make == Make::Copy && source.kind == FileType::Regular;
    let replaces = match (options.make, source.kind) {
        _ if is_written || options.existing.update.syncs() => true,
        (Make::HardLink, _) => options.existing.force || options.existing.ask,
        (Make::Symlink, _) => options.existing.force,
        (Make::Copy, FileType::Symlink) => options.existing.force || other::is_same_link(copy, source),
        (Make::Copy, _) => options.reads_special(),
    };
    if let (Foreseen::Stays(there), true) = (foreseen, is_written && options.atomic == Atomic::Always)
        && there.kind == FileType::Regular
        && let Ok(Some(kind)) = copy.open_directory().and_then(|at| staged::refusal(copy, &at, there))
    {
        return Some(of_target(kind));
    }
    let errno = match foreseen {
        Foreseen::Dangling => return Some(of_target(CopyKind::Dangling)),
        _ if options.make == Make::Symlink && !other::link_leads_to_source(copy) => {
            return Some(of_target(CopyKind::RelativeLink));
        }
        Foreseen::Stays(there) if there.kind == FileType::Directory && is_written => Errno::ISDIR,
        Foreseen::Stays(there) if there.kind == FileType::Directory => Errno::EXIST,
        Foreseen::Stays(_) if !replaces => Errno::EXIST,
        Foreseen::Made if lacks_parent(copy) => Errno::NOENT,
        Foreseen::Made if copy.target_name().to_bytes().ends_with(b"/") => {
            if is_written {
                Errno::NOTDIR
            } else {
                Errno::NOENT
            }
        }
        _ if options.make == Make::Copy && source.kind == FileType::Socket && options.reads_special() => {
            let problem = Problem::new(FlowKind::CannotOpen).naming(copy.entry.path());
            return Some(problem.because(error(Errno::NXIO)));
        }
        _ => return None,
    };
    let problem = match (options.make, source.kind) {
        (Make::HardLink, _) => of_target(CopyKind::CannotLink).naming(copy.entry.path()),
        (Make::Symlink, _) => of_target(CopyKind::CannotCreateLinkTo).naming(copy.entry.path()),
        (Make::Copy, FileType::Regular) => of_target(CopyKind::CannotCreateFile),
        (Make::Copy, FileType::Symlink) => of_target(CopyKind::CannotCreateLink),
        (Make::Copy, FileType::Fifo) => of_target(CopyKind::CannotCreateFifo),
        (Make::Copy, _) => of_target(CopyKind::CannotCreateSpecial),
    };
    Some(problem.because(error(errno)))
}

/// True if the target of an operand would be in a directory that doesn't exist (`missing/new`).
fn lacks_parent(copy: EntryCopy<'_>) -> bool {
    copy.entry.is_operand() && copy.entry.node.own.operand.lacks_parent
}

/// The error of a call that was not made.
pub(super) fn error(errno: Errno) -> Error {
    Error::new(Operation::Openat, String::new(), errno)
}
