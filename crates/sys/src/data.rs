//! Moving and placing bytes of open files.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::ReadWriteFlags;

use crate::error::{Errno, Result};
use crate::gate;
use crate::open::{Open, open_path};
use crate::operation::Operation;

/// What a read or write leaves in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// What the kernel sees fit.
    #[default]
    Keep,
    /// Nothing that was not there before (`RWF_DONTCACHE`, Linux 6.14; `EOPNOTSUPP` where a file system cannot).
    Drop,
}

impl Cache {
    /// `RWF_DONTCACHE` of `linux/fs.h`.
    const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

    /// Returns the flags that ask for it.
    pub(crate) fn flags(self) -> ReadWriteFlags {
        match self {
            Self::Keep => ReadWriteFlags::empty(),
            Self::Drop => Self::DONT_CACHE,
        }
    }
}

/// Reads up to `bytes.len()` bytes at `offset`; returns how many. Only 0 means the end of the file.
///
/// # Errors
/// The kernel's.
pub fn read(file: impl AsFd, offset: u64, bytes: &mut [u8], cache: Cache) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Read,
        bytes.len(),
        |length| match cache {
            Cache::Keep => rustix::io::pread(file, &mut bytes[..length], offset),
            Cache::Drop => {
                let mut parts = [std::io::IoSliceMut::new(&mut bytes[..length])];
                rustix::io::preadv2(file, &mut parts, offset, cache.flags())
            }
        },
        || format!("{}, {offset}", file.as_raw_fd()),
    )
}

/// Reads what is in the page cache at `offset`, without waiting for the disk.
///
/// Returns `None` when the bytes are not there, and the kernel has then begun to fetch them: by the read itself where the
/// file system can refuse to wait (measured on 6.18), else because it is advised to.
///
/// # Errors
/// The kernel's.
pub fn read_cached(file: impl AsFd, offset: u64, bytes: &mut [u8], cache: Cache) -> Result<Option<usize>> {
    let file = file.as_fd();
    match try_read(file, offset, bytes, cache) {
        Err(cause) if cause.is(Errno::OPNOTSUPP) || cause.is(Errno::NOSYS) => {
            advise(file, Advice::WillNeed, offset.saturating_add(bytes.len() as u64)).map(|()| None)
        }
        outcome => outcome,
    }
}

/// Reads what is in the page cache at `offset`, without waiting for the disk, or returns `None` when nothing is.
///
/// The kernel has then begun to fetch all of it: measured on 6.18, where ext4, xfs and btrfs fetch the whole of 1 MiB,
/// at whatever offset. Older kernels may have begun nothing.
///
/// # Errors
/// The kernel's; `EOPNOTSUPP` where the file system cannot refuse to wait (tmpfs, FUSE), or cannot do as `cache` says.
pub fn try_read(file: impl AsFd, offset: u64, bytes: &mut [u8], cache: Cache) -> Result<Option<usize>> {
    let file = file.as_fd();
    let outcome = gate::transfer(
        Operation::Read,
        bytes.len(),
        |length| {
            let mut parts = [std::io::IoSliceMut::new(&mut bytes[..length])];
            rustix::io::preadv2(file, &mut parts, offset, ReadWriteFlags::NOWAIT | cache.flags())
        },
        || format!("{}, {offset}, RWF_NOWAIT", file.as_raw_fd()),
    );
    match outcome {
        Ok(length) => Ok(Some(length)),
        Err(cause) if cause.is(Errno::AGAIN) => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Writes up to `bytes.len()` bytes at `offset`; returns how many.
///
/// # Errors
/// The kernel's.
pub fn write(file: impl AsFd, offset: u64, bytes: &[u8], cache: Cache) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Write,
        bytes.len(),
        |length| match cache {
            Cache::Keep => rustix::io::pwrite(file, &bytes[..length], offset),
            Cache::Drop => {
                let parts = [std::io::IoSlice::new(&bytes[..length])];
                rustix::io::pwritev2(file, &parts, offset, cache.flags())
            }
        },
        || format!("{}, {offset}, {}", file.as_raw_fd(), bytes.len()),
    )
}

