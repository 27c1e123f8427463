//! Kinds of problems and lines of a copy.

haul_flow::kinds! {
    "copy"
    /// Kinds of problems and lines of a copy.
    pub enum CopyKind {
        /// No operands.
        MissingOperand,
        /// A source without a target.
        MissingTarget,
        /// More than two operands with `-T`.
        ExtraOperand,
        /// `-t` with `-T`.
        BothTargetOptions,
        /// `-t` names a non-directory.
        TargetDirectory,
        /// Several sources, and the last operand is not a directory.
        Target,
        /// `--parents` with a target that is not a directory.
        ParentsWantDirectory,
        /// A source's parent can't be examined (`--parents`).
        ParentAttributes,
        /// A copy's parent can't be created (`--parents`).
        CannotMakeParent,
        /// A copy's parent exists as a non-directory (`--parents`).
        ParentIsOther,
        /// A parent's times can't be set (`--parents`).
        ParentTimes,
        /// A parent's mode can't be set (`--parents`).
        ParentPermissions,
        /// `--verbose` line for a parent (`--parents`). GNU does not quote its names.
        ParentMade,
        /// A new entry was replaced before it got its attributes.
        ReplacedWhileMade,
        /// A directory without `-r`.
        OmittingDirectory,
        /// One source given twice.
        SourceTwice,
        /// One source directory given twice.
        DirectoryTwice,
        /// One source directory given twice, with two targets.
        NoDirectoryLink,
        /// An entry can't be examined.
        CannotStat,
        /// An open target can't be examined.
        CannotFstat,
        /// Source and target are one file.
        SameFile,
        /// A directory can't replace a non-directory.
        DirectoryOntoOther,
        /// A non-directory can't replace a directory.
        OtherOntoDirectory,
        /// A directory that is to be deleted later is where something else is to be. Copy that once
        /// more then. A warning.
        InTheWay,
        /// This run created the target from another operand.
        JustCreated,
        /// The same, through a symbolic link.
        JustCreatedLink,
        /// The target is a file that the program itself writes to.
        OntoOwnFile,
        /// The source is a file that the program itself writes to. A warning.
        OwnFile,
        /// The manifest can't get its name, because a file has been copied there.
        ManifestTaken,
        /// The target exists (`--update=none-fail`).
        NotReplacing,
        /// The target's backup would replace the source.
        BackupDestroys,
        /// The target can't be renamed to its backup.
        CannotBackup,
        /// The copy failed, and the backup can't be restored.
        CannotUnbackup,
        /// The target is inside the source.
        IntoItself,
        /// A symbolic link leads to a directory that contains it.
        CyclicLink,
        /// A directory can't be created.
        CannotCreateDirectory,
        /// A new directory can't be made accessible.
        SettingPermissions,
        /// A file can't be created, or opened for writing.
        CannotCreateFile,
        /// An existing target can't be replaced as a whole (`--atomic`).
        CannotReplace,
        /// The same, because it has other hard links.
        ReplacesLinked,
        /// The same, because it is a symbolic link.
        ReplacesSymlink,
        /// The target is a dangling symbolic link.
        Dangling,
        /// The existing target can't be removed.
        CannotRemove,
        /// A symbolic link can't be read.
        CannotReadLink,
        /// A symbolic link can't be created.
        CannotCreateLink,
        /// A symbolic link to the source (`-s`) can't be created.
        CannotCreateLinkTo,
        /// A relative link would not resolve from there.
        RelativeLink,
        /// A hard link can't be created.
        CannotLink,
        /// A FIFO can't be created.
        CannotCreateFifo,
        /// A socket or device can't be created.
        CannotCreateSpecial,
        /// A FIFO, socket or device, which are not to be copied.
        SpecialRefused,
        /// Unknown file type.
        UnknownType,
        /// Blocks must be shared but can't be.
        FailedToClone,
        /// A file with holes can't be extended to its length.
        FailedToExtend,
        /// A target's striping layout differs from its source's (`--copy-layout`).
        Layout,
        /// The owner can't be set.
        Ownership,
        /// A file's mode can't be narrowed before its owner changes.
        ClearingPermissions,
        /// The mode can't be set.
        Permissions,
        /// The source's mode and ACLs can't be set. GNU treats the name as part of the sentence.
        Access,
        /// The times can't be set.
        Times,
        /// Xattrs can't be listed.
        ListingAttributes,
        /// An xattr can't be read.
        GettingAttribute,
        /// An xattr can't be set.
        SettingAttribute,
        /// The target's file system does not support xattrs.
        SettingAttributes,
        /// The same in `haul sync`, where it is a warning.
        XattrsLost,
        /// `/etc/xattr.conf` can't be read, or has a bad line.
        AttributeList,
        /// A source's SELinux context can't be read.
        GettingLabel,
        /// A copy's SELinux context can't be set.
        SettingLabel,
        /// The kernel rejects the SELinux context for new files.
        CreationLabel,
        /// libselinux can't be loaded.
        NoContextLibrary,
        /// The policy's file contexts can't be read.
        NoContextList,
        /// A file, a directory or a file system can't be flushed (`--fsync`).
        Syncing,
        /// The source has changed while it was copied (`--if-changed`).
        SourceChanged,
        /// A target can't be read again (`--verify`).
        CannotVerify,
        /// A source can't be read again (`--verify`).
        CannotVerifySource,
        /// A target was replaced before it was verified.
        ReplacedBeforeVerified,
        /// Somebody wrote to a target before it was verified.
        ChangedBeforeVerified,
        /// A target is shorter or longer than what was written.
        LengthDiffers,
        /// A range of a target differs from what was written, also after it was written again.
        Differs,
        /// A range of a target differed from what was written, and was written again.
        Repaired,
        /// A range of a source differs from what was read before.
        SourceDiffers,
        /// A target can't be verified, because it is a device or a FIFO.
        NotVerified,
        /// An existing target stays that a lost rank may have made.
        MayBeUnverified,
        /// The hash of a file that a rank has copied can't be sent or read.
        NotListed,
        /// The target's file system can't be read past the page cache.
        VerifiedFromMemory,
        /// The journal can't be written.
        JournalLost,
        /// The journal of a complete copy can't be removed (`--resume`).
        JournalLeft,
        /// `--verbose` line.
        Copied,
        /// `--verbose` line for a target that got only attributes (`haul sync`).
        Mended,
        /// `--itemize-changes` line.
        Itemized,
        /// `--itemize-changes` line for a symbolic link.
        ItemizedLink,
        /// `--itemize-changes` line for another name of a file.
        ItemizedName,
        /// `--verbose` line for a copy that replaced something backed up.
        CopiedWithBackup,
        /// `--verbose` line for a restored backup.
        Unbackup,
        /// `--verbose` line for a removed target.
        Removed,
        /// `--debug` line for a copied file.
        HowCopied,
        /// `--debug` line for a skipped file.
        Skipped,
        /// `-i` question.
        Overwrite,
        /// `-i` question about an unwritable target that would be removed.
        Replace,
        /// `-i` question about an unwritable target that would be opened anyway.
        Unwritable,
        /// More is to be copied than is free on the target's file system.
        MoreThanFree,
        /// The copy waits for room on the target's file system (`--on-full=pause`).
        WaitsForRoom,
        /// The copy goes on after such a wait.
        HasRoom,
        /// Files left by an earlier run can't be removed from a directory.
        CannotSweep,
    }
}
