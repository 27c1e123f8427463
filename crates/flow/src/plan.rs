//! The planner: how work is cut. Pure functions of counts and sizes, the same on one machine and on
//! a cluster.
//!
//! Invariant: every entry is in exactly one batch, and every byte of a file in exactly one range
//! (property tests below).

use std::ops::Range;

/// Maximum entries of one job: few enough to share a large directory evenly, enough to make the
/// cost of taking a job negligible.
pub const BATCH_ENTRIES: usize = 64;

/// Maximum entries of one work item, which is sent to another host and reported as a whole. A
/// message has many of them, so they need not be large, and small ones let the last of the work be
/// shared evenly.
pub const ITEM_ENTRIES_MAX: u64 = BATCH_ENTRIES as u64;

/// Work items per host that the entries seen so far are cut into, so that work can be shared evenly
/// although its size is not known when it is cut.
const ITEMS_PER_HOST: u64 = 8;

/// Maximum entries read from one directory before they are sorted and cut: the window in which
/// inode order is restored. The names of a window take about two megabytes.
pub const WINDOW_ENTRIES: usize = 64 << 10;

/// Maximum entries waiting in all queues before files go ahead of directories. Enough to keep every
/// worker busy, few enough that a new directory is still in the CPU caches when its files are
/// created (docs/measurements/choices.md). Also bounds memory: a run's names stay below this number
/// plus one window per worker.
pub const WAITING_ENTRIES_MAX: usize = 1 << 10;

/// Cuts `entries` entries into batches of at most `batch`, in order.
pub fn batches(entries: usize, batch: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let batch = batch.max(1);
    (0..entries).step_by(batch).map(move |start| start..entries.min(start + batch))
}

/// Returns the number of entries of the next work item. `seen` entries were seen so far, including
/// those to be cut, and `workers` hosts share the work.
///
/// A few large files in one directory get a work item each. Of many entries, an item has at most an
/// eighth of one host's share, up to [`ITEM_ENTRIES_MAX`].
#[must_use]
pub fn item_entries(seen: u64, workers: usize) -> usize {
    let share = seen / (ITEMS_PER_HOST * workers.max(1) as u64);
    share.clamp(1, ITEM_ENTRIES_MAX) as usize
}

/// Cuts a file of `size` bytes into ranges of `range_bytes`, rounded up to whole stripes
/// of `stripe_bytes`.
///
/// The ranges are in order, without gap or overlap. There is at least one, which is empty for an
/// empty file. A last range shorter than half the others is joined to the one before.
pub fn ranges(size: u64, range_bytes: u64, stripe_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let stripe = stripe_bytes.max(1);
    let step = range_bytes.max(1).div_ceil(stripe).saturating_mul(stripe);
    let whole = size / step;
    let count = if size % step > step / 2 { whole + 1 } else { whole }.max(1);
    (0..count).map(move |index| {
        let end = if index + 1 == count { size } else { (index + 1) * step };
        index * step..end
    })
}

/// Kind of job that a worker should prefer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Directories: listings don't wait behind data, and there is always work to share.
    Directories,
    /// Files: enough entries are waiting.
    Files,
}

/// Kind of job that goes first while few entries are waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precedence {
    /// Directories, so that listings don't wait behind data.
    #[default]
    DirectoriesFirst,
    /// Files, always: a directory is listed only when no file is left.
    FilesFirst,
}

/// Returns the kind of job to prefer while `waiting_entries` entries wait.
#[must_use]
pub fn preference(precedence: Precedence, waiting_entries: usize) -> Preference {
    match precedence {
        Precedence::DirectoriesFirst if waiting_entries < WAITING_ENTRIES_MAX => Preference::Directories,
        Precedence::DirectoriesFirst | Precedence::FilesFirst => Preference::Files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_entry_is_in_exactly_one_batch(entries in 0usize..2000, most in 1usize..300) {
            let mut next = 0;
            for batch in batches(entries, most) {
                prop_assert_eq!(batch.start, next);
                prop_assert!(!batch.is_empty() && batch.len() <= most);
                next = batch.end;
            }
            prop_assert_eq!(next, entries);
        }

        #[test]
        fn every_byte_is_in_exactly_one_range_on_stripe_boundaries(
            size in 0u64..1 << 40, range_bytes in 1u64 << 16..1 << 32, stripe_bytes in 0u64..1 << 24,
        ) {
            let mut next = 0;
            for range in ranges(size, range_bytes, stripe_bytes) {
                prop_assert_eq!(range.start, next);
                prop_assert_eq!(range.start % stripe_bytes.max(1), 0);
                prop_assert!(range.end > range.start || size == 0);
                next = range.end;
            }
            prop_assert_eq!(next, size);
        }
    }

    #[test]
    fn an_item_is_a_small_piece_of_a_share_until_it_is_full() {
        assert_eq!([0, 2400, 2400 * 10].map(|seen| item_entries(seen, 512)), [1, 1, 5]);
        assert_eq!([100, 2400, 50_000].map(|seen| item_entries(seen, 4)), [3, 64, 64]);
        assert_eq!(item_entries(1_000_000_000, 1000), 64);
        assert_eq!(item_entries(400, 0), 50);
    }

    #[test]
    fn directories_go_first_until_enough_waits() {
        let first = Precedence::DirectoriesFirst;
        assert_eq!(preference(first, 0), Preference::Directories);
        assert_eq!(preference(first, WAITING_ENTRIES_MAX), Preference::Files);
        assert_eq!(preference(Precedence::FilesFirst, 0), Preference::Files);
    }
}
