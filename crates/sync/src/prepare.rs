//! Checks of the two trees before anything is touched.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use haul_copy::{CopyOptions, Operands, Update, UpdateRule};
use haul_flow::{BackupPlace, Problem, Selection};
use haul_sys::{Errno, Error, Open, Operation, effective_identity, is_mount_root, open_path, user_home};

use super::kind::SyncKind;
use super::mounts::{Mounts, identity};
use super::options::Options;

/// Checks the operands of a sync and completes its options. The copy's options must be derived from
/// [`copy_options`](crate::copy_options). Returns the options of the deletion after the copy, if
/// one was requested. Warnings go to `warn`.
///
/// If there aren't exactly two operands, or the source can't be reached, the copy reports it.
///
/// # Errors
/// A [`SyncKind`] if the two can't be made equal. Nothing was touched.
pub fn prepare(
    operands: &mut Operands,
    copy: &mut CopyOptions,
    options: &Options,
    selection: &Selection,
    warn: &mut dyn FnMut(Problem),
) -> Result<Option<haul_delete::Options>, Problem> {
    if let Some(conflict) = options.conflict(copy, selection) {
        let (one, other) = conflict.flags();
        return Err(Problem::new(SyncKind::Conflict).naming(one).naming(other));
    }
    if let Update::Different(difference) = &mut copy.existing.update {
        let UpdateRule { only_existing, only_missing, .. } = *difference;
        // Otherwise nothing might take the place of a directory that makes way.
        difference.deletes_later = options.deletion.is_some() && !only_existing && !only_missing;
    }
    operands.no_target_directory = true;
    let mut deletion = options.deletion_after(copy);
    let Some(places) = places(operands, copy, selection)? else { return Ok(deletion) };
    let Places { target, from, to, mounts } = &places;
    copy.source_parts = mounts.shared(from, to);
    copy.link_dest = earlier(&options.link_dest, to, warn)?;
    copy.backup_place = options.backup_dir.as_deref().map(|given| backup(given, from, to)).transpose()?;
    if let Some(backup) = &copy.backup_place {
        check_earlier(&copy.link_dest, path_of(&backup.directory))?;
    }
    if let Some(deletion) = &mut deletion {
        deletion.backup_place.clone_from(&copy.backup_place);
        deletion.source_parts.clone_from(&copy.source_parts);
        if !options.deletion.is_some_and(|deletion| deletion.really) {
            check_deletion(target, to)?;
        }
    }
    Ok(deletion)
}

/// The two trees.
struct Places {
    /// The target, as it was given.
    target: PathBuf,
    /// The whole paths of source and target.
    from: PathBuf,
    to: PathBuf,
    mounts: Mounts,
}

/// True if a path leads nowhere, or nowhere that this user may go.
fn is_out_of_reach(error: &io::Error) -> bool {
    let reasons = [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::LOOP];
    Errno::from_io_error(error).is_some_and(|errno| reasons.contains(&errno))
}

/// Finds the two trees. `None` if the copy will report why it can't reach them.
fn places(
    operands: &mut Operands,
    copy: &CopyOptions,
    selection: &Selection,
) -> Result<Option<Places>, Problem> {
    let [source, target] = operands.names.as_mut_slice() else { return Ok(None) };
    let source_path = path_of(source).to_owned();
    for name in [&*source, &*target] {
        if is_remote(path_of(name)) {
            return Err(problem(SyncKind::Remote, path_of(name)));
        }
    }
    let pathless = |path: &Path, error: &io::Error| unusable(SyncKind::NoAbsolutePath, path, error);
    match std::fs::metadata(&source_path) {
        Ok(there) if !there.is_dir() => return Err(problem(SyncKind::NotADirectory, &source_path)),
        Ok(_) => {}
        Err(error) if is_out_of_reach(&error) => return Ok(None),
        Err(error) => return Err(pathless(&source_path, &error)),
    }
    let from = whole_path(&source_path).map_err(|error| pathless(&source_path, &error))?;
    let target_path = path_of(target).to_owned();
    match std::fs::symlink_metadata(&target_path) {
        // The user named the link, so it is the directory behind it that is meant.
        Ok(there) if there.is_symlink() && target_path.is_dir() => {
            let path = [target.as_bytes(), b"/."].concat();
            *target = CString::new(path).unwrap_or_default();
        }
        Ok(there) if !there.is_dir() => return Err(problem(SyncKind::NotADirectory, &target_path)),
        _ => {}
    }
    if existing(&target_path).is_err_and(|error| is_out_of_reach(&error)) {
        return Ok(None);
    }
    let to = whole_path(&target_path).map_err(|error| pathless(&target_path, &error))?;
    let leaves_out = || may_leave_out(copy, selection, &from, &to);
    let mounts = Mounts::read();
    if mounts.is_inside(&from, &to) || (mounts.is_inside(&to, &from) && !leaves_out()) {
        let nested = problem(SyncKind::Nested, &source_path);
        return Err(nested.naming(target_path.into_os_string().into_vec()));
    }
    Ok(Some(Places { target: target_path, from, to, mounts }))
}

