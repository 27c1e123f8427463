//! The engine contract: one test per rule, for every engine in the list, at queue depths 1, 2, 8
//! and 256, both plain and wrapped in `faulty`.
//!
//! The rules are listed in the crate's documentation. Rule 9 (no allocation) is tested in
//! `allocation.rs`, which needs its own global allocator. Tests of an engine that this kernel
//! refuses are skipped, with the reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ground;
mod pairs;
mod registered;
mod subject;

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::{
    Ground, address, duplicate, insist, operation_of, pair_through, pattern, read, read_into, run, run_one,
    write,
};
use haul_engine::{Call, Engine, Op, Outcome, Wait};
use haul_sys::{Buffer, CacheMode, Errno, Fd, Name, Open, Operation, Pipe, Result};
use haul_testkit::random::{Rng, seeded};
use pairs::line_10_a_pair_writes_what_it_has_read;
use subject::Subject;

macro_rules! lines {
    ($made:expr, $faulty:literal: $($line:ident)+) => {
        $(#[test]
        fn $line() {
            let name = concat!(module_path!(), "::", stringify!($line));
            if let Some(subject) = crate::subject::subject($made, $faulty, name) {
                crate::$line(subject);
            }
        })+
    };
    ($made:expr, $faulty:literal) => {
        lines! { $made, $faulty:
            line_1_accepted_operations_come_back_once_with_their_buffers
            line_2_a_refused_operation_is_handed_back_untouched
            line_3_what_is_not_native_is_done_in_place
            line_4_short_transfers_are_reported
            line_5_outcomes_belong_to_tokens_not_to_an_order
            line_6_a_close_always_runs
            line_7_synchronize_and_close_have_results
            line_8_drop_waits_or_leaks
            line_10_a_pair_writes_what_it_has_read
        }
    };
}

macro_rules! plain_and_faulty {
    ($made:expr) => {
        mod plain {
            lines! { $made, false }
        }
        mod faulty {
            lines! { $made, true }
        }
    };
}

macro_rules! contract {
    ($($depth:literal $name:ident),+) => {
        $(mod $name {
            plain_and_faulty! { super::super::made($depth) }
        })+
    };
    ($($module:ident $engine:ident $about:literal;)+) => {
        $(mod $module {
            fn made(depth: usize) -> haul_sys::Result<Box<dyn haul_engine::Engine>> {
                crate::subject::listed(haul_engine::EngineChoice::$engine, depth)
            }
            contract! { 1 depth_1, 2 depth_2, 8 depth_8, 256 depth_256 }
        })+
    };
}

haul_engine::engines!(contract);

/// Submits every supported operation to the ring, regardless of measurements.
mod io_uring_for_everything {
    plain_and_faulty! { crate::subject::placed(haul_engine::Placement::EVERYTHING) }
}

/// Submits everything, with linked pairs.
mod io_uring_pairs {
    plain_and_faulty! { crate::subject::placed(haul_engine::Placement::EVERYTHING.with_pairs()) }
}

/// Everything and pairs, with only registered buffers.
mod io_uring_registered_buffers {
    plain_and_faulty! { crate::subject::registered() }
}

/// Everything and pairs, with direct descriptors; files are closed in the ring and synchronously.
mod io_uring_direct_descriptors {
    use haul_sys::Operation;

    plain_and_faulty! { crate::subject::direct(haul_engine::Placement::EVERYTHING.with_pairs()) }
    mod closed_in_place {
        lines! {
            crate::subject::direct(haul_engine::Placement::EVERYTHING.with_pairs().without(super::Operation::Close)), false
        }
    }
}

/// The configuration of `--ops` and the related switches.
mod io_uring_asked_for {
    plain_and_faulty! { crate::subject::asked_for() }
}

/// Every operation synchronous.
mod io_uring_for_nothing {
    plain_and_faulty! { crate::subject::placed(haul_engine::Placement::NOTHING) }
}

const FILES: u64 = 8;
const FILE_BYTES: usize = 20_000;

