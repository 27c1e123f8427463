//! The time, as events and log files print it: RFC 3339, in UTC.

use std::time::{Duration, SystemTime};

use haul_sys::LocalTime;

/// Prints the time. Converts it to a date only once a second.
#[derive(Default)]
pub(crate) struct TimestampClock {
    seconds: u64,
    /// `seconds` as a date and time, or empty.
    text: String,
}

impl TimestampClock {
    /// Returns the time to the second, like `2026-01-31T23:59:59`, and the milliseconds since then.
    pub(crate) fn now(&mut self) -> (&str, u32) {
        self.at(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO))
    }

    fn at(&mut self, since_epoch: Duration) -> (&str, u32) {
        let seconds = since_epoch.as_secs();
        if self.text.is_empty() || self.seconds != seconds {
            self.seconds = seconds;
            self.text = date_time(seconds);
        }
        (&self.text, since_epoch.subsec_millis())
    }
}

fn date_time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(haul_sys::utc_time);
    let LocalTime { year, month, day, hour, minute, second } =
        time.unwrap_or(LocalTime { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0 });
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_follows_the_clock() {
        let mut clock = TimestampClock::default();
        assert_eq!(clock.at(Duration::from_millis(1_000_000_000_999)), ("2001-09-09T01:46:40", 999));
        assert_eq!(clock.at(Duration::from_millis(1_000_000_001_000)), ("2001-09-09T01:46:41", 0));
    }
}
