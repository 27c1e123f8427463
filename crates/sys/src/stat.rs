//! File metadata, from `statx`, or from `fstatat` where a sandbox refuses `statx`.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{Access, AtFlags, CWD, Statx, StatxAttributes, StatxFlags};

use crate::data::read_path;
use crate::error::{Errno, Error, Result};
use crate::gate;
use crate::open::{Open, open};
use crate::operation::Operation;

/// Maximum bytes to read about a descriptor.
const INFO_BYTES_MAX: usize = 64 << 10;

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A type that haul doesn't know.
    Unknown,
}

/// Permission bits, set-id bits and sticky bit: the low twelve bits of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Mode(u32);

impl Mode {
    /// Read, write and execute for everybody.
    pub const ALL: Mode = Mode(0o777);
    /// Read and write for everybody.
    pub const READ_WRITE: Mode = Mode(0o666);
    /// Read for everybody.
    pub const READ: Mode = Mode(0o444);
    /// Read for the owner.
    pub const OWNER_READ: Mode = Mode(0o400);
    /// Read, write and execute for the owner.
    pub const OWNER: Mode = Mode(0o700);
    /// Write for the owner.
    pub const OWNER_WRITE: Mode = Mode(0o200);
    /// Read and execute for the owner: to list a directory and access its entries.
    pub const OWNER_LIST: Mode = Mode(0o500);
    /// Read, write and execute for group and others.
    pub const GROUP_AND_OTHER: Mode = Mode(0o077);
    /// Write for group and others.
    pub const GROUP_AND_OTHER_WRITE: Mode = Mode(0o022);
    /// Set-user-id, set-group-id and sticky.
    pub const SPECIAL: Mode = Mode(0o7000);
    /// Set-user-id and set-group-id.
    pub const SET_ID: Mode = Mode(0o6000);

    /// Creates a mode from the low twelve bits of `bits`.
    #[must_use]
    pub const fn new(bits: u32) -> Self {
        Self(bits & 0o7777)
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the bits that are in both.
    #[must_use]
    pub const fn and(self, other: Mode) -> Mode {
        Mode(self.0 & other.0)
    }

    /// Returns the bits that are in either.
    #[must_use]
    pub const fn or(self, other: Mode) -> Mode {
        Mode(self.0 | other.0)
    }

    /// Returns the bits that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Mode) -> Mode {
        Mode(self.0 & !other.0)
    }

    /// Returns true if all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Mode) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if no bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Identifies a file. Inode numbers alone don't, because they repeat across devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// The device (`st_dev`).
    pub device: u64,
    /// The inode number on the device.
    pub inode: u64,
}

/// A point in time: seconds since 1970 (negative before) plus nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Leaves a time unchanged when times are set (`UTIME_OMIT`).
    pub const UNCHANGED: Timestamp = Timestamp { seconds: 0, nanoseconds: (1 << 30) - 2 };
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stat {
    /// Device and inode number.
    pub identity: Identity,
    /// Its type.
    pub kind: FileType,
    /// Permission bits, set-id bits and sticky bit.
    pub mode: Mode,
    /// The owner's user id.
    pub owner: u32,
    /// The group id.
    pub group: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space, in blocks of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size, in bytes.
    pub block_size: u32,
    /// Number of hard links.
    pub links: u32,
    /// The device number of a device file (`st_rdev`).
    pub device_number: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last modification of the contents.
    pub modified: Timestamp,
    /// Last change of the inode.
    pub changed: Timestamp,
    /// Creation, if the file system records it.
    pub born: Option<Timestamp>,
}

impl Stat {
    /// Returns true if the file has holes: fewer blocks are allocated than its size needs.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        // GNU cp's rule (`is_probably_sparse` in copy.c).
        self.kind == FileType::Regular && self.blocks < self.size / 512
    }
}

impl From<&Statx> for Stat {
    fn from(raw: &Statx) -> Self {
        let mode = u32::from(raw.stx_mode);
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        Self {
            identity: Identity {
                device: libc::makedev(raw.stx_dev_major, raw.stx_dev_minor),
                inode: raw.stx_ino,
            },
            kind: kind_of(mode),
            mode: Mode::new(mode),
            owner: raw.stx_uid,
            group: raw.stx_gid,
            size: raw.stx_size,
            blocks: raw.stx_blocks,
            block_size: raw.stx_blksize,
            links: raw.stx_nlink,
            device_number: libc::makedev(raw.stx_rdev_major, raw.stx_rdev_minor),
            accessed: time(raw.stx_atime.tv_sec, raw.stx_atime.tv_nsec),
            modified: time(raw.stx_mtime.tv_sec, raw.stx_mtime.tv_nsec),
            changed: time(raw.stx_ctime.tv_sec, raw.stx_ctime.tv_nsec),
            born: StatxFlags::from_bits_retain(raw.stx_mask)
                .contains(StatxFlags::BTIME)
                .then(|| time(raw.stx_btime.tv_sec, raw.stx_btime.tv_nsec)),
        }
    }
}

