//! A safe wrapper for POSIX AIO: each request owns everything it needs until its result
//! is returned.
//!
//! There is a fixed number of slots, one for each request in flight. A slot owns its control block
//! and everything the block names. The C library holds the slot's address from the time it gets the
//! block until it calls `notified`, on a thread of its own (`SIGEV_THREAD`). One reference count
//! of the slot's `Arc` goes with that address, so a slot outlives any notification that may still
//! come, even if the [`PosixAio`] is gone.
//!
//! The state of a slot says who may touch its fields; whoever changes the state becomes its owner.
//!
//! ```text
//!             enqueue          notified           a pair's write is enqueued
//!   OURS ──────────► FIRST ──────────► CLAIMED ◄────────────────────────► SECOND
//!    ▲                                    │               notified
//!    └── all done: pushed to `finished` ──┘
//!
//!   FIRST, SECOND ── dropped while in flight ────────► LAST ── notified ──► OURS
//!   FIRST, SECOND ── complete, but not notified ─────► ABANDONED
//! ```
//!
//! OURS belongs to the thread that owns the [`PosixAio`], CLAIMED to the notification thread, FIRST
//! and SECOND to the C library. A slot doesn't become FIRST again before it is reaped. So when the
//! reaper reads the state and then changes it, both refer to the same operation. The request of an
//! ABANDONED slot moves to a new slot and is done synchronously; a late notification of the old
//! slot touches nothing.
//!
//! A block in state SECOND may not have reached the C library yet, and `aio_error` would report it
//! as complete. So a notification holds [`Completions::enqueuing`] for reading while it enqueues,
//! and whoever checks for completion holds it for writing.
//!
//! glibc silently drops a notification if it can't start a thread for it. So a wait that brings
//! nothing for [`Patience`] checks for operations that completed without a notification.
//!
//! Promises:
//! - memory and descriptors that the C library may use are never freed: drop waits, and leaves
//!   whatever doesn't come back in time to its late notification, or leaks it;
//! - every accepted request completes exactly once, with its buffer;
//! - the write of a pair starts after its read has completed, and writes only the bytes that were
//!   read;
//! - a successful request allocates nothing here (the C library allocates for each).
//!
//! Limitation: the C library works on one request per descriptor at a time. Requests for one file
//! wait for each other; requests for different files, and reads of one file and writes of
//! another, don't.
//!
//! Nothing is ever cancelled. If `aio_cancel` hits a request that is at the head of its
//! descriptor's queue and hasn't started, glibc (`__aio_remove_request` in `rt/aio_misc.c`, 2.36)
//! marks the next one as ready but doesn't put it where its threads look. It never runs, nor does
//! any later request for that descriptor number (test: `storm.rs`, which drops engines with
//! thousands of requests in flight next to others that keep running).
//!
//! On C libraries other than glibc, [`PosixAio::new`] fails with `ENOSYS`.

#[cfg_attr(all(target_env = "gnu", target_pointer_width = "64"), path = "posix_aio/glibc.rs")]
#[cfg_attr(not(all(target_env = "gnu", target_pointer_width = "64")), path = "posix_aio/absent.rs")]
mod calls;
mod slot;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::data::CacheMode;
use crate::error::Result;
use crate::gate::{self, FaultDecision};
use crate::operation::Operation;
use crate::transfer::{TransferRequest, Transferred};
use crate::used::Used;

use calls::LIST_MAX;
use slot::{
    ABANDONED, Completions, FIRST, FinishedQueue, LAST, NOT_TAKEN, OURS, PosixAioSlot, SECOND, SlotFinished,
    SlotRequest, reply,
};

/// Maximum requests in flight.
const DEPTH_MAX: usize = 4096;

/// Maximum threads to ask the C library for. Further requests wait in its queue.
const THREADS_MAX: usize = 64;

/// Maximum time that drop waits for the next completion before it gives up.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// Time without a completion after which a wait checks for lost notifications.
///
/// Long at first, because losses are rare. Where no more threads may be started, every notification
/// is lost, so a loss makes the next waits short. Each search that finds nothing makes them longer
/// again, which bounds the polling of requests that are only slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
struct Patience(Duration);

impl Patience {
    const MAX: Patience = Patience(Duration::from_secs(1));
    const MIN: Patience = Patience(Duration::from_millis(1));

    /// Returns the patience after a search that found `lost` lost notifications.
    fn after(self, lost: u64) -> Self {
        match lost {
            0 => Self((self.0 * 2).min(Self::MAX.0)),
            _ => Self::MIN,
        }
    }
}

