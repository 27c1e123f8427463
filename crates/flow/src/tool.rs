//! The interface between a tool and the framework.
//!
//! A tool decides what each entry needs, what to do with a directory that is entered, with a block
//! that was read, and how to finish a file or a directory. The framework walks, plans, opens,
//! reads, writes, closes, and schedules. [`Tool`]'s methods take `&self` and are called from many
//! workers at once.
//!
//! The life of a file, with the tool's part on the right:
//!
//! ```text
//! entry ─► plan ───────────────────────────────────► Plan::Read
//!   open, fstat
//!   first block, if it is in the cache
//!                          open_file ──────────────► Start::Move { target, transfer, .. }
//!   read ...
//!                          block ──────────────────► Write::All
//!   write ...
//!                          finish_file (attributes)
//!   close target, close source: results checked
//!                          close_file (success or not)
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_sys::{EntryType, Errno, Error, Fd, Standard, Stat};

use crate::cache_policy::CachePolicy;
use crate::node::{DirNode, Entry};
use crate::policy::{CancelToken, Gauge};
use crate::report::Problem;
use crate::run::Context;
use crate::wording;

/// Job order, backpressure and cancellation of a run; see [`Tool::policy`].
#[derive(Clone, Default)]
pub struct Policy {
    /// Order in which workers take jobs.
    pub order: Order,
    /// While this gauge is over its limit, no worker takes a job as long as another one is in hand.
    pub backpressure: Option<Gauge>,
    /// Cancelled when the run need not go on, in this process or another.
    pub cancel: CancelToken,
}

/// Order in which the workers of a process take jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Each worker has its own part of the tree, and steals when that is done.
    #[default]
    WorkStealing,
    /// All workers take jobs from one queue in walk order, so that neighbours in the tree are done
    /// at about the same time.
    Walk,
}

/// Action for an entry; see [`Tool::plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Enter this directory: [`Tool::enter_dir`].
    Enter,
    /// Open and read this file: [`Tool::open_file`].
    Read(Probe),
    /// Let the tool handle it in one call: [`Tool::handle`].
    Handle,
    /// Skip it. If it failed, the tool has reported that.
    Skip,
}

/// Selects the files whose first block is read, if it is in the page cache, before
/// [`Tool::open_file`]. Not worthwhile if that method may find that nothing needs to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Maximum number of hard links.
    pub links_max: u32,
    /// Maximum size, in bytes.
    pub bytes_max: u64,
}

impl Probe {
    /// Selects every file.
    pub const ALWAYS: Self = Self { links_max: u32::MAX, bytes_max: u64::MAX };
    /// Selects no file.
    pub const NEVER: Self = Self { links_max: 0, bytes_max: 0 };

    pub(crate) fn includes(self, stat: &Stat) -> bool {
        stat.links <= self.links_max && stat.size <= self.bytes_max
    }
}

/// How the framework failed on an entry.
#[derive(Clone, Copy, Debug)]
pub enum Failure<'a> {
    /// Its type is unknown, because `stat` failed: it was deleted, or is a dangling link.
    Classify(&'a Error),
    /// The directory could not be opened or stat'ed.
    OpenDir(&'a Error),
    /// The file's directory could not be reopened.
    OpenPlace(&'a Error),
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
    /// Closing the target failed.
    CloseTarget(&'a Error),
    /// Closing the source failed.
    CloseSource(&'a Error),
}

impl Failure<'_> {
    /// Returns true if a file planned as [`Plan::Read`] will not reach [`Tool::open_file`].
    #[must_use]
    pub fn is_before_open_file(self) -> bool {
        matches!(self, Self::OpenPlace(_) | Self::OpenFile(_) | Self::StatFile(_) | Self::Replaced)
    }

    /// Converts the failure to a problem that names the source, which suits tools without targets.
    pub(crate) fn problem<T: Tool>(self, entry: &Entry<T>) -> Problem {
        let (wording, cause) = match self {
            Self::Replaced => (wording::REPLACED, None),
            Self::OpenFile(cause) if cause.is(Errno::NOENT) => (wording::CANNOT_STAT, Some(cause)),
            Self::Classify(cause) | Self::OpenDir(cause) => (wording::CANNOT_STAT, Some(cause)),
            Self::OpenPlace(cause) => (wording::CANNOT_ACCESS, Some(cause)),
            Self::OpenFile(cause) => (wording::CANNOT_OPEN, Some(cause)),
            Self::StatFile(cause) => (wording::CANNOT_FSTAT, Some(cause)),
            Self::Read(cause) | Self::ReadCompared(cause) => (wording::ERROR_READING, Some(cause)),
            Self::WriteTarget(cause) => (wording::ERROR_WRITING, Some(cause)),
            Self::CloseSource(cause) | Self::CloseTarget(cause) => (wording::FAILED_TO_CLOSE, Some(cause)),
        };
        let problem = Problem::new(wording).naming(entry.path());
        match cause {
            Some(cause) => problem.because(cause.clone()),
            None => problem,
        }
    }
}

/// Answer of [`Tool::failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The tool has reported the failure, or wants it ignored. The framework reports nothing.
    Yes,
    /// The framework reports the failure.
    No,
}

/// An opened directory.
pub struct OpenDir<'a> {
    /// The descriptor, or why the directory can't be read. That error is reported after the tool
    /// has entered the directory.
    pub source: Result<&'a Arc<Fd>, &'a Error>,
    /// Result of `stat`.
    pub stat: &'a Stat,
}

/// A file that was opened and stat'ed.
#[derive(Clone, Copy)]
pub struct OpenSource<'a> {
    /// The descriptor.
    pub source: &'a Arc<Fd>,
    /// Result of `fstat`.
    pub stat: &'a Stat,
    /// The first block, if it was read already. A tool that needs no more can use it and ask
    /// for nothing.
    pub first: Option<&'a [u8]>,
}

