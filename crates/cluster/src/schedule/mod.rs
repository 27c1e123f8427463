//! Who gets what when: the scheduler of rank 0.
//!
//! A pure state machine. Events go in, orders come out; it does no input or output, reads no clock and starts no thread, so
//! the simulation runs the very same code as a job does.
//!
//! ```text
//!            item, Closed                                Parts   (a bundle: up to 1,024 entries)
//!   launch ───────────────►  ┌───────────────────────┐ ─────────────────────────────► worker
//!            Open, FileOver  │ queue: parts, packed   │ Range   (one piece of a large file)
//!   leader ───────────────►  │ files: large, in order │ ─────────────────────────────► worker
//!            PartDone,       │ process-group:  what each has   │ RangesOver
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
//! **How much.** While much is queued a bundle is full: 1,024 entries, or fewer where that many take longer than three seconds. Nobody
//! here knows how large entries are, so it is measured, and until the first bundle is back each has one part. When no more
//! parts come a bundle is a share of what is left, half of an even one, so that bundles shrink and all finish together (guided self-scheduling: Polychronopoulos and Kuck,
//! IEEE Transactions on Computers C-36 (1987), with a factor of two for uneven parts).
//!
//! Promises (each a property test): every part is given once, every byte of a large file is in one range, nobody has more
//! than the credit, nobody is idle while anything is queued, and [`Order::Over`] comes once, when nothing is left anywhere.
//! It ends because every order is answered by an event that returns its credit, and no order is given twice.
//!
//! It relies on: a rank sends [`Event::Open`] for a file before the [`Event::PartDone`] of the part it was met in (messages of
//! two ranks keep their order); for every file announced a [`Event::FileOver`] comes; a lost rank ends the job.

mod file;
mod group;
mod queue;
mod team;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::transport::Rank;
use file::{Files, Outcome};
use group::{Bundle, InHand, RankTable};
use queue::PartQueue;
pub use team::{Choice, Question, Rates, TOLERANCE, choose};

/// The number of a part, given by the launch process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemId(pub u64);

/// The number of a large file, given by whoever announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u64);

/// Some entries of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its number.
    pub id: ItemId,
    /// What tells its directory from most others.
    pub directory: u64,
    /// How many entries: the weight of it.
    pub entries: u32,
    /// What a rank needs to do it; never looked at here.
    pub body: Vec<u8>,
}

/// Who counts the finished ranges of a large file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CountedBy {
    /// The leader: attributes are preserved, so it must know at once when the last range is there. Where none is left to begin
    /// with, the master tells it.
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
    Item(Item),
    /// The launch process has no more parts. The sooner it says so, the better the work is shared out at the end.
    Closed,
    /// A rank has met a large file.
    Open(LargeFile),
    /// A rank has settled every entry of a part.
    PartDone {
        /// The rank it was given to.
        rank: Rank,
        /// The part.
        part: ItemId,
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
        parts: Vec<Item>,
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
    /// The largest range. If it is the smallest too, that was asked for, and nothing measured changes it.
    pub range_bytes_max: u64,
    /// Whether remarks are wanted.
    pub remarks: bool,
}

/// How long a bundle may be expected to take. Entries may be anything up to a large file, and 1,024 of 60 MB given to one rank
/// are 60 GB that no other can have; 1,024 small files are done long before.
const BUNDLE_TIME: Duration = Duration::from_secs(3);

/// What a file must take one rank to be worth a team.
const LARGE_TIME: Duration = Duration::from_secs(1);

/// What a range must take at least, once it is known how fast clients are.
const RANGE_TIME: Duration = Duration::from_millis(50);

/// Ranges that each worker is to have of what is left, so long as they are not too small.
const RANGES_EACH: u64 = 4;

/// Below what a message is not worth it, at the end of the work, if there are more entries than idle workers.
const WORTH_A_MESSAGE: Duration = Duration::from_millis(2);

impl Default for Limits {
    fn default() -> Self {
        Self {
            bundle_entries: 1024,
            credit: 2,
            range_bytes_min: 8 << 20,
            range_bytes_max: 256 << 20,
            remarks: false,
        }
    }
}

