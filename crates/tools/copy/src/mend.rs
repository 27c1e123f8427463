//! `haul sync`: targets that already equal their sources, apart from attributes.
//!
//! An unchanged entry costs a `stat` of source and target, which show mode, owner and times, and a
//! list of the xattrs of each. ACLs are xattrs. No `stat` can replace the lists: a change shows in
//! the ctime, but so does every other, and a target may never have got any (from a copier that
//! doesn't copy them).

use std::ffi::{CStr, CString};

use haul_flow::{Context, Problem, Tally};
use haul_sys::{Cache, DirectoryReader, Errno, Error, Fd, FileType, Names, Open, Pinned, Stat};
use haul_sys::{list_xattrs_at, open, read, read_link, stat_at};

use super::attributes::NewAttributes;
use super::entry_copy::EntryCopy;
use super::object::Object;
use super::options::{Difference, Preserve, Update};
use super::source_xattrs;
use super::xattr_rules::SourceXattrs;
use super::{Copier, CopyKind};

/// Bytes compared at a time.
const BLOCK_BYTES: usize = 128 << 10;

/// Sets the attributes that differ on a target whose content already equals its source's. Does
/// nothing in a plain copy.
pub(super) fn mend_entry(copy: EntryCopy<'_>, source: &Stat) {
    if !copy.options.existing.update.syncs() {
        return;
    }
    let look = || {
        let directory = copy.open_directory()?;
        let there = stat_at(&directory, copy.target_name())?;
        Ok((directory, there))
    };
    match look() {
        Ok((directory, there)) => mend(copy, &directory, source, &there),
        // Somebody has removed it meanwhile.
        Err(cause) if Error::is(&cause, Errno::NOENT) => {}
        Err(cause) => copy.cx.problem(copy.problem(CopyKind::CannotStat, cause)),
    }
}

/// Like [`mend_entry`], for a target whose `stat` is known.
pub(super) fn mend(copy: EntryCopy<'_>, directory: &Fd, source: &Stat, there: &Stat) {
    let Update::Different(difference) = copy.options.existing.update else { return };
    if difference.keeps(source, there) {
        return;
    }
    let differs = has_other_attributes(copy, difference, source, there) || may_have_xattrs(copy, directory);
    if differs && let Err(problem) = try_mend(copy, difference, directory, source, there) {
        copy.cx.problem(problem);
    }
}

/// True if attributes that are preserved, and that `stat` shows, differ. An owner that this process
/// can't set doesn't count.
fn has_other_attributes(copy: EntryCopy<'_>, difference: Difference, source: &Stat, there: &Stat) -> bool {
    let mode = copy.options.preserves(Preserve::MODE)
        && source.kind != FileType::Symlink
        && source.mode != there.mode;
    let owner = copy.options.preserves(Preserve::OWNERSHIP)
        && ((source.owner != there.owner && copy.copier.process.user == 0) || source.group != there.group);
    let times = copy.options.preserves(Preserve::TIMESTAMPS)
        && !copy.copier.resolutions.is_same_time(there, source, difference.window);
    mode || owner || times
}

/// True unless neither source nor target has any xattrs that would have to be compared.
fn may_have_xattrs(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    let has_none = || {
        let source = copy.cx.cache().open(&copy.entry.node.source)?;
        Ok::<_, Error>(
            list_xattrs_at(&*source, copy.entry.name())?.is_empty()
                && list_xattrs_at(directory, copy.target_name())?.is_empty(),
        )
    };
    // By name, these would be a symbolic link's own. Failures show again when they are read.
    copy.options.reads_xattrs() && (copy.follows() || !has_none().unwrap_or(false))
}

fn try_mend(
    copy: EntryCopy<'_>,
    difference: Difference,
    directory: &Fd,
    source: &Stat,
    there: &Stat,
) -> Result<(), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotStat, cause);
    let target = Pinned::open(directory, copy.target_name()).map_err(failed)?;
    let before = target.stat().map_err(failed)?;
    if before.identity != there.identity {
        return Err(Problem::new(CopyKind::ReplacedWhileMade).naming(copy.target_path()));
    }
    let object = Object::Pinned(&target);
    let xattrs = read_source(copy)?;
    let are_same = has_xattrs(copy, object, &xattrs);
    if are_same && !has_other_attributes(copy, difference, source, &before) {
        return Ok(());
    }
    if !copy.options.dry_run {
        let attributes =
            NewAttributes { before: Some(&before), ..NewAttributes::of(copy, object, source, &xattrs) };
        if !attributes.give() {
            return Ok(());
        }
        let is_as_before = |now: Stat| {
            let of = |stat: &Stat| (stat.mode, stat.owner, stat.group, stat.modified);
            of(&now) == of(&before)
        };
        if are_same && target.stat().is_ok_and(is_as_before) {
            return Ok(());
        }
    }
    copy.cx.count(Tally { mended: 1, ..Tally::default() });
    copy.tell_mended();
    Ok(())
}

