//! Two workers that copy one file and write its blocks in turn.
//!
//! A file system lets only one thread at a time write to a file, but another can read at the same
//! time (docs/measurements/choices.md, "One large file by two workers"). Each worker takes the next
//! block, reads it, and writes it once all blocks before it are written:
//!
//! ```text
//! worker 0:  read 0 │ write 0 │ read 2 │ write 2 │ read 4 │ write 4
//! worker 1:         │ read 1  │ write 1 │ read 3 │ write 3 │ read 5
//! ```
//!
//! Invariant: the data written is always a prefix of the file, as with one worker. A copy that is
//! killed leaves no hole in it.
//!
//! Termination: the first block that isn't written belongs to a worker that doesn't wait. It either
//! writes the block, or calls [`Turns::stop`], which ends all waits.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::block_cursor::BlockCursor;
use crate::lock::lock;

/// Maximum time a worker spins before it sleeps: about as long as a block takes. With a sleep for
/// each block, a copy takes up to 1.4 times as long (docs/measurements/choices.md).
const SPIN_MAX: Duration = Duration::from_micros(100);

/// The blocks of a file that two workers copy.
pub(crate) struct Turns {
    blocks: BlockCursor,
    /// End of the written range.
    written: AtomicU64,
    /// True once a worker has given up its block.
    stopped: AtomicBool,
    sleepers: AtomicU32,
    sleep_lock: Mutex<()>,
    wakeup: Condvar,
}

impl Turns {
    pub(super) fn new(range: Range<u64>, block_bytes: u64) -> Self {
        Self {
            blocks: BlockCursor::new(range.start, range.end, block_bytes),
            written: AtomicU64::new(range.start),
            stopped: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            sleep_lock: Mutex::new(()),
            wakeup: Condvar::new(),
        }
    }

    /// Claims the next block.
    pub(super) fn take(&self) -> Option<Range<u64>> {
        self.blocks.take()
    }

    /// Waits until everything before `position` is written. Calls `before_sleep` if that takes
    /// long. Returns false if it never will be.
    pub(super) fn wait(&self, position: u64, before_sleep: impl FnOnce()) -> bool {
        let began = Instant::now();
        while !self.is_over(position) {
            if began.elapsed() > SPIN_MAX {
                before_sleep();
                self.sleep(position);
                break;
            }
            std::hint::spin_loop();
        }
        self.is_turn(position)
    }

    fn sleep(&self, position: u64) {
        let mut sleep_lock = lock(&self.sleep_lock);
        // SeqCst, as in `wake`: each side stores before it loads, so at least one sees the other.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.is_over(position) {
            sleep_lock = self.wakeup.wait(sleep_lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Notes that everything before `position` is written. Called by the worker whose turn it is.
    pub(super) fn note_written(&self, position: u64) {
        self.written.store(position, Ordering::SeqCst);
        self.wake();
    }

    /// Ends all waits: a block will not be written.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A sleeper that has checked but doesn't wait yet would miss it without the lock.
            let _lock = lock(&self.sleep_lock);
            self.wakeup.notify_one();
        }
    }

    fn is_turn(&self, position: u64) -> bool {
        self.written.load(Ordering::SeqCst) == position
    }

    /// Returns true if a wait for this position is over.
    fn is_over(&self, position: u64) -> bool {
        self.is_turn(position) || self.stopped.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts at a race. Miri is a thousand times slower.
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 100 };

    /// Claims blocks in two threads. `pause` is called before each write; the worker that meets
    /// `gives_up` leaves its block. Returns the written blocks, in their order.
    fn written(blocks: u64, gives_up: Option<u64>, pause: impl Fn(u64) + Sync) -> Vec<u64> {
        let (turns, written) = (Turns::new(3..3 + blocks, 1), Mutex::new(Vec::new()));
        let worker = || {
            while let Some(block) = turns.take() {
                pause(block.start);
                if gives_up == Some(block.start) {
                    return turns.stop();
                }
                if !turns.wait(block.start, || {}) {
                    return turns.stop();
                }
                lock(&written).push(block.start);
                turns.note_written(block.end);
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(worker);
            worker();
        });
        written.into_inner().unwrap()
    }

    #[test]
    fn blocks_are_written_in_their_order() {
        let late = |block: u64| {
            if block.is_multiple_of(64) {
                // Long enough for the other worker to fall asleep.
                std::thread::sleep(3 * SPIN_MAX);
            }
        };
        for blocks in [1, 2, 10 * ROUNDS] {
            assert_eq!(written(blocks, None, |_| ()), (3..3 + blocks).collect::<Vec<_>>());
            assert_eq!(written(blocks, None, late), (3..3 + blocks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_is_written_after_a_block_that_was_given_up() {
        for gives_up in 3..3 + ROUNDS {
            let pause = |block| {
                if block == gives_up && block % 2 == 0 {
                    std::thread::sleep(3 * SPIN_MAX);
                }
            };
            assert_eq!(written(2 * ROUNDS, Some(gives_up), pause), (3..gives_up).collect::<Vec<_>>());
        }
    }
}
