//! The modelled time, and what happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Nanoseconds since the start of the job.
pub(crate) type Time = u64;

/// Returns a duration in nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> Time {
    u64::try_from(duration.as_nanos()).unwrap_or(Time::MAX)
}

/// What can happen. Numbers are places in the tables of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// The launch process goes on.
    Walk,
    /// Events arrive at rank 0.
    Report { place: u32 },
    /// An order arrives at its rank.
    Order { place: u32 },
    /// A rank is through with a bundle of small files.
    Bundle { rank: u32 },
    /// A file is open and its target made.
    OpenDir { job: u32 },
    /// A target has read a piece.
    Read { job: u32, piece: u32 },
    /// A client has sent a piece.
    Sent { job: u32, piece: u32 },
    /// A target has written a piece.
    Written { job: u32, piece: u32 },
    /// A file is closed and has its name.
    Closed { job: u32 },
}

/// What is to happen, by time; of the same time what was said first.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now: Time,
    said: u64,
    heap: BinaryHeap<Reverse<(Time, u64, Happening)>>,
}

impl Clock {
    /// Returns the time.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Lets something happen at `time`, or now if that has passed.
    pub(crate) fn at(&mut self, time: Time, happening: Happening) {
        self.said += 1;
        self.heap.push(Reverse((time.max(self.now), self.said, happening)));
    }

    /// Drops everything that was to happen.
    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }

    /// Goes on to what happens next.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let Reverse((time, _, happening)) = self.heap.pop()?;
        self.now = time;
        Some(happening)
    }
}
