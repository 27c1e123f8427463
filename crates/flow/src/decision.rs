//! Arguments and results of the methods of `Tool` (`tool.rs`): the framework's data about an entry,
//! and the tool's decisions.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_sys::{Errno, Error, Fd, Stat};

use crate::kind::FlowKind;
use crate::policy::{CancelToken, Gauge};
use crate::report::Problem;
use crate::room::Room;
use crate::selection::Scope;

/// Job order, backpressure and cancellation of a run; see `Tool::policy`.
#[derive(Clone, Default)]
pub struct Policy {
    /// Order in which workers take jobs.
    pub order: JobOrder,
    /// True if workers are started when jobs wait, so that a run over a few small files has only
    /// one. False if the tool may wait for something other than files: then all are there from the
    /// beginning.
    pub starts_workers_late: bool,
    /// While this gauge is over its limit, no worker takes a job before all jobs in progress are
    /// done.
    pub backpressure: Option<Gauge>,
    /// Bounds on the closed files that wait for [`Tool::close_file`](crate::Tool::close_file).
    pub closed_waiting: ClosedWaiting,
    /// True if files are flushed in the end, so that writing large ones to disk should begin while
    /// they are copied.
    pub writes_back: bool,
    /// Cancelled when the run need not go on, in this process or another.
    pub cancel: CancelToken,
    /// Where writes wait while the target's file system is full; `None` if that fails the file.
    pub room: Option<Room>,
    /// True if [`Tool::plan`](crate::Tool::plan) decides which files are left out because of their
    /// size or age or, as operands, of their name.
    pub selects_files: bool,
}

/// Limits on closed files waiting for `Tool::close_file`, per worker. The worker passes on all of
/// them when one of the limits is reached, or when it runs out of work. By default no file waits.
/// Entries from other processes never do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedWaiting {
    /// Maximum number of files.
    pub files_max: usize,
    /// Maximum length of all of them, in bytes.
    pub bytes_max: u64,
    /// Maximum time the oldest of them waits, while further files are closed.
    pub age_max: Duration,
}

/// Order in which the workers of a process take jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobOrder {
    /// Each worker has its own part of the tree, and steals when that is done.
    #[default]
    WorkStealing,
    /// All workers take jobs from one queue in walk order, so that neighbours in the tree are done
    /// at about the same time.
    Walk,
}

/// Action for an entry; see `Tool::plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Enter this directory: `Tool::enter_dir`.
    Enter,
    /// Open and read this file: `Tool::open_file`.
    Read(Probe),
    /// Let the tool handle it in one call: `Tool::handle`.
    Handle,
    /// Same as `Handle`, for an entry that may block for any length of time, like a read from a
    /// FIFO: the worker has no other work in progress then, and other workers do the rest.
    HandleAlone,
    /// Skip it. If it failed, the tool has reported that.
    Skip,
}

/// Selects the files whose first block is read, if it is in the page cache, before
/// `Tool::open_file`. Not worthwhile if that method often finds that nothing needs to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Maximum number of hard links.
    pub links_max: u32,
    /// Maximum size, in bytes.
    pub bytes_max: u64,
    /// True if the tool looks at the content. Otherwise a file that is cached may be copied through
    /// a pipe, without a block in memory.
    pub inspects: bool,
}

impl Probe {
    /// Selects every file.
    pub const ALWAYS: Self = Self { links_max: u32::MAX, bytes_max: u64::MAX, inspects: true };
    /// Selects no file.
    pub const NEVER: Self = Self { links_max: 0, bytes_max: 0, inspects: true };

    pub(crate) fn includes(self, stat: &Stat) -> bool {
        stat.links <= self.links_max && stat.size <= self.bytes_max
    }
}

