//! A safe kernel AIO: requests go in with everything they own, and come out with what the kernel answered.
//!
//! How it works: there are two contexts, one for reads and one for writes and fsyncs, and a fixed slab of slots, one for
//! each request in flight. A slot owns the buffer that the kernel may touch until the event was seen. A pair is in the
//! read context first; when its read has ended it goes to the write context, and the caller hears of it at the end.
//!
//! ```text
//!        push              io_submit                event seen               taken by the caller
//! (free) ────► queued ────────────────► in a context ─────────► finished ─────────────────────────► (free)
//!                ▲ ▲ └─ refused: in place ──────────────────────► │ │ │
//!                │ └──────────── EINTR, EAGAIN: once more ────────┘ │ └─ once too often: in place
//!                └──────────── a pair was read: now the write ──────┘
//! ```
//!
//! The kernel does buffered transfers inside `io_submit`, which then takes as long as they do; those past the page cache
//! (`O_DIRECT`) are in flight when it returns. Both are the same here.
//!
//! What it promises:
//! - memory that the kernel may use is never freed: drop destroys the contexts, for which the kernel waits until it is
//!   done with their memory, and leaks if it refuses even that;
//! - every accepted request is answered exactly once, with its buffer, even when AIO breaks down;
//! - nothing is allocated for a request that succeeds.
//!
//! Waiting: where only one context has something in flight, its `io_getevents` waits. Where both have, whichever is first
//! must be noticed, so an eventfd that every completion signals is read instead. The kernel puts an event into the ring
//! before it signals, and [`KernelAio::collect`] takes all that is there; so after a read of the eventfd and a look at both
//! rings, nothing that was signalled is left unseen, and the next wait can only be ended by something new. A signal of
//! which the event was seen already ends one wait too early, which costs one more look.
//!
//! Threads: contexts belong to the process, so it may be made on one thread and used on another.

mod context;

use std::collections::VecDeque;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::answer::{asked, counted, is_transient, word};
use crate::error::{Error, Result};
use crate::gate::{self, Verdict};
use crate::operation::Operation;
use crate::transfer::{Transfer, Transferred};
use crate::used::Used;

use context::{Context, ControlBlock, Event};

/// The most requests in flight: with two contexts, all that `fs.aio-max-nr` allows a machine by default.
const DEPTH_MAX: usize = 32_768;

/// How often a request that came back with `EINTR` or `EAGAIN` is given to the kernel again before it is done in place.
const ATTEMPTS_MAX: u8 = 2;

/// How many calls in a row may fail with `EAGAIN`, nothing having moved, before it is for good.
const STALLS_MAX: u32 = 64;

/// How long a wait lasts when more than one completion is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Until there is one: what can go on, goes on.
    One,
    /// Until there are as many as are wanted, where one context has them all.
    Wanted,
}

/// Operations in flight in the kernel's AIO contexts. See the module for its promises.
pub struct KernelAio {
    /// In the order of [`Lane::ALL`].
    queues: [Queue; 2],
    slots: Box<[Slot]>,
    blocks: Box<[ControlBlock]>,
    events: Box<[Event]>,
    free: Vec<usize>,
    /// Slots whose result is known, and the result as the kernel words it.
    finished: VecDeque<(usize, i32)>,
    signals: OwnedFd,
    gather: Gather,
    broken: bool,
    stalls: u32,
    /// How often the eventfd was read.
    signal_reads: u64,
    /// Whether a request went back into a queue since the last `reap` looked.
    restarted: bool,
}

/// Which context an operation goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Read,
    Write,
}

impl Lane {
    const ALL: [Lane; 2] = [Lane::Read, Lane::Write];
}

/// A context, and what is on its way there.
struct Queue {
    context: Context,
    /// Slots that the kernel has not taken, the oldest first.
    waiting: VecDeque<usize>,
    in_kernel: usize,
    taken: u64,
}

struct Slot {
    token: u64,
    transfer: Option<Transfer>,
    /// How much of a pair was read, once that is known.
    read: Option<usize>,
    /// How often it was given to the kernel in vain; `ATTEMPTS_MAX` means that it is not given again.
    attempts: u8,
    in_kernel: bool,
}

