//! Sentences of what keeps two trees from being made equal.

use haul_sync::SyncKind;

sentences! { sentence(SyncKind):
    Remote => "{}: no such directory, and haul copies only between local ones (with a colon in its name: ./NAME)",
    NotADirectory => "{}: not a directory",
    Nested => "{} and {} are one directory, or one is inside the other",
    HomeDirectory => "{} is your home directory: to delete there, add --really",
    MountRoot => "{} is the root of a mounted file system: to delete there, add --really",
    EarlierMissing => "warning: --link-dest: {} does not exist, so nothing is linked to it",
    EarlierUnusable => "--link-dest: {} cannot be used",
    EarlierNotADirectory => "--link-dest: {} is not a directory",
    EarlierElsewhere => "--link-dest: {} is on another file system than TARGET, so nothing can be linked",
    EarlierInTarget => "--link-dest: {} is TARGET, or inside it",
    BackupUnusable => "--backup-dir: {} cannot be used",
    BackupNotADirectory => "--backup-dir: {} is not a directory",
    BackupElsewhere => "--backup-dir: {} is on another file system than TARGET, so files cannot be moved there",
    BackupInside => "--backup-dir: {} must not be SOURCE or TARGET, inside one of them, or around one",
    BackupIsEarlier => "--backup-dir: {} must not be the directory of --link-dest, inside it, or around it",
    Conflict => "options {bare} and {bare} are mutually exclusive",
}
