//! The I/O engines of haul: one small trait, several ways to the kernel.
//!
//! An engine takes operations on descriptors and gives back completions. A synchronous engine completes an operation
//! inside [`Engine::submit`]; an asynchronous one later. The caller does not care. Engines know descriptors, offsets,
//! buffers and completions; they do not know paths, options, or why a file is read.
//!
//! The contract, each line of which is a test generated for every engine (`tests/contract.rs`):
//! 1. An accepted operation comes back exactly once, with its buffer.
//! 2. A refused one is handed back untouched.
//! 3. What the engine cannot do natively it does in place, and completes by the same path.
//! 4. Short transfers are reported, never hidden; going on is the caller's job.
//! 5. No order is promised between operations.
//! 6. A close always runs.
//! 7. The results of synchronize and close are results.
//! 8. Drop waits for the kernel, or leaks; memory the kernel may still touch is never freed.
//! 9. In-flight slots are a fixed pool: no map, no allocation, no lock per operation.
//! 10. A pair writes nothing that it has not read, and says how much of both.

mod faulty;
mod in_place;
mod kernel_aio;
mod null;
mod op;
mod placement;
mod posix_aio;
mod record;
mod retry;
mod select;
mod sync;
mod transfer;
mod uring;

pub use faulty::{Faulty, Mischief};
pub use kernel_aio::KernelAio;
pub use null::Null;
pub use op::{Call, Done, Op, Outcome, Token, Wait};
pub use placement::Placement;
pub use posix_aio::PosixAio;
pub use record::{Record, Tally};
pub use retry::Retry;
pub use select::{Choice, ENGINES, Listed, Made, Ops, Setup, UnknownEngine, make};
pub use sync::Sync;
pub use uring::Uring;

pub use haul_sys::Used;
use haul_sys::{Buffer, Result};

/// What an engine can do, found out once when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The engine's name, as `--engine` takes it.
    pub name: &'static str,
    /// How many operations it takes before it is full; 1 for an engine that completes inside `submit`.
    pub depth: usize,
    /// Whether `submit` itself waits for the disk. If so, the caller asks for cached data first ([`Wait::Never`]) and
    /// lets the kernel fetch the rest while it goes on with other files.
    pub blocks: bool,
    /// Whether a pair ([`Call::Pair`]) is better than a read and then a write: the engine does the two in one go.
    pub pairs: bool,
    /// Whether reads and writes can leave nothing in the page cache ([`Cache::Drop`](haul_sys::Cache::Drop)).
    pub drops_cache: bool,
}

/// A way to the kernel. One worker owns one engine; engines are not shared.
///
/// An engine may be made on one thread and moved to another, but only before its first operation: some are then bound
/// to the thread that uses them.
pub trait Engine: Send {
    /// Says what the engine can do.
    fn caps(&self) -> Caps;

    /// Takes an operation.
    ///
    /// # Errors
    /// Hands it back, untouched, when [`Caps::depth`] operations are in flight: reap first.
    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>>;

    /// Passes what was taken to the kernel, in as few calls as it can.
    ///
    /// # Errors
    /// When the kernel refuses for good. The operations in flight then come back by the next `reap`, those that the
    /// kernel had taken as failed; and the engine does what it is given afterwards in place.
    fn flush(&mut self) -> Result<()>;

    /// Appends completions to `done`, waiting until there are at least `min` (or nothing is in flight).
    ///
    /// # Errors
    /// As [`Engine::flush`].
    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()>;

    /// Says how many operations were taken and not yet reaped.
    fn in_flight(&self) -> usize;

    /// Tells the engine that these buffers will be used over and over by its operations, before the first. An engine that
    /// can, makes them known to the kernel once and for all; the others have nothing to do.
    ///
    /// # Errors
    /// The kernel's, such as `ENOMEM` where locked memory is limited. The buffers can then be used as any others.
    fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        let _ = buffers;
        Ok(())
    }

    /// Says what it has used so far of what not every engine has, and in how many calls operations were passed on and
    /// waited for. What an engine does not count is zero: all of it, for one that does everything in place.
    fn used(&self) -> Used {
        Used::default()
    }
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn caps(&self) -> Caps {
        (**self).caps()
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        (**self).submit(op)
    }

    fn flush(&mut self) -> Result<()> {
        (**self).flush()
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        (**self).reap(min, done)
    }

    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }

    fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        (**self).register(buffers)
    }

    fn used(&self) -> Used {
        (**self).used()
    }
}
