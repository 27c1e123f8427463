//! Kinds of problems of a distributed run.

haul_flow::kinds! {
    "cluster"
    /// Kinds of problems of a distributed run.
    pub enum ClusterKind {
        /// A rank can't open a directory that the launch process has listed.
        CannotReach,
        /// A rank can't decode a work item.
        CannotDecode,
        /// A file for checking that ranks see the launch process's directories can't be removed.
        CannotRemoveToken,
        /// An entry's output is too long for a message.
        ResultTooLong,
        /// A large file was not copied, and no rank reported why.
        NotMoved,
        /// The job is lost, and entries with it.
        Lost,
        /// The job is lost, and with it work that is not begun again.
        CutShort,
        /// The job was lost, and starts again.
        Restarting,
        /// The job was lost, and starts again without some hosts.
        RestartingWithout,
        /// The ranks can't be started.
        CannotRun,
        /// A host can't take part.
        Unfit,
        /// The journal can't be written.
        JournalLost,
        /// A directory's file system can't be flushed.
        CannotFlush,
    }
}
