//! A safe POSIX AIO: requests go in with everything they own, and come out with what the C library's threads made of them.
//!
//! How it works: there is a fixed number of slots, one for each request in flight. A slot owns the control block and all
//! that the block names. The C library keeps the slot's address from the moment it is given the block until it calls
//! [`notified`], on a thread of its own (`SIGEV_THREAD`), and with that address goes one count of the slot's `Arc`. So a
//! slot lives as long as a notification can come, whatever becomes of the [`PosixAio`].
//!
//! Who may touch a slot's fields is said by its state; whoever changes a state first takes it over.
//!
//! ```text
//!          enqueue          notified           a pair's write is enqueued
//!   OURS ──────────► FIRST ──────────► CLAIMED ◄────────────────────────► SECOND
//!    ▲                                    │               notified
//!    └─ pushed to `finished`: all is done ┘
//!
//!   FIRST, SECOND ── dropped while in flight ──► LAST ── notified ──► OURS
//!   FIRST, SECOND ── over, but no notification ──► ABANDONED: the request moves to a new slot, to be done in place
//! ```
//!
//! OURS belongs to the thread that has the [`PosixAio`], CLAIMED to the notification's; FIRST and SECOND are the C
//! library's. FIRST does not come again before the slot was reaped, so that a look at the state and its change, both by the
//! one who reaps, are about the same job. A late notification finds its slot ABANDONED and touches nothing.
//!
//! A block that says SECOND may not have reached the C library yet, and would look as if it were over. Nobody looks then:
//! notifications enqueue with [`Completions::enqueuing`] held for reading, and who looks holds it for writing.
//!
//! A notification is lost when glibc cannot start its thread: it then drops it without a word. A wait that brings nothing
//! for [`PATIENCE`] therefore looks for jobs that are over all the same.
//!
//! What it promises:
//! - memory and descriptors that the C library may use are never freed: drop waits, and leaves what does not come back in
//!   time to its late notification, or leaks it;
//! - every accepted request is answered exactly once, with its buffer;
//! - a pair's write begins when its read is over, and writes what was read and no more;
//! - nothing is allocated here for a request that succeeds (the C library allocates for each).
//!
//! What it cannot do: the C library works on one request for each descriptor at a time. Several in flight for one file
//! wait for each other; several files, and the reads of one file and the writes of another, do not.
//!
//! Nothing is ever cancelled. `aio_cancel` of one request that heads the row of its descriptor and has not begun makes
//! glibc (`__aio_remove_request` in `rt/aio_misc.c`, 2.36) mark the next in that row as ready without putting it where its threads
//! look: it never runs, nor does any later request for a descriptor of that number (test: `storm.rs`, where engines with
//! thousands of requests in flight are dropped beside others that go on).
//!
//! On C libraries other than glibc it is refused with `ENOSYS`.

#[cfg_attr(all(target_env = "gnu", target_pointer_width = "64"), path = "posix_aio/glibc.rs")]
#[cfg_attr(not(all(target_env = "gnu", target_pointer_width = "64")), path = "posix_aio/absent.rs")]
mod calls;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use rustix::io::Errno;

use crate::answer::{asked, counted, is_transient, word};
use crate::data::Cache;
use crate::error::Result;
use crate::gate::{self, Verdict};
use crate::operation::Operation;
use crate::transfer::{Part, Transfer, Transferred};
use crate::used::Used;

use calls::{Control, LIST_MAX};

/// The most requests in flight.
const DEPTH_MAX: usize = 4096;

/// The most threads that the C library is asked to use. Requests beyond them wait in its queue.
const THREADS_MAX: usize = 64;

/// How long a wait may bring nothing before jobs are looked at whose notification may be lost; and how long drop waits for
/// the next before it gives up.
const PATIENCE: Duration = Duration::from_secs(1);

/// What came of a job that the C library did not take.
const NOT_TAKEN: i32 = word(Errno::AGAIN);

/// The states of a slot: see the module.
const OURS: u8 = 0;
const FIRST: u8 = 1;
const CLAIMED: u8 = 2;
const SECOND: u8 = 3;
const LAST: u8 = 4;
const ABANDONED: u8 = 5;

