//! Copies regular files: creates or opens the target, chooses how to move the bytes, and finishes.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haul_flow::{Finished, FlowKind, Holes, OpenFile, OpenSource, Problem, Start, Tally, Transfer};
use haul_striping::Bearer;
use haul_sys::{CacheMode, Errno, Error, Fd, FileRef, FileType, Identity, Mode, Open, Seek, Stat};
use haul_sys::{
    change_mode, open, read, reflink, remove, seek, stat, stat_at, stat_followed, stat_path, truncate, write,
};

use super::attributes::NewAttributes;
use super::backup::{self, MadeBackup};
use super::changed;
use super::creation_mode::{self, CreationMode};
use super::debug;
use super::durable;
use super::earlier;
use super::entry_copy::EntryCopy;
use super::journaled::{self, JournaledFile};
use super::layouts::{self, Original};
use super::links::{self, MadeFile, NameClaim};
use super::mend;
use super::open_target::{CopiedFile, OpenTarget, PreparedTarget, slashed};
use super::options::{Atomic, Reflink, Sparse, Update};
use super::overwritten::{self, OverwriteClaim};
use super::partial;
use super::place::{self, ClearedPlace, Left, TargetPlace};
use super::source_xattrs;
use super::staged;
use super::stream;
use super::target::target_path;
use super::verify::Verification;
use super::xattr_rules::SourceXattrs;
use super::{Copier, CopyKind};

pub(super) fn begin(copy: EntryCopy<'_>, opened: OpenSource<'_>) -> Start<CopiedFile> {
    let OpenSource { stat, .. } = opened;
    if place::leaves_own_file(copy, stat) {
        return Start::Done;
    }
    if !overwritten::begin_reading(copy, stat, || haul_sys::stat(opened.source)) {
        return Start::Deferred;
    }
    let start = begin_read(copy, opened);
    if !matches!(start, Start::Move { .. }) {
        overwritten::end_reading(copy, stat.identity);
    }
    start
}

fn begin_read(copy: EntryCopy<'_>, opened: OpenSource<'_>) -> Start<CopiedFile> {
    let OpenSource { stat, .. } = opened;
    let link = match links::claim(copy, stat) {
        NameClaim::First(claimed) => claimed,
        NameClaim::Waits => return Start::Deferred,
        NameClaim::Over => return Start::Done,
    };
    if let Some((file, target)) = link.and_then(|file| Some((file, journaled::stays(copy, stat)?))) {
        links::complete(copy, file, Some(MadeFile::of(&target)), Some(*stat));
        return Start::Done;
    }
    if let Some((file, linked)) = link.and_then(|file| Some((file, earlier::link(copy, stat)?))) {
        links::complete(copy, file, Some(MadeFile::of(&linked)), Some(*stat));
        return Start::Done;
    }
    let creation_mode = creation_mode::choose(copy.copier, &copy.entry.node.own, opened.source, stat);
    let layout = layouts::wanted(copy, (opened.source, stat), Bearer::File);
    let original = Original { stat, layout: layout.as_ref() };
    let temporary = match copy.entry.node.owner {
        #[cfg(feature = "distributed")]
        Some(_) => super::distributed::open_temporary(copy, original, creation_mode),
        _ => Ok(None),
    };
    let opening = match temporary {
        Ok(Some(target)) => Ok(PreparedTarget::Open(target)),
        Ok(None) => open_target(copy, original, creation_mode),
        Err(problem) => Err(problem),
    };
    let begun = match opening {
        Ok(PreparedTarget::Open(target)) => {
            let claimed = target.claimed;
            let begun = fill(copy, opened, target, link);
            if begun.is_none() {
                overwritten::release(copy, claimed);
            }
            begun
        }
        Ok(PreparedTarget::Waits) => {
            links::abandon(copy, link);
            return Start::Deferred;
        }
        Ok(PreparedTarget::Left(left)) => {
            end_left(copy, stat, left, link);
            return Start::Done;
        }
        Err(problem) => {
            if problem.kind == CopyKind::CannotCreateFile {
                debug::print_failed(copy, "unknown");
            }
            copy.cx.problem(problem);
            None
        }
    };
    begun.unwrap_or_else(|| {
        links::abandon(copy, link);
        Start::Done
    })
}

