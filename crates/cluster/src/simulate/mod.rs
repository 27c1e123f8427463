//! The real scheduler over a modelled file system: what a job does at sizes that no machine at hand has.
//!
//! A discrete-event model. What is modelled is the world: storage targets, metadata servers, the clients' links, messages, the
//! walk of the launch process. What decides is the code that runs in a job: [`crate::schedule`] and `haul_flow::plan`.
//!
//! ```text
//!   launch ──parts──► rank 0 ──orders──► rank ──open, create──► metadata servers
//!    walk, bound      Scheduler           │                      (operations a second, FIFO)
//!                     a cost a message    └─1 MiB─► target ─► link in ─► link out ─► target
//!                                                   read                            write
//! ```
//!
//! Whatever can be waited for is a queue that serves in order ([`Served`]); nothing else takes time. Small files are modelled by
//! the bundle: 10⁹ of them one by one would be 10¹⁰ events.
//!
//! Where [`Faults`] says so, ranks are lost and the job starts again ([`mod@faults`]), some ranks are slow, and targets differ.
//!
//! It promises: the same seed gives the same figures; no rate is above what the modelled hardware gives; every file is copied,
//! whatever is lost (`tests/simulation.rs`). It does not model: other users, caches, contention inside a network.

mod clock;
mod faults;
mod launch;
mod rank;
mod storage;
mod world;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::schedule::Limits;
pub use faults::Faults;
pub use storage::Served;
pub use world::run;

/// Who lists directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Walk {
    /// The launch process.
    Launch,
    /// The ranks, a directory at a time; the names go to the launch process.
    Ranks,
}

/// The modelled hardware. Rates are bytes a second, if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Storage targets.
    pub targets: u32,
    /// What a target reads, and what it writes at the same time.
    pub target_rate: f64,
    /// What a request costs a target beside its bytes.
    pub target_overhead: Duration,
    /// From a client to a target and back, but for the target's own time.
    pub target_latency: Duration,
    /// Metadata servers; a directory is on one of them.
    pub metadata_servers: u32,
    /// Operations a second of each.
    pub metadata_rate: f64,
    /// How long an operation takes when nobody waits.
    pub metadata_latency: Duration,
    /// What a client's link carries, each way.
    pub link_rate: f64,
    /// Requests that a client has in flight.
    pub requests_in_flight: u32,
    /// Files or ranges that a client moves at once: its local workers.
    pub streams: u32,
    /// Bytes of a request, and of a stripe.
    pub request_bytes: u64,
    /// Files that a client has open at once.
    pub files_in_flight: u32,
    /// What a small file costs a client's processors.
    pub file_cost: Duration,
    /// How long a message is on its way.
    pub message_latency: Duration,
    /// What a message costs rank 0, sent or received.
    pub message_cost: Duration,
    /// What a part costs rank 0, beside its message.
    pub part_cost: Duration,
    /// What an entry costs whoever lists its directory.
    pub list_cost: Duration,
    /// What a part costs the launch process.
    pub launch_part_cost: Duration,
    /// Directories that the launch process makes at once.
    pub launch_workers: u32,
    /// Entries that are under way at most.
    pub outstanding_entries: u64,
}

/// What is copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Workload {
    /// Files in one directory, one by one.
    Files(Vec<Class>),
    /// Small files, in directories of the same size.
    Small {
        /// How many.
        files: u64,
        /// Bytes of each.
        bytes: u64,
        /// How many are in a directory.
        directory_entries: u64,
    },
}

/// Files that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// How many.
    pub files: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// Targets that each lies on, one after another from one that the seed decides.
    pub stripes: u32,
}

impl Workload {
    /// Returns how many files there are.
    #[must_use]
    pub fn files(&self) -> u64 {
        match self {
            Workload::Files(classes) => classes.iter().map(|class| class.files).sum(),
            Workload::Small { files, .. } => *files,
        }
    }

    /// Returns the bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Workload::Files(classes) => classes.iter().map(|class| class.files * class.bytes).sum(),
            Workload::Small { files, bytes, .. } => files * bytes,
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// The hardware.
    pub machine: Machine,
    /// What is copied.
    pub workload: Workload,
    /// Ranks that copy.
    pub clients: u32,
    /// Who lists directories.
    pub walk: Walk,
    /// The scheduler's measures.
    pub limits: Limits,
    /// What goes wrong.
    pub faults: Faults,
    /// Decides where files lie, which ranks are slow or lost, and which targets are fast.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// From the start of the walk until all is over.
    pub seconds: f64,
    /// Files copied.
    pub files: u64,
    /// Bytes of the files that were copied.
    pub bytes: u64,
    /// Bytes that targets wrote: above `bytes` by what was copied again after a loss.
    pub bytes_written: u64,
    /// How often the job was started.
    pub attempts: u32,
    /// Messages to and from rank 0, but for the link to the launch process.
    pub messages: u64,
    /// The most entries that were queued at rank 0.
    pub queued_entries_max: u64,
    /// What was busy, and how much of the time.
    pub busy: Busy,
    /// What the scheduler remarked.
    pub remarks: Vec<String>,
}

/// Which part of the time everything was busy: 1 is a bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// The targets, on the average: the busier direction.
    pub targets: f64,
    /// The busiest target.
    pub busiest_target: f64,
    /// The clients' links, on the average.
    pub links: f64,
    /// The metadata servers, on the average.
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
    /// Returns what was busiest, by name, and how much of the time.
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

impl Outcome {
    /// Returns bytes copied a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns files copied a second.
    #[must_use]
    pub fn files_rate(&self) -> f64 {
        self.files as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}