/// A failure of the framework on an entry.
#[derive(Clone, Copy, Debug)]
pub enum EntryFailure<'a> {
    /// Its type is unknown, because `stat` failed: it was deleted, or is a dangling link.
    Classify(&'a Error),
    /// The directory could not be opened or stat'ed.
    OpenDir(&'a Error),
    /// The file's directory could not be reopened.
    OpenParent(&'a Error),
    /// The file could not be opened.
    OpenFile(&'a Error),
    /// `fstat` failed on the open file.
    StatFile(&'a Error),
    /// The entry is not the one that was listed, or its type has changed.
    Replaced,
    /// The file could not be read.
    Read(&'a Error),
    /// The compared file could not be read.
    ReadCompared(&'a Error),
    /// The target could not be written.
    WriteTarget(&'a Error),
    /// The target could not be written because its file system is full. That isn't a failure yet:
    /// the run waits for room ([`Policy::room`]).
    NoRoom(&'a Error),
    /// Closing the target failed.
    CloseTarget(&'a Error),
    /// Closing the source failed.
    CloseSource(&'a Error),
}

impl EntryFailure<'_> {
    /// Returns true if a file planned as [`Plan::Read`] will not reach `Tool::open_file`.
    #[must_use]
    pub fn is_before_open_file(self) -> bool {
        matches!(self, Self::OpenParent(_) | Self::OpenFile(_) | Self::StatFile(_) | Self::Replaced)
    }

    /// Converts the failure to a problem that names the source, which suits tools without targets.
    pub(crate) fn problem(self, path: Vec<u8>) -> Problem {
        let (kind, cause) = match self {
            Self::Replaced => (FlowKind::Replaced, None),
            // GNU's programs call `stat` first, and report that.
            Self::OpenFile(cause) if cause.is(Errno::NOENT) => (FlowKind::CannotStat, Some(cause)),
            Self::Classify(cause) | Self::OpenDir(cause) => (FlowKind::CannotStat, Some(cause)),
            Self::OpenParent(cause) => (FlowKind::CannotAccess, Some(cause)),
            Self::OpenFile(cause) => (FlowKind::CannotOpen, Some(cause)),
            Self::StatFile(cause) => (FlowKind::CannotFstat, Some(cause)),
            Self::Read(cause) | Self::ReadCompared(cause) => (FlowKind::ErrorReading, Some(cause)),
            Self::WriteTarget(cause) | Self::NoRoom(cause) => (FlowKind::ErrorWriting, Some(cause)),
            Self::CloseSource(cause) | Self::CloseTarget(cause) => (FlowKind::FailedToClose, Some(cause)),
        };
        let problem = Problem::new(kind).naming(path);
        match cause {
            Some(cause) => problem.because(cause.clone()),
            None => problem,
        }
    }
}

/// Answer of `Tool::failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The tool has reported the failure, or wants it ignored. The framework reports nothing.
    Yes,
    /// The framework reports the failure.
    No,
    /// The file could not be opened, but the tool needn't open it. It keeps the entry and completes
    /// it later.
    Deferred,
}

/// An opened directory.
pub struct OpenDir<'a> {
    /// The descriptor, or why the directory can't be read. That error is reported after the tool
    /// has entered the directory.
    pub source: Result<&'a Arc<Fd>, &'a Error>,
    /// Result of `stat`.
    pub stat: &'a Stat,
    /// The selection's rules for its entries; `None` if all are kept.
    pub scope: Option<&'a Arc<Scope>>,
}

/// An opened directory, for the owner of its entry.
pub struct OpenSubdir<'a> {
    /// The descriptor, or why the directory can't be read.
    pub source: Result<&'a Arc<Fd>, &'a Error>,
    /// Result of `stat`.
    pub stat: &'a Stat,
    /// True if a symbolic link led to it.
    pub follow: bool,
}

/// A file that was opened and stat'ed.
#[derive(Clone, Copy)]
pub struct OpenSource<'a> {
    /// The descriptor.
    pub source: &'a Arc<Fd>,
    /// Result of `fstat`.
    pub stat: &'a Stat,
    /// The beginning of the content, if it was read already: at most a block, and never empty. A
    /// tool that needs no more can use it and ask for nothing. `None` says nothing about the
    /// content, which may be empty or not in memory.
    pub first: Option<&'a [u8]>,
}

/// The tool's decision about an opened directory.
pub enum Enter<D> {
    /// Visit its entries.
    Visit(D),
    /// Skip its entries, but finish it as if it had been visited.
    Bare(D),
    /// Skip it. If that is an error, the tool has reported it.
    Done,
    /// Nothing yet: the tool has handed it back
    /// ([`Context::hand_back`](crate::Context::hand_back)).
    Deferred,
}

/// Method of moving a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// There is nothing to move.
    Nothing,
    /// Read in blocks, show them to the tool, and write the bytes it selects.
    Blocks(Holes),
    /// Copy inside the kernel, or in blocks where the kernel can't.
    Kernel(Holes),
}

impl Transfer {
    pub(crate) fn skips_holes(self) -> bool {
        matches!(self, Transfer::Blocks(Holes::Skip) | Transfer::Kernel(Holes::Skip))
    }

    pub(crate) fn in_blocks(self) -> Transfer {
        match self {
            Transfer::Kernel(holes) => Transfer::Blocks(holes),
            other => other,
        }
    }
}

/// Treatment of the source's holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// Read them, as zeros.
    Read,
    /// Skip them.
    Skip,
}

/// The tool's decision about a file that was opened and stat'ed.
pub enum Start<F> {
    /// Copy its content to a target.
    Move {
        /// The tool's state for the file.
        own: F,
        /// The target.
        target: Fd,
        /// Method of moving the content.
        transfer: Transfer,
        /// True if `Tool::block` must see each block before it is written. If false, an engine
        /// may write a block as soon as it is read.
        inspect: bool,
        /// The range to move first; `None` to move all. After it `Tool::finish_file` is called,
        /// which chooses the next one ([`Finished::Next`]).
        part: Option<Range<u64>>,
    },
    /// Read its content, and show it to `Tool::block`.
    Inspect {
        /// The tool's state for the file.
        own: F,
        /// Method: in blocks, or nothing.
        transfer: Transfer,
    },
    /// Read its content and the same ranges of another file, and show both to `Tool::block`.
    Compare {
        /// The tool's state for the file.
        own: F,
        /// The compared file.
        other: Arc<Fd>,
    },
    /// Copy a range of its content to a target that is open already. Other processes copy the rest.
    MoveRange(FileRange<F>),
    /// Nothing more. If the file failed, the tool has reported that.
    Done,
    /// The tool keeps the entry and completes it later, with `Context::complete`
    /// or `Context::retry`.
    Deferred,
}

/// A range of a file that this process moves.
pub struct FileRange<F> {
    /// The tool's state for the file.
    pub own: F,
    /// The target.
    pub target: Fd,
    /// The range, in bytes.
    pub range: Range<u64>,
    /// Method of moving the content.
    pub transfer: Transfer,
    /// True if `Tool::block` must see each block before it is written.
    pub inspect: bool,
}

/// A block that was read.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The same range of the compared file ([`Start::Compare`]); empty if that file ends here.
    pub other: &'a [u8],
}

/// The part of a block to write to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// All of it.
    All,
    /// These ranges of it, in order.
    Parts(Vec<Range<usize>>),
    /// Nothing.
    Nothing,
    /// Nothing. Stop reading this range: the content ends here, as if at EOF.
    End,
}

/// Answer of `Tool::finish_file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The file is complete.
    Done,
    /// Something failed, and was reported.
    Failed,
    /// Move this range too, by the same method, or in blocks to EOF if its end is `u64::MAX`. In
    /// bytes.
    Next(Range<u64>),
    /// The source has changed: move all of its content again. The tool has emptied the target.
    Again {
        /// Result of `fstat` on the source now.
        stat: Stat,
        /// Method of moving the content: not inside the kernel, which may share blocks only with a
        /// source that stands still.
        transfer: Transfer,
    },
}

impl Finished {
    /// Returns `Done` if the file is complete, and otherwise `Failed`.
    #[must_use]
    pub fn if_complete(is_complete: bool) -> Self {
        if is_complete { Self::Done } else { Self::Failed }
    }
}

/// Answer of `Tool::handle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The entry is complete.
    Done,
    /// The tool keeps the entry and completes it later.
    Deferred,
}
