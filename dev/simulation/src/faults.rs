//! Faults (lost ranks, slow ranks, targets of different speed), and what survives a loss.
//!
//! A lost rank ends the job, as an MPI job ends with any of its processes. The launch process
//! restarts it without that rank and sends what was not reported as done: whole work items, and the
//! missing ranges of large files. So a loss costs the restart, the work in flight, and one rank.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use haul_cluster::schedule::{FileId, ItemId};
use haul_cluster::transport::Rank;

/// Faults to inject. The default is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// Number of ranks lost, each after an equal share of the bytes. One rank is always left.
    pub lost_ranks: u32,
    /// Time from a loss until the ranks of the next attempt work.
    pub restart_time: Duration,
    /// Fraction of the ranks that are stragglers, from 0 to 1.
    pub stragglers: f64,
    /// Speed of a straggler's link and processors relative to others, above 0.
    pub straggler_speed: f64,
    /// Spread of the targets' rates: evenly from `1 - spread` to `1 + spread` times the machine's.
    /// Below 1. The total rate of all targets stays the same.
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

/// Salts, so that choices from one seed are independent.
const STRAGGLERS: u64 = 1 << 60;
const TARGETS: u64 = 2 << 60;
pub(super) const LOSSES: u64 = 3 << 60;

impl Faults {
    /// Returns the slowdown factor of each of `ranks` ranks.
    pub(super) fn slowness(&self, ranks: u32, seed: u64) -> Vec<f64> {
        let slow = (self.stragglers.clamp(0.0, 1.0) * f64::from(ranks)).round() as usize;
        let mut slowness = vec![1.0; ranks as usize];
        for rank in shuffled(ranks, seed ^ STRAGGLERS).into_iter().take(slow) {
            slowness[rank as usize] = 1.0 / self.straggler_speed;
        }
        slowness
    }

    /// Returns the rate of each target relative to the average.
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

/// Returns the numbers below `count` in an order decided by the seed.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    numbers.sort_unstable_by_key(|&number| mix(seed ^ mix(u64::from(number))));
    numbers
}

/// Completed work: the state that the launch process keeps across a loss.
#[derive(Debug)]
pub(super) struct Records {
    /// Files and bytes completed.
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Large files in progress: the ranges moved.
    pub(super) large: HashMap<u64, Vec<Range<u64>>>,
    /// Detached large files of work items in progress.
    pub(super) apart: HashMap<ItemId, Vec<u64>>,
    /// Work items of files whose announcement is in transit.
    pub(super) announced: HashMap<FileId, ItemId>,
    /// Ranks not lost.
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

    /// True if a file is detached from its work item.
    pub(super) fn is_apart(&self, item: ItemId, file: u64) -> bool {
        self.apart.get(&item).is_some_and(|files| files.contains(&file))
    }

    /// Returns the ranges of a large file that were moved.
    pub(super) fn moved(&self, file: u64) -> Vec<Range<u64>> {
        self.large.get(&file).cloned().unwrap_or_default()
    }
}

/// Scrambles a number with SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
