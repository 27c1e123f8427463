//! Kinds of problems and lines of a deletion.

haul_flow::kinds! {
    "delete"
    /// Kinds of problems and lines of a deletion.
    pub enum DeleteKind {
        /// A directory of either tree can't be listed, so nothing may be deleted.
        CannotList,
        /// A name of the target stands for two of the source, because it ignores case, say. So
        /// nothing may be deleted.
        SameName,
        /// An entry that only the target has can't be examined.
        CannotStat,
        /// An entry can't be removed.
        CannotRemove,
        /// An entry was replaced after it was found.
        Replaced,
        /// A directory that only the target has is on another file system, or something is mounted
        /// there.
        MountPoint,
        /// A directory that only the target has is the source, through another mount.
        IsSource,
        /// A directory's times can't be set again.
        Times,
        /// Something else went wrong, so nothing was deleted.
        AfterErrors,
        /// The source has nothing that is copied.
        EmptySource,
        /// More would be deleted than is allowed.
        TooMany,
        /// `--verbose` line for a removed file.
        Removed,
        /// `--verbose` line for a removed directory.
        RemovedDirectory,
        /// `--itemize-changes` line for anything that was removed.
        Itemized,
    }
}
