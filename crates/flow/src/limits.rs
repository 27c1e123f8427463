//! Rate limits of a run, and pauses. Both can be changed while it runs.
//!
//! All workers of a process share one clock for each limit. Whatever a worker has moved or is about
//! to begin takes the time that the limit allows for it, after everything that came before, and the
//! worker waits until that time is over (generic cell rate algorithm, ITU-T I.371). A worker waits
//! for bytes after it has moved them, because a read may return less than was requested. A run may
//! catch up after a short delay (`LATE_MAX`), but no further.
//!
//! A clock counts amounts instead of times, so that a new limit also holds for the workers that are
//! waiting:
//!
//! ```text
//! used      everything so far
//! allowed   grows by the limit each second; at most LATE_MAX ahead of `used`
//! wait      until `allowed` has reached what `used` was after the worker's own amount
//! ```
//!
//! In a pause the clocks stand still. Workers don't poll: a wait ends with its time, a change, or
//! the cancellation of the run.
//!
//! Several processes of a run share the clocks of rank 0 ([`Granter`]). What is `allowed` in a
//! process then doesn't grow with time but with its grants:
//!
//! ```text
//! process:  used ─► Limits::ask ─┐                          ┌► Limits::grant ─► allowed
//! rank 0:                        └► Granter::ask ─► clock ──┘ (Granter::due)
//! ```
//!
//! A process asks for what its workers wait for, and ahead of their need for as much as they used
//! in the last tenth of a second, so they needn't wait for the answer if the limit isn't reached.
//! It has one request at a time, for at most `REQUEST_MAX` of the limit, so that others get theirs
//! in between. A process that does nothing asks for nothing.
//!
//! Termination: each request is granted as long as rank 0 runs. When its work is over or lost, a
//! process uses its own clocks again, which ends the waits of its workers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod clock;
mod granter;
mod latency;

use crate::lock::lock;
use crate::policy::CancelToken;
use clock::LimitClock;
pub use granter::Granter;
use latency::Latencies;
pub(crate) use latency::{CallTimes, Side};

/// Limits as the user sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LimitValues {
    /// Maximum bytes of files moved per second, over all workers and ranks.
    pub bytes_per_second: Option<u64>,
    /// Maximum operations per second, over all workers and ranks. Each entry that isn't left out is
    /// one, and so is each block of data that is moved.
    pub operations_per_second: Option<u64>,
    /// Mean time that a metadata call may take: if it takes longer, fewer workers make calls.
    pub latency: Option<Duration>,
    /// True while the run is paused: nothing new is begun.
    pub is_paused: bool,
}

impl LimitValues {
    fn has_rate(&self) -> bool {
        self.bytes_per_second.is_some() || self.operations_per_second.is_some()
    }
}

/// The limits of a run, which can be changed at any time. Clones share one state.
///
/// Serialized, they are values: another process has its own clocks.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "LimitValues", into = "LimitValues")]
pub struct Limits {
    shared: Arc<SharedLimits>,
}

#[derive(Debug, Default)]
struct SharedLimits {
    /// True if there is a rate or a pause: otherwise workers don't touch the lock.
    is_active: AtomicBool,
    /// Number of changes so far.
    changes: AtomicU64,
    latencies: Latencies,
    state: Mutex<LimitState>,
    changed: Condvar,
}

/// The limits of a process or a run, and their clocks.
#[derive(Debug, Default)]
struct LimitState {
    values: LimitValues,
    bytes: LimitClock,
    operations: LimitClock,
}

/// An amount of work, done or about to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Load {
    /// Bytes of files moved.
    pub bytes: u64,
    /// Operations.
    pub operations: u64,
}

impl Load {
    /// The load of an entry, without its data.
    pub(crate) const ENTRY: Self = Self { bytes: 0, operations: 1 };
}

impl LimitState {
    fn clocks(&mut self) -> [&mut LimitClock; 2] {
        [&mut self.bytes, &mut self.operations]
    }

    /// Applies the values to the clocks.
    fn set(&mut self, values: LimitValues, now: Instant) {
        let rate = |limit: Option<u64>| Some(limit?.max(1) as f64);
        if std::mem::replace(&mut self.values, values).is_paused {
            // The pause took no time.
            self.clocks().into_iter().for_each(|clock| clock.skip_time(now));
        }
        self.bytes.set(rate(values.bytes_per_second), now);
        self.operations.set(rate(values.operations_per_second), now);
    }

    /// Adds a load to the used amounts. Returns the sums of bytes and operations, to wait for.
    fn take(&mut self, load: Load, now: Instant) -> (f64, f64) {
        if self.values.is_paused {
            self.clocks().into_iter().for_each(|clock| clock.skip_time(now));
        }
        (self.bytes.take(load.bytes, now), self.operations.take(load.operations, now))
    }
}

impl From<LimitValues> for Limits {
    fn from(values: LimitValues) -> Self {
        let limits = Self::default();
        limits.change(|own| *own = values);
        limits
    }
}

impl From<Limits> for LimitValues {
    fn from(limits: Limits) -> Self {
        limits.values()
    }
}