fn line_1_accepted_operations_come_back_once_with_their_buffers(mut subject: Subject) {
    let ground = Ground::new();
    let mut random = seeded(subject.seed);
    let names: Vec<_> = (0..FILES).map(|n| CString::new(format!("file{n}")).unwrap()).collect();
    let sources: Vec<_> = (0..FILES).map(|n| ground.file(&names[n as usize], n, FILE_BYTES)).collect();
    let (written, copied) = (ground.target(c"written"), ground.target(c"copied"));
    let paired: Vec<_> =
        (0..FILES).map(|n| ground.target(&CString::new(format!("pair{n}")).unwrap())).collect();
    let mut expected = HashMap::new();
    let mut ops = Vec::new();
    for token in 0..3000_u64 {
        let which = random.random_range(0..FILES) as usize;
        let file = Arc::clone(&sources[which]);
        let offset = random.random_range(0..FILE_BYTES + 100);
        let length = random.random_range(0..=8192);
        let (buffer, directory) = (Buffer::new(8192), Arc::clone(&ground.directory));
        let mark = address(&buffer);
        let call = match random.random_range(0..16) {
            0..2 => Call::Open { directory, name: Name::from(names[which].as_c_str()), how: Open::READ },
            2..4 => Call::Stat { file },
            4..9 => read_into(buffer, &file, offset, length),
            9..12 => write(buffer, 100..100 + length.min(8000), &written, offset),
            12 => pair_through(buffer, &file, &paired[which], offset, length),
            13 => {
                let (target, offset) = (Arc::clone(&copied), offset as u64);
                let pipe = random.random::<bool>().then(|| Pipe::new(1 << 16).unwrap());
                Call::CopyRange { source: file, target, offset, length, pipe }
            }
            14 => {
                Call::Close { file: haul_sys::open(&*ground.directory, &names[which], Open::READ).unwrap() }
            }
            _ => Call::Synchronize { file: Arc::clone(&copied) },
        };
        expected.insert(token, (call.operation(), mark, which as u64, offset, length));
        ops.push(Op { token, call });
    }
    for done in run(&mut *subject.engine, ops) {
        let asked = expected.remove(&done.token).expect("a token came back twice");
        belongs(&subject, done.outcome, asked);
    }
    assert!(expected.is_empty(), "never came back: {expected:?}");
    subject.assert_faults_were_injected();
}

/// Operation, buffer address, file index, offset and length of a request.
type Asked = (Operation, usize, u64, usize, usize);

/// Checks that the outcome matches the request and has its buffer.
fn belongs(subject: &Subject, outcome: Outcome, (operation, mark, which, offset, length): Asked) {
    assert_eq!(operation_of(&outcome), operation);
    let has_read = |buffer: Buffer, got: usize| {
        assert_eq!(address(&buffer), mark, "another buffer came back");
        let whole = length.min(FILE_BYTES.saturating_sub(offset));
        assert!(got <= whole && (got == whole || !subject.is_plain()));
        assert_eq!(buffer.bytes()[..got], pattern(which, offset, got));
    };
    match outcome {
        Outcome::Paired { buffer, read, written } => {
            let got = check(subject, read).unwrap_or(0);
            assert!(check(subject, written).unwrap_or(0) <= got);
            has_read(buffer, got);
        }
        Outcome::Read { buffer, result } => has_read(buffer, check(subject, result).flatten().unwrap_or(0)),
        Outcome::Wrote { buffer, result } => {
            assert_eq!(address(&buffer), mark, "another buffer came back");
            check(subject, result);
        }
        Outcome::Stated(result) => {
            assert!(check(subject, result).is_none_or(|stat| stat.size == FILE_BYTES as u64));
        }
        Outcome::Opened(result) => drop(check(subject, result)),
        Outcome::Copied { result, .. } => drop(check(subject, result)),
        Outcome::Synchronized(result) | Outcome::Closed(result) => drop(check(subject, result)),
    }
}

/// Returns the value, which a plain engine must have.
fn check<T>(subject: &Subject, result: Result<T>) -> Option<T> {
    assert!(!subject.is_plain() || result.is_ok(), "{:?}", result.err());
    result.ok()
}

