//! Hard links: which names are one file, across directories and workers.
//!
//! The first worker to meet a file with several names claims it and copies it. Names met before
//! that is done wait here, without blocking anybody; names met afterwards get the answer at once.
//! If the first fails, the waiting names are handed back to be retried, so one failure doesn't lose
//! the others.
//!
//! ```text
//!           claim: First                 complete(answer)
//! (unknown) ───────────────► in progress ────────────────► known
//!      ▲                      │  claim: Waits (name kept)      claim: Known(answer)
//!      └──────────────────────┘
//!        abandon: waiting names handed back
//! ```
//!
//! An inode number alone doesn't identify a file for the length of a run: after the file is
//! deleted, a new one may get its number. The birth time distinguishes the two ([`FileKey`]).
//!
//! Invariant: every waiting name is handed back exactly once, by `complete` or `abandon` (tests:
//! `names_wait_and_are_returned_once`, `a_failed_first_gives_the_others_another_try`).

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock::lock;
use haul_sys::{Identity, Stat, Timestamp};

/// Number of locks, so that different files rarely share one.
const SHARDS: usize = 16;

/// Identifies a file, even if its inode number is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Identity among the files that exist at one time.
    pub identity: Identity,
    since: Since,
}

/// Distinguishes files that have had the same inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Since {
    Born(Timestamp),
    /// Without birth times: the time of the last change, and the size. If the file changes during
    /// the run it counts as another one, which costs a link but never mixes up contents.
    Changed(Timestamp, u64),
}

impl From<&Stat> for FileKey {
    fn from(stat: &Stat) -> Self {
        let since = stat.born.map_or(Since::Changed(stat.changed, stat.size), Since::Born);
        Self { identity: stat.identity, since }
    }
}

enum LinkProgress<W, A> {
    InProgress(Vec<W>),
    Known(A),
}

/// The last file that was claimed under an identity.
struct Claimed<W, A> {
    since: Since,
    progress: LinkProgress<W, A>,
}

/// Result of a claim.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim<W, A> {
    /// The caller is first and must call `complete` or `abandon`. It gets its name back.
    First(W),
    /// Another worker does the file. The name waits here.
    Waits,
    /// The file is done. The caller gets its name back, with the answer.
    Known(W, A),
    /// Another file with the same inode number is in progress, although it must have been deleted
    /// since. The caller does this name independently.
    Alone(W),
}

/// The files with several names met so far. `W` is a waiting name, `A` the answer that waiting
/// names need to know.
pub struct LinkTable<W, A> {
    shards: [Mutex<HashMap<Identity, Claimed<W, A>>>; SHARDS],
}

impl<W, A: Clone> Default for LinkTable<W, A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W, A: Clone> LinkTable<W, A> {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(HashMap::new())) }
    }

    fn with_shard<R>(
        &self,
        file: Identity,
        change: impl FnOnce(&mut HashMap<Identity, Claimed<W, A>>) -> R,
    ) -> R {
        let shard = &self.shards[file.inode as usize % SHARDS];
        change(&mut lock(shard))
    }

    /// Claims `file` for the caller, whose name for it is `waiter`.
    pub fn claim(&self, file: FileKey, waiter: W) -> Claim<W, A> {
        let FileKey { identity, since } = file;
        self.with_shard(identity, |files| match files.get_mut(&identity) {
            Some(claimed) if claimed.since == since => match &mut claimed.progress {
                LinkProgress::InProgress(waiting) => {
                    waiting.push(waiter);
                    Claim::Waits
                }
                LinkProgress::Known(answer) => Claim::Known(waiter, answer.clone()),
            },
            Some(Claimed { progress: LinkProgress::InProgress(_), .. }) => Claim::Alone(waiter),
            // Unknown, or known as a file that is gone.
            _ => {
                files.insert(identity, Claimed { since, progress: LinkProgress::InProgress(Vec::new()) });
                Claim::First(waiter)
            }
        })
    }

    /// Records that the file claimed under an identity is done. Returns the waiting names.
    pub fn complete(&self, file: Identity, answer: A) -> Vec<W> {
        self.with_shard(file, |files| {
            let Some(claimed) = files.get_mut(&file) else { return Vec::new() };
            match std::mem::replace(&mut claimed.progress, LinkProgress::Known(answer)) {
                LinkProgress::InProgress(waiting) => waiting,
                LinkProgress::Known(_) => Vec::new(),
            }
        })
    }

    /// Forgets the file claimed under an identity, which could not be done. Returns the
    /// waiting names.
    pub fn abandon(&self, file: Identity) -> Vec<W> {
        self.with_shard(file, |files| match files.remove(&file) {
            Some(Claimed { progress: LinkProgress::InProgress(waiting), .. }) => waiting,
            _ => Vec::new(),
        })
    }

    /// Forgets a file whose answer no longer holds, so that the next name is the first again.
    pub fn forget(&self, file: Identity, is_stale: impl FnOnce(&A) -> bool) {
        self.with_shard(file, |files| {
            if let Some(Claimed { progress: LinkProgress::Known(answer), .. }) = files.get(&file)
                && is_stale(answer)
            {
                files.remove(&file);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Identity = Identity { device: 1, inode: 2 };
    const FILE: FileKey = file(1);

    const fn file(seconds: i64) -> FileKey {
        FileKey { identity: ID, since: Since::Born(Timestamp { seconds, nanoseconds: 0 }) }
    }

    #[test]
    fn a_file_that_got_the_number_of_another_is_a_file_of_its_own() {
        let table = LinkTable::new();
        assert_eq!(table.claim(file(1), "old"), Claim::First("old"));
        assert_eq!(table.claim(file(2), "early"), Claim::Alone("early"));
        assert!(table.complete(ID, 7).is_empty());
        assert_eq!(table.claim(file(1), "old"), Claim::Known("old", 7));
        assert_eq!(table.claim(file(2), "new"), Claim::First("new"));
        assert!(table.complete(ID, 8).is_empty());
        assert_eq!(table.claim(file(2), "newer"), Claim::Known("newer", 8));
    }

    #[test]
    fn only_a_stale_answer_is_forgotten() {
        let table = LinkTable::new();
        assert_eq!(table.claim(FILE, "a"), Claim::First("a"));
        table.forget(ID, |_| true);
        assert_eq!(table.claim(FILE, "b"), Claim::Waits);
        assert_eq!(table.complete(ID, 7), ["b"]);
        table.forget(ID, |answer| *answer == 6);
        assert_eq!(table.claim(FILE, "c"), Claim::Known("c", 7));
        table.forget(ID, |answer| *answer == 7);
        assert_eq!(table.claim(FILE, "d"), Claim::First("d"));
    }

    #[test]
    fn names_wait_and_are_returned_once() {
        let table = LinkTable::new();
        assert_eq!(table.claim(FILE, "a"), Claim::First("a"));
        assert_eq!(table.claim(FILE, "b"), Claim::Waits);
        assert_eq!(table.complete(ID, 7), ["b"]);
        assert_eq!(table.claim(FILE, "c"), Claim::Known("c", 7));
        assert!(table.complete(ID, 7).is_empty());
    }

    #[test]
    fn a_failed_first_gives_the_others_another_try() {
        let table = LinkTable::<_, u8>::new();
        assert_eq!(table.claim(FILE, "a"), Claim::First("a"));
        assert_eq!(table.claim(FILE, "b"), Claim::Waits);
        assert_eq!(table.abandon(ID), ["b"]);
        assert_eq!(table.claim(FILE, "b"), Claim::First("b"));
    }
}
