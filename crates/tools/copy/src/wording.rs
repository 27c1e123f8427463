//! The sentences of the copy tool, worded as GNU cp words them.

use haul_flow::Wording;

macro_rules! wordings {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: Wording = Wording($text);)+
    };
}

wordings! {
    /// No operand at all.
    MISSING_OPERAND = "missing file operand";
    /// A source and nothing else.
    MISSING_TARGET = "missing destination file operand after {}";
    /// More than two operands with `-T`.
    EXTRA_OPERAND = "extra operand {}";
    /// `-t` and `-T`.
    BOTH_TARGET_OPTIONS = "cannot combine --target-directory (-t) and --no-target-directory (-T)";
    /// `-t` names no directory.
    TARGET_DIRECTORY = "target directory {}";
    /// Several sources and the last operand is no directory.
    TARGET = "target {}";
    /// `--parents` with a target that is no directory.
    PARENTS_WANT_DIRECTORY = "with --parents, the destination must be a directory";
    /// A directory on the way to a source cannot be looked at (`--parents`).
    PARENT_ATTRIBUTES = "failed to get attributes of {}";
    /// A directory on the way to a copy cannot be made (`--parents`).
    CANNOT_MAKE_PARENT = "cannot make directory {}";
    /// Something else stands where a directory on the way goes (`--parents`).
    PARENT_IS_OTHER = "{} exists but is not a directory";
    /// The times of a directory on the way cannot be set (`--parents`).
    PARENT_TIMES = "failed to preserve times for {}";
    /// The mode of a directory on the way cannot be set (`--parents`).
    PARENT_PERMISSIONS = "failed to preserve permissions for {}";
    /// The line of `--verbose` for a directory on the way (`--parents`): GNU quotes no names in it.
    PARENT_MADE = "{bare} -> {bare}";
    /// Somebody put something else in the place of what was just made, before it got its attributes.
    REPLACED_WHILE_MADE = "not changing {}, as it was replaced while being made";
    /// A directory without `-r`.
    OMITTING_DIRECTORY = "-r not specified; omitting directory {}";
    /// One source named twice.
    SOURCE_TWICE = "warning: source file {} specified more than once";
    /// One source directory named twice.
    DIRECTORY_TWICE = "warning: source directory {} specified more than once";
    /// One source directory named twice, for two targets.
    NO_DIRECTORY_LINK = "will not create hard link {} to directory {}";
    /// An entry that cannot be looked at.
    CANNOT_STAT = "cannot stat {}";
    /// An open target that cannot be looked at.
    CANNOT_FSTAT = "cannot fstat {}";
    /// Source and target are one.
    SAME_FILE = "{} and {} are the same file";
    /// A directory onto something else.
    DIRECTORY_ONTO_OTHER = "cannot overwrite non-directory {} with directory {}";
    /// Something else onto a directory.
    OTHER_ONTO_DIRECTORY = "cannot overwrite directory {} with non-directory {}";
    /// The target was made by this very command, from another operand.
    JUST_CREATED = "will not overwrite just-created {} with {}";
    /// The same, through a symbolic link.
    JUST_CREATED_LINK = "will not copy {} through just-created symlink {}";
    /// What stands there stays, and that is an error (`--update=none-fail`).
    NOT_REPLACING = "not replacing {}";
    /// The backup of the target would take the source's place.
    BACKUP_DESTROYS = "backing up {} might destroy source;  {} not copied";
    /// What stands in the place cannot be kept under another name.
    CANNOT_BACKUP = "cannot backup {}";
    /// The copy failed, and what was kept cannot be put back.
    CANNOT_UNBACKUP = "cannot un-backup {}";
    /// The target is in the source.
    INTO_ITSELF = "cannot copy a directory, {}, into itself, {}";
    /// A symbolic link leads to a directory it is in.
    CYCLIC_LINK = "cannot copy cyclic symbolic link {}";
    /// A directory cannot be made.
    CANNOT_CREATE_DIRECTORY = "cannot create directory {}";
    /// A made directory cannot be worked in.
    SETTING_PERMISSIONS = "setting permissions for {}";
    /// A file cannot be made or opened for writing.
    CANNOT_CREATE_FILE = "cannot create regular file {}";
    /// A symbolic link without a target stands in the place.
    DANGLING = "not writing through dangling symlink {}";
    /// What stands in the place cannot be removed.
    CANNOT_REMOVE = "cannot remove {}";
    /// A symbolic link cannot be read.
    CANNOT_READ_LINK = "cannot read symbolic link {}";
    /// A symbolic link cannot be made.
    CANNOT_CREATE_LINK = "cannot create symbolic link {}";
    /// A symbolic link to the source (`-s`) cannot be made.
    CANNOT_CREATE_LINK_TO = "cannot create symbolic link {} to {}";
    /// A relative link would lead elsewhere from there.
    RELATIVE_LINK = "{plain}: can make relative symbolic links only in current directory";
    /// A further name cannot be given.
    CANNOT_LINK = "cannot create hard link {} to {}";
    /// A FIFO cannot be made.
    CANNOT_CREATE_FIFO = "cannot create fifo {}";
    /// A socket or device cannot be made.
    CANNOT_CREATE_SPECIAL = "cannot create special file {}";
    /// A type of file nobody knows.
    UNKNOWN_TYPE = "{} has unknown file type";
    /// Blocks must be shared and cannot be.
    FAILED_TO_CLONE = "failed to clone {} from {}";
    /// A file with holes cannot be given its length.
    FAILED_TO_EXTEND = "failed to extend {}";
    /// The bytes of a copy, or of what is made in a directory, lie otherwise than the source's (`--copy-layout`).
    LAYOUT = "layout of {}: {bare}";
    /// The owner cannot be set.
    OWNERSHIP = "failed to preserve ownership for {}";
    /// A file's mode cannot be narrowed before its owner changes.
    CLEARING_PERMISSIONS = "clearing permissions for {}";
    /// The mode cannot be set.
    PERMISSIONS = "preserving permissions for {}";
    /// The mode and access lists of the source cannot be set. GNU takes the name for a word of the sentence.
    ACCESS = "preserving permissions for {prose}";
    /// The times cannot be set.
    TIMES = "preserving times for {}";
    /// Extended attributes cannot be listed.
    LISTING_ATTRIBUTES = "listing attributes of {}";
    /// One cannot be read.
    GETTING_ATTRIBUTE = "getting attribute {} of {}";
    /// One cannot be set.
    SETTING_ATTRIBUTE = "setting attribute {} for {}";
    /// The target's file system keeps none.
    SETTING_ATTRIBUTES = "setting attributes for {}";
    /// The list of rules for attributes cannot be read, or has a wrong line.
    ATTRIBUTE_LIST = "{}";
    /// A source's SELinux context cannot be read.
    GETTING_LABEL = "failed to get security context of {}";
    /// A copy's SELinux context cannot be set.
    SETTING_LABEL = "failed to set the security context of {}";
    /// The kernel refuses the SELinux context for new files.
    CREATION_LABEL = "failed to set default file creation context to {}";
    /// There is no library to look up contexts by.
    NO_CONTEXT_LIBRARY = "-Z needs the library {}, which cannot be loaded";
    /// The policy's list of contexts cannot be read.
    NO_CONTEXT_LIST = "cannot read the policy's default contexts by {}";
    /// The line of `--verbose`.
    COPIED = "{} -> {}";
    /// The line of `--verbose` for what replaces something that is kept.
    COPIED_WITH_BACKUP = "{} -> {} (backup: {})";
    /// The line of `--verbose` for what is put back.
    UNBACKUP = "{} -> {} (unbackup)";
    /// The line of `--verbose` for what had to go first.
    REMOVED = "removed {}";
    /// The line of `--debug` for what was copied.
    HOW_COPIED = "copy offload: {bare}, reflink: {bare}, sparse detection: {bare}";
    /// The line of `--debug` for what stays.
    SKIPPED = "skipped {}";
    /// The question of `-i`.
    OVERWRITE = "overwrite {}? ";
    /// The question of `-i` about what may not be written to, and would be removed.
    REPLACE = "replace {}, overriding mode {bare} ({bare})? ";
    /// The same about what would be opened all the same.
    UNWRITABLE = "unwritable {} (mode {bare}, {bare}); try anyway? ";
    /// A directory keeps files that a killed run has left in it.
    CANNOT_SWEEP = "cannot remove leftovers of an earlier run in {}";
}
