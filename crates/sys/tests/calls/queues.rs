//! Ownership in the asynchronous interfaces: buffers and descriptors in flight.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use haul_sys::{
    AioSubmission, Buffer, CacheMode, Fd, Gather, KernelAio, Open, PosixAio, Ring, RingReply, RingRequest,
    TransferRequest, Transferred, open,
};
use haul_testkit::{needs, or_skip, random, require, rustix};

use super::Ground;

const BYTES: usize = 10_000;

fn reading(file: &Arc<Fd>, offset: u64) -> TransferRequest {
    let file = Arc::clone(file);
    TransferRequest::Read { file, offset, buffer: Buffer::new(4096), length: 4096, cache: CacheMode::Keep }
}

/// Checks a read of the block at `offset`.
fn check(content: &[u8], offset: u64, transferred: Transferred) {
    let Transferred::Read { buffer, result } = transferred else { panic!("{transferred:?}") };
    let rest = &content[(offset as usize).min(content.len())..];
    let length = result.unwrap();
    assert_eq!(length, rest.len().min(4096), "at {offset}");
    assert!(buffer.bytes()[..length] == rest[..length], "at {offset}");
}

fn ground() -> (Ground, Vec<u8>, Arc<Fd>) {
    let ground = Ground::new();
    let content = random::bytes(3, BYTES as u64);
    let file = Arc::new(ground.source("file", &content));
    (ground, content, file)
}

/// True if nobody has the pipe's reading end open.
fn is_read_by_nobody(writer: &std::io::PipeWriter) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ends = [PollFd::new(writer, PollFlags::OUT)];
    poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    ends[0].revents().contains(PollFlags::ERR)
}

#[test]
fn a_ring_returns_every_buffer_with_its_own_bytes() {
    let Some(mut ring) = or_skip!(Ring::new(8), "the kernel refuses the ring") else { return };
    let (_ground, content, file) = ground();
    for token in 0..8 {
        ring.push(token, RingRequest::Transfer(reading(&file, token * 2048))).unwrap();
    }
    // Full: the ninth is handed back, and owns what it owned.
    let refused = ring.push(9, RingRequest::Transfer(reading(&file, 0))).unwrap_err();
    let RingRequest::Transfer(TransferRequest::Read { ref buffer, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(buffer.capacity(), 4096);
    drop(refused);
    let mut seen = Vec::new();
    while ring.in_flight() > 0 {
        ring.reap(1, |token, reply| {
            let RingReply::Transferred(transferred) = reply else { panic!("{reply:?}") };
            check(&content, token * 2048, transferred);
            seen.push(token);
        })
        .unwrap();
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..8).collect::<Vec<_>>());
    // The requests are gone, and with them their references.
    assert_eq!(Arc::strong_count(&file), 1);
}

#[test]
fn a_descriptor_stays_open_while_a_ring_reads_it() {
    let Some(mut ring) = or_skip!(Ring::new(2), "the kernel refuses the ring") else { return };
    let (reader, writer) = std::io::pipe().unwrap();
    let path = std::ffi::CString::new(reader.as_raw_fd().to_string()).unwrap();
    let proc = haul_sys::open_path(c"/proc/self/fd", Open::DIRECTORY).unwrap();
    let file = Arc::new(open(&proc, &path, Open::READ.following().blocking()).unwrap());
    drop(reader);
    ring.push(1, RingRequest::Transfer(reading(&file, u64::MAX))).unwrap();
    ring.flush().unwrap();
    drop(file);
    // Only the request holds the reading end now.
    assert!(!is_read_by_nobody(&writer));
    rustix::io::write(&writer, b"late").unwrap();
    let mut bytes = Vec::new();
    ring.reap(1, |_, reply| {
        let RingReply::Transferred(Transferred::Read { buffer, result }) = reply else { panic!("{reply:?}") };
        bytes = buffer.bytes()[..result.unwrap()].to_vec();
    })
    .unwrap();
    assert_eq!(bytes, b"late");
}

#[test]
fn kernel_aio_returns_every_buffer_with_its_own_bytes() {
    require!(needs::kernel_aio());
    for gather in [Gather::One, Gather::Wanted] {
        let (_ground, content, file) = ground();
        let mut queue = KernelAio::new(4, gather).unwrap();
        for token in 0..4 {
            queue.push(token, reading(&file, token * 3000)).unwrap();
        }
        assert_eq!((queue.in_flight(), queue.depth()), (4, 4));
        assert!(queue.push(4, reading(&file, 0)).is_err());
        queue.flush().unwrap();
        let mut count = 0;
        while queue.in_flight() > 0 {
            queue
                .reap(1, |token, transferred| {
                    check(&content, token * 3000, transferred);
                    count += 1;
                })
                .unwrap();
        }
        assert_eq!((count, Arc::strong_count(&file)), (4, 1));
    }
}

#[test]
fn posix_aio_returns_every_buffer_with_its_own_bytes() {
    require!(needs::posix_aio());
    for passing in [AioSubmission::Each, AioSubmission::Lists] {
        let (_ground, content, file) = ground();
        let mut queue = PosixAio::new(4, passing).unwrap();
        for token in 0..4 {
            queue.push(token, reading(&file, token * 3000)).unwrap();
        }
        assert_eq!((queue.in_flight(), queue.depth()), (4, 4));
        assert!(queue.push(4, reading(&file, 0)).is_err());
        queue.flush();
        let mut count = 0;
        queue.reap(4, |token, transferred| {
            check(&content, token * 3000, transferred);
            count += 1;
        });
        assert_eq!((count, queue.in_flight(), queue.rescued()), (4, 0, 0));
        drop(queue);
        assert_eq!(Arc::strong_count(&file), 1);
    }
}

#[test]
fn a_queue_dropped_with_requests_in_flight_frees_their_files() {
    require!(needs::posix_aio());
    let (_ground, _, file) = ground();
    let mut queue = PosixAio::new(4, AioSubmission::Each).unwrap();
    for token in 0..4 {
        queue.push(token, reading(&file, 0)).unwrap();
    }
    drop(queue);
    assert_eq!(Arc::strong_count(&file), 1);
}
