//! Rank 0's scheduler: assigns work items and ranges to ranks.
//!
//! A pure state machine: events go in, orders come out. It does no I/O, reads no clock and starts
//! no threads, so the simulation runs the same code as a job.
//!
//! ```text
//!            Item, Closed                             Items   (a bundle: up to 1,024 entries)
//!   launch ──────────────►  ┌─────────────────────┐ ──────────────────────────► worker
//!            Open, FileDone │ queue: work items   │ Range   (of a large file)
//!   leader ──────────────►  │ files: large, FIFO  │ ──────────────────────────► worker
//!            ItemDone,      │ group: assignments  │ RangesDone
//!   worker   RangeDone ──►  │ team:  the model    │ ──────────────────────────► leader
//!                           └─────────────────────┘ Over    to the master, once, at the end
//! ```
//!
//! **Credit.** A worker holds at most [`Limits::credit`] bundles or ranges: one in progress and one
//! waiting, so that it needn't wait for rank 0. It gets the second only while plenty is queued.
//! Near the end, work that waits at a busy worker is work that an idle one could do.
//!
//! **Order.** First a range of the first announced file whose team is not full, because work items
//! would announce more files, and open files are expensive; then work items; then, rather than
//! leave a worker idle, a range of any file. So the size of a team matters only while there is
//! other work.
//!
//! **Amount.** While plenty is queued a bundle is full: 1,024 entries, or fewer if they take longer
//! than three seconds. The sizes of entries are unknown here, so the pace is measured; until the
//! first bundle is done, each bundle has one work item. Once no more items come, a bundle is half
//! of an even share of the rest, so that bundles shrink and all workers finish together (guided
//! self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers C-36 (1987), with a
//! factor of two for uneven items). A single worker has nobody to share with, so its bundles don't
//! shrink.
//!
//! Guarantees (each a property test): every work item is given out once; every byte of a large file
//! is in one range; nobody exceeds the credit; nobody is idle while anything is queued;
//! [`SchedulerOrder::Over`] comes once, when nothing is left anywhere. Termination: every order is
//! answered by an event that returns its credit, and no order is given twice.
//!
//! Assumptions: a rank sends [`SchedulerEvent::Open`] for a file before the
//! [`SchedulerEvent::ItemDone`] of its work item (messages between two ranks keep their order);
//! every announced file gets an [`SchedulerEvent::FileDone`]; a lost rank ends the job.

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
use file::{FileSchedules, RangeOutcome};
use group::{Assignment, Bundle, RankTable};
use queue::ItemQueue;
pub use team::{Rates, TOLERANCE, TeamChoice, TeamInputs, choose};

/// Number of a work item, assigned by the launch process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemId(pub u64);

/// Number of a large file, assigned by its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u64);

/// A work item: some entries of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedItem {
    /// Number of the item.
    pub id: ItemId,
    /// Identifies its directory; collisions are harmless.
    pub directory: u64,
    /// Number of entries: the weight of the item.
    pub entries: u32,
    /// Packed data that a rank needs to process it; opaque here.
    pub body: Vec<u8>,
}

/// The rank that counts the completed ranges of a large file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CountedBy {
    /// The leader: it preserves attributes, so it must know at once when the last range is
    /// complete. If no range is left to begin with, the master reports that to it.
    Leader,
    /// The master: it reports to the leader when all ranges are complete.
    Master,
}

/// A file that is moved in ranges.
#[derive(Clone, Debug)]
pub struct LargeFile {
    /// Number of the file.
    pub id: FileId,
    /// Rank that created the target and will finish it.
    pub leader: Rank,
    /// Size, in bytes.
    pub size: u64,
    /// Size of a stripe, in bytes; 0 if unknown.
    pub stripe_bytes: u64,
    /// Number of storage targets; 1 if unknown.
    pub stripes: u32,
    /// The rank that counts its completed ranges.
    pub counted_by: CountedBy,
    /// Ranges moved by earlier attempts, in any order.
    pub done: Vec<Range<u64>>,
    /// Packed data that a rank needs to open source and target; opaque here.
    pub ticket: Vec<u8>,
}

