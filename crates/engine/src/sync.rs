//! The synchronous engine: every operation completes inside `submit`.
//!
//! It is the simplest path to the kernel and the baseline for the others. It keeps nothing in
//! flight, so the caller keeps the disk busy by other means: it opens files and calls
//! `posix_fadvise` on them ahead, and uses [`Wait::Never`] to read data that is already cached
//! (see [`Caps::blocks`]).
//!
//! Invariant: at most one completion waits to be reaped, stored inline, so no operation allocates.

use haul_sys::Result;

use crate::synchronous::perform;
use crate::{Caps, Done, Engine, Op};

#[cfg(doc)]
use crate::Wait;

/// Makes blocking calls, one at a time.
#[derive(Debug, Default)]
pub struct Sync {
    ready: Option<Done>,
}

impl Sync {
    /// Name for `--engine`.
    pub const NAME: &'static str = "sync";

    /// Creates the engine. It cannot fail.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Engine for Sync {
    fn caps(&self) -> Caps {
        Caps { name: Self::NAME, depth: 1, blocks: true, pairs: false, drops_cache: true }
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        if self.ready.is_some() {
            return Err(Box::new(op));
        }
        self.ready = Some(Done { token: op.token, outcome: perform(op.call) });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self, _min: usize, done: &mut Vec<Done>) -> Result<()> {
        done.extend(self.ready.take());
        Ok(())
    }

    fn in_flight(&self) -> usize {
        usize::from(self.ready.is_some())
    }
}
