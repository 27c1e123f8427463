//! Tests that need the internals of a ring: unlinked chains, torn pairs, reused descriptor numbers,
//! and kernels without some flag.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;

use haul_testkit::or_skip;
use tempfile::TempDir;

use super::enter::Enter;
use super::*;
use crate::data::{Advice, CacheMode, advise};
use crate::open::{Open, open_path};
use crate::transfer::{TransferRequest, Transferred};

/// Length of the test file. It is not a multiple of the block size, and its last block is not a
/// multiple of the page size.
const LENGTH: usize = 200_000;
const BLOCK: usize = 64 << 10;

/// Contents of a buffer before anything is read into it.
const FILLER: u8 = 0xaa;

/// A directory with a file to read and a file to write.
struct RingFixture {
    place: TempDir,
    source: Arc<Fd>,
    target: Arc<Fd>,
}

impl RingFixture {
    fn new(length: usize) -> Self {
        let place = TempDir::new().unwrap();
        let mut file = File::create(place.path().join("source")).unwrap();
        file.write_all(&pattern(0, length)).unwrap();
        // Dirty pages can't be dropped from the page cache.
        file.sync_all().unwrap();
        File::create(place.path().join("target")).unwrap();
        let (source, target) = (open(&place, "source", Open::READ), open(&place, "target", Open::WRITE));
        Self { place, source: Arc::new(source), target: Arc::new(target) }
    }

    fn written(&self) -> Vec<u8> {
        std::fs::read(self.place.path().join("target")).unwrap()
    }

    fn pair(&self, offset: usize, length: usize) -> RingRequest {
        let mut buffer = Buffer::new(BLOCK);
        buffer.bytes_mut().fill(FILLER);
        let (source, target) = (Arc::clone(&self.source), Arc::clone(&self.target));
        let (offset, cache) = (offset as u64, CacheMode::Keep);
        RingRequest::Transfer(TransferRequest::Pair { source, target, offset, buffer, length, cache })
    }
}

fn open(place: &TempDir, name: &str, how: Open) -> Fd {
    let path = place.path().join(name);
    open_path(&CString::new(path.as_os_str().as_encoded_bytes()).unwrap(), how).unwrap()
}

/// Returns bytes that never equal the filler.
fn pattern(offset: usize, length: usize) -> Vec<u8> {
    (offset..offset + length).map(|at| u8::try_from(at * 7 % 151).unwrap()).collect()
}

/// Creates a ring with pairs, or records a skip.
fn ring(depth: usize) -> Option<Ring> {
    or_skip!(Ring::with_pairs(depth), "the kernel refuses a ring")
}

fn answers(ring: &mut Ring, count: usize) -> Vec<(u64, RingReply)> {
    let mut replies = Vec::new();
    ring.reap(count, |token, reply| replies.push((token, reply))).unwrap();
    replies
}

/// Returns the bytes read and written by the only pair in flight.
fn paired(ring: &mut Ring) -> (usize, usize) {
    match answers(ring, 1).pop() {
        Some((_, RingReply::Transferred(Transferred::Paired { read, written, .. }))) => {
            (read.unwrap(), written.unwrap())
        }
        other => panic!("{other:?}"),
    }
}

/// Copies an uncached file with all its pairs in flight at once. Returns how many blocks came out
/// wrong although every pair reported success.
fn copy_cold(ring: &mut Ring, round: usize) -> usize {
    let ground = RingFixture::new(LENGTH);
    advise(&*ground.source, Advice::DontNeed, 0).unwrap();
    let mut offsets: Vec<_> = (0..LENGTH).step_by(BLOCK).collect();
    let turn = round % offsets.len();
    offsets.rotate_left(turn);
    for offset in &offsets {
        ring.push(*offset as u64, ground.pair(*offset, BLOCK.min(LENGTH - offset))).unwrap();
    }
    for (offset, reply) in answers(ring, offsets.len()) {
        let RingReply::Transferred(Transferred::Paired { read, written, .. }) = reply else {
            panic!("not a pair")
        };
        let whole = BLOCK.min(LENGTH - usize::try_from(offset).unwrap());
        assert_eq!((read.unwrap(), written.unwrap()), (whole, whole));
    }
    let content = ground.written();
    assert_eq!(content.len(), LENGTH);
    let wrong = |offset: &&usize| {
        let end = LENGTH.min(**offset + BLOCK);
        content[**offset..end] != pattern(**offset, end - **offset)
    };
    offsets.iter().filter(wrong).count()
}

/// Makes the same copy with and without the link: only the link keeps a write behind its read, and
/// without it the data is corrupted silently.
#[test]
fn a_write_cannot_overtake_its_read_and_without_the_link_it_does() {
    let (Some(mut linked), Some(mut unlinked)) = (ring(8), ring(8)) else { return };
    unlinked.link = squeue::Flags::empty();
    let rounds = 30;
    let wrong: usize = (0..rounds).map(|round| copy_cold(&mut linked, round)).sum();
    let torn: usize = (0..rounds).map(|round| copy_cold(&mut unlinked, round)).sum();
    assert_eq!(wrong, 0, "of {} blocks", rounds * 4);
    assert!(torn > rounds, "the test has no teeth: without the link only {torn} blocks are wrong");
    assert_eq!(linked.used().linked_pairs, 4 * rounds as u64);
}

