//! Kinds of problems and lines of an archive run.

haul_flow::kinds! {
    "tar"
    /// Kinds of problems and lines of an archive run.
    pub enum TarKind {
        // Creating archives.
        /// A file cannot be opened.
        CannotOpen,
        /// An entry cannot be examined.
        CannotStat,
        /// A file cannot be read.
        CannotRead,
        /// A symbolic link cannot be read.
        CannotReadLink,
        /// The holes of a file cannot be found.
        CannotSeek,
        /// Extended attributes cannot be listed.
        CannotListAttributes,
        /// An extended attribute cannot be read.
        CannotReadAttribute,
        /// A name does not fit the format.
        NameTooLong,
        /// The target of a link does not fit the format.
        LinkTooLong,
        /// A number does not fit the format.
        NumberTooLarge,
        /// A directory contains itself, through a link that is followed.
        Loop,
        /// An entry was removed since it was listed.
        Removed,
        /// A file changed while it was read.
        Changed,
        /// A file shrank.
        Shrank,
        /// A socket was skipped.
        SocketIgnored,
        /// A file of unknown type was skipped.
        UnknownIgnored,
        /// The archive is in the tree that it archives.
        IsTheArchive,
        /// An entry is on another file system.
        OtherFileSystem,
        /// A prefix is stripped from member names.
        RemovingPrefix,
        /// A prefix is stripped from the targets of hard links.
        RemovingLinkPrefix,
        /// The archive cannot be written.
        CannotWrite,
        /// The compressor failed.
        CannotCompress,
        /// Closing the archive failed, so written data may be lost.
        CannotClose,
        /// The program of `-I` failed.
        ChildFailed,
        /// A file that could not be read has other names in the archive.
        LinksLost,
        /// A line of `--verbose`.
        Member,
        /// An index was requested for an archive that is not seekable.
        IndexWantsFile,
        /// The index cannot be made.
        NoIndex,
        /// The last line after an error.
        Exiting,
        /// The last line after a fatal error.
        NotRecoverable,
        /// There is nothing to archive.
        EmptyArchive,
        /// The archive would be written to a terminal.
        Terminal,

        // Reading archives.
        /// The first block is not a header.
        NotAnArchive,
        /// The decompressed data does not begin with a header.
        CompressedNoArchive,
        /// The archive is compressed in a format that is not supported.
        UnknownCompression,
        /// The program of `-I` cannot be started.
        CannotStart,
        /// Trailing garbage follows the compressed stream.
        TrailingGarbage,
        /// A block that should be a header is not.
        Skipping,
        /// The archive ends inside a member.
        UnexpectedEnd,
        /// The archive cannot be read further.
        ArchiveRead,
        /// The compressed data is damaged.
        Damaged,
        /// The archive cannot be opened.
        ArchiveOpen,
        /// A single block of zeros ends the archive.
        LoneZeroBlock,
        /// A field of a header is not a number.
        BadNumber,
        /// A user or group of a member is negative or too large.
        NumberOutOfRange,
        /// An extended header exceeds the limit on memory.
        ExtendedTooLong,
        /// An extended header is malformed.
        MalformedExtended,
        /// The map of a sparse file is invalid.
        MalformedSparse,

        // Listing archives.
        /// No member has a name that the user gave.
        NotFound,
        /// A line of `-t`.
        Listed,
        /// A line of `-tv`: mode and owners; size and date; name.
        ListedLong,
        /// The same for a symbolic link.
        ListedSymlink,
        /// The same for a hard link.
        ListedHardLink,
        /// The same for a volume header.
        ListedVolume,
        /// The same for the rest of a file from another volume.
        ListedContinued,
        /// The same for an unknown type.
        ListedUnknown,

        // Extracting archives.
        /// The name of a member has a `..`.
        DotDot,
        /// The path of a member leads out of the extraction directory.
        LeadsOut,
        /// A member that is not a directory takes the place of the root.
        IsRoot,
        /// A member is the rest of a file from another volume.
        Continued,
        /// The type of a member is unknown.
        UnknownKind,
        /// Another process replaced what was just made.
        ReplacedWhileMade,
        /// A directory cannot be made.
        CannotMakeDirectory,
        /// A symbolic link cannot be made.
        CannotMakeSymlink,
        /// A hard link cannot be made.
        CannotLink,
        /// A FIFO cannot be made.
        CannotMakeFifo,
        /// A device cannot be made.
        CannotMakeNode,
        /// An owner cannot be set.
        CannotOwn,
        /// A mode cannot be set.
        CannotChangeMode,
        /// Times cannot be set.
        CannotTouch,
        /// An extended attribute cannot be set.
        CannotSetXattr,
        /// An access list cannot be set.
        CannotSetAccessList,
    }
}
