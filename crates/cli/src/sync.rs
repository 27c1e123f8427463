//! `haul sync`, from command line to exit status: a copy of what differs (`copy.rs`), after a look
//! at the two operands.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use haul_flow::BackupPlace;
use haul_sys::{Open, is_mount_root, open_path};

use crate::cluster;
use crate::copy;
use crate::flags::sync::{COMMAND, parse};
use crate::flags::{Environment, Information, Parsed, Request};
use crate::messages::{Messages, reason};
use crate::report::{complain, complain_of_usage, print_information};

/// Makes the target equal to the source, or prints what was requested.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    const PROGRAM: &str = "haul sync";
    let messages = Messages::in_locale(PROGRAM);
    match parse(words, &Environment::of_command("sync")) {
        Ok(Parsed::Copy(mut request)) => match prepare(&mut request, &messages) {
            Ok(()) => copy::copy(messages, &request),
            Err(why) => cluster::refuse(ExitCode::FAILURE, || {
                complain(&messages.debug(&why));
            }),
        },
        Ok(Parsed::Tell(_)) if !cluster::speaks() => ExitCode::SUCCESS,
        Ok(Parsed::Tell(Information::Help)) => print_information(messages, &COMMAND.help(PROGRAM)),
        Ok(Parsed::Tell(Information::Version)) => {
            print_information(messages, concat!("sync (haul) ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Err(error) => cluster::refuse(ExitCode::FAILURE, || complain_of_usage(&messages, &error)),
    }
}

/// Checks the operands. If there aren't exactly two, the copy reports it.
///
/// # Errors
/// A sentence for the user that says why they can't be made equal.
fn prepare(request: &mut Request, messages: &Messages) -> Result<(), String> {
    let [source, target] = request.operands.names.as_mut_slice() else { return Ok(()) };
    let source_path = path_of(source).to_owned();
    let there = std::fs::canonicalize(&source_path);
    // Why a source can't be reached is reported by the copy.
    let Ok(from) = there else { return Ok(()) };
    if !from.is_dir() {
        return Err(format!("{}: not a directory", shown(&source_path)));
    }
    let target_path = path_of(target).to_owned();
    match std::fs::symlink_metadata(&target_path) {
        // The user named the link, so it is the directory behind it that is meant.
        Ok(there) if there.is_symlink() && target_path.is_dir() => {
            let path = [target.as_bytes(), b"/."].concat();
            *target = CString::new(path).unwrap_or_default();
        }
        Ok(there) if !there.is_dir() => {
            return Err(format!("{}: not a directory", shown(&target_path)));
        }
        _ => {}
    }
    let Ok(to) = whole_path(&target_path) else { return Ok(()) };
    if from.starts_with(&to) || (to.starts_with(&from) && !may_leave_out(request, &from, &to)) {
        let (source, target) = (shown(&source_path), shown(&target_path));
        return Err(format!("{source} and {target} are one directory, or one is inside the other"));
    }
    find_earlier(request, &to, messages)?;
    find_backup(request, &from, &to)?;
    match &request.deletion {
        Some(deletion) if !deletion.empty_source => check_deletion(&target_path, &to),
        _ => Ok(()),
    }
}

/// Makes the names of `--link-dest` absolute. `to` is the whole path of the target. As with rsync,
/// a directory that is missing, like that of the day before the first, is no error.
///
/// # Errors
/// A sentence for the user.
fn find_earlier(request: &mut Request, to: &Path, messages: &Messages) -> Result<(), String> {
    let mut found = Vec::new();
    for given in &request.link_dest {
        let path = without_dots(&to.join(given));
        let refused = |why: &str| Err(format!("--link-dest: {} {why}", shown(&path)));
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let why = format!("--link-dest: {} does not exist, so nothing is linked to it", shown(&path));
                // Of several ranks, one prints it.
                if cluster::speaks() {
                    complain(&messages.debug(&format!("warning: {why}")));
                }
                continue;
            }
            Err(error) => return refused(&format!("cannot be used: {}", reason(&error))),
            Ok(there) if !there.is_dir() => return refused("is not a directory"),
            Ok(there) if !is_on(to, there.dev()) => {
                return refused("is on another file system than TARGET, so nothing can be linked");
            }
            Ok(_) if std::fs::canonicalize(&path).is_ok_and(|whole| whole.starts_with(to)) => {
                return refused("is TARGET, or inside it");
            }
            Ok(_) => found.push(CString::new(path.into_os_string().into_vec()).unwrap_or_default()),
        }
    }
    request.options.link_dest = found;
    Ok(())
}

