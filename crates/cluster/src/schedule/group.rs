//! The workers and their current assignments.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::{FileId, ItemId};
use crate::transport::Rank;

/// An assignment of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Assignment {
    Bundle(Bundle),
    /// A range of this file.
    Range(FileId),
}

/// A bundle in hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bundle {
    /// Work items not yet done.
    pub(crate) items: Vec<ItemId>,
    /// Total number of entries.
    pub(crate) entries: u32,
    /// When it was given.
    pub(crate) given: Duration,
}

#[derive(Debug)]
pub(crate) struct RankTable {
    ranks: Vec<Rank>,
    indices: HashMap<Rank, usize>,
    assignments: Vec<Vec<Assignment>>,
    last_files: Vec<Option<FileId>>,
    /// Large files that each worker has announced since its last bundle.
    announced: Vec<u32>,
    /// When each worker last completed something.
    last_completed: Vec<Duration>,
    /// When each worker last completed an item or a range, or was given something while idle.
    progressed: Vec<Duration>,
    credit: usize,
    /// Workers with nothing in hand.
    idle: BTreeSet<usize>,
    /// Workers with something in hand, but below the credit.
    spare: BTreeSet<usize>,
}

impl RankTable {
    pub(crate) fn new(ranks: Vec<Rank>, credit: usize) -> Self {
        Self {
            indices: ranks.iter().enumerate().map(|(index, &rank)| (rank, index)).collect(),
            assignments: vec![Vec::new(); ranks.len()],
            idle: (0..ranks.len()).collect(),
            last_files: vec![None; ranks.len()],
            announced: vec![0; ranks.len()],
            last_completed: vec![Duration::ZERO; ranks.len()],
            progressed: vec![Duration::ZERO; ranks.len()],
            credit: credit.max(1),
            spare: BTreeSet::new(),
            ranks,
        }
    }

    /// Returns the number of workers.
    pub(crate) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the number of workers with nothing in hand.
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Returns a worker with nothing in hand.
    pub(crate) fn first_idle(&self) -> Option<usize> {
        self.idle.first().copied()
    }

    /// Returns the next worker after `after` that has something in hand but is below the credit.
    pub(crate) fn next_with_credit(&self, after: Option<usize>) -> Option<usize> {
        self.spare.range(after.map_or(0, |worker| worker + 1)..).next().copied()
    }

    /// Returns the file of a worker's last range.
    pub(crate) fn last_file(&self, worker: usize) -> Option<FileId> {
        self.last_files[worker]
    }

    /// Returns the workers that hold assignments but have completed none for at least `time`, each
    /// with that duration.
    pub(crate) fn slow(&self, now: Duration, time: Duration) -> Vec<(Rank, Duration)> {
        let since = |worker: usize| now.saturating_sub(self.progressed[worker]);
        let is_slow = |&worker: &usize| !self.assignments[worker].is_empty() && since(worker) >= time;
        let slow = (0..self.ranks.len()).filter(is_slow);
        slow.map(|worker| (self.ranks[worker], since(worker))).collect()
    }

    pub(crate) fn rank(&self, worker: usize) -> Rank {
        self.ranks[worker]
    }

    /// True if a worker is in a file's team now.
    pub(crate) fn holds_range_of(&self, worker: usize, file: FileId) -> bool {
        self.assignments[worker].contains(&Assignment::Range(file))
    }

    /// Adds an assignment to a worker's hand.
    pub(crate) fn assign(&mut self, worker: usize, held: Assignment, now: Duration) {
        if self.assignments[worker].is_empty() {
            self.progressed[worker] = now;
        }
        if let Assignment::Range(file) = held {
            self.last_files[worker] = Some(file);
        }
        self.assignments[worker].push(held);
        self.update_idle_sets(worker);
    }

    /// Counts a large file announced by a worker: it has left the worker's bundle.
    pub(crate) fn announced(&mut self, rank: Rank) {
        if let Some(&worker) = self.indices.get(&rank) {
            self.announced[worker] += 1;
        }
    }

    /// Removes a work item from a worker's hand. If it completes its bundle, returns the seconds
    /// per entry that the worker processed itself. Ignores an item that the worker doesn't hold.
    pub(crate) fn item_done(&mut self, rank: Rank, item: ItemId, now: Duration) -> Option<f64> {
        let &worker = self.indices.get(&rank)?;
        let hand = &mut self.assignments[worker];
        let (index, at) = hand.iter().enumerate().find_map(|(index, held)| match held {
            Assignment::Bundle(bundle) => Some((index, bundle.items.iter().position(|&id| id == item)?)),
            Assignment::Range(_) => None,
        })?;
        let Assignment::Bundle(bundle) = &mut hand[index] else { return None };
        bundle.items.swap_remove(at);
        self.progressed[worker] = now;
        if !bundle.items.is_empty() {
            return None;
        }
        // Until then the bundle waited behind the worker's other assignment.
        let began = bundle.given.max(self.last_completed[worker]);
        // Announced files have left the bundle, so they don't count for this time.
        let own = bundle.entries.saturating_sub(std::mem::take(&mut self.announced[worker]));
        let took = now.saturating_sub(began).as_secs_f64();
        hand.swap_remove(index);
        self.last_completed[worker] = now;
        self.update_idle_sets(worker);
        (own > 0).then(|| took / f64::from(own))
    }

    /// Removes a range from a worker's hand. Ignores a range that the worker doesn't hold.
    pub(crate) fn range_done(&mut self, rank: Rank, file: FileId, now: Duration) -> Option<Membership> {
        let &worker = self.indices.get(&rank)?;
        let hand = &mut self.assignments[worker];
        let at = hand.iter().position(|held| *held == Assignment::Range(file))?;
        hand.swap_remove(at);
        self.last_completed[worker] = now;
        self.progressed[worker] = now;
        self.update_idle_sets(worker);
        Some(if self.holds_range_of(worker, file) { Membership::Continues } else { Membership::Ended })
    }

    fn update_idle_sets(&mut self, worker: usize) {
        let held = self.assignments[worker].len();
        let (idle, spare) = (held == 0, held > 0 && held < self.credit);
        if idle {
            self.idle.insert(worker)
        } else {
            self.idle.remove(&worker)
        };
        if spare {
            self.spare.insert(worker)
        } else {
            self.spare.remove(&worker)
        };
    }
}

/// A worker's membership in a file's team after it has completed a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// It has another range of the file.
    Continues,
    Ended,
}
