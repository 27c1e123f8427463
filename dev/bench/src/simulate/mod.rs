//! Implements `haul-bench simulate`: models a job at sizes that no machine at hand has.
//!
//! The real scheduler runs over a modelled file system (`haul_simulation`). The jobs are the
//! three workloads of the document at full size on 1 to 512 clients, 10⁹ small files on 1,000
//! ranks, small files on 4 to 2,000 ranks, and the cost of lost ranks, slow ranks and uneven
//! targets. The only measured rate is that of listing, and every report says so; docs/scale.md
//! lists the assumptions.
//!
//! - [`mod@scenes`]: the modelled machines, with the source of each constant, and their jobs.
//! - [`mod@published`]: the figures in the document.

pub(crate) mod published;
pub(crate) mod scenes;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use haul_simulation::{Faults, SimulationOutcome, WalkModel, Workload};
use serde::Serialize;

use crate::compare::CompareVerdict;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::outfile::OutFile;
use crate::report;

use scenes::{Assumptions, ClientModel, Planned, RESTART_TIME};

/// Options of `haul-bench simulate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SimulateOptions {
    /// Clients to copy the document's workloads with [default: 1,2,4,...,512, and some between]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Small files to copy with 1,000 ranks; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    files: u64,
    /// Entries a second that one process lists [default: as measured, docs/measurements/cluster.md]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    list_rate: Option<u32>,
    /// Ranks that are lost, one after the other; the job starts again without each
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=2))]
    lost_ranks: u32,
    /// Seconds from a loss until the next attempt works
    #[arg(long, value_name = "SECONDS", default_value_t = RESTART_TIME.as_secs())]
    restart_time: u64,
    /// Percentage of the ranks that are slow
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    stragglers: u32,
    /// Speed of a slow rank, in percent of that of the others
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    straggler_speed: u32,
    /// Spread of target rates: up to this many percent below and above the average
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=95))]
    target_spread: u32,
    /// Number that decides where files lie, and which ranks and targets are slow
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write everything to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report with its plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// The document's workload "1", "2" or "3", or "compression", "small" or "ranks".
    pub(crate) workload: &'static str,
    pub(crate) client: ClientModel,
    pub(crate) clients: u32,
    pub(crate) metadata_servers: u32,
    /// Who lists directories.
    pub(crate) walk: WalkModel,
    pub(crate) directory_entries: u64,
    /// Name of the fault; empty if the command line sets the faults.
    pub(crate) case: &'static str,
    /// Hardware limit in bytes per second: the clients' links or the targets, whichever is lower.
    pub(crate) ceiling: f64,
    pub(crate) outcome: SimulationOutcome,
}

/// Results of all simulated jobs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Simulated {
    /// Seed that decides where files are placed.
    pub(crate) seed: u64,
    /// Number of small files, on 1,000 ranks.
    pub(crate) files: u64,
    pub(crate) machines: Vec<(&'static str, haul_simulation::MachineModel)>,
    pub(crate) published: Vec<published::Published>,
    /// Faults from the command line, in all jobs except `cases`.
    pub(crate) faults: Faults,
    pub(crate) points: Vec<Point>,
    /// Jobs with small files, by ranks.
    pub(crate) by_ranks: Vec<Point>,
    /// Jobs that show the cost of each fault.
    pub(crate) cases: Vec<Point>,
}

impl SimulateOptions {
    fn assumptions(&self) -> Assumptions {
        let part = |percent: u32| f64::from(percent) / 100.0;
        let faults = Faults {
            lost_ranks: self.lost_ranks,
            restart_time: Duration::from_secs(self.restart_time),
            stragglers: part(self.stragglers),
            straggler_speed: part(self.straggler_speed),
            target_spread: part(self.target_spread),
        };
        Assumptions { files: self.files, faults, list_rate: self.list_rate.map(f64::from), seed: self.seed }
    }
}

impl Point {
    pub(crate) fn simulate(planned: &Planned) -> Self {
        let Planned { workload, client, case, ref scene } = *planned;
        let machine = &scene.machine;
        Self {
            workload,
            client,
            clients: scene.clients,
            metadata_servers: machine.metadata_servers,
            walk: scene.walk,
            directory_entries: match scene.workload {
                Workload::Small { directory_entries, .. } => directory_entries,
                Workload::Files(_) => scene.workload.files(),
            },
            case,
            ceiling: (f64::from(scene.clients) * machine.link_rate)
                .min(f64::from(machine.targets) * machine.target_rate),
            outcome: haul_simulation::run(scene),
        }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.outcome.rate() / 1e6
    }

    /// Returns the rate as a fraction of the hardware limit.
    pub(crate) fn efficiency(&self) -> f64 {
        self.outcome.rate() / self.ceiling
    }
}

pub(crate) fn run(
    options: &SimulateOptions,
    output: &mut dyn Write,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict> {
    let json = OutFile::create(options.json.as_deref())?;
    let html = OutFile::create(options.html.as_deref())?;
    let assumed = options.assumptions();
    let mut simulate = |planned: Vec<Planned>| -> Result<Vec<Point>> {
        let mut points = Vec::with_capacity(planned.len());
        for planned in planned {
            interrupt.check()?;
            let point = Point::simulate(&planned);
            writeln!(progress, "{}", report::simulated::line(&point)).map_err(Error::no_output)?;
            points.push(point);
        }
        Ok(points)
    };
    let points = simulate(scenes::all(&options.clients, &assumed))?;
    let by_ranks = if options.files > 0 { simulate(scenes::by_ranks(&assumed))? } else { Vec::new() };
    let cases = simulate(scenes::with_faults(&assumed))?;
    let simulated = Simulated {
        seed: options.seed,
        files: options.files,
        machines: vec![
            ("the document's workloads", scenes::document_machine()),
            ("small files", scenes::small_files_machine(1)),
        ],
        published: published::ALL.to_vec(),
        faults: assumed.faults,
        points,
        by_ranks,
        cases,
    };
    output.write_all(report::simulated::text(&simulated).as_bytes()).map_err(Error::no_output)?;
    json.write_json(&simulated)?;
    html.write_text(|| report::simulated::page(&simulated))?;
    Ok(CompareVerdict::Good)
}
