//! Remote paths: how another process finds a directory that this one holds, and verifies that it is
//! the same.
//!
//! A remote path consists of the path of an operand's directory and the names of the directories
//! below it. It is walked component by component, following only the links that the sender
//! followed, and must end at a directory with the same inode number. Device numbers mean nothing on
//! another host, so each process records which of its devices corresponds to which of the sender's,
//! and refuses a directory on any other.
//!
//! Known directories form a tree, so a lookup costs one step per component, at any depth
//! (test: `a_path_is_looked_up_step_by_step`).

use std::collections::hash_map;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use haul_flow::{DirCache, DirHandle, lock};
use haul_sys::{Errno, Error, Identity, Open, Operation, open, stat};
use serde::{Deserialize, Serialize};

/// Directories kept alive although no work item is in them: a few per directory being visited,
/// because siblings need its parents.
const KNOWN: usize = 1024;

/// Path to a directory, for another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemotePath {
    steps: Vec<RemoteStep>,
    device: u64,
    inode: u64,
}

/// One component: the first has a path, the others a name in the previous directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RemoteStep {
    name: CString,
    how: u32,
    display: Option<Vec<u8>>,
}

impl Hash for RemoteStep {
    fn hash<H: Hasher>(&self, state: &mut H) {
        #[cfg(test)]
        tests::HASHED.set(tests::HASHED.get() + 1);
        self.name.hash(state);
        self.how.hash(state);
        self.display.hash(state);
    }
}

impl RemotePath {
    /// Returns the remote path of a directory.
    #[must_use]
    pub fn to(held: &DirHandle) -> Self {
        let mut steps = Vec::new();
        let mut directory = Some(held);
        while let Some(here) = directory {
            steps.push(RemoteStep {
                name: here.name().to_owned(),
                how: here.how().bits(),
                display: here.display().map(<[u8]>::to_vec),
            });
            directory = here.parent();
        }
        steps.reverse();
        let Identity { device, inode } = held.identity();
        Self { steps, device, inode }
    }

    /// Returns the directory's inode number.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns the path as the user would write it.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let shown = self.steps.iter().rposition(|step| step.display.is_some()).unwrap_or_default();
        let mut path = Vec::new();
        for (index, step) in self.steps.iter().enumerate().skip(shown) {
            let name = step.name.to_bytes();
            let item = if index == shown { step.display.as_deref().unwrap_or(name) } else { name };
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(item);
        }
        path
    }
}

impl RemoteStep {
    /// Opens the directory of this step, in the directory of the previous one.
    fn open(&self, cache: &DirCache, above: Option<&Arc<DirHandle>>) -> Result<Arc<DirHandle>, Error> {
        let how = Open::of_bits(self.how);
        let Some(above) = above else {
            return cache.hold_operand(&self.name, how, self.display.clone().unwrap_or_default());
        };
        let fd = open(&*cache.open(above)?, &self.name, how)?;
        let identity = stat(&fd)?.identity;
        let place = (above, self.name.as_c_str());
        Ok(cache.hold_shown(place, how, identity, Some(Arc::new(fd)), self.display.clone()))
    }
}

/// Known directories, by the steps that lead to them.
///
/// Invariant: a handle keeps its parent alive. While any directory below is alive, the parent's
/// address can't be reused for another one.
#[derive(Debug, Default)]
struct KnownDirectories {
    /// For the address of each directory, the known ones below it; key 0 is where remote
    /// paths begin.
    below: HashMap<usize, HashMap<RemoteStep, Weak<DirHandle>>>,
    directories: usize,
    /// Live entries at the last sweep.
    alive: usize,
}

impl KnownDirectories {
    fn address(above: Option<&Arc<DirHandle>>) -> usize {
        above.map_or(0, |above| Arc::as_ptr(above).addr())
    }

    fn find(&self, above: Option<&Arc<DirHandle>>, step: &RemoteStep) -> Option<Arc<DirHandle>> {
        self.below.get(&Self::address(above))?.get(step)?.upgrade()
    }

    /// Follows known steps. Returns the last known directory and the remaining steps.
    fn follow<'s>(&self, steps: &'s [RemoteStep]) -> (Option<Arc<DirHandle>>, &'s [RemoteStep]) {
        let (mut held, mut left) = (None, steps);
        while let Some((step, rest)) = left.split_first() {
            let Some(next) = self.find(held.as_ref(), step) else { break };
            (held, left) = (Some(next), rest);
        }
        (held, left)
    }

    fn insert(&mut self, above: Option<&Arc<DirHandle>>, step: &RemoteStep, held: &Arc<DirHandle>) {
        let below = self.below.entry(Self::address(above)).or_default();
        self.directories += usize::from(below.insert(step.clone(), Arc::downgrade(held)).is_none());
        // Sweep only when the table has doubled, so that the amortised cost per insertion
        // is constant.
        if self.directories > 2 * self.alive.max(2 * KNOWN) {
            self.below.retain(|_, below| {
                below.retain(|_, held| held.strong_count() > 0);
                !below.is_empty()
            });
            self.directories = self.below.values().map(HashMap::len).sum();
            self.alive = self.directories;
        }
    }
}

/// Directories found by their remote paths.
#[derive(Debug, Default)]
pub struct RemotePaths {
    known: Mutex<KnownDirectories>,
    recent: Mutex<VecDeque<Arc<DirHandle>>>,
    devices: Mutex<HashMap<u64, u64>>,
}

