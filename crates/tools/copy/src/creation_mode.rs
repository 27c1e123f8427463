//! Creates new files with their final owner and mode where possible, so they need no
//! later `fchmod`.
//!
//! Owner and mode of a copy are set at the end; until then it is closed to everyone else. If a new
//! file is known to get the source's owner and exactly the mode that was asked for, it is created
//! with its final mode instead, which saves three system calls.
//!
//! Neither can be predicted (set-group-id directories, mount options, network file systems that map
//! users, file systems without modes). So the first file of each directory is checked after
//! creation (`CreationModes` in `target.rs`), and the rest follow its result. Only directories made
//! by this run qualify, because nobody else works in those.
//!
//! Ranks that split a file open it by its temporary name, so its owner can read and write it until
//! all ranges are complete, whatever the umask and the source's mode ([`open_to_owner`]). Others
//! never get more than in the end.
//!
//! Invariant: a file is created with its final mode only if its owner is final and it gets no ACL
//! (tests: `born_files_need_no_chmod` and the audit of rights).

use haul_sys::{Error, Fd, FileType, Mode, Stat, change_mode, list_xattrs, stat_at};

use super::Copier;
use super::entry_copy::EntryCopy;
use super::options::Preserve;
use super::target::TargetDirectory;

/// The owner's permissions that opening a file by its name needs.
const OWNER_ACCESS: Mode = Mode::OWNER_READ.or(Mode::OWNER_WRITE);

/// Mode and flags for creating a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CreationMode {
    /// The mode to pass to `open`.
    pub(super) mode: Mode,
    /// True if owner and mode are then final.
    pub(super) is_final: bool,
}

/// Chooses the creation mode of a regular file. Lists `source`'s xattrs, which no mode
/// can carry.
pub(super) fn choose(copier: &Copier, directory: &TargetDirectory, source: &Fd, stat: &Stat) -> CreationMode {
    let is_final = is_known(copier, directory, stat)
        // If xattrs can't be listed, assume an ACL.
        && list_xattrs(source).is_ok_and(|names| names.iter().next().is_none());
    if is_final { CreationMode { mode: stat.mode, is_final } } else { private(copier, stat) }
}

/// Creation mode of a file whose attributes are all set at the end.
pub(super) fn private(copier: &Copier, stat: &Stat) -> CreationMode {
    CreationMode { mode: new_file_mode(copier, stat), is_final: false }
}

/// True if a new file in `directory` gets the source's owner and mode at creation, provided the
/// source has no ACL.
pub(super) fn is_known(copier: &Copier, directory: &TargetDirectory, stat: &Stat) -> bool {
    copier.options.preserves(Preserve::OWNERSHIP | Preserve::MODE)
        && directory.creation_modes.are_as_asked()
        && copier.is_own(stat)
        && stat.mode.and(copier.umask.or(Mode::SPECIAL)).is_empty()
}

/// Learns from a file created in `directory` and stat'ed since.
pub(super) fn learn(copier: &Copier, directory: &TargetDirectory, creation_mode: CreationMode, made: &Stat) {
    let is_new = directory.made.as_ref().is_some_and(|made| made.before.is_none());
    let creation_modes = &directory.creation_modes;
    if is_new && creation_modes.are_unknown() && !directory.gives_access_list {
        creation_modes.learn(copier.is_own(made) && made.mode == creation_mode.mode.without(copier.umask));
    }
}

/// Mode a file is created with: never wider than its final one, private until its owner is set.
pub(super) fn new_file_mode(copier: &Copier, source: &Stat) -> Mode {
    let mode = source.mode.and(Mode::ALL).without(omitted(copier, source.kind));
    // An unprivileged user needs write permission on a file to set its xattrs.
    if copier.options.preserves(Preserve::XATTR) && copier.process.user != 0 {
        mode.or(Mode::OWNER_WRITE)
    } else {
        mode
    }
}

/// True if this user can open a file of their own by its name.
#[cfg(feature = "distributed")]
pub(super) fn is_open_to_owner(copier: &Copier, mode: Mode) -> bool {
    copier.capabilities.write_all() || mode.contains(OWNER_ACCESS)
}

/// Lets the owner of a file with mode `mode` open it by its name. Returns the mode to restore
/// later; `None` if the owner already could.
#[cfg(feature = "distributed")]
pub(super) fn open_to_owner(copier: &Copier, file: &Fd, mode: Mode) -> Result<Option<Mode>, Error> {
    if is_open_to_owner(copier, mode) {
        return Ok(None);
    }
    change_mode(file, mode.or(OWNER_ACCESS))?;
    Ok(Some(mode))
}

/// Undoes [`open_to_owner`] on an incomplete file that an earlier attempt or run left, which has
/// not restored the mode.
pub(super) fn close_to_owner(
    copy: EntryCopy<'_>,
    (file, there): (&Fd, &Stat),
    directory: &Fd,
    source: &Stat,
) -> Result<(), Error> {
    let created = new_file_mode(copy.copier, source).without(copy.copier.umask).and(OWNER_ACCESS);
    let mode = there.mode.without(OWNER_ACCESS.without(created));
    // One that replaces a file has that file's mode.
    let is_inherited =
        || stat_at(directory, copy.target_name()).is_ok_and(|old| old.mode.contains(Mode::OWNER_WRITE));
    if mode == there.mode || is_inherited() { Ok(()) } else { change_mode(file, mode) }
}

/// Mode a new file gets at the end if the source's is not preserved; `None` if it already
/// has it.
pub(super) fn plain_file_mode(copier: &Copier, source: &Stat, before: Option<&Stat>) -> Option<Mode> {
    if before.is_some() {
        return None;
    }
    if copier.options.default_mode {
        return Some(Mode::READ_WRITE.without(copier.umask));
    }
    let final_mode = source.mode.and(Mode::ALL).without(copier.umask);
    let made_with = new_file_mode(copier, source).without(copier.umask);
    (final_mode != made_with).then_some(final_mode)
}

/// Mode a directory is created with, before its owner's permissions are added.
pub(super) fn new_directory_mode(copier: &Copier, source: &Stat) -> Mode {
    source.mode.without(omitted(copier, source.kind))
}

/// Permissions withheld from a new entry until its owner is set.
pub(super) fn omitted(copier: &Copier, kind: FileType) -> Mode {
    if copier.options.preserves(Preserve::OWNERSHIP) {
        Mode::GROUP_AND_OTHER
    } else if kind == FileType::Directory {
        Mode::GROUP_AND_OTHER_WRITE
    } else {
        Mode::default()
    }
}
