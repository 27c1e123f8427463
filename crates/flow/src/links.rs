//! Which names are one file: hard links kept across directories and workers.
//!
//! The first worker to meet a file with several names claims it and does it; names met meanwhile wait here, without
//! anybody blocking; names met afterwards get the answer at once. When the first fails, the waiting names are given
//! back to be tried anew, so one bad moment does not lose the others.
//!
//! ```text
//!           claim: First                 complete(answer)
//! (unknown) ───────────────► in progress ────────────────► known
//!      ▲                      │  claim: Waits (name kept)      claim: Known(answer)
//!      └──────────────────────┘
//!        abandon: waiting names returned
//! ```
//!
//! Invariant: every name that waited is returned exactly once, by `complete` or `abandon`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use haul_sys::Identity;

/// Locks taken by different files should differ.
const SHARDS: usize = 16;

enum Progress<W, A> {
    InProgress(Vec<W>),
    Known(A),
}

/// What a claim comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim<W, A> {
    /// The caller is the first and must `complete` or `abandon`; it gets its name back.
    First(W),
    /// Somebody is at it; the name waits here.
    Waits,
    /// It is done already; the caller gets its name back, with the answer.
    Known(W, A),
}

/// The files met so far that have several names. `W` is a name that waits, `A` what those who wait need to know.
pub struct LinkTable<W, A> {
    shards: [Mutex<HashMap<Identity, Progress<W, A>>>; SHARDS],
}

impl<W, A: Clone> Default for LinkTable<W, A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W, A: Clone> LinkTable<W, A> {
    /// Makes an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(HashMap::new())) }
    }

    fn with_shard<R>(
        &self,
        file: Identity,
        change: impl FnOnce(&mut HashMap<Identity, Progress<W, A>>) -> R,
    ) -> R {
        let shard = &self.shards[file.inode as usize % SHARDS];
        change(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says who does `file`; `waiter` is the caller's name for it.
    pub fn claim(&self, file: Identity, waiter: W) -> Claim<W, A> {
        self.with_shard(file, |files| match files.get_mut(&file) {
            None => {
                files.insert(file, Progress::InProgress(Vec::new()));
                Claim::First(waiter)
            }
            Some(Progress::InProgress(waiting)) => {
                waiting.push(waiter);
                Claim::Waits
            }
            Some(Progress::Known(answer)) => Claim::Known(waiter, answer.clone()),
        })
    }

    /// Records that `file` is done and returns the names that waited.
    pub fn complete(&self, file: Identity, answer: A) -> Vec<W> {
        self.with_shard(file, |files| match files.insert(file, Progress::Known(answer)) {
            Some(Progress::InProgress(waiting)) => waiting,
            _ => Vec::new(),
        })
    }

    /// Forgets `file`, which could not be done, and returns the names that waited.
    pub fn abandon(&self, file: Identity) -> Vec<W> {
        self.with_shard(file, |files| match files.remove(&file) {
            Some(Progress::InProgress(waiting)) => waiting,
            _ => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Identity = Identity { device: 1, inode: 2 };

    #[test]
    fn names_wait_and_are_returned_once() {
        let table = LinkTable::new();
        assert_eq!(table.claim(FILE, "a"), Claim::First("a"));
        assert_eq!(table.claim(FILE, "b"), Claim::Waits);
        assert_eq!(table.complete(FILE, 7), ["b"]);
        assert_eq!(table.claim(FILE, "c"), Claim::Known("c", 7));
        assert!(table.complete(FILE, 7).is_empty());
    }

    #[test]
    fn a_failed_first_gives_the_others_another_try() {
        let table = LinkTable::<_, u8>::new();
        assert_eq!(table.claim(FILE, "a"), Claim::First("a"));
        assert_eq!(table.claim(FILE, "b"), Claim::Waits);
        assert_eq!(table.abandon(FILE), ["b"]);
        assert_eq!(table.claim(FILE, "b"), Claim::First("b"));
    }
}
