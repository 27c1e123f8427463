//! An attacker that swaps two names as fast as it can.
//!
//! `renameat2(RENAME_EXCHANGE)` swaps two entries atomically, so both names always exist. A
//! [`Flipper`] does that in a thread until stopped, and counts the swaps, so that a race test can
//! prove that the race ran.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags};

/// Swaps two names until stopped.
#[derive(Debug)]
pub struct Flipper {
    stop: Arc<AtomicBool>,
    flips: Arc<AtomicU64>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Flipper {
    /// Starts swapping, and waits for the first swaps.
    pub fn start(one: &Path, other: &Path) -> io::Result<Self> {
        swap(one, other)?;
        swap(one, other)?;
        let stop = Arc::new(AtomicBool::new(false));
        let flips = Arc::new(AtomicU64::new(0));
        let names: (PathBuf, PathBuf) = (one.to_owned(), other.to_owned());
        let (thread_stop, thread_flips) = (Arc::clone(&stop), Arc::clone(&flips));
        let thread = std::thread::Builder::new().name("flipper".to_owned()).spawn(move || {
            // Swap in pairs, so that the names end up as they started.
            while !thread_stop.load(Ordering::Relaxed) {
                swap(&names.0, &names.1)?;
                thread_flips.fetch_add(1, Ordering::Relaxed);
                // Hold each state for a varying time. Otherwise a program that checks twice could
                // always see the same state.
                for _ in 0..(thread_flips.load(Ordering::Relaxed) * 7) % 97 {
                    std::hint::spin_loop();
                }
                swap(&names.0, &names.1)?;
                thread_flips.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })?;
        let flipper = Self { stop, flips, thread: Some(thread) };
        if crate::wait::until(Duration::from_secs(10), || flipper.flips() > 0) {
            Ok(flipper)
        } else {
            Err(io::Error::other("the flipper did not start"))
        }
    }

    /// Returns the number of swaps so far.
    pub fn flips(&self) -> u64 {
        self.flips.load(Ordering::Relaxed)
    }

    /// Stops, restores the original names, and returns the number of swaps.
    pub fn stop(mut self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        match thread.map(JoinHandle::join) {
            Some(Ok(result)) => result?,
            _ => return Err(io::Error::other("the flipper's thread died")),
        }
        Ok(self.flips())
    }
}

impl Drop for Flipper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            crate::note!("the flipper's thread died");
        }
    }
}

/// Swaps two names as fast as it can, even while one of them doesn't exist yet.
///
/// When a program creates one of the names, it is swapped at once, so that a later change by name
/// affects the other file.
#[derive(Debug)]
pub struct Exchanger {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Exchanger {
    /// Starts swapping.
    pub fn start(one: &Path, other: &Path) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (is_over, one, other) = (Arc::clone(&stop), one.to_owned(), other.to_owned());
        let thread = std::thread::Builder::new().name("exchanger".to_owned()).spawn(move || {
            let mut swaps = 0;
            while !is_over.load(Ordering::Relaxed) {
                swaps += u64::from(swap(&one, &other).is_ok());
            }
            swaps
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops, and returns the number of swaps.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Exchanger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// State of a file except its names and contents, to detect that a race changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    size: u64,
    links: u64,
    /// Names of its entries, if it is a directory.
    entries: Vec<OsString>,
}

impl FileState {
    /// Reads the state of a file, without following a link.
    pub fn of(path: &Path) -> io::Result<Self> {
        let stat = path.symlink_metadata()?;
        let mut entries = Vec::new();
        if stat.is_dir() {
            for entry in path.read_dir()? {
                entries.push(entry?.file_name());
            }
        }
        Ok(Self {
            inode: stat.ino(),
            mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            modified: (stat.mtime(), stat.mtime_nsec()),
            size: stat.size(),
            links: stat.nlink(),
            entries,
        })
    }

    /// Finds the same file in a directory by its inode, since its name may have changed, and
    /// reads its state.
    pub fn find_again(&self, directory: &Path) -> io::Result<Option<Self>> {
        for entry in directory.read_dir()? {
            let entry = entry?;
            if entry.ino() == self.inode {
                return Self::of(&entry.path()).map(Some);
            }
        }
        Ok(None)
    }
}

fn swap(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sandbox;
    use std::fs;

    #[test]
    fn names_are_swapped_and_come_to_rest_as_they_were() {
        let sandbox = Sandbox::in_memory().unwrap();
        let (one, other) = (sandbox.join("one"), sandbox.join("other"));
        fs::write(&one, "1").unwrap();
        fs::write(&other, "2").unwrap();
        let flipper = Flipper::start(&one, &other).unwrap();
        let mut seen = [false; 2];
        assert!(crate::wait::until(Duration::from_secs(20), || {
            seen[usize::from(fs::read(&one).unwrap() == b"2")] = true;
            seen == [true; 2]
        }));
        assert!(flipper.stop().unwrap() >= 2);
        assert_eq!(fs::read(&one).unwrap(), b"1");
    }
}
