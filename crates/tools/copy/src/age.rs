//! Compares the ages of two files (`--update`) by modification time, as precisely as the file
//! system can store it.
//!
//! With `-p` a copy gets its source's time, truncated to what its file system can store. To keep
//! such a copy from looking older forever, the source's time is truncated the same way before the
//! comparison. No call returns a file system's timestamp resolution. For common ones it is known;
//! for others it is inferred from the times seen on them, but only if those can't be round by
//! chance. Taking a file system for coarser than it is would leave a differing file as it is;
//! taking it for finer only copies a file again.

use std::collections::HashMap;
use std::sync::Mutex;

use haul_flow::lock;
use haul_sys::{Fd, Stat, Timestamp, device_of, time_resolution};

const SECOND: u64 = 1_000_000_000;

/// Resolution of FAT, in nanoseconds: two seconds.
const COARSEST: u64 = 2 * SECOND;

/// The times must be round by chance with a probability of less than one in this many.
const CHANCES: u64 = 1_000_000;

/// What is known of each device's timestamp resolution.
#[derive(Debug, Default)]
pub(super) struct Resolutions {
    known: Mutex<HashMap<u64, Resolution>>,
}

/// What is known of the timestamp resolution of a device, in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    /// The file system is one whose resolution is known.
    Known(u64),
    /// All times seen are multiples of `step`. The files changed at `moments` different times,
    /// latest at `last`.
    Inferred { step: u64, moments: u32, last: Option<Timestamp> },
}

impl Resolution {
    /// Looks at the file system that `file`, an entry of `directory`, is on.
    fn of(directory: &Fd, file: &Stat) -> Self {
        // Through a symbolic link, the file may be on another one.
        let is_there = device_of(directory).is_ok_and(|device| device == file.identity.device);
        let known = is_there.then(|| time_resolution(directory, file).ok().flatten()).flatten();
        known.map_or(Self::Inferred { step: SECOND, moments: 0, last: None }, Self::Known)
    }

    fn refined(self, file: &Stat) -> Self {
        let Self::Inferred { step, moments, last } = self else { return self };
        let seen = [file.accessed, file.modified, file.changed].map(granularity);
        let step = seen.into_iter().fold(step, u64::min);
        // Only the ctime: the other times may have been set by someone.
        let moments = moments.saturating_add(u32::from(last != Some(file.changed)));
        Self::Inferred { step, moments, last: Some(file.changed) }
    }

    fn nanoseconds(self) -> u64 {
        match self {
            Self::Known(nanoseconds) => nanoseconds,
            // One in `step` times is as round by chance.
            Self::Inferred { step, moments, .. } if step.saturating_pow(moments) >= CHANCES => step,
            Self::Inferred { .. } => 1,
        }
    }
}

impl Resolutions {
    /// True if `target`, an entry of `directory`, is older than a `source` whose time the copy
    /// would keep.
    pub(super) fn is_older(&self, directory: &Fd, target: &Stat, source: &Stat) -> bool {
        let (there, new) = (target.modified, source.modified);
        if there == new || there.seconds >= new.seconds.saturating_add(2) {
            return false;
        }
        there.seconds <= new.seconds.saturating_sub(2) || there < cut(new, self.of(directory, target))
    }

    /// True if `target`, an entry of `directory`, has the time of `source`, as precisely as it can
    /// be stored, or within `window` seconds.
    pub(super) fn is_same_time(&self, directory: &Fd, target: &Stat, source: &Stat, window: u32) -> bool {
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
        apart <= i128::from(window) * i128::from(SECOND) || there == cut(wanted, self.of(directory, target))
    }

    /// Returns the resolution of the file system `file` is on, refined by the timestamps of `file`.
    fn of(&self, directory: &Fd, file: &Stat) -> u64 {
        let mut known = lock(&self.known);
        let device = known.entry(file.identity.device).or_insert_with(|| Resolution::of(directory, file));
        *device = device.refined(file);
        device.nanoseconds()
    }
}

