//! The tree: names and attributes in memory, the contents of each file in a file of the
//! backing directory.
//!
//! Everything is under the tree lock of the [`Model`](crate::model::Model), except for data
//! transfers: an [`BackingFile`] is used without it. Inode numbers are never reused, so it does not
//! matter which ones a client still remembers.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;

use crate::layout::{Placement, StripeLayout};

pub(crate) const ROOT: u64 = 1;
/// Maximum length of a name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A result with the errno to return to the kernel.
pub(crate) type ErrnoResult<T> = Result<T, Errno>;

/// The backing file of a file's contents.
pub(crate) type BackingFile = Arc<File>;

#[derive(Debug)]
pub(crate) enum Body {
    Directory {
        entries: BTreeMap<OsString, u64>,
        parent: u64,
        /// Default layout of new files.
        layout: Option<StripeLayout>,
    },
    File {
        /// Its backing file, while the node is open and has one.
        object: Option<BackingFile>,
        has_object: bool,
        /// Its layout; `None` until one is set or the file is written to.
        layout: Option<StripeLayout>,
    },
    Symlink(OsString),
    /// A pipe, a socket or a device.
    Special,
}

#[derive(Debug)]
pub(crate) struct InodeRecord {
    pub(crate) body: Body,
    /// Type and permissions, as in `st_mode`.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) device: u32,
    pub(crate) links: u32,
    pub(crate) size: u64,
    pub(crate) accessed: SystemTime,
    /// Last change of the content.
    pub(crate) modified: SystemTime,
    /// Last change of anything.
    pub(crate) changed: SystemTime,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
    pub(crate) opens: u32,
    /// First name, for matching faults; empty while there was none.
    pub(crate) first_name: OsString,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FileCreator {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
    pub(crate) device: u32,
}

impl InodeRecord {
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }

    /// Records a change of the attributes.
    pub(crate) fn touch(&mut self) {
        self.changed = SystemTime::now();
    }

    /// Records a change of the content.
    pub(crate) fn modify(&mut self) {
        self.touch();
        self.modified = self.changed;
    }
}

#[derive(Debug)]
pub(crate) struct BackedTree {
    backing: PathBuf,
    nodes: HashMap<u64, InodeRecord>,
    next: u64,
    placement: Placement,
}

impl BackedTree {
    /// Creates an empty tree that stores file contents in `backing`.
    pub(crate) fn new(backing: &Path, placement: Placement) -> Self {
        let body = Body::Directory { entries: BTreeMap::new(), parent: ROOT, layout: None };
        let maker = FileCreator { user: 0, group: 0, mode: libc::S_IFDIR | 0o755, device: 0 };
        let mut root = node(body, maker, OsStr::new(""));
        root.links = 2;
        let nodes = HashMap::from([(ROOT, root)]);
        Self { backing: backing.to_owned(), nodes, next: ROOT + 1, placement }
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, number: u64) -> ErrnoResult<&InodeRecord> {
        self.nodes.get(&number).ok_or(Errno::STALE)
    }

    pub(crate) fn node_mut(&mut self, number: u64) -> ErrnoResult<&mut InodeRecord> {
        self.nodes.get_mut(&number).ok_or(Errno::STALE)
    }

