//! The POSIX AIO engine: the C library's threads perform operations while the worker continues.
//!
//! [`haul_sys::PosixAio`] implements the control blocks, with the rules for their lifetime and
//! for lost notifications. Reads, writes, pairs and fsyncs go there. The C library has no call
//! for the other operations, so they are performed synchronously and their completions are queued
//! here to be reaped.
//!
//! The modes of `--ops`:
//! - `single` and `multi` (the default) issue each operation with its own call in `submit`, because
//!   waiting for `flush` would save nothing. A pair's write is issued by the notification of its
//!   read. The two differ only in the caller's submissions.
//! - `batch` collects operations until `flush` or `reap`, and submits them with one `lio_listio`. A
//!   pair's write goes into the list after its read's.
//!
//! The library serves one request per descriptor at a time, so `multi` gains little over `single`:
//! one block's read overlaps another's write. Each completion costs the start of a thread.
//!
//! [`Wait::Never`](crate::Wait::Never) is ignored because the worker never waits. If the library
//! refuses an operation for lack of threads or memory, it is performed synchronously, so the engine
//! never breaks down. The same applies to [`CacheMode::Drop`](haul_sys::CacheMode::Drop), which a
//! control block can't express; hence no [`Caps::drops_cache`].
//!
//! Invariant: completions queued here and requests in the library together never exceed the depth,
//! so both fit in memory reserved when the engine is created.

use std::collections::VecDeque;

use haul_sys as sys;
use haul_sys::{AioSubmission, Result};

use crate::synchronous::perform;
use crate::transfer::transfer;
use crate::{Caps, Done, Engine, EngineSetup, Op, Ops, Used};

/// Keeps operations in flight in the C library's threads.
pub struct PosixAio {
    aio: sys::PosixAio,
    /// Completions of synchronous operations.
    ready: VecDeque<Done>,
}

impl PosixAio {
    /// Name for `--engine`.
    pub const NAME: &'static str = "posix-aio";

    /// Creates an engine for `setup.queue_depth` operations in flight (at least 1, at most 4096).
    ///
    /// The depth determines the number of threads, but the C library has one pool per process: the
    /// last engine created before the first operation decides.
    ///
    /// # Errors
    /// `ENOSYS` if the C library is not glibc.
    pub fn new(setup: &EngineSetup) -> Result<Self> {
        let passing = match setup.ops {
            Some(Ops::Batch) => AioSubmission::Lists,
            Some(Ops::Single | Ops::Multi) | None => AioSubmission::Each,
        };
        let aio = sys::PosixAio::new(setup.queue_depth, passing)?;
        Ok(Self { ready: VecDeque::with_capacity(aio.depth()), aio })
    }

    /// Returns how many threads it requested from the C library.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.aio.threads()
    }

    /// Returns how many lists it submitted, and how many reads and writes those contained in total.
    #[must_use]
    pub fn lists(&self) -> (u64, u64) {
        self.aio.lists()
    }

    /// Returns how many operations were performed synchronously because the C library never
    /// reported their completion.
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
                // `CacheMode::Drop`, which a control block can't express.
                Err(transfer) => transfer.perform_now().into(),
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
