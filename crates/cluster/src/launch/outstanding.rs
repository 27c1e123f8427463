//! What is under way: every part that was sent and is not done, every large file that was begun and is not over.
//!
//! The table is the memory of the journal: whatever becomes of the job, the entries in it are those that are left, and
//! those not in it are settled. Each row holds a feed, so the run cannot end before it.

use std::collections::HashMap;
use std::ops::Range;

use haul_flow::{Feed, Job};

use crate::distributed::Distributed;
use crate::part::{Begun, Errand, Parcel};
use crate::schedule::{FileId, PartId};
use crate::wire::{Opened, PackedProblem};

/// A part under way.
pub(crate) struct Sent<'a, T: Distributed> {
    pub(crate) parcel: Parcel<T>,
    pub(crate) errand: Errand,
    /// What the journal knows it by.
    pub(crate) print: u128,
    /// Its entries when it was sent.
    pub(crate) entries: usize,
    pub(crate) feed: Feed<'a, Job<T>>,
}

/// A large file under way.
pub(crate) struct Large<'a, T: Distributed> {
    pub(crate) parcel: Parcel<T>,
    /// The part it was in.
    pub(crate) errand: Errand,
    pub(crate) ticket: Vec<u8>,
    pub(crate) done: Vec<Range<u64>>,
    /// What went wrong with its ranges.
    pub(crate) problems: Vec<PackedProblem>,
    /// What the journal knows its entry by.
    pub(crate) print: u128,
    pub(crate) feed: Feed<'a, Job<T>>,
}

/// Returns what the journal knows a parcel by.
pub(crate) fn fingerprint<T: Distributed>(parcel: &Parcel<T>, tool: &T) -> u128 {
    parcel.pack(tool, Errand::default()).fingerprint()
}

impl<T: Distributed> Sent<'_, T> {
    /// Returns what the journal knows it by, if it may know of it. Not of claimed entries: they are some names of files that have
    /// others, and a later run that skipped them would not know what to link those to.
    pub(crate) fn recorded(&self) -> Option<u128> {
        (!self.errand.claimed).then_some(self.print)
    }
}

impl<T: Distributed> Large<'_, T> {
    /// Returns what the journal knows it by, if it may know of it; see [`Sent::recorded`].
    pub(crate) fn recorded(&self) -> Option<u128> {
        (!self.errand.claimed).then_some(self.print)
    }
}

/// The table.
pub(crate) struct Outstanding<'a, T: Distributed> {
    parts: HashMap<PartId, Sent<'a, T>>,
    large: HashMap<FileId, Large<'a, T>>,
    entries: usize,
    next: u64,
}

impl<T: Distributed> Default for Outstanding<'_, T> {
    fn default() -> Self {
        Self { parts: HashMap::new(), large: HashMap::new(), entries: 0, next: 1 }
    }
}

impl<'a, T: Distributed> Outstanding<'a, T> {
    /// Returns how many entries are under way.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Gives the next part its number.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(crate) fn insert(&mut self, sent: Sent<'a, T>) {
        self.entries += sent.entries;
        self.parts.insert(PartId(sent.errand.number), sent);
    }

    /// Takes a large file out of its part; returns what the journal knows its entry by, if it may know of it.
    pub(crate) fn set_apart(&mut self, opened: &Opened, tool: &T, feed: Feed<'a, Job<T>>) -> Option<u128> {
        let sent = self.parts.get_mut(&opened.part)?;
        let parcel = sent.parcel.take(&opened.name)?;
        let print = fingerprint(&parcel, tool);
        // The stamps are those of all its entries.
        sent.errand.stamps.iter_mut().for_each(Vec::clear);
        if sent.parcel.entries() > 0 {
            sent.print = fingerprint(&sent.parcel, tool);
        }
        self.entries += 1;
        let (ticket, done, errand) = (opened.ticket.clone(), opened.done.clone(), sent.errand.clone());
        let large = Large { parcel, errand, ticket, done, problems: Vec::new(), print, feed };
        let print = large.recorded();
        self.large.insert(opened.file, large);
        print
    }

    pub(crate) fn part_over(&mut self, part: PartId) -> Option<Sent<'a, T>> {
        let sent = self.parts.remove(&part)?;
        self.entries -= sent.entries;
        Some(sent)
    }

    /// Keeps what went wrong with a range until its file is over. What comes later is a consequence: its file is gone.
    pub(crate) fn keep_problems(&mut self, file: FileId, problems: Vec<PackedProblem>) {
        if let Some(large) = self.large.get_mut(&file) {
            large.problems.extend(problems);
        }
    }

    /// Records that a range was moved; returns what the journal knows the file's entry by, if it may know of it.
    pub(crate) fn range_moved(&mut self, file: FileId, range: Range<u64>) -> Option<u128> {
        let large = self.large.get_mut(&file)?;
        large.done.push(range);
        large.recorded()
    }

    pub(crate) fn file_over(&mut self, file: FileId) -> Option<Large<'a, T>> {
        let large = self.large.remove(&file)?;
        self.entries -= 1;
        Some(large)
    }

    /// Makes all that is left ready for another attempt, large files as parts of their own; in the order it was sent.
    pub(crate) fn begin_attempt(&mut self) -> Vec<&Sent<'a, T>> {
        for (_, large) in std::mem::take(&mut self.large) {
            let errand =
                Errand { begun: Some(Begun { ticket: large.ticket, done: large.done }), ..large.errand };
            let number = self.number();
            let errand = Errand { number, ..errand };
            let (parcel, print, feed) = (large.parcel, large.print, large.feed);
            let sent = Sent { parcel, errand, print, entries: 1, feed };
            self.parts.insert(PartId(number), sent);
        }
        for sent in self.parts.values_mut() {
            sent.errand.attempt += 1;
        }
        let mut left: Vec<_> = self.parts.values().collect();
        left.sort_unstable_by_key(|sent| sent.errand.number);
        left
    }

    /// Takes everything out.
    pub(crate) fn give_up(&mut self) -> Vec<(Parcel<T>, Errand, Feed<'a, Job<T>>)> {
        self.entries = 0;
        let parts = std::mem::take(&mut self.parts).into_values();
        let large = std::mem::take(&mut self.large).into_values();
        let parts = parts.map(|sent| (sent.parcel, sent.errand, sent.feed));
        parts.chain(large.map(|large| (large.parcel, large.errand, large.feed))).collect()
    }
}
