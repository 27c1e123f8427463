//! Directory handles, and a bounded cache of their descriptors.
//!
//! Below the operands no path is ever resolved twice: every name is opened relative to a directory
//! handle. A deep or wide tree has more directories than a process may have descriptors, so the
//! cache closes the least recently used ones and reopens them when they are needed: from the
//! nearest open ancestor, one component at a time, without following links, or upwards from a child
//! through `..`. Either way the directory must have the identity it had before. A directory that
//! was exchanged for another, or for a link to one, is noticed and refused.
//!
//! Invariant: a descriptor returned by [`DirCache::open`] has the identity recorded when the
//! directory was first held (tests: `an_evicted_directory_is_reopened_or_refused`, and the
//! race tests).
//!
//! Bound: at most `capacity` descriptors are cached. One that is in use when its turn to be evicted
//! comes stays open until its user drops it; users hold at most a few per worker. With a capacity
//! of 0 nothing is cached: every use opens the directory and closes it, and the current directory
//! is used without a descriptor (test: `without_capacity_nothing_stays_open`).

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use haul_sys::{Errno, Error, Fd, Identity, Open, Operation, Result};
use haul_sys::{c_string, open, open_parent, open_path, stat};

use crate::lock::lock;

/// Sentinel for a directory that doesn't exist: no file system uses inode number 0.
const ABSENT: Identity = Identity { device: 0, inode: 0 };

/// Handle of a directory, which can be reopened.
#[derive(Debug)]
pub struct DirHandle {
    parent: Option<Arc<DirHandle>>,
    name: CString,
    how: Open,
    display: Option<Vec<u8>>,
    identity: Identity,
    open: Mutex<Option<Arc<Fd>>>,
    recent: AtomicBool,
}

impl Drop for DirHandle {
    /// Drops the handles above one after the other: in a deep tree, each inside the drop of the one
    /// below it would exceed the stack.
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(handle) = above {
            above = Arc::into_inner(handle).and_then(|mut handle| handle.parent.take());
        }
    }
}

impl DirHandle {
    /// Returns the directory's identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns its name in its parent; for an operand's directory, its path.
    #[must_use]
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Returns its parent; `None` for an operand's directory.
    #[must_use]
    pub fn parent(&self) -> Option<&DirHandle> {
        self.parent.as_deref()
    }

    /// Returns how it is opened.
    #[must_use]
    pub fn how(&self) -> Open {
        self.how
    }

    /// Returns the path that messages show for it, if that was set explicitly.
    #[must_use]
    pub fn display(&self) -> Option<&[u8]> {
        self.display.as_deref()
    }

    /// Returns true if a symbolic link at its name is followed.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.how.follows()
    }

    /// Returns true if this is a placeholder for a directory that doesn't exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.identity == ABSENT
    }

    /// Returns its path, as the user would write it.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        match (&self.parent, &self.display) {
            (Some(_), Some(display)) => display.clone(),
            (Some(parent), None) => parent.path_of(&self.name),
            (None, _) => self.name.to_bytes().to_vec(),
        }
    }

    /// Returns the path of the entry `name` in this directory, as the user would write it.
    #[must_use]
    pub fn path_of(&self, name: &CStr) -> Vec<u8> {
        let mut components: Vec<&[u8]> = vec![name.to_bytes()];
        let mut directory = self;
        let mut path = loop {
            if let Some(display) = &directory.display {
                break display.clone();
            }
            components.push(directory.name.to_bytes());
            match &directory.parent {
                Some(parent) => directory = parent,
                None => break Vec::new(),
            }
        };
        for (index, component) in components.into_iter().rev().enumerate() {
            if index > 0 {
                // The operand's own trailing slashes end here. What precedes them is as the user
                // wrote it.
                let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len(), |last| last + 1);
                path.truncate(end);
            }
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(component);
        }
        path
    }

    /// Checks that a reopened directory is the same one as before.
    fn recognise(&self, fd: Fd) -> Result<Arc<Fd>> {
        if stat(&fd)?.identity == self.identity { Ok(Arc::new(fd)) } else { Err(stale(self)) }
    }
}

/// Bounded cache of open directories.
#[derive(Debug)]
pub struct DirCache {
    capacity: usize,
    queue: Mutex<EvictionQueue>,
}

