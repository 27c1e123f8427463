//! The modelled machines, and what is run on them.
//!
//! Each constant says where it comes from; "assumed" is what neither the document nor a measurement gives. docs/scale.md
//! tells what changes when they are wrong.

use std::time::Duration;

use haul_cluster::schedule::Limits;
use haul_cluster::simulate::{Class, Machine, Scene, Walk, Workload};
use serde::Serialize;

use super::published::{ALL, PEAK};

/// How a client copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Client {
    /// Many requests in flight, as haul's engines have.
    Haul,
    /// A buffer is read, then written, then the next: one request in flight.
    OneRequest,
}

/// A job to be simulated.
pub(crate) struct Planned {
    /// What it is called in reports.
    pub(crate) workload: &'static str,
    /// How its clients copy.
    pub(crate) client: Client,
    /// What is simulated.
    pub(crate) scene: Scene,
}

/// Ranks of the jobs of small files.
pub(crate) const SMALL_CLIENTS: u32 = 1000;

/// Metadata servers of those jobs.
pub(crate) const SERVERS: [u32; 6] = [1, 4, 16, 32, 64, 128];

/// Clients of the document's jobs: powers of two, and some where its text says something.
const CLIENTS: [u32; 16] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 100, 128, 160, 200, 256, 384, 512];

/// Targets that an ordinary file lies on, of those that a checkpoint does. Assumed: Lustre's usual default on such a system, and
/// all of them (the document: "a fully striped file").
const STRIPES_ORDINARY: u32 = 4;
const STRIPES_CHECKPOINT: u32 = 80;

/// Returns the model of the document's machine.
pub(crate) fn document_machine() -> Machine {
    Machine {
        // The document: 80 OSTs, over 10 GB/s in all. That it is had in both directions at once is assumed: a copy at 9,300 MB/s, as
        // the document has it, moves twice that.
        targets: 80,
        target_rate: PEAK * 1e6 / 80.0,
        // In the 10 GB/s already, which were measured with requests.
        target_overhead: Duration::ZERO,
        target_latency: Duration::from_micros(300), // assumed
        // The document: a single MDS. What it does was assumed.
        metadata_servers: 1,
        metadata_rate: 5_000.0,
        metadata_latency: Duration::from_micros(500),
        // The least that a client of that machine can: what the document's GNU cp did on workload 1.
        link_rate: ALL[0].cp * 1e6,
        requests_in_flight: 32,                     // haul's default depth
        streams: 8,                                 // assumed: local workers
        request_bytes: 1 << 20, // the document: "Lustre file system achieves best performance with 1 MB buffers"
        files_in_flight: 64,    // haul's default look-ahead
        file_cost: Duration::from_micros(30), // assumed
        message_latency: Duration::from_micros(7), // assumed: XT3's network
        message_cost: Duration::from_micros(10), // assumed
        part_cost: Duration::from_micros(2), // assumed; the scheduler itself takes less
        list_cost: Duration::from_micros(5), // assumed
        launch_part_cost: Duration::from_micros(5), // assumed
        launch_workers: 8,      // assumed
        outstanding_entries: 4 << 20,
    }
}

/// Returns the model of a machine of today for small files, with so many metadata servers. Everything in it is assumed.
pub(crate) fn small_files_machine(metadata_servers: u32) -> Machine {
    Machine {
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
        part_cost: Duration::from_micros(1),
        list_cost: Duration::from_micros(3),
        launch_part_cost: Duration::from_micros(5),
        launch_workers: 16,
        ..document_machine()
    }
}

/// What compression is called among the workloads.
pub(crate) const COMPRESSION: &str = "compression";

/// Files that are compressed, and the bytes of each: the document's test file, as often as gives each of 64 clients twenty.
const COMPRESSED_FILES: u64 = 1280;
pub(crate) const COMPRESSED_BYTES: u64 = 20_000_000;

/// Bytes a second that one processor compresses; measured with bzip2 on mixed text and binary (docs/measurements/tools.md).
pub(crate) const COMPRESSION_RATE: f64 = 13e6;

/// Clients that compress, each of which is one processor.
const COMPRESSION_CLIENTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Plans the compression of many files: a client moves no more bytes a second than its processor compresses, and a file is
/// never cut. What is written is counted as if it were as long as what was read, which is the worst case.
fn compression(seed: u64) -> impl Iterator<Item = Planned> {
    COMPRESSION_CLIENTS.into_iter().map(move |clients| {
        let machine =
            Machine { link_rate: COMPRESSION_RATE, streams: 1, files_in_flight: 1, ..document_machine() };
        let class = Class { files: COMPRESSED_FILES, bytes: COMPRESSED_BYTES, stripes: STRIPES_ORDINARY };
        let limits =
            Limits { range_bytes_min: u64::MAX >> 1, range_bytes_max: u64::MAX >> 1, ..Limits::default() };
        let workload = Workload::Files(vec![class]);
        let scene = Scene { machine, workload, clients, walk: Walk::Launch, limits, seed };
        Planned { workload: COMPRESSION, client: Client::Haul, scene }
    })
}

/// Returns a workload of the document, by its number.
fn workload(number: &str) -> Workload {
    let ordinary = |files| Class { files, bytes: 100_000_000, stripes: STRIPES_ORDINARY };
    let checkpoint = |files| Class { files, bytes: 24_000_000_000, stripes: STRIPES_CHECKPOINT };
    Workload::Files(match number {
        "1" => vec![ordinary(2400)],
        "2" => vec![checkpoint(10)],
        _ => vec![ordinary(1200), checkpoint(5)],
    })
}

/// Plans all jobs: the document's workloads with `clients`, or those that are usual, compression, and `files` small files.
pub(crate) fn all(clients: &[u32], files: u64, seed: u64) -> Vec<Planned> {
    let clients = if clients.is_empty() { &CLIENTS[..] } else { clients };
    let mut planned = Vec::new();
    for published in &ALL {
        for client in [Client::Haul, Client::OneRequest] {
            planned.extend(clients.iter().map(|&clients| {
                let mut machine = document_machine();
                if client == Client::OneRequest {
                    (machine.requests_in_flight, machine.streams, machine.files_in_flight) = (1, 1, 1);
                }
                let (workload, limits) = (workload(published.workload), Limits::default());
                let scene = Scene { machine, workload, clients, walk: Walk::Launch, limits, seed };
                Planned { workload: published.workload, client, scene }
            }));
        }
    }
    planned.extend(compression(seed));
    if files > 0 {
        planned.extend(small(files, seed));
    }
    planned
}

fn small(files: u64, seed: u64) -> impl Iterator<Item = Planned> {
    let walks = [Walk::Launch, Walk::Ranks].into_iter();
    walks.flat_map(move |walk| {
        SERVERS.into_iter().map(move |servers| {
            let workload = Workload::Small { files, bytes: 4096, directory_entries: 1000 };
            let (machine, limits) = (small_files_machine(servers), Limits::default());
            let scene = Scene { machine, workload, clients: SMALL_CLIENTS, walk, limits, seed };
            Planned { workload: "small", client: Client::Haul, scene }
        })
    })
}
