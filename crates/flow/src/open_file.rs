//! A file whose content is being moved, by one worker or several.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haul_sys::{Fd, Stat};

use crate::cache_policy::CachePolicy;
use crate::decision::{Finished, Transfer};
use crate::run::Turns;

/// A file whose content is being moved, by one worker or several.
/// `E` is its entry, `F` the tool's state for it.
pub struct OpenFile<E, F> {
    /// The entry.
    pub entry: E,
    /// The open source.
    pub source: Arc<Fd>,
    /// Result of `fstat` on the source.
    pub stat: Stat,
    /// The open target, if there is one.
    pub target: Option<Arc<Fd>>,
    /// The tool's state for the file.
    pub own: F,
    /// The compared file, if there is one.
    pub(crate) other: Option<Arc<Fd>>,
    /// True if the tool sees each block before it is written.
    pub(crate) inspect: bool,
    /// True if it may be copied through a pipe.
    pub(crate) through_pipe: bool,
    /// Method for its ranges, unless that proves impossible.
    pub(crate) transfer: Transfer,
    /// True if the content may be read from its start to its end instead, once.
    may_be_sequential: AtomicBool,
    /// True if the source has refused offsets.
    refuses_offsets: AtomicBool,
    failed: AtomicBool,
    in_blocks: AtomicBool,
    by_kernel: AtomicBool,
    ended_at: AtomicU64,
    /// Its blocks, if two workers write them in turn.
    pub(crate) turns: OnceLock<Box<Turns>>,
    pub(crate) cache_policy: CachePolicy,
}

/// Settings of [`OpenFile::new`].
pub(crate) struct MoveSetup {
    pub(crate) transfer: Transfer,
    pub(crate) cache_policy: CachePolicy,
    pub(crate) inspect: bool,
    pub(crate) through_pipe: bool,
    pub(crate) other: Option<Arc<Fd>>,
    /// True if all of the file is moved here.
    pub(crate) is_whole: bool,
}

impl<E, F> OpenFile<E, F> {
    pub(crate) fn new(
        entry: E,
        source: Arc<Fd>,
        stat: Stat,
        target: Option<Fd>,
        own: F,
        MoveSetup { transfer, cache_policy, inspect, through_pipe, other, is_whole }: MoveSetup,
    ) -> Self {
        Self {
            entry,
            source,
            stat,
            target: target.map(Arc::new),
            own,
            other,
            inspect,
            through_pipe,
            transfer,
            may_be_sequential: AtomicBool::new(is_whole),
            refuses_offsets: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            in_blocks: AtomicBool::new(false),
            by_kernel: AtomicBool::new(false),
            ended_at: AtomicU64::new(u64::MAX),
            turns: OnceLock::new(),
            cache_policy,
        }
    }

    /// Marks the file as failed, which stops its other streams. Returns true the first time.
    pub fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::AcqRel)
    }

    /// Called when the source has refused an offset. Returns true if its content can be read
    /// sequentially instead, which stops its streams.
    pub(crate) fn refuse_offsets(&self) -> bool {
        // Relaxed: each stream that doesn't see it yet is refused too. Not twice: the second time
        // the position is at the end.
        if self.may_be_sequential.swap(false, Ordering::Relaxed) {
            self.refuses_offsets.store(true, Ordering::Relaxed);
        }
        self.refuses_offsets.load(Ordering::Relaxed)
    }

    /// True if the source has refused an offset, and its content hasn't been read sequentially.
    pub(crate) fn has_refused_offsets(&self) -> bool {
        self.refuses_offsets.load(Ordering::Relaxed)
    }

    /// Prepares to read the content sequentially. Returns true if that is necessary.
    pub(crate) fn begin_sequential(&mut self) -> bool {
        std::mem::take(self.refuses_offsets.get_mut())
    }

    /// Prepares to move the content again, because the source has changed.
    pub(crate) fn begin_again(&mut self, stat: Stat) {
        self.stat = stat;
        *self.ended_at.get_mut() = u64::MAX;
    }

    /// Records that some of the content was read in blocks.
    pub(crate) fn note_block(&self) {
        // Relaxed, here and below: it is read after the last reference was dropped, which orders
        // it.
        self.in_blocks.store(true, Ordering::Relaxed);
    }

    /// Records that some of the content was copied inside the kernel.
    pub(crate) fn note_kernel(&self) {
        self.by_kernel.store(true, Ordering::Relaxed);
    }

    /// Records that reading met EOF at `position`.
    pub(crate) fn note_end(&self, position: u64) {
        // Several streams may read beyond the end of a file that has shrunk: the lowest position is
        // the end.
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

    /// Returns what is left to move, for a tool that copies to EOF: all beyond the size from
    /// `fstat`, unless a read has already met EOF. The file may have grown since, and some file
    /// systems report too small a size (FUSE with cached attributes).
    #[must_use]
    pub fn beyond(&self) -> Option<Finished> {
        let has_met_end = self.ended_at.load(Ordering::Relaxed) != u64::MAX;
        (!has_met_end && self.transfer != Transfer::Nothing)
            .then_some(Finished::Next(self.stat.size..u64::MAX))
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
