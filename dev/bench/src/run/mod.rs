//! Implements `haul-bench run`: the workloads, parameters and tables of the documents, with haul's
//! own choice next to them.
//!
//! ```text
//!   RunOptions ─► study                  ─► copies | rates | striped: paired runs
//!                                        │
//!                                        ▼
//!         --from FILE (its JSON) ─► findings ─► report: text, CSV, JSON, HTML
//! ```
//!
//! Promises: every run starts with nothing of the source in memory, and every copy is read back; if
//! a study stops early, the finished parts are still reported.

pub(crate) mod copies;
pub(crate) mod mounted;
pub(crate) mod rates;
pub(crate) mod striped;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::candidates;
use crate::compare::{self, CompareVerdict};
use crate::error::{Error, Result};
use crate::ground::{ImageLayout, Sides, check_place};
use crate::image::FileSystem;
use crate::interrupt::Interrupt;
use crate::machine::MachineFacts;
use crate::names::ValueName;
use crate::outfile::OutFile;
use crate::report;
use crate::study::findings::{Collected, RunFigures, SettingOutcome, StudyFindings};
use crate::study::{AUTO, Ablate, CP, Study, StudyName, StudyPart, StudySetting, Unit, published, s5, study};
use crate::verify::UMASK;

/// Options of `haul-bench run`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunOptions {
    /// Study of the documents
    #[arg(value_enum)]
    study: StudyName,
    /// Make the workloads F times as big: smaller for a small disk
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// Rounds that count, after one that is thrown away [default: the document's: 3 for s1 and s2,
    /// 5 for s3 and s4; 2 for s5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Directory for the images, on a disk; they are removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// File system of the images
    #[arg(long, value_enum, value_name = "TYPE", default_value = "ext4")]
    fs: FileSystem,
    /// Binary of haul [default: the running haul, the one beside haul-bench, or the one on PATH]
    #[arg(long, value_name = "PATH")]
    haul: Option<PathBuf>,
    /// Parts and settings to run [default: all; a wrong name is answered with all names]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Turn each optimisation off alone, too (s4)
    #[arg(long)]
    ablate: bool,
    /// Seconds after which a run is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Program that stands in for a striped file system (s5) [default: haul-standin beside haul, or
    /// on PATH]
    #[arg(long, value_name = "PATH")]
    standin: Option<PathBuf>,
    /// Mounts of a file system to use instead, each the mount of one client (s5)
    #[arg(long, value_name = "DIR,...", value_delimiter = ',', conflicts_with = "standin")]
    mounts: Vec<PathBuf>,
    /// Measure nothing: report what this file has, the JSON of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scale", "rounds", "only", "ablate", "haul", "mounts"])]
    from: Option<PathBuf>,
    /// Write everything, every single run included, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a line for each figure, measured and published, to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the report with its plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl RunOptions {
    pub(crate) fn layout(&self) -> ImageLayout {
        ImageLayout { source: self.fs, target: self.fs, sides: Sides::Two }
    }
}

pub(crate) struct Session<'a> {
    pub(crate) options: &'a RunOptions,
    pub(crate) rounds: u32,
    /// Absolute path of the haul binary; for s2, of this program, whose engines are measured.
    pub(crate) program: PathBuf,
    pub(crate) progress: &'a mut dyn Write,
    pub(crate) interrupt: &'a Interrupt,
}

impl Session<'_> {
    pub(crate) fn log(&mut self, line: &str) -> Result<()> {
        writeln!(self.progress, "{line}").map_err(Error::no_output)
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.options.time_limit.into())
    }

    /// Runs the settings of a part, whose figures are rates, in turn. One that fails drops out.
    pub(crate) fn run_in_turn<'p>(
        &mut self,
        part: &'p StudyPart,
        command: impl Fn(&StudySetting) -> String,
        mut run_once: impl FnMut(&Self, &StudySetting, u32) -> Result<RunFigures>,
    ) -> Result<Vec<Collected<'p>>> {
        let collected = |setting| Collected { setting, command: command(setting), runs: Vec::new() };
        let mut collected: Vec<_> = part.settings.iter().map(collected).collect();
        for round in 0..=self.rounds {
            for one in &mut collected {
                if one.runs.iter().any(|run| run.failure.is_some()) {
                    continue;
                }
                let run = run_once(self, one.setting, round)?;
                let figure = match &run.failure {
                    Some(why) => format!("out: {why}"),
                    None => format!("{:.1} MB/s", run.value),
                };
                self.log(&format!("{} {round}/{} {}: {figure}", part.name, self.rounds, one.setting.id))?;
                one.runs.push(run);
            }
        }
        Ok(collected)
    }
}

