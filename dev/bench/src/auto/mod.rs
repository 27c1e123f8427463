//! Implements `haul-bench auto`: haul without options against the best of everything that can be
//! forced, over many trees and file systems.
//!
//! ```text
//!   file system ─► all sets are made ─► set ─► cache state ─► one run that doesn't count
//!                                                             rounds: the settings, shuffled
//!                                                             behind? again, only auto and the best
//! ```
//!
//! Every run gets a new target. The first copy of every setting in a cell is read back and
//! verified. A run that fails ends the measurement. A file system that can't be made here is
//! skipped, and the report says why.
//!
//! - [`sets`]: the trees and file sets; [`settings`]: what can be forced.
//! - [`grounds`]: where source and target are.
//! - [`findings`]: the figures, and when haul's own choice is behind.

pub(crate) mod findings;
mod grounds;
pub(crate) mod sets;
pub(crate) mod settings;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::candidates;
use crate::compare::CompareVerdict;
use crate::error::{Error, Result};
use crate::ground::{CacheState, ImageLayout, Sides, check_place};
use crate::image::FileSystem;
use crate::interrupt::Interrupt;
use crate::machine::MachineFacts;
use crate::measure::measure;
use crate::memory::touch_free;
use crate::names::ValueName;
use crate::noise::Noise;
use crate::outfile::OutFile;
use crate::programs;
use crate::report;
use crate::shapes::Totals;
use crate::table::seconds as shown;
use crate::verify::{self, Digest, UMASK};

use findings::{AutoFindings, Cell, Column, RATIO_MAX, Timing};
use grounds::{AutoGround, LocalFileSystem};
use sets::{FileSet, SETS};
use settings::{AUTO, AutoSetting, RequestLatency};

/// Options of `haul-bench auto`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AutoOptions {
    /// Trees and file sets to copy [default: all; a wrong name is answered with all names]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    trees: Vec<String>,
    /// File systems of source and target
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "ext4,xfs,btrfs,tmpfs",
        value_name = "TYPE,..."
    )]
    file_systems: Vec<LocalFileSystem>,
    /// State of the page cache when a run begins: source dropped or in memory
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cold,warm", value_name = "STATE,...")]
    cache: Vec<CacheState>,
    /// Latencies of a file system that makes every request wait; 0 for none
    #[arg(long, value_delimiter = ',', default_value = "0.2ms,1ms,5ms", value_name = "TIME,...", value_parser = parse_latency)]
    latency: Vec<Latency>,
    /// Rounds that count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Rounds of haul's own choice and the best setting alone, where it seems to be more than 5%
    /// behind; they decide. 0 for none
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(0..=1000))]
    rounds_again: u32,
    /// Make the trees F times as big
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// Seed of the files' contents and of the order of the runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for the images, on a disk; they are removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Binary of haul [default: the running haul, the one beside haul-bench, or the one on PATH]
    #[arg(long, value_name = "PATH")]
    haul: Option<PathBuf>,
    /// Program that mounts a file system with latency [default: haul-standin beside haul, or on
    /// PATH]
    #[arg(long, value_name = "PATH")]
    standin: Option<PathBuf>,
    /// Seconds after which a run is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Write the tables, as Markdown, to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write everything, every single run included, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the ratios in this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Time that every request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latency {
    micros: u64,
}

impl fmt::Display for Latency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ms", self.micros as f64 / 1e3)
    }
}

fn parse_latency(text: &str) -> std::result::Result<Latency, String> {
    let wrong = || format!("'{text}' is not a time such as 0.2ms");
    let (number, unit) = match text.strip_suffix("us") {
        Some(number) => (number, 1.0),
        None if text == "0" => (text, 1.0),
        None => (text.strip_suffix("ms").ok_or_else(wrong)?, 1e3),
    };
    let micros = number.parse::<f64>().map_err(|_| wrong())? * unit;
    if (0.0..=1e7).contains(&micros) { Ok(Latency { micros: micros.round() as u64 }) } else { Err(wrong()) }
}

