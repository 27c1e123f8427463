//! Waiting for free space on a full file system.
//!
//! Only a retry shows whether there is space: `statfs` doesn't account for quotas or for the
//! metadata of a copy-on-write file system. So the failed call is retried, at growing intervals.
//!
//! A worker may have many files whose calls have failed, and must not sleep for each of them. So
//! sleeps are numbered as rounds: a call that failed before the latest sleep is retried at once,
//! and only one that failed after it sleeps.
//!
//! Termination: a wait ends when there is space, when the call fails for another reason, or when
//! the run is cancelled.

use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use haul_sys::{Errno, Error};

use crate::lock::lock;
use crate::policy::CancelToken;
use crate::report::Reporter;

/// First interval between two tries. Each is twice as long as the one before.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Maximum interval between two tries.
const INTERVAL_MAX: Duration = Duration::from_secs(2);

/// Interval between checks for cancellation in a sleep.
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Maximum gap between two waits that count as one: the later one continues with the interval of
/// the earlier. Where room appears bit by bit, this bounds the number of messages.
const SAME_WAIT: Duration = Duration::from_secs(10);

/// Blocks the workers of a run while a target's file system is full. Clones share one state.
#[derive(Clone, Debug)]
pub struct Room {
    state: Arc<Mutex<RoomState>>,
    cancel: CancelToken,
}

#[derive(Debug, Default)]
struct RoomState {
    /// Calls that wait.
    waiting: usize,
    /// Sleeps so far. Those of several workers at the same time count as one.
    round: u32,
    /// When the last waiting call succeeded or gave up.
    ended: Option<Instant>,
}

/// A call that may have to wait: the round in which it was made last, if it waits.
#[derive(Debug, Default)]
pub(crate) struct RoomWait(Option<u32>);

impl Room {
    /// Creates the state for a run that `cancel` ends.
    #[must_use]
    pub fn new(cancel: CancelToken) -> Self {
        Self { state: Arc::default(), cancel }
    }

    /// Makes `call` until it doesn't fail because the file system is full. `target` is the path for
    /// [`Reporter::waits_for_room`].
    ///
    /// # Errors
    /// Any other error of the call, or the last one if the run was cancelled.
    pub fn retry<R>(
        &self,
        report: &dyn Reporter,
        target: &dyn Fn() -> Vec<u8>,
        call: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.retry_reporting(report, &|_| report.waits_for_room(Some(&target())), call)
    }

    /// Same as [`Room::retry`], but calls `report_wait` to report that the wait begins.
    pub(crate) fn retry_reporting<R>(
        &self,
        report: &dyn Reporter,
        report_wait: &dyn Fn(&Error),
        mut call: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut wait = RoomWait::default();
        loop {
            match call() {
                Err(cause) if is_full(&cause) && self.wait(&mut wait, &|| report_wait(&cause)) => {}
                outcome => {
                    self.end(&mut wait, report);
                    return outcome;
                }
            }
        }
    }

    /// Waits until a call that found the file system full should be retried. Returns false if the
    /// run was cancelled. `report_wait` is called if no other call is waiting.
    pub(crate) fn wait(&self, wait: &mut RoomWait, report_wait: &dyn Fn()) -> bool {
        let round = {
            let mut state = lock(&self.state);
            match wait.0 {
                None if state.waiting == 0 => {
                    if state.ended.is_none_or(|ended| ended.elapsed() > SAME_WAIT) {
                        state.round = 0;
                    }
                    state.waiting = 1;
                    wait.0 = Some(state.round);
                    report_wait();
                }
                None => {
                    // It may have failed before the latest sleep.
                    state.waiting += 1;
                    wait.0 = Some(state.round);
                    return !self.cancel.is_cancelled();
                }
                Some(last) if last < state.round => {
                    wait.0 = Some(state.round);
                    return !self.cancel.is_cancelled();
                }
                Some(_) => {}
            }
            state.round
        };
        let until = Instant::now() + interval(round);
        while !self.cancel.is_cancelled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let mut state = lock(&self.state);
                state.round = state.round.max(round + 1);
                wait.0 = Some(state.round);
                return true;
            }
            sleep(left.min(CANCEL_CHECK));
        }
        false
    }

    /// Ends the wait of a call, if it has waited. The end of the last wait is reported.
    pub(crate) fn end(&self, wait: &mut RoomWait, report: &dyn Reporter) {
        if wait.0.take().is_none() {
            return;
        }
        let mut state = lock(&self.state);
        state.waiting -= 1;
        if state.waiting == 0 {
            state.ended = Some(Instant::now());
            // With the lock held, so that the next wait is reported after this.
            report.waits_for_room(None);
        }
    }
}

