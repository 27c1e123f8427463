//! Kinds of problems that keep two trees from being made equal.

haul_flow::kinds! {
    "sync"
    /// Kinds of problems of a sync, before anything is touched. The first name is a path.
    pub enum SyncKind {
        /// Nothing has this name, which rsync would take for a path on another host.
        Remote =
            "{}: no such directory; haul sync is local only (for a name with a colon, write ./NAME)",
        /// Source or target is not a directory.
        NotADirectory = "{}: not a directory",
        /// The absolute path of source or target can't be determined, so the two can't be checked.
        NoAbsolutePath = "{}: cannot determine its absolute path",
        /// Two paths, source and target, are one directory, or one is inside the other.
        Nested = "{} and {} are one directory, or one is inside the other",
        /// The target is the user's home directory, and nothing may be deleted there.
        HomeDirectory = "{} is your home directory: to delete there, add --really",
        /// The target is the root of a mounted file system, and nothing may be deleted there.
        MountRoot = "{} is the root of a mounted file system: to delete there, add --really",
        /// Nothing says whether the target is such a root, and nothing may be deleted there.
        MountUnknown = "cannot tell whether {} is the root of a mounted file system",
        /// An earlier copy is missing, which is only a warning.
        EarlierMissing = "warning: --link-dest: {} does not exist, so nothing is linked to it",
        /// An earlier copy can't be used.
        EarlierUnusable = "--link-dest: {} cannot be used",
        /// An earlier copy is not a directory.
        EarlierNotADirectory = "--link-dest: {} is not a directory",
        /// An earlier copy is on another file system than the target.
        EarlierElsewhere = "--link-dest: {} is on another file system than TARGET, so nothing can be linked",
        /// An earlier copy is the target, or inside it.
        EarlierInTarget = "--link-dest: {} is inside TARGET",
        /// The directory for backups can't be used.
        BackupUnusable = "--backup-dir: {} cannot be used",
        /// The directory for backups is not a directory.
        BackupNotADirectory = "--backup-dir: {} is not a directory",
        /// The directory for backups is on another file system than the target.
        BackupElsewhere =
            "--backup-dir: {} is on another file system than TARGET, so files cannot be moved there",
        /// The directory for backups is source or target, inside one of them, or around one.
        BackupInside = "--backup-dir: {} must not be SOURCE or TARGET, inside one of them, or around one",
        /// The directory for backups is an earlier copy, inside one, or around one.
        BackupIsEarlier =
            "--backup-dir: {} must not be the directory of --link-dest, inside it, or around it",
        /// Options that exclude each other. The names are theirs.
        Conflict = "options {bare} and {bare} are mutually exclusive",
    }
}