/// How to go on with an opened directory.
pub enum Enter<D> {
    /// Visit its entries.
    Visit(D),
    /// Skip its entries, but finish it as if it had been visited.
    Bare(D),
    /// Skip it. If that is an error, the tool has reported it.
    Over,
}

/// Method of moving a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// There is nothing to move.
    Nothing,
    /// Read in blocks, show them to the tool, and write what it wants.
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

/// How to go on with a file that was opened and stat'ed.
pub enum Start<F> {
    /// Copy its content to a target.
    Move {
        /// The tool's state for the file.
        own: F,
        /// The target.
        target: Fd,
        /// Method of moving the content.
        transfer: Transfer,
        /// True if [`Tool::block`] must see each block before it is written. If false, an engine
        /// may write a block as soon as it is read.
        inspect: bool,
    },
    /// Read its content, and show it to [`Tool::block`].
    Inspect {
        /// The tool's state for the file.
        own: F,
        /// Method: in blocks, or nothing.
        transfer: Transfer,
    },
    /// Read its content and the same ranges of another file, and show both to [`Tool::block`].
    Compare {
        /// The tool's state for the file.
        own: F,
        /// The compared file.
        other: Arc<Fd>,
    },
    /// Nothing more. If the file failed, the tool has reported that.
    Done,
    /// The tool keeps the entry and completes it later, with [`Context::complete`]
    /// or [`Context::retry`].
    Deferred,
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

/// How much of a block to write to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// All of it.
    All,
    /// These ranges of it, in order.
    Parts(Vec<Range<usize>>),
    /// Nothing.
    Nothing,
    /// Nothing. Stop reading: the content ends here.
    End,
}

/// A file whose content is being moved, by one worker or several.
pub struct OpenFile<T: Tool> {
    /// The entry.
    pub entry: Entry<T>,
    /// The open source.
    pub source: Arc<Fd>,
    /// Result of `fstat` on the source.
    pub stat: Stat,
    /// The open target, if there is one.
    pub target: Option<Arc<Fd>>,
    /// The tool's state for the file.
    pub own: T::File,
    /// The compared file, if there is one.
    pub(crate) other: Option<Arc<Fd>>,
    /// True if the tool sees each block before it is written.
    pub(crate) inspect: bool,
    failed: AtomicBool,
    in_blocks: AtomicBool,
    by_kernel: AtomicBool,
    ended_at: AtomicU64,
    pub(crate) cache_policy: CachePolicy,
}

/// Settings of [`OpenFile::new`].
pub(crate) struct MoveSetup {
    pub(crate) cache_policy: CachePolicy,
    pub(crate) inspect: bool,
    pub(crate) other: Option<Arc<Fd>>,
}

