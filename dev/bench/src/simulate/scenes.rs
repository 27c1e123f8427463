//! The modelled machines and the jobs that run on them.
//!
//! Each constant names its source; "assumed" marks values that neither the document nor a
//! measurement gives. docs/scale.md explains what changes if they are wrong.

use std::time::Duration;

use haul_cluster::schedule::Limits;
use haul_simulation::{Class, Faults, MachineModel, Scenario, WalkModel, Workload};
use serde::Serialize;

use super::published::{ALL, PEAK};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum ClientModel {
    /// With many requests in flight, like haul's engines.
    Haul,
    /// Reads a buffer, writes it, then reads the next: one request in flight.
    OneRequest,
}

pub(crate) struct Planned {
    /// Its name in reports.
    pub(crate) workload: &'static str,
    pub(crate) client: ClientModel,
    /// Name of the fault; empty if the command line sets the faults.
    pub(crate) case: &'static str,
    pub(crate) scene: Scenario,
}

/// Parameters from the command line that apply to all jobs.
pub(crate) struct Assumptions {
    pub(crate) files: u64,
    pub(crate) faults: Faults,
    /// Entries per second that one process lists; `None` for the measured rate.
    pub(crate) list_rate: Option<f64>,
    /// Seed that decides where files are placed.
    pub(crate) seed: u64,
}

/// Entries per directory, and how many entries per second one process of haul lists in such
/// directories. Measured on the stand-in with 0.5 ms per metadata operation:
/// docs/measurements/cluster.md, "Listing".
pub(crate) const LIST_RATES: [(u64, f64); 2] = [(1000, 572_000.0), (100, 96_000.0)];

fn list_cost(rate: f64) -> Duration {
    Duration::from_secs_f64(1.0 / rate)
}

impl Assumptions {
    fn adapt(&self, mut scene: Scenario) -> Scenario {
        (scene.faults, scene.seed) = (self.faults, self.seed);
        if let Some(rate) = self.list_rate {
            scene.machine.list_cost = list_cost(rate);
        }
        scene
    }
}

pub(crate) const SMALL_CLIENTS: u32 = 1000;

/// Metadata servers in those jobs.
pub(crate) const SERVERS: [u32; 6] = [1, 4, 16, 32, 64, 128];

/// Clients in the document's jobs: powers of two, and the numbers its text mentions.
const CLIENTS: [u32; 16] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 100, 128, 160, 200, 256, 384, 512];

/// Targets per ordinary file, and per checkpoint. Assumed: Lustre's usual default on such a system,
/// and all of them (the document: "a fully striped file").
const STRIPES_ORDINARY: u32 = 4;
const STRIPES_CHECKPOINT: u32 = 80;

/// Returns the model of the document's machine.
pub(crate) fn document_machine() -> MachineModel {
    MachineModel {
        // The document: 80 OSTs, over 10 GB/s in total. Assumed to hold in both directions at once:
        // the document's copy at 9,300 MB/s moves twice that.
        targets: 80,
        target_rate: PEAK * 1e6 / 80.0,
        // Included in the 10 GB/s, which were measured with requests.
        target_overhead: Duration::ZERO,
        target_latency: Duration::from_micros(300), // assumed
        // The document: a single MDS. Its performance is assumed.
        metadata_servers: 1,
        metadata_rate: 5_000.0,
        metadata_latency: Duration::from_micros(500),
        // Lower bound for a client of that machine: GNU cp on workload 1 in the document.
        link_rate: ALL[0].cp * 1e6,
        requests_in_flight: 32,                     // haul's default depth
        streams: 8,                                 // assumed: local workers
        request_bytes: 1 << 20, // the document: "Lustre file system achieves best performance with 1 MB buffers"
        files_in_flight: 64,    // haul's default look-ahead
        file_cost: Duration::from_micros(30), // assumed
        message_latency: Duration::from_micros(7), // assumed: XT3's network
        message_cost: Duration::from_micros(10), // assumed
        item_cost: Duration::from_micros(2), // assumed; the scheduler itself takes less
        list_cost: list_cost(LIST_RATES[0].1), // measured
        launch_item_cost: Duration::from_micros(5), // assumed
        launch_workers: 8,      // assumed
        outstanding_entries: 4 << 20,
    }
}

