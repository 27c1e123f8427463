//! How many workers there are: as many as waiting makes worthwhile.
//!
//! A worker makes blocking calls. On a local disk a few of them keep the processors busy, but where
//! each call waits for a network (NFS, Lustre, FUSE), throughput is proportional to the calls that
//! wait at the same time, until the server is busy (Little's law). So the number of workers is
//! doubled while the processors are mostly idle, and only as long as that pays:
//!
//! ```text
//!            idle processors                steps per second rose by a quarter
//! observe ──────────────────► double, try ─────────────────────────────────────► observe
//!    ▲                            │ no
//!    └─ halve, after a pause ◄────┘      given up after the second time
//! ```
//!
//! Workers that did not pay rest: on btrfs, up to 32 of them fought for the locks of its trees, and
//! a copy took 3.0 s instead of 1.8 (docs/measurements/latency.md).

use std::time::Duration;

use haul_sys::Usage;

/// Minimum length of an observation. Shorter ones see the scheduler rather than the file system.
const PERIOD: Duration = Duration::from_millis(10);

/// The same where the processors have something to do: there, less is to be gained, and locks and
/// the disk make the speed of short observations differ by half.
const LONG_PERIOD: Duration = Duration::from_millis(50);

/// Share of the processors' time up to which they have almost nothing to do.
const IDLE: f64 = 0.3;

/// Minimum steps of each worker in an observation.
const STEPS_PER_WORKER: u64 = 2;

/// Share of the processors' time from which on more workers would compete for them, or for locks.
const BUSY: f64 = 0.4;

/// Waits per step from which on a run is waiting. One that is only kept from the processors, by
/// other programs, never waits: more workers would take them from those.
const WAITS_PER_STEP: f64 = 0.5;

/// Ratio of speeds from which on a doubling has paid. Ideal is 2.
const PAYS: f64 = 1.25;

/// How many doublings may not pay. The second attempt is for a run that has come to another part of
/// its tree.
const FAILURES_MAX: u32 = 2;

/// Pause after a doubling that did not pay.
const PAUSE: Duration = Duration::from_millis(500);

/// What a run has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Time since it began.
    pub(crate) elapsed: Duration,
    /// What this process has used of the processors.
    pub(crate) usage: Usage,
    /// Steps of all workers.
    pub(crate) steps: u64,
}

/// What is done with the next observation.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// More workers are wanted if the processors are idle, from this time on.
    Steady(Duration),
    /// The latest workers are only starting.
    Starting(Before),
    /// It is compared with what was before.
    Trying(Before),
}

/// What was before a doubling.
#[derive(Clone, Copy, Debug)]
struct Before {
    workers: usize,
    /// Steps per second.
    speed: f64,
}

/// Decides the number of workers.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Number of processors, once it was needed: finding out reads several files.
    processors: Option<usize>,
    most: usize,
    last: Progress,
    /// When the next look at a run may be worthwhile.
    next_look: Duration,
    /// True if the run was waiting in the latest observation. The first of a run is of its start.
    was_waiting: bool,
    phase: Phase,
    failures: u32,
}

impl Growth {
    /// Begins with an unobserved run, of at most `most` workers.
    pub(crate) fn new(most: usize) -> Self {
        let (last, phase) = (Progress::default(), Phase::Steady(Duration::ZERO));
        let next_look = PERIOD;
        Self { processors: None, most, last, next_look, was_waiting: false, phase, failures: 0 }
    }

    /// Lets the number of workers be.
    pub(crate) fn over() -> Self {
        Self::new(0)
    }

