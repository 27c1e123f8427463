//! Drivers: which worker does which job, and when. One interface for one machine, a cluster, and
//! a simulation.

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

/// Decides which processes do a tool's jobs: this one, or several.
pub trait Executor<T: Tool> {
    /// Calls `run` with a driver, exactly once, and returns its status. A tool may execute several
    /// jobs in sequence.
    fn execute(&self, job: &JobSpec<'_, T>, run: impl FnOnce(&dyn Driver<Job<T>>) -> Status) -> Status;
}

/// A job for an executor: a tool and what it runs with.
pub struct JobSpec<'a, T> {
    /// The tool.
    pub tool: &'a T,
    /// Machine use as requested.
    pub config: &'a Config,
    /// Machine use as resolved for this machine.
    pub settings: &'a Settings,
    /// The directory cache.
    pub cache: &'a DirCache,
    /// Directories in which the tool creates entries. Every process must see the same ones.
    pub places: Vec<Arc<DirHandle>>,
    /// The reporter.
    pub report: &'a dyn Report,
}

/// Executes jobs in this process only.
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

/// Creates the driver of this process for a tool.
pub(crate) fn local<T: Tool>(settings: &Settings, tool: &T) -> Local<Job<T>> {
    let local = Local::new(settings.jobs).preferring(settings.precedence());
    local.in_walk_order(tool.policy().order == Order::Walk)
}

/// Properties of a job that a driver needs to order it.
pub trait JobWeight {
    /// Returns true if the job finds more work (a directory) rather than finishing some (files).
    fn finds_work(&self) -> bool;

    /// Returns the number of entries waiting in the job.
    fn entries(&self) -> usize;
}

/// Result of one step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something was done; step again.
    Worked,
    /// The worker has nothing in hand and found no job to take.
    Idle,
}

/// A worker, which takes jobs and does them one step at a time.
pub trait Step {
    /// Does a small amount of work.
    fn step(&mut self) -> Progress;
}

/// Creates a worker, given its number. Called on the thread that will step it.
pub type MakeWorker<'a> = dyn Fn(usize) -> Box<dyn Step + 'a> + Sync + 'a;

/// Workers that could not be started.
#[derive(Debug)]
pub struct MissingWorkers {
    /// Number of missing workers.
    pub workers: usize,
    /// Why the last of them could not be started.
    pub cause: io::Error,
}

/// Hands out jobs and runs workers.
///
/// Termination: only workers that are stepping share jobs (and the caller, before
/// [`Driver::drive`]). Once every worker is idle and no job is queued, no job can appear, and the
/// run ends.
pub trait Driver<J: JobWeight + Send>: Sync {
    /// Returns the number of workers.
    fn workers(&self) -> usize;

    /// Offers a job to all workers; `me` is the worker that found it.
    fn share(&self, me: usize, job: J);

    /// Offers a job that others may be waiting for. A driver with a fixed job order puts it first.
    fn share_first(&self, me: usize, job: J) {
        self.share(me, job);
    }

    /// Removes and returns the next job for worker `me`, if there is one.
    fn take(&self, me: usize) -> Option<J>;

    /// Returns true if entries must be classified before they are shared, because non-directories
    /// may go to other processes.
    fn classifies_first(&self) -> bool {
        false
    }

    /// Returns how many of the entries just found in a directory go into one job.
    fn chunk_entries(&self, _found: usize) -> usize {
        plan::CHUNK_ENTRIES
    }

    /// Runs the workers until all are idle and no job is left. If some can't be started, goes on
    /// with fewer and returns how many are missing.
    fn drive(&self, make: &MakeWorker<'_>) -> Option<MissingWorkers>;
}