/// Method of passing requests to the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AioSubmission {
    /// Each at once, with a call of its own. The write of a pair is passed by the notification of
    /// its read.
    Each,
    /// Gathered and passed in lists (`lio_listio`). The write of a pair goes into the next list.
    Lists,
}

/// Requests in flight on the C library's threads. See the module for its promises.
pub struct PosixAio {
    submission: AioSubmission,
    slots: Vec<Arc<PosixAioSlot>>,
    free: Vec<usize>,
    /// Slots for the next list.
    gathered: Vec<usize>,
    /// Number of slots that the C library holds, or has returned but we haven't collected.
    issued: usize,
    /// Finished slots, ours again but not yet reaped.
    finished: VecDeque<usize>,
    completions: Arc<Completions>,
    threads: usize,
    lists: u64,
    listed: u64,
    rescued: u64,
    patience: Patience,
}

impl PosixAio {
    /// Creates slots for `depth` requests in flight (clamped to 1..=4096) and asks for as many
    /// threads, up to 64. The C library has one thread pool for the whole process; the last call
    /// before the first request determines its size.
    ///
    /// # Errors
    /// `ENOSYS` if the C library is not glibc.
    pub fn new(depth: usize, submission: AioSubmission) -> Result<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let threads = depth.min(THREADS_MAX);
        gate::call(Operation::AioInit, || calls::init(threads, depth), || format!("{threads}, {depth}"))?;
        let completions = Completions::new(depth);
        Ok(Self {
            submission,
            slots: (0..depth).map(|index| PosixAioSlot::new(index, submission, &completions)).collect(),
            free: (0..depth).rev().collect(),
            gathered: Vec::with_capacity(depth),
            issued: 0,
            finished: VecDeque::with_capacity(depth),
            completions,
            threads,
            lists: 0,
            listed: 0,
            rescued: 0,
            patience: Patience::MAX,
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

    /// Returns how many threads it asked for.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns how many lists were passed, and the total number of operations in them.
    #[must_use]
    pub fn lists(&self) -> (u64, u64) {
        (self.lists, self.listed)
    }

    /// Returns the usage counters: each list passed is one call.
    #[must_use]
    pub fn used(&self) -> Used {
        Used { calls: self.lists, ..Used::default() }
    }

    /// Returns how many requests were done synchronously because their notification was lost.
    #[must_use]
    pub fn rescued(&self) -> u64 {
        self.rescued
    }

    /// Accepts a request. It goes to the C library at once or, if requests are gathered, with the
    /// next [`PosixAio::flush`] or [`PosixAio::reap`].
    ///
    /// # Errors
    /// Returns the request if all slots are in use, or if it is to leave nothing in the page cache:
    /// a control block has no field for the flag.
    ///
    /// # Panics
    /// If the request names bytes outside its buffer.
    pub fn push(
        &mut self,
        token: u64,
        mut transfer: TransferRequest,
    ) -> std::result::Result<(), TransferRequest> {
        transfer.check();
        if transfer.cache() == CacheMode::Drop {
            return Err(transfer);
        }
        let Some(index) = self.free.pop() else { return Err(transfer) };
        // `lio_listio` has no fsync.
        let listed =
            self.submission == AioSubmission::Lists && !matches!(transfer, TransferRequest::Fsync { .. });
        // SAFETY: a free slot is OURS.
        let work = unsafe { self.slots[index].work() };
        *work = SlotRequest { token, transfer: Some(transfer), first: None, second: None };
        if listed {
            self.gathered.push(index);
            return Ok(());
        }
        // SAFETY: as above.
        match unsafe { self.slots[index].issue() } {
            Ok(()) => self.issued += 1,
            Err(SlotFinished) => {
                self.slots[index].state.store(OURS, Ordering::Release);
                self.finished.push_back(index);
            }
        }
        Ok(())
    }

    /// Passes all gathered requests to the C library. Those it rejects are done synchronously by
    /// the next [`PosixAio::reap`].
    pub fn flush(&mut self) {
        while !self.gathered.is_empty() {
            self.pass_list();
        }
    }

    /// Waits for at least `min` results, or for all requests in flight if they are fewer, and
    /// passes every result to `take` with its token.
    pub fn reap(&mut self, min: usize, mut take: impl FnMut(u64, Transferred)) {
        let mut wanted = min.min(self.in_flight());
        loop {
            self.flush();
            self.collect();
            wanted = wanted.saturating_sub(self.retire(&mut take));
            // The writes of pairs must not wait for the caller's next flush, which may never come.
            // Terminates: each request comes round at most once.
            if self.gathered.is_empty() {
                if wanted == 0 {
                    return;
                }
                if !self.wait(wanted, self.patience.0) {
                    let rescued_before = self.rescued;
                    self.rescue();
                    self.patience = self.patience.after(self.rescued - rescued_before);
                }
            }
        }
    }

    /// Passes one list of gathered requests.
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
                Err(SlotFinished) => self.finished.push_back(index),
            }
        }
        let members = &members[..count];
        if members.is_empty() {
            return;
        }
        let taken = match gate::verdict(Operation::LioListio, 0) {
            FaultDecision::Fail(_) => None,
            FaultDecision::Pass | FaultDecision::Shorten(_) => {
                let controls = members.iter().map(|index| &self.slots[*index].control);
                // SAFETY: all were prepared, and each slot holds a reference to itself until it
                // is notified.
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
                // SAFETY: an operation that was left out is not notified.
                unsafe { slot.take_back() };
                slot.state.store(OURS, Ordering::Release);
                self.finished.push_back(*index);
            } else {
                self.issued += 1;
            }
        }
    }

    /// Collects notified slots.
    fn collect(&mut self) {
        let mut queue = self.completions.lock();
        self.issued -= queue.finished.len();
        self.finished.extend(queue.finished.drain(..));
    }

    /// Returns every finished request to the caller, or gathers it again for a pair's write.
    /// Returns the number of requests completed.
    fn retire(&mut self, take: &mut impl FnMut(u64, Transferred)) -> usize {
        let mut answered = 0;
        while let Some(index) = self.finished.pop_front() {
            // SAFETY: a finished slot is OURS.
            let work = unsafe { self.slots[index].work() };
            if self.submission == AioSubmission::Lists && work.next().is_some() {
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

    /// Waits until `wanted` slots were notified, or all that can be. Returns false if `patience`
    /// ran out first.
    fn wait(&self, wanted: usize, patience: Duration) -> bool {
        let mut queue = self.completions.lock();
        // Invariant: the C library holds everything waited for. `wanted` is at most what is in
        // flight, and all of that has been issued if nothing is gathered or finished.
        queue.wanted = wanted.min(self.issued);
        let waits = |queue: &mut FinishedQueue| queue.finished.len() < queue.wanted;
        let (mut queue, timeout) = self
            .completions
            .wake
            .wait_timeout_while(queue, patience, waits)
            .unwrap_or_else(PoisonError::into_inner);
        queue.wanted = 0;
        !timeout.timed_out()
    }

    /// Abandons notifications that seem lost. Their operations have completed, so repeating them
    /// synchronously has the same effect.
    fn rescue(&mut self) {
        let completions = Arc::clone(&self.completions);
        let _nothing_on_its_way = completions.enqueuing.write().unwrap_or_else(PoisonError::into_inner);
        for index in 0..self.slots.len() {
            let slot = Arc::clone(&self.slots[index]);
            let state = slot.state.load(Ordering::Acquire);
            if !matches!(state, FIRST | SECOND)
                || !slot.control.is_over()
                || !slot.transition(state, ABANDONED)
            {
                continue;
            }
            // SAFETY: the slot was just abandoned, and a late notification doesn't touch it.
            let work = unsafe { slot.work() };
            let fresh = PosixAioSlot::new(index, self.submission, &self.completions);
            // SAFETY: nothing else refers to the new slot yet.
            let fresh_work = unsafe { fresh.work() };
            let transfer = work.transfer.take();
            *fresh_work = SlotRequest { token: work.token, transfer, first: Some(NOT_TAKEN), second: None };
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
            // Lets operations in flight complete, but keeps a pair's write from following its read.
            let _was_in_flight = [FIRST, SECOND].iter().any(|state| slot.transition(*state, LAST));
        }
        drop(on_its_way);
        // Terminates: on each turn something was notified, or patience runs out.
        while self.issued > 0 && self.wait(1, DROP_PATIENCE) {
            self.collect();
        }
        for slot in &self.slots {
            // A notification may still hold its slot for a moment, but no longer uses what the
            // slot owns.
            if slot.state.load(Ordering::Acquire) == OURS {
                // SAFETY: the slot is OURS.
                unsafe { slot.work() }.transfer = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the long wait for each, a copy moved one block per second.
    #[test]
    fn after_a_lost_notification_the_next_is_looked_for_at_once() {
        assert_eq!(Patience::MAX.after(1), Patience::MIN);
        assert_eq!(Patience::MIN.after(3), Patience::MIN);
    }

    #[test]
    fn requests_that_are_only_slow_are_polled_ever_less() {
        let mut patience = Patience::MIN;
        let searches = (0..100).take_while(|_| {
            patience = patience.after(0);
            patience < Patience::MAX
        });
        assert_eq!(searches.count(), 9);
        assert_eq!(Patience::MAX.after(0), Patience::MAX);
    }
}
