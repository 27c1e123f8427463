//! Kinds of problems of computing and checking hashes.

haul_flow::kinds! {
    "sum"
    /// Kinds of problems of computing and checking hashes.
    pub enum SumKind {
        /// A file can't be opened or read.
        CannotRead = "{plain}",
        /// A manifest lists a directory.
        IsADirectory = "{plain}: Is a directory",
        /// A link leads to a directory above it.
        Loop = "{plain}: recursive directory loop",
        /// The manifest can't be written.
        CannotWrite = "cannot write {}",
        NotRegular = "cannot write {}: not a regular file",
        /// A file has another hash than its record says.
        Mismatch = "{plain}: the checksum does not match",
        /// A name can't be written in an MHL file.
        NotInMhl = "{plain}: cannot be listed in an MHL file",
        /// The result for a file can't be decoded.
        BadResult = "cannot read the result of hashing {}",
        /// A line of a manifest can't be used.
        BadLine = "{plain}: {bare}: improperly formatted {bare}checksum line",
        /// A line of a manifest is longer than any that is kept.
        LineTooLong = "{plain}: {bare}: the line is too long",
        NoLines = "{plain}: no properly formatted checksum lines found",
        /// All files of a manifest are missing.
        NoneVerified = "{plain}: no file was verified",
        BadLineCount = "WARNING: 1 line is improperly formatted",
        BadLinesCount = "WARNING: {bare} lines are improperly formatted",
        UnreadableCount = "WARNING: 1 listed file could not be read",
        UnreadablesCount = "WARNING: {bare} listed files could not be read",
        MismatchCount = "WARNING: 1 computed checksum did NOT match",
        MismatchesCount = "WARNING: {bare} computed checksums did NOT match",
        /// Only a tree, or only its manifest, has a file.
        OnlyIn = "Only in {plain}: {plain}",
        /// A file has another hash than its manifest says.
        DiffersFrom = "File {plain} differs from its hash in {plain}",
        /// A name in a manifest leads out of the tree.
        OutsideTree = "{plain}: the name leads out of the tree",
        /// The operand to compare is not a directory.
        NotADirectory = "{plain}: Not a directory",
    }
}
