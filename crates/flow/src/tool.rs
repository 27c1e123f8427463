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

use crate::node::{Found, Node};
use crate::route::Route;
use crate::run::Desk;

/// What an entry needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It is a directory to visit: [`Tool::enter`].
    Enter,
    /// It is a file to open and read: [`Tool::begin`].
    Read,
    /// The tool does it by itself, in one go: [`Tool::handle`].
    Handle,
    /// Nothing: it is skipped, or has failed and the tool has said so.
    Nothing,
}

/// A directory that was opened.
pub struct Opened<'a> {
    /// The descriptor; or why it may not be read, which is told after the tool has made its own.
    pub source: Result<&'a Arc<Fd>, &'a Error>,
    /// What the kernel says of it.
    pub stat: &'a Stat,
}

/// A file that was opened and looked at.
#[derive(Clone, Copy)]
pub struct OpenedFile<'a> {
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
pub enum Begin<F> {
    /// Move its content.
    Move {
        /// What the tool keeps for the file.
        own: F,
        /// Where its content goes, if to a file of its own.
        target: Option<Fd>,
        /// How.
        transfer: Transfer,
    },
    /// Nothing more: it is done, skipped, or has failed and the tool has said so.
    Over,
    /// The tool has kept the entry and will settle it later: [`Desk::settle`] or [`Desk::retry`].
    Deferred,
}

/// What to do with a block that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Write all of it where it came from.
    Keep,
    /// Write these parts of it, in order.
    Parts(Vec<Range<usize>>),
    /// Nothing: the tool has taken what it wanted.
    Taken,
    /// Nothing, and no more is wanted: the content ends here.
    Enough,
}

/// A file whose content is being moved, by one worker or several.
pub struct OpenFile<T: Tool> {
    /// The entry.
    pub found: Found<T>,
    /// The open source.
    pub source: Arc<Fd>,
    /// What the kernel said of the source.
    pub stat: Stat,
    /// The open target, if there is one.
    pub target: Option<Arc<Fd>>,
    /// What the tool keeps for it.
    pub own: T::File,
    failed: AtomicBool,
    in_blocks: AtomicBool,
    by_kernel: AtomicBool,
    ended_at: AtomicU64,
    pub(crate) route: Route,
    /// What of the file this process does.
    pub(crate) role: Role,
}

/// How a file lies on the targets of a striped file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Targets it lies on.
    pub stripes: u32,
}

/// What of a file a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// All.
    Whole,
    /// It makes and finishes it, under a number; its content is moved in pieces.
    Leader(u64),
    /// It moves a piece.
    Member,
}

impl<T: Tool> OpenFile<T> {
    pub(crate) fn new(
        found: Found<T>,
        source: Arc<Fd>,
        stat: Stat,
        target: Option<Fd>,
        own: T::File,
        (route, role): (Route, Role),
    ) -> Self {
        Self {
            found,
            source,
            stat,
            target: target.map(Arc::new),
            own,
            failed: AtomicBool::new(false),
            in_blocks: AtomicBool::new(false),
            by_kernel: AtomicBool::new(false),
            ended_at: AtomicU64::new(u64::MAX),
            route,
            role,
        }
    }

