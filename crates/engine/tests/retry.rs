//! Tests of the retry engine with data that is not cached yet, or never will be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ground;

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ground::{Ground, forbid, pair, pattern, run, run_one, set_direct};
use haul_engine::{Call, Engine, Op, Outcome, Retry, Wait};
use haul_sys::{Advice, Buffer, CacheMode, Errno, Fd};
use haul_testkit::{mount::Mount, needs, require};

const BLOCK: usize = 64 << 10;

fn read(token: u64, file: &Arc<Fd>, offset: usize, length: usize, cache: CacheMode) -> Op {
    let (file, buffer, offset) = (Arc::clone(file), Buffer::new(length), offset as u64);
    Op { token, call: Call::Read { file, offset, buffer, length, wait: Wait::Allowed, cache } }
}

/// Creates a file that is on disk but not in the page cache.
fn cold(ground: &Ground, name: &CStr, seed: u64, length: usize) -> Arc<Fd> {
    let file = ground.file(name, seed, length);
    chill(&file);
    file
}

fn chill(file: &Fd) {
    haul_sys::synchronize(file).unwrap();
    haul_sys::advise(file, Advice::DontNeed, 0).unwrap();
}

/// Copies with pairs, continuing after short transfers.
fn copy(engine: &mut dyn Engine, source: &Arc<Fd>, target: &Arc<Fd>, length: usize, cache: CacheMode) {
    let mut offsets: Vec<usize> = (0..length).step_by(BLOCK).collect();
    while !offsets.is_empty() {
        let ops = offsets.drain(..).map(|offset| {
            let (source, target) = (Arc::clone(source), Arc::clone(target));
            let (buffer, at) = (Buffer::new(BLOCK), offset as u64);
            Op { token: at, call: Call::Pair { source, target, offset: at, buffer, length: BLOCK, cache } }
        });
        for done in run(engine, ops) {
            let Outcome::Paired { read, written, .. } = done.outcome else { panic!("not a pair") };
            let (offset, written) = (done.token as usize, written.unwrap());
            assert_eq!(read.unwrap(), written, "a file takes all that it is given");
            // A read whose data is only partly cached is short: it ends inside the block.
            if offset % BLOCK + written < BLOCK && offset + written < length {
                offsets.push(offset + written);
            }
        }
    }
}

#[test]
fn cold_files_are_waited_for_and_copied() {
    require!(needs::loop_mount("ext4"));
    let mount = Mount::image("ext4", 64 << 20).unwrap();
    let ground = Ground::at(mount.path());
    let mut engine = Retry::new(16);
    for round in 0..8 {
        let names = [format!("source{round}"), format!("target{round}")];
        let [from, to] = names.clone().map(|name| CString::new(name).unwrap());
        let (source, target) = (cold(&ground, &from, round, 200_000), ground.target(&to));
        copy(&mut engine, &source, &target, 200_000, CacheMode::Keep);
        assert!(ground.content(&names[1]) == pattern(round, 0, 200_000), "round {round}");
    }
    assert!(engine.misses() >= 8, "{} misses: the files were not cold", engine.misses());
    // The files are cached now, so reads complete at once.
    let before = (engine.misses(), engine.blocking_reads());
    let source = ground.file(c"warm", 9, 200_000);
    copy(&mut engine, &source, &ground.target(c"copy"), 200_000, CacheMode::Keep);
    assert_eq!((engine.misses(), engine.blocking_reads()), before);
}

#[test]
fn what_is_to_leave_no_trace_in_the_cache_is_copied_too() {
    require!(needs::loop_mount("ext4"));
    let mount = Mount::image("ext4", 64 << 20).unwrap();
    let ground = Ground::at(mount.path());
    let mut engine = Retry::new(4);
    let source = cold(&ground, c"source", 1, 1 << 20);
    let mut bytes = [0; 1];
    match haul_sys::try_read(&*source, 0, &mut bytes, CacheMode::Drop) {
        Err(error) if error.is(Errno::OPNOTSUPP) => {
            // The kernel doesn't know the flag. The caller gets the error.
            let Outcome::Read { result, .. } =
                run_one(&mut engine, read(0, &source, 0, BLOCK, CacheMode::Drop).call)
            else {
                panic!("not a read")
            };
            assert_eq!(result.unwrap_err().errno(), Errno::OPNOTSUPP);
        }
        outcome => {
            outcome.unwrap();
            chill(&source);
            copy(&mut engine, &source, &ground.target(c"target"), 1 << 20, CacheMode::Drop);
            assert!(ground.content("target") == pattern(1, 0, 1 << 20));
            assert!(engine.misses() > 0);
        }
    }
}

