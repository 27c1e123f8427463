//! What a rank has to tell, collected by its workers and sent by its one thread that sends.
//!
//! Results go when a bundle is done, so that one of many small parts costs one message; and once a second besides, so that
//! progress shows.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haul_flow::{
    Context, DirNode, Entry, Job, Line, OpenFile, Problem, Report as Hears, RunInfo, Severity, Tally,
    Transfer,
};
use haul_sys::{Standard, Stat};

use crate::distributed::Distributed;
use crate::item::{
    CompletionSink, ItemKey, ItemOutcome, ItemSpec, LargeFile, PendingItem, Piece, WorkItem, item_of,
};
use crate::master::limits;
use crate::schedule::{FileId, ItemId, Limits};
use crate::seal::{self, Sealing};
use crate::stamp::Stamp;
use crate::transport::Rank;
use crate::wire::{
    FileOpened, FileOver, InitMessage, ItemOver, PackedLine, PackedProblem, RangeOver, Report, pack,
};

/// How long results may wait for others.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Seconds after which a rank knows how fast it is.
const MEASURED_AFTER: f64 = 0.5;

/// What a range that is being moved is told by.
struct RangeInHand {
    over: RangeOver,
    leader: Rank,
    began: Instant,
}

/// What is collected.
struct Collected {
    report: Report,
    /// When the first of it came.
    since: Option<Instant>,
    /// Parts that are left of each bundle, and the bundle of each part.
    bundles: HashMap<u64, usize>,
    bundle_of: HashMap<ItemId, u64>,
    /// Whether a bundle is whole since the last report.
    whole: bool,
    /// When the first part or range came, and the bytes moved since.
    rate: Option<(Instant, u64)>,
    /// What went wrong in parts and pieces that are not over.
    problems: HashMap<ItemKey, Vec<PackedProblem>>,
    /// Those of them with an error.
    flawed: HashSet<ItemKey>,
    /// Ranges in hand, by the numbers of their pieces.
    ranges: HashMap<u64, RangeInHand>,
    /// Ranges that are over, to be told to other ranks.
    moved: Vec<(Rank, RangeOver)>,
    next: u64,
}

impl Collected {
    /// Takes what went wrong in a part or a piece; tells first whether there was no error.
    fn take_problems(&mut self, key: ItemKey) -> (bool, Vec<PackedProblem>) {
        (!self.flawed.remove(&key), self.problems.remove(&key).unwrap_or_default())
    }
}

/// A file this rank leads.
pub(crate) struct Led<T: Distributed> {
    /// The file.
    pub(crate) file: Arc<OpenFile<T>>,
    /// Bytes that are not yet known to be moved.
    pub(crate) left: u64,
    /// Whether a range was not moved.
    pub(crate) failed: bool,
}

/// The send-queue of a rank.
pub(crate) struct SendQueue<T: Distributed> {
    rank: Rank,
    limits: Limits,
    debug: bool,
    attempt: u32,
    leader_counts: bool,
    flushes: bool,
    collected: Mutex<Collected>,
    sealing: Mutex<Sealing<T>>,
    led: Mutex<HashMap<FileId, Led<T>>>,
}

