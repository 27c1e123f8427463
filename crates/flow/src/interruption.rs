//! Removal of temporary entries when a signal ends the program.
//!
//! A program that dies at once leaves behind its temporary entries. So one that handles signals
//! installs its handlers through [`before_first_entry`], and calls [`remove_temporary_entries`]
//! before it dies. That lets [`uninterrupted`] sections finish, starts no more of them, and removes
//! the entries that keep a temporary name for longer than one section ([`TemporaryEntry`]).
//!
//! All of this is process-wide because signals are. Where nothing is installed, as in a library,
//! nothing is removed.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::time::{Duration, Instant};

use haul_sys::remove;

use crate::directory_cache::{DirCache, DirHandle};
use crate::lock::lock;

/// Maximum wait for running sections: a dead server must not keep the program from dying.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Interval at which running sections are checked.
const WAIT_STEP: Duration = Duration::from_millis(1);

/// Directories that are kept open while entries are removed.
const HELD_MAX: usize = 8;

static INSTALL: OnceLock<fn()> = OnceLock::new();
static INSTALLED: Once = Once::new();

/// Number of threads in a section.
static STEPS: AtomicUsize = AtomicUsize::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Entries to remove, in the order they were made.
static ENTRIES: Mutex<BTreeMap<u64, (Arc<DirHandle>, CString)>> = Mutex::new(BTreeMap::new());

/// Sets a function to call before this process creates its first temporary entry. Only the first
/// call counts.
pub fn before_first_entry(install: fn()) {
    // An error means that it was set before.
    INSTALL.set(install).unwrap_or_default();
}

/// Runs a section that creates a temporary entry and then renames or removes it. A signal that ends
/// the program waits for it. Sections must not be nested.
pub fn uninterrupted<R>(steps: impl FnOnce() -> R) -> R {
    struct Begun;
    impl Drop for Begun {
        fn drop(&mut self) {
            STEPS.fetch_sub(1, Ordering::SeqCst);
        }
    }
    INSTALLED.call_once(|| INSTALL.get().into_iter().for_each(|install| install()));
    STEPS.fetch_add(1, Ordering::SeqCst);
    let begun = Begun;
    if IS_ENDING.load(Ordering::SeqCst) {
        drop(begun);
        loop {
            std::thread::park();
        }
    }
    steps()
}

/// An entry under a temporary name that a signal removes until this value is dropped.
#[derive(Debug)]
pub struct TemporaryEntry(Option<u64>);

impl TemporaryEntry {
    /// Registers an entry. It must be created in the same [`uninterrupted`] section.
    #[must_use]
    pub fn register(directory: &Arc<DirHandle>, name: &CStr) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if INSTALL.get().is_none() {
            return Self(None);
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&ENTRIES).insert(number, (Arc::clone(directory), name.to_owned()));
        Self(Some(number))
    }
}

impl Drop for TemporaryEntry {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            lock(&ENTRIES).remove(&number);
        }
    }
}

/// Removes all temporary entries, as far as possible; a later copy or sync removes the rest. Call
/// it only to end the process: threads that enter a section from now on block forever.
pub fn remove_temporary_entries() {
    IS_ENDING.store(true, Ordering::SeqCst);
    let began = Instant::now();
    while STEPS.load(Ordering::SeqCst) > 0 && began.elapsed() < WAIT_MAX {
        std::thread::sleep(WAIT_STEP);
    }
    let cache = DirCache::new(HELD_MAX);
    let entries = std::mem::take(&mut *lock(&ENTRIES));
    for (directory, name) in entries.into_values() {
        // Usually an entry that can't be removed is one that has its own name by now.
        cache.open(&directory).and_then(|directory| remove(&directory, &name)).unwrap_or_default();
    }
}
