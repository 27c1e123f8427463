//! Seals the work items of a journaled run: a rank reports an item as done only when its data is on
//! storage.
//!
//! ```text
//! last entry of an item ─► waiting ─┐
//! last entry of an item ─► waiting ─┴─► one worker: one syncfs ─► any worker: stamps ─► reported
//! ```
//!
//! Items that complete during a flush wait for the next one, so slower storage means fewer flushes.
//! A FUSE file system may answer `syncfs` without doing anything (only virtiofs forwards it), so
//! there each entry is flushed.

use std::ffi::CStr;
use std::sync::Arc;

use haul_flow::{Context, DirHandle, DirNode, Entry, Job, Problem};
use haul_sys::{EntryType, Error, Fd, Pinned, file_system_type, magic, with_readable};
use haul_sys::{synchronize, synchronize_file_system};

use crate::distributed::Distributed;
use crate::item::item_of;
use crate::kind::ClusterKind;

/// Work items that wait to be flushed.
pub(crate) struct Sealing<T: Distributed> {
    waiting: Vec<Arc<DirNode<T>>>,
    is_flushing: bool,
}

impl<T: Distributed> Default for Sealing<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), is_flushing: false }
    }
}

impl<T: Distributed> Sealing<T> {
    /// Adds an item. Returns true if the caller must start the flush.
    pub(crate) fn add(&mut self, node: Arc<DirNode<T>>) -> bool {
        self.waiting.push(node);
        !std::mem::replace(&mut self.is_flushing, true)
    }

    /// Returns all waiting items. If there are none, the flush ends.
    pub(crate) fn take(&mut self) -> Vec<Arc<DirNode<T>>> {
        self.is_flushing = !self.waiting.is_empty();
        std::mem::take(&mut self.waiting)
    }
}

/// Flushes the file systems of some items, and has each item stamped and reported.
pub(crate) fn flush<T: Distributed + 'static>(cx: &Context<'_, T>, nodes: Vec<Arc<DirNode<T>>>) {
    let mut flushed = Vec::new();
    for node in nodes {
        let Some(held) = target(cx, &node) else {
            report_done(cx, &node, true);
            continue;
        };
        let device = held.identity().device;
        let flush = |directory: Arc<Fd>| with_readable(&directory, |fd| synchronize_file_system(fd));
        // `syncfs` covers the whole file system.
        let is_flushed = flushed.contains(&device)
            || match cx.cache().open(&held).and_then(flush) {
                Ok(()) => {
                    flushed.push(device);
                    true
                }
                Err(cause) => {
                    cx.set_current_node(Some(&node));
                    cx.problem(Problem::new(ClusterKind::CannotFlush).naming(held.path()).because(cause));
                    false
                }
            };
        cx.share(Job::Callback(Box::new(move |cx| report_done(cx, &node, is_flushed))));
    }
}

/// Returns the directory in which a work item's entries are created; `None` if the tool creates
/// nothing.
fn target<T: Distributed>(cx: &Context<'_, T>, node: &Arc<DirNode<T>>) -> Option<Arc<DirHandle>> {
    let entry = entry_of(node, c"x");
    cx.tool().target_of(&entry).map(|(held, _)| Arc::clone(held))
}

fn entry_of<T: Distributed>(node: &Arc<DirNode<T>>, name: &CStr) -> Entry<T> {
    Entry { node: Arc::clone(node), name: name.into(), kind: EntryType::Unknown, seen: None }
}

/// Stamps an item if its data is on storage, and reports it.
fn report_done<T: Distributed + 'static>(cx: &Context<'_, T>, node: &Arc<DirNode<T>>, is_flushed: bool) {
    let Some(item) = item_of(node) else { return };
    if is_flushed {
        item.stamp(cx, node, |entry| is_on_storage(cx, entry));
    }
    item.sink.done(item);
}

/// On FUSE, flushes the entry itself. Returns true if it is on storage.
fn is_on_storage<T: Distributed>(cx: &Context<'_, T>, entry: &Entry<T>) -> bool {
    let Some((held, name)) = cx.tool().target_of(entry) else { return false };
    let flush = || {
        let directory = cx.cache().open(held)?;
        if file_system_type(&*directory)? != magic::FUSE {
            return Ok(());
        }
        flush_entry(&directory, name)
    };
    flush().is_ok()
}

/// Flushes one entry of a directory.
fn flush_entry(directory: &Fd, name: &CStr) -> Result<(), Error> {
    // Pinned first: a symbolic link can't be opened, and opening a device may do anything.
    match Pinned::open(directory, name)?.open_regular()? {
        Some(file) => {
            synchronize(&file)?;
            file.close()
        }
        // Everything about it is in the directory, which can be flushed.
        None => with_readable(directory, |fd| synchronize(fd)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::CString;
    use std::mem::MaybeUninit;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::{fs, io};

    use haul_sys::{FileType, Mode, Open, Special, device_number, make_special, open_path};
    use rustix::fs::inotify;

    use super::*;

    /// Names of the entries of a watched directory that were opened since the last call. An
    /// `O_PATH` descriptor doesn't count: it opens nothing.
    fn opened(watch: impl rustix::fd::AsFd) -> io::Result<BTreeSet<CString>> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(watch, &mut buffer);
        let mut names = BTreeSet::new();
        loop {
            match events.next() {
                // The directory itself has no name here.
                Ok(event) => names.extend(event.file_name().map(CStr::to_owned)),
                Err(rustix::io::Errno::AGAIN) => return Ok(names),
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[test]
    fn only_regular_files_are_opened_to_be_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let directory = CString::new(folder.path().as_os_str().as_encoded_bytes()).unwrap();
        let directory = open_path(&directory, Open::DIRECTORY).unwrap();
        fs::write(path("regular"), "x").unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        symlink("regular", path("link")).unwrap();
        drop(UnixListener::bind(path("socket")).unwrap());
        let mode = Mode::new(0o600);
        let fifo = Special { kind: FileType::Fifo, mode, device_number: 0 };
        make_special(&directory, c"fifo", fifo).unwrap();
        let mut names = vec![c"regular", c"dangling", c"link", c"socket", c"fifo"];
        // Like `/dev/null`, so that opening it would succeed. Only root can make it.
        let null = Special { kind: FileType::CharacterDevice, mode, device_number: device_number(1, 3) };
        if make_special(&directory, c"device", null).is_ok() {
            names.push(c"device");
        }
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).unwrap();
        inotify::add_watch(&watch, folder.path(), inotify::WatchFlags::OPEN).unwrap();
        for name in names {
            flush_entry(&directory, name).unwrap();
        }
        assert_eq!(opened(&watch).unwrap(), BTreeSet::from([c"regular".to_owned()]));
        assert!(flush_entry(&directory, c"missing").is_err());
    }
}
