//! Noticing that this process stood still: stopped, frozen, or on a machine that was suspended. Whoever measures the silence of
//! others must not count that time, in which it could not have heard them.

use std::time::{Duration, Instant};

/// A turn that took longer than this was no turn: the threads that look never wait for anything.
const TURN_MAX: Duration = Duration::from_secs(2);

/// Watches the turns of a thread.
#[derive(Debug)]
pub(crate) struct Standstill {
    last: Instant,
}

impl Standstill {
    /// Begins to watch.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now }
    }

    /// Notes a turn; returns how long the process stood still before it, if it did. What was heard before is to be taken as
    /// heard that much later.
    pub(crate) fn turn(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.last);
        self.last = now;
        if passed > TURN_MAX { passed } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_longer_than_a_turn_is_a_standstill() {
        let began = Instant::now();
        let mut standstill = Standstill::new(began);
        assert_eq!(standstill.turn(began + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(standstill.turn(began + Duration::from_secs(61)), Duration::from_secs(60));
        assert_eq!(standstill.turn(began + Duration::from_secs(62)), Duration::ZERO);
    }
}
