//! Rule 9 of the contract: in-flight slots are a fixed pool; no operation allocates.
//!
//! Counted, not timed: a global allocator counts the allocations of each thread.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

mod ground;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use ground::Ground;
use haul_engine::{
    Call, CountingEngine, Done, ENGINES, Engine, EngineSetup, Null, Op, Outcome, Placement, Uring, Wait,
};
use haul_sys::{Buffer, CacheMode, Name, Open};
use haul_testkit::or_skip;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every request is passed unchanged to the system allocator, which upholds the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the requirements.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 200;

/// Checks that an operation succeeded. Returns its buffer, if any.
fn succeeded(outcome: Outcome) -> Option<Buffer> {
    match outcome {
        Outcome::Read { buffer, result } => {
            result.unwrap();
            return Some(buffer);
        }
        Outcome::Wrote { buffer, result } => {
            result.unwrap();
            return Some(buffer);
        }
        Outcome::Paired { buffer, read, written } => {
            assert_eq!(read.unwrap(), written.unwrap());
            return Some(buffer);
        }
        Outcome::Opened(result) => result.unwrap().close().unwrap(),
        Outcome::Stated(result) => drop(result.unwrap()),
        Outcome::Copied { result, .. } => drop(result.unwrap()),
        Outcome::Synchronized(result) | Outcome::Closed(result) => result.unwrap(),
    }
    None
}

/// Runs rounds of every operation. Returns the number of operations and of allocations.
fn allocations(engine: &mut dyn Engine, ground: &Ground) -> (usize, u64) {
    let source = ground.file(c"source", 1, 4096);
    let (written, copied) = (ground.target(c"written"), ground.target(c"copied"));
    let name = Name::from(c"source");
    let mut buffers: Vec<_> = (0..3).map(|_| Buffer::new(4096)).collect();
    let mut done: Vec<Done> = Vec::with_capacity(64);
    let (mut operations, mut before) = (0, 0);
    for round in 0..ROUNDS {
        if round == 1 {
            // Allocations that last may happen in the first round.
            (operations, before) = (0, ALLOCATIONS.with(Cell::get));
        }
        let [reading, writing, pairing] = std::array::from_fn(|_| buffers.pop().unwrap());
        let calls = [
            Call::Open { directory: Arc::clone(&ground.directory), name: name.clone(), how: Open::READ },
            Call::Stat { file: Arc::clone(&source) },
            Call::Read {
                file: Arc::clone(&source),
                offset: 0,
                buffer: reading,
                length: 4096,
                wait: Wait::Never,
                cache: CacheMode::Keep,
            },
            ground::write(writing, 0..4096, &written, 0),
            Call::CopyRange {
                source: Arc::clone(&source),
                target: Arc::clone(&copied),
                offset: 0,
                length: 4096,
                pipe: None,
            },
            ground::pair_through(pairing, &source, &written, 0, 4096),
            Call::Synchronize { file: Arc::clone(&written) },
            Call::Close { file: haul_sys::open(&*ground.directory, c"source", Open::READ).unwrap() },
        ];
        for call in calls {
            if engine.in_flight() == engine.caps().depth {
                engine.reap(1, &mut done).unwrap();
            }
            assert!(engine.submit(Op { token: 0, call }).is_ok());
        }
        engine.flush().unwrap();
        while engine.in_flight() > 0 {
            engine.reap(1, &mut done).unwrap();
        }
        for done in done.drain(..) {
            operations += 1;
            buffers.extend(succeeded(done.outcome));
        }
    }
    (operations, ALLOCATIONS.with(Cell::get) - before)
}

fn pin(name: &str, engine: &mut dyn Engine) {
    let ground = Ground::new();
    let (operations, allocations) = allocations(engine, &ground);
    assert_eq!(operations, 8 * (ROUNDS - 1));
    assert_eq!(allocations, 0, "{name} allocates for {operations} operations");
}

#[test]
fn line_9_no_operation_allocates() {
    for listed in ENGINES {
        let made = listed.choice.create(&EngineSetup::of_depth(16));
        if let Some(mut engine) = or_skip!(made, format_args!("the kernel refuses {}", listed.name)) {
            pin(listed.name, &mut engine);
        }
    }
    pin("null", &mut Null::new(16, 4096));
    pin("record", &mut CountingEngine::new(Null::new(16, 4096)));
}

#[test]
fn line_9_no_operation_in_a_ring_allocates() {
    for (depth, placement) in
        [(16, Placement::EVERYTHING), (2, Placement::EVERYTHING), (16, Placement::NOTHING)]
    {
        let made = Uring::with_placement(depth, placement);
        if let Some(mut engine) = or_skip!(made, "the kernel refuses a ring") {
            pin("io-uring", &mut engine);
        }
    }
}

/// With linked pairs, and with direct descriptors for files that are new in every round.
#[test]
fn line_9_nothing_that_is_asked_for_allocates() {
    for depth in [16, 2] {
        let made = Uring::with_placement(depth, Placement::EVERYTHING.with_pairs())
            .and_then(|mut engine| engine.use_direct_descriptors().map(|()| engine));
        if let Some(mut engine) = or_skip!(made, "the kernel refuses a ring") {
            pin("io-uring", &mut engine);
            assert!(engine.used().linked_pairs >= ROUNDS as u64 && engine.used().direct_descriptors > 0);
        }
    }
}

#[test]
fn the_count_counts() {
    let before = ALLOCATIONS.with(Cell::get);
    drop(std::hint::black_box(Box::new(7_u64)));
    assert_eq!(ALLOCATIONS.with(Cell::get), before + 1);
}