impl<T: Distributed + 'static> SendQueue<T> {
    pub(crate) fn new(rank: Rank, init_message: &InitMessage) -> Self {
        let collected = Collected {
            report: Report::default(),
            since: None,
            bundles: HashMap::new(),
            bundle_of: HashMap::new(),
            whole: false,
            rate: None,
            problems: HashMap::new(),
            flawed: HashSet::new(),
            ranges: HashMap::new(),
            moved: Vec::new(),
            next: 1,
        };
        Self {
            rank,
            limits: limits(init_message),
            debug: init_message.debug,
            attempt: init_message.attempt,
            leader_counts: init_message.leader_counts,
            flushes: init_message.flushes,
            collected: Mutex::new(collected),
            sealing: Mutex::default(),
            led: Mutex::default(),
        }
    }

    fn collected(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sealing(&self) -> MutexGuard<'_, Sealing<T>> {
        self.sealing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the files this rank leads.
    pub(crate) fn led(&self) -> MutexGuard<'_, HashMap<FileId, Led<T>>> {
        self.led.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: impl FnOnce(&mut Report)) {
        let mut collected = self.collected();
        collected.since.get_or_insert_with(Instant::now);
        change(&mut collected.report);
    }

    /// Records that a bundle was given to this rank.
    pub(crate) fn begin_bundle(&self, parts: impl ExactSizeIterator<Item = ItemId>) {
        let mut collected = self.collected();
        let bundle = collected.next;
        collected.next += 1;
        collected.rate.get_or_insert_with(|| (Instant::now(), 0));
        collected.bundles.insert(bundle, parts.len());
        for part in parts {
            collected.bundle_of.insert(part, bundle);
        }
    }

    /// Says how many parts this rank has to do.
    pub(crate) fn parts_in_hand(&self) -> usize {
        self.collected().bundle_of.len()
    }

    /// Records that a range was given to this rank; returns the number its piece is to have.
    pub(crate) fn begin_range(&self, over: RangeOver, leader: Rank) -> u64 {
        let mut collected = self.collected();
        collected.rate.get_or_insert_with(|| (Instant::now(), 0));
        let number = collected.next;
        collected.next += 1;
        collected.ranges.insert(number, RangeInHand { over, leader, began: Instant::now() });
        number
    }

    /// Records that a part could not even be begun.
    pub(crate) fn refuse_part(&self, part: ItemId, problem: Problem) {
        CompletionSink::note(self, ItemKey::Item(part.0), problem);
        self.part_over(part, ItemOutcome::default());
    }

    fn part_over(&self, part: ItemId, outcome: ItemOutcome) {
        let mut collected = self.collected();
        let bundle = collected.bundle_of.remove(&part).unwrap_or_default();
        if let Some(left) = collected.bundles.get_mut(&bundle) {
            *left -= 1;
            if *left == 0 {
                collected.bundles.remove(&bundle);
                collected.whole = true;
            }
        }
        let (flawless, problems) = collected.take_problems(ItemKey::Item(part.0));
        collected.since.get_or_insert_with(Instant::now);
        collected.report.parts.push(ItemOver { part, outcome, flawless, problems });
    }

    /// Records that a range is over.
    pub(crate) fn range_over(&self, number: u64, moved: bool) {
        let mut collected = self.collected();
        let Some(range) = collected.ranges.remove(&number) else { return };
        let (_, problems) = collected.take_problems(ItemKey::Piece(number));
        let over = RangeOver { took: range.began.elapsed(), moved, problems, ..range.over };
        collected.since.get_or_insert_with(Instant::now);
        if self.leader_counts {
            collected.moved.push((range.leader, over));
        } else {
            collected.report.ranges.push(over);
        }
    }

    /// Passes on what a member has told a leader that counts.
    pub(crate) fn pass_on(&self, over: RangeOver) {
        self.add(|report| report.ranges.push(over));
    }

    /// Takes what is to be told to the leaders of others' files.
    pub(crate) fn take_moved(&self) -> Vec<(Rank, RangeOver)> {
        std::mem::take(&mut self.collected().moved)
    }

    /// Takes the report, if it is time.
    pub(crate) fn take_if_due(&self) -> Option<Report> {
        let mut collected = self.collected();
        let since = collected.since?;
        let urgent = collected.whole
            || collected.report.called_off
            || !collected.report.opened.is_empty()
            || !collected.report.files.is_empty()
            || !collected.report.ranges.is_empty();
        if !urgent && since.elapsed() < WAIT_MAX {
            return None;
        }
        (collected.since, collected.whole) = (None, false);
        Some(std::mem::take(&mut collected.report))
    }

    /// Has rank 0 told that the run is cancelled.
    pub(crate) fn note_cancelled(&self) {
        self.add(|report| report.called_off = true);
    }

    /// Takes whatever there is.
    pub(crate) fn take_all(&self) -> Report {
        let mut collected = self.collected();
        collected.since = None;
        std::mem::take(&mut collected.report)
    }
}

/// Counts the bytes that are in any of some ranges: in two of them, they are there all the same only once.
fn covered(ranges: &[Range<u64>]) -> u64 {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut bytes, mut end) = (0, 0);
    for range in ranges {
        bytes += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    bytes
}

