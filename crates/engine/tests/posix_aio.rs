//! Failure modes of POSIX AIO, one test each.
//!
//! The C library's threads and the fault hook are per process, so cases that depend on them run
//! this test binary again with one ignored test.

#![cfg(all(target_env = "gnu", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code, reason = "limits and flags are set behind the back of what is tested")]

mod ground;

use std::ffi::CString;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ground::{Ground, duplicate, number, pair, pattern, read, read_into, run, run_one, write};
use haul_engine::{Call, Done, Engine, EngineChoice, EngineSetup, Op, Ops, Outcome, PosixAio, Used, make};
use haul_sys::{Buffer, CacheMode, Errno, Fd, Operation, Result};

const LENGTH: usize = 200_000;
const ALL_OPS: [Option<Ops>; 4] = [None, Some(Ops::Single), Some(Ops::Multi), Some(Ops::Batch)];

fn engine(queue_depth: usize, ops: Option<Ops>) -> PosixAio {
    PosixAio::new(&EngineSetup { ops, ..EngineSetup::of_depth(queue_depth) }).unwrap()
}

/// Copies with pairs, continuing after short ones. Returns the number of pairs.
fn copy(engine: &mut dyn Engine, source: &Arc<Fd>, target: &Arc<Fd>, block: usize) -> Result<usize> {
    let mut pairs = 0;
    let mut waiting: Vec<_> = (0..LENGTH).step_by(block).map(|at| (at, block.min(LENGTH - at))).collect();
    while !waiting.is_empty() {
        pairs += waiting.len();
        let lengths: std::collections::HashMap<_, _> = waiting.iter().copied().collect();
        let ops: Vec<_> = waiting.drain(..).map(|(at, length)| pair(source, target, at, length)).collect();
        for Done { token, outcome } in run(engine, ops) {
            let Outcome::Paired { buffer, read, written } = outcome else { panic!("not a pair") };
            let (read, written, at) = (read?, written?, token as usize);
            assert!(written <= read && (read > 0 || written == 0));
            assert_eq!(buffer.bytes()[..read], pattern(1, at, read));
            if read == 0 {
                // A false EOF, injected by the fault hook. It must be reported.
                return Err(haul_sys::Error::new(Operation::Read, String::new(), Errno::IO));
            }
            if written < lengths[&at] {
                waiting.push((at + written, lengths[&at] - written));
            }
        }
    }
    Ok(pairs)
}

#[test]
fn every_way_copies_every_block_size_right() {
    for ops in ALL_OPS {
        let ground = Ground::new();
        let source = ground.file(c"source", 1, LENGTH);
        for (depth, block) in [(16, 64 << 10), (1, 64 << 10), (256, 1000), (3, 4096), (2, LENGTH)] {
            let mut engine = engine(depth, ops);
            assert_eq!(engine.caps().depth, depth);
            let name = format!("target{depth}-{block}");
            let target = ground.target(&CString::new(name.as_str()).unwrap());
            let pairs = copy(&mut engine, &source, &target, block).unwrap();
            assert_eq!(pairs, LENGTH.div_ceil(block));
            assert!(ground.content(&name) == pattern(1, 0, LENGTH), "{ops:?} {depth} {block}");
            let (lists, listed) = engine.lists();
            assert_eq!(engine.used(), Used { calls: lists, ..Used::default() });
            match ops {
                // Each pair is in one list for its read and in a later one for its write.
                Some(Ops::Batch) => assert!(lists >= 2 && listed == 2 * pairs as u64, "{lists} {listed}"),
                _ => assert_eq!((lists, listed), (0, 0)),
            }
            assert_eq!(engine.rescued(), 0);
        }
    }
}

