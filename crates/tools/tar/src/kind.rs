//! Kinds of problems and lines of an archive run.

haul_flow::kinds! {
    "tar"
    /// Kinds of problems and lines of an archive run.
    pub enum TarKind {
        // Creating archives.
        CannotOpen = "{escape}: Cannot open",
        CannotStat = "{escape}: Cannot stat",
        CannotRead = "{escape}: Read error",
        CannotReadLink = "{escape}: Cannot readlink",
        /// The holes of a file cannot be found.
        CannotSeek = "{escape}: Cannot seek",
        CannotListAttributes = "{escape}: Cannot list extended attributes",
        CannotReadAttribute = "{escape}: Warning: Cannot read extended attribute '{escape}'",
        NameTooLong = "{escape}: file name is too long (cannot be split); not dumped",
        LinkTooLong = "{escape}: link name is too long; not dumped",
        /// A number does not fit the format.
        NumberTooLarge = "{escape}: value {bare} out of {bare} range 0..{bare}; not dumped",
        /// A directory contains itself, through a link that is followed.
        Loop = "{escape}: contains itself through a symbolic link; not dumped again",
        /// An entry was removed since it was listed.
        Removed = "{escape}: File removed before we read it",
        Changed = "{escape}: file changed as we read it",
        /// A file shrank.
        Shrank = "{escape}: File shrank by {bare} bytes; padding with zeros",
        SocketIgnored = "{escape}: socket ignored",
        UnknownIgnored = "{escape}: Unknown file type; file ignored",
        /// The archive is in the tree that it archives.
        IsTheArchive = "{escape}: file is the archive; not dumped",
        OtherFileSystem = "{escape}: file is on a different filesystem; not dumped",
        /// A prefix is stripped from member names.
        RemovingPrefix = "Removing leading `{bare}' from member names",
        /// A prefix is stripped from the targets of hard links.
        RemovingLinkPrefix = "Removing leading `{bare}' from hard link targets",
        /// The archive cannot be written.
        CannotWrite = "{escape}: Cannot write",
        /// The compressor failed.
        CannotCompress = "Cannot compress: {bare}",
        /// Closing the archive failed, so written data may be lost.
        CannotClose = "{escape}: Cannot close",
        /// The program of `-I` failed.
        ChildFailed = "{escape}: {bare}",
        /// A file that could not be read has other names in the archive.
        LinksLost = "{escape}: Hard links to it in the archive are dangling",
        /// A line of `--verbose`.
        Member = "{escape}",
        /// An index was requested for an archive that is not seekable.
        IndexWantsFile = "--index requires an uncompressed archive in a file",
        NoIndex = "Cannot create the index: {bare}",
        /// The last line after an error.
        Exiting = "Exiting with failure status due to previous errors",
        /// The last line after a fatal error.
        NotRecoverable = "Error is not recoverable: exiting now",
        /// A list of names, one a line, has a NUL in it.
        NulInList = "{escape}: file name read contains nul character",
        EmptyArchive = "Cowardly refusing to create an empty archive",
        /// The archive would be written to a terminal.
        Terminal = "Refusing to write archive contents to terminal (missing -f option?)",
        /// The archive would be read from the terminal.
        TerminalInput = "Refusing to read archive contents from terminal (missing -f option?)",

        // Reading archives.
        /// The first block is not a header.
        NotAnArchive = "This does not look like a tar archive",
        /// The decompressed data does not begin with a header.
        CompressedNoArchive =
            "This does not look like a tar archive: it is compressed with {bare}, but contains no archive",
        /// The archive is compressed in a format that is not supported.
        UnknownCompression =
            "This does not look like a tar archive: it is compressed with {bare}; try -I {bare}",
        /// The program of `-I` cannot be started.
        CannotStart = "{escape}: Cannot exec",
        /// Trailing garbage follows the compressed stream.
        TrailingGarbage = "{escape}: trailing garbage after EOF ignored",
        /// A block that should be a header is not.
        Skipping = "Skipping to next header",
        /// The archive ends inside a member.
        UnexpectedEnd = "Unexpected EOF in archive",
        /// The archive cannot be read further.
        ArchiveRead = "{escape}: Cannot read",
        /// The compressed data is damaged.
        Damaged = "{escape}: {bare}",
        /// The archive cannot be opened.
        ArchiveOpen = "{escape}: Cannot open",
        /// A single block of zeros ends the archive.
        LoneZeroBlock = "A lone zero block at {bare}",
        /// A field of a header is not a number.
        BadNumber = "{escape}: Archive contains something else where numeric {bare} value expected",
        /// A user or group of a member is negative or too large.
        NumberOutOfRange = "{escape}: Archive value {bare} is out of {bare} range 0..4294967295",
        /// An extended header exceeds the limit on memory.
        ExtendedTooLong = "An extended header of {bare} bytes is too long; skipping its member",
        MalformedExtended = "Malformed extended header: {escape}",
        MalformedSparse = "{escape}: invalid sparse archive member",

        // Listing archives.
        /// No member has a name that the user gave.
        NotFound = "{escape}: Not found in archive",
        /// A line of `-t`.
        Listed = "{escape}",
        /// A line of `-tv`: mode and owners; size and date; name.
        ListedLong = "{bare}{bare}{escape}",
        /// The same for a symbolic link.
        ListedSymlink = "{bare}{bare}{escape} -> {escape}",
        /// The same for a hard link.
        ListedHardLink = "{bare}{bare}{escape} link to {escape}",
        /// The same for a volume header.
        ListedVolume = "{bare}{bare}{escape}--Volume Header--",
        /// The same for the rest of a file from another volume.
        ListedContinued = "{bare}{bare}{escape}--Continued at byte of another volume--",
        /// The same for an unknown type.
        ListedUnknown = "{bare}{bare}{escape} unknown file type {prose}",

        // Extracting archives.
        /// The name of a member has a `..`.
        DotDot = "{escape}: Member name contains '..'",
        /// The path of a member leads out of the extraction directory.
        LeadsOut = "{escape}: Path leads outside the extraction directory; not extracted",
        /// A member that is not a directory takes the place of the root.
        IsRoot = "{escape}: Cannot open: File exists",
        /// A member is the rest of a file from another volume.
        Continued = "{escape}: Cannot extract -- file is continued from another volume",
        /// The type of a member is unknown.
        UnknownKind = "{escape}: Unknown file type '{bare}', extracted as normal file",
        /// Another process replaced the entry that was just made.
        ReplacedWhileMade = "{escape}: Replaced while it was being extracted; not changed",
        CannotMakeDirectory = "{escape}: Cannot mkdir",
        CannotMakeSymlink = "{escape}: Cannot create symlink to {prose}",
        CannotLink = "{escape}: Cannot hard link to {prose}",
        CannotMakeFifo = "{escape}: Cannot mkfifo",
        /// A device cannot be made.
        CannotMakeNode = "{escape}: Cannot mknod",
        CannotOwn = "{escape}: Cannot change ownership",
        CannotChangeMode = "{escape}: Cannot change mode",
        /// Times cannot be set.
        CannotTouch = "{escape}: Cannot utime",
        CannotSetXattr = "{escape}: Cannot set the extended attribute {escape}",
        CannotSetAccessList = "{escape}: Cannot set the access list",
    }
}
