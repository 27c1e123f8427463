//! Failure modes of a ring, one test each. Those that need an injected fault are in `faults/`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code, reason = "a signal is sent to one thread")]

mod ground;

use std::io::Write;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use ground::{Ground, address, duplicate, forbid, pattern, read, run_one, write};
use haul_engine::{Call, Done, Engine, EngineChoice, EngineSetup, Op, Outcome, Placement, Sync, Uring, make};
use haul_sys::{Errno, Fd, Open};
use haul_testkit::{or_skip, record_skip, skip};

/// Creates a ring for every operation, or records a skip.
fn everything(depth: usize) -> Option<Uring> {
    or_skip!(Uring::with_placement(depth, Placement::EVERYTHING), "the kernel refuses a ring")
}

/// Copies `length` bytes in blocks, with the engine full. Each write is submitted after its read.
fn copy(engine: &mut dyn Engine, source: &Arc<Fd>, target: &Arc<Fd>, length: usize, block: usize) -> usize {
    let mut waiting: Vec<Op> =
        (0..length).step_by(block).rev().map(|at| read(at as u64, source, at, block)).collect();
    let mut done: Vec<Done> = Vec::new();
    let (mut written, mut operations) = (0, 0);
    while written < length {
        while let Some(op) = waiting.pop() {
            if let Err(refused) = engine.submit(op) {
                waiting.push(*refused);
                break;
            }
            operations += 1;
        }
        engine.flush().unwrap();
        engine.reap(1, &mut done).unwrap();
        for Done { token, outcome } in done.drain(..) {
            match outcome {
                Outcome::Read { buffer, result } => {
                    let range = 0..result.unwrap().unwrap();
                    assert!(!range.is_empty());
                    waiting.push(Op { token, call: write(buffer, range, target, token as usize) });
                }
                Outcome::Wrote { result, .. } => written += result.unwrap(),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(engine.in_flight(), 0);
    operations
}

#[test]
fn thousands_of_operations_pass_through_a_shallow_ring() {
    let ground = Ground::new();
    let length = 64 * 1000;
    let source = ground.file(c"source", 1, length);
    for depth in 2..=8 {
        let Some(mut engine) = everything(depth) else { return };
        assert_eq!(engine.caps().depth, depth);
        let name = std::ffi::CString::new(format!("target{depth}")).unwrap();
        let target = ground.target(&name);
        assert_eq!(copy(&mut engine, &source, &target, length, 64), 2000);
        assert_eq!(ground.content(name.to_str().unwrap()), pattern(1, 0, length));
    }
}

/// Each operation has a synchronous fallback, for a kernel or sandbox that rejects only that one.
#[test]
fn each_operation_can_be_masked_off() {
    let ground = Ground::new();
    let source = ground.file(c"source", 1, 10_000);
    for masked in Placement::CANDIDATES {
        for placement in [Placement::EVERYTHING.without(masked), Placement::NOTHING.with(masked)] {
            let name = std::ffi::CString::new(format!("{placement:?}")).unwrap();
            let made = or_skip!(Uring::with_placement(8, placement), "the kernel refuses a ring");
            let Some(mut engine) = made else { return };
            assert_eq!(engine.placement(), placement);
            let file = match run_one(&mut engine, ground.open(0, c"source", Open::READ).call) {
                Outcome::Opened(file) => file.unwrap(),
                other => panic!("{other:?}"),
            };
            let target = ground.target(&name);
            copy(&mut engine, &source, &target, 10_000, 999);
            assert_eq!(ground.content(name.to_str().unwrap()), pattern(1, 0, 10_000));
            let looked = run_one(&mut engine, Call::Stat { file: Arc::clone(&target) });
            assert!(matches!(looked, Outcome::Stated(Ok(stat)) if stat.size == 10_000), "{looked:?}");
            let synchronized = run_one(&mut engine, Call::Synchronize { file: target });
            assert!(matches!(synchronized, Outcome::Synchronized(Ok(()))), "{synchronized:?}");
            let closed = run_one(&mut engine, Call::Close { file });
            assert!(matches!(closed, Outcome::Closed(Ok(()))), "{closed:?}");
        }
    }
}

/// The last read is short if the file isn't a multiple of the block. In a linked chain, a short
/// read would cancel its write.
#[test]
fn a_short_read_loses_no_write() {
    let ground = Ground::new();
    let Some(mut engine) = everything(8) else { return };
    let source = ground.file(c"source", 1, 200_000);
    let target = ground.target(c"target");
    copy(&mut engine, &source, &target, 200_000, 65_536);
    assert_eq!(ground.content("target"), pattern(1, 0, 200_000));
}

/// Files in `/proc` and `/sys` don't support `IOCB_NOWAIT`, and every source is opened with
/// `O_NONBLOCK`. A ring may return `EAGAIN`, which must not reach the caller.
#[test]
fn files_without_nowait_are_read_all_the_same() {
    let Some(mut engine) = everything(8) else { return };
    for path in [c"/proc/version", c"/proc/filesystems", c"/sys/kernel/mm/transparent_hugepage/enabled"] {
        let Ok(known) = std::fs::read(path.to_str().unwrap()) else {
            record_skip!("needs {path:?}");
            continue;
        };
        let file = Arc::new(haul_sys::open_path(path, Open::READ).unwrap());
        let outcome = run_one(&mut engine, read(0, &file, 0, 65_536).call);
        let Outcome::Read { buffer, result } = outcome else { panic!("{outcome:?}") };
        assert_eq!(buffer.bytes()[..result.unwrap().unwrap()], known, "{path:?}");
    }
}

#[test]
fn the_first_thread_that_submits_owns_the_ring() {
    let ground = Ground::new();
    let Some(mut engine) = everything(8) else { return };
    let source = ground.file(c"source", 1, 1000);
    let target = ground.target(c"target");
    let join = thread::spawn(move || {
        copy(&mut engine, &source, &target, 1000, 100);
    });
    join.join().unwrap();
    assert_eq!(ground.content("target"), pattern(1, 0, 1000));
}

/// The kernel permanently refuses (`EEXIST`) a ring bound to another thread.
#[test]
fn a_ring_that_breaks_down_answers_everything_and_goes_on_in_place() {
    let ground = Ground::new();
    let Some(mut engine) = everything(8) else { return };
    let fifo = ground.fifo(c"fifo");
    let (reader, source) = (Arc::new(fifo.reader), ground.file(c"source", 1, 1000));
    let (reader_there, source_there) = (Arc::clone(&reader), Arc::clone(&source));
    let owner = thread::spawn(move || {
        engine.submit(read(1, &reader_there, 0, 100)).unwrap();
        engine.flush().unwrap();
        drop((reader_there, source_there));
        engine
    });
    let mut engine = owner.join().unwrap();
    let op = read(2, &source, 0, 1000);
    engine.submit(op).unwrap();
    engine.submit(Op { token: 3, call: Call::Close { file: fifo.writer } }).unwrap();
    let Err(error) = engine.flush() else {
        skip!("needs a kernel that binds a ring to a thread");
    };
    assert_eq!((error.operation().name(), error.errno()), ("io_uring_enter", Errno::EXIST));
    let mut done = Vec::new();
    engine.reap(3, &mut done).unwrap();
    done.sort_by_key(|done| done.token);
    let tokens: Vec<u64> = done.iter().map(|done| done.token).collect();
    assert_eq!((tokens, engine.in_flight()), (vec![1, 2, 3], 0));
    for Done { token, outcome } in done {
        match (token, outcome) {
            // Either the exit of its thread cancelled it first, or the kernel still has it.
            (1, Outcome::Read { buffer, result }) => {
                assert!(result.is_err(), "{result:?}");
                assert_eq!(buffer.capacity(), 4096);
            }
            (2, Outcome::Read { buffer, result }) => {
                assert_eq!(buffer.bytes()[..result.unwrap().unwrap()], pattern(1, 0, 1000));
            }
            (3, Outcome::Closed(result)) => result.unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert!(engine.caps().blocks, "from now on it is synchronous");
    engine.flush().unwrap();
    let outcome = run_one(&mut engine, Call::Stat { file: source });
    assert!(matches!(outcome, Outcome::Stated(Ok(_))), "{outcome:?}");
}

#[test]
fn what_the_kernel_still_has_is_leaked_when_another_thread_drops_the_ring() {
    let ground = Ground::new();
    let Some(mut engine) = everything(8) else { return };
    let fifo = ground.fifo(c"fifo");
    let (reader, held) = (Arc::new(fifo.reader), Arc::new(AtomicBool::new(false)));
    let (reader_there, held_there) = (Arc::clone(&reader), Arc::clone(&held));
    let (sender, receiver) = std::sync::mpsc::channel();
    let owner = thread::spawn(move || {
        engine.submit(read(1, &reader_there, 0, 100)).unwrap();
        engine.flush().unwrap();
        drop(reader_there);
        sender.send(engine).unwrap();
        // Keep the thread alive, or the kernel cancels its read.
        while !held_there.load(Ordering::Acquire) {
            thread::park();
        }
    });
    let engine = receiver.recv().unwrap();
    drop(engine);
    assert_eq!(Arc::strong_count(&reader), 2, "freed under the kernel");
    held.store(true, Ordering::Release);
    owner.thread().unpark();
    owner.join().unwrap();
}

/// Waits until this thread of the process sleeps in the kernel.
fn await_sleep(thread: i32) {
    let stat = format!("/proc/self/task/{thread}/stat");
    loop {
        let text = std::fs::read_to_string(&stat).unwrap();
        if text.rsplit_once(") ").unwrap().1.starts_with('S') {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn a_wait_goes_on_after_signals() {
    static SIGNALS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(_: i32) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }
    let ground = Ground::new();
    let Some(mut engine) = everything(8) else { return };
    let handler: extern "C" fn(i32) = count;
    // SAFETY: the handler only increments an atomic, and no other test uses this signal.
    let previous = unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    assert_ne!(previous, libc::SIG_ERR);
    let fifo = ground.fifo(c"fifo");
    let reader = Arc::new(fifo.reader);
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = thread::spawn(move || {
        engine.submit(read(1, &reader, 0, 100)).unwrap();
        // SAFETY: the call takes no arguments and cannot fail.
        sender.send(unsafe { libc::gettid() }).unwrap();
        let mut done = Vec::new();
        engine.reap(1, &mut done).unwrap();
        done.pop().unwrap().outcome
    });
    let thread = receiver.recv().unwrap();
    for sent in 1..=10 {
        // It only sleeps while waiting for the read.
        await_sleep(thread);
        // SAFETY: the thread has not been joined, so its identifier is valid.
        assert_eq!(unsafe { libc::pthread_kill(waiter.as_pthread_t(), libc::SIGUSR1) }, 0);
        while SIGNALS.load(Ordering::Relaxed) < sent {
            thread::yield_now();
        }
    }
    await_sleep(thread);
    duplicate(&fifo.writer).write_all(b"data").unwrap();
    let Outcome::Read { buffer, result } = waiter.join().unwrap() else { panic!("not a read") };
    assert_eq!((result.unwrap(), &buffer.bytes()[..4]), (Some(4), &b"data"[..]));
}

#[test]
fn a_ring_that_is_refused_becomes_sync_and_says_why() {
    if everything(8).is_none() {
        return;
    }
    for (errno, reason) in [
        (libc::EPERM, "Operation not permitted"),
        (libc::ENOSYS, "Function not implemented"),
        (libc::ENOMEM, "Cannot allocate memory"),
    ] {
        let made = thread::spawn(move || {
            forbid(libc::SYS_io_uring_setup, errno);
            make(EngineChoice::Uring, &EngineSetup::of_depth(64))
        });
        let mut made = made.join().unwrap();
        assert_eq!(made.engine.caps().name, Sync::NAME);
        let note = made.note.unwrap();
        assert!(note.starts_with("engine io-uring refused, using sync: io_uring_setup(64, "), "{note}");
        assert!(note.ends_with(&format!(" = -1 ({reason})")), "{note}");
        let ground = Ground::new();
        let (source, target) = (ground.file(c"source", 1, 1000), ground.target(c"target"));
        copy(&mut *made.engine, &source, &target, 1000, 100);
        assert_eq!(ground.content("target"), pattern(1, 0, 1000));
    }
    let made = make(EngineChoice::Uring, &EngineSetup::of_depth(64));
    assert_eq!((made.engine.caps().name, made.note), (Uring::NAME, None));
}

/// The kernel has a read when `io_uring_enter` is forbidden, so its result can never be known.
#[test]
fn a_ring_that_is_forbidden_while_it_works_frees_nothing() {
    let ground = Ground::new();
    let Some(mut engine) = everything(8) else { return };
    let worker = thread::spawn(move || {
        let fifo = ground.fifo(c"fifo");
        let (reader, source) = (Arc::new(fifo.reader), ground.file(c"source", 1, 1000));
        let op = read(1, &reader, 0, 100);
        let Call::Read { buffer, .. } = &op.call else { unreachable!() };
        let mark = address(buffer);
        engine.submit(op).unwrap();
        engine.flush().unwrap();
        forbid(libc::SYS_io_uring_enter, libc::EPERM);
        engine.submit(read(2, &source, 0, 1000)).unwrap();
        let mut done = Vec::new();
        assert_eq!(engine.reap(2, &mut done).unwrap_err().errno(), Errno::PERM);
        engine.reap(2, &mut done).unwrap();
        done.sort_by_key(|done| done.token);
        let outcomes: Vec<Outcome> = done.into_iter().map(|done| done.outcome).collect();
        let [Outcome::Read { buffer: lost, result: failed }, Outcome::Read { buffer, result }] =
            &outcomes[..]
        else {
            panic!("{outcomes:?}");
        };
        assert_eq!(failed.as_ref().unwrap_err().errno(), Errno::IO);
        assert_ne!(address(lost), mark, "the kernel may still write there");
        assert_eq!(result, &Ok(Some(1000)));
        assert_eq!(buffer.bytes()[..1000], pattern(1, 0, 1000));
        drop(engine);
        assert_eq!(Arc::strong_count(&reader), 2, "freed under the kernel");
    });
    worker.join().unwrap();
}
