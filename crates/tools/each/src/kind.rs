//! Kinds of problems and lines of `each`.

haul_flow::kinds! {
    "each"
    /// Kinds of problems and lines of a run of commands.
    pub enum EachKind {
            /// The program can't be started.
        CannotRun,
        /// The command for a file can't be started.
        CannotRunFor,
        /// No further commands are tried.
        OthersNotRun,
        /// A running command's pipes broke.
        CommandLost,
        /// A command exited with a nonzero status.
        Failed,
        /// A command was killed by a signal.
        Signalled,
        /// A command was not started.
        NotStarted,
        /// Heading of the list of failed commands.
        Summary,
        /// More commands failed than are listed.
        More,
        /// A name pattern is invalid.
        BadPattern,
        /// A file can't be examined.
        CannotStat,
        /// A file can't be read.
        ErrorReading,
        /// A file can't be closed.
        FailedToClose,
        /// Another rank's result can't be decoded.
        BadResult,
    }
}
