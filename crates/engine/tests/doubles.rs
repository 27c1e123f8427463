//! Tests of the test doubles.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ground;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ground::{Ground, read, run, run_one, write};
use haul_engine::{Call, CountingEngine, Done, Engine, FaultRates, Faulty, Null, Op, Outcome, Sync, Wait};
use haul_sys::{Buffer, CacheMode, FileType, Operation};

fn reads(ground: &Ground, count: u64) -> Vec<Op> {
    let file = ground.file(c"source", 1, 1000);
    (0..count).map(|token| read(token, &file, 0, 1000)).collect()
}

#[test]
fn null_reads_zeros_up_to_the_size_and_forgets_what_is_written() {
    let ground = Ground::new();
    let file = ground.target(c"target");
    let mut engine = Null::new(4, 6000);
    let Outcome::Stated(Ok(stat)) = run_one(&mut engine, Call::Stat { file: Arc::clone(&file) }) else {
        panic!("no look")
    };
    assert_eq!((stat.kind, stat.size), (FileType::Regular, 6000));
    for (offset, expected) in [(0, 4096), (4096, 1904), (6000, 0), (9000, 0)] {
        let mut buffer = Buffer::new(4096);
        buffer.bytes_mut().fill(7);
        let (file, wait, cache) = (Arc::clone(&file), Wait::Never, CacheMode::Keep);
        let call = Call::Read { file, offset, buffer, length: 4096, wait, cache };
        let Outcome::Read { buffer, result } = run_one(&mut engine, call) else { panic!("no read") };
        assert_eq!(result, Ok(Some(expected)));
        assert!(buffer.bytes()[..expected].iter().all(|byte| *byte == 0));
        assert!(buffer.bytes()[expected..].iter().all(|byte| *byte == 7));
    }
    let call = write(Buffer::new(4096), 5..4096, &file, 0);
    assert!(matches!(run_one(&mut engine, call), Outcome::Wrote { result: Ok(4091), .. }));
    assert_eq!(ground.content("target"), b"");
}

#[test]
fn record_counts_what_was_taken_and_not_what_was_refused() {
    let ground = Ground::new();
    let mut engine = CountingEngine::new(Sync::new());
    let tally = engine.tally();
    for op in reads(&ground, 5) {
        engine.submit(op).unwrap();
        engine.submit(reads(&ground, 1).remove(0)).unwrap_err();
        engine.flush().unwrap();
        engine.reap(1, &mut Vec::new()).unwrap();
    }
    assert_eq!((tally.taken(Operation::Read), tally.taken(Operation::Write), tally.total()), (5, 0, 5));
    assert_eq!((tally.flushes(), tally.reaps()), (5, 5));
}

fn rates(seed: u64) -> FaultRates {
    FaultRates { seed, errors: 200, shorts: 300, delays: 300, reorder: true }
}

fn outcomes(seed: u64) -> (Vec<String>, u64) {
    let ground = Ground::new();
    let mut engine = Faulty::new(Null::new(8, 1000), rates(seed));
    let struck = engine.fault_count();
    let word = |done: Done| format!("{} {:?}", done.token, done.outcome);
    let words = run(&mut engine, reads(&ground, 400)).into_iter().map(word).collect();
    (words, struck.load(Ordering::Relaxed))
}

#[test]
fn faulty_injects_the_same_faults_for_the_same_seed() {
    let (first, struck) = outcomes(1);
    assert_eq!(first.len(), 400);
    assert!((100..300).contains(&struck), "{struck} of 400, where about 180 were due");
    assert_eq!(outcomes(1), (first.clone(), struck));
    assert_ne!(outcomes(2).0, first);
    let tokens: Vec<u64> =
        first.iter().map(|word| word.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(!tokens.is_sorted(), "nothing was reordered");
    assert!(!first.iter().any(|word| word.ends_with("result: Ok(Some(0)) }")), "the end of a file, invented");
}

#[test]
fn faulty_without_faults_changes_nothing() {
    let ground = Ground::new();
    let none = FaultRates { seed: 1, errors: 0, shorts: 0, delays: 0, reorder: false };
    let mut engine = Faulty::new(Null::new(8, 1000), none);
    let done = run(&mut engine, reads(&ground, 100));
    assert!(done.iter().map(|done| done.token).eq(0..100));
    assert!(done.iter().all(|done| matches!(done.outcome, Outcome::Read { result: Ok(Some(1000)), .. })));
}
