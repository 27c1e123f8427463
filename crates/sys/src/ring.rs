//! A safe wrapper for io_uring: each request owns everything it needs until its result is returned.
//!
//! The ring has a fixed slab of slots, one for each request in flight. A slot owns what the kernel
//! may touch (descriptors, name, buffer, the space for a `statx`) from [`Ring::push`] until its
//! completion has been seen.
//!
//! ```text
//!         push           enter                 completion seen              reaped
//! (free) ──────► queued ───────► in the kernel ─────────────────► finished ────────► (free)
//!                 │ ▲                                              │ ▲
//!                 │ └────── EINTR, EAGAIN: retry with ASYNC ───────┘ │
//!                 └──────── injected fault: never submitted ─────────┘
//! ```
//!
//! A request that is out of retries is done synchronously.
//!
//! Promises:
//! - memory and descriptors that the kernel may use are never freed: drop cancels and waits, and
//!   leaks what doesn't come back in time;
//! - every accepted request completes exactly once, with its buffer, even if the ring breaks down;
//! - a close always runs, and never twice;
//! - a successful request allocates nothing;
//! - the write of a pair starts only after its read has brought every byte.
//!
//! A pair ([`Ring::with_pairs`]) is two entries linked by `IOSQE_IO_LINK`. The kernel starts the
//! second when the first has completed, and cancels it if the first failed or was short. Kernels
//! have done so since links exist (Linux 5.3; the operations used here need 5.6). Three things can
//! still get in between:
//! - the two are submitted by two calls, which breaks the chain: see [`Ring::repair_torn_pair`];
//! - a read or write returns `EINTR` or `EAGAIN`: the rest of the pair is done synchronously, in
//!   order, and never linked again;
//! - a kernel writes after a short read anyway: the write fails with `EIO`, and the ring accepts no
//!   more pairs.
//!
//! Threads: the ring is bound to the first thread that submits (`SINGLE_ISSUER`, enabled late by
//! `R_DISABLED`), so it may be created on another. Used from a second thread it breaks down with
//! `EEXIST`, but stays safe; dropped there, it leaks.
//!
//! Invariant: the completion queue can't overflow. It has at least twice as many entries as the
//! submission queue, which has at least one for each part in flight: one per slot, or two in a ring
//! with pairs. Each part has one completion, and drop adds at most one cancellation for each.

mod drain;
mod enter;
mod files;
mod request;
mod setup;
mod slot;
#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::{self, MaybeUninit};
use std::sync::Arc;

use io_uring::squeue;
use rustix::fs::Statx;
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;
use crate::used::Used;

use files::FileTable;
use request::{FIRST, Holder, SECOND};
pub use request::{RingReply, RingRequest};
use setup::{OPERATIONS, RingSetup, errno};
use slot::{RingSlot, mark, plan};

/// Maximum entries of a ring: the kernel's own limit.
const ENTRIES_MAX: usize = 32_768;

/// Maximum resubmissions of a request that failed with `EINTR` or `EAGAIN`, before it is
/// done synchronously.
const ATTEMPTS_MAX: u8 = 2;

/// `user_data` of cancellations. No slot has this number.
const CANCELLATION: u64 = u64::MAX;

/// A ring of operations in flight. Its promises are listed in the module's documentation.
pub struct Ring {
    setup: RingSetup,
    slots: Box<[RingSlot]>,
    /// Where the kernel writes `statx` results, one per slot.
    statx_buffers: Box<[UnsafeCell<Statx>]>,
    free: Vec<usize>,
    /// Marks of the entries in the submission queue that the kernel hasn't accepted, oldest first.
    queued: VecDeque<u64>,
    /// Number of entries accepted by the kernel: completions still due.
    in_kernel: usize,
    /// Slots with all results known.
    finished: VecDeque<usize>,
    state: RingState,
    /// Consecutive failed attempts to enter without progress.
    stalls: u32,
    /// True if a request was requeued since the last check in `reap`.
    restarted: bool,
    /// True if the kernel may still write to `statx_buffers` after the ring is gone.
    statx_buffers_leaked: bool,
    /// True if pairs are accepted.
    pairs: bool,
    /// Flag that links the write of a pair to its read.
    link: squeue::Flags,
    files: FileTable,
    /// Identifies the ring to the buffers registered with it.
    identity: Arc<()>,
    used: Used,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingState {
    /// Not yet bound to a thread.
    Disabled,
    Working,
    /// The kernel refused it for good.
    Broken,
}

impl Ring {
    /// Creates a ring for `depth` requests in flight (clamped to 1 and the kernel's limit).
    ///
    /// # Errors
    /// Any error from `io_uring_setup(2)`: `EPERM` or `ENOSYS` if io_uring is forbidden or missing,
    /// `ENOMEM` if memory is limited.
    pub fn new(depth: usize) -> Result<Self> {
        let depth = depth.clamp(1, ENTRIES_MAX);
        Ok(Self::of(setup::make(entries(depth))?, depth))
    }

