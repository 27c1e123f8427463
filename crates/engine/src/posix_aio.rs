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
//! for want of threads or memory is done in place, so the engine never breaks down.
//!
//! Invariant: completions waiting here and requests in the library together never exceed the depth, so both fit in
//! memory set aside when the engine is made.

use std::collections::VecDeque;

use haul_sys::{AioPassing, Cache, PosixAio as Aio, PosixAioReply, PosixAioRequest, Result};

use crate::in_place::perform;
use crate::{Call, Caps, Done, Engine, Op, Ops, Outcome, Setup, Wait};

/// Keeps operations in flight in the C library's threads.
pub struct PosixAio {
    aio: Aio,
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
        let aio = Aio::new(setup.queue_depth, passing)?;
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
        let call = match request(call) {
            Ok(request) => match self.aio.push(token, request) {
                Ok(()) => return Ok(()),
                Err(request) => refused(request),
            },
            Err(call) => call,
        };
        self.ready.push_back(Done { token, outcome: perform(call) });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.aio.flush();
        Ok(())
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        let min = min.saturating_sub(self.ready.len());
        done.extend(self.ready.drain(..));
        self.aio.reap(min, |token, reply| done.push(Done { token, outcome: outcome(reply) }));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.aio.in_flight()
    }
}

/// Turns a call into a request for the C library, or gives it back if it is to be done in place.
fn request(call: Call) -> std::result::Result<PosixAioRequest, Call> {
    Ok(match call {
        Call::Read { file, offset, buffer, length, cache: Cache::Keep, .. } => {
            PosixAioRequest::Read { file, offset, buffer, length }
        }
        Call::Write { file, offset, buffer, range, cache: Cache::Keep } => {
            PosixAioRequest::Write { file, offset, buffer, range }
        }
        Call::Pair { source, target, offset, buffer, length, cache: Cache::Keep } => {
            PosixAioRequest::Pair { source, target, offset, buffer, length }
        }
        Call::Synchronize { file } => PosixAioRequest::Fsync { file },
        call => return Err(call),
    })
}

/// Turns a request that the C library has no room for back into its call.
fn refused(request: PosixAioRequest) -> Call {
    let cache = Cache::Keep;
    match request {
        PosixAioRequest::Read { file, offset, buffer, length } => {
            Call::Read { file, offset, buffer, length, wait: Wait::Allowed, cache }
        }
        PosixAioRequest::Write { file, offset, buffer, range } => {
            Call::Write { file, offset, buffer, range, cache }
        }
        PosixAioRequest::Pair { source, target, offset, buffer, length } => {
            Call::Pair { source, target, offset, buffer, length, cache }
        }
        PosixAioRequest::Fsync { file } => Call::Synchronize { file },
    }
}

fn outcome(reply: PosixAioReply) -> Outcome {
    match reply {
        PosixAioReply::Read { buffer, result } => Outcome::Read { buffer, result: result.map(Some) },
        PosixAioReply::Wrote { buffer, result } => Outcome::Wrote { buffer, result },
        PosixAioReply::Paired { buffer, read, written } => Outcome::Paired { buffer, read, written },
        PosixAioReply::Synchronized(result) => Outcome::Synchronized(result),
    }
}