impl<T: Tool> OpenFile<T> {
    pub(crate) fn new(
        entry: Entry<T>,
        source: Arc<Fd>,
        stat: Stat,
        target: Option<Fd>,
        own: T::File,
        MoveSetup { cache_policy, inspect, other }: MoveSetup,
    ) -> Self {
        Self {
            entry,
            source,
            stat,
            target: target.map(Arc::new),
            own,
            other,
            inspect,
            failed: AtomicBool::new(false),
            in_blocks: AtomicBool::new(false),
            by_kernel: AtomicBool::new(false),
            ended_at: AtomicU64::new(u64::MAX),
            cache_policy,
        }
    }

    /// Marks the file as failed, which stops its other streams. Returns true the first time.
    pub fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::AcqRel)
    }

    /// Records that some of the content was read in blocks.
    pub(crate) fn note_block(&self) {
        self.in_blocks.store(true, Ordering::Relaxed);
    }

    /// Records that some of the content was copied inside the kernel.
    pub(crate) fn note_kernel(&self) {
        self.by_kernel.store(true, Ordering::Relaxed);
    }

    /// Records that reading met EOF at `position`.
    pub(crate) fn note_end(&self, position: u64) {
        self.ended_at.fetch_min(position, Ordering::Relaxed);
    }

    /// Returns the actual length of the content, in bytes: the size from `fstat`, unless reading
    /// met EOF elsewhere.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self.ended_at.load(Ordering::Relaxed) {
            u64::MAX => self.stat.size,
            end => end,
        }
    }

    /// Returns true if some of the content was read in blocks.
    #[must_use]
    pub fn was_read_in_blocks(&self) -> bool {
        self.in_blocks.load(Ordering::Relaxed)
    }

    /// Returns true if some of the content was copied inside the kernel.
    #[must_use]
    pub fn was_copied_by_kernel(&self) -> bool {
        self.by_kernel.load(Ordering::Relaxed)
    }

    /// Returns true if some of the content could not be moved.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

/// A tool: decides what to do with the entries of a tree. Its methods are called from many workers
/// at once.
pub trait Tool: Sync + Sized {
    /// State kept for each directory, from [`Tool::enter_dir`] to [`Tool::finish_dir`].
    type Directory: Send + Sync;
    /// State kept for each file, from [`Tool::open_file`] to [`Tool::close_file`].
    type File: Send + Sync;

    /// Returns the job order, the backpressure gauge and the cancel token of the run.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// Returns true if a symbolic link at this entry should be followed.
    fn follow(&self, _entry: &Entry<Self>) -> bool {
        false
    }

    /// Decides what an entry of this type needs.
    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan;

    /// Called when a directory was opened. Creates its counterpart.
    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<Self::Directory>;

    /// Called when the last entry of a directory, or of an operand, is complete. Finishes
    /// the counterpart.
    fn finish_dir(&self, _cx: &Context<'_, Self>, _node: &DirNode<Self>) {}

    /// Handles an entry that is neither entered nor read: a link, a device, another name of a file.
    fn handle(&self, _cx: &Context<'_, Self>, _entry: &Entry<Self>, _kind: EntryType) -> Handled {
        Handled::Over
    }

    /// Called when a file was opened and stat'ed. Decides what happens to its content.
    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Self::File>;

    /// Called for each block that was read. Blocks of a large file come from several workers, in
    /// any order.
    fn block(&self, _file: &OpenFile<Self>, _block: Block<'_>) -> Write {
        Write::All
    }

    /// Called when all of a file's content was moved, before it is closed. Returns false if
    /// something failed and was reported.
    fn finish_file(&self, _cx: &Context<'_, Self>, _file: &OpenFile<Self>) -> bool {
        true
    }

    /// Called after a file was closed. `moved` is false if anything failed.
    fn close_file(&self, _cx: &Context<'_, Self>, _entry: &Entry<Self>, _own: Self::File, _moved: bool) {}

    /// Called when the framework failed on an entry, before the failure is reported.
    fn failed(&self, _cx: &Context<'_, Self>, _entry: &Entry<Self>, _failure: Failure<'_>) -> Reported {
        Reported::No
    }

    /// Called with each result passed to [`Context::emit`]: in the process that walks the tree,
    /// exactly once, even if the entry was redone elsewhere. By default the result goes to
    /// standard output.
    fn emitted(&self, cx: &Context<'_, Self>, _entry: &Entry<Self>, result: &[u8]) {
        cx.report().output(Standard::Output, result);
    }
}

/// Answer of [`Tool::handle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The entry is complete.
    Over,
    /// The tool keeps the entry and completes it later.
    Deferred,
}
