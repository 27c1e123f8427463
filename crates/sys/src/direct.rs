//! Direct I/O, and writing back dirty pages.
//!
//! A descriptor is switched to direct I/O after it has been opened: only then is it known whether
//! the file should be copied that way, and which alignment it needs.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, OFlags, StatxFlags};

use crate::error::{Errno, Result};
use crate::fd::last_errno;
use crate::gate;
use crate::operation::Operation;
use crate::stat::{STATX_DONT_SYNC, or_else_without_statx};

/// Required alignment of direct transfers, in bytes. Both are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Alignment of the memory.
    pub memory: usize,
    /// Alignment of the file offset and the length.
    pub offset: usize,
}

impl Alignment {
    /// Sufficient for every file system that doesn't report its requirement (`statx` does since
    /// Linux 6.1).
    const USUAL: Alignment = Alignment { memory: 4096, offset: 4096 };
}

/// Returns the alignment that direct transfers of the file need, or `None` if the file system
/// reports that it has no direct I/O.
///
/// # Errors
/// Any error from `statx(2)`.
pub fn direct_alignment(file: impl AsFd) -> Result<Option<Alignment>> {
    let file = file.as_fd();
    // The alignment doesn't change, so cached attributes will do: a network file system needn't ask
    // its server.
    let flags = AtFlags::EMPTY_PATH | STATX_DONT_SYNC;
    let look = gate::call(
        Operation::Statx,
        || {
            or_else_without_statx(rustix::fs::statx(file, c"", flags, StatxFlags::DIOALIGN).map(Some), || {
                Ok(None)
            })
        },
        || format!("{}, DIOALIGN", file.as_raw_fd()),
    )?;
    let Some(look) = look.filter(|look| look.stx_mask & StatxFlags::DIOALIGN.bits() != 0) else {
        return Ok(Some(Alignment::USUAL));
    };
    let alignment =
        Alignment { memory: look.stx_dio_mem_align as usize, offset: look.stx_dio_offset_align as usize };
    // Both are 0 if the file has no direct I/O (statx(2)).
    Ok((alignment.memory > 0 && alignment.offset > 0).then_some(alignment))
}

/// Makes further I/O on the descriptor bypass the page cache (`O_DIRECT`).
///
/// # Errors
/// Any error from `fcntl(2)`; `EINVAL` if the file system has no direct I/O.
pub fn bypass_cache(file: impl AsFd) -> Result<()> {
    change_flags(file, |flags| flags.union(OFlags::DIRECT))
}

/// Makes further I/O on the descriptor use the page cache again.
///
/// # Errors
/// Any error from `fcntl(2)`.
pub fn use_cache(file: impl AsFd) -> Result<()> {
    change_flags(file, |flags| flags.difference(OFlags::DIRECT))
}

pub(crate) fn change_flags(file: impl AsFd, change: impl Fn(OFlags) -> OFlags) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fcntl,
        // `F_SETFL` replaces all flags, so begin with those that are set.
        || rustix::fs::fcntl_setfl(file, change(rustix::fs::fcntl_getfl(file)?)),
        || format!("{}, F_SETFL", file.as_raw_fd()),
    )
}

/// Writes the file's dirty pages to disk and waits for them, but not for its metadata
/// (`sync_file_range`). Only clean pages can be dropped from the cache.
///
/// # Errors
/// Any error from `sync_file_range(2)`.
pub fn write_back(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    // Only all three together cover every page that was dirty at the call; without the first, those
    // already being written back may be missed (sync_file_range(2)).
    let how =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    gate::call(
        Operation::SyncFileRange,
        || {
            // SAFETY: passes only numbers; the descriptor is open while it is borrowed.
            let answer = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) };
            if answer == 0 { Ok(()) } else { Err::<(), Errno>(last_errno()) }
        },
        || format!("{}, 0, 0", file.as_raw_fd()),
    )
}

/// Starts to write a range of the file's dirty pages to disk, and doesn't wait for that
/// (`sync_file_range`).
///
/// # Errors
/// Any error from `sync_file_range(2)`.
pub fn start_write_back(file: impl AsFd, range: Range<u64>) -> Result<()> {
    let file = file.as_fd();
    let length = (range.end - range.start).cast_signed();
    gate::call(
        Operation::SyncFileRange,
        || {
            let (file, start) = (file.as_raw_fd(), range.start.cast_signed());
            // SAFETY: passes only numbers; the descriptor is open while it is borrowed.
            let answer = unsafe { libc::sync_file_range(file, start, length, libc::SYNC_FILE_RANGE_WRITE) };
            if answer == 0 { Ok(()) } else { Err::<(), Errno>(last_errno()) }
        },
        || format!("{}, {}, {length}", file.as_raw_fd(), range.start),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_becomes_direct_and_usual_again() {
        let file = tempfile::tempfile().unwrap();
        let is_direct = || rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT);
        let Some(alignment) = direct_alignment(&file).unwrap() else { return };
        assert!(alignment.offset.is_power_of_two() && alignment.memory.is_power_of_two());
        if let Err(error) = bypass_cache(&file) {
            assert!(error.is(Errno::INVAL), "{error:#}");
            return;
        }
        assert!(is_direct());
        use_cache(&file).unwrap();
        assert!(!is_direct());
    }

    #[test]
    fn what_was_written_back_can_be_dropped() {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let Ok(cached) = crate::cached_bytes(file.as_file()) else { return };
        assert!(cached > 0);
        write_back(file.as_file()).unwrap();
        crate::advise(file.as_file(), crate::Advice::DontNeed, 0).unwrap();
        let left = crate::cached_bytes(file.as_file()).unwrap();
        assert!(left < cached, "{left} of {cached}");
    }
}
