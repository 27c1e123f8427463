//! Reading, writing and allocating the bytes of open files.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::ReadWriteFlags;

use crate::direct::change_flags;
use crate::error::{Errno, Error, Result};
use crate::fd::Fd;
use crate::gate;
use crate::open::{Open, open, open_path};
use crate::operation::Operation;

/// Effect of a read or write on the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// Leave it to the kernel.
    #[default]
    Keep,
    /// Leave nothing that wasn't cached before (`RWF_DONTCACHE`, Linux 6.14; `EOPNOTSUPP` if the
    /// file system can't).
    Drop,
}

impl CacheMode {
    /// `RWF_DONTCACHE` from `linux/fs.h`.
    const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

    pub(crate) fn flags(self) -> ReadWriteFlags {
        match self {
            Self::Keep => ReadWriteFlags::empty(),
            Self::Drop => Self::DONT_CACHE,
        }
    }
}

/// Reads up to `bytes.len()` bytes at `offset`; returns how many. Only 0 means EOF.
///
/// # Errors
/// Any error from `pread(2)` or `preadv2(2)`.
pub fn read(file: impl AsFd, offset: u64, bytes: &mut [u8], cache: CacheMode) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Read,
        bytes.len(),
        |length| match cache {
            CacheMode::Keep => rustix::io::pread(file, &mut bytes[..length], offset),
            CacheMode::Drop => {
                let mut parts = [std::io::IoSliceMut::new(&mut bytes[..length])];
                rustix::io::preadv2(file, &mut parts, offset, cache.flags())
            }
        },
        || format!("{}, {offset}", file.as_raw_fd()),
    )
}

/// Reads cached data at `offset`, without waiting for the disk.
///
/// Returns `None` if the bytes aren't cached. The kernel has then started to fetch them: because of
/// the read itself if the file system supports `RWF_NOWAIT` (measured on 6.18), otherwise because
/// of a `WILLNEED` hint.
///
/// # Errors
/// Any error from `preadv2(2)` or `posix_fadvise(2)`.
pub fn read_cached(
    file: impl AsFd,
    offset: u64,
    bytes: &mut [u8],
    cache: CacheMode,
) -> Result<Option<usize>> {
    let file = file.as_fd();
    match try_read(file, offset, bytes, cache) {
        Err(cause) if cause.is(Errno::OPNOTSUPP) || cause.is(Errno::NOSYS) => {
            advise(file, Advice::WillNeed, offset.saturating_add(bytes.len() as u64)).map(|()| None)
        }
        outcome => outcome,
    }
}

/// Reads cached data at `offset`, without waiting for the disk. Returns `None` if nothing is
/// cached.
///
/// The kernel has then started to fetch all of it: measured on 6.18, where ext4, xfs and btrfs
/// fetch the whole of 1 MiB, at any offset. Older kernels may not have started.
///
/// # Errors
/// Any error from `preadv2(2)`; `EOPNOTSUPP` if the file system doesn't support `RWF_NOWAIT`
/// (tmpfs, FUSE) or the `cache` mode.
pub fn try_read(file: impl AsFd, offset: u64, bytes: &mut [u8], cache: CacheMode) -> Result<Option<usize>> {
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
/// Any error from `pwrite(2)` or `pwritev2(2)`.
pub fn write(file: impl AsFd, offset: u64, bytes: &[u8], cache: CacheMode) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Write,
        bytes.len(),
        |length| match cache {
            CacheMode::Keep => rustix::io::pwrite(file, &bytes[..length], offset),
            CacheMode::Drop => {
                let parts = [std::io::IoSlice::new(&bytes[..length])];
                rustix::io::pwritev2(file, &parts, offset, cache.flags())
            }
        },
        || format!("{}, {offset}, {}", file.as_raw_fd(), bytes.len()),
    )
}

/// Reads up to `bytes.len()` bytes at the descriptor's position, for pipes and devices. Only 0
/// means EOF.
///
/// # Errors
/// Any error from `read(2)`.
pub fn read_stream(file: impl AsFd, bytes: &mut [u8]) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Read,
        bytes.len(),
        |length| rustix::io::read(file, &mut bytes[..length]),
        || file.as_raw_fd().to_string(),
    )
}

/// Makes reads and writes wait on a descriptor that was opened with `O_NONBLOCK`. Some of the
/// kernel's regular files honour that flag (`/proc/kmsg`).
///
/// # Errors
/// Any error from `fcntl(2)`.
pub fn make_blocking(file: impl AsFd) -> Result<()> {
    change_flags(file, |flags| flags.difference(OFlags::NONBLOCK))
}

