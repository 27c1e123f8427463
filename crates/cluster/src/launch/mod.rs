//! The launch process: walks and owns the tree, starts and ends the job, and restarts it if it
//! is lost.
//!
//! - [`ProcessGroup`]: the job over all its attempts. `remote.rs` is the driver that sends files to
//!   it, `outstanding.rs` the table of work in flight. `haul-journal` records completed work.
//! - `attempt.rs`: the processes of one attempt.
//! - `failed_host.rs`, `attempt_hosts.rs`: which host failed, and which hosts the next attempt runs
//!   on.
//! - [`command`]: this host's environment, and the command line that starts the ranks.
//! - [`Launcher`]: how the processes are started, or found.
//! - [`job`]: the running job, linked by pipes to rank 0, and its end. `job_processes.rs` tracks
//!   its processes on this host.

mod attempt;
mod attempt_hosts;
pub mod command;
mod failed_host;
mod family;
pub(crate) mod group;
mod in_process;
pub mod job;
mod job_processes;
mod launcher;
mod launcher_arguments;
mod mpi_launcher;
mod outstanding;
mod remote;

pub use crate::token::LiveTokens;
pub use attempt_hosts::HostRanks;
pub(crate) use attempt_hosts::is_same_host;
pub use failed_host::Loss;
pub use family::LauncherFamily;
pub use group::{GroupOptions, ProcessGroup};
pub use in_process::InProcess;
pub use job::LoggedJob;
pub use launcher::{Launcher, Started};
pub use mpi_launcher::MpiLauncher;
