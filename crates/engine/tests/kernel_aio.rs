//! Failure modes of the kernel's AIO, one test each. Those that need an injected fault
//! are in `faults/`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ground;

use std::sync::{Arc, RwLock};
use std::thread;

use ground::{Ground, address, forbid, pair, pattern, read, run, set_direct};
use haul_engine::{
    Call, Done, Engine, EngineChoice, EngineSetup, KernelAio, Op, Ops, Outcome, Sync, Used, make,
};
use haul_sys::{Buffer, Errno, Fd, Gather, Open};
use haul_testkit::{mount::Mount, needs, or_skip, require, skip};

const BLOCK: usize = 64 << 10;

/// Locked for reading by tests that need contexts, and for writing by the one that exhausts them.
static CONTEXTS: RwLock<()> = RwLock::new(());

/// Creates the engine, or records a skip.
fn engine(depth: usize, gather: Gather) -> Option<KernelAio> {
    or_skip!(KernelAio::new(depth, gather), "the kernel refuses AIO")
}

fn write(token: u64, file: &Arc<Fd>, offset: usize, bytes: &[u8]) -> Op {
    let mut buffer = Buffer::new(bytes.len());
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    Op { token, call: ground::write(buffer, 0..bytes.len(), file, offset) }
}

/// Runs pairs over the whole file. Returns their offsets and byte counts, sorted by offset.
fn pairs(
    engine: &mut dyn Engine,
    source: &Arc<Fd>,
    target: &Arc<Fd>,
    length: usize,
) -> Vec<(usize, haul_sys::Result<usize>, haul_sys::Result<usize>)> {
    let ops = (0..length).step_by(BLOCK).map(|offset| pair(source, target, offset, BLOCK));
    let mut results: Vec<_> = run(engine, ops)
        .into_iter()
        .map(|Done { token, outcome }| {
            let Outcome::Paired { read, written, .. } = outcome else { panic!("not a pair") };
            (token as usize, read, written)
        })
        .collect();
    results.sort_by_key(|(offset, ..)| *offset);
    results
}

#[test]
fn pairs_of_buffered_files_pass_through_both_contexts() {
    let _contexts = CONTEXTS.read().unwrap();
    let ground = Ground::new();
    let source = ground.file(c"source", 1, 200_000);
    for (name, depth, gather) in
        [(c"one", 1, Gather::One), (c"few", 3, Gather::Wanted), (c"many", 64, Gather::One)]
    {
        let Some(mut engine) = engine(depth, gather) else { return };
        let target = ground.target(name);
        for (offset, read, written) in pairs(&mut engine, &source, &target, 200_000) {
            let length = BLOCK.min(200_000 - offset);
            assert_eq!((read.unwrap(), written.unwrap()), (length, length));
        }
        assert!(ground.content(name.to_str().unwrap()) == pattern(1, 0, 200_000));
        assert_eq!(engine.taken(), [4, 4], "the kernel did not do it");
    }
}

#[test]
fn its_calls_are_counted() {
    let _contexts = CONTEXTS.read().unwrap();
    let ground = Ground::new();
    let (source, target) = (ground.file(c"source", 1, 4 * BLOCK), ground.target(c"target"));
    let Some(mut engine) = engine(8, Gather::One) else { return };
    let mut done = Vec::new();
    for op in (0..4).map(|block| read(0, &source, block * BLOCK, BLOCK)) {
        engine.submit(op).unwrap();
    }
    assert_eq!(engine.used(), Used::default());
    engine.flush().unwrap();
    assert_eq!(engine.used().calls, 1, "one io_submit");
    engine.reap(4, &mut done).unwrap();
    assert_eq!((done.len(), engine.used().calls), (4, 2), "one io_getevents");
    // A pair: submit and fetch in one context, then in the other.
    engine.submit(pair(&source, &target, 0, BLOCK)).unwrap();
    engine.flush().unwrap();
    engine.reap(1, &mut done).unwrap();
    assert_eq!((done.len(), engine.used()), (5, Used { calls: 6, ..Used::default() }));
}

