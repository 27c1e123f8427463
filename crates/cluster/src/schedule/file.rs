//! Large files: their ranges, the ranks that count these, and the sizes of their teams.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_flow::plan;

use super::group::Membership;
use super::team::{self, Rates, TeamChoice, TeamInputs, megabytes};
use super::{CountedBy, FileId, LargeFile, Limits, RANGE_UNIT, SchedulerOrder};
use crate::transport::Rank;

/// All large files in progress, in the order of announcement.
#[derive(Debug)]
pub(crate) struct FileSchedules {
    limits: Limits,
    workers: usize,
    positions: HashMap<FileId, u64>,
    files: BTreeMap<u64, FileSchedule>,
    /// Files with ranges left to give.
    with_ranges: BTreeSet<u64>,
    announced: u64,
    bytes_left: u64,
    rates: Rates,
}

#[derive(Debug)]
struct FileSchedule {
    id: FileId,
    leader: Rank,
    counted_by: CountedBy,
    ticket: Arc<[u8]>,
    inputs: TeamInputs,
    ranges: Ranges,
    /// Bytes to copy when it was announced, and of ranges that aren't complete yet.
    bytes: u64,
    bytes_left: u64,
    in_hand: u64,
    members: usize,
    failed: bool,
    is_reported: bool,
    team: Team,
    began: Option<Duration>,
    /// Seconds from beginning to end, as last predicted before half of the file was copied.
    predicted: Option<f64>,
}

/// Size of a team, and the inputs it was chosen for.
#[derive(Clone, Copy, Debug, Default)]
struct Team {
    clients: usize,
    key: Option<Key>,
}

/// Inputs of a choice. Rates are rounded to steps of about a tenth, so that the team is not chosen
/// again for every range.
type Key = (usize, u64, u64);

/// A range cut off a file, with the ranks it concerns.
pub(crate) struct Cut {
    pub(crate) range: Range<u64>,
    pub(crate) leader: Rank,
    pub(crate) report_to: Rank,
    pub(crate) ticket: Arc<[u8]>,
}

/// Outcome of a range.
pub(crate) struct RangeOutcome {
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    pub(crate) moved: bool,
    pub(crate) membership: Membership,
}

impl FileSchedules {
    pub(crate) fn new(workers: usize, limits: Limits) -> Self {
        Self {
            limits,
            workers,
            positions: HashMap::new(),
            files: BTreeMap::new(),
            with_ranges: BTreeSet::new(),
            announced: 0,
            bytes_left: 0,
            rates: Rates::default(),
        }
    }

    /// True if every announced file is complete.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the bytes of ranges not yet given.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// True if there is at least one range per worker.
    pub(crate) fn has_plenty(&self) -> bool {
        self.bytes_left / self.workers.max(1) as u64 >= self.limits.range_bytes_least(self.rates.client)
    }

    /// Returns the size of the next range, in bytes.
    fn step(&self) -> u64 {
        self.limits.range_bytes(self.bytes_left, self.workers, self.rates.client)
    }

    /// Adds a file. Ignores a number that is in use.
    pub(crate) fn open(&mut self, file: LargeFile, orders: &mut Vec<SchedulerOrder>) {
        if self.positions.contains_key(&file.id) {
            return;
        }
        let ranges = Ranges::new(&file);
        let position = self.announced;
        self.announced += 1;
        self.positions.insert(file.id, position);
        self.bytes_left += ranges.bytes;
        if ranges.bytes > 0 {
            self.with_ranges.insert(position);
        }
        let range_bytes = self.limits.range_bytes_least(self.rates.client).max(ranges.unit);
        let stripes = file.stripes.max(1);
        let inputs =
            TeamInputs { bytes: ranges.bytes, stripes, range_bytes, clients: self.workers, waiting: 0 };
        let mut file = FileSchedule {
            id: file.id,
            leader: file.leader,
            // If an earlier attempt has moved everything, the leader would wait for ranges that
            // never come.
            counted_by: if ranges.bytes > 0 { file.counted_by } else { CountedBy::Master },
            ticket: file.ticket.into(),
            inputs,
            bytes: ranges.bytes,
            bytes_left: ranges.bytes,
            ranges,
            in_hand: 0,
            members: 0,
            failed: false,
            is_reported: false,
            team: Team::default(),
            began: None,
            predicted: None,
        };
        file.report_when_done(orders);
        self.files.insert(position, file);
    }

    /// Removes a file that its leader has finished, and drops its remaining ranges.
    pub(crate) fn close(&mut self, id: FileId, now: Duration, orders: &mut Vec<SchedulerOrder>) {
        let Some(position) = self.positions.remove(&id) else { return };
        self.drop_ranges(position);
        if let Some(file) = self.files.remove(&position)
            && self.limits.remarks
            && let (Some(began), Some(predicted)) = (file.began, file.predicted)
        {
            let took = now.saturating_sub(began).as_secs_f64();
            let bytes = megabytes(file.bytes);
            orders.push(SchedulerOrder::Remark(format!(
                "file {}: {bytes} MB took {took:.2} s, {predicted:.2} s were predicted",
                id.0
            )));
        }
    }

