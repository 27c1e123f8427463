//! The clock of one limit.

use std::time::{Duration, Instant};

/// Maximum burst, as idle time that may be caught up, in seconds.
const LATE_MAX: f64 = 0.1;

/// Maximum wait before the clock is read again, in seconds, so that no limit overflows: a year.
const WAIT_MAX: f64 = 3e7;

/// Duration that the amount requested in advance lasts.
const AHEAD: Duration = Duration::from_millis(100);

/// Maximum amount of a request: what the limit allows in this time, in seconds.
pub(super) const REQUEST_MAX: f64 = 0.05;

/// Counts the used and the allowed amount.
#[derive(Debug, Default)]
pub(super) struct LimitClock {
    /// `None` if there is no limit.
    pub(super) per_second: Option<f64>,
    used: f64,
    /// The amount at the time `read`, or the sum of all grants.
    allowed: f64,
    /// When the clock was last read; `None` if it never ran.
    read: Option<Instant>,
    /// `None` if `allowed` grows with time.
    requests: Option<Requests>,
}

/// A process's requests to rank 0's clock.
#[derive(Debug)]
struct Requests {
    /// Requested and not granted yet.
    outstanding: f64,
    /// The value of `used` at `since`, and the amount used in the [`AHEAD`] before that.
    before: f64,
    recent: f64,
    since: Instant,
}

impl LimitClock {
    pub(super) fn advance(&mut self, now: Instant) {
        let elapsed = self.read.map_or(0.0, |read| now.saturating_duration_since(read).as_secs_f64());
        self.read = Some(now);
        self.allowed = match (self.per_second, &self.requests) {
            (None, _) => self.used,
            (Some(_), Some(_)) => self.allowed,
            (Some(rate), None) => (self.allowed + rate * elapsed).min(self.used + rate * LATE_MAX),
        };
    }

    /// Adds to the used amount. Returns the sum, to wait for.
    pub(super) fn take(&mut self, amount: u64, now: Instant) -> f64 {
        self.advance(now);
        self.used += amount as f64;
        self.used
    }

    /// Returns how long to wait until this much is allowed, as of the last reading.
    pub(super) fn left(&self, wanted: f64) -> Duration {
        let missing = wanted - self.allowed;
        let seconds = match (self.per_second, &self.requests) {
            (None, _) => 0.0,
            (Some(_), Some(_)) if missing > 0.0 => WAIT_MAX,
            (Some(rate), _) => missing / rate,
        };
        Duration::from_secs_f64(seconds.clamp(0.0, WAIT_MAX))
    }

    pub(super) fn set(&mut self, per_second: Option<f64>, now: Instant) {
        self.advance(now);
        self.per_second = per_second;
    }

    /// Skips the time since the last reading: nothing is allowed for it.
    pub(super) fn skip_time(&mut self, now: Instant) {
        self.read = Some(now);
    }

    pub(super) fn depend_on_grants(&mut self, now: Instant) {
        self.requests = Some(Requests { outstanding: 0.0, before: self.used, recent: 0.0, since: now });
    }

    pub(super) fn use_own_time(&mut self, now: Instant) {
        self.requests = None;
        self.skip_time(now);
    }

    /// Returns the amount to request now, which is then outstanding; 0 for no request.
    pub(super) fn ask(&mut self, now: Instant) -> u64 {
        self.advance(now);
        let Some(requests) = &mut self.requests else { return 0 };
        let used = self.used - requests.before;
        if now.saturating_duration_since(requests.since) >= AHEAD {
            *requests = Requests { before: self.used, recent: used, since: now, ..*requests };
        }
        let ahead = requests.recent.max(used);
        let Some(rate) = self.per_second else { return 0 };
        // While half of it is left, a request would only be a further message.
        if requests.outstanding > 0.0 || self.allowed >= self.used + ahead / 2.0 {
            return 0;
        }
        let missing = self.used + ahead - self.allowed;
        let amount = missing.min((rate * REQUEST_MAX).max(1.0)).ceil();
        requests.outstanding = amount;
        amount as u64
    }

    pub(super) fn grant(&mut self, amount: u64) {
        let Some(requests) = &mut self.requests else { return };
        self.allowed += amount as f64;
        requests.outstanding = (requests.outstanding - amount as f64).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns when a load of this many bytes may go on, in milliseconds since `begin`.
    fn over_at(clock: &mut LimitClock, bytes: u64, at: Instant, begin: Instant) -> u128 {
        let wanted = clock.take(bytes, at);
        (at + clock.left(wanted)).duration_since(begin).as_millis()
    }

    #[test]
    fn bytes_take_the_time_that_the_limit_allows() {
        let begin = Instant::now();
        let mut clock = LimitClock { per_second: Some(1000.0), ..LimitClock::default() };
        let mut over = |bytes, at| over_at(&mut clock, bytes, begin + Duration::from_millis(at), begin);
        assert_eq!(over(500, 0), 500);
        // By another worker at the same time.
        assert_eq!(over(500, 0), 1000);
        assert_eq!(over(100, 1000), 1100);
        // A little late, which it makes up for, and too late.
        assert_eq!(over(100, 1150), 1200);
        assert_eq!(over(100, 9000), 9000);
        assert_eq!(over(100, 9000), 9100);
    }

    #[test]
    fn a_new_limit_holds_for_what_waits() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut clock = LimitClock { per_second: Some(1000.0), ..LimitClock::default() };
        let wanted = clock.take(1000, begin);
        clock.set(Some(100.0), at(500));
        // Half of it is paid for.
        assert_eq!(clock.left(wanted), Duration::from_secs(5));
        clock.set(None, at(600));
        assert_eq!(clock.left(wanted), Duration::ZERO);
        // Bytes moved without a limit aren't paid for later.
        clock.take(1 << 40, at(700));
        clock.set(Some(1000.0), at(800));
        assert_eq!(over_at(&mut clock, 100, at(800), begin), 900);
    }
}
