//! `haul sync`: sets the attributes of targets whose content already equals their source's.
//!
//! An unchanged entry costs a `stat` of source and target, which show mode, owner and times, and a
//! list of the xattrs of each. ACLs are xattrs. A `stat` can't replace the lists: the ctime shows
//! every change, not only theirs, and the target may have been copied without xattrs.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_flow::{Context, EntryOutcome, OpenDir, Problem};
use haul_sys::{
    CacheMode, DirectoryReader, Errno, Error, Fd, FileRef, FileType, Mode, NameArena, Open, Pinned, Stat,
};
use haul_sys::{has_xattrs_at, is_in_group, open, read, read_link, stat, stat_at};

use super::attributes::NewAttributes;
use super::durable;
use super::entry_copy::EntryCopy;
use super::object::{self, ACCESS_LIST, DEFAULT_ACCESS_LIST, SECURITY_LABEL};
use super::options::{Preserve, Update};
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
        // Somebody has removed it since.
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
    let differs =
        differences(copy, directory, source, there).any() || may_have_xattrs(copy, directory, source, there);
    if differs && let Err(problem) = try_mend(copy, directory, source, there) {
        copy.cx.problem(problem);
    }
}

/// Preserved attributes in which a target differs from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) content: bool,
    pub(super) size: bool,
    /// The modification time.
    pub(super) time: bool,
    /// True if the target gets the time at which it is written.
    pub(super) gets_new_time: bool,
    pub(super) mode: bool,
    pub(super) owner: bool,
    pub(super) group: bool,
    /// ACLs.
    pub(super) access_list: bool,
    /// Other extended attributes.
    pub(super) xattrs: bool,
}

impl Differences {
    fn any(self) -> bool {
        self != Self::default()
    }

    /// Adds those in extended attributes.
    fn with_xattrs(self, keys: &[CString]) -> Self {
        let access_list = keys.iter().any(|key| is_list(key));
        Self { access_list, xattrs: keys.iter().any(|key| !is_list(key)), ..self }
    }
}

/// True unless this process lacks the capability to set an xattr.
fn may_set(copier: &Copier, key: &CStr) -> bool {
    let is_secured = key != SECURITY_LABEL && key.to_bytes().starts_with(b"security.");
    !is_secured || copier.capabilities.set_security(key)
}

/// True for the xattrs that are ACLs.
fn is_list(key: &CStr) -> bool {
    [ACCESS_LIST, DEFAULT_ACCESS_LIST].contains(&key)
}

/// Returns all differences of a target that still is what `there` was. Without the extended
/// attributes if those can't be read, which is reported when they are copied.
pub(super) fn all_differences(copy: EntryCopy<'_>, source: &Stat, there: &Stat) -> Differences {
    let look = |directory: Arc<Fd>| {
        let others = other_xattrs_at(copy, &directory, there).unwrap_or_default();
        differences(copy, &directory, source, there).with_xattrs(&others)
    };
    copy.open_directory().map(look).unwrap_or_default()
}

/// True if a file, `there` in `directory` under the name of a copy, has the attributes of its
/// source.
pub(super) fn has_same_attributes(copy: EntryCopy<'_>, directory: &Fd, source: &Stat, there: &Stat) -> bool {
    let has_same_xattrs = || other_xattrs_at(copy, directory, there).is_some_and(|others| others.is_empty());
    !differences(copy, directory, source, there).any()
        && (!may_have_xattrs(copy, directory, source, there) || has_same_xattrs())
}

/// Returns the [`other_xattrs`] of the file that was found as `there`; `None` if they can't be
/// read.
fn other_xattrs_at(copy: EntryCopy<'_>, directory: &Fd, there: &Stat) -> Option<Vec<CString>> {
    if !copy.options.reads_xattrs() {
        return Some(Vec::new());
    }
    let target = Pinned::open(directory, copy.target_name()).ok()?;
    let is_there = target.stat().is_ok_and(|now| now.identity == there.identity);
    let wanted = read_source(copy).ok().filter(|_| is_there)?;
    reach_xattrs(copy, directory, &target, &wanted).ok().map(|(_, others)| others)
}

/// Prints the line for an existing directory whose attributes will be set.
pub(super) fn print_entered(copy: EntryCopy<'_>, opened: &OpenDir<'_>, there: &Stat) {
    if !copy.options.itemize || copy.options.strict {
        return;
    }
    let differences = all_differences(copy, opened.stat, there);
    if (Differences { size: false, ..differences }).any() {
        copy.print_mended(differences);
    }
}

