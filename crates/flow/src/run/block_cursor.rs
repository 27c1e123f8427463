//! Where several streams take their next block.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The blocks of a range, each taken by one stream.
pub(super) struct BlockCursor {
    next: AtomicU64,
    end: u64,
    block_bytes: u64,
}

impl BlockCursor {
    pub(super) fn new(start: u64, end: u64, block_bytes: u64) -> Self {
        Self { next: AtomicU64::new(start), end, block_bytes }
    }

    pub(super) fn take(&self) -> Option<Range<u64>> {
        // Relaxed: no two streams get the same block, which is all that is needed.
        let start = self.next.fetch_add(self.block_bytes, Ordering::Relaxed);
        (start < self.end).then(|| start..self.end.min(start.saturating_add(self.block_bytes)))
    }
}
