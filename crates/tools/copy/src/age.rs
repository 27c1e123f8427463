//! Which of two files is older (`--update`): by the times of their content, as far as the file system can tell.
//!
//! A copy with `-p` gets its source's time, cut to what its file system can store. So that such a copy does not look
//! older for ever, the source's time is cut in the same way before the two are compared. How fine a file system's times
//! are is nowhere to be read: it is judged by the times that were seen on it. One of them with a nanosecond that is no
//! round number shows that they are as fine as can be.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use haul_sys::{Stat, Timestamp};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The coarsest times there are, in nanoseconds: those of FAT.
const COARSEST: u64 = 2 * SECOND;

/// How fine the times of each file system are, as far as is known: at most so many nanoseconds apart.
#[derive(Debug, Default)]
pub(super) struct Resolutions {
    known: Mutex<HashMap<u64, u64>>,
}

impl Resolutions {
    /// Tells whether a target is older than a source whose copy would keep its time.
    pub(super) fn is_older(&self, target: &Stat, source: &Stat) -> bool {
        let (there, new) = (target.modified, source.modified);
        if there == new || there.seconds >= new.seconds + 2 {
            return false;
        }
        there.seconds <= new.seconds - 2 || there < cut(new, self.of(target))
    }

    /// Returns how fine the times are where `file` is, now that its own are known too.
    fn of(&self, file: &Stat) -> u64 {
        let seen = [file.accessed, file.modified, file.changed].map(granularity);
        let seen = seen.into_iter().min().unwrap_or(COARSEST);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let finest = known.entry(file.identity.device).or_insert(COARSEST);
        *finest = seen.min(*finest);
        *finest
    }
}

/// Returns the coarsest clock that can show a time: a power of ten of nanoseconds, or two seconds.
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

/// Cuts a time to what a file system stores whose times are `resolution` nanoseconds apart.
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
    fn a_time_is_cut_to_what_can_be_stored() {
        assert_eq!(cut(at(7, 123_456_789), 1), at(7, 123_456_789));
        assert_eq!(cut(at(7, 123_456_789), 1000), at(7, 123_456_000));
        assert_eq!(cut(at(7, 123_456_789), SECOND), at(7, 0));
        assert_eq!(cut(at(7, 123_456_789), COARSEST), at(6, 0));
        assert_eq!(cut(at(-7, 1), COARSEST), at(-8, 0));
    }
}