/// Completes a file whose target stays as it is, apart from its attributes.
pub(super) fn end_left(copy: EntryCopy<'_>, source: &Stat, left: Left, link: Option<Identity>) {
    #[cfg(feature = "distributed")]
    if copy.entry.node.owner.is_some() {
        super::distributed::note_left(copy);
    }
    match (left, link) {
        (Left::AsItIs, _) => links::abandon(copy, link),
        (Left::AsCopy, link) => {
            mend::mend_entry(copy, source);
            link.iter().for_each(|file| links::complete(copy, *file, None, None));
        }
    }
}

/// Chooses how an open target gets its content; `None` if that failed and was reported.
fn fill(
    copy: EntryCopy<'_>,
    opened: OpenSource<'_>,
    target: OpenTarget,
    link: Option<Identity>,
) -> Option<Start<CopiedFile>> {
    let OpenSource { source, stat, .. } = opened;
    if target.before.is_some_and(|before| before.kind != FileType::Regular)
        || has_no_offsets((source, stat), &target)
    {
        stream::fill(copy, (source, stat), target);
        return None;
    }
    let OpenTarget { file, before, claimed, backup, creation_mode, staged, partial } = target;
    let reflinked = match share_blocks(copy, source, stat, &file) {
        Ok(shared) => shared,
        Err(cause) => {
            let problem =
                Problem::new(CopyKind::FailedToClone).naming(copy.target_path()).naming(copy.entry.path());
            copy.cx.problem(problem.because(cause));
            debug::print_failed(copy, "unsupported");
            staged::take_back(copy, file, staged.as_ref(), before.is_none());
            backup::put_back(copy, backup.as_ref());
            return None;
        }
    };
    let transfer = if reflinked { Transfer::Nothing } else { transfer(copy, source, stat) };
    let skips_holes = matches!(transfer, Transfer::Blocks(Holes::Skip) | Transfer::Kernel(Holes::Skip));
    let offloaded = matches!(transfer, Transfer::Kernel(_));
    let has_holes = skips_holes || (!reflinked && copy.options.sparse == Sparse::Always);
    if reflinked {
        copy.cx.count(Tally { bytes: stat.size, reflinked: 1, ..Tally::default() });
    }
    // A file written through a symbolic link is not the one the name refers to.
    let has_the_name = link.is_some() && creation_mode.is_some();
    let made = has_the_name.then(|| haul_sys::stat(&file).ok()).flatten();
    let made = made.map(|stat| MadeFile::of(&stat));
    let verification = Verification::begin(copy.copier);
    // One that shares its source's blocks is complete already.
    let partial = partial.filter(|_| transfer != Transfer::Nothing);
    let part = partial.as_ref().map(|partial| partial.begin(stat.size, verification.as_ref()));
    let own = CopiedFile {
        source: Some(stat.identity),
        before,
        claimed,
        backup,
        link,
        made,
        reflinked,
        offloaded,
        skips_holes,
        has_holes,
        creation_mode,
        mode_to_restore: OnceLock::new(),
        staged,
        lacks_attributes: AtomicBool::new(false),
        length: AtomicU64::new(0),
        verification,
        journaled: JournaledFile::begin(copy.copier, stat),
        partial,
        retries: AtomicU32::new(0),
    };
    let inspect = has_holes || own.verification.is_some();
    Some(Start::Move { own, target: file, transfer, inspect, part })
}

/// True if source or target can only be read or written from its start to its end, although it
/// calls itself a regular file: many files of the kernel do (`/proc/self/comm`, `trace_pipe`).
/// Their size is 0; any others are noticed when they are read (`flow`).
fn has_no_offsets((source, stat): (&Fd, &Stat), target: &OpenTarget) -> bool {
    let is_refused = |moved: Result<usize, Error>| moved.is_err_and(|cause| cause.is(Errno::SPIPE));
    (stat.size == 0 && is_refused(read(source, 0, &mut [], CacheMode::Keep)))
        || (target.before.is_some_and(|before| before.size == 0)
            && is_refused(write(&target.file, 0, &[], CacheMode::Keep)))
}

