//! Start of the processes of a process group.
//!
//! | launcher | processes |
//! |---|---|
//! | [`MpiLauncher`](super::MpiLauncher) | started by `mpirun` or `srun`, here or in an allocation,
//! once per attempt |
//! | [`InProcess`](super::InProcess) | already running: this process is rank 0 of `mpirun haul …` |
//!
//! A batch system ([`crate::batch`]) runs the whole command line on its hosts, and there an
//! [`MpiLauncher`](super::MpiLauncher) starts the processes.

use std::time::Duration;

use super::attempt_hosts::HostRanks;
use super::job::LoggedJob;
use crate::error::JobError;
use crate::link::Link;
use crate::wire::{ToLaunch, ToMaster};

/// Starts the processes of a job.
pub trait Launcher: Sync {
    /// Starts them on the given hosts; if there are none, the launcher chooses. Sending to them
    /// fails if they read nothing for `silence`.
    ///
    /// # Errors
    /// If they can't be started.
    fn start(&self, places: &[HostRanks], silence: Duration) -> Result<Started, JobError>;

    /// True if specific hosts can be excluded.
    fn chooses_hosts(&self) -> bool {
        false
    }

    /// True if a lost job can be started again.
    fn starts_again(&self) -> bool {
        true
    }

    /// Releases processes that were already running, but were not needed.
    fn release(&self) {}
}

/// A started job.
pub struct Started {
    /// The link to rank 0.
    pub link: Link<ToMaster, ToLaunch>,
    /// The processes; `None` if they belong to another launcher, which also ends them.
    pub job: Option<LoggedJob>,
}