/// Reads up to `bytes.len()` bytes from where the descriptor stands: for pipes and devices. Only 0 means the end.
///
/// # Errors
/// The kernel's.
pub fn read_on(file: impl AsFd, bytes: &mut [u8]) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Read,
        bytes.len(),
        |length| rustix::io::read(file, &mut bytes[..length]),
        || file.as_raw_fd().to_string(),
    )
}

/// Reads a file from its beginning to its end, or until at least `most` bytes are read.
///
/// # Errors
/// The kernel's.
pub fn read_path(path: &CStr, most: usize) -> Result<Vec<u8>> {
    let file = open_path(path, Open::READ.following())?;
    let (mut bytes, mut room) = (Vec::new(), [0; 16 << 10]);
    while bytes.len() < most {
        match read_on(&file, &mut room)? {
            0 => break,
            length => bytes.extend_from_slice(&room[..length]),
        }
    }
    file.close()?;
    Ok(bytes)
}

/// Writes up to `bytes.len()` bytes where the descriptor stands: for pipes and devices.
///
/// # Errors
/// The kernel's.
pub fn write_on(file: impl AsFd, bytes: &[u8]) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Write,
        bytes.len(),
        |length| rustix::io::write(file, &bytes[..length]),
        || format!("{}, {}", file.as_raw_fd(), bytes.len()),
    )
}

/// Copies up to `length` bytes inside the kernel, at `offset` of both files; returns how many.
///
/// A 0 is not the end of the file: some file systems return it for files whose size they do not know.
///
/// # Errors
/// The kernel's.
pub fn copy_range(source: impl AsFd, target: impl AsFd, offset: u64, length: usize) -> Result<usize> {
    let (source, target) = (source.as_fd(), target.as_fd());
    gate::transfer(
        Operation::CopyFileRange,
        length,
        |length| {
            let (mut from, mut to) = (offset, offset);
            rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), length)
        },
        || format!("{}, {offset}, {}, {length}", source.as_raw_fd(), target.as_raw_fd()),
    )
}

/// Makes `target` share all of `source`'s blocks (`FICLONE`).
///
/// # Errors
/// The kernel's; `EOPNOTSUPP`, `EXDEV`, `EINVAL` or `ENOTTY` where the file systems cannot.
pub fn reflink(source: impl AsFd, target: impl AsFd) -> Result<()> {
    let (source, target) = (source.as_fd(), target.as_fd());
    gate::call(
        Operation::Ficlone,
        || rustix::fs::ioctl_ficlone(target, source),
        || format!("{}, {}", target.as_raw_fd(), source.as_raw_fd()),
    )
}

/// Reserves `length` bytes for the file without changing its size.
///
/// # Errors
/// The kernel's.
pub fn allocate(file: impl AsFd, length: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fallocate,
        || rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, length),
        || format!("{}, KEEP_SIZE, 0, {length}", file.as_raw_fd()),
    )
}

/// Makes a hole of `length` bytes at `offset`.
///
/// # Errors
/// The kernel's.
pub fn punch_hole(file: impl AsFd, offset: u64, length: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fallocate,
        || {
            rustix::fs::fallocate(
                file,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                offset,
                length,
            )
        },
        || format!("{}, PUNCH_HOLE|KEEP_SIZE, {offset}, {length}", file.as_raw_fd()),
    )
}

/// What the kernel may expect of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// They are read in order: read further ahead.
    Sequential,
    /// They are read in no order: read nothing ahead.
    Random,
    /// They will be read soon: fetch them now.
    WillNeed,
    /// They are not needed any more.
    DontNeed,
}

