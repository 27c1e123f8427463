//! Drivers: which worker does which job, and when. One interface for one machine, a cluster, and
//! a simulation.

use std::time::{Duration, Instant};

use crate::plan;

/// Time after which half of the rest of a batch is shared with an idle worker. Sooner, waking it
/// costs more than it gains.
const LONG_BATCH: Duration = Duration::from_micros(500);

/// Properties of a job that a driver needs to order it.
pub trait JobWeight {
    /// Returns true if the job finds more work (a directory) rather than finishing some (files).
    fn finds_work(&self) -> bool;

    /// Returns the number of entries waiting in the job.
    fn entries(&self) -> usize;
}

/// Hands out jobs.
///
/// A run begins with worker 0, which starts others when [`recruit`](Self::recruit) returns true.
///
/// Termination: only workers that are not waiting share jobs or start workers (and the caller
/// shares some, before worker 0 starts). Once every worker waits and no job is queued, no job can
/// appear, and the run ends.
pub trait Driver<J: JobWeight + Send>: Sync {
    /// Returns the maximum number of workers.
    fn workers(&self) -> usize;

    /// Returns the number of a worker to start now, if one more is needed. Worker `me` asks before
    /// each step, and starts it, or else calls [`not_started`](Self::not_started).
    fn recruit(&self, me: usize) -> Option<usize>;

    /// Called before a worker does something that may block for any length of time. From now on,
    /// workers are started whether or not there is work for them: later, all running workers may be
    /// blocked, and none could start another.
    fn start_all(&self);

    /// Called if the system refused the thread of a worker. No other worker is started.
    fn not_started(&self);

    /// Removes and returns a line for `--debug` about the number of workers, if there is one.
    fn take_remark(&self) -> Option<String> {
        None
    }

    /// Returns true if another worker has nothing to do, or could be started.
    fn has_idle_worker(&self) -> bool {
        false
    }

    /// Returns true if a worker should share half of the rest of a batch that it has had since
    /// `taken`.
    fn should_split(&self, taken: Instant) -> bool {
        self.has_idle_worker() && taken.elapsed() > LONG_BATCH
    }

    /// Offers a job to all workers; `me` is the worker that found it.
    fn share(&self, me: usize, job: J);

    /// Offers a job that others may be waiting for. A driver with a fixed order puts it first.
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
    fn batch_entries(&self, _found: usize) -> usize {
        plan::BATCH_ENTRIES
    }

    /// Waits until worker `me`, which has no job, may find one. Returns false if the run has ended.
    fn wait(&self, me: usize) -> bool;
}
