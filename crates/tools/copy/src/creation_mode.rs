//! Creates new files with their final owner and mode where possible, so they need no
//! later `fchmod`.
//!
//! Owner and mode of a copy are set at the end; until then it is closed to everyone else. If a new
//! file is known to get the source's owner and exactly the mode that was asked for, it is created
//! with its final mode instead, which saves three system calls.
//!
//! Neither can be predicted (set-group-id directories, mount options, network file systems that map
//! users, file systems without modes). So the first file of each directory is checked after
//! creation (`CreationModes` in `target.rs`), and the rest follow its result. Only directories made
//! by this run qualify, because nobody else works in those.
//!
//! Invariant: a file is created with its final mode only if its owner is final and it gets no ACL
//! (tests: `born_files_need_no_chmod` and the audit of rights).

use haul_sys::{Fd, Mode, Stat, list_xattrs};

use super::Copier;
use super::options::Preserve;
use super::target::TargetDirectory;

/// How to create a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CreationMode {
    /// The mode to pass to `open`.
    pub(super) mode: Mode,
    /// True if owner and mode are then final.
    pub(super) is_final: bool,
}

impl Copier {
    /// Chooses the creation mode of a regular file. Lists `source`'s xattrs, which no mode
    /// can carry.
    pub(super) fn creation_mode(
        &self,
        directory: &TargetDirectory,
        source: &Fd,
        stat: &Stat,
    ) -> CreationMode {
        let is_final = self.is_born_final(directory, stat)
            // If xattrs can't be listed, assume an ACL.
            && list_xattrs(source).is_ok_and(|names| names.iter().next().is_none());
        if is_final { CreationMode { mode: stat.mode, is_final } } else { self.private_birth(stat) }
    }

    /// Creation mode of a file whose attributes are all set at the end.
    pub(super) fn private_birth(&self, stat: &Stat) -> CreationMode {
        CreationMode { mode: self.new_file_mode(stat), is_final: false }
    }

    /// True if a new file in `directory` gets the source's owner and mode at creation, provided the
    /// source has no ACL.
    pub(super) fn is_born_final(&self, directory: &TargetDirectory, stat: &Stat) -> bool {
        self.preserves(Preserve::OWNERSHIP | Preserve::MODE)
            && directory.creation_modes.are_as_asked()
            && self.is_own(stat)
            && stat.mode.and(self.umask.or(Mode::SPECIAL)).is_empty()
    }

    /// True if the source belongs to this process's user and group.
    pub(super) fn is_own(&self, stat: &Stat) -> bool {
        (stat.owner, stat.group) == (self.process.user, self.process.group)
    }

    /// Learns from a file created in `directory` and stat'ed since.
    pub(super) fn learn(&self, directory: &TargetDirectory, creation_mode: CreationMode, made: &Stat) {
        let is_new = directory.made.as_ref().is_some_and(|made| made.before.is_none());
        let creation_modes = &directory.creation_modes;
        if is_new && creation_modes.are_unknown() && !directory.gives_access_list {
            creation_modes.learn(self.is_own(made) && made.mode == creation_mode.mode.without(self.umask));
        }
    }
}
