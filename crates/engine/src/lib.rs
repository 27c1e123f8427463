//! The I/O engines of haul: one small trait, several paths to the kernel.
//!
//! An engine accepts operations on file descriptors and returns completions. A synchronous engine
//! completes an operation inside [`Engine::submit`]; an asynchronous one later. The caller doesn't
//! care. Engines know descriptors, offsets, buffers and completions. They don't know paths,
//! options, or why a file is read.
//!
//! The contract. Each rule is a test generated for every engine (`tests/contract.rs`):
//! 1. An accepted operation completes exactly once, with its buffer.
//! 2. A rejected operation is returned unchanged.
//! 3. An operation the engine can't do natively is performed synchronously and
//!    completes the same way.
//! 4. Short transfers are reported, never hidden; the caller continues them.
//! 5. No order is guaranteed between operations.
//! 6. A close always runs.
//! 7. Errors of fsync and close are reported.
//! 8. Drop waits for the kernel, or leaks. Memory the kernel may still touch is never freed.
//! 9. In-flight slots are a fixed pool: no map, no allocation, no lock per operation.
//! 10. A pair only writes bytes that it has read, and reports both byte counts.

mod counting;
mod faulty;
mod kernel_aio;
mod null;
mod op;
mod placement;
mod posix_aio;
mod retry;
mod select;
mod sync;
mod synchronous;
mod transfer;
mod uring;

pub use counting::{CountingEngine, OperationTally};
pub use faulty::{FaultRates, Faulty};
pub use kernel_aio::KernelAio;
pub use null::Null;
pub use op::{Call, Done, Op, Outcome, Token, Wait};
pub use placement::Placement;
pub use posix_aio::PosixAio;
pub use retry::Retry;
pub use select::{ENGINES, EngineChoice, EngineEntry, EngineSetup, NewEngine, Ops, UnknownEngine, make};
pub use sync::Sync;
pub use uring::Uring;

pub use haul_sys::Used;
use haul_sys::{Buffer, Result};

/// Capabilities of an engine, determined once when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Name of the engine, as accepted by `--engine`.
    pub name: &'static str,
    /// Maximum operations in flight; 1 for an engine that completes inside `submit`.
    pub depth: usize,
    /// True if `submit` itself waits for the disk. The caller then asks for cached data first
    /// ([`Wait::Never`]) and lets the kernel fetch the rest while it works on other files.
    pub blocks: bool,
    /// True if a pair ([`Call::Pair`]) is better than a read followed by a write.
    pub pairs: bool,
    /// True if reads and writes can bypass the page cache
    /// ([`CacheMode::Drop`](haul_sys::CacheMode::Drop)).
    pub drops_cache: bool,
}

/// A path to the kernel. Each worker owns one engine; engines are not shared.
///
/// An engine may be created on one thread and moved to another, but only before its first
/// operation: some engines are then bound to the thread that uses them.
pub trait Engine: Send {
    /// Returns the engine's capabilities.
    fn caps(&self) -> Caps;

    /// Accepts an operation.
    ///
    /// # Errors
    /// Returns the operation unchanged if [`Caps::depth`] operations are in flight; reap first.
    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>>;

    /// Submits the accepted operations to the kernel, in as few calls as possible.
    ///
    /// # Errors
    /// If the kernel permanently refuses. The next `reap` then returns the operations in flight,
    /// and those the kernel had accepted have failed. Later operations are performed synchronously.
    fn flush(&mut self) -> Result<()>;

    /// Appends completions to `done`. Waits until there are at least `min`, or
    /// nothing is in flight.
    ///
    /// # Errors
    /// Same as [`Engine::flush`].
    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()>;

    /// Returns the number of operations accepted but not yet reaped.
    fn in_flight(&self) -> usize;

    /// Announces buffers that the engine's operations will use repeatedly. Must be called
    /// before the first operation. An engine that can registers them with the kernel; the
    /// others do nothing.
    ///
    /// # Errors
    /// From the kernel, such as `ENOMEM` if locked memory is limited. The buffers remain
    /// usable unregistered.
    fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        let _ = buffers;
        Ok(())
    }

    /// Returns counts of the optional features used so far, and of the calls that submitted
    /// operations or waited for them. Counts that don't apply are zero; a synchronous engine
    /// returns only zeros.
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
