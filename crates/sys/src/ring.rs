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
//! - nothing is allocated for a request that succeeds.
//!
//! Threads: the ring is bound to the thread that first submits (`SINGLE_ISSUER`, enabled late by `R_DISABLED`), so it may
//! be made on another. Used from a second thread it breaks down with `EEXIST`, in safety; dropped there, it leaks.
//!
//! Invariant: the completion queue cannot overflow. It has at least twice as many entries as the slab has slots, a slot
//! has at most one completion coming, and drop adds at most one cancellation for each.

mod request;
mod setup;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::{self, MaybeUninit};
use std::time::{Duration, Instant};

use io_uring::{EnterFlags, opcode, squeue, types};
use rustix::fs::Statx;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::gate::{self, Verdict};
use crate::operation::Operation;

use request::Holder;
pub use request::{RingReply, RingRequest};
use setup::{OPERATIONS, Setup, errno};

/// The most requests a ring holds; the kernel's own limit on entries.
const DEPTH_MAX: usize = 32_768;

/// How often a request that came back with `EINTR` or `EAGAIN` is given to the kernel again before it is done in place.
const ATTEMPTS_MAX: u8 = 2;

/// How many `io_uring_enter` in a row may fail with `EAGAIN` or `EBUSY`, nothing having moved, before it is for good.
const STALLS_MAX: u32 = 64;

/// How long drop waits for the next completion before it leaks the rest.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// Marks the completion of a cancellation: no slot has this number.
const CANCELLATION: u64 = u64::MAX;

/// A ring of operations in flight. See the module for its promises.
pub struct Ring {
    setup: Setup,
    slots: Box<[Slot]>,
    /// Where the kernel writes its answers to `statx`, one for each slot.
    looks: Box<[UnsafeCell<Statx>]>,
    free: Vec<usize>,
    /// Slots in the submission queue, the oldest first, that the kernel has not taken.
    queued: VecDeque<usize>,
    in_kernel: usize,
    /// Slots whose result is known, and the result as the kernel words it.
    finished: VecDeque<(usize, i32)>,
    state: State,
    /// Failed attempts to enter, in a row, in which nothing moved.
    stalls: u32,
    /// Whether a request went back into the queue since the last `reap` looked.
    restarted: bool,
    /// Whether the kernel may still write to `looks` after the ring is gone.
    looks_leaked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet bound to a thread.
    Disabled,
    Working,
    /// The kernel refused it for good.
    Broken,
}

struct Slot {
    token: u64,
    request: Option<RingRequest>,
    holder: Holder,
    /// How often it was given to the kernel in vain; `ATTEMPTS_MAX` means that it is not given again.
    attempts: u8,
}

/// What an `io_uring_enter` is for.
#[derive(Clone, Copy, Debug)]
enum Enter {
    /// Pass on what is queued, and wait for so many completions.
    Submit(usize),
    /// Pass on nothing, and wait for one completion.
    WaitForOne,
    /// Pass on what is queued, and wait for one completion, but no longer than this.
    SubmitAtMost(Duration),
}

