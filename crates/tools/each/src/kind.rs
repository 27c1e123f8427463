//! Kinds of problems and lines of `each`.

haul_flow::kinds! {
    "each"
    /// Kinds of problems and lines of a run of commands.
    pub enum EachKind {
        /// The program can't be started.
        CannotRun = "cannot run {}",
        /// The command for a file can't be started.
        CannotRunFor = "cannot run {} for {}",
        OthersNotRun = "skipping the remaining commands",
        /// Communicating with a running command failed.
        CommandLost = "cannot read the output of the command for {}",
        Failed = "{plain}: exit status {bare}",
        Signalled = "{plain}: ended by signal {bare}",
        NotStarted = "{plain}: not started",
        /// Heading of the list of failed commands.
        Summary = "{bare} of {bare} commands failed:",
        /// The failed commands had more files than are listed.
        More = "and {bare} more",
        /// A placeholder in a script is where a path can't be put.
        CannotSubstitute = "cannot put a path in the place of {} {bare}",
        BadPattern = "invalid pattern {}",
        CannotStat = "cannot stat {}",
        ErrorReading = "error reading {}",
        FailedToClose = "failed to close {}",
        /// Another rank's result can't be decoded.
        BadResult = "cannot read the result of the command for {}",
    }
}
