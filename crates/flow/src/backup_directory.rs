//! A directory for the entries that a run replaces or deletes in another one (`--backup-dir`).
//!
//! Files keep their paths below the target. Their directories are created when the first file needs
//! them, with the owner and mode of those in the target. A file that is replaced is hard-linked
//! into the backup, so that it keeps its own name until the new file takes it. A file that is
//! deleted is moved, and so is one that can't be linked, just before the new file takes its name.
//!
//! Several processes can use one backup: each opens it by itself, and verifies the parent directory
//! by inode number. A directory that two of them need at once is created by one and found by the
//! other.
//!
//! Bound: only the most recently used directories are remembered, and the run's cache holds their
//! descriptors.

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

use haul_sys::{Errno, Error, Fd, Identity, Mode, Open, Operation, Owner, Stat, c_string, change_mode};
use haul_sys::{
    change_owner, is_left_behind, link, make_directory, open, open_path, remove, remove_directory,
};
use haul_sys::{rename, rename_across, rename_to_new, stat, stat_at, temporary_name};

use crate::directory_cache::{DirCache, DirHandle};
use crate::leftovers::sweep;
use crate::lock;
use crate::operand::Split;

/// Maximum number of directories that are remembered. Workers are rarely in more at once.
const RECENT_MAX: usize = 16;

/// Maximum number of directories remembered as swept. After that they are swept again, which finds
/// nothing.
const SWEPT_MAX: usize = 1 << 16;

/// Errors of link(2) for a file that can't be linked: the file system has no hard links, it belongs
/// to another user (`fs.protected_hardlinks`), or it has too many links.
const UNLINKABLE: [Errno; 4] = [Errno::PERM, Errno::MLINK, Errno::OPNOTSUPP, Errno::NOSYS];

/// Location of a backup and of its original.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BackupPlace {
    /// The directory that receives files. It may be missing; its parent must exist.
    pub directory: CString,
    /// Inode number of its parent, which is verified when that is opened.
    pub above: u64,
    /// The directory that the files come from.
    pub target: CString,
}

/// A directory for replaced and deleted entries.
#[derive(Debug)]
pub struct BackupDirectory {
    place: BackupPlace,
    used: Mutex<UsedDirectories>,
}

/// Directories of a backup that were made or found.
#[derive(Debug, Default)]
struct UsedDirectories {
    /// Those used last, the latest at the end, by their paths below the target. Each name in a path
    /// ends with a slash.
    recent: VecDeque<(Vec<u8>, Arc<DirHandle>)>,
    swept: HashSet<Identity>,
}

/// A directory whose entries are replaced or deleted.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    /// Its descriptor.
    pub directory: &'a Fd,
    /// Its path below the target, `.` for the target itself.
    pub below: &'a [u8],
}

/// Treatment of an earlier run's backup under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierBackup {
    /// It is replaced.
    Replaced,
    /// It stays, and the file is not kept.
    Stays,
    /// It stays, and the file is kept under a numbered name next to it: either may be the original.
    Both,
}

impl BackupDirectory {
    /// Creates the value. Directories are created when they are needed.
    #[must_use]
    pub fn new(place: BackupPlace) -> Self {
        Self { place, used: Mutex::default() }
    }

    /// Gives the file `name` of a directory a second name in the backup, unless there is an
    /// `earlier` backup that stays. A directory in its place, or a file in the place of a directory
    /// above it, is moved aside. A file that can't have several names is moved: so call this only
    /// when its replacement is complete.
    ///
    /// # Errors
    /// Any error from the kernel; `ESTALE` if the parent of the backup was replaced.
    pub fn keep(
        &self,
        cache: &DirCache,
        original: Original<'_>,
        name: &CStr,
        earlier: EarlierBackup,
    ) -> Result<(), Error> {
        let directory = original.directory;
        let backup = self.directory(cache, original)?;
        let linked = match link(directory, name, &backup, name) {
            Err(cause) if cause.is(Errno::EXIST) && earlier == EarlierBackup::Stays => return Ok(()),
            Err(cause) if cause.is(Errno::EXIST) && earlier == EarlierBackup::Both => {
                return link_numbered(directory, name, &backup);
            }
            Err(cause) if cause.is(Errno::EXIST) => link_over(directory, name, &backup),
            outcome => outcome,
        };
        match linked {
            Err(cause) if UNLINKABLE.contains(&cause.errno()) => {
                replacing(&backup, name, || rename_across((directory, name), (&backup, name)))
            }
            outcome => outcome,
        }
    }

