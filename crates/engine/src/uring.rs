//! The io_uring engine: operations are in the kernel's hands while the worker goes on with other files.
//!
//! The ring itself, with its slots, its retries and the rules for memory the kernel may touch, is [`haul_sys::Ring`].
//! This engine decides which operations go there. The others are done in place, by the synchronous engine's code, and
//! their completions wait beside the ring's to be reaped:
//! - those a ring has no operation for (`copy_file_range`), or this kernel does not take in a ring;
//! - those the [`Placement`] keeps out, because handing them over costs more than doing them.
//!
//! What it does only on request ([`Setup`]), each told by a count ([`Engine::used`]):
//! - pairs: a read and its write are given to the kernel bound together, and come back as one;
//! - registered buffers: the kernel keeps hold of their pages, instead of looking them up for each transfer;
//! - direct descriptors: the kernel keeps the files at hand, instead of looking them up for each transfer;
//! - batches need nothing of the engine: a caller that does not flush, and reaps all that is in flight, has it passed on
//!   and waited for in one call (`io_uring_enter`, as liburing's `submit_and_wait`).
//!
//! A ring that the kernel refuses for good, after it has worked, costs the operations in flight: they fail, one error is
//! returned, and from then on everything is done in place ([`Caps::blocks`] says so).
//!
//! Threads: the engine may be made anywhere, but belongs to the thread that first uses it (see [`haul_sys::Ring`]).
//!
//! Invariant: completions waiting here and requests in the ring together never exceed the depth, so both fit in memory
//! set aside when the engine is made.

use std::collections::VecDeque;

use haul_sys::{Buffer, Operation, Result, Ring, RingReply, RingRequest};

use crate::in_place::perform;
use crate::transfer::transfer;
use crate::{Call, Caps, Done, Engine, Op, Outcome, Placement, Setup, Used};

/// Keeps operations in flight in an io_uring.
pub struct Uring {
    ring: Ring,
    placement: Placement,
    /// Completions of what was done in place.
    ready: VecDeque<Done>,
}

impl Uring {
    /// The name `--engine` takes.
    pub const NAME: &'static str = "io-uring";

    /// Makes the engine, for `depth` operations in flight (at least 1, at most what the kernel allows).
    ///
    /// # Errors
    /// When the kernel refuses the ring: `EPERM`, `ENOSYS`, `ENOMEM` are the common reasons.
    pub fn new(depth: usize) -> Result<Self> {
        Self::with_placement(depth, Placement::default())
    }

    /// Makes the engine as it is asked for. With [`Setup::ops`] set, writes too go through the ring, and pairs do.
    ///
    /// # Errors
    /// As [`Uring::new`]; and when direct descriptors are asked for and refused.
    pub fn with_setup(setup: &Setup) -> Result<Self> {
        let placement = match setup.ops {
            None => Placement::default(),
            Some(_) => Placement::default().with(Operation::Write).with_pairs(),
        };
        let mut engine = Self::with_placement(setup.queue_depth, placement)?;
        if setup.direct_descriptors {
            engine.use_direct_descriptors()?;
        }
        Ok(engine)
    }

    /// Makes the engine with a choice of what goes through the ring; what the kernel does not take there, does not.
    ///
    /// # Errors
    /// As [`Uring::new`].
    pub fn with_placement(depth: usize, placement: Placement) -> Result<Self> {
        let ring = if placement.has_pairs() { Ring::with_pairs(depth)? } else { Ring::new(depth)? };
        let taken = Placement::CANDIDATES
            .into_iter()
            .filter(|operation| placement.has(*operation) && ring.supports(*operation))
            .fold(Placement::NOTHING, Placement::with);
        let placement = if ring.takes_pairs() { taken.with_pairs() } else { taken };
        Ok(Self { ready: VecDeque::with_capacity(ring.depth()), ring, placement })
    }

    /// Keeps the files that are read and written in the ring at hand in the kernel, from now on.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` before Linux 5.19, `EMFILE` where descriptors are limited. The engine works without.
    pub fn use_direct_descriptors(&mut self) -> Result<()> {
        self.ring.use_direct_descriptors()
    }

    /// Returns what goes through the ring.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Names the flags that would have made the ring better and that this kernel does not know.
    pub fn refused_flags(&self) -> impl Iterator<Item = &'static str> {
        self.ring.refused_flags()
    }
}

impl Engine for Uring {
    fn caps(&self) -> Caps {
        Caps {
            name: Self::NAME,
            depth: self.ring.depth(),
            blocks: self.ring.is_broken(),
            pairs: self.placement.has_pairs() && self.ring.takes_pairs(),
            drops_cache: true,
        }
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        if self.in_flight() >= self.ring.depth() {
            return Err(Box::new(op));
        }
        let Op { token, call } = op;
        let request = if self.ring.is_broken() { Err(call) } else { request(call, self.placement) };
        let outcome = match request {
            Ok(request) => match self.ring.push(token, request) {
                Ok(()) => return Ok(()),
                // A pair that the ring stopped taking.
                Err(request) => outcome(request.in_place()),
            },
            Err(call) => {
                if let Call::Close { file } = &call {
                    self.ring.release(file);
                }
                perform(call)
            }
        };
        self.ready.push_back(Done { token, outcome });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.ring.flush()
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        let min = min.saturating_sub(self.ready.len());
        done.extend(self.ready.drain(..));
        self.ring.reap(min, |token, reply| done.push(Done { token, outcome: outcome(reply) }))
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.ring.in_flight()
    }

    fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        self.ring.register(buffers)
    }

    fn used(&self) -> Used {
        self.ring.used()
    }
}

/// Turns a call into a request for the ring, or gives it back if it is to be done in place.
fn request(call: Call, placement: Placement) -> std::result::Result<RingRequest, Call> {
    let placed = match &call {
        Call::Pair { .. } => placement.has_pairs(),
        call => placement.has(call.operation()),
    };
    if !placed {
        return Err(call);
    }
    match call {
        Call::Open { directory, name, how } => Ok(RingRequest::Openat { directory, name, how }),
        Call::Stat { file } => Ok(RingRequest::Statx { file }),
        Call::Close { file } => Ok(RingRequest::Close { file }),
        call => transfer(call).map(RingRequest::Transfer),
    }
}

fn outcome(reply: RingReply) -> Outcome {
    match reply {
        RingReply::Opened(result) => Outcome::Opened(result),
        RingReply::Looked(result) => Outcome::Looked(result),
        RingReply::Transferred(transferred) => transferred.into(),
        RingReply::Closed(result) => Outcome::Closed(result),
    }
}
