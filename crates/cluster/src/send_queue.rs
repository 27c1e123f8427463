//! Send queue of a rank: workers add results, and the one thread that sends takes them.
//!
//! Results are sent when a bundle is complete, so that many small work items cost one message, and
//! in any case once a second to show progress.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use haul_flow::{
    Context, DirNode, Entry, EntryReport, Job, OpenFile, OutputLine, Problem, Reporter, RunInfo, Severity,
    Tally, Transfer, lock,
};
use haul_journal::Stamp;
use haul_sys::{Standard, Stat};

use crate::distributed::Distributed;
use crate::item::{
    CompletionSink, ItemKey, ItemOutcome, ItemSpec, LargeFile, LargeFileRange, PendingItem, WorkItem, item_of,
};
use crate::master::limits;
use crate::schedule::{FileId, ItemId, Limits};
use crate::seal::{self, Sealing};
use crate::transport::Rank;
use crate::wire::{
    FileDone, FileOpened, InitMessage, ItemDone, PackedLine, PackedProblem, ProgressReport, RangeDone, pack,
};

/// Maximum time results wait for others.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Maximum size of the outcomes of work items in a report, in bytes. A single item may exceed it;
/// `owner.rs` limits that.
const OUTCOME_BYTES_MAX: usize = 64 << 20;

/// Seconds before a rank trusts its own measured rate.
const MEASURED_AFTER: f64 = 0.5;

/// A range that is being moved.
struct RangeAssignment {
    done: RangeDone,
    leader: Rank,
    /// The value of [`Collected::share`] when the range began.
    began: Duration,
}

/// Results waiting to be sent.
#[derive(Default)]
struct Collected {
    report: ProgressReport,
    /// When the first of them was added.
    since: Option<Instant>,
    /// Items left of each bundle, and the bundle of each item.
    bundles: HashMap<u64, usize>,
    bundle_of: HashMap<ItemId, u64>,
    /// True if a bundle was completed since the last report.
    whole: bool,
    /// When the first item or range arrived, and the bytes moved since.
    rate: Option<(Instant, u64)>,
    /// Problems of items, ranges and large files in hand.
    problems: HashMap<ItemKey, Vec<PackedProblem>>,
    /// Items, ranges and large files in hand that had an error.
    with_errors: HashSet<ItemKey>,
    /// Ranges in hand, by number.
    ranges: HashMap<u64, RangeAssignment>,
    /// Completed ranges to be reported to their leaders.
    moved: Vec<(Rank, RangeDone)>,
    /// Time of this rank that each range in hand has received so far, and when that was updated.
    share: (Duration, Option<Instant>),
    next: u64,
}

impl Collected {
    /// Returns the problems of an item, range or large file, and true if none is an error.
    fn take_problems(&mut self, key: ItemKey) -> (bool, Vec<PackedProblem>) {
        (!self.with_errors.remove(&key), self.problems.remove(&key).unwrap_or_default())
    }

    /// Divides the time since the last call among the ranges in hand. They are moved concurrently:
    /// counting the time once for each would underestimate the rank's rate.
    fn divide_time(&mut self) {
        let now = Instant::now();
        let (share, since) = &mut self.share;
        if let (Some(since), Ok(count @ 1..)) = (*since, u32::try_from(self.ranges.len())) {
            *share += (now - since) / count;
        }
        *since = Some(now);
    }

    /// Moves the bytes of a range from the counts of the next report to the range's own. Otherwise
    /// they would be lost if this rank died after others learned that the range was moved, and
    /// before the report was sent.
    fn take_counted(&mut self, range: &Range<u64>) -> u64 {
        let counted = &mut self.report.user_output.tally.bytes;
        // An earlier report may have some of them.
        let bytes = (*counted).min(range.end - range.start);
        *counted -= bytes;
        bytes
    }

    /// Returns the bytes per second moved so far, once that was measured for long enough.
    fn rate(&self) -> Option<f64> {
        let (began, bytes) = self.rate?;
        let seconds = began.elapsed().as_secs_f64();
        (seconds > MEASURED_AFTER).then(|| bytes as f64 / seconds)
    }

