//! The scheduler with simulated ranks, which carry out orders in a seeded random order.

use std::collections::{HashMap, HashSet, VecDeque};

use haul_testkit::random::{Random, Rng as _, seeded};
use proptest::prelude::*;

use super::file::cut_unit;
use super::*;

#[derive(Clone, Debug)]
struct Work {
    workers: u32,
    /// Entries of each work item.
    items: Vec<u32>,
    /// One in this many items contains a large file.
    large_every: usize,
    /// One in this many ranges fails; 0 for none.
    failure_every: u32,
    /// Approximate number of items that the launch process sends per step of a worker.
    walk: u32,
    /// Maximum duration of a step.
    step_micros: u64,
    seed: u64,
}

/// The launch process and all ranks.
struct Pretended {
    scheduler: Scheduler,
    random: Random,
    work: Work,
    sent: usize,
    closed: bool,
    hands: Vec<VecDeque<SchedulerOrder>>,
    /// Files that their leaders can finish.
    finishing: Vec<FileId>,
    files: HashMap<FileId, Seen>,
    item_times: Vec<u32>,
    messages: u64,
    now: Duration,
    overs: u32,
    orders: Vec<SchedulerOrder>,
}

/// A large file as its leader sees it.
struct Seen {
    file: LargeFile,
    given: Vec<Range<u64>>,
    back: u64,
    failed: bool,
    over: bool,
}

const LIMITS: Limits = Limits {
    bundle_entries: 256,
    credit: 2,
    range_bytes_min: RANGE_UNIT,
    range_bytes_max: 10 * RANGE_UNIT,
    remarks: true,
};

impl Pretended {
    fn new(work: Work) -> Self {
        Self {
            scheduler: Scheduler::new((1..=work.workers).map(Rank).collect(), LIMITS),
            random: seeded(work.seed),
            sent: 0,
            closed: false,
            hands: (0..=work.workers).map(|_| VecDeque::new()).collect(),
            finishing: Vec::new(),
            files: HashMap::new(),
            item_times: vec![0; work.items.len()],
            messages: 0,
            now: Duration::ZERO,
            overs: 0,
            orders: Vec::new(),
            work,
        }
    }

    /// Runs to the end, and checks the invariants after every step.
    fn run(&mut self) {
        while self.overs == 0 {
            let walks = !self.closed && self.random.random_range(0..=self.work.walk) > 0;
            let finishes = !self.finishing.is_empty() && self.random.random_range(0..3) == 0;
            let busy: Vec<usize> =
                (0..self.hands.len()).filter(|&rank| !self.hands[rank].is_empty()).collect();
            if walks || (busy.is_empty() && !self.closed) {
                self.walk();
            } else if finishes || busy.is_empty() {
                assert!(!self.finishing.is_empty(), "nobody has anything to do, and it is not over");
                let drawn = self.random.random_range(0..self.finishing.len());
                let file = self.finishing.swap_remove(drawn);
                self.send(SchedulerEvent::FileDone { file });
                self.seen(file).over = true;
            } else {
                let rank = busy[self.random.random_range(0..busy.len())];
                let drawn = self.random.random_range(0..self.hands[rank].len());
                let order = self.hands[rank].remove(drawn).unwrap();
                self.carry_out(Rank(rank as u32), order);
            }
            self.check_step();
        }
    }

    fn seen(&mut self, file: FileId) -> &mut Seen {
        self.files.get_mut(&file).unwrap()
    }

    fn walk(&mut self) {
        match self.work.items.get(self.sent) {
            Some(&entries) => {
                let body = self.sent.to_le_bytes().to_vec();
                self.sent += 1;
                self.send(SchedulerEvent::Item(QueuedItem {
                    id: ItemId(self.sent as u64 - 1),
                    directory: 0,
                    entries,
                    body,
                }));
            }
            None => {
                self.closed = true;
                self.send(SchedulerEvent::Closed);
            }
        }
    }