/// Runs a study, or reads the results of an earlier run, and reports it.
///
/// # Errors
///
/// [`Error::Refused`] if it cannot run here, before anything was touched; or the error that stopped
/// the study, after the finished parts were reported.
pub(crate) fn run(
    options: &RunOptions,
    output: &mut dyn Write,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict> {
    let earlier = options.from.as_deref().map(|path| read(path, options.study)).transpose()?;
    let to_measure = match &earlier {
        Some(_) => None,
        None => Some((laid_out(options)?, measured_program(options)?)),
    };
    let json = OutFile::create(options.json.as_deref())?;
    let csv = OutFile::create(options.csv.as_deref())?;
    let html = OutFile::create(options.html.as_deref())?;
    let (findings, run) = match (earlier, to_measure) {
        (Some(findings), _) => (findings, Ok(())),
        (None, Some((study, program))) => measure(&study, program, options, progress, interrupt)?,
        (None, None) => return Err(Error::Refused("there is nothing to run".to_owned())),
    };
    let shown = if findings.parts.is_empty() { Ok(()) } else { print(&findings, output) };
    let written = json
        .write_json(&findings)
        .and_then(|()| csv.write_text(|| report::csv::whole(&findings)))
        .and_then(|()| html.write_text(|| report::html::whole(&findings)));
    run.and(shown).and(written).map(|()| verdict(&findings))
}

/// Builds the selected study, and refuses a machine on which it cannot run.
fn laid_out(options: &RunOptions) -> Result<Study> {
    let ablate = if options.ablate { Ablate::Yes } else { Ablate::No };
    if options.ablate && options.study != StudyName::S4 {
        return Err(Error::Refused("--ablate belongs to s4".to_owned()));
    }
    if !options.mounts.is_empty() && options.study != StudyName::S5 {
        return Err(Error::Refused("--mounts belongs to s5".to_owned()));
    }
    if options.haul.is_some() && options.study == StudyName::S2 {
        return Err(Error::Refused(
            "--haul has no part in s2: haul-bench measures its own engines".to_owned(),
        ));
    }
    let mut study = study(options.study, options.scale, ablate)?;
    if !options.mounts.is_empty() {
        s5::keep_clients(&mut study, options.mounts.len());
    }
    study.keep(&options.only)?;
    if study.name == StudyName::S5 {
        striped::check(&study, options)?;
        return Ok(study);
    }
    compare::check_machine(options.layout())?;
    check_place(&options.work, options.layout(), study.largest())?;
    Ok(study)
}

fn measured_program(options: &RunOptions) -> Result<PathBuf> {
    match options.study {
        StudyName::S2 => std::env::current_exe()
            .map_err(|source| Error::Io { doing: "find this program".to_owned(), source }),
        _ => candidates::haul_binary(options.haul.as_deref()),
    }
}

/// Measures, and returns the finished parts together with the error that stopped it, if any.
fn measure(
    study: &Study,
    program: PathBuf,
    options: &RunOptions,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<(StudyFindings, Result<()>)> {
    // Inherited by the candidates; the permissions of a correct copy depend on it.
    rustix::process::umask(UMASK.into());
    let versions = candidates::versions(&program);
    let rounds = options.rounds.unwrap_or(study.rounds);
    let mut session = Session { options, rounds, program, progress, interrupt };
    let mut parts = Vec::new();
    let machine = MachineFacts::look();
    let mut done = |part| parts.push(part);
    let run = match study.unit {
        Unit::Seconds => copies::run(study, &mut session, &mut done),
        Unit::MegabytesPerSecond if study.name == StudyName::S5 => {
            striped::run(study, &mut session, &mut done)
        }
        Unit::MegabytesPerSecond => rates::run(study, &mut session, &mut done),
    };
    let (place, cold) = match study.name {
        StudyName::S5 if options.mounts.is_empty() => (striped::place(options), striped::COLD.to_owned()),
        StudyName::S5 => (striped::place(options), mounted::COLD.to_owned()),
        _ => (place(study.unit, options.fs), cold(study.unit).to_owned()),
    };
    let findings = StudyFindings {
        study: study.name,
        unit: study.unit,
        machine,
        place,
        cold,
        has_ceiling: options.mounts.is_empty(),
        scale: options.scale,
        rounds,
        versions,
        parts,
        published: published::of(study.name),
    };
    Ok((findings, run))
}

fn place(unit: Unit, file_system: FileSystem) -> String {
    let name = file_system.name();
    match unit {
        Unit::Seconds => format!("{name} image to {name} image, both with direct I/O to one disk"),
        Unit::MegabytesPerSecond => format!("a file on an {name} image with direct I/O to the disk"),
    }
}

fn cold(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => {
            "cold: the source was unmounted and mounted again before every run, the target made anew; \
             every copy was read back and compared"
        }
        Unit::MegabytesPerSecond => {
            "cold: the image was made anew before every run, and haul-bench aio takes the file it laid out \
             out of memory before its clock starts"
        }
    }
}

fn read(path: &Path, study: StudyName) -> Result<StudyFindings> {
    let file = File::open(path).map_err(Error::doing("open", path))?;
    let findings: StudyFindings = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| Error::Refused(format!("{} has no findings: {error}", path.display())))?;
    if findings.study != study {
        let found = findings.study.name();
        return Err(Error::Refused(format!("{} is of {found}, not {}", path.display(), study.name())));
    }
    Ok(StudyFindings { published: published::of(study), ..findings })
}

fn print(findings: &StudyFindings, output: &mut dyn Write) -> Result<()> {
    let text = report::text::whole(findings);
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(Error::no_output)
}

/// haul fails if its own choice has no time, or if any of its settings makes a wrong copy. An
/// engine that this machine refuses is not a failure.
fn verdict(findings: &StudyFindings) -> CompareVerdict {
    let failed = findings.parts.iter().flat_map(|part| &part.lines).any(|line| match &line.outcome {
        SettingOutcome::Timed(_) => false,
        SettingOutcome::Failed(why) => line.id == AUTO || (line.id != CP && why.starts_with("wrong copy")),
    });
    if failed { CompareVerdict::HaulFailed } else { CompareVerdict::Good }
}
