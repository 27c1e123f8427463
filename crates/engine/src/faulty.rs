//! An engine that misbehaves within the contract, by seed, around any engine.
//!
//! It fails operations, shortens transfers, holds completions back and hands them out in another order: all that a
//! caller must be able to take, at a rate no kernel shows. The same seed and the same submissions give the same
//! mischief; print the seed.
//!
//! What it does not do: it never reports the end of a file that has not ended (a read is cut to 1 byte at least), and a
//! close that it fails has run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_sys::{Buffer, Errno, Error, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{Call, Caps, Done, Engine, Op, Outcome, Used, Wait};

/// How much mischief to do; the rates are in thousandths of the operations they can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mischief {
    /// Where the random numbers start.
    pub seed: u64,
    /// How many operations fail, of all.
    pub errors: u16,
    /// How many reads, writes and copies move less than they could.
    pub shorts: u16,
    /// How many completions are held back beyond the reap that could have had them, and how many reads that must not
    /// wait find nothing.
    pub delays: u16,
    /// Whether completions are handed out in random order.
    pub reorder: bool,
}

/// Does mischief around an engine.
pub struct Faulty<E> {
    engine: E,
    mischief: Mischief,
    random: StdRng,
    /// Completions that wait here; they count as in flight.
    held: Vec<Done>,
    struck: Arc<AtomicU64>,
}

impl<E: Engine> Faulty<E> {
    /// Puts `mischief` around `engine`.
    #[must_use]
    pub fn new(engine: E, mischief: Mischief) -> Self {
        let held = Vec::with_capacity(engine.caps().depth);
        let random = StdRng::seed_from_u64(mischief.seed);
        Self { engine, mischief, random, held, struck: Arc::new(AtomicU64::new(0)) }
    }

    /// Returns the count of failures and shortened transfers so far, for tests to prove that there were some.
    #[must_use]
    pub fn struck(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.struck)
    }

    fn happens(&mut self, rate: u16) -> bool {
        self.random.random_range(0..1000) < rate
    }

    fn strike(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }

    /// Cuts what the call may move; returns whether it did.
    fn shorten(&mut self, call: &mut Call) {
        let (whole, least) = match &*call {
            Call::Read { length, .. } | Call::Pair { length, .. } => (*length, 1),
            Call::Write { range, .. } => (range.len(), 1),
            Call::CopyRange { length, .. } => (*length, 0),
            _ => return,
        };
        if whole <= 1 || !self.happens(self.mischief.shorts) {
            return;
        }
        let cut = self.random.random_range(least..whole);
        match call {
            Call::Read { length, .. } | Call::Pair { length, .. } | Call::CopyRange { length, .. } => {
                *length = cut;
            }
            Call::Write { range, .. } => range.end = range.start + cut,
            _ => {}
        }
        self.strike();
    }

    /// Ends the call without its engine, if it is this one's turn.
    fn spoil(&mut self, call: Call) -> std::result::Result<Outcome, Call> {
        if self.happens(self.mischief.errors) {
            let errnos = [Errno::IO, Errno::NOSPC, Errno::NOMEM, Errno::ACCESS, Errno::MFILE];
            let errno = errnos[self.random.random_range(0..errnos.len())];
            self.strike();
            return Ok(fail(call, errno));
        }
        match call {
            Call::Read { buffer, wait: Wait::Never, .. }
                if self.engine.caps().blocks && self.happens(self.mischief.delays) =>
            {
                Ok(Outcome::Read { buffer, result: Ok(None) })
            }
            call => Err(call),
        }
    }
}

/// Fails a call as its engine could have.
fn fail(call: Call, errno: Errno) -> Outcome {
    let error = Error::new(call.operation(), "mischief".to_owned(), errno);
    match call {
        Call::Open { .. } => Outcome::Opened(Err(error)),
        Call::Stat { .. } => Outcome::Looked(Err(error)),
        Call::Read { buffer, .. } => Outcome::Read { buffer, result: Err(error) },
        Call::Write { buffer, .. } => Outcome::Wrote { buffer, result: Err(error) },
        Call::Pair { buffer, .. } => Outcome::Paired { buffer, read: Err(error), written: Ok(0) },
        Call::CopyRange { .. } => Outcome::Copied(Err(error)),
        Call::Synchronize { .. } => Outcome::Synchronized(Err(error)),
        Call::Close { file } => Outcome::Closed(file.close().and(Err(error))),
    }
}

impl<E: Engine> Engine for Faulty<E> {
    fn caps(&self) -> Caps {
        self.engine.caps()
    }

    fn submit(&mut self, mut op: Op) -> std::result::Result<(), Box<Op>> {
        if self.in_flight() >= self.caps().depth {
            return Err(Box::new(op));
        }
        match self.spoil(op.call) {
            Ok(outcome) => {
                self.held.push(Done { token: op.token, outcome });
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
        let outcome = self.engine.reap(min.saturating_sub(self.held.len()), &mut self.held);
        let mut owed = min.min(self.held.len());
        let mut index = 0;
        if self.mischief.reorder {
            for index in (1..self.held.len()).rev() {
                let other = self.random.random_range(0..=index);
                self.held.swap(index, other);
            }
        }
        while index < self.held.len() {
            if owed == 0 && self.happens(self.mischief.delays) {
                index += 1;
                continue;
            }
            owed = owed.saturating_sub(1);
            done.push(self.held.remove(index));
        }
        outcome
    }

    fn in_flight(&self) -> usize {
        self.held.len() + self.engine.in_flight()
    }

    fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        self.engine.register(buffers)
    }

    fn used(&self) -> Used {
        self.engine.used()
    }
}