    /// Returns the results so far. Items that don't fit in one message are left, and due at once.
    fn take_report(&mut self) -> ProgressReport {
        let mut report = std::mem::take(&mut self.report);
        let mut bytes = 0;
        let fits = |done: &&ItemDone| {
            bytes += done.outcome.bytes();
            bytes <= OUTCOME_BYTES_MAX
        };
        let count = report.items.iter().take_while(fits).count().max(1);
        if count < report.items.len() {
            // The announced files, which must not come after their items, are in the first report.
            self.report.items = report.items.split_off(count);
            self.whole = true;
        } else {
            (self.since, self.whole) = (None, false);
        }
        report
    }
}

/// A file led by this rank.
pub(crate) struct LedFile<T: Distributed> {
    pub(crate) file: Arc<OpenFile<T>>,
    /// Bytes not yet reported as moved.
    pub(crate) left: u64,
    /// True if a range failed.
    pub(crate) failed: bool,
}

pub(crate) struct SendQueue<T: Distributed> {
    rank: Rank,
    limits: Limits,
    debug: bool,
    reports_entries: bool,
    attempt: u32,
    leader_counts: bool,
    flushes: bool,
    collected: Mutex<Collected>,
    sealing: Mutex<Sealing<T>>,
    led: Mutex<HashMap<FileId, LedFile<T>>>,
}

impl<T: Distributed + 'static> SendQueue<T> {
    pub(crate) fn new(rank: Rank, init_message: &InitMessage) -> Self {
        let collected = Collected { next: 1, ..Collected::default() };
        Self {
            rank,
            limits: limits(init_message),
            debug: init_message.debug,
            reports_entries: init_message.reports_entries,
            attempt: init_message.attempt,
            leader_counts: init_message.leader_counts,
            flushes: init_message.flushes,
            collected: Mutex::new(collected),
            sealing: Mutex::default(),
            led: Mutex::default(),
        }
    }

    fn collected(&self) -> MutexGuard<'_, Collected> {
        lock(&self.collected)
    }

    fn sealing(&self) -> MutexGuard<'_, Sealing<T>> {
        lock(&self.sealing)
    }

    pub(crate) fn led(&self) -> MutexGuard<'_, HashMap<FileId, LedFile<T>>> {
        lock(&self.led)
    }

    fn add(&self, change: impl FnOnce(&mut ProgressReport)) {
        let mut collected = self.collected();
        collected.since.get_or_insert_with(Instant::now);
        change(&mut collected.report);
    }

    /// Records that this rank received a bundle.
    pub(crate) fn begin_bundle(&self, items: impl ExactSizeIterator<Item = ItemId>) {
        let mut collected = self.collected();
        let bundle = collected.next;
        collected.next += 1;
        collected.rate.get_or_insert_with(|| (Instant::now(), 0));
        collected.bundles.insert(bundle, items.len());
        for item in items {
            collected.bundle_of.insert(item, bundle);
        }
    }

    /// Returns the number of work items this rank has in hand.
    pub(crate) fn items_in_hand(&self) -> usize {
        self.collected().bundle_of.len()
    }

    /// Records that this rank received a range. Returns the range's number.
    pub(crate) fn begin_range(&self, done: RangeDone, leader: Rank) -> u64 {
        let mut collected = self.collected();
        collected.rate.get_or_insert_with(|| (Instant::now(), 0));
        let number = collected.next;
        collected.next += 1;
        collected.divide_time();
        let began = collected.share.0;
        collected.ranges.insert(number, RangeAssignment { done, leader, began });
        number
    }

    /// Records that a work item could not be started.
    pub(crate) fn refuse_item(&self, item: ItemId, problem: Problem) {
        CompletionSink::note(self, ItemKey::Item(item.0), problem);
        self.item_done(item, ItemOutcome::default());
    }

    fn item_done(&self, item: ItemId, outcome: ItemOutcome) {
        let mut collected = self.collected();
        let bundle = collected.bundle_of.remove(&item).unwrap_or_default();
        if let Some(left) = collected.bundles.get_mut(&bundle) {
            *left -= 1;
            if *left == 0 {
                collected.bundles.remove(&bundle);
                collected.whole = true;
            }
        }
        let (error_free, problems) = collected.take_problems(ItemKey::Item(item.0));
        collected.since.get_or_insert_with(Instant::now);
        collected.report.items.push(ItemDone { item, outcome, error_free, problems });
    }

    pub(crate) fn range_done(&self, number: u64, moved: bool, result: Vec<u8>) {
        let mut collected = self.collected();
        collected.divide_time();
        let Some(range) = collected.ranges.remove(&number) else { return };
        let (_, problems) = collected.take_problems(ItemKey::Range(number));
        let took = collected.share.0.saturating_sub(range.began);
        let bytes = collected.take_counted(&range.done.range);
        let done = RangeDone { took, moved, bytes, result, problems, ..range.done };
        collected.since.get_or_insert_with(Instant::now);
        if self.leader_counts {
            collected.moved.push((range.leader, done));
        } else {
            collected.report.ranges.push(done);
        }
    }

    /// Forwards a member's report of a range to the master.
    pub(crate) fn forward(&self, done: RangeDone) {
        self.add(|report| report.ranges.push(done));
    }

    /// Returns completed ranges to be reported to the leaders of their files.
    pub(crate) fn take_moved(&self) -> Vec<(Rank, RangeDone)> {
        std::mem::take(&mut self.collected().moved)
    }

    /// Returns the report if it is due.
    pub(crate) fn take_if_due(&self) -> Option<ProgressReport> {
        let mut collected = self.collected();
        let since = collected.since?;
        // Others are waiting for these: rank 0 to assign more work, a file's leader for its ranges,
        // everybody for a cancellation.
        let urgent = collected.whole
            || collected.report.cancelled
            || !collected.report.opened.is_empty()
            || !collected.report.files.is_empty()
            || !collected.report.ranges.is_empty();
        if !urgent && since.elapsed() < WAIT_MAX {
            return None;
        }
        Some(collected.take_report())
    }

    /// Records that the run is cancelled, for the next report.
    pub(crate) fn note_cancelled(&self) {
        self.add(|report| report.cancelled = true);
    }

    /// Returns everything collected so far, in at least one report.
    pub(crate) fn take_all(&self) -> Vec<ProgressReport> {
        let mut collected = self.collected();
        let mut reports = vec![collected.take_report()];
        while collected.since.is_some() {
            reports.push(collected.take_report());
        }
        reports
    }
}

