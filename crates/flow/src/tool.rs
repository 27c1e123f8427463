//! What a tool says, so that the framework can do the rest.
//!
//! A tool decides what each entry needs, what to make of a directory that is entered, what becomes of a block that was
//! read, and how a file and a directory are finished. Walking, planning, opening, reading, writing, closing, and who
//! does what when are the framework's. Methods are called from many workers at once and share `&self`.
//!
//! The life of a file, with the tool's part on the right:
//!
//! ```text
//! found ─► needs ───────────────────────────────────► Need::Read
//!   open, look (fstat)
//!   first block, if it is in the cache
//!                          begin ───────────────────► Begin::Move(target, transfer)
//!   read ...
//!                          block ───────────────────► Block::Keep
//!   write ...
//!                          finish (attributes)
//!   close target, close source: results checked
//!                          end (success or not)
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

/// How the jobs of a run are ordered and held back; see [`Tool::policy`].
#[derive(Clone, Default)]
pub struct Policy {
    /// In which order workers take jobs.
    pub order: Order,
    /// While this gauge is over its limit, a worker takes no job as long as others have one in hand.
    pub backpressure: Option<Gauge>,
    /// Cancelled when the run need not go on, here or in another process.
    pub cancel: CancelToken,
}

/// In which order the workers of a process take jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Each worker has its own part of the tree, and steals when that is done.
    #[default]
    WorkStealing,
    /// All workers take jobs from one queue in the order of the walk, so that neighbours in the tree are done at about the same
    /// time.
    Walk,
}

/// What an entry needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It is a directory to enter: [`Tool::enter_dir`].
    Enter,
    /// It is a file to open and read: [`Tool::open_file`].
    Read(Probe),
    /// The tool handles it in one go: [`Tool::handle`].
    Handle,
    /// Nothing: it is skipped, or has failed and the tool has reported that.
    Skip,
}

/// Which files have their first block read, if it is in the page cache, before [`Tool::open_file`]. Not worth it where that
/// may find that nothing has to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Maximum number of names of the file.
    pub links_max: u32,
    /// Maximum length of the file, in bytes.
    pub bytes_max: u64,
}

impl Probe {
    /// Every file.
    pub const ALWAYS: Self = Self { links_max: u32::MAX, bytes_max: u64::MAX };
    /// No file.
    pub const NEVER: Self = Self { links_max: 0, bytes_max: 0 };

    pub(crate) fn includes(self, stat: &Stat) -> bool {
        stat.links <= self.links_max && stat.size <= self.bytes_max
    }
}

/// What went wrong with an entry, where the framework met it.
#[derive(Clone, Copy, Debug)]
pub enum Failure<'a> {
    /// Its type is unknown, as `stat` failed: it was deleted, or is a dangling link.
    Classify(&'a Error),
    /// The directory could not be opened and not be looked at.
    OpenDir(&'a Error),
    /// The directory that the file is in could not be opened again.
    OpenPlace(&'a Error),
    /// The file could not be opened.
    OpenFile(&'a Error),
    /// The open file could not be looked at.
    StatFile(&'a Error),
    /// The file is not the one that was listed, or is no regular file any more.
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
    /// True if a file that was to be read will not come to [`Tool::open_file`].
    #[must_use]
    pub fn is_before_open_file(self) -> bool {
        matches!(self, Self::OpenPlace(_) | Self::OpenFile(_) | Self::StatFile(_) | Self::Replaced)
    }

    /// Words it in the way that fits tools without targets: the source is named.
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

/// Whether a tool has reported a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It has, or the entry is left out and nobody is to know: the framework reports nothing.
    Yes,
    /// It has not: the framework reports it.
    No,
}

/// A directory that was opened.
pub struct OpenDir<'a> {
    /// The descriptor; or why it may not be read, which is told after the tool has made its own.
    pub source: Result<&'a Arc<Fd>, &'a Error>,
    /// What the kernel says of it.
    pub stat: &'a Stat,
}

/// A file that was opened and looked at.
#[derive(Clone, Copy)]
pub struct OpenSource<'a> {
    /// The descriptor.
    pub source: &'a Arc<Fd>,
    /// What the kernel says of it.
    pub stat: &'a Stat,
    /// What was read of its beginning already, if anything. A tool to which that is all it needs may take it, and ask for nothing.
    pub first: Option<&'a [u8]>,
}

/// What to do with a directory.
pub enum Enter<D> {
    /// Visit its entries.
    Visit(D),
    /// Leave out its entries, but finish it as if it had been visited.
    Bare(D),
    /// Nothing; the tool has said why, if it was an error.
    Over,
}

/// How the content of a file is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Not at all: there is nothing to move.
    Nothing,
    /// Read in blocks, shown to the tool, and written where it says.
    Blocks(Holes),
    /// Copied inside the kernel; in blocks where the kernel cannot.
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

/// What becomes of the source's holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// They are read, as zeros.
    Read,
    /// They are passed over.
    Skip,
}

/// What to do with a file that was opened and looked at.
pub enum Start<F> {
    /// Copy its content to a file of its own.
    Move {
        /// What the tool keeps for the file.
        own: F,
        /// The file.
        target: Fd,
        /// How.
        transfer: Transfer,
        /// Whether [`Tool::block`] sees each block before it is written. If not, an engine may write a block as soon as it was
        /// read, without asking.
        inspect: bool,
    },
    /// Read its content, and show it to [`Tool::block`].
    Inspect {
        /// What the tool keeps for the file.
        own: F,
        /// How: in blocks, or not at all.
        transfer: Transfer,
    },
    /// Read its content, and the same ranges of another file, and show both to [`Tool::block`].
    Compare {
        /// What the tool keeps for the file.
        own: F,
        /// The compared file.
        other: Arc<Fd>,
    },
    /// Nothing more: it is done, skipped, or has failed and the tool has reported that.
    Done,
    /// The tool has kept the entry and completes it later: [`Context::complete`] or [`Context::retry`].
    Deferred,
}

/// A block that was read.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The same range of the compared file ([`Start::Compare`]); empty if that file ends here.
    pub other: &'a [u8],
}

