//! Resolved settings: values that the user left open are chosen here, within the kernel's limits.

use haul_engine::{Engine, EngineChoice, Ops};
use haul_sys::Error;

use crate::config::{Config, Switches};
use crate::limits::Limits;
use crate::plan::Precedence;

/// Number of descriptors that a wide tree can use. A program may raise its soft limit to this
/// before a run.
pub const DESCRIPTORS_WANTED: usize = 16 << 10;

/// Descriptors the run may not use: the three standard ones and two of the caller's.
const DESCRIPTORS_RESERVED: usize = 5;

/// Maximum descriptors a worker has open besides its files: source and target directory of the
/// current entry, and the same again for the directory being entered or reopened.
const DIRECTORIES_PER_WORKER: usize = 4;

/// Descriptors of a worker's engine: a ring, or the two of the pipe that copies go through.
const DESCRIPTORS_PER_ENGINE: usize = 2;

/// Descriptors of one file in flight: source and target.
const DESCRIPTORS_PER_FILE: usize = 2;

/// Descriptors that should remain for the directory cache before another worker is worth having.
const CACHED_PER_WORKER: usize = 8;

/// Maximum directories kept open. More are not reopened often enough to matter.
const CACHED_MAX: usize = 4096;

/// Default size of one read or write through the page cache, in bytes: stays in the second-level
/// cache between the two (docs/measurements/choices.md).
pub const BLOCK_BYTES: usize = 256 << 10;

/// The same for data that doesn't stay in the page cache, in bytes: every block is a request of its
/// own to the device, so larger ones are faster (docs/measurements/start.md).
const UNCACHED_BLOCK_BYTES: usize = 1 << 20;

/// Returns the default size of one read or write, in bytes.
#[must_use]
pub fn usual_block_bytes(switches: Switches) -> usize {
    if switches.direct { UNCACHED_BLOCK_BYTES } else { BLOCK_BYTES }
}

/// Default number of files a worker keeps open ahead: keeps an SSD's queue full with small
/// files (docs/measurements/choices.md).
const LOOK_AHEAD: usize = 64;

/// Length of a large file's range that one worker moves, in bytes. A local file system admits one
/// writer to a file at a time, so cutting a file gains nothing there
/// (docs/measurements/choices.md). A striped file is cut by its layout.
const RANGE_BYTES: u64 = u64::MAX >> 1;

/// Default number of operations in flight per worker of an asynchronous engine.
const QUEUE_DEPTH: usize = 64;

/// Default number of workers per processor. A worker waits now and then, for the metadata of
/// a directory it creates or for a file system's lock, and another then uses the processor
/// (docs/measurements/choices.md).
const WORKERS_PER_PROCESSOR: usize = 2;

/// Limits of the default number of workers: at least two, so that one lists while the other copies,
/// and no more than the metadata operations of one file system usually scale to.
const WORKERS: std::ops::RangeInclusive<usize> = 2..=16;

/// Maximum number of workers where they wait for a network. With more, the processors are busy
/// (docs/measurements/latency.md).
const WAITING_WORKERS_MAX: usize = 64;

/// Files that each of these additional workers has in flight. More would hide little: the other
/// workers already hide the latency.
const WAITING_WORKER_WINDOW: usize = 4;

/// Address space per worker if it is limited, in bytes. The C library's allocator reserves 64 MiB
/// for each thread, and 128 MiB to align them. If it can't, every allocation of the thread takes
/// pages of its own.
const ADDRESS_SPACE_PER_WORKER: u64 = 192 << 20;

/// Returns the number of processors that this process may use, at least one. This reads files of
/// the cgroup: call it only where the number is needed.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Resources of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of processors.
    pub processors: usize,
    /// Maximum number of open descriptors.
    pub descriptors: usize,
    /// Limit of the address space, in bytes, if there is one (`ulimit -v`).
    pub address_space: Option<u64>,
}

impl Machine {
    /// Returns the default number of workers.
    fn workers(self) -> usize {
        let workers = (self.processors * WORKERS_PER_PROCESSOR).clamp(*WORKERS.start(), *WORKERS.end());
        let most = self.address_space.map_or(u64::MAX, |bytes| bytes / ADDRESS_SPACE_PER_WORKER);
        workers.min(usize::try_from(most).unwrap_or(usize::MAX))
    }
}

