//! Uses the fault hook to fail every call and completion of an engine once. The result must be a
//! correct copy or a reported error.
//!
//! The hook is configured by the environment and counts over the whole process, so each case runs
//! this test binary again, with only `one_copy`. Some faults must go unnoticed: an interrupted or
//! postponed operation is retried, a refused ring is replaced.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::ground::{pattern, read_into, say, write};
use haul_engine::{Call, Done, Engine, KernelAio, Op, Outcome, Placement, Retry, Sync, Uring};
use haul_sys::{Buffer, Errno, Error, Fd, Gather, Mode, Name, Open, Operation, Result};
use haul_testkit::skip;
use tempfile::TempDir;

const LENGTH: usize = 50_000;
const BLOCK: usize = 16_384;

/// The injected faults. The first [`ERRORS`] apply to any operation, the others to transfers.
const EFFECTS: [&str; 10] =
    ["EIO", "ENOSPC", "EINTR", "EAGAIN", "EBUSY", "ENOMEM", "EPERM", "short=0", "short=1", "short=-1"];
const ERRORS: usize = 7;

/// Copies a file through an engine and keeps the first error.
struct Copier {
    engine: Box<dyn Engine>,
    failure: Result<()>,
    /// Minimum completions per reap: 1, or 0 to poll.
    wait: usize,
    /// True to submit each read and write as a pair.
    pairs: bool,
    /// Registered buffers, one per block.
    buffers: Vec<Buffer>,
    /// Blocks of the submitted operations, indexed by token.
    pieces: Vec<Piece>,
}

struct Piece {
    offset: u64,
    /// Range of the buffer.
    range: Range<usize>,
}

impl Copier {
    fn note(&mut self, result: Result<()>) {
        if self.failure.is_ok() {
            self.failure = result;
        }
    }

