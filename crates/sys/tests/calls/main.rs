//! Tests the calls from outside the crate: one module per family of calls.
//!
//! Engines and tools test most of this from above. These tests say what a call promises by itself,
//! so that a failure points at the call.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod attributes;
mod data;
mod entries;
mod listing;
mod process;
mod queues;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_sys::{Fd, Mode, Open, open, open_path};
use tempfile::TempDir;

/// A new directory in the place for tests, held by a descriptor.
struct Ground {
    place: TempDir,
    directory: Fd,
}

impl Ground {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let directory = open_path(&c_string(place.path()), Open::DIRECTORY).unwrap();
        Self { place, directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join(name)
    }

    /// Writes a file and opens it for reading.
    fn source(&self, name: &str, bytes: &[u8]) -> Fd {
        std::fs::write(self.path(name), bytes).unwrap();
        open(&self.directory, &CString::new(name).unwrap(), Open::READ).unwrap()
    }

    /// Creates a file and opens it for writing.
    fn target(&self, name: &str) -> Fd {
        open(&self.directory, &CString::new(name).unwrap(), Open::create(Mode::new(0o600))).unwrap()
    }
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}