#[test]
fn a_batch_is_one_list() {
    let ground = Ground::new();
    let files: Vec<_> =
        (0..64).map(|n| ground.file(&CString::new(format!("file{n}")).unwrap(), n, 5000)).collect();
    let mut engine = engine(64, Some(Ops::Batch));
    for (token, file) in (0..).zip(&files) {
        assert!(engine.submit(read(token, file, 7, 4096)).is_ok());
        assert_eq!(engine.lists(), (0, 0), "it is gathered");
    }
    engine.flush().unwrap();
    assert_eq!(engine.lists(), (1, 64));
    let mut done = Vec::new();
    engine.reap(64, &mut done).unwrap();
    assert_eq!(done.len(), 64);
    for Done { token, outcome } in done {
        let Outcome::Read { buffer, result } = outcome else { panic!("not a read") };
        assert_eq!(result.unwrap(), Some(4096));
        assert_eq!(buffer.bytes()[..4096], pattern(token, 7, 4096));
    }
}

/// A control block can't express `CacheMode::Drop`, so the C library must not get the request.
#[test]
fn what_is_to_leave_nothing_in_the_cache_is_done_in_place() {
    let ground = Ground::new();
    let file = ground.file(c"source", 1, 5000);
    let expected = haul_sys::read(&*file, 7, &mut [0; 4096], CacheMode::Drop).map(Some);
    let mut engine = engine(4, Some(Ops::Batch));
    assert!(!engine.caps().drops_cache);
    let mut op = read(0, &file, 7, 4096);
    if let Call::Read { cache, .. } = &mut op.call {
        *cache = CacheMode::Drop;
    }
    let outcome = run_one(&mut engine, op.call);
    let Outcome::Read { result, .. } = outcome else { panic!("not a read") };
    assert_eq!((result, engine.lists()), (expected, (0, 0)));
}

/// Collected operations are submitted without an explicit flush, and complete even if only polled.
#[test]
fn a_reap_passes_what_is_gathered() {
    let ground = Ground::new();
    let source = ground.file(c"source", 1, LENGTH);
    for (round, ops) in ALL_OPS.into_iter().enumerate() {
        let name = format!("target{round}");
        let target = ground.target(&CString::new(name.as_str()).unwrap());
        let mut engine = engine(8, ops);
        let mut done = Vec::new();
        assert!(engine.submit(pair(&source, &target, 0, 4096)).is_ok());
        let deadline = Instant::now() + Duration::from_secs(60);
        while done.is_empty() {
            assert!(Instant::now() < deadline, "{ops:?}");
            engine.reap(0, &mut done).unwrap();
            thread::yield_now();
        }
        assert_eq!(ground.content(&name), pattern(1, 0, 4096));
    }
}

#[test]
fn drop_in_flight_gives_everything_back() {
    let ground = Ground::new();
    let source = ground.file(c"source", 1, LENGTH);
    let target = ground.target(c"target");
    for round in 0..1000 {
        let mut engine = engine(16, ALL_OPS[round % ALL_OPS.len()]);
        let mut done = Vec::new();
        for token in 0..16 {
            let at = token as usize * 4096;
            let op = match token % 4 {
                0 => read(token, &source, at, 4096),
                1 => Op { token, call: write(Buffer::new(4096), 0..4096, &target, at) },
                2 => Op { token, call: Call::Synchronize { file: Arc::clone(&source) } },
                _ => pair(&source, &target, at, 4096),
            };
            assert!(engine.submit(op).is_ok());
        }
        if round % 3 > 0 {
            engine.flush().unwrap();
        }
        engine.reap(round % 5, &mut done).unwrap();
        assert!(done.len() >= round % 5);
        drop(engine);
        assert_eq!((Arc::strong_count(&source), Arc::strong_count(&target)), (1, 1), "round {round}");
    }
}

/// Clears `O_NONBLOCK`.
fn make_blocking(file: &Fd) {
    // SAFETY: the descriptor is open, and the call takes no pointers.
    assert_eq!(unsafe { libc::fcntl(number(file), libc::F_SETFL, 0) }, 0);
}

/// Runs an ignored test in its own process. Returns what it prints after `=`.
fn alone(test: &str, environment: &[(&str, &str)]) -> String {
    let output = Command::new("timeout")
        .arg("300")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} {environment:?}: {} {said}", output.status);
    said.lines().find_map(|line| line.strip_prefix('=')).expect("it says something").to_owned()
}

