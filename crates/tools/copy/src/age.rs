//! Compares the ages of two files (`--update`) by modification time, as precisely as the file
//! system can store it.
//!
//! With `-p` a copy gets its source's time, truncated to what its file system can store. To keep
//! such a copy from looking older forever, the source's time is truncated the same way before the
//! comparison. No call returns a file system's timestamp resolution, so it is inferred from the
//! timestamps seen on it: a single one with a non-round nanosecond count proves full resolution.

use std::collections::HashMap;
use std::sync::Mutex;

use haul_flow::lock;
use haul_sys::{Stat, Timestamp};

const SECOND: u64 = 1_000_000_000;

/// Coarsest timestamp resolution, in nanoseconds: FAT's two seconds.
const COARSEST: u64 = 2 * SECOND;

/// Upper bound on each device's timestamp resolution, in nanoseconds, as far as known.
#[derive(Debug, Default)]
pub(super) struct Resolutions {
    known: Mutex<HashMap<u64, u64>>,
}

impl Resolutions {
    /// True if `target` is older than a `source` whose time the copy would keep.
    pub(super) fn is_older(&self, target: &Stat, source: &Stat) -> bool {
        let (there, new) = (target.modified, source.modified);
        if there == new || there.seconds >= new.seconds.saturating_add(2) {
            return false;
        }
        there.seconds <= new.seconds.saturating_sub(2) || there < cut(new, self.of(target))
    }

    /// True if `target` has the time of `source`, as precisely as it can be stored, or within
    /// `window` seconds.
    pub(super) fn is_same_time(&self, target: &Stat, source: &Stat, window: u32) -> bool {
        let (there, wanted) = (target.modified, source.modified);
        if there == wanted {
            return true;
        }
        if is_limit(there, wanted) {
            return true;
        }
        let window = i64::from(window);
        if there.seconds.abs_diff(wanted.seconds) > window.unsigned_abs() + 2 {
            return false;
        }
        let nanoseconds =
            |time: Timestamp| i128::from(time.seconds) * i128::from(SECOND) + i128::from(time.nanoseconds);
        let apart = (nanoseconds(there) - nanoseconds(wanted)).abs();
        apart <= i128::from(window) * i128::from(SECOND) || there == cut(wanted, self.of(target))
    }

    /// Returns the resolution of the file system `file` is on, refined by the timestamps of `file`.
    fn of(&self, file: &Stat) -> u64 {
        let seen = [file.accessed, file.modified, file.changed].map(granularity);
        let seen = seen.into_iter().min().unwrap_or(COARSEST);
        let mut known = lock(&self.known);
        let finest = known.entry(file.identity.device).or_insert(COARSEST);
        *finest = seen.min(*finest);
        *finest
    }
}

/// First second that ext4 and xfs can store.
const FIRST_SECOND: i64 = i32::MIN as i64;

/// Last seconds that file systems can store: with 32 bits, ext4 with inodes of 256 bytes
/// (`EXT4_EXTRA_TIMESTAMP_MAX`), and xfs with big timestamps (`XFS_BIGTIME_TIME_MAX`).
const LAST_SECONDS: [i64; 3] = [i32::MAX as i64, (1 << 34) - 1 + FIRST_SECOND, 16_299_260_424];

/// True if a file system has put `there`, the first or last time that it can store, in place of one
/// beyond it.
fn is_limit(there: Timestamp, wanted: Timestamp) -> bool {
    (there.seconds == FIRST_SECOND && wanted < there)
        || (LAST_SECONDS.contains(&there.seconds) && wanted > there)
}

/// Returns the coarsest resolution that can represent `time`: a power of ten nanoseconds, or
/// two seconds.
fn granularity(time: Timestamp) -> u64 {
    if time.nanoseconds == 0 {
        return if time.seconds % 2 == 0 { COARSEST } else { SECOND };
    }
    let mut step = 1;
    while u64::from(time.nanoseconds) % (step * 10) == 0 {
        step *= 10;
    }
    step
}

/// Truncates `time` to a multiple of `resolution` nanoseconds.
fn cut(time: Timestamp, resolution: u64) -> Timestamp {
    if resolution == COARSEST {
        return Timestamp { seconds: time.seconds & !1, nanoseconds: 0 };
    }
    let step = u32::try_from(resolution).unwrap_or(1).max(1);
    Timestamp { nanoseconds: time.nanoseconds - time.nanoseconds % step, ..time }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    #[test]
    fn a_time_shows_how_coarse_its_clock_may_be() {
        for (time, coarsest) in [
            (at(7, 123_456_789), 1),
            (at(7, 120), 10),
            (at(7, 500_000_000), 100_000_000),
            (at(7, 0), SECOND),
            (at(8, 0), COARSEST),
            (at(-7, 0), SECOND),
        ] {
            assert_eq!(granularity(time), coarsest, "{time:?}");
        }
    }

    #[test]
    fn a_time_beyond_what_can_be_stored_is_the_first_or_the_last_one() {
        for (there, wanted, is_one) in [
            (FIRST_SECOND, FIRST_SECOND - 1, true),
            (FIRST_SECOND, FIRST_SECOND + 1, false),
            (i64::from(i32::MAX), 15_032_385_536, true),
            (15_032_385_535, 15_032_385_536, true),
            (15_032_385_535, 15_032_385_534, false),
            (7, 8, false),
        ] {
            assert_eq!(is_limit(at(there, 0), at(wanted, 5)), is_one, "{there} {wanted}");
        }
    }

    #[test]
    fn a_time_is_cut_to_what_can_be_stored() {
        assert_eq!(cut(at(7, 123_456_789), 1), at(7, 123_456_789));
        assert_eq!(cut(at(7, 123_456_789), 1000), at(7, 123_456_000));
        assert_eq!(cut(at(7, 123_456_789), SECOND), at(7, 0));
        assert_eq!(cut(at(7, 123_456_789), COARSEST), at(6, 0));
        assert_eq!(cut(at(-7, 1), COARSEST), at(-8, 0));
    }
}
