//! The retry engine: a read that would block is deferred, and retried once the kernel has
//! fetched the data.
//!
//! This is the "regular I/O minus blocking, plus retries" of the kernel patch set, in user space.
//! `preadv2(RWF_NOWAIT)` reads only from the page cache. If nothing is there, the kernel starts to
//! fetch it and returns `EAGAIN`. Nothing wakes us when the data arrives, so `reap` retries
//! deferred reads:
//!
//! ```text
//!  submit            cached             not cached                cached: done
//!  ───────► try ───────────────► done      │              ┌──────────────────────────────► done
//!            └─────────────────────────────┴──► waiting ──┤ pass after pass (`reap`)
//!                                                         └──────────────────────────────► done
//!                                                           oldest, out of patience: blocking read
//! ```
//!
//! - A pass starts at the oldest read and stops after [`MISSES_MAX`] consecutive misses. Data
//!   arrives roughly in the order of the requests, and a pass over hundreds would cost more
//!   than it finds.
//! - A read that misses in the second pass is also requested with `posix_fadvise`: before Linux
//!   5.10 a nonblocking read fetches nothing.
//! - If a pass finds nothing and the caller wants completions, the engine sleeps, with exponential
//!   backoff from 20 us to 2 ms.
//! - A pair is retried like a read, and written synchronously as soon as it is read.
//! - Everything else is synchronous. So is a read with `O_DIRECT`, which never hits the page cache,
//!   and one from a file system without `RWF_NOWAIT`, after `posix_fadvise` has asked for the data.
//!
//! Termination: `reap` waits for a completion only while a read is deferred. For each one it sleeps
//! at most [`PAUSES_MAX`] times, about 0.1 s in total. Then it reads the oldest with a blocking
//! call, which returns when the disk responds. So it terminates even if fetched data is evicted
//! before it is read, or if the file system returns `EAGAIN` forever. In the latter case patience
//! is soon exhausted too: it is halved each time it was in vain, and restored once a nonblocking
//! read succeeds.
//!
//! Invariant: completions and deferred reads together never exceed the depth, so both fit in
//! memory reserved when the engine is created. There is no thread, and nothing to do if no
//! read is deferred.

use std::collections::VecDeque;
use std::time::Duration;

use haul_sys as sys;
use haul_sys::{Advice, CacheMode, Errno, Fd, Result};

use crate::synchronous::perform;
use crate::transfer::transfer;
use crate::{Call, Caps, Done, Engine, Op, Token};

/// Maximum deferred reads: as many as a ring holds.
const DEPTH_MAX: usize = 32_768;

/// Maximum consecutive misses before a pass ends.
const MISSES_MAX: usize = 8;

/// The first pause, and the longest.
const PAUSE: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// Maximum pauses without progress before the oldest read blocks: about 0.1 s.
const PAUSES_MAX: u32 = 56;

/// Errors of a nonblocking read after which a blocking one is tried.
const REFUSALS: [Errno; 3] = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM];

/// Reads cached data at once and retries the rest.
#[derive(Debug)]
pub struct Retry {
    depth: usize,
    /// Deferred reads and pairs, oldest first.
    waiting: VecDeque<WaitingRead>,
    ready: VecDeque<Done>,
    /// Number of pauses without progress before the oldest read blocks.
    patience: u32,
    misses: u64,
    blocking_reads: u64,
}

/// A read, or a pair that has not been read yet.
#[derive(Debug)]
struct WaitingRead {
    token: Token,
    call: Call,
    state: RetryState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryState {
    /// Not tried yet.
    New,
    /// Tried once; recent kernels are fetching the data.
    Tried,
    /// Tried more than once, and requested with `posix_fadvise`.
    Advised,
    /// The next attempt is a blocking read.
    Blocking,
}

impl Retry {
    /// Name for `--engine`.
    pub const NAME: &'static str = "retry";

    /// Creates an engine for `depth` operations in flight (at least 1). It cannot fail.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, DEPTH_MAX);
        Self {
            depth,
            waiting: VecDeque::with_capacity(depth),
            ready: VecDeque::with_capacity(depth),
            patience: PAUSES_MAX,
            misses: 0,
            blocking_reads: 0,
        }
    }

    /// Returns how many attempts missed the page cache.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Returns how many reads used the blocking call.
    #[must_use]
    pub fn blocking_reads(&self) -> u64 {
        self.blocking_reads
    }

    /// Retries deferred reads, oldest first, and completes those that are cached. Returns true if
    /// any completed.
    fn run_pass(&mut self) -> bool {
        let (mut index, mut missed, mut moved) = (0, 0, false);
        while index < self.waiting.len() && missed < MISSES_MAX {
            // One blocking read is enough if the pass has completed something: the caller may
            // not need more.
            let leave = moved && self.waiting[index].state == RetryState::Blocking;
            if !leave && let Some(result) = self.attempt(index) {
                self.complete(index, result);
                (missed, moved) = (0, true);
            } else {
                (index, missed) = (index + 1, missed + 1);
            }
        }
        moved
    }

