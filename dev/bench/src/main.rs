//! `haul-bench` benchmarks haul: it makes trees to copy, races haul against other copiers over
//! them, and runs the studies in the documents. `haul bench` runs it where it is installed.
//!
//! It treats every tool, haul included, as a black box: it runs built programs, times them
//! from outside and checks the copies they made. Two modules are the exception: `aio` calls the I/O
//! engines directly, and `simulate` runs the cluster's scheduler over a modelled file system.
//!
//! ```text
//!  main ─► compare ─► series ─► ground ─► image      the run engine; compare is its first user
//!    │        │         ├─► measure                  one command: time, CPU, peak memory
//!    │        │         └─► verify                   is the copy right?
//!    │        ├─► candidates                         who takes part
//!    │        └─► results ─► table                   what came out
//!    ├─► trees ─► shapes, noise                      the workloads
//!    ├─► auto ─► sets, grounds, findings; report             haul's own choice, and what can be forced
//!    ├─► run ─► series; study (s1 to s5), student; report           the documents' studies
//!    ├─► start ─► candidates                                 the smallest copies, in pairs
//!    ├─► tools ─► races, material, ranks                     the other tools and their rivals
//!    ├─► simulate ─► haul_simulation; report                    sizes that no machine here has
//!    ├─► aio                                         the engines over one file
//!    └─► definitions                                 the command line, for manual page and completions
//! ```
//!
//! docs/measurements/README.md describes the method and the reasons for it.
//!
//! Promises: a run counts only if its copy was read back and verified; candidates are only compared
//! within one series, in which they took turns; everything mounted, attached or written is removed
//! at the end, after an error, and on ^C, SIGTERM and SIGHUP, or else reported by name.

mod aio;
mod auto;
mod candidates;
mod compare;
mod definitions;
mod error;
mod ground;
mod image;
mod interrupt;
mod machine;
mod measure;
mod memory;
mod names;
mod noise;
mod outfile;
mod programs;
mod report;
mod results;
mod run;
mod series;
mod shapes;
mod simulate;
mod start;
mod statistics;
mod student;
mod study;
mod table;
mod tools;
mod trees;
mod verify;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use aio::AioOptions;
use auto::AutoOptions;
use compare::{CompareOptions, CompareVerdict};
use error::Error;
use interrupt::Interrupt;
use names::ValueName;
use run::RunOptions;
use shapes::{ShapeKind, ShapeOptions, TreeShape};
use simulate::SimulateOptions;
use start::StartOptions;
use tools::ToolsOptions;

/// Makes trees to copy, and races copiers over them.
#[derive(Parser)]
#[command(name = "haul-bench", version, disable_help_subcommand = true)]
struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum BenchCommand {
    /// Make a tree of the documents, from a seed
    Make(MakeOptions),
    /// Compare haul with the other copiers of this machine (needs root)
    Compare(CompareOptions),
    /// Compare haul's own choice with every engine and setting that can be forced (needs root)
    Auto(AutoOptions),
    /// Run a study of the documents, with their tables, plots and published figures (needs root)
    Run(RunOptions),
    /// Compare how long the smallest copies take, which is mostly the start of the program
    Start(StartOptions),
    /// Measure the engines themselves: one file, records of one size, many in flight
    Aio(AioOptions),
    /// Race haul's other tools and the programs people use for the same (needs root)
    Tools(ToolsOptions),
    /// Simulate jobs on a cluster: the real scheduler over a modelled file system
    Simulate(SimulateOptions),
}

/// Options of `haul-bench make`: the tree to make and where.
#[derive(Args, Clone, Debug)]
struct MakeOptions {
    /// Tree to make
    #[arg(value_enum)]
    kind: ShapeKind,
    /// Directory to make it in: a new one, or an empty one
    destination: PathBuf,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Exit status after ^C, as shells report it (128 + SIGINT).
const EXIT_INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    if std::env::args_os().skip(1).eq([OsString::from("--definitions")]) {
        return print_definitions();
    }
    match BenchArguments::try_parse() {
        Ok(line) => run(&line.command),
        Err(answer) => {
            // --help and --version end here too. If printing fails, only the exit status shows it.
            let printed = answer.print().is_ok();
            if printed && !answer.use_stderr() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

fn print_definitions() -> ExitCode {
    let mut command = BenchArguments::command();
    command.build();
    match writeln!(io::stdout(), "{:#}", definitions::of(&command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs `command` on the process's standard streams and returns the exit status: 0 on success, 1 on
/// failure (including a wrong copy made by haul as a candidate), 130 after a signal.
fn run(command: &BenchCommand) -> ExitCode {
    match execute(command, &mut io::stdout(), &mut io::stderr()) {
        Ok(CompareVerdict::Good) => ExitCode::SUCCESS,
        Ok(CompareVerdict::HaulFailed) => ExitCode::FAILURE,
        Err(error) => {
            // A failed write to stderr cannot be reported; the exit status still shows the error.
            writeln!(io::stderr(), "haul-bench: {error}").ok();
            if error.is_interruption() { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

/// Runs `command`, writing results to `output` and progress to `progress`.
///
/// From the first call to the end of the process, signals are handled here. `compare` also sets the
/// process's umask.
///
/// # Errors
///
/// An [`Error`] with what stopped the command and what was left behind.
fn execute(
    command: &BenchCommand,
    output: &mut dyn Write,
    progress: &mut dyn Write,
) -> Result<CompareVerdict, Error> {
    let interrupt = Interrupt::listen()?;
    match command {
        BenchCommand::Make(options) => make(options, output, &interrupt),
        BenchCommand::Compare(options) => compare::compare(options, output, progress, &interrupt),
        BenchCommand::Auto(options) => auto::run(options, output, progress, &interrupt),
        BenchCommand::Run(options) => run::run(options, output, progress, &interrupt),
        BenchCommand::Start(options) => start::run(options, output, &interrupt),
        BenchCommand::Aio(options) => aio::aio(options, output, progress, &interrupt),
        BenchCommand::Tools(options) => tools::run(options, output, progress, &interrupt),
        BenchCommand::Simulate(options) => simulate::run(options, output, progress, &interrupt),
    }
}

fn make(
    options: &MakeOptions,
    output: &mut dyn Write,
    interrupt: &Interrupt,
) -> Result<CompareVerdict, Error> {
    let shape = TreeShape::new(options.kind, &options.shape)?;
    trees::make(&shape, options.shape.seed, &options.destination, interrupt)?;
    let totals = shape.totals();
    let line = format!(
        "{}: {} files, {} directories, {} bytes (seed {})",
        options.kind.name(),
        totals.files,
        totals.directories,
        totals.bytes,
        options.shape.seed
    );
    writeln!(output, "{line}")
        .map(|()| CompareVerdict::Good)
        .map_err(|source| Error::Io { doing: "write the results".to_owned(), source })
}