    /// Counts a completed range.
    pub(crate) fn range_done(
        &mut self,
        id: FileId,
        outcome: &RangeOutcome,
        orders: &mut Vec<SchedulerOrder>,
    ) {
        let Some(&position) = self.positions.get(&id) else { return };
        let Some(file) = self.files.get_mut(&position) else { return };
        if outcome.moved {
            let seconds = outcome.took.as_secs_f64();
            self.rates.observe(outcome.bytes, seconds, file.members, file.inputs.stripes);
        }
        file.in_hand = file.in_hand.saturating_sub(1);
        file.bytes_left = file.bytes_left.saturating_sub(outcome.bytes);
        if outcome.membership == Membership::Ended {
            file.members = file.members.saturating_sub(1);
        }
        // The file has failed: moving the rest would be in vain.
        if !outcome.moved {
            file.failed = true;
            self.drop_ranges(position);
        }
        if let Some(file) = self.files.get_mut(&position) {
            file.report_when_done(orders);
        }
    }

    /// Returns the first file whose team has room for a worker, or that wants to keep it;
    /// `is_member` is true for files it already works on.
    pub(crate) fn first_open_team(
        &mut self,
        is_member: impl Fn(FileId) -> bool,
        now: Duration,
        orders: &mut Vec<SchedulerOrder>,
    ) -> Option<FileId> {
        let waiting = self.with_ranges.len().saturating_sub(1);
        let key = self.rates.key(TeamInputs::share(self.workers, waiting));
        for position in &self.with_ranges {
            let Some(file) = self.files.get_mut(position) else { continue };
            if file.team.key != Some(key) {
                let choice = file.choose(key, waiting, &self.rates, now);
                if let Some(choice) = choice.filter(|_| self.limits.remarks) {
                    let remark = choice.remark(&file.inputs, &self.rates);
                    orders.push(SchedulerOrder::Remark(format!("file {}: {remark}", file.id.0)));
                }
            }
            // A member has both files open; another worker would have to open them.
            if file.members < file.team.clients || file.members == file.team.clients && is_member(file.id) {
                return Some(file.id);
            }
        }
        None
    }

    /// Returns a file with ranges left: `preferred` if it has any, otherwise the first.
    pub(crate) fn first_with_ranges(&self, preferred: Option<FileId>) -> Option<FileId> {
        let preferred = preferred
            .and_then(|id| self.positions.get(&id))
            .filter(|position| self.with_ranges.contains(position));
        preferred
            .or_else(|| self.with_ranges.first())
            .and_then(|position| self.files.get(position))
            .map(|file| file.id)
    }

    /// Cuts the next range off a file, for a worker that `joins` its team or already belongs to it.
    pub(crate) fn cut(&mut self, id: FileId, joins: bool, now: Duration) -> Option<Cut> {
        let step = self.step();
        let position = self.positions.get(&id)?;
        let file = self.files.get_mut(position)?;
        let range = file.ranges.next(step)?;
        self.bytes_left -= range.end - range.start;
        if file.ranges.bytes == 0 {
            self.with_ranges.remove(position);
        }
        file.in_hand += 1;
        file.members += usize::from(joins);
        file.began.get_or_insert(now);
        let report_to = match file.counted_by {
            CountedBy::Leader => file.leader,
            CountedBy::Master => Rank::MASTER,
        };
        Some(Cut { range, leader: file.leader, report_to, ticket: Arc::clone(&file.ticket) })
    }

    fn drop_ranges(&mut self, position: u64) {
        self.with_ranges.remove(&position);
        if let Some(file) = self.files.get_mut(&position) {
            self.bytes_left -= file.ranges.bytes;
            file.ranges = Ranges::default();
        }
    }
}

impl FileSchedule {
    /// Reports the last range to the leader, once, if the master counts.
    fn report_when_done(&mut self, orders: &mut Vec<SchedulerOrder>) {
        if self.counted_by == CountedBy::Master
            && !self.is_reported
            && self.in_hand == 0
            && self.ranges.bytes == 0
        {
            self.is_reported = true;
            orders.push(SchedulerOrder::RangesDone { to: self.leader, file: self.id, moved: !self.failed });
        }
    }

    /// Chooses the team anew, for `waiting` other files. Returns the choice if the size changes.
    fn choose(&mut self, key: Key, waiting: usize, rates: &Rates, now: Duration) -> Option<TeamChoice> {
        self.inputs.waiting = waiting;
        // On average, half of a range in hand is copied.
        let copied = self.in_hand * self.inputs.range_bytes / 2;
        self.inputs.bytes = self.bytes_left.saturating_sub(copied);
        let choice = team::choose(&self.inputs, rates);
        if self.inputs.bytes >= self.bytes / 2 {
            // Members beyond the team leave one by one, when their ranges are complete.
            let clients = choice.clients.max((choice.clients + self.members).div_ceil(2));
            let left = team::predict(&self.inputs, rates, clients);
            let passed = self.began.map_or(0.0, |began| now.saturating_sub(began).as_secs_f64());
            self.predicted = left.map(|left| passed + left).or(self.predicted);
        }
        let changes = choice.clients != self.team.clients;
        self.team = Team { clients: choice.clients, key: Some(key) };
        changes.then_some(choice)
    }
}

