//! Kinds of problems that keep two trees from being made equal.

haul_flow::kinds! {
    "sync"
    /// Kinds of problems of a sync, before anything is touched. The first name is a path.
    pub enum SyncKind {
        /// Nothing has this name, which rsync would take for a path on another host.
        Remote,
        /// Source or target is not a directory.
        NotADirectory,
        /// Two paths, source and target, are one directory, or one is inside the other.
        Nested,
        /// The target is the user's home directory, and nothing may be deleted there.
        HomeDirectory,
        /// The target is the root of a mounted file system, and nothing may be deleted there.
        MountRoot,
        /// An earlier copy is missing, which is only a warning.
        EarlierMissing,
        /// An earlier copy can't be used.
        EarlierUnusable,
        /// An earlier copy is not a directory.
        EarlierNotADirectory,
        /// An earlier copy is on another file system than the target.
        EarlierElsewhere,
        /// An earlier copy is the target, or inside it.
        EarlierInTarget,
        /// The directory for backups can't be used.
        BackupUnusable,
        /// The directory for backups is not a directory.
        BackupNotADirectory,
        /// The directory for backups is on another file system than the target.
        BackupElsewhere,
        /// The directory for backups is source or target, inside one of them, or around one.
        BackupInside,
        /// The directory for backups is an earlier copy, inside one, or around one.
        BackupIsEarlier,
        /// Options that exclude each other. The names are theirs.
        Conflict,
    }
}
