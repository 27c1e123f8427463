//! The kernel's AIO engine: reads in one context, writes in another, and a pair goes from the first to the second.
//!
//! The contexts, with their slots, their retries and the rules for memory the kernel may touch, are
//! [`haul_sys::KernelAio`]. Reads, writes, pairs and fsyncs go there; the rest is done in place, by the synchronous
//! engine's code, and its completions wait here to be reaped.
//!
//! Files opened past the page cache are in flight while the worker goes on. Of others, the kernel does the transfers inside
//! [`Engine::flush`], one after the other: right, and asynchronous in name only.
//!
//! AIO that the kernel refuses for good, after it has worked, costs at most the operations in flight: they fail, one error
//! is returned, and from then on everything is done in place ([`Caps::blocks`] says so).
//!
//! Invariant: completions waiting here and requests in the contexts together never exceed the depth, so both fit in memory
//! set aside when the engine is made.

use std::collections::VecDeque;

use haul_sys as sys;
use haul_sys::{Gather, Result};

use crate::in_place::perform;
use crate::transfer::transfer;
use crate::{Caps, Done, Engine, Op, Used};

/// Keeps operations in flight in two AIO contexts.
pub struct KernelAio {
    aio: sys::KernelAio,
    /// Completions of what was done in place.
    ready: VecDeque<Done>,
}

impl KernelAio {
    /// The name `--engine` takes.
    pub const NAME: &'static str = "kernel-aio";

    /// Makes the engine, for `depth` operations in flight (at least 1, at most 32,768).
    ///
    /// # Errors
    /// When the kernel refuses the contexts: `EAGAIN` because `fs.aio-max-nr` is exhausted, `ENOSYS`, `EPERM`.
    pub fn new(depth: usize, gather: Gather) -> Result<Self> {
        let aio = sys::KernelAio::new(depth, gather)?;
        Ok(Self { ready: VecDeque::with_capacity(aio.depth()), aio })
    }

    /// Returns how many operations the kernel has taken: reads, and writes with fsyncs.
    #[must_use]
    pub fn taken(&self) -> [u64; 2] {
        self.aio.taken()
    }
}

impl Engine for KernelAio {
    fn caps(&self) -> Caps {
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
                Err(transfer) => transfer.in_place().into(),
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