/// Reads a file from its start until EOF, or until at least `most` bytes have been read.
///
/// # Errors
/// Any error from `openat(2)`, `read(2)` or `close(2)`.
pub fn read_path(path: &CStr, most: usize) -> Result<Vec<u8>> {
    let file = open_path(path, Open::READ.following())?;
    let bytes = read_rest(&file, most)?;
    file.close()?;
    Ok(bytes)
}

/// Reads from the descriptor's position until EOF, or until at least `most` bytes have been read.
///
/// # Errors
/// Any error from `read(2)`.
pub fn read_rest(file: impl AsFd, most: usize) -> Result<Vec<u8>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    while bytes.len() < most {
        match read_stream(&file, &mut buffer)? {
            0 => break,
            length => bytes.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(bytes)
}

/// Writes up to `bytes.len()` bytes at the descriptor's position, for pipes and devices.
///
/// # Errors
/// Any error from `write(2)`.
pub fn write_stream(file: impl AsFd, bytes: &[u8]) -> Result<usize> {
    let file = file.as_fd();
    gate::transfer(
        Operation::Write,
        bytes.len(),
        |length| rustix::io::write(file, &bytes[..length]),
        || format!("{}, {}", file.as_raw_fd(), bytes.len()),
    )
}

/// Copies up to `length` bytes inside the kernel, at the same `offset` in both files; returns
/// how many.
///
/// 0 doesn't mean EOF: some file systems return it for files whose size they don't know.
///
/// # Errors
/// Any error from `copy_file_range(2)`.
pub fn copy_range(source: impl AsFd, target: impl AsFd, offset: u64, length: usize) -> Result<usize> {
    let (source, target) = (source.as_fd(), target.as_fd());
    gate::transfer(
        Operation::CopyFileRange,
        length,
        |length| {
            // The kernel writes the new offsets back. Given explicitly, they leave the positions of
            // both descriptors alone (copy_file_range(2)).
            let (mut from, mut to) = (offset, offset);
            rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), length)
        },
        || format!("{}, {offset}, {}, {length}", source.as_raw_fd(), target.as_raw_fd()),
    )
}

/// Makes `target` share all blocks of `source` (`FICLONE`).
///
/// # Errors
/// Any error from `ioctl_ficlone(2)`; `EOPNOTSUPP`, `EXDEV`, `EINVAL` or `ENOTTY` if the file
/// systems can't.
pub fn reflink(source: impl AsFd, target: impl AsFd) -> Result<()> {
    let (source, target) = (source.as_fd(), target.as_fd());
    gate::call(
        Operation::Ficlone,
        || rustix::fs::ioctl_ficlone(target, source),
        || format!("{}, {}", target.as_raw_fd(), source.as_raw_fd()),
    )
}

/// Allocates `length` bytes for the file from its start, without changing its size.
///
/// # Errors
/// Any error from `fallocate(2)`.
pub fn allocate(file: impl AsFd, length: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fallocate,
        || rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, length),
        || format!("{}, KEEP_SIZE, 0, {length}", file.as_raw_fd()),
    )
}

/// Punches a hole of `length` bytes at `offset`.
///
/// # Errors
/// Any error from `fallocate(2)`.
pub fn punch_hole(file: impl AsFd, offset: u64, length: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fallocate,
        || {
            rustix::fs::fallocate(
                file,
                // `PUNCH_HOLE` without `KEEP_SIZE` is an error (fallocate(2)).
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                offset,
                length,
            )
        },
        || format!("{}, PUNCH_HOLE|KEEP_SIZE, {offset}, {length}", file.as_raw_fd()),
    )
}

/// The expected access to a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Sequential: read further ahead.
    Sequential,
    /// Random: don't read ahead.
    Random,
    /// Needed soon: fetch them now.
    WillNeed,
    /// No longer needed: drop them from the page cache.
    DontNeed,
}

/// Advises the kernel about the first `length` bytes of the file; 0 means all of it.
///
/// # Errors
/// Any error from `posix_fadvise(2)`.
pub fn advise(file: impl AsFd, advice: Advice, length: u64) -> Result<()> {
    advise_range(file, advice, 0, length)
}

/// Advises the kernel about `length` bytes of the file from `offset`; 0 means to the end.
///
/// # Errors
/// Any error from `posix_fadvise(2)`.
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

