//! Kinds of problems and lines of a comparison.

haul_flow::kinds! {
    "compare"
    /// Kinds of problems and lines of a comparison.
    pub enum CompareKind {
            /// An entry exists in only one of two directories.
        OnlyIn,
        /// Two entries have different types.
        Types,
        /// Two files differ in some respect.
        Files,
        /// Two files differ, in brief.
        FilesBriefly,
        /// Two symbolic links have different targets.
        Links,
        /// Two file operands differ first at this position.
        Named,
        /// A file operand is a prefix of the other, and ends with a complete line.
        Ends,
        /// A file operand is a prefix of the other, and ends within a line.
        EndsInLine,
        /// A file operand is empty.
        IsEmpty,
        /// A file was changed during the comparison.
        Changed,
        /// A link leads to a directory above it.
        Loop,
        /// A file can't be examined.
        CannotStat,
        /// A file can't be opened.
        CannotOpen,
        /// A directory can't be listed.
        CannotList,
        /// A file can't be read.
        ErrorReading,
        /// A symbolic link can't be read.
        CannotReadLink,
        /// Extended attributes can't be read.
        CannotReadXattrs,
        /// A file can't be closed.
        FailedToClose,
        /// There are too many differences to sort.
        TooMany,
        /// Attributes were requested for a stream.
        StreamAttributes,
        /// A stream is to be read past the page cache.
        StreamDirect,
        /// A file can't be read past the page cache.
        NotDirect,
        /// Another rank's result can't be decoded.
        BadResult,
    }
}