    fn carry_out(&mut self, rank: Rank, order: SchedulerOrder) {
        match order {
            SchedulerOrder::Items { items, .. } => {
                // The items of a bundle are reported in one message.
                self.messages += 1;
                for item in items {
                    if item.id.0 as usize % self.work.large_every == self.work.large_every - 1 {
                        self.open(rank);
                    }
                    self.item_times[item.id.0 as usize] += 1;
                    assert_eq!(item.body, (item.id.0 as usize).to_le_bytes(), "the item of another");
                    self.send(SchedulerEvent::ItemDone { rank, item: item.id });
                }
            }
            SchedulerOrder::Range { file, range, .. } => {
                let failure_every = self.work.failure_every;
                let moved = failure_every == 0 || self.random.random_range(0..failure_every) > 0;
                let took = Duration::from_micros(self.random.random_range(0..1000));
                let bytes = range.end - range.start;
                let seen = self.seen(file);
                seen.back += bytes;
                seen.failed |= !moved;
                self.send(SchedulerEvent::RangeDone { rank, file, range, took, moved });
                let seen = self.seen(file);
                let whole = seen.back + bytes_of(&seen.file.done) == seen.file.size;
                if seen.file.counted_by == CountedBy::Leader && !seen.over && (whole || !moved) {
                    seen.over = true;
                    self.finishing.push(file);
                }
            }
            _ => unreachable!("nothing else is put in a hand"),
        }
    }

    fn open(&mut self, leader: Rank) {
        let id = FileId(self.files.len() as u64);
        let size = self.random.random_range(0..200 * RANGE_UNIT);
        let stripe_bytes = self.random.random_range(0..12) << 16;
        let (from, to) = (self.random.random_range(0..=size), self.random.random_range(0..=size));
        let unit = cut_unit(stripe_bytes);
        let done = from / unit * unit..to / unit * unit;
        let done: Vec<_> = Some(done).into_iter().filter(|range| !range.is_empty()).collect();
        let counted_by = if self.random.random() { CountedBy::Leader } else { CountedBy::Master };
        let stripes = self.random.random_range(1..9);
        let ticket = id.0.to_le_bytes().to_vec();
        let file = LargeFile { id, leader, size, stripe_bytes, stripes, counted_by, done, ticket };
        self.files
            .insert(id, Seen { file: file.clone(), given: Vec::new(), back: 0, failed: false, over: false });
        self.send(SchedulerEvent::Open(file));
    }

    fn send(&mut self, event: SchedulerEvent) {
        let mut orders = std::mem::take(&mut self.orders);
        self.now += Duration::from_micros(self.random.random_range(0..self.work.step_micros));
        self.scheduler.take(event, self.now, &mut orders);
        for order in orders.drain(..) {
            match &order {
                SchedulerOrder::Items { to, .. } => {
                    self.messages += 1;
                    self.hands[to.index()].push_back(order);
                }
                SchedulerOrder::Range { to, file, leader, range, report_to, ticket } => {
                    let seen = self.seen(*file);
                    assert_eq!((*leader, &ticket[..]), (seen.file.leader, &file.0.to_le_bytes()[..]));
                    assert!(!seen.failed, "a range of a file that has failed");
                    let counts = if seen.file.counted_by == CountedBy::Leader {
                        seen.file.leader
                    } else {
                        Rank::MASTER
                    };
                    assert_eq!(*report_to, counts);
                    seen.given.push(range.clone());
                    self.hands[to.index()].push_back(order);
                }
                SchedulerOrder::RangesDone { to, file, moved } => {
                    let seen = self.seen(*file);
                    assert_eq!((*to, *moved), (seen.file.leader, !seen.failed));
                    assert_eq!(seen.back, bytes_of(&seen.given), "ranges are still in somebody's hands");
                    let counts_in_vain = bytes_of(&seen.file.done) == seen.file.size;
                    assert!(seen.file.counted_by == CountedBy::Master || counts_in_vain);
                    self.finishing.push(*file);
                }
                SchedulerOrder::Over => self.overs += 1,
                SchedulerOrder::Remark(line) => assert!(!line.contains('\n')),
            }
        }
        self.orders = orders;
    }