fn answer(text: &str) {
    ground::say(&format!("\n={text}"));
}

/// Returns the mode set in the environment.
fn ops() -> Option<Ops> {
    (std::env::var("HAUL_TEST_OPS").unwrap() == "batch").then_some(Ops::Batch)
}

#[test]
#[ignore = "run by `what_does_not_come_back_is_freed_by_its_late_notification`, in a process of its own"]
fn come_back_late() {
    let ground = Ground::new();
    let fifo = ground.fifo(c"fifo");
    make_blocking(&fifo.reader);
    let reader = Arc::new(fifo.reader);
    let mut engine = engine(4, ops());
    // The first request of a process goes straight to a new thread, so it can no
    // longer be cancelled.
    assert!(engine.submit(read(1, &reader, 0, 4096)).is_ok());
    engine.flush().unwrap();
    let began = Instant::now();
    drop(engine);
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(Arc::strong_count(&reader), 2, "the library still has it");
    duplicate(&fifo.writer).write_all(b"late").unwrap();
    while Arc::strong_count(&reader) == 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "never freed");
        thread::yield_now();
    }
    answer("freed");
}

#[test]
fn what_does_not_come_back_is_freed_by_its_late_notification() {
    for ops in ["multi", "batch"] {
        assert_eq!(alone("come_back_late", &[("HAUL_TEST_OPS", ops)]), "freed");
    }
}

/// Returns the number of threads in this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
#[ignore = "run by `the_library_uses_as_many_threads_as_asked`, in a process of its own"]
fn count_threads() {
    let ground = Ground::new();
    let mut engine = engine(5, None);
    let fifos: Vec<_> = (0..5).map(|n| ground.fifo(&CString::new(format!("fifo{n}")).unwrap())).collect();
    let (readers, writers): (Vec<_>, Vec<_>) =
        fifos.into_iter().map(|fifo| (Arc::new(fifo.reader), fifo.writer)).unzip();
    let before = threads();
    // Blocking reads, one per thread, and as many more requests without a thread.
    let mut other = PosixAio::new(&EngineSetup::of_depth(5)).unwrap();
    let source = ground.file(c"source", 1, 4096);
    for (token, reader) in (0..).zip(&readers) {
        make_blocking(reader);
        assert!(engine.submit(read(token, reader, 0, 64)).is_ok());
    }
    for token in 0..5 {
        assert!(other.submit(read(token, &source, 0, 64)).is_ok());
    }
    answer(&format!("{} of {}", threads() - before, engine.threads()));
    writers.iter().for_each(|writer| duplicate(writer).write_all(b"go on").unwrap());
    let mut done = Vec::new();
    engine.reap(5, &mut done).unwrap();
    other.reap(5, &mut done).unwrap();
    assert_eq!(done.len(), 10);
}

#[test]
fn the_library_uses_as_many_threads_as_asked() {
    assert_eq!(alone("count_threads", &[]), "5 of 5");
}

