//! How a process group gets its job: started by a launcher, or already running.

use std::time::Duration;

use super::places::Place;
use crate::error::JobError;
use crate::link::Link;
use crate::wire::{ToLaunch, ToMaster};

/// Starts the processes of a job.
pub trait Start: Sync {
    /// Starts them on the given hosts; if there are none, the launcher chooses. `attempt` counts
    /// from 1.
    ///
    /// # Errors
    /// If they can't be started.
    fn start(&self, attempt: u32, places: &[Place]) -> Result<Started, JobError>;

    /// True if specific hosts can be left out.
    fn chooses_hosts(&self) -> bool {
        false
    }

    /// True if a lost job can be started again.
    fn starts_again(&self) -> bool;

    /// Releases processes that were already running, but were not needed.
    fn release(&self) {}
}

/// A started job.
pub struct Started {
    /// The link to rank 0.
    pub link: Link<ToMaster, ToLaunch>,
    /// The processes.
    pub processes: Box<dyn Processes>,
}

/// The processes of a job.
pub trait Processes: Send {
    /// Returns what they printed on standard error since the last call.
    fn printed(&mut self) -> Vec<u8>;

    /// Waits up to `patience` for them to exit by themselves. Returns true if they did
    /// so successfully.
    fn leave(&mut self, patience: Duration) -> bool;

    /// Kills them.
    fn end(&mut self);
}