    /// Moves the file `name` of a directory to the backup. The rest is as for
    /// [`BackupDirectory::keep`].
    ///
    /// # Errors
    /// The same; `ENOENT` if the file is gone.
    pub fn take(&self, cache: &DirCache, original: Original<'_>, name: &CStr) -> Result<(), Error> {
        let directory = original.directory;
        let backup = self.directory(cache, original)?;
        replacing(&backup, name, || rename_across((directory, name), (&backup, name)))?;
        // If both were names of one file, rename(2) did nothing.
        match (stat_at(directory, name), stat_at(&backup, name)) {
            (Ok(there), Ok(kept)) if there.identity == kept.identity => remove(directory, name),
            _ => Ok(()),
        }
    }

    /// Finds or creates the backup's counterpart of a directory of the target.
    fn directory(&self, cache: &DirCache, original: Original<'_>) -> Result<Arc<Fd>, Error> {
        let mut used = lock(&self.used);
        let names = original.below.split(|byte| *byte == b'/');
        let names: Vec<&[u8]> = names.filter(|name| !name.is_empty() && *name != b".").collect();
        let nearest = used.nearest(&path_of(&names));
        let (mut depth, mut held) = match nearest {
            Some((depth, held)) => (depth + 1, held),
            None => (0, self.above(cache)?),
        };
        let mut backup = cache.open(&held)?;
        let base = Split::of(&self.place.directory).base().to_vec();
        let mut walked = None;
        while depth <= names.len() {
            let name = c_string(depth.checked_sub(1).map_or(base.as_slice(), |index| names[index]));
            let like = || match depth == names.len() {
                true => stat(original.directory),
                false => self.stat_original(&mut walked, &names[..depth]),
            };
            let fd = Arc::new(find_or_make(&backup, &name, like)?);
            held = cache.hold(&held, &name, Open::DIRECTORY, stat(&fd)?.identity, Some(Arc::clone(&fd)));
            if depth + RECENT_MAX > names.len() {
                used.remember(path_of(&names[..depth]), &held);
            }
            (backup, depth) = (fd, depth + 1);
        }
        if used.is_unswept(held.identity()) {
            // A name that the original has is no leftover here either. Leftovers that can't be
            // removed stay, under names that say what they are.
            let is_kept = |name: &CStr| stat_at(original.directory, name).is_ok();
            sweep(&backup, |name| is_left_behind(name) && !is_kept(name)).map(drop).unwrap_or_default();
        }
        Ok(backup)
    }

    /// Opens the directory above the backup.
    fn above(&self, cache: &DirCache) -> Result<Arc<DirHandle>, Error> {
        let split = Split::of(&self.place.directory);
        let above = if split.display.is_empty() { b"." } else { split.display };
        let held = cache.hold_operand(&c_string(above), Open::SEARCH.following(), above.to_vec())?;
        if held.identity().inode != self.place.above {
            let what = format!("the directory above {:?}, which is another one by now", self.place.directory);
            return Err(Error::new(Operation::Openat, what, Errno::STALE));
        }
        Ok(held)
    }

    /// Looks up a directory of the target. `walked` has the last one above it that was looked up,
    /// and how many names its path has: trees can be thousands of directories deep.
    fn stat_original(&self, walked: &mut Option<(usize, Fd)>, names: &[&[u8]]) -> Result<Stat, Error> {
        let (depth, mut original) = match walked.take() {
            Some(above) => above,
            None => (0, open_path(&self.place.target, Open::SEARCH.following())?),
        };
        for name in &names[depth..] {
            original = open(&original, &c_string(name), Open::SEARCH)?;
        }
        let like = stat(&original);
        *walked = Some((names.len(), original));
        like
    }
}

impl UsedDirectories {
    /// Returns the directory at a path, or the nearest above it, and how many names its path has.
    fn nearest(&mut self, path: &[u8]) -> Option<(usize, Arc<DirHandle>)> {
        let above = self.recent.iter().enumerate().filter(|(_, (above, _))| path.starts_with(above));
        let (index, _) = above.max_by_key(|(_, (above, _))| above.len())?;
        let (path, held) = self.recent.remove(index)?;
        self.recent.push_back((path.clone(), Arc::clone(&held)));
        Some((path.iter().filter(|byte| **byte == b'/').count(), held))
    }