impl<T: Distributed + 'static> CompletionSink<T> for SendQueue<T> {
    fn done(&self, part: &WorkItem<T>) {
        if part.item.piece.is_some() {
            return self.range_over(part.item.number, part.was_moved());
        }
        self.part_over(ItemId(part.item.number), part.outcome());
    }

    fn seal(&self, cx: &Context<'_, T>, node: &Arc<DirNode<T>>) {
        if self.sealing().add(Arc::clone(node)) {
            let node = Arc::clone(node);
            cx.share(Job::Visit(Box::new(move |cx| {
                if let Some(part) = item_of(&*node) {
                    part.sink.flush(cx);
                }
            })));
        }
    }

    fn flush(&self, cx: &Context<'_, T>) {
        loop {
            // The lock is not held while the file systems are at work: others add what comes next.
            let nodes = self.sealing().take();
            if nodes.is_empty() {
                return;
            }
            seal::flush(cx, nodes);
        }
    }

    fn note(&self, key: ItemKey, problem: Problem) {
        let mut collected = self.collected();
        if problem.severity == Severity::Error {
            collected.flawed.insert(key);
        }
        collected.problems.entry(key).or_default().push(PackedProblem::from(problem));
    }

    fn flushes(&self) -> bool {
        self.flushes
    }

    fn large(&self, stat: &Stat) -> Option<u64> {
        let mut collected = self.collected();
        let rate = collected.rate.and_then(|(began, bytes)| {
            let seconds = began.elapsed().as_secs_f64();
            (seconds > MEASURED_AFTER).then(|| bytes as f64 / seconds)
        });
        if !self.limits.is_large(stat.size, rate) {
            return None;
        }
        let number = collected.next;
        collected.next += 1;
        // No two ranks, and no two attempts, give the same number.
        Some(u64::from(self.attempt) << 56 | u64::from(self.rank.0) << 32 | number)
    }

    fn begun(&self, tool: &T, number: u64, large: LargeFile<T>) {
        let LargeFile { file, transfer, ticket } = large;
        let Some(part) = item_of(&file.entry.node) else { return };
        let begun = part.item.begun.as_ref().filter(|begun| begun.ticket == ticket);
        let done = begun.map(|begun| begun.done.clone()).unwrap_or_default();
        let piece = Piece {
            range: 0..0,
            size: file.stat.size,
            by_kernel: matches!(transfer, Transfer::Kernel(_)),
            ticket: ticket.clone(),
        };
        let item = ItemSpec { piece: Some(piece), ..ItemSpec::default() };
        let member = PendingItem::of_one(file.entry.clone()).pack(tool, item);
        let left = file.stat.size.saturating_sub(covered(&done));
        let striping = tool.striping(&file);
        let opened = FileOpened {
            file: FileId(number),
            part: ItemId(part.item.number),
            name: file.entry.name().to_owned(),
            size: file.stat.size,
            stripe_bytes: striping.map_or(0, |striping| striping.stripe_bytes),
            stripes: striping.map_or(1, |striping| striping.stripes),
            done,
            ticket,
            member: pack(&member),
        };
        self.led().insert(FileId(number), Led { file: Arc::clone(&file), left, failed: false });
        self.add(|report| report.opened.push(opened));
    }

    fn over(&self, cx: &Context<'_, T>, entry: &Entry<T>, number: u64, moved: bool) {
        let part = item_of(&entry.node);
        let stamp = part.filter(|_| moved).map_or(Stamp::NONE, |part| part.stamp_of(cx, entry));
        let mut collected = self.collected();
        // Its part is over, or its other entries are still to come: their problems go along.
        let problems = part.and_then(|part| collected.problems.remove(&part.key()));
        let over = FileOver { file: FileId(number), moved, stamp, problems: problems.unwrap_or_default() };
        collected.since.get_or_insert_with(Instant::now);
        collected.report.files.push(over);
    }
}

impl<T: Distributed + 'static> Hears for SendQueue<T> {
    fn started(&self, _: RunInfo) {}

    fn count(&self, more: Tally) {
        let mut collected = self.collected();
        collected.since.get_or_insert_with(Instant::now);
        collected.report.news.tally += more;
        if let Some((_, bytes)) = &mut collected.rate {
            *bytes += more.bytes;
        }
    }

    fn problem(&self, problem: Problem) {
        let mut collected = self.collected();
        collected.since.get_or_insert_with(Instant::now);
        collected.report.news.problems.push(PackedProblem::from(problem));
    }

    fn line(&self, line: Line) {
        self.add(|report| report.news.lines.push(PackedLine::from(&line)));
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        self.add(|report| report.news.output.push((stream, bytes.to_vec())));
    }

    fn debug(&self, text: &str) {
        if self.debug {
            self.add(|report| report.news.remarks.push(text.to_owned()));
        }
    }

    fn wants_debug(&self) -> bool {
        self.debug
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_two_ranges_counts_once() {
        assert_eq!(covered(&[]), 0);
        assert_eq!(covered(&[10..20, 0..5]), 15);
        assert_eq!(covered(&[10..20, 0..15, 12..14, 20..30]), 30);
    }
}
