//! What goes wrong: ranks that are lost, ranks that are slow, targets that differ. And how the job goes on after a loss.
//!
//! A lost rank ends the job, as an MPI job ends with any of its processes. The launch process starts it again without that rank, and
//! sends what was not reported as done: whole parts, and of large files the ranges that were not moved. So the cost of a loss
//! is the restart, what was under way, and one rank less.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::{Happening, nanoseconds};
use super::world::{World, mix};
use super::{Class, Workload};
use crate::schedule::{Event, FileId, ItemId, Scheduler};
use crate::transport::Rank;

/// What goes wrong. The default is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// Ranks that are lost, after equal shares of the bytes. One rank is always left.
    pub lost_ranks: u32,
    /// From a loss until the ranks of the next attempt work.
    pub restart_time: Duration,
    /// item of the ranks that are stragglers, 0 to 1.
    pub stragglers: f64,
    /// Speed of a straggler's link and processors beside that of others, above 0.
    pub straggler_speed: f64,
    /// How much targets differ: their rates lie evenly from `1 - spread` to `1 + spread` of the machine's. Below 1. What all
    /// targets together can do stays the same.
    pub target_spread: f64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            lost_ranks: 0,
            restart_time: Duration::ZERO,
            stragglers: 0.0,
            straggler_speed: 1.0,
            target_spread: 0.0,
        }
    }
}

/// Keeps the choices of one seed apart.
const STRAGGLERS: u64 = 1 << 60;
const TARGETS: u64 = 2 << 60;
const LOSSES: u64 = 3 << 60;

impl Faults {
    /// Returns how many times longer everything takes each of so many ranks.
    pub(super) fn slowness(&self, ranks: u32, seed: u64) -> Vec<f64> {
        let slow = (self.stragglers.clamp(0.0, 1.0) * f64::from(ranks)).round() as usize;
        let mut slowness = vec![1.0; ranks as usize];
        for rank in shuffled(ranks, seed ^ STRAGGLERS).into_iter().take(slow) {
            slowness[rank as usize] = 1.0 / self.straggler_speed;
        }
        slowness
    }

    /// Returns the rate of each target beside the average.
    pub(super) fn target_speeds(&self, targets: u32, seed: u64) -> impl Iterator<Item = f64> {
        let (spread, last) = (self.target_spread, f64::from(targets.max(2) - 1));
        let order = shuffled(targets.max(1), seed ^ TARGETS).into_iter();
        order.map(
            move |place| {
                if targets < 2 { 1.0 } else { 1.0 - spread + 2.0 * spread * f64::from(place) / last }
            },
        )
    }
}

/// Returns the numbers below `count` in an order that the seed decides.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    numbers.sort_unstable_by_key(|&number| mix(seed ^ mix(u64::from(number))));
    numbers
}

/// What is known to be done, and what the launch process keeps to go on after a loss.
#[derive(Debug)]
pub(super) struct Records {
    /// Files and bytes that are done.
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Large files that are begun and not over: the ranges that were moved.
    large: HashMap<u64, Vec<Range<u64>>>,
    /// Large files of parts that are not done: they are no longer the part's.
    apart: HashMap<ItemId, Vec<u64>>,
    /// The part in which a file was met whose announcement is on its way.
    pub(super) announced: HashMap<FileId, ItemId>,
    /// Ranks that are not lost.
    pub(super) alive: Vec<Rank>,
    pub(super) attempts: u32,
}

impl Records {
    pub(super) fn new(ranks: u32) -> Self {
        Self {
            files: 0,
            bytes: 0,
            large: HashMap::new(),
            apart: HashMap::new(),
            announced: HashMap::new(),
            alive: (0..ranks).map(Rank).collect(),
            attempts: 1,
        }
    }

    /// True if a file is no longer its part's.
    pub(super) fn is_apart(&self, part: ItemId, file: u64) -> bool {
        self.apart.get(&part).is_some_and(|files| files.contains(&file))
    }

    /// Returns the ranges of a large file that were moved.
    pub(super) fn moved(&self, file: u64) -> Vec<Range<u64>> {
        self.large.get(&file).cloned().unwrap_or_default()
    }
}

impl World<'_> {
    /// Records what rank 0 passes on to the launch process.
    pub(super) fn record(&mut self, event: &Event) {
        match event {
            Event::PartDone { part, .. } => {
                self.record_part(*part);
                self.launch.done(*part);
            }
            Event::Open(file) => {
                if let Some(part) = self.records.announced.remove(&file.id)
                    && !self.records.large.contains_key(&file.id.0)
                {
                    self.records.large.insert(file.id.0, Vec::new());
                    self.records.apart.entry(part).or_default().push(file.id.0);
                }
            }
            Event::RangeDone { file, range, moved: true, .. } => {
                if let Some(ranges) = self.records.large.get_mut(&file.0) {
                    ranges.push(range.clone());
                }
            }
            Event::FileOver { file } => {
                self.records.large.remove(&file.0);
                self.records.files += 1;
                self.records.bytes += self.class(file.0).bytes;
            }
            _ => {}
        }
    }

    fn record_part(&mut self, part: ItemId) {
        let apart = self.records.apart.remove(&part).unwrap_or_default();
        let Some((first, entries)) = self.launch.files_in(part) else { return };
        self.records.files += entries - apart.len() as u64;
        self.records.bytes += match &self.scene.workload {
            Workload::Small { bytes, .. } => entries * bytes,
            Workload::Files(_) => {
                let mut own = (first..first + entries).filter(|file| !apart.contains(file));
                own.by_ref().map(|file| self.class(file).bytes).sum()
            }
        };
    }

    /// Loses a rank, if enough is written for the next to be lost.
    pub(super) fn lose_rank_if_due(&mut self) {
        let (losses, faults) = (u64::from(self.records.attempts - 1), self.scene.faults);
        if losses >= u64::from(faults.lost_ranks) || self.records.alive.len() < 2 {
            return;
        }
        let share = self.scene.workload.bytes() as f64 / f64::from(faults.lost_ranks + 1);
        if self.storage.written() as f64 >= share * (losses + 1) as f64 {
            self.lose_rank();
        }
    }

    /// Loses a rank, and starts the job again without it.
    fn lose_rank(&mut self) {
        let now = self.clock.now();
        let alive = &mut self.records.alive;
        let chosen = mix(self.scene.seed ^ LOSSES ^ u64::from(self.records.attempts)) % alive.len() as u64;
        alive.remove(chosen as usize);
        self.records.attempts += 1;
        self.records.announced.clear();
        // What was on its way is lost with the processes; what the launch process was told of is not.
        self.clock.clear();
        self.storage.cancel(now);
        self.rank_0.cancel(now);
        self.clients.iter_mut().for_each(|client| client.end(now));
        (self.jobs, self.orders, self.reports) = <_>::default();
        self.unsettled.clear();
        let mut begun: Vec<u64> = self.records.large.keys().copied().collect();
        begun.sort_unstable();
        self.launch.begin_attempt(begun);
        self.scheduler = Scheduler::new(self.records.alive.clone(), self.scene.limits);
        self.walking = true;
        self.clock.at(now + nanoseconds(self.scene.faults.restart_time), Happening::Walk);
    }

    /// Returns what a file is like.
    pub(super) fn class(&self, file: u64) -> Class {
        let Workload::Files(classes) = &self.scene.workload else { return Class::NONE };
        let mut first = 0;
        for class in classes {
            first += class.files;
            if file < first {
                return *class;
            }
        }
        Class::NONE
    }
}
