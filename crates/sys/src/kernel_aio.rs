//! A safe wrapper for the kernel's AIO: each request owns everything it needs until its result
//! is returned.
//!
//! There are two contexts, one for reads and one for writes and fsyncs, and a fixed slab of slots,
//! one for each request in flight. A slot owns the buffer that the kernel may touch until its event
//! has been seen. A pair is submitted to the read context first. When the read completes, its write
//! goes to the write context, and the caller gets one result at the end.
//!
//! ```text
//!        push            io_submit               event seen            reaped
//! (free) ────► queued ──────────────► in context ──────────► finished ─────────► (free)
//!              ▲ ▲ │                                          ▲ │ │
//!              │ │ └──────────────── refused ─────────────────┘ │ │
//!              │ └──────────── EINTR, EAGAIN: retry ────────────┘ │
//!              └─────── pair's read done: submit its write ───────┘
//! ```
//!
//! A request that is refused or out of retries is done synchronously.
//!
//! The kernel performs buffered transfers inside `io_submit`, which blocks for as long as they
//! take. Direct transfers (`O_DIRECT`) are in flight when it returns. Both are handled alike here.
//!
//! Promises:
//! - memory that the kernel may use is never freed: drop destroys the contexts, which makes the
//!   kernel wait until it no longer uses their memory; if even that fails, the memory is leaked;
//! - every accepted request completes exactly once, with its buffer, even if AIO breaks down;
//! - a successful request allocates nothing.
//!
//! Waiting: if only one context has requests in flight, its `io_getevents` waits. If both have,
//! either may complete first, so the wait is a read of an eventfd that every completion signals.
//! The kernel adds an event to the completion ring before it signals, and [`KernelAio::collect`]
//! takes every event there is. So after reading the eventfd and checking both rings, no signalled
//! event is unseen, and only a new one can end the next wait. A stale signal, for an event already
//! seen, ends one wait early and costs one more check.
//!
//! Threads: a context belongs to the process, so a [`KernelAio`] may be created on one thread and
//! used on another.

mod context;

use std::collections::VecDeque;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::gate::{self, FaultDecision};
use crate::operation::Operation;
use crate::raw_result::{asked, counted, is_transient, negated};
use crate::transfer::{TransferRequest, Transferred};
use crate::used::Used;

use context::{Context, ControlBlock, IoEvent};

/// Maximum requests in flight. Two such contexts use up all that `fs.aio-max-nr` allows a machine
/// by default.
const DEPTH_MAX: usize = 32_768;

/// Maximum resubmissions of a request that failed with `EINTR` or `EAGAIN`, before it is
/// done synchronously.
const ATTEMPTS_MAX: u8 = 2;

/// Maximum consecutive calls that fail with `EAGAIN` without progress, before AIO is given up.
const STALLS_MAX: u32 = 64;

/// Duration of a wait for more than one completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Until the first completion: whatever can continue, continues.
    One,
    /// Until all wanted completions are there, if one context has them all.
    Wanted,
}

/// Requests in flight in the kernel's AIO contexts. See the module for its promises.
pub struct KernelAio {
    /// Indexed by [`Direction`].
    queues: [ContextQueue; 2],
    slots: Box<[KernelAioSlot]>,
    blocks: Box<[ControlBlock]>,
    events: Box<[IoEvent]>,
    free: Vec<usize>,
    /// Slots whose result is known, with the raw result.
    finished: VecDeque<(usize, i32)>,
    signals: OwnedFd,
    gather: Gather,
    broken: bool,
    stalls: u32,
    /// Number of reads of the eventfd.
    signal_reads: u64,
    /// True if a request was requeued since the last check in `reap`.
    restarted: bool,
}

/// The context an operation goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl Direction {
    const ALL: [Direction; 2] = [Direction::Read, Direction::Write];
}

/// A context, and the requests waiting to be submitted to it.
struct ContextQueue {
    context: Context,
    /// Slots not yet accepted by the kernel, oldest first.
    waiting: VecDeque<usize>,
    in_kernel: usize,
    taken: u64,
}

struct KernelAioSlot {
    token: u64,
    transfer: Option<TransferRequest>,
    /// Bytes read by the read of a pair, once known.
    read: Option<usize>,
    /// Failed submissions so far. A request with `ATTEMPTS_MAX` is not submitted again.
    attempts: u8,
    in_kernel: bool,
}