/// Input of the scheduler.
#[derive(Clone, Debug)]
pub enum SchedulerEvent {
    /// A work item from the launch process.
    Item(QueuedItem),
    /// No more work items will come. The earlier this is known, the better the rest can be shared.
    Closed,
    /// A rank has met a large file.
    Open(LargeFile),
    /// A rank has completed every entry of a work item.
    ItemDone {
        /// Rank it was given to.
        rank: Rank,
        /// The item.
        item: ItemId,
    },
    /// A rank has completed a range.
    RangeDone {
        /// Rank it was given to.
        rank: Rank,
        /// The file.
        file: FileId,
        /// The range.
        range: Range<u64>,
        /// Its share of the rank's time while the rank had it in hand.
        took: Duration,
        /// True if every byte is in the target; otherwise the file has failed.
        moved: bool,
    },
    /// The leader has finished a file, successfully or not. Its remaining ranges are dropped.
    FileDone {
        /// The file.
        file: FileId,
    },
}

/// Output of the scheduler.
#[derive(Clone, Debug)]
pub enum SchedulerOrder {
    /// Process these work items; to be sent as one message.
    Items {
        /// The rank.
        to: Rank,
        /// The bundle.
        items: Vec<QueuedItem>,
    },
    /// Move a range.
    Range {
        /// The rank.
        to: Rank,
        /// The file.
        file: FileId,
        /// Leader of the file.
        leader: Rank,
        /// The range, cut at stripes and at multiples of [`RANGE_UNIT`]; empty only for an empty
        /// file.
        range: Range<u64>,
        /// The rank that gets the report.
        report_to: Rank,
        /// The leader's ticket.
        ticket: Arc<[u8]>,
    },
    /// No range of a file counted by the master is left or in hand.
    RangesDone {
        /// The leader.
        to: Rank,
        /// The file.
        file: FileId,
        /// True if all ranges were moved.
        moved: bool,
    },
    /// Nothing is left anywhere, and no more work items will come. Given once.
    Over,
    /// A line for `--debug` about the model's choice.
    Remark(String),
}

/// Parameters of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries of a full bundle.
    pub bundle_entries: u32,
    /// Maximum bundles and ranges in a worker's hand.
    pub credit: usize,
    /// Minimum size of a range, in bytes, except for the rest of a file; rounded up to the unit.
    pub range_bytes_min: u64,
    /// Maximum size of a range, in bytes. If equal to the minimum, the user set the size and
    /// measurements don't change it.
    pub range_bytes_max: u64,
    /// True to emit remarks for `--debug`.
    pub remarks: bool,
}

/// Ranges are cut at multiples of this, in bytes, whatever the user and the stripes want: no page
/// may be in two ranges. Of a page that it hasn't read, an NFS client that doesn't know the file's
/// new size yet takes the bytes before its own write for zeros and sends them too, over those that
/// another host has written (`nfs_write_end`, `nfs_can_extend_write` in Linux). Large enough for
/// pages of 64 KiB, for `--direct`, and for the pieces of hashes, each of which needs one writer.
pub const RANGE_UNIT: u64 = 1 << 20;

/// Maximum expected duration of a bundle. Entries can be anything up to a large file, and 1,024
/// files of 60 MB are 60 GB that no other rank can share; 1,024 small files take far less time.
const BUNDLE_TIME: Duration = Duration::from_secs(3);

/// Time without a completion after which a rank is called slow: longer than a healthy rank needs
/// for a bundle and a range.
const SLOW_TIME: Duration = Duration::from_secs(5);

/// Minimum time that a file must take one rank to be worth a team.
const LARGE_TIME: Duration = Duration::from_secs(1);

/// Minimum duration of a range, once the clients' rate is known.
const RANGE_TIME: Duration = Duration::from_millis(50);

/// Ranges that the rest is cut into per worker, unless they would be too small.
const RANGES_EACH: u64 = 4;

/// Minimum duration of a bundle near the end, if there are more entries than idle workers: a
/// message must be worth its cost.
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
    /// True if a file of `size` bytes is worth a team, for a rank that copies `rate` bytes per
    /// second by itself (`None` if not yet measured).
    ///
    /// A file that takes a rank only a moment is better left to it: the rank has many files open on
    /// many storage targets, but holds only two ranges at a time. See `docs/scale.md`.
    #[must_use]
    pub fn is_large(&self, size: u64, rate: Option<f64>) -> bool {
        let worth_it = if self.is_exact() { 0 } else { bytes_within(LARGE_TIME, rate) };
        size >= self.range_bytes_min.saturating_mul(2).max(worth_it)
    }

    /// Returns the minimum size of a range, in bytes, for clients of `rate` bytes per second, so
    /// that messages and opening cost little in comparison.
    fn range_bytes_least(&self, rate: Option<f64>) -> u64 {
        let worth_it = if self.is_exact() { 0 } else { bytes_within(RANGE_TIME, rate) };
        self.range_bytes_min.max(worth_it)
    }

    /// True if the user set the size of ranges.
    fn is_exact(&self) -> bool {
        self.range_bytes_min == self.range_bytes_max
    }

    /// Returns the size of the next range, in bytes, when `left` bytes of all files wait for
    /// `workers` workers: a fraction of an even share, so that ranges shrink and all workers
    /// finish together.
    #[must_use]
    pub fn range_bytes(&self, left: u64, workers: usize, rate: Option<f64>) -> u64 {
        let least = self.range_bytes_least(rate);
        (left / (RANGES_EACH * workers.max(1) as u64)).clamp(least, self.range_bytes_max.max(least))
    }
}