/// Directories in the order they were opened. Some may have been closed since.
#[derive(Debug, Default)]
struct EvictionQueue {
    entries: VecDeque<Weak<DirHandle>>,
    /// Upper bound of how many are open: a directory that was dropped without being closed counts
    /// until its entry is removed.
    open: usize,
}

impl DirCache {
    /// Creates a cache of at most `capacity` open directories.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, queue: Mutex::new(EvictionQueue::default()) }
    }

    /// Holds an operand's directory. `display` is the prefix of its names in messages.
    ///
    /// # Errors
    /// If it can't be opened or stat'ed.
    pub fn hold_operand(&self, path: &CStr, how: Open, display: Vec<u8>) -> Result<Arc<DirHandle>> {
        let fd = self.open_operand(path, how)?;
        let identity = stat(&fd)?.identity;
        Ok(self.insert(DirHandle {
            parent: None,
            name: path.to_owned(),
            how,
            display: Some(display),
            identity,
            open: Mutex::new(Some(Arc::new(fd))),
            recent: AtomicBool::new(false),
        }))
    }

    fn open_operand(&self, path: &CStr, how: Open) -> Result<Fd> {
        let is_search = how == Open::SEARCH || how == Open::SEARCH.following();
        if self.capacity == 0 && is_search && path == c"." {
            // Descriptors are scarce, and `AT_FDCWD` needs none.
            return Ok(Fd::current_directory());
        }
        match open_path(path, how) {
            // A path below a deep tree, from a manifest, may be longer than `PATH_MAX`.
            Err(cause) if cause.is(Errno::NAMETOOLONG) => open_by_component(path, how),
            outcome => outcome,
        }
    }

    /// Returns a placeholder for an operand's directory that doesn't exist. Opening it fails later,
    /// where the error can be reported best.
    #[must_use]
    pub fn hold_absent(&self, path: &CStr, how: Open, display: Vec<u8>) -> Arc<DirHandle> {
        self.insert(DirHandle {
            parent: None,
            name: path.to_owned(),
            how,
            display: Some(display),
            identity: ABSENT,
            open: Mutex::new(None),
            recent: AtomicBool::new(false),
        })
    }

    /// Holds a directory found as `name` in `parent`. `fd` is its descriptor, opened with `how`;
    /// `None` if it couldn't be opened and the handle only serves to name it.
    #[must_use]
    pub fn hold(
        &self,
        parent: &Arc<DirHandle>,
        name: &CStr,
        how: Open,
        identity: Identity,
        fd: Option<Arc<Fd>>,
    ) -> Arc<DirHandle> {
        self.hold_shown((parent, name), how, identity, fd, None)
    }

    /// Same as [`DirCache::hold`], for a directory that messages show as `display`.
    #[must_use]
    pub fn hold_shown(
        &self,
        (parent, name): (&Arc<DirHandle>, &CStr),
        how: Open,
        identity: Identity,
        fd: Option<Arc<Fd>>,
        display: Option<Vec<u8>>,
    ) -> Arc<DirHandle> {
        self.insert(DirHandle {
            parent: Some(Arc::clone(parent)),
            name: name.to_owned(),
            how,
            display,
            identity,
            open: Mutex::new(fd),
            recent: AtomicBool::new(false),
        })
    }

    fn insert(&self, mut held: DirHandle) -> Arc<DirHandle> {
        if self.capacity == 0 {
            held.open = Mutex::default();
        }
        let is_open = lock(&held.open).is_some();
        let held = Arc::new(held);
        if is_open {
            self.enqueue(&held);
        }
        held
    }

    /// Returns the directory's descriptor, and reopens it if it was evicted.
    ///
    /// # Errors
    /// If it can't be opened; `ESTALE` if another directory has taken its place.
    pub fn open(&self, held: &Arc<DirHandle>) -> Result<Arc<Fd>> {
        // Stored only if it changes: workers in one directory share the cache line.
        if !held.recent.load(Ordering::Relaxed) {
            held.recent.store(true, Ordering::Relaxed);
        }
        if let Some(fd) = lock(&held.open).as_ref() {
            return Ok(Arc::clone(fd));
        }
        let mut chain = Vec::new();
        let mut nearest = held;
        let mut from = loop {
            if let Some(fd) = lock(&nearest.open).as_ref() {
                break Some(Arc::clone(fd));
            }
            chain.push(nearest);
            match &nearest.parent {
                Some(parent) => nearest = parent,
                None => break None,
            }
        };
        // Only the requested directory is cached: its ancestors could evict everything that
        // others need.
        for directory in chain.into_iter().rev() {
            let fd = match &from {
                Some(parent) => open(parent, &directory.name, directory.how)?,
                None => self.open_operand(&directory.name, directory.how)?,
            };
            let fd = directory.recognise(fd)?;
            from = Some(if Arc::ptr_eq(directory, held) { self.reinstate(held, fd) } else { fd });
        }
        from.ok_or_else(|| stale(held))
    }

    /// Reopens the evicted parent of an open directory through `..`: one call, however deep the
    /// tree is.
    ///
    /// Called when a directory is finished and its parent will be next. A failure doesn't matter:
    /// the parent can still be opened from its own ancestors.
    pub fn reopen_parent(&self, child: &DirHandle) {
        let (Some(parent), Some(fd)) = (&child.parent, lock(&child.open).clone()) else { return };
        if lock(&parent.open).is_some() || parent.how != child.how {
            return;
        }
        // A directory that was moved has another parent now, which fails the identity check.
        let reopened = open_parent(&fd).and_then(|fd| parent.recognise(fd));
        reopened.map_or_else(drop, |fd| drop(self.reinstate(parent, fd)));
    }

    /// Closes a directory that is no longer needed.
    ///
    /// # Errors
    /// Any error from `close(2)`.
    pub fn close(&self, held: &DirHandle) -> Result<()> {
        let Some(fd) = lock(&held.open).take() else { return Ok(()) };
        let mut queue = lock(&self.queue);
        queue.open = queue.open.saturating_sub(1);
        drop(queue);
        Arc::into_inner(fd).map_or(Ok(()), Fd::close)
    }

    /// Caches the descriptor of a reopened directory. If another worker was faster, returns
    /// that worker's.
    fn reinstate(&self, held: &Arc<DirHandle>, fd: Arc<Fd>) -> Arc<Fd> {
        if self.capacity == 0 {
            return fd;
        }
        let mut open = lock(&held.open);
        if let Some(fd) = open.as_ref() {
            return Arc::clone(fd);
        }
        *open = Some(Arc::clone(&fd));
        // The queue's lock comes before a handle's (`enqueue`, `evict`), so this one must go first.
        drop(open);
        self.enqueue(held);
        fd
    }

    /// Appends an open directory to the queue, and evicts directories from the front if there are
    /// too many.
    fn enqueue(&self, held: &Arc<DirHandle>) {
        let mut queue = lock(&self.queue);
        queue.entries.push_back(Arc::downgrade(held));
        // Each open one has an entry.
        queue.open = (queue.open + 1).min(queue.entries.len());
        if queue.entries.len() > 2 * self.capacity {
            // Happens once in `capacity` calls, so checking all entries costs as much as checking
            // two each time.
            queue.entries.retain(|entry| entry.upgrade().is_some_and(|held| lock(&held.open).is_some()));
            queue.open = queue.entries.len();
        }
        // Each entry once: all may be in use, and then the cache is over its capacity for a while.
        let mut turns = queue.entries.len();
        while queue.open > self.capacity && turns > 0 {
            turns -= 1;
            let Some(entry) = queue.entries.pop_front() else { return };
            match entry.upgrade().map(|oldest| evict(&oldest)) {
                Some(Evicted::Now) => queue.open -= 1,
                Some(Evicted::InUse) => queue.entries.push_back(entry),
                Some(Evicted::Before) | None => {}
            }
        }
    }
}

