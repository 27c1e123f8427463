//! A limit on the bytes that a run moves per second.
//!
//! All workers share one clock. Bytes take the time that the limit allows for them, those of one
//! worker after those of another, and who has moved them waits until that time is over (generic
//! cell rate algorithm, ITU-T I.371). Waiting afterwards needs no plan: a read may return less than
//! was asked for. A run that was late for a moment may make up for it, but not for longer.

use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::policy::CancelToken;

/// How much time that nothing was moved in may be made up for.
const LATE_MAX: Duration = Duration::from_millis(100);

/// Longest sleep before it is looked whether the run was cancelled.
const NAP: Duration = Duration::from_millis(100);

/// The clock of a limited run.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: f64,
    /// When the time of everything moved so far is over.
    over_at: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1) as f64, over_at: Mutex::default() }
    }

    /// Returns when the time of bytes that have just been moved is over.
    fn over_at(&self, bytes: u64, now: Instant) -> Instant {
        // Not more than a year, so that no limit overflows.
        let seconds = (bytes as f64 / self.bytes_per_second).min(3e7);
        let mut over_at = lock(&self.over_at);
        let earliest = now.checked_sub(LATE_MAX).unwrap_or(now);
        let begins = over_at.map_or(now, |over_at| over_at.max(earliest));
        *over_at.insert(begins + Duration::from_secs_f64(seconds))
    }

    /// Waits until the time of bytes that have just been moved is over, or the run is cancelled.
    pub(crate) fn wait(&self, bytes: u64, cancel: &CancelToken) {
        let over_at = self.over_at(bytes, Instant::now());
        loop {
            let left = over_at.saturating_duration_since(Instant::now());
            if left.is_zero() || cancel.is_cancelled() {
                return;
            }
            sleep(left.min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_time_that_the_limit_allows() {
        let (pace, begin) = (Pace::new(1000), Instant::now());
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        assert_eq!(pace.over_at(500, at(0)), at(500));
        // By another worker at the same time.
        assert_eq!(pace.over_at(500, at(0)), at(1000));
        assert_eq!(pace.over_at(100, at(1000)), at(1100));
        // A little late, which it makes up for, and too late.
        assert_eq!(pace.over_at(100, at(1150)), at(1200));
        assert_eq!(pace.over_at(100, at(9000)), at(9000));
        assert_eq!(pace.over_at(100, at(9000)), at(9100));
    }

    #[test]
    fn a_cancelled_run_does_not_wait() {
        let cancel = CancelToken::default();
        cancel.cancel();
        Pace::new(1).wait(u64::MAX, &cancel);
    }
}
