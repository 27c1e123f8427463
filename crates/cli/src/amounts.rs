//! Human-readable amounts: three digits and a decimal unit.

use std::time::Duration;

const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// Formats bytes in powers of 1000: `999 B`, `1.23 kB`, `45.6 GB`. At most seven characters.
pub(crate) fn bytes(amount: u64) -> String {
    let (digits, unit) = scaled(amount as f64);
    format!("{digits} {unit}B")
}

/// Formats two byte counts in the unit of the second: `1.20/45.6 GB`. At most twelve characters if
/// the first is not the larger.
pub(crate) fn bytes_of(part: u64, whole: u64) -> String {
    let (digits, unit) = scaled(whole as f64);
    let position = UNITS.iter().position(|known| *known == unit).unwrap_or_default();
    let scale = 1000_f64.powi(i32::try_from(position).unwrap_or_default());
    let part = if position == 0 { part.to_string() } else { three_digits(part as f64 / scale) };
    format!("{part}/{digits} {unit}B")
}

/// Formats a count: `999`, `1.23k`, `45.6M`. At most five characters.
pub(crate) fn count(amount: u64) -> String {
    let (digits, unit) = scaled(amount as f64);
    format!("{digits}{unit}")
}

/// Formats a count of things: `1 entry`, `1.23k entries`.
pub(crate) fn of(amount: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(amount), if amount == 1 { one } else { several })
}

/// Formats a duration: `0:07`, `12:34`, `3:25:45`, `4d 03h`. At most eight characters.
pub(crate) fn time(amount: Duration) -> String {
    let seconds = amount.as_secs();
    let (minutes, hours, days) = (seconds / 60 % 60, seconds / 3600 % 24, seconds / 86400);
    match (days, seconds / 3600) {
        (0, 0) => format!("{minutes}:{:02}", seconds % 60),
        (0, _) => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        (1..=999, _) => format!("{days}d {hours:02}h"),
        _ => "ages".to_owned(),
    }
}

/// Scales an amount to the largest unit that leaves at least one.
fn scaled(amount: f64) -> (String, &'static str) {
    let mut rest = amount;
    for unit in UNITS {
        // A value that would round to 1000 belongs to the next unit.
        if rest < 999.5 {
            return (if unit.is_empty() { format!("{rest:.0}") } else { three_digits(rest) }, unit);
        }
        rest /= 1000.0;
    }
    (format!("{:.0}", rest * 1000.0), UNITS[UNITS.len() - 1])
}

/// Formats a number below 1000 with three digits.
fn three_digits(number: f64) -> String {
    match number {
        ..9.995 => format!("{number:.2}"),
        ..99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits() {
        let written = [0, 999, 1000, 9_994, 9_996, 99_960, 999_499, 999_500, 1_234_567, u64::MAX].map(bytes);
        let wanted = [
            "0 B", "999 B", "1.00 kB", "9.99 kB", "10.0 kB", "100 kB", "999 kB", "1.00 MB", "1.23 MB",
            "18.4 EB",
        ];
        assert_eq!(written, wanted);
        assert_eq!(count(1_234), "1.23k");
        assert_eq!(
            [0, 1, 2].map(|amount| of(amount, "entry", "entries")),
            ["0 entries", "1 entry", "2 entries"]
        );
    }

    #[test]
    fn a_part_has_the_unit_of_the_whole() {
        assert_eq!(bytes_of(5, 500), "5/500 B");
        assert_eq!(bytes_of(1_200_000_000, 45_600_000_000), "1.20/45.6 GB");
        assert_eq!(bytes_of(1, 45_600_000_000), "0.00/45.6 GB");
        assert_eq!(bytes_of(99_960_000, 99_960_000), "100/100 MB");
    }

    #[test]
    fn times_are_short() {
        let written =
            [0, 67, 754, 12_345, 356_400, u64::MAX].map(|seconds| time(Duration::from_secs(seconds)));
        assert_eq!(written, ["0:00", "1:07", "12:34", "3:25:45", "4d 03h", "ages"]);
    }
}