/// Result of trying to evict a directory.
enum Evicted {
    Now,
    Before,
    InUse,
}

/// Closes the directory's descriptor, unless it is in use or was used recently.
fn evict(held: &DirHandle) -> Evicted {
    let mut open = lock(&held.open);
    match open.as_ref() {
        None => return Evicted::Before,
        // A second chance, as in the clock algorithm: one more round in the queue.
        Some(_) if held.recent.swap(false, Ordering::Relaxed) => return Evicted::InUse,
        // Exact, because descriptors are cloned only under this lock. Dropping one in use would
        // close nothing.
        Some(fd) if Arc::strong_count(fd) > 1 => return Evicted::InUse,
        Some(_) => {}
    }
    // Nothing was written through a directory's descriptor, so its close has no error to report.
    drop(open.take());
    Evicted::Now
}

/// Opens a path one component at a time, and follows links as the kernel does.
fn open_by_component(path: &CStr, how: Open) -> Result<Fd> {
    let start = if path.to_bytes().starts_with(b"/") { c"/" } else { c"." };
    let mut directory = open_path(start, Open::SEARCH)?;
    let mut names = path.to_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let how = if names.peek().is_some() { Open::SEARCH.following() } else { how };
        directory = open(&directory, &c_string(name), how)?;
    }
    Ok(directory)
}

