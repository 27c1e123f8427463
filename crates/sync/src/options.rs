//! Options of a sync, as plain data.

use std::path::PathBuf;

use haul_copy::{
    Atomic, Backup, CopyOptions, Dereference, Existing, Make, OnFull, Preserve, Update, UpdateRule,
};
use haul_delete::Limit;
use haul_flow::Selection;

/// Steps of a sync other than copying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Deletion of extra entries (`--delete`); `None` to delete nothing.
    pub deletion: Option<DeletionOptions>,
    /// Directories of earlier copies, whose files are linked instead of copied if they are the same
    /// (`--link-dest`). Relative paths are relative to the target.
    pub link_dest: Vec<PathBuf>,
    /// Where replaced and deleted files are kept (`--backup-dir`), relative to the target.
    pub backup_dir: Option<PathBuf>,
}

/// Rules for deleting entries that only the target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionOptions {
    /// Also delete entries that the selection leaves out (`--delete-excluded`).
    pub excluded: bool,
    /// Delete nothing if it would be more than this (`--max-delete`).
    pub limit: Limit,
    /// Delete also from the home directory and from the root of a mounted file system, and also if
    /// the source is empty (`--really`).
    pub really: bool,
}

impl Default for DeletionOptions {
    fn default() -> Self {
        Self { excluded: false, limit: Limit::HalfOfMany, really: false }
    }
}

/// Two options that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A deletion, and a list of the names to copy: all others would be extra.
    DeleteListed,
    /// A directory for backups, and writing to existing files.
    BackupInPlace,
    /// Links to an earlier copy, and writing to existing files: those are that copy's too.
    LinkInPlace,
    /// Newer files stay, and writing to existing files: after an interruption, a file that was
    /// being written is newer.
    UpdateInPlace,
    /// Links to an earlier copy, and nothing new.
    LinkExisting,
    /// A sync, and a way of copying that doesn't make the target equal.
    NotEqual,
}

impl Conflict {
    /// Returns the flags of the two options. The second one is empty where haul has no flag.
    #[must_use]
    pub fn flags(self) -> (&'static str, &'static str) {
        match self {
            Self::DeleteListed => ("--delete", "--files-from"),
            Self::BackupInPlace => ("--backup-dir", "--inplace"),
            Self::LinkInPlace => ("--link-dest", "--inplace"),
            Self::UpdateInPlace => ("--update", "--inplace"),
            Self::LinkExisting => ("--link-dest", "--existing"),
            Self::NotEqual => ("sync", ""),
        }
    }
}

impl Options {
    /// Returns two options that exclude each other, if any do.
    #[must_use]
    pub fn conflict(&self, copy: &CopyOptions, selection: &Selection) -> Option<Conflict> {
        let in_place = copy.atomic != Atomic::Always;
        let existing = &copy.existing;
        let Update::Different(difference) = existing.update else { return Some(Conflict::NotEqual) };
        // Backups next to the files would themselves be extra entries; with the other options the
        // trees wouldn't become equal.
        let not_equal = existing.backs_up()
            || existing.ask
            || !copy.recursive
            || copy.make != Make::Copy
            || copy.attributes_only
            || copy.copy_contents;
        let conflicts = [
            (not_equal, Conflict::NotEqual),
            (self.deletion.is_some() && selection.list.is_some(), Conflict::DeleteListed),
            (self.backup_dir.is_some() && in_place, Conflict::BackupInPlace),
            (!self.link_dest.is_empty() && in_place, Conflict::LinkInPlace),
            (!self.link_dest.is_empty() && difference.only_existing, Conflict::LinkExisting),
            (difference.keeps_newer && in_place, Conflict::UpdateInPlace),
        ];
        conflicts.into_iter().find(|(is_there, _)| *is_there).map(|(_, conflict)| conflict)
    }

    /// Returns the deletion that follows a copy, if one does.
    pub(crate) fn deletion_after(&self, copy: &CopyOptions) -> Option<haul_delete::Options> {
        let DeletionOptions { excluded, limit, really } = self.deletion?;
        Some(haul_delete::Options {
            excluded,
            limit,
            makes_way: copy.existing.update.deletes_later(),
            empty_source: really,
            follows: copy.dereference == Dereference::Always,
            one_file_system: copy.one_file_system,
            keeps_times: copy.preserve.contains(Preserve::TIMESTAMPS),
            own_files: Vec::new(),
            source_parts: Vec::new(),
            verbose: copy.verbose,
            itemize: copy.itemize,
            backup_place: None,
            waits_for_room: copy.on_full == OnFull::Pause,
            dry_run: copy.dry_run,
        })
    }
}

/// Returns how a sync copies unless something else is asked for: with all attributes, links as
/// links, and existing files replaced as a whole.
#[must_use]
pub fn copy_options() -> CopyOptions {
    CopyOptions {
        recursive: true,
        dereference: Dereference::Operands,
        preserve: Preserve::all(),
        require_preserve: true,
        reduce_diagnostics: true,
        // Silence would leave the trees different.
        report_lost_xattrs: true,
        atomic: Atomic::Always,
        existing: Existing {
            update: Update::Different(UpdateRule::default()),
            backup: Backup::None,
            ..Existing::default()
        },
        ..CopyOptions::default()
    }
}