/// Returns the whole paths of earlier copies. `to` is that of the target. As with rsync, a
/// directory that is missing, like that of the day before the first, is no error.
fn earlier(given: &[PathBuf], to: &Path, warn: &mut dyn FnMut(Problem)) -> Result<Vec<CString>, Problem> {
    let mut found = Vec::new();
    for given in given {
        let path = relative_to(to, given);
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                warn(problem(SyncKind::EarlierMissing, &path).as_warning());
                continue;
            }
            Err(error) => return Err(unusable(SyncKind::EarlierUnusable, &path, &error)),
            Ok(there) if !there.is_dir() => return Err(problem(SyncKind::EarlierNotADirectory, &path)),
            Ok(there) if !is_on(to, there.dev()) => return Err(problem(SyncKind::EarlierElsewhere, &path)),
            Ok(_) => {}
        }
        let whole = whole_path(&path).map_err(|error| unusable(SyncKind::EarlierUnusable, &path, &error))?;
        // One that is TARGET links nothing, but shared files stay as they are: a snapshot is made
        // again after it became the latest.
        if whole != to && whole.starts_with(to) {
            return Err(problem(SyncKind::EarlierInTarget, &path));
        }
        found.push(c_path(&whole));
    }
    Ok(found)
}

/// True for a path that rsync would take for one on another host, unless there is something.
fn is_remote(path: &Path) -> bool {
    let first = path.as_os_str().as_bytes().split(|byte| *byte == b'/').next();
    first.is_some_and(|first| first.contains(&b':')) && std::fs::symlink_metadata(path).is_err()
}

/// Finds out where the directory for backups is. `from` and `to` are the whole paths of source and
/// target.
fn backup(given: &Path, from: &Path, to: &Path) -> Result<BackupPlace, Problem> {
    let path = relative_to(to, given);
    let refused = |kind| Err(problem(kind, &path));
    let failed = |error| unusable(SyncKind::BackupUnusable, &path, &error);
    let whole = whole_path(&path).map_err(failed)?;
    // The disk that a link leads to may not be mounted. Only what isn't there is made.
    if std::fs::symlink_metadata(&whole).is_ok() {
        std::fs::metadata(&whole).map_err(failed)?;
    }
    let above = std::fs::metadata(whole.parent().unwrap_or(&whole)).map_err(failed)?;
    match std::fs::metadata(&whole).as_ref().unwrap_or(&above) {
        there if !there.is_dir() => refused(SyncKind::BackupNotADirectory),
        there if !is_on(to, there.dev()) => refused(SyncKind::BackupElsewhere),
        _ if [from, to].iter().any(|tree| whole.starts_with(tree) || tree.starts_with(&whole)) => {
            refused(SyncKind::BackupInside)
        }
        _ => Ok(BackupPlace { directory: c_path(&whole), above: above.ino(), target: c_path(to) }),
    }
}

/// Refuses a directory for backups that would change an earlier copy.
fn check_earlier(earlier: &[CString], backup: &Path) -> Result<(), Problem> {
    let is_around = |earlier: &Path| earlier.starts_with(backup) || backup.starts_with(earlier);
    match earlier.iter().map(path_of).any(is_around) {
        true => Err(problem(SyncKind::BackupIsEarlier, backup)),
        false => Ok(()),
    }
}

