//! Implements `haul-bench compare`: races haul and its rivals over the same trees, by the method
//! of docs/measurements.
//!
//! Each workload gets its own [`ImageGround`], on which one [series] runs per cache state. The
//! table of a series is printed as soon as it is complete. The JSON is written at the end, with the
//! series that were finished, even if the comparison was interrupted.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::candidates::{self, CandidateSearch, HAUL};
use crate::error::{Error, Result};
use crate::ground::{CacheState, ImageGround, ImageLayout, Sides, Workload};
use crate::image::FileSystem;
use crate::interrupt::Interrupt;
use crate::machine::MachineFacts;
use crate::names::ValueName;
use crate::outfile::OutFile;
use crate::programs;
use crate::results::{CompareReport, MeasuredTree, Series, outcomes};
use crate::series::{self, SeriesPlan, SeriesRun};
use crate::shapes::{ShapeKind, ShapeOptions, TreeShape};
use crate::table::{self, Style};
use crate::verify::UMASK;

/// Options of `haul-bench compare`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareOptions {
    /// Trees of the documents to copy
    #[arg(value_name = "KIND", value_enum, required_unless_present = "trees")]
    kinds: Vec<ShapeKind>,
    /// Copy this directory too (it is first copied into the source image, by cp -a)
    #[arg(long = "tree", value_name = "DIR")]
    trees: Vec<PathBuf>,
    /// State of the page cache when a run begins: source dropped or in memory
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cold,warm", value_name = "STATE,...")]
    cache: Vec<CacheState>,
    /// Rounds that count, after one that is thrown away
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// File system of the target image, and of the source image
    #[arg(long, value_enum, value_name = "TYPE", default_value = "ext4")]
    fs: FileSystem,
    /// File system of the source image, if it is another one
    #[arg(long, value_enum, value_name = "TYPE")]
    source_fs: Option<FileSystem>,
    /// Copy within one file system: the tree is put on the target image before every run
    #[arg(long, conflicts_with = "source_fs")]
    same_fs: bool,
    /// Directory for the images, on a disk; they are removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Binary of haul [default: the running haul, the one beside haul-bench, or the one on PATH]
    #[arg(long, value_name = "PATH")]
    haul: Option<PathBuf>,
    /// Another build of haul to compare with; it is listed as "before"
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Options of GNU cp for haul and GNU cp, in place of -r; others that do not know them do not
    /// take part
    #[arg(long = "with", value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Option<String>,
    /// Options of haul cp, split at spaces; given several times, each is a candidate
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    haul_args: Vec<String>,
    /// Directory to look for rivals in before PATH; may be given several times
    #[arg(long, value_name = "DIR")]
    rivals_path: Vec<PathBuf>,
    /// Candidates, of haul, cp, cpz, fcp, xcp, rsync, wcp, rcp, uutils, bound,
    /// bound-ahead [default: all that are found]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds after which a run is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Write everything, every single run included, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Outcome of a benchmark, as far as haul is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareVerdict {
    /// haul made correct copies every time, or did not take part. Failures of rivals don't count.
    Good,
    /// haul failed or made a wrong copy, with at least one setting.
    HaulFailed,
}

/// Runs the comparison, writing tables to `output` and progress to `progress`.
///
/// # Errors
///
/// [`Error::Refused`] if it cannot run here and nothing was touched; or the error that stopped it.
pub(crate) fn compare(
    options: &CompareOptions,
    output: &mut dyn Write,
    progress: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict> {
    let workloads = workloads(options)?;
    check_machine(options.layout())?;
    let candidates = candidates::find(&options.search())?;
    let json = OutFile::create(options.json.as_deref())?;
    // Inherited by the candidates; the permissions of a correct copy depend on it.
    rustix::process::umask(UMASK.into());
    let machine = MachineFacts::look();
    let report = CompareReport {
        machine,
        candidates,
        layout: options.layout(),
        rounds: options.rounds,
        series: Vec::new(),
    };
    let mut comparison = CompareRun { options, report, output, progress, interrupt };
    let run = workloads.iter().try_for_each(|workload| comparison.run(workload));
    let shown = comparison.show_facts();
    let written = json.write_json(&comparison.report);
    run.and(shown).and(written).map(|()| comparison.verdict())
}

/// Resolves kinds and directories, and checks all of them before the first tree is made.
fn workloads(options: &CompareOptions) -> Result<Vec<Workload>> {
    let seed = options.shape.seed;
    let made = options.kinds.iter().map(|kind| {
        let shape = TreeShape::new(*kind, &options.shape)?;
        Ok(Workload::Made { shape, seed })
    });
    let real = options.trees.iter().map(|directory| {
        let whole = directory.canonicalize().map_err(Error::doing("find", directory))?;
        if !whole.is_dir() {
            return Err(Error::Refused(format!("{} is not a directory", directory.display())));
        }
        Ok(Workload::Real(whole))
    });
    made.chain(real).collect()
}

/// Refuses to run where images cannot be made and mounted.
pub(crate) fn check_machine(layout: ImageLayout) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Refused(
            "haul-bench makes and mounts file-system images for this, which only root may do; nothing was done".to_owned(),
        ));
    }
    for program in ["losetup", "mount", "umount", &layout.source.maker(), &layout.target.maker()] {
        programs::find(program)?;
    }
    Ok(())
}

impl CompareOptions {
    fn layout(&self) -> ImageLayout {
        let sides = if self.same_fs { Sides::One } else { Sides::Two };
        ImageLayout { source: self.source_fs.unwrap_or(self.fs), target: self.fs, sides }
    }

