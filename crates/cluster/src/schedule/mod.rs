//! Who gets what when: the scheduler of rank 0.
//!
//! A pure state machine. Events go in, orders come out; it does no input or output, reads no clock and starts no thread, so
//! the simulation runs the very same code as a job does.
//!
//! ```text
//!            Part, Closed                                Parts   (a bundle: up to 256 entries)
//!   launch ───────────────►  ┌───────────────────────┐ ─────────────────────────────► worker
//!            Open, FileOver  │ queue: parts, packed   │ Range   (one piece of a large file)
//!   leader ───────────────►  │ files: large, in order │ ─────────────────────────────► worker
//!            PartDone,       │ crew:  what each has   │ RangesOver
//!   worker  RangeDone ────►  │ team:  the model       │ ─────────────────────────────► leader
//!                            └───────────────────────┘ Over    to the master, once, at the end
//! ```
//!
//! **Credit.** A worker has at most [`Limits::credit`] bundles or ranges in hand: one it works on, one that waits, so that it
//! need not wait for rank 0. The second is given only while much is queued: at the end of the work a thing that waits at a
//! busy worker is a thing that an idle one could do.
//!
//! **What goes first.** A range of the first announced file whose team is not full, before parts (parts would announce more
//! files, and open files cost); then parts; then, rather than leave a worker idle, a range of any file. So the size of a team
//! matters only while there is other work.
//!
//! **How much.** A bundle is full (256 entries) while much is queued. When no more parts come it is a share of what is left,
//! half of an even one, so that bundles shrink and all finish together (guided self-scheduling: Polychronopoulos and Kuck,
//! IEEE Transactions on Computers C-36 (1987), with a factor of two for uneven parts).
//!
//! Promises (each a property test): every part is given once, every byte of a large file is in one range, nobody has more
//! than the credit, nobody is idle while anything is queued, and [`Order::Over`] comes once, when nothing is left anywhere.
//! It ends because every order is answered by an event that returns its credit, and no order is given twice.
//!
//! It relies on: a rank sends [`Event::Open`] for a file before the [`Event::PartDone`] of the part it was met in (messages of
//! two ranks keep their order); for every file announced a [`Event::FileOver`] comes; a lost rank ends the job.

mod crew;
mod file;
mod queue;
mod team;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::transport::Rank;
use crew::{Crew, Held};
use file::{Files, Outcome};
use queue::PartQueue;
pub use team::{Choice, Question, Rates, TOLERANCE, choose};

/// The number of a part, given by the launch process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartId(pub u64);

/// The number of a large file, given by whoever announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u64);

/// Some entries of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number.
    pub id: PartId,
    /// How many entries: the weight of it.
    pub entries: u32,
    /// What a rank needs to do it; never looked at here.
    pub body: Vec<u8>,
}

/// Who counts the finished ranges of a large file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CountedBy {
    /// The leader: attributes are preserved, so it must know at once when the last range is there.
    Leader,
    /// The master, which tells the leader when all ranges are over.
    Master,
}

/// A file that is moved in ranges.
#[derive(Clone, Debug)]
pub struct LargeFile {
    /// Its number.
    pub id: FileId,
    /// The rank that made the target and will finish it.
    pub leader: Rank,
    /// Its bytes.
    pub size: u64,
    /// Bytes of a stripe; 0 where nothing is known.
    pub stripe_bytes: u64,
    /// Storage targets it lies on; 1 where nothing is known.
    pub stripes: u32,
    /// Who counts its finished ranges.
    pub counted_by: CountedBy,
    /// Ranges that earlier attempts have moved, in any order.
    pub done: Vec<Range<u64>>,
    /// What a rank needs to open source and target; never looked at here.
    pub ticket: Vec<u8>,
}