/// Simulates a file system that returns `EAGAIN` forever. The filter only affects
/// nonblocking reads.
#[test]
fn data_that_is_never_there_is_waited_for_in_the_end() {
    let worker = thread::spawn(|| {
        let ground = Ground::new();
        let source = ground.file(c"source", 1, 32 * 1000);
        let mut engine = Retry::new(64);
        forbid(libc::SYS_preadv2, libc::EAGAIN);
        let began = Instant::now();
        let done =
            run(&mut engine, (0..32).map(|n| read(n, &source, n as usize * 1000, 1000, CacheMode::Keep)));
        assert_eq!(done.len(), 32);
        for done in done {
            let Outcome::Read { buffer, result } = done.outcome else { panic!("not a read") };
            assert_eq!(result.unwrap(), Some(1000));
            assert_eq!(buffer.bytes()[..1000], pattern(1, done.token as usize * 1000, 1000));
        }
        assert_eq!(engine.blocking_reads(), 32);
        assert!(engine.misses() > 32);
        // The bound is 0.2 s, because patience is halved 6 times; the rest is margin for
        // a busy machine.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    });
    worker.join().unwrap();
}

/// Simulates a file system without `RWF_NOWAIT`, such as tmpfs: no attempts are wasted on retries.
#[test]
fn where_waiting_cannot_be_refused_the_read_waits() {
    let worker = thread::spawn(|| {
        let ground = Ground::new();
        let source = ground.file(c"source", 1, 200_000);
        let mut engine = Retry::new(8);
        forbid(libc::SYS_preadv2, libc::EOPNOTSUPP);
        copy(&mut engine, &source, &ground.target(c"target"), 200_000, CacheMode::Keep);
        assert!(ground.content("target") == pattern(1, 0, 200_000));
        assert_eq!((engine.misses(), engine.blocking_reads()), (4, 4));
    });
    worker.join().unwrap();
}

/// With `O_DIRECT`, no retry ever hits the page cache.
#[test]
fn direct_reads_are_not_tried_for_long() {
    require!(needs::loop_mount("ext4"));
    let mount = Mount::image("ext4", 64 << 20).unwrap();
    let ground = Ground::at(mount.path());
    let mut engine = Retry::new(8);
    let source = cold(&ground, c"source", 1, 200_000);
    set_direct(&source);
    let target = ground.target(c"target");
    copy(&mut engine, &source, &target, 200_000, CacheMode::Keep);
    assert!(ground.content("target") == pattern(1, 0, 200_000));
    assert!(engine.misses() <= 8, "{} misses for 4 blocks", engine.misses());
    let worker = thread::spawn(move || {
        forbid(libc::SYS_preadv2, libc::EAGAIN);
        let outcome = run_one(&mut engine, read(0, &source, 0, BLOCK, CacheMode::Keep).call);
        let Outcome::Read { buffer, result } = outcome else { panic!("not a read") };
        assert_eq!(result.unwrap(), Some(BLOCK));
        assert_eq!(buffer.bytes(), pattern(1, 0, BLOCK));
        assert!(engine.blocking_reads() > 0 && engine.misses() <= 10, "{engine:?}");
    });
    worker.join().unwrap();
}

/// A deferred read that starts to fail is reported as a failed read.
#[test]
fn a_read_that_fails_later_is_reported() {
    let worker = thread::spawn(|| {
        let ground = Ground::new();
        let source = ground.file(c"source", 1, 1000);
        let target = ground.target(c"target");
        let mut engine = Retry::new(8);
        forbid(libc::SYS_preadv2, libc::EAGAIN);
        engine.submit(pair(&source, &target, 0, 1000)).unwrap();
        engine.submit(read(2, &source, 0, 1000, CacheMode::Keep)).unwrap();
        assert_eq!(engine.in_flight(), 2);
        forbid(libc::SYS_preadv2, libc::EIO);
        let mut done = Vec::new();
        engine.reap(2, &mut done).unwrap();
        for done in done {
            let error = match done.outcome {
                Outcome::Paired { read, written, .. } => {
                    assert_eq!(written, Ok(0));
                    read.unwrap_err()
                }
                Outcome::Read { result, .. } => result.unwrap_err(),
                other => panic!("{other:?}"),
            };
            assert_eq!(
                format!("{error:#}"),
                format!("read({}, 0, RWF_NOWAIT) = -1 (Input/output error)", ground::number(&source))
            );
        }
        assert_eq!(ground.content("target"), b"");
        assert_eq!(engine.blocking_reads(), 0);
    });
    worker.join().unwrap();
}

#[test]
fn dropping_it_with_reads_waiting_frees_everything() {
    let worker = thread::spawn(|| {
        let ground = Ground::new();
        let source = ground.file(c"source", 1, 1000);
        forbid(libc::SYS_preadv2, libc::EAGAIN);
        for _ in 0..50 {
            let mut engine = Retry::new(256);
            for token in 0..255 {
                engine.submit(read(token, &source, 0, 1000, CacheMode::Keep)).unwrap();
            }
            assert_eq!((engine.in_flight(), Arc::strong_count(&source)), (255, 256));
        }
        assert_eq!(Arc::strong_count(&source), 1);
    });
    worker.join().unwrap();
}
