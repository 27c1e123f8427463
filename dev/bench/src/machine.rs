//! Describes the machine a figure was measured on.

use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The properties of a machine that matter to a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Kernel release.
    pub(crate) kernel: String,
    /// Model name of the processors.
    pub(crate) processor: String,
    /// Processors available to this process.
    pub(crate) processors: usize,
    pub(crate) memory_bytes: u64,
    /// When the measurement was made, in UTC.
    pub(crate) date: String,
}

impl Machine {
    /// Reads the facts of this machine; unavailable ones are "unknown" or 0.
    pub(crate) fn look() -> Machine {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            date: date(seconds),
        }
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|_| "unknown".to_owned())
}

/// Returns the value of the first line that starts with `name`, after its colon.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn memory_bytes(text: &str) -> u64 {
    let kilobytes = field(text, "MemTotal");
    kilobytes.and_then(|value| value.strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Formats seconds since 1970 as a UTC date.
///
/// Days are counted in 400-year eras that start on 1 March, so the leap day is the last day of its
/// year (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (seconds % 86_400 / 3_600, seconds % 3_600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_709_164_800, "2024-02-29 00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_bytes("MemTotal:       24682416 kB\nMemFree: 1 kB\n"), 24_682_416 * 1024);
        assert_eq!(memory_bytes("unknown"), 0);
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_processor() {
        let machine = Machine::look();
        assert!(machine.kernel.contains('.'), "{machine:?}");
        assert!(machine.processors > 0 && machine.memory_bytes > 0, "{machine:?}");
    }
}