/// The rest of a file. Ranges are cut on demand, because the right size is known better by then.
#[derive(Debug, Default)]
struct Ranges {
    gaps: VecDeque<Range<u64>>,
    bytes: u64,
    /// Ranges are cut at multiples of this, in bytes.
    unit: u64,
}

impl Ranges {
    fn new(file: &LargeFile) -> Self {
        let gaps = VecDeque::from(gaps(file.size, &file.done));
        let bytes = gaps.iter().map(|gap| gap.end - gap.start).sum();
        Self { gaps, bytes, unit: cut_unit(file.stripe_bytes) }
    }

    /// Cuts off the next range, of about `range_bytes` bytes.
    ///
    /// Invariant: a range ends at a multiple of the unit, or where a gap does. So no two ranges
    /// share a page or a stripe (property test).
    fn next(&mut self, range_bytes: u64) -> Option<Range<u64>> {
        let gap = self.gaps.front_mut()?;
        let base = gap.start - gap.start % self.unit;
        let first = plan::ranges(gap.end - base, range_bytes, self.unit).next()?;
        let range = gap.start..base + first.end;
        gap.start = range.end;
        if gap.is_empty() {
            self.gaps.pop_front();
        }
        self.bytes -= range.end - range.start;
        Some(range)
    }
}

/// Returns the unit in which a file is cut: the least common multiple of [`RANGE_UNIT`] and its
/// stripe, 0 if unknown.
pub(super) fn cut_unit(stripe_bytes: u64) -> u64 {
    let (mut divisor, mut rest) = (RANGE_UNIT, stripe_bytes);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (RANGE_UNIT / divisor).saturating_mul(stripe_bytes.max(divisor))
}

/// Returns the parts of `0..size` that are in no range of `done`, in order.
fn gaps(size: u64, done: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut done: Vec<_> = done.iter().filter(|range| range.start < range.end).cloned().collect();
    done.sort_by_key(|range| range.start);
    let mut gaps = Vec::new();
    let mut start = 0;
    for range in done {
        if range.start.min(size) > start {
            gaps.push(start..range.start.min(size));
        }
        start = start.max(range.end);
    }
    if start < size {
        gaps.push(start..size);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_done_is_cut_out() {
        assert_eq!(gaps(100, &[]), vec![0..100]);
        assert_eq!(gaps(100, &[50..60, 0..10, 55..70, 90..300]), vec![10..50, 70..90]);
        assert_eq!(gaps(100, &[0..60, 60..100]), vec![]);
        assert_eq!(gaps(0, &[]), vec![]);
    }

    #[test]
    fn files_are_cut_at_stripes_and_units() {
        let stripes = [0, 4 << 10, RANGE_UNIT, 4 * RANGE_UNIT, 3 << 19, 1, 3];
        let units = [1, 1, 1, 4, 3, 1, 3].map(|units| units * RANGE_UNIT);
        assert_eq!(stripes.map(cut_unit), units);
    }

    proptest! {
        /// Two hosts that write into one page can overwrite each other's bytes with zeros.
        #[test]
        fn a_byte_is_done_or_in_one_range_and_no_page_is_in_two(
            size in 0u64..50 << 20, stripe in 0u64..50, steps in proptest::collection::vec(1u64..9 << 20, 1..9),
            done in proptest::collection::vec((0u64..50 << 20, 0u64..9 << 20), 0..8),
        ) {
            let done: Vec<_> = done.into_iter().map(|(start, length)| start..start + length).collect();
            let stripe_bytes = stripe << 16;
            let file = LargeFile {
                id: FileId(1), leader: Rank(1), size, stripe_bytes, stripes: 4,
                counted_by: CountedBy::Master, done: done.clone(), ticket: Vec::new(),
            };
            let mut ranges = Ranges::new(&file);
            let mut steps = steps.iter().cycle();
            for gap in gaps(size, &done) {
                let mut at = gap.start;
                while at < gap.end {
                    let range = ranges.next(*steps.next().unwrap()).unwrap();
                    prop_assert_eq!(range.start, at);
                    prop_assert!(range.end > at);
                    let is_cut = range.end < gap.end;
                    let is_whole = |unit: u64| range.end.is_multiple_of(unit);
                    prop_assert!(!is_cut || is_whole(RANGE_UNIT) && is_whole(stripe_bytes.max(1)));
                    at = range.end;
                }
                prop_assert_eq!(at, gap.end);
            }
            prop_assert_eq!((ranges.next(1), ranges.bytes), (None, 0));
        }
    }
}
