//! Large files: hashed with BLAKE3, in pieces, by all workers.
//!
//! ```text
//! owner:    opens the file ─► shares helper jobs ─► takes pieces ... ─┐
//! helper:   a job, taken when there is nothing before it ─► pieces ... ┼─► the last one finishes
//! helper:   another; the file is finished: nothing ────────────────────┘
//! ```
//!
//! The worker that met the file takes its pieces in order, and doesn't return before there are no
//! more. Workers that have nothing else to do help it. So with many large files each worker reads
//! one of them from beginning to end, the last ones are shared, and no more large files are open
//! than there are workers.
//!
//! Invariant: of the workers with a piece, exactly one finishes the file, when no piece is left and
//! no worker has one. A helper that comes later finds it finished.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_digest::{Algorithm, TreeHash};
use haul_flow::{Context, Entry, Job, Tally, lock};
use haul_sys::{Advice, Buffer, Errno, Error, Fd, Operation, advise_range};

use super::Summer;
use super::content::{new_buffer, read_beyond, read_block};
use super::task::Task;

/// Length of a piece, in bytes: a power of two, so that it is one subtree of the hash.
const PIECE_BYTES: u64 = 4 << 20;

pub(super) struct LargeHash {
    entry: Entry<Summer>,
    task: Task,
    size: u64,
    hash: TreeHash,
    /// Start of the next piece.
    next: AtomicU64,
    state: Mutex<LargeState>,
}

struct LargeState {
    /// Workers that may be hashing a piece.
    workers: usize,
    /// `None` once the file is finished. Helpers may come long after that, and must not keep
    /// it open.
    source: Option<Arc<Fd>>,
    failure: Option<Error>,
}

impl LargeHash {
    /// Hashes a file, with the help of other workers. Completes the entry, now or later.
    pub(super) fn begin(
        cx: &Context<'_, Summer>,
        entry: Entry<Summer>,
        source: &Arc<Fd>,
        size: u64,
        task: Task,
    ) {
        let state = LargeState { workers: 1, source: Some(Arc::clone(source)), failure: None };
        let (hash, next) = (TreeHash::new(), AtomicU64::new(0));
        let large = Arc::new(Self { entry, task, size, hash, next, state: Mutex::new(state) });
        let others = size.div_ceil(PIECE_BYTES).saturating_sub(1);
        for _ in 0..others.min(cx.settings().jobs.saturating_sub(1) as u64) {
            let large = Arc::clone(&large);
            cx.share(Job::Callback(Box::new(move |cx| {
                if let Some(source) = large.join() {
                    large.work(cx, source);
                }
            })));
        }
        large.work(cx, Arc::clone(source));
    }

    /// Counts a helper, and returns the file if there may be a piece left.
    fn join(&self) -> Option<Arc<Fd>> {
        let mut state = lock(&self.state);
        let is_needed = state.failure.is_none() && self.next.load(Ordering::Relaxed) < self.size;
        let source = state.source.clone().filter(|_| is_needed)?;
        state.workers += 1;
        Some(source)
    }

    /// Hashes pieces until no more are left, and finishes the file if this is the last worker.
    fn work(&self, cx: &Context<'_, Summer>, source: Arc<Fd>) {
        let outcome = self.take_pieces(cx, &source);
        drop(source);
        let mut state = lock(&self.state);
        if let Err(cause) = outcome {
            self.next.store(self.size, Ordering::Relaxed);
            state.failure.get_or_insert(cause);
        }
        state.workers -= 1;
        if state.workers > 0 {
            return;
        }
        let (source, failure) = (state.source.take(), state.failure.take());
        drop(state);
        if let Some(source) = source {
            self.finish(cx, source, failure);
        }
    }

    fn take_pieces(&self, cx: &Context<'_, Summer>, source: &Fd) -> Result<(), Error> {
        cx.tool().buffers.with(new_buffer, |buffer| {
            loop {
                let start = self.next.fetch_add(PIECE_BYTES, Ordering::Relaxed);
                if start >= self.size {
                    return Ok(());
                }
                let end = self.size.min(start + PIECE_BYTES);
                // Several workers read, which looks random to the kernel. Only advice: failure
                // affects nothing but speed.
                advise_range(source, Advice::WillNeed, start, end - start).unwrap_or_default();
                let mut offset = start;
                while offset < end {
                    let bytes = read_block(source, offset..end, buffer)?;
                    self.hash.insert(offset, bytes);
                    offset += bytes.len() as u64;
                    cx.count(Tally { bytes: bytes.len() as u64, ..Tally::default() });
                }
            }
        })
    }

    fn finish(&self, cx: &Context<'_, Summer>, source: Arc<Fd>, failure: Option<Error>) {
        let tool = cx.tool();
        // A helper's worker is not known to work for this entry's owner.
        cx.set_current_entry(&self.entry);
        let again =
            |other: Algorithm| tool.hash_in_order(cx, &source, self.size, other).map(|(digest, _)| digest);
        let read_rest = |buffer: &mut Buffer| {
            read_beyond(cx, &source, (self.size, buffer), |offset, bytes| self.hash.insert(offset, bytes))
        };
        let length = match failure {
            Some(cause) => Err(cause),
            None => tool.buffers.with(new_buffer, read_rest),
        };
        let result = length.and_then(|length| match self.hash.finish(length) {
            Some(digest) => tool.learned.result(&self.task, Some(length), digest, again),
            // Nothing after the end was read.
            None => Err(Error::new(Operation::Read, String::new(), Errno::IO)),
        });
        let closed = Arc::into_inner(source).map_or(Ok(()), Fd::close);
        let result = result.and_then(|result| closed.map(|()| result));
        tool.complete(cx, &self.entry, &self.task, result);
        cx.complete(&self.entry);
    }
}
