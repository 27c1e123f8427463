//! A tree on disk, read back without changing it.
//!
//! A [`Snapshot`] holds all metadata of the root (with an empty path) and all entries below it.
//! File contents stay on disk: [`compare`](crate::compare()) reads both sides in parallel.
//! Directories stay open while their entries are read, and everything is reached through
//! `/proc/self/fd`, so paths may exceed the kernel's limit. Files and directories are opened with
//! `O_NOATIME` where permitted, which leaves the access times alone.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use bitflags::bitflags;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// Maximum depth of a tree to read back. Deeper trees are a mistake, or the subject
/// of [`crate::deep`].
const LEVELS_MAX: usize = 300;

bitflags! {
    /// Facts that a snapshot reads and a comparison checks. Type, size, link target and device
    /// number always count.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Facts: u32 {
        /// File contents.
        const CONTENT = 1;
        /// Positions of data and holes.
        const HOLES = 1 << 1;
        /// Permission bits.
        const PERMISSIONS = 1 << 2;
        /// Set-user-ID, set-group-ID and sticky bits.
        const SPECIAL_BITS = 1 << 9;
        /// All mode bits.
        const MODE = Self::PERMISSIONS.bits() | Self::SPECIAL_BITS.bits();
        /// User and group.
        const OWNER = 1 << 3;
        /// Modification times, except of directories.
        const MODIFIED = 1 << 4;
        /// Modification times of directories.
        const DIRECTORY_MODIFIED = 1 << 5;
        /// Access times of files. (Reading a link or directory changes its own.)
        const ACCESSED = 1 << 6;
        /// Names that are hard links to the same file.
        const LINKS = 1 << 7;
        /// Extended attributes, including ACLs.
        const ATTRIBUTES = 1 << 8;
    }
}

impl Facts {
    /// Everything `cp -a` promises to preserve, as far as two copies of the same source can be
    /// compared by it.
    pub const PRESERVED: Self = Self::all().difference(Self::ACCESSED);
}

/// File type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

/// Metadata of one entry.
#[derive(Clone, Debug)]
pub struct SnapshotEntry {
    /// File type.
    pub kind: SnapshotKind,
    /// Length of a regular file, in bytes; 0 for other types.
    pub bytes: u64,
    /// Permission, set-ID and sticky bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Modification time, seconds and nanoseconds.
    pub modified: (i64, u32),
    /// Access time, seconds and nanoseconds.
    pub accessed: (i64, u32),
    /// Device number, for devices.
    pub device: u64,
    /// Target of a symbolic link.
    pub leads_to: Option<Vec<u8>>,
    /// Extended attributes, by name.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Data extents of a regular file; empty unless [`Facts::HOLES`] was requested.
    pub extents: Vec<Range<u64>>,
    /// First name (in byte order) of the same file, if the tree has more than one.
    pub group: Option<Vec<u8>>,
    identity: (u64, u64),
}

/// A whole tree.
#[derive(Debug)]
pub struct Snapshot {
    root: PathBuf,
    facts: Facts,
    entries: BTreeMap<Vec<u8>, SnapshotEntry>,
}

impl Snapshot {
    /// Reads the tree at `root`, which may be a single file, up to 300 levels deep. An error names
    /// the entry.
    pub fn take(root: &Path, facts: Facts) -> io::Result<Self> {
        let mut snapshot = Self { root: root.to_owned(), facts, entries: BTreeMap::new() };
        let place = OpenName { directory: CWD, name: root.as_os_str().as_bytes(), path: root.to_owned() };
        snapshot.visit(&place, Vec::new())?;
        snapshot.group_links();
        Ok(snapshot)
    }

    /// Returns the root's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the facts that were read.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Returns the entries by path relative to the root. The root's own path is empty.
    pub fn entries(&self) -> &BTreeMap<Vec<u8>, SnapshotEntry> {
        &self.entries
    }

    /// Returns an entry's path on disk.
    pub fn locate(&self, relative: &[u8]) -> PathBuf {
        if relative.is_empty() { self.root.clone() } else { self.root.join(OsStr::from_bytes(relative)) }
    }

    fn visit(&mut self, place: &OpenName<'_>, relative: Vec<u8>) -> io::Result<()> {
        let named = |error: io::Error| {
            let shown: String = String::from_utf8_lossy(&relative).chars().take(200).collect();
            io::Error::new(error.kind(), format!("reading back {shown:?}: {error}"))
        };
        let entry = read_entry(place, self.facts).map_err(named)?;
        let kind = entry.kind;
        self.entries.insert(relative.clone(), entry);
        if kind != SnapshotKind::Directory {
            return Ok(());
        }
        if relative.iter().filter(|byte| **byte == b'/').count() >= LEVELS_MAX {
            return Err(named(io::Error::other(format!("deeper than {LEVELS_MAX} levels"))));
        }
        let directory = open(place, OFlags::DIRECTORY).map_err(named)?;
        for name in names(&directory).map_err(named)? {
            let mut below = relative.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend(&name);
            let path = through_descriptor(&directory, &name);
            self.visit(&OpenName { directory: directory.as_fd(), name: &name, path }, below)?;
        }
        Ok(())
    }

