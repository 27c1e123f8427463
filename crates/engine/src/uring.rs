//! The io_uring engine: operations are in the kernel's hands while the worker goes on with other files.
//!
//! The ring itself, with its slots, its retries and the rules for memory the kernel may touch, is [`haul_sys::Ring`].
//! This engine decides which operations go there. The others are done in place, by the synchronous engine's code, and
//! their completions wait beside the ring's to be reaped:
//! - those a ring has no operation for (`copy_file_range`), or this kernel does not take in a ring;
//! - those the [`Placement`] keeps out, because handing them over costs more than doing them.
//!
//! A ring that the kernel refuses for good, after it has worked, costs the operations in flight: they fail, one error is
//! returned, and from then on everything is done in place ([`Caps::blocks`] says so).
//!
//! Threads: the engine may be made anywhere, but belongs to the thread that first uses it (see [`haul_sys::Ring`]).
//!
//! Invariant: completions waiting here and requests in the ring together never exceed the depth, so both fit in memory
//! set aside when the engine is made.

use std::collections::VecDeque;

use haul_sys::{Operation, Result, Ring, RingReply, RingRequest};

use crate::in_place::perform;
use crate::{Call, Caps, Done, Engine, Op, Outcome};

/// Which operations go through the ring.
///
/// The default is what the measurements in `docs/measurements/engine-ops.md` found, on ext4 at depth 64:
/// - read in the ring: cold, nine times as fast as one after the other; warm, no dearer;
/// - fsync in the ring: several in flight share a commit of the journal;
/// - open, create, stat and write in place: the kernel hands them to a thread, which costs more than it gains;
/// - close in place: no difference, and one thing less that can be in flight when a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bit n stands for the n-th of [`Placement::CANDIDATES`].
    ring: u8,
}

impl Placement {
    /// The operations for which there is a choice.
    pub const CANDIDATES: [Operation; 6] = [
        Operation::Openat,
        Operation::Statx,
        Operation::Read,
        Operation::Write,
        Operation::Fsync,
        Operation::Close,
    ];

    /// Nothing goes through the ring.
    pub const NOTHING: Placement = Placement { ring: 0 };

    /// Everything goes through the ring that it takes.
    pub const EVERYTHING: Placement = Placement { ring: 0b11_1111 };

    /// Sends `operation` through the ring as well.
    #[must_use]
    pub fn with(self, operation: Operation) -> Self {
        Self { ring: self.ring | Self::bit(operation) }
    }

    /// Does `operation` in place.
    #[must_use]
    pub fn without(self, operation: Operation) -> Self {
        Self { ring: self.ring & !Self::bit(operation) }
    }

    /// Tells whether `operation` goes through the ring.
    #[must_use]
    pub fn has(self, operation: Operation) -> bool {
        self.ring & Self::bit(operation) != 0
    }

    fn bit(operation: Operation) -> u8 {
        let position = Self::CANDIDATES.iter().position(|each| *each == operation);
        position.map_or(0, |position| 1 << position)
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self::NOTHING.with(Operation::Read).with(Operation::Fsync)
    }
}

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

    /// Makes the engine with a choice of what goes through the ring; what the kernel does not take there, does not.
    ///
    /// # Errors
    /// As [`Uring::new`].
    pub fn with_placement(depth: usize, placement: Placement) -> Result<Self> {
        let ring = Ring::new(depth)?;
        let placement = Placement::CANDIDATES
            .into_iter()
            .filter(|operation| placement.has(*operation) && ring.supports(*operation))
            .fold(Placement::NOTHING, Placement::with);
        Ok(Self { ready: VecDeque::with_capacity(ring.depth()), ring, placement })
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
            pairs: false,
            drops_cache: true,
        }
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        if self.in_flight() >= self.ring.depth() {
            return Err(Box::new(op));
        }
        let Op { token, call } = op;
        let call = if self.ring.is_broken() { Err(call) } else { request(call, self.placement) };
        let call = match call {
            Ok(request) => match self.ring.push(token, request) {
                Ok(()) => return Ok(()),
                Err(request) => refused(request),
            },
            Err(call) => call,
        };
        self.ready.push_back(Done { token, outcome: perform(call) });
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
}

/// Turns a call into a request for the ring, or gives it back if it is to be done in place.
fn request(call: Call, placement: Placement) -> std::result::Result<RingRequest, Call> {
    Ok(match call {
        Call::Open { directory, name, how } if placement.has(Operation::Openat) => {
            RingRequest::Openat { directory, name, how }
        }
        Call::Stat { file } if placement.has(Operation::Statx) => RingRequest::Statx { file },
        Call::Read { file, offset, buffer, length, cache, .. } if placement.has(Operation::Read) => {
            RingRequest::Read { file, offset, buffer, length, cache }
        }
        Call::Write { file, offset, buffer, range, cache } if placement.has(Operation::Write) => {
            RingRequest::Write { file, offset, buffer, range, cache }
        }
        Call::Synchronize { file } if placement.has(Operation::Fsync) => RingRequest::Fsync { file },
        Call::Close { file } if placement.has(Operation::Close) => RingRequest::Close { file },
        call => return Err(call),
    })
}

/// Turns a request that the ring did not take back into its call.
fn refused(request: RingRequest) -> Call {
    match request {
        RingRequest::Openat { directory, name, how } => Call::Open { directory, name, how },
        RingRequest::Statx { file } => Call::Stat { file },
        RingRequest::Read { file, offset, buffer, length, cache } => {
            Call::Read { file, offset, buffer, length, wait: crate::Wait::Allowed, cache }
        }
        RingRequest::Write { file, offset, buffer, range, cache } => {
            Call::Write { file, offset, buffer, range, cache }
        }
        RingRequest::Fsync { file } => Call::Synchronize { file },
        RingRequest::Close { file } => Call::Close { file },
    }
}

fn outcome(reply: RingReply) -> Outcome {
    match reply {
        RingReply::Opened(result) => Outcome::Opened(result),
        RingReply::Looked(result) => Outcome::Looked(result),
        RingReply::Read { buffer, result } => Outcome::Read { buffer, result: result.map(Some) },
        RingReply::Wrote { buffer, result } => Outcome::Wrote { buffer, result },
        RingReply::Synchronized(result) => Outcome::Synchronized(result),
        RingReply::Closed(result) => Outcome::Closed(result),
    }
}