/// Creates or opens the target of a regular file.
pub(super) fn open_target(
    copy: EntryCopy<'_>,
    source: Original<'_>,
    creation_mode: CreationMode,
) -> Result<PreparedTarget, Problem> {
    let name = copy.target_name();
    let directory =
        copy.open_place().map_err(|cause| copy.problem(CopyKind::CannotCreateFile, slashed(name, cause)))?;
    match create(copy, &directory, creation_mode.mode, source) {
        Ok(target) => match overwritten::claim_new(copy, source.stat, &target) {
            OverwriteClaim::First(claimed) => {
                copy.print_copied();
                let creation_mode = Some(creation_mode);
                Ok(PreparedTarget::Open(OpenTarget { creation_mode, claimed, ..target }))
            }
            OverwriteClaim::Waits => Ok(PreparedTarget::Waits),
        },
        Err(cause) if cause.is(Errno::EXIST) => open_in_place(copy, source, &directory),
        Err(cause) if cause.is(Errno::ISDIR) && stat_followed(&*directory, name).is_ok() => {
            open_in_place(copy, source, &directory)
        }
        Err(cause) => {
            let problem = copy.failure(&directory, CopyKind::CannotCreateFile, slashed(name, cause));
            copy.print_tried(&problem);
            Err(problem)
        }
    }
}

/// Creates a target where nothing is: staged if that is wanted, else under its own name.
fn create(
    copy: EntryCopy<'_>,
    directory: &Fd,
    mode: Mode,
    source: Original<'_>,
) -> Result<OpenTarget, Error> {
    if let Some(target) = partial::open_named(copy, directory, source.stat) {
        return Ok(target);
    }
    match staged::create(copy, directory, mode, source)? {
        Some(target) => Ok(target),
        None => {
            let name = (directory, copy.target_name());
            let made = copy.with_room(|| layouts::make_file(copy, name, mode, source.layout));
            made.map(OpenTarget::new)
        }
    }
}

/// Opens or creates the target where something exists, or did a moment ago.
fn open_in_place(
    copy: EntryCopy<'_>,
    source: Original<'_>,
    directory: &Fd,
) -> Result<PreparedTarget, Problem> {
    let mut turn = place::turn(copy);
    match place::clear(copy, directory, &mut turn, source.stat)? {
        TargetPlace::Left(left) => Ok(PreparedTarget::Left(left)),
        // Another name for it where case is ignored: nothing else creates entries here.
        TargetPlace::Taken(Some(there)) if is_made_here(copy, &there) => {
            copy.print_copied_onto(Some(&there), None);
            replace_whole(copy, source, directory).map(PreparedTarget::Open)
        }
        TargetPlace::Taken(there) => {
            let claimed = match overwritten::claim(copy, source.stat, there.as_ref()) {
                OverwriteClaim::First(claimed) => claimed,
                OverwriteClaim::Waits => return Ok(PreparedTarget::Waits),
            };
            copy.print_copied_onto(there.as_ref(), None);
            open_existing(copy, source, directory, there)
                .map(|target| PreparedTarget::Open(OpenTarget { claimed, ..target }))
                .inspect_err(|_| overwritten::release(copy, claimed))
        }
        TargetPlace::Replaced(there) => {
            copy.print_replaced();
            copy.print_copied_onto(Some(&there), None);
            replace_whole(copy, source, directory).map(PreparedTarget::Open)
        }
        TargetPlace::Free(ClearedPlace { backup, before }) => {
            copy.print_copied_onto(before.as_ref(), backup.as_ref().map(MadeBackup::name));
            let is_there = if backup.is_some() { check_source(copy) } else { Ok(()) };
            match is_there.and_then(|()| make_anew(copy, source, directory)) {
                Ok(target) => match overwritten::claim_new(copy, source.stat, &target) {
                    OverwriteClaim::First(claimed) => {
                        Ok(PreparedTarget::Open(OpenTarget { backup, claimed, ..target }))
                    }
                    OverwriteClaim::Waits => Ok(PreparedTarget::Waits),
                },
                Err(problem) => {
                    backup::put_back(copy, backup.as_ref());
                    Err(problem)
                }
            }
        }
    }
}

/// True if this run has made an existing file, and the directory it is in.
fn is_made_here(copy: EntryCopy<'_>, there: &Stat) -> bool {
    let own = &copy.entry.node.own;
    let is_followed = copy.options.existing.keep_directory_symlink;
    own.is_new() && !is_followed && !copy.options.attributes_only && there.kind == FileType::Regular
}

/// Checks that the source can still be reached by name: it may be a symbolic link through what
/// was just moved to a backup, or that itself. GNU opens the source only now, and fails then.
fn check_source(copy: EntryCopy<'_>) -> Result<(), Problem> {
    let looked = copy
        .cx
        .cache()
        .open(&copy.entry.node.source)
        .and_then(|directory| stat_path(Some(&*directory), copy.entry.name(), copy.follows()));
    looked
        .map(|_| ())
        .map_err(|cause| Problem::new(FlowKind::CannotOpen).naming(copy.entry.path()).because(cause))
}