/// A kernel that didn't break the chain would write more than was read.
#[test]
fn a_short_read_leaves_its_write_undone() {
    let Some(mut ring) = ring(4) else { return };
    for length in [1, 4096, 5000, 65_535] {
        for cold in [false, true] {
            let ground = RingFixture::new(length);
            if cold {
                advise(&*ground.source, Advice::DontNeed, 0).unwrap();
            }
            ring.push(0, ground.pair(0, BLOCK)).unwrap();
            assert_eq!(paired(&mut ring), (length, 0));
            assert_eq!(ground.written(), b"");
            ring.push(0, ground.pair(length, BLOCK)).unwrap();
            assert_eq!(paired(&mut ring), (0, 0));
            ring.push(0, ground.pair(0, length)).unwrap();
            assert_eq!(paired(&mut ring), (length, length));
            assert_eq!(ground.written(), pattern(0, length));
        }
    }
    assert!(ring.takes_pairs());
}

/// An unlinked pair with a short read behaves like a kernel that doesn't break chains.
#[test]
fn a_write_of_what_was_not_read_is_an_error_and_ends_the_pairs() {
    let Some(mut ring) = ring(4) else { return };
    ring.link = squeue::Flags::empty();
    let ground = RingFixture::new(1000);
    ring.push(0, ground.pair(0, BLOCK)).unwrap();
    let Some((_, RingReply::Transferred(Transferred::Paired { read, written, .. }))) =
        answers(&mut ring, 1).pop()
    else {
        panic!("not a pair")
    };
    assert_eq!((read.unwrap(), written.unwrap_err().errno()), (1000, Errno::IO));
    assert!(!ring.takes_pairs());
    assert!(ring.push(0, ground.pair(0, BLOCK)).is_err());
}

/// Submits some of the queued entries, like a kernel that runs out of memory half-way.
fn tear(ring: &mut Ring, entries: usize) {
    let queued = ring.queued.len();
    ring.pass(Enter::Submit(0), entries).unwrap();
    assert_eq!(ring.queued.len(), queued - entries);
}

#[test]
fn a_torn_pair_is_mended_when_its_read_is_whole() {
    let Some(mut ring) = ring(8) else { return };
    for round in 0..30 {
        let ground = RingFixture::new(LENGTH);
        advise(&*ground.source, Advice::DontNeed, 0).unwrap();
        for block in 0..3 {
            ring.push(block, ground.pair(usize::try_from(block).unwrap() * BLOCK, BLOCK)).unwrap();
        }
        tear(&mut ring, 1 + 2 * (round % 3));
        for (_, reply) in answers(&mut ring, 3) {
            let RingReply::Transferred(Transferred::Paired { read, written, .. }) = reply else {
                panic!("not a pair")
            };
            assert_eq!((read.unwrap(), written.unwrap()), (BLOCK, BLOCK));
        }
        assert!(ground.written() == pattern(0, 3 * BLOCK), "a write overtook its read");
    }
}

#[test]
fn a_torn_pair_whose_read_is_short_never_writes() {
    let Some(mut ring) = ring(8) else { return };
    let (short, whole) = (RingFixture::new(1000), RingFixture::new(BLOCK));
    ring.push(1, short.pair(0, BLOCK)).unwrap();
    tear(&mut ring, 1);
    ring.push(2, whole.pair(0, BLOCK)).unwrap();
    let mut replies = Vec::new();
    let broken = ring.reap(2, |token, reply| replies.push((token, reply))).unwrap_err();
    assert_eq!((broken.operation(), broken.errno()), (Operation::RingEnter, Errno::AGAIN));
    assert!(ring.is_broken());
    ring.reap(2, |token, reply| replies.push((token, reply))).unwrap();
    assert_eq!((replies.len(), ring.in_flight()), (2, 0));
    for (token, reply) in replies {
        let RingReply::Transferred(Transferred::Paired { read, written, .. }) = reply else {
            panic!("not a pair")
        };
        let expected = if token == 1 { (1000, 0) } else { (BLOCK, BLOCK) };
        assert_eq!((read.unwrap(), written.unwrap()), expected);
    }
    drop(ring);
    assert_eq!(short.written(), b"");
    assert!(whole.written() == pattern(0, BLOCK));
}

#[test]
fn a_ring_dropped_with_pairs_in_flight_gives_everything_back() {
    for passed in 0..=6 {
        let Some(mut ring) = ring(8) else { return };
        let ground = RingFixture::new(LENGTH);
        advise(&*ground.source, Advice::DontNeed, 0).unwrap();
        for block in 0..3 {
            ring.push(block, ground.pair(usize::try_from(block).unwrap() * BLOCK, BLOCK)).unwrap();
        }
        ring.pass(Enter::Submit(0), passed).unwrap();
        drop(ring);
        assert_eq!((Arc::strong_count(&ground.source), Arc::strong_count(&ground.target)), (1, 1));
        let content = ground.written();
        for start in (0..content.len()).step_by(BLOCK) {
            let block = &content[start..content.len().min(start + BLOCK)];
            let hole = block.iter().all(|byte| *byte == 0);
            assert!(hole || block == pattern(start, block.len()), "a write without its read");
        }
    }
}