impl KernelAio {
    /// Creates the contexts for `depth` requests in flight (clamped to 1..=32,768).
    ///
    /// # Errors
    /// Any error from `io_setup(2)` or `eventfd(2)`: `EAGAIN` if `fs.aio-max-nr` is exhausted,
    /// `ENOSYS` or `EPERM` if AIO is missing or forbidden, `EMFILE` if no descriptor is left for
    /// the eventfd.
    pub fn new(depth: usize, gather: Gather) -> Result<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let signals = gate::call(
            Operation::Eventfd,
            || eventfd(0, EventfdFlags::CLOEXEC),
            || "0, EFD_CLOEXEC".to_owned(),
        )?;
        Ok(Self {
            queues: [ContextQueue::new(depth)?, ContextQueue::new(depth)?],
            slots: (0..depth).map(|_| KernelAioSlot::empty()).collect(),
            blocks: vec![ControlBlock::default(); depth].into(),
            events: vec![IoEvent::default(); depth].into(),
            free: (0..depth).rev().collect(),
            finished: VecDeque::with_capacity(depth),
            signals,
            gather,
            broken: false,
            stalls: 0,
            signal_reads: 0,
            restarted: false,
        })
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

    /// Returns true if the kernel has refused AIO for good. New requests are then rejected;
    /// accepted ones still complete.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns how many operations the kernel has accepted: reads, then writes and fsyncs.
    #[must_use]
    pub fn taken(&self) -> [u64; 2] {
        Direction::ALL.map(|direction| self.queues[direction as usize].taken)
    }

    /// Returns the usage counters: only the calls made.
    #[must_use]
    pub fn used(&self) -> Used {
        let calls = self.queues.iter().map(|queue| queue.context.calls()).sum::<u64>();
        Used { calls: calls + self.signal_reads, ..Used::default() }
    }

    /// Accepts a request. The next [`KernelAio::flush`], or [`KernelAio::reap`] that waits,
    /// submits it.
    ///
    /// # Errors
    /// Returns the request if all slots are in use or AIO has broken down.
    ///
    /// # Panics
    /// If the request names bytes outside its buffer.
    pub fn push(
        &mut self,
        token: u64,
        mut transfer: TransferRequest,
    ) -> std::result::Result<(), TransferRequest> {
        transfer.check();
        if self.broken {
            return Err(transfer);
        }
        let Some(index) = self.free.pop() else { return Err(transfer) };
        self.slots[index] = KernelAioSlot { token, transfer: Some(transfer), ..KernelAioSlot::empty() };
        self.start(index);
        Ok(())
    }

    /// Submits all queued requests to the kernel.
    ///
    /// # Errors
    /// If the kernel refuses for good. Requests it hadn't accepted are then done
    /// synchronously; accepted ones whose result is lost fail with `EIO`. The next
    /// [`KernelAio::reap`] returns both.
    pub fn flush(&mut self) -> Result<()> {
        for direction in Direction::ALL {
            // Terminates: on each turn the kernel accepts or refuses a request, or a stall counts
            // towards its limit, or AIO breaks down, which empties the queues.
            while !self.queues[direction as usize].waiting.is_empty() {
                self.submit(direction)?;
            }
        }
        Ok(())
    }

    /// Waits for at least `min` results, or for all requests in flight if they are fewer, and
    /// passes every result to `take` with its token.
    ///
    /// # Errors
    /// See [`KernelAio::flush`].
    pub fn reap(&mut self, min: usize, mut take: impl FnMut(u64, Transferred)) -> Result<()> {
        let mut wanted = min.min(self.in_flight());
        loop {
            for direction in Direction::ALL {
                self.collect(direction, 0)?;
            }
            wanted = wanted.saturating_sub(self.retire(&mut take));
            if mem::take(&mut self.restarted) {
                // Submit now: a pair's write or a retry must not wait for the caller's next flush.
                // Buffered writes complete inside `io_submit`, so check again before waiting.
                self.flush()?;
                continue;
            }
            if wanted == 0 {
                return Ok(());
            }
            self.flush()?;
            self.wait(wanted)?;
        }
    }

    /// Queues the next operation of the slot's request, or finishes it if a fault is injected.
    fn start(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(transfer) = &mut slot.transfer else { return };
        let part = transfer.part(slot.read);
        let direction = if part.operation == Operation::Read { Direction::Read } else { Direction::Write };
        match asked(part.operation, part.bytes.len()) {
            Ok(length) => {
                self.blocks[index] = ControlBlock::new(index, part, length, self.signals.as_fd());
                self.queues[direction as usize].waiting.push_back(index);
            }
            Err(answer) => self.finished.push_back((index, answer)),
        }
    }

