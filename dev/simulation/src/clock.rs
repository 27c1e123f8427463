//! Simulated time and the event queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Nanoseconds since the start of the job.
pub(crate) type Time = u64;

pub(crate) fn nanoseconds(duration: Duration) -> Time {
    u64::try_from(duration.as_nanos()).unwrap_or(Time::MAX)
}

/// A simulated event. Numbers are indices into the tables of `World`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// The launch process continues its walk.
    Walk,
    /// Events arrive at rank 0.
    Report { place: u32 },
    /// An order arrives at its rank.
    Order { place: u32 },
    /// A rank has completed a bundle of small files.
    Bundle { rank: u32 },
    /// A file is open and its target created.
    OpenDir { job: u32 },
    /// A target has read a block.
    Read { job: u32, piece: u32 },
    /// A client has sent a block.
    Sent { job: u32, piece: u32 },
    /// A target has written a block.
    Written { job: u32, piece: u32 },
    /// A file is closed and renamed.
    Closed { job: u32 },
}

/// Queue of future events, by time; FIFO at equal times.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    now: Time,
    scheduled: u64,
    heap: BinaryHeap<Reverse<(Time, u64, Happening)>>,
}

impl EventQueue {
    /// Returns the simulated time.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Schedules an event for `time`, or for now if that has passed.
    pub(crate) fn at(&mut self, time: Time, happening: Happening) {
        self.scheduled += 1;
        self.heap.push(Reverse((time.max(self.now), self.scheduled, happening)));
    }

    /// Drops all future events.
    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }

    /// Advances to the next event.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let Reverse((time, _, happening)) = self.heap.pop()?;
        self.now = time;
        Some(happening)
    }
}