/// How requests reach the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AioPassing {
    /// Each by a call of its own, at once; a pair's write from the notification of its read.
    Each,
    /// Gathered, and passed in lists (`lio_listio`); a pair's write with the next list.
    Lists,
}

/// Requests in the hands of the C library's threads. See the module for its promises.
pub struct PosixAio {
    passing: AioPassing,
    slots: Vec<Arc<Slot>>,
    free: Vec<usize>,
    /// Slots that go into the next list.
    gathered: Vec<usize>,
    /// How many slots the C library has, or has given back unseen.
    issued: usize,
    /// Slots that are ours again.
    finished: VecDeque<usize>,
    completions: Arc<Completions>,
    threads: usize,
    lists: u64,
    listed: u64,
    rescued: u64,
}

/// Where notifications leave their slots.
struct Completions {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Held for reading while a notification enqueues a write, for writing while somebody looks at what is enqueued.
    enqueuing: RwLock<()>,
}

struct Queue {
    finished: VecDeque<usize>,
    /// How many make it worth waking who waits; 0 when nobody does.
    wanted: usize,
}

struct Slot {
    index: usize,
    passing: AioPassing,
    state: AtomicU8,
    control: Control,
    work: UnsafeCell<Work>,
    completions: Arc<Completions>,
}

/// What a slot has to do, and the answers to its parts, as the kernel words them.
struct Work {
    token: u64,
    transfer: Option<Transfer>,
    first: Option<i32>,
    second: Option<i32>,
}