fn line_2_a_refused_operation_is_handed_back_untouched(mut subject: Subject) {
    let ground = Ground::new();
    let file = ground.file(c"source", 1, FILE_BYTES);
    let engine = &mut *subject.engine;
    let depth = engine.caps().depth;
    let read = |token| Op { token, call: read_into(Buffer::new(4096), &file, 7, 1234) };
    for token in 0..depth as u64 {
        engine.submit(read(token)).expect("it is not full");
        assert_eq!(engine.in_flight(), token as usize + 1);
    }
    let mut op = read(9999);
    let Call::Read { buffer, .. } = &mut op.call else { unreachable!() };
    buffer.bytes_mut()[4095] = 42;
    let mark = address(buffer);
    let refused = engine.submit(op).expect_err("it is full");
    assert_eq!((refused.token, engine.in_flight()), (9999, depth));
    let Call::Read {
        file: same,
        offset: 7,
        buffer,
        length: 1234,
        wait: Wait::Allowed,
        cache: CacheMode::Keep,
    } = &refused.call
    else {
        panic!("changed: {refused:?}");
    };
    assert!(Arc::ptr_eq(same, &file));
    assert_eq!((address(buffer), buffer.bytes()[4095]), (mark, 42));
    let mut done = Vec::new();
    engine.reap(1, &mut done).unwrap();
    assert!(!done.is_empty());
    engine.submit(*refused).expect("there is room again");
    engine.reap(engine.in_flight(), &mut done).unwrap();
    assert_eq!(done.iter().filter(|done| done.token == 9999).count(), 1);
    assert_eq!((done.len(), engine.in_flight()), (depth + 1, 0));
}

fn line_3_what_is_not_native_is_done_in_place(mut subject: Subject) {
    let ground = Ground::new();
    let source = ground.file(c"source", 1, FILE_BYTES);
    let engine = &mut *subject.engine;
    for through_pipe in [false, true] {
        let target = ground.target(c"target");
        let mut copied = 0;
        while copied < FILE_BYTES {
            copied += insist(
                engine,
                || Call::CopyRange {
                    source: Arc::clone(&source),
                    target: Arc::clone(&target),
                    offset: copied as u64,
                    length: FILE_BYTES - copied,
                    pipe: through_pipe.then(|| Pipe::new(1 << 16).unwrap()),
                },
                |outcome| match outcome {
                    Outcome::Copied { result, .. } => result.ok(),
                    other => panic!("{other:?}"),
                },
            );
        }
        assert_eq!(ground.content("target"), pattern(1, 0, FILE_BYTES));
        ground.remove("target");
    }
    let file = Arc::new(haul_sys::open(&*ground.directory, c"source", Open::READ).unwrap());
    let mut read = Vec::new();
    while read.len() < FILE_BYTES {
        read.extend(insist(
            engine,
            || Call::ReadStream { file: Arc::clone(&file), buffer: Buffer::new(4096), length: 3000 },
            |outcome| match outcome {
                Outcome::Read { buffer, result } => Some(buffer.bytes()[..result.ok()??].to_vec()),
                other => panic!("{other:?}"),
            },
        ));
    }
    assert_eq!(read, pattern(1, 0, FILE_BYTES));
    for (name, how) in [(c"source", Open::READ), (c"made", Open::create(haul_sys::Mode::READ_WRITE))] {
        let file = insist(
            engine,
            || ground.open(0, name, how).call,
            |outcome| match outcome {
                Outcome::Opened(result) => result.ok(),
                other => panic!("{other:?}"),
            },
        );
        let file = Arc::new(file);
        let stat = insist(
            engine,
            || Call::Stat { file: Arc::clone(&file) },
            |outcome| match outcome {
                Outcome::Stated(result) => result.ok(),
                other => panic!("{other:?}"),
            },
        );
        let known = haul_sys::stat(&*file).unwrap();
        assert_eq!((stat.identity, stat.size, stat.mode), (known.identity, known.size, known.mode));
        assert_eq!((stat.modified, stat.blocks, stat.links), (known.modified, known.blocks, known.links));
    }
}