impl Ring {
    /// Makes a ring for `depth` requests in flight (at least 1, at most the kernel's limit).
    ///
    /// # Errors
    /// The kernel's: `EPERM` or `ENOSYS` where rings are forbidden or unknown, `ENOMEM` where memory is limited.
    pub fn new(depth: usize) -> Result<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let setup = setup::make(u32::try_from(depth).unwrap_or(u32::MAX))?;
        let depth = depth.min(setup.ring.params().sq_entries() as usize);
        let state = if setup.starts_disabled() { State::Disabled } else { State::Working };
        Ok(Self {
            setup,
            slots: (0..depth).map(|_| Slot::empty()).collect(),
            looks: (0..depth).map(|_| UnsafeCell::new(no_look())).collect(),
            free: (0..depth).rev().collect(),
            queued: VecDeque::with_capacity(depth),
            in_kernel: 0,
            finished: VecDeque::with_capacity(depth),
            state,
            stalls: 0,
            restarted: false,
            looks_leaked: false,
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
    /// Hands it back when the ring is full or broken.
    ///
    /// # Panics
    /// When it names bytes that its buffer does not have.
    pub fn push(&mut self, token: u64, request: RingRequest) -> std::result::Result<(), RingRequest> {
        request.length();
        if self.is_broken() {
            return Err(request);
        }
        let Some(index) = self.free.pop() else { return Err(request) };
        self.slots[index] = Slot { token, request: Some(request), holder: Holder::Process, attempts: 0 };
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
    /// With a `min` of 0 it enters the kernel only if there is something to fetch.
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
            self.enter(wanted)?;
        }
    }

    /// Puts the slot's request into the submission queue, or finishes it where the fault hook says so.
    fn start(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(request) = &mut slot.request else { return };
        let length = request.length();
        let length = match gate::verdict(request.operation(), length) {
            Verdict::Fail(errno) => return self.finished.push_back((index, -errno.raw_os_error())),
            Verdict::Shorten(0) if length > 0 => return self.finished.push_back((index, 0)),
            Verdict::Shorten(shorter) => shorter.min(length),
            Verdict::Pass => length,
        };
        let mut entry = request.entry(length, self.looks[index].get()).user_data(index as u64);
        if slot.attempts > 0 {
            // EAGAIN is what a file system without IOCB_NOWAIT may answer for a descriptor opened with O_NONBLOCK, as
            // sources are. In a kernel thread it may block instead.
            entry = entry.flags(squeue::Flags::ASYNC);
        }
        let mut queue = self.setup.ring.submission();
        // SAFETY: the entry points into memory owned by the slot's request and into `looks`. Neither is freed or given
        // out before the completion was seen (`settle`), and what is still in the kernel is leaked (`leak`).
        match unsafe { queue.push(&entry) } {
            Ok(()) => self.queued.push_back(index),
            // Cannot be: the queue has at least as many entries as there are slots. If it were, the request is done
            // in place.
            Err(_) => {
                slot.attempts = ATTEMPTS_MAX;
                self.finished.push_back((index, -Errno::AGAIN.raw_os_error()));
            }
        }
    }

    /// Answers every finished request, or starts it again; returns how many it answered.
    fn settle(&mut self, take: &mut impl FnMut(u64, RingReply)) -> usize {
        let mut answered = 0;
        // `start` may finish a request at once, so that it comes round again here: as often as it has attempts.
        while let Some((index, result)) = self.finished.pop_front() {
            let slot = &mut self.slots[index];
            let Some(request) = &slot.request else { continue };
            let transient = [Errno::INTR, Errno::AGAIN].iter().any(|errno| result == -errno.raw_os_error());
            let once = request.operation() == Operation::Close && slot.attempts == 0;
            if transient && !once && slot.attempts < ATTEMPTS_MAX && self.state != State::Broken {
                slot.attempts += 1;
                slot.holder = Holder::Process;
                self.restarted = true;
                self.start(index);
                continue;
            }
            let Some(request) = slot.request.take() else { continue };
            let holder = mem::replace(&mut slot.holder, Holder::Process);
            let reply = if transient && !once {
                request.in_place()
            } else {
                request.reply(result, holder, &self.looks[index])
            };
            self.free.push(index);
            take(slot.token, reply);
            answered += 1;
        }
        answered
    }

    /// Moves completions from the kernel's queue to `finished`; returns how many.
    fn collect(&mut self) -> usize {
        if self.state == State::Broken {
            // Nobody listens any more: what comes now has been answered.
            return 0;
        }
        let before = self.in_kernel;
        for completion in self.setup.ring.completion() {
            if completion.user_data() == CANCELLATION {
                continue;
            }
            let index = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
            if self.slots.get(index).is_some_and(|slot| slot.holder == Holder::Kernel) {
                self.in_kernel -= 1;
                self.finished.push_back((index, completion.result()));
            }
        }
        before - self.in_kernel
    }

    /// Enters the kernel once to pass on what is queued and to wait for `want` completions; gets over what passes.
    ///
    /// After `Ok` the caller looks again at what it waits for: the wait may have been cut short.
    fn enter(&mut self, want: usize) -> Result<()> {
        // Invariant: nothing is waited for that is not on its way, or the wait would not end.
        debug_assert!(want <= self.in_kernel + self.queued.len());
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
        self.stalls += 1;
        if self.stalls > STALLS_MAX {
            return Err(self.break_down(Errno::AGAIN));
        }
        // The kernel is short of memory, or of room for completions: those in its hands must come back first.
        if self.in_kernel == 0 {
            std::thread::yield_now();
            return Ok(());
        }
        let outcome = self.call(Enter::WaitForOne);
        self.collect();
        match outcome {
            Ok(()) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
            Err(errno) => Err(self.break_down(errno)),
        }
    }

    /// Makes one `io_uring_enter`, and notes which entries the kernel took.
    fn call(&mut self, enter: Enter) -> std::result::Result<(), Errno> {
        let outcome = match gate::verdict(Operation::RingEnter, 0) {
            Verdict::Fail(errno) => Err(errno),
            Verdict::Pass | Verdict::Shorten(_) => self.enable().and_then(|()| self.call_kernel(enter)),
        };
        let left = self.setup.ring.submission().len();
        while self.queued.len() > left {
            if let Some(index) = self.queued.pop_front() {
                self.slots[index].holder = Holder::Kernel;
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
    fn break_down(&mut self, errno: Errno) -> Error {
        self.collect();
        self.state = State::Broken;
        while let Some(index) = self.queued.pop_front() {
            self.slots[index].attempts = ATTEMPTS_MAX;
            self.finished.push_back((index, -Errno::AGAIN.raw_os_error()));
        }
        self.leak();
        Error::new(Operation::RingEnter, format!("{} in flight", self.in_flight()), errno)
    }

    /// Stops listening to the kernel: leaks whatever it still holds, and finishes those requests with `EIO`.
    ///
    /// `EIO` and not the kernel's reason, as that could read like an invitation to do them again.
    fn leak(&mut self) {
        if self.in_kernel == 0 {
            return;
        }
        let mut listening = vec![true; self.slots.len()];
        for (index, _) in &self.finished {
            listening[*index] = false;
        }
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(index, _)| listening[*index]) {
            if let (Some(request), Holder::Kernel) = (&mut slot.request, slot.holder) {
                request.leak();
                self.finished.push_back((index, -Errno::IO.raw_os_error()));
                self.looks_leaked = true;
            }
        }
        self.in_kernel = 0;
    }

    /// Cancels what the kernel has, except closes, and waits for all of it, as long as something moves.
    fn drain(&mut self) {
        if self.flush().is_err() {
            return;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let closes = slot.request.as_ref().is_none_or(|request| request.operation() == Operation::Close);
            if slot.holder == Holder::Kernel && !closes {
                let entry = opcode::AsyncCancel::new(index as u64).build().user_data(CANCELLATION);
                let mut queue = self.setup.ring.submission();
                // SAFETY: a cancellation points to no memory. There is room: the queue was flushed, and has at least
                // as many entries as there are slots; if not, the request is waited for without being cancelled.
                if unsafe { queue.push(&entry) }.is_err() {
                    break;
                }
            }
        }
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
}

impl Slot {
    fn empty() -> Self {
        Self { token: 0, request: None, holder: Holder::Process, attempts: 0 }
    }
}

fn no_look() -> Statx {
    // SAFETY: `Statx` is made of integers and bit flags over integers, for which zero is a value.
    unsafe { MaybeUninit::<Statx>::zeroed().assume_init() }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_kernel + self.queued.len() > 0 {
            self.drain();
        }
        self.leak();
        // A descriptor that the kernel has closed must not be closed by dropping its request, and one that it has
        // opened must be.
        while let Some((index, result)) = self.finished.pop_front() {
            let slot = &mut self.slots[index];
            if let Some(request) = slot.request.take() {
                drop(request.reply(result, slot.holder, &self.looks[index]));
            }
        }
        if self.looks_leaked {
            mem::forget(mem::take(&mut self.looks));
        }
    }
}
