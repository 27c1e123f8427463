//! Kinds of problems and lines of a copy.

haul_flow::kinds! {
    "copy"
    /// Kinds of problems and lines of a copy.
    pub enum CopyKind {
        MissingOperand = "missing file operand",
        MissingTarget = "missing destination file operand after {}",
        /// More than two operands with `-T`.
        ExtraOperand = "extra operand {}",
        /// `-t` with `-T`.
        BothTargetOptions = "cannot combine --target-directory (-t) and --no-target-directory (-T)",
        /// `-t` names a non-directory.
        TargetDirectory = "target directory {}",
        /// Several sources, and the last operand is not a directory.
        Target = "target {}",
        /// `--parents` with a target that is not a directory.
        ParentsWantDirectory = "with --parents, the destination must be a directory",
        /// A source's parent can't be examined (`--parents`).
        ParentAttributes = "failed to get attributes of {}",
        /// A copy's parent can't be created (`--parents`).
        CannotMakeParent = "cannot make directory {}",
        /// A copy's parent exists as a non-directory (`--parents`).
        ParentIsOther = "{} exists but is not a directory",
        /// A parent's times can't be set (`--parents`).
        ParentTimes = "failed to preserve times for {}",
        /// A parent's mode can't be set (`--parents`).
        ParentPermissions = "failed to preserve permissions for {}",
        /// `--verbose` line for a parent (`--parents`). GNU does not quote its names.
        ParentMade = "{bare} -> {bare}",
        /// A new entry was replaced before it got its attributes.
        ReplacedWhileMade = "not changing {}, as it was replaced while being made",
        OmittingDirectory = "-r not specified; omitting directory {}",
        SourceTwice = "warning: source file {} specified more than once",
        DirectoryTwice = "warning: source directory {} specified more than once",
        /// One source directory given twice, with two targets.
        NoDirectoryLink = "will not create hard link {} to directory {}",
        CannotStat = "cannot stat {}",
        /// An open target can't be examined.
        CannotFstat = "cannot fstat {}",
        SameFile = "{} and {} are the same file",
        DirectoryOntoOther = "cannot overwrite non-directory {} with directory {}",
        OtherOntoDirectory = "cannot overwrite directory {} with non-directory {}",
        /// A directory in the way of another entry will be deleted later; the entry is copied again
        /// after that. A warning.
        InTheWay = "directory {} is in the way of {}",
        /// This run created the target from another operand.
        JustCreated = "will not overwrite just-created {} with {}",
        /// The same, through a symbolic link.
        JustCreatedLink = "will not copy {} through just-created symlink {}",
        /// The target is a file that the program itself writes to.
        OntoOwnFile = "will not overwrite {} with {}, as haul is writing to it",
        /// The target is part of the source, through a mount (`haul sync`).
        OntoSource = "will not change {}, as it is part of SOURCE",
        /// A dry run can't look into an existing directory that the real run makes accessible.
        Unforeseen = "warning: cannot foresee what changes in {}, which you may not list",
        /// The manifest can't get its name, because a file has been copied there.
        ManifestTaken = "not writing the manifest {}, as a file was copied there",
        /// The target exists (`--update=none-fail`).
        NotReplacing = "not replacing {}",
        /// The target's backup would replace the source.
        BackupDestroys = "backing up {} might destroy source;  {} not copied",
        /// The target can't be renamed to its backup.
        CannotBackup = "cannot backup {}",
        /// The copy failed, and the backup can't be restored.
        CannotUnbackup = "cannot un-backup {}",
        IntoItself = "cannot copy a directory, {}, into itself, {}",
        /// A symbolic link leads to a directory that contains it.
        CyclicLink = "cannot copy cyclic symbolic link {}",
        CannotCreateDirectory = "cannot create directory {}",
        /// A new directory can't be made accessible.
        SettingPermissions = "setting permissions for {}",
        /// A file can't be created, or opened for writing.
        CannotCreateFile = "cannot create regular file {}",
        /// An existing target can't be replaced as a whole (`--atomic`).
        CannotReplace = "cannot replace {} atomically",
        ReplacesLinked = "not replacing {} atomically, as it has other hard links",
        ReplacesSymlink = "not replacing {} atomically, as it is a symbolic link",
        Dangling = "not writing through dangling symlink {}",
        /// The existing target can't be removed.
        CannotRemove = "cannot remove {}",
        CannotReadLink = "cannot read symbolic link {}",
        CannotCreateLink = "cannot create symbolic link {}",
        /// A symbolic link to the source (`-s`) can't be created.
        CannotCreateLinkTo = "cannot create symbolic link {} to {}",
        /// A relative link would not resolve from there.
        RelativeLink = "{plain}: can make relative symbolic links only in current directory",
        CannotLink = "cannot create hard link {} to {}",
        CannotCreateFifo = "cannot create fifo {}",
        /// A socket or device can't be created.
        CannotCreateSpecial = "cannot create special file {}",
        /// A FIFO, socket or device, which are not to be copied, or an existing FIFO, which is not
        /// to be written to.
        SpecialRefused = "not copying special file {}",
        UnknownType = "{} has unknown file type",
        /// Blocks must be shared but can't be.
        FailedToClone = "failed to clone {} from {}",
        /// A file with holes can't be extended to its length.
        FailedToExtend = "failed to extend {}",
        /// A target's striping layout differs from its source's (`--copy-layout`).
        Layout = "layout of {}: {bare}",
        Ownership = "failed to preserve ownership for {}",
        /// A file's mode can't be narrowed before its owner changes.
        ClearingPermissions = "clearing permissions for {}",
        /// The mode can't be set.
        Permissions = "preserving permissions for {}",
        /// The source's mode and ACLs can't be set. GNU treats the name as part of the sentence.
        Access = "preserving permissions for {prose}",
        /// An ACL of the source can't be read.
        ReadingAccess = "{}",
        /// The times can't be set.
        Times = "preserving times for {}",
        /// Xattrs can't be listed.
        ListingAttributes = "listing attributes of {}",
        /// An xattr can't be read.
        GettingAttribute = "getting attribute {} of {}",
        /// An xattr can't be set.
        SettingAttribute = "setting attribute {} for {}",
        /// The target's file system does not support xattrs.
        SettingAttributes = "setting attributes for {}",
        /// The same in `haul sync`, where it is a warning.
        XattrsLost = "warning: the file system of {} can't store all extended attributes, so some are lost",
        /// `/etc/xattr.conf` can't be read, or has a bad line.
        AttributeList = "{}",
        /// A source's SELinux context can't be read.
        GettingLabel = "failed to get security context of {}",
        /// A copy's SELinux context can't be set.
        SettingLabel = "failed to set the security context of {}",
        /// The kernel rejects the SELinux context for new files.
        CreationLabel = "failed to set default file creation context to {}",
        /// libselinux can't be loaded.
        NoContextLibrary = "-Z needs the library {}, which cannot be loaded",
        /// The policy's file contexts can't be read.
        NoContextList = "cannot read the policy's default contexts with {}",
        /// A file, a directory or a file system can't be flushed (`--fsync`).
        Syncing = "error syncing {}",
        /// The source has changed while it was copied (`--if-changed`).
        SourceChanged = "{} changed while it was copied",
        /// A target can't be read again (`--verify`).
        CannotVerify = "cannot verify {}",
        /// A source can't be read again (`--verify`).
        CannotVerifySource = "cannot read {} again to verify its copy",
        ReplacedBeforeVerified = "cannot verify {}, as it was replaced",
        /// Somebody wrote to a target before it was verified.
        ChangedBeforeVerified = "cannot verify {}, as it was changed",
        /// A target is shorter or longer than the data written.
        LengthDiffers = "verification failed: the length of {} is not what was written",
        /// A range of a target differs from the data written, also after it was written again.
        Differs = "verification failed: {} differs from its source in bytes {bare} to {bare}",
        /// A range of a target differed from the data written, and was written again.
        Repaired = "warning: {} differed on storage in bytes {bare} to {bare}; that range was rewritten",
        /// A range of a source differs from the data read before.
        SourceDiffers = "verification failed: {} was read twice and differed in bytes {bare} to {bare}",
        /// A target can't be verified, because it is a device or a FIFO.
        NotVerified = "warning: {} is not verified, as it is not a regular file",
        /// A target isn't in the manifest, because it is a device or a FIFO.
        SpecialNotListed = "warning: {} is not in the manifest, as it is not a regular file",
        /// An existing target that a lost rank may have created was left alone.
        MayBeUnverified =
            "leaving {} unchanged, unverified and unlisted: a lost process may have created it",
        /// An existing directory that a lost rank may have created.
        MayHaveWrongMode =
            "the permissions of {} may be wrong: nobody knows whether a lost process created it",
        /// The hash of a file that a rank has copied can't be sent or read.
        NotListed = "the hash of {} was lost on its way to the manifest",
        /// The target's file system can't be read past the page cache.
        VerifiedFromMemory =
            "warning: {} and others were verified from memory: their file system cannot bypass the page cache",
        /// The journal can't be written.
        JournalLost = "the journal {} cannot be written: {bare}",
        /// The journal of a complete copy can't be removed (`--resume`).
        JournalLeft = "cannot remove the journal {}: {bare}",
        /// `--verbose` line.
        Copied = "{} -> {}",
        /// `--verbose` line for a target that got only attributes (`haul sync`).
        Mended = "{} -> {} (attributes)",
        /// `--itemize-changes` line.
        Itemized = "{bare} {itemized}",
        /// `--itemize-changes` line for a symbolic link.
        ItemizedLink = "{bare} {itemized} -> {itemized}",
        /// `--itemize-changes` line for another name of a file.
        ItemizedName = "{bare} {itemized} => {itemized}",
        /// `--verbose` line for a copy that replaced something backed up.
        CopiedWithBackup = "{} -> {} (backup: {})",
        /// `--verbose` line for a restored backup.
        Unbackup = "{} -> {} (unbackup)",
        /// `--verbose` line for a removed target.
        Removed = "removed {}",
        /// `--debug` line for a copied file.
        HowCopied = "copy offload: {bare}, reflink: {bare}, sparse detection: {bare}",
        /// `--debug` line for a skipped file.
        Skipped = "skipped {}",
        /// `-i` question.
        Overwrite = "overwrite {}? ",
        /// `-i` question about an unwritable target that would be removed.
        Replace = "replace {}, overriding mode {bare} ({bare})? ",
        /// `-i` question about an unwritable target that would be opened anyway.
        Unwritable = "unwritable {} (mode {bare}, {bare}); try anyway? ",
        /// More is to be copied than is free on the target's file system.
        MoreThanFree = "warning: {bare} to copy, but only {bare} is free on {}",
        /// The copy waits for room on the target's file system (`--on-full=pause`).
        WaitsForRoom = "no space left for {}: waiting",
        /// The copy continues after such a wait.
        HasRoom = "space is available again: continuing",
        /// Options that exclude each other. The names are theirs.
        Conflict = "options {bare} and {bare} are mutually exclusive",
        /// Files left by an earlier run can't be removed from a directory.
        CannotSweep = "cannot remove leftovers of an earlier run in {}",
    }
}
