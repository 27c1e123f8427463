//! Detects that this process was stopped, frozen, or on a suspended machine. Silence detection must
//! not count such a period, because no message could have been received in it.

use std::time::{Duration, Instant};

/// Maximum length of a normal turn: the threads that call [`Standstill::turn`] never block.
const TURN_MAX: Duration = Duration::from_secs(2);

/// Tracks the turns of a thread.
#[derive(Debug)]
pub(crate) struct Standstill {
    last: Instant,
}

impl Standstill {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now }
    }

    /// Records a turn. Returns how long the process stood still before it, or zero; the caller
    /// moves its receive times forward by that.
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
