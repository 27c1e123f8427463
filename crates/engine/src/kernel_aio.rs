//! The kernel AIO engine: reads in one context, writes in another. A pair moves from the first
//! to the second.
//!
//! [`haul_sys::KernelAio`] implements the contexts, with their slots, retries and the rules for
//! memory the kernel may touch. Reads, writes, pairs and fsyncs go there. All other operations are
//! performed synchronously, and their completions are queued here to be reaped.
//!
//! Only transfers of files opened with `O_DIRECT` are in flight while the worker continues.
//! The kernel performs all others sequentially inside [`Engine::flush`]: correct, but
//! asynchronous in name only.
//!
//! If the kernel permanently refuses AIO after it has worked, at most the operations in flight
//! fail. One error is returned, and every later operation is synchronous ([`Caps::blocks`]
//! becomes true).
//!
//! Invariant: completions queued here and requests in the contexts together never exceed the depth,
//! so both fit in memory reserved when the engine is created.

use std::collections::VecDeque;

use haul_sys as sys;
use haul_sys::{Gather, Result};

use crate::synchronous::perform;
use crate::transfer::transfer;
use crate::{Caps, Done, Engine, Op, Used};

/// Keeps operations in flight in two AIO contexts.
pub struct KernelAio {
    aio: sys::KernelAio,
    /// Completions of synchronous operations.
    ready: VecDeque<Done>,
}

impl KernelAio {
    /// Name for `--engine`.
    pub const NAME: &'static str = "kernel-aio";

    /// Creates an engine for `depth` operations in flight (at least 1, at most 32,768).
    ///
    /// # Errors
    /// If the kernel refuses the contexts: `EAGAIN` if `fs.aio-max-nr` is exhausted,
    /// `ENOSYS`, `EPERM`.
    pub fn new(depth: usize, gather: Gather) -> Result<Self> {
        let aio = sys::KernelAio::new(depth, gather)?;
        Ok(Self { ready: VecDeque::with_capacity(aio.depth()), aio })
    }

    /// Returns how many operations the kernel has accepted: reads, then writes and fsyncs.
    #[must_use]
    pub fn taken(&self) -> [u64; 2] {
        self.aio.taken()
    }
}

impl Engine for KernelAio {
    fn caps(&self) -> Caps {
        // Once broken, `submit` itself waits for the disk, so the caller has to read ahead.
        let (depth, blocks) = (self.aio.depth(), self.aio.is_broken());
        Caps { name: Self::NAME, depth, blocks, pairs: true, drops_cache: true }
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        if self.in_flight() >= self.aio.depth() {
            return Err(Box::new(op));
        }
        let Op { token, call } = op;
        let transfer = if self.aio.is_broken() { Err(call) } else { transfer(call) };
        let outcome = match transfer {
            Ok(transfer) => match self.aio.push(token, transfer) {
                Ok(()) => return Ok(()),
                Err(transfer) => transfer.perform_now().into(),
            },
            Err(call) => perform(call),
        };
        self.ready.push_back(Done { token, outcome });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.aio.flush()
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        let min = min.saturating_sub(self.ready.len());
        done.extend(self.ready.drain(..));
        self.aio.reap(min, |token, reply| done.push(Done { token, outcome: reply.into() }))
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.aio.in_flight()
    }
    fn used(&self) -> Used {
        self.aio.used()
    }
}
