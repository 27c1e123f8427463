//! Member order for the one-pass writer: many workers find members at once, and the archive lists
//! them as a single top-down walk would.
//!
//! A directory's contents must follow its headers with nothing else in between: a tar that extracts
//! the archive sets a directory's time and mode when it meets the first member outside it.
//!
//! So there is a *path* from the root of the tree down to the directory being written, its *tip*.
//! Members found in the tip go to the end of the archive at once; members found elsewhere are
//! buffered with their directory. A completed directory hands its buffer to its parent; if the
//! parent is the tip, the buffer is written.
//!
//! A small directory is therefore complete before it is written. Only when much is buffered does
//! the path descend, to the directory the walk is in: the first incomplete one. So little is
//! buffered as long as the walk keeps to its order.
//!
//! ```text
//!   top ── a ── b, the tip ──────── end of the archive
//!          │    └─ found in b: written
//!          ├─ found in a: buffered until b is complete
//!          └─ c ── d, e: buffered until b is complete; then c is on the path
//! ```
//!
//! If too much is buffered, or a member must not be buffered because it is too large, it is
//! deferred: it is retried when its directory is the tip. A member with several names must not be
//! buffered either: its first name in the archive carries the content, so the position of that name
//! must be known when the next one is found.
//!
//! Invariants: a directory precedes its contents, and nothing else follows it until it is
//! complete; each added member is in the archive once, and each deferred one is retried once;
//! members that must not be buffered are in the order in which they were added (tests:
//! `a_walk_by_many`, `who_must_not_wait_comes_in_the_order_of_its_adding`).
//!
//! Termination: a deferred member is retried when its directory is the tip. That happens: while
//! anything is deferred, the path descends as far as it can, the member's directory is incomplete,
//! and the directories below it complete without anything from elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::segment::{BufferPool, Reservation, SEGMENT_BYTES, Segment, SegmentContent};

/// Maximum bytes buffered before members are deferred.
pub(super) const BUFFERED_BYTES_MAX: usize = 64 << 20;

/// Bytes buffered before the path descends: few enough to still be in the L2 cache when they
/// are written.
const DESCEND_BYTES: usize = 1 << 20;

/// Maximum content buffered for one member, in bytes.
pub(super) const BUFFERED_MEMBER_BYTES_MAX: usize = 1 << 20;

/// Content longer than this, in bytes, is written from the buffer it was read into, not with its
/// neighbours: one copy less is worth one call more.
pub(super) const INLINE_BYTES_MAX: usize = 64 << 10;

/// Number of the root; the operands' parent directories are its children.
pub(super) const ROOT: usize = 0;

/// An incomplete directory and its deferred members.
struct Branch<L> {
    parent: usize,
    /// Key that orders it among its siblings, as the walk meets them.
    key: u64,
    /// Incomplete subdirectories that are not on the path, as `key` and number.
    children: BTreeSet<(u64, usize)>,
    headers: Vec<u8>,
    /// True until its headers are added.
    is_new: bool,
    on_path: bool,
    /// True if it is complete and only has to follow an operand before it.
    is_complete: bool,
    buffered: Vec<Arc<Segment>>,
    /// Bytes in the last buffered segment; 0 if nothing may be added to it.
    open_bytes: usize,
    bytes: usize,
    deferred: Vec<L>,
}

impl<L> Default for Branch<L> {
    fn default() -> Self {
        Self {
            parent: ROOT,
            key: 0,
            children: BTreeSet::new(),
            headers: Vec::new(),
            is_new: false,
            on_path: false,
            is_complete: false,
            buffered: Vec::new(),
            open_bytes: 0,
            bytes: 0,
            deferred: Vec::new(),
        }
    }
}

/// Content and its stored length, in bytes.
type SizedContent<'a> = (&'a SegmentContent<'a>, usize);

/// Content of a member that has only headers.
const NOTHING: SizedContent<'_> = (&SegmentContent::Later(0), 0);

/// The member was deferred and will be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deferred;

/// The allocated part of the archive and the buffered rest; `L` is a deferred entry.
pub(super) struct ArchiveOrder<L> {
    branches: Vec<Branch<L>>,
    /// Numbers of completed branches, for reuse.
    unused: Vec<usize>,
    /// Number of the directory at the end of the path.
    tip: usize,
    /// Segment at the end of the archive, still open.
    last: Arc<Segment>,
    last_bytes: usize,
    last_offset: u64,
    pub(super) buffered_bytes: usize,
    deferred_count: usize,
    pub(super) deferrals: usize,
    /// Segments with a final offset. Whoever made the change drops a reference to each.
    allocated: Vec<Arc<Segment>>,
    due: Vec<L>,
    buffered_bytes_max: usize,
    memory: Arc<BufferPool>,
}