    fn entries(&self, directory: u64) -> ErrnoResult<&BTreeMap<OsString, u64>> {
        match &self.node(directory)?.body {
            Body::Directory { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn entries_mut(&mut self, directory: u64) -> ErrnoResult<&mut BTreeMap<OsString, u64>> {
        let node = self.node_mut(directory)?;
        node.modify();
        match &mut node.body {
            Body::Directory { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(crate) fn lookup(&self, directory: u64, name: &OsStr) -> ErrnoResult<u64> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        self.entries(directory)?.get(name).copied().ok_or(Errno::NOENT)
    }

    /// Lists a directory, `.` and `..` first.
    pub(crate) fn list(&self, directory: u64) -> ErrnoResult<Vec<(u64, u32, OsString)>> {
        let Body::Directory { entries, parent, .. } = &self.node(directory)?.body else {
            return Err(Errno::NOTDIR);
        };
        let itself = [(directory, libc::S_IFDIR, ".".into()), (*parent, libc::S_IFDIR, "..".into())];
        let rest = entries.iter().map(|(name, number)| {
            let mode = self.nodes.get(number).map_or(0, |node| node.mode);
            (*number, mode, name.clone())
        });
        Ok(itself.into_iter().chain(rest).collect())
    }

    pub(crate) fn make(
        &mut self,
        directory: u64,
        name: &OsStr,
        maker: FileCreator,
        symlink: Option<&OsStr>,
    ) -> ErrnoResult<u64> {
        match self.lookup(directory, name) {
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let number = self.make_node((directory, name), maker, symlink)?;
        self.entries_mut(directory)?.insert(name.to_owned(), number);
        if self.node(number)?.is_directory() {
            self.node_mut(directory)?.links += 1;
        }
        Ok(number)
    }

    /// Makes a regular file that has no name yet. It vanishes if it is closed before it has one.
    pub(crate) fn make_unnamed(&mut self, directory: u64, maker: FileCreator) -> ErrnoResult<u64> {
        let number = self.make_node((directory, OsStr::new("")), maker, None)?;
        self.node_mut(number)?.links = 0;
        Ok(number)
    }

    /// Makes a node that is in no directory, with what it inherits from one.
    fn make_node(
        &mut self,
        (directory, name): (u64, &OsStr),
        mut maker: FileCreator,
        symlink: Option<&OsStr>,
    ) -> ErrnoResult<u64> {
        let number = self.next;
        let parent = self.node(directory)?;
        if parent.links == 0 {
            return Err(Errno::NOENT);
        }
        let inherited = match &parent.body {
            Body::Directory { layout, .. } => layout.clone(),
            _ => None,
        };
        if parent.mode & libc::S_ISGID != 0 {
            maker.group = parent.group;
            if maker.mode & libc::S_IFMT == libc::S_IFDIR {
                maker.mode |= libc::S_ISGID;
            }
        }
        let body = match (maker.mode & libc::S_IFMT, symlink) {
            (_, Some(to)) => Body::Symlink(to.to_owned()),
            (libc::S_IFDIR, _) => {
                Body::Directory { entries: BTreeMap::new(), parent: directory, layout: inherited }
            }
            (libc::S_IFREG, _) => Body::File { object: None, has_object: false, layout: None },
            _ => Body::Special,
        };
        let is_directory = matches!(body, Body::Directory { .. });
        let mut made = node(body, maker, name);
        made.size = symlink.map_or(0, |to| to.len() as u64);
        made.links = if is_directory { 2 } else { 1 };
        self.next += 1;
        self.nodes.insert(number, made);
        Ok(number)
    }

    pub(crate) fn link(&mut self, number: u64, directory: u64, name: &OsStr) -> ErrnoResult<()> {
        if self.node(number)?.is_directory() {
            return Err(Errno::PERM);
        }
        // The kernel refuses one that has lost its last name.
        if self.node(number)?.links == 0 && self.node(number)?.opens == 0 {
            return Err(Errno::NOENT);
        }
        match self.lookup(directory, name) {
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        self.entries_mut(directory)?.insert(name.to_owned(), number);
        let node = self.node_mut(number)?;
        node.links += 1;
        if node.first_name.is_empty() {
            node.first_name = name.to_owned();
        }
        node.touch();
        Ok(())
    }

    /// Removes a name of something that isn't a directory.
    pub(crate) fn remove_file(&mut self, directory: u64, name: &OsStr) -> ErrnoResult<()> {
        self.remove(directory, name, false)
    }

    /// Removes the name of an empty directory.
    pub(crate) fn remove_directory(&mut self, directory: u64, name: &OsStr) -> ErrnoResult<()> {
        self.remove(directory, name, true)
    }

    fn remove(&mut self, directory: u64, name: &OsStr, directory_wanted: bool) -> ErrnoResult<()> {
        let number = self.lookup(directory, name)?;
        self.check_removal(number, directory_wanted)?;
        self.entries_mut(directory)?.remove(name);
        self.forget_name(directory, number)
    }

    fn check_removal(&self, number: u64, directory_wanted: bool) -> ErrnoResult<()> {
        match (&self.node(number)?.body, directory_wanted) {
            (Body::Directory { entries, .. }, true) if !entries.is_empty() => Err(Errno::NOTEMPTY),
            (Body::Directory { .. }, false) => Err(Errno::ISDIR),
            (Body::Directory { .. }, true) | (_, false) => Ok(()),
            (_, true) => Err(Errno::NOTDIR),
        }
    }

    /// Decrements a node's link count and frees the node if it is unused.
    fn forget_name(&mut self, directory: u64, number: u64) -> ErrnoResult<()> {
        let node = self.node_mut(number)?;
        node.touch();
        if node.is_directory() {
            node.links = 0;
            let parent = self.node_mut(directory)?;
            parent.links = parent.links.saturating_sub(1);
        } else {
            node.links = node.links.saturating_sub(1);
        }
        self.drop_unused(number);
        Ok(())
    }

    fn drop_unused(&mut self, number: u64) {
        if !self.nodes.get(&number).is_some_and(|node| node.links == 0 && node.opens == 0) {
            return;
        }
        if let Some(InodeRecord { body: Body::File { has_object: true, .. }, .. }) =
            self.nodes.remove(&number)
        {
            // If this fails, the file only takes up space in the backing directory.
            std::fs::remove_file(self.path(number)).unwrap_or_default();
        }
    }

    /// Renames. `replace` says whether an existing target may be replaced.
    pub(crate) fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        replace: bool,
    ) -> ErrnoResult<()> {
        let number = self.lookup(from.0, from.1)?;
        let moves_directory = self.node(number)?.is_directory();
        if moves_directory && self.is_below(to.0, number) {
            return Err(Errno::INVAL);
        }
        let replaced = match self.lookup(to.0, to.1) {
            Ok(_) if !replace => return Err(Errno::EXIST),
            // Two names of one inode: rename(2) leaves both in place.
            Ok(there) if there == number => return Ok(()),
            Ok(there) => Some(there),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        if let Some(there) = replaced {
            self.check_removal(there, moves_directory)?;
        }
        self.entries_mut(from.0)?.remove(from.1);
        self.entries_mut(to.0)?.insert(to.1.to_owned(), number);
        if let Some(there) = replaced {
            self.forget_name(to.0, there)?;
        }
        self.update_links(number, from.0, to.0)
    }

    pub(crate) fn exchange(&mut self, one: (u64, &OsStr), other: (u64, &OsStr)) -> ErrnoResult<()> {
        let (first, second) = (self.lookup(one.0, one.1)?, self.lookup(other.0, other.1)?);
        if self.is_below(other.0, first) || self.is_below(one.0, second) {
            return Err(Errno::INVAL);
        }
        self.entries_mut(one.0)?.insert(one.1.to_owned(), second);
        self.entries_mut(other.0)?.insert(other.1.to_owned(), first);
        self.update_links(first, one.0, other.0)?;
        self.update_links(second, other.0, one.0)
    }

    /// Updates the parent and the link counts after a move.
    fn update_links(&mut self, number: u64, from: u64, to: u64) -> ErrnoResult<()> {
        let node = self.node_mut(number)?;
        node.touch();
        if let Body::Directory { parent, .. } = &mut node.body {
            *parent = to;
            self.node_mut(from)?.links -= 1;
            self.node_mut(to)?.links += 1;
        }
        Ok(())
    }

    fn is_below(&self, mut directory: u64, above: u64) -> bool {
        loop {
            if directory == above {
                return true;
            }
            match self.node(directory).map(|node| &node.body) {
                Ok(Body::Directory { parent, .. }) if directory != ROOT => directory = *parent,
                _ => return false,
            }
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.backing.join(format!("{number:x}"))
    }

    pub(crate) fn open(&mut self, number: u64) -> ErrnoResult<()> {
        self.node_mut(number)?.opens += 1;
        Ok(())
    }

    /// Counts a close; frees the node if it is unused.
    pub(crate) fn close(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.opens = node.opens.saturating_sub(1);
            if let (0, Body::File { object, .. }) = (node.opens, &mut node.body) {
                *object = None;
            }
        }
        self.drop_unused(number);
    }

    /// Returns the backing file of a file, creating it if `make` is set; `None` if there is none.
    pub(crate) fn object(&mut self, number: u64, make: bool) -> ErrnoResult<Option<BackingFile>> {
        let path = self.path(number);
        let node = self.node_mut(number)?;
        let is_open = node.opens > 0;
        let Body::File { object, has_object, .. } = &mut node.body else { return Err(Errno::INVAL) };
        if let Some(object) = object {
            return Ok(Some(Arc::clone(object)));
        }
        if !*has_object && !make {
            return Ok(None);
        }
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(errno)?;
        *has_object = true;
        let file = Arc::new(file);
        if is_open {
            *object = Some(Arc::clone(&file));
        }
        Ok(Some(file))
    }

    /// Returns the space a file's contents take, in units of 512 bytes.
    pub(crate) fn blocks(&self, number: u64) -> u64 {
        match self.nodes.get(&number).map(|node| &node.body) {
            Some(Body::File { object: Some(object), .. }) => {
                object.metadata().map_or(0, |found| found.blocks())
            }
            Some(Body::File { has_object: true, .. }) => {
                std::fs::metadata(self.path(number)).map_or(0, |found| found.blocks())
            }
            _ => 0,
        }
    }

    /// Gives a file without a layout the default of its directory or of the file system, and places
    /// the components that overlap `range`.
    pub(crate) fn lay_out(
        &mut self,
        number: u64,
        directory: Option<u64>,
        range: std::ops::Range<u64>,
    ) -> ErrnoResult<()> {
        let inherited = match directory.map(|directory| self.node(directory).map(|node| &node.body)) {
            Some(Ok(Body::Directory { layout, .. })) => layout.clone(),
            _ => None,
        };
        let Some(InodeRecord { body: Body::File { layout, .. }, .. }) = self.nodes.get_mut(&number) else {
            return Err(Errno::STALE);
        };
        let layout = layout.get_or_insert_with(|| {
            inherited.unwrap_or_else(|| StripeLayout::plain(crate::layout::Stripes::unspecified()))
        });
        self.placement.place(layout, range);
        Ok(())
    }

    /// Sets the layout of a file that has none, or the default layout of a directory.
    pub(crate) fn set_layout(&mut self, number: u64, wanted: StripeLayout) -> ErrnoResult<()> {
        let node = self.node_mut(number)?;
        node.touch();
        match &mut node.body {
            Body::Directory { layout, .. } => {
                *layout = (!wanted.is_unspecified()).then_some(wanted);
                return Ok(());
            }
            // Like on Lustre, setting a second layout succeeds without effect.
            Body::File { layout: Some(_), .. } => return Ok(()),
            Body::File { layout, .. } => *layout = Some(wanted),
            _ => return Err(Errno::INVAL),
        }
        self.lay_out(number, None, 0..1)
    }
}

fn node(body: Body, maker: FileCreator, name: &OsStr) -> InodeRecord {
    let now = SystemTime::now();
    InodeRecord {
        body,
        mode: maker.mode,
        user: maker.user,
        group: maker.group,
        device: maker.device,
        links: 1,
        size: 0,
        accessed: now,
        modified: now,
        changed: now,
        xattrs: BTreeMap::new(),
        opens: 0,
        first_name: name.to_owned(),
    }
}

pub(crate) fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