impl Limits {
    /// Tells whether a file of `size` bytes is worth a team, for a rank that copies `rate` bytes a second by itself, if it
    /// knows that yet.
    ///
    /// What takes a rank a moment is better left to it: it has many files open, which lie on many targets, and of ranges it
    /// has two in hand. Docs: `docs/scale.md`.
    #[must_use]
    pub fn is_large(&self, size: u64, rate: Option<f64>) -> bool {
        let worth_it = if self.is_exact() { 0 } else { bytes_within(LARGE_TIME, rate) };
        size >= self.range_bytes_min.saturating_mul(2).max(worth_it)
    }

    /// Returns the bytes of the least range for clients of `rate` bytes a second: messages and opening must cost little
    /// beside it.
    fn range_bytes_least(&self, rate: Option<f64>) -> u64 {
        let worth_it = if self.is_exact() { 0 } else { bytes_within(RANGE_TIME, rate) };
        self.range_bytes_min.max(worth_it)
    }

    /// Tells whether all ranges are to be of one size.
    fn is_exact(&self) -> bool {
        self.range_bytes_min == self.range_bytes_max
    }

    /// Returns the bytes of the next range when `left` bytes of all files wait for `workers` workers: a piece of an even
    /// share, so that ranges shrink and all finish together.
    #[must_use]
    pub fn range_bytes(&self, left: u64, workers: usize, rate: Option<f64>) -> u64 {
        let least = self.range_bytes_least(rate);
        (left / (RANGES_EACH * workers.max(1) as u64)).clamp(least, self.range_bytes_max.max(least))
    }
}

/// Returns the bytes that `rate` moves in `time`; 0 if it is not known.
fn bytes_within(time: Duration, rate: Option<f64>) -> u64 {
    (rate.unwrap_or_default() * time.as_secs_f64()) as u64
}

/// The scheduler.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    group: RankTable,
    parts: PartQueue,
    files: Files,
    pace: Pace,
    source: Source,
    over: bool,
}

/// Whether more parts may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Open,
    Closed,
}

/// How long an entry took lately, beside the others of its bundle.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    seconds: Option<f64>,
}

impl Pace {
    /// The weight of the newest bundle.
    const WEIGHT: f64 = 0.2;

    fn observe(&mut self, seconds: f64) {
        self.seconds = Some(self.seconds.map_or(seconds, |known| known + Self::WEIGHT * (seconds - known)));
    }

    /// Returns how many entries take so long; 1 while nothing is known.
    fn entries_within(&self, time: Duration) -> u32 {
        match self.seconds {
            Some(seconds) => (time.as_secs_f64() / seconds.max(1e-9)).min(f64::from(u32::MAX)) as u32,
            None => 1,
        }
    }
}

impl Scheduler {
    /// Makes a scheduler for `workers`, all of them idle.
    #[must_use]
    pub fn new(workers: Vec<Rank>, limits: Limits) -> Self {
        Self {
            files: Files::new(workers.len(), limits),
            group: RankTable::new(workers, limits.credit),
            parts: PartQueue::default(),
            pace: Pace::default(),
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
            Event::Item(part) => self.parts.push(&part),
            Event::Closed => self.source = Source::Closed,
            Event::Open(file) => {
                self.group.announced(file.leader);
                self.files.open(file, orders);
            }
            Event::PartDone { rank, part } => {
                if let Some(seconds) = self.group.part_done(rank, part, now) {
                    self.pace.observe(seconds);
                }
            }
            Event::RangeDone { rank, file, range, took, moved } => {
                if let Some(left) = self.group.range_done(rank, file, now) {
                    let bytes = range.end - range.start;
                    self.files.range_done(file, &Outcome { bytes, took, moved, left }, orders);
                }
            }
            Event::FileOver { file } => self.files.close(file, now, orders),
        }
    }