/// First second that ext4 and xfs can store.
const FIRST_SECOND: i64 = i32::MIN as i64;

/// Last seconds that file systems can store: with 32 bits, ext4 with inodes of 256 bytes
/// (`EXT4_EXTRA_TIMESTAMP_MAX`), and xfs with big timestamps (`XFS_BIGTIME_TIME_MAX`).
const LAST_SECONDS: [i64; 3] = [i32::MAX as i64, (1 << 34) - 1 + FIRST_SECOND, 16_299_260_424];

/// True if `there` is the first or last time that a file system can store, and replaces a time
/// beyond that limit or in the same second: the kernel stores the limits without nanoseconds
/// (`timestamp_truncate`).
fn is_limit(there: Timestamp, wanted: Timestamp) -> bool {
    there.nanoseconds == 0
        && ((there.seconds == FIRST_SECOND && wanted.seconds <= FIRST_SECOND)
            || (LAST_SECONDS.contains(&there.seconds) && wanted > there))
}

/// Returns the coarsest resolution that can represent `time`, among those of file systems that
/// don't report it: that of NTFS and SMB, or a second.
fn granularity(time: Timestamp) -> u64 {
    match time.nanoseconds {
        0 => SECOND,
        nanoseconds if nanoseconds.is_multiple_of(100) => 100,
        _ => 1,
    }
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
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use haul_sys::{Identity, Open, open_path, stat};

    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    /// A file on a device that no directory is on.
    fn file(modified: Timestamp, changed: Timestamp) -> Stat {
        let directory = open_path(c".", Open::SEARCH).unwrap();
        let identity = Identity { device: u64::MAX, inode: 1 };
        Stat { identity, accessed: modified, modified, changed, ..stat(&directory).unwrap() }
    }

    /// Returns whether the last of several targets has the time of a source that is `later`
    /// nanoseconds newer than all of them. They have changed at these nanoseconds of a second.
    fn last_is_same(changes: &[u32], later: u32) -> bool {
        let (resolutions, directory) = (Resolutions::default(), open_path(c".", Open::SEARCH).unwrap());
        let source = file(at(7, later), at(7, 1));
        let is_same = changes.iter().map(|nanoseconds| {
            let target = file(at(7, 0), at(9, *nanoseconds));
            let is_same = resolutions.is_same_time(&directory, &target, &source, 0);
            assert_ne!(resolutions.is_older(&directory, &target, &source), is_same);
            is_same
        });
        is_same.last().unwrap()
    }

    #[test]
    fn round_times_prove_a_coarse_clock_only_if_that_is_no_chance() {
        // Every tenth time ends in 0, and every hundredth in 00.
        assert!(!last_is_same(&[1_230], 5) && !last_is_same(&[12_300], 5));
        assert!(!last_is_same(&[500_000_000], 5));
        // Files that have changed at one moment are not several proofs.
        assert!(!last_is_same(&[12_300; 9], 5));
        assert!(last_is_same(&[12_300, 400, 5_600], 50));
        assert!(!last_is_same(&[12_300, 400, 5_600], 500));
        assert!(!last_is_same(&[12_300, 400, 5_600, 7], 50));
        assert!(last_is_same(&[0], 999_999_999));
    }

    #[test]
    fn what_is_known_of_a_file_system_is_not_inferred() {
        for nanoseconds in [1, 100, COARSEST] {
            let known = Resolution::Known(nanoseconds);
            assert_eq!(known.refined(&file(at(8, 0), at(8, 0))).nanoseconds(), nanoseconds);
            assert_eq!(known.refined(&file(at(8, 7), at(8, 7))).nanoseconds(), nanoseconds);
        }
    }

    #[test]
    fn a_time_beyond_what_can_be_stored_is_the_first_or_the_last_one() {
        for (there, wanted, is_one) in [
            (FIRST_SECOND, FIRST_SECOND - 1, true),
            (FIRST_SECOND, FIRST_SECOND, true),
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
