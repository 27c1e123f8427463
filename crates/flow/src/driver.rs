//! Who does which job when: the seam between one machine, a cluster, and a simulation.

use std::io;
use std::sync::Arc;

use crate::config::Config;
use crate::held::{DirCache, DirHandle};
use crate::local::Local;
use crate::plan;
use crate::run::Job;
use crate::settings::Settings;
use crate::tool::{Order, Tool};
use crate::{Report, Status};

/// Decides by whom the jobs of a tool are done: this process, or several.
pub trait Executor<T: Tool> {
    /// Calls `run` with a driver, once, and returns how it ended. A tool may execute several jobs one after the other.
    fn execute(&self, job: &JobSpec<'_, T>, run: impl FnOnce(&dyn Driver<Job<T>>) -> Status) -> Status;
}

/// What is to be done.
pub struct JobSpec<'a, T> {
    /// The tool.
    pub tool: &'a T,
    /// What of the machine is used, as it was asked for.
    pub config: &'a Config,
    /// And as it was resolved for this machine.
    pub settings: &'a Settings,
    /// The directories held.
    pub cache: &'a DirCache,
    /// Those of them in which something is made: everybody has to see the same.
    pub places: Vec<Arc<DirHandle>>,
    /// Who listens.
    pub report: &'a dyn Report,
}

/// This process alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl<T: Tool> Executor<T> for Alone {
    fn execute(
        &self,
        JobSpec { settings, tool, .. }: &JobSpec<'_, T>,
        run: impl FnOnce(&dyn Driver<Job<T>>) -> Status,
    ) -> Status {
        run(&local(settings, *tool))
    }
}

/// Makes the driver of this process for a tool.
pub(crate) fn local<T: Tool>(settings: &Settings, tool: &T) -> Local<Job<T>> {
    let local = Local::new(settings.jobs).preferring(settings.precedence());
    local.in_walk_order(tool.policy().order == Order::Walk)
}

/// What a driver must know of a job to order it.
pub trait JobWeight {
    /// Tells whether doing the job finds more work (a directory) rather than ends some (files).
    fn finds_work(&self) -> bool;

    /// Says how many entries wait in it.
    fn entries(&self) -> usize;
}

/// What one step of a worker came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something was done; step again.
    Worked,
    /// The worker has nothing in hand and found nothing to take.
    Idle,
}

/// Somebody who takes jobs, one step at a time.
pub trait Step {
    /// Does a little.
    fn step(&mut self) -> Progress;
}

/// Makes a worker, given its number. Called on the thread that will step it.
pub type MakeWorker<'a> = dyn Fn(usize) -> Box<dyn Step + 'a> + Sync + 'a;

/// Workers there should have been, and were not.
#[derive(Debug)]
pub struct MissingWorkers {
    /// How many.
    pub workers: usize,
    /// What kept the last of them away.
    pub cause: io::Error,
}

/// Hands out jobs and runs workers.
///
/// Jobs are shared only by workers that are stepping (and by the caller before [`Driver::drive`]). So when every worker
/// is idle and no job is queued, nothing can come any more: that is the end of the run.
pub trait Driver<J: JobWeight + Send>: Sync {
    /// Says how many workers there are.
    fn workers(&self) -> usize;

    /// Offers a job to everybody; `me` is the worker that found it.
    fn share(&self, me: usize, job: J);

    /// Offers a job that others may be waiting for: where jobs have an order, it comes before all of them.
    fn share_first(&self, me: usize, job: J) {
        self.share(me, job);
    }

    /// Takes the job `me` should do next, if there is one.
    fn take(&self, me: usize) -> Option<J>;

    /// True if entries are to be classified before they are shared, as other processes may do those that are no directories.
    fn classifies_first(&self) -> bool {
        false
    }

    /// Says how many entries one job should have of those that were just found in a directory.
    fn chunk_entries(&self, _found: usize) -> usize {
        plan::CHUNK_ENTRIES
    }

    /// Runs workers until all are idle and no job is left. Does with fewer where not all can be had, and tells.
    fn drive(&self, make: &MakeWorker<'_>) -> Option<MissingWorkers>;
}
