//! Operations on nodes and their contents.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use fuser::{FileAttr, FileType, INodeNo, Request, TimeOrNow};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::BLOCK_BYTES;
use crate::layout::StripeLayout;
use crate::tree::{BackedTree, BackingFile, Body, ErrnoResult, FileCreator, InodeRecord, errno};

pub(super) fn layout(node: &InodeRecord) -> Option<StripeLayout> {
    match &node.body {
        Body::File { layout, .. } => layout.clone(),
        _ => None,
    }
}

/// Clears the set-ID bits and capabilities, like a write by an unprivileged user.
pub(super) fn drop_privileges(node: &mut InodeRecord) {
    node.mode &= !libc::S_ISUID;
    if node.mode & libc::S_IXGRP != 0 {
        node.mode &= !libc::S_ISGID;
    }
    node.xattrs.remove(OsStr::new("security.capability"));
}

pub(super) fn attributes(tree: &BackedTree, number: u64) -> ErrnoResult<FileAttr> {
    let node = tree.node(number)?;
    Ok(FileAttr {
        ino: INodeNo(number),
        size: node.size,
        blocks: tree.blocks(number),
        atime: node.accessed,
        mtime: node.modified,
        ctime: node.changed,
        crtime: node.changed,
        kind: file_type(node.mode),
        perm: (node.mode & 0o7777) as u16,
        nlink: node.links,
        uid: node.user,
        gid: node.group,
        rdev: node.device,
        blksize: BLOCK_BYTES,
        flags: 0,
    })
}

pub(super) fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

pub(super) fn time(wanted: TimeOrNow) -> SystemTime {
    match wanted {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

pub(super) fn maker(request: &Request, mode: u32) -> FileCreator {
    FileCreator { user: request.uid(), group: request.gid(), mode, device: 0 }
}

pub(super) fn truncate(tree: &mut BackedTree, number: u64, size: u64) -> ErrnoResult<()> {
    if size > 0 {
        tree.lay_out(number, None, 0..1)?;
    }
    if let Some(object) = tree.object(number, size > 0)? {
        object.set_len(size).map_err(errno)?;
    }
    let node = tree.node_mut(number)?;
    node.size = size;
    node.modify();
    Ok(())
}

/// Implements `SEEK_DATA` and `SEEK_HOLE`. An object may be shorter than its file; the file then
/// ends in a hole.
pub(super) fn seek(tree: &mut BackedTree, number: u64, offset: i64, whence: i32) -> ErrnoResult<i64> {
    let object = tree.object(number, false)?;
    let size = tree.node(number)?.size;
    let from = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
    if from >= size {
        return Err(Errno::NXIO);
    }
    let wanted = match whence {
        libc::SEEK_DATA => SeekFrom::Data(from),
        libc::SEEK_HOLE => SeekFrom::Hole(from),
        _ => return Err(Errno::INVAL),
    };
    let found = match object.map(|object| rustix::fs::seek(&*object, wanted)) {
        Some(Err(Errno::NXIO)) | None if whence == libc::SEEK_HOLE => from,
        Some(outcome) => outcome?,
        None => return Err(Errno::NXIO),
    };
    i64::try_from(found).map_err(|_| Errno::OVERFLOW)
}

/// Reads from an object; `bytes` past its end stay zero.
pub(super) fn read_zeros_beyond(object: &BackingFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match object.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(())
}