/// Opens an existing target. With `-f`, one that can't be opened is removed and recreated.
fn open_existing(
    copy: EntryCopy<'_>,
    source: Original<'_>,
    directory: &Fd,
    there: Option<Stat>,
) -> Result<OpenTarget, Problem> {
    if copy.options.refuse_special && there.is_some_and(|there| there.kind == FileType::Fifo) {
        return Err(Problem::new(CopyKind::SpecialRefused).naming(copy.target_path()));
    }
    let how = Open::WRITE.following();
    // Wait for the reader of a FIFO that the user named; one met in a tree is a trap.
    let waits = there.is_some_and(|there| there.kind != FileType::Regular) && !copy.options.recursive;
    let how = if waits { how.blocking() } else { how };
    if waits {
        copy.cx.expect_to_block();
    }
    match (open(directory, copy.target_name(), how), there) {
        (Ok(file), Some(there)) => empty(copy, source, (directory, there), file),
        // It was a symbolic link to itself and is something else now: recreate it, like
        // anything that can't be opened.
        (Ok(file), None) => {
            file.close().map_err(|cause| copy.problem(CopyKind::CannotCreateFile, cause))?;
            replace(copy, source, directory)
        }
        (Err(cause), _) if cause.is(Errno::NOENT) => make_anew(copy, source, directory),
        (Err(_), _) if copy.options.existing.force => replace(copy, source, directory),
        (Err(cause), _) => Err(copy.problem(CopyKind::CannotCreateFile, cause)),
    }
}

/// Truncates an opened target, or begins to replace it, after checking that it is not the source by
/// another path.
fn empty(
    copy: EntryCopy<'_>,
    source: Original<'_>,
    (directory, there): (&Fd, Stat),
    file: Fd,
) -> Result<OpenTarget, Problem> {
    if there.kind != FileType::Regular {
        return Ok(OpenTarget { before: Some(there), ..OpenTarget::new(file) });
    }
    let failed = |cause| copy.problem(CopyKind::CannotCreateFile, cause);
    let opened = stat(&file).map_err(failed)?;
    if opened.identity == source.stat.identity {
        return Err(Problem::new(CopyKind::SameFile).naming(copy.entry.path()).naming(copy.target_path()));
    }
    if copy.options.atomic == Atomic::Always || is_kept_by_repetition(copy, directory, &opened) {
        return staged::replace_file(copy, directory, (file, opened), source);
    }
    // Also an empty one: being written to shows in its timestamps.
    let emptied = if copy.options.attributes_only { Ok(()) } else { truncate(&file, 0) };
    match emptied {
        Ok(()) => {}
        // GNU truncates as it opens, so to it this is a file that can't be opened.
        Err(_) if copy.options.existing.force => {
            file.close().map_err(failed)?;
            return replace(copy, source, directory);
        }
        Err(cause) => return Err(failed(cause)),
    }
    Ok(OpenTarget { before: Some(opened), ..OpenTarget::new(file) })
}

/// True if a part of the file would look newer than its source. If the rank is lost, whoever does
/// its work again would skip the file.
fn is_kept_by_repetition(copy: EntryCopy<'_>, directory: &Fd, opened: &Stat) -> bool {
    let is_itself =
        || stat_at(directory, copy.target_name()).is_ok_and(|there| there.identity == opened.identity);
    copy.entry.node.owner.is_some()
        && copy.options.existing.update == Update::Older
        && !copy.options.attributes_only
        && opened.links == 1
        && is_itself()
}

/// Creates the target in place of an existing entry of which nothing is kept.
fn replace(copy: EntryCopy<'_>, source: Original<'_>, directory: &Fd) -> Result<OpenTarget, Problem> {
    if !copy.options.replaces_whole() {
        place::make_room(copy, directory, source.stat)?;
        return make_anew(copy, source, directory);
    }
    copy.print_replaced();
    replace_whole(copy, source, directory)
}

/// Creates the target under a temporary name, to be renamed over an existing entry.
fn replace_whole(copy: EntryCopy<'_>, source: Original<'_>, directory: &Fd) -> Result<OpenTarget, Problem> {
    let mode = creation_mode::new_file_mode(copy.copier, source.stat);
    staged::create_replacement(copy, directory, mode, source)
        .map_err(|cause| copy.problem(CopyKind::CannotCreateFile, cause))
}