impl From<&rustix::fs::Stat> for Stat {
    fn from(raw: &rustix::fs::Stat) -> Self {
        let time = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
        };
        Self {
            identity: Identity { device: raw.st_dev, inode: raw.st_ino },
            kind: kind_of(raw.st_mode),
            mode: Mode::new(raw.st_mode),
            owner: raw.st_uid,
            group: raw.st_gid,
            size: u64::try_from(raw.st_size).unwrap_or_default(),
            blocks: u64::try_from(raw.st_blocks).unwrap_or_default(),
            block_size: u32::try_from(raw.st_blksize).unwrap_or_default(),
            links: u32::try_from(raw.st_nlink).unwrap_or(u32::MAX),
            device_number: raw.st_rdev,
            accessed: time(raw.st_atime, raw.st_atime_nsec),
            modified: time(raw.st_mtime, raw.st_mtime_nsec),
            changed: time(raw.st_ctime, raw.st_ctime_nsec),
            born: None,
        }
    }
}

/// Returns the type in the bits of `mode` above the low twelve.
fn kind_of(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFREG => FileType::Regular,
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::Fifo,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharacterDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::Unknown,
    }
}

/// Returns the device number for `major` and `minor`, in the form of [`Stat::device_number`].
#[must_use]
pub fn device_number(major: u32, minor: u32) -> u64 {
    libc::makedev(major, minor)
}

/// Splits a device number into its major and minor number.
#[must_use]
pub fn device_parts(number: u64) -> (u32, u32) {
    (libc::major(number), libc::minor(number))
}

/// The fields every `statx` asks for. The birth time costs nothing where the file system records
/// it, and is absent elsewhere.
pub(crate) const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

fn look(directory: impl AsFd, name: &CStr, flags: AtFlags) -> Result<Stat> {
    let directory = directory.as_fd();
    gate::call(
        Operation::Statx,
        || {
            or_else_without_statx(
                rustix::fs::statx(directory, name, flags, WANTED).map(|raw| Stat::from(&raw)),
                || rustix::fs::statat(directory, name, flags).map(|raw| Stat::from(&raw)),
            )
        },
        || format!("{}, {name:?}, {flags:?}", directory.as_raw_fd()),
    )
}

/// Falls back to `without` if the kernel or a sandbox doesn't allow `statx`.
///
/// Sandboxes older than the call return `EPERM`. rustix then checks whether any `statx` works, and
/// if not, returns `ENOSYS` from then on. If the kernel itself returns `ENOSYS`, the C library
/// falls back to `fstatat`.
pub(crate) fn or_else_without_statx<T>(
    outcome: rustix::io::Result<T>,
    without: impl FnOnce() -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    match outcome {
        Err(Errno::NOSYS) => without(),
        outcome => outcome,
    }
}

/// Returns the metadata of an open file.
///
/// # Errors
/// Any error from `statx(2)`.
pub fn stat(file: impl AsFd) -> Result<Stat> {
    look(file, c"", AtFlags::EMPTY_PATH)
}

/// `AT_STATX_DONT_SYNC` of `linux/fcntl.h`; rustix doesn't name it for every C library.
pub(crate) const STATX_DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);

/// Returns the device of an open file (`st_dev`), without a request to a network file system's
/// server.
///
/// # Errors
/// Any error from `statx(2)`.
pub fn device_of(file: impl AsFd) -> Result<u64> {
    let (file, flags) = (file.as_fd(), AtFlags::EMPTY_PATH.union(STATX_DONT_SYNC));
    gate::call(
        Operation::Statx,
        || {
            or_else_without_statx(
                rustix::fs::statx(file, c"", flags, StatxFlags::empty())
                    .map(|raw| libc::makedev(raw.stx_dev_major, raw.stx_dev_minor)),
                || rustix::fs::fstat(file).map(|raw| raw.st_dev),
            )
        },
        || format!("{}, \"\", {flags:?}", file.as_raw_fd()),
    )
}

