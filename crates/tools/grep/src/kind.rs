//! Kinds of problems of a search.

haul_flow::kinds! {
    "grep"
    /// Kinds of problems of a search.
    pub enum GrepKind {
        /// A file can't be read.
        CannotRead = "{bare}",
        /// A directory operand was read like a file.
        IsADirectory = "{bare}: Is a directory",
        /// Lines were selected in a binary file.
        BinaryMatches = "{bare}: binary file matches",
        IsOutput = "{bare}: input file is also the output",
        /// A file's result was spilled to a temporary file that can't be read back.
        ResultLost = "{bare}: cannot read back the result from its temporary file",
        /// Following symbolic links led back to a parent directory.
        Loop = "{bare}: warning: recursive directory loop",
        /// The backtracker exceeded its bounds on a line.
        Exhausted = "{bare}: a line takes too long with back-references",
        /// PCRE2 exceeded its match limit.
        PerlMatchLimit = "{bare}: exceeded PCRE's backtracking limit",
        /// PCRE2 exceeded its depth limit.
        PerlDepthLimit = "{bare}: exceeded PCRE's nested backtracking limit",
        /// PCRE2 exceeded its heap limit.
        PerlHeapLimit = "{bare}: exceeded PCRE's heap limit",
        /// PCRE2's JIT code exhausted its stack.
        PerlStackLimit = "{bare}: exhausted PCRE JIT stack",
        /// PCRE2 ran out of memory.
        PerlMemory = "{bare}: memory exhausted",
        /// A Perl pattern recurses endlessly.
        PerlLoop = "{bare}: PCRE detected recurse loop",
        /// PCRE2 failed with an error that has no message of its own.
        PerlInternal = "{bare}: internal PCRE error",
    }
}
