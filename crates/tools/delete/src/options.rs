//! Options of a deletion, as plain data.

use haul_flow::BackupPlace;
use haul_sys::Identity;
use serde::{Deserialize, Serialize};

/// Maximum amount to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// At most so many entries.
    Entries(u64),
    /// At most this percentage of the target's entries.
    Percent(u8),
    /// At most half, if the target has more than 1,000 entries; fewer entries are quickly copied
    /// again.
    HalfOfMany,
}

impl Limit {
    /// True if `entries_to_delete` of the target's `all` entries may be deleted.
    pub(crate) fn allows(self, entries_to_delete: u64, all: u64) -> bool {
        let is_part = |percent| u128::from(entries_to_delete) * 100 <= u128::from(all) * u128::from(percent);
        match self {
            Self::Entries(most) => entries_to_delete <= most,
            Self::Percent(percent) => is_part(percent),
            Self::HalfOfMany => all <= 1000 || is_part(50u8),
        }
    }
}

/// Options of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// True if the selection protects nothing: entries that it leaves out are deleted too.
    pub excluded: bool,
    /// Maximum amount to delete.
    pub limit: Limit,
    /// True if directories make way for other files.
    pub makes_way: bool,
    /// True if everything may be deleted because the source is empty.
    pub empty_source: bool,
    /// True if the copy follows symbolic links of the source.
    pub follows: bool,
    /// True if the copy stays on the source's file system: then so does the deletion.
    pub one_file_system: bool,
    /// True if directories keep their times when something in them is deleted.
    pub keeps_times: bool,
    /// Files that stay in any case: the program's own.
    pub own_files: Vec<Identity>,
    /// The source, and directories in it that the target shows through mounts: they stay, with
    /// all that is in them.
    pub source_parts: Vec<Identity>,
    /// Where deleted files are kept (`--backup-dir`).
    pub backup_place: Option<BackupPlace>,
    /// True if the run waits while there is no room for these.
    pub waits_for_room: bool,
    /// True if the names of deleted entries are reported.
    pub verbose: bool,
    /// True if they are reported as by rsync's `--itemize-changes`.
    pub itemize: bool,
    /// True if nothing is deleted, only reported.
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_by_the_entry_beyond_it() {
        assert!(Limit::Entries(3).allows(3, 3) && !Limit::Entries(3).allows(4, 1000));
        assert!(Limit::Percent(10).allows(10, 100) && !Limit::Percent(10).allows(11, 100));
        assert!(Limit::Percent(100).allows(7, 7) && !Limit::Percent(0).allows(1, 1000));
        assert!(Limit::HalfOfMany.allows(1000, 1000) && Limit::HalfOfMany.allows(501, 1002));
        assert!(!Limit::HalfOfMany.allows(502, 1002));
    }
}