fn line_4_short_transfers_are_reported(mut subject: Subject) {
    let ground = Ground::new();
    let file = ground.file(c"source", 1, FILE_BYTES);
    let plain = subject.is_plain();
    let engine = &mut *subject.engine;
    let mut at = |offset: usize, length| {
        insist(
            engine,
            || read_into(Buffer::new(8192), &file, offset, length),
            |outcome| match outcome {
                Outcome::Read { buffer, result } => result.ok().flatten().map(|length| (buffer, length)),
                other => panic!("{other:?}"),
            },
        )
    };
    let (buffer, length) = at(FILE_BYTES - 100, 8192);
    assert!(length <= 100 && (length == 100 || !plain), "{length}");
    assert_eq!(buffer.bytes()[..length], pattern(1, FILE_BYTES - 100, length));
    assert_eq!(at(FILE_BYTES, 8192).1, 0, "0 is the end of the file");
    assert_eq!(at(0, 0).1, 0);
    let mut offset = 0;
    while offset < FILE_BYTES {
        let (buffer, length) = at(offset, 300);
        assert!(length > 0, "0 is reported only at the end of the file");
        assert_eq!(buffer.bytes()[..length], pattern(1, offset, length));
        offset += length;
    }
    subject.assert_faults_were_injected();
}

fn line_5_outcomes_belong_to_tokens_not_to_an_order(mut subject: Subject) {
    let ground = Ground::new();
    let engine = &mut *subject.engine;
    let depth = engine.caps().depth;
    for round in 0..40 {
        let name = CString::new(format!("round{round}")).unwrap();
        let file = ground.file(&name, round, depth * 64);
        let mut seen = vec![false; depth];
        let reads = (0..depth).rev().map(|token| read(token as u64, &file, token * 64, 64));
        for done in run(engine, reads) {
            let Outcome::Read { buffer, result } = done.outcome else { panic!("{done:?}") };
            let length = result.ok().flatten().unwrap_or(0);
            assert_eq!(buffer.bytes()[..length], pattern(round, done.token as usize * 64, length));
            assert!(!std::mem::replace(&mut seen[done.token as usize], true));
        }
        assert!(seen.iter().all(|seen| *seen));
    }
    subject.assert_faults_were_injected();
}

