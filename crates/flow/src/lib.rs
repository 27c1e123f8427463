//! The framework under haul's tools: walks trees, plans jobs, moves bytes, finishes directories.
//!
//! A [`Tool`] decides what each entry of a tree needs. This crate finds the entries, schedules the
//! work, and moves the bytes through an engine. It knows no tool by name, prints nothing, and never
//! ends the process.
//!
//! ```text
//! run ─► jobs of the operands ─► Driver (who, when) ─► Worker (states of files) ─► Engine
//!           ▲                                             │
//!           └──────────── walk: directories ◄─────────────┤
//!                                                         └─► complete ─► Tool::finish_dir
//!                                                                         (children first)
//! ```
//!
//! Start with `tool.rs`, the interface to a tool, then `run/mod.rs` and `run/worker.rs`, the
//! core loop.

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

/// Result of a run. The worst status wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Everything was done.
    Success,
    /// Something was not done. The reporter knows what.
    Failure,
}

/// Everything a run needs besides its tool and operands.
pub struct Setup<'a, T: Tool> {
    /// Resolved settings.
    pub settings: Settings,
    /// The directory cache. It holds the operands' directories too.
    pub cache: &'a DirCache,
    /// The reporter.
    pub report: &'a dyn Report,
    /// The driver.
    pub driver: &'a dyn Driver<Job<T>>,
    /// An engine created in advance, for whichever worker starts first
    /// ([`Settings::first_engine`]).
    pub engine: Mutex<Option<Box<dyn Engine>>>,
}

/// Runs a tool over all its operands at once. Returns when the last directory is finished.
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