impl<L> ArchiveOrder<L> {
    pub(super) fn new(memory: Arc<BufferPool>, buffered_bytes_max: usize) -> Self {
        let last = Segment::new(memory.take());
        last.set_offset(0);
        Self {
            branches: vec![Branch { on_path: true, ..Branch::default() }],
            unused: Vec::new(),
            tip: ROOT,
            last,
            last_bytes: 0,
            last_offset: 0,
            buffered_bytes: 0,
            deferred_count: 0,
            deferrals: 0,
            allocated: Vec::new(),
            due: Vec::new(),
            buffered_bytes_max,
            memory,
        }
    }

    /// Begins a directory found in `above`, or the parent directory of an operand, which has no
    /// headers. The walk meets siblings in the order of `key`.
    pub(super) fn begin(&mut self, parent: usize, key: u64, headers: Vec<u8>) -> usize {
        let branch = Branch { parent, key, is_new: !headers.is_empty(), headers, ..Branch::default() };
        let number = match self.unused.pop() {
            Some(number) => {
                self.branches[number] = branch;
                number
            }
            None => {
                self.branches.push(branch);
                self.branches.len() - 1
            }
        };
        self.branches[parent].children.insert((key, number));
        self.descend();
        number
    }

    /// Adds a member found in a directory: its headers, and its content or a reservation for it. A
    /// member without `may_buffer` is never buffered: it goes to the end of the archive, or is
    /// deferred.
    pub(super) fn add(
        &mut self,
        directory: usize,
        headers: &[u8],
        content: &SegmentContent<'_>,
        may_buffer: bool,
        deferred: impl FnOnce() -> L,
    ) -> Result<Option<Reservation>, Deferred> {
        let stored = content.stored_bytes();
        let within = usize::try_from(stored).ok();
        if self.defers(directory, stored, may_buffer) {
            self.deferrals += 1;
            self.deferred_count += 1;
            self.branches[directory].deferred.push(deferred());
            self.descend();
            return Err(Deferred);
        }
        if let (Some(stored), true) = (within, directory != self.tip) {
            let reservation = self.add_buffered(directory, headers, (content, stored));
            self.descend();
            return Ok(reservation);
        }
        let is_here = matches!(content, SegmentContent::Here(_));
        Ok(match within.filter(|stored| is_here || *stored <= INLINE_BYTES_MAX) {
            Some(stored) => self.add_last(headers, (content, stored)),
            None => {
                self.add_last(headers, NOTHING);
                let offset = self.last_offset + self.last_bytes as u64;
                self.end_last(stored);
                Some(Reservation::Between(offset))
            }
        })
    }

    /// Completes a directory: everything found in it was added, and its subdirectories
    /// are complete.
    pub(super) fn end(&mut self, number: usize) {
        if number != self.tip {
            self.add_headers(number);
        }
        let Branch { parent, key, on_path, .. } = self.branches[number];
        if on_path {
            // It is the tip, because everything below it is complete.
            self.leave_tip();
            return self.descend();
        }
        if parent == ROOT {
            self.branches[number].is_complete = true;
            return;
        }
        let Branch { buffered, bytes, .. } = std::mem::take(&mut self.branches[number]);
        self.unused.push(number);
        self.branches[parent].children.remove(&(key, number));
        if !buffered.is_empty() {
            self.add_headers(parent);
            let over = &mut self.branches[parent];
            over.buffered.extend(buffered);
            (over.bytes, over.open_bytes) = (over.bytes + bytes, 0);
        }
        if parent == self.tip {
            self.allocate_buffered(parent);
        }
    }

    pub(super) fn take_due(&mut self) -> Vec<L> {
        std::mem::take(&mut self.due)
    }

    /// True if members found in a directory are appended to the archive now.
    pub(super) fn is_last(&self, directory: usize) -> bool {
        directory == self.tip
    }

    fn defers(&self, directory: usize, stored: u64, may_buffer: bool) -> bool {
        let waits = |stored| {
            stored == 0
                || (stored <= BUFFERED_MEMBER_BYTES_MAX
                    && self.buffered_bytes + stored <= self.buffered_bytes_max)
        };
        directory != self.tip && !(may_buffer && usize::try_from(stored).is_ok_and(waits))
    }

