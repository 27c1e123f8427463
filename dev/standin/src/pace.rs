//! Rate limits: compute when an operation requested now completes.
//!
//! A [`RateLimit`] is a virtual clock. A request starts when the previous one completes, and takes
//! its amount divided by the rate. Nothing sleeps here; callers get the time at which to reply.
//! Times are nanoseconds of [`UptimeClock`].
//!
//! A limit that was idle may catch up by at most [`RateLimit::burst`](RateLimit). Otherwise every
//! slightly late reply would lower the rate. Invariant: over any period, the amount stays below
//! `rate x (time + burst)` (test: `a_limit_keeps_its_rate`).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time since the file system started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UptimeClock(Instant);

impl UptimeClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> u64 {
        nanoseconds(self.0.elapsed())
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
pub(crate) struct RateLimit {
    rate: Option<u64>,
    burst: u64,
    free_at: Mutex<u64>,
}

impl RateLimit {
    /// Creates a limit of `rate` units per second; `None` or 0 means no limit.
    pub(crate) fn new(rate: Option<u64>, burst: Duration) -> Self {
        Self { rate: rate.filter(|rate| *rate > 0), burst: nanoseconds(burst), free_at: Mutex::new(0) }
    }

    /// Queues `amount` behind earlier requests and returns the time at which it completes.
    pub(crate) fn reserve(&self, now: u64, amount: u64) -> u64 {
        let Some(rate) = self.rate else { return now };
        let took = u128::from(amount) * 1_000_000_000 / u128::from(rate);
        let took = u64::try_from(took).unwrap_or(u64::MAX / 2);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*free_at).max(now.saturating_sub(self.burst));
        *free_at = begin.saturating_add(took);
        (*free_at).max(now)
    }
}

/// A limit per direction, or one shared by both.
#[derive(Debug)]
pub(crate) struct PacedLink {
    reads: RateLimit,
    writes: Option<RateLimit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacedDirection {
    /// To the client.
    Read,
    /// From the client.
    Write,
}

impl PacedLink {
    /// Creates a link; if `together`, both directions share the rate.
    pub(crate) fn new(rate: Option<u64>, burst: Duration, together: bool) -> Self {
        Self { reads: RateLimit::new(rate, burst), writes: (!together).then(|| RateLimit::new(rate, burst)) }
    }

    /// Queues a transfer of `bytes` and returns the time at which it completes.
    pub(crate) fn reserve(&self, way: PacedDirection, now: u64, bytes: u64) -> u64 {
        let limit = match (way, &self.writes) {
            (PacedDirection::Write, Some(writes)) => writes,
            _ => &self.reads,
        };
        limit.reserve(now, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_keeps_its_rate() {
        let limit = RateLimit::new(Some(1_000_000), Duration::from_millis(10));
        let mut done = 0;
        for _ in 0..100 {
            // Each is requested shortly after the previous one completes.
            done = limit.reserve(done + 2_000_000, 100_000);
        }
        // Ten seconds of work: the 2 ms pauses are made up for, as they are shorter than the burst.
        assert!((9_990_000_000..=10_012_000_000).contains(&done), "{done}");
    }

    #[test]
    fn what_was_not_used_long_ago_is_lost() {
        let limit = RateLimit::new(Some(1_000), Duration::from_millis(1));
        limit.reserve(0, 1);
        assert_eq!(limit.reserve(1_000_000_000, 1), 1_000_000_000);
        assert_eq!(limit.reserve(1_000_000_000, 1), 1_001_000_000);
    }

    #[test]
    fn directions_share_a_rate_or_do_not() {
        for (together, second) in [(true, 2_000_000_000), (false, 1_000_000_000)] {
            let link = PacedLink::new(Some(10), Duration::ZERO, together);
            assert_eq!(link.reserve(PacedDirection::Read, 0, 10), 1_000_000_000);
            assert_eq!(link.reserve(PacedDirection::Write, 0, 10), second);
        }
    }

    #[test]
    fn no_rate_is_no_wait() {
        assert_eq!(RateLimit::new(None, Duration::ZERO).reserve(5, u64::MAX), 5);
    }
}