    fn search(&self) -> CandidateSearch {
        let folders = [self.rivals_path.clone(), programs::path_folders()].concat();
        CandidateSearch {
            haul: self.haul.clone(),
            before: self.before.clone(),
            options: self.options.clone(),
            haul_settings: self.haul_args.clone(),
            folders,
            only: self.only.clone(),
        }
    }

    fn style(&self) -> Style {
        if self.markdown { Style::Markdown } else { Style::Text }
    }
}

struct CompareRun<'a> {
    options: &'a CompareOptions,
    report: CompareReport,
    output: &'a mut dyn Write,
    progress: &'a mut dyn Write,
    interrupt: &'a Interrupt,
}

impl CompareRun<'_> {
    /// Runs all series of one workload, and always removes its test bed.
    fn run(&mut self, workload: &Workload) -> Result<()> {
        let totals = workload.totals()?;
        let mut ground = ImageGround::new(&self.options.work, self.report.layout, totals)?;
        let run = self.run_on(&mut ground, workload);
        Error::unless_left(run, ground.finish())
    }

    fn run_on(&mut self, ground: &mut ImageGround, workload: &Workload) -> Result<()> {
        self.log(&format!("{}: making the images and the tree", workload.name()))?;
        let digest = ground.prepare(workload, self.interrupt)?;
        let seed = match workload {
            Workload::Made { seed, .. } => Some(*seed),
            Workload::Real(_) => None,
        };
        let tree = MeasuredTree { name: workload.name(), totals: workload.totals()?, seed, digest };
        for cache in self.options.cache.clone() {
            let limit = Duration::from_secs(self.options.time_limit.into());
            let plan = SeriesPlan { rounds: self.options.rounds, cache, limit, expected: digest };
            let runs = self.run_series(ground, &tree, &plan)?;
            let outcomes = outcomes(&self.report.candidates, &runs);
            let series = Series { workload: tree.clone(), cache, outcomes, runs };
            let table = table::series(&series, self.report.layout, plan.rounds, self.options.style());
            self.report.series.push(series);
            self.print(&format!("{table}\n"))?;
        }
        Ok(())
    }

    fn run_series(
        &mut self,
        ground: &mut ImageGround,
        tree: &MeasuredTree,
        plan: &SeriesPlan,
    ) -> Result<Vec<SeriesRun>> {
        let mut logged = Ok(());
        let mut observe = |run: &SeriesRun| {
            let line = progress_line(&tree.name, plan, run);
            if logged.is_ok() {
                logged = writeln!(self.progress, "{line}").map_err(Error::no_output);
            }
        };
        let runs = series::run(ground, &self.report.candidates, plan, self.interrupt, &mut observe)?;
        logged.map(|()| runs)
    }

    fn show_facts(&mut self) -> Result<()> {
        if self.report.series.is_empty() {
            return Ok(());
        }
        self.print(&table::facts(&self.report, self.options.style()))
    }

    fn print(&mut self, text: &str) -> Result<()> {
        self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush()).map_err(Error::no_output)
    }

    fn log(&mut self, line: &str) -> Result<()> {
        writeln!(self.progress, "{line}").map_err(Error::no_output)
    }

    fn verdict(&self) -> CompareVerdict {
        let mut outcomes = self.report.series.iter().flat_map(|series| &series.outcomes);
        let failed = outcomes.any(|outcome| outcome.id == HAUL && outcome.timed().is_none());
        if failed { CompareVerdict::HaulFailed } else { CompareVerdict::Good }
    }
}

fn progress_line(tree: &str, plan: &SeriesPlan, run: &SeriesRun) -> String {
    let SeriesRun { candidate, round, usage, seconds_with_sync, failure } = run;
    let figures = match failure {
        Some(why) => format!("out: {why}"),
        None => {
            format!("{} s, with sync {} s", table::seconds(usage.seconds), table::seconds(*seconds_with_sync))
        }
    };
    format!("{tree} {} {round}/{} {candidate}: {figures}", plan.cache.name(), plan.rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct BenchCompareArguments {
        #[command(flatten)]
        options: CompareOptions,
    }

    fn options(line: &[&str]) -> std::result::Result<CompareOptions, clap::Error> {
        BenchCompareArguments::try_parse_from([&["compare"], line].concat()).map(|line| line.options)
    }

    #[test]
    fn something_to_copy_must_be_named() {
        assert!(options(&[]).is_err());
        assert!(options(&["many"]).is_ok());
        assert!(options(&["--tree", "/"]).is_ok());
    }

    #[test]
    fn settings_of_haul_may_begin_with_a_hyphen_and_be_empty() {
        let options = options(&["many", "--haul-args", "-j 4", "--haul-args", ""]).unwrap();
        assert_eq!(options.haul_args, ["-j 4", ""]);
    }

    #[test]
    fn both_cache_states_are_the_default_and_the_file_systems_are_the_same() {
        let options = options(&["many", "flat", "--fs", "xfs"]).unwrap();
        assert_eq!(options.cache, [CacheState::Cold, CacheState::Warm]);
        let layout = ImageLayout { source: FileSystem::Xfs, target: FileSystem::Xfs, sides: Sides::Two };
        assert_eq!(options.layout(), layout);
    }

    #[test]
    fn a_tree_must_be_a_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let options = options(&["--tree", file.path().to_str().unwrap()]).unwrap();
        assert!(workloads(&options).unwrap_err().to_string().contains("is not a directory"));
    }

    #[test]
    fn a_wrong_shape_is_refused_before_anything_is_made() {
        let options = options(&["many", "flat", "--directories", "3"]).unwrap();
        let refusal = workloads(&options).unwrap_err().to_string();
        assert_eq!(refusal, "--directories means nothing for flat");
    }
}
