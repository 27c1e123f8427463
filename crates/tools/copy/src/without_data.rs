//! `--attributes-only`: creates files, or leaves them in place, and sets attributes only.
//!
//! No data is read, so the source is opened only if that alone can show that it is readable (which
//! GNU cp demands) or what its attributes are. A new file costs two calls, statx and mknodat. Under
//! `-a`, where files are known to be created with their final mode (`creation_mode.rs`), it costs
//! seven: statx, openat, listxattr and close of the source, openat, utimensat and close of the
//! target. They are opened because a name may lead to something else by the next call.

use haul_flow::{EntryOutcome, FlowKind, Problem};
use haul_sys::{
    Error, Fd, FileRef, FileType, Mode, Open, Special, Stat, interposer, make_special, open, stat_path,
};

use super::Copier;
use super::attributes::NewAttributes;
use super::backup;
use super::creation_mode::{self, CreationMode};
use super::durable;
use super::entry_copy::EntryCopy;
use super::layouts::Original;
use super::open_target::{OpenTarget, PreparedTarget};
use super::options::Preserve;
use super::overwritten;
use super::place::{self, CreateResult};
use super::regular;
use super::source_xattrs;
use super::xattr_rules::SourceXattrs;

/// Creates a file like the source, without its content.
pub(super) fn make(copy: EntryCopy<'_>, directory: &Fd, source: &Stat) -> Result<CreateResult, Problem> {
    let look = || stat_path(Some(directory), copy.entry.name(), copy.follows());
    if !overwritten::begin_reading(copy, source, look) {
        return Ok(CreateResult::Waits);
    }
    let made = make_of_noted(copy, directory, source);
    overwritten::end_reading(copy, source.identity);
    made
}

/// Creates it while the source is noted as being read.
fn make_of_noted(copy: EntryCopy<'_>, directory: &Fd, source: &Stat) -> Result<CreateResult, Problem> {
    let opened = match must_open(copy, source).map(|how| open(directory, copy.entry.name(), how)) {
        Some(Ok(opened)) => Some(opened),
        Some(Err(cause)) => {
            // GNU opens the source after it has looked at the target and printed the line of
            // -v.
            if let Some(refusal) = place::refuses(copy, source) {
                return Err(refusal);
            }
            copy.print_copied();
            let unreadable = Problem::new(FlowKind::CannotOpen).naming(copy.entry.path());
            return Err(unreadable.because(cause));
        }
        None => None,
    };
    let xattrs = match &opened {
        Some(opened) => source_xattrs::read(copy, FileRef::Open(opened)),
        None => source_xattrs::read_named(copy, Some(directory)),
    };
    let made = match make_at_once(copy, source) {
        Some(made) => Ok(made),
        None => make_by_opening(copy, source, &xattrs),
    };
    match opened.map(Fd::close) {
        Some(Err(cause)) => made.and(Err(unclosed(copy.entry.path(), cause))),
        _ => made,
    }
}

/// Creates a file that gets no attributes but its creation mode, without opening it. `None` if
/// it needs more or can't be created; opening it then reports why. Under fakeroot it has to be
/// opened: its `mknodat` leaves out the mode.
fn make_at_once(copy: EntryCopy<'_>, source: &Stat) -> Option<CreateResult> {
    let keeps = copy.options.preserve.difference(Preserve::LINKS);
    if !keeps.is_empty()
        || durable::is_flushed(copy.copier)
        || interposer().is_some()
        || copy.options.reads_xattrs()
        || creation_mode::plain_file_mode(copy.copier, source, None).is_some()
    {
        return None;
    }
    let directory = copy.open_directory().ok()?;
    let mode = creation_mode::private(copy.copier, source).mode;
    let file = Special { kind: FileType::Regular, mode, device_number: 0 };
    make_special(&directory, copy.target_name(), file).ok()?;
    copy.print_copied();
    copy.count(EntryOutcome::File);
    Some(CreateResult::Whole)
}

/// Creates or opens a file and sets its attributes.
fn make_by_opening(
    copy: EntryCopy<'_>,
    source: &Stat,
    xattrs: &SourceXattrs,
) -> Result<CreateResult, Problem> {
    let creation_mode =
        match xattrs.is_empty() && creation_mode::is_known(copy.copier, &copy.entry.node.own, source) {
            true => CreationMode { mode: source.mode, is_final: true },
            false => creation_mode::private(copy.copier, source),
        };
    let target = match regular::open_target(copy, Original::of(source), creation_mode)? {
        PreparedTarget::Open(target) => target,
        PreparedTarget::Left(left) => return Ok(CreateResult::Left(left)),
        PreparedTarget::Waits => return Ok(CreateResult::Waits),
    };
    let OpenTarget { file, before, claimed, backup, creation_mode, .. } = target;
    let object = FileRef::Open(&file);
    let mut made = finish_without_data(copy, source, (object, before.as_ref(), creation_mode, xattrs));
    if !durable::flush_file(copy, &file, None) {
        made = CreateResult::Broken;
    }
    let closed = file.close();
    if closed.is_err() || !matches!(made, CreateResult::Whole) {
        backup::put_back(copy, backup.as_ref());
    }
    overwritten::release(copy, claimed);
    closed.map_err(|cause| unclosed(copy.target_path(), cause))?;
    Ok(made)
}

fn finish_without_data(
    copy: EntryCopy<'_>,
    source: &Stat,
    (object, before, creation_mode, xattrs): (
        FileRef<'_>,
        Option<&Stat>,
        Option<CreationMode>,
        &SourceXattrs,
    ),
) -> CreateResult {
    let attributes = NewAttributes {
        before,
        plain_mode: creation_mode::plain_file_mode(copy.copier, source, before),
        creation_mode: creation_mode.map(|creation_mode| (creation_mode, &copy.entry.node.own)),
        ..NewAttributes::of(copy, object, source, xattrs)
    };
    let done = attributes.give();
    if done {
        copy.count(EntryOutcome::File);
    }
    CreateResult::whole_if(done)
}

/// Returns how to open the source, if it must be opened.
fn must_open(copy: EntryCopy<'_>, source: &Stat) -> Option<Open> {
    let follows = copy.follows();
    let how = if follows { Open::READ.following() } else { Open::READ };
    // By name, these would be the symbolic link's own attributes.
    let looks =
        follows && (copy.options.preserves(Preserve::MODE) || copy.options.preserves(Preserve::XATTR));
    let must = match source.kind {
        FileType::Regular => looks || !may_surely_read(copy.copier, source),
        // Fails, as with GNU.
        FileType::Socket => true,
        // Opening a FIFO waits for a writer, and opening a device may do anything.
        _ => false,
    };
    must.then_some(how)
}

/// True if the mode alone shows that this process may read a file. Root proves nothing: a container
/// may lack the capability, and an NFS server may not trust it.
fn may_surely_read(copier: &Copier, source: &Stat) -> bool {
    let own = source.owner == copier.process.user && source.mode.contains(Mode::OWNER_READ);
    own || source.mode.contains(Mode::READ)
}

fn unclosed(path: Vec<u8>, cause: Error) -> Problem {
    Problem::new(FlowKind::FailedToClose).naming(path).because(cause)
}