/// Returns the bytes that `rate` moves in `time`; 0 if unknown.
fn bytes_within(time: Duration, rate: Option<f64>) -> u64 {
    (rate.unwrap_or_default() * time.as_secs_f64()) as u64
}

/// The scheduler.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    group: RankTable,
    items: ItemQueue,
    files: FileSchedules,
    pace: Pace,
    source: ItemSupply,
    over: bool,
}

/// Supply of work items: open while the launch process may send more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemSupply {
    Open,
    Closed,
}

/// Recent average time per entry.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    seconds: Option<f64>,
}

impl Pace {
    /// Weight of the newest bundle. The first ones aren't representative: they are small, so they
    /// span few directories, and each rank has only the workers that it begins with.
    const WEIGHT: f64 = 0.5;

    fn observe(&mut self, seconds: f64) {
        self.seconds = Some(self.seconds.map_or(seconds, |known| known + Self::WEIGHT * (seconds - known)));
    }

    /// Returns the number of entries that take `time`; 1 if nothing is measured yet.
    fn entries_within(&self, time: Duration) -> u32 {
        match self.seconds {
            Some(seconds) => (time.as_secs_f64() / seconds.max(1e-9)).min(f64::from(u32::MAX)) as u32,
            None => 1,
        }
    }
}

impl Scheduler {
    /// Creates a scheduler for idle `workers`.
    #[must_use]
    pub fn new(workers: Vec<Rank>, limits: Limits) -> Self {
        Self {
            files: FileSchedules::new(workers.len(), limits),
            group: RankTable::new(workers, limits.credit),
            items: ItemQueue::default(),
            pace: Pace::default(),
            source: ItemSupply::Open,
            over: false,
            limits,
        }
    }

    /// Handles an event and appends the orders that follow: [`Scheduler::note`],
    /// then [`Scheduler::give`].
    pub fn take(&mut self, event: SchedulerEvent, now: Duration, orders: &mut Vec<SchedulerOrder>) {
        self.note(event, now, orders);
        self.give(now, orders);
    }

    /// Handles an event without giving out work. A caller that has several events passes all of
    /// them before it calls [`Scheduler::give`], for fuller bundles.
    ///
    /// `now` is the time since the master started.
    pub fn note(&mut self, event: SchedulerEvent, now: Duration, orders: &mut Vec<SchedulerOrder>) {
        match event {
            SchedulerEvent::Item(item) => self.items.push(&item),
            SchedulerEvent::Closed => self.source = ItemSupply::Closed,
            SchedulerEvent::Open(file) => {
                self.group.announced(file.leader);
                self.files.open(file, orders);
            }
            SchedulerEvent::ItemDone { rank, item } => {
                if let Some(seconds) = self.group.item_done(rank, item, now) {
                    self.pace.observe(seconds);
                }
            }
            SchedulerEvent::RangeDone { rank, file, range, took, moved } => {
                if let Some(membership) = self.group.range_done(rank, file, now) {
                    let bytes = range.end - range.start;
                    self.files.range_done(file, &RangeOutcome { bytes, took, moved, membership }, orders);
                }
            }
            SchedulerEvent::FileDone { file } => self.files.close(file, now, orders),
        }
    }

    /// Gives work to every worker that can take some. Emits [`SchedulerOrder::Over`] once, at the
    /// end.
    pub fn give(&mut self, now: Duration, orders: &mut Vec<SchedulerOrder>) {
        while let Some(worker) = self.group.first_idle() {
            if !(self.give_range(worker, now, orders)
                || self.give_items(worker, now, orders)
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
            orders.push(SchedulerOrder::Over);
        }
    }

    /// Returns the number of entries that are queued and not assigned.
    #[must_use]
    pub fn queued_entries(&self) -> u64 {
        self.items.entries()
    }

    /// Returns the bytes of large files that are queued and not assigned.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.files.bytes_left()
    }

