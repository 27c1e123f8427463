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

mod backup_directory;
mod batch;
mod cache_policy;
mod config;
mod context;
mod creation;
mod decision;
mod directory_cache;
mod driver;
mod executor;
mod growth;
mod interruption;
mod kind;
mod leftovers;
mod limits;
mod links;
mod local;
mod lock;
pub mod node;
pub mod open_file;
mod operand;
mod ordered_queue;
pub mod plan;
mod policy;
mod pool;
mod report;
mod room;
mod run;
mod selection;
mod sentence;
mod sequence;
mod session;
mod settings;
mod sim;
mod tool;

pub use backup_directory::{BackupDirectory, BackupPlace, EarlierBackup, Original};
pub use batch::Batch;
pub use config::{Config, Switches};
pub use context::Context;
pub use creation::{Creation, is_shared};
pub use decision::{
    Block, ClosedWaiting, Enter, EntryFailure, FileRange, Finished, Handled, Holes, JobOrder, OpenDir,
    OpenSource, OpenSubdir, Plan, Policy, Probe, Reported, Start, Transfer, Write,
};
pub use directory_cache::{DirCache, DirHandle};
pub use driver::{Driver, JobWeight};
pub use executor::{Alone, Executor, JobSpec};
pub use haul_sys::Standard;
pub use interruption::{TemporaryEntry, before_first_entry, remove_temporary_entries, uninterrupted};
pub use kind::{FlowKind, Kind};
pub use leftovers::sweep;
pub use limits::{Granter, LimitValues, Limits, Load};
pub use links::{Claim, FileKey, LinkTable};
pub use local::{Feed, Local};
pub use lock::lock;
pub use node::Root;
pub use operand::{Operand, Split, path_below};
pub use plan::Precedence;
pub use policy::{CancelToken, Gauge};
pub use pool::Pool;
pub use report::{
    EntryOutcome, EntryReport, OutputLine, Problem, Reporter, RunInfo, Severity, SlowRank, Tally,
};
pub use room::Room;
pub use run::{HELP_BYTES_MIN, RunSpec, continue_dir, run};
pub use selection::{BadName, Contents, NameList, RefusedName, Scope, Selection, Selector};
pub use sentence::Quoting;
pub use sequence::Stages;
pub use session::Session;
pub use settings::{BLOCK_BYTES, DESCRIPTORS_WANTED, Machine, Settings, processors, usual_block_bytes};
pub use sim::{Sim, simulate};
pub use tool::{Callback, DirNode, Entry, Job, OpenFile, RootOwner, Tool};

/// Result of a run. The worst status wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Everything was done.
    Success,
    /// Something was not done. The reporter has the details.
    Failure,
}
