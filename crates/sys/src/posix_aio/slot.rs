//! A slot: one request, its control block, and a state that says who owns them.
//!
//! The parent module's documentation shows the states.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use rustix::io::Errno;

use super::AioSubmission;
use super::calls::PosixControlBlock;
use crate::operation::Operation;
use crate::raw_result::{asked, counted, is_transient, negated};
use crate::transfer::{TransferPart, TransferRequest, Transferred};

/// Result of an operation that the C library did not accept.
pub(super) const NOT_TAKEN: i32 = negated(Errno::AGAIN);

/// Slot states: see the module.
pub(super) const OURS: u8 = 0;
pub(super) const FIRST: u8 = 1;
const CLAIMED: u8 = 2;
pub(super) const SECOND: u8 = 3;
pub(super) const LAST: u8 = 4;
pub(super) const ABANDONED: u8 = 5;

/// Slots returned by notifications.
pub(super) struct Completions {
    queue: Mutex<FinishedQueue>,
    pub(super) wake: Condvar,
    /// Held for reading while a notification enqueues a write, for writing while someone checks for
    /// completed operations.
    pub(super) enqueuing: RwLock<()>,
}

pub(super) struct FinishedQueue {
    pub(super) finished: VecDeque<usize>,
    /// Number of finished slots worth waking the waiter for; 0 if nobody waits.
    pub(super) wanted: usize,
}

pub(super) struct PosixAioSlot {
    index: usize,
    submission: AioSubmission,
    pub(super) state: AtomicU8,
    pub(super) control: PosixControlBlock,
    work: UnsafeCell<SlotRequest>,
    completions: Arc<Completions>,
}

/// The request of a slot, and the raw results of its parts.
pub(super) struct SlotRequest {
    pub(super) token: u64,
    pub(super) transfer: Option<TransferRequest>,
    pub(super) first: Option<i32>,
    pub(super) second: Option<i32>,
}

// SAFETY: `control` and `work` are touched only by whoever has the slot by its state, and the state
// changes order those accesses. What they own may move to other threads.
unsafe impl Send for PosixAioSlot {}
// SAFETY: as above.
unsafe impl Sync for PosixAioSlot {}

/// A slot with nothing left for the C library to do; its result is recorded.
pub(super) struct SlotFinished;

impl PosixAioSlot {
    pub(super) fn new(index: usize, submission: AioSubmission, completions: &Arc<Completions>) -> Arc<Self> {
        Arc::new(Self {
            index,
            submission,
            state: AtomicU8::new(OURS),
            control: PosixControlBlock::new(),
            work: UnsafeCell::new(SlotRequest { token: 0, transfer: None, first: None, second: None }),
            completions: Arc::clone(completions),
        })
    }

    /// Returns the work of the slot.
    ///
    /// # Safety
    /// The caller has the slot by its state and holds no other borrow of its work.
    #[allow(clippy::mut_from_ref, reason = "the slot's state is what makes the borrow the only one")]
    pub(super) unsafe fn work(&self) -> &mut SlotRequest {
        // SAFETY: upheld by our caller.
        unsafe { &mut *self.work.get() }
    }