#[test]
fn direct_files_are_copied_and_their_tails_reported() {
    require!(needs::loop_mount("ext4"));
    let _contexts = CONTEXTS.read().unwrap();
    let mount = Mount::image("ext4", 64 << 20).unwrap();
    let ground = Ground::at(mount.path());
    for (seed, (name, target_is_direct)) in [(c"buffered", false), (c"direct", true)].into_iter().enumerate()
    {
        let Some(mut engine) = engine(16, Gather::One) else { return };
        let source = ground.file(c"source", seed as u64, 200_000);
        haul_sys::synchronize(&*source).unwrap();
        set_direct(&source);
        let target = ground.target(name);
        if target_is_direct {
            set_direct(&target);
        }
        let mut results = pairs(&mut engine, &source, &target, 200_000);
        let (offset, read, written) = results.pop().unwrap();
        assert_eq!(
            (offset, read.unwrap()),
            (196_608, 3392),
            "the end of a file needs no alignment to be read"
        );
        if target_is_direct {
            // But a direct write does. The caller writes the tail through the page cache.
            assert_eq!(written.unwrap_err().errno(), Errno::INVAL);
            let tail = Arc::new(haul_sys::open(&*ground.directory, name, Open::WRITE).unwrap());
            let done = run(&mut engine, [write(0, &tail, 196_608, &pattern(seed as u64, 196_608, 3392))]);
            assert!(matches!(done[0].outcome, Outcome::Wrote { result: Ok(3392), .. }), "{done:?}");
        } else {
            assert_eq!(written.unwrap(), 3392);
        }
        for (_, read, written) in results {
            assert_eq!((read.unwrap(), written.unwrap()), (BLOCK, BLOCK));
        }
        assert!(ground.content(name.to_str().unwrap()) == pattern(seed as u64, 0, 200_000));
        assert_eq!(engine.taken(), [4, if target_is_direct { 5 } else { 4 }]);
    }
}

/// Reads and writes are in flight in both contexts: whichever completes first must end the wait.
#[test]
fn direct_pairs_keep_both_contexts_busy() {
    require!(needs::loop_mount("ext4"));
    let _contexts = CONTEXTS.read().unwrap();
    let mount = Mount::image("ext4", 96 << 20).unwrap();
    let ground = Ground::at(mount.path());
    let length = 256 * BLOCK;
    let source = ground.file(c"source", 1, length);
    haul_sys::synchronize(&*source).unwrap();
    set_direct(&source);
    for (name, ops) in [(c"one", Ops::Multi), (c"batch", Ops::Batch)] {
        let setup = EngineSetup { ops: Some(ops), ..EngineSetup::of_depth(16) };
        let mut made = make(EngineChoice::KernelAio, &setup);
        if let Some(note) = made.note {
            skip!("{note}");
        }
        let target = ground.target(name);
        haul_sys::allocate(&*target, length as u64).unwrap();
        set_direct(&target);
        let results = pairs(&mut *made.engine, &source, &target, length);
        assert_eq!(results.len(), 256);
        for (offset, read, written) in results {
            assert_eq!((read.unwrap(), written.unwrap()), (BLOCK, BLOCK), "at {offset}");
        }
        assert!(ground.content(name.to_str().unwrap()) == pattern(1, 0, length));
    }
}

#[test]
fn dropping_it_with_operations_in_flight_waits_for_them() {
    require!(needs::loop_mount("ext4"));
    let _contexts = CONTEXTS.read().unwrap();
    let mount = Mount::image("ext4", 64 << 20).unwrap();
    let ground = Ground::at(mount.path());
    let source = ground.file(c"source", 1, 64 * BLOCK);
    let target = ground.target(c"target");
    haul_sys::synchronize(&*source).unwrap();
    for file in [&source, &target] {
        set_direct(file);
    }
    for round in 0..12 {
        let Some(mut engine) = engine(128, Gather::One) else { return };
        for block in 0..64 {
            engine.submit(read(0, &source, block * BLOCK, BLOCK)).unwrap();
            engine.submit(pair(&source, &target, block * BLOCK, BLOCK)).unwrap();
        }
        // Dropped with everything still queued here, with reads in the kernel, and also
        // with writes there.
        if round % 3 > 0 {
            engine.flush().unwrap();
        }
        if round % 3 > 1 {
            engine.reap(1, &mut Vec::new()).unwrap();
        }
        drop(engine);
        assert_eq!((Arc::strong_count(&source), Arc::strong_count(&target)), (1, 1), "round {round}");
    }
}

