//! Entering the kernel: submitting entries, collecting completions, and handling stalls.

use std::time::Duration;

use io_uring::{EnterFlags, types};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::gate::{self, FaultDecision};
use crate::operation::Operation;
use crate::raw_result::negated;

use super::request::Holder;
use super::request::{CANCELLED, FIRST, SECOND};
use super::setup::errno;
use super::slot::marked;
use super::{ATTEMPTS_MAX, CANCELLATION, Ring, RingState};

/// Maximum consecutive `io_uring_enter` calls that fail with `EAGAIN` or `EBUSY` without progress,
/// before the ring is given up.
const STALLS_MAX: u32 = 64;

/// The purpose of an `io_uring_enter`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Enter {
    /// Submit the queued requests, and wait for this many completions.
    Submit(usize),
    /// Submit nothing, and wait for one completion.
    WaitForOne,
    /// Submit the queued requests, and wait for one completion, but no longer than this.
    SubmitAtMost(Duration),
}

impl Ring {
    /// Moves completions from the kernel's queue to their slots; returns how many.
    pub(super) fn collect(&mut self) -> usize {
        if self.state == RingState::Broken {
            // The ring was given up and its requests have been answered, so ignore
            // late completions.
            return 0;
        }
        let before = self.in_kernel;
        for completion in self.setup.ring.completion() {
            if completion.user_data() == CANCELLATION {
                continue;
            }
            let (index, part) = marked(completion.user_data());
            let Some(slot) = self.slots.get_mut(index) else { continue };
            if slot.holder == Holder::Kernel && slot.is_due(part) {
                self.in_kernel -= 1;
                if slot.record(part, completion.result()) {
                    self.finished.push_back(index);
                }
            }
        }
        before - self.in_kernel
    }

    /// Enters the kernel once to submit what is queued and to wait for `want` completions, and
    /// handles transient failures.
    ///
    /// After `Ok` the caller must check again: the wait may have been cut short.
    pub(super) fn enter(&mut self, want: usize) -> Result<()> {
        // Invariant: only completions that are due are waited for; otherwise the wait would
        // never end.
        debug_assert!(want <= self.in_kernel + self.queued.len());
        if let Some((index, read_asked)) = self.torn_pair()
            && !self.repair_torn_pair(index, read_asked)?
        {
            return Ok(());
        }
        let queued = self.queued.len();
        let outcome = self.call(Enter::Submit(want));
        let moved = self.collect() + (queued - self.queued.len());
        let stalled = match outcome {
            Err(Errno::AGAIN | Errno::BUSY) => moved == 0,
            Ok(()) => moved == 0 && queued > 0,
            // Retried without a limit, as in the gate: each needs another signal.
            Err(Errno::INTR) => false,
            Err(errno) => return Err(self.break_down(errno)),
        };
        if !stalled {
            self.stalls = 0;
            return Ok(());
        }
        self.stall()?;
        // The kernel is short of memory or of room for completions: those in flight must come
        // back first.
        if self.in_kernel == 0 {
            std::thread::yield_now();
            return Ok(());
        }
        self.wait_for_one()
    }

    /// Submits nothing, and waits for one completion.
    fn wait_for_one(&mut self) -> Result<()> {
        let outcome = self.call(Enter::WaitForOne);
        let moved = self.collect();
        match outcome {
            Err(Errno::AGAIN | Errno::BUSY) if moved == 0 => self.stall(),
            Ok(()) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
            Err(errno) => Err(self.break_down(errno)),
        }
    }

    /// Counts a call without progress; gives the ring up after too many in a row.
    fn stall(&mut self) -> Result<()> {
        self.stalls += 1;
        if self.stalls > STALLS_MAX { Err(self.break_down(Errno::AGAIN)) } else { Ok(()) }
    }

    /// Finds a torn pair: the kernel has accepted its read but not its write. Returns the slot and
    /// the requested length of the read.
    ///
    /// A kernel short of memory stops submitting half-way, and treats what it has accepted of a
    /// chain as the whole chain. The write, submitted by the next call, would not be linked and
    /// could overtake its read. Entries are accepted in order, so such a write is at the head of
    /// the queue.
    fn torn_pair(&self) -> Option<(usize, usize)> {
        let (index, part) = marked(*self.queued.front()?);
        let request = self.slots.get(index)?.request.as_ref()?;
        (part == SECOND).then(|| (index, request.length()))
    }