    /// Records that a part of the file could not be moved; the other parts stop. Returns whether it is the first.
    pub(crate) fn fail(&self) -> bool {
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

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

/// A tool over file trees. It says what entries need and what to make of directories and files; all else has a default.
pub trait Tool: Sync + Sized {
    /// What the tool keeps for each directory being visited.
    type Directory: Send + Sync;
    /// What the tool keeps for each file being moved.
    type File: Send + Sync;

    /// Tells whether a symbolic link here is to be taken for what it leads to. Unless the tool says otherwise, none is.
    fn follows(&self, _found: &Found<Self>) -> bool {
        false
    }

    /// Tells whether the workers of a process are to stay near each other in the walk, as what the tool makes of neighbours belongs
    /// together: then they take entries from one row, rather than each from its own part of the tree.
    fn stays_together(&self) -> bool {
        false
    }

    /// Hears that the tool of another process of the run has called it off ([`Desk::call_off`]); maybe more than once, and from a
    /// thread that must not wait.
    fn called_off(&self) {}

    /// Tells whether so much waits for what workers have in hand that none had better take another job before that is done.
    fn is_crowded(&self) -> bool {
        false
    }

    /// Says what an entry of this kind needs.
    fn needs(&self, desk: &Desk<'_, Self>, found: &Found<Self>, kind: EntryType) -> Need;

    /// Makes what belongs to a directory that was opened.
    fn enter(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        opened: &Opened<'_>,
    ) -> Enter<Self::Directory>;

    /// Finishes a directory, or the place of operands, after the last of its entries.
    fn leave(&self, _desk: &Desk<'_, Self>, _node: &Node<Self>) {}

    /// Hears that the last entry of a part is settled, in the process that was given it.
    fn leave_part(&self, _desk: &Desk<'_, Self>, _node: &Node<Self>) {}

    /// Deals with an entry that is neither entered nor read.
    fn handle(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>, _kind: EntryType) -> Handled {
        Handled::Over
    }

    /// Tells whether reading the first block before [`Tool::begin`] is worth it: not when `begin` may find that nothing
    /// has to be read.
    fn reads_first(&self, _found: &Found<Self>, _stat: &Stat) -> bool {
        true
    }

    /// Hears why a file cannot be opened, or a directory neither opened nor looked at, before the user does. Returns whether the
    /// tool has told of it: then nobody else does.
    fn not_opened(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>, _cause: &Error) -> bool {
        false
    }

    /// Hears why nobody knows what an entry is, as it cannot be looked at, before the user does: it is gone, or is a link that leads
    /// nowhere. Returns whether the tool leaves it out, or has told of it: then nobody tells.
    fn not_classified(&self, desk: &Desk<'_, Self>, found: &Found<Self>, cause: &Error) -> bool {
        cause.is(Errno::NOENT) && self.not_opened(desk, found, cause)
    }

    /// Hears that a file that was to be read will not come to [`Tool::begin`], for whatever reason.
    fn not_begun(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>) {}

    /// Begins a file.
    fn begin(&self, desk: &Desk<'_, Self>, found: &Found<Self>, opened: &OpenedFile<'_>)
    -> Begin<Self::File>;

    /// Tells whether [`Tool::block`] has to see the file's blocks before they are written. If not, an engine may write each
    /// as soon as it was read, and `block` is not called for it.
    fn looks_at_blocks(&self, _file: &OpenFile<Self>) -> bool {
        true
    }

    /// Takes a block of a file's content that was read at `offset`. Blocks of a large file come from several workers, in any
    /// order.
    fn block(&self, _file: &OpenFile<Self>, _offset: u64, _bytes: &[u8]) -> Block {
        Block::Taken
    }

    /// Returns a file that is to be read beside the source: then the tool is shown the same range of both, by [`Tool::both`]
    /// instead of [`Tool::block`], and nothing is written. Messages name it by [`Tool::target_path`].
    fn beside(&self, _file: &OpenFile<Self>) -> Option<Arc<Fd>> {
        None
    }

    /// Takes what was read at `offset` of the source, and as many bytes of the file beside it: none if that ends there.
    fn both(&self, _file: &OpenFile<Self>, _offset: u64, _source: &[u8], _beside: &[u8]) {}

    /// Finishes a file whose content was moved, before it is closed. Returns whether all went well; what did not, the
    /// tool has reported.
    fn finish(&self, _desk: &Desk<'_, Self>, _file: &OpenFile<Self>) -> bool {
        true
    }

    /// Returns what another process needs to open a file's target and write a part of it, if that can be done.
    fn ticket(&self, _file: &OpenFile<Self>) -> Option<Vec<u8>> {
        None
    }

    /// Says how a file that was begun lies on the storage: as its target does, or else its source. `None` where nothing is
    /// known.
    fn striping(&self, _file: &OpenFile<Self>) -> Option<Striping> {
        None
    }

    /// Packs what the tool keeps for a directory that was entered for another process, which will finish it.
    fn pack_entered(&self, _own: &Self::Directory) -> Vec<u8> {
        Vec::new()
    }

    /// Opens the target of a file that another process leads, by its ticket. `None` if it cannot be, and that was reported.
    fn join(
        &self,
        _desk: &Desk<'_, Self>,
        _found: &Found<Self>,
        _opened: &OpenedFile<'_>,
        _ticket: &[u8],
    ) -> Option<(Self::File, Fd)> {
        None
    }

    /// Ends a file that was begun with [`Begin::Move`], after it was closed. `moved` tells whether everything went well.
    fn end(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>, _own: Self::File, _moved: bool) {}

    /// Takes what [`Desk::tell`] was given as the result of an entry: in the process that walks, exactly once, also if the entry
    /// had to be done again elsewhere. Unless the tool does something else with it, it is output.
    fn told(&self, desk: &Desk<'_, Self>, _found: &Found<Self>, result: &[u8]) {
        desk.report().output(Standard::Output, result);
    }

    /// Tells whether the process that walks can do an entry again of which another has more to tell than can be sent: then that is
    /// given back to it, and not told.
    fn can_do_again(&self, _found: &Found<Self>) -> bool {
        false
    }

    /// Returns the path of what the tool makes of the entry, for messages.
    fn target_path(&self, found: &Found<Self>) -> Vec<u8> {
        found.path()
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