/// More operations than one call submits, including some that the kernel rejects at submission.
#[test]
fn what_the_kernel_refuses_to_take_does_not_stop_the_others() {
    let _contexts = CONTEXTS.read().unwrap();
    let ground = Ground::new();
    let Some(mut engine) = engine(700, Gather::One) else { return };
    let source = ground.file(c"source", 1, 1000);
    let target = ground.target(c"target");
    let fifo = Arc::new(ground.fifo(c"fifo").reader);
    let ops = (0..700).map(|token| match token {
        0 | 300 | 699 => read(token, &target, 0, 100),
        1 | 301 => Op { token, call: Call::Synchronize { file: Arc::clone(&fifo) } },
        _ if token % 2 == 0 => read(token, &source, token as usize, 100),
        _ => write(token, &target, token as usize, &[token as u8]),
    });
    let done = run(&mut engine, ops);
    assert_eq!(done.len(), 700);
    for Done { token, outcome } in done {
        match (token, outcome) {
            (0 | 300 | 699, Outcome::Read { result, .. }) => {
                let error = result.unwrap_err();
                assert_eq!(error.errno(), Errno::BADF);
                assert_eq!(
                    format!("{error:#}"),
                    format!("read({}, 0) = -1 (Bad file descriptor)", ground::number(&target))
                );
            }
            (1 | 301, Outcome::Synchronized(result)) => assert_eq!(result.unwrap_err().errno(), Errno::INVAL),
            (_, Outcome::Read { buffer, result }) => {
                let length = result.unwrap().unwrap();
                assert_eq!(length, 100);
                assert_eq!(buffer.bytes()[..100], pattern(1, token as usize, 100));
            }
            (_, Outcome::Wrote { result, .. }) => assert_eq!(result.unwrap(), 1),
            other => panic!("{other:?}"),
        }
    }
    let content = ground.content("target");
    assert!((3..699).step_by(2).filter(|at| *at != 301).all(|at| content[at] == at as u8));
    assert!(engine.taken() >= [347, 347], "{:?}", engine.taken());
    assert!(!engine.caps().blocks);
}

#[test]
fn it_may_be_made_on_one_thread_and_used_on_another() {
    let _contexts = CONTEXTS.read().unwrap();
    let ground = Ground::new();
    let Some(mut engine) = engine(8, Gather::One) else { return };
    let (source, target) = (ground.file(c"source", 1, 200_000), ground.target(c"target"));
    let worker = thread::spawn(move || pairs(&mut engine, &source, &target, 200_000).len());
    assert_eq!(worker.join().unwrap(), 4);
    assert!(ground.content("target") == pattern(1, 0, 200_000));
}

/// `fs.aio-max-nr` is a limit for the whole machine, so the last process may get nothing.
#[test]
fn without_contexts_left_it_becomes_sync_and_says_why() {
    let _contexts = CONTEXTS.write().unwrap();
    let mut hoard = Vec::new();
    let mut depth = 32_768;
    // Start with few large ones, because the kernel destroys each context slowly.
    while depth >= 32 {
        match KernelAio::new(depth, Gather::One) {
            Ok(engine) => hoard.push(engine),
            Err(error) if error.is(Errno::AGAIN) => depth /= 2,
            Err(error) => skip!("the kernel refuses AIO: {error:#}"),
        }
        if hoard.len() > 64 {
            skip!("needs fs.aio-max-nr near its default");
        }
    }
    let made = make(EngineChoice::KernelAio, &EngineSetup::of_depth(64));
    assert_eq!(made.engine.caps().name, Sync::NAME);
    let reason = "io_setup(64) = -1 (Resource temporarily unavailable)";
    assert_eq!(made.note.unwrap(), format!("engine kernel-aio refused, using sync: {reason}"));
    drop(hoard);
    let made = make(EngineChoice::KernelAio, &EngineSetup::of_depth(64));
    assert_eq!((made.engine.caps().name, made.note), (KernelAio::NAME, None));
}

#[test]
fn aio_that_is_forbidden_from_the_start_becomes_sync() {
    for (call, name) in
        [(libc::SYS_io_setup, "io_setup(64)"), (libc::SYS_eventfd2, "eventfd2(0, EFD_CLOEXEC)")]
    {
        let made = thread::spawn(move || {
            forbid(call, libc::ENOSYS);
            make(EngineChoice::KernelAio, &EngineSetup::of_depth(64))
        });
        let made = made.join().unwrap();
        assert_eq!(made.engine.caps().name, Sync::NAME);
        let note = format!("engine kernel-aio refused, using sync: {name} = -1 (Function not implemented)");
        assert_eq!(made.note.unwrap(), note);
    }
}

/// Results after calls were forbidden while operations were in flight.
struct Aftermath {
    error: haul_sys::Error,
    /// Sorted by token.
    done: Vec<Done>,
    /// Addresses of the buffers the kernel had.
    marks: Vec<usize>,
    content: Vec<u8>,
}

