//! Wraps any engine and counts its operations by kind.
//!
//! Used by tests that pin the cost of a file: they count calls instead of relying on a clock. The
//! counts outlive the engine and can be read while a worker owns it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sys::{Buffer, Operation, Result};

use crate::{Caps, Done, Engine, Op, Used};

/// Counts the operations that pass through an engine.
pub struct CountingEngine<E> {
    engine: E,
    tally: Arc<OperationTally>,
}

/// Number of operations accepted by kind, of flushes and of reaps.
#[derive(Debug)]
pub struct OperationTally {
    operations: [AtomicU64; Operation::ALL.len()],
    flushes: AtomicU64,
    reaps: AtomicU64,
}

impl OperationTally {
    fn new() -> Self {
        Self {
            operations: std::array::from_fn(|_| AtomicU64::new(0)),
            flushes: AtomicU64::new(0),
            reaps: AtomicU64::new(0),
        }
    }

    /// Returns how many operations of this kind the engine has accepted.
    #[must_use]
    pub fn taken(&self, operation: Operation) -> u64 {
        // Relaxed: counters alone; no other data depends on their order.
        self.operations[operation as usize].load(Ordering::Relaxed)
    }

    /// Returns how many operations the engine has accepted.
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

impl<E: Engine> CountingEngine<E> {
    /// Wraps `engine` with all counts at zero.
    #[must_use]
    pub fn new(engine: E) -> Self {
        Self { engine, tally: Arc::new(OperationTally::new()) }
    }

    /// Returns the counts.
    #[must_use]
    pub fn tally(&self) -> Arc<OperationTally> {
        Arc::clone(&self.tally)
    }
}

impl<E: Engine> Engine for CountingEngine<E> {
    fn caps(&self) -> Caps {
        self.engine.caps()
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        let operation = op.call.operation();
        self.engine.submit(op)?;
        // Counted once accepted: a refused operation is submitted again.
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