    /// Returns every finished request to the caller, or resubmits it, or starts a pair's write.
    /// Returns the number of requests completed.
    fn retire(&mut self, take: &mut impl FnMut(u64, Transferred)) -> usize {
        let mut answered = 0;
        // `start` may finish a request at once and bring it back here. Terminates: the parts and
        // attempts of a request are limited.
        while let Some((index, answer)) = self.finished.pop_front() {
            let slot = &mut self.slots[index];
            let Some(transfer) = &mut slot.transfer else { continue };
            let transient = is_transient(answer);
            if transient && slot.attempts < ATTEMPTS_MAX && !self.broken {
                slot.attempts += 1;
                self.restarted = true;
                self.start(index);
                continue;
            }
            let read = match (slot.read, counted(answer)) {
                (None, Ok(length @ 1..)) if transfer.is_pair() => Some(length),
                _ => None,
            };
            if read.is_some() && !self.broken {
                (slot.read, slot.attempts) = (read, 0);
                self.restarted = true;
                self.start(index);
                continue;
            }
            let outcome = transfer.outcome(slot.read, answer);
            let Some(transfer) = slot.transfer.take() else { continue };
            let reply = match slot.read {
                None if transient => transfer.perform_now(),
                // If AIO broke down between the two, this does the write of a pair synchronously.
                None => transfer.finish(outcome),
                Some(read) if transient => transfer.finish(Ok(read)),
                Some(read) => transfer.reply(Ok(read), outcome),
            };
            self.free.push(index);
            take(slot.token, reply);
            answered += 1;
        }
        answered
    }

    /// Calls `io_submit` once and handles transient failures.
    fn submit(&mut self, direction: Direction) -> Result<()> {
        let queue = &mut self.queues[direction as usize];
        // SAFETY: the blocks name memory in buffers owned by the slots. A buffer is neither freed
        // nor handed out before its event is seen (`retire`) or the context is destroyed; if it
        // can't be destroyed, the buffer is leaked (`release_contexts`).
        let outcome = unsafe { queue.context.submit(&mut self.blocks, queue.waiting.iter().copied()) };
        match outcome {
            Ok(count @ 1..) => {
                self.stalls = 0;
                queue.in_kernel += count;
                queue.taken += count as u64;
                for index in queue.waiting.drain(..count) {
                    self.slots[index].in_kernel = true;
                }
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            // The context is full or the kernel is short of memory: wait for requests in flight
            // to complete.
            Ok(0) | Err(Errno::AGAIN) => {
                let in_kernel = queue.in_kernel;
                self.stall(Operation::IoSubmit)?;
                self.collect(direction, usize::from(in_kernel > 0))
            }
            // If even submitting nothing fails, AIO itself is forbidden, not just this request.
            Err(errno @ (Errno::PERM | Errno::NOSYS)) if queue.context.try_submit().is_err() => {
                Err(self.break_down(Operation::IoSubmit, errno))
            }
            // The first request itself is at fault: its file has no asynchronous operations or
            // doesn't support a flag. The synchronous call will work or report why not.
            Err(_) => {
                if let Some(index) = queue.waiting.pop_front() {
                    self.slots[index].attempts = ATTEMPTS_MAX;
                    self.finished.push_back((index, negated(Errno::AGAIN)));
                }
                Ok(())
            }
        }
    }

    /// Moves all events of a context to `finished`. Waits for `min` events unless interrupted.
    fn collect(&mut self, direction: Direction, min: usize) -> Result<()> {
        while self.queues[direction as usize].in_kernel > 0 {
            match self.fetch(direction, min) {
                Ok(0) => break,
                Ok(_) => {
                    self.stalls = 0;
                    break;
                }
                // Retried without a limit, as in the gate: each needs another signal.
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::BUSY) => self.stall(Operation::IoGetevents)?,
                Err(errno) => return Err(self.break_down(Operation::IoGetevents, errno)),
            }
        }
        Ok(())
    }

