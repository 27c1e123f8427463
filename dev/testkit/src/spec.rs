//! Describes a tree as plain data, and builds it.
//!
//! A [`Spec`] is a list of nodes. Each refers to its parent by an index into the directories before
//! it, modulo their number; a hard link refers to its target likewise. So every sublist of a valid
//! list is valid, and a property test can shrink a failing tree by dropping nodes.
//!
//! Building takes two passes. First everything is created, then metadata is set from the last node
//! to the first, so that a directory's times and mode are set after its children exist. Duplicate
//! names and overlong paths are skipped. For an ordinary user, so are devices, owners and
//! privileged attributes.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

use crate::random;

/// Maximum length of a path, in bytes, so that programs that use paths can run too.
const PATH_BYTES_MAX: usize = 2000;

/// A description of a tree. The root is a directory that is not in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The nodes, parents first.
    pub nodes: Vec<EntrySpec>,
}

/// A description of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySpec {
    /// Index of the parent directory, modulo the number of directories before this node;
    /// 0 is the root.
    pub parent: usize,
    /// Name: up to 255 bytes, without `/` and NUL.
    pub name: Vec<u8>,
    /// Type and content.
    pub kind: SpecKind,
    /// Permission, set-ID and sticky bits. Ignored for symbolic links.
    pub mode: u32,
    /// User and group, set if root builds the tree.
    pub owner: Option<(u32, u32)>,
    /// Modification time, seconds and nanoseconds.
    pub modified: (i64, u32),
    /// Extended attributes, including ACLs in their raw form (see [`acl`]).
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Type and content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecKind {
    /// A directory.
    Directory,
    /// A regular file made of consecutive pieces.
    File(Vec<PieceSpec>),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// Another name of an earlier non-directory, by index modulo their number.
    HardLink(usize),
    /// A named pipe.
    Fifo,
    /// A socket without a listener.
    Socket,
    /// A character device with major and minor number. Only root can create it.
    CharacterDevice(u32, u32),
    /// A block device with major and minor number. Only root can create it.
    BlockDevice(u32, u32),
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceSpec {
    /// Bytes generated from a seed.
    Data {
        /// Seed of the bytes.
        seed: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// Zeros that are written.
    Zeros(u64),
    /// Zeros that are not written.
    Hole(u64),
}

impl EntrySpec {
    /// Describes an entry with mode 0644 (0755 for a directory), no owner, no attributes, and a
    /// time with nanoseconds.
    pub fn new(parent: usize, name: impl Into<Vec<u8>>, kind: SpecKind) -> Self {
        let mode = if kind == SpecKind::Directory { 0o755 } else { 0o644 };
        Self {
            parent,
            name: name.into(),
            kind,
            mode,
            owner: None,
            modified: (1_234_567_890, 123_456_789),
            attributes: Vec::new(),
        }
    }

    /// Describes a file of `bytes` bytes generated from `seed`.
    pub fn file(parent: usize, name: impl Into<Vec<u8>>, seed: u64, bytes: u64) -> Self {
        Self::new(parent, name, SpecKind::File(vec![PieceSpec::Data { seed, bytes }]))
    }

    /// Sets the mode.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the owner.
    pub fn owner(mut self, user: u32, group: u32) -> Self {
        self.owner = Some((user, group));
        self
    }

    /// Sets the modification time.
    pub fn modified(mut self, seconds: i64, nanoseconds: u32) -> Self {
        self.modified = (seconds, nanoseconds);
        self
    }

    /// Adds an extended attribute.
    pub fn attribute(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}

impl Spec {
    /// Builds the tree. `root` is created unless it is already a directory. Attributes unsupported
    /// by the file system are skipped.
    pub fn build(&self, root: &Path) -> io::Result<()> {
        if !root.is_dir() {
            fs::create_dir(root)?;
        }
        let privileged = rustix::process::geteuid().is_root();
        let mut directories = vec![root.to_owned()];
        let mut others: Vec<PathBuf> = Vec::new();
        let mut taken = HashSet::new();
        let mut made: Vec<(PathBuf, &EntrySpec)> = Vec::new();
        for node in &self.nodes {
            let path = directories[node.parent % directories.len()].join(OsStr::from_bytes(&node.name));
            let too_long = path.as_os_str().len() > root.as_os_str().len() + PATH_BYTES_MAX;
            let device = matches!(node.kind, SpecKind::CharacterDevice(..) | SpecKind::BlockDevice(..));
            if too_long || (device && !privileged) || !taken.insert(path.clone()) {
                continue;
            }
            match &node.kind {
                SpecKind::Directory => {
                    fs::create_dir(&path)?;
                    directories.push(path.clone());
                }
                SpecKind::HardLink(_) if others.is_empty() => continue,
                SpecKind::HardLink(which) => {
                    fs::hard_link(&others[which % others.len()], &path)?;
                    continue;
                }
                kind => {
                    make(&path, kind)?;
                    others.push(path.clone());
                }
            }
            made.push((path, node));
        }
        for (path, node) in made.iter().rev() {
            dress(path, node, privileged).map_err(|error| {
                io::Error::new(error.kind(), format!("metadata of {}: {error}", path.display()))
            })?;
        }
        Ok(())
    }
}

/// Returns a POSIX ACL in raw form: owner, group and others as in `mode`, and one named user with
/// the permissions `named`.
///
/// The layout is the kernel's: a version word, then tag, permissions and ID of each
/// entry, little-endian.
pub fn acl(mode: u32, named_user: u32, named: u16) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let group = ((mode >> 3) & 7) as u16;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, ((mode >> 6) & 7) as u16, NO_ID),
        (0x02, named, named_user),
        (0x04, group, NO_ID),
        (0x10, group | named, NO_ID),
        (0x20, (mode & 7) as u16, NO_ID),
    ];
    let mut raw = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        raw.extend(tag.to_le_bytes());
        raw.extend(permissions.to_le_bytes());
        raw.extend(id.to_le_bytes());
    }
    raw
}

