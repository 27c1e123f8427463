//! Size of the part of a file that is in the page cache.
//!
//! The C library has no wrapper for the call yet, so the number and the structures follow
//! `linux/mman.h`.

use std::os::fd::{AsFd, AsRawFd};

use crate::error::Result;
use crate::fd::last_errno;
use crate::gate;
use crate::operation::Operation;

/// `__NR_cachestat`, the same number on every architecture but Alpha.
const CACHESTAT: libc::c_long = 451;

/// Returns how many bytes of the file are in the page cache, in whole pages (`cachestat`, Linux
/// 6.5).
///
/// # Errors
/// Any error from `cachestat(2)`: `ENOSYS` if the kernel lacks it, `EPERM` if this user may not
/// query the file.
pub fn cached_bytes(file: impl AsFd) -> Result<u64> {
    let file = file.as_fd();
    gate::call(
        Operation::Cachestat,
        || {
            // `struct cachestat_range`: offset and length; length 0 means to the end.
            let whole = [0_u64; 2];
            // `struct cachestat`: pages cached, dirty, under writeback, evicted, and
            // recently evicted.
            let mut pages = [0_u64; 5];
            // SAFETY: the kernel reads two words and writes five, and both arrays outlive the call;
            // the descriptor is open while it is borrowed.
            let answer = unsafe {
                libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const whole, &raw mut pages, 0_u32)
            };
            match answer {
                0 => Ok(pages[0] * rustix::param::page_size() as u64),
                _ => Err(last_errno()),
            }
        },
        || file.as_raw_fd().to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Errno;
    use std::io::Write;

    #[test]
    fn what_was_written_is_in_the_cache_and_a_hole_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        match cached_bytes(&file) {
            Err(error) if error.is(Errno::NOSYS) || error.is(Errno::PERM) => return,
            answer => assert_eq!(answer.unwrap(), 0),
        }
        file.write_all(&[1; 5 * 4096]).unwrap();
        file.set_len(100 * 4096).unwrap();
        let page = u64::try_from(rustix::param::page_size()).unwrap();
        assert_eq!(cached_bytes(&file).unwrap(), (5 * 4096_u64).next_multiple_of(page));
    }
}
