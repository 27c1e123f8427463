//! Tracks which files a client has open.
//!
//! The kernel's cached pages of a file stay valid while the client has it open, like under the
//! locks of a parallel file system. Otherwise the kernel would drop them on every further open, and
//! would wait for all reads in progress to do so.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Opens {
    counts: Mutex<HashMap<u64, usize>>,
}

impl Opens {
    fn counts(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an open; returns true if the file was already open.
    pub(super) fn begin(&self, number: u64) -> bool {
        let mut counts = self.counts();
        let count = counts.entry(number).or_default();
        *count += 1;
        *count > 1
    }

    pub(super) fn end(&self, number: u64) {
        let mut counts = self.counts();
        if let Some(count) = counts.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Opens;

    #[test]
    fn a_file_is_open_until_it_is_closed_as_often() {
        let opens = Opens::default();
        assert_eq!([1, 1, 2].map(|number| opens.begin(number)), [false, true, false]);
        opens.end(1);
        assert!(opens.begin(1));
        opens.end(1);
        opens.end(1);
        assert!(!opens.begin(1));
    }
}
