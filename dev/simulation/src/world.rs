//! The event loop of the model.

use std::collections::HashMap;
use std::time::Duration;

use super::clock::{EventQueue, Happening, Time, nanoseconds};
use super::faults::{LOSSES, Records, mix};
use super::launch::{ItemContent, Launch, LaunchStep};
use super::rank::{SimulatedRank, SimulatedTransfer, Slab, TransferredData};
use super::storage::{Served, StorageModel, StripePlacement, spread};
use super::{Busy, Class, Scenario, SimulationOutcome, Workload};
use haul_cluster::schedule::{
    CountedBy, FileId, ItemId, LargeFile, QueuedItem, Scheduler, SchedulerEvent, SchedulerOrder,
};
use haul_cluster::transport::Rank;

/// Metadata operations to begin a file (open the source, create the target) and to finish it (close
/// both, rename the target).
const BEGIN_OPERATIONS: u64 = 2;
const FINISH_OPERATIONS: u64 = 3;

/// Metadata operations to join a range: open both files, close both.
const RANGE_OPERATIONS: u64 = 4;

/// State of the model.
pub(super) struct World<'a> {
    pub(super) scene: &'a Scenario,
    pub(super) clock: EventQueue,
    pub(super) storage: StorageModel,
    pub(super) launch: Launch,
    pub(super) walking: bool,
    pub(super) scheduler: Scheduler,
    pub(super) rank_0: Served,
    pub(super) clients: Vec<SimulatedRank>,
    pub(super) jobs: Slab<SimulatedTransfer>,
    pub(super) orders: Slab<SchedulerOrder>,
    pub(super) reports: Slab<Vec<SchedulerEvent>>,
    /// Incomplete files of each work item.
    pub(super) incomplete_items: HashMap<ItemId, u32>,
    pub(super) records: Records,
    fresh: Vec<SchedulerOrder>,
    over: bool,
    outcome: SimulationOutcome,
}

/// Simulates a scene to its end.
///
/// # Panics
/// If no events are left before the job is done: the scheduler has lost something.
#[must_use]
pub fn run(scene: &Scenario) -> SimulationOutcome {
    let mut world = World {
        clock: EventQueue::default(),
        storage: StorageModel::new(scene),
        launch: Launch::new(&scene.workload),
        walking: true,
        scheduler: Scheduler::new((0..scene.clients).map(Rank).collect(), scene.limits),
        rank_0: Served::default(),
        clients: scene
            .faults
            .slowness(scene.clients, scene.seed)
            .into_iter()
            .map(SimulatedRank::new)
            .collect(),
        jobs: Slab::new(),
        orders: Slab::new(),
        reports: Slab::new(),
        incomplete_items: HashMap::new(),
        records: Records::new(scene.clients),
        fresh: Vec::new(),
        over: false,
        outcome: SimulationOutcome {
            seconds: 0.0,
            files: 0,
            bytes: 0,
            bytes_written: 0,
            attempts: 1,
            messages: 0,
            queued_entries_max: 0,
            busy: Busy::default(),
            remarks: Vec::new(),
        },
        scene,
    };
    world.clock.at(0, Happening::Walk);
    while !world.over
        && let Some(happening) = world.clock.next()
    {
        world.happen(happening);
        if !world.over {
            world.lose_rank_if_due();
        }
    }
    assert!(world.over, "nothing happens any more, and the job is not over");
    world.finish()
}