/// Measures all cells, writing tables to `output` and progress to `progress`.
///
/// # Errors
///
/// A wrong option, a run that failed or copied wrong, or a failure of the test bed. What was
/// measured until then is in the JSON.
pub(crate) fn run(
    options: &AutoOptions,
    output: &mut dyn Write,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict> {
    let sets = chosen(options)?;
    let haul = candidates::haul_binary(options.haul.as_deref())?;
    let markdown = OutFile::create(options.markdown.as_deref())?;
    let json = OutFile::create(options.json.as_deref())?;
    let svg = OutFile::create(options.svg.as_deref())?;
    // Inherited by haul; the permissions of a correct copy depend on it.
    rustix::process::umask(UMASK.into());
    let findings = AutoFindings {
        machine: MachineFacts::look(),
        version: candidates::versions(&haul).into_iter().next().unwrap_or_default(),
        rounds: options.rounds,
        rounds_again: options.rounds_again,
        scale: options.scale,
        seed: options.seed,
        sets: sets.iter().map(|set| (set.name, set.about)).collect(),
        columns: Vec::new(),
        cells: Vec::new(),
    };
    let mut matrix = Matrix { options, haul, sets, findings, progress, interrupt };
    let run = matrix.run();
    json.write_json(&matrix.findings)?;
    run?;
    svg.write_text(|| report::heat::picture(&matrix.findings))?;
    let tables = report::ratios::tables(&matrix.findings);
    if options.markdown.is_none() {
        write!(output, "{tables}").map_err(Error::no_output)?;
    }
    markdown.write_text(|| tables).map(|()| CompareVerdict::Good)
}

fn chosen(options: &AutoOptions) -> Result<Vec<FileSet>> {
    if !(options.scale.is_finite() && options.scale > 0.0) {
        return Err(Error::Refused("--scale must be greater than 0".to_owned()));
    }
    if let Some(unknown) = options.trees.iter().find(|name| SETS.iter().all(|set| set.name != **name)) {
        let known = SETS.map(|set| set.name).join(", ");
        return Err(Error::Refused(format!("--trees: '{unknown}' is none of {known}")));
    }
    let wanted =
        |set: &FileSet| options.trees.is_empty() || options.trees.iter().any(|name| name == set.name);
    Ok(SETS.into_iter().filter(wanted).map(|set| set.scaled(options.scale)).collect())
}

struct Matrix<'a> {
    options: &'a AutoOptions,
    haul: PathBuf,
    sets: Vec<FileSet>,
    findings: AutoFindings,
    progress: &'a mut dyn Write,
    interrupt: &'a Interrupt,
}

/// A set in its place, with the digest that every copy must have.
struct PreparedSet {
    set: FileSet,
    source: PathBuf,
    expected: Digest,
}

/// Conditions common to the cells of one column.
#[derive(Clone, Copy)]
struct Conditions {
    column: usize,
    cache: CacheState,
    waits: RequestLatency,
}