    fn remember(&mut self, path: Vec<u8>, held: &Arc<DirHandle>) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((path, Arc::clone(held)));
    }

    /// True if a directory isn't remembered as swept. From then on it is.
    fn is_unswept(&mut self, identity: Identity) -> bool {
        if self.swept.len() == SWEPT_MAX {
            self.swept.clear();
        }
        self.swept.insert(identity)
    }
}

/// Joins names to a path in which each ends with a slash, so that a path begins with those above.
fn path_of(names: &[&[u8]]) -> Vec<u8> {
    names.iter().flat_map(|name| [name, b"/".as_slice()].concat()).collect()
}

/// Opens a directory of the backup, and makes it if it is missing, like its original.
fn find_or_make(parent: &Fd, name: &CStr, like: impl FnOnce() -> Result<Stat, Error>) -> Result<Fd, Error> {
    match open(parent, name, Open::DIRECTORY) {
        Err(cause) if cause.is(Errno::NOENT) => {}
        Err(cause) if cause.is(Errno::NOTDIR) || cause.is(Errno::LOOP) => move_aside(parent, name)?,
        outcome => return outcome,
    }
    let like = like()?;
    match make_directory(parent, name, Mode::OWNER) {
        // By another process.
        Err(cause) if cause.is(Errno::EXIST) => return open(parent, name, Open::DIRECTORY),
        outcome => outcome?,
    }
    open_new(parent, name, like).inspect_err(|_| {
        // It would pass for complete. If it isn't empty any more, another process uses it.
        remove_directory(parent, name).unwrap_or_default();
    })
}

/// Opens a directory that was just made, and gives it owner and mode of its original.
fn open_new(parent: &Fd, name: &CStr, like: Stat) -> Result<Fd, Error> {
    let made = open(parent, name, Open::DIRECTORY)?;
    let give = |owner| match change_owner(&made, owner) {
        // A user who may not give it away keeps it: the backup matters more than its owner.
        Err(cause) if matches!(cause.errno(), Errno::PERM | Errno::INVAL) => Ok(()),
        outcome => outcome,
    };
    // The mode comes after the group that it applies to, and before the owner: without CAP_FOWNER,
    // only the owner may set it.
    give(Owner { user: None, group: Some(like.group) })?;
    change_mode(&made, like.mode.or(Mode::OWNER))?;
    give(Owner { user: Some(like.owner), group: None })?;
    Ok(made)
}

/// Gives a file of a directory a second name in the backup, in place of the file that an earlier
/// run has kept there.
fn link_over(directory: &Fd, name: &CStr, backup: &Fd) -> Result<(), Error> {
    let temporary = temporary_name();
    link(directory, name, backup, &temporary)?;
    let outcome = replacing(backup, name, || rename(backup, &temporary, name));
    // Needed even after success: rename(2) does nothing if both are names of one file.
    match remove(backup, &temporary) {
        Err(cause) if !cause.is(Errno::NOENT) => outcome.and(Err(cause)),
        _ => outcome,
    }
}

/// Gives a file of a directory a second name in the backup: the first free of `NAME.~1~`,
/// `NAME.~2~` and so on.
fn link_numbered(directory: &Fd, name: &CStr, backup: &Fd) -> Result<(), Error> {
    let mut number = 1_u32;
    loop {
        let numbered = c_string(&[name.to_bytes(), format!(".~{number}~").as_bytes()].concat());
        match link(directory, name, backup, &numbered) {
            Err(cause) if cause.is(Errno::EXIST) => number += 1,
            outcome => return outcome,
        }
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
            let original = Original { directory: &target, below: b"." };
            BackupDirectory::new(place).keep(&DirCache::new(8), original, c"file", EarlierBackup::Replaced)
        };
        assert!(keep(inode + 1).unwrap_err().is(Errno::STALE));
        assert!(!folder.path().join("kept").exists());
        keep(inode).unwrap();
        assert_eq!(fs::read(folder.path().join("kept/file")).unwrap(), b"old");
    }
}