    /// Gives work to every worker that can have some, and tells once when all is over.
    pub fn give(&mut self, now: Duration, orders: &mut Vec<Order>) {
        while let Some(worker) = self.group.first_idle() {
            if !(self.give_range(worker, now, orders)
                || self.give_parts(worker, now, orders)
                || self.give_any_range(worker, now, orders))
            {
                break;
            }
        }
        if self.group.first_idle().is_none() {
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

    /// Returns the bytes of large files that wait here, in nobody's hands.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.files.bytes_left()
    }

    /// Returns how many workers have nothing in hand.
    #[must_use]
    pub fn idle_workers(&self) -> usize {
        self.group.idle()
    }

    /// Tells whether nothing is left anywhere and no more parts come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.source == Source::Closed
            && self.parts.is_empty()
            && self.files.is_empty()
            && self.group.idle() == self.group.len()
    }

    /// Gives second tasks, while enough is queued that nobody else will miss them.
    fn give_ahead(&mut self, now: Duration, orders: &mut Vec<Order>) {
        let mut after = None;
        while let Some(worker) = self.group.next_with_credit(after) {
            let given = self.files.abound()
                && (self.give_range(worker, now, orders)
                    || self.parts.is_empty() && self.give_any_range(worker, now, orders))
                || self.parts_abound() && self.give_parts(worker, now, orders);
            if !given {
                // What one may not have another may: it may be of a file's team.
                if !self.files.abound() {
                    break;
                }
                after = Some(worker);
            }
        }
    }

    /// Tells whether a bundle may wait at a busy worker: a full one, and others are left for everybody.
    fn parts_abound(&self) -> bool {
        let (entries, full) = (self.parts.entries(), u64::from(self.full()));
        match self.source {
            Source::Open => entries >= full,
            Source::Closed => entries / (self.group.len() as u64).max(1) >= full.div_ceil(8),
        }
    }

    /// Returns how many entries the next bundle is to have.
    fn share(&self) -> u32 {
        let entries = self.parts.entries();
        let even = entries.div_ceil((self.group.idle() as u64).max(1));
        let least = u64::from(self.pace.entries_within(WORTH_A_MESSAGE));
        let guided = match self.source {
            Source::Open => even,
            Source::Closed => entries.div_ceil(2 * self.group.len() as u64).max(least).min(even),
        };
        u32::try_from(guided).unwrap_or(u32::MAX).clamp(1, self.full())
    }

    /// Returns how many entries a bundle has while much is queued.
    fn full(&self) -> u32 {
        self.pace.entries_within(BUNDLE_TIME).clamp(1, self.limits.bundle_entries.max(1))
    }

    /// Gives `worker` a range of the first file that wants it in its team.
    fn give_range(&mut self, worker: usize, now: Duration, orders: &mut Vec<Order>) -> bool {
        let group = &self.group;
        match self.files.first_wanting(|file| group.holds_range_of(worker, file), orders) {
            Some(file) => self.give_range_of(file, worker, now, orders),
            None => false,
        }
    }

    /// Gives `worker` a range of the file it was at last, or of the first that has one, however large its team is.
    fn give_any_range(&mut self, worker: usize, now: Duration, orders: &mut Vec<Order>) -> bool {
        match self.files.first_with_ranges(self.group.last_file(worker)) {
            Some(file) => self.give_range_of(file, worker, now, orders),
            None => false,
        }
    }

    fn give_range_of(&mut self, file: FileId, worker: usize, now: Duration, orders: &mut Vec<Order>) -> bool {
        let joins = !self.group.holds_range_of(worker, file);
        let Some(cut) = self.files.cut(file, joins, now) else { return false };
        self.group.hold(worker, InHand::Range(file));
        orders.push(Order::Range {
            to: self.group.rank(worker),
            file,
            leader: cut.leader,
            range: cut.range,
            report_to: cut.report_to,
            ticket: cut.ticket,
        });
        true
    }

    fn give_parts(&mut self, worker: usize, now: Duration, orders: &mut Vec<Order>) -> bool {
        let parts = self.parts.pop_bundle(self.share());
        if parts.is_empty() {
            return false;
        }
        let entries = parts.iter().map(|part| part.entries).sum();
        let bundle = Bundle { parts: parts.iter().map(|part| part.id).collect(), entries, given: now };
        self.group.hold(worker, InHand::Bundle(bundle));
        orders.push(Order::Parts { to: self.group.rank(worker), parts });
        true
    }
}
