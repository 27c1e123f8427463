//! Latency of metadata calls, for `--max-latency`.
//!
//! On the source's side, this measures opening a file or directory, and planning an entry that is
//! then skipped; on the target's side, opening the target of a file. The sides are counted
//! separately: a local source must not hide a slow target.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The file system that calls are made to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Source,
    Target,
}

/// Time that calls to each side took so far, and their number.
pub(crate) type CallTimes = [(Duration, u64); 2];

/// Latencies, and their limit.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// In nanoseconds; 0 if there is no limit, and nothing is measured.
    max: AtomicU64,
    /// Nanoseconds and calls of each side.
    sides: [(AtomicU64, AtomicU64); 2],
}

impl Latencies {
    pub(super) fn set_max(&self, max: Option<Duration>) {
        self.max.store(max.map_or(0, nanoseconds), Ordering::Relaxed);
    }

    pub(super) fn max(&self) -> Option<Duration> {
        match self.max.load(Ordering::Relaxed) {
            0 => None,
            max => Some(Duration::from_nanos(max)),
        }
    }

    pub(super) fn add(&self, side: Side, begun: Instant) {
        let (time, calls) = &self.sides[side as usize];
        time.fetch_add(nanoseconds(begun.elapsed()), Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn times(&self) -> CallTimes {
        let read = |(time, calls): &(AtomicU64, AtomicU64)| {
            (Duration::from_nanos(time.load(Ordering::Relaxed)), calls.load(Ordering::Relaxed))
        };
        self.sides.each_ref().map(read)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
