//! Counting an engine's calls by kind, around any engine.
//!
//! For tests that pin what a file costs: they count, and so do not depend on a clock. The counts outlive the engine and
//! can be read while a worker has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sys::{Buffer, Operation, Result};

use crate::{Caps, Done, Engine, Op, Used};

/// Counts what passes through an engine.
pub struct Record<E> {
    engine: E,
    tally: Arc<Tally>,
}

/// How often each operation was taken, and how often the engine was flushed and reaped.
#[derive(Debug)]
pub struct Tally {
    operations: [AtomicU64; Operation::ALL.len()],
    flushes: AtomicU64,
    reaps: AtomicU64,
}

impl Tally {
    fn new() -> Self {
        Self {
            operations: std::array::from_fn(|_| AtomicU64::new(0)),
            flushes: AtomicU64::new(0),
            reaps: AtomicU64::new(0),
        }
    }

    /// Returns how many operations of one kind the engine has taken.
    #[must_use]
    pub fn taken(&self, operation: Operation) -> u64 {
        self.operations[operation as usize].load(Ordering::Relaxed)
    }

    /// Returns how many operations the engine has taken.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.operations.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Returns how often the engine was flushed.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Returns how often the engine was reaped.
    #[must_use]
    pub fn reaps(&self) -> u64 {
        self.reaps.load(Ordering::Relaxed)
    }
}

impl<E: Engine> Record<E> {
    /// Begins to count around `engine`.
    #[must_use]
    pub fn new(engine: E) -> Self {
        Self { engine, tally: Arc::new(Tally::new()) }
    }

    /// Returns the counts.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }
}

impl<E: Engine> Engine for Record<E> {
    fn caps(&self) -> Caps {
        self.engine.caps()
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        let operation = op.call.operation();
        self.engine.submit(op)?;
        self.tally.operations[operation as usize].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.tally.flushes.fetch_add(1, Ordering::Relaxed);
        self.engine.flush()
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        self.tally.reaps.fetch_add(1, Ordering::Relaxed);
        self.engine.reap(min, done)
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        self.engine.register(buffers)
    }

    fn used(&self) -> Used {
        self.engine.used()
    }
}
