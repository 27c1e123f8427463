//! Kinds of problems of computing and checking hashes.

haul_flow::kinds! {
    "sum"
    /// Kinds of problems of computing and checking hashes.
    pub enum SumKind {
        /// A file can't be opened or read.
        CannotRead,
        /// A manifest lists a directory.
        IsADirectory,
        /// A link leads to a directory above it.
        Loop,
        /// The manifest can't be written.
        CannotWrite,
        /// The manifest would replace something other than a regular file.
        NotRegular,
        /// A name can't be written in an MHL file.
        NotInMhl,
        /// The result for a file can't be decoded.
        BadResult,
        /// A line of a manifest can't be used.
        BadLine,
        /// No line of a manifest can be used.
        NoLines,
        /// All files of a manifest are missing.
        NoneVerified,
        /// One line of a manifest can't be used.
        BadLineCount,
        /// Several lines of a manifest can't be used.
        BadLinesCount,
        /// One listed file can't be read.
        UnreadableCount,
        /// Several listed files can't be read.
        UnreadablesCount,
        /// One file has another hash.
        MismatchCount,
        /// Several files have other hashes.
        MismatchesCount,
        /// Only a tree, or only its manifest, has a file.
        OnlyIn,
        /// A file has another hash than its manifest says.
        DiffersFrom,
        /// A name in a manifest leads out of the tree.
        OutsideTree,
        /// A directory is compared, and this is none.
        NotADirectory,
    }
}
