//! A file whose content is being moved, by one worker or several.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_sys::{Fd, Stat};

use crate::cache_policy::CachePolicy;
use crate::decision::Transfer;

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
    /// How its ranges are moved, unless that proves impossible.
    pub(crate) transfer: Transfer,
    failed: AtomicBool,
    in_blocks: AtomicBool,
    by_kernel: AtomicBool,
    ended_at: AtomicU64,
    pub(crate) cache_policy: CachePolicy,
}

/// Settings of [`OpenFile::new`].
pub(crate) struct MoveSetup {
    pub(crate) transfer: Transfer,
    pub(crate) cache_policy: CachePolicy,
    pub(crate) inspect: bool,
    pub(crate) through_pipe: bool,
    pub(crate) other: Option<Arc<Fd>>,
}

impl<E, F> OpenFile<E, F> {
    pub(crate) fn new(
        entry: E,
        source: Arc<Fd>,
        stat: Stat,
        target: Option<Fd>,
        own: F,
        MoveSetup { transfer, cache_policy, inspect, through_pipe, other }: MoveSetup,
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
