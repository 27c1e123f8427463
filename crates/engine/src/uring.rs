//! The io_uring engine: the kernel performs operations while the worker continues with other files.
//!
//! [`haul_sys::Ring`] implements the ring, with its slots, retries and the rules for memory the
//! kernel may touch. This engine decides which operations go there. The others are performed
//! synchronously, and their completions are queued here to be reaped:
//! - operations the ring doesn't have (`copy_file_range`) or this kernel doesn't support in a ring;
//! - operations excluded by [`Placement`], because submitting them costs more than performing them.
//!
//! Features that are off by default ([`EngineSetup`]), each with a count ([`Engine::used`]):
//! - pairs: a read and its write are submitted as linked requests, and complete as one;
//! - registered buffers: the kernel pins their pages once, instead of for each transfer;
//! - direct descriptors: the kernel looks up each file once, instead of for each transfer;
//! - batches, which need no support here: if the caller doesn't flush and reaps everything in
//!   flight, one call submits and waits (`io_uring_enter`, like liburing's `submit_and_wait`).
//!
//! If the kernel permanently refuses a ring that has worked, the operations in flight fail. One
//! error is returned, and every later operation is synchronous ([`Caps::blocks`] becomes true).
//!
//! Threads: the engine may be created on any thread, but belongs to the one that first uses it
//! (see [`haul_sys::Ring`]).
//!
//! Invariant: completions queued here and requests in the ring together never exceed the depth, so
//! both fit in memory reserved when the engine is created.

use std::collections::VecDeque;

use haul_sys::{Buffer, Operation, Result, Ring, RingReply, RingRequest};

use crate::synchronous::perform;
use crate::transfer::transfer;
use crate::{Call, Caps, Done, Engine, EngineSetup, Op, Outcome, Placement, Used};

/// Keeps operations in flight in an io_uring.
pub struct Uring {
    ring: Ring,
    placement: Placement,
    /// Completions of synchronous operations.
    ready: VecDeque<Done>,
}

impl Uring {
    /// Name for `--engine`.
    pub const NAME: &'static str = "io-uring";

    /// Creates an engine for `depth` operations in flight (at least 1, at most what the
    /// kernel allows).
    ///
    /// # Errors
    /// If the kernel refuses the ring, commonly with `EPERM`, `ENOSYS` or `ENOMEM`.
    pub fn new(depth: usize) -> Result<Self> {
        Self::with_placement(depth, Placement::default())
    }

    /// Creates an engine with these options. If [`EngineSetup::ops`] is set, writes and pairs also
    /// go through the ring.
    ///
    /// # Errors
    /// Same as [`Uring::new`]; also if direct descriptors are requested and refused.
    pub fn with_setup(setup: &EngineSetup) -> Result<Self> {
        let placement = match setup.ops {
            // Writes stay out unless asked for: ext4 performs those of a ring in a kernel thread
            // only (docs/measurements/engine-ops.md).
            None => Placement::default(),
            Some(_) => Placement::default().with(Operation::Write).with_pairs(),
        };
        let mut engine = Self::with_placement(setup.queue_depth, placement)?;
        if setup.direct_descriptors {
            engine.use_direct_descriptors()?;
        }
        Ok(engine)
    }

    /// Creates an engine with a custom placement, without the operations this kernel's ring
    /// doesn't support.
    ///
    /// # Errors
    /// Same as [`Uring::new`].
    pub fn with_placement(depth: usize, placement: Placement) -> Result<Self> {
        let ring = if placement.has_pairs() { Ring::with_pairs(depth)? } else { Ring::new(depth)? };
        let taken = Placement::CANDIDATES
            .into_iter()
            .filter(|operation| placement.has(*operation) && ring.supports(*operation))
            .fold(Placement::NOTHING, Placement::with);
        let placement = if ring.takes_pairs() { taken.with_pairs() } else { taken };
        Ok(Self { ready: VecDeque::with_capacity(ring.depth()), ring, placement })
    }

    /// Registers files that are read or written in the ring, from now on.
    ///
    /// # Errors
    /// From the kernel: `EINVAL` before Linux 5.19, `EMFILE` if descriptors are limited. The engine
    /// works without it.
    pub fn use_direct_descriptors(&mut self) -> Result<()> {
        self.ring.use_direct_descriptors()
    }

    /// Returns the operations that go through the ring.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Returns the names of the setup flags that would have improved the ring but that this
    /// kernel rejects.
    pub fn refused_flags(&self) -> impl Iterator<Item = &'static str> {
        self.ring.refused_flags()
    }
}

impl Engine for Uring {
    fn caps(&self) -> Caps {
        Caps {
            name: Self::NAME,
            depth: self.ring.depth(),
            // Once broken, `submit` itself waits for the disk, so the caller has to read ahead.
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
                // The ring has stopped accepting pairs.
                Err(request) => outcome(request.perform_now()),
            },
            Err(call) => {
                // A direct descriptor would keep the file open after the close.
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

/// Converts a call into a ring request, or returns it if it must be performed synchronously.
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
        RingReply::Stated(result) => Outcome::Stated(result),
        RingReply::Transferred(transferred) => transferred.into(),
        RingReply::Closed(result) => Outcome::Closed(result),
    }
}