/// Refuses to delete below a directory whose name is easily typed by mistake. `to` is its whole
/// path.
fn check_deletion(target: &Path, to: &Path) -> Result<(), Problem> {
    // What isn't there loses nothing.
    let Some(there) = identity(to) else { return Ok(()) };
    // `sudo`, `su` and service managers may leave out HOME, or keep somebody else's.
    let listed = user_home(effective_identity().user).map(OsString::from_vec);
    let mut homes = [std::env::var_os("HOME"), listed].into_iter().flatten();
    if homes.any(|home| identity(Path::new(&home)) == Some(there)) {
        return Err(problem(SyncKind::HomeDirectory, target));
    }
    // The root directory is around every source, which was refused already.
    match open_path(&c_path(to), Open::SEARCH).and_then(|fd| is_mount_root(&fd)) {
        Ok(false) => Ok(()),
        Ok(true) => Err(problem(SyncKind::MountRoot, target)),
        Err(cause) => Err(problem(SyncKind::MountUnknown, target).because(cause)),
    }
}

/// Returns the path of a directory that was given relative to `to`, a whole path that may not exist
/// yet: so the leading `..` are taken off its end. The kernel resolves the others, which may follow
/// a symbolic link.
fn relative_to(to: &Path, given: &Path) -> PathBuf {
    let (mut whole, mut rest) = (to.to_owned(), given.components().peekable());
    while let Some(part) = rest.next_if(|part| matches!(part, Component::CurDir | Component::ParentDir)) {
        if part == Component::ParentDir {
            whole.pop();
        }
    }
    whole.extend(rest);
    whole
}

/// True if a directory is on a device, or would be if it were made.
fn is_on(directory: &Path, device: u64) -> bool {
    let there = directory.ancestors().find_map(|above| std::fs::metadata(above).ok());
    there.is_some_and(|there| there.dev() == device)
}

/// True if a copy of `from` may leave out `to`, a directory in it: because it is on another file
/// system, or because of the user's rules. If it isn't left out, the copy reports an error.
fn may_leave_out(copy: &CopyOptions, selection: &Selection, from: &Path, to: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|there| there.dev()).ok();
    let is_elsewhere = || device(to).is_some_and(|there| device(from) != Some(there));
    (copy.one_file_system && is_elsewhere()) || !selection.rules.is_empty() || selection.list.is_some()
}

/// Splits the path of a directory that may be missing into what is there and a missing name.
fn existing(path: &Path) -> io::Result<(&Path, Option<&OsStr>)> {
    match (std::fs::metadata(path), path.file_name()) {
        (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            let above = above.unwrap_or(Path::new("."));
            std::fs::metadata(above).map(|_| (above, Some(name)))
        }
        (outcome, _) => outcome.map(|_| (path, None)),
    }
}

/// Returns the absolute path of a directory without symbolic links. The directory may be missing.
///
/// A relative path may lead to a directory that has no usable absolute one: the current directory
/// may be deleted, or be below one that this user can't search. Then musl's `realpath` returns a
/// path all the same, and glibc's an error that looks as if the directory were out of reach.
fn whole_path(path: &Path) -> io::Result<PathBuf> {
    let (there, missing) = existing(path)?;
    let whole = std::fs::canonicalize(there)?;
    std::fs::metadata(&whole)?;
    if identity(&whole) != identity(there) {
        return Err(Errno::STALE.into());
    }
    Ok(match missing {
        Some(name) => whole.join(name),
        None => whole,
    })
}

fn problem(kind: SyncKind, path: &Path) -> Problem {
    Problem::new(kind).naming(path.as_os_str().as_bytes())
}

fn unusable(kind: SyncKind, path: &Path, error: &io::Error) -> Problem {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    problem(kind, path).because(Error::new(Operation::Statx, format!("{path:?}"), errno))
}

/// Converts a path that was looked up, so that it has no NUL inside.
fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

fn path_of(name: &CString) -> &Path {
    Path::new(OsStr::from_bytes(name.as_bytes()))
}
