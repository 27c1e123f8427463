//! Limits on what a run does per second, and pauses. Both can be changed while it runs.
//!
//! All workers of a process share one clock for each limit. Whatever a worker has moved or is about
//! to begin takes the time that the limit allows for it, after everything that came before, and the
//! worker waits until that time is over (generic cell rate algorithm, ITU-T I.371). Bytes are
//! waited for afterwards, because a read may return less than was asked for. A run that was late
//! for a moment may make up for it, but not for longer.
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
//! In a pause the clocks stand still. Nobody polls: a wait ends with its time, a change, or the
//! cancellation of the run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::policy::CancelToken;

/// How much time in which nothing was done may be made up for, in seconds.
const LATE_MAX: f64 = 0.1;

/// Maximum wait before the clock is read again, in seconds, so that no limit overflows: a year.
const WAIT_MAX: f64 = 3e7;

/// Limits as the user sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LimitValues {
    /// Maximum bytes of files moved per second, over all workers and ranks.
    pub bytes_per_second: Option<u64>,
    /// Maximum operations per second, over all workers and ranks. Each entry that isn't left out is
    /// one, and so is each block of data that is moved.
    pub operations_per_second: Option<u64>,
    /// True if nothing new is begun.
    pub is_paused: bool,
}

/// Numbers of processes that share the limits equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharers {
    /// Processes that move bytes.
    pub bytes: u32,
    /// Processes that do operations.
    pub operations: u32,
}

/// The limits of a run, which can be changed at any time. Clones share one state.
///
/// Serialized, they are values: another process has its own clocks.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "LimitValues", into = "LimitValues")]
pub struct Limits {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// True if there is a limit or a pause: otherwise workers don't touch the lock.
    is_active: AtomicBool,
    /// Number of changes so far.
    changes: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    values: LimitValues,
    sharers: Sharers,
    bytes: Clock,
    operations: Clock,
}

impl Default for State {
    fn default() -> Self {
        let sharers = Sharers { bytes: 1, operations: 1 };
        Self {
            values: LimitValues::default(),
            sharers,
            bytes: Clock::default(),
            operations: Clock::default(),
        }
    }
}

/// What a worker did or is about to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) bytes: u64,
    pub(crate) operations: u64,
}

impl Load {
    /// The load of an entry, without its data.
    pub(crate) const ENTRY: Self = Self { bytes: 0, operations: 1 };
}

/// The clock of one limit.
#[derive(Debug, Default)]
struct Clock {
    /// `None` if there is no limit.
    per_second: Option<f64>,
    used: f64,
    /// As of `read`.
    allowed: f64,
    /// When the clock was last read; `None` if it never ran.
    read: Option<Instant>,
}

impl Clock {
    fn advance(&mut self, now: Instant) {
        let elapsed = self.read.map_or(0.0, |read| now.saturating_duration_since(read).as_secs_f64());
        self.read = Some(now);
        self.allowed = match self.per_second {
            Some(rate) => (self.allowed + rate * elapsed).min(self.used + rate * LATE_MAX),
            None => self.used,
        };
    }

    /// Adds to what was used. Returns the sum, to wait for.
    fn take(&mut self, amount: u64, now: Instant) -> f64 {
        self.advance(now);
        self.used += amount as f64;
        self.used
    }

    /// Returns how long to wait until this much is allowed, as of the last reading.
    fn left(&self, wanted: f64) -> Duration {
        let missing = wanted - self.allowed;
        let seconds = self.per_second.map_or(0.0, |rate| missing / rate);
        Duration::from_secs_f64(seconds.clamp(0.0, WAIT_MAX))
    }

    fn set(&mut self, per_second: Option<f64>, now: Instant) {
        self.advance(now);
        self.per_second = per_second;
    }
}

