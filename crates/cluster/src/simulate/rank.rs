//! The ranks that copy: what each has under way, and what moves.

use std::collections::VecDeque;

use super::clock::Time;
use super::storage::{Layout, Served};
use crate::schedule::{FileId, Item, ItemId};
use crate::transport::Rank;

/// One rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// Requests that are not written.
    pub(crate) in_flight: u32,
    /// What has pieces that are not asked for.
    pub(crate) ready: VecDeque<u32>,
    /// Files that are not opened: their part and number.
    pub(crate) waiting: VecDeque<(ItemId, u64)>,
    /// Bytes it has written, and when it first asked for some.
    pub(crate) written: u64,
    pub(crate) began: Option<Time>,
    /// Files that are open.
    pub(crate) open_files: u32,
    /// Its link, to it and from it.
    pub(crate) link_in: Served,
    pub(crate) link_out: Served,
    /// Bundles of small files that wait, and the one that is being done.
    pub(crate) bundles: VecDeque<Vec<Item>>,
    pub(crate) bundle: Option<Vec<Item>>,
    /// Its processors and requests, with small files.
    pub(crate) working: Served,
    /// How many times longer everything takes it: 1, or more for a straggler.
    pub(crate) slowness: f64,
}

impl Client {
    /// Creates a rank that takes `slowness` times as long as others.
    pub(crate) fn new(slowness: f64) -> Self {
        Self { slowness, ..Self::default() }
    }

    /// Returns how long it takes for what takes others `time`.
    pub(crate) fn takes(&self, time: Time) -> Time {
        if self.slowness == 1.0 { time } else { (time as f64 * self.slowness).ceil() as Time }
    }

    /// Drops what it has under way, as its process is gone. How busy it was stays.
    pub(crate) fn end(&mut self, now: Time) {
        let (mut link_in, mut link_out, mut working) = (self.link_in, self.link_out, self.working);
        [&mut link_in, &mut link_out, &mut working].into_iter().for_each(|queue| queue.cancel(now));
        *self = Self { link_in, link_out, working, ..Self::new(self.slowness) };
    }

    /// Returns the bytes a second that it has copied so far.
    pub(crate) fn rate(&self, now: Time) -> Option<f64> {
        let began = self.began.filter(|&began| began < now && self.written > 0)?;
        Some(self.written as f64 * 1e9 / (now - began) as f64)
    }
}

/// Something that is moved: a whole file, or a range of one.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) rank: Rank,
    pub(crate) work: Work,
    pub(crate) source: Layout,
    pub(crate) target: Layout,
    /// Pieces that are not asked for, and how many are not written.
    pub(crate) pieces: std::ops::Range<u32>,
    pub(crate) left: u32,
    /// Where the last piece ends.
    pub(crate) end: u64,
    pub(crate) began: Time,
}

/// Of what a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A file that its rank copies alone.
    File { part: ItemId },
    /// A file that is too large for one rank: only opened here. `done` are the ranges that earlier attempts have moved.
    Announced { part: ItemId, file: FileId, done: Vec<std::ops::Range<u64>> },
    /// A range of a large file.
    Range { file: FileId, range: std::ops::Range<u64> },
    /// A large file whose ranges are over.
    Finished { file: FileId },
}

impl Job {
    /// Returns the bytes of a piece.
    pub(crate) fn piece_bytes(&self, piece: u32, request_bytes: u64) -> u64 {
        let start = u64::from(piece) * request_bytes;
        (start + request_bytes).min(self.end) - start.min(self.end)
    }
}

/// Jobs by place; places are used again.
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

    /// Puts a thing somewhere.
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