fn stale(held: &DirHandle) -> Error {
    Error::new(Operation::Openat, format!("{:?}, which is now another directory", held.name), Errno::STALE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn deep(cache: &DirCache, root: &std::path::Path, levels: usize) -> Vec<Arc<DirHandle>> {
        let path = CString::new(root.as_os_str().as_bytes()).unwrap();
        let mut chain = vec![cache.hold_operand(&path, Open::DIRECTORY, b"root".to_vec()).unwrap()];
        for _ in 0..levels {
            let parent = chain.last().unwrap();
            let fd = Arc::new(open(cache.open(parent).unwrap(), c"d", Open::DIRECTORY).unwrap());
            let identity = stat(&fd).unwrap().identity;
            chain.push(cache.hold(parent, c"d", Open::DIRECTORY, identity, Some(fd)));
        }
        chain
    }

    #[test]
    fn a_deep_chain_is_dropped_without_recursion() {
        let root = tempfile::tempdir().unwrap();
        let cache = DirCache::new(3);
        let mut last = deep(&cache, root.path(), 0).remove(0);
        for _ in 0..200_000 {
            last = cache.hold(&last, c"d", Open::DIRECTORY, last.identity(), None);
        }
        drop(last);
    }

    #[test]
    fn directories_dropped_without_a_close_leave_room_for_others() {
        let root = tempfile::tempdir().unwrap();
        let path = CString::new(root.path().as_os_str().as_bytes()).unwrap();
        let cache = DirCache::new(4);
        let hold = || cache.hold_operand(&path, Open::DIRECTORY, Vec::new()).unwrap();
        (0..100).for_each(|_| drop(hold()));
        let held = [hold(), hold(), hold()];
        assert!(held.iter().all(|held| lock(&held.open).is_some()));
    }

    #[test]
    fn an_evicted_directory_is_reopened_or_refused() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("d/d/d/d/d/d/d/d")).unwrap();
        let cache = DirCache::new(3);
        let chain = deep(&cache, root.path(), 8);
        let open_now = chain.iter().filter(|held| lock(&held.open).is_some()).count();
        assert!(open_now <= 4, "{open_now} directories are open");
        for held in &chain {
            assert_eq!(stat(cache.open(held).unwrap()).unwrap().identity, held.identity());
        }
        assert_eq!(chain[2].path_of(c"name"), b"root/d/d/name");
        drop(cache);
        let cache = DirCache::new(1);
        let chain = deep(&cache, root.path(), 3);
        for held in &chain {
            cache.close(held).unwrap();
        }
        std::fs::rename(root.path().join("d/d"), root.path().join("moved")).unwrap();
        std::fs::create_dir(root.path().join("d/d")).unwrap();
        assert!(cache.open(&chain[2]).unwrap_err().is(Errno::STALE));
    }

    #[test]
    fn without_capacity_nothing_stays_open() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("d/d")).unwrap();
        let cache = DirCache::new(0);
        let mut chain = deep(&cache, root.path(), 2);
        chain.push(cache.hold_operand(c".", Open::SEARCH, Vec::new()).unwrap());
        for held in &chain {
            assert_eq!(stat(cache.open(held).unwrap()).unwrap().identity, held.identity());
            cache.reopen_parent(held);
            assert!(lock(&held.open).is_none());
        }
    }

    #[test]
    fn a_parent_is_reopened_through_dot_dot_only_if_it_is_the_same() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("d/d")).unwrap();
        let cache = DirCache::new(10);
        let chain = deep(&cache, root.path(), 2);
        cache.close(&chain[1]).unwrap();
        cache.reopen_parent(&chain[2]);
        assert!(lock(&chain[1].open).is_some());
        cache.close(&chain[1]).unwrap();
        std::fs::rename(root.path().join("d/d"), root.path().join("elsewhere")).unwrap();
        cache.reopen_parent(&chain[2]);
        assert!(lock(&chain[1].open).is_none(), "the parent of a moved directory was taken for the old one");
    }
}
