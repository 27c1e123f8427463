//! The share of the process's descriptors that a run may open.
//!
//! The command may use all that the limit allows. A library may not: the program has files open
//! too, goes on opening some during the run, and may run several copies at once. So each run gets
//! half of what is free and in no other run's share.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_flow::Config;

/// Minimum share: enough for one worker with one file, and a few directories.
const SHARE_MIN: usize = 16;

/// Sum of the shares of all runs in progress. Static because the limit is the process's.
static SHARED_OUT: AtomicUsize = AtomicUsize::new(0);

/// A run's share, which is returned when it is dropped.
pub(crate) struct DescriptorShare(usize);

impl DescriptorShare {
    pub(crate) fn take() -> Self {
        let free = haul_sys::descriptor_limit().saturating_sub(open_descriptors());
        // Descriptors that other runs have open already are subtracted twice: better too few.
        let share = |shared_out| (free.saturating_sub(shared_out) / 2).max(SHARE_MIN);
        // Relaxed, here and below: nothing else depends on it.
        let before = SHARED_OUT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| Some(before + share(before)));
        Self(before.map_or(SHARE_MIN, share))
    }

    /// Returns a configuration that keeps to the share, unless it has a number already.
    pub(crate) fn limit(&self, config: &Config) -> Config {
        Config { descriptors: Some(config.descriptors.unwrap_or(self.0)), ..config.clone() }
    }
}

impl Drop for DescriptorShare {
    fn drop(&mut self) {
        SHARED_OUT.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Returns the number of descriptors the process has open. Without `/proc` it can't be known.
fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