/// Creates the target where nothing exists, or only a dangling symbolic link.
fn make_anew(copy: EntryCopy<'_>, source: Original<'_>, directory: &Fd) -> Result<OpenTarget, Problem> {
    let (name, mode) = (copy.target_name(), creation_mode::new_file_mode(copy.copier, source.stat));
    let outcome = match create(copy, directory, mode, source) {
        Err(cause) if cause.is(Errno::EXIST) && is_link(directory, name) => {
            if !copy.options.through_dangling {
                return Err(Problem::new(CopyKind::Dangling).naming(copy.target_path()));
            }
            copy.with_room(|| open(directory, name, Open::create_through(mode))).map(OpenTarget::new)
        }
        outcome => outcome,
    };
    outcome.map_err(|cause| copy.problem(CopyKind::CannotCreateFile, cause))
}

/// Shares the source's blocks if wanted and possible; returns whether it did.
fn share_blocks(copy: EntryCopy<'_>, source: &Arc<Fd>, stat: &Stat, target: &Fd) -> Result<bool, Error> {
    let always = copy.options.reflink == Reflink::Always;
    // An empty file shares nothing; under `--debug` it shows whether it could.
    let refused = copy.entry.node.own.refuses_reflink() || (stat.size == 0 && !copy.options.debug);
    if copy.options.reflink == Reflink::Never || (refused && !always) {
        return Ok(false);
    }
    match copy.with_room(|| reflink(source, target)) {
        Ok(()) => Ok(true),
        // A full or broken disk: another method would hide the error or hit it too.
        Err(cause) if always || is_terminal(&cause) => Err(cause),
        Err(cause) => {
            if matches!(cause.errno(), Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) {
                copy.entry.node.own.refuse_reflink();
            }
            Ok(false)
        }
    }
}

/// Chooses how to move the bytes.
fn transfer(copy: EntryCopy<'_>, source: &Fd, stat: &Stat) -> Transfer {
    let holes = match copy.options.sparse {
        Sparse::Never => Holes::Read,
        Sparse::Auto | Sparse::Always if has_holes(source, stat) => Holes::Skip,
        Sparse::Auto | Sparse::Always => Holes::Read,
    };
    let offload = copy.options.sparse == Sparse::Auto
        && copy.options.reflink != Reflink::Never
        // Like GNU's, `--debug` reports which calls the kernel can make, so it must be tried.
        && (copy.options.debug || debug::why_in_blocks(copy, source, stat, holes).is_none())
        // Striped file systems lack in-kernel copying; the kernel's fallback moves one pipe
        // buffer at a time.
        && !copy.copier.layouts.is_striped(source, stat);
    if offload { Transfer::Kernel(holes) } else { Transfer::Blocks(holes) }
}

pub(super) fn finish(copy: EntryCopy<'_>, file: &OpenFile<Copier>) -> Finished {
    let Some(target) = &file.target else { return Finished::Done };
    let next = file.own.partial.as_ref().and_then(|partial| partial.advance(copy, file, target));
    // Like GNU cp, it is copied to EOF.
    if let Some(next) = next.or_else(|| file.beyond()) {
        return next;
    }
    match changed::source_now(copy, file) {
        Ok(None) => Finished::if_complete(complete(copy, file, target)),
        Ok(Some(stat)) if changed::empty_again(copy, file, target) => {
            file.own.journaled.iter().for_each(|journaled| journaled.begin_again(&stat));
            let holes = if file.own.skips_holes { Holes::Skip } else { Holes::Read };
            Finished::Again { stat, transfer: Transfer::Blocks(holes) }
        }
        Ok(Some(_)) => Finished::Failed,
        Err(problem) => {
            copy.cx.problem(problem);
            Finished::Failed
        }
    }
}