    /// Creates a ring that also accepts pairs, if the kernel supports read and write operations in
    /// a ring ([`Ring::takes_pairs`]).
    ///
    /// # Errors
    /// See [`Ring::new`].
    pub fn with_pairs(depth: usize) -> Result<Self> {
        let depth = depth.clamp(1, ENTRIES_MAX / 2);
        Ok(Self::of_pairs(setup::make(entries(2 * depth))?, depth))
    }

    fn of_pairs(setup: RingSetup, depth: usize) -> Self {
        let depth = depth.min(setup.ring.params().sq_entries() as usize / 2);
        let mut ring = Self::of(setup, depth);
        ring.pairs = ring.supports(Operation::Read) && ring.supports(Operation::Write);
        ring
    }

    fn of(setup: RingSetup, depth: usize) -> Self {
        let entries = setup.ring.params().sq_entries() as usize;
        let depth = depth.min(entries);
        let state = if setup.starts_disabled() { RingState::Disabled } else { RingState::Working };
        Self {
            setup,
            slots: (0..depth).map(|_| RingSlot::empty()).collect(),
            statx_buffers: (0..depth).map(|_| UnsafeCell::new(zeroed_statx())).collect(),
            free: (0..depth).rev().collect(),
            queued: VecDeque::with_capacity(entries),
            in_kernel: 0,
            finished: VecDeque::with_capacity(depth),
            state,
            stalls: 0,
            restarted: false,
            statx_buffers_leaked: false,
            pairs: false,
            link: squeue::Flags::IO_LINK,
            files: FileTable::default(),
            identity: Arc::new(()),
            used: Used::default(),
        }
    }

    /// Registers buffers with the kernel, so that it needn't look up their pages for each transfer.
    /// Call it once per ring, before the first request or on the thread that submits.
    ///
    /// All their pages become resident and stay so until the ring is gone, even if the buffers
    /// are dropped.
    ///
    /// # Errors
    /// Any error from `io_uring_register(2)`: `ENOMEM` if locked memory is limited, `EBUSY` the
    /// second time. The ring still works without registered buffers.
    pub fn register(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        let parts: Vec<libc::iovec> = buffers
            .iter_mut()
            .map(|buffer| libc::iovec {
                iov_len: buffer.capacity(),
                iov_base: buffer.bytes_mut().as_mut_ptr().cast(),
            })
            .collect();
        let submitter = self.setup.ring.submitter();
        gate::call(
            Operation::RingRegister,
            || {
                // SAFETY: each part is the memory of a buffer. The kernel takes references to its
                // pages and touches them only for entries that name it, which own the buffer.
                // Unmapping the buffer doesn't free the pages.
                unsafe { submitter.register_buffers(&parts) }.map_err(|error| errno(&error))
            },
            || format!("IORING_REGISTER_BUFFERS, {}", parts.len()),
        )?;
        for (index, buffer) in (0..=u16::MAX).zip(buffers) {
            buffer.note_registration(&self.identity, index);
        }
        Ok(())
    }

    /// Uses direct descriptors for files read and written from now on.
    ///
    /// # Errors
    /// Any error from `io_uring_register(2)`: `EINVAL` before Linux 5.19, `EMFILE` if descriptors
    /// are limited. The ring still works without direct descriptors.
    pub fn use_direct_descriptors(&mut self) -> Result<()> {
        self.files = FileTable::new(&self.setup.ring.submitter())?;
        Ok(())
    }

    /// Releases the direct descriptor of a file about to be closed outside the ring. A close
    /// through the ring does so itself.
    pub fn release(&mut self, file: &Fd) {
        self.files.release(file, &self.setup.ring.submitter());
    }