#[test]
#[ignore = "run by `a_lost_notification_loses_nothing`, in a process of its own"]
fn lose_notifications() {
    let ground = Ground::new();
    let fifo = ground.fifo(c"fifo");
    make_blocking(&fifo.reader);
    let reader = Arc::new(fifo.reader);
    let source = ground.file(c"source", 1, LENGTH);
    let target = ground.target(c"target");
    let mut engine = engine(8, ops());
    // A single thread for everything, blocked on the FIFO while the rest is queued.
    drop(PosixAio::new(&EngineSetup::of_depth(1)).unwrap());
    assert!(engine.submit(read(0, &reader, 0, 64)).is_ok());
    engine.flush().unwrap();
    for offset in [4096, 8192, 12_288] {
        assert!(engine.submit(pair(&source, &target, offset, 4096)).is_ok());
    }
    engine.flush().unwrap();
    let mut done = Vec::with_capacity(8);
    // Leave no room for another thread's stack, which a notification needs.
    let pages: u64 =
        std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').next().unwrap().parse().unwrap();
    let room = libc::rlimit { rlim_cur: pages * 4096 + (64 << 10), rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `room` is a valid limit, and only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const room) }, 0);
    duplicate(&fifo.writer).write_all(b"go on").unwrap();
    engine.reap(4, &mut done).unwrap();
    let room = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: same as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const room) }, 0);
    let mut pairs = 0;
    for Done { token, outcome } in done {
        match outcome {
            Outcome::Paired { buffer, read, written } => {
                assert_eq!((read.unwrap(), written.unwrap()), (4096, 4096));
                assert_eq!(buffer.bytes()[..4096], pattern(1, token as usize, 4096));
                pairs += 1;
            }
            // The read can't be repeated, because a FIFO has no offsets.
            Outcome::Read { result, .. } => assert!(result.is_err_and(|error| error.is(Errno::SPIPE))),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ground.content("target")[4096..], pattern(1, 4096, 12_288));
    assert_eq!((Arc::strong_count(&source), Arc::strong_count(&target)), (1, 1));
    let rescued = engine.rescued();
    // The engine still works. After a loss it waits so briefly for notifications that it may count
    // one that is only late.
    copy(&mut engine, &source, &target, 4096).unwrap();
    assert!(ground.content("target") == pattern(1, 0, LENGTH));
    answer(&format!("{pairs} pairs, {rescued} rescued"));
}

#[test]
fn a_lost_notification_loses_nothing() {
    for ops in ["multi", "batch"] {
        assert_eq!(alone("lose_notifications", &[("HAUL_TEST_OPS", ops)]), "3 pairs, 4 rescued");
    }
}

#[test]
fn a_file_that_cannot_be_synchronized_or_read_says_so() {
    let ground = Ground::new();
    let target = ground.target(c"target");
    for ops in ALL_OPS {
        let mut engine = engine(4, ops);
        let Outcome::Read { result, .. } = run_one(&mut engine, read(0, &target, 5, 64).call) else {
            panic!("not a read")
        };
        let said = format!("{:#}", result.unwrap_err());
        assert_eq!(said, format!("read({}, 5) = -1 (Bad file descriptor)", number(&target)));
        let call = write(Buffer::new(64), 1..9, &ground.directory, 3);
        let Outcome::Wrote { result, .. } = run_one(&mut engine, call) else { panic!("not a write") };
        let said = format!("{:#}", result.unwrap_err());
        assert_eq!(said, format!("write({}, 3, 8) = -1 (Bad file descriptor)", number(&ground.directory)));
        let source = ground.file(c"source", 1, 100);
        let Outcome::Paired { read, written, .. } = run_one(&mut engine, pair(&source, &source, 0, 64).call)
        else {
            panic!("not a pair")
        };
        assert_eq!(read.unwrap(), 64);
        let said = format!("{:#}", written.unwrap_err());
        assert_eq!(said, format!("write({}, 0, 64) = -1 (Bad file descriptor)", number(&source)));
    }
}

#[test]
fn bytes_outside_the_buffer_are_refused() {
    let ground = Ground::new();
    let source = ground.file(c"source", 1, 100);
    let call = read_into(Buffer::new(4096), &source, 0, 4097);
    let submitted = thread::spawn(|| engine(4, None).submit(Op { token: 0, call }).is_ok()).join();
    assert!(submitted.is_err(), "it must panic");
}

#[test]
#[ignore = "run by the sweep, in a process of its own"]
fn one_copy() {
    let ground = Ground::new();
    let source = ground.file(c"source", 1, LENGTH);
    let target = ground.target(c"target");
    let made = make(EngineChoice::PosixAio, &EngineSetup { ops: ops(), ..EngineSetup::of_depth(3) });
    let name = made.engine.caps().name;
    assert_eq!(made.note.is_some(), name != PosixAio::NAME);
    let mut engine = made.engine;
    let copied = copy(&mut engine, &source, &target, 32 << 10).map(drop);
    let synchronized = match run_one(&mut engine, Call::Synchronize { file: Arc::clone(&target) }) {
        Outcome::Synchronized(result) => result,
        other => panic!("{other:?}"),
    };
    drop(engine);
    assert_eq!((Arc::strong_count(&source), Arc::strong_count(&target)), (1, 1));
    let verdict = match copied.and(synchronized) {
        Ok(()) => {
            assert!(ground.content("target") == pattern(1, 0, LENGTH), "lost in silence");
            "copied".to_owned()
        }
        Err(error) => format!("failed {error:#}"),
    };
    #[cfg(feature = "fault")]
    haul_sys::fault::write_log().unwrap();
    answer(&format!("{name} {verdict}"));
}