impl KernelAio {
    /// Makes the contexts for `depth` requests in flight (at least 1, at most 32,768).
    ///
    /// # Errors
    /// The kernel's: `EAGAIN` where `fs.aio-max-nr` is exhausted, `ENOSYS` or `EPERM` where AIO or its use is
    /// unknown or forbidden, `EMFILE` where there is no descriptor left to signal completions with.
    pub fn new(depth: usize, gather: Gather) -> Result<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let signals = gate::call(
            Operation::Eventfd,
            || eventfd(0, EventfdFlags::CLOEXEC),
            || "0, EFD_CLOEXEC".to_owned(),
        )?;
        Ok(Self {
            queues: [Queue::new(depth)?, Queue::new(depth)?],
            slots: (0..depth).map(|_| Slot::empty()).collect(),
            blocks: vec![ControlBlock::default(); depth].into(),
            events: vec![Event::default(); depth].into(),
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

    /// Tells whether the kernel has refused for good. No more requests are then taken; those there are, are answered.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns how many operations the kernel has taken: reads, and writes with fsyncs.
    #[must_use]
    pub fn taken(&self) -> [u64; 2] {
        Lane::ALL.map(|lane| self.queues[lane as usize].taken)
    }

    /// Says what it has used so far: its calls.
    #[must_use]
    pub fn used(&self) -> Used {
        let calls = self.queues.iter().map(|queue| queue.context.calls()).sum::<u64>();
        Used { calls: calls + self.signal_reads, ..Used::default() }
    }

    /// Takes a request; it goes to the kernel with the next [`KernelAio::flush`] or a [`KernelAio::reap`] that waits.
    ///
    /// # Errors
    /// Hands it back when there is no room, or AIO has broken down.
    ///
    /// # Panics
    /// When it names bytes that its buffer does not have.
    pub fn push(&mut self, token: u64, mut transfer: Transfer) -> std::result::Result<(), Transfer> {
        transfer.check();
        if self.broken {
            return Err(transfer);
        }
        let Some(index) = self.free.pop() else { return Err(transfer) };
        self.slots[index] = Slot { token, transfer: Some(transfer), ..Slot::empty() };
        self.start(index);
        Ok(())
    }

    /// Passes what was taken to the kernel.
    ///
    /// # Errors
    /// When the kernel refuses for good. What it had not taken is then done in place; what it had and does not answer for
    /// fails with `EIO`. Both are answered by the next [`KernelAio::reap`].
    pub fn flush(&mut self) -> Result<()> {
        for lane in Lane::ALL {
            // Each turn the kernel takes a request, or refuses one, or a stall counts towards its limit; or AIO breaks
            // down, which empties the queues.
            while !self.queues[lane as usize].waiting.is_empty() {
                self.submit(lane)?;
            }
        }
        Ok(())
    }

    /// Gives at least `min` answers (all there are, if that is fewer) to `take`, with their tokens; waits for them.
    ///
    /// # Errors
    /// As [`KernelAio::flush`].
    pub fn reap(&mut self, min: usize, mut take: impl FnMut(u64, Transferred)) -> Result<()> {
        let mut wanted = min.min(self.in_flight());
        loop {
            for lane in Lane::ALL {
                self.collect(lane, 0)?;
            }
            wanted = wanted.saturating_sub(self.settle(&mut take));
            if mem::take(&mut self.restarted) {
                // A write whose read has ended, or what goes round again, must not wait for the caller's next flush. A
                // buffered write is over when it is submitted, so there is a look before the wait.
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

    /// Puts the next part of the slot's request into its queue, or finishes it where the fault hook says so.
    fn start(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(transfer) = &mut slot.transfer else { return };
        let part = transfer.part(slot.read);
        let lane = if part.operation == Operation::Read { Lane::Read } else { Lane::Write };
        match asked(part.operation, part.bytes.len()) {
            Ok(length) => {
                self.blocks[index] = ControlBlock::new(index, part, length, self.signals.as_fd());
                self.queues[lane as usize].waiting.push_back(index);
            }
            Err(answer) => self.finished.push_back((index, answer)),
        }
    }

    /// Answers every finished request, or starts it again, or its second part; returns how many it answered.
    fn settle(&mut self, take: &mut impl FnMut(u64, Transferred)) -> usize {
        let mut answered = 0;
        // `start` may finish a request at once, so that it comes round again here: as often as it has parts and attempts.
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
                None if transient => transfer.in_place(),
                // The write of a pair is done in place here, if AIO broke down between the two.
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

    /// Makes one `io_submit`, and gets over what passes.
    fn submit(&mut self, lane: Lane) -> Result<()> {
        let queue = &mut self.queues[lane as usize];
        // SAFETY: the blocks name memory in buffers that the slots own, which is neither freed nor given out before the
        // event was seen (`settle`) or the context destroyed; if it cannot be destroyed, it is leaked (`let_go`).
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
            // The context is full, or the kernel short of memory: what is in flight must come back first.
            Ok(0) | Err(Errno::AGAIN) => {
                let in_kernel = queue.in_kernel;
                self.stall(Operation::IoSubmit)?;
                self.collect(lane, usize::from(in_kernel > 0))
            }
            Err(errno @ (Errno::PERM | Errno::NOSYS)) if queue.context.try_submit().is_err() => {
                Err(self.break_down(Operation::IoSubmit, errno))
            }
            // It is the first one's own fault: a file that has no asynchronous operations, or does not know a flag. The
            // synchronous call says which, or works.
            Err(_) => {
                if let Some(index) = queue.waiting.pop_front() {
                    self.slots[index].attempts = ATTEMPTS_MAX;
                    self.finished.push_back((index, word(Errno::AGAIN)));
                }
                Ok(())
            }
        }
    }

    /// Moves all events of a context to `finished`, waiting until there are `min`, or something interrupts the wait.
    fn collect(&mut self, lane: Lane, min: usize) -> Result<()> {
        while self.queues[lane as usize].in_kernel > 0 {
            match self.fetch(lane, min) {
                Ok(0) => break,
                Ok(_) => {
                    self.stalls = 0;
                    break;
                }
                // Repeated as often as it takes, as at the gate: each needs a signal of its own.
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::BUSY) => self.stall(Operation::IoGetevents)?,
                Err(errno) => return Err(self.break_down(Operation::IoGetevents, errno)),
            }
        }
        Ok(())
    }

    /// Makes one `io_getevents`; returns how many operations have finished.
    fn fetch(&mut self, lane: Lane, min: usize) -> std::result::Result<usize, Errno> {
        let queue = &mut self.queues[lane as usize];
        let count = queue.context.fetch(min.min(queue.in_kernel), &mut self.events)?;
        for (index, result) in self.events[..count].iter().map(Event::take) {
            if let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.in_kernel) {
                slot.in_kernel = false;
                queue.in_kernel -= 1;
                self.finished.push_back((index, result));
            }
        }
        Ok(count)
    }

    /// Waits for completions, if any are on their way. The caller then looks again at what it waits for.
    fn wait(&mut self, wanted: usize) -> Result<()> {
        if !self.finished.is_empty() {
            return Ok(());
        }
        let min = match self.gather {
            Gather::One => 1,
            Gather::Wanted => wanted,
        };
        let [reads, writes] = Lane::ALL.map(|lane| self.queues[lane as usize].in_kernel);
        match (reads, writes) {
            (_, 0) => self.collect(Lane::Read, min),
            (0, _) => self.collect(Lane::Write, min),
            _ => self.wait_for_signal(),
        }
    }

    /// Waits until something completes in either context.
    fn wait_for_signal(&mut self) -> Result<()> {
        let outcome = match gate::verdict(Operation::IoGetevents, 0) {
            Verdict::Fail(errno) => Err(errno),
            Verdict::Pass | Verdict::Shorten(_) => {
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

    /// Counts a call that failed for a reason that passes; too many in a row do not pass.
    fn stall(&mut self, operation: Operation) -> Result<()> {
        self.stalls += 1;
        if self.stalls > STALLS_MAX {
            return Err(self.break_down(operation, Errno::AGAIN));
        }
        thread::yield_now();
        Ok(())
    }

    /// Gives AIO up: what the kernel never took is to be done in place; what it has is waited for, and is answered with
    /// its result if that can still be had, else with `EIO`.
    fn break_down(&mut self, operation: Operation, errno: Errno) -> Error {
        let error = Error::new(operation, format!("{} in flight", self.in_flight()), errno);
        self.broken = true;
        for lane in Lane::ALL {
            let queue = &mut self.queues[lane as usize];
            for index in queue.waiting.drain(..) {
                self.slots[index].attempts = ATTEMPTS_MAX;
                self.finished.push_back((index, word(Errno::AGAIN)));
            }
            let in_kernel = queue.in_kernel;
            if in_kernel > 0 && self.fetch(lane, in_kernel).is_err() {
                // Then destroying the context waits.
                continue;
            }
        }
        self.let_go();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            // `EIO` and not the kernel's reason, as that could read like an invitation to do them again.
            if mem::take(&mut slot.in_kernel) {
                self.finished.push_back((index, word(Errno::IO)));
            }
        }
        error
    }

    /// Destroys the contexts, after which the memory of what was in flight is ours again; if it cannot be, leaks it.
    fn let_go(&mut self) {
        let [reads, writes] = &mut self.queues;
        (reads.in_kernel, writes.in_kernel) = (0, 0);
        // The kernel waits for a grace period, 35 ms where it was measured (6.18): so both at once.
        let mut first = None;
        let second = thread::scope(|scope| {
            let beside = thread::Builder::new().spawn_scoped(scope, || first = Some(reads.context.destroy()));
            // Without a thread, it is the first's turn below.
            drop(beside);
            writes.context.destroy()
        });
        let first = first.unwrap_or_else(|| reads.context.destroy());
        if first.is_ok() && second.is_ok() {
            return;
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.in_kernel) {
            if let Some(transfer) = &mut slot.transfer {
                // The files can go: the kernel has a hold on them of its own.
                transfer.leak_buffer();
            }
        }
    }
}

impl Queue {
    fn new(depth: usize) -> Result<Self> {
        let context = Context::new(depth)?;
        // A filter may allow a context and forbid to use it, which is better known now than when files are open.
        let tried = context.try_submit();
        tried.map_err(|errno| Error::new(Operation::IoSubmit, "nothing".to_owned(), errno))?;
        Ok(Self { context, waiting: VecDeque::with_capacity(depth), in_kernel: 0, taken: 0 })
    }
}

impl Slot {
    fn empty() -> Self {
        Self { token: 0, transfer: None, read: None, attempts: 0, in_kernel: false }
    }
}

impl Drop for KernelAio {
    fn drop(&mut self) {
        self.let_go();
    }
}