    /// Returns the usage counters so far.
    #[must_use]
    pub fn used(&self) -> Used {
        self.used
    }

    /// Returns true if the ring accepts pairs. It may stop doing so.
    #[must_use]
    pub fn takes_pairs(&self) -> bool {
        self.pairs && !self.is_broken()
    }

    /// Returns the maximum number of requests in flight.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Returns how many requests have been accepted and not yet reaped.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if the kernel supports this operation in a ring.
    #[must_use]
    pub fn supports(&self, operation: Operation) -> bool {
        OPERATIONS.iter().zip(self.setup.supported).any(|((each, _), taken)| *each == operation && taken)
    }

    /// Returns the names of useful `io_uring_setup` flags that this kernel doesn't support.
    pub fn refused_flags(&self) -> impl Iterator<Item = &'static str> {
        self.setup.refused_flags()
    }

    /// Returns true if the kernel has refused the ring for good. New requests are then rejected;
    /// accepted ones still complete.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.state == RingState::Broken
    }

    /// Accepts a request. The next [`Ring::flush`] or [`Ring::reap`] submits it.
    ///
    /// # Errors
    /// Returns the request if the ring is full or broken, or if it is a pair and the ring doesn't
    /// accept pairs.
    ///
    /// # Panics
    /// If the request names bytes outside its buffer.
    pub fn push(&mut self, token: u64, mut request: RingRequest) -> std::result::Result<(), RingRequest> {
        match &mut request {
            RingRequest::Transfer(transfer) => transfer.check(),
            // Accepted or not, the file is about to be closed.
            RingRequest::Close { file } => self.files.release(file, &self.setup.ring.submitter()),
            _ => {}
        }
        if self.is_broken() || request.is_pair() && !self.pairs {
            return Err(request);
        }
        let Some(index) = self.free.pop() else { return Err(request) };
        self.slots[index] = RingSlot::of(token, request);
        self.start(index);
        Ok(())
    }

    /// Submits all queued requests to the kernel.
    ///
    /// # Errors
    /// If the kernel refuses for good. Requests it hadn't accepted are then done synchronously;
    /// accepted ones fail with `EIO`. The next [`Ring::reap`] returns both.
    pub fn flush(&mut self) -> Result<()> {
        // Terminates: on each turn the kernel accepts an entry, or `enter` counts a stall towards
        // its limit, or the ring breaks down, which empties the queue.
        while !self.queued.is_empty() {
            self.enter(0)?;
        }
        Ok(())
    }

    /// Waits for at least `min` results, or for all requests in flight if they are fewer, and
    /// passes every result to `take` with its token.
    ///
    /// Queued requests are submitted by the same call that waits: pushing a batch and reaping all
    /// of it, without a flush in between, enters the kernel once. With a `min` of 0 it enters only
    /// if there is something to fetch.
    ///
    /// # Errors
    /// See [`Ring::flush`].
    pub fn reap(&mut self, min: usize, mut take: impl FnMut(u64, RingReply)) -> Result<()> {
        let mut wanted = min.min(self.in_flight());
        // With `DEFER_TASKRUN` the kernel posts completions only inside `io_uring_enter`; its
        // `TASKRUN` flag in shared memory says whether a call would bring any.
        if wanted == 0 && self.state == RingState::Working && self.setup.ring.submission().taskrun() {
            self.enter(0)?;
        }
        loop {
            self.collect();
            wanted = wanted.saturating_sub(self.retire(&mut take));
            if mem::take(&mut self.restarted) {
                // Submit now: retries must not wait for the caller's next flush, which may never
                // come. The flush may bring completions, so collect them before waiting.
                self.flush()?;
                continue;
            }
            if wanted == 0 {
                return Ok(());
            }
            self.enter(self.completions_for(wanted))?;
        }
    }

    /// Returns the minimum number of completions needed to finish `wanted` requests.
    fn completions_for(&self, wanted: usize) -> usize {
        let (completions, requests) = (self.in_kernel + self.queued.len(), self.in_flight());
        // Each request still waits for one or two completions. At best, those that need one
        // finish first.
        let with_two = completions.saturating_sub(requests);
        let with_one = requests - with_two;
        (wanted + wanted.saturating_sub(with_one)).min(completions)
    }

    /// Queues the slot's request for submission, or finishes it if a fault is injected.
    fn start(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(request) = &mut slot.request else { return };
        let fixed = request.buffer().and_then(|buffer| buffer.index_in(&self.identity));
        let mut entries = [const { None }; 2];
        for (part, planned) in plan(request).into_iter().enumerate() {
            let length = match planned {
                Ok(length) => length,
                Err(result) => {
                    slot.results[part] = result;
                    continue;
                }
            };
            let mut entry = request.entry(part, length, fixed, self.statx_buffers[index].get());
            if let Some(file) = request.file(part) {
                self.used.registered_buffers += u64::from(fixed.is_some());
                if self.files.install(file, &self.setup.ring.submitter()) {
                    self.used.direct_descriptors += 1;
                    // A file's index in the table is its descriptor number.
                    entry = entry.flags(squeue::Flags::FIXED_FILE);
                }
            }
            if slot.attempts > 0 {
                // File systems without `IOCB_NOWAIT` may return `EAGAIN` for a descriptor
                // opened with `O_NONBLOCK`, as sources are. An io-wq thread (`IOSQE_ASYNC`) may
                // block instead.
                entry = entry.flags(squeue::Flags::ASYNC);
            }
            entries[part] = Some(entry.user_data(mark(index, part)));
        }
        self.queue(index, entries);
    }

    /// Adds the entries of a request to the submission queue: two linked ones, one, or none.
    fn queue(&mut self, index: usize, entries: [Option<squeue::Entry>; 2]) {
        let slot = &mut self.slots[index];
        let mut queue = self.setup.ring.submission();
        // SAFETY (of all pushes here): an entry points into memory owned by the slot's request and
        // into `statx_buffers`. Neither is freed or handed out before its completion was seen
        // (`retire`), and what is still in the kernel is leaked.
        let (pushed, parts) = match entries {
            [Some(first), Some(second)] => {
                self.used.linked_pairs += 1;
                let chain = [first.flags(self.link), second];
                // SAFETY: as above. Pushes both or none.
                (unsafe { queue.push_multiple(&chain) }, &[FIRST, SECOND][..])
            }
            [Some(entry), None] => {
                // SAFETY: as above.
                (unsafe { queue.push(&entry) }, &[FIRST][..])
            }
            [None, _] => (Ok(()), &[][..]),
        };
        match pushed {
            Ok(()) => {
                for part in parts {
                    slot.expect(*part);
                    self.queued.push_back(mark(index, *part));
                }
            }
            // Can't happen: the queue has at least as many entries as there are parts. If it did,
            // the request would be done synchronously.
            Err(_) => {
                slot.attempts = ATTEMPTS_MAX;
                slot.fail(Errno::AGAIN);
            }
        }
        if slot.is_finished() {
            self.finished.push_back(index);
        }
    }

    /// Returns every finished request to the caller, or resubmits it. Returns the number of
    /// requests completed.
    fn retire(&mut self, take: &mut impl FnMut(u64, RingReply)) -> usize {
        let mut answered = 0;
        // `start` may finish a request at once and bring it back here. Terminates: attempts
        // are limited.
        while let Some(index) = self.finished.pop_front() {
            let slot = &mut self.slots[index];
            // A pair is never linked again: `reply` does what is left of it synchronously.
            let postponed = slot.is_postponed() && !slot.is_pair();
            if postponed && slot.attempts < ATTEMPTS_MAX && self.state != RingState::Broken {
                slot.attempts += 1;
                slot.holder = Holder::Process;
                self.restarted = true;
                self.start(index);
                continue;
            }
            // The kernel has written more than it read: it doesn't break chains.
            if slot.is_pair() && slot.results[FIRST] >= 0 && slot.results[SECOND] > slot.results[FIRST] {
                self.pairs = false;
            }
            let Some(request) = slot.request.take() else { continue };
            let holder = mem::replace(&mut slot.holder, Holder::Process);
            let reply = if postponed {
                request.perform_now()
            } else {
                request.reply(slot.results, holder, &self.statx_buffers[index])
            };
            self.free.push(index);
            take(slot.token, reply);
            answered += 1;
        }
        answered
    }
}

fn entries(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn zeroed_statx() -> Statx {
    // SAFETY: `Statx` is made of integers and bit flags over integers, for which zero is a value.
    unsafe { MaybeUninit::<Statx>::zeroed().assume_init() }
}