/// Returns the model of a present-day machine for small files, with `metadata_servers` metadata
/// servers. Everything is assumed except the cost of listing.
pub(crate) fn small_files_machine(metadata_servers: u32) -> MachineModel {
    MachineModel {
        targets: 64,
        target_rate: 2e9,
        target_overhead: Duration::from_micros(20),
        target_latency: Duration::from_micros(200),
        metadata_servers,
        metadata_rate: 50_000.0,
        metadata_latency: Duration::from_micros(300),
        link_rate: 12.5e9,
        message_latency: Duration::from_micros(3),
        message_cost: Duration::from_micros(5),
        item_cost: Duration::from_micros(1),
        launch_item_cost: Duration::from_micros(5),
        launch_workers: 16,
        ..document_machine()
    }
}

pub(crate) const COMPRESSION: &str = "compression";

/// Files to compress, and the bytes of each: the document's test file, twenty times for each of
/// 64 clients.
const COMPRESSED_FILES: u64 = 1280;
pub(crate) const COMPRESSED_BYTES: u64 = 20_000_000;

/// Bytes per second that one processor compresses. Measured with bzip2 on mixed text and binary
/// files (docs/measurements/tools.md).
pub(crate) const COMPRESSION_RATE: f64 = 13e6;

/// Clients that compress; each is one processor.
const COMPRESSION_CLIENTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Plans the compression of many files: a client moves no more bytes per second than its processor
/// compresses, and files are never split. The output is counted as being as long as the input, the
/// worst case.
fn compression(assumed: &Assumptions) -> impl Iterator<Item = Planned> {
    COMPRESSION_CLIENTS.into_iter().map(move |clients| {
        let machine = MachineModel {
            link_rate: COMPRESSION_RATE,
            streams: 1,
            files_in_flight: 1,
            ..document_machine()
        };
        let class = Class { files: COMPRESSED_FILES, bytes: COMPRESSED_BYTES, stripes: STRIPES_ORDINARY };
        let limits =
            Limits { range_bytes_min: u64::MAX >> 1, range_bytes_max: u64::MAX >> 1, ..Limits::default() };
        let workload = Workload::Files(vec![class]);
        let scene = assumed.adapt(Scenario { limits, ..plain(machine, workload, clients) });
        Planned { workload: COMPRESSION, client: ClientModel::Haul, case: "", scene }
    })
}

fn workload(number: &str) -> Workload {
    let ordinary = |files| Class { files, bytes: 100_000_000, stripes: STRIPES_ORDINARY };
    let checkpoint = |files| Class { files, bytes: 24_000_000_000, stripes: STRIPES_CHECKPOINT };
    Workload::Files(match number {
        "1" => vec![ordinary(2400)],
        "2" => vec![checkpoint(10)],
        _ => vec![ordinary(1200), checkpoint(5)],
    })
}

/// Creates a scene without faults, in which the launch process walks the tree.
fn plain(machine: MachineModel, workload: Workload, clients: u32) -> Scenario {
    let (limits, faults) = (Limits::default(), Faults::default());
    Scenario { machine, workload, clients, walk: WalkModel::Launch, limits, faults, seed: 0 }
}

/// Plans the document's workloads with `clients` (or the default numbers if empty), compression,
/// and small files by metadata servers.
pub(crate) fn all(clients: &[u32], assumed: &Assumptions) -> Vec<Planned> {
    let clients = if clients.is_empty() { &CLIENTS[..] } else { clients };
    let mut planned = Vec::new();
    for published in &ALL {
        for client in [ClientModel::Haul, ClientModel::OneRequest] {
            planned.extend(clients.iter().map(|&clients| {
                let mut machine = document_machine();
                if client == ClientModel::OneRequest {
                    (machine.requests_in_flight, machine.streams, machine.files_in_flight) = (1, 1, 1);
                }
                let scene = assumed.adapt(plain(machine, workload(published.workload), clients));
                Planned { workload: published.workload, client, case: "", scene }
            }));
        }
    }
    planned.extend(compression(assumed));
    if assumed.files > 0 {
        planned.extend(small(assumed));
    }
    planned
}

fn small(assumed: &Assumptions) -> impl Iterator<Item = Planned> {
    let walks = [WalkModel::Launch, WalkModel::Ranks].into_iter();
    walks.flat_map(move |walk| {
        SERVERS.into_iter().map(move |servers| {
            let workload = small_files(assumed.files, 1000);
            let scene = Scenario { walk, ..plain(small_files_machine(servers), workload, SMALL_CLIENTS) };
            Planned { workload: "small", client: ClientModel::Haul, case: "", scene: assumed.adapt(scene) }
        })
    })
}

fn small_files(files: u64, directory_entries: u64) -> Workload {
    Workload::Small { files, bytes: 4096, directory_entries }
}

/// Ranks in the jobs that compare who lists.
pub(crate) const RANKS: [u32; 9] = [4, 12, 32, 64, 128, 256, 512, 1000, 2000];