/// Submits a read and a pair to the kernel, forbids the calls, then submits another read and pair.
fn forbidden(calls: &'static [libc::c_long]) -> Option<Aftermath> {
    let _contexts = CONTEXTS.read().unwrap();
    let mut engine = engine(8, Gather::One)?;
    let worker = thread::spawn(move || {
        let ground = Ground::new();
        let source = ground.file(c"source", 1, 4000);
        let target = ground.target(c"target");
        let ops = [read(0, &source, 0, 1000), pair(&source, &target, 1000, 1000)];
        let marks = ops.iter().map(|op| match &op.call {
            Call::Read { buffer, .. } | Call::Pair { buffer, .. } => address(buffer),
            _ => unreachable!(),
        });
        let marks: Vec<usize> = marks.collect();
        for op in ops {
            engine.submit(op).unwrap();
        }
        engine.flush().unwrap();
        for call in calls {
            forbid(*call, libc::EPERM);
        }
        engine.submit(read(2, &source, 2000, 1000)).unwrap();
        engine.submit(pair(&source, &target, 3000, 1000)).unwrap();
        let mut done = Vec::new();
        let flushed = engine.flush();
        let reaped = engine.reap(4, &mut done);
        let error = flushed.and(reaped).unwrap_err();
        engine.reap(4, &mut done).unwrap();
        assert_eq!((done.len(), engine.in_flight()), (4, 0));
        assert!(engine.caps().blocks, "from now on it is synchronous");
        done.sort_by_key(|done| done.token);
        assert_eq!(run(&mut engine, [read(9, &source, 0, 10)]).len(), 1);
        drop(engine);
        let (sources, targets) = (Arc::strong_count(&source), Arc::strong_count(&target));
        assert_eq!((sources, targets), (1, 1), "the files are not held");
        Aftermath { error, done, marks, content: ground.content("target") }
    });
    Some(worker.join().unwrap())
}

/// For each operation: its token, and whether all 1000 bytes were read, and written.
fn succeeded(done: &[Done]) -> Vec<(u64, bool, bool)> {
    let tell = |done: &Done| match &done.outcome {
        Outcome::Read { result, .. } => (done.token, *result == Ok(Some(1000)), false),
        Outcome::Paired { read, written, .. } => (done.token, *read == Ok(1000), *written == Ok(1000)),
        other => panic!("{other:?}"),
    };
    done.iter().map(tell).collect()
}

#[test]
fn when_submitting_is_forbidden_nothing_is_lost() {
    let Some(Aftermath { error, done, content, .. }) = forbidden(&[libc::SYS_io_submit]) else { return };
    assert_eq!((error.operation().name(), error.errno()), ("io_submit", Errno::PERM));
    assert_eq!(
        succeeded(&done),
        [(0, true, false), (2, true, false), (1000, true, true), (3000, true, true)]
    );
    assert_eq!(content[1000..2000], pattern(1, 1000, 1000));
    assert_eq!(content[3000..], pattern(1, 3000, 1000));
}

#[test]
fn when_fetching_events_is_forbidden_what_was_in_flight_fails() {
    let Some(Aftermath { error, done, marks, content }) = forbidden(&[libc::SYS_io_getevents]) else {
        return;
    };
    assert_eq!((error.operation().name(), error.errno()), ("io_getevents", Errno::PERM));
    // The other two were submitted by the flush, so they are lost too.
    assert_eq!(
        succeeded(&done),
        [(0, false, false), (2, false, false), (1000, false, false), (3000, false, false)]
    );
    let Outcome::Read { buffer, result } = &done[0].outcome else { panic!("not a read") };
    assert_eq!(result.as_ref().unwrap_err().errno(), Errno::IO);
    assert_eq!(address(buffer), marks[0], "the kernel was done with it: nothing to leak");
    assert!(content.is_empty());
}

#[test]
fn when_nothing_can_be_known_the_memory_is_leaked() {
    let calls = &[libc::SYS_io_getevents, libc::SYS_io_destroy];
    let Some(Aftermath { error, done, marks, .. }) = forbidden(calls) else { return };
    assert_eq!(error.errno(), Errno::PERM);
    let Outcome::Read { buffer, result } = &done[0].outcome else { panic!("not a read") };
    assert_eq!(result.as_ref().unwrap_err().errno(), Errno::IO);
    assert_ne!(address(buffer), marks[0], "the kernel may still write there");
    assert_eq!(buffer.capacity(), 4096);
}
