//! Implements `haul-bench start`: times the smallest copies, which consist mostly of the program's
//! start.
//!
//! The programs take turns, in an order that rotates from round to round and is reversed in every
//! second one, so no program always follows the same other one. The runs of a round are paired.
//! Ratios are medians over the pairs: unlike ratios of medians, they aren't distorted if the
//! machine slows down during the benchmark. Commands are started with `posix_spawn`, whose cost
//! doesn't depend on the size of the benchmark, in the caller's locale.
//!
//! Every build of haul is copied first. In the page cache, a file that a linker has just written
//! consists of single pages; one that was written in large blocks, like an installed package,
//! consists of large folios. These are mapped faster, which saves 6 % of the time.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use clap::Args;
use wait4::Wait4;

use crate::candidates::{self, Candidate, CandidateSearch, GNU};
use crate::compare::CompareVerdict;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::machine::MachineFacts;
use crate::programs;
use crate::statistics::Summary;
use crate::verify;

/// Rounds before those that count.
const WARM_UP: usize = 10;

/// Files of the tree.
const FILES: usize = 20;

/// Content of every file.
const CONTENT: &[u8; 10] = b"ten bytes\n";

/// Options of `haul-bench start`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StartOptions {
    /// Runs of each program that count
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Directory for the files, best on a tmpfs; they are removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Binary of haul [default: the running haul, the one beside haul-bench, or the one on PATH]
    #[arg(long, value_name = "PATH")]
    haul: Option<PathBuf>,
    /// Another build of haul to compare with; it is listed as "before"
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
}

/// One run of a program.
#[derive(Clone, Copy)]
struct TimedRun {
    seconds: f64,
    processor_seconds: f64,
}

/// Measures copies of one file, and of a directory with a few. Prints a table for each.
///
/// # Errors
/// [`Error::Refused`] if a program is missing, fails or copies wrong; any other error that stopped
/// the measurement.
pub(crate) fn run(
    options: &StartOptions,
    output: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict> {
    let made = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&options.work);
    let work = made.map_err(Error::doing("create a directory in", &options.work))?;
    let place = work.path();
    let (file, tree) = (place.join("file"), place.join("tree"));
    fs::create_dir(&tree).map_err(Error::doing("create", &tree))?;
    let files = (0..FILES).map(|number| tree.join(format!("file{number}"))).chain([file.clone()]);
    for file in files {
        fs::write(&file, CONTENT).map_err(Error::doing("write", &file))?;
    }
    let builds = tempfile::Builder::new().prefix("haul-bench-").tempdir();
    let builds = builds.map_err(Error::doing("create a directory in", &std::env::temp_dir()))?;
    let haul = copied(&candidates::haul_binary(options.haul.as_deref())?, &builds.path().join("haul"))?;
    let before = options.before.as_deref();
    let before = before.map(|before| copied(before, &builds.path().join("before"))).transpose()?;
    for (title, source, words) in [("One file", file, ""), ("20 files in a directory", tree, "-r")] {
        let search = CandidateSearch {
            haul: Some(haul.clone()),
            before: before.clone(),
            options: Some(words.to_owned()),
            folders: programs::path_folders(),
            ..CandidateSearch::default()
        };
        let found = candidates::find(&search)?;
        let runs = race(&found, &source, options.runs as usize, interrupt)?;
        writeln!(output, "{title}, of 10 bytes each:\n\n{}", table(&found, &runs))
            .map_err(Error::no_output)?;
    }
    let MachineFacts { kernel, processor, processors, date, .. } = MachineFacts::look();
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok());
    let locale = locale.unwrap_or_else(|| "C".to_owned());
    let runs = options.runs;
    writeln!(
        output,
        "{date}; {kernel}; {processors} processors ({processor}); locale {locale}; {runs} runs each, microseconds"
    )
    .map_err(Error::no_output)?;
    Ok(CompareVerdict::Good)
}

/// Copies a program into a new directory. Returns the path of the copy.
fn copied(program: &Path, directory: &Path) -> Result<PathBuf> {
    let copy = directory.join(candidates::HAUL);
    fs::create_dir(directory).map_err(Error::doing("create", directory))?;
    fs::copy(program, &copy).map_err(Error::doing("copy", program))?;
    Ok(copy)
}

