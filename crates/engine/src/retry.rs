//! The retry engine: a read that would wait is left, and tried again when the kernel has fetched the data.
//!
//! This is the kernel patch set's "regular I/O minus blocking, plus retries" in user space: `preadv2(RWF_NOWAIT)` takes
//! what is in the page cache, and where nothing is, the kernel begins to fetch it and says `EAGAIN`. Nobody wakes us when
//! the data is there, so whoever waits comes round again:
//!
//! ```text
//!  submit            at once            not there                     there: done
//!  ───────► try ───────────────► done      │              ┌──────────────────────────────► done
//!            └─────────────────────────────┴──► waiting ──┤ round after round (`reap`)
//!                                                         └──────────────────────────────► done
//!                                                           oldest, out of patience: a read that waits
//! ```
//!
//! - A round begins at the oldest and gives up after [`MISSES_MAX`] in a row that are not there: data arrives about in the
//!   order in which it was asked for, and a round over hundreds would cost more than it finds.
//! - What is not there in the second round is asked for once more, by advice: kernels before 5.10 fetch nothing for a read
//!   that does not wait.
//! - When a round finds nothing and the caller wants something, the engine sleeps, longer from time to time (20 us to 2 ms).
//! - A pair is a read tried like any other, and its write in place as soon as it is there.
//! - Everything else is done in place. So is a read past the page cache (`O_DIRECT`), in which there is nothing to find; and
//!   one from a file system that cannot refuse to wait, after the kernel was advised to fetch it.
//!
//! Termination: `reap` wants a completion only while something waits. For each it makes at most [`PAUSES_MAX`] pauses,
//! about 0.1 s; then the oldest is read with the call that waits, which comes back when the disk answers. So it ends even
//! when fetched data is thrown out before it is read, or the file system answers `EAGAIN` for ever. In the second case the
//! patience is spent soon too: it is halved each time it was in vain, and restored when a read was there after all.
//!
//! Invariant: completions and waiting reads together never exceed the depth, so both fit in memory set aside when the
//! engine is made. No thread, and nothing to do while nothing waits.

use std::collections::VecDeque;
use std::time::Duration;

use haul_sys as sys;
use haul_sys::{Advice, Cache, Errno, Fd, Result};

use crate::in_place::perform;
use crate::transfer::transfer;
use crate::{Call, Caps, Done, Engine, Op, Token};

/// The most reads that wait at a time: as many as a ring holds.
const DEPTH_MAX: usize = 32_768;

/// How many reads in a row may turn out not to be there before a round ends.
const MISSES_MAX: usize = 8;

/// The first pause, and the longest.
const PAUSE: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// How many pauses without any progress the oldest read is given at most: about 0.1 s.
const PAUSES_MAX: u32 = 56;

/// The answers to a read that must not wait, after which one that may is worth a try.
const REFUSALS: [Errno; 3] = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM];

/// Reads what is there and comes back for the rest.
#[derive(Debug)]
pub struct Retry {
    depth: usize,
    /// Reads and pairs that were not there, the oldest first.
    waiting: VecDeque<Waiting>,
    ready: VecDeque<Done>,
    /// How many pauses without any progress the oldest read is given.
    patience: u32,
    misses: u64,
    insisted: u64,
}

/// A read, or a pair that has not read.
#[derive(Debug)]
struct Waiting {
    token: Token,
    call: Call,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not tried.
    New,
    /// Tried once; the kernel fetches it if it is recent.
    Tried,
    /// Tried more than once, and asked for by advice.
    Advised,
    /// Trying is no use: the next time, the read waits.
    Insist,
}

impl Retry {
    /// The name `--engine` takes.
    pub const NAME: &'static str = "retry";

