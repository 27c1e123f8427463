//! The end of an archive that supports positioned writes: all workers reserve space for members
//! there, in the right order (`order.rs`).
//!
//! A member's position in the order is fixed when it is added, under one lock that is held while
//! its headers are copied. Its content comes later, from any worker. A segment with an offset and
//! all its content is written in one call. Content too large for a segment is reserved
//! between two of them and written there directly.
//!
//! Invariant: each segment is written once, when no reservation in it is open any more
//! (test: `members_are_where_their_headers_are`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{Gauge, lock};

use super::order::{ArchiveOrder, BUFFERED_BYTES_MAX};
use super::output::ArchiveOutput;
use super::segment::{Reservation, Segment};

/// The end of an archive; `L` is a deferred entry.
pub(super) struct Allocator<L> {
    output: ArchiveOutput,
    order: Mutex<ArchiveOrder<L>>,
    buffered: Gauge,
    written: AtomicUsize,
}

impl<L> Allocator<L> {
    pub(super) fn new(output: ArchiveOutput) -> Self {
        let order = ArchiveOrder::new(Arc::clone(&output.memory), BUFFERED_BYTES_MAX);
        let buffered = Gauge::new(BUFFERED_BYTES_MAX as u64 / 2);
        Self { output, order: Mutex::new(order), buffered, written: AtomicUsize::new(0) }
    }

    /// True if writing has failed; then nothing more needs to be added.
    pub(super) fn is_broken(&self) -> bool {
        self.output.is_broken()
    }

    /// Applies a change to the order, and drops the references to segments that it allocated. Also
    /// returns the deferred entries that became due, which any change can cause.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut ArchiveOrder<L>) -> R) -> (R, Vec<L>) {
        let mut order = lock(&self.order);
        let result = change(&mut order);
        let (allocated, due) = (order.take_allocated(), order.take_due());
        self.buffered.set(order.buffered_bytes as u64);
        // Dropping the last reference writes the segment, during which others may change the order.
        drop(order);
        allocated.into_iter().for_each(|segment| self.drop_ref(&segment));
        (result, due)
    }

    /// True if members found in a directory are appended to the archive now.
    pub(super) fn is_last(&self, directory: usize) -> bool {
        lock(&self.order).is_last(directory)
    }

    /// Bytes in the buffer. The gauge is over its limit when half of the buffer is used; the other
    /// half is for members in flight.
    pub(super) fn buffered(&self) -> Gauge {
        self.buffered.clone()
    }

    /// Writes content to its reservation, `position` bytes into it. Bytes that are never written
    /// are zeros.
    pub(super) fn put(&self, reservation: &Reservation, position: u64, content: &[u8]) {
        match reservation {
            Reservation::Within(segment, begins) => {
                let begins = begins + position as usize;
                segment.bytes()[begins..begins + content.len()].copy_from_slice(content);
            }
            Reservation::Between(offset) => self.output.write(offset + position, content),
        }
    }

    /// Drops a reservation whose content is complete, or will not come.
    pub(super) fn release(&self, reservation: Reservation) {
        if let Reservation::Within(segment, _) = reservation {
            self.drop_ref(&segment);
        }
    }

    /// Writes the rest once all directories are complete and all reservations released; returns the
    /// archive's length, the number of deferrals, and the output.
    pub(super) fn finish(self) -> (u64, usize, ArchiveOutput) {
        let ((end, deferrals), _) = self.change(|order| (order.finish(), order.deferrals));
        (end, deferrals, self.output)
    }

    /// Drops a reference to a segment; the last one writes it.
    fn drop_ref(&self, segment: &Segment) {
        if let Some((offset, bytes)) = segment.drop_ref() {
            self.output.submit_bounded(self.written.fetch_add(1, Ordering::Relaxed), offset, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;
    use crate::format::in_blocks;
    use crate::options::{ArchivePath, Options};
    use crate::order::ROOT;
    use crate::segment::{SEGMENT_BYTES, SegmentContent};

    #[test]
    fn members_are_where_their_headers_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        let archive = ArchivePath::File(CString::new(path.to_str().unwrap()).unwrap());
        let allocator =
            Allocator::<()>::new(ArchiveOutput::create(&Options { archive, ..Options::default() }).unwrap());
        let sizes = [
            0,
            1,
            512,
            513,
            100_000,
            200_000,
            SEGMENT_BYTES,
            SEGMENT_BYTES + 1,
            3,
            20 * SEGMENT_BYTES,
            0,
            70_000,
        ];
        let members: Vec<_> = sizes.iter().cycle().take(60).zip(1_u8..).collect();
        let (directory, _) = allocator.change(|order| order.begin(ROOT, 0, Vec::new()));
        // Four workers add members, write the content in two halves, and release the
        // reservations late and in another order.
        std::thread::scope(|scope| {
            for share in members.chunks(15) {
                let allocator = &allocator;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for (size, number) in share {
                        let content = SegmentContent::Later(**size as u64);
                        let add = |order: &mut ArchiveOrder<()>| {
                            order.add(directory, &[*number; 512], &content, true, || ())
                        };
                        let reservation = allocator.change(add).0.unwrap();
                        assert_eq!(reservation.is_some(), **size > 0);
                        held.extend(reservation.map(|reservation| (reservation, **size, *number)));
                    }
                    for (reservation, size, number) in held.into_iter().rev() {
                        let content = vec![number; size];
                        let (first, second) = content.split_at(size / 2);
                        allocator.put(&reservation, first.len() as u64, second);
                        allocator.put(&reservation, 0, first);
                        allocator.release(reservation);
                    }
                });
            }
        });
        assert!(allocator.change(|order| order.end(directory)).1.is_empty());
        let (end, _, output) = allocator.finish();
        output.finish(end, &[0; 512]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, end + 512);
        bytes.truncate(end as usize);
        let (mut at, mut met) = (0, vec![false; members.len() + 1]);
        while at < bytes.len() {
            let number = bytes[at];
            let size = *members[usize::from(number) - 1].0;
            let after = at + 512 + in_blocks(size as u64) as usize;
            assert!(bytes[at..at + 512 + size].iter().all(|byte| *byte == number), "member {number} at {at}");
            assert!(bytes[at + 512 + size..after].iter().all(|byte| *byte == 0));
            assert!(
                !std::mem::replace(&mut met[usize::from(number)], true),
                "member {number} is there twice"
            );
            at = after;
        }
        assert_eq!(met.iter().filter(|met| **met).count(), members.len());
    }
}