/// Runs all programs in turn. Returns the runs of each.
fn race(
    found: &[Candidate],
    source: &Path,
    rounds: usize,
    interrupt: &Interrupt,
) -> Result<Vec<Vec<TimedRun>>> {
    let target = source.with_file_name("copy");
    let expected = verify::digest(source, interrupt)?;
    let mut runs = vec![Vec::with_capacity(rounds); found.len()];
    for round in 0..WARM_UP + rounds {
        for turn in 0..found.len() {
            let turn = if round % 2 == 0 { turn } else { found.len() - 1 - turn };
            let index = (round + turn) % found.len();
            let run = time(&found[index], source, &target)?;
            interrupt.check()?;
            if round == 0 && verify::digest(&target, interrupt)? != expected {
                return Err(Error::Refused(format!("{} copied wrong", found[index].label)));
            }
            if round >= WARM_UP {
                runs[index].push(run);
            }
            let removed =
                if source.is_dir() { fs::remove_dir_all(&target) } else { fs::remove_file(&target) };
            removed.map_err(Error::doing("remove", &target))?;
        }
    }
    Ok(runs)
}

fn time(candidate: &Candidate, source: &Path, target: &Path) -> Result<TimedRun> {
    let mut command = candidate.command(source, target);
    match std::env::var_os("LC_ALL") {
        Some(locale) => command.env("LC_ALL", locale),
        None => command.env_remove("LC_ALL"),
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let program = Path::new(command.get_program()).to_owned();
    let started = Instant::now();
    let mut child = command.spawn().map_err(Error::doing("run", &program))?;
    let ended = child.wait4().map_err(Error::doing("wait for", &program))?;
    let seconds = started.elapsed().as_secs_f64();
    if !ended.status.success() {
        return Err(Error::Refused(format!("{}: {}", candidate.label, ended.status)));
    }
    let processor_seconds = (ended.rusage.utime + ended.rusage.stime).as_secs_f64();
    Ok(TimedRun { seconds, processor_seconds })
}

/// Writes the figures of a race as a table of Markdown; times are in microseconds.
fn table(found: &[Candidate], runs: &[Vec<TimedRun>]) -> String {
    let mut table =
        "| program | median | 10th percentile | CPU | GNU cp/x, paired |\n|---|---:|---:|---:|---:|\n"
            .to_owned();
    let gnu = found.iter().position(|candidate| candidate.id == GNU).map(|index| &runs[index]);
    for (candidate, runs) in found.iter().zip(runs) {
        let mut seconds: Vec<_> = runs.iter().map(|run| run.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        let tenth = seconds.get(seconds.len() / 10).copied().unwrap_or_default();
        let median_of = |values: Vec<f64>| Summary::of(values).map_or(f64::NAN, |summary| summary.median);
        let processor = median_of(runs.iter().map(|run| run.processor_seconds).collect());
        let pairs = gnu.map(|gnu| gnu.iter().zip(runs).map(|(gnu, run)| gnu.seconds / run.seconds).collect());
        table.push_str(&format!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} |\n",
            candidate.label,
            median_of(seconds) * 1e6,
            tenth * 1e6,
            processor * 1e6,
            pairs.map_or(f64::NAN, median_of),
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs() {
        let found = [Candidate::unreal("haul", "haul"), Candidate::unreal(GNU, "GNU cp")];
        let run = |micros: f64| TimedRun { seconds: micros / 1e6, processor_seconds: 1e-6 };
        // The medians are the same, but in three of four pairs one takes twice as long.
        let runs =
            [vec![run(1.0), run(2.0), run(4.0), run(8.0)], vec![run(2.0), run(4.0), run(8.0), run(1.0)]];
        let table = table(&found, &runs);
        assert!(table.contains("| haul | 3 | 1 | 1 | 2.00 |\n"), "{table}");
        assert!(table.ends_with("| GNU cp | 3 | 1 | 1 | 1.00 |\n"), "{table}");
    }
}