/// Finds out where `--backup-dir` is. `from` and `to` are the whole paths of source and target.
///
/// # Errors
/// A sentence for the user.
fn find_backup(request: &mut Request, from: &Path, to: &Path) -> Result<(), String> {
    let Some(given) = &request.backup_dir else { return Ok(()) };
    let path = without_dots(&to.join(given));
    let refused = |why: &str| Err(format!("--backup-dir: {} {why}", shown(&path)));
    let whole = match whole_path(&path) {
        Ok(whole) => whole,
        Err(error) => return refused(&format!("cannot be used: {}", reason(&error))),
    };
    let above = match std::fs::metadata(whole.parent().unwrap_or(&whole)) {
        Ok(above) => above,
        Err(error) => return refused(&format!("cannot be used: {}", reason(&error))),
    };
    match std::fs::metadata(&whole).as_ref().unwrap_or(&above) {
        there if !there.is_dir() => return refused("is not a directory"),
        there if !is_on(to, there.dev()) => {
            return refused("is on another file system than TARGET, so files cannot be moved there");
        }
        _ if [from, to].iter().any(|tree| whole.starts_with(tree) || tree.starts_with(&whole)) => {
            return refused("must not be SOURCE or TARGET, inside one of them, or around one");
        }
        _ => {}
    }
    let c_path = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    let place = BackupPlace { directory: c_path(&whole), above: above.ino(), target: c_path(to) };
    if let Some(deletion) = &mut request.deletion {
        deletion.backup_place = Some(place.clone());
    }
    request.options.backup_place = Some(place);
    Ok(())
}

/// Returns an absolute path without `.` and `..`.
fn without_dots(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    whole
}

/// True if a directory is on a device, or would be if it were made.
fn is_on(directory: &Path, device: u64) -> bool {
    let there = directory.ancestors().find_map(|above| std::fs::metadata(above).ok());
    there.is_some_and(|there| there.dev() == device)
}

/// Refuses to delete below a directory whose name is easily typed by mistake. `to` is its whole
/// path.
///
/// # Errors
/// A sentence for the user.
fn check_deletion(target: &Path, to: &Path) -> Result<(), String> {
    let home = std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    // The root directory is around every source, which was refused already.
    let what = if home.is_some_and(|home| home == to) {
        "your home directory"
    } else if is_mounted(to) {
        "the root of a mounted file system"
    } else {
        return Ok(());
    };
    Err(format!("{} is {what}: to delete there, add --really", shown(target)))
}

/// True if a file system is mounted at a directory.
fn is_mounted(directory: &Path) -> bool {
    let path = CString::new(directory.as_os_str().as_bytes()).unwrap_or_default();
    open_path(&path, Open::SEARCH).and_then(|fd| is_mount_root(&fd)).unwrap_or(false)
}

/// True if a copy of `from` may leave out `to`, a directory in it: because it is on another file
/// system, or because of the user's rules. If it isn't left out, the copy reports an error.
fn may_leave_out(request: &Request, from: &Path, to: &Path) -> bool {
    let selection = &request.run.config.selection;
    let device = |path: &Path| std::fs::metadata(path).map(|there| there.dev()).ok();
    let is_elsewhere = || device(to).is_some_and(|there| device(from) != Some(there));
    (request.options.one_file_system && is_elsewhere())
        || !selection.rules.is_empty()
        || selection.list.is_some()
}

/// Returns the path of a directory without symbolic links. The directory may be missing.
fn whole_path(path: &Path) -> io::Result<PathBuf> {
    match (std::fs::canonicalize(path), path.file_name()) {
        (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            Ok(std::fs::canonicalize(above.unwrap_or(Path::new(".")))?.join(name))
        }
        (outcome, _) => outcome,
    }
}

fn path_of(name: &CString) -> &Path {
    Path::new(OsStr::from_bytes(name.as_bytes()))
}

fn shown(path: &Path) -> String {
    format!("'{}'", path.display().to_string().escape_debug())
}
