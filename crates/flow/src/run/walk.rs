//! The parallel walk: turns directories into jobs.
//!
//! Entering a directory opens it, lets the tool create its counterpart, and lists it.
//! Subdirectories are shared first, so that others can go on with them. The other entries are
//! sorted by inode number within a window, cut into batches and shared. A directory larger than the
//! window is listed one window at a time; the next one is a job of its own, taken when enough
//! waiting entries are done.
//!
//! Invariant: every entry is completed exactly once, whatever happens to it, and so is every
//! listing (tests: `tests/order.rs`).

use std::sync::Arc;

use haul_sys::{DirectoryReader, EntryType, Errno, Error, Fd, FileType, Name, Names, Open, Stat};
use haul_sys::{open, stat, stat_at, stat_path};

use super::{Batch, Context, Job};
use crate::held::DirHandle;
use crate::node::{DirNode, Entry};
use crate::owner::OpenSubdir;
use crate::plan::{self, WINDOW_ENTRIES};
use crate::report::{Problem, Tally};
use crate::tool::{Enter, Failure, Handled, OpenDir, Plan, Tool};
use crate::wording;

/// Type of an entry, and whether it was reached through a symbolic link.
pub(super) struct Classified {
    pub(super) kind: EntryType,
    pub(super) follow: bool,
}