    /// Returns the workers that hold assignments but have completed none for five seconds or more,
    /// each with that duration.
    #[must_use]
    pub fn slow_ranks(&self, now: Duration) -> Vec<(Rank, Duration)> {
        self.group.slow(now, SLOW_TIME)
    }

    /// Returns the number of workers with nothing in hand.
    #[must_use]
    pub fn idle_workers(&self) -> usize {
        self.group.idle()
    }

    /// True if nothing is left anywhere and no more work items will come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.source == ItemSupply::Closed
            && self.items.is_empty()
            && self.files.is_empty()
            && self.group.idle() == self.group.len()
    }

    /// Gives second assignments while so much is queued that nobody else will miss them.
    fn give_ahead(&mut self, now: Duration, orders: &mut Vec<SchedulerOrder>) {
        let mut after = None;
        while let Some(worker) = self.group.next_with_credit(after) {
            let given = self.files.has_plenty()
                && (self.give_range(worker, now, orders)
                    || self.items.is_empty() && self.give_any_range(worker, now, orders))
                || self.has_plenty_of_items() && self.give_items(worker, now, orders);
            if !given {
                // Another worker may still get a range: it may be in a file's team.
                if !self.files.has_plenty() {
                    break;
                }
                after = Some(worker);
            }
        }
    }

    /// True if a bundle may wait at a busy worker: it is full, and enough is left for the others.
    fn has_plenty_of_items(&self) -> bool {
        if self.group.len() == 1 {
            return true;
        }
        let (entries, full) = (self.items.entries(), u64::from(self.full()));
        match self.source {
            ItemSupply::Open => entries >= full,
            ItemSupply::Closed => entries / (self.group.len() as u64).max(1) >= full.div_ceil(8),
        }
    }

    /// Returns the number of entries of the next bundle.
    fn share(&self) -> u32 {
        let entries = self.items.entries();
        let even = entries.div_ceil((self.group.idle() as u64).max(1));
        let least = u64::from(self.pace.entries_within(WORTH_A_MESSAGE));
        let guided = match self.source {
            _ if self.group.len() == 1 => even,
            ItemSupply::Open => even,
            ItemSupply::Closed => entries.div_ceil(2 * self.group.len() as u64).max(least).min(even),
        };
        u32::try_from(guided).unwrap_or(u32::MAX).clamp(1, self.full())
    }

    /// Returns the number of entries of a bundle while plenty is queued.
    fn full(&self) -> u32 {
        self.pace.entries_within(BUNDLE_TIME).clamp(1, self.limits.bundle_entries.max(1))
    }

    /// Gives `worker` a range of the first file that wants it in its team.
    fn give_range(&mut self, worker: usize, now: Duration, orders: &mut Vec<SchedulerOrder>) -> bool {
        let group = &self.group;
        match self.files.first_open_team(|file| group.holds_range_of(worker, file), now, orders) {
            Some(file) => self.give_range_of(file, worker, now, orders),
            None => false,
        }
    }

    /// Gives `worker` a range of its last file, or of the first file that has one, whatever the
    /// team size.
    fn give_any_range(&mut self, worker: usize, now: Duration, orders: &mut Vec<SchedulerOrder>) -> bool {
        match self.files.first_with_ranges(self.group.last_file(worker)) {
            Some(file) => self.give_range_of(file, worker, now, orders),
            None => false,
        }
    }

    fn give_range_of(
        &mut self,
        file: FileId,
        worker: usize,
        now: Duration,
        orders: &mut Vec<SchedulerOrder>,
    ) -> bool {
        let joins = !self.group.holds_range_of(worker, file);
        let Some(cut) = self.files.cut(file, joins, now) else { return false };
        self.group.assign(worker, Assignment::Range(file), now);
        orders.push(SchedulerOrder::Range {
            to: self.group.rank(worker),
            file,
            leader: cut.leader,
            range: cut.range,
            report_to: cut.report_to,
            ticket: cut.ticket,
        });
        true
    }

    fn give_items(&mut self, worker: usize, now: Duration, orders: &mut Vec<SchedulerOrder>) -> bool {
        let items = self.items.pop_bundle(self.share());
        if items.is_empty() {
            return false;
        }
        let entries = items.iter().map(|item| item.entries).sum();
        let bundle = Bundle { items: items.iter().map(|item| item.id).collect(), entries, given: now };
        self.group.assign(worker, Assignment::Bundle(bundle), now);
        orders.push(SchedulerOrder::Items { to: self.group.rank(worker), items });
        true
    }
}