    fn check_step(&self) {
        let idle = self.hands[1..].iter().filter(|hand| hand.is_empty()).count();
        assert!(self.hands.iter().all(|hand| hand.len() <= LIMITS.credit), "more in hand than the credit");
        assert_eq!(idle, self.scheduler.idle_workers());
        if idle > 0 {
            assert_eq!(
                (self.scheduler.queued_entries(), self.scheduler.queued_bytes()),
                (0, 0),
                "idle, with work left"
            );
        }
    }

    fn check_end(&mut self) {
        assert!(self.closed && self.finishing.is_empty(), "over before the end");
        assert!(self.hands.iter().all(VecDeque::is_empty), "over with work in somebody's hands");
        assert!(self.item_times.iter().all(|&times| times == 1), "a item was done twice, or never");
        for Seen { file, given, failed, over, .. } in self.files.values() {
            assert!(*over, "over before its leader finished file {}", file.id.0);
            let mut all: Vec<_> = given.iter().chain(&file.done).cloned().collect();
            all.sort_by_key(|range| range.start);
            assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "ranges overlap: {all:?}");
            let unit = cut_unit(file.stripe_bytes);
            assert!(given.iter().all(|range| range.start % unit == 0), "cut inside a page or a stripe");
            assert!(*failed || bytes_of(&all) == file.size, "not every byte, and nothing failed");
        }
        self.send(SchedulerEvent::ItemDone { rank: Rank(1), item: ItemId(0) });
        assert_eq!(self.overs, 1, "over twice");
    }
}

fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

