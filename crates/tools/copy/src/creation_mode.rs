//! What new files are born with, so that it need not be set again.
//!
//! Owner and mode of a copy are set at the end, and until then it is closed to everybody else. Where a new file of this
//! process is known to be born with the source's owner and just the mode that was asked for, it can be made with its
//! final mode instead: three system calls become none.
//!
//! Neither is known beforehand (set-group-id directories, mount options, network file systems that map users, file
//! systems without modes), so the first file of each directory is looked at after it was made ([`CreationModes::learn`]), and the
//! others take after it. Only in directories that this run made, as nobody else works in those.
//!
//! Invariant: a file is made with its final mode only if its owner is the final one and it gets no access list (tests:
//! `born_files_need_no_chmod` and the audit of rights).

use std::sync::atomic::{AtomicU8, Ordering};

use haul_sys::{Fd, Mode, Stat, list_xattrs};

use super::Copier;
use super::options::Preserve;
use super::target::TargetDirectory;

/// What is known of the files that this process makes in a directory.
#[derive(Debug, Default)]
pub(super) struct CreationModes(AtomicU8);

const UNKNOWN: u8 = 0;
const AS_ASKED: u8 = 1;
const OTHERWISE: u8 = 2;

impl CreationModes {
    fn learn(&self, as_asked: bool) {
        let found = if as_asked { AS_ASKED } else { OTHERWISE };
        // What was once otherwise stays so.
        self.0.fetch_max(found, Ordering::Relaxed);
    }

    fn are_as_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) == AS_ASKED
    }

    fn are_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) == UNKNOWN
    }
}

/// How a regular file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CreationMode {
    /// The mode to ask for.
    pub(super) mode: Mode,
    /// Whether owner and mode are then the final ones.
    pub(super) is_final: bool,
}

impl Copier {
    /// Says how to make a regular file in a directory. `source` is looked at for attributes that a mode cannot give.
    pub(super) fn creation_mode(
        &self,
        directory: &TargetDirectory,
        source: &Fd,
        stat: &Stat,
    ) -> CreationMode {
        let is_final = self.is_born_final(directory, stat)
            // A kernel that cannot tell has an access list for all we know.
            && list_xattrs(source).is_ok_and(|names| names.iter().next().is_none());
        if is_final { CreationMode { mode: stat.mode, is_final } } else { self.private_birth(stat) }
    }

    /// Says how to make a file whose attributes are all set at the end.
    pub(super) fn private_birth(&self, stat: &Stat) -> CreationMode {
        CreationMode { mode: self.new_file_mode(stat), is_final: false }
    }

    /// Tells whether a new file in a directory is born with the source's owner and mode, if that has no access list.
    pub(super) fn is_born_final(&self, directory: &TargetDirectory, stat: &Stat) -> bool {
        self.preserves(Preserve::OWNERSHIP | Preserve::MODE)
            && directory.creation_modes.are_as_asked()
            && self.is_own(stat)
            && stat.mode.and(self.umask.or(Mode::SPECIAL)).is_empty()
    }

    /// Tells whether a source belongs to the user and group of this process.
    pub(super) fn is_own(&self, stat: &Stat) -> bool {
        (stat.owner, stat.group) == (self.process.user, self.process.group)
    }

    /// Learns from a file that was made in a directory, and has been looked at since.
    pub(super) fn learn(&self, directory: &TargetDirectory, creation_mode: CreationMode, made: &Stat) {
        let is_new = directory.made.as_ref().is_some_and(|made| made.before.is_none());
        let creation_modes = &directory.creation_modes;
        if is_new && creation_modes.are_unknown() && !directory.gives_access_list {
            creation_modes.learn(self.is_own(made) && made.mode == creation_mode.mode.without(self.umask));
        }
    }
}