/// Returns the differences that `stat` shows. An owner or a group that this process can't set
/// doesn't count.
fn differences(copy: EntryCopy<'_>, directory: &Fd, source: &Stat, there: &Stat) -> Differences {
    let window = match copy.options.existing.update {
        Update::Different(difference) => difference.window,
        _ => 0,
    };
    let has_owner = copy.options.preserves(Preserve::OWNERSHIP);
    let user = copy.copier.process.user;
    let owner = has_owner && source.owner != there.owner;
    let group = has_owner && source.group != there.group;
    let may_give_group = !group || user == 0 || (user == there.owner && is_in_group(source.group));
    let stays_foreign = user != 0 && (owner || !may_give_group);
    // Without their owner, files get no set-id bits.
    let wanted = if stays_foreign { source.mode.without(Mode::SPECIAL) } else { source.mode };
    let mode =
        copy.options.preserves(Preserve::MODE) && source.kind != FileType::Symlink && wanted != there.mode;
    let (owner, group) = (owner && user == 0, group && may_give_group);
    let time = copy.options.preserves(Preserve::TIMESTAMPS)
        && !copy.copier.resolutions.is_same_time(directory, there, source, window);
    let size = source.kind == FileType::Regular && source.size != there.size;
    Differences { size, time, mode, owner, group, ..Differences::default() }
}

/// True if source or target may have xattrs that have to be compared. On Lustre, root sees xattrs
/// on every file that say where its bytes are: they don't count.
fn may_have_xattrs(copy: EntryCopy<'_>, directory: &Fd, source: &Stat, there: &Stat) -> bool {
    let EntryCopy { copier, entry, .. } = copy;
    let layouts = &copier.layouts;
    let have_some = || {
        let (from, to) = (&entry.node.source, &entry.node.own.held);
        let (source_directory, target_directory) = (copy.cx.cache().open(from)?, copy.open_directory()?);
        let of_source = |key: &CStr| layouts.is_account_in(&source_directory, (from.identity(), source), key);
        // `directory` may be that of an earlier copy, which is on the same file system.
        let of_target = |key: &CStr| layouts.is_account_in(&target_directory, (to.identity(), there), key);
        Ok::<_, Error>(
            has_xattrs_at(&*source_directory, entry.name(), of_source)?
                || has_xattrs_at(directory, copy.target_name(), of_target)?,
        )
    };
    // By name, these would be a symbolic link's own. Failures show again when they are read.
    copy.options.reads_xattrs() && (copy.follows() || have_some().unwrap_or(true))
}

fn try_mend(copy: EntryCopy<'_>, directory: &Fd, source: &Stat, there: &Stat) -> Result<(), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotStat, cause);
    let target = Pinned::open(directory, copy.target_name()).map_err(failed)?;
    let before = target.stat().map_err(failed)?;
    if before.identity != there.identity {
        return Err(Problem::new(CopyKind::ReplacedWhileMade).naming(copy.target_path()));
    }
    let xattrs = read_source(copy)?;
    let unreachable =
        |cause| Problem::new(CopyKind::SettingAttributes).naming(copy.target_path()).because(cause);
    let (opened, others) = reach_xattrs(copy, directory, &target, &xattrs).map_err(unreachable)?;
    let object = opened.as_ref().map_or(FileRef::Pinned(&target), FileRef::Open);
    let differences = differences(copy, directory, source, &before).with_xattrs(&others);
    if !differences.any() {
        return Ok(());
    }
    if !copy.options.dry_run {
        let attributes =
            NewAttributes { before: Some(&before), ..NewAttributes::of(copy, object, source, &xattrs) };
        if !attributes.give() {
            return Ok(());
        }
        durable::flush_attributes(copy, directory, &before)?;
        let is_as_before = |now: Stat| {
            let of = |stat: &Stat| (stat.mode, stat.owner, stat.group, stat.modified);
            of(&now) == of(&before)
        };
        if others.is_empty() && target.stat().is_ok_and(is_as_before) {
            return Ok(());
        }
    }
    copy.count(EntryOutcome::Mended);
    copy.print_mended(differences);
    Ok(())
}

/// Reads the xattrs of an entry's source.
fn read_source(copy: EntryCopy<'_>) -> Result<SourceXattrs, Problem> {
    if !copy.options.reads_xattrs() {
        return Ok(SourceXattrs::default());
    }
    let cannot_stat = |cause| copy.cannot_stat_source(cause);
    let source = source_xattrs::pin(copy, None).map_err(cannot_stat)?;
    Ok(source_xattrs::read(copy, FileRef::Pinned(&source)))
}

/// Returns the [`other_xattrs`] of a pinned target, and that target opened if they can't be reached
/// otherwise.
///
/// # Errors
/// If they can't be listed.
fn reach_xattrs(
    copy: EntryCopy<'_>,
    directory: &Fd,
    target: &Pinned,
    wanted: &SourceXattrs,
) -> Result<(Option<Fd>, Vec<CString>), Error> {
    let cause = match other_xattrs(copy, FileRef::Pinned(target), wanted) {
        Ok(others) => return Ok((None, others)),
        Err(cause) => cause,
    };
    // Without /proc the kernel offers no way to them through an `O_PATH` descriptor.
    let before = target.stat()?;
    if !matches!(before.kind, FileType::Regular | FileType::Directory) {
        return Err(cause);
    }
    match open(directory, copy.target_name(), Open::READ) {
        Ok(file) if stat(&file)?.identity == before.identity => {
            let others = other_xattrs(copy, FileRef::Open(&file), wanted)?;
            Ok((Some(file), others))
        }
        _ => Err(cause),
    }
}