/// Advises the kernel about the first `length` bytes of the file; 0 means all of it.
///
/// # Errors
/// The kernel's.
pub fn advise(file: impl AsFd, advice: Advice, length: u64) -> Result<()> {
    advise_range(file, advice, 0, length)
}

/// Advises the kernel about `length` bytes of the file from `offset` on; 0 means all that follow.
///
/// # Errors
/// The kernel's.
pub fn advise_range(file: impl AsFd, advice: Advice, offset: u64, length: u64) -> Result<()> {
    let file = file.as_fd();
    let raw = match advice {
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::Random => rustix::fs::Advice::Random,
        Advice::WillNeed => rustix::fs::Advice::WillNeed,
        Advice::DontNeed => rustix::fs::Advice::DontNeed,
    };
    gate::call(
        Operation::Fadvise,
        || rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(length), raw),
        || format!("{}, {offset}, {length}, {advice:?}", file.as_raw_fd()),
    )
}

/// Tells whether the file was opened past the page cache (`O_DIRECT`).
///
/// # Errors
/// The kernel's.
pub fn is_direct(file: impl AsFd) -> Result<bool> {
    let file = file.as_fd();
    gate::call(
        Operation::Fcntl,
        || rustix::fs::fcntl_getfl(file).map(|flags| flags.contains(OFlags::DIRECT)),
        || format!("{}, F_GETFL", file.as_raw_fd()),
    )
}

/// What to look for in a file with holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is stored.
    Data,
    /// The next byte that is in a hole; the end of the file counts as one.
    Hole,
}

/// Finds the next data or hole at or after `offset`; `None` when there is none.
///
/// Moves the descriptor's position, which haul does not use otherwise.
///
/// # Errors
/// The kernel's; `EINVAL` where the file system cannot tell.
pub fn seek(file: impl AsFd, what: Seek, offset: u64) -> Result<Option<u64>> {
    let file = file.as_fd();
    gate::call(
        Operation::Lseek,
        || {
            let from = match what {
                Seek::Data => SeekFrom::Data(offset),
                Seek::Hole => SeekFrom::Hole(offset),
            };
            match rustix::fs::seek(file, from) {
                Ok(found) => Ok(Some(found)),
                Err(Errno::NXIO) => Ok(None),
                Err(errno) => Err(errno),
            }
        },
        || format!("{}, {offset}, {what:?}", file.as_raw_fd()),
    )
}

/// Returns where the descriptor stands, from where [`read_on`] goes on; an error where there is no such place, as in a pipe.
///
/// # Errors
/// The kernel's.
pub fn position(file: impl AsFd) -> Result<u64> {
    let file = file.as_fd();
    gate::call(
        Operation::Lseek,
        || rustix::fs::seek(file, SeekFrom::Current(0)),
        || file.as_raw_fd().to_string(),
    )
}

/// Has the descriptor stand at `offset`, from where other programs that share it go on.
///
/// # Errors
/// The kernel's.
pub fn stand_at(file: impl AsFd, offset: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Lseek,
        || rustix::fs::seek(file, SeekFrom::Start(offset)).map(drop),
        || format!("{}, {offset}", file.as_raw_fd()),
    )
}

/// Has the descriptor stand at the end of the file.
///
/// # Errors
/// The kernel's.
pub fn stand_at_end(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Lseek,
        || rustix::fs::seek(file, SeekFrom::End(0)).map(drop),
        || format!("{}, 0, End", file.as_raw_fd()),
    )
}

/// Sets the size of the file.
///
/// # Errors
/// The kernel's.
pub fn truncate(file: impl AsFd, size: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Ftruncate,
        || rustix::fs::ftruncate(file, size),
        || format!("{}, {size}", file.as_raw_fd()),
    )
}

/// Waits until the file's data and metadata are on the disk.
///
/// # Errors
/// The kernel's: data may be lost.
pub fn synchronize(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    gate::call(Operation::Fsync, || rustix::fs::fsync(file), || file.as_raw_fd().to_string())
}