/// Returns true if the descriptor bypasses the page cache (`O_DIRECT`).
///
/// # Errors
/// Any error from `fcntl(2)`.
pub fn is_direct(file: impl AsFd) -> Result<bool> {
    let file = file.as_fd();
    gate::call(
        Operation::Fcntl,
        || rustix::fs::fcntl_getfl(file).map(|flags| flags.contains(OFlags::DIRECT)),
        || format!("{}, F_GETFL", file.as_raw_fd()),
    )
}

/// Target of a seek in a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next stored byte.
    Data,
    /// The next byte in a hole; EOF counts as one.
    Hole,
}

/// Finds the next data or hole at or after `offset`; `None` if there is none.
///
/// Moves the descriptor's position. haul's positioned reads and writes don't depend on it.
///
/// # Errors
/// Any error from `lseek(2)`; `EINVAL` if the file system doesn't support it.
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
                // No data follows, or `offset` is beyond EOF.
                Err(Errno::NXIO) => Ok(None),
                Err(errno) => Err(errno),
            }
        },
        || format!("{}, {offset}, {what:?}", file.as_raw_fd()),
    )
}

/// Returns the descriptor's position, where [`read_stream`] continues.
///
/// # Errors
/// Any error from `lseek(2)`; `ESPIPE` for a pipe, which has no position.
pub fn position(file: impl AsFd) -> Result<u64> {
    let file = file.as_fd();
    gate::call(
        Operation::Lseek,
        || rustix::fs::seek(file, SeekFrom::Current(0)),
        || file.as_raw_fd().to_string(),
    )
}

/// Sets the descriptor's position to `offset`; programs that share the descriptor continue there.
///
/// # Errors
/// Any error from `lseek(2)`.
pub fn seek_to(file: impl AsFd, offset: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Lseek,
        || rustix::fs::seek(file, SeekFrom::Start(offset)).map(drop),
        || format!("{}, {offset}", file.as_raw_fd()),
    )
}

/// Moves the descriptor's position to the end of the file.
///
/// # Errors
/// Any error from `lseek(2)`.
pub fn seek_to_end(file: impl AsFd) -> Result<()> {
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
/// Any error from `ftruncate(2)`.
pub fn truncate(file: impl AsFd, size: u64) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Ftruncate,
        || rustix::fs::ftruncate(file, size),
        || format!("{}, {size}", file.as_raw_fd()),
    )
}

/// Waits until the file's data and metadata are on disk.
///
/// # Errors
/// Any error from `fsync(2)`: data may be lost.
pub fn synchronize(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    gate::call(Operation::Fsync, || rustix::fs::fsync(file), || file.as_raw_fd().to_string())
}

/// Calls `flush` with a directory, reopened for reading if this descriptor is `O_PATH`: fsync(2)
/// and syncfs(2) refuse such a descriptor.
///
/// # Errors
/// Any of `flush`, openat(2) or close(2).
pub fn with_readable(directory: &Fd, flush: impl Fn(&Fd) -> Result<()>) -> Result<()> {
    match flush(directory) {
        Err(cause) if cause.is(Errno::BADF) => {
            let readable = open(directory, c".", Open::DIRECTORY)?;
            flush(&readable).and(readable.close())
        }
        outcome => outcome,
    }
}

/// Writes all bytes at `offset`.
///
/// # Errors
/// If a write fails, or writes nothing.
pub fn write_all(file: &Fd, offset: u64, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += progress(write(file, offset + done as u64, &bytes[done..], CacheMode::Keep)?)?;
    }
    Ok(())
}

/// Writes all bytes at the descriptor's position.
///
/// # Errors
/// If a write fails, or writes nothing.
pub fn write_all_stream(file: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        bytes = &bytes[progress(write_stream(&file, bytes)?)?..];
    }
    Ok(())
}

/// Rejects a write of 0 bytes, which would be repeated forever. GNU treats it as `ENOSPC`.
fn progress(written: usize) -> Result<usize> {
    match written {
        0 => Err(Error::new(Operation::Write, "0 bytes written".to_owned(), Errno::NOSPC)),
        _ => Ok(written),
    }
}

/// Fills `bytes` from `offset`, stopping early only at EOF. Returns the number of bytes read. EOF
/// is confirmed by a second read of zero bytes.
///
/// # Errors
/// If a read fails.
pub fn read_all(file: &Fd, offset: u64, bytes: &mut [u8]) -> Result<usize> {
    let (mut done, mut is_doubted) = (0, false);
    while done < bytes.len() {
        match read(file, offset + done as u64, &mut bytes[done..], CacheMode::Keep)? {
            0 if is_doubted => break,
            0 => is_doubted = true,
            more => (done, is_doubted) = (done + more, false),
        }
    }
    Ok(done)
}
