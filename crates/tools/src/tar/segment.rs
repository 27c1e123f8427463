//! Parts of an archive that is being written: each in memory until all its content is there, and then written in one call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::format::in_blocks;

/// How long a segment may become: large enough that writing it is worth a call, small enough that it stays in the second-level cache
/// until then.
pub(super) const SEGMENT_BYTES: usize = 128 << 10;

/// Memory for segments, used again and again.
#[derive(Default)]
pub(super) struct Memory(Mutex<Vec<Vec<u8>>>);

/// How much memory is kept for later, in segments.
const KEPT_SEGMENTS: usize = 64;

impl Memory {
    /// Gives memory, which is empty.
    pub(super) fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Takes memory back.
    pub(super) fn give(&self, mut memory: Vec<u8>) {
        memory.clear();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_SEGMENTS && memory.capacity() <= 2 * SEGMENT_BYTES {
            kept.push(memory);
        }
    }
}

/// The offset of a segment that has no place yet.
const NOWHERE: u64 = u64::MAX;

/// A part of the archive that is written in one call.
pub(super) struct Segment {
    /// Where in the archive it begins.
    offset: AtomicU64,
    /// Its headers, and content as far as it has come, with zeros where it has not.
    bytes: Mutex<Vec<u8>>,
    /// Who holds it: rooms in it, and who decides on its place until that is fixed.
    holders: AtomicUsize,
}

/// The content of a member that is added.
pub(super) enum Content<'a> {
    /// It comes later: so many bytes.
    Later(u64),
    /// This is all of it.
    Here(&'a [u8]),
}

impl Content<'_> {
    /// How many bytes it takes in an archive: whole blocks.
    pub(super) fn stored_bytes(&self) -> u64 {
        in_blocks(match self {
            Self::Later(bytes) => *bytes,
            Self::Here(content) => content.len() as u64,
        })
    }
}

/// Room for the content of a member. It has to be given back.
pub(super) enum Room {
    /// In a segment, from a position.
    Within(Arc<Segment>, usize),
    /// At an offset of the archive, between segments.
    Between(u64),
}

impl Segment {
    /// Begins an empty one without a place, held by who decides on that, in memory that may have been used before.
    pub(super) fn new(memory: Vec<u8>) -> Arc<Self> {
        let (offset, holders) = (AtomicU64::new(NOWHERE), AtomicUsize::new(1));
        Arc::new(Self { offset, bytes: Mutex::new(memory), holders })
    }

    /// Returns its bytes.
    pub(super) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it its place.
    pub(super) fn place(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// Returns where in the archive it begins, if that is fixed.
    pub(super) fn offset(&self) -> Option<u64> {
        Some(self.offset.load(Ordering::Relaxed)).filter(|offset| *offset != NOWHERE)
    }

    /// Adds the headers of a member, and behind them its content or room for that: `stored` bytes. Returns the room, unless none is
    /// needed, and how long the segment is now.
    pub(super) fn add(
        self: &Arc<Self>,
        headers: &[u8],
        content: &Content<'_>,
        stored: usize,
    ) -> (Option<Room>, usize) {
        let mut bytes = self.bytes();
        bytes.extend_from_slice(headers);
        let (begins, end) = (bytes.len(), bytes.len() + stored);
        if let Content::Here(content) = content {
            bytes.extend_from_slice(content);
        }
        bytes.resize(end, 0);
        if stored == 0 || matches!(content, Content::Here(_)) {
            return (None, end);
        }
        self.holders.fetch_add(1, Ordering::Relaxed);
        (Some(Room::Within(Arc::clone(self), begins)), end)
    }

    /// Tells whether nobody has room in it, where nobody is given any meanwhile.
    pub(super) fn is_whole(&self) -> bool {
        self.holders.load(Ordering::Acquire) == 1
    }

    /// Gives up a hold. The last to do so gets the bytes and where they go.
    pub(super) fn let_go(&self) -> Option<(u64, Vec<u8>)> {
        if self.holders.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        let bytes = std::mem::take(&mut *self.bytes());
        self.offset().map(|offset| (offset, bytes))
    }
}
