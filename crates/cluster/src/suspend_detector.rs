//! Detects that this process was stopped, frozen, or on a suspended machine. Silence detection and
//! deadlines must not count such a period, because no message could have been received in it.

use std::time::{Duration, Instant};

/// Maximum interval between two ticks: the threads that call [`SuspendDetector::tick`] never block.
const TICK_MAX: Duration = Duration::from_secs(2);

/// Tracks the ticks of a thread.
#[derive(Debug)]
pub(crate) struct SuspendDetector {
    last: Instant,
}

impl SuspendDetector {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now }
    }

    /// Records a tick. Returns how long the process was suspended before it, or zero; the caller
    /// moves its receive times forward by that.
    pub(crate) fn tick(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.last);
        self.last = now;
        if passed > TICK_MAX { passed } else { Duration::ZERO }
    }
}

/// A deadline that moves by the time in which this process was suspended. It must be checked at
/// least once per [`TICK_MAX`].
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Instant,
    suspend_detector: SuspendDetector,
}

impl Deadline {
    pub(crate) fn new(now: Instant, within: Duration) -> Self {
        Self { at: now + within, suspend_detector: SuspendDetector::new(now) }
    }

    /// Returns true if it has passed.
    pub(crate) fn has_passed(&mut self, now: Instant) -> bool {
        // While it was suspended, nothing could be received, and if the whole machine was
        // suspended, the awaited event hasn't happened either.
        self.at += self.suspend_detector.tick(now);
        now >= self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pause_longer_than_a_tick_counts_as_suspended() {
        let began = Instant::now();
        let mut suspend_detector = SuspendDetector::new(began);
        assert_eq!(suspend_detector.tick(began + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(suspend_detector.tick(began + Duration::from_secs(61)), Duration::from_secs(60));
        assert_eq!(suspend_detector.tick(began + Duration::from_secs(62)), Duration::ZERO);
    }

    #[test]
    fn a_deadline_does_not_pass_while_the_process_is_suspended() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut deadline = Deadline::new(began, Duration::from_secs(3));
        assert!(!deadline.has_passed(after(1)));
        // It was suspended for a minute.
        assert!(!deadline.has_passed(after(61)));
        assert!(!deadline.has_passed(after(62)));
        assert!(deadline.has_passed(after(63)));
    }
}