    /// Removes and returns the segments whose offset is final.
    pub(super) fn take_allocated(&mut self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut self.allocated)
    }

    /// Ends the archive once all directories are complete; returns its length. The last segment is
    /// then among the allocated ones.
    pub(super) fn finish(&mut self) -> u64 {
        self.end_last(0);
        self.last_offset
    }

    /// Moves the tip down to the directories that the walk meets first, while members are deferred
    /// or more is buffered than a small directory holds. The deferred members of the last tip are
    /// due then.
    fn descend(&mut self) {
        // Operands are written in the order in which they were named, small or not.
        while self.tip == ROOT || self.deferred_count > 0 || self.buffered_bytes > DESCEND_BYTES {
            let Some((_, number)) = self.branches[self.tip].children.pop_first() else {
                let deferred = std::mem::take(&mut self.branches[self.tip].deferred);
                self.deferred_count -= deferred.len();
                return self.due.extend(deferred);
            };
            self.branches[number].on_path = true;
            self.tip = number;
            self.allocate_buffered(number);
            if self.branches[number].is_complete {
                self.leave_tip();
            }
        }
    }

    /// Completes the tip and makes its parent the tip.
    fn leave_tip(&mut self) {
        let parent = std::mem::take(&mut self.branches[self.tip]).parent;
        self.unused.push(self.tip);
        self.tip = parent;
        self.allocate_buffered(parent);
    }

    /// Buffers a directory's headers, unless they were added before.
    fn add_headers(&mut self, number: usize) {
        if std::mem::take(&mut self.branches[number].is_new) {
            let headers = self.branches[number].headers.clone();
            self.add_buffered(number, &headers, NOTHING);
        }
    }

    /// Buffers a member with its directory.
    fn add_buffered(
        &mut self,
        number: usize,
        headers: &[u8],
        (content, stored): SizedContent<'_>,
    ) -> Option<Reservation> {
        self.add_headers(number);
        let branch = &mut self.branches[number];
        let added = headers.len() + stored;
        let fits = branch.open_bytes > 0 && branch.open_bytes + added <= SEGMENT_BYTES;
        let segment = match branch.buffered.last() {
            Some(segment) if fits => Arc::clone(segment),
            _ => {
                let segment = Segment::new(self.memory.take());
                branch.buffered.push(Arc::clone(&segment));
                segment
            }
        };
        let (reservation, length) = segment.add(headers, content, stored);
        branch.open_bytes = length;
        branch.bytes += added;
        self.buffered_bytes += added;
        reservation
    }

    fn add_last(&mut self, headers: &[u8], (content, stored): SizedContent<'_>) -> Option<Reservation> {
        if self.last_bytes > 0 && self.last_bytes + headers.len() + stored > SEGMENT_BYTES {
            self.end_last(0);
        }
        let (reservation, length) = self.last.add(headers, content, stored);
        self.last_bytes = length;
        reservation
    }

    /// Ends the last segment and begins another, `gap` bytes behind it.
    fn end_last(&mut self, gap: u64) {
        self.last_offset += self.last_bytes as u64 + gap;
        if self.last_bytes == 0 {
            return self.last.set_offset(self.last_offset);
        }
        let next = Segment::new(self.memory.take());
        next.set_offset(self.last_offset);
        self.allocated.push(std::mem::replace(&mut self.last, next));
        self.last_bytes = 0;
    }

    /// Allocates a directory's buffer at the end of the archive.
    fn allocate_buffered(&mut self, number: usize) {
        if std::mem::take(&mut self.branches[number].is_new) {
            let headers = self.branches[number].headers.clone();
            self.add_last(&headers, NOTHING);
        }
        let branch = &mut self.branches[number];
        self.buffered_bytes -= std::mem::take(&mut branch.bytes);
        branch.open_bytes = 0;
        for segment in std::mem::take(&mut branch.buffered) {
            self.allocate(segment);
        }
    }

    /// Allocates a segment at the end of the archive. A short one without open reservations is
    /// merged with its neighbours.
    fn allocate(&mut self, segment: Arc<Segment>) {
        let length = segment.bytes().len();
        if length <= SEGMENT_BYTES / 4 && segment.is_whole() {
            let bytes = std::mem::take(&mut *segment.bytes());
            self.add_last(&bytes, NOTHING);
            segment.set_offset(self.last_offset);
            return self.memory.give(bytes);
        }
        self.end_last(0);
        segment.set_offset(self.last_offset);
        self.allocated.push(segment);
        self.last_offset += length as u64;
        self.last.set_offset(self.last_offset);
    }
}

#[cfg(test)]
mod tests;