// SAFETY: `control` and `work` are touched only by who has the slot by its state, and the changes of state order their
// accesses. What they own can be moved to other threads.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl PosixAio {
    /// Makes room for `depth` requests in flight (at least 1, at most 4096), and asks for as many threads, up to 64. The
    /// C library has one set of threads for the whole process; who asks last before the first request decides on their
    /// number.
    ///
    /// # Errors
    /// `ENOSYS` where the C library is not glibc.
    pub fn new(depth: usize, passing: AioPassing) -> Result<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let threads = depth.min(THREADS_MAX);
        gate::call(Operation::AioInit, || calls::init(threads, depth), || format!("{threads}, {depth}"))?;
        let queue = Mutex::new(Queue { finished: VecDeque::with_capacity(depth), wanted: 0 });
        let completions = Arc::new(Completions { queue, wake: Condvar::new(), enqueuing: RwLock::new(()) });
        Ok(Self {
            passing,
            slots: (0..depth).map(|index| Slot::new(index, passing, &completions)).collect(),
            free: (0..depth).rev().collect(),
            gathered: Vec::with_capacity(depth),
            issued: 0,
            finished: VecDeque::with_capacity(depth),
            completions,
            threads,
            lists: 0,
            listed: 0,
            rescued: 0,
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

    /// Returns how many threads it asked for.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns how many lists it passed, and how many jobs in all of them.
    #[must_use]
    pub fn lists(&self) -> (u64, u64) {
        (self.lists, self.listed)
    }

    /// Says what it has used so far: the lists it passed are its calls.
    #[must_use]
    pub fn used(&self) -> Used {
        Used { calls: self.lists, ..Used::default() }
    }

    /// Returns how many requests were done in place because their notification did not come.
    #[must_use]
    pub fn rescued(&self) -> u64 {
        self.rescued
    }

    /// Takes a request. It goes to the C library at once, or with the next [`PosixAio::flush`] or [`PosixAio::reap`] where
    /// requests are gathered.
    ///
    /// # Errors
    /// Hands it back when there is no room, and when it is to leave nothing in the page cache: a control block has no place
    /// for the flag.
    ///
    /// # Panics
    /// When it names bytes that its buffer does not have.
    pub fn push(&mut self, token: u64, mut transfer: Transfer) -> std::result::Result<(), Transfer> {
        transfer.check();
        if transfer.cache() == Cache::Drop {
            return Err(transfer);
        }
        let Some(index) = self.free.pop() else { return Err(transfer) };
        let listed = self.passing == AioPassing::Lists && !matches!(transfer, Transfer::Fsync { .. });
        // SAFETY: a free slot is OURS.
        let work = unsafe { self.slots[index].work() };
        *work = Work { token, transfer: Some(transfer), first: None, second: None };
        if listed {
            self.gathered.push(index);
            return Ok(());
        }
        // SAFETY: as above.
        match unsafe { self.slots[index].issue() } {
            Ok(()) => self.issued += 1,
            Err(Over) => {
                self.slots[index].state.store(OURS, Ordering::Release);
                self.finished.push_back(index);
            }
        }
        Ok(())
    }

    /// Passes what was gathered to the C library. What it does not take is done in place, by the next [`PosixAio::reap`].
    pub fn flush(&mut self) {
        while !self.gathered.is_empty() {
            self.pass_list();
        }
    }

    /// Gives at least `min` answers (all there are, if that is fewer) to `take`, with their tokens; waits for them.
    pub fn reap(&mut self, min: usize, mut take: impl FnMut(u64, Transferred)) {
        let mut wanted = min.min(self.in_flight());
        loop {
            self.flush();
            self.collect();
            wanted = wanted.saturating_sub(self.settle(&mut take));
            // The writes of pairs must not wait for the caller's next flush, which may never come. There is an end to it:
            // a request goes round once.
            if self.gathered.is_empty() {
                if wanted == 0 {
                    return;
                }
                if !self.wait(wanted) {
                    self.rescue();
                }
            }
        }
    }

    /// Passes one list of what was gathered.
    fn pass_list(&mut self) {
        let mut members = [0; LIST_MAX];
        let mut count = 0;
        for index in self.gathered.drain(..LIST_MAX.min(self.gathered.len())) {
            // SAFETY: a gathered slot is OURS.
            match unsafe { self.slots[index].prepare_next() } {
                Ok(_) => {
                    members[count] = index;
                    count += 1;
                }
                Err(Over) => self.finished.push_back(index),
            }
        }
        let members = &members[..count];
        if members.is_empty() {
            return;
        }
        let taken = match gate::verdict(Operation::LioListio, 0) {
            Verdict::Fail(_) => None,
            Verdict::Pass | Verdict::Shorten(_) => {
                let controls = members.iter().map(|index| &self.slots[*index].control);
                // SAFETY: all were prepared, and each slot keeps itself, by a count, until it is notified.
                let taken = unsafe { calls::enqueue_list(controls) };
                self.lists += 1;
                self.listed += count as u64;
                Some(taken)
            }
        };
        for index in members {
            let slot = &self.slots[*index];
            let left_out = match taken {
                None => true,
                Some(Ok(())) => false,
                Some(Err(_)) => slot.control.was_left_out(),
            };
            if left_out {
                // SAFETY: a job that was left out is not notified.
                unsafe { slot.take_back() };
                slot.state.store(OURS, Ordering::Release);
                self.finished.push_back(*index);
            } else {
                self.issued += 1;
            }
        }
    }

    /// Takes over what was notified.
    fn collect(&mut self) {
        let mut queue = self.completions.lock();
        self.issued -= queue.finished.len();
        self.finished.extend(queue.finished.drain(..));
    }

    /// Answers every finished request, or gathers it again; returns how many it answered.
    fn settle(&mut self, take: &mut impl FnMut(u64, Transferred)) -> usize {
        let mut answered = 0;
        while let Some(index) = self.finished.pop_front() {
            // SAFETY: a finished slot is OURS.
            let work = unsafe { self.slots[index].work() };
            if self.passing == AioPassing::Lists && work.next().is_some() {
                self.gathered.push(index);
                continue;
            }
            let (first, second) = (work.first.unwrap_or(NOT_TAKEN), work.second);
            let token = work.token;
            let Some(transfer) = work.transfer.take() else { continue };
            self.free.push(index);
            take(token, reply(transfer, first, second));
            answered += 1;
        }
        answered
    }

    /// Waits until so many slots were notified, or all that can be; returns whether there were, before patience ended.
    fn wait(&self, wanted: usize) -> bool {
        let mut queue = self.completions.lock();
        // Invariant: what is waited for is in the C library's hands. `wanted` is at most what is in flight, and all of
        // that is issued when nothing is gathered or finished.
        queue.wanted = wanted.min(self.issued);
        let waits = |queue: &mut Queue| queue.finished.len() < queue.wanted;
        let (mut queue, timeout) = self
            .completions
            .wake
            .wait_timeout_while(queue, PATIENCE, waits)
            .unwrap_or_else(PoisonError::into_inner);
        queue.wanted = 0;
        !timeout.timed_out()
    }

    /// Gives up on notifications that seem lost: those jobs are over, and are done again in place, to the same effect.
    fn rescue(&mut self) {
        let completions = Arc::clone(&self.completions);
        let _nothing_on_its_way = completions.enqueuing.write().unwrap_or_else(PoisonError::into_inner);
        for index in 0..self.slots.len() {
            let slot = Arc::clone(&self.slots[index]);
            let state = slot.state.load(Ordering::Acquire);
            if !matches!(state, FIRST | SECOND) || !slot.control.is_over() || !slot.moves(state, ABANDONED) {
                continue;
            }
            // SAFETY: the slot was just claimed, for good: a late notification leaves it alone.
            let work = unsafe { slot.work() };
            let fresh = Slot::new(index, self.passing, &self.completions);
            // SAFETY: nobody else knows the new slot.
            let fresh_work = unsafe { fresh.work() };
            let transfer = work.transfer.take();
            *fresh_work = Work { token: work.token, transfer, first: Some(NOT_TAKEN), second: None };
            self.slots[index] = fresh;
            self.finished.push_back(index);
            self.issued -= 1;
            self.rescued += 1;
        }
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        let on_its_way = self.completions.enqueuing.write().unwrap_or_else(PoisonError::into_inner);
        for slot in &self.slots {
            // What is in flight is let end, and a pair's write that is still to come does not.
            let _was_in_flight = [FIRST, SECOND].iter().any(|state| slot.moves(*state, LAST));
        }
        drop(on_its_way);
        // Each turn something was notified, or patience ends.
        while self.issued > 0 && self.wait(1) {
            self.collect();
        }
        for slot in &self.slots {
            // A notification may hold its slot for some moments more, but not what the slot owned.
            if slot.state.load(Ordering::Acquire) == OURS {
                // SAFETY: the slot is OURS.
                unsafe { slot.work() }.transfer = None;
            }
        }
    }
}

/// A slot with nothing left for the C library to do: the result is noted.
struct Over;

impl Slot {
    fn new(index: usize, passing: AioPassing, completions: &Arc<Completions>) -> Arc<Self> {
        Arc::new(Self {
            index,
            passing,
            state: AtomicU8::new(OURS),
            control: Control::new(),
            work: UnsafeCell::new(Work { token: 0, transfer: None, first: None, second: None }),
            completions: Arc::clone(completions),
        })
    }

    /// Returns what the slot has to do.
    ///
    /// # Safety
    /// The caller has the slot, by its state, and does not ask twice at once.
    #[allow(clippy::mut_from_ref, reason = "the slot's state is what makes the borrow the only one")]
    unsafe fn work(&self) -> &mut Work {
        // SAFETY: as required of our caller.
        unsafe { &mut *self.work.get() }
    }

    /// Changes the state, if it is the one expected; returns whether.
    fn moves(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Prepares the control block for what is to be done next, and makes it the C library's, unless the fault hook has it
    /// over at once. Returns the operation.
    ///
    /// # Safety
    /// The caller has the slot, its work has a next job, and the caller enqueues it or takes it back.
    unsafe fn prepare_next(self: &Arc<Self>) -> std::result::Result<Operation, Over> {
        // SAFETY: as required of our caller; the borrow ends before the slot is given away.
        let work = unsafe { self.work() };
        let phase = if work.first.is_none() { FIRST } else { SECOND };
        let Some(part) = work.next() else { return Err(Over) };
        let operation = part.operation;
        match asked(operation, part.bytes.len()) {
            Ok(length) => {
                let counted = Arc::into_raw(Arc::clone(self)).cast_mut().cast();
                // SAFETY: the C library does not have the block, as the caller has the slot.
                unsafe { self.control.prepare(part, length, notified, counted) };
                self.state.store(phase, Ordering::Release);
                Ok(operation)
            }
            Err(answer) => {
                work.note(answer);
                Err(Over)
            }
        }
    }

    /// Gives what is to be done next to the C library; after `Ok` the slot is not the caller's any more.
    ///
    /// # Safety
    /// The caller has the slot, and its work has a next job.
    unsafe fn issue(self: &Arc<Self>) -> std::result::Result<(), Over> {
        // SAFETY: as required of our caller.
        let operation = unsafe { self.prepare_next() }?;
        // SAFETY: it was prepared, and the slot keeps itself, by a count, until it is notified.
        if unsafe { self.control.enqueue(operation) }.is_ok() {
            return Ok(());
        }
        // SAFETY: a job that was not taken is not notified.
        unsafe { self.take_back() };
        Err(Over)
    }

    /// Takes back a slot whose job the C library did not take.
    ///
    /// # Safety
    /// The caller prepared the job, it will not be notified, and nobody else could look at the slot since.
    unsafe fn take_back(self: &Arc<Self>) {
        // SAFETY: `prepare_next` made this count for a notification that does not come. The caller has one more.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        self.state.store(CLAIMED, Ordering::Relaxed);
        // SAFETY: only its notification, which does not come, would have claimed the slot.
        unsafe { self.work() }.note(NOT_TAKEN);
    }

    /// Takes note of a job that is over: goes on with a pair's write, or leaves the slot to be reaped.
    fn notice(self: &Arc<Self>) {
        if self.moves(FIRST, CLAIMED) || self.moves(SECOND, CLAIMED) {
            // SAFETY: the job is over: this is its notification.
            let answer = unsafe { self.control.answer() };
            // SAFETY: the slot was just claimed; the borrow ends before it is given away.
            let work = unsafe { self.work() };
            work.note(answer);
            if self.passing == AioPassing::Each && work.next().is_some() {
                let _on_its_way = self.completions.enqueuing.read().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the slot is claimed, and has a next job.
                if unsafe { self.issue() }.is_ok() {
                    return;
                }
            }
        } else if self.state.load(Ordering::Acquire) == ABANDONED {
            return;
        }
        self.state.store(OURS, Ordering::Release);
        self.completions.push(self.index);
    }
}

impl Work {
    /// Returns what is to be done next: the second part only of a pair that has read something.
    fn next(&mut self) -> Option<Part<'_>> {
        let transfer = self.transfer.as_mut()?;
        match (self.first.map(counted), self.second) {
            (None, _) => Some(transfer.part(None)),
            (Some(Ok(read @ 1..)), None) if transfer.is_pair() => Some(transfer.part(Some(read))),
            _ => None,
        }
    }

    /// Notes what came of the last part.
    fn note(&mut self, answer: i32) {
        match self.first {
            None => self.first = Some(answer),
            Some(_) => self.second = Some(answer),
        }
    }
}

/// Turns the answers to its parts into a reply. What the C library did not do, or was kept from by something that passes, is
/// done here and now.
fn reply(mut transfer: Transfer, first: i32, second: Option<i32>) -> Transferred {
    if is_transient(first) {
        return transfer.in_place();
    }
    let first = transfer.outcome(None, first);
    match (&first, second) {
        (Ok(read), Some(second)) if !is_transient(second) => {
            let written = transfer.outcome(Some(*read), second);
            transfer.reply(first, written)
        }
        _ => transfer.finish(first),
    }
}

impl Completions {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a slot to be reaped.
    fn push(&self, index: usize) {
        let mut queue = self.lock();
        queue.finished.push_back(index);
        if queue.wanted > 0 && queue.finished.len() >= queue.wanted {
            self.wake.notify_one();
        }
    }
}

/// Is called by the C library when a job is over, on a thread made for it.
extern "C" fn notified(value: libc::sigval) {
    // SAFETY: the value is the count that `prepare_next` gave away with this job, and a job is notified once at most.
    let slot = unsafe { Arc::from_raw(value.sival_ptr.cast_const().cast::<Slot>()) };
    slot.notice();
}