/// What of a block to write to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// All of it.
    All,
    /// These parts of it, in order.
    Parts(Vec<Range<usize>>),
    /// Nothing.
    Nothing,
    /// Nothing, and no more blocks are wanted: the content ends here.
    End,
}

/// A file whose content is being moved, by one worker or several.
pub struct OpenFile<T: Tool> {
    /// The entry.
    pub entry: Entry<T>,
    /// The open source.
    pub source: Arc<Fd>,
    /// What the kernel said of the source.
    pub stat: Stat,
    /// The open target, if there is one.
    pub target: Option<Arc<Fd>>,
    /// What the tool keeps for it.
    pub own: T::File,
    /// The compared file, if there is one.
    pub(crate) other: Option<Arc<Fd>>,
    /// Whether the tool sees each block before it is written.
    pub(crate) inspect: bool,
    failed: AtomicBool,
    in_blocks: AtomicBool,
    by_kernel: AtomicBool,
    ended_at: AtomicU64,
    pub(crate) cache_policy: CachePolicy,
}

/// How a file's content is moved.
pub(crate) struct MoveSetup {
    pub(crate) cache_policy: CachePolicy,
    /// See [`OpenFile::inspect`].
    pub(crate) inspect: bool,
    /// See [`OpenFile::other`].
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

    /// Records that a part of the file could not be moved; the other parts stop. Returns whether it is the first.
    pub fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::AcqRel)
    }

    /// Records that a part of the content was read in blocks.
    pub(crate) fn note_block(&self) {
        self.in_blocks.store(true, Ordering::Relaxed);
    }

    /// Records that the kernel copied a part of the content.
    pub(crate) fn note_kernel(&self) {
        self.by_kernel.store(true, Ordering::Relaxed);
    }

    /// Records that reading met the end of the file at `position`.
    pub(crate) fn note_end(&self, position: u64) {
        self.ended_at.fetch_min(position, Ordering::Relaxed);
    }

    /// Returns how long the content turned out to be, in bytes: what `stat` says, unless reading met the end elsewhere.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self.ended_at.load(Ordering::Relaxed) {
            u64::MAX => self.stat.size,
            end => end,
        }
    }

    /// True if some of the content was read in blocks.
    #[must_use]
    pub fn was_read_in_blocks(&self) -> bool {
        self.in_blocks.load(Ordering::Relaxed)
    }

    /// True if some of the content was copied inside the kernel.
    #[must_use]
    pub fn was_copied_by_kernel(&self) -> bool {
        self.by_kernel.load(Ordering::Relaxed)
    }

    /// True if a part of the file could not be moved.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

/// What a tool does with the entries of a tree. Its methods are called from many workers at once.
pub trait Tool: Sync + Sized {
    /// What the tool keeps for each directory, from [`Tool::enter_dir`] to [`Tool::finish_dir`].
    type Directory: Send + Sync;
    /// What the tool keeps for each file, from [`Tool::open_file`] to [`Tool::close_file`].
    type File: Send + Sync;

    /// The order of jobs, backpressure, and a token that cancels the run. Asked for once per run.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// True to follow a symbolic link at this entry.
    fn follow(&self, _found: &Entry<Self>) -> bool {
        false
    }

    /// What an entry of this type needs.
    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan;

    /// Called when a directory was opened: creates its counterpart.
    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<Self::Directory>;

    /// Called after the last entry of a directory, or of an operand, is complete: finishes the counterpart.
    fn finish_dir(&self, _desk: &Context<'_, Self>, _node: &DirNode<Self>) {}

    /// Handles an entry that is neither entered nor read: a link, a device, another name of a file.
    fn handle(&self, _desk: &Context<'_, Self>, _found: &Entry<Self>, _kind: EntryType) -> Handled {
        Handled::Over
    }

    /// Called when a file was opened and stat'ed: chooses what becomes of its content.
    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Self::File>;

    /// Called for a block of a file that was read. Blocks of a large file come from several workers, in any order.
    fn block(&self, _file: &OpenFile<Self>, _block: Block<'_>) -> Write {
        Write::All
    }

    /// Called when all of a file's content was moved, before it is closed. Returns false if something failed and was reported.
    fn finish_file(&self, _desk: &Context<'_, Self>, _file: &OpenFile<Self>) -> bool {
        true
    }

    /// Called after a file was closed. `moved` is false if anything failed on the way.
    fn close_file(&self, _desk: &Context<'_, Self>, _found: &Entry<Self>, _own: Self::File, _moved: bool) {}

    /// Called when something failed that the framework does, before that is reported.
    fn failed(&self, _desk: &Context<'_, Self>, _found: &Entry<Self>, _failure: Failure<'_>) -> Reported {
        Reported::No
    }

    /// Called with what was passed to [`Context::emit`] as the result of an entry: in the process that walks the tree, exactly once,
    /// also if the entry had to be done again elsewhere. By default the result goes to standard output.
    fn emitted(&self, cx: &Context<'_, Self>, _found: &Entry<Self>, result: &[u8]) {
        cx.report().output(Standard::Output, result);
    }
}

/// Whether an entry that the tool handled is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It is.
    Over,
    /// The tool has kept it and will settle it later.
    Deferred,
}
