//! The ranks that copy: their work in progress and their jobs.

use std::collections::VecDeque;

use super::clock::Time;
use super::storage::{Served, StripePlacement};
use haul_cluster::schedule::{FileId, ItemId, QueuedItem};
use haul_cluster::transport::Rank;

/// A modelled rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedRank {
    /// Requests not yet written.
    pub(crate) in_flight: u32,
    /// Jobs with blocks left to request.
    pub(crate) ready: VecDeque<u32>,
    /// Files not yet opened: work item and file number.
    pub(crate) waiting: VecDeque<(ItemId, u64)>,
    /// Bytes written, and the time of the first request.
    pub(crate) written: u64,
    pub(crate) began: Option<Time>,
    /// Number of open files.
    pub(crate) open_files: u32,
    /// Ranges in hand, the time that each has had of this rank, and when that was brought up to
    /// date.
    ranges: u32,
    share: (Time, Time),
    /// Its link, inbound and outbound.
    pub(crate) link_in: Served,
    pub(crate) link_out: Served,
    /// Waiting bundles of small files, and the one in progress.
    pub(crate) bundles: VecDeque<Vec<QueuedItem>>,
    pub(crate) bundle: Option<Vec<QueuedItem>>,
    /// Its processors and requests, with small files.
    pub(crate) working: Served,
    /// Slowdown factor: 1, or more for a straggler.
    pub(crate) slowness: f64,
}

impl SimulatedRank {
    /// Creates a rank with a slowdown factor.
    pub(crate) fn new(slowness: f64) -> Self {
        Self { slowness, ..Self::default() }
    }

    /// Returns how long this rank takes for work that takes others `time`.
    pub(crate) fn takes(&self, time: Time) -> Time {
        if self.slowness == 1.0 { time } else { (time as f64 * self.slowness).ceil() as Time }
    }

    /// Accepts a range. Returns the processing time that each range in flight here has had so far.
    pub(crate) fn take_range(&mut self, now: Time) -> Time {
        self.pass_time(now);
        self.ranges += 1;
        self.share.0
    }

    /// Removes a range from its hand. Returns the same time.
    pub(crate) fn drop_range(&mut self, now: Time) -> Time {
        self.pass_time(now);
        self.ranges -= 1;
        self.share.0
    }

    /// Divides the time since the last call among the ranges in hand.
    fn pass_time(&mut self, now: Time) {
        let (share, since) = self.share;
        self.share = (share + (now - since) / Time::from(self.ranges.max(1)), now);
    }

    /// Drops all work in progress, because the process is gone. Utilisation so far is kept.
    pub(crate) fn end(&mut self, now: Time) {
        let (mut link_in, mut link_out, mut working) = (self.link_in, self.link_out, self.working);
        [&mut link_in, &mut link_out, &mut working].into_iter().for_each(|queue| queue.cancel(now));
        *self = Self { link_in, link_out, working, ..Self::new(self.slowness) };
    }

    /// Returns the bytes per second copied so far.
    pub(crate) fn rate(&self, now: Time) -> Option<f64> {
        let began = self.began.filter(|&began| began < now && self.written > 0)?;
        Some(self.written as f64 * 1e9 / (now - began) as f64)
    }
}

/// A transfer: a whole file or a range of one.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedTransfer {
    pub(crate) rank: Rank,
    pub(crate) work: TransferredData,
    pub(crate) source: StripePlacement,
    pub(crate) target: StripePlacement,
    /// Blocks left to request, and the number left to write.
    pub(crate) pieces: std::ops::Range<u32>,
    pub(crate) left: u32,
    /// End of the last block.
    pub(crate) end: u64,
    /// Result of [`SimulatedRank::take_range`].
    pub(crate) began: Time,
}

/// Data that a job transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransferredData {
    /// A file that its rank copies alone.
    File { item: ItemId },
    /// A file too large for one rank, which is only opened here. `done` are ranges moved by
    /// earlier attempts.
    Announced { item: ItemId, file: FileId, done: Vec<std::ops::Range<u64>> },
    /// A range of a large file.
    Range { file: FileId, range: std::ops::Range<u64> },
    /// A large file whose ranges are complete.
    Finished { file: FileId },
}

impl SimulatedTransfer {
    /// Returns the size of a block, in bytes.
    pub(crate) fn piece_bytes(&self, piece: u32, request_bytes: u64) -> u64 {
        let start = u64::from(piece) * request_bytes;
        (start + request_bytes).min(self.end) - start.min(self.end)
    }
}

/// A table that reuses free indices.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }

    /// Inserts a value and returns its index.
    pub(crate) fn put(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.things[place as usize] = Some(thing);
                place
            }
            None => {
                self.things.push(Some(thing));
                self.things.len() as u32 - 1
            }
        }
    }

    pub(crate) fn get(&mut self, place: u32) -> Option<&mut T> {
        self.things.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn take(&mut self, place: u32) -> Option<T> {
        let thing = self.things.get_mut(place as usize)?.take();
        if thing.is_some() {
            self.free.push(place);
        }
        thing
    }
}