/// Reads the xattrs of an entry's source.
fn read_source(copy: EntryCopy<'_>) -> Result<SourceXattrs, Problem> {
    if !copy.options.reads_xattrs() {
        return Ok(SourceXattrs::default());
    }
    let pin = || {
        let directory = copy.cx.cache().open(&copy.entry.node.source)?;
        let name = copy.entry.name();
        if copy.follows() { Pinned::follow(&*directory, name) } else { Pinned::open(&*directory, name) }
    };
    let cannot_stat = |cause| Problem::new(CopyKind::CannotStat).naming(copy.entry.path()).because(cause);
    let source = pin().map_err(cannot_stat)?;
    Ok(source_xattrs::read(copy, Object::Pinned(&source)))
}

/// True if a target has these xattrs, and no other that would be copied.
fn has_xattrs(copy: EntryCopy<'_>, target: Object<'_>, wanted: &SourceXattrs) -> bool {
    let has = |(key, value): (&CStr, &[u8])| target.get(key).is_ok_and(|there| there == value);
    // A failure shows again when they are set.
    let extra = || extra_xattrs(copy.copier, copy.cx, target, wanted);
    !copy.options.reads_xattrs() || (extra().is_ok_and(|extra| extra.is_empty()) && wanted.iter().all(has))
}

/// Returns the xattrs of a target that would be copied if its source had them.
fn extra_xattrs(
    copier: &Copier,
    cx: &Context<'_, Copier>,
    target: Object<'_>,
    wanted: &SourceXattrs,
) -> Result<Vec<CString>, Error> {
    let names = target.list()?;
    let is_extra = |key: &&CStr| {
        source_xattrs::is_copied(copier, cx, target, key).is_some()
            && !wanted.iter().any(|(wanted, _)| wanted == *key)
    };
    Ok(names.iter().filter(is_extra).map(CStr::to_owned).collect())
}

/// Removes the xattrs that an existing directory or file has, and its source has not.
pub(super) fn remove_extra_xattrs(attributes: &NewAttributes<'_>) -> Result<(), Error> {
    let NewAttributes { copier, cx, object, xattrs, .. } = attributes;
    extra_xattrs(copier, cx, *object, xattrs)?.iter().try_for_each(|key| object.remove(key))
}

/// True if source and target, two regular files of one size, have the same content. What can't be
/// read is not the same: copying it reports why.
pub(super) fn has_same_content(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    let compare = || {
        let above = copy.cx.cache().open(&copy.entry.node.source)?;
        let how = if copy.follows() { Open::READ.following() } else { Open::READ };
        let (source, target) =
            (open(&*above, copy.entry.name(), how)?, open(directory, copy.target_name(), Open::READ)?);
        let (mut ours, mut theirs) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
        let mut offset = 0;
        loop {
            let length = read(&source, offset, &mut ours, Cache::Keep)?;
            let is_same = is_at(&target, offset, &ours[..length], &mut theirs)?;
            if length == 0 || !is_same || copy.copier.cancel.is_cancelled() {
                return Ok::<_, Error>(is_same);
            }
            offset += length as u64;
        }
    };
    compare().unwrap_or(false)
}

/// True if a file has these bytes at `offset`; if they are none, that it ends there.
fn is_at(file: &Fd, offset: u64, wanted: &[u8], buffer: &mut [u8]) -> Result<bool, Error> {
    let mut done = 0;
    loop {
        let rest = if wanted.is_empty() { 1 } else { wanted.len() - done };
        let length = read(file, offset + done as u64, &mut buffer[..rest], Cache::Keep)?;
        if length == 0 || wanted.get(done..done + length) != Some(&buffer[..length]) {
            return Ok(wanted.is_empty() && length == 0);
        }
        done += length;
        if done == wanted.len() {
            return Ok(true);
        }
    }
}

/// True if source and target, two symbolic links, have the same content.
pub(super) fn leads_to_the_same(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    let Ok(above) = copy.cx.cache().open(&copy.entry.node.source) else { return false };
    match (read_link(&*above, copy.entry.name()), read_link(directory, copy.target_name())) {
        (Ok(source), Ok(target)) => source == target,
        _ => false,
    }
}

/// True if a directory in the target can be removed.
pub(super) fn is_empty(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    let list = || {
        let there = open(directory, copy.target_name(), Open::DIRECTORY)?;
        let mut names = Names::new();
        DirectoryReader::new().read(&there, &mut names, 1)?;
        Ok::<_, Error>(names.is_empty())
    };
    list().unwrap_or(false)
}
