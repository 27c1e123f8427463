//! One mount: a request of the kernel takes effect in the tree at once, and the reply is sent at
//! the modelled time.
//!
//! Every operation that names a file or asks for its attributes costs a metadata operation. Opening
//! is free (the lookup before it was counted, and Lustre does both in one request), and so are
//! closing and `statfs`.

mod nodes;
mod opens;
mod steps;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use nodes::{attributes, drop_privileges, file_type, maker, read_zeros_beyond, seek, time, truncate};
use opens::Opens;

use crate::model::{Budget, Model};
use crate::relay::UNNAMED;
use crate::statistics::RequestKind;
use crate::tree::{BackedTree, Body, ErrnoResult, FileCreator, errno};

/// Maximum size of a data request, in bytes; the kernel's own limit is usually the same.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of background requests of the kernel (read-ahead, direct I/O).
const BACKGROUND_REQUESTS: u16 = 256;
/// Preferred I/O size reported to programs (`st_blksize`), in bytes.
const BLOCK_BYTES: u32 = 1 << 20;

type DirectoryListing = Arc<Vec<(u64, u32, OsString)>>;

pub(crate) struct MountClient {
    model: Arc<Model>,
    budget: Arc<Budget>,
    opens: Opens,
    listings: Mutex<HashMap<u64, DirectoryListing>>,
    next_listing: AtomicU64,
}