fn make(path: &Path, kind: &SpecKind) -> io::Result<()> {
    let node = |file_type, device| {
        rustix::fs::mknodat(CWD, path, file_type, Mode::from_raw_mode(0o600), device).map_err(io::Error::from)
    };
    match kind {
        SpecKind::File(pieces) => fill(path, pieces),
        SpecKind::Symlink(leads_to) => std::os::unix::fs::symlink(OsStr::from_bytes(leads_to), path),
        SpecKind::Fifo => node(FileType::Fifo, 0),
        SpecKind::Socket => node(FileType::Socket, 0),
        SpecKind::CharacterDevice(major, minor) => {
            node(FileType::CharacterDevice, rustix::fs::makedev(*major, *minor))
        }
        SpecKind::BlockDevice(major, minor) => {
            node(FileType::BlockDevice, rustix::fs::makedev(*major, *minor))
        }
        SpecKind::Directory | SpecKind::HardLink(_) => Err(io::Error::other("made elsewhere")),
    }
}

fn fill(path: &Path, pieces: &[PieceSpec]) -> io::Result<()> {
    let file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut offset = 0;
    for piece in pieces {
        match *piece {
            PieceSpec::Data { seed, bytes: length } => {
                file.write_all_at(&random::bytes(seed, length), offset)?;
                offset += length;
            }
            PieceSpec::Zeros(length) => {
                let zeros = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                file.write_all_at(&zeros, offset)?;
                offset += length;
            }
            PieceSpec::Hole(length) => offset += length,
        }
    }
    file.set_len(offset)
}

/// Sets metadata in an order that keeps it: owner (clears set-ID bits), mode, attributes (an ACL
/// changes the mode), times.
fn dress(path: &Path, node: &EntrySpec, privileged: bool) -> io::Result<()> {
    let link = matches!(node.kind, SpecKind::Symlink(_));
    if let Some((user, group)) = node.owner.filter(|_| privileged) {
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        rustix::fs::chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if !link {
        fs::set_permissions(path, fs::Permissions::from_mode(node.mode))?;
    }
    for (name, value) in &node.attributes {
        let open = name.starts_with(b"user.") || name.starts_with(b"system.posix_acl");
        if !open && !privileged {
            continue;
        }
        match rustix::fs::lsetxattr(path, name.as_slice(), value, XattrFlags::empty()) {
            // The file system has no attributes, or doesn't allow this one on this file type.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let time = Timespec { tv_sec: node.modified.0, tv_nsec: node.modified.1.into() };
    let accessed = Timespec { tv_sec: time.tv_sec.saturating_sub(100), tv_nsec: time.tv_nsec / 2 };
    let times = Timestamps { last_access: accessed, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sandbox;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn any_sublist_of_a_description_builds() {
        let whole = crate::everything::spec();
        for step in 2..7 {
            let sandbox = Sandbox::in_memory().unwrap();
            let part = Spec { nodes: whole.nodes.iter().step_by(step).cloned().collect() };
            part.build(&sandbox.join("tree")).unwrap();
        }
    }

    #[test]
    fn holes_are_holes_and_times_have_nanoseconds() {
        let sandbox = Sandbox::in_memory().unwrap();
        let pieces = vec![PieceSpec::Hole(1 << 20), PieceSpec::Data { seed: 1, bytes: 10 }];
        let node = EntrySpec::new(0, "f", SpecKind::File(pieces)).modified(1_000_000_000, 987_654_321);
        Spec { nodes: vec![node] }.build(&sandbox.join("t")).unwrap();
        let meta = fs::metadata(sandbox.join("t/f")).unwrap();
        assert_eq!(meta.len(), (1 << 20) + 10);
        assert!(meta.blocks() * 512 < 1 << 20);
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_000_000_000, 987_654_321));
    }
}
