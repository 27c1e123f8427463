//! Wraps any engine and injects faults, within the contract, from a seed.
//!
//! It fails operations, shortens transfers, delays completions and reorders them: everything a
//! caller must tolerate, more often than any kernel does. The same seed and submissions give the
//! same faults, so a test should print its seed.
//!
//! It never reports a false EOF (a shortened read keeps at least 1 byte), and a close that it fails
//! has still run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sys::{Buffer, Errno, Error, Result};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::{Call, Caps, Done, Engine, Op, Outcome, Used, Wait};

/// Configures the faults. Rates are per thousand of the operations they apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// Seed of the random number generator.
    pub seed: u64,
    /// Rate of operations that fail, of any kind.
    pub errors: u16,
    /// Rate of shortened reads, writes and copies.
    pub shorts: u16,
    /// Rate of completions delayed to a later reap, and of nonblocking reads that miss the cache.
    pub delays: u16,
    /// True to return completions in random order.
    pub reorder: bool,
}

/// Injects faults into an engine.
pub struct Faulty<E> {
    engine: E,
    rates: FaultRates,
    random: SmallRng,
    /// Delayed completions, which count as in flight.
    delayed: Vec<Done>,
    fault_count: Arc<AtomicU64>,
}

impl<E: Engine> Faulty<E> {
    /// Wraps `engine` to inject the faults configured by `rates`.
    #[must_use]
    pub fn new(engine: E, rates: FaultRates) -> Self {
        // Reserved up front: no operation may allocate (rule 9 of the contract).
        let delayed = Vec::with_capacity(engine.caps().depth);
        let random = SmallRng::seed_from_u64(rates.seed);
        Self { engine, rates, random, delayed, fault_count: Arc::new(AtomicU64::new(0)) }
    }

    /// Returns the number of failures and shortened transfers so far, so that tests can prove
    /// there were some.
    #[must_use]
    pub fn fault_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.fault_count)
    }

    fn happens(&mut self, rate: u16) -> bool {
        self.random.random_range(0..1000) < rate
    }

    fn count_fault(&self) {
        self.fault_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Randomly shortens the transfer.
    fn shorten(&mut self, call: &mut Call) {
        // Reading 0 bytes would be a false EOF; copying 0 bytes is not EOF.
        let (whole, least) = match &*call {
            Call::Read { length, .. } | Call::ReadStream { length, .. } | Call::Pair { length, .. } => {
                (*length, 1)
            }
            Call::Write { range, .. } => (range.len(), 1),
            Call::CopyRange { length, .. } => (*length, 0),
            _ => return,
        };
        if whole <= 1 || !self.happens(self.rates.shorts) {
            return;
        }
        let cut = self.random.random_range(least..whole);
        match call {
            Call::Read { length, .. }
            | Call::ReadStream { length, .. }
            | Call::Pair { length, .. }
            | Call::CopyRange { length, .. } => {
                *length = cut;
            }
            Call::Write { range, .. } => range.end = range.start + cut,
            _ => {}
        }
        self.count_fault();
    }

    /// Randomly completes the call without passing it to the engine; returns it otherwise.
    fn intercept(&mut self, call: Call) -> std::result::Result<Outcome, Call> {
        if self.happens(self.rates.errors) {
            let errnos = [Errno::IO, Errno::NOSPC, Errno::NOMEM, Errno::ACCESS, Errno::MFILE];
            let errno = errnos[self.random.random_range(0..errnos.len())];
            self.count_fault();
            return Ok(fail(call, errno));
        }
        match call {
            // Only an engine that blocks may answer `None`: the others treat `Never` as `Allowed`.
            Call::Read { buffer, wait: Wait::Never, .. }
                if self.engine.caps().blocks && self.happens(self.rates.delays) =>
            {
                Ok(Outcome::Read { buffer, result: Ok(None) })
            }
            call => Err(call),
        }
    }
}

/// Fails a call the way an engine would.
fn fail(call: Call, errno: Errno) -> Outcome {
    let error = Error::new(call.operation(), "injected fault".to_owned(), errno);
    match call {
        Call::Open { .. } => Outcome::Opened(Err(error)),
        Call::Stat { .. } => Outcome::Stated(Err(error)),
        Call::Read { buffer, .. } | Call::ReadStream { buffer, .. } => {
            Outcome::Read { buffer, result: Err(error) }
        }
        Call::Write { buffer, .. } => Outcome::Wrote { buffer, result: Err(error) },
        Call::Pair { buffer, .. } => Outcome::Paired { buffer, read: Err(error), written: Ok(0) },
        Call::CopyRange { pipe, .. } => Outcome::Copied { pipe, result: Err(error) },
        Call::Synchronize { .. } => Outcome::Synchronized(Err(error)),
        // A close always runs, even if it fails.
        Call::Close { file } => Outcome::Closed(file.close().and(Err(error))),
    }
}

impl<E: Engine> Engine for Faulty<E> {
    fn caps(&self) -> Caps {
        self.engine.caps()
    }

    fn submit(&mut self, mut op: Op) -> std::result::Result<(), Box<Op>> {
        // The wrapped engine doesn't know of the delayed completions and would accept more than its
        // depth.
        if self.in_flight() >= self.caps().depth {
            return Err(Box::new(op));
        }
        match self.intercept(op.call) {
            Ok(outcome) => {
                self.delayed.push(Done { token: op.token, outcome });
                Ok(())
            }
            Err(call) => {
                op.call = call;
                self.shorten(&mut op.call);
                self.engine.submit(op)
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.engine.flush()
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        let outcome = self.engine.reap(min.saturating_sub(self.delayed.len()), &mut self.delayed);
        let mut owed = min.min(self.delayed.len());
        let mut index = 0;
        if self.rates.reorder {
            for index in (1..self.delayed.len()).rev() {
                let other = self.random.random_range(0..=index);
                self.delayed.swap(index, other);
            }
        }
        while index < self.delayed.len() {
            // A delay must not break the promise of `min` completions.
            if owed == 0 && self.happens(self.rates.delays) {
                index += 1;
                continue;
            }
            owed = owed.saturating_sub(1);
            done.push(self.delayed.remove(index));
        }
        outcome
    }

    fn in_flight(&self) -> usize {
        self.delayed.len() + self.engine.in_flight()
    }

    fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        self.engine.register(buffers)
    }

    fn used(&self) -> Used {
        self.engine.used()
    }
}
