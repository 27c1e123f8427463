//! The benchmark of haul: makes trees to copy, races haul against its rivals over
//! them, and runs the studies of the documents.
//!
//! It knows nothing of the inside of any tool: it runs built programs, haul's own included, times them
//! from outside and reads what they made. Only `aio`, which measures the engines alone, calls them itself, and
//! `simulate`, which runs the cluster's scheduler over a modelled file system.
//!
//! ```text
//!   lib ─► compare ─► series ─► ground ─► image      the run engine; compare is its first user
//!    │        │         ├─► measure                  one command: time, CPU, peak memory
//!    │        │         └─► verify                   is the copy right?
//!    │        ├─► candidates                         who takes part
//!    │        └─► results ─► table                   what came out
//!    ├─► trees ─► shapes, noise                      the workloads
//!    ├─► run (s1 s2 s3 s4) ─► series; findings ─► report, student     the documents' studies
//!    ├─► tools ─► races, material, ranks                     the other tools and their rivals
//!    ├─► simulate ─► haul_cluster; report                    sizes that no machine here has
//!    └─► aio                                         the engines over one file
//! ```
//!
//! The method, and why it is what it is, is in docs/measurements/README.md.
//!
//! Promises: a run counts only when its copy was read back and found right; what is compared was measured
//! in turn, in one series; and whatever was mounted, attached or written for it is taken away at the end,
//! at an error, and at ^C, SIGTERM and SIGHUP, or named.

mod aio;
mod candidates;
mod compare;
mod error;
mod ground;
mod image;
mod interrupt;
mod machine;
mod measure;
mod noise;
mod programs;
mod report;
mod results;
mod run;
mod series;
mod shapes;
mod simulate;
mod statistics;
mod student;
mod table;
mod tools;
mod trees;
mod verify;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

pub use aio::{AioOptions, Pattern, Transfer};
pub use compare::{CompareOptions, Verdict};
pub use error::Error;
pub use run::RunOptions;
pub use shapes::{Kind, ShapeOptions};
pub use simulate::SimulateOptions;
pub use tools::ToolsOptions;

use interrupt::Interrupt;
use shapes::Shape;

/// Names what `haul bench` can do.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Make a tree of the documents, from a seed
    Make(MakeOptions),
    /// Compare haul with the other copiers of this machine (needs root)
    Compare(CompareOptions),
    /// Run a study of the documents, with their tables, plots and published figures (needs root)
    Run(RunOptions),
    /// Measure the engines themselves: one file, records of one size, many in flight
    Aio(AioOptions),
    /// Race haul's other tools and the programs people use for the same (needs root)
    Tools(ToolsOptions),
    /// Simulate jobs on a cluster: the real scheduler over a modelled file system
    Simulate(SimulateOptions),
}

/// Says which tree to make, and where.
#[derive(Args, Clone, Debug)]
pub struct MakeOptions {
    /// Tree to make
    #[arg(value_enum)]
    kind: Kind,
    /// Directory to make it in: a new one, or an empty one
    destination: PathBuf,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Exit status after ^C, as a shell gives it.
const EXIT_INTERRUPTED: u8 = 130;

/// Does what `command` says, with the process's own streams, and returns the exit status: 0 when all is
/// well, 1 when it is not (also when haul, as a candidate, copied wrong), 130 after a signal.
pub fn run(command: &Command) -> ExitCode {
    match execute(command, &mut io::stdout(), &mut io::stderr()) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::HaulFailed) => ExitCode::FAILURE,
        Err(error) => {
            // With nowhere to say it, the exit status still does.
            writeln!(io::stderr(), "haul bench: {error}").ok();
            if error.is_interruption() { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

/// Does what `command` says, printing results to `output` and what is going on to `progress`.
///
/// It listens for signals from its first call to the end of the process, and sets the process's umask
/// when it compares.
///
/// # Errors
///
/// [`Error`] says what stopped it, and what was left behind.
pub fn execute(
    command: &Command,
    output: &mut dyn Write,
    progress: &mut dyn Write,
) -> Result<Verdict, Error> {
    let interrupt = Interrupt::listen()?;
    match command {
        Command::Make(options) => make(options, output, &interrupt),
        Command::Compare(options) => compare::compare(options, output, progress, &interrupt),
        Command::Run(options) => run::run(options, output, progress, &interrupt),
        Command::Aio(options) => aio::aio(options, output, progress, &interrupt),
        Command::Tools(options) => tools::run(options, output, progress, &interrupt),
        Command::Simulate(options) => simulate::run(options, output, progress, &interrupt),
    }
}

fn make(options: &MakeOptions, output: &mut dyn Write, interrupt: &Interrupt) -> Result<Verdict, Error> {
    let shape = Shape::new(options.kind, &options.shape)?;
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
        .map(|()| Verdict::Good)
        .map_err(|source| Error::Io { doing: "write the results".to_owned(), source })
}
