//! A session: resources shared by the runs of one invocation of a tool.

use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use haul_engine::Engine;
use haul_sys::c_string;

use crate::Status;
use crate::config::Config;
use crate::directory_cache::{DirCache, DirHandle};
use crate::executor::{Alone, Executor, JobSpec};
use crate::kind::FlowKind;
use crate::operand::{Operand, Split};
use crate::report::{Problem, Reporter};
use crate::run::RunSpec;
use crate::selection::{NameList, Selector};
use crate::settings::Settings;
use crate::tool::Tool;

/// State shared by one or several runs: resolved settings, directory cache, first engine.
pub struct Session<'a> {
    /// Resolved settings.
    pub settings: Settings,
    /// The directory cache.
    pub cache: DirCache,
    /// The reporter.
    pub report: &'a dyn Reporter,
    /// The entries to skip.
    pub selector: Selector,
    /// Requested use of the machine.
    pub config: &'a Config,
    engine: Mutex<Option<Box<dyn Engine>>>,
}

impl<'a> Session<'a> {
    /// Begins a session.
    ///
    /// # Errors
    /// If an engine that was requested by name isn't available, or a rule of the selection is
    /// invalid.
    pub fn begin(config: &'a Config, report: &'a dyn Reporter) -> Result<Self, Problem> {
        let settings = Settings::resolve(config);
        let engine = settings
            .first_engine()
            .map_err(|(name, cause)| Problem::new(FlowKind::CannotUseEngine).naming(name).because(cause))?;
        let selector = Selector::new(&config.selection)?;
        let (cache, engine) = (DirCache::new(settings.cached_directories), Mutex::new(engine));
        Ok(Self { settings, cache, report, selector, config, engine })
    }

    /// Creates an operand from a path as the user wrote it. Only the directory of its last
    /// component is opened; whether the operand exists is found out in the run.
    ///
    /// # Errors
    /// If that directory can't be opened.
    pub fn operand<D>(&self, path: &CStr, own: D) -> Result<Operand<D>, Problem> {
        let split = Split::of(path);
        let place = split
            .hold(&self.cache)
            .map_err(|cause| Problem::new(FlowKind::CannotAccess).naming(path.to_bytes()).because(cause))?;
        Ok(Operand::named(place, &c_string(split.name), own))
    }

    /// Restricts further runs to a list of names below their operands.
    pub fn restrict_to(&mut self, names: NameList) {
        self.selector.restrict_to(names);
    }

    /// Runs a tool over operands through an executor. `target_directories` are the directories in
    /// which the tool creates entries, if any; every process must see the same ones.
    pub fn run<T: Tool>(
        &self,
        executor: &impl Executor<T>,
        tool: &T,
        target_directories: Vec<Arc<DirHandle>>,
        operands: impl IntoIterator<Item = Operand<T::Directory>>,
    ) -> Status {
        let engine = lock(&self.engine).take();
        executor.execute(&self.job(tool, target_directories, engine), operands.into_iter().collect())
    }

    /// Prepares an executor for a tool ([`Executor::prepare`]).
    pub fn prepare<T: Tool>(&self, executor: &impl Executor<T>, tool: &T) -> Status {
        executor.prepare(&self.job(tool, Vec::new(), None))
    }

    fn job<'s, T>(
        &'s self,
        tool: &'s T,
        target_directories: Vec<Arc<DirHandle>>,
        engine: Option<Box<dyn Engine>>,
    ) -> JobSpec<'s, T> {
        let Self { settings, cache, config, report, selector, .. } = self;
        let engine = Mutex::new(engine);
        let limits = config.limits.as_ref();
        let run = RunSpec { tool, settings: *settings, cache, selector, report: *report, limits, engine };
        JobSpec { run, config, target_directories }
    }

    /// Runs a tool over operands in this process, for tools that can't run in several.
    pub fn run_alone<T: Tool>(
        &self,
        tool: &T,
        operands: impl IntoIterator<Item = Operand<T::Directory>>,
    ) -> Status {
        self.run(&Alone, tool, Vec::new(), operands)
    }
}
