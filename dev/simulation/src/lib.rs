//! Simulation: the real scheduler over a modelled file system, at sizes that no machine at
//! hand has.
//!
//! This is a discrete-event model. It models storage targets, metadata servers, the clients' links,
//! messages, and the walk of the launch process. Decisions come from the code that runs in a job:
//! [`haul_cluster::schedule`] and `haul_flow::plan`.
//!
//! ```text
//!   launch ──items──► rank 0 ──orders──► rank ──open, create──► metadata servers
//!    walk, bound      Scheduler           │                     (operations/s, FIFO)
//!                     cost per message    └─1 MiB─► target ─► link in ─► link out ─► target
//!                                                   read                            write
//! ```
//!
//! Every shared resource is a FIFO server ([`Served`]); nothing else takes time. Small files are
//! simulated by the bundle: 10⁹ of them one by one would be 10¹⁰ events.
//!
//! [`Faults`] adds lost ranks and restarts ([`mod@faults`]), slow ranks, and targets of
//! different speed.
//!
//! Guarantees (`tests/simulation.rs`): the same seed gives the same figures; no rate exceeds that
//! of the modelled hardware; every file is copied, whatever is lost. Not modelled: other users,
//! caches, contention inside the network.

mod clock;
mod faults;
mod launch;
mod rank;
mod storage;
mod world;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use faults::Faults;
use haul_cluster::schedule::Limits;
pub use storage::Served;
pub use world::run;

/// Processes that list directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalkModel {
    /// The launch process.
    Launch,
    /// The ranks, one directory at a time; they send the names to the launch process.
    Ranks,
}

/// The modelled hardware. Rates are in bytes per second unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineModel {
    /// Number of storage targets.
    pub targets: u32,
    /// Bandwidth of a target, for reads and writes separately.
    pub target_rate: f64,
    /// Fixed cost of a request at a target.
    pub target_overhead: Duration,
    /// Round trip between client and target, without the target's own time.
    pub target_latency: Duration,
    /// Number of metadata servers; a directory is on one of them.
    pub metadata_servers: u32,
    /// Operations per second of one metadata server.
    pub metadata_rate: f64,
    /// Latency of an operation at an idle metadata server.
    pub metadata_latency: Duration,
    /// Bandwidth of a client's link, in each direction.
    pub link_rate: f64,
    /// Maximum requests in flight of a client.
    pub requests_in_flight: u32,
    /// Files or ranges that a client moves at once: its local workers.
    pub streams: u32,
    /// Size of a request, and of a stripe, in bytes.
    pub request_bytes: u64,
    /// Maximum open files of a client.
    pub files_in_flight: u32,
    /// Processor time of a small file on a client.
    pub file_cost: Duration,
    /// Latency of a message.
    pub message_latency: Duration,
    /// Cost of a message at rank 0, sent or received.
    pub message_cost: Duration,
    /// Cost of a work item at rank 0, in addition to its message.
    pub item_cost: Duration,
    /// Cost per entry of listing a directory.
    pub list_cost: Duration,
    /// Cost of a work item at the launch process.
    pub launch_item_cost: Duration,
    /// Directories that the launch process creates at once.
    pub launch_workers: u32,
    /// Maximum entries in flight.
    pub outstanding_entries: u64,
}

/// The files to copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Workload {
    /// Files in one directory, simulated one by one.
    Files(Vec<Class>),
    /// Small files, in directories of equal size.
    Small {
        /// Number of files.
        files: u64,
        /// Size of each file, in bytes.
        bytes: u64,
        /// Number of files per directory.
        directory_entries: u64,
    },
}

/// A group of equal files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Number of files.
    pub files: u64,
    /// Size of each file, in bytes.
    pub bytes: u64,
    /// Number of consecutive targets that each file lies on; the seed decides the first.
    pub stripes: u32,
}

impl Workload {
    /// Returns the number of files.
    #[must_use]
    pub fn files(&self) -> u64 {
        match self {
            Workload::Files(classes) => classes.iter().map(|class| class.files).sum(),
            Workload::Small { files, .. } => *files,
        }
    }

    /// Returns the total size of all files, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Workload::Files(classes) => classes.iter().map(|class| class.files * class.bytes).sum(),
            Workload::Small { files, bytes, .. } => files * bytes,
        }
    }
}

/// Input of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The hardware.
    pub machine: MachineModel,
    /// The files to copy.
    pub workload: Workload,
    /// Number of ranks that copy.
    pub clients: u32,
    /// Processes that list directories.
    pub walk: WalkModel,
    /// Parameters of the scheduler.
    pub limits: Limits,
    /// Faults to inject.
    pub faults: Faults,
    /// Decides where files lie, which ranks are slow or lost, and which targets are fast.
    pub seed: u64,
}

/// Result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationOutcome {
    /// Simulated time from the start of the walk until everything is done.
    pub seconds: f64,
    /// Number of files copied.
    pub files: u64,
    /// Total size of the files copied, in bytes.
    pub bytes: u64,
    /// Bytes written by targets; exceeds `bytes` by what was copied again after a loss.
    pub bytes_written: u64,
    /// Number of starts of the job.
    pub attempts: u32,
    /// Messages to and from rank 0, without those of the link.
    pub messages: u64,
    /// Maximum entries queued at rank 0.
    pub queued_entries_max: u64,
    /// Utilisation of each resource.
    pub busy: Busy,
    /// Remarks of the scheduler.
    pub remarks: Vec<String>,
}

/// Fraction of the time that each resource was busy; 1 is a bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// Average over the targets, in the busier direction.
    pub targets: f64,
    /// The busiest target.
    pub busiest_target: f64,
    /// Average over the clients' links.
    pub links: f64,
    /// Average over the metadata servers.
    pub metadata: f64,
    /// The busiest metadata server.
    pub busiest_metadata: f64,
    /// The clients' processors and requests, with small files.
    pub clients: f64,
    /// Rank 0.
    pub rank_0: f64,
    /// The launch process.
    pub launch: f64,
}

impl Busy {
    /// Returns the name of the busiest resource, and the fraction of the time it was busy.
    #[must_use]
    pub fn bottleneck(&self) -> (&'static str, f64) {
        [
            ("storage targets", self.targets),
            ("client links", self.links),
            ("metadata servers", self.metadata),
            ("clients", self.clients),
            ("rank 0", self.rank_0),
            ("launch process", self.launch),
        ]
        .into_iter()
        .fold(("nothing", 0.0), |most, next| if next.1 > most.1 { next } else { most })
    }
}

impl SimulationOutcome {
    /// Returns the bytes copied per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns the files copied per second.
    #[must_use]
    pub fn files_rate(&self) -> f64 {
        self.files as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}