impl Matrix<'_> {
    fn run(&mut self) -> Result<()> {
        let options = self.options;
        for place in options.file_systems.iter().copied() {
            let sets = self.sets.clone();
            let caches = match place {
                LocalFileSystem::Tmpfs => vec![CacheState::Warm],
                _ => options.cache.clone(),
            };
            let ground = self.local(place);
            let columns = caches.iter().map(|cache| self.column(place.name(), cache.name())).collect();
            self.on(ground, &sets, columns, &caches, RequestLatency::No)?;
        }
        for latency in options.latency.iter().copied().filter(|latency| latency.micros > 0) {
            let sets = self.sets.iter().filter(|set| set.with_latency);
            let sets: Vec<FileSet> = sets.map(|set| set.for_latency(latency.micros as f64 / 1e6)).collect();
            let ground = self.standin().and_then(|standin| AutoGround::with_latency(&standin, latency));
            let columns = vec![self.column("latency".to_owned(), latency.to_string())];
            self.on(ground, &sets, columns, &[CacheState::Cold], RequestLatency::Yes)?;
        }
        Ok(())
    }

    /// Makes a local file system.
    fn local(&self, place: LocalFileSystem) -> Result<AutoGround> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Refused("only root may mount file systems".to_owned()));
        }
        let sum = |one: Totals, other: Totals| Totals {
            files: one.files.saturating_add(other.files),
            directories: one.directories.saturating_add(other.directories),
            bytes: one.bytes.saturating_add(other.bytes),
        };
        let most = |one: Totals, other: Totals| Totals {
            files: one.files.max(other.files),
            directories: one.directories.max(other.directories),
            bytes: one.bytes.max(other.bytes),
        };
        let totals = || self.sets.iter().map(FileSet::totals);
        let all = totals().fold(Totals::default(), sum);
        if place != LocalFileSystem::Tmpfs {
            // The check only needs to know that there are two images.
            let layout =
                ImageLayout { source: FileSystem::Ext4, target: FileSystem::Ext4, sides: Sides::Two };
            programs::find(&format!("mkfs.{}", place.name()))?;
            check_place(&self.options.work, layout, all)?;
        }
        AutoGround::local(&self.options.work, place, all, totals().fold(Totals::default(), most))
    }

    fn standin(&self) -> Result<PathBuf> {
        let adjacent = self.haul.with_file_name("haul-standin");
        match &self.options.standin {
            Some(given) => given.canonicalize().map_err(Error::doing("find", given)),
            None if programs::is_executable(&adjacent) => Ok(adjacent),
            None => programs::find("haul-standin"),
        }
    }

    /// Adds a column and returns its index.
    fn column(&mut self, file_system: String, state: String) -> usize {
        self.findings.columns.push(Column { file_system, state, skipped: None });
        self.findings.columns.len() - 1
    }

    /// Measures the columns of one file system, and always removes it.
    fn on(
        &mut self,
        ground: Result<AutoGround>,
        sets: &[FileSet],
        columns: Vec<usize>,
        caches: &[CacheState],
        waits: RequestLatency,
    ) -> Result<()> {
        let mut ground = match ground {
            Ok(ground) => ground,
            Err(Error::LeftBehind { leftovers, cause }) => {
                return Err(Error::LeftBehind { leftovers, cause });
            }
            Err(error) if error.is_interruption() => return Err(error),
            Err(error) => {
                for column in columns {
                    let column = &mut self.findings.columns[column];
                    column.skipped = Some(error.to_string());
                    let line = format!("{}: skipped: {error}", column.name());
                    self.log(&line)?;
                }
                return Ok(());
            }
        };
        let conditions: Vec<Conditions> = columns
            .into_iter()
            .zip(caches)
            .map(|(column, cache)| Conditions { column, cache: *cache, waits })
            .collect();
        let measured = self.make(&mut ground, sets, &conditions).and_then(|made| {
            made.iter().try_for_each(|made| {
                conditions.iter().try_for_each(|conditions| self.cell(&mut ground, made, *conditions))
            })
        });
        Error::unless_left(measured, ground.close())
    }

    fn make(
        &mut self,
        ground: &mut AutoGround,
        sets: &[FileSet],
        conditions: &[Conditions],
    ) -> Result<Vec<PreparedSet>> {
        let name = conditions.first().map(|first| self.findings.columns[first.column].file_system.clone());
        self.log(&format!("{}: making the trees", name.unwrap_or_default()))?;
        for set in sets {
            set.make(&ground.source(set.name), self.options.seed, self.interrupt)?;
        }
        ground.seal()?;
        sets.iter()
            .map(|set| {
                let source = ground.source(set.name);
                let expected = verify::digest(&source, self.interrupt)?;
                Ok(PreparedSet { set: *set, source, expected })
            })
            .collect()
    }

    fn cell(&mut self, ground: &mut AutoGround, made: &PreparedSet, conditions: Conditions) -> Result<()> {
        let settings = settings::for_set(&made.set, conditions.waits);
        let mut cell = Cell::new(made.set.name, conditions.column, settings.iter().map(|one| one.name));
        let number = self.findings.cells.len() as u64;
        let mut order = Noise::new(self.options.seed, number);
        if let Some(auto) = settings.first() {
            self.once(ground, made, auto, conditions, true)?;
        }
        for round in 0..self.options.rounds {
            for setting in shuffled(settings.clone(), &mut order) {
                let seconds = self.once(ground, made, &setting, conditions, round == 0)?;
                cell.note(setting.name, seconds);
            }
        }
        cell.compare();
        let suspected = cell.comparison.filter(|first| first.ratio > RATIO_MAX);
        if let Some(first) = suspected.filter(|_| self.options.rounds_again > 0) {
            let pair: Vec<AutoSetting> =
                settings.into_iter().filter(|one| [AUTO, first.best].contains(&one.name)).collect();
            cell.compare_again(self.again(ground, made, &pair, first.best, conditions, &mut order)?);
        }
        self.log_cell(&cell)?;
        self.findings.cells.push(cell);
        Ok(())
    }

    fn again(
        &mut self,
        ground: &mut AutoGround,
        made: &PreparedSet,
        pair: &[AutoSetting],
        best: &'static str,
        conditions: Conditions,
        order: &mut Noise,
    ) -> Result<[Timing; 2]> {
        let mut timings = [AUTO, best].map(Timing::new);
        for _ in 0..self.options.rounds_again {
            for setting in shuffled(pair.to_vec(), order) {
                let seconds = self.once(ground, made, &setting, conditions, false)?;
                let timing = timings.iter_mut().find(|timing| timing.setting == setting.name);
                timing.into_iter().for_each(|timing| timing.seconds.push(seconds));
            }
        }
        Ok(timings)
    }

    /// Runs haul once onto a new target and returns the seconds it took.
    fn once(
        &mut self,
        ground: &mut AutoGround,
        made: &PreparedSet,
        setting: &AutoSetting,
        conditions: Conditions,
        verified: bool,
    ) -> Result<f64> {
        ground.renew(conditions.cache)?;
        let changed =
            || Error::Refused(format!("{}: the source has changed between two runs", made.set.name));
        match (conditions.cache, conditions.waits) {
            (CacheState::Warm, _) if verify::digest(&made.source, self.interrupt)? != made.expected => {
                return Err(changed());
            }
            (CacheState::Cold, RequestLatency::No) if made.set.half_cached => {
                grounds::read_half(&made.source)?
            }
            _ => {}
        }
        touch_free(made.set.totals().bytes);
        let target = ground.target();
        let said = programs::scratch()?;
        let mut command = Command::new(&self.haul);
        command.arg("cp").args(setting.words).arg(made.set.mode).args([&made.source, &target]);
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(programs::share(&said)?);
        let measured =
            measure(&mut command, Duration::from_secs(self.options.time_limit.into()), self.interrupt)?;
        ground.pace("off")?;
        let failure = match measured.failure(&programs::text_of(said)?) {
            None if verified => wrong_copy(made, &target, self.interrupt)?,
            failure => failure,
        };
        match failure {
            None => Ok(measured.usage.seconds),
            Some(why) => {
                let column = self.findings.columns[conditions.column].name();
                let (set, setting) = (made.set.name, setting.name);
                Err(Error::Failed(format!("{column}, {set}, {setting}: {why}")))
            }
        }
    }

    fn log_cell(&mut self, cell: &Cell) -> Result<()> {
        let column = self.findings.columns[cell.column].name();
        let figures = cell
            .timings
            .iter()
            .filter_map(|timing| Some(format!("{} {}", timing.setting, shown(timing.median()?))));
        let figures = figures.collect::<Vec<_>>().join(", ");
        let verdict = cell.comparison.map_or_else(String::new, |found| {
            let behind = if found.is_behind { ", behind" } else { "" };
            format!("; auto/{} {:.2}{behind}", found.best, found.ratio)
        });
        self.log(&format!("{column}, {}: {figures}{verdict}", cell.set))
    }

    fn log(&mut self, line: &str) -> Result<()> {
        writeln!(self.progress, "{line}").map_err(Error::no_output)
    }
}