    /// Waits for the read of a torn pair before anything else is submitted. Returns true once it
    /// has completed.
    ///
    /// If the read brought every byte, the write may follow. If not, the write must never run. An
    /// entry can't be removed from the queue, so the ring is given up once the kernel holds nothing
    /// of it.
    fn repair_torn_pair(&mut self, index: usize, read_asked: usize) -> Result<bool> {
        let slot = &self.slots[index];
        let ended = !slot.is_due(FIRST);
        if ended && usize::try_from(slot.results[FIRST]) == Ok(read_asked) {
            return Ok(true);
        }
        if self.in_kernel > 0 {
            return self.wait_for_one().map(|()| false);
        }
        Err(self.break_down(Errno::AGAIN))
    }

    /// Calls `io_uring_enter` once and records which entries the kernel accepted.
    pub(super) fn call(&mut self, enter: Enter) -> std::result::Result<(), Errno> {
        let entries = if matches!(enter, Enter::WaitForOne) { 0 } else { self.queued.len() };
        match gate::verdict(Operation::RingEnter, entries) {
            FaultDecision::Fail(errno) => Err(errno),
            FaultDecision::Pass => self.pass(enter, entries),
            FaultDecision::Shorten(fewer) => self.pass(enter, fewer.min(entries)),
        }
    }

    /// Calls the kernel for `entries` entries: fewer than are queued only if a fault is injected.
    pub(super) fn pass(&mut self, enter: Enter, entries: usize) -> std::result::Result<(), Errno> {
        self.enable()?;
        self.used.calls += 1;
        let fewer = entries < self.queued.len() && !matches!(enter, Enter::WaitForOne);
        let outcome = if fewer { self.call_kernel_for(entries) } else { self.call_kernel(enter) };
        let left = self.setup.ring.submission().len();
        while self.queued.len() > left {
            if let Some(mark) = self.queued.pop_front() {
                self.slots[marked(mark).0].holder = Holder::Kernel;
                self.in_kernel += 1;
            }
        }
        outcome
    }

    fn call_kernel(&self, enter: Enter) -> std::result::Result<(), Errno> {
        let submitter = self.setup.ring.submitter();
        let outcome = match enter {
            Enter::Submit(want) => submitter.submit_and_wait(want),
            Enter::WaitForOne => {
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: passes no argument, and entries already in the kernel own their memory
                // (see `queue`).
                unsafe { submitter.enter::<libc::sigset_t>(0, 1, flags, None) }
            }
            Enter::SubmitAtMost(time) => {
                let time = types::Timespec::from(time);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        outcome.map(drop).map_err(|error| errno(&error))
    }

    /// Submits some of the queued entries, like a kernel that stops half-way.
    fn call_kernel_for(&self, entries: usize) -> std::result::Result<(), Errno> {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: passes no argument, and the entries own their memory (see `queue`).
        let outcome = unsafe { self.setup.ring.submitter().enter::<libc::sigset_t>(entries, 0, flags, None) };
        outcome.map(drop).map_err(|error| errno(&error))
    }

    /// Binds the ring to this thread, on the first call.
    fn enable(&mut self) -> std::result::Result<(), Errno> {
        if self.state != RingState::Disabled {
            return Ok(());
        }
        gate::call(
            Operation::RingRegister,
            || self.setup.ring.submitter().register_enable_rings().map_err(|error| errno(&error)),
            || "IORING_REGISTER_ENABLE_RINGS".to_owned(),
        )
        .map_err(|error| error.errno())?;
        self.state = RingState::Working;
        Ok(())
    }

    /// Gives the ring up. Entries not yet accepted are left to be done synchronously; those in the
    /// kernel fail with `EIO`.
    pub(super) fn break_down(&mut self, cause: Errno) -> Error {
        self.collect();
        self.state = RingState::Broken;
        while let Some(mark) = self.queued.pop_front() {
            let (index, part) = marked(mark);
            let slot = &mut self.slots[index];
            slot.attempts = ATTEMPTS_MAX;
            // If the read was accepted, the write counts as cancelled, not as failed: the caller
            // then writes the bytes that were read.
            let result = if part == FIRST { negated(Errno::AGAIN) } else { CANCELLED };
            if slot.record(part, result) {
                self.finished.push_back(index);
            }
        }
        self.leak();
        Error::new(Operation::RingEnter, format!("{} in flight", self.in_flight()), cause)
    }
}