/// What has happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The launch process sends a part.
    Part(Part),
    /// The launch process has no more parts. The sooner it says so, the better the work is shared out at the end.
    Closed,
    /// A rank has met a large file.
    Open(LargeFile),
    /// A rank has settled every entry of a part.
    PartDone {
        /// The rank it was given to.
        rank: Rank,
        /// The part.
        part: PartId,
    },
    /// A rank is through with a range.
    RangeDone {
        /// The rank it was given to.
        rank: Rank,
        /// The file.
        file: FileId,
        /// The range.
        range: Range<u64>,
        /// How long the rank moved it.
        took: Duration,
        /// Whether all of it is in the target; otherwise the file has failed.
        moved: bool,
    },
    /// The leader has finished a file, well or not. What is left of its ranges is dropped.
    FileOver {
        /// The file.
        file: FileId,
    },
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Order {
    /// A rank is to do these parts; to be sent as one message.
    Parts {
        /// The rank.
        to: Rank,
        /// The bundle.
        parts: Vec<Part>,
    },
    /// A rank is to move a range.
    Range {
        /// The rank.
        to: Rank,
        /// The file.
        file: FileId,
        /// The leader of the file.
        leader: Rank,
        /// The range, on stripe boundaries, never empty but for an empty file.
        range: Range<u64>,
        /// Who is to be told when it is done.
        report_to: Rank,
        /// What the leader sent along.
        ticket: Arc<[u8]>,
    },
    /// No range of a file that the master counts is left, nor in anybody's hands.
    RangesOver {
        /// The leader.
        to: Rank,
        /// The file.
        file: FileId,
        /// Whether all ranges were moved.
        moved: bool,
    },
    /// Nothing is left anywhere, and no more parts come. Given once.
    Over,
    /// What the model chose, for `--debug`; a line.
    Remark(String),
}

/// The measures of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries of a full bundle.
    pub bundle_entries: u32,
    /// Bundles and ranges that a worker may have in hand.
    pub credit: usize,
    /// The smallest range, but for the rest of a file.
    pub range_bytes_min: u64,
    /// The largest range.
    pub range_bytes_max: u64,
    /// Ranges of a file for each worker, between those two: the more, the more evenly it ends.
    pub ranges_each: u32,
    /// Whether remarks are wanted.
    pub remarks: bool,
}

/// Entries that a bundle has at least at the end of the work, if there are more than one for each idle worker: below it the
/// messages cost more than an even end is worth.
const GUIDED_ENTRIES_MIN: u64 = 16;

impl Default for Limits {
    fn default() -> Self {
        Self {
            bundle_entries: 256,
            credit: 2,
            range_bytes_min: 32 << 20,
            range_bytes_max: 256 << 20,
            ranges_each: 16,
            remarks: false,
        }
    }
}

impl Limits {
    /// Tells whether a file of `size` bytes is worth a team: whether it has more than one range.
    #[must_use]
    pub fn is_large(&self, size: u64) -> bool {
        size >= 2 * self.range_bytes_min
    }

    /// Returns the bytes of a range of a file of `size` bytes, for `workers` workers.
    #[must_use]
    pub fn range_bytes(&self, size: u64, workers: usize) -> u64 {
        let ranges = (workers as u64).saturating_mul(u64::from(self.ranges_each)).max(1);
        (size / ranges).clamp(self.range_bytes_min, self.range_bytes_max.max(self.range_bytes_min))
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    crew: Crew,
    parts: PartQueue,
    files: Files,
    source: Source,
    over: bool,
}

/// Whether more parts may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Open,
    Closed,
}

impl Scheduler {
    /// Makes a scheduler for `workers`, all of them idle.
    #[must_use]
    pub fn new(workers: Vec<Rank>, limits: Limits) -> Self {
        Self {
            files: Files::new(workers.len(), limits),
            crew: Crew::new(workers, limits.credit),
            parts: PartQueue::default(),
            source: Source::Open,
            over: false,
            limits,
        }
    }

    /// Takes an event and appends what is to be done now: [`Scheduler::note`], then [`Scheduler::give`].
    pub fn take(&mut self, event: Event, now: Duration, orders: &mut Vec<Order>) {
        self.note(event, now, orders);
        self.give(now, orders);
    }

    /// Takes an event without giving out work. Whoever has several events at hand takes them all before it calls
    /// [`Scheduler::give`]: what came together leaves in fuller bundles.
    ///
    /// `now` is the time since the master's start.
    pub fn note(&mut self, event: Event, now: Duration, orders: &mut Vec<Order>) {
        match event {
            Event::Part(part) => self.parts.push(&part),
            Event::Closed => self.source = Source::Closed,
            Event::Open(file) => self.files.open(file, orders),
            Event::PartDone { rank, part } => self.crew.part_done(rank, part),
            Event::RangeDone { rank, file, range, took, moved } => {
                if let Some(left) = self.crew.range_done(rank, file) {
                    let bytes = range.end - range.start;
                    self.files.range_done(file, &Outcome { bytes, took, moved, left }, orders);
                }
            }
            Event::FileOver { file } => self.files.close(file, now, orders),
        }
    }

