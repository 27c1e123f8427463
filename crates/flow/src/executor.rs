//! Executors: by whom a job is done. This process, or a group of them.

use std::sync::Arc;

use haul_sys::has_coarse_locks;

use crate::Status;
use crate::config::Config;
use crate::directory_cache::DirHandle;
use crate::local::Local;
use crate::operand::Operand;
use crate::run::{RunSpec, run};
use crate::tool::Tool;

/// Decides which processes do a tool's jobs: this one, or several.
pub trait Executor<T: Tool> {
    /// True if it is only this process.
    const IS_ALONE: bool = false;

    /// Gets ready for the tool's jobs, when those of other tools are done. Returns `Failure` if
    /// that fails, or if an error of theirs comes to light now. It was reported.
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
    /// Directories in which the tool creates entries. Every process must see the same ones.
    pub places: Vec<Arc<DirHandle>>,
}

impl<T> JobSpec<'_, T> {
    /// True if entries are created on a file system where more than one worker per processor would
    /// only wait for each other.
    fn creates_under_locks(&self) -> bool {
        let opened = self.places.iter().filter_map(|place| self.run.cache.open(place).ok());
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
