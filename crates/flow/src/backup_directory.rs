//! A directory for the entries that a run replaces or deletes in another one (`--backup-dir`).
//!
//! Files keep their paths below the target. The directories above them are made when the first file
//! needs them, with owner and mode of those in the target. What is replaced gets a second name in
//! the backup, so that it has its own until the new file takes that; what is deleted is moved.
//!
//! Several processes can use one backup: each opens it by itself, and checks the directory above
//! it by inode number. A directory that two of them need at once is made by one and found by the
//! other.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

use haul_sys::{Errno, Error, Fd, Mode, Open, Operation, Owner, c_string, change_mode, change_owner};
use haul_sys::{is_left_behind, link, make_directory, open, open_path, remove, rename};
use haul_sys::{rename_across, rename_to_new, stat, stat_at, temporary_name};

use crate::leftovers::sweep;
use crate::lock;
use crate::operand::Split;

/// Location of a backup and of its original.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BackupPlace {
    /// The directory that receives files. It may be missing, but not the one above it.
    pub directory: CString,
    /// Inode number of the directory above it, which must still be that one when it is opened.
    pub above: u64,
    /// The directory that they come from.
    pub target: CString,
}

/// A directory for replaced and deleted entries.
#[derive(Debug)]
pub struct BackupDirectory {
    place: BackupPlace,
    /// The directories made or found so far, by their paths below the target.
    known: Mutex<HashMap<Vec<u8>, BackupPair>>,
}

/// A directory of the target and the one that its files are kept in.
#[derive(Clone, Debug)]
struct BackupPair {
    original: Arc<Fd>,
    backup: Arc<Fd>,
}

impl BackupDirectory {
    /// Creates nothing yet.
    #[must_use]
    pub fn new(place: BackupPlace) -> Self {
        Self { place, known: Mutex::default() }
    }

    /// Gives the file `name` of `directory` a second name in the backup. It replaces the file that
    /// an earlier run has kept under that name; a directory in its place, or a file in the place of
    /// a directory above it, is moved aside. `below` is the path of the directory below the target,
    /// `.` for the target itself. Where files can't have several names, it is moved.
    ///
    /// # Errors
    /// The kernel's; `ESTALE` if the directory above the backup is another one by now.
    pub fn keep(&self, directory: &Fd, name: &CStr, below: &[u8]) -> Result<(), Error> {
        let backup = self.directory(below)?;
        match link(directory, name, &backup, name) {
            Err(cause) if cause.is(Errno::EXIST) => {
                let passing = temporary_name();
                link(directory, name, &backup, &passing)?;
                let outcome = replacing(&backup, name, || rename(&backup, &passing, name));
                // Needed even after success: rename(2) does nothing if both are names of one file.
                match remove(&backup, &passing) {
                    Err(cause) if !cause.is(Errno::NOENT) => outcome.and(Err(cause)),
                    _ => outcome,
                }
            }
            Err(cause) if cause.is(Errno::PERM) || cause.is(Errno::MLINK) => {
                replacing(&backup, name, || rename_across((directory, name), (&backup, name)))
            }
            outcome => outcome,
        }
    }

    /// Moves the file `name` of `directory` to the backup. The rest is as for
    /// [`BackupDirectory::keep`].
    ///
    /// # Errors
    /// The same; `ENOENT` if the file is gone.
    pub fn take(&self, directory: &Fd, name: &CStr, below: &[u8]) -> Result<(), Error> {
        let backup = self.directory(below)?;
        replacing(&backup, name, || rename_across((directory, name), (&backup, name)))?;
        // If both were names of one file, rename(2) did nothing.
        match (stat_at(directory, name), stat_at(&backup, name)) {
            (Ok(there), Ok(kept)) if there.identity == kept.identity => remove(directory, name),
            _ => Ok(()),
        }
    }

