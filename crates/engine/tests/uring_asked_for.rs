//! The io_uring engine's optional features are used if requested, and only then. Checked
//! by its counts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ground;

use std::ffi::CString;
use std::sync::Arc;

use ground::{Ground, pair_through, pattern};
use haul_engine::{
    Call, CountingEngine, Done, Engine, EngineChoice, EngineSetup, FaultRates, Faulty, Op, Ops, Outcome,
    Uring, Used, make,
};
use haul_sys::{Advice, Buffer, Fd};
use haul_testkit::{or_skip, skip};

/// The file length is not a multiple of the block, and its last block is not a multiple of a page.
const LENGTH: usize = 200_000;
const BLOCK: usize = 64 << 10;
const BLOCKS: u64 = 4;

/// Creates the engine, or records a skip.
fn made(setup: &EngineSetup) -> Option<Uring> {
    or_skip!(Uring::with_setup(setup), "the kernel refuses a ring")
}

/// Creates a file that is on disk but not in the page cache.
fn cold(ground: &Ground, name: &str, seed: u64) -> Arc<Fd> {
    let file = ground.file(&CString::new(name).unwrap(), seed, LENGTH);
    haul_sys::synchronize(&*file).unwrap();
    haul_sys::advise(&*file, Advice::DontNeed, 0).unwrap();
    file
}

/// Copies a file with all its pairs in flight, and closes both files. Recycles the buffers.
fn copy(engine: &mut dyn Engine, ground: &Ground, round: u64, flushing: bool, buffers: &mut Vec<Buffer>) {
    let name = format!("target{round}");
    let source = cold(ground, &format!("source{round}"), round);
    let target = ground.target(&CString::new(name.as_str()).unwrap());
    for offset in (0..LENGTH).step_by(BLOCK) {
        let mut buffer = buffers.pop().unwrap();
        // Filler that exposes a write that overtakes its read.
        buffer.bytes_mut().fill(0xaa);
        let length = BLOCK.min(LENGTH - offset);
        let call = pair_through(buffer, &source, &target, offset, length);
        engine.submit(Op { token: length as u64, call }).unwrap();
    }
    if flushing {
        engine.flush().unwrap();
    }
    let mut done: Vec<Done> = Vec::new();
    engine.reap(engine.in_flight(), &mut done).unwrap();
    assert_eq!(done.len() as u64, BLOCKS);
    for Done { token, outcome } in done {
        let Outcome::Paired { buffer, read, written } = outcome else { panic!("{outcome:?}") };
        assert_eq!((read.unwrap() as u64, written.unwrap() as u64), (token, token));
        buffers.push(buffer);
    }
    for file in [source, target] {
        let file = Arc::into_inner(file).expect("the engine holds a file that it has given back");
        let outcome = ground::run_one(engine, Call::Close { file });
        assert!(matches!(outcome, Outcome::Closed(Ok(()))), "{outcome:?}");
    }
    assert!(ground.content(&name) == pattern(round, 0, LENGTH), "round {round}");
}

#[test]
fn pairs_registered_buffers_and_direct_descriptors_are_used_when_asked_for() {
    let ground = Ground::new();
    let setup = EngineSetup { ops: Some(Ops::Multi), direct_descriptors: true, ..EngineSetup::of_depth(8) };
    let Some(mut engine) = made(&setup) else { return };
    assert!(engine.caps().pairs);
    let mut buffers: Vec<_> = (0..BLOCKS).map(|_| Buffer::new(BLOCK)).collect();
    engine.register(&mut buffers).unwrap();
    let rounds = 25;
    for round in 0..rounds {
        copy(&mut engine, &ground, round, true, &mut buffers);
    }
    let Used { linked_pairs, registered_buffers, direct_descriptors, .. } = engine.used();
    let pairs = rounds * BLOCKS;
    assert_eq!((linked_pairs, registered_buffers, direct_descriptors), (pairs, 2 * pairs, 2 * pairs));
}

#[test]
fn nothing_of_it_is_used_otherwise() {
    let ground = Ground::new();
    let Some(mut engine) = made(&EngineSetup::of_depth(8)) else { return };
    assert!(!engine.caps().pairs);
    let mut buffers: Vec<_> = (0..BLOCKS).map(|_| Buffer::new(BLOCK)).collect();
    copy(&mut engine, &ground, 0, true, &mut buffers);
    assert_eq!(engine.used(), Used::default());
}

#[test]
fn a_batch_is_passed_on_and_waited_for_in_one_call() {
    let ground = Ground::new();
    let setup = EngineSetup { ops: Some(Ops::Batch), ..EngineSetup::of_depth(8) };
    let Some(mut engine) = made(&setup) else { return };
    let mut buffers: Vec<_> = (0..BLOCKS).map(|_| Buffer::new(BLOCK)).collect();
    let (mut before, mut single) = (0, 0);
    for round in 0..10 {
        copy(&mut engine, &ground, round, false, &mut buffers);
        let calls = engine.used().calls;
        single += u32::from(calls == before + 1);
        before = calls;
    }
    // On a busy machine an interrupted wait takes a second call, but rarely.
    assert!(single > 5, "{single} of 10 batches took one call");
}

#[test]
fn the_counts_are_those_of_the_engine_inside() {
    let ground = Ground::new();
    let setup = EngineSetup { ops: Some(Ops::Batch), direct_descriptors: true, ..EngineSetup::of_depth(8) };
    let made = make(EngineChoice::Uring, &setup);
    if let Some(note) = made.note {
        skip!("{note}");
    }
    let none = FaultRates { seed: 1, errors: 0, shorts: 0, delays: 0, reorder: false };
    let mut engine: Box<dyn Engine> = Box::new(CountingEngine::new(Faulty::new(made.engine, none)));
    let mut buffers: Vec<_> = (0..BLOCKS).map(|_| Buffer::new(BLOCK)).collect();
    engine.register(&mut buffers).unwrap();
    copy(&mut engine, &ground, 0, false, &mut buffers);
    let (linked_pairs, moved) = (BLOCKS, 2 * BLOCKS);
    // The test above checks the number of calls.
    let calls = engine.used().calls;
    assert!(calls >= 1);
    let expected = Used { linked_pairs, registered_buffers: moved, direct_descriptors: moved, calls };
    assert_eq!(engine.used(), expected);
}
