//! A simulated driver: any number of workers on one thread, in an order that a seed decides.
//!
//! The planner, workers and tools are the real ones, but which worker takes which job when is
//! reproducible, and every interleaving of steps can be reached by trying seeds. It finds bugs that
//! depend on order (which name of a hard-linked file comes first, when a directory is finished) and
//! repeats them.
//!
//! Steps are not interrupted, so it shows no data races; those are for the thread sanitizer.

use std::sync::Mutex;
use std::time::Instant;

use crate::lock::lock;
use haul_engine::make;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Status;
use crate::context::Context;
use crate::driver::{Driver, JobWeight};
use crate::operand::Operand;
use crate::run::{RunSpec, Worker, begin, end};
use crate::tool::{Job, Tool};

/// Runs a tool over its operands with simulated workers.
pub fn simulate<T: Tool>(
    spec: &RunSpec<'_, T>,
    sim: &Sim<Job<T>>,
    operands: impl IntoIterator<Item = Operand<T::Directory>>,
) -> Status {
    let shared = begin(spec, sim, operands);
    let engine = || make(spec.settings.engine, &spec.settings.engine_setup()).engine;
    let worker = |me| Worker::new(Context::new(&shared, me, &|| {}), engine());
    let mut workers: Vec<_> = (0..sim.workers).map(worker).collect();
    loop {
        let drawn = sim.with_state(|state| state.random.random_range(0..workers.len()));
        // One idle worker proves nothing. The run has ended only when all of them are idle.
        if !workers[drawn].step() && workers.iter_mut().all(|worker| !worker.step()) {
            return end(&shared);
        }
    }
}

/// Driver with simulated workers.
pub struct Sim<J> {
    workers: usize,
    state: Mutex<SimulatedQueue<J>>,
}

struct SimulatedQueue<J> {
    random: SmallRng,
    jobs: Vec<J>,
}

impl<J: JobWeight + Send> Sim<J> {
    /// Creates a driver of `workers` simulated workers, at least one. `seed` decides their order.
    #[must_use]
    pub fn new(workers: usize, seed: u64) -> Self {
        let state = SimulatedQueue { random: SmallRng::seed_from_u64(seed), jobs: Vec::new() };
        Self { workers: workers.max(1), state: Mutex::new(state) }
    }

    fn with_state<R>(&self, change: impl FnOnce(&mut SimulatedQueue<J>) -> R) -> R {
        change(&mut lock(&self.state))
    }
}

impl<J: JobWeight + Send> Driver<J> for Sim<J> {
    fn workers(&self) -> usize {
        self.workers
    }

    /// All workers are there from the beginning.
    fn recruit(&self, _me: usize) -> Option<usize> {
        None
    }

    fn start_all(&self) {}

    fn not_started(&self) {}

    /// All workers share one thread and never wait, so the default, which asks for an idle worker,
    /// would never split.
    fn should_split(&self, _taken: Instant) -> bool {
        self.with_state(|state| state.random.random())
    }

    fn share(&self, _me: usize, job: J) {
        self.with_state(|state| state.jobs.push(job));
    }

    fn take(&self, _me: usize) -> Option<J> {
        self.with_state(|state| {
            let count = state.jobs.len();
            (count > 0).then(|| state.jobs.swap_remove(state.random.random_range(0..count)))
        })
    }

    fn wait(&self, _me: usize) -> bool {
        false
    }
}
