//! The copy tool's messages, worded like GNU cp's.

use haul_flow::Wording;

macro_rules! wordings {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: Wording = Wording($text);)+
    };
}

wordings! {
    /// No operands.
    MISSING_OPERAND = "missing file operand";
    /// A source without a target.
    MISSING_TARGET = "missing destination file operand after {}";
    /// More than two operands with `-T`.
    EXTRA_OPERAND = "extra operand {}";
    /// `-t` with `-T`.
    BOTH_TARGET_OPTIONS = "cannot combine --target-directory (-t) and --no-target-directory (-T)";
    /// `-t` names a non-directory.
    TARGET_DIRECTORY = "target directory {}";
    /// Several sources, and the last operand is not a directory.
    TARGET = "target {}";
    /// `--parents` with a target that is not a directory.
    PARENTS_WANT_DIRECTORY = "with --parents, the destination must be a directory";
    /// A source's parent can't be examined (`--parents`).
    PARENT_ATTRIBUTES = "failed to get attributes of {}";
    /// A copy's parent can't be created (`--parents`).
    CANNOT_MAKE_PARENT = "cannot make directory {}";
    /// A copy's parent exists as a non-directory (`--parents`).
    PARENT_IS_OTHER = "{} exists but is not a directory";
    /// A parent's times can't be set (`--parents`).
    PARENT_TIMES = "failed to preserve times for {}";
    /// A parent's mode can't be set (`--parents`).
    PARENT_PERMISSIONS = "failed to preserve permissions for {}";
    /// `--verbose` line for a parent (`--parents`). GNU does not quote its names.
    PARENT_MADE = "{bare} -> {bare}";
    /// A new entry was replaced before it got its attributes.
    REPLACED_WHILE_MADE = "not changing {}, as it was replaced while being made";
    /// A directory without `-r`.
    OMITTING_DIRECTORY = "-r not specified; omitting directory {}";
    /// One source given twice.
    SOURCE_TWICE = "warning: source file {} specified more than once";
    /// One source directory given twice.
    DIRECTORY_TWICE = "warning: source directory {} specified more than once";
    /// One source directory given twice, with two targets.
    NO_DIRECTORY_LINK = "will not create hard link {} to directory {}";
    /// An entry can't be examined.
    CANNOT_STAT = "cannot stat {}";
    /// An open target can't be examined.
    CANNOT_FSTAT = "cannot fstat {}";
    /// Source and target are one file.
    SAME_FILE = "{} and {} are the same file";
    /// A directory can't replace a non-directory.
    DIRECTORY_ONTO_OTHER = "cannot overwrite non-directory {} with directory {}";
    /// A non-directory can't replace a directory.
    OTHER_ONTO_DIRECTORY = "cannot overwrite directory {} with non-directory {}";
    /// This run created the target from another operand.
    JUST_CREATED = "will not overwrite just-created {} with {}";
    /// The same, through a symbolic link.
    JUST_CREATED_LINK = "will not copy {} through just-created symlink {}";
    /// The target exists (`--update=none-fail`).
    NOT_REPLACING = "not replacing {}";
    /// The target's backup would replace the source.
    BACKUP_DESTROYS = "backing up {} might destroy source;  {} not copied";
    /// The target can't be renamed to its backup.
    CANNOT_BACKUP = "cannot backup {}";
    /// The copy failed, and the backup can't be restored.
    CANNOT_UNBACKUP = "cannot un-backup {}";
    /// The target is inside the source.
    INTO_ITSELF = "cannot copy a directory, {}, into itself, {}";
    /// A symbolic link leads to a directory that contains it.
    CYCLIC_LINK = "cannot copy cyclic symbolic link {}";
    /// A directory can't be created.
    CANNOT_CREATE_DIRECTORY = "cannot create directory {}";
    /// A new directory can't be made accessible.
    SETTING_PERMISSIONS = "setting permissions for {}";
    /// A file can't be created, or opened for writing.
    CANNOT_CREATE_FILE = "cannot create regular file {}";
    /// The target is a dangling symbolic link.
    DANGLING = "not writing through dangling symlink {}";
    /// The existing target can't be removed.
    CANNOT_REMOVE = "cannot remove {}";
    /// A symbolic link can't be read.
    CANNOT_READ_LINK = "cannot read symbolic link {}";
    /// A symbolic link can't be created.
    CANNOT_CREATE_LINK = "cannot create symbolic link {}";
    /// A symbolic link to the source (`-s`) can't be created.
    CANNOT_CREATE_LINK_TO = "cannot create symbolic link {} to {}";
    /// A relative link would not resolve from there.
    RELATIVE_LINK = "{plain}: can make relative symbolic links only in current directory";
    /// A hard link can't be created.
    CANNOT_LINK = "cannot create hard link {} to {}";
    /// A FIFO can't be created.
    CANNOT_CREATE_FIFO = "cannot create fifo {}";
    /// A socket or device can't be created.
    CANNOT_CREATE_SPECIAL = "cannot create special file {}";
    /// Unknown file type.
    UNKNOWN_TYPE = "{} has unknown file type";
    /// Blocks must be shared but can't be.
    FAILED_TO_CLONE = "failed to clone {} from {}";
    /// A file with holes can't be extended to its length.
    FAILED_TO_EXTEND = "failed to extend {}";
    /// A target's striping layout differs from its source's (`--copy-layout`).
    LAYOUT = "layout of {}: {bare}";
    /// The owner can't be set.
    OWNERSHIP = "failed to preserve ownership for {}";
    /// A file's mode can't be narrowed before its owner changes.
    CLEARING_PERMISSIONS = "clearing permissions for {}";
    /// The mode can't be set.
    PERMISSIONS = "preserving permissions for {}";
    /// The source's mode and ACLs can't be set. GNU treats the name as part of the sentence.
    ACCESS = "preserving permissions for {prose}";
    /// The times can't be set.
    TIMES = "preserving times for {}";
    /// Xattrs can't be listed.
    LISTING_ATTRIBUTES = "listing attributes of {}";
    /// An xattr can't be read.
    GETTING_ATTRIBUTE = "getting attribute {} of {}";
    /// An xattr can't be set.
    SETTING_ATTRIBUTE = "setting attribute {} for {}";
    /// The target's file system does not support xattrs.
    SETTING_ATTRIBUTES = "setting attributes for {}";
    /// `/etc/xattr.conf` can't be read, or has a bad line.
    ATTRIBUTE_LIST = "{}";
    /// A source's SELinux context can't be read.
    GETTING_LABEL = "failed to get security context of {}";
    /// A copy's SELinux context can't be set.
    SETTING_LABEL = "failed to set the security context of {}";
    /// The kernel rejects the SELinux context for new files.
    CREATION_LABEL = "failed to set default file creation context to {}";
    /// libselinux can't be loaded.
    NO_CONTEXT_LIBRARY = "-Z needs the library {}, which cannot be loaded";
    /// The policy's file contexts can't be read.
    NO_CONTEXT_LIST = "cannot read the policy's default contexts by {}";
    /// `--verbose` line.
    COPIED = "{} -> {}";
    /// `--verbose` line for a copy that replaced something backed up.
    COPIED_WITH_BACKUP = "{} -> {} (backup: {})";
    /// `--verbose` line for a restored backup.
    UNBACKUP = "{} -> {} (unbackup)";
    /// `--verbose` line for a removed target.
    REMOVED = "removed {}";
    /// `--debug` line for a copied file.
    HOW_COPIED = "copy offload: {bare}, reflink: {bare}, sparse detection: {bare}";
    /// `--debug` line for a skipped file.
    SKIPPED = "skipped {}";
    /// `-i` question.
    OVERWRITE = "overwrite {}? ";
    /// `-i` question about an unwritable target that would be removed.
    REPLACE = "replace {}, overriding mode {bare} ({bare})? ";
    /// `-i` question about an unwritable target that would be opened anyway.
    UNWRITABLE = "unwritable {} (mode {bare}, {bare}); try anyway? ";
    /// Files left by an earlier run can't be removed from a directory.
    CANNOT_SWEEP = "cannot remove leftovers of an earlier run in {}";
}
