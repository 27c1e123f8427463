//! Kinds of problems and lines of a deletion.

haul_flow::kinds! {
    "delete"
    /// Kinds of problems and lines of a deletion.
    pub enum DeleteKind {
        /// A directory of either tree can't be listed, so nothing may be deleted.
        CannotList = "cannot list directory {}",
        /// Two source names are the same name on the target's file system, which ignores case, for
        /// example. So nothing may be deleted.
        SameName = "two names in SOURCE are the same name here: {}",
        /// An entry that only the target has can't be examined.
        CannotStat = "cannot stat {}",
        CannotRemove = "cannot remove {}",
        Replaced = "not removing {}, as it was replaced meanwhile",
        /// Entries came into a directory, or left it, after they were counted.
        Changed = "not removing {}, as it was changed meanwhile",
        /// A directory that only the target has is on another file system, or something is mounted
        /// there.
        MountPoint = "cannot remove {}, as it is on another file system or something is mounted there",
        /// A directory of the target is part of the source too, through a mount.
        IsSource = "cannot remove {}, as it is part of SOURCE",
        /// A directory's mode can't be set again.
        Permissions = "preserving permissions for {}",
        /// A directory's times can't be set again.
        Times = "preserving times for {}",
        /// Something else went wrong, so nothing was deleted.
        AfterErrors = "nothing was deleted from {}, because of the errors above",
        /// The source has nothing that is copied.
        EmptySource = "{} has nothing to copy, so nothing was deleted from {} (--really overrides this)",
        /// More would be deleted than is allowed.
        TooMany =
            "nothing was deleted: it would be {bare} of the {bare} entries of {} (--max-delete sets the limit)",
        /// `--verbose` line for a removed file.
        Removed = "removed {}",
        /// `--verbose` line for a removed directory.
        RemovedDirectory = "removed directory {}",
        /// `--itemize-changes` line for anything that was removed.
        Itemized = "*deleting   {itemized}",
    }
}
