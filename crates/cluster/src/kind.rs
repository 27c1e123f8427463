//! Kinds of problems of a distributed run.

haul_flow::kinds! {
    "cluster"
    /// Kinds of problems of a distributed run.
    pub enum ClusterKind {
        /// A rank can't open a directory that the launch process has listed.
        CannotReach = "cannot reach directory {}",
        CannotDecode = "cannot decode a work item: {bare}",
        /// A file for checking that ranks see the launch process's directories can't be removed.
        CannotRemoveToken = "cannot remove {}",
        ResultTooLong = "the output for {} is too long to send to another host",
        /// A large file was not copied, and no rank reported why.
        NotMoved = "{} was not copied",
        /// The job is lost, and entries with it.
        Lost = "{bare}; entries not done: {bare}",
        /// The job is lost, and with it work that must not be repeated.
        CutShort = "{bare}: not everything was done",
        /// The job was lost, and starts again.
        Restarting = "{bare}; restarting the remaining work",
        /// The job was lost, and starts again without some hosts.
        RestartingWithout = "{bare}; restarting the remaining work without {bare}",
        CannotRun = "cannot start the processes: {bare}",
        /// A host can't take part.
        Unfit = "host {bare}: {bare}",
        JournalLost = "the journal cannot be written: {bare}",
        /// A directory's file system can't be flushed.
        CannotFlush = "cannot flush {}",
    }
}