/// Returns true if an open directory is the root of a mount.
///
/// # Errors
/// Any error from `statx(2)`, and from `openat(2)` of `..`; `ENOSYS` if neither `statx` (before
/// Linux 5.8, or in a sandbox) nor `/proc` tells.
pub fn is_mount_root(directory: impl AsFd) -> Result<bool> {
    let directory = directory.as_fd();
    match has_attribute(directory, StatxAttributes::MOUNT_ROOT)? {
        Some(is_root) => Ok(is_root),
        None => is_on_another_mount(directory),
    }
}

/// Returns true if entries of an open directory can be added, but neither removed nor renamed
/// (`chattr +a`). False if that is unknown.
///
/// # Errors
/// Any error from `statx(2)`.
pub fn is_append_only(directory: impl AsFd) -> Result<bool> {
    Ok(has_attribute(directory.as_fd(), StatxAttributes::APPEND)?.unwrap_or(false))
}

/// Returns `None` if the kernel doesn't say whether a file has an attribute.
fn has_attribute(file: BorrowedFd<'_>, attribute: StatxAttributes) -> Result<Option<bool>> {
    gate::call(
        Operation::Statx,
        || {
            let known = |raw: Statx| {
                let is_known = raw.stx_attributes_mask.contains(attribute);
                is_known.then(|| raw.stx_attributes.contains(attribute))
            };
            let flags = AtFlags::EMPTY_PATH;
            or_else_without_statx(rustix::fs::statx(file, c"", flags, StatxFlags::empty()).map(known), || {
                Ok(None)
            })
        },
        || format!("{}, \"\", AT_EMPTY_PATH", file.as_raw_fd()),
    )
}

/// Returns true if an open directory is on another mount than its parent. Comparing devices isn't
/// enough, because a bind mount may be of the same file system.
fn is_on_another_mount(directory: BorrowedFd<'_>) -> Result<bool> {
    let parent = open(directory, c"..", Open::SEARCH)?;
    Ok(mount_id(directory)? != mount_id(parent.as_fd())?)
}

/// Returns the id of the mount that a file was opened on (proc_pid_fdinfo(5)).
fn mount_id(file: BorrowedFd<'_>) -> Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    let info = CString::new(&*path).ok().and_then(|path| read_path(&path, INFO_BYTES_MAX).ok());
    let id = info.and_then(|info| {
        let mut lines = info.split(|byte| *byte == b'\n');
        let id = lines.find_map(|line| line.strip_prefix(b"mnt_id:"))?;
        std::str::from_utf8(id).ok()?.trim().parse().ok()
    });
    // Without `/proc`, before Linux 3.15, and in gVisor, which has no such line.
    id.ok_or_else(|| Error::new(Operation::Statx, path, Errno::NOSYS))
}

/// Returns the metadata of the entry `name`, a single component, of `directory`. Doesn't follow a
/// symbolic link.
///
/// # Errors
/// Any error from `statx(2)`; `ENOENT` if there is no such entry.
pub fn stat_at(directory: impl AsFd, name: &CStr) -> Result<Stat> {
    look(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the metadata of the entry `name` of `directory`; if it is a symbolic link, that of its
/// target.
///
/// # Errors
/// Any error from `statx(2)`; `ENOENT` if there is no such entry.
pub fn stat_followed(directory: impl AsFd, name: &CStr) -> Result<Stat> {
    look(directory, name, AtFlags::empty())
}

/// Returns the metadata of `path`, relative to `directory` or, if `None`, to the current directory.
/// `follow` decides whether a symbolic link in the last component is followed. For operands, and
/// for targets of symbolic links.
///
/// # Errors
/// Any error from `statx(2)`.
pub fn stat_path<D: AsFd>(directory: Option<D>, path: &CStr, follow: bool) -> Result<Stat> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    match directory {
        Some(directory) => look(directory, path, flags),
        None => look(CWD, path, flags),
    }
}

/// Returns true if the process's effective user and group may write to the entry `name` of
/// `directory`, following a symbolic link.
pub fn may_write(directory: impl AsFd, name: &CStr) -> bool {
    let directory = directory.as_fd();
    gate::call(
        Operation::Faccessat,
        // The kernel checks a write by the effective ids; without the flag, access(2) checks the
        // real ones.
        || rustix::fs::accessat(directory, name, Access::WRITE_OK, AtFlags::EACCESS),
        || format!("{}, {name:?}, W_OK", directory.as_raw_fd()),
    )
    .is_ok()
}