    /// Returns true if an observation may say something: the latest is long ago.
    pub(crate) fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= self.next_look
    }

    /// Ignores what the run has done until now.
    pub(crate) fn pass_over(&mut self, now: Progress) {
        self.last = now;
        self.next_look = now.elapsed + PERIOD;
    }

    /// Observes a run of `workers`, all of which have work. Returns how many there should be: more,
    /// or as many as before the latest doubling, if that did not pay.
    pub(crate) fn observe(&mut self, now: Progress, workers: usize) -> usize {
        let elapsed = now.elapsed.saturating_sub(self.last.elapsed);
        let steps = now.steps.saturating_sub(self.last.steps);
        self.next_look = now.elapsed + PERIOD;
        if elapsed < PERIOD || steps < STEPS_PER_WORKER * workers as u64 {
            return workers;
        }
        let used = now.usage.processor_time.saturating_sub(self.last.usage.processor_time);
        let waits = now.usage.waits.saturating_sub(self.last.usage.waits);
        let speed = steps as f64 / elapsed.as_secs_f64();
        let find = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = *self.processors.get_or_insert_with(find);
        let share = used.as_secs_f64() / elapsed.as_secs_f64() / processors.min(workers) as f64;
        if share > IDLE && elapsed < LONG_PERIOD {
            return workers;
        }
        self.last = now;
        let is_waiting = waits as f64 >= steps as f64 * WAITS_PER_STEP && share < BUSY;
        let was_waiting = std::mem::replace(&mut self.was_waiting, is_waiting);
        match self.phase {
            Phase::Starting(before) => {
                self.phase = Phase::Trying(before);
                return workers;
            }
            Phase::Trying(before) if speed < before.speed * PAYS => {
                self.phase = Phase::Steady(now.elapsed + PAUSE);
                self.failures += 1;
                return before.workers;
            }
            Phase::Steady(from) if now.elapsed < from => return workers,
            Phase::Trying(_) | Phase::Steady(_) => self.phase = Phase::Steady(Duration::ZERO),
        }
        if !is_waiting || !was_waiting || workers >= self.most || self.failures == FAILURES_MAX {
            return workers;
        }
        self.phase = Phase::Starting(Before { workers, speed });
        (workers * 2).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system on which a step waits for `latency`, and up to `width` of them at once, and
    /// needs `work` of a processor. Without `waits`, it is other programs that the step waits for.
    #[derive(Clone, Copy, Debug)]
    struct Device {
        latency: Duration,
        width: f64,
        work: Duration,
        waits: bool,
    }

    const PROCESSORS: usize = 2;

    impl Device {
        /// Steps per second of this many workers.
        fn speed(self, workers: usize) -> f64 {
            let alone = 1.0 / (self.latency + self.work).as_secs_f64();
            let by_processors = PROCESSORS as f64 / self.work.as_secs_f64();
            (workers as f64 * alone).min(self.width / self.latency.as_secs_f64()).min(by_processors)
        }

        /// Runs for `length` and returns the number of workers at the end, and the time after which
        /// it no longer changed.
        fn run(self, most: usize, length: Duration) -> (usize, Duration) {
            const TICK: Duration = Duration::from_micros(500);
            let mut growth = Growth { processors: Some(PROCESSORS), ..Growth::new(most) };
            let (mut workers, mut changed) = (4, Duration::ZERO);
            let (mut now, mut steps) = (Progress::default(), 0.0);
            while now.elapsed < length {
                steps += self.speed(workers) * TICK.as_secs_f64();
                now.elapsed += TICK;
                now.steps = steps as u64;
                now.usage.processor_time = self.work.mul_f64(steps);
                now.usage.waits = if self.waits { now.steps } else { 0 };
                let wanted = growth.observe(now, workers);
                if wanted != workers {
                    (workers, changed) = (wanted, now.elapsed);
                }
            }
            (workers, changed)
        }
    }

    #[test]
    fn workers_follow_the_latency() {
        let micros = Duration::from_micros;
        for (latency, width, work, waits, least, most) in [
            // A local disk in memory: the processors are busy, or used by others.
            (1, 1e9, 20, true, 4, 4),
            (200, 1e9, 15, false, 4, 4),
            // Networks.
            (200, 1e9, 15, true, 8, 16),
            (1000, 1e9, 15, true, 64, 64),
            (5000, 1e9, 15, true, 64, 64),
            // A server that does sixteen calls at a time, and a disk that does one.
            (1000, 16.0, 15, true, 16, 16),
            (5000, 1.0, 15, true, 4, 4),
        ] {
            let device = Device { latency: micros(latency), width, work: micros(work), waits };
            let (workers, changed) = device.run(64, Duration::from_secs(20));
            assert!((least..=most).contains(&workers), "{device:?}: {workers} workers");
            if waits && width > 64.0 {
                assert!(changed < Duration::from_millis(500), "{device:?}: {changed:?}");
            }
        }
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let (latency, work) = (Duration::from_millis(1), Duration::from_micros(15));
        let device = Device { latency, width: 1e9, work, waits: true };
        for most in [4, 5, 7, 30] {
            assert_eq!(device.run(most, Duration::from_secs(5)).0, most);
        }
    }
}