/// Metadata servers in those jobs: enough that only listing can be the bottleneck.
pub(crate) const RANKS_SERVERS: u32 = 128;

/// Divisor of the number of small files, in those jobs and in the jobs with faults.
const FEWER: u64 = 10;

/// Plans small files by ranks, for each way to walk and each directory size.
pub(crate) fn by_ranks(assumed: &Assumptions) -> Vec<Planned> {
    let mut planned = Vec::new();
    for (directory_entries, rate) in LIST_RATES {
        let machine = MachineModel { list_cost: list_cost(rate), ..small_files_machine(RANKS_SERVERS) };
        for walk in [WalkModel::Launch, WalkModel::Ranks] {
            planned.extend(RANKS.into_iter().map(|clients| {
                let workload = small_files(assumed.files.div_ceil(FEWER), directory_entries);
                let scene = assumed.adapt(Scenario { walk, ..plain(machine, workload, clients) });
                Planned { workload: "ranks", client: ClientModel::Haul, case: "", scene }
            }));
        }
    }
    planned
}

pub(crate) const FAULTS_CLIENTS: u32 = 100;

/// Time from the loss of a rank until the next attempt makes progress: the timeout for a silent
/// host (`HAUL_SILENCE`). It is a few seconds if the launcher notices the loss by itself.
pub(crate) const RESTART_TIME: Duration = Duration::from_secs(60);

/// Named faults of the table. The figures are assumptions, not measurements.
pub(crate) fn faults() -> [(&'static str, Faults); 6] {
    let none = Faults { restart_time: RESTART_TIME, ..Faults::default() };
    let (lost, stragglers, target_spread) = (1, 0.05, 0.5);
    [
        ("nothing", none),
        ("one rank lost", Faults { lost_ranks: lost, ..none }),
        ("two ranks lost, one after the other", Faults { lost_ranks: 2, ..none }),
        ("5% of the ranks at a tenth of the speed", Faults { stragglers, straggler_speed: 0.1, ..none }),
        ("targets from half to one and a half of their rate", Faults { target_spread, ..none }),
        (
            "a rank lost, stragglers, uneven targets",
            Faults { lost_ranks: lost, stragglers, straggler_speed: 0.1, target_spread, ..none },
        ),
    ]
}

/// Plans the document's workloads and small files with each of the faults.
pub(crate) fn with_faults(assumed: &Assumptions) -> Vec<Planned> {
    let mut planned = Vec::new();
    for (case, faults) in faults() {
        let jobs = ALL.iter().map(|published| {
            let scene = plain(document_machine(), workload(published.workload), FAULTS_CLIENTS);
            (published.workload, scene)
        });
        let files = assumed.files.div_ceil(FEWER);
        let small = (files > 0).then(|| {
            let machine = small_files_machine(RANKS_SERVERS);
            let scene = plain(machine, small_files(files, 1000), SMALL_CLIENTS);
            ("small", Scenario { walk: WalkModel::Ranks, ..scene })
        });
        planned.extend(jobs.chain(small).map(|(workload, scene)| {
            let scene = Scenario { faults, ..assumed.adapt(scene) };
            Planned { workload, client: ClientModel::Haul, case, scene }
        }));
    }
    planned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assumed() -> Assumptions {
        Assumptions { files: 1000, faults: Faults::default(), list_rate: None, seed: 3 }
    }

    #[test]
    fn listing_costs_what_was_measured_unless_something_else_is_said() {
        let costs = |assumed: &Assumptions| {
            let mut costs: Vec<_> =
                by_ranks(assumed).iter().map(|planned| planned.scene.machine.list_cost.as_nanos()).collect();
            costs.dedup();
            costs
        };
        assert_eq!(costs(&assumed()), [1748, 10_417]);
        assert_eq!(costs(&Assumptions { list_rate: Some(250_000.0), ..assumed() }), [4000]);
    }

    #[test]
    fn faults_of_the_command_line_are_in_every_job_but_the_cases() {
        let faults = Faults { lost_ranks: 2, target_spread: 0.1, ..Faults::default() };
        let assumed = Assumptions { faults, ..assumed() };
        let jobs = all(&[5], &assumed).into_iter().chain(by_ranks(&assumed)).collect::<Vec<_>>();
        assert!(!jobs.is_empty() && jobs.iter().all(|planned| planned.scene.faults == faults));
        let cases = with_faults(&assumed);
        assert_eq!(cases.len(), 6 * 4);
        assert_eq!(cases[0].scene.faults.lost_ranks, 0);
        assert!(cases.iter().all(|planned| planned.scene.seed == 3 && !planned.case.is_empty()));
    }
}
