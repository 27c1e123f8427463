//! One run of a tool over its operands.
//!
//! [`run`] starts the workers. `worker.rs` is the core loop; `walk.rs` turns directories into jobs,
//! `file.rs` is the states of a file, and `stream.rs` moves its content. The last entry of a
//! directory finishes the directory ([`Context::complete`](crate::Context::complete)).

mod block_cursor;
mod file;
mod holes;
mod io;
mod prepare;
mod stream;
mod turns;
mod walk;
mod worker;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, Scope};

use crate::lock::lock;
use haul_engine::{Engine, EngineChoice, NewEngine};

use crate::Status;
use crate::context::{Context, RunShared};
use crate::directory_cache::DirCache;
use crate::driver::Driver;
use crate::kind::FlowKind;
use crate::limits::Limits;
use crate::operand::Operand;
use crate::report::{Problem, Reporter, RunInfo, Tally};
use crate::selection::Selector;
use crate::settings::Settings;
use crate::tool::{Job, Tool};

pub use stream::HELP_BYTES_MIN;
pub(crate) use turns::Turns;
pub use walk::continue_dir;
pub(crate) use worker::Worker;

/// Parameters of a run, except for its driver and operands.
pub struct RunSpec<'a, T> {
    /// The tool.
    pub tool: &'a T,
    /// Resolved settings.
    pub settings: Settings,
    /// The directory cache. It holds the operands' directories too.
    pub cache: &'a DirCache,
    /// The entries to skip.
    pub selector: &'a Selector,
    /// The reporter.
    pub report: &'a dyn Reporter,
    /// Rate limits of the run, if there are or may be any.
    pub limits: Option<&'a Limits>,
    /// An engine created in advance, for whichever worker starts first
    /// ([`Settings::first_engine`]).
    pub engine: Mutex<Option<Box<dyn Engine>>>,
}

/// Runs a tool over all its operands at once. Returns when the last directory is finished.
pub fn run<T: Tool>(
    spec: &RunSpec<'_, T>,
    driver: &dyn Driver<Job<T>>,
    operands: impl IntoIterator<Item = Operand<T::Directory>>,
) -> Status {
    let shared = begin(spec, driver, operands);
    std::thread::scope(|threads| work(threads, spec, &shared, 0));
    end(&shared)
}

/// Works as worker `me` until the run has ended, and starts further workers when there is work
/// for them.
fn work<'s, T: Tool>(
    threads: &'s Scope<'s, '_>,
    spec: &'s RunSpec<'_, T>,
    shared: &'s RunShared<'s, T>,
    me: usize,
) {
    let start_workers = || start_workers(threads, spec, shared, me);
    let mut worker = Worker::new(Context::new(shared, me, &start_workers), first_or_new_engine(spec, me));
    loop {
        start_workers();
        if !(worker.step() || shared.driver.wait(me)) {
            return;
        }
    }
}

/// Starts the workers that the driver wants.
fn start_workers<'s, T: Tool>(
    threads: &'s Scope<'s, '_>,
    spec: &'s RunSpec<'_, T>,
    shared: &'s RunShared<'s, T>,
    me: usize,
) {
    while let Some(other) = shared.driver.recruit(me) {
        if other == 1 {
            // While this is the only thread that opens files.
            haul_sys::widen_descriptor_table(spec.settings.descriptors());
        }
        if other == spec.settings.jobs {
            spec.report.debug("workers are waiting for the file systems: starting more");
        }
        // Not `Scope::spawn`, which panics if the system refuses a thread (a limit of processes
        // or address space).
        let started = Builder::new().spawn_scoped(threads, move || work(threads, spec, shared, other));
        if let Err(cause) = started {
            shared.driver.not_started();
            spec.report.debug(&format!("worker {other} could not be started: {cause}"));
        }
    }
    if let Some(remark) = shared.driver.take_remark() {
        spec.report.debug(&remark);
    }
}

/// Shares the operands' jobs, before any worker runs.
pub(crate) fn begin<'r, T: Tool>(
    spec: &RunSpec<'r, T>,
    driver: &'r dyn Driver<Job<T>>,
    operands: impl IntoIterator<Item = Operand<T::Directory>>,
) -> RunShared<'r, T> {
    let (mut unfinished, mut discovered) = (0, 0);
    for (job, entries) in operands.into_iter().filter_map(Job::of_operand) {
        driver.share(0, job);
        (unfinished, discovered) = (unfinished + 1, discovered + entries as u64);
    }
    spec.report.count(Tally { discovered, ..Tally::default() });
    let policy = spec.tool.policy();
    if let Some(limits) = spec.limits {
        limits.end_waits_with(&policy.cancel);
    }
    RunShared {
        tool: spec.tool,
        cache: spec.cache,
        settings: spec.settings,
        selector: spec.selector,
        report: spec.report,
        wants_entries: spec.report.wants_entries(),
        driver,
        policy,
        limits: spec.limits,
        has_failed: AtomicBool::new(false),
        busy: AtomicUsize::new(0),
        unfinished: AtomicUsize::new(unfinished),
    }
}

/// Returns the status of a run whose workers have ended. A run without errors that has lost an
/// entry fails: the entry was deferred and never completed, a bug in the tool or the framework.
pub(crate) fn end<T: Tool>(shared: &RunShared<'_, T>) -> Status {
    // Relaxed, here and below: the workers have ended, and joining their threads orders this.
    if shared.has_failed.load(Ordering::Relaxed) {
        return Status::Failure;
    }
    if shared.unfinished.load(Ordering::Relaxed) > 0 {
        shared.report.problem(Problem::new(FlowKind::Unfinished));
        return Status::Failure;
    }
    Status::Success
}

/// Returns the engine that was created in advance, or a new one.
fn first_or_new_engine<T>(spec: &RunSpec<'_, T>, me: usize) -> Box<dyn Engine> {
    let ready = lock(&spec.engine).take();
    let made = match ready {
        Some(engine) => NewEngine { engine, note: None },
        None => haul_engine::make(spec.settings.engine, &spec.settings.engine_setup()),
    };
    if me == 0 {
        spec.report.started(RunInfo { engine: made.engine.caps().name, jobs: spec.settings.jobs });
        if spec.report.wants_debug() {
            log_settings(spec.report, &spec.settings, &made);
        }
    } else if let Some(note) = &made.note
        && spec.report.wants_debug()
    {
        spec.report.debug(&format!("worker {me}: {note}"));
    }
    made.engine
}

/// Logs the settings, and why a better one was not possible.
fn log_settings(report: &dyn Reporter, settings: &Settings, NewEngine { engine, note }: &NewEngine) {
    if let Some(note) = note {
        report.debug(note);
    }
    let Settings { jobs, window, block_bytes, cached_directories, .. } = settings;
    let caps = engine.caps();
    if let Some(library) = haul_sys::interposer() {
        let effect = match settings.engine {
            EngineChoice::Auto => "not changing from sync to io-uring, whose calls it does not see",
            EngineChoice::Sync | EngineChoice::Retry => "it sees all calls of this engine",
            _ => "it does not see the reads and writes of this engine",
        };
        report.debug(&format!("{} is preloaded: {effect}", library.display()));
    }
    let asked = if settings.engine == EngineChoice::Auto { " (auto)" } else { "" };
    report.debug(&format!(
        "engine {}{asked}, {}, {} files in flight each, blocks of {block_bytes} bytes, \
         up to {cached_directories} directories kept open",
        caps.name,
        if *jobs == 1 { "1 worker".to_owned() } else { format!("{jobs} workers") },
        if caps.blocks { *window } else { (*window).min(caps.depth) },
    ));
}
