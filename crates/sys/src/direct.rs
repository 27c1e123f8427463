//! Past the page cache, and out of it again.
//!
//! A descriptor is made direct after it was opened, as only then is it known whether the file is one to be moved that way,
//! and how it wants its transfers aligned.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, OFlags, StatxFlags};

use crate::error::{Errno, Result};
use crate::fd::last_errno;
use crate::gate;
use crate::operation::Operation;

/// How a file's direct transfers have to lie, in bytes; both are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Of the memory.
    pub memory: usize,
    /// Of the place in the file, and of the length.
    pub offset: usize,
}

impl Alignment {
    /// What every file system is content with that does not say what it wants (`statx` says since Linux 6.1).
    const USUAL: Alignment = Alignment { memory: 4096, offset: 4096 };
}

/// Returns how direct transfers of the file have to be aligned; `None` when its file system says that it has none.
///
/// # Errors
/// The kernel's.
pub fn direct_alignment(file: impl AsFd) -> Result<Option<Alignment>> {
    let file = file.as_fd();
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let look = gate::call(
        Operation::Statx,
        || rustix::fs::statx(file, c"", flags, StatxFlags::DIOALIGN),
        || format!("{}, DIOALIGN", file.as_raw_fd()),
    )?;
    if look.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(Some(Alignment::USUAL));
    }
    let alignment =
        Alignment { memory: look.stx_dio_mem_align as usize, offset: look.stx_dio_offset_align as usize };
    Ok((alignment.memory > 0 && alignment.offset > 0).then_some(alignment))
}

/// Sends what the descriptor moves from now on past the page cache (`O_DIRECT`).
///
/// # Errors
/// The kernel's; `EINVAL` where the file system cannot.
pub fn bypass_cache(file: impl AsFd) -> Result<()> {
    change_flags(file, |flags| flags.union(OFlags::DIRECT))
}

/// Sends what the descriptor moves from now on through the page cache, as usual.
///
/// # Errors
/// The kernel's.
pub fn use_cache(file: impl AsFd) -> Result<()> {
    change_flags(file, |flags| flags.difference(OFlags::DIRECT))
}

fn change_flags(file: impl AsFd, change: impl Fn(OFlags) -> OFlags) -> Result<()> {
    let file = file.as_fd();
    gate::call(
        Operation::Fcntl,
        || rustix::fs::fcntl_setfl(file, change(rustix::fs::fcntl_getfl(file)?)),
        || format!("{}, F_SETFL", file.as_raw_fd()),
    )
}

/// Begins to write all of the file's dirty pages to the disk, and waits until they are there; not for its metadata
/// (`sync_file_range`). Pages that are not dirty can be dropped from the cache.
///
/// # Errors
/// The kernel's.
pub fn write_back(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    let how =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    gate::call(
        Operation::SyncFileRange,
        || {
            // SAFETY: takes no memory; the descriptor is open for as long as it is borrowed.
            let answer = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) };
            if answer == 0 { Ok(()) } else { Err::<(), Errno>(last_errno()) }
        },
        || format!("{}, 0, 0", file.as_raw_fd()),
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
        let Ok(cached) = crate::cached_pages(file.as_file()) else { return };
        assert!(cached > 0);
        write_back(file.as_file()).unwrap();
        crate::advise(file.as_file(), crate::Advice::DontNeed, 0).unwrap();
        let left = crate::cached_pages(file.as_file()).unwrap();
        assert!(left < cached, "{left} of {cached}");
    }
}