impl World<'_> {
    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Walk => self.walk(),
            Happening::Report { place } => self.take_report(place),
            Happening::Order { place } => self.take_order(place),
            Happening::Bundle { rank } => self.end_bundle(Rank(rank)),
            Happening::OpenDir { job } => self.opened(job),
            Happening::Read { job, piece } => self.was_read(job, piece),
            Happening::Sent { job, piece } => self.was_sent(job, piece),
            Happening::Written { job, piece } => self.was_written(job, piece),
            Happening::Closed { job } => self.was_closed(job),
        }
    }

    fn finish(mut self) -> SimulationOutcome {
        let end = self.clock.now();
        let links: Vec<Served> =
            self.clients.iter().flat_map(|client| [client.link_in, client.link_out]).collect();
        let working: Vec<Served> = self.clients.iter().map(|client| client.working).collect();
        let (targets, metadata) = self.storage.busy(end);
        self.outcome.busy = Busy {
            targets: targets.0,
            busiest_target: targets.1,
            links: spread(&links, end).0,
            metadata: metadata.0,
            busiest_metadata: metadata.1,
            clients: spread(&working, end).0,
            rank_0: self.rank_0.item_busy(end),
            launch: self.launch.item_busy(end),
        };
        self.outcome.seconds = end as f64 / 1e9;
        self.outcome.bytes_written = self.storage.written();
        self.outcome.attempts = self.records.attempts;
        (self.outcome.files, self.outcome.bytes) = (self.records.files, self.records.bytes);
        self.outcome
    }

    // The launch process and rank 0.

    fn walk(&mut self) {
        let now = self.clock.now();
        match self.launch.step(now, self.scene, &mut self.storage) {
            LaunchStep::Item(item, leaves) => {
                let place = self.reports.put(vec![SchedulerEvent::Item(item)]);
                self.clock.at(leaves, Happening::Report { place });
                self.clock.at(leaves, Happening::Walk);
            }
            LaunchStep::Closed => {
                let place = self.reports.put(vec![SchedulerEvent::Closed]);
                self.clock.at(now, Happening::Report { place });
                self.walking = false;
            }
            LaunchStep::Wait => self.walking = false,
        }
    }

    /// Sends events from a rank to rank 0, as one message.
    fn report(&mut self, at: Time, events: Vec<SchedulerEvent>) {
        self.outcome.messages += 1;
        let place = self.reports.put(events);
        self.clock.at(at + nanoseconds(self.scene.machine.message_latency), Happening::Report { place });
    }

    fn take_report(&mut self, place: u32) {
        let now = self.clock.now();
        let Some(events) = self.reports.take(place) else { return };
        let mut orders = std::mem::take(&mut self.fresh);
        let time = Duration::from_nanos(now);
        let machine = &self.scene.machine;
        let from_launch = matches!(events.first(), Some(SchedulerEvent::Item(_) | SchedulerEvent::Closed));
        let cost = if from_launch { machine.item_cost } else { machine.message_cost };
        self.rank_0.serve(now, nanoseconds(cost));
        for event in events {
            self.record(&event);
            self.scheduler.note(event, time, &mut orders);
        }
        self.scheduler.give(time, &mut orders);
        self.outcome.queued_entries_max =
            self.outcome.queued_entries_max.max(self.scheduler.queued_entries());
        for order in orders.drain(..) {
            self.send(order);
        }
        self.fresh = orders;
        if !self.walking && !self.launch.is_closed() {
            self.walking = true;
            self.clock.at(now, Happening::Walk);
        }
    }

    fn send(&mut self, order: SchedulerOrder) {
        match order {
            SchedulerOrder::Over => self.over = true,
            SchedulerOrder::Remark(line) => self.outcome.remarks.push(line),
            order => {
                self.outcome.messages += 1;
                let machine = &self.scene.machine;
                let sent = self.rank_0.serve(self.clock.now(), nanoseconds(machine.message_cost));
                let place = self.orders.put(order);
                self.clock.at(sent + nanoseconds(machine.message_latency), Happening::Order { place });
            }
        }
    }

    // The ranks.

    fn take_order(&mut self, place: u32) {
        match self.orders.take(place) {
            Some(SchedulerOrder::Items { to, items }) => match &self.scene.workload {
                Workload::Small { .. } => {
                    self.clients[to.index()].bundles.push_back(items);
                    self.begin_bundle(to);
                }
                Workload::Files(_) => self.take_items(to, &items),
            },
            Some(SchedulerOrder::Range { to, file, range, .. }) => self.take_range(to, file, range),
            Some(SchedulerOrder::RangesDone { to, file, .. }) => {
                let job = self.job(to, TransferredData::Finished { file }, file.0, 0..0);
                self.close(job, FINISH_OPERATIONS);
            }
            _ => {}
        }
    }

    /// Starts the next bundle of small files, if the rank is idle.
    fn begin_bundle(&mut self, rank: Rank) {
        let Workload::Small { bytes, .. } = self.scene.workload else { return };
        let (now, machine) = (self.clock.now(), &self.scene.machine);
        let client = &mut self.clients[rank.index()];
        if client.bundle.is_some() {
            return;
        }
        let Some(items) = client.bundles.pop_front() else { return };
        let operations = BEGIN_OPERATIONS + FINISH_OPERATIONS;
        let alone = self.storage.alone(operations, bytes) / u64::from(machine.files_in_flight.max(1));
        let alone = client.takes(alone.max(nanoseconds(machine.file_cost)));
        let mut end = now;
        for item in &items {
            let done = match self.launch.content(item.id) {
                Some(ItemContent::Files { entries, directory, .. }) => {
                    let entries = u64::from(entries);
                    let worked = client.working.serve(now, entries * alone);
                    let made = self.storage.metadata(now, directory, entries * operations);
                    worked.max(made).max(self.storage.small_files(now, entries, bytes))
                }
                Some(ItemContent::Listing { directory }) => {
                    let files = self.launch.files_of(directory);
                    let entries = files.end - files.start;
                    let cost = client.takes(entries * nanoseconds(machine.list_cost));
                    client.working.serve(now, cost)
                }
                // Small files are never announced.
                Some(ItemContent::Large { .. }) | None => now,
            };
            end = end.max(done);
        }
        client.bundle = Some(items);
        self.clock.at(end, Happening::Bundle { rank: rank.0 });
    }

    fn end_bundle(&mut self, rank: Rank) {
        let Some(items) = self.clients[rank.index()].bundle.take() else { return };
        let events = items.into_iter().map(|item| SchedulerEvent::ItemDone { rank, item: item.id }).collect();
        self.report(self.clock.now(), events);
        self.begin_bundle(rank);
    }

    fn take_items(&mut self, rank: Rank, items: &[QueuedItem]) {
        for item in items {
            match self.launch.content(item.id) {
                Some(ItemContent::Files { first, entries, .. }) => {
                    let files = first..first + u64::from(entries);
                    let files: Vec<u64> =
                        files.filter(|&file| !self.records.is_apart(item.id, file)).collect();
                    self.begin_item(rank, item.id, &files);
                }
                Some(ItemContent::Large { file, .. }) => self.begin_item(rank, item.id, &[file]),
                Some(ItemContent::Listing { directory }) => {
                    let files = self.launch.files_of(directory);
                    let cost = (files.end - files.start) * nanoseconds(self.scene.machine.list_cost);
                    let cost = self.clients[rank.index()].takes(cost);
                    self.report(
                        self.clock.now() + cost,
                        vec![SchedulerEvent::ItemDone { rank, item: item.id }],
                    );
                }
                None => {}
            }
        }
        self.open_files(rank);
    }

    /// Accepts the files of a work item. An item with no files left is done.
    fn begin_item(&mut self, rank: Rank, item: ItemId, files: &[u64]) {
        if files.is_empty() {
            return self.report(self.clock.now(), vec![SchedulerEvent::ItemDone { rank, item }]);
        }
        self.incomplete_items.insert(item, files.len() as u32);
        self.clients[rank.index()].waiting.extend(files.iter().map(|&file| (item, file)));
    }

    /// Opens files up to the client's limit.
    fn open_files(&mut self, rank: Rank) {
        let now = self.clock.now();
        while self.clients[rank.index()].open_files < self.scene.machine.files_in_flight {
            let Some((item, file)) = self.clients[rank.index()].waiting.pop_front() else { break };
            self.clients[rank.index()].open_files += 1;
            let size = self.class(file).bytes;
            let rate = self.clients[rank.index()].rate(now);
            let begun = matches!(self.launch.content(item), Some(ItemContent::Large { .. }));
            let large = begun || self.scene.limits.is_large(size, rate);
            let work = if large {
                TransferredData::Announced { item, file: FileId(file), done: self.records.moved(file) }
            } else {
                TransferredData::File { item }
            };
            let job = self.job(rank, work, file, 0..if large { 0 } else { size });
            let opened = self.storage.metadata(now, file, BEGIN_OPERATIONS);
            self.clock.at(opened, Happening::OpenDir { job });
        }
    }

    fn take_range(&mut self, rank: Rank, file: FileId, range: std::ops::Range<u64>) {
        let job = self.job(rank, TransferredData::Range { file, range: range.clone() }, file.0, range);
        let opened = self.storage.metadata(self.clock.now(), file.0, RANGE_OPERATIONS);
        self.clock.at(opened, Happening::OpenDir { job });
    }

    /// Creates a job that moves `range` of a file. Ranges begin on stripes, so requests
    /// are aligned.
    fn job(&mut self, rank: Rank, work: TransferredData, file: u64, range: std::ops::Range<u64>) -> u32 {
        let request = self.scene.machine.request_bytes;
        let pieces = (range.start / request) as u32..range.end.div_ceil(request) as u32;
        let stripes = self.class(file).stripes;
        let place = |what: u64| (mix(self.scene.seed ^ mix(2 * file + what)) % (1 << 32)) as u32;
        let first = |what| place(what) % self.scene.machine.targets.max(1);
        let (source, target) = (first(0), first(1));
        self.jobs.put(SimulatedTransfer {
            rank,
            work,
            source: StripePlacement { first: source, stripes },
            target: StripePlacement { first: target, stripes },
            left: pieces.end - pieces.start,
            pieces,
            end: range.end,
            began: 0,
        })
    }

    fn opened(&mut self, place: u32) {
        let now = self.clock.now();
        let Some(job) = self.jobs.get(place) else { return };
        let rank = job.rank;
        if let TransferredData::Range { .. } = job.work {
            job.began = self.clients[rank.index()].take_range(now);
        }
        if let TransferredData::Announced { item, file, done } = job.work.clone() {
            self.jobs.take(place);
            self.records.announced.insert(file, item);
            let Class { bytes: size, stripes, .. } = self.class(file.0);
            let (stripe_bytes, counted_by) = (self.scene.machine.request_bytes, CountedBy::Master);
            let file = LargeFile {
                id: file,
                leader: rank,
                size,
                stripe_bytes,
                stripes,
                counted_by,
                done,
                ticket: Vec::new(),
            };
            self.report(now, vec![SchedulerEvent::Open(file)]);
            self.entry_done(rank, item);
        } else if job.left == 0 {
            self.moved(place);
        } else {
            self.clients[rank.index()].ready.push_back(place);
            self.pump(rank);
        }
    }

    /// Issues requests up to the client's limit.
    fn pump(&mut self, rank: Rank) {
        let (now, machine) = (self.clock.now(), &self.scene.machine);
        let client = &mut self.clients[rank.index()];
        while client.in_flight < machine.requests_in_flight {
            let Some(place) = client.ready.pop_front() else { break };
            let Some(job) = self.jobs.get(place) else { continue };
            let Some(piece) = job.pieces.next() else { continue };
            if !job.pieces.is_empty() {
                // Each local worker has one file; they take turns.
                let behind = client.ready.len().min(machine.streams.saturating_sub(1) as usize);
                client.ready.insert(behind, place);
            }
            client.in_flight += 1;
            client.began.get_or_insert(now);
            let bytes = job.piece_bytes(piece, machine.request_bytes);
            let read = self.storage.read(now, job.source, piece, bytes);
            self.clock.at(read, Happening::Read { job: place, piece });
        }
    }

    fn was_read(&mut self, place: u32, piece: u32) {
        let (now, machine) = (self.clock.now(), &self.scene.machine);
        let Some(job) = self.jobs.get(place) else { return };
        let bytes = job.piece_bytes(piece, machine.request_bytes);
        let client = &mut self.clients[job.rank.index()];
        let service = client.takes((bytes as f64 * 1e9 / machine.link_rate).ceil() as Time);
        // Both links are FIFO, so both completion times can be computed now.
        let came = client.link_in.serve(now, service);
        let sent = client.link_out.serve(came, service);
        self.clock.at(sent, Happening::Sent { job: place, piece });
    }

    fn was_sent(&mut self, place: u32, piece: u32) {
        let Some(job) = self.jobs.get(place) else { return };
        let bytes = job.piece_bytes(piece, self.scene.machine.request_bytes);
        let written = self.storage.write(self.clock.now(), job.target, piece, bytes);
        self.clock.at(written, Happening::Written { job: place, piece });
    }

    fn was_written(&mut self, place: u32, piece: u32) {
        let Some(job) = self.jobs.get(place) else { return };
        let bytes = job.piece_bytes(piece, self.scene.machine.request_bytes);
        self.clients[job.rank.index()].written += bytes;
        job.left -= 1;
        let (rank, moved) = (job.rank, job.left == 0);
        self.clients[rank.index()].in_flight -= 1;
        if moved {
            self.moved(place);
        }
        self.pump(rank);
    }

    /// Called when a job's last request is written.
    fn moved(&mut self, place: u32) {
        let now = self.clock.now();
        let Some(job) = self.jobs.get(place) else { return };
        let TransferredData::Range { file, range } = job.work.clone() else {
            return self.close(place, FINISH_OPERATIONS);
        };
        let (rank, began) = (job.rank, job.began);
        let took = Duration::from_nanos(self.clients[rank.index()].drop_range(now) - began);
        self.jobs.take(place);
        self.report(now, vec![SchedulerEvent::RangeDone { rank, file, range, took, moved: true }]);
    }

    fn close(&mut self, job: u32, operations: u64) {
        let closed = self.storage.metadata(self.clock.now(), u64::from(job), operations);
        self.clock.at(closed, Happening::Closed { job });
    }

    fn was_closed(&mut self, place: u32) {
        let Some(job) = self.jobs.take(place) else { return };
        match job.work {
            TransferredData::File { item } => self.entry_done(job.rank, item),
            TransferredData::Finished { file } => {
                self.report(self.clock.now(), vec![SchedulerEvent::FileDone { file }])
            }
            TransferredData::Announced { .. } | TransferredData::Range { .. } => {}
        }
    }

    /// Called when an entry of a work item is complete or detached. After the last one, the item
    /// is reported.
    fn entry_done(&mut self, rank: Rank, item: ItemId) {
        self.clients[rank.index()].open_files -= 1;
        if let Some(left) = self.incomplete_items.get_mut(&item) {
            *left -= 1;
            if *left == 0 {
                self.incomplete_items.remove(&item);
                self.report(self.clock.now(), vec![SchedulerEvent::ItemDone { rank, item }]);
            }
        }
        self.open_files(rank);
    }

    // Faults.

    /// Records an event that rank 0 passes on to the launch process.
    pub(super) fn record(&mut self, event: &SchedulerEvent) {
        match event {
            SchedulerEvent::ItemDone { item, .. } => {
                self.record_item(*item);
                self.launch.done(*item);
            }
            SchedulerEvent::Open(file) => {
                if let Some(item) = self.records.announced.remove(&file.id)
                    && !self.records.large.contains_key(&file.id.0)
                {
                    self.records.large.insert(file.id.0, Vec::new());
                    self.records.apart.entry(item).or_default().push(file.id.0);
                }
            }
            SchedulerEvent::RangeDone { file, range, moved: true, .. } => {
                if let Some(ranges) = self.records.large.get_mut(&file.0) {
                    ranges.push(range.clone());
                }
            }
            SchedulerEvent::FileDone { file } => {
                self.records.large.remove(&file.0);
                self.records.files += 1;
                self.records.bytes += self.class(file.0).bytes;
            }
            _ => {}
        }
    }

    fn record_item(&mut self, item: ItemId) {
        let apart = self.records.apart.remove(&item).unwrap_or_default();
        let Some((first, entries)) = self.launch.files_in(item) else { return };
        self.records.files += entries - apart.len() as u64;
        self.records.bytes += match &self.scene.workload {
            Workload::Small { bytes, .. } => entries * bytes,
            Workload::Files(_) => {
                let mut own = (first..first + entries).filter(|file| !apart.contains(file));
                own.by_ref().map(|file| self.class(file).bytes).sum()
            }
        };
    }

    /// Loses a rank if enough was written since the last loss.
    pub(super) fn lose_rank_if_due(&mut self) {
        let (losses, faults) = (u64::from(self.records.attempts - 1), self.scene.faults);
        if losses >= u64::from(faults.lost_ranks) || self.records.alive.len() < 2 {
            return;
        }
        let share = self.scene.workload.bytes() as f64 / f64::from(faults.lost_ranks + 1);
        if self.storage.written() as f64 >= share * (losses + 1) as f64 {
            self.lose_rank();
        }
    }

    /// Loses a rank, and restarts the job without it.
    fn lose_rank(&mut self) {
        let now = self.clock.now();
        let alive = &mut self.records.alive;
        let chosen = mix(self.scene.seed ^ LOSSES ^ u64::from(self.records.attempts)) % alive.len() as u64;
        alive.remove(chosen as usize);
        self.records.attempts += 1;
        self.records.announced.clear();
        // Messages in transit are lost with the processes; events already recorded are not.
        self.clock.clear();
        self.storage.cancel(now);
        self.rank_0.cancel(now);
        self.clients.iter_mut().for_each(|client| client.end(now));
        (self.jobs, self.orders, self.reports) = <_>::default();
        self.incomplete_items.clear();
        let mut begun: Vec<u64> = self.records.large.keys().copied().collect();
        begun.sort_unstable();
        self.launch.begin_attempt(begun);
        self.scheduler = Scheduler::new(self.records.alive.clone(), self.scene.limits);
        self.walking = true;
        self.clock.at(now + nanoseconds(self.scene.faults.restart_time), Happening::Walk);
    }

    /// Returns the class of a file.
    pub(super) fn class(&self, file: u64) -> Class {
        let Workload::Files(classes) = &self.scene.workload else { return Class::NONE };
        let mut first = 0;
        for class in classes {
            first += class.files;
            if file < first {
                return *class;
            }
        }
        Class::NONE
    }
}

impl Class {
    pub(super) const NONE: Class = Class { files: 0, bytes: 0, stripes: 1 };
}
