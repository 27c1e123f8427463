//! A safe io_uring: requests go in with everything they own, and come out with what the kernel answered.
//!
//! How it works: the ring has a fixed slab of slots, one for each request in flight. A slot owns what the kernel may
//! touch (descriptors, name, buffer, the space for a `statx`) from [`Ring::push`] until the completion was seen.
//!
//! ```text
//!            push                enter               completion seen            taken by the caller
//!   (free) ───────► Queued ─────────────► in the kernel ─────────────► finished ────────────────► (free)
//!                     │ ▲                                               │  │
//!   a fault put in    │ └───────────── EINTR, EAGAIN: again, async ─────┘  └─ once too often: done in place
//!   place of it       └────────────────────────────────────────────────►
//! ```
//!
//! What it promises:
//! - memory and descriptors that the kernel may use are never freed: drop cancels and waits, and leaks what does not
//!   come back in time;
//! - every accepted request is answered exactly once, with its buffer, even when the ring breaks down;
//! - a close always runs, and never twice;
//! - nothing is allocated for a request that succeeds;
//! - the write of a pair begins when its read has brought every byte, and not before.
//!
//! Pairs ([`Ring::with_pairs`]) are two entries bound by `IOSQE_IO_LINK`: the kernel begins the second when the first is
//! done, and cancels it when the first failed or was short. It has done so since it has links (Linux 5.3, and the
//! operations used here are from 5.6). What could still come between them:
//! - the two are passed on by two calls, which ends a chain: see [`Ring::mend`];
//! - a read or write comes back with `EINTR` or `EAGAIN`: what is missing is done in place, one after the other, and never
//!   bound again;
//! - a kernel that writes after a short read all the same: the write is answered with `EIO`, and no more pairs are taken.
//!
//! Threads: the ring is bound to the thread that first submits (`SINGLE_ISSUER`, enabled late by `R_DISABLED`), so it may
//! be made on another. Used from a second thread it breaks down with `EEXIST`, in safety; dropped there, it leaks.
//!
//! Invariant: the completion queue cannot overflow. It has at least twice as many entries as the submission queue, and
//! that has at least one for each part that can be in flight: as many as slots, or in a ring with pairs twice as many. A
//! part has one completion coming, and drop adds at most one cancellation for each.

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

use files::Files;
use request::Holder;
pub use request::{RingReply, RingRequest};
use setup::{OPERATIONS, Setup, errno};
use slot::{FIRST, SECOND, Slot, mark, plan};

/// The most entries a ring has: the kernel's own limit.
const ENTRIES_MAX: usize = 32_768;

/// How often a request that came back with `EINTR` or `EAGAIN` is given to the kernel again before it is done in place.
const ATTEMPTS_MAX: u8 = 2;

/// Marks the completion of a cancellation: no slot has this number.
const CANCELLATION: u64 = u64::MAX;

/// A ring of operations in flight. See the module for its promises.
pub struct Ring {
    setup: Setup,
    slots: Box<[Slot]>,
    /// Where the kernel writes its answers to `statx`, one for each slot.
    looks: Box<[UnsafeCell<Statx>]>,
    free: Vec<usize>,
    /// The marks of the entries in the submission queue, the oldest first, that the kernel has not taken.
    queued: VecDeque<u64>,
    /// How many entries the kernel has: completions that are on their way.
    in_kernel: usize,
    /// Slots whose every result is known.
    finished: VecDeque<usize>,
    state: State,
    /// Failed attempts to enter, in a row, in which nothing moved.
    stalls: u32,
    /// Whether a request went back into the queue since the last `reap` looked.
    restarted: bool,
    /// Whether the kernel may still write to `looks` after the ring is gone.
    looks_leaked: bool,
    /// Whether pairs are taken.
    pairs: bool,
    /// What binds the write of a pair to its read.
    link: squeue::Flags,
    files: Files,
    /// By which the buffers know the ring that they are registered with.
    identity: Arc<()>,
    used: Used,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet bound to a thread.
    Disabled,
    Working,
    /// The kernel refused it for good.
    Broken,
}

impl Ring {
    /// Makes a ring for `depth` requests in flight (at least 1, at most the kernel's limit).
    ///
    /// # Errors
    /// The kernel's: `EPERM` or `ENOSYS` where rings are forbidden or unknown, `ENOMEM` where memory is limited.
    pub fn new(depth: usize) -> Result<Self> {
        let depth = depth.clamp(1, ENTRIES_MAX);
        Ok(Self::of(setup::make(entries(depth))?, depth))
    }

    /// Makes a ring that takes pairs too, if the kernel takes reads and writes in one ([`Ring::takes_pairs`]).
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn with_pairs(depth: usize) -> Result<Self> {
        let depth = depth.clamp(1, ENTRIES_MAX / 2);
        Ok(Self::of_pairs(setup::make(entries(2 * depth))?, depth))
    }

