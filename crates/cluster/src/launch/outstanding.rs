//! Work in flight: every work item sent and not done, every large file begun and not complete.
//!
//! This table is the in-memory form of the journal: whatever happens to the job, the entries in it
//! are the ones left, and all others are complete. Each row holds a feed, so the run can't end
//! before it.

use std::collections::HashMap;
use std::ops::Range;

use haul_flow::{Entry, Feed, Job};
use haul_journal::{EntryKey, PartialFile};

use crate::distributed::Distributed;
use crate::item::{ItemSpec, PendingItem};
use crate::schedule::{FileId, ItemId};
use crate::wire::{FileOpened, PackedProblem};

/// A work item in flight.
pub(crate) struct Sent<'a, T: Distributed> {
    pub(crate) pending: PendingItem<T>,
    pub(crate) item: ItemSpec,
    /// Number of entries when it was sent.
    pub(crate) entries: usize,
    pub(crate) feed: Feed<'a, Job<T>>,
}

/// A large file in flight.
pub(crate) struct LargeInFlight<'a, T: Distributed> {
    pub(crate) pending: PendingItem<T>,
    /// The work item it was in.
    pub(crate) item: ItemSpec,
    pub(crate) ticket: Vec<u8>,
    pub(crate) done: Vec<Range<u64>>,
    /// Results of the ranges in `done`, for its next leader.
    pub(crate) results: Vec<Vec<u8>>,
    /// Problems of its ranges.
    pub(crate) problems: Vec<PackedProblem>,
    /// Its key, if the journal may contain it.
    pub(crate) key: Option<EntryKey>,
    pub(crate) feed: Feed<'a, Job<T>>,
}

/// Returns the key of an entry in the journal; `None` if the tool creates nothing for it.
pub(crate) fn entry_key<T: Distributed>(tool: &T, entry: &Entry<T>) -> Option<EntryKey> {
    let (held, name) = tool.target_of(entry)?;
    Some(EntryKey::new(&entry.path(), &held.path_of(name)))
}

/// The table of work in flight.
pub(crate) struct Outstanding<'a, T: Distributed> {
    items: HashMap<ItemId, Sent<'a, T>>,
    large: HashMap<FileId, LargeInFlight<'a, T>>,
    entries: usize,
    next: u64,
}

impl<T: Distributed> Default for Outstanding<'_, T> {
    fn default() -> Self {
        Self { items: HashMap::new(), large: HashMap::new(), entries: 0, next: 1 }
    }
}

impl<'a, T: Distributed> Outstanding<'a, T> {
    /// Returns the number of entries in flight.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the number for the next work item.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(crate) fn insert(&mut self, sent: Sent<'a, T>) {
        self.entries += sent.entries;
        self.items.insert(ItemId(sent.item.number), sent);
    }

    /// Detaches a large file from its work item. Returns its key if the journal may contain it.
    pub(crate) fn detach_file(
        &mut self,
        opened: &FileOpened,
        tool: &T,
        feed: Feed<'a, Job<T>>,
    ) -> Option<EntryKey> {
        let sent = self.items.get_mut(&opened.item)?;
        let pending = sent.pending.take(&opened.name)?;
        // A claimed file is never recorded, like other claimed entries.
        let key = pending.entries().first().filter(|_| !sent.item.claimed);
        let key = key.and_then(|entry| entry_key(tool, entry));
        // The known stamps cover all entries of the item, so they no longer match.
        sent.item.stamps.iter_mut().for_each(Vec::clear);
        // The item counts the entry too, until it is done.
        self.entries += 1;
        let (ticket, done, item) = (opened.ticket.clone(), opened.done.clone(), sent.item.clone());
        // Empty if the leader has begun again, with another target.
        let results = if done.is_empty() { Vec::new() } else { item.begun_results.clone() };
        let large = LargeInFlight { pending, item, ticket, done, results, problems: Vec::new(), key, feed };
        self.large.insert(opened.file, large);
        key
    }

    pub(crate) fn item_done(&mut self, item: ItemId) -> Option<Sent<'a, T>> {
        let sent = self.items.remove(&item)?;
        self.entries -= sent.entries;
        Some(sent)
    }

    /// Keeps the problems of a range until its file is complete. Later ones are only consequences:
    /// the file is gone.
    pub(crate) fn keep_problems(&mut self, file: FileId, problems: Vec<PackedProblem>) {
        if let Some(large) = self.large.get_mut(&file) {
            large.problems.extend(problems);
        }
    }

    /// Records that a range was moved. Returns the file's key if the journal may contain it.
    pub(crate) fn range_moved(
        &mut self,
        file: FileId,
        range: Range<u64>,
        result: Vec<u8>,
    ) -> Option<EntryKey> {
        let large = self.large.get_mut(&file)?;
        large.done.push(range);
        // Usually there is none.
        large.results.extend((!result.is_empty()).then_some(result));
        large.key
    }

    pub(crate) fn file_done(&mut self, file: FileId) -> Option<LargeInFlight<'a, T>> {
        let large = self.large.remove(&file)?;
        self.entries -= 1;
        Some(large)
    }

    /// Prepares everything left for another attempt, in the order it was sent. Large files become
    /// items of their own.
    pub(crate) fn begin_attempt(&mut self) -> Vec<&Sent<'a, T>> {
        // Every entry of an item may have been detached. Without entries it has no directory, so a
        // rank would report an error, and nothing of it is left to complete.
        for (_, emptied) in self.items.extract_if(|_, sent| sent.pending.entry_count() == 0) {
            self.entries -= emptied.entries;
        }
        for (_, large) in std::mem::take(&mut self.large) {
            let item = ItemSpec {
                begun: Some(PartialFile { ticket: large.ticket, done: large.done, hashes: Vec::new() }),
                begun_results: large.results,
                ..large.item
            };
            let number = self.number();
            let item = ItemSpec { number, ..item };
            let (pending, feed) = (large.pending, large.feed);
            let sent = Sent { pending, item, entries: 1, feed };
            self.items.insert(ItemId(number), sent);
        }
        // The number is part of temporary names: a surviving rank of the lost attempt must not
        // write to the new files.
        for sent in self.items.values_mut() {
            sent.item.attempt += 1;
        }
        let mut left: Vec<_> = self.items.values().collect();
        left.sort_unstable_by_key(|sent| sent.item.number);
        left
    }

    /// Removes and returns everything.
    pub(crate) fn give_up(&mut self) -> Vec<(PendingItem<T>, ItemSpec, Feed<'a, Job<T>>)> {
        self.entries = 0;
        let items = std::mem::take(&mut self.items).into_values();
        let large = std::mem::take(&mut self.large).into_values();
        let items = items.map(|sent| (sent.pending, sent.item, sent.feed));
        items.chain(large.map(|large| (large.pending, large.item, large.feed))).collect()
    }
}
