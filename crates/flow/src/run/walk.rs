//! The parallel walk: directories become jobs.
//!
//! Entering a directory opens it, lets the tool make its own, and lists it: subdirectories are shared first, so that
//! others can go on with them; the rest is sorted by inode number within a window, cut in chunks and shared. A
//! directory larger than the window is listed in parts, the next part when enough of what waits has been done.
//!
//! Invariant: whatever happens to an entry, it is settled exactly once, and the listing itself once.

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

/// What is at an entry, as far as it had to be looked at.
pub(super) struct Classified {
    pub(super) kind: EntryType,
    pub(super) follow: bool,
}

impl<T: Tool> Context<'_, T> {
    /// Finds out what an entry is where the listing does not say, or where a link is to be followed.
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

    /// Enters the first of some subdirectories, after offering the others to everybody.
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

    /// Lets the tool deal with an entry by itself.
    pub(super) fn handle(&self, entry: &Entry<T>, kind: EntryType) {
        if self.run.tool.handle(self, entry, kind) == Handled::Over {
            self.complete(entry);
        }
    }

    /// Opens a directory and looks at it. One that may not be read is looked at all the same.
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

    /// Goes on with a directory that another process has entered and listed: `source` is held, and `own` is what the tool keeps
    /// for it.
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

    /// Ends the listing of a directory: the directory itself counts as an entry of its parent that is then finished
    /// with its node.
    fn finish_listing(&self, node: &Arc<DirNode<T>>) {
        self.count(Tally { finished: 1, ..Tally::default() });
        self.release(node);
    }

    /// Lists a directory, or the next part of it, and shares what is in it.
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
        // The first last: of directories that is the one taken next.
        for range in plan::chunks(directories.len(), plan::CHUNK_ENTRIES).rev() {
            let batch = Batch { names: Arc::clone(&directories), range, looked_at: false };
            self.share(Job::Enter(Arc::clone(node), batch));
        }
        for range in plan::chunks(names.len(), self.run.driver.chunk_entries(names.len())) {
            // A list for each chunk, so that workers in one directory do not pass the count of its references around.
            let batch = Batch::whole(names.part(range));
            self.share(Job::Files(Arc::clone(node), batch));
        }
    }

    /// Reports what failed with an entry, and completes it.
    pub(super) fn give_up(&self, entry: &Entry<T>, failure: Failure<'_>) {
        self.report_failure(entry, failure);
        self.complete(entry);
    }
}

/// Tells whether an open failed because something of another type stands in the place.
pub(super) fn replaced(cause: &Error) -> bool {
    cause.is(Errno::LOOP) || cause.is(Errno::NOTDIR) || cause.is(Errno::NXIO)
}