pub(crate) fn to_fuse(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

impl MountClient {
    pub(crate) fn new(model: Arc<Model>, number: usize) -> Self {
        let budget = Arc::new(Budget::new(number, &model.settings));
        let (opens, listings) = (Opens::default(), Mutex::default());
        Self { model, budget, opens, listings, next_listing: AtomicU64::new(1) }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Applies `act` to the tree, unless a fault strikes, and calls `answer` at the modelled time.
    pub(crate) fn operate<R: Send + 'static, T: Send + 'static>(
        &self,
        (kind, about): (RequestKind, About<'_>),
        reply: R,
        act: impl FnOnce(&mut BackedTree) -> ErrnoResult<T>,
        answer: impl FnOnce(R, ErrnoResult<T>) + Send + 'static,
    ) {
        let at = self.budget.operate(&self.model, kind);
        let outcome = {
            let mut tree = self.model.tree();
            self.check(&tree, kind.name(), about).and_then(|()| act(&mut tree))
        };
        self.model.timer.at(at, move || answer(reply, outcome));
    }
}

/// Returns the bytes with another bit in the middle.
fn with_a_flip(bytes: &[u8]) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    let middle = flipped.len() / 2;
    flipped.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x40);
    flipped
}

/// Subject of an operation, for matching faults.
#[derive(Clone, Copy)]
pub(crate) enum About<'a> {
    Name(&'a OsStr),
    Node(INodeNo),
}

impl Filesystem for MountClient {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Capabilities the kernel lacks are optional; limits become the nearest allowed value.
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            // Otherwise the kernel asks for an attribute (security.capability) before every write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            config.add_capabilities(wanted).unwrap_or_default();
        }
        if !self.model.settings.keep_pages {
            config.add_capabilities(InitFlags::FUSE_AUTO_INVAL_DATA).unwrap_or_default();
        }
        config.set_max_write(REQUEST_BYTES_MAX).unwrap_or_default();
        config.set_max_background(BACKGROUND_REQUESTS).unwrap_or_default();
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry((RequestKind::Lookup, name), reply, |tree| tree.lookup(parent.0, name));
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.attr((RequestKind::GetAttributes, number), reply, |_| Ok(()));
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _change: Option<SystemTime>,
        _backup: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let is_root = request.uid() == 0;
        self.attr((RequestKind::SetAttributes, number), reply, |tree| {
            if let Some(size) = size {
                truncate(tree, number.0, size)?;
            }
            let node = tree.node_mut(number.0)?;
            if user.is_some() || group.is_some() || (size.is_some() && !is_root) {
                drop_privileges(node);
            }
            node.mode = mode.map_or(node.mode, |mode| node.mode & libc::S_IFMT | mode & 0o7777);
            node.user = user.unwrap_or(node.user);
            node.group = group.unwrap_or(node.group);
            node.touch();
            node.accessed = accessed.map_or(node.accessed, time);
            node.modified = modified.map_or(node.modified, time);
            Ok(())
        });
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let act = |tree: &mut BackedTree| match &tree.node(number.0)?.body {
            Body::Symlink(to) => Ok(to.clone()),
            _ => Err(Errno::INVAL),
        };
        self.operate(
            (RequestKind::ReadLink, About::Node(number)),
            reply,
            act,
            |reply, outcome| match outcome {
                Ok(to) => reply.data(to.as_bytes()),
                Err(errno) => reply.error(to_fuse(errno)),
            },
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let maker = FileCreator { device, ..maker(request, mode) };
        self.entry((RequestKind::MakeNode, name), reply, |tree| tree.make(parent.0, name, maker, None));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let maker = maker(request, libc::S_IFDIR | mode & 0o7777);
        self.entry((RequestKind::MakeDirectory, name), reply, |tree| tree.make(parent.0, name, maker, None));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty((RequestKind::Unlink, About::Name(name)), reply, |tree| tree.remove_file(parent.0, name));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let what = (RequestKind::RemoveDirectory, About::Name(name));
        self.empty(what, reply, |tree| tree.remove_directory(parent.0, name));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, to: &Path, reply: ReplyEntry) {
        let maker = maker(request, libc::S_IFLNK | 0o777);
        let make = |tree: &mut BackedTree| tree.make(parent.0, name, maker, Some(to.as_os_str()));
        self.entry((RequestKind::Symlink, name), reply, make);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        self.empty((RequestKind::Rename, About::Name(name)), reply, |tree| {
            if flags.contains(RenameFlags::RENAME_EXCHANGE) {
                tree.exchange(from, to)
            } else if flags.contains(RenameFlags::RENAME_WHITEOUT) {
                Err(Errno::INVAL)
            } else {
                tree.rename(from, to, !flags.contains(RenameFlags::RENAME_NOREPLACE))
            }
        });
    }

    fn link(
        &self,
        _request: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.entry((RequestKind::Link, new_name), reply, |tree| {
            tree.link(number.0, new_parent.0, new_name).map(|()| number.0)
        });
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.0 & libc::O_ACCMODE != libc::O_RDONLY;
        // A delayed create: the caller will set the layout.
        let delays = flags.0 & libc::O_ASYNC != 0;
        let mut tree = self.model.tree();
        self.model.statistics.count_operation(RequestKind::Open);
        let outcome = self.check(&tree, RequestKind::Open.name(), About::Node(number)).and_then(|()| {
            let is_file = matches!(tree.node(number.0)?.body, Body::File { .. });
            if is_file && writes && !delays {
                tree.lay_out(number.0, None, 0..1)?;
            }
            tree.open(number.0)
        });
        let refuses_offsets = self.refuses_offsets(&tree, number);
        drop(tree);
        match outcome {
            Ok(()) => {
                let mut flags = FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                flags.set(FopenFlags::FOPEN_KEEP_CACHE, self.opens.begin(number.0));
                flags.set(FopenFlags::FOPEN_NONSEEKABLE, refuses_offsets);
                reply.opened(FileHandle(0), flags);
            }
            Err(errno) => reply.error(to_fuse(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let maker = maker(request, libc::S_IFREG | mode & 0o7777);
        let cache_time = self.model.settings.cache_time;
        let is_unnamed = name == UNNAMED;
        let make = |tree: &mut BackedTree| {
            let made = match is_unnamed {
                true => tree.make_unnamed(parent.0, maker),
                false => tree.make(parent.0, name, maker, None),
            };
            let number = match made {
                // Another client was faster; only O_EXCL makes that an error.
                Err(Errno::EXIST) if flags & libc::O_EXCL == 0 => tree.lookup(parent.0, name)?,
                outcome => outcome?,
            };
            if flags & libc::O_ASYNC == 0 {
                tree.lay_out(number, Some(parent.0), 0..1)?;
            }
            tree.open(number)?;
            self.opens.begin(number);
            attributes(tree, number)
        };
        let kind = if is_unnamed { RequestKind::CreateUnnamed } else { RequestKind::Create };
        self.operate((kind, About::Name(name)), reply, make, move |reply, outcome| match outcome {
            Ok(attributes) => {
                let flags = FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                reply.created(&cache_time, &attributes, Generation(0), FileHandle(0), flags);
            }
            Err(errno) => reply.error(to_fuse(errno)),
        });
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut range = offset..offset.saturating_add(u64::from(size));
        let (object, layout) = match self.begin_read(number.0, &mut range) {
            Ok(begun) => begun,
            Err(errno) => return reply.error(to_fuse(errno)),
        };
        let at = self.budget.read(&self.model, layout.as_ref(), range.clone());
        self.model.timer.at(at, move || {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or_default()];
            match object.map_or(Ok(()), |object| read_zeros_beyond(&object, &mut bytes, range.start)) {
                Ok(()) => reply.data(&bytes),
                Err(error) => reply.error(to_fuse(errno(error))),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        flags: WriteFlags,
        _open_flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let range = offset..offset.saturating_add(bytes.len() as u64);
        let kills = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let outcome = self.begin_write(number.0, range.clone()).and_then(|(object, layout)| {
            let flipped = self.flips(number).then(|| with_a_flip(bytes));
            let bytes = flipped.as_deref().unwrap_or(bytes);
            object.ok_or(Errno::IO)?.write_all_at(bytes, offset).map_err(errno)?;
            self.end_write(number.0, range.end, kills)?;
            Ok(layout)
        });
        let layout = match outcome {
            Ok(layout) => layout,
            Err(errno) => return reply.error(to_fuse(errno)),
        };
        let written = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let at = self.budget.write(&self.model, layout.as_ref(), range);
        self.model.timer.at(at, move || reply.written(written));
    }

    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.opens.end(number.0);
        self.model.tree().close(number.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        _data: bool,
        reply: ReplyEmpty,
    ) {
        self.drain(number, reply);
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        _data: bool,
        reply: ReplyEmpty,
    ) {
        self.drain(number, reply);
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.model.tree().list(number.0) {
            Ok(listing) => {
                let handle = self.next_listing.fetch_add(1, Ordering::Relaxed);
                let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
                listings.insert(handle, Arc::new(listing));
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(errno) => reply.error(to_fuse(errno)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        if offset == 0 {
            // A rewound directory must show its current contents.
            let listing = self.model.tree().list(number.0).map(Arc::new);
            if let Ok(listing) = listing {
                let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
                listings.insert(handle.0, listing);
            }
        }
        let listing = {
            let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
            listings.get(&handle.0).cloned()
        };
        let what = (RequestKind::List, About::Node(number));
        self.operate(
            what,
            reply,
            |_| listing.ok_or(Errno::BADF),
            move |mut reply, outcome| match outcome {
                Ok(listing) => {
                    let first = usize::try_from(offset).unwrap_or(usize::MAX);
                    for (index, (number, mode, name)) in listing.iter().enumerate().skip(first) {
                        if reply.add(INodeNo(*number), index as u64 + 1, file_type(*mode), name) {
                            break;
                        }
                    }
                    reply.ok();
                }
                Err(errno) => reply.error(to_fuse(errno)),
            },
        );
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        let files = self.model.tree().count() as u64;
        match rustix::fs::statvfs(&self.model.settings.backing) {
            Ok(room) => {
                let unit = u32::try_from(room.f_frsize).unwrap_or(4096);
                reply.statfs(
                    room.f_blocks,
                    room.f_bfree,
                    room.f_bavail,
                    files,
                    u64::MAX >> 1,
                    unit,
                    255,
                    unit,
                );
            }
            Err(errno) => reply.error(to_fuse(errno)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.set_xattr((number, name), value, flags, reply);
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.get_xattr((number, name), size, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.list_xattrs(number, request.uid() == 0, size, reply);
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove_xattr((number, name), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        self.empty((RequestKind::SetAttributes, About::Node(number)), reply, |tree| {
            tree.lay_out(number.0, None, offset..offset.saturating_add(length))?;
            let object = tree.object(number.0, true)?.ok_or(Errno::INVAL)?;
            rustix::fs::fallocate(&*object, flags, offset, length)?;
            let node = tree.node_mut(number.0)?;
            if !flags.contains(FallocateFlags::KEEP_SIZE) {
                node.size = node.size.max(offset.saturating_add(length));
            }
            node.modify();
            Ok(())
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match seek(&mut self.model.tree(), number.0, offset, whence) {
            Ok(found) => reply.offset(found),
            Err(errno) => reply.error(to_fuse(errno)),
        }
    }
}