/// Resolved use of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of workers to begin with.
    pub jobs: usize,
    /// Maximum number of workers, if the file systems make them wait (`growth.rs`).
    pub jobs_max: usize,
    /// Engine of each worker.
    pub engine: EngineChoice,
    /// Operations in flight per worker.
    pub queue_depth: usize,
    /// Size of one read or write, in bytes.
    pub block_bytes: usize,
    /// The same for data that a blocking engine doesn't leave in the page cache.
    pub uncached_block_bytes: usize,
    /// Length of a large file's range that one worker moves while others move the rest, in bytes.
    pub range_bytes: u64,
    /// Maximum files a worker has open at once.
    pub window: usize,
    /// Maximum directories kept open. If descriptors are so few that this is 0, there is one worker
    /// with one file in flight, whose blocking calls are never replaced by a ring.
    pub cached_directories: usize,
    /// Mode of submission; `None` for the engine's default.
    pub ops: Option<Ops>,
    /// Optimisations.
    pub switches: Switches,
}

impl Settings {
    /// Resolves a configuration for this machine and the limits of this process.
    #[must_use]
    pub fn resolve(config: &Config) -> Self {
        let processors = if config.jobs.is_some() { 1 } else { processors() };
        let descriptors = config.descriptors.unwrap_or_else(haul_sys::descriptor_limit);
        let address_space = haul_sys::address_space_limit();
        Self::within(config, Machine { processors, descriptors, address_space })
    }

    /// Returns the maximum number of open descriptors, including those that are not the run's.
    pub(crate) fn descriptors(&self) -> usize {
        let worker = |window| DIRECTORIES_PER_WORKER + DESCRIPTORS_PER_ENGINE + window * DESCRIPTORS_PER_FILE;
        let further = (self.jobs_max - self.jobs) * worker(WAITING_WORKER_WINDOW);
        DESCRIPTORS_RESERVED + self.cached_directories + self.jobs * worker(self.window) + further
    }

    /// Returns the maximum files that a worker has open at once.
    pub(crate) fn window_of(&self, worker: usize) -> usize {
        if worker < self.jobs { self.window } else { self.window.min(WAITING_WORKER_WINDOW) }
    }

    /// Resolves a configuration for a given machine.
    ///
    /// Invariant: no more descriptors are open than the machine allows, as long as that is enough
    /// for one worker and one file (test: `settings_stay_within_the_descriptors_there_are`).
    #[must_use]
    pub fn within(config: &Config, machine: Machine) -> Self {
        let spendable = machine.descriptors.saturating_sub(DESCRIPTORS_RESERVED);
        let per_worker = DIRECTORIES_PER_WORKER + DESCRIPTORS_PER_ENGINE + DESCRIPTORS_PER_FILE;
        let jobs = config
            .jobs
            .unwrap_or_else(|| machine.workers())
            .clamp(1, (spendable / (per_worker + CACHED_PER_WORKER)).max(1));
        let spare = spendable.saturating_sub(jobs * per_worker);
        let (spare, jobs_max) = Self::further(config, machine, (spare, jobs));
        let queue_depth = config.queue_depth.unwrap_or(QUEUE_DEPTH);
        let wanted = config.look_ahead.unwrap_or(LOOK_AHEAD).max(1);
        // Half of the remaining ones: the directory cache gets the rest.
        let extra_files = (spare / 2 / DESCRIPTORS_PER_FILE / jobs).min(wanted - 1);
        Self {
            jobs,
            jobs_max,
            engine: config.engine,
            queue_depth,
            block_bytes: config.block_bytes.unwrap_or(usual_block_bytes(config.switches)),
            uncached_block_bytes: config.block_bytes.unwrap_or(UNCACHED_BLOCK_BYTES),
            range_bytes: RANGE_BYTES,
            window: 1 + extra_files,
            cached_directories: spare
                .saturating_sub(extra_files * jobs * DESCRIPTORS_PER_FILE)
                .min(CACHED_MAX),
            ops: config.ops,
            switches: config.switches,
        }
    }

