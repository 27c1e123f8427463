//! Modelled FIFO servers: targets, metadata servers, links, rank 0.

use super::clock::{Time, nanoseconds};
use super::{MachineModel, Scenario};

/// A server that handles requests in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    free: Time,
    busy: Time,
}

impl Served {
    /// Queues a request that arrives at `arrival` and needs `service`; returns its completion time.
    /// Calls must be in the order of arrival.
    pub fn serve(&mut self, arrival: u64, service: u64) -> u64 {
        self.free = self.free.max(arrival) + service;
        self.busy += service;
        self.free
    }

    /// Drops requests not completed by `now`, whose clients are gone.
    pub(super) fn cancel(&mut self, now: Time) {
        self.busy = self.busy.saturating_sub(self.free.saturating_sub(now));
        self.free = self.free.min(now);
    }

    /// Returns the fraction of the time until `end` that the server was busy.
    #[must_use]
    pub fn item_busy(&self, end: u64) -> f64 {
        self.busy as f64 / (end.max(1)) as f64
    }
}

/// The modelled file system.
#[derive(Debug)]
pub(crate) struct StorageModel {
    reading: Vec<Served>,
    writing: Vec<Served>,
    metadata: Vec<Served>,
    /// All targets combined, for small files.
    small: Served,
    overhead: Time,
    latency: Time,
    /// Nanoseconds per byte on an average target, and the factor for each target.
    byte: f64,
    slowness: Vec<f64>,
    operation: f64,
    operation_latency: Time,
    written: u64,
}

/// Placement of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StripePlacement {
    pub(crate) first: u32,
    pub(crate) stripes: u32,
}

impl StripePlacement {
    /// Returns the target of a stripe.
    fn target(self, stripe: u32, targets: usize) -> usize {
        (self.first as usize + (stripe % self.stripes.max(1)) as usize) % targets
    }
}

impl StorageModel {
    pub(crate) fn new(scene: &Scenario) -> Self {
        let MachineModel { targets, metadata_servers, .. } = scene.machine;
        let machine = &scene.machine;
        Self {
            reading: vec![Served::default(); targets.max(1) as usize],
            writing: vec![Served::default(); targets.max(1) as usize],
            metadata: vec![Served::default(); metadata_servers.max(1) as usize],
            small: Served::default(),
            overhead: nanoseconds(machine.target_overhead),
            latency: nanoseconds(machine.target_latency),
            byte: 1e9 / machine.target_rate,
            slowness: scene.faults.target_speeds(targets, scene.seed).map(|speed| 1.0 / speed).collect(),
            operation: 1e9 / machine.metadata_rate,
            operation_latency: nanoseconds(machine.metadata_latency),
            written: 0,
        }
    }

    fn service(&self, bytes: u64) -> Time {
        self.overhead + (bytes as f64 * self.byte).ceil() as Time
    }

    fn service_of(&self, target: usize, bytes: u64) -> Time {
        self.overhead + (bytes as f64 * self.byte * self.slowness[target]).ceil() as Time
    }

    /// Drops queued requests, whose clients are gone.
    pub(crate) fn cancel(&mut self, now: Time) {
        let queues = self.reading.iter_mut().chain(&mut self.writing).chain(&mut self.metadata);
        queues.chain([&mut self.small]).for_each(|queue| queue.cancel(now));
    }

    /// Reads a stripe. Returns when the target has read it.
    pub(crate) fn read(&mut self, now: Time, layout: StripePlacement, stripe: u32, bytes: u64) -> Time {
        let target = layout.target(stripe, self.reading.len());
        let service = self.service_of(target, bytes);
        self.reading[target].serve(now + self.latency, service)
    }

    /// Writes a stripe. Returns when the target has written it.
    pub(crate) fn write(&mut self, now: Time, layout: StripePlacement, stripe: u32, bytes: u64) -> Time {
        self.written += bytes;
        let target = layout.target(stripe, self.writing.len());
        let service = self.service_of(target, bytes);
        self.writing[target].serve(now + self.latency, service)
    }

    /// Performs `operations` on the server of `directory`. Returns when the last is done.
    pub(crate) fn metadata(&mut self, now: Time, directory: u64, operations: u64) -> Time {
        let server = (directory % self.metadata.len() as u64) as usize;
        let service = (operations as f64 * self.operation) as Time;
        self.metadata[server].serve(now, service) + self.operation_latency
    }

    /// Performs `operations` for the launch process, which waits for at most `open_files`
    /// operations of the ranks.
    ///
    /// The model queues a bundle's operations all at once, but a real server sees only one per open
    /// file at a time.
    pub(crate) fn metadata_between(
        &mut self,
        now: Time,
        directory: u64,
        operations: u64,
        open_files: u64,
    ) -> Time {
        let queued = (open_files as f64 * self.operation / self.metadata.len() as f64) as Time;
        let alone = self.operation_latency + (operations as f64 * self.operation) as Time;
        self.metadata(now, directory, operations).min(now + queued + alone)
    }

    /// Reads and writes `files` small files of `bytes` bytes. Returns when all targets together
    /// would be done.
    pub(crate) fn small_files(&mut self, now: Time, files: u64, bytes: u64) -> Time {
        self.written += files * bytes;
        let service = files * self.service(bytes) / self.writing.len() as u64;
        self.small.serve(now, service)
    }

    /// Returns the time of one small file on idle servers: `operations` on a metadata server, a
    /// read and a write.
    pub(crate) fn alone(&self, operations: u64, bytes: u64) -> Time {
        operations * self.operation_latency + 2 * (self.latency + self.service(bytes))
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns average and maximum utilisation of targets and of metadata servers.
    pub(crate) fn busy(&self, end: Time) -> ((f64, f64), (f64, f64)) {
        let small = self.small.item_busy(end);
        let (read, write) = (spread(&self.reading, end), spread(&self.writing, end));
        let targets = if read.0 > write.0 { read } else { write };
        ((targets.0.max(small), targets.1.max(small)), spread(&self.metadata, end))
    }
}

/// Returns average and maximum utilisation.
pub(crate) fn spread(queues: &[Served], end: Time) -> (f64, f64) {
    let items = || queues.iter().map(|queue| queue.item_busy(end));
    (items().sum::<f64>() / queues.len().max(1) as f64, items().fold(0.0, f64::max))
}