    fn value<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.note(Err(error))).ok()
    }

    /// Copies `source` to `target` in the directory.
    fn copy(&mut self, directory: Fd) {
        let directory = Arc::new(directory);
        let Some(source) = self.open(&directory, c"source", Open::READ) else { return };
        if let Some(target) = self.open(&directory, c"target", Open::create(Mode::READ_WRITE)) {
            self.copy_content(&source, &target);
            match self.one(Call::Synchronize { file: Arc::clone(&target) }) {
                Outcome::Synchronized(result) => self.note(result),
                other => panic!("{other:?}"),
            }
            self.close(target);
        }
        self.close(source);
    }

    /// Performs one operation. It completes even if the ring breaks down.
    fn one(&mut self, call: Call) -> Outcome {
        self.engine.submit(Op { token: 0, call }).expect("nothing is in flight");
        let mut done = Vec::new();
        let flushed = self.engine.flush();
        self.note(flushed);
        while done.is_empty() {
            let reaped = self.engine.reap(self.wait, &mut done);
            self.note(reaped);
        }
        done.pop().unwrap().outcome
    }

    fn open(&mut self, directory: &Arc<Fd>, name: &CStr, how: Open) -> Option<Arc<Fd>> {
        let call = Call::Open { directory: Arc::clone(directory), name: Name::from(name), how };
        match self.one(call) {
            Outcome::Opened(result) => self.value(result).map(Arc::new),
            other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, file: Arc<Fd>) {
        match Arc::try_unwrap(file) {
            Ok(file) => {
                let link = format!("/proc/self/fd/{}", crate::ground::number(&file));
                let before = std::fs::read_link(&link).expect("it is open");
                match self.one(Call::Close { file }) {
                    Outcome::Closed(result) => self.note(result),
                    other => panic!("{other:?}"),
                }
                assert_ne!(std::fs::read_link(&link).ok(), Some(before), "not closed");
            }
            // Only a broken ring may keep the file, because the kernel may still use it.
            Err(_) => assert!(self.failure.is_err(), "the engine holds a file that it has given back"),
        }
    }

    /// Copies the content, with several blocks in flight. Continues after short transfers.
    fn copy_content(&mut self, source: &Arc<Fd>, target: &Arc<Fd>) {
        let size = match self.one(Call::Stat { file: Arc::clone(source) }) {
            Outcome::Stated(result) => match self.value(result) {
                Some(stat) => usize::try_from(stat.size).unwrap(),
                None => return,
            },
            other => panic!("{other:?}"),
        };
        let mut waiting: Vec<Op> = (0..size)
            .step_by(BLOCK)
            .map(|offset| self.block(source, target, offset as u64, BLOCK.min(size - offset)))
            .collect();
        let mut done = Vec::new();
        while !waiting.is_empty() || self.engine.in_flight() > 0 {
            while let Some(op) = waiting.pop() {
                if let Err(refused) = self.engine.submit(op) {
                    waiting.push(*refused);
                    break;
                }
            }
            let flushed = self.engine.flush();
            self.note(flushed);
            let reaped = self.engine.reap(self.wait, &mut done);
            self.note(reaped);
            for Done { token, outcome } in done.drain(..) {
                let Piece { offset, range } = &self.pieces[usize::try_from(token).unwrap()];
                let (offset, range) = (*offset, range.clone());
                match outcome {
                    Outcome::Read { buffer, result } => {
                        let length = self.value(result).flatten().unwrap_or(0);
                        if length == 0 {
                            // A false EOF must be reported too.
                            self.note(Err(Error::new(Operation::Read, "ended".to_owned(), Errno::IO)));
                            continue;
                        }
                        if length < range.len() {
                            let rest = self.read(source, offset + length as u64, range.len() - length);
                            waiting.push(rest);
                        }
                        waiting.push(self.write(target, offset, buffer, 0..length));
                    }
                    Outcome::Wrote { buffer, result } => {
                        if let Some(length) = self.value(result)
                            && length < range.len()
                        {
                            let rest = range.start + length..range.end;
                            waiting.push(self.write(target, offset + length as u64, buffer, rest));
                        }
                    }
                    Outcome::Paired { buffer, read, written } => {
                        let pair = (self.value(read), self.value(written));
                        waiting.extend(self.rest_of_pair(
                            (source, target),
                            offset,
                            range.len(),
                            buffer,
                            pair,
                        ));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Returns the remaining operations of a pair that read and wrote only part of `asked`.
    fn rest_of_pair(
        &mut self,
        (source, target): (&Arc<Fd>, &Arc<Fd>),
        offset: u64,
        asked: usize,
        buffer: Buffer,
        pair: (Option<usize>, Option<usize>),
    ) -> Vec<Op> {
        let (Some(read), Some(written)) = pair else { return Vec::new() };
        assert!(written <= read);
        if read == 0 {
            self.note(Err(Error::new(Operation::Read, "ended".to_owned(), Errno::IO)));
            return Vec::new();
        }
        let mut rest = Vec::new();
        if read < asked {
            rest.push(self.read(source, offset + read as u64, asked - read));
        }
        if written < read {
            rest.push(self.write(target, offset + written as u64, buffer, written..read));
        }
        rest
    }

    /// Returns the operation for a block: a read or a pair.
    fn block(&mut self, source: &Arc<Fd>, target: &Arc<Fd>, offset: u64, length: usize) -> Op {
        let mut op = self.read(source, offset, length);
        if self.pairs
            && let Call::Read { file, offset, buffer, length, cache, .. } = op.call
        {
            let target = Arc::clone(target);
            op.call = Call::Pair { source: file, target, offset, buffer, length, cache };
        }
        op
    }

    fn piece(&mut self, offset: u64, range: Range<usize>) -> u64 {
        self.pieces.push(Piece { offset, range });
        self.pieces.len() as u64 - 1
    }

    fn read(&mut self, source: &Arc<Fd>, offset: u64, length: usize) -> Op {
        let buffer = self.buffers.pop().unwrap_or_else(|| Buffer::new(BLOCK));
        Op { token: self.piece(offset, 0..length), call: read_into(buffer, source, offset as usize, length) }
    }

    fn write(&mut self, target: &Arc<Fd>, offset: u64, buffer: Buffer, range: Range<usize>) -> Op {
        Op { token: self.piece(offset, range.clone()), call: write(buffer, range, target, offset as usize) }
    }
}

/// Creates an engine and the buffers registered with it. Optional features may be refused.
fn made(kind: &str) -> (Box<dyn Engine>, Vec<Buffer>) {
    let placement = match kind {
        "ring pairs" => Placement::EVERYTHING.with_pairs(),
        _ => Placement::EVERYTHING,
    };
    let mut buffers = Vec::new();
    match kind.split(' ').next() {
        Some("retry") => return (Box::new(Retry::new(3)), buffers),
        Some("kernel-aio") => {
            return match KernelAio::new(3, Gather::One) {
                Ok(engine) => (Box::new(engine), buffers),
                Err(_) => (Box::new(Sync::new()), buffers),
            };
        }
        _ => {}
    }
    match Uring::with_placement(3, placement) {
        Ok(mut engine) if kind.contains("ring") => {
            if kind == "ring pairs" {
                buffers.resize_with(LENGTH.div_ceil(BLOCK), || Buffer::new(BLOCK));
                for refused in [engine.register(&mut buffers), engine.use_direct_descriptors()] {
                    if let Err(error) = refused {
                        assert_eq!(error.operation(), Operation::RingRegister);
                    }
                }
            }
            (Box::new(engine), buffers)
        }
        _ => (Box::new(Sync::new()), buffers),
    }
}

#[test]
#[ignore = "run by the sweep, in a process of its own"]
fn one_copy() {
    let place = PathBuf::from(std::env::var_os("HAUL_TEST_PLACE").expect("the sweep says where"));
    let kind = std::env::var("HAUL_TEST_ENGINE").unwrap();
    let (engine, buffers) = made(&kind);
    let wait = usize::from(kind != "polled ring");
    let pairs = kind.ends_with("pairs");
    let mut copier = Copier { engine, failure: Ok(()), wait, pairs, buffers, pieces: Vec::new() };
    let path = CString::new(place.as_os_str().as_bytes()).unwrap();
    match haul_sys::open_path(&path, Open::DIRECTORY) {
        Ok(directory) => copier.copy(directory),
        Err(error) => copier.note(Err(error)),
    }
    let Copier { engine, failure: outcome, .. } = copier;
    drop(engine);
    let verdict = match outcome {
        Ok(()) => "copied".to_owned(),
        Err(error) => format!("failed {error:#}"),
    };
    std::fs::write(place.join("verdict"), verdict).unwrap();
    haul_sys::fault::write_log().unwrap();
}

/// The result of one copy.
struct Case {
    verdict: String,
    identical: bool,
    log: BTreeMap<String, u64>,
    fired: bool,
}

fn case(engine: &str, fault: &str) -> Case {
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("source"), pattern(5, 0, LENGTH)).unwrap();
    let output = Command::new("timeout")
        .arg("60")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sweep::one_copy", "--ignored", "--nocapture"])
        .env("HAUL_FAULT", fault)
        .env("HAUL_FAULT_LOG", place.path().join("log"))
        .env("HAUL_TEST_PLACE", place.path())
        .env("HAUL_TEST_ENGINE", engine)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{engine} {fault}: {} {said}", output.status);
    let mut log = BTreeMap::new();
    let mut fired = false;
    for line in read(place.path(), "log").lines() {
        match line.split_once(' ').unwrap() {
            ("fired", _) => fired = true,
            (operation, count) => drop(log.insert(operation.to_owned(), count.parse().unwrap())),
        }
    }
    let target = std::fs::read(place.path().join("target")).unwrap_or_default();
    Case { verdict: read(place.path(), "verdict"), identical: target == pattern(5, 0, LENGTH), log, fired }
}

fn read(place: &Path, name: &str) -> String {
    std::fs::read_to_string(place.join(name)).unwrap()
}

/// The required result of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// A correct copy: the fault goes unnoticed.
    Copied,
    /// A reported error.
    Failed,
    /// Either of the two.
    Either,
}

fn expected(engine: &str, operation: &str, effect: &str) -> Expected {
    match (operation, effect) {
        // Never retried, so even EINTR is its result.
        ("close", _) => Expected::Failed,
        // The engine is replaced, or has already finished its work.
        ("io_setup" | "eventfd2" | "io_destroy", _) => Expected::Copied,
        // A rejected operation is performed synchronously.
        ("io_submit", _) | ("io_getevents", "EAGAIN" | "EBUSY") => Expected::Copied,
        ("io_getevents", effect) if effect != "EINTR" => Expected::Either,
        // These engines perform most other operations synchronously, where `EAGAIN` is an ordinary
        // error. The engine also copes with a nonblocking read that seccomp forbids.
        ("read", "EAGAIN" | "EPERM" | "ENOSYS") if engine.contains("retry") => Expected::Copied,
        ("read" | "write" | "fsync", "EAGAIN") if engine.contains("kernel-aio") => Expected::Copied,
        (_, "EINTR") | ("io_uring_setup", _) | ("io_uring_enter", "EAGAIN" | "EBUSY") => Expected::Copied,
        // A partly submitted chain is repaired, because this copy never asks for bytes beyond EOF.
        ("io_uring_enter", effect) if effect.starts_with("short=") => Expected::Copied,
        ("io_uring_enter" | "io_uring_register", _) => Expected::Either,
        (_, "EAGAIN") if engine.contains("ring") => Expected::Copied,
        ("read", "short=0") => Expected::Failed,
        (_, effect) if effect.starts_with("short=") => Expected::Copied,
        _ => Expected::Failed,
    }
}

fn sweep(engine: &str) {
    let clean = case(engine, "count");
    assert!(clean.verdict == "copied" && clean.identical && !clean.fired);
    for (call, user) in [("io_uring_enter", "ring"), ("io_getevents", "kernel-aio")] {
        assert_eq!(clean.log.contains_key(call), engine.contains(user), "{:?}", clean.log);
    }
    let (mut copied, mut failed) = (0, 0);
    for (operation, count) in &clean.log {
        let transfers = matches!(operation.as_str(), "read" | "write" | "io_uring_enter");
        for effect in &EFFECTS[..if transfers { EFFECTS.len() } else { ERRORS }] {
            // The first open, of the directory, doesn't go through the engine.
            let first = if operation == "openat" { 2 } else { 1 };
            for occurrence in first..=*count {
                let fault = format!("{operation}:{occurrence}:{effect}");
                let case = case(engine, &fault);
                let waits = matches!(operation.as_str(), "io_uring_enter" | "io_getevents");
                if !case.fired && waits && occurrence > 5 {
                    // The number of waits depends on the kernel's speed; this run needed fewer.
                    assert!(case.verdict == "copied" && case.identical && case.log[operation] < occurrence);
                    continue;
                }
                assert!(case.fired, "{engine} {fault}: the fault never struck");
                let verdict = match case.verdict.as_str() {
                    "copied" => Expected::Copied,
                    _ => Expected::Failed,
                };
                assert!(verdict == Expected::Failed || case.identical, "{engine} {fault}: lost in silence");
                if operation != "io_uring_enter"
                    && effect.starts_with("short=")
                    && verdict == Expected::Copied
                {
                    assert!(case.log[operation] > *count, "{engine} {fault}: no transfer went on after it");
                }
                let expected = expected(engine, operation, effect);
                assert!(
                    expected == verdict || expected == Expected::Either,
                    "{engine} {fault}: {expected:?} was due, not: {}",
                    case.verdict
                );
                *if verdict == Expected::Copied { &mut copied } else { &mut failed } += 1;
            }
        }
    }
    say(&format!("{engine}: {copied} faults got over, {failed} reported, none silent"));
    assert!(copied > 20 && failed > 20);
}

#[test]
fn sync_survives_every_fault() {
    sweep("sync");
    sweep("sync pairs");
}

#[test]
fn a_ring_survives_every_fault() {
    if let Err(error) = Uring::with_placement(3, Placement::EVERYTHING) {
        skip!("the kernel refuses a ring: {error:#}");
    }
    sweep("ring");
    sweep("ring pairs");
    // Retries make progress even if the caller only polls and never waits.
    for operation in ["statx:1", "read:1", "fsync:1"] {
        let polled = case("polled ring", &format!("{operation}:EAGAIN"));
        assert!(polled.fired && polled.verdict == "copied" && polled.identical, "{}", polled.verdict);
    }
    // A kernel that doesn't know the newest flag still gets a ring, without the flag.
    let older = case("ring", "io_uring_setup:1:EINVAL");
    assert_eq!((older.verdict.as_str(), older.identical, older.log["io_uring_setup"]), ("copied", true, 2));
    assert!(older.log.contains_key("io_uring_enter"), "it fell back to sync");
}

#[test]
fn retry_survives_every_fault() {
    sweep("retry");
    sweep("retry pairs");
}

#[test]
fn kernel_aio_survives_every_fault() {
    if let Err(error) = KernelAio::new(3, Gather::One) {
        skip!("the kernel refuses AIO: {error:#}");
    }
    sweep("kernel-aio");
    sweep("kernel-aio pairs");
    for fault in ["io_setup:1:EAGAIN", "io_setup:2:EAGAIN", "eventfd2:1:EMFILE"] {
        let refused = case("kernel-aio", fault);
        assert!(refused.fired && refused.verdict == "copied" && refused.identical, "{}", refused.verdict);
        assert!(!refused.log.contains_key("io_submit"), "it did not fall back to sync");
        // The first context is destroyed if the second can't be created.
        assert_eq!(refused.log.contains_key("io_destroy"), fault.starts_with("io_setup:2"));
    }
}
