//! The POSIX AIO engine: operations are in the hands of the C library's threads while the worker goes on.
//!
//! The control blocks, with the rules for their lifetime and for lost notifications, are [`haul_sys::PosixAio`]. This
//! engine decides which operations go there: reads, writes, pairs of them, and fsync. The others are done in place, by the
//! synchronous engine's code, and their completions wait beside the others to be reaped; for the C library has no call
//! for them.
//!
//! The ways of `--ops`:
//! - `single` and `multi` (the default) issue each operation by a call of its own, at `submit`: nothing would be saved by
//!   waiting for `flush`. A pair's write is issued by the notification of its read. The two differ in what the caller
//!   submits; here they are the same;
//! - `batch` gathers operations until `flush` or `reap`, and passes them with one `lio_listio`. A pair's write goes into
//!   the list after its read's.
//!
//! The library works on one request for each descriptor at a time, so `multi` gains little over `single`: the read of one
//! block meets the write of another, no more. Each completion costs the start of a thread.
//!
//! A read that must not wait for the disk is one that may: it is not the worker who waits. What the library does not take
//! for want of threads or memory is done in place, so the engine never breaks down. So is, if it is asked for all the same,
//! what is to leave nothing in the page cache: a control block cannot say so, hence no [`Caps::drops_cache`].
//!
//! Invariant: completions waiting here and requests in the library together never exceed the depth, so both fit in
//! memory set aside when the engine is made.

use std::collections::VecDeque;

use haul_sys as sys;
use haul_sys::{AioPassing, Result};

use crate::in_place::perform;
use crate::transfer::transfer;
use crate::{Caps, Done, Engine, Op, Ops, Setup, Used};

/// Keeps operations in flight in the C library's threads.
pub struct PosixAio {
    aio: sys::PosixAio,
    /// Completions of what was done in place.
    ready: VecDeque<Done>,
}

impl PosixAio {
    /// The name `--engine` takes.
    pub const NAME: &'static str = "posix-aio";

    /// Makes the engine, for `setup.queue_depth` operations in flight (at least 1, at most 4096).
    ///
    /// The number of threads follows the depth, but the C library keeps one set for the whole process: the last engine
    /// made before the first operation decides.
    ///
    /// # Errors
    /// `ENOSYS` where the C library is not glibc.
    pub fn new(setup: &Setup) -> Result<Self> {
        let passing = match setup.ops {
            Some(Ops::Batch) => AioPassing::Lists,
            Some(Ops::Single | Ops::Multi) | None => AioPassing::Each,
        };
        let aio = sys::PosixAio::new(setup.queue_depth, passing)?;
        Ok(Self { ready: VecDeque::with_capacity(aio.depth()), aio })
    }

    /// Returns how many threads it asked the C library for.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.aio.threads()
    }

    /// Returns how many lists it passed to the C library, and how many reads and writes in all of them.
    #[must_use]
    pub fn lists(&self) -> (u64, u64) {
        self.aio.lists()
    }

    /// Returns how many operations were done in place because the C library did not say that they are over.
    #[must_use]
    pub fn rescued(&self) -> u64 {
        self.aio.rescued()
    }
}

impl Engine for PosixAio {
    fn caps(&self) -> Caps {
        Caps { name: Self::NAME, depth: self.aio.depth(), blocks: false, pairs: true, drops_cache: false }
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        if self.in_flight() >= self.aio.depth() {
            return Err(Box::new(op));
        }
        let Op { token, call } = op;
        let outcome = match transfer(call) {
            Ok(transfer) => match self.aio.push(token, transfer) {
                Ok(()) => return Ok(()),
                Err(transfer) => transfer.in_place().into(),
            },
            Err(call) => perform(call),
        };
        self.ready.push_back(Done { token, outcome });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.aio.flush();
        Ok(())
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        let min = min.saturating_sub(self.ready.len());
        done.extend(self.ready.drain(..));
        self.aio.reap(min, |token, reply| done.push(Done { token, outcome: reply.into() }));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.aio.in_flight()
    }
    fn used(&self) -> Used {
        self.aio.used()
    }
}