fn interval(round: u32) -> Duration {
    INTERVAL_MIN.saturating_mul(1 << round.min(10)).min(INTERVAL_MAX)
}

/// Returns true if a call failed because a file system is full, or a quota is used up.
pub(crate) fn is_full(cause: &Error) -> bool {
    matches!(cause.errno(), Errno::NOSPC | Errno::DQUOT)
}

#[cfg(test)]
mod tests {
    use haul_sys::Operation;

    use super::*;
    use crate::report::{OutputLine, Problem, Tally};

    /// Records the reported waits.
    #[derive(Default)]
    struct RecordedWaits(Mutex<Vec<Option<Vec<u8>>>>);

    impl Reporter for RecordedWaits {
        fn count(&self, _: Tally) {}
        fn problem(&self, _: Problem) {}
        fn line(&self, _: OutputLine) {}
        fn output(&self, _: haul_sys::Standard, _: &[u8]) {}
        fn debug(&self, _: &str) {}
        fn waits_for_room(&self, target: Option<&[u8]>) {
            lock(&self.0).push(target.map(<[u8]>::to_vec));
        }
    }

    fn failed(errno: Errno) -> Error {
        Error::new(Operation::Write, String::new(), errno)
    }

    #[test]
    fn a_call_is_made_again_until_there_is_room() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            let (room, report, mut calls) = (Room::new(CancelToken::default()), RecordedWaits::default(), 0);
            let outcome = room.retry(&report, &|| b"target".to_vec(), || {
                calls += 1;
                if calls < 3 { Err(failed(errno)) } else { Ok(calls) }
            });
            assert_eq!(outcome.ok(), Some(3));
            assert_eq!(*lock(&report.0), [Some(b"target".to_vec()), None]);
        }
    }

    #[test]
    fn other_errors_end_a_wait_and_begin_none() {
        let (room, report, mut calls) = (Room::new(CancelToken::default()), RecordedWaits::default(), 0);
        let mut retry = |errnos: [Errno; 2]| {
            calls = 0;
            let outcome = room.retry(&report, &Vec::new, || {
                calls += 1;
                Err::<(), _>(failed(errnos[calls - 1]))
            });
            (outcome.map_err(|cause| cause.errno()), calls)
        };
        assert_eq!(retry([Errno::IO, Errno::IO]), (Err(Errno::IO), 1));
        assert_eq!(retry([Errno::NOSPC, Errno::IO]), (Err(Errno::IO), 2));
        assert_eq!(*lock(&report.0), [Some(Vec::new()), None]);
    }

    #[test]
    fn several_calls_wait_together_and_are_reported_once() {
        let (room, report) = (Room::new(CancelToken::default()), RecordedWaits::default());
        let report_wait = || report.waits_for_room(Some(b"target"));
        let mut waits: [RoomWait; 20] = Default::default();
        // The first sleeps, and all are made again.
        waits.iter_mut().for_each(|wait| assert!(room.wait(wait, &report_wait)));
        waits.iter_mut().for_each(|wait| assert!(room.wait(wait, &report_wait)));
        assert_eq!(lock(&room.state).round, 2, "one sleep for all, each time");
        assert_eq!(lock(&report.0).len(), 1);
        waits.iter_mut().for_each(|wait| room.end(wait, &report));
        assert_eq!(*lock(&report.0), [Some(b"target".to_vec()), None]);
        assert_eq!(lock(&room.state).waiting, 0);
        // The next one soon after continues with the interval.
        let began = Instant::now();
        assert!(room.wait(&mut waits[0], &report_wait));
        assert!(began.elapsed() >= 4 * INTERVAL_MIN);
    }

    #[test]
    fn cancelling_ends_a_wait_with_the_error() {
        let (cancel, report) = (CancelToken::default(), RecordedWaits::default());
        let room = Room::new(cancel.clone());
        let outcome = room.retry(&report, &Vec::new, || {
            cancel.cancel();
            Err::<(), _>(failed(Errno::NOSPC))
        });
        assert!(outcome.is_err_and(|cause| cause.is(Errno::NOSPC)));
        assert_eq!(lock(&report.0).len(), 2);
    }

    #[test]
    fn intervals_grow_up_to_a_limit() {
        assert_eq!(interval(0), INTERVAL_MIN);
        assert_eq!(interval(1), 2 * INTERVAL_MIN);
        assert!((5..100).all(|round| interval(round) == INTERVAL_MAX));
    }
}