    /// Gives work to every worker that can have some, and tells once when all is over.
    pub fn give(&mut self, now: Duration, orders: &mut Vec<Order>) {
        while let Some(worker) = self.crew.first_idle() {
            if !(self.give_range(worker, now, orders)
                || self.give_parts(worker, self.share(), orders)
                || self.give_any_range(worker, now, orders))
            {
                break;
            }
        }
        if self.crew.first_idle().is_none() {
            self.give_ahead(now, orders);
        }
        if !self.over && self.is_over() {
            self.over = true;
            orders.push(Order::Over);
        }
    }

    /// Returns how many entries wait here, in nobody's hands.
    #[must_use]
    pub fn queued_entries(&self) -> u64 {
        self.parts.entries()
    }

    /// Returns how many parts wait here, in nobody's hands.
    #[must_use]
    pub fn queued_parts(&self) -> u64 {
        self.parts.len()
    }

    /// Returns the bytes of large files that wait here, in nobody's hands.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.files.bytes_left()
    }

    /// Returns how many workers have nothing in hand.
    #[must_use]
    pub fn idle_workers(&self) -> usize {
        self.crew.idle()
    }

    /// Tells whether nothing is left anywhere and no more parts come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.source == Source::Closed
            && self.parts.is_empty()
            && self.files.is_empty()
            && self.crew.idle() == self.crew.len()
    }

    /// Gives second tasks, while enough is queued that nobody else will miss them.
    fn give_ahead(&mut self, now: Duration, orders: &mut Vec<Order>) {
        let mut after = None;
        while let Some(worker) = self.crew.next_with_credit(after) {
            let given = self.ranges_abound()
                && (self.give_range(worker, now, orders)
                    || self.parts.is_empty() && self.give_any_range(worker, now, orders))
                || self.parts_abound() && self.give_parts(worker, self.share(), orders);
            if !given {
                // What one may not have another may: it may be of a file's team.
                if !self.ranges_abound() {
                    break;
                }
                after = Some(worker);
            }
        }
    }

    /// Tells whether a range may wait at a busy worker: others are left for everybody.
    fn ranges_abound(&self) -> bool {
        self.files.ranges_left() >= self.crew.len() as u64
    }

    /// Tells whether a bundle may wait at a busy worker: a full one, and others are left for everybody.
    fn parts_abound(&self) -> bool {
        let entries = self.parts.entries();
        match self.source {
            Source::Open => entries >= u64::from(self.limits.bundle_entries),
            Source::Closed => {
                entries / (self.crew.len() as u64).max(1) >= u64::from(self.limits.bundle_entries) / 8
            }
        }
    }

    /// Returns how many entries the next bundle is to have.
    fn share(&self) -> u32 {
        let entries = self.parts.entries();
        let even = entries.div_ceil((self.crew.idle() as u64).max(1));
        let guided = match self.source {
            Source::Open => even,
            Source::Closed => entries.div_ceil(2 * self.crew.len() as u64).max(GUIDED_ENTRIES_MIN).min(even),
        };
        u32::try_from(guided).unwrap_or(u32::MAX).clamp(1, self.limits.bundle_entries.max(1))
    }

    /// Gives `worker` a range of the first file that wants it in its team.
    fn give_range(&mut self, worker: usize, now: Duration, orders: &mut Vec<Order>) -> bool {
        let crew = &self.crew;
        match self.files.first_wanting(|file| crew.holds_range_of(worker, file), orders) {
            Some(file) => self.give_range_of(file, worker, now, orders),
            None => false,
        }
    }

    /// Gives `worker` a range of the file it was at last, or of the first that has one, however large its team is.
    fn give_any_range(&mut self, worker: usize, now: Duration, orders: &mut Vec<Order>) -> bool {
        match self.files.first_with_ranges(self.crew.last_file(worker)) {
            Some(file) => self.give_range_of(file, worker, now, orders),
            None => false,
        }
    }

    fn give_range_of(&mut self, file: FileId, worker: usize, now: Duration, orders: &mut Vec<Order>) -> bool {
        let joins = !self.crew.holds_range_of(worker, file);
        let Some(cut) = self.files.cut(file, joins, now) else { return false };
        self.crew.hold(worker, Held::Range(file));
        orders.push(Order::Range {
            to: self.crew.rank(worker),
            file,
            leader: cut.leader,
            range: cut.range,
            report_to: cut.report_to,
            ticket: cut.ticket,
        });
        true
    }

    fn give_parts(&mut self, worker: usize, entries: u32, orders: &mut Vec<Order>) -> bool {
        let parts = self.parts.pop_bundle(entries);
        if parts.is_empty() {
            return false;
        }
        self.crew.hold(worker, Held::Bundle(parts.iter().map(|part| part.id).collect()));
        orders.push(Order::Parts { to: self.crew.rank(worker), parts });
        true
    }
}
