//! Attributes of directories: set at the end, deepest first. Creating entries changes a directory's
//! times, and its mode may forbid to create any.
//!
//! Bound: one record for each directory of the archive, some hundreds of bytes.

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use haul_flow::{Context, EntryOutcome, EntryReport, Problem, lock};
use haul_sys::{FileRef, Identity, Pinned};

use super::Extractor;
use super::attributes::Wanted;
use super::make::path_problem;
use super::resolver::MemberDir;
use crate::TarKind;

/// Directories that still need attributes.
#[derive(Debug, Default)]
pub(super) struct Directories {
    /// In archive order.
    recorded: Vec<(Arc<MemberDir>, Wanted, Vec<u8>)>,
    /// Directories that later members replaced.
    removed: HashSet<Identity>,
}

impl Directories {
    pub(super) fn record(&mut self, member_dir: Arc<MemberDir>, wanted: Wanted, path: Vec<u8>) {
        // Inode numbers are reused.
        self.removed.remove(&member_dir.held.identity());
        self.recorded.push((member_dir, wanted, path));
    }

    /// Forgets a directory that was removed.
    pub(super) fn forget(&mut self, removed: Identity) {
        self.removed.insert(removed);
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        // From the back: each holds its parents, which were recorded before it.
        while self.recorded.pop().is_some() {}
    }
}

impl Extractor {
    pub(super) fn finish_directories(&self, cx: &Context<'_, Self>, directories: &Mutex<Directories>) {
        let mut directories = std::mem::take(&mut *lock(directories));
        // If the archive has a directory more than once, the last record counts. Nothing is left of
        // one that was removed.
        let mut finished = std::mem::take(&mut directories.removed);
        while let Some((member_dir, wanted, path)) = directories.recorded.pop() {
            let held = &member_dir.held;
            if !finished.insert(held.identity()) {
                continue;
            }
            let errors_before = cx.errors();
            match cx.cache().open(held) {
                Ok(fd) => {
                    // A descriptor that serves only to resolve names (`O_PATH`) takes no attributes
                    // (`EBADF`).
                    let pinned =
                        if member_dir.is_readable { Ok(None) } else { Pinned::open(&fd, HERE).map(Some) };
                    match &pinned {
                        Ok(None) => self.give(cx, FileRef::Open(&fd), &wanted, &path, false),
                        Ok(Some(pinned)) => self.give(cx, FileRef::Pinned(pinned), &wanted, &path, false),
                        Err(cause) => cx.problem(path_problem(&path, cause.clone())),
                    }
                    if cx.errors() == errors_before {
                        cx.count_entry(EntryOutcome::Directory, |outcome| EntryReport::new(outcome, path));
                    }
                }
                Err(cause) => cx.problem(Problem::new(TarKind::CannotOpen).naming(path).because(cause)),
            }
            cx.cache().reopen_parent(held);
        }
    }
}

/// The directory itself, for a descriptor that serves only to resolve names.
const HERE: &CStr = c".";