impl<T: Tool> Context<'_, T> {
    /// Determines the type of an entry. Needs a `stat` only if the listing gives no type or a link
    /// is to be followed.
    pub(super) fn classify(&self, entry: &mut Entry<T>) -> Result<Classified, Error> {
        let unknown = matches!(entry.kind, EntryType::Unknown | EntryType::Symlink);
        let follow = unknown && self.run.tool.follow(entry);
        if !unknown || (entry.kind == EntryType::Symlink && !follow) {
            return Ok(Classified { kind: entry.kind, follow: false });
        }
        let directory = self.run.cache.open(&entry.node.source)?;
        let seen = if follow {
            stat_path(Some(&*directory), entry.name(), true)?
        } else {
            stat_at(&*directory, entry.name())?
        };
        entry.seen = Some(seen.identity);
        let kind = match seen.kind {
            FileType::Regular => EntryType::Regular,
            FileType::Directory => EntryType::Directory,
            FileType::Symlink => EntryType::Symlink,
            _ => EntryType::Special,
        };
        Ok(Classified { kind, follow })
    }

    /// Shares a batch of subdirectories in halves, and enters the first of them.
    pub(super) fn enter_batch(&self, reader: &mut DirectoryReader, node: &Arc<DirNode<T>>, mut batch: Batch) {
        while batch.range.len() > 1 {
            let middle = batch.range.start + batch.range.len() / 2;
            let later = Batch { range: middle..batch.range.end, ..batch.clone() };
            self.share(Job::Enter(Arc::clone(node), later));
            batch.range.end = middle;
        }
        let index = batch.range.start;
        let name = Name::new(&batch.names, index);
        let entry = Entry { node: Arc::clone(node), name, kind: batch.names.entry(index).kind, seen: None };
        drop(batch);
        self.visit(reader, entry, false);
    }

    /// Enters a directory and lists it.
    pub(super) fn visit(&self, reader: &mut DirectoryReader, mut entry: Entry<T>, follow: bool) {
        let follow = match self.classify(&mut entry) {
            Ok(classified) => follow || classified.follow,
            Err(cause) => return self.give_up(&entry, Failure::Classify(&cause)),
        };
        match self.run.tool.plan(self, &entry, EntryType::Directory) {
            Plan::Enter => {}
            Plan::Read(_) | Plan::Skip => return self.complete(&entry),
            Plan::Handle => return self.handle(&entry, EntryType::Directory),
        }
        let how = if follow { Open::DIRECTORY.following() } else { Open::DIRECTORY };
        match self.open_directory(&entry, how) {
            Err(cause) if replaced(&cause) => self.give_up(&entry, Failure::Replaced),
            Err(cause) => self.give_up(&entry, Failure::OpenDir(&cause)),
            Ok((_, stat)) if entry.seen.is_some_and(|seen| seen != stat.identity) => {
                self.give_up(&entry, Failure::Replaced)
            }
            Ok((fd, stat)) => match &entry.node.owner {
                Some(owner) => {
                    owner.enter_dir(self, &entry, &OpenSubdir { source: fd.as_ref(), stat: &stat, follow });
                }
                None => self.enter(reader, &entry, how, fd, &stat),
            },
        }
    }

    /// Lets the tool handle an entry in one call.
    pub(super) fn handle(&self, entry: &Entry<T>, kind: EntryType) {
        if self.run.tool.handle(self, entry, kind) == Handled::Over {
            self.complete(entry);
        }
    }

    /// Opens and stats a directory. One that can't be read is stat'ed by name.
    fn open_directory(&self, entry: &Entry<T>, how: Open) -> Result<(Result<Arc<Fd>, Error>, Stat), Error> {
        let parent = self.run.cache.open(&entry.node.source)?;
        match open(&*parent, entry.name(), how) {
            Ok(fd) => {
                let stat = stat(&fd)?;
                Ok((Ok(Arc::new(fd)), stat))
            }
            Err(cause) if replaced(&cause) || cause.is(Errno::NOENT) => Err(cause),
            Err(cause) => {
                let stat = stat_path(Some(&*parent), entry.name(), how != Open::DIRECTORY)?;
                Ok((Err(cause), stat))
            }
        }
    }

    /// Continues with a directory that another process has entered and listed. `source` is its
    /// handle, `own` the tool's state for it.
    pub fn continue_dir(
        &self,
        entry: &Entry<T>,
        (source, stat): (Arc<DirHandle>, Stat),
        own: T::Directory,
        names: Names,
    ) {
        let node = DirNode::new(Some(Arc::clone(&entry.node)), source, Some(stat), own);
        self.count(Tally { discovered: names.len() as u64, ..Tally::default() });
        node.expect(names.len());
        self.share_entries(&node, names);
        self.finish_listing(&node);
    }

    fn enter(
        &self,
        reader: &mut DirectoryReader,
        entry: &Entry<T>,
        how: Open,
        fd: Result<Arc<Fd>, Error>,
        stat: &Stat,
    ) {
        let entered = self.run.tool.enter_dir(self, entry, &OpenDir { source: fd.as_ref(), stat });
        let (own, visit) = match entered {
            Enter::Visit(own) => (own, true),
            Enter::Bare(own) => (own, false),
            Enter::Over => return self.complete(entry),
        };
        let held = fd.as_ref().ok().cloned();
        let source = self.run.cache.hold(&entry.node.source, entry.name(), how, stat.identity, held);
        let node = DirNode::new(Some(Arc::clone(&entry.node)), source, Some(*stat), own);
        match fd {
            Ok(fd) if visit => return self.list(reader, &node, fd),
            Err(cause) if visit => {
                self.problem(Problem::new(wording::CANNOT_ACCESS).naming(entry.path()).because(cause));
            }
            _ => {}
        }
        self.finish_listing(&node);
    }

    /// Ends the listing of a directory, and counts the directory itself as finished. Its parent
    /// expects it until its node is complete.
    fn finish_listing(&self, node: &Arc<DirNode<T>>) {
        self.count(Tally { finished: 1, ..Tally::default() });
        self.release(node);
    }

    /// Lists a directory, or the next window of it, and shares the entries.
    pub(super) fn list(&self, reader: &mut DirectoryReader, node: &Arc<DirNode<T>>, fd: Arc<Fd>) {
        let mut names = Names::new();
        let more = match reader.read(&*fd, &mut names, WINDOW_ENTRIES) {
            Ok(more) => more,
            Err(cause) => {
                let path = node.source.path();
                self.problem(Problem::new(wording::CANNOT_ACCESS).naming(path).because(cause));
                false
            }
        };
        self.count(Tally { discovered: names.len() as u64, ..Tally::default() });
        node.expect(names.len());
        if more {
            self.share(Job::List(Arc::clone(node), fd));
        }
        self.share_entries(node, names);
        if !more {
            self.finish_listing(node);
        }
    }

    fn share_entries(&self, node: &Arc<DirNode<T>>, mut names: Names) {
        let mut directories = names.split_off(|listed| listed.kind != EntryType::Directory);
        if self.run.settings.switches.inode_order {
            names.sort_by_inode();
            directories.sort_by_inode();
        }
        let directories = Arc::new(directories);
        // The first batch is shared last: of directories, the job shared last is taken first.
        for range in plan::chunks(directories.len(), plan::CHUNK_ENTRIES).rev() {
            let batch = Batch { names: Arc::clone(&directories), range, looked_at: false };
            self.share(Job::Enter(Arc::clone(node), batch));
        }
        for range in plan::chunks(names.len(), self.run.driver.chunk_entries(names.len())) {
            // One list per batch, so that workers in one directory don't contend for its refcount.
            let batch = Batch::whole(names.part(range));
            self.share(Job::Files(Arc::clone(node), batch));
        }
    }

    /// Reports a failure of an entry, and completes it.
    pub(super) fn give_up(&self, entry: &Entry<T>, failure: Failure<'_>) {
        self.report_failure(entry, failure);
        self.complete(entry);
    }
}

/// Returns true if an open failed because a file of another type has taken the entry's place.
pub(super) fn replaced(cause: &Error) -> bool {
    cause.is(Errno::LOOP) || cause.is(Errno::NOTDIR) || cause.is(Errno::NXIO)
}
