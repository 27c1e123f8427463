//! Kinds of problems of `bzip2`.

haul_flow::kinds! {
    "bzip2"
    /// Kinds of problems of a compression or decompression.
    pub enum Bzip2Kind {
        /// An input can't be opened; the second name is the reason.
        CannotOpen = "Can't open input file {escape}: {bare}.",
        IsDirectory = "Input file {escape} is a directory.",
        HasSuffix = "Input file {escape} already has {bare} suffix.",
        /// An input that would be replaced is not a regular file.
        NotNormal = "Input file {escape} is not a normal file.",
        OutputExists = "Output file {escape} already exists.",
        /// An input has another hard link, which would keep the old content.
        OtherLink = "Input file {escape} has {bare} other link.",
        OtherLinks = "Input file {escape} has {bare} other links.",
        /// An output can't be created; the second name is the reason.
        CannotCreate = "Can't create output file {escape}: {bare}.",
        /// A compressed file's name has no known suffix.
        CannotGuess = "Can't guess original name for {escape} -- using {escape}",
        NotToTerminal = "I won't write compressed data to a terminal.",
        NotFromTerminal = "I won't read compressed data from a terminal.",
        NotBzip2 = "{escape} is not a bzip2 file.",
        /// Compressed data is corrupt.
        Damaged = "Data integrity error when decompressing.\n\
            \tInput file = {escape}, output file = {escape}\n\n\
            It is possible that the compressed file(s) have become corrupted.\n\
            You can use the -tvv option to test integrity of such files.",
        /// Compressed data is truncated.
        Ended = "Compressed file ends unexpectedly;\n\
            \tperhaps it is corrupted?\n\
            \tInput file = {escape}, output file = {escape}\n\n\
            It is possible that the compressed file(s) have become corrupted.\n\
            You can use the -tvv option to test integrity of such files.",
        Garbage = "{escape}: trailing garbage after EOF ignored",
        /// A test found corrupt data.
        TestDamaged = "{escape}: data integrity (CRC) error in data",
        /// A test found truncated data.
        TestEnded = "{escape}: file ends unexpectedly",
        /// A test found a foreign format.
        TestNotBzip2 = "{escape}: bad magic number (file not created by bzip2)",
        /// An input could not be processed, which is the result of a test or was to be left unsaid.
        Failed = "{escape}: failed",
        CannotKeep = "failed to preserve the attributes of {escape}",
        /// An input can't be removed although its output is complete.
        CannotRemove = "cannot remove {escape}",
        NotRemoved = "not removing {escape}, as it was replaced or changed in the meantime",
        OutputGone = "not removing {escape}, as {escape} was removed or replaced meanwhile",
    }
}