fn work() -> impl Strategy<Value = Work> {
    let workers = prop_oneof![4 => 1u32..20, 1 => 20u32..1000];
    let entries = prop_oneof![Just(1u32..2), Just(1u32..65), Just(1u32..257)];
    let items = entries.prop_flat_map(|entries| proptest::collection::vec(entries, 0..400));
    let failures = prop_oneof![Just(0u32), 5u32..60];
    (workers, items, 1usize..40, failures, 0u32..20, 1u64..100_000, any::<u64>()).prop_map(
        |(workers, items, large_every, failure_every, walk, step_micros, seed)| Work {
            workers,
            items,
            large_every,
            failure_every,
            walk,
            step_micros,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn everything_is_done_once_and_nobody_idles(work in work()) {
        let mut group = Pretended::new(work);
        group.run();
        group.check_end();
    }
}

/// Runs small files only. Returns the number of messages per thousand files.
fn messages_per_thousand(workers: u32, items: Vec<u32>, walk: u32) -> f64 {
    let files: u32 = items.iter().sum();
    let work =
        Work { workers, items, large_every: usize::MAX, failure_every: 0, walk, step_micros: 50, seed: 1 };
    let mut group = Pretended::new(work);
    group.run();
    group.check_end();
    group.messages as f64 * 1000.0 / f64::from(files)
}

#[test]
fn a_thousand_small_files_cost_fewer_than_ten_messages() {
    // 50,000 files on 4 ranks in ordinary directories, in directories of one file, and in items
    // that fill a bundle; then 1,000,000 files on 100 ranks.
    for (workers, files, entries) in [(4, 50_000, 64), (4, 50_000, 1), (4, 50_000, 256), (100, 1_000_000, 64)]
    {
        let messages = messages_per_thousand(workers, vec![entries; files / entries as usize], 1000);
        assert!(messages <= 10.0, "{messages:.1} messages for items of {entries} on {workers} ranks");
        assert!(messages >= 7.8, "{messages:.1}: fewer than full bundles cost; they were not counted");
    }
}

#[test]
fn entries_that_take_long_are_not_bundled() {
    // The first items take ten seconds per entry: each worker gets one at a time, never a bundle.
    let mut scheduler = Scheduler::new(vec![Rank(1), Rank(2)], LIMITS);
    let mut orders = Vec::new();
    for item in 0..5000 {
        scheduler.take(SchedulerEvent::Item(item_of_one_entry(item)), Duration::ZERO, &mut orders);
    }
    let done = |seconds, orders: &mut Vec<SchedulerOrder>, scheduler: &mut Scheduler| {
        let SchedulerOrder::Items { to, items } = orders.remove(0) else {
            unreachable!("there are only items")
        };
        for item in &items {
            let event = SchedulerEvent::ItemDone { rank: to, item: item.id };
            scheduler.take(event, Duration::from_secs(seconds), orders);
        }
        items.len()
    };
    assert!((1..9).all(|turn| done(10 * turn, &mut orders, &mut scheduler) == 1), "bundles of slow entries");
    // Now entries take no time, and are bundled.
    let mut most = 0;
    while !orders.is_empty() {
        most = most.max(done(80, &mut orders, &mut scheduler));
    }
    assert_eq!(most, 256);
}

fn item_of_one_entry(id: u64) -> QueuedItem {
    QueuedItem { id: ItemId(id), directory: id, entries: 1, body: Vec::new() }
}

#[test]
fn at_the_end_the_work_is_shared_evenly() {
    // Everything is queued before anybody begins, so the first orders show how the end is shared.
    for workers in [2u32, 16, 300] {
        let mut scheduler = Scheduler::new((1..=workers).map(Rank).collect(), LIMITS);
        let mut orders = Vec::new();
        // A first round, so that something is measured.
        for item in 0..u64::from(workers) {
            scheduler.take(SchedulerEvent::Item(item_of_one_entry(item)), Duration::ZERO, &mut orders);
        }
        for item in workers.into()..5 * u64::from(workers) {
            scheduler.note(SchedulerEvent::Item(item_of_one_entry(item)), Duration::ZERO, &mut Vec::new());
        }
        scheduler.note(SchedulerEvent::Closed, Duration::ZERO, &mut Vec::new());
        for order in std::mem::take(&mut orders) {
            let SchedulerOrder::Items { to, items } = order else { unreachable!("there are only items") };
            scheduler.note(
                SchedulerEvent::ItemDone { rank: to, item: items[0].id },
                Duration::from_millis(2),
                &mut orders,
            );
        }
        scheduler.give(Duration::from_millis(2), &mut orders);
        let size = |order: &SchedulerOrder| {
            if let SchedulerOrder::Items { items, .. } = order { items.len() } else { 0 }
        };
        let sizes: Vec<_> = orders.iter().map(size).collect();
        assert_eq!(sizes, vec![2; workers as usize], "half of an even share for each");
    }
}

#[test]
fn a_team_is_no_larger_than_its_stripes_while_others_wait() {
    let limits = Limits { range_bytes_min: 1 << 20, range_bytes_max: 1 << 20, ..LIMITS };
    let mut scheduler = Scheduler::new((1..=12).map(Rank).collect(), limits);
    let mut orders = Vec::new();
    for id in 0..3 {
        let (size, stripe_bytes, stripes) = (64 << 20, 1 << 20, 3);
        let (counted_by, done, ticket) = (CountedBy::Master, Vec::new(), Vec::new());
        let file = LargeFile {
            id: FileId(id),
            leader: Rank(1),
            size,
            stripe_bytes,
            stripes,
            counted_by,
            done,
            ticket,
        };
        scheduler.note(SchedulerEvent::Open(file), Duration::ZERO, &mut orders);
    }
    scheduler.give(Duration::ZERO, &mut orders);
    let mut teams = [0; 3];
    for order in &orders {
        if let SchedulerOrder::Range { file, range, .. } = order
            && range.start < 12 << 20
        {
            teams[file.0 as usize] += 1;
        }
    }
    let given = orders.iter().filter(|order| matches!(order, SchedulerOrder::Range { .. })).count();
    assert_eq!(given, 24, "two ranges for each of twelve");
    assert!(teams.iter().all(|&ranges| ranges >= 3), "a file was left to wait: {teams:?}");
    let remarks = orders.iter().filter(|order| matches!(order, SchedulerOrder::Remark(_))).count();
    assert_eq!(remarks, 3, "one line for each choice");
}

#[test]
fn a_rank_is_slow_while_it_holds_work_and_completes_nothing() {
    let at = Duration::from_secs;
    let mut scheduler = Scheduler::new(vec![Rank(1), Rank(2)], LIMITS);
    let mut orders = Vec::new();
    let item = |number| QueuedItem { id: ItemId(number), directory: 0, entries: 1, body: Vec::new() };
    let send = |scheduler: &mut Scheduler, number, now, orders: &mut Vec<SchedulerOrder>| {
        scheduler.take(SchedulerEvent::Item(item(number)), now, orders);
    };
    send(&mut scheduler, 1, at(100), &mut orders);
    assert_eq!(scheduler.slow_ranks(at(104)), []);
    // The other one has nothing to do.
    assert_eq!(scheduler.slow_ranks(at(105)), [(Rank(1), at(5))]);
    send(&mut scheduler, 2, at(106), &mut orders);
    assert_eq!(scheduler.slow_ranks(at(112)), [(Rank(1), at(12)), (Rank(2), at(6))]);
    scheduler.take(SchedulerEvent::ItemDone { rank: Rank(1), item: ItemId(1) }, at(113), &mut orders);
    assert_eq!(scheduler.slow_ranks(at(200)), [(Rank(2), at(94))]);
}

#[test]
fn what_was_asked_for_is_not_changed_by_what_is_measured() {
    let usual = Limits { range_bytes_min: 100, range_bytes_max: 1000, ..Limits::default() };
    let exact = Limits { range_bytes_max: 100, ..usual };
    let fast = Some(1e6);
    assert!(exact.is_large(200, fast) && !exact.is_large(199, None) && !usual.is_large(200, fast));
    assert_eq!((exact.range_bytes(1 << 30, 3, fast), usual.range_bytes(1 << 30, 3, fast)), (100, 50_000));
}

/// Gives 8,000 entries of twenty directories to a single worker that needs 28 ms for an entry in
/// each directory, with up to 64 entries in hand at a time, but one per directory. Returns the
/// number of bundles, and the number of directories in hand after each but the first two.
fn alone() -> (usize, Vec<usize>) {
    let limits = Limits { bundle_entries: 1024, ..LIMITS };
    let (mut scheduler, mut orders) = (Scheduler::new(vec![Rank(1)], limits), Vec::new());
    let now = Duration::ZERO;
    for id in 0..140 {
        let (directory, entries) = (id / 7, if id % 7 < 6 { 64 } else { 16 });
        let item = QueuedItem { id: ItemId(id), directory, entries, body: Vec::new() };
        scheduler.note(SchedulerEvent::Item(item), now, &mut orders);
    }
    scheduler.take(SchedulerEvent::Closed, now, &mut orders);
    let (mut now, mut bundles, mut seen) = (now, 0, Vec::new());
    let mut hand = VecDeque::new();
    loop {
        let given = orders.drain(..).filter_map(|order| match order {
            SchedulerOrder::Items { items, .. } => Some(items),
            _ => None,
        });
        hand.extend(given);
        assert!(hand.len() == 2 || scheduler.queued_entries() == 0, "{} bundles in hand", hand.len());
        let directories: HashSet<_> = hand.iter().flatten().map(|item| item.directory).collect();
        if bundles >= 2 && scheduler.queued_entries() > 0 {
            seen.push(directories.len());
        }
        let Some(bundle) = hand.pop_front() else { return (bundles, seen) };
        let entries: u32 = bundle.iter().map(|item| item.entries).sum();
        now += Duration::from_millis(28) * entries / directories.len() as u32;
        bundles += 1;
        for item in bundle {
            scheduler.take(SchedulerEvent::ItemDone { rank: Rank(1), item: item.id }, now, &mut orders);
        }
    }
}

#[test]
fn a_single_worker_has_many_directories_in_hand_until_the_end() {
    let (bundles, directories) = alone();
    assert!(bundles <= 30, "{bundles} bundles");
    // At least four at first, when the pace is that of few directories, then all.
    assert!(directories.iter().all(|count| *count >= 4), "{directories:?}");
    let all = directories.iter().filter(|count| **count == 20).count();
    assert!(2 * all > directories.len(), "{directories:?}");
}
