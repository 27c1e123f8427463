//! Implements `haul-bench tools`: races haul's other tools against the programs people use instead.
//!
//! Each material gets its own [`ImageGround`]. A race on it is a series of paired runs: in every
//! round, all participants run in turn, over the same files in the same cache state, into a freshly
//! made file system. A time counts only if the result was verified. The aim is shown next to the
//! ratio.

mod material;
mod races;
mod ranks;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::candidates;
use crate::compare::{CompareVerdict, check_machine};
use crate::error::{Error, Result};
use crate::ground::{ImageGround, ImageLayout, Sides, Workload};
use crate::image::FileSystem;
use crate::interrupt::Interrupt;
use crate::machine::MachineFacts;
use crate::measure::measure;
use crate::outfile::OutFile;
use crate::programs;
use crate::statistics::Summary;
use crate::verify::Digest;

use material::Makings;
use races::{Aim, RACES, RacedTool, Runner, ToolRace};

/// Options of `haul-bench tools`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ToolsOptions {
    /// Tools to race [default: all]
    #[arg(value_name = "TOOL", value_enum)]
    tools: Vec<RacedTool>,
    /// Races to run [default: all of the tools'; a wrong name is answered with all names]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Make the data and the made tree F times as big: smaller for a small disk
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// Real directory that is archived and searched
    #[arg(long, value_name = "DIR", default_value = "/usr/share")]
    tree: PathBuf,
    /// Rounds that count, after one that is thrown away
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Directory for the images, on a disk; they are removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Binary of haul [default: the running haul, the one beside haul-bench, or the one on PATH]
    #[arg(long, value_name = "PATH")]
    haul: Option<PathBuf>,
    /// Program that stands in for a striped file system [default: haul-standin beside haul, or
    /// on PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) standin: Option<PathBuf>,
    /// Seconds after which a run is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Write everything, every single run included, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct RaceOutcome {
    race: &'static str,
    runners: Vec<RunnerResult>,
    aims: Vec<Reached>,
}

#[derive(Debug, Serialize)]
struct RunnerResult {
    name: &'static str,
    seconds: Vec<f64>,
    failure: Option<String>,
}

#[derive(Debug, Serialize)]
struct Reached {
    than: &'static str,
    aim: f64,
    /// The rival's median divided by haul's; `None` if either has no time.
    ratio: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ToolsReport {
    machine: MachineFacts,
    rounds: u32,
    outcomes: Vec<RaceOutcome>,
}

/// Races the tools, writing the table to `output` and progress to `progress`.
pub(crate) fn run(
    options: &ToolsOptions,
    output: &mut dyn Write,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict> {
    let chosen = chosen(options)?;
    check_machine(LAYOUT)?;
    let makings = Makings::new(options.scale, &options.tree)?;
    let haul = candidates::haul_binary(options.haul.as_deref())?;
    let json = OutFile::create(options.json.as_deref())?;
    let report = ToolsReport { machine: MachineFacts::look(), rounds: options.rounds, outcomes: Vec::new() };
    let mut match_day = MatchDay { options, haul, makings, report, output, progress, interrupt };
    match_day.print_head()?;
    let raced = match_day.races(&chosen).and_then(|()| match_day.ranks());
    json.write_json(&match_day.report)?;
    raced.map(|()| match_day.verdict())
}

const LAYOUT: ImageLayout =
    ImageLayout { source: FileSystem::Ext4, target: FileSystem::Ext4, sides: Sides::Two };

/// Returns the races asked for, grouped by material.
fn chosen(options: &ToolsOptions) -> Result<Vec<&'static ToolRace>> {
    let names = || RACES.iter().map(|race| race.name).chain(ranks::NAMES);
    if let Some(unknown) = options.only.iter().find(|only| names().all(|name| name != *only)) {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(Error::Refused(format!("--only: '{unknown}' is none of {known}")));
    }
    let mut chosen: Vec<_> = RACES.iter().filter(|race| options.wants(race.tool, race.name)).collect();
    chosen.sort_by_key(|race| race.material);
    Ok(chosen)
}

impl ToolsOptions {
    fn wants(&self, tool: RacedTool, name: &str) -> bool {
        let by_tool = self.tools.is_empty() || self.tools.contains(&tool);
        by_tool && (self.only.is_empty() || self.only.iter().any(|only| only == name))
    }
}

struct MatchDay<'a> {
    options: &'a ToolsOptions,
    haul: PathBuf,
    makings: Makings,
    report: ToolsReport,
    output: &'a mut dyn Write,
    progress: &'a mut dyn Write,
    interrupt: &'a Interrupt,
}