/// Counts the bytes covered by `ranges`, overlaps once.
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
    fn done(&self, item: &WorkItem<T>) {
        if item.spec.piece.is_some() {
            return self.range_done(item.spec.number, item.was_moved(), item.range_result());
        }
        self.item_done(ItemId(item.spec.number), item.outcome());
    }

    fn seal(&self, cx: &Context<'_, T>, node: &Arc<DirNode<T>>) {
        if self.sealing().add(Arc::clone(node)) {
            let node = Arc::clone(node);
            cx.share(Job::Callback(Box::new(move |cx| {
                if let Some(item) = item_of(&*node) {
                    item.sink.flush(cx);
                }
            })));
        }
    }

    fn flush(&self, cx: &Context<'_, T>) {
        loop {
            // Release the lock while file systems flush, so that others can add items.
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
            collected.with_errors.insert(key);
        }
        collected.problems.entry(key).or_default().push(PackedProblem::from(problem));
    }

    fn flushes(&self) -> bool {
        self.flushes
    }

    fn is_large(&self, size: u64) -> bool {
        // Called for every file, most of which need no lock.
        self.limits.is_large(size, None) && self.limits.is_large(size, self.collected().rate())
    }

    fn number_large_file(&self, stat: &Stat) -> Option<u64> {
        let mut collected = self.collected();
        if !self.limits.is_large(stat.size, collected.rate()) {
            return None;
        }
        let number = collected.next;
        collected.next += 1;
        // Unique across ranks and attempts.
        Some(u64::from(self.attempt) << 56 | u64::from(self.rank.0) << 32 | number)
    }

    fn file_opened(&self, tool: &T, number: u64, large: LargeFile<T>) {
        let LargeFile { file, transfer, ticket } = large;
        let Some(item) = item_of(&file.entry.node) else { return };
        // With another ticket the target is another one, which doesn't have those ranges.
        let begun = item.spec.begun.as_ref().filter(|begun| begun.ticket == ticket);
        let done = begun.map(|begun| begun.done.clone()).unwrap_or_default();
        let results = if done.is_empty() { &[] } else { item.spec.begun_results.as_slice() };
        let failed = !tool.add_ranges(&file, results);
        let piece = LargeFileRange {
            range: 0..0,
            size: file.stat.size,
            by_kernel: matches!(transfer, Transfer::Kernel(_)),
            ticket: ticket.clone(),
        };
        let spec = ItemSpec { piece: Some(piece), ..ItemSpec::default() };
        let member = PendingItem::of_one(file.entry.clone()).pack(tool, spec);
        let left = file.stat.size.saturating_sub(covered(&done));
        let striping = tool.striping(&file);
        let opened = FileOpened {
            file: FileId(number),
            item: ItemId(item.spec.number),
            name: file.entry.name().to_owned(),
            size: file.stat.size,
            stripe_bytes: striping.map_or(0, |striping| striping.stripe_bytes),
            stripes: striping.map_or(1, |striping| striping.stripes),
            done,
            ticket,
            member: pack(&member),
        };
        // Before it is announced: reports of ranges may arrive as soon as it is.
        self.led().insert(FileId(number), LedFile { file: Arc::clone(&file), left, failed });
        self.add(|report| report.opened.push(opened));
    }

    fn file_closed(&self, cx: &Context<'_, T>, entry: &Entry<T>, number: u64, moved: bool) {
        let item = item_of(&entry.node);
        let stamp = item.filter(|_| moved).map_or(Stamp::NONE, |item| item.stamp_of(cx, entry));
        let emitted = item.map(|item| item.take_emitted(entry.name())).unwrap_or_default();
        let mut collected = self.collected();
        let (_, problems) = collected.take_problems(ItemKey::Large(number));
        let done = FileDone { file: FileId(number), moved, stamp, emitted, problems };
        collected.since.get_or_insert_with(Instant::now);
        collected.report.files.push(done);
    }
}

