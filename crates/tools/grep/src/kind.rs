//! Kinds of problems of a search.

haul_flow::kinds! {
    "grep"
    /// Kinds of problems of a search.
    pub enum GrepKind {
        /// A file can't be read.
        CannotRead,
        /// A directory operand was read like a file.
        IsADirectory,
        /// Lines were selected in a binary file.
        BinaryMatches,
        /// An input file is also the output.
        IsOutput,
        /// A file's result was spilled to a temporary file that can't be read back.
        ResultLost,
        /// Following symbolic links led back to a parent directory.
        Loop,
        /// The backtracker exceeded its bounds on a line.
        Exhausted,
        /// PCRE2 exceeded its match limit.
        PerlMatchLimit,
        /// PCRE2 exceeded its depth limit.
        PerlDepthLimit,
        /// PCRE2 exceeded its heap limit.
        PerlHeapLimit,
        /// PCRE2's JIT code exhausted its stack.
        PerlStackLimit,
        /// PCRE2 ran out of memory.
        PerlMemory,
        /// A Perl pattern recurses endlessly.
        PerlLoop,
        /// PCRE2 failed with an error that has no message of its own.
        PerlInternal,
    }
}