    /// Reserves descriptors for the workers that may be added. Returns how many are left, and the
    /// maximum number of workers: no more than at the beginning if the user set the number, or if
    /// memory or the rate is limited.
    fn further(config: &Config, machine: Machine, (spare, jobs): (usize, usize)) -> (usize, usize) {
        let each =
            DIRECTORIES_PER_WORKER + DESCRIPTORS_PER_ENGINE + WAITING_WORKER_WINDOW * DESCRIPTORS_PER_FILE;
        // At most a quarter: the files in flight and the directory cache need more.
        let most = WAITING_WORKERS_MAX.saturating_sub(jobs).min(spare / 4 / each);
        let has_rate = config.limits.as_ref().is_some_and(Limits::has_rate);
        let is_fixed = config.jobs.is_some() || machine.address_space.is_some() || has_rate;
        let further = if is_fixed { 0 } else { most };
        (spare - further * each, jobs + further)
    }

    /// Returns how engines are to be created.
    #[must_use]
    pub fn engine_setup(&self) -> haul_engine::EngineSetup {
        haul_engine::EngineSetup {
            queue_depth: self.queue_depth,
            ops: self.ops,
            direct_descriptors: self.switches.direct_descriptors,
        }
    }

    /// Creates the first worker's engine if one was requested by name, before any file is touched:
    /// such an engine is never silently replaced. `None` if the choice was left to haul.
    ///
    /// # Errors
    /// The engine's name, and why the kernel refuses it.
    pub fn first_engine(&self) -> Result<Option<Box<dyn Engine>>, (&'static str, Error)> {
        let listed = haul_engine::ENGINES.iter().find(|listed| listed.choice == self.engine);
        let made = listed
            .map(|listed| listed.choice.create(&self.engine_setup()).map_err(|cause| (listed.name, cause)));
        made.transpose()
    }

    /// Returns the kind of job that goes first.
    #[must_use]
    pub fn precedence(&self) -> Precedence {
        if self.switches.directory_first { Precedence::DirectoriesFirst } else { Precedence::FilesFirst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn settings_stay_within_the_descriptors_there_are(
            jobs in proptest::option::of(1usize..200), look_ahead in proptest::option::of(0usize..5000),
            processors in 1usize..256, descriptors in 12usize..100_000,
        ) {
            let config = Config { jobs, look_ahead, ..Config::default() };
            let machine = Machine { processors, descriptors, address_space: None };
            let settings = Settings::within(&config, machine);
            let most = settings.descriptors();
            prop_assert!(settings.jobs >= 1 && settings.window >= 1 && settings.jobs_max >= settings.jobs);
            prop_assert!(jobs.is_none() || settings.jobs_max == settings.jobs);
            prop_assert!(most <= descriptors, "{settings:?} may open {most} of {descriptors}");
        }
    }
    #[test]
    fn direct_io_has_larger_blocks_unless_a_size_is_given() {
        let machine = Machine { processors: 4, descriptors: 1024, address_space: None };
        let switches = Switches { direct: true, ..Switches::default() };
        let bytes = |block_bytes| {
            Settings::within(&Config { switches, block_bytes, ..Config::default() }, machine).block_bytes
        };
        assert_eq!((bytes(None), bytes(Some(4096))), (UNCACHED_BLOCK_BYTES, 4096));
    }

    #[test]
    fn little_address_space_is_for_one_worker_unless_more_are_asked_for() {
        let machine = |address_space| Machine { processors: 4, descriptors: 1024, address_space };
        let jobs = |bytes| Settings::within(&Config::default(), machine(bytes)).jobs;
        assert_eq!((jobs(None), jobs(Some(1 << 40))), (8, 8));
        assert_eq!((jobs(Some(16 << 20)), jobs(Some(600 << 20))), (1, 3));
        let config = Config { jobs: Some(5), ..Config::default() };
        assert_eq!(Settings::within(&config, machine(Some(16 << 20))).jobs, 5);
    }
}