/// Simulates kernels that refuse the newest flags, one more each time; `make` drops the flags in
/// that order.
#[test]
fn a_ring_works_without_each_flag() {
    for refused in 0..=setup::FLAGS.len() {
        let made = or_skip!(setup::make_without(16, refused), "the kernel refuses a ring");
        let Some(setup) = made else { return };
        assert!(setup.refused_flags().count() >= refused);
        let mut ring = Ring::of_pairs(setup, 8);
        ring.use_direct_descriptors().unwrap();
        assert_eq!(copy_cold(&mut ring, refused), 0);
        let ground = RingFixture::new(1000);
        ring.push(0, RingRequest::Statx { file: Arc::clone(&ground.source) }).unwrap();
        // Polling must bring the completion as well as waiting does.
        let mut size = None;
        while size.is_none() {
            ring.flush().unwrap();
            ring.reap(0, |_, reply| match reply {
                RingReply::Stated(stat) => size = Some(stat.unwrap().size),
                other => panic!("{other:?}"),
            })
            .unwrap();
        }
        assert_eq!(size, Some(1000));
    }
}

fn read(file: &Arc<Fd>, buffer: Buffer) -> RingRequest {
    let (file, length) = (Arc::clone(file), buffer.capacity());
    RingRequest::Transfer(TransferRequest::Read { file, offset: 0, length, buffer, cache: CacheMode::Keep })
}

/// Reads the first bytes of a file through the ring.
fn content(ring: &mut Ring, file: &Arc<Fd>, buffer: Buffer) -> (Vec<u8>, Buffer) {
    ring.push(0, read(file, buffer)).unwrap();
    match answers(ring, 1).pop() {
        Some((_, RingReply::Transferred(Transferred::Read { buffer, result }))) => {
            (buffer.bytes()[..result.unwrap()].to_vec(), buffer)
        }
        other => panic!("{other:?}"),
    }
}

/// A descriptor number is reused after a close, so the table must not rely on it.
#[test]
fn a_number_that_became_another_files_is_not_taken_for_the_first() {
    let Some(mut ring) = ring(4) else { return };
    ring.use_direct_descriptors().unwrap();
    let place = TempDir::new().unwrap();
    let mut buffer = Buffer::new(4096);
    let mut numbers = std::collections::HashSet::new();
    for round in 0..200_u32 {
        let name = format!("file{round}");
        std::fs::write(place.path().join(&name), &name).unwrap();
        // Closed by being dropped, without notifying the ring.
        let file = Arc::new(open(&place, &name, Open::READ));
        numbers.insert(std::os::fd::AsRawFd::as_raw_fd(&*file));
        for _ in 0..2 {
            let (bytes, back) = content(&mut ring, &file, buffer);
            assert_eq!(bytes, name.as_bytes());
            buffer = back;
        }
    }
    assert!(numbers.len() < 200, "no number was used twice");
    assert_eq!(ring.used().direct_descriptors, 400);
}

#[test]
fn a_registered_buffer_is_used_as_one_by_its_ring_only_and_may_go_before_it() {
    let (Some(mut ring), Some(mut other)) = (ring(4), self::ring(4)) else { return };
    let ground = RingFixture::new(4096);
    let mut buffers = [Buffer::new(4096), Buffer::new(4096)];
    other.register(&mut [Buffer::new(4096), Buffer::new(4096)]).unwrap();
    ring.register(&mut buffers).unwrap();
    assert_eq!(ring.register(&mut [Buffer::new(4096)]).unwrap_err().errno(), Errno::BUSY);
    let [first, second] = buffers;
    let (bytes, first) = content(&mut ring, &ground.source, first);
    assert_eq!((bytes, ring.used().registered_buffers), (pattern(0, 4096), 1));
    let (bytes, first) = content(&mut other, &ground.source, first);
    assert_eq!((bytes, other.used().registered_buffers), (pattern(0, 4096), 0));
    drop(first);
    let (bytes, _) = content(&mut ring, &ground.source, second);
    assert_eq!((bytes, ring.used().registered_buffers), (pattern(0, 4096), 2));
}

/// One call submits a whole batch and waits for it, as the documentation of `Ring::reap` promises.
#[test]
fn a_batch_enters_the_kernel_once() {
    let Some(mut ring) = ring(8) else { return };
    let ground = RingFixture::new(LENGTH);
    for round in 1..=20 {
        advise(&*ground.source, Advice::DontNeed, 0).unwrap();
        for block in 0..3 {
            ring.push(block, ground.pair(usize::try_from(block).unwrap() * BLOCK, BLOCK)).unwrap();
        }
        ring.push(3, read(&ground.source, Buffer::new(4096))).unwrap();
        let waiting = ring.in_flight();
        assert_eq!(answers(&mut ring, waiting).len(), 4);
        assert_eq!(ring.used().calls, round);
    }
}