impl MatchDay<'_> {
    fn races(&mut self, chosen: &[&'static ToolRace]) -> Result<()> {
        chosen
            .chunk_by(|one, other| one.material == other.material)
            .try_for_each(|races| self.on_one_ground(races))
    }

    /// Runs the races over one material, and always removes its test bed.
    fn on_one_ground(&mut self, races: &[&'static ToolRace]) -> Result<()> {
        let Some(material) = races.first().map(|race| race.material) else { return Ok(()) };
        self.log(&format!("{material:?}: making the images and what is raced over"))?;
        let made = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&self.options.work);
        let made = made.map_err(Error::doing("create a directory in", &self.options.work))?;
        let place = made.path().join("tree");
        material::make(material, &self.makings, &place, self.interrupt)?;
        let workload = Workload::Real(place);
        let mut totals = workload.totals()?;
        // The target also holds archives, and trees extracted from them.
        totals.files = totals.files.max(self.makings.many.totals().files);
        totals.bytes = totals.bytes.saturating_mul(3).saturating_add(totals.files.saturating_mul(1536));
        let mut ground = ImageGround::new(&self.options.work, LAYOUT, totals)?;
        let expected = ground.prepare(&workload, self.interrupt);
        drop(made);
        let run = expected
            .and_then(|expected| races.iter().try_for_each(|race| self.race(&mut ground, race, expected)));
        Error::unless_left(run, ground.finish())
    }

    fn race(&mut self, ground: &mut ImageGround, race: &'static ToolRace, expected: Digest) -> Result<()> {
        let is_there =
            |runner: &&Runner| runner.program.is_none_or(|program| programs::find(program).is_ok());
        let runners = race.runners.iter().filter(is_there).map(|runner| (runner.name, runner));
        self.in_turn(race.name, runners, race.aims, |day, runner| {
            ground.ready(race.cache, expected, day.interrupt)?;
            day.run_once(ground, runner, race.check)
        })
    }

    /// Runs all participants in turn and reports them. One that fails drops out.
    fn in_turn<T>(
        &mut self,
        race: &'static str,
        participants: impl Iterator<Item = (&'static str, T)>,
        aims: &[Aim],
        mut run_once: impl FnMut(&Self, &T) -> Result<std::result::Result<f64, String>>,
    ) -> Result<()> {
        let mut ran: Vec<(T, RunnerResult)> =
            participants.map(|(name, runner)| (runner, RunnerResult::new(name))).collect();
        for round in 0..=self.options.rounds {
            for (runner, ran) in ran.iter_mut().filter(|(_, ran)| ran.failure.is_none()) {
                let outcome = run_once(self, runner)?;
                let shown = shown(&outcome);
                self.log(&format!("{race} {round}/{} {}: {shown}", self.options.rounds, ran.name))?;
                ran.note(round, outcome);
            }
        }
        self.finish_race(race, ran.into_iter().map(|(_, ran)| ran).collect(), aims)
    }

    /// Runs one participant once; returns its seconds, or why there are none.
    fn run_once(
        &self,
        ground: &ImageGround,
        runner: &Runner,
        check: &str,
    ) -> Result<std::result::Result<f64, String>> {
        let said = programs::scratch()?;
        let mut command = self.shell(ground, runner.line);
        command.stderr(programs::share(&said)?);
        let limit = Duration::from_secs(self.options.time_limit.into());
        let measured = measure(&mut command, limit, self.interrupt)?;
        if let Some(failure) = measured.failure(&programs::text_of(said)?) {
            return Ok(Err(failure));
        }
        let checked = measure(&mut self.shell(ground, check), limit * 4, self.interrupt)?;
        Ok(match checked.ending.failure() {
            Some(_) => Err("wrong result".to_owned()),
            None => Ok(measured.usage.seconds),
        })
    }

    fn shell(&self, ground: &ImageGround, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("S", ground.source_tree()).env("T", ground.target_top());
        command.env("HAUL", &self.haul).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn finish_race(&mut self, race: &'static str, runners: Vec<RunnerResult>, aims: &[Aim]) -> Result<()> {
        let haul = runners.first().and_then(RunnerResult::median);
        let reached = |aim: &Aim| {
            let theirs = runners.iter().find(|ran| ran.name == aim.than).and_then(RunnerResult::median);
            Reached {
                than: aim.than,
                aim: aim.times,
                ratio: theirs.zip(haul).map(|(theirs, haul)| theirs / haul),
            }
        };
        let outcome = RaceOutcome { race, aims: aims.iter().map(reached).collect(), runners };
        let lines = lines(&outcome);
        self.report.outcomes.push(outcome);
        write!(self.output, "{lines}").map_err(Error::no_output)
    }

    fn print_head(&mut self) -> Result<()> {
        let head =
            "| race | who | seconds | min–max | their time / haul's | aim |\n|---|---|---:|---:|---:|---:|\n";
        write!(self.output, "{head}").map_err(Error::no_output)
    }

    fn log(&mut self, line: &str) -> Result<()> {
        writeln!(self.progress, "{line}").map_err(Error::no_output)
    }

    /// Returns [`CompareVerdict::HaulFailed`] if haul failed in any race.
    fn verdict(&self) -> CompareVerdict {
        let failed =
            |outcome: &RaceOutcome| outcome.runners.first().is_none_or(|haul| haul.failure.is_some());
        if self.report.outcomes.iter().any(failed) {
            CompareVerdict::HaulFailed
        } else {
            CompareVerdict::Good
        }
    }
}

impl RunnerResult {
    fn new(name: &'static str) -> Self {
        Self { name, seconds: Vec::new(), failure: None }
    }

    /// Records the outcome of a run; the first round does not count.
    fn note(&mut self, round: u32, outcome: std::result::Result<f64, String>) {
        match outcome {
            Ok(seconds) if round > 0 => self.seconds.push(seconds),
            Ok(_) => {}
            Err(why) => self.failure = Some(why),
        }
    }

    fn summary(&self) -> Option<Summary> {
        if self.failure.is_some() { None } else { Summary::of(self.seconds.iter().copied()) }
    }

    fn median(&self) -> Option<f64> {
        self.summary().map(|summary| summary.median)
    }
}

fn shown(outcome: &std::result::Result<f64, String>) -> String {
    match outcome {
        Ok(seconds) => format!("{seconds:.3} s"),
        Err(why) => format!("out: {why}"),
    }
}

fn lines(outcome: &RaceOutcome) -> String {
    let haul = outcome.runners.first().and_then(RunnerResult::median);
    let line = |ran: &RunnerResult| {
        let aim = outcome.aims.iter().find(|aim| aim.than == ran.name);
        let aim = aim.map_or_else(String::new, |aim| format!("{:.2}", aim.aim));
        let figures = match (ran.summary(), haul) {
            (Some(summary), Some(haul)) => {
                let Summary { median, min, max, .. } = summary;
                format!("{median:.3} | {min:.3}–{max:.3} | {:.2}", median / haul)
            }
            (Some(summary), None) => {
                format!("{:.3} | {:.3}–{:.3} | ", summary.median, summary.min, summary.max)
            }
            (None, _) => format!("{} | | ", ran.failure.as_deref().unwrap_or("no time")),
        };
        format!("| {} | {} | {figures} | {aim} |\n", outcome.race, ran.name)
    };
    outcome.runners.iter().map(line).collect()
}

/// Finds another program of haul's, next to its binary or in PATH.
fn companion(haul: &Path, name: &str) -> Result<PathBuf> {
    let adjacent = haul.with_file_name(name);
    if programs::is_executable(&adjacent) { Ok(adjacent) } else { programs::find(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_ratios_and_aims() {
        let ran = |name, seconds: &[f64], failure: Option<&str>| RunnerResult {
            name,
            seconds: seconds.to_vec(),
            failure: failure.map(str::to_owned),
        };
        let runners = vec![
            ran("haul", &[1.0, 2.0, 3.0], None),
            ran("GNU tar", &[6.0], None),
            ran("bsdtar", &[1.0], Some("wrong result")),
        ];
        let aims = vec![Reached { than: "GNU tar", aim: 1.5, ratio: Some(3.0) }];
        let text = lines(&RaceOutcome { race: "r", runners, aims });
        assert_eq!(
            text,
            "| r | haul | 2.000 | 1.000–3.000 | 1.00 |  |\n| r | GNU tar | 6.000 | 6.000–6.000 | 3.00 | 1.50 |\n\
             | r | bsdtar | wrong result | |  |  |\n"
        );
    }
}