    fn of_pairs(setup: Setup, depth: usize) -> Self {
        let depth = depth.min(setup.ring.params().sq_entries() as usize / 2);
        let mut ring = Self::of(setup, depth);
        ring.pairs = ring.supports(Operation::Read) && ring.supports(Operation::Write);
        ring
    }

    fn of(setup: Setup, depth: usize) -> Self {
        let entries = setup.ring.params().sq_entries() as usize;
        let depth = depth.min(entries);
        let state = if setup.starts_disabled() { State::Disabled } else { State::Working };
        Self {
            setup,
            slots: (0..depth).map(|_| Slot::empty()).collect(),
            looks: (0..depth).map(|_| UnsafeCell::new(no_look())).collect(),
            free: (0..depth).rev().collect(),
            queued: VecDeque::with_capacity(entries),
            in_kernel: 0,
            finished: VecDeque::with_capacity(depth),
            state,
            stalls: 0,
            restarted: false,
            looks_leaked: false,
            pairs: false,
            link: squeue::Flags::IO_LINK,
            files: Files::default(),
            identity: Arc::new(()),
            used: Used::default(),
        }
    }

    /// Makes these buffers known to the kernel, so that it need not look up their pages for each transfer. Once for a
    /// ring, before its first request or by the thread that uses it.
    ///
    /// All their pages become resident, and stay so until the ring is gone, whatever becomes of the buffers.
    ///
    /// # Errors
    /// The kernel's: `ENOMEM` where locked memory is limited, `EBUSY` the second time. The ring goes on without.
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
                // SAFETY: each part is the memory of a buffer. The kernel takes references to its pages and touches
                // them only for the entries that say so, which own the buffer. Unmapping it does not free the pages.
                unsafe { submitter.register_buffers(&parts) }.map_err(|error| errno(&error))
            },
            || format!("IORING_REGISTER_BUFFERS, {}", parts.len()),
        )?;
        for (index, buffer) in (0..=u16::MAX).zip(buffers) {
            buffer.note_registration(&self.identity, index);
        }
        Ok(())
    }

    /// Keeps the files that are read and written at hand in the kernel, from now on.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` before Linux 5.19, `EMFILE` where descriptors are limited. The ring goes on without.
    pub fn use_direct_descriptors(&mut self) -> Result<()> {
        self.files = Files::new(&self.setup.ring.submitter())?;
        Ok(())
    }

    /// Lets go of a file that is about to be closed without the ring. A close through the ring does so itself.
    pub fn release(&mut self, file: &Fd) {
        self.files.release(file, &self.setup.ring.submitter());
    }

    /// Says what it has used so far.
    #[must_use]
    pub fn used(&self) -> Used {
        self.used
    }

    /// Tells whether it takes pairs. It may stop to.
    #[must_use]
    pub fn takes_pairs(&self) -> bool {
        self.pairs && !self.is_broken()
    }

    /// Returns how many requests it holds.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Returns how many requests were taken and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Tells whether the kernel takes this operation in a ring.
    #[must_use]
    pub fn supports(&self, operation: Operation) -> bool {
        OPERATIONS.iter().zip(self.setup.supported).any(|((each, _), taken)| *each == operation && taken)
    }

    /// Names the flags of `io_uring_setup` that would have made the ring better and that this kernel does not know.
    pub fn refused_flags(&self) -> impl Iterator<Item = &'static str> {
        self.setup.refused_flags()
    }

    /// Tells whether the kernel has refused the ring for good. It then takes no more requests; those it has are answered.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Takes a request; it goes to the kernel with the next [`Ring::flush`] or [`Ring::reap`].
    ///
    /// # Errors
    /// Hands it back when the ring is full or broken, or does not take pairs and it is one.
    ///
    /// # Panics
    /// When it names bytes that its buffer does not have.
    pub fn push(&mut self, token: u64, mut request: RingRequest) -> std::result::Result<(), RingRequest> {
        match &mut request {
            RingRequest::Transfer(transfer) => transfer.check(),
            // Taken or handed back, it is about to be closed.
            RingRequest::Close { file } => self.files.release(file, &self.setup.ring.submitter()),
            _ => {}
        }
        if self.is_broken() || request.is_pair() && !self.pairs {
            return Err(request);
        }
        let Some(index) = self.free.pop() else { return Err(request) };
        self.slots[index] = Slot::of(token, request);
        self.start(index);
        Ok(())
    }

    /// Passes what was taken to the kernel.
    ///
    /// # Errors
    /// When the kernel refuses for good. What it had not taken is then done in place; what it had fails with `EIO`.
    /// Both are answered by the next [`Ring::reap`].
    pub fn flush(&mut self) -> Result<()> {
        // Each turn the kernel takes an entry, or `enter` counts towards its limit, or breaks down and empties the queue.
        while !self.queued.is_empty() {
            self.enter(0)?;
        }
        Ok(())
    }

    /// Gives at least `min` answers (all there are, if that is fewer) to `take`, with their tokens; waits for them.
    ///
    /// What was taken and not flushed is passed on by the same call that waits: without a flush before it, a reap for all
    /// that is in flight enters the kernel once. With a `min` of 0 it enters only if there is something to fetch.
    ///
    /// # Errors
    /// As [`Ring::flush`].
    pub fn reap(&mut self, min: usize, mut take: impl FnMut(u64, RingReply)) -> Result<()> {
        let mut wanted = min.min(self.in_flight());
        if wanted == 0 && self.state == State::Working && self.setup.ring.submission().taskrun() {
            self.enter(0)?;
        }
        loop {
            self.collect();
            wanted = wanted.saturating_sub(self.settle(&mut take));
            if mem::take(&mut self.restarted) {
                // Requests that go round again must not wait for the caller's next flush, which may never come. The
                // flush may bring completions with it, so they are looked at before anything is waited for.
                self.flush()?;
                continue;
            }
            if wanted == 0 {
                return Ok(());
            }
            self.enter(self.completions_for(wanted))?;
        }
    }

    /// Returns how many completions there must be at least until so many requests have all of theirs.
    fn completions_for(&self, wanted: usize) -> usize {
        let (completions, requests) = (self.in_kernel + self.queued.len(), self.in_flight());
        // Each request waits for one or two. At best those with one come first.
        let with_two = completions.saturating_sub(requests);
        let with_one = requests - with_two;
        (wanted + wanted.saturating_sub(with_one)).min(completions)
    }

    /// Puts the slot's request into the submission queue, or finishes it where the fault hook says so.
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
            let mut entry = request.entry(part, length, fixed, self.looks[index].get());
            if let Some(file) = request.file(part) {
                self.used.registered_buffers += u64::from(fixed.is_some());
                if self.files.has(file, &self.setup.ring.submitter()) {
                    self.used.direct_descriptors += 1;
                    // A file's place in the table is the number of its descriptor.
                    entry = entry.flags(squeue::Flags::FIXED_FILE);
                }
            }
            if slot.attempts > 0 {
                // EAGAIN is what a file system without IOCB_NOWAIT may answer for a descriptor opened with O_NONBLOCK,
                // as sources are. In a kernel thread it may block instead.
                entry = entry.flags(squeue::Flags::ASYNC);
            }
            entries[part] = Some(entry.user_data(mark(index, part)));
        }
        self.queue(index, entries);
    }

    /// Puts the entries of a request into the submission queue: two of them bound to each other, or one, or none.
    fn queue(&mut self, index: usize, entries: [Option<squeue::Entry>; 2]) {
        let slot = &mut self.slots[index];
        let mut queue = self.setup.ring.submission();
        // SAFETY (of all pushes here): an entry points into memory owned by the slot's request and into `looks`. Neither
        // is freed or given out before the completion was seen (`settle`), and what is still in the kernel is leaked.
        let (pushed, parts) = match entries {
            [Some(first), Some(second)] => {
                self.used.linked_pairs += 1;
                let chain = [first.flags(self.link), second];
                // SAFETY: as above. Both or none.
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
            // Cannot be: the queue has at least as many entries as there are parts. If it were, the request is done in
            // place.
            Err(_) => {
                slot.attempts = ATTEMPTS_MAX;
                slot.fail(Errno::AGAIN);
            }
        }
        if slot.is_finished() {
            self.finished.push_back(index);
        }
    }

    /// Answers every finished request, or starts it again; returns how many it answered.
    fn settle(&mut self, take: &mut impl FnMut(u64, RingReply)) -> usize {
        let mut answered = 0;
        // `start` may finish a request at once, so that it comes round again here: as often as it has attempts.
        while let Some(index) = self.finished.pop_front() {
            let slot = &mut self.slots[index];
            let postponed = slot.is_postponed() && !slot.is_pair();
            if postponed && slot.attempts < ATTEMPTS_MAX && self.state != State::Broken {
                slot.attempts += 1;
                slot.holder = Holder::Process;
                self.restarted = true;
                self.start(index);
                continue;
            }
            if slot.is_pair() && slot.results[FIRST] >= 0 && slot.results[SECOND] > slot.results[FIRST] {
                self.pairs = false;
            }
            let Some(request) = slot.request.take() else { continue };
            let holder = mem::replace(&mut slot.holder, Holder::Process);
            let reply = if postponed {
                request.in_place()
            } else {
                request.reply(slot.results, holder, &self.looks[index])
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

fn no_look() -> Statx {
    // SAFETY: `Statx` is made of integers and bit flags over integers, for which zero is a value.
    unsafe { MaybeUninit::<Statx>::zeroed().assume_init() }
}