    /// Changes the state from `from` to `to`; returns false if it was another.
    pub(super) fn transition(&self, from: u8, to: u8) -> bool {
        // Acquire sees what the last owner wrote to the slot; Release shows the next one what we
        // wrote.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Prepares the control block for the next operation and passes the slot to the C library,
    /// unless an injected fault completes it at once. Returns the operation.
    ///
    /// # Safety
    /// The caller has the slot, its work has a next operation, and the caller enqueues it or takes
    /// it back.
    pub(super) unsafe fn prepare_next(self: &Arc<Self>) -> std::result::Result<Operation, SlotFinished> {
        // SAFETY: upheld by our caller; the borrow ends before the slot is given away.
        let work = unsafe { self.work() };
        let phase = if work.first.is_none() { FIRST } else { SECOND };
        let Some(part) = work.next() else { return Err(SlotFinished) };
        let operation = part.operation;
        match asked(operation, part.bytes.len()) {
            Ok(length) => {
                let counted = Arc::into_raw(Arc::clone(self)).cast_mut().cast();
                // SAFETY: the C library doesn't have the block, because the caller has the slot.
                unsafe { self.control.prepare(part, length, notified, counted) };
                // Before the C library gets the block: its notification may come before the call
                // that passes it returns.
                self.state.store(phase, Ordering::Release);
                Ok(operation)
            }
            Err(answer) => {
                work.note(answer);
                Err(SlotFinished)
            }
        }
    }

    /// Passes the next operation to the C library; after `Ok` the caller no longer has the slot.
    ///
    /// # Safety
    /// The caller has the slot, and its work has a next operation.
    pub(super) unsafe fn issue(self: &Arc<Self>) -> std::result::Result<(), SlotFinished> {
        // SAFETY: upheld by our caller.
        let operation = unsafe { self.prepare_next() }?;
        // SAFETY: it was prepared, and the slot holds a reference to itself until it is notified.
        if unsafe { self.control.enqueue(operation) }.is_ok() {
            return Ok(());
        }
        // SAFETY: an operation that was not accepted is not notified.
        unsafe { self.take_back() };
        Err(SlotFinished)
    }

    /// Frees a slot whose operation the C library did not accept.
    ///
    /// # Safety
    /// The caller prepared the operation, it will not be notified, and nobody else can have seen
    /// the slot since.
    pub(super) unsafe fn take_back(self: &Arc<Self>) {
        // SAFETY: `prepare_next` took this reference for a notification that will not come. The
        // caller has another.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        // Relaxed: this thread still has the slot. It is given away by a later store, with Release.
        self.state.store(CLAIMED, Ordering::Relaxed);
        // SAFETY: only the notification, which will not come, could have claimed the slot.
        unsafe { self.work() }.note(NOT_TAKEN);
    }

    /// Called when an operation has completed: starts a pair's write, or queues the slot to be
    /// reaped.
    fn complete_part(self: &Arc<Self>) {
        if self.transition(FIRST, CLAIMED) || self.transition(SECOND, CLAIMED) {
            // SAFETY: this is the notification of the operation, so it has completed.
            let answer = unsafe { self.control.answer() };
            // SAFETY: the slot was just claimed; the borrow ends before it is given away.
            let work = unsafe { self.work() };
            work.note(answer);
            if self.submission == AioSubmission::Each && work.next().is_some() {
                let _on_its_way = self.completions.enqueuing.read().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the slot is claimed and has a next operation.
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

impl SlotRequest {
    /// Returns the next part: the second one only of a pair that has read something.
    pub(super) fn next(&mut self) -> Option<TransferPart<'_>> {
        let transfer = self.transfer.as_mut()?;
        match (self.first.map(counted), self.second) {
            (None, _) => Some(transfer.part(None)),
            (Some(Ok(read @ 1..)), None) if transfer.is_pair() => Some(transfer.part(Some(read))),
            _ => None,
        }
    }

    /// Records the result of the last part.
    fn note(&mut self, answer: i32) {
        match self.first {
            None => self.first = Some(answer),
            Some(_) => self.second = Some(answer),
        }
    }
}

/// Builds the reply from the results of the parts. What the C library didn't do, or failed to do
/// for a transient reason, is done synchronously now.
pub(super) fn reply(mut transfer: TransferRequest, first: i32, second: Option<i32>) -> Transferred {
    if is_transient(first) {
        return transfer.perform_now();
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
    pub(super) fn new(depth: usize) -> Arc<Self> {
        let queue = Mutex::new(FinishedQueue { finished: VecDeque::with_capacity(depth), wanted: 0 });
        Arc::new(Self { queue, wake: Condvar::new(), enqueuing: RwLock::new(()) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FinishedQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a slot to be reaped.
    fn push(&self, index: usize) {
        let mut queue = self.lock();
        queue.finished.push_back(index);
        if queue.wanted > 0 && queue.finished.len() >= queue.wanted {
            self.wake.notify_one();
        }
    }
}

/// Called by the C library when an operation has completed, on a thread created for the call.
extern "C" fn notified(value: libc::sigval) {
    // SAFETY: `value` is the reference that `prepare_next` gave away with this operation, and an
    // operation is notified at most once.
    let slot = unsafe { Arc::from_raw(value.sival_ptr.cast_const().cast::<PosixAioSlot>()) };
    slot.complete_part();
}
