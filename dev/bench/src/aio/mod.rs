//! Implements `haul-bench aio`: drives the engines alone, over records of one file, like aio-stress
//! drives the kernel's asynchronous I/O.
//!
//! ```text
//!   settings ──► file (made once) ──► for each pattern and kind, for each round, for each engine:
//!                                       drop the file from the cache ─► drive ─► check ─► outcome
//! ```
//!
//! A copy cannot show how fast an engine moves bytes when it does nothing else. These figures can,
//! and they compare with fio's for the same settings (docs/measurements/aio.md).
//!
//! The first round of each pattern and kind is discarded: a disk that was just written to, or just
//! had other work, often still has background work pending that no call waits for.
//!
//! Promises: engines are created anew for each round and take turns; a round starts with nothing of
//! the file in the page cache; reads are checked, and writes are read back; a failure ends the
//! benchmark; the file has no name that could stay behind.

mod drive;
mod file;
mod order;
mod outcome;
mod settings;

use std::io::{self, Write};
use std::time::Instant;

use haul_engine::{ENGINES, Engine, EngineEntry, EngineSetup, Ops};

use crate::compare::CompareVerdict;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::machine::MachineFacts;
use crate::names::ValueName;

use drive::AioJob;
use file::{Dropped, TestFile};
use order::RecordOrder;
use outcome::{AioReport, EngineFigures, Round, Rounds, UnavailableEngine};
use settings::AioSettings;
pub(crate) use settings::{AccessPattern, AioOptions, TransferKind};

/// Runs the benchmark, writing the table or the JSON to `output` and progress to `progress`.
///
/// # Errors
///
/// [`Error::Refused`] if it cannot run here, before anything was written; later, any failure.
pub(crate) fn aio(
    options: &AioOptions,
    output: &mut dyn Write,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict> {
    let settings = AioSettings::new(options)?;
    let (engines, refused) = engines(&options.engine, settings)?;
    let file = TestFile::make(&options.directory, settings, interrupt)?;
    let report = AioReport {
        machine: MachineFacts::look(),
        settings,
        cache_checked: true,
        refused,
        results: Vec::new(),
    };
    let mut benchmark = Benchmark { file, engines, report, output, progress, interrupt };
    if !options.json {
        let heading = outcome::heading(&benchmark.report);
        benchmark.output.write_all(heading.as_bytes()).map_err(Error::no_output)?;
    }
    for kind in &options.kind {
        for pattern in &options.pattern {
            for row in benchmark.run(*pattern, *kind)? {
                if !options.json {
                    benchmark.output.write_all(outcome::row(&row).as_bytes()).map_err(Error::no_output)?;
                }
                benchmark.report.results.push(row);
            }
        }
    }
    if options.json {
        serde_json::to_writer_pretty(&mut *benchmark.output, &benchmark.report)
            .map_err(io::Error::from)
            .and_then(|()| benchmark.output.write_all(b"\n"))
            .map_err(Error::no_output)?;
    }
    Ok(CompareVerdict::Good)
}

/// Returns the requested engines, and those the kernel refuses.
fn engines(
    names: &[String],
    settings: AioSettings,
) -> Result<(Vec<&'static EngineEntry>, Vec<UnavailableEngine>)> {
    let (mut usable, mut refused) = (Vec::new(), Vec::new());
    for listed in
        ENGINES.iter().filter(|listed| names.is_empty() || names.iter().any(|name| name == listed.name))
    {
        match make(listed, settings) {
            Ok(_) => usable.push(listed),
            Err(error) if names.is_empty() => {
                refused.push(UnavailableEngine { engine: listed.name, why: error.to_string() })
            }
            Err(error) => return Err(error),
        }
    }
    Ok((usable, refused))
}

fn make(listed: &EngineEntry, settings: AioSettings) -> Result<Box<dyn Engine>> {
    // Several operations in flight per file; engines with a choice then keep writes in flight, too.
    let setup = EngineSetup { ops: Some(Ops::Multi), ..EngineSetup::of_depth(settings.depth) };
    listed.choice.create(&setup).map_err(|error| {
        Error::Refused(format!(
            "the engine {} is not available here: {error:#}; nothing was written",
            listed.name
        ))
    })
}

struct Benchmark<'a> {
    file: TestFile,
    engines: Vec<&'static EngineEntry>,
    report: AioReport,
    output: &'a mut dyn Write,
    progress: &'a mut dyn Write,
    interrupt: &'a Interrupt,
}

impl Benchmark<'_> {
    /// Runs all rounds of all engines for one pattern and kind.
    fn run(&mut self, pattern: AccessPattern, kind: TransferKind) -> Result<Vec<EngineFigures>> {
        let AioSettings { records, seed, rounds, direct, .. } = self.report.settings;
        let mut results = vec![Rounds::default(); self.engines.len()];
        for round in 0..=rounds {
            let order = RecordOrder::new(pattern, records, seed, round);
            for (listed, result) in self.engines.clone().into_iter().zip(&mut results) {
                let once = self.round(listed, &order, kind)?;
                let line = format!(
                    "{} {} {} {round}/{rounds}: {} MB/s",
                    listed.name,
                    pattern.name(),
                    kind.name(),
                    outcome::speed(once.speed)
                );
                writeln!(self.progress, "{line}").map_err(Error::no_output)?;
                if round > 0 {
                    result.push(once);
                }
            }
        }
        let rows = self.engines.iter().zip(results);
        Ok(rows.filter_map(|(listed, result)| result.row(listed.name, pattern, kind, direct)).collect())
    }

    fn round(&mut self, listed: &EngineEntry, order: &RecordOrder, kind: TransferKind) -> Result<Round> {
        let settings = self.report.settings;
        if self.file.drop_cache()? == Dropped::AsFarAsKnown {
            self.report.cache_checked = false;
        }
        if kind != TransferKind::Read {
            self.file.begin_generation();
        }
        let mut engine = make(listed, settings)?;
        let job = AioJob { file: &self.file, settings, transfer: kind, order };
        let timing = drive::run(&mut *engine, &job, self.interrupt)?;
        let mut fsync_seconds = None;
        if kind == TransferKind::Write {
            let began = Instant::now();
            self.file.synchronize()?;
            fsync_seconds = Some(began.elapsed().as_secs_f64());
        }
        if kind != TransferKind::Read {
            self.file.verify()?;
        }
        let speed = settings.file_bytes as f64 / timing.seconds / 1e6;
        Ok(Round { speed, fsync_seconds, in_flight_max: timing.in_flight_max })
    }
}

#[cfg(test)]
mod tests;