/// Returns the xattrs that a target lacks, has with another value, or has and would not be copied.
///
/// # Errors
/// If they can't be listed.
fn other_xattrs(
    copy: EntryCopy<'_>,
    target: FileRef<'_>,
    wanted: &SourceXattrs,
) -> Result<Vec<CString>, Error> {
    if !copy.options.reads_xattrs() {
        return Ok(Vec::new());
    }
    let has = |(key, value): &(&CStr, &[u8])| match target.get_xattr(key) {
        Ok(there) => there == *value,
        // An attribute that can't be set is no difference, except for an ACL: without it, the
        // target isn't as private.
        Err(cause) => {
            let is_lost = cause.is(Errno::OPNOTSUPP) && !is_list(key) && !copy.options.require_xattr;
            if is_lost {
                warn_no_xattrs(copy.copier, copy.cx, &|| copy.target_path());
            }
            is_lost
        }
    };
    let mut others = extra_xattrs(copy.copier, copy.cx, target, wanted)?;
    let may_set = |key: &CStr| may_set(copy.copier, key);
    let wanted = wanted.iter().filter(|(key, _)| may_set(key));
    others.extend(wanted.filter(|xattr| !has(xattr)).map(|(key, _)| key.to_owned()));
    Ok(others)
}

/// Warns once that the target's file system has no xattrs, if that is wanted.
pub(super) fn warn_no_xattrs(copier: &Copier, cx: &Context<'_, Copier>, path: &dyn Fn() -> Vec<u8>) {
    let options = &copier.options;
    // Relaxed: nothing else depends on it.
    if options.report_lost_xattrs
        && !options.require_xattr
        && !copier.has_reported_xattrs.swap(true, Ordering::Relaxed)
    {
        cx.problem(Problem::new(CopyKind::XattrsLost).naming(path()).as_warning());
    }
}

/// Returns the xattrs of a target that would be copied if its source had them.
fn extra_xattrs(
    copier: &Copier,
    cx: &Context<'_, Copier>,
    target: FileRef<'_>,
    wanted: &SourceXattrs,
) -> Result<Vec<CString>, Error> {
    // Where the kernel or a sandbox lacks the call, the source's are unknown too.
    if wanted.is_incomplete || !copier.options.reads_xattrs() {
        return Ok(Vec::new());
    }
    let names = target.list_xattrs()?;
    let is_extra = |key: &&CStr| {
        source_xattrs::is_copied(copier, cx, target, key).is_some()
            && may_set(copier, key)
            && !wanted.iter().any(|(wanted, _)| wanted == *key)
    };
    Ok(names.iter().filter(is_extra).map(CStr::to_owned).collect())
}

/// Removes the xattrs that an existing directory or file has, and its source has not.
pub(super) fn remove_extra_xattrs(attributes: &NewAttributes<'_>) -> Result<(), Error> {
    let NewAttributes { copier, cx, object, xattrs, .. } = attributes;
    let extra = extra_xattrs(copier, cx, *object, xattrs)?;
    extra.iter().try_for_each(|key| object::change_xattr(*object, |file| file.remove_xattr(key)))
}

/// True if source and target, two regular files of the same size, have the same content. False if
/// one can't be read (copying it reports why), or if the run is cancelled during the comparison.
pub(super) fn has_same_content(copy: EntryCopy<'_>, directory: &Fd) -> bool {
    let compare = || {
        let above = copy.cx.cache().open(&copy.entry.node.source)?;
        let how = if copy.follows() { Open::READ.following() } else { Open::READ };
        let (source, target) =
            (open(&*above, copy.entry.name(), how)?, open(directory, copy.target_name(), Open::READ)?);
        let (mut ours, mut theirs) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
        let mut offset = 0;
        loop {
            let length = read(&source, offset, &mut ours, CacheMode::Keep)?;
            copy.cx.wait_to_read(length as u64);
            let is_same = is_at(&target, offset, &ours[..length], &mut theirs)?;
            if length == 0 || !is_same {
                return Ok::<_, Error>(is_same);
            }
            if copy.copier.cancel.is_cancelled() {
                return Ok(false);
            }
            offset += length as u64;
        }
    };
    compare().unwrap_or(false)
}

/// True if a file has these bytes at `offset`; with no bytes, true if the file ends there.
fn is_at(file: &Fd, offset: u64, wanted: &[u8], buffer: &mut [u8]) -> Result<bool, Error> {
    let mut done = 0;
    loop {
        let rest = if wanted.is_empty() { 1 } else { wanted.len() - done };
        let length = read(file, offset + done as u64, &mut buffer[..rest], CacheMode::Keep)?;
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
    let there = open(directory, copy.target_name(), Open::DIRECTORY);
    there.is_ok_and(|there| has_no_entries(&there))
}

/// True if an open directory has no entries.
pub(super) fn has_no_entries(directory: &Fd) -> bool {
    let mut names = NameArena::new();
    DirectoryReader::new().read(directory, &mut names, 1).is_ok() && names.is_empty()
}