    /// Makes the engine, for `depth` operations in flight (at least 1); there is nothing that could be refused.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, DEPTH_MAX);
        Self {
            depth,
            waiting: VecDeque::with_capacity(depth),
            ready: VecDeque::with_capacity(depth),
            patience: PAUSES_MAX,
            misses: 0,
            insisted: 0,
        }
    }

    /// Returns how often a read was tried and its data was not there.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Returns how many reads were done with the call that waits.
    #[must_use]
    pub fn insisted(&self) -> u64 {
        self.insisted
    }

    /// Tries waiting reads, the oldest first, and those that are there become ready; returns whether any did.
    fn go_round(&mut self) -> bool {
        let (mut index, mut missed, mut moved) = (0, 0, false);
        while index < self.waiting.len() && missed < MISSES_MAX {
            // One read that waits is enough for a round that has found nothing else: the caller may want no more.
            let leave = moved && self.waiting[index].state == State::Insist;
            if !leave && let Some(result) = self.attempt(index) {
                self.complete(index, result);
                (missed, moved) = (0, true);
            } else {
                (index, missed) = (index + 1, missed + 1);
            }
        }
        moved
    }

    /// Tries the read at `index`; returns what came of it, if it is over.
    fn attempt(&mut self, index: usize) -> Option<Result<usize>> {
        let waiting = &mut self.waiting[index];
        let (file, offset, bytes, cache) = waiting.call.as_read()?;
        if waiting.state == State::Insist {
            self.insisted += 1;
            return Some(sys::read(file, offset, bytes, cache));
        }
        let length = bytes.len() as u64;
        let state = match sys::try_read(file, offset, bytes, cache) {
            Ok(None) => match waiting.state.after_miss(file, offset, length, cache) {
                Ok(state) => state,
                Err(error) => return Some(Err(error)),
            },
            Ok(Some(length)) => {
                self.patience = PAUSES_MAX;
                return Some(Ok(length));
            }
            // The file system cannot refuse to wait, or it cannot leave the cache alone, or a filter forbids this very
            // call: then the read that waits says so.
            Err(error) if REFUSALS.into_iter().any(|errno| error.is(errno)) => {
                fetch(file, offset, length, cache);
                State::Insist
            }
            Err(error) => return Some(Err(error)),
        };
        self.misses += 1;
        waiting.state = state;
        None
    }

    /// Ends the read at `index`, with its write if it is a pair.
    fn complete(&mut self, index: usize, result: Result<usize>) {
        let Some(Waiting { token, call, .. }) = self.waiting.remove(index) else { return };
        let outcome = match transfer(call) {
            Ok(transfer) => transfer.finish(result).into(),
            // Cannot be: nothing else waits. If it did, its turn has come.
            Err(call) => perform(call),
        };
        self.ready.push_back(Done { token, outcome });
    }
}

impl State {
    /// Says how to go on with a read that is not there.
    fn after_miss(self, file: &Fd, offset: u64, length: u64, cache: Cache) -> Result<Self> {
        match self {
            Self::New => Ok(Self::Tried),
            Self::Tried if sys::is_direct(file)? => Ok(Self::Insist),
            Self::Tried => {
                fetch(file, offset, length, cache);
                Ok(Self::Advised)
            }
            state => Ok(state),
        }
    }
}

/// Has the kernel begin to fetch what is to be read. Only advice: a refusal changes nothing but the speed.
fn fetch(file: &Fd, offset: u64, length: u64, cache: Cache) {
    // To advice a length of 0 means the whole file; and what is advised stays in the cache.
    if cache == Cache::Keep && length > 0 {
        sys::advise_range(file, Advice::WillNeed, offset, length).unwrap_or_default();
    }
}

impl Call {
    /// Returns what a read, or the read of a pair, reads: file, offset, where to, and what is left in the cache.
    fn as_read(&mut self) -> Option<(&Fd, u64, &mut [u8], Cache)> {
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
        self.waiting.push_back(Waiting { token, call, state: State::New });
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
        let mut wanted = min.min(self.in_flight());
        let mut pauses = 0;
        loop {
            let moved = self.go_round();
            wanted = wanted.saturating_sub(self.ready.len());
            done.extend(self.ready.drain(..));
            if wanted == 0 {
                return Ok(());
            }
            if moved {
                // There may be more, as a round is short.
                pauses = 0;
            } else if pauses < self.patience {
                std::thread::sleep(PAUSE_MAX.min(PAUSE * (1 << pauses.min(16))));
                pauses += 1;
            } else if let Some(oldest) = self.waiting.front_mut() {
                oldest.state = State::Insist;
                self.patience /= 2;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.waiting.len()
    }
}