    /// Finds or makes the directory for files of a directory of the target.
    fn directory(&self, below: &[u8]) -> Result<Arc<Fd>, Error> {
        let mut known = lock(&self.known);
        if let Some(pair) = known.get(below) {
            return Ok(Arc::clone(&pair.backup));
        }
        let mut pair = known.get(b".".as_slice()).cloned().map_or_else(|| self.top(), Ok)?;
        known.insert(b".".to_vec(), pair.clone());
        let mut path = Vec::new();
        for name in below.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
            path.extend_from_slice(name);
            pair = match known.get(&path) {
                Some(pair) => pair.clone(),
                None => pair.below(&c_string(name))?,
            };
            known.insert(path.clone(), pair.clone());
            path.push(b'/');
        }
        known.insert(below.to_vec(), pair.clone());
        Ok(pair.backup)
    }

    fn top(&self) -> Result<BackupPair, Error> {
        let split = Split::of(&self.place.directory);
        let above = if split.display.is_empty() { b"." } else { split.display };
        let above = open_path(&c_string(above), Open::SEARCH.following())?;
        if stat(&above)?.identity.inode != self.place.above {
            let what = format!("the directory above {:?}, which is another one by now", self.place.directory);
            return Err(Error::new(Operation::Openat, what, Errno::STALE));
        }
        let original = open_path(&self.place.target, Open::SEARCH.following())?;
        BackupPair { original: Arc::new(original), backup: Arc::new(above) }
            .named(&c_string(split.base()), None)
    }
}

impl BackupPair {
    /// Finds or makes the directory for those of an entry of the target.
    fn below(&self, name: &CStr) -> Result<Self, Error> {
        let original = Arc::new(open(&*self.original, name, Open::SEARCH)?);
        self.named(name, Some(original))
    }

    /// Finds or makes `name` in the backup, for `original`, or for that of this pair.
    fn named(&self, name: &CStr, original: Option<Arc<Fd>>) -> Result<Self, Error> {
        let original = original.unwrap_or_else(|| Arc::clone(&self.original));
        let make = || match make_directory(&*self.backup, name, Mode::OWNER) {
            Err(cause) if cause.is(Errno::EXIST) => Ok(false),
            outcome => outcome.map(|()| true),
        };
        let mut is_new = make()?;
        let open_it = || open(&*self.backup, name, Open::DIRECTORY);
        let backup = match open_it() {
            Err(cause) if cause.is(Errno::NOTDIR) || cause.is(Errno::LOOP) => {
                move_aside(&self.backup, name)?;
                is_new = make()?;
                open_it()?
            }
            outcome => outcome?,
        };
        if is_new {
            let like = stat(&*original)?;
            match change_owner(&backup, Owner { user: Some(like.owner), group: Some(like.group) }) {
                // Whoever may not give it away keeps it: the backup is worth more than its owner.
                Err(cause) if matches!(cause.errno(), Errno::PERM | Errno::INVAL) => {}
                outcome => outcome?,
            }
            change_mode(&backup, like.mode.or(Mode::OWNER))?;
        } else {
            // Leftovers that can't be removed stay, under names that say what they are.
            sweep(&backup, is_left_behind).map(drop).unwrap_or_default();
        }
        Ok(Self { original, backup: Arc::new(backup) })
    }
}

/// Puts a file under a name in the backup. A directory that an earlier run has kept there is moved
/// aside.
fn replacing(backup: &Fd, name: &CStr, put: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    match put() {
        Err(cause) if cause.is(Errno::ISDIR) => {
            move_aside(backup, name)?;
            put()
        }
        outcome => outcome,
    }
}

/// Renames an earlier run's backup to the first free of `NAME.~1~`, `NAME.~2~` and so on.
fn move_aside(backup: &Fd, name: &CStr) -> Result<(), Error> {
    let mut number = 1_u32;
    loop {
        let free = c_string(&[name.to_bytes(), format!(".~{number}~").as_bytes()].concat());
        match rename_to_new(backup, name, &free) {
            Err(cause) if cause.is(Errno::EXIST) && number < u32::MAX => number += 1,
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_backup_in_another_directory_than_the_one_meant_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| c_string(folder.path().join(name).as_os_str().as_bytes());
        fs::create_dir(folder.path().join("target")).unwrap();
        fs::write(folder.path().join("target/file"), "old").unwrap();
        let inode = fs::metadata(folder.path()).unwrap().ino();
        let target = open_path(&path("target"), Open::DIRECTORY).unwrap();
        let keep = |above| {
            let place = BackupPlace { directory: path("kept"), above, target: path("target") };
            BackupDirectory::new(place).keep(&target, c"file", b".")
        };
        assert!(keep(inode + 1).unwrap_err().is(Errno::STALE));
        assert!(!folder.path().join("kept").exists());
        keep(inode).unwrap();
        assert_eq!(fs::read(folder.path().join("kept/file")).unwrap(), b"old");
    }
}