impl Limits {
    fn state(&self) -> MutexGuard<'_, LimitState> {
        lock(&self.shared.state)
    }

    /// Returns the limits as they were set last.
    #[must_use]
    pub fn values(&self) -> LimitValues {
        self.state().values
    }

    /// Changes the limits, also for workers that are waiting.
    pub fn change(&self, change: impl FnOnce(&mut LimitValues)) {
        let mut state = self.state();
        let mut values = state.values;
        change(&mut values);
        state.set(values, Instant::now());
        // With the lock held, as all changes. Workers that see it late are late by one block.
        self.shared.is_active.store(values.has_rate() || values.is_paused, Ordering::Relaxed);
        self.shared.latencies.set_max(values.latency);
        self.shared.changes.fetch_add(1, Ordering::Release);
        self.shared.changed.notify_all();
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Makes rank 0's clocks decide from now on: [`Limits::ask`] returns the load to request of it,
    /// and [`Limits::grant`] adds its grants. Earlier requests are forgotten.
    pub fn depend_on_grants(&self) {
        let now = Instant::now();
        self.state().clocks().into_iter().for_each(|clock| clock.depend_on_grants(now));
    }

    /// Makes this process's own clocks decide from now on.
    pub fn use_own_clocks(&self) {
        let (mut state, now) = (self.state(), Instant::now());
        state.clocks().into_iter().for_each(|clock| clock.use_own_time(now));
        self.shared.changed.notify_all();
    }

    /// Returns the load to request of rank 0 now, if any.
    #[must_use]
    pub fn ask(&self) -> Option<Load> {
        if !self.is_active() {
            return None;
        }
        let (mut state, now) = (self.state(), Instant::now());
        let load = Load { bytes: state.bytes.ask(now), operations: state.operations.ask(now) };
        (load != Load::default()).then_some(load)
    }

    /// Adds a grant of rank 0.
    pub fn grant(&self, load: Load) {
        let mut state = self.state();
        state.bytes.grant(load.bytes);
        state.operations.grant(load.operations);
        self.shared.changed.notify_all();
    }

    /// Returns true if there is a limit of bytes or operations per second.
    pub(crate) fn has_rate(&self) -> bool {
        self.values().has_rate()
    }

    /// Returns the maximum bytes per second, over all workers and ranks.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        self.state().bytes.per_second
    }

    /// Returns true if there is such a limit, or a pause.
    pub(crate) fn is_active(&self) -> bool {
        self.shared.is_active.load(Ordering::Relaxed)
    }

    /// Returns how long a metadata call may take.
    pub(crate) fn latency_max(&self) -> Option<Duration> {
        self.shared.latencies.max()
    }

    /// Returns how long metadata calls took so far, as far as they were measured.
    pub(crate) fn call_times(&self) -> CallTimes {
        self.shared.latencies.times()
    }

    /// Returns the time as a metadata call begins, if it is to be measured.
    pub(crate) fn begin_call(&self) -> Option<Instant> {
        self.latency_max().map(|_| Instant::now())
    }

    /// Counts a metadata call that has begun at this time.
    pub(crate) fn end_call(&self, side: Side, begun: Instant) {
        self.shared.latencies.add(side, begun);
    }

    /// Registers the limits with a run's cancel token: cancelling ends the waits of its workers.
    pub(crate) fn end_waits_with(&self, cancel: &CancelToken) {
        let shared = Arc::clone(&self.shared);
        cancel.on_cancel(move || {
            // With the lock held: a worker about to wait sees the cancellation, or is woken.
            let _state = lock(&shared.state);
            shared.changed.notify_all();
        });
    }

    /// Waits until the time of a load is over and there is no pause, or the run is cancelled.
    pub(crate) fn wait(&self, load: Load, cancel: &CancelToken) {
        let mut state = self.state();
        let (bytes, operations) = state.take(load, Instant::now());
        while !cancel.is_cancelled() {
            if state.values.is_paused {
                state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = Instant::now();
            state.clocks().into_iter().for_each(|clock| clock.advance(now));
            let left = state.bytes.left(bytes).max(state.operations.left(operations));
            if left.is_zero() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Makes a call, and measures it if there is a latency limit and `counts` returns true for its
/// result: some calls turn out not to be metadata calls.
pub(crate) fn measure_call<R>(
    limits: Option<&Limits>,
    side: Side,
    call: impl FnOnce() -> R,
    counts: impl FnOnce(&R) -> bool,
) -> R {
    let begun = limits.and_then(Limits::begin_call);
    let result = call();
    if let (Some(limits), Some(begun)) = (limits, begun)
        && counts(&result)
    {
        limits.end_call(side, begun);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_takes_no_time() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut state = LimitState::default();
        let values = LimitValues { bytes_per_second: Some(1000), ..LimitValues::default() };
        state.set(values, begin);
        let wanted = state.bytes.take(1000, begin);
        state.set(LimitValues { is_paused: true, ..values }, at(400));
        state.set(values, at(9000));
        assert_eq!(state.bytes.left(wanted), Duration::from_millis(600));
    }

    #[test]
    fn a_wait_ends_with_a_change_and_with_the_run() {
        let limits = Limits::from(LimitValues { is_paused: true, ..LimitValues::default() });
        let load = Load { bytes: u64::MAX, operations: 1 };
        std::thread::scope(|threads| {
            threads.spawn(|| limits.wait(load, &CancelToken::default()));
            limits.change(|values| values.bytes_per_second = Some(1));
            limits.change(|values| values.is_paused = false);
            limits.change(|values| *values = LimitValues::default());
        });
        limits.change(|values| values.is_paused = true);
        let cancel = CancelToken::default();
        limits.end_waits_with(&cancel);
        std::thread::scope(|threads| {
            threads.spawn(|| limits.wait(load, &cancel));
            cancel.cancel();
        });
    }
}