/// Returns true if no writer has the FIFO open.
fn ended(reader: &Fd) -> bool {
    match duplicate(reader).read(&mut [0; 8]) {
        Ok(0) => true,
        Ok(_) => panic!("nobody wrote"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

fn line_6_a_close_always_runs(mut subject: Subject) {
    let ground = Ground::new();
    for round in 0..60 {
        let name = CString::new(format!("fifo{round}")).unwrap();
        let fifo = ground.fifo(&name);
        assert!(!ended(&fifo.reader));
        let outcome = run_one(&mut *subject.engine, Call::Close { file: fifo.writer });
        let Outcome::Closed(result) = outcome else { panic!("{outcome:?}") };
        check(&subject, result);
        assert!(ended(&fifo.reader), "the descriptor is still open");
    }
    // The engine may hold other references to a file it has written, besides its descriptor.
    for round in 0..20 {
        let fifo = ground.fifo(&CString::new(format!("written{round}")).unwrap());
        let writer = Arc::new(fifo.writer);
        insist(
            &mut *subject.engine,
            || write(Buffer::new(4096), 0..1, &writer, 0),
            |outcome| match outcome {
                Outcome::Wrote { result: Ok(1), .. } => Some(()),
                // A FIFO has no offsets, which an engine may report after it has touched the file.
                Outcome::Wrote { result: Err(error), .. } => error.is(Errno::SPIPE).then_some(()),
                other => panic!("{other:?}"),
            },
        );
        let file = Arc::into_inner(writer).expect("the engine holds a file that it has given back");
        let outcome = run_one(&mut *subject.engine, Call::Close { file });
        let Outcome::Closed(result) = outcome else { panic!("{outcome:?}") };
        // If `faulty` fails a close, the engine doesn't see it.
        if check(&subject, result).is_some() {
            drop(duplicate(&fifo.reader).read(&mut [0; 8]));
            assert!(ended(&fifo.reader), "the file is still open");
        }
    }
    subject.assert_faults_were_injected();
    // Not reaped, not flushed.
    let fifo = ground.fifo(c"dropped");
    subject.engine.submit(Op { token: 1, call: Call::Close { file: fifo.writer } }).unwrap();
    drop(subject);
    assert!(ended(&fifo.reader), "drop left the descriptor open");
}

fn line_7_synchronize_and_close_have_results(mut subject: Subject) {
    let ground = Ground::new();
    let target = ground.target(c"target");
    let engine = &mut *subject.engine;
    insist(
        engine,
        || Call::Synchronize { file: Arc::clone(&target) },
        |outcome| match outcome {
            Outcome::Synchronized(result) => result.ok(),
            other => panic!("{other:?}"),
        },
    );
    // A FIFO can't be synced. The error must name the failed call.
    let reader = Arc::new(ground.fifo(c"fifo").reader);
    let error = insist(
        engine,
        || Call::Synchronize { file: Arc::clone(&reader) },
        |outcome| match outcome {
            Outcome::Synchronized(Err(error)) => error.is(Errno::INVAL).then_some(error),
            other => panic!("{other:?}"),
        },
    );
    assert_eq!(error.operation(), Operation::Fsync);
    assert_eq!(format!("{error:#}"), format!("fsync({}) = -1 (Invalid argument)", ground::number(&reader)));
    // Failed closes are tested with the fault hook in `faults/`. Here, each close must
    // have a result.
    for _ in 0..20 {
        let file = haul_sys::open(&*ground.directory, c"target", Open::WRITE).unwrap();
        let Outcome::Closed(result) = run_one(&mut *subject.engine, Call::Close { file }) else {
            panic!("not a close")
        };
        check(&subject, result);
    }
}

fn line_8_drop_waits_or_leaks(mut subject: Subject) {
    let ground = Ground::new();
    let fifo = ground.fifo(c"fifo");
    let (reader, held) = (Arc::new(fifo.reader), Arc::clone(&ground.directory));
    let file = ground.file(c"source", 1, FILE_BYTES);
    for token in 0..subject.engine.caps().depth as u64 {
        let (file, offset) = if token % 2 == 0 { (&reader, 0) } else { (&file, token as usize) };
        subject.engine.submit(read(token, file, offset, 4096)).unwrap();
    }
    subject.engine.flush().unwrap();
    let began = Instant::now();
    drop(subject);
    assert!(began.elapsed() < Duration::from_secs(20), "drop took {:?}", began.elapsed());
    assert_eq!(
        (Arc::strong_count(&reader), Arc::strong_count(&file)),
        (1, 1),
        "it leaked, on its own thread"
    );
    // A read still in the kernel would consume these bytes.
    duplicate(&fifo.writer).write_all(b"mine").unwrap();
    let mut bytes = [0; 16];
    assert_eq!(duplicate(&reader).read(&mut bytes).unwrap(), 4);
    assert_eq!(&bytes[..4], b"mine");
    drop(held);
}

/// If a sandbox refuses rings, every ring test must be recorded as skipped, not pass.
#[test]
fn without_rings_each_test_of_them_is_a_recorded_skip() {
    let program = std::env::current_exe().unwrap();
    let tests = |run: haul_testkit::TestRun| run.args(["io_uring", "--test-threads=1"]);
    let list = tests(haul_testkit::TestRun::new(&program)).arg("--list").finish().unwrap().printed();
    let names: BTreeSet<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(names.len() > 80, "{list}");
    for errno in [libc::EPERM, libc::ENOSYS] {
        let skips = tempfile::NamedTempFile::new().unwrap();
        let run = tests(haul_testkit::TestRun::new(&program)).without_io_uring(errno);
        let outcome = run.env("HAUL_SKIPS", skips.path()).finish().unwrap();
        assert!(outcome.succeeded(), "{}", outcome.printed());
        let recorded = std::fs::read_to_string(skips.path()).unwrap();
        let skipped: BTreeSet<&str> = recorded.lines().filter_map(skipped_test).collect();
        assert_eq!(skipped, names);
    }
}

/// Returns the test named by a skip record, if it was skipped for lack of a ring.
fn skipped_test(line: &str) -> Option<&str> {
    let (test, reason) = line.strip_prefix("SKIPPED haul-engine/contract::")?.split_once(": ")?;
    reason.contains("io_uring_setup").then_some(test)
}