impl RemotePaths {
    /// Holds the directory at a remote path.
    ///
    /// # Errors
    /// If it can't be opened; `ESTALE` if it is not the directory that the path was made from.
    pub fn hold(&self, cache: &DirCache, path: &RemotePath) -> Result<Arc<DirHandle>, Error> {
        let (mut held, left) = self.known().follow(&path.steps);
        for step in left {
            let next = step.open(cache, held.as_ref())?;
            held = Some(self.remember(held.as_ref(), step, next));
        }
        let nowhere = || Error::new(Operation::Openat, "an empty path".to_owned(), Errno::NOENT);
        let held = held.ok_or_else(nowhere)?;
        self.recognise(path, held.identity())?;
        Ok(held)
    }

    fn known(&self) -> MutexGuard<'_, KnownDirectories> {
        lock(&self.known)
    }

    /// Records an opened directory. Returns the handle to continue with: another worker may have
    /// opened the same directory first.
    fn remember(
        &self,
        above: Option<&Arc<DirHandle>>,
        step: &RemoteStep,
        held: Arc<DirHandle>,
    ) -> Arc<DirHandle> {
        let mut known = self.known();
        if let Some(earlier) = known.find(above, step) {
            return earlier;
        }
        known.insert(above, step, &held);
        drop(known);
        let mut recent = lock(&self.recent);
        recent.push_back(Arc::clone(&held));
        if recent.len() > KNOWN {
            recent.pop_front();
        }
        held
    }

    /// Verifies that the directory found is the one that the path was made from.
    fn recognise(&self, path: &RemotePath, found: Identity) -> Result<(), Error> {
        let mut devices = lock(&self.devices);
        let device = match devices.entry(path.device) {
            hash_map::Entry::Occupied(known) => *known.get(),
            hash_map::Entry::Vacant(new) => *new.insert(found.device),
        };
        if device == found.device && path.inode == found.inode {
            return Ok(());
        }
        let path = String::from_utf8_lossy(&path.path()).into_owned();
        Err(Error::new(
            Operation::Openat,
            format!("{path:?}, another directory than the one sent"),
            Errno::STALE,
        ))
    }
}

/// Resolves the directories of received work items.
pub struct ItemReceiver<'a> {
    /// Handles of open directories.
    pub cache: &'a DirCache,
    /// Directories already found by their remote paths.
    pub remote_paths: &'a RemotePaths,
}

impl ItemReceiver<'_> {
    /// Holds the directory at a remote path.
    ///
    /// # Errors
    /// If it can't be opened or is another directory; its path comes with the error.
    pub fn hold(&self, path: &RemotePath) -> Result<Arc<DirHandle>, (Vec<u8>, Error)> {
        self.remote_paths.hold(self.cache, path).map_err(|cause| (path.path(), cause))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::*;

    thread_local! {
        /// Steps hashed by this thread.
        pub(super) static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    /// Returns the remote path from `place` through the directories below it.
    fn path(place: &Path, names: &[&str]) -> RemotePath {
        let first = place.as_os_str().as_bytes();
        let step = |name: &[u8], display| RemoteStep {
            name: CString::new(name).unwrap(),
            how: Open::DIRECTORY.bits(),
            display,
        };
        let mut steps = vec![step(first, Some(first.to_vec()))];
        steps.extend(names.iter().map(|name| step(name.as_bytes(), None)));
        let found = fs::metadata(place.join(names.join("/"))).unwrap();
        RemotePath { steps, device: 7, inode: found.ino() }
    }

    #[test]
    fn a_path_is_looked_up_step_by_step() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = vec!["d"; 500];
        fs::create_dir_all(folder.path().join(names.join("/"))).unwrap();
        let deep = path(folder.path(), &names);
        names.push("e");
        fs::create_dir(folder.path().join(names.join("/"))).unwrap();
        let below = path(folder.path(), &names);
        let (remote_paths, cache) = (RemotePaths::default(), DirCache::new(16));
        let count = |path: &RemotePath| {
            let before = HASHED.get();
            (remote_paths.hold(&cache, path).unwrap(), HASHED.get() - before)
        };
        // One hash to look up the step, one in case another worker was quicker, and one to
        // insert it.
        let (held, hashed) = count(&deep);
        assert!((501..=3 * 501).contains(&hashed), "{hashed}");
        let (held_below, hashed) = count(&below);
        assert!((502..=501 + 3).contains(&hashed), "{hashed}");
        assert!(std::ptr::eq(held_below.parent().unwrap(), &raw const *held), "a directory is held twice");
        assert!(Arc::ptr_eq(&count(&below).0, &held_below));
        let directories = remote_paths.known().directories;
        assert_eq!(directories, 502);
    }

    #[test]
    fn a_directory_in_the_place_of_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (remote_paths, cache) = (RemotePaths::default(), DirCache::new(16));
        let path = RemotePath { inode: 1, ..path(folder.path(), &["a"]) };
        assert!(remote_paths.hold(&cache, &path).unwrap_err().is(Errno::STALE));
    }

    #[test]
    fn what_is_no_longer_held_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..5 * KNOWN).map(|number| number.to_string()).collect();
        let (remote_paths, cache) = (RemotePaths::default(), DirCache::new(16));
        for name in &names {
            fs::create_dir(folder.path().join(name)).unwrap();
            remote_paths.hold(&cache, &path(folder.path(), &[name])).unwrap();
        }
        let directories = remote_paths.known().directories;
        assert!((KNOWN..=4 * KNOWN + 1).contains(&directories), "{directories}");
        // The first is still found.
        remote_paths.hold(&cache, &path(folder.path(), &[&names[0]])).unwrap();
    }
}