impl<T: Distributed + 'static> Reporter for SendQueue<T> {
    fn started(&self, _: RunInfo) {}

    fn count(&self, more: Tally) {
        let mut collected = self.collected();
        collected.since.get_or_insert_with(Instant::now);
        collected.report.user_output.tally += more;
        if let Some((_, bytes)) = &mut collected.rate {
            *bytes += more.bytes;
        }
    }

    fn problem(&self, problem: Problem) {
        let mut collected = self.collected();
        collected.since.get_or_insert_with(Instant::now);
        collected.report.user_output.problems.push(PackedProblem::from(problem));
    }

    fn line(&self, line: OutputLine) {
        self.add(|report| report.user_output.lines.push(PackedLine::from(&line)));
    }

    fn entry(&self, entry: EntryReport) {
        self.add(|report| report.user_output.entries.push(entry));
    }

    fn wants_entries(&self) -> bool {
        self.reports_entries
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        self.add(|report| report.user_output.output.push((stream, bytes.to_vec())));
    }

    fn debug(&self, text: &str) {
        if self.debug {
            self.add(|report| report.user_output.remarks.push(text.to_owned()));
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

    #[test]
    fn the_bytes_of_a_range_are_counted_with_it_and_once() {
        let mut collected = Collected::default();
        collected.report.user_output.tally.bytes = 100;
        assert_eq!([10..40, 40..100, 0..20].map(|range| collected.take_counted(&range)), [30, 60, 10]);
        assert_eq!(collected.report.user_output.tally.bytes, 0);
    }

    #[test]
    fn a_report_has_no_more_than_fits_in_a_message() {
        let done = |item, bytes| {
            let outcome =
                ItemOutcome { emitted: vec![(c"f".to_owned(), vec![0; bytes])], ..Default::default() };
            ItemDone { item: ItemId(item), outcome, error_free: true, problems: Vec::new() }
        };
        let most = OUTCOME_BYTES_MAX;
        let sizes = [most / 2, most / 2, 1, 2 * most, 2 * most, most, 0, 0];
        let mut collected = Collected { since: Some(Instant::now()), ..Collected::default() };
        collected.report.items = (0..).zip(sizes).map(|(item, bytes)| done(item, bytes)).collect();
        let mut reports = Vec::new();
        while collected.since.is_some() {
            let report = collected.take_report();
            reports.push(report.items.iter().map(|done| done.item.0).collect::<Vec<_>>());
            assert_eq!(collected.whole, collected.since.is_some(), "the rest is due at once");
        }
        assert_eq!(reports, [vec![0, 1], vec![2], vec![3], vec![4], vec![5, 6, 7]]);
    }
}
