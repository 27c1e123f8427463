//! Conversion of timestamps to local time.

use std::mem::MaybeUninit;

/// Broken-down time, in the user's time zone or in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
    /// The hour.
    pub hour: u8,
    /// The minute.
    pub minute: u8,
    /// The second.
    pub second: u8,
}

/// Converts seconds since 1970 to local time; `None` if the year overflows.
#[must_use]
pub fn local_time(seconds: i64) -> Option<LocalTime> {
    let mut filled = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: passes pointers to a number and to the result, which both outlive the call.
    let answer = unsafe { libc::localtime_r(&raw const seconds, filled.as_mut_ptr()) };
    // SAFETY: the fields are valid for any bits.
    (!answer.is_null()).then(|| broken_down(&unsafe { filled.assume_init() }))
}

/// Converts seconds since 1970 to Coordinated Universal Time; `None` if the year overflows.
#[must_use]
pub fn utc_time(seconds: i64) -> Option<LocalTime> {
    let mut filled = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: passes pointers to a number and to the result, which both outlive the call.
    let answer = unsafe { libc::gmtime_r(&raw const seconds, filled.as_mut_ptr()) };
    // SAFETY: the fields are valid for any bits.
    (!answer.is_null()).then(|| broken_down(&unsafe { filled.assume_init() }))
}

fn broken_down(shown: &libc::tm) -> LocalTime {
    let small = |number: i32| u8::try_from(number).unwrap_or_default();
    LocalTime {
        year: i64::from(shown.tm_year) + 1900,
        month: small(shown.tm_mon + 1),
        day: small(shown.tm_mday),
        hour: small(shown.tm_hour),
        minute: small(shown.tm_min),
        second: small(shown.tm_sec),
    }
}

/// Converts local time to seconds since 1970; `None` if there is no such day or time. If the clock
/// shows that time twice, the C library chooses which.
#[must_use]
pub fn seconds_of(time: LocalTime) -> Option<i64> {
    let mut fields = libc::tm {
        tm_year: i32::try_from(time.year - 1900).ok()?,
        tm_mon: i32::from(time.month) - 1,
        tm_mday: i32::from(time.day),
        tm_hour: i32::from(time.hour),
        tm_min: i32::from(time.minute),
        tm_sec: i32::from(time.second),
        tm_isdst: -1,
        // SAFETY: every field is a number or a pointer that is only written.
        ..unsafe { std::mem::zeroed() }
    };
    // SAFETY: passes a pointer to a struct that outlives the call.
    let seconds = unsafe { libc::mktime(&raw mut fields) };
    // `mktime` normalises February 30 to March 2, and a time skipped by daylight saving to another.
    (local_time(seconds) == Some(time)).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_converts_back_unless_there_is_no_such_day() {
        let time = local_time(1_000_000_000).unwrap();
        assert_eq!(seconds_of(time), Some(1_000_000_000));
        assert_eq!(seconds_of(LocalTime { day: 31, ..time }), None);
        assert_eq!(seconds_of(LocalTime { month: 13, ..time }), None);
    }

    #[test]
    fn a_day_later_the_clock_shows_the_same() {
        let (one, next) = (local_time(1_000_000_000).unwrap(), local_time(1_000_086_400).unwrap());
        assert_eq!((one.year, one.month), (2001, 9));
        assert_eq!(
            (next.day, next.hour, next.minute, next.second),
            (one.day + 1, one.hour, one.minute, one.second)
        );
        assert_eq!(local_time(i64::MAX), None);
    }

    #[test]
    fn utc_is_that_of_the_calendar() {
        let LocalTime { year, month, day, hour, minute, second } = utc_time(1_000_000_000).unwrap();
        assert_eq!((year, month, day, hour, minute, second), (2001, 9, 9, 1, 46, 40));
        assert_eq!(utc_time(i64::MAX), None);
    }
}
