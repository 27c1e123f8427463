//! Sealing parts of a journaled run: what a rank reports as done is on storage by then.
//!
//! ```text
//! last entry of a part ─► waiting ─┐
//! last entry of a part ─► waiting ─┴─► one worker: syncfs once for all ─► any worker: stamps ─► reported
//! ```
//!
//! Parts that are finished while a flush runs wait for the next one, so the flushes are as few as the storage is slow. A FUSE
//! file system may answer `syncfs` without doing anything (only virtiofs passes it on), so there each file is flushed.

use std::sync::Arc;

use haul_flow::{Desk, Found, Job, Node, Problem, Wording};
use haul_sys::{EntryType, Error, Fd, Open, file_system_type, open, synchronize, synchronize_file_system};

use crate::distributed::Distributed;
use crate::part::part_of;

/// `FUSE_SUPER_MAGIC`.
const FUSE: u64 = 0x6573_5546;

/// The data may not be on storage.
const CANNOT_FLUSH: Wording = Wording("cannot flush {}");

/// Parts that wait to be flushed.
pub(crate) struct Sealing<T: Distributed> {
    waiting: Vec<Arc<Node<T>>>,
    is_flushing: bool,
}

impl<T: Distributed> Default for Sealing<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), is_flushing: false }
    }
}

impl<T: Distributed> Sealing<T> {
    /// Adds a part. Returns whether the caller has to have it flushed.
    pub(crate) fn add(&mut self, node: Arc<Node<T>>) -> bool {
        self.waiting.push(node);
        !std::mem::replace(&mut self.is_flushing, true)
    }

    /// Takes all that wait; none ends the flushing.
    pub(crate) fn take(&mut self) -> Vec<Arc<Node<T>>> {
        self.is_flushing = !self.waiting.is_empty();
        std::mem::take(&mut self.waiting)
    }
}

/// Flushes the file systems of some parts, and has each part stamped and reported.
pub(crate) fn flush<T: Distributed + 'static>(desk: &Desk<'_, T>, nodes: Vec<Arc<Node<T>>>) {
    let mut flushed = Vec::new();
    for node in nodes {
        let Some(directory) = target(desk, &node) else {
            conclude(desk, &node, true);
            continue;
        };
        let outcome = directory.and_then(|(device, directory)| {
            if !flushed.contains(&device) {
                synchronize_file_system(&*directory)?;
                flushed.push(device);
            }
            Ok(())
        });
        let is_flushed = outcome.is_ok();
        if let Err(cause) = outcome {
            desk.attend(Some(&node));
            desk.problem(Problem::new(CANNOT_FLUSH).naming(node.source.path()).because(cause));
        }
        desk.share(Job::Visit(Box::new(move |desk| conclude(desk, &node, is_flushed))));
    }
}

/// Opens the directory in which the entries of a part are made, if they are; with its device.
fn target<T: Distributed>(desk: &Desk<'_, T>, node: &Arc<Node<T>>) -> Option<Result<(u64, Arc<Fd>), Error>> {
    let found = entry(node, c"x");
    let (held, _) = desk.tool().made(&found)?;
    Some(desk.cache().open(held).map(|directory| (held.identity().device, directory)))
}

fn entry<T: Distributed>(node: &Arc<Node<T>>, name: &std::ffi::CStr) -> Found<T> {
    Found { node: Arc::clone(node), name: name.into(), kind: EntryType::Unknown, seen: None }
}

/// Stamps a part whose data is on storage, and reports it.
fn conclude<T: Distributed + 'static>(desk: &Desk<'_, T>, node: &Arc<Node<T>>, is_flushed: bool) {
    let Some(part) = part_of(node) else { return };
    if is_flushed {
        part.stamp(desk, node, |found| is_on_storage(desk, found));
    }
    part.outlet.done(part);
}

/// Flushes a file where flushing its file system may do nothing. Returns whether it is on storage.
fn is_on_storage<T: Distributed>(desk: &Desk<'_, T>, found: &Found<T>) -> bool {
    let Some((held, name)) = desk.tool().made(found) else { return false };
    let flush = || {
        let directory = desk.cache().open(held)?;
        if file_system_type(&*directory)? != FUSE {
            return Ok(());
        }
        let file = open(&*directory, name, Open::READ)?;
        synchronize(&file)?;
        file.close()
    };
    flush().is_ok()
}