    /// Calls `io_getevents` once; returns how many operations completed.
    fn fetch(&mut self, direction: Direction, min: usize) -> std::result::Result<usize, Errno> {
        let queue = &mut self.queues[direction as usize];
        let count = queue.context.fetch(min.min(queue.in_kernel), &mut self.events)?;
        for (index, result) in self.events[..count].iter().map(IoEvent::take) {
            if let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.in_kernel) {
                slot.in_kernel = false;
                queue.in_kernel -= 1;
                self.finished.push_back((index, result));
            }
        }
        Ok(count)
    }

    /// Waits for completions, if any are due. May return early, so the caller checks again.
    fn wait(&mut self, wanted: usize) -> Result<()> {
        if !self.finished.is_empty() {
            return Ok(());
        }
        let min = match self.gather {
            Gather::One => 1,
            Gather::Wanted => wanted,
        };
        let [reads, writes] = Direction::ALL.map(|direction| self.queues[direction as usize].in_kernel);
        match (reads, writes) {
            (_, 0) => self.collect(Direction::Read, min),
            (0, _) => self.collect(Direction::Write, min),
            _ => self.wait_for_signal(),
        }
    }

    /// Waits until an operation completes in either context.
    fn wait_for_signal(&mut self) -> Result<()> {
        let outcome = match gate::verdict(Operation::IoGetevents, 0) {
            FaultDecision::Fail(errno) => Err(errno),
            FaultDecision::Pass | FaultDecision::Shorten(_) => {
                self.signal_reads += 1;
                rustix::io::read(&self.signals, &mut [0; 8]).map(drop)
            }
        };
        match outcome {
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(Errno::AGAIN | Errno::BUSY) => self.stall(Operation::IoGetevents),
            Err(errno) => Err(self.break_down(Operation::IoGetevents, errno)),
        }
    }

    /// Counts a transient failure; gives AIO up after too many in a row.
    fn stall(&mut self, operation: Operation) -> Result<()> {
        self.stalls += 1;
        if self.stalls > STALLS_MAX {
            return Err(self.break_down(operation, Errno::AGAIN));
        }
        thread::yield_now();
        Ok(())
    }

    /// Gives AIO up. Queued requests are left to be done synchronously. Requests in flight are
    /// waited for; they complete with their result if it can still be had, otherwise with `EIO`.
    fn break_down(&mut self, operation: Operation, errno: Errno) -> Error {
        let error = Error::new(operation, format!("{} in flight", self.in_flight()), errno);
        self.broken = true;
        for direction in Direction::ALL {
            let queue = &mut self.queues[direction as usize];
            for index in queue.waiting.drain(..) {
                self.slots[index].attempts = ATTEMPTS_MAX;
                self.finished.push_back((index, negated(Errno::AGAIN)));
            }
            let in_kernel = queue.in_kernel;
            if in_kernel > 0 && self.fetch(direction, in_kernel).is_err() {
                // Destroying the context waits for them instead.
                continue;
            }
        }
        self.release_contexts();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            // Not the kernel's errno: the caller might take it for a transient one and retry.
            if mem::take(&mut slot.in_kernel) {
                self.finished.push_back((index, negated(Errno::IO)));
            }
        }
        error
    }

    /// Destroys the contexts, so that the memory of requests in flight is ours again. If that
    /// fails, leaks it.
    fn release_contexts(&mut self) {
        let [reads, writes] = &mut self.queues;
        (reads.in_kernel, writes.in_kernel) = (0, 0);
        // Each `io_destroy` waits for an RCU grace period (35 ms, measured on 6.18), so destroy
        // both contexts in parallel.
        let mut first = None;
        let second = thread::scope(|scope| {
            let other_thread =
                thread::Builder::new().spawn_scoped(scope, || first = Some(reads.context.destroy()));
            // If no thread can be spawned, the first context is destroyed below.
            drop(other_thread);
            writes.context.destroy()
        });
        let first = first.unwrap_or_else(|| reads.context.destroy());
        if first.is_ok() && second.is_ok() {
            return;
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.in_kernel) {
            if let Some(transfer) = &mut slot.transfer {
                // Files need no leak: the kernel holds its own reference.
                transfer.leak_buffer();
            }
        }
    }
}

impl ContextQueue {
    fn new(depth: usize) -> Result<Self> {
        let context = Context::new(depth)?;
        // A seccomp filter may allow `io_setup` but not `io_submit`. Better to find out now than
        // with files open.
        let tried = context.try_submit();
        tried.map_err(|errno| Error::new(Operation::IoSubmit, "nothing".to_owned(), errno))?;
        Ok(Self { context, waiting: VecDeque::with_capacity(depth), in_kernel: 0, taken: 0 })
    }
}

impl KernelAioSlot {
    fn empty() -> Self {
        Self { token: 0, transfer: None, read: None, attempts: 0, in_kernel: false }
    }
}

impl Drop for KernelAio {
    fn drop(&mut self) {
        self.release_contexts();
    }
}
