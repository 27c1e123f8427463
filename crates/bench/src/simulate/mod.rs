//! `haul bench simulate`: what a job does at sizes that no machine at hand has.
//!
//! It runs the real scheduler over a modelled file system (`haul_cluster::simulate`): the three workloads of the document at
//! full size on 1 to 512 clients, and 10⁹ small files on 1,000 ranks. Nothing here was measured, and every report says so;
//! docs/scale.md has the assumptions.
//!
//! - [`mod@scenes`]: the modelled machines, each constant with where it comes from, and what is run on them.
//! - [`mod@published`]: what the document says.

pub(crate) mod published;
pub(crate) mod scenes;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use haul_cluster::simulate::{self, Outcome, Walk};
use serde::Serialize;

use crate::compare::Verdict;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::report;

use scenes::{Client, Planned};

/// Says what to simulate.
#[derive(Args, Clone, Debug)]
pub struct SimulateOptions {
    /// Clients to copy the document's workloads with [default: 1,2,4,...,512, and some between]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Small files to copy with 1,000 ranks; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    files: u64,
    /// Number that decides where files lie
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write everything to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report with its plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// One simulated job.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// What was copied: "1", "2", "3" as in the document, or "small".
    pub(crate) workload: &'static str,
    /// How the clients copy.
    pub(crate) client: Client,
    /// How many there are.
    pub(crate) clients: u32,
    /// Metadata servers.
    pub(crate) metadata_servers: u32,
    /// Who lists directories.
    pub(crate) walk: Walk,
    /// What the hardware allows, in bytes a second: the links of the clients, or the targets.
    pub(crate) ceiling: f64,
    /// What came out.
    pub(crate) outcome: Outcome,
}

/// Everything that was simulated.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Simulated {
    /// What decided where files lie.
    pub(crate) seed: u64,
    /// Small files on 1,000 ranks.
    pub(crate) files: u64,
    /// The modelled machines.
    pub(crate) machines: Vec<(&'static str, simulate::Machine)>,
    /// What the document says.
    pub(crate) published: Vec<published::Published>,
    /// The jobs.
    pub(crate) points: Vec<Point>,
}

impl Point {
    /// Returns megabytes a second.
    pub(crate) fn rate(&self) -> f64 {
        self.outcome.rate() / 1e6
    }

    /// Returns the rate as a part of what the hardware allows.
    pub(crate) fn efficiency(&self) -> f64 {
        self.outcome.rate() / self.ceiling
    }
}

/// Simulates, and reports what came out.
///
/// # Errors
///
/// [`Error`] when a file cannot be written, or a signal came.
pub(crate) fn run(
    options: &SimulateOptions,
    output: &mut dyn Write,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<Verdict> {
    let json = create(options.json.as_deref())?;
    let html = create(options.html.as_deref())?;
    let mut points = Vec::new();
    for planned in scenes::all(&options.clients, options.files, options.seed) {
        interrupt.check()?;
        let Planned { workload, client, scene } = planned;
        let machine = &scene.machine;
        let outcome = simulate::run(&scene);
        let point = Point {
            workload,
            client,
            clients: scene.clients,
            metadata_servers: machine.metadata_servers,
            walk: scene.walk,
            ceiling: (f64::from(scene.clients) * machine.link_rate)
                .min(f64::from(machine.targets) * machine.target_rate),
            outcome,
        };
        let line = report::simulated::line(&point);
        writeln!(progress, "{line}").map_err(no_output)?;
        points.push(point);
    }
    let simulated = Simulated {
        seed: options.seed,
        files: options.files,
        machines: vec![
            ("the document's workloads", scenes::document_machine()),
            ("small files", scenes::small_files_machine(1)),
        ],
        published: published::ALL.to_vec(),
        points,
    };
    output.write_all(report::simulated::text(&simulated).as_bytes()).map_err(no_output)?;
    if let (Some(file), Some(path)) = (json, &options.json) {
        serde_json::to_writer_pretty(file, &simulated)
            .map_err(|error| Error::doing("write", path)(error.into()))?;
    }
    if let (Some(mut file), Some(path)) = (html, &options.html) {
        file.write_all(report::simulated::page(&simulated).as_bytes())
            .map_err(Error::doing("write", path))?;
    }
    Ok(Verdict::Good)
}

fn create(path: Option<&Path>) -> Result<Option<File>> {
    path.map(|path| File::create(path).map_err(Error::doing("create", path))).transpose()
}

fn no_output(source: std::io::Error) -> Error {
    Error::Io { doing: "write the results".to_owned(), source }
}
