//! A session: what the runs of one call of a tool have in common.

use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, PoisonError};

use haul_engine::Engine;

use crate::config::Config;
use crate::driver::{Driver, Executor, JobSpec, local};
use crate::held::{DirCache, DirHandle};
use crate::operand::{Operand, Split};
use crate::report::{Problem, Report};
use crate::run::Job;
use crate::settings::Settings;
use crate::tool::Tool;
use crate::{Setup, Status, wording};

/// The surroundings of one or several runs: settings resolved for this machine, the directories held, the first engine.
pub struct Session<'a> {
    /// How the machine is used.
    pub settings: Settings,
    /// The directories held.
    pub cache: DirCache,
    /// Who hears of it.
    pub report: &'a dyn Report,
    /// How it was asked to be used.
    pub config: &'a Config,
    engine: Mutex<Option<Box<dyn Engine>>>,
}

impl<'a> Session<'a> {
    /// Begins a session, before there are other threads.
    ///
    /// # Errors
    /// When the engine that was asked for by name cannot be had.
    pub fn begin(config: &'a Config, report: &'a dyn Report) -> Result<Self, Problem> {
        let settings = Settings::resolve(config);
        let engine = settings
            .first_engine()
            .map_err(|(name, cause)| Problem::new(wording::CANNOT_USE_ENGINE).naming(name).because(cause))?;
        Ok(Self { settings, cache: DirCache::new(settings.held), config, report, engine: Mutex::new(engine) })
    }

    /// Makes an operand of a path as the user wrote it.
    ///
    /// # Errors
    /// When the directory it stands in cannot be opened.
    pub fn operand<T: Tool>(&self, path: &CStr, own: T::Directory) -> Result<Operand<T>, Problem> {
        let split = Split::of(path);
        let place = split
            .hold(&self.cache)
            .map_err(|cause| Problem::new(wording::CANNOT_ACCESS).naming(path.to_bytes()).because(cause))?;
        // Parts of a C string have no NUL inside.
        let name = CString::new(split.name).unwrap_or_default();
        Ok(Operand::named(place, &name, own))
    }

    /// Runs a tool over operands, its jobs done by an executor. `places` are the directories in which something is made, if any:
    /// other processes have to see the same ones.
    pub fn run<T: Tool>(
        &self,
        executor: &impl Executor<T>,
        tool: &T,
        places: Vec<Arc<DirHandle>>,
        operands: impl IntoIterator<Item = Operand<T>>,
    ) -> Status {
        let Self { settings, cache, config, report, .. } = self;
        let job = JobSpec { tool, config, settings, cache, places, report: *report };
        executor.execute(&job, |driver| self.run_by(driver, tool, operands))
    }

    /// Runs a tool over operands in this process, which is the only one that can do it.
    pub fn run_alone<T: Tool>(&self, tool: &T, operands: impl IntoIterator<Item = Operand<T>>) -> Status {
        self.run_by(&local(&self.settings, tool), tool, operands)
    }

    fn run_by<T: Tool>(
        &self,
        driver: &dyn Driver<Job<T>>,
        tool: &T,
        operands: impl IntoIterator<Item = Operand<T>>,
    ) -> Status {
        let Self { settings, cache, report, engine, .. } = self;
        let engine = Mutex::new(engine.lock().unwrap_or_else(PoisonError::into_inner).take());
        let setup = Setup { settings: *settings, cache, report: *report, driver, engine };
        crate::run(tool, operands, &setup)
    }
}
