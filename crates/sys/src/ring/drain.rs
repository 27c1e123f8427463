//! Dropping a ring: cancels the requests that the kernel still has and waits for them, or leaks
//! them.

use std::mem;
use std::time::{Duration, Instant};

use io_uring::opcode;
use rustix::io::Errno;

use super::enter::Enter;
use super::request::Holder;
use super::request::{FIRST, SECOND};
use super::slot::mark;
use super::{CANCELLATION, Ring};

/// Maximum time that drop waits for the next completion before it leaks the rest.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

impl Ring {
    /// Gives up on the kernel: leaks whatever it still holds and finishes those requests
    /// with `EIO`.
    ///
    /// Not the kernel's errno: the caller might take it for a transient one and retry.
    pub(super) fn leak(&mut self) {
        if self.in_kernel == 0 {
            return;
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.holder != Holder::Kernel || slot.is_finished() {
                continue;
            }
            if let Some(request) = &mut slot.request {
                request.leak();
                slot.fail(Errno::IO);
                self.finished.push_back(index);
                self.statx_buffers_leaked = true;
            }
        }
        self.in_kernel = 0;
    }

    /// Cancels everything in the kernel except closes, and waits for all of it while there
    /// is progress.
    fn drain(&mut self) {
        if self.flush().is_err() {
            return;
        }
        self.cancel();
        let mut deadline = Instant::now() + DRAIN_PATIENCE;
        while self.in_kernel > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.call(Enter::SubmitAtMost(left)) {
                Ok(()) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::TIME) => {}
                Err(_) => return,
            }
            if self.collect() > 0 {
                deadline = Instant::now() + DRAIN_PATIENCE;
            }
        }
    }

    /// Queues a cancellation for each part that is due.
    ///
    /// The write of a pair needs its own: its read may just have completed and started it.
    fn cancel(&mut self) {
        for (index, slot) in self.slots.iter().enumerate() {
            for part in [FIRST, SECOND] {
                if slot.holder != Holder::Kernel || slot.is_close() || !slot.is_due(part) {
                    continue;
                }
                let entry = opcode::AsyncCancel::new(mark(index, part)).build().user_data(CANCELLATION);
                let mut queue = self.setup.ring.submission();
                // SAFETY: a cancellation points to no memory. There is room: the queue was flushed
                // and has at least as many entries as there are parts. If there were none, the
                // request would be waited for without being cancelled.
                if unsafe { queue.push(&entry) }.is_err() {
                    return;
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_kernel + self.queued.len() > 0 {
            self.drain();
        }
        self.leak();
        while let Some(index) = self.finished.pop_front() {
            let slot = &mut self.slots[index];
            if let Some(request) = slot.request.take() {
                request.abandon(slot.results[FIRST], slot.holder);
            }
        }
        if self.statx_buffers_leaked {
            mem::forget(mem::take(&mut self.statx_buffers));
        }
    }
}
