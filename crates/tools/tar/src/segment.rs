//! Segments of an archive being written: each is in memory until its content is complete, and is
//! then written in one call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haul_flow::lock;

use super::format::in_blocks;

/// Maximum length of a segment, in bytes: long enough to be worth a call, short enough to stay in
/// the L2 cache until it is written.
pub(super) const SEGMENT_BYTES: usize = 128 << 10;

#[derive(Default)]
pub(super) struct BufferPool(Mutex<Vec<Vec<u8>>>);

const KEPT_SEGMENTS: usize = 64;

impl BufferPool {
    pub(super) fn take(&self) -> Vec<u8> {
        lock(&self.0).pop().unwrap_or_default()
    }

    pub(super) fn give(&self, mut memory: Vec<u8>) {
        memory.clear();
        let mut kept = lock(&self.0);
        // A buffer that one large member made long isn't kept.
        if kept.len() < KEPT_SEGMENTS && memory.capacity() <= 2 * SEGMENT_BYTES {
            kept.push(memory);
        }
    }
}

/// Offset of a segment that has none yet.
const NOWHERE: u64 = u64::MAX;

/// A part of the archive that is written in one call.
pub(super) struct Segment {
    offset: AtomicU64,
    /// Headers, and the content that has arrived; zeros elsewhere.
    bytes: Mutex<Vec<u8>>,
    /// Refcount: one for each open reservation, and one for whoever assigns the offset, until then.
    refcount: AtomicUsize,
}

pub(super) enum SegmentContent<'a> {
    /// This many bytes, which arrive later.
    Later(u64),
    /// All of it.
    Here(&'a [u8]),
}

impl SegmentContent<'_> {
    /// Returns the bytes it takes in an archive, in whole blocks.
    pub(super) fn stored_bytes(&self) -> u64 {
        in_blocks(match self {
            Self::Later(bytes) => *bytes,
            Self::Here(content) => content.len() as u64,
        })
    }
}

/// Space reserved for a member's content. It must be released.
pub(super) enum Reservation {
    /// In a segment, at this position.
    Within(Arc<Segment>, usize),
    /// Between segments, at this offset in the archive.
    Between(u64),
}

impl Segment {
    /// Creates an unplaced segment in a recycled buffer. The caller holds a reference until the
    /// offset is assigned.
    pub(super) fn new(memory: Vec<u8>) -> Arc<Self> {
        let (offset, refcount) = (AtomicU64::new(NOWHERE), AtomicUsize::new(1));
        Arc::new(Self { offset, bytes: Mutex::new(memory), refcount })
    }

    pub(super) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.bytes)
    }

    pub(super) fn set_offset(&self, offset: u64) {
        // Relaxed: the refcount orders it (`drop_ref`).
        self.offset.store(offset, Ordering::Relaxed);
    }

    pub(super) fn offset(&self) -> Option<u64> {
        Some(self.offset.load(Ordering::Relaxed)).filter(|offset| *offset != NOWHERE)
    }

    /// Adds a member's headers, followed by its content or by `stored` bytes reserved for
    /// it. Returns the reservation, if any is needed, and the segment's new length.
    pub(super) fn add(
        self: &Arc<Self>,
        headers: &[u8],
        content: &SegmentContent<'_>,
        stored: usize,
    ) -> (Option<Reservation>, usize) {
        let mut bytes = self.bytes();
        bytes.extend_from_slice(headers);
        let (begins, end) = (bytes.len(), bytes.len() + stored);
        if let SegmentContent::Here(content) = content {
            bytes.extend_from_slice(content);
        }
        bytes.resize(end, 0);
        if stored == 0 || matches!(content, SegmentContent::Here(_)) {
            return (None, end);
        }
        // Relaxed: the caller's own reference keeps the count from falling to 0.
        self.refcount.fetch_add(1, Ordering::Relaxed);
        (Some(Reservation::Within(Arc::clone(self), begins)), end)
    }

    /// True if no reservation is open. Only reliable while none is being made.
    pub(super) fn is_whole(&self) -> bool {
        self.refcount.load(Ordering::Acquire) == 1
    }

    /// Drops a reference. The last one gets the bytes and their offset.
    pub(super) fn drop_ref(&self) -> Option<(u64, Vec<u8>)> {
        // Also orders `offset`, which is stored before its reference is dropped.
        if self.refcount.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        let bytes = std::mem::take(&mut *self.bytes());
        self.offset().map(|offset| (offset, bytes))
    }
}
