//! Attributes of directories: set at the end, deepest first. Creating entries changes a directory's
//! times, and its mode may forbid to create any.
//!
//! Bound: one record for each directory of the archive, some hundreds of bytes.

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use haul_flow::{Context, Problem, Tally};
use haul_sys::Pinned;

use super::Extractor;
use super::attributes::{Object, Wanted};
use super::make::way_problem;
use super::places::Spot;
use crate::TarKind;

/// Directories that still need attributes, in archive order.
#[derive(Debug, Default)]
pub(super) struct Directories(Vec<(Arc<Spot>, Wanted, Vec<u8>)>);

impl Directories {
    pub(super) fn record(&mut self, spot: Arc<Spot>, wanted: Wanted, path: Vec<u8>) {
        self.0.push((spot, wanted, path));
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        // From the back: each holds its parents, which were recorded before it.
        while self.0.pop().is_some() {}
    }
}

impl Extractor {
    /// Sets the attributes of all directories.
    pub(super) fn finish_directories(&self, cx: &Context<'_, Self>, directories: &Mutex<Directories>) {
        let mut directories = std::mem::take(&mut *super::lock(directories));
        // If the archive has a directory more than once, the last record counts.
        let mut finished = HashSet::new();
        while let Some((spot, wanted, path)) = directories.0.pop() {
            let held = &spot.held;
            if !finished.insert(held.identity()) {
                continue;
            }
            match cx.cache().open(held) {
                Ok(fd) => {
                    let pinned = if spot.is_readable { Ok(None) } else { Pinned::open(&fd, HERE).map(Some) };
                    match &pinned {
                        Ok(None) => self.give(cx, Object::Open(&fd), &wanted, &path, false),
                        Ok(Some(pinned)) => self.give(cx, Object::Pinned(pinned), &wanted, &path, false),
                        Err(cause) => cx.problem(way_problem(&path, cause.clone())),
                    }
                    cx.count(Tally { directories: 1, ..Tally::default() });
                }
                Err(cause) => cx.problem(Problem::new(TarKind::CannotOpen).naming(path).because(cause)),
            }
            cx.cache().lift(held);
        }
    }
}

/// The directory itself, for a descriptor that serves only to resolve names.
const HERE: &CStr = c".";