#[cfg(feature = "fault")]
mod faults {
    use std::collections::BTreeMap;

    use super::{alone, ground::say};

    /// Runs one copy with a fault. Returns the verdict, the count of each operation, and whether
    /// the fault fired.
    fn case(ops: &str, fault: &str) -> (String, BTreeMap<String, u64>, bool) {
        let log = tempfile::NamedTempFile::new().unwrap();
        let path = log.path().to_str().unwrap();
        let said =
            alone("one_copy", &[("HAUL_TEST_OPS", ops), ("HAUL_FAULT", fault), ("HAUL_FAULT_LOG", path)]);
        let (mut counts, mut fired) = (BTreeMap::new(), false);
        for line in std::fs::read_to_string(path).unwrap().lines() {
            match line.split_once(' ').unwrap() {
                ("fired", _) => fired = true,
                (operation, count) => drop(counts.insert(operation.to_owned(), count.parse().unwrap())),
            }
        }
        (said, counts, fired)
    }

    fn expected(operation: &str, effect: &str) -> &'static str {
        match (operation, effect) {
            // If the library rejects a request for whatever reason, it is performed synchronously.
            ("aio_read" | "aio_write" | "aio_fsync" | "lio_listio", _) => "copied",
            (_, "EINTR" | "EAGAIN") => "copied",
            ("read", "short=0") => "failed",
            ("read" | "write", "short=1" | "short=-1") => "copied",
            _ => "failed",
        }
    }

    fn sweep(ops: &str, calls: [&str; 3]) {
        let (said, counts, _) = case(ops, "count");
        assert_eq!(said, "posix-aio copied");
        let mut struck = 0;
        for operation in ["read", "write", "fsync"].into_iter().chain(calls) {
            let transfers = matches!(operation, "read" | "write");
            let effects = ["EIO", "EINTR", "EAGAIN", "ENOSPC", "short=0", "short=1", "short=-1"];
            for effect in &effects[..if transfers { 7 } else { 4 }] {
                if (operation, *effect) == ("write", "short=0") {
                    continue;
                }
                for occurrence in 1..=counts[operation] {
                    let fault = format!("{operation}:{occurrence}:{effect}");
                    let (said, counted, fired) = case(ops, &fault);
                    if !fired && operation == "lio_listio" {
                        // The number of lists depends on how many reads complete together.
                        assert!(said == "posix-aio copied" && counted[operation] < occurrence);
                        continue;
                    }
                    let verdict = said.split(' ').nth(1).unwrap();
                    assert!(fired, "{fault}: it never struck");
                    assert_eq!(verdict, expected(operation, effect), "{fault}: {said}");
                    struck += 1;
                }
            }
        }
        say(&format!("{ops}: {struck} faults, none silent"));
        assert!(struck > 100);
    }

    #[test]
    fn calls_of_their_own_survive_every_fault() {
        sweep("multi", ["aio_read", "aio_write", "aio_fsync"]);
    }

    #[test]
    fn lists_survive_every_fault() {
        sweep("batch", ["lio_listio", "lio_listio", "aio_fsync"]);
    }

    #[test]
    fn a_refused_engine_is_replaced_and_said_so() {
        let (said, _, fired) = case("multi", "aio_init:1:ENOSYS");
        assert_eq!((said.as_str(), fired), ("sync copied", true));
    }
}

/// Skipped visibly, so that a build without the hook doesn't look like a sweep that passed.
#[cfg(not(feature = "fault"))]
#[test]
fn the_sweep_is_built() {
    haul_testkit::skip!("needs the feature fault (cargo test --features fault)");
}
