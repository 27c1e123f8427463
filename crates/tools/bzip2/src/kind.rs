//! Kinds of problems of `bzip2`.

haul_flow::kinds! {
    "bzip2"
    /// Kinds of problems of a compression or decompression.
    pub enum Bzip2Kind {
            /// An input can't be opened; the second hole is the reason.
        CannotOpen,
        /// An input is a directory.
        IsDirectory,
        /// An input's name already has a compressed suffix.
        HasSuffix,
        /// An input that would be replaced is not a regular file.
        NotNormal,
        /// The output exists.
        OutputExists,
        /// An input has another hard link, which would keep the old content.
        OtherLink,
        /// An input has several other hard links.
        OtherLinks,
        /// An output can't be created; the second hole is the reason.
        CannotCreate,
        /// A compressed file's name has no known suffix.
        CannotGuess,
        /// Compressed output would go to a terminal.
        NotToTerminal,
        /// Compressed input would come from a terminal.
        NotFromTerminal,
        /// An input is not a bzip2 file.
        NotBzip2,
        /// Compressed data is corrupt.
        Damaged,
        /// Compressed data is truncated.
        Ended,
        /// Trailing garbage follows the last stream.
        Garbage,
        /// A test found corrupt data.
        TestDamaged,
        /// A test found truncated data.
        TestEnded,
        /// A test found a foreign format.
        TestNotBzip2,
        /// An input's attributes can't be copied to the output.
        CannotKeep,
        /// An input can't be removed although its output is complete.
        CannotRemove,
        /// An input was replaced or changed, so it is not removed.
        NotRemoved,
        /// An output disappeared, so its input is not removed.
        OutputGone,
    }
}