fn wrong_copy(made: &PreparedSet, target: &Path, interrupt: &Interrupt) -> Result<Option<String>> {
    if verify::digest(target, interrupt)? == made.expected {
        return Ok(None);
    }
    let differences = verify::differences(&made.source, target, 3, interrupt)?;
    Ok(Some(format!("wrong copy: {}", differences.join("; "))))
}

/// Shuffles by Fisher and Yates.
fn shuffled<T>(mut items: Vec<T>, noise: &mut Noise) -> Vec<T> {
    for last in (1..items.len()).rev() {
        items.swap(last, (noise.next() % (last as u64 + 1)) as usize);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_units() {
        let shown = |text: &str| parse_latency(text).map(|latency| latency.to_string());
        assert_eq!(shown("0.2ms"), Ok("0.2 ms".to_owned()));
        assert_eq!(shown("5ms"), Ok("5 ms".to_owned()));
        assert_eq!(shown("250us"), Ok("0.25 ms".to_owned()));
        assert_eq!(parse_latency("0"), Ok(Latency { micros: 0 }));
        for wrong in ["", "5", "ms", "-1ms", "1s"] {
            assert!(parse_latency(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shuffling_depends_on_the_seed_and_keeps_everything() {
        let orders: Vec<Vec<u32>> =
            (0..20).map(|seed| shuffled((0..5).collect(), &mut Noise::new(seed, 0))).collect();
        assert_eq!(orders[3], shuffled((0..5).collect(), &mut Noise::new(3, 0)));
        let firsts: std::collections::BTreeSet<u32> = orders.iter().map(|order| order[0]).collect();
        assert_eq!(firsts.len(), 5);
        let sorted = |order: &Vec<u32>| {
            let mut order = order.clone();
            order.sort_unstable();
            order
        };
        assert!(orders.iter().all(|order| sorted(order) == [0, 1, 2, 3, 4]));
    }
}
