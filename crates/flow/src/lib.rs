//! The framework under the tools of haul: walk, plan, run, finish.
//!
//! A [`Tool`] says what each entry of a tree needs; this crate finds the entries, decides who does what when, and moves
//! the bytes through an engine. It knows no tool by name, prints nothing, and ends no process.
//!
//! ```text
//! run ─► jobs of the operands ─► Driver (who, when) ─► Worker (states of files) ─► Engine
//!           ▲                                             │
//!           └──────────── walk: directories ◄─────────────┘ ─► settle ─► Tool::finish_dir (children first)
//! ```

mod cache_policy;
mod config;
mod creation;
mod driver;
mod held;
pub mod layout;
mod leftovers;
mod links;
mod local;
mod node;
mod operand;
mod ordered_queue;
mod owner;
pub mod plan;
mod policy;
mod report;
mod run;
mod sequence;
mod session;
mod settings;
mod sim;
mod tool;
pub mod wording;

use std::sync::Mutex;

use haul_engine::Engine;

pub use config::{Config, Switches};
pub use creation::{Creation, is_shared, temporary_name};
pub use driver::{Alone, Driver, Executor, JobSpec, JobWeight, MakeWorker, MissingWorkers, Progress, Step};
pub use haul_sys::Standard;
pub use held::{DirCache, DirHandle};
pub use leftovers::sweep;
pub use links::{Claim, FileKey, LinkTable};
pub use local::{Feed, Local};
pub use node::{DirNode, Entry};
pub use operand::{Operand, Split};
pub use owner::{FileRange, OpenSubdir, RootOwner, Share};
pub use plan::Precedence;
pub use policy::{CancelToken, Gauge};
pub use report::{Line, Problem, Report, RunInfo, Severity, Tally, Wording};
pub use run::{Batch, Context, Job, Run, Visit};
pub use sequence::Stages;
pub use session::Session;
pub use settings::{BLOCK_BYTES, Machine, Settings};
pub use sim::Sim;
pub use tool::{
    Block, Enter, Failure, Handled, Holes, OpenDir, OpenFile, OpenSource, Order, Plan, Policy, Probe,
    Reported, Start, Tool, Transfer, Write,
};

/// How a run ended: the worst that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Everything was done.
    Success,
    /// Something was not; the report knows what.
    Failure,
}

/// The surroundings of a run.
pub struct Setup<'a, T: Tool> {
    /// How the machine is used.
    pub settings: Settings,
    /// The directories held; the operands' are among them.
    pub cache: &'a DirCache,
    /// Who listens.
    pub report: &'a dyn Report,
    /// Who does what when.
    pub driver: &'a dyn Driver<Job<T>>,
    /// An engine that was made already, for the worker that comes first ([`Settings::first_engine`]).
    pub engine: Mutex<Option<Box<dyn Engine>>>,
}

/// Runs a tool over its operands, all at once, and returns when the last directory is finished.
pub fn run<T: Tool>(
    tool: &T,
    operands: impl IntoIterator<Item = Operand<T>>,
    setup: &Setup<'_, T>,
) -> Status {
    let run = Run::new(tool, setup);
    run.offer(operands.into_iter());
    if let Some(MissingWorkers { workers, cause }) = setup.driver.drive(&|me| run.worker(me)) {
        setup.report.debug(&format!("{workers} of the workers had to be done without: {cause}"));
    }
    run.check_finished();
    run.status()
}