/// Completes a target: its length, attributes, and name. Returns false if something failed and was
/// reported.
fn complete(copy: EntryCopy<'_>, file: &OpenFile<Copier>, target: &Fd) -> bool {
    if file.own.has_holes
        && let Err(cause) = truncate(target, file.length())
    {
        let problem = Problem::new(CopyKind::FailedToExtend).naming(target_path(&file.entry));
        copy.cx.problem(problem.because(cause));
        return false;
    }
    let restored = file.own.mode_to_restore.get().map_or(Ok(()), |mode| change_mode(target, *mode));
    if let Err(cause) = restored {
        copy.cx.problem(copy.problem(CopyKind::Permissions, cause));
        return false;
    }
    if copy.options.debug {
        debug::print_file(copy, file);
    }
    file.own.length.store(file.length(), Ordering::Relaxed);
    let errors_before = copy.cx.errors();
    let creation_mode = file.own.creation_mode;
    let xattrs = match creation_mode.is_some_and(|creation_mode| creation_mode.is_final) {
        true => SourceXattrs::default(),
        false => source_xattrs::read(copy, FileRef::Open(&file.source)),
    };
    let attributes = NewAttributes {
        before: file.own.before.as_ref(),
        plain_mode: creation_mode::plain_file_mode(copy.copier, &file.stat, file.own.before.as_ref()),
        creation_mode: creation_mode.map(|creation_mode| (creation_mode, &copy.entry.node.own)),
        ..NewAttributes::of(copy, FileRef::Open(target), &file.stat, &xattrs)
    };
    let has_attributes = attributes.give();
    file.own.staged.iter().for_each(|_| journaled::record_first(copy, &file.stat, || stat(target)));
    let is_named = durable::flush_file(copy, target, file.own.staged.as_ref())
        // Like GNU cp, keep a copy that lacks an attribute.
        && staged::name_open(copy, file.own.staged.as_ref(), target)
        && file.own.verification.as_ref().is_none_or(|verification| {
            verification.end(copy, target, file.length(), Some(&file.stat))
        });
    if copy.cx.errors() == errors_before {
        file.own.journaled.iter().for_each(|journaled| journaled.end(copy, file, target));
    }
    file.own.lacks_attributes.store(is_named && !has_attributes, Ordering::Relaxed);
    is_named && has_attributes
}

pub(super) fn end(copy: EntryCopy<'_>, own: &CopiedFile, moved: bool) {
    let is_whole = moved || own.lacks_attributes.load(Ordering::Relaxed);
    Verification::look_ahead(copy);
    let is_kept = !is_whole && own.partial.as_ref().is_some_and(|partial| partial.keep(copy, own));
    let is_named = !is_kept && staged::name_closed(copy, own.staged.as_ref(), is_whole);
    if !is_whole && !is_kept && own.staged.is_none() {
        remove_part(copy, own.creation_mode.is_some());
    }
    let is_verified =
        is_whole && is_named && own.verification.as_ref().is_none_or(|verification| verification.check(copy));
    let moved = moved && is_named && is_verified;
    if moved {
        copy.count_file(own.length.load(Ordering::Relaxed));
        own.verification.iter().for_each(|verification| verification.pass_on(copy));
        own.journaled.iter().for_each(|journaled| journaled.record(copy));
        copy.record_made();
    }
    if !moved {
        backup::put_back(copy, own.backup.as_ref());
    }
    match (own.link, moved) {
        (Some(file), true) => {
            links::complete(copy, file, own.made, own.journaled.as_ref().and_then(JournaledFile::source));
        }
        (link, _) => links::abandon(copy, link),
    }
    overwritten::release(copy, own.claimed);
    own.source.iter().for_each(|file| overwritten::end_reading(copy, *file));
}

/// Removes a file with partial content, if it is new: under its own name it would pass for the
/// whole.
pub(super) fn remove_part(copy: EntryCopy<'_>, is_new: bool) {
    // Elsewhere the name may be another user's by now.
    if !is_new || copy.entry.node.own.is_shared || copy.options.atomic == Atomic::Never {
        return;
    }
    let removed = copy.open_directory().and_then(|directory| remove(directory, copy.target_name()));
    if let Err(cause) = removed {
        copy.cx.problem(copy.problem(CopyKind::CannotRemove, cause));
    }
}

/// True if a file occupies less space than its length and the file system knows its holes.
/// Compressed files are short of blocks but not of data; like GNU cp since 9.9, they are treated as
/// files without holes.
fn has_holes(source: &Fd, stat: &Stat) -> bool {
    let is_all_data = || matches!(seek(source, Seek::Hole, 0), Ok(Some(hole)) if hole >= stat.size);
    stat.is_sparse() && !is_all_data()
}

/// True if sharing blocks failed for a reason other than lack of support. GNU's list (since 9.2).
fn is_terminal(cause: &Error) -> bool {
    matches!(cause.errno(), Errno::IO | Errno::NOMEM | Errno::NOSPC | Errno::DQUOT)
}

fn is_link(directory: &Fd, name: &CStr) -> bool {
    stat_at(directory, name).is_ok_and(|there| there.kind == FileType::Symlink)
}
