//! What starting a job means to the process-group: a launcher's processes, or those that are there already.

use std::time::Duration;

use super::places::Place;
use crate::link::Link;
use crate::wire::{ToLaunch, ToMaster};

/// Starts a job's processes.
pub trait Start: Sync {
    /// Starts them; `attempt` counts from 1. They are on the given hosts, or where the launcher puts them if there are none.
    ///
    /// # Errors
    /// Why they cannot be started.
    fn start(&self, attempt: u32, places: &[Place]) -> Result<Started, String>;

    /// True if hosts can be left out.
    fn chooses_hosts(&self) -> bool {
        false
    }

    /// True if a job that was lost may be started again.
    fn starts_again(&self) -> bool;

    /// Lets processes go that are there before they are started, and were not needed.
    fn release(&self) {}
}

/// A job that was started.
pub struct Started {
    /// The link to rank 0.
    pub link: Link<ToMaster, ToLaunch>,
    /// The processes.
    pub processes: Box<dyn Processes>,
}

/// The processes of a job.
pub trait Processes: Send {
    /// Returns what they have printed on standard error since the last time.
    fn printed(&mut self) -> Vec<u8>;

    /// Waits for them to end by themselves, up to `patience`. Returns whether they did, and all went well.
    fn leave(&mut self, patience: Duration) -> bool;

    /// Ends them at once.
    fn end(&mut self);
}
