//! Entering the kernel: what it takes, what it gives back, and what it is to be thought of when it does neither.

use std::time::Duration;

use io_uring::{EnterFlags, types};
use rustix::io::Errno;

use crate::answer::word;
use crate::error::{Error, Result};
use crate::gate::{self, Verdict};
use crate::operation::Operation;

use super::request::Holder;
use super::setup::errno;
use super::slot::{CANCELLED, FIRST, SECOND, marked};
use super::{ATTEMPTS_MAX, CANCELLATION, Ring, State};

/// How many `io_uring_enter` in a row may fail with `EAGAIN` or `EBUSY`, nothing having moved, before it is for good.
const STALLS_MAX: u32 = 64;

/// What an `io_uring_enter` is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Enter {
    /// Pass on what is queued, and wait for so many completions.
    Submit(usize),
    /// Pass on nothing, and wait for one completion.
    WaitForOne,
    /// Pass on what is queued, and wait for one completion, but no longer than this.
    SubmitAtMost(Duration),
}

impl Ring {
    /// Moves completions from the kernel's queue to their slots; returns how many.
    pub(super) fn collect(&mut self) -> usize {
        if self.state == State::Broken {
            // Nobody listens any more: what comes now has been answered.
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
                if slot.settle(part, completion.result()) {
                    self.finished.push_back(index);
                }
            }
        }
        before - self.in_kernel
    }

    /// Enters the kernel once to pass on what is queued and to wait for `want` completions; gets over what passes.
    ///
    /// After `Ok` the caller looks again at what it waits for: the wait may have been cut short.
    pub(super) fn enter(&mut self, want: usize) -> Result<()> {
        // Invariant: nothing is waited for that is not on its way, or the wait would not end.
        debug_assert!(want <= self.in_kernel + self.queued.len());
        if let Some((index, read_asked)) = self.torn()
            && !self.mend(index, read_asked)?
        {
            return Ok(());
        }
        let queued = self.queued.len();
        let outcome = self.call(Enter::Submit(want));
        let moved = self.collect() + (queued - self.queued.len());
        let stalled = match outcome {
            Err(Errno::AGAIN | Errno::BUSY) => moved == 0,
            Ok(()) => moved == 0 && queued > 0,
            // Repeated as often as it takes, as at the gate: each needs a signal of its own.
            Err(Errno::INTR) => false,
            Err(errno) => return Err(self.break_down(errno)),
        };
        if !stalled {
            self.stalls = 0;
            return Ok(());
        }
        self.stall()?;
        // The kernel is short of memory, or of room for completions: those in its hands must come back first.
        if self.in_kernel == 0 {
            std::thread::yield_now();
            return Ok(());
        }
        self.wait_for_one()
    }

    /// Passes on nothing, and waits for a completion.
    fn wait_for_one(&mut self) -> Result<()> {
        let outcome = self.call(Enter::WaitForOne);
        let moved = self.collect();
        match outcome {
            Err(Errno::AGAIN | Errno::BUSY) if moved == 0 => self.stall(),
            Ok(()) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
            Err(errno) => Err(self.break_down(errno)),
        }
    }

    /// Counts a call in which nothing moved; there is an end to them.
    fn stall(&mut self) -> Result<()> {
        self.stalls += 1;
        if self.stalls > STALLS_MAX { Err(self.break_down(Errno::AGAIN)) } else { Ok(()) }
    }

    /// Finds a pair whose read the kernel has taken and whose write it has not; how much the read was asked for.
    ///
    /// A kernel that is short of memory stops in the middle of what it is given, and what it has taken of a chain by then
    /// is the whole chain to it. The write, passed on with the next call, would be bound to nothing and could overtake
    /// its read. Entries are taken in order, so such a write is at the head of the queue.
    fn torn(&self) -> Option<(usize, usize)> {
        let (index, part) = marked(*self.queued.front()?);
        let request = self.slots.get(index)?.request.as_ref()?;
        (part == SECOND).then(|| (index, request.length()))
    }

    /// Lets the read of a torn pair come to its end before anything else is passed on; tells whether it has.
    ///
    /// If it brings everything, the write may follow: it is in order again. If not, the write must never run; as nothing
    /// can be taken back out of the queue, the ring is given up, once the kernel has nothing of it any more.
    fn mend(&mut self, index: usize, read_asked: usize) -> Result<bool> {
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

    /// Makes one `io_uring_enter`, and notes which entries the kernel took.
    pub(super) fn call(&mut self, enter: Enter) -> std::result::Result<(), Errno> {
        let entries = if matches!(enter, Enter::WaitForOne) { 0 } else { self.queued.len() };
        match gate::verdict(Operation::RingEnter, entries) {
            Verdict::Fail(errno) => Err(errno),
            Verdict::Pass => self.pass(enter, entries),
            Verdict::Shorten(fewer) => self.pass(enter, fewer.min(entries)),
        }
    }

    /// Makes the call for so many entries: for fewer than are queued only where a fault is put in.
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
                // SAFETY: there is no argument to point anywhere, and the entries already with the kernel own their
                // memory by the rule of `start`.
                unsafe { submitter.enter::<libc::sigset_t>(0, 1, flags, None) }
            }
            Enter::SubmitAtMost(time) => {
                let time = types::Timespec::from(time);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        outcome.map(drop).map_err(|error| errno(&error))
    }

    /// Passes on some of what is queued, as a kernel does that stops half-way.
    fn call_kernel_for(&self, entries: usize) -> std::result::Result<(), Errno> {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: there is no argument to point anywhere, and the entries own their memory by the rule of `start`.
        let outcome = unsafe { self.setup.ring.submitter().enter::<libc::sigset_t>(entries, 0, flags, None) };
        outcome.map(drop).map_err(|error| errno(&error))
    }

    /// Binds the ring to this thread, the first time.
    fn enable(&mut self) -> std::result::Result<(), Errno> {
        if self.state != State::Disabled {
            return Ok(());
        }
        gate::call(
            Operation::RingRegister,
            || self.setup.ring.submitter().register_enable_rings().map_err(|error| errno(&error)),
            || "IORING_REGISTER_ENABLE_RINGS".to_owned(),
        )
        .map_err(|error| error.errno())?;
        self.state = State::Working;
        Ok(())
    }

    /// Gives the ring up: what the kernel never took is to be done in place, what it has is answered with `EIO`.
    pub(super) fn break_down(&mut self, cause: Errno) -> Error {
        self.collect();
        self.state = State::Broken;
        while let Some(mark) = self.queued.pop_front() {
            let (index, part) = marked(mark);
            let slot = &mut self.slots[index];
            slot.attempts = ATTEMPTS_MAX;
            let result = if part == FIRST { word(Errno::AGAIN) } else { CANCELLED };
            if slot.settle(part, result) {
                self.finished.push_back(index);
            }
        }
        self.leak();
        Error::new(Operation::RingEnter, format!("{} in flight", self.in_flight()), cause)
    }
}