    fn group_links(&mut self) {
        let mut first: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
        let mut shared: HashMap<(u64, u64), usize> = HashMap::new();
        for (path, entry) in self.entries.iter().filter(|(_, entry)| entry.kind != SnapshotKind::Directory) {
            first.entry(entry.identity).or_insert_with(|| path.clone());
            *shared.entry(entry.identity).or_default() += 1;
        }
        for entry in self.entries.values_mut() {
            let many = shared.get(&entry.identity).is_some_and(|count| *count > 1);
            entry.group = many.then(|| first[&entry.identity].clone());
        }
    }
}

/// A name in an open directory, and its path for calls that don't accept a descriptor.
struct OpenName<'a> {
    directory: BorrowedFd<'a>,
    name: &'a [u8],
    path: PathBuf,
}

fn read_entry(place: &OpenName<'_>, facts: Facts) -> io::Result<SnapshotEntry> {
    let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => SnapshotKind::File,
        FileType::Directory => SnapshotKind::Directory,
        FileType::Symlink => SnapshotKind::Symlink,
        FileType::Fifo => SnapshotKind::Fifo,
        FileType::Socket => SnapshotKind::Socket,
        FileType::CharacterDevice => SnapshotKind::CharacterDevice,
        FileType::BlockDevice => SnapshotKind::BlockDevice,
        FileType::Unknown => return Err(io::Error::other("unknown file type")),
    };
    let device = matches!(kind, SnapshotKind::CharacterDevice | SnapshotKind::BlockDevice);
    let leads_to = match kind {
        SnapshotKind::Symlink => {
            Some(rustix::fs::readlinkat(place.directory, place.name, Vec::new())?.into_bytes())
        }
        _ => None,
    };
    let extents = match kind {
        SnapshotKind::File if facts.contains(Facts::HOLES) => {
            data_extents(&open(place, OFlags::NONBLOCK)?, stat.st_size.unsigned_abs())?
        }
        _ => Vec::new(),
    };
    let attributes =
        if facts.contains(Facts::ATTRIBUTES) { read_attributes(&place.path)? } else { BTreeMap::new() };
    Ok(SnapshotEntry {
        kind,
        bytes: if kind == SnapshotKind::File { stat.st_size.unsigned_abs() } else { 0 },
        mode: stat.st_mode & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
        modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(u32::MAX)),
        accessed: (stat.st_atime, u32::try_from(stat.st_atime_nsec).unwrap_or(u32::MAX)),
        device: if device { stat.st_rdev } else { 0 },
        leads_to,
        attributes,
        extents,
        group: None,
        identity: (stat.st_dev, stat.st_ino),
    })
}

fn open(place: &OpenName<'_>, extra: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let quiet = rustix::fs::openat(place.directory, place.name, flags | OFlags::NOATIME, Mode::empty());
    match quiet {
        // Only the owner and root may use `O_NOATIME`.
        Err(Errno::PERM) => Ok(rustix::fs::openat(place.directory, place.name, flags, Mode::empty())?),
        other => Ok(other?),
    }
}

fn names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn through_descriptor(directory: &OwnedFd, name: &[u8]) -> PathBuf {
    Path::new(&format!("/proc/self/fd/{}", directory.as_raw_fd())).join(OsStr::from_bytes(name))
}

/// Lists the data extents of an open file, in order.
pub fn data_extents(file: &OwnedFd, bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let mut extents = Vec::new();
    let mut offset = 0;
    while offset < bytes {
        let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        extents.push(start..end);
        offset = end;
    }
    Ok(extents)
}

/// Reads all extended attributes of an entry, without following a symbolic link. Returns none if
/// the file system doesn't support them.
pub fn read_attributes(path: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    // The kernel limits both the list and each value to 64 KiB.
    let mut buffer = vec![0u8; 65_536];
    let length = match rustix::fs::llistxattr(path, buffer.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let list = buffer[..length].to_vec();
    let mut attributes = BTreeMap::new();
    for name in list.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let length = rustix::fs::lgetxattr(path, name, buffer.as_mut_slice())?;
        attributes.insert(name.to_vec(), buffer[..length].to_vec());
    }
    Ok(attributes)
}

/// Formats a path so that every byte is visible.
pub fn show(path: &[u8]) -> String {
    if path.is_empty() { "(the root)".to_owned() } else { format!("{:?}", OsStr::from_bytes(path)) }
}

/// Returns a path's bytes.
pub fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().to_owned().into_vec()
}
