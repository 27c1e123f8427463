//! Executors decide which processes run a tool's jobs: this one, or a group of them.

use std::sync::Arc;

use haul_sys::has_coarse_locks;

use crate::Status;
use crate::config::Config;
use crate::directory_cache::DirHandle;
use crate::local::Local;
use crate::operand::Operand;
use crate::run::{RunSpec, run};
use crate::tool::Tool;

/// Decides which processes run a tool's jobs.
pub trait Executor<T: Tool> {
    /// True if only this process runs them.
    const IS_ALONE: bool = false;

    /// Called before the tool's jobs, after those of other tools have ended. Returns `Failure` if
    /// it reported an error: of its own, or one of theirs that arrived late.
    fn prepare(&self, _job: &JobSpec<'_, T>) -> Status {
        Status::Success
    }

    /// Runs the tool over the operands. A tool may execute several jobs in sequence.
    fn execute(&self, job: &JobSpec<'_, T>, operands: Vec<Operand<T::Directory>>) -> Status;
}

/// A job for an executor.
pub struct JobSpec<'a, T> {
    /// The run in this process.
    pub run: RunSpec<'a, T>,
    /// Machine use as requested, for other processes to resolve.
    pub config: &'a Config,
    /// Directories in which the tool creates entries. Every process must see the same directories.
    pub target_directories: Vec<Arc<DirHandle>>,
}

impl<T> JobSpec<'_, T> {
    /// True if a file system in which entries are created has coarse locks: more than one worker
    /// per processor would only contend for them.
    fn creates_under_locks(&self) -> bool {
        let opened =
            self.target_directories.iter().filter_map(|directory| self.run.cache.open(directory).ok());
        opened.into_iter().any(|directory| has_coarse_locks(&*directory).unwrap_or(false))
    }
}

/// Executes jobs in this process only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl<T: Tool> Executor<T> for Alone {
    const IS_ALONE: bool = true;

    fn execute(&self, job: &JobSpec<'_, T>, operands: Vec<Operand<T::Directory>>) -> Status {
        let JobSpec { run: spec, .. } = job;
        let driver = Local::of(&spec.settings, &spec.tool.policy()).limited(spec.limits);
        let is_fixed = spec.settings.jobs == spec.settings.jobs_max;
        if !is_fixed && job.creates_under_locks() {
            spec.report.debug(
                "starting with half of the workers, as more would contend for the file system's locks",
            );
            return run(spec, &driver.beginning_with_half(), operands);
        }
        run(spec, &driver, operands)
    }
}