impl State {
    /// Applies the values to the clocks.
    fn set(&mut self, values: LimitValues, now: Instant) {
        let share = |all: Option<u64>, sharers: u32| Some(all?.max(1) as f64 / f64::from(sharers.max(1)));
        let was_paused = std::mem::replace(&mut self.values, values).is_paused;
        for clock in [&mut self.bytes, &mut self.operations] {
            if was_paused {
                // The pause took no time.
                clock.read = Some(now);
            }
        }
        self.bytes.set(share(values.bytes_per_second, self.sharers.bytes), now);
        self.operations.set(share(values.operations_per_second, self.sharers.operations), now);
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
    fn state(&self) -> MutexGuard<'_, State> {
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
        self.shared.is_active.store(values != LimitValues::default(), Ordering::Relaxed);
        self.shared.changes.fetch_add(1, Ordering::Release);
        self.shared.changed.notify_all();
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Sets the numbers of processes that share the limits. Each has clocks of its own.
    pub fn share_among(&self, sharers: Sharers) {
        let mut state = self.state();
        state.sharers = sharers;
        let values = state.values;
        state.set(values, Instant::now());
        self.shared.changed.notify_all();
    }

    /// Returns true if there is a limit other than a pause.
    pub(crate) fn has_rate(&self) -> bool {
        let LimitValues { bytes_per_second, operations_per_second, .. } = self.values();
        bytes_per_second.is_some() || operations_per_second.is_some()
    }

    /// Returns this process's share of the bytes per second.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        self.state().bytes.per_second
    }

    /// Returns true if there is a limit or a pause.
    pub(crate) fn is_active(&self) -> bool {
        self.shared.is_active.load(Ordering::Relaxed)
    }

    /// Has cancellation of a run end the waits of its workers.
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
        let now = Instant::now();
        if state.values.is_paused {
            // The clocks stand still.
            state.bytes.read = Some(now);
            state.operations.read = Some(now);
        }
        let bytes = state.bytes.take(load.bytes, now);
        let operations = state.operations.take(load.operations, now);
        while !cancel.is_cancelled() {
            if state.values.is_paused {
                state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = Instant::now();
            state.bytes.advance(now);
            state.operations.advance(now);
            let left = state.bytes.left(bytes).max(state.operations.left(operations));
            if left.is_zero() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns when a load of this many bytes may go on, in milliseconds since `begin`.
    fn over_at(clock: &mut Clock, bytes: u64, at: Instant, begin: Instant) -> u128 {
        let wanted = clock.take(bytes, at);
        (at + clock.left(wanted)).duration_since(begin).as_millis()
    }

    #[test]
    fn bytes_take_the_time_that_the_limit_allows() {
        let begin = Instant::now();
        let mut clock = Clock { per_second: Some(1000.0), ..Clock::default() };
        let mut over = |bytes, at| over_at(&mut clock, bytes, begin + Duration::from_millis(at), begin);
        assert_eq!(over(500, 0), 500);
        // By another worker at the same time.
        assert_eq!(over(500, 0), 1000);
        assert_eq!(over(100, 1000), 1100);
        // A little late, which it makes up for, and too late.
        assert_eq!(over(100, 1150), 1200);
        assert_eq!(over(100, 9000), 9000);
        assert_eq!(over(100, 9000), 9100);
    }

    #[test]
    fn a_new_limit_holds_for_what_waits() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut clock = Clock { per_second: Some(1000.0), ..Clock::default() };
        let wanted = clock.take(1000, begin);
        clock.set(Some(100.0), at(500));
        // Half of it is paid for.
        assert_eq!(clock.left(wanted), Duration::from_secs(5));
        clock.set(None, at(600));
        assert_eq!(clock.left(wanted), Duration::ZERO);
        // What was moved without a limit isn't paid for later.
        clock.take(1 << 40, at(700));
        clock.set(Some(1000.0), at(800));
        assert_eq!(over_at(&mut clock, 100, at(800), begin), 900);
    }

    #[test]
    fn a_pause_takes_no_time() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut state = State::default();
        let values = LimitValues { bytes_per_second: Some(1000), ..LimitValues::default() };
        state.set(values, begin);
        let wanted = state.bytes.take(1000, begin);
        state.set(LimitValues { is_paused: true, ..values }, at(400));
        state.set(values, at(9000));
        assert_eq!(state.bytes.left(wanted), Duration::from_millis(600));
    }

    #[test]
    fn processes_share_the_limits() {
        let limits = Limits::from(LimitValues { bytes_per_second: Some(3000), ..LimitValues::default() });
        limits.share_among(Sharers { bytes: 3, operations: 4 });
        limits.change(|values| values.operations_per_second = Some(100));
        let state = limits.state();
        assert_eq!((state.bytes.per_second, state.operations.per_second), (Some(1000.0), Some(25.0)));
        assert_eq!((state.values.bytes_per_second, limits.changes()), (Some(3000), 2));
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
