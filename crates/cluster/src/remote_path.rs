//! remote-paths: how another process finds a directory that this one holds, and makes sure that it is the same.
//!
//! A way is the path to an operand's place and the names of the directories below it. It is walked component by component,
//! without following links where this process did not, and at its end must be the directory with the same inode number.
//! Numbers of devices mean nothing on another host, so each process notes which of its devices stands for which of the
//! sender's, and holds it to that.
//!
//! What is known is a tree like the directories themselves, so a way costs as much as it is long, however deep
//! (test: `a_way_is_looked_up_step_by_step`).

use std::collections::hash_map;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use haul_flow::{DirCache, DirHandle};
use haul_sys::{Errno, Error, Identity, Open, Operation, open, stat};
use serde::{Deserialize, Serialize};

/// Directories that stay known although no part is in them now: a few per directory being visited, as its parents are
/// needed for its neighbours.
const KNOWN: usize = 1024;

/// How to find a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemotePath {
    steps: Vec<RemoteStep>,
    device: u64,
    inode: u64,
}

/// One directory on a way: the first by its path, each further one by its name in the one before.
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
    /// Describes the way to a directory.
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

    /// Returns the path, as the user would write it.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let shown = self.steps.iter().rposition(|step| step.display.is_some()).unwrap_or_default();
        let mut path = Vec::new();
        for (index, step) in self.steps.iter().enumerate().skip(shown) {
            let name = step.name.to_bytes();
            let part = if index == shown { step.display.as_deref().unwrap_or(name) } else { name };
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        path
    }
}

impl RemoteStep {
    /// Holds the directory of this step, in the one that the step before led to.
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

/// What is known, by the steps to it.
///
/// Invariant: a directory that is held keeps the one above it, so as long as one is alive no other can be found below the
/// address of the one above it.
#[derive(Debug, Default)]
struct Known {
    /// For the address of each directory, what is known below; for 0, where ways begin.
    below: HashMap<usize, HashMap<RemoteStep, Weak<DirHandle>>>,
    directories: usize,
    /// What was alive when it was last looked through for what is not.
    alive: usize,
}

impl Known {
    fn address(above: Option<&Arc<DirHandle>>) -> usize {
        above.map_or(0, |above| Arc::as_ptr(above).addr())
    }

    fn find(&self, above: Option<&Arc<DirHandle>>, step: &RemoteStep) -> Option<Arc<DirHandle>> {
        self.below.get(&Self::address(above))?.get(step)?.upgrade()
    }

    /// Goes as far on a way as it is known; returns where that is, and the steps that are left.
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
        // Only when it has doubled, so that looking through it costs nothing beside what was added.
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

/// The directories that were found by ways.
#[derive(Debug, Default)]
pub struct RemotePaths {
    known: Mutex<Known>,
    recent: Mutex<VecDeque<Arc<DirHandle>>>,
    devices: Mutex<HashMap<u64, u64>>,
}

impl RemotePaths {
    /// Holds the directory at the end of a way.
    ///
    /// # Errors
    /// When it cannot be opened; `ESTALE` when it is another directory than the one the way was described to.
    pub fn hold(&self, cache: &DirCache, way: &RemotePath) -> Result<Arc<DirHandle>, Error> {
        let (mut held, left) = self.known().follow(&way.steps);
        for step in left {
            let next = step.open(cache, held.as_ref())?;
            held = Some(self.remember(held.as_ref(), step, next));
        }
        let nowhere = || Error::new(Operation::Openat, "a way of no steps".to_owned(), Errno::NOENT);
        let held = held.ok_or_else(nowhere)?;
        self.recognise(way, held.identity())?;
        Ok(held)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a directory that was opened; returns the one to go on with, which another worker may have opened before.
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
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(Arc::clone(&held));
        if recent.len() > KNOWN {
            recent.pop_front();
        }
        held
    }

    /// Checks that what was found is what the way was described to.
    fn recognise(&self, way: &RemotePath, found: Identity) -> Result<(), Error> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let device = match devices.entry(way.device) {
            hash_map::Entry::Occupied(known) => *known.get(),
            hash_map::Entry::Vacant(new) => *new.insert(found.device),
        };
        if device == found.device && way.inode == found.inode {
            return Ok(());
        }
        let path = String::from_utf8_lossy(&way.path()).into_owned();
        Err(Error::new(
            Operation::Openat,
            format!("{path:?}, another directory than the one sent"),
            Errno::STALE,
        ))
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
        /// Steps that were hashed in this thread.
        pub(super) static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    /// Describes the way from `place` through directories below it.
    fn way(place: &Path, names: &[&str]) -> RemotePath {
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
    fn a_way_is_looked_up_step_by_step() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = vec!["d"; 500];
        fs::create_dir_all(folder.path().join(names.join("/"))).unwrap();
        let deep = way(folder.path(), &names);
        names.push("e");
        fs::create_dir(folder.path().join(names.join("/"))).unwrap();
        let below = way(folder.path(), &names);
        let (ways, cache) = (RemotePaths::default(), DirCache::new(16));
        let count = |way: &RemotePath| {
            let before = HASHED.get();
            (ways.hold(&cache, way).unwrap(), HASHED.get() - before)
        };
        // Once when it is looked for, once in case another worker was quicker, and once when it is kept.
        let (held, hashed) = count(&deep);
        assert!((501..=3 * 501).contains(&hashed), "{hashed}");
        let (held_below, hashed) = count(&below);
        assert!((502..=501 + 3).contains(&hashed), "{hashed}");
        assert!(std::ptr::eq(held_below.parent().unwrap(), &raw const *held), "a directory is held twice");
        assert!(Arc::ptr_eq(&count(&below).0, &held_below));
        let directories = ways.known().directories;
        assert_eq!(directories, 502);
    }

    #[test]
    fn a_directory_in_the_place_of_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (ways, cache) = (RemotePaths::default(), DirCache::new(16));
        let way = RemotePath { inode: 1, ..way(folder.path(), &["a"]) };
        assert!(ways.hold(&cache, &way).unwrap_err().is(Errno::STALE));
    }

    #[test]
    fn what_is_no_longer_held_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..5 * KNOWN).map(|number| number.to_string()).collect();
        let (ways, cache) = (RemotePaths::default(), DirCache::new(16));
        for name in &names {
            fs::create_dir(folder.path().join(name)).unwrap();
            ways.hold(&cache, &way(folder.path(), &[name])).unwrap();
        }
        let directories = ways.known().directories;
        assert!((KNOWN..=4 * KNOWN + 1).contains(&directories), "{directories}");
        // The first is found all the same.
        ways.hold(&cache, &way(folder.path(), &[&names[0]])).unwrap();
    }
}
