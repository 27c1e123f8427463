//! Removal of the entries that a killed run has left behind.

use std::ffi::CStr;

use haul_sys::{
    DirectoryReader, EntryType, Errno, Error, Fd, FileType, NameArena, Open, effective_identity, open,
    remove, stat_at,
};

use crate::plan::WINDOW_ENTRIES;

/// Removes the entries of a directory whose names `is_leftover` recognises as left by an earlier
/// run: files, links and special files, but no directories, which never have temporary names.
/// They must be this user's, except for root, whose copies get their final owner before their
/// name. Returns the removals that failed.
///
/// # Errors
/// If the directory can't be listed.
pub fn sweep(directory: &Fd, is_leftover: impl Fn(&CStr) -> bool) -> Result<Vec<Error>, Error> {
    // It may be open for searching only, and a listing moves the offset that others use.
    let listed = open(directory, c".", Open::DIRECTORY)?;
    let (mut reader, mut found) = (DirectoryReader::new(), Vec::new());
    loop {
        let mut names = NameArena::new();
        let may_be_more = reader.read(&listed, &mut names, WINDOW_ENTRIES)?;
        let may_be = |index: &usize| {
            names.entry(*index).kind != EntryType::Directory && is_leftover(names.name(*index))
        };
        found.extend((0..names.len()).filter(may_be).map(|index| names.name(index).to_owned()));
        if !may_be_more {
            break;
        }
    }
    listed.close()?;
    Ok(found.into_iter().filter_map(|name| remove_own(directory, &name).err()).collect())
}

/// Removes a name of anything but a directory, if it is this user's or the user is root. A file
/// with other names keeps those.
fn remove_own(directory: &Fd, name: &CStr) -> Result<(), Error> {
    let user = effective_identity().user;
    let gone = |cause: Error| if cause.is(Errno::NOENT) { Ok(()) } else { Err(cause) };
    match stat_at(directory, name) {
        Ok(stat) if stat.kind == FileType::Directory => Ok(()),
        Ok(stat) if user != 0 && stat.owner != user => Ok(()),
        Ok(_) => remove(directory, name).or_else(gone),
        Err(cause) => gone(cause),
    }
}