    /// Tries the read at `index`. Returns its result if it completed.
    fn attempt(&mut self, index: usize) -> Option<Result<usize>> {
        let waiting = &mut self.waiting[index];
        let (file, offset, bytes, cache) = waiting.call.as_read()?;
        if waiting.state == RetryState::Blocking {
            self.blocking_reads += 1;
            return Some(sys::read(file, offset, bytes, cache));
        }
        let length = bytes.len() as u64;
        let state = match sys::try_read(file, offset, bytes, cache) {
            Ok(None) => match waiting.state.after_miss(file, offset, length, cache) {
                Ok(state) => state,
                Err(error) => return Some(Err(error)),
            },
            Ok(Some(length)) => {
                // Nonblocking reads work here after all, so waiting is worthwhile again.
                self.patience = PAUSES_MAX;
                return Some(Ok(length));
            }
            // `RWF_NOWAIT` is not supported by the file system, or not together with the cache
            // policy, or seccomp forbids `preadv2`. The blocking read reports any real error.
            Err(error) if REFUSALS.into_iter().any(|errno| error.is(errno)) => {
                fetch(file, offset, length, cache);
                RetryState::Blocking
            }
            Err(error) => return Some(Err(error)),
        };
        self.misses += 1;
        waiting.state = state;
        None
    }

    /// Completes the read at `index`; for a pair, also writes the bytes.
    fn complete(&mut self, index: usize, result: Result<usize>) {
        let Some(WaitingRead { token, call, .. }) = self.waiting.remove(index) else { return };
        let outcome = match transfer(call) {
            Ok(transfer) => transfer.finish(result).into(),
            // Unreachable: only reads and pairs are deferred. If another call ever is,
            // perform it now.
            Err(call) => perform(call),
        };
        self.ready.push_back(Done { token, outcome });
    }
}

impl RetryState {
    /// Returns the next state after a miss.
    fn after_miss(self, file: &Fd, offset: u64, length: u64, cache: CacheMode) -> Result<Self> {
        match self {
            Self::New => Ok(Self::Tried),
            // `O_DIRECT` bypasses the page cache, so no retry would ever hit. Asked only after two
            // misses: reads that hit cost no further call.
            Self::Tried if sys::is_direct(file)? => Ok(Self::Blocking),
            Self::Tried => {
                fetch(file, offset, length, cache);
                Ok(Self::Advised)
            }
            state => Ok(state),
        }
    }
}

/// Asks the kernel to start fetching. Errors are ignored because this is only advice.
fn fetch(file: &Fd, offset: u64, length: u64, cache: CacheMode) {
    // For `posix_fadvise`, length 0 means the whole file. Advised data stays in the cache.
    if cache == CacheMode::Keep && length > 0 {
        sys::advise_range(file, Advice::WillNeed, offset, length).unwrap_or_default();
    }
}

impl Call {
    /// Returns the file, offset, destination and cache policy of a read or of a pair's read.
    fn as_read(&mut self) -> Option<(&Fd, u64, &mut [u8], CacheMode)> {
        match self {
            Self::Read { file, offset, buffer, length, cache, .. }
            | Self::Pair { source: file, offset, buffer, length, cache, .. } => {
                Some((file, *offset, &mut buffer.bytes_mut()[..*length], *cache))
            }
            _ => None,
        }
    }
}

impl Engine for Retry {
    fn caps(&self) -> Caps {
        Caps { name: Self::NAME, depth: self.depth, blocks: false, pairs: true, drops_cache: true }
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        if self.in_flight() >= self.depth {
            return Err(Box::new(op));
        }
        let Op { token, call } = op;
        if !matches!(call, Call::Read { .. } | Call::Pair { .. }) {
            self.ready.push_back(Done { token, outcome: perform(call) });
            return Ok(());
        }
        self.waiting.push_back(WaitingRead { token, call, state: RetryState::New });
        let index = self.waiting.len() - 1;
        if let Some(result) = self.attempt(index) {
            self.complete(index, result);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        // More than is in flight never completes.
        let mut wanted = min.min(self.in_flight());
        let mut pauses = 0;
        loop {
            let moved = self.run_pass();
            wanted = wanted.saturating_sub(self.ready.len());
            done.extend(self.ready.drain(..));
            if wanted == 0 {
                return Ok(());
            }
            if moved {
                // A pass is short, so more may be cached by now.
                pauses = 0;
            } else if pauses < self.patience {
                // The shift is bounded: `PAUSES_MAX` is more than the bits of the multiplier.
                std::thread::sleep(PAUSE_MAX.min(PAUSE * (1 << pauses.min(16))));
                pauses += 1;
            } else if let Some(oldest) = self.waiting.front_mut() {
                oldest.state = RetryState::Blocking;
                // The wait was in vain; where `EAGAIN` is permanent, the next one must be shorter.
                self.patience /= 2;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.waiting.len()
    }
}
