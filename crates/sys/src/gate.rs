//! The gate: every system call and every completion passes through here.
//!
//! Three things happen here and nowhere else: a call interrupted by a signal is retried; a failure
//! becomes an [`Error`] with the call's arguments; and, only with the feature `fault`, a failure or
//! a short transfer is injected in place of the call.
//!
//! Invariant: without the feature, the gate costs only the `EINTR` retry loop.

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::operation::Operation;

/// The fault hook's decision for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultDecision {
    /// Make the call.
    Pass,
    /// Don't make the call; fail with this errno.
    #[cfg_attr(not(feature = "fault"), allow(dead_code))]
    Fail(Errno),
    /// Make the call with at most this many bytes.
    #[cfg_attr(not(feature = "fault"), allow(dead_code))]
    Shorten(usize),
}

/// Asks the fault hook about one occurrence of `operation` that would move `length` bytes.
#[inline]
pub(crate) fn verdict(operation: Operation, length: usize) -> FaultDecision {
    #[cfg(feature = "fault")]
    {
        crate::fault::verdict(operation, length)
    }
    #[cfg(not(feature = "fault"))]
    {
        let _ = (operation, length);
        FaultDecision::Pass
    }
}

/// Makes a call that moves no bytes; retries on `EINTR`.
#[inline]
pub(crate) fn call<T>(
    operation: Operation,
    mut perform: impl FnMut() -> rustix::io::Result<T>,
    describe: impl FnOnce() -> String,
) -> Result<T> {
    loop {
        let outcome = match verdict(operation, 0) {
            FaultDecision::Fail(errno) => Err(errno),
            FaultDecision::Pass | FaultDecision::Shorten(_) => perform(),
        };
        match outcome {
            Ok(value) => return Ok(value),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new(operation, describe(), errno)),
        }
    }
}

/// Makes a call that moves up to `length` bytes; retries on `EINTR`. Returns how many it moved.
#[inline]
pub(crate) fn transfer(
    operation: Operation,
    length: usize,
    mut perform: impl FnMut(usize) -> rustix::io::Result<usize>,
    describe: impl FnOnce() -> String,
) -> Result<usize> {
    loop {
        let outcome = match verdict(operation, length) {
            FaultDecision::Pass => perform(length),
            FaultDecision::Shorten(0) => Ok(0),
            FaultDecision::Shorten(shorter) => perform(shorter),
            FaultDecision::Fail(errno) => Err(errno),
        };
        match outcome {
            Ok(moved) => return Ok(moved),
            // Nothing was moved, or it would be a short count (read(2), write(2)).
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new(operation, describe(), errno)),
        }
    }
}

/// Makes a call that must run exactly once (`close`); the fault hook can only change its result.
#[inline]
pub(crate) fn call_once<T>(
    operation: Operation,
    perform: impl FnOnce() -> rustix::io::Result<T>,
    describe: impl FnOnce() -> String,
) -> Result<T> {
    let verdict = verdict(operation, 0);
    let outcome = perform();
    match (verdict, outcome) {
        (FaultDecision::Fail(errno), _) | (_, Err(errno)) => Err(Error::new(operation, describe(), errno)),
        (_, Ok(value)) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns the results one after the other, and counts the calls.
    fn one_by_one<T>(
        results: impl IntoIterator<Item = rustix::io::Result<T>>,
        calls: &Cell<usize>,
    ) -> impl FnMut() -> rustix::io::Result<T> {
        let mut results = results.into_iter();
        move || {
            calls.set(calls.get() + 1);
            results.next().unwrap()
        }
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_a_failed_one_is_described() {
        let calls = Cell::new(0);
        let interrupted = [Err(Errno::INTR), Err(Errno::INTR), Ok(7)];
        assert_eq!(call(Operation::Fsync, one_by_one(interrupted, &calls), String::new), Ok(7));
        assert_eq!(calls.get(), 3);
        let failing: [rustix::io::Result<()>; 2] = [Err(Errno::INTR), Err(Errno::IO)];
        let error = call(Operation::Fsync, one_by_one(failing, &calls), || "5".to_owned()).unwrap_err();
        assert_eq!(format!("{error:?}"), "fsync(5) = -1 (Input/output error)");
    }

    #[test]
    fn a_transfer_is_asked_for_its_whole_length_each_time() {
        let calls = Cell::new(0);
        let mut perform = one_by_one([Err(Errno::INTR), Ok(3)], &calls);
        let lengths = Cell::new([0; 2]);
        let moved = transfer(
            Operation::Read,
            10,
            |length| {
                let mut seen = lengths.get();
                seen[calls.get()] = length;
                lengths.set(seen);
                perform()
            },
            String::new,
        );
        assert_eq!((moved, lengths.get()), (Ok(3), [10, 10]));
    }

    #[test]
    fn what_must_run_once_runs_once() {
        let calls = Cell::new(0);
        let mut perform = one_by_one([Err::<(), _>(Errno::INTR)], &calls);
        let error = call_once(Operation::Close, &mut perform, || "9".to_owned()).unwrap_err();
        assert_eq!((error.errno(), calls.get()), (Errno::INTR, 1));
    }
}
