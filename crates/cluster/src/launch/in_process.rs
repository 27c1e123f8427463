//! In-process launcher: launch process, master and agent in one, as in rank 0 of
//! `mpirun -n N haul cp …`.

use std::sync::Mutex;
use std::time::Duration;

use super::attempt_hosts::HostRanks;
use super::launcher::{Launcher, Started};
use crate::error::JobError;
use crate::link::{Link, in_process_pair};
use crate::wire::{ToLaunch, ToMaster};
use haul_flow::lock;

/// The job this process is rank 0 of. It is already running and can't be restarted.
pub struct InProcess {
    link: Mutex<Option<Link<ToMaster, ToLaunch>>>,
}

impl InProcess {
    /// Creates the link, and returns the master's end separately.
    #[must_use]
    pub fn new() -> (Self, Link<ToLaunch, ToMaster>) {
        let (launch, master) = in_process_pair();
        (Self { link: Mutex::new(Some(launch)) }, master)
    }
}

impl Launcher for InProcess {
    fn start(&self, _: &[HostRanks], _: Duration) -> Result<Started, JobError> {
        let link = lock(&self.link).take();
        Ok(Started { link: link.ok_or(JobError::Ended)?, job: None })
    }

    fn starts_again(&self) -> bool {
        false
    }

    fn release(&self) {
        let link = lock(&self.link).take();
        if let Some(mut link) = link {
            // The master may have exited already.
            link.send(ToMaster::Stop).unwrap_or_default();
        }
    }
}
