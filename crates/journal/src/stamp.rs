//! Stamps: states of an entry's source and target at the time the entry was complete.
//!
//! Sources are stat'ed *before* they are read and targets *after* everything is done, so a source
//! that changes in between no longer matches its stamp and is copied again. A stamp covers, for
//! both sides, the file system id, inode number, type, size, mtime and ctime. Device numbers are
//! left out because they differ between hosts.

use std::time::{Duration, SystemTime};

use haul_sys::{FileType, Stat, Timestamp};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Identifies an entry among all of a copy, in this run and later ones. If two entries have the
/// same key by chance, one of them doesn't match its stamp and is copied again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(pub u64);

impl EntryKey {
    /// Returns the key of the entry with these paths, as shown to the user.
    #[must_use]
    pub fn new(source: &[u8], target: &[u8]) -> Self {
        let mut hash = Xxh3::new();
        hash.update(source);
        // No path contains it.
        hash.update(&[0]);
        hash.update(target);
        Self(hash.digest())
    }
}

/// Hash of the states of an entry's source and target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp(pub u64);

impl Stamp {
    /// No stamp: the entry is never skipped.
    pub const NONE: Self = Self(0);

    /// Returns the stamp of an entry; [`Stamp::NONE`] if the target is of another type. It is not
    /// the copy itself then, but a symbolic link to it, for instance.
    #[must_use]
    pub fn of(source: &StampedState, target: &StampedState) -> Self {
        if source.kind != target.kind || source.kind == FileType::Directory {
            return Self::NONE;
        }
        let numbers = source.numbers.iter().chain(&target.numbers);
        let bytes: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
        // 0 means no stamp.
        Self(xxh3_64(&bytes).max(1))
    }
}

/// Identifies an entry that a run has made, on any host and under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MadeEntry(pub(crate) u64);

impl MadeEntry {
    /// Returns the identity of an entry; `None` if its file system records no birth times, which
    /// tell entries with the same inode number apart. Except for a directory it covers size and
    /// mtime: a file that somebody has written to since isn't the one that was made.
    #[must_use]
    pub fn of(entry: &Stat) -> Option<Self> {
        let mut state = StampedState::new(0, entry);
        let born = entry.born?;
        // Renaming and linking change the ctime.
        state.numbers[5..].copy_from_slice(&[born.seconds.cast_unsigned(), born.nanoseconds.into()]);
        if entry.kind == FileType::Directory {
            state.numbers[2..5].fill(0);
        }
        let bytes: Vec<u8> = state.numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Some(Self(xxh3_64(&bytes)))
    }
}

/// State of one side of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampedState {
    /// File system id, inode number, size, mtime and ctime.
    numbers: [u64; 7],
    kind: FileType,
}

impl StampedState {
    /// Returns the state of a file on the file system with this id.
    #[must_use]
    pub fn new(file_system: u64, stat: &Stat) -> Self {
        let time = |time: Timestamp| (time.seconds.cast_unsigned(), u64::from(time.nanoseconds));
        let ((modified, modified_ns), (changed, changed_ns)) = (time(stat.modified), time(stat.changed));
        let numbers =
            [file_system, stat.identity.inode, stat.size, modified, modified_ns, changed, changed_ns];
        Self { numbers, kind: stat.kind }
    }

    /// Returns the state of a file that may get further names, which changes the ctime: mode and
    /// owner are in its place.
    #[must_use]
    pub fn of_linked(file_system: u64, stat: &Stat) -> Self {
        let mut state = Self::new(file_system, stat);
        let owner = u64::from(stat.owner) << 32 | u64::from(stat.group);
        state.numbers[5..].copy_from_slice(&[u64::from(stat.mode.bits()), owner]);
        state
    }
}

/// The coarsest clock of a file system that stores nanoseconds: one tick of the kernel's timer at
/// `CONFIG_HZ=100`. Since Linux 6.13 some use a finer one (multigrain timestamps).
const TICK: Duration = Duration::from_millis(10);

/// The clock of file systems that store less: FAT counts in steps of two seconds.
const COARSE_TICK: Duration = Duration::from_secs(2);

/// True if any later change of a file that was just stat'ed will show in its times. A file that was
/// changed a moment ago may be changed again within the same tick of the file system's clock.
#[must_use]
pub fn is_past_clock_tick(stat: &Stat) -> bool {
    let Timestamp { seconds, nanoseconds } = stat.changed;
    let tick = if nanoseconds == 0 { COARSE_TICK } else { TICK };
    let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return false };
    let changed = Duration::new(seconds.try_into().unwrap_or(0), nanoseconds);
    changed + tick < now
}
