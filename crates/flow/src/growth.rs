//! Decides how many workers a run has: more while they are blocked, fewer while they contend.
//!
//! A worker makes blocking calls. On a local disk a few of them keep the processors busy, but where
//! each call waits for a network (NFS, Lustre, FUSE), throughput is proportional to the calls that
//! wait at the same time, until the server is busy (Little's law). So while the processors are
//! mostly idle, the number of workers is doubled, or quadrupled if that would still leave them
//! idle, or raised to the maximum at once if nearly every call waits. It keeps growing only as long
//! as throughput rises:
//!
//! ```text
//!            idle processors                steps per second rose by a quarter
//! observe ──────────────────► grow, try ───────────────────────────────────────► observe
//!    ▲                            │ no
//!    └─ as before, after a pause ◄┘      given up after the second time
//! ```
//!
//! Workers that did not pay rest: on btrfs, up to 32 of them fought for the locks of its trees, and
//! a copy took 3.0 s instead of 1.8 (docs/measurements/latency.md).
//!
//! A run begins with two workers per processor, so that one can work while another waits for the
//! disk. On xfs they wait for each other's locks instead, and half of them are faster
//! (docs/measurements/choices.md, "Small files on one file system"). So if the processors have time
//! left and it isn't a network that the workers wait for, half of them rest for a moment. If that
//! keeps the processors busier, they stay at rest until the same test favours the full number.
//!
//! With `--max-latency`, the server's other users come first: as long as its metadata calls take
//! longer than that, fewer workers make calls, down to one. Their number follows from Little's law,
//! as if the latency were proportional to the calls in flight. When calls take much less than the
//! limit, workers are added again one by one, or by a quarter, up to the number that was there
//! before, and only then may growth go on.

use std::time::Duration;

use haul_sys::Usage;

use crate::limits::CallTimes;
use crate::settings::processors;

/// Minimum length of an observation. Shorter ones see the scheduler rather than the file system.
const PERIOD: Duration = Duration::from_millis(10);

/// Delay before an observation that came too early is repeated.
const RETRY: Duration = Duration::from_millis(1);

/// The same as [`PERIOD`] where the processors have something to do: there, less is to be gained,
/// and locks and the disk make the speed of short observations differ.
const BUSY_PERIOD: Duration = Duration::from_millis(20);

/// The same with more workers than a run begins with, whose speed differs by half.
const LONG_PERIOD: Duration = Duration::from_millis(50);

/// Processor utilisation below which the processors count as idle.
const IDLE: f64 = 0.3;

/// Processor utilisation above which additional workers would compete for processors or locks.
const BUSY: f64 = 0.4;

/// Processor utilisation above which nothing can be gained.
const FULL: f64 = 0.7;

/// Minimum steps of each worker in an observation.
const STEPS_PER_WORKER: u64 = 2;

/// Minimum voluntary waits per step for a run to count as blocked. A run that only lacks CPU time
/// because of other programs doesn't wait; more workers would just compete with those.
const WAITS_PER_STEP: f64 = 0.5;

/// Minimum waits per step for nearly every call to count as blocked, as on a network: a step on a
/// local disk waits less than once. This can be detected sooner than that a run is blocked.
const WAITS_PER_STEP_OF_NETWORK: f64 = 4.0;

/// Minimum speedup that keeps additional workers. The ideal is 2 or 4.
const SPEEDUP_MIN: f64 = 1.25;

/// Minimum ratio of the processors' shares that keeps a change to half or all of the first workers.
/// Processor time varies less than speed, because steps take different times.
const SHARE_GAIN_MIN: f64 = 1.05;

/// Maximum number of failed attempts to grow. The second one is for a run that has reached another
/// part of its tree.
const FAILURES_MAX: u32 = 2;

/// Pause after a change that did not pay, and before the opposite of one that did.
const PAUSE: Duration = Duration::from_millis(500);

/// Minimum time over which latency is measured.
const LATENCY_PERIOD: Duration = Duration::from_millis(100);

/// Minimum calls of each worker in such a time.
const CALLS_PER_WORKER: u64 = 2;

/// Share of the maximum latency below which workers are added again. Above it, the server suits the
/// present number.
const LOW_LATENCY: f64 = 0.7;

/// Progress of a run so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunProgress {
    /// Time since it began.
    pub(crate) elapsed: Duration,
    /// CPU usage of this process.
    pub(crate) usage: Usage,
    /// Steps of all workers.
    pub(crate) steps: u64,
    /// Maximum latency of metadata calls, and how long they took.
    pub(crate) latency_max: Option<Duration>,
    pub(crate) call_times: CallTimes,
}

/// Measurements over one interval.
#[derive(Clone, Copy, Debug)]
struct Observation {
    workers: usize,
    /// Steps per second.
    speed: f64,
    /// Share of the processors' time.
    share: f64,
    /// True if steps wait for something other than the processors.
    waits: bool,
    /// True if nearly all calls do, and the processors have almost nothing to do.
    is_network: bool,
}

/// Use of the next observation.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Another number of workers may be wanted, from this time on.
    Steady(Duration),
    /// The number has just changed. Holds the observation before that.
    Changed(Observation),
    /// Compares it with the one before the change.
    Trying(Observation),
}

/// Decides the number of workers.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Number of processors, once needed: finding it out reads several files.
    processors: Option<usize>,
    /// Number of workers that a run begins with.
    first: usize,
    most: usize,
    last: RunProgress,
    /// When the next observation may be worthwhile.
    next_check: Duration,
    /// True if the run was waiting in the latest observation. The first of a run is of its start.
    was_waiting: bool,
    phase: Phase,
    failures: u32,
    /// When the latency was last measured; `None` before the first time.
    measured: Option<RunProgress>,
    /// Number of workers before the latency limit reduced it; `None` while it hasn't.
    workers_before_limit: Option<usize>,
    /// True if the latency limit has just changed the number: calls begun before that don't count.
    has_just_changed: bool,
    remark: Option<String>,
}

impl Growth {
    /// Begins with an unobserved run, of `first` workers now and at most `most`.
    pub(crate) fn new(first: usize, most: usize) -> Self {
        let (last, phase) = (RunProgress::default(), Phase::Steady(Duration::ZERO));
        Self {
            processors: None,
            first,
            most,
            last,
            next_check: PERIOD,
            was_waiting: false,
            phase,
            failures: 0,
            measured: None,
            workers_before_limit: None,
            has_just_changed: false,
            remark: None,
        }
    }

    /// Never asks for more workers than this from now on.
    pub(crate) fn limit_to(&mut self, workers: usize) {
        self.most = self.most.min(workers);
        self.first = self.first.min(workers);
    }

    /// True if enough time has passed since the last observation for another one.
    pub(crate) fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= self.next_check
    }

    /// Ignores the run's progress until now.
    pub(crate) fn restart_observation(&mut self, now: RunProgress) {
        self.last = now;
        self.next_check = now.elapsed + PERIOD;
    }

    /// Returns the number of workers that the latency asks for; `None` if it asks for nothing.
    pub(crate) fn regulate(&mut self, now: RunProgress, workers: usize) -> Option<usize> {
        let Some(max) = now.latency_max else {
            // The limit was lifted: restore the number from before it.
            let before = self.workers_before_limit.take()?;
            return Some(self.restart_growth(now, before));
        };
        let as_now = self.workers_before_limit.map(|_| workers);
        let Some(latency) = self.latency(now, workers) else {
            self.next_check = now.elapsed + PERIOD;
            return as_now;
        };
        self.measured = Some(now);
        if std::mem::take(&mut self.has_just_changed) {
            return as_now;
        }
        let ratio = latency.as_secs_f64() / max.as_secs_f64();
        let wanted = match self.workers_before_limit {
            _ if ratio > 1.0 => {
                self.workers_before_limit.get_or_insert(workers);
                ((workers as f64 / ratio) as usize).clamp(workers.div_ceil(2), workers.max(2) - 1)
            }
            Some(before) if ratio < LOW_LATENCY => (workers + (workers / 4).max(1)).min(before),
            _ => return as_now,
        };
        if wanted == workers {
            return as_now;
        }
        self.has_just_changed = true;
        let milliseconds = latency.as_secs_f64() * 1e3;
        self.remark =
            Some(format!("metadata latency {milliseconds:.1} ms: from {workers} workers to {wanted}"));
        if self.workers_before_limit == Some(wanted) {
            self.workers_before_limit = None;
        }
        Some(self.restart_growth(now, wanted))
    }

    /// Restarts growth a moment after the latency limit has changed the number of workers.
    fn restart_growth(&mut self, now: RunProgress, workers: usize) -> usize {
        self.restart_observation(now);
        self.phase = Phase::Steady(now.elapsed + PAUSE);
        workers
    }

    /// Returns the mean latency of the slower side since it was last measured, if there were enough
    /// calls.
    fn latency(&mut self, now: RunProgress, workers: usize) -> Option<Duration> {
        let enough = CALLS_PER_WORKER * workers as u64;
        let last = self.measured.get_or_insert(now);
        let sides = now.call_times.into_iter().zip(last.call_times);
        let sides = sides.map(|((time, calls), before)| (time - before.0, calls - before.1));
        let slower =
            sides.filter(|(_, calls)| *calls >= enough).map(|(time, calls)| time.div_f64(calls as f64));
        slower.max().filter(|_| now.elapsed.saturating_sub(last.elapsed) >= LATENCY_PERIOD)
    }

    /// Returns the log message about the latest decision for the latency, once.
    pub(crate) fn take_remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    /// Observes a run of `workers`, all of which have work. Returns how many there should be.
    pub(crate) fn observe(&mut self, now: RunProgress, workers: usize) -> usize {
        let Some(seen) = self.observation(now, workers) else {
            self.next_check = now.elapsed + RETRY;
            return workers;
        };
        self.next_check = now.elapsed + PERIOD;
        self.last = now;
        let is_waiting = seen.waits && seen.share < BUSY;
        let was_waiting = std::mem::replace(&mut self.was_waiting, is_waiting) || seen.is_network;
        match self.phase {
            Phase::Steady(from) if now.elapsed < from => return workers,
            Phase::Steady(_) => {}
            Phase::Changed(before) => {
                self.phase = Phase::Trying(before);
                return workers;
            }
            Phase::Trying(before) => {
                if let Some(wanted) = self.judge(before, seen, now.elapsed) {
                    return wanted;
                }
            }
        }
        let wanted = match seen.waits {
            true if is_waiting && was_waiting => self.more(seen),
            true => workers,
            false => self.half_or_all(seen),
        };
        if wanted != workers {
            self.phase = Phase::Changed(seen);
        }
        wanted
    }

    /// Returns the observation of the time since the latest one, if it is long enough.
    fn observation(&mut self, now: RunProgress, workers: usize) -> Option<Observation> {
        let elapsed = now.elapsed.saturating_sub(self.last.elapsed);
        let steps = now.steps.saturating_sub(self.last.steps);
        if elapsed < PERIOD || steps < STEPS_PER_WORKER * workers as u64 {
            return None;
        }
        let used = now.usage.processor_time.saturating_sub(self.last.usage.processor_time);
        let waits = now.usage.waits.saturating_sub(self.last.usage.waits);
        let processors = (*self.processors.get_or_insert_with(processors)).min(workers.max(self.first));
        let share = used.as_secs_f64() / elapsed.as_secs_f64() / processors as f64;
        let enough = match workers {
            _ if share <= IDLE => PERIOD,
            few if few <= self.first => BUSY_PERIOD,
            _ => LONG_PERIOD,
        };
        let speed = steps as f64 / elapsed.as_secs_f64();
        let is_network = waits as f64 >= steps as f64 * WAITS_PER_STEP_OF_NETWORK && share <= IDLE;
        let waits = waits as f64 >= steps as f64 * WAITS_PER_STEP;
        (elapsed >= enough).then_some(Observation { workers, speed, share, waits, is_network })
    }

    /// Returns how many workers there should be after a trial; `None` if growth has paid, after
    /// which more may follow.
    fn judge(&mut self, before: Observation, seen: Observation, now: Duration) -> Option<usize> {
        let is_beyond_first = seen.workers > self.first;
        let has_paid = if is_beyond_first {
            seen.speed >= before.speed * SPEEDUP_MIN
        } else {
            seen.share >= before.share * SHARE_GAIN_MIN
        };
        if has_paid && is_beyond_first {
            self.phase = Phase::Steady(Duration::ZERO);
            return None;
        }
        self.failures += u32::from(is_beyond_first);
        self.phase = Phase::Steady(now + PAUSE);
        Some(if has_paid { seen.workers } else { before.workers })
    }

    /// Returns the next larger number of workers, if it may be tried: twice as many, or four times
    /// if even those would leave the processors idle.
    fn more(&self, Observation { workers, share, is_network, .. }: Observation) -> usize {
        match workers {
            few if few < self.first => self.first,
            _ if self.failures == FAILURES_MAX => workers,
            _ if is_network => self.most,
            _ => (workers * if share * 4.0 <= BUSY { 4 } else { 2 }).min(self.most),
        }
    }

    /// Returns half of the first workers instead of all, or all instead of half, if the processors
    /// have time left.
    fn half_or_all(&self, Observation { workers, share, .. }: Observation) -> usize {
        match workers {
            _ if share >= FULL || workers > self.first => workers,
            few if few < self.first => self.first,
            _ => self.first.div_ceil(2),
        }
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
        /// Number of waits of a step that waits.
        waits_per_step: u64,
        /// Share of the speed that each worker beyond one per processor costs, by its locks.
        contention: f64,
    }

    /// Latency of a call while this many workers make calls: each is served alone, in turn.
    fn served(service: Duration, workers: usize) -> Duration {
        service * workers as u32
    }

    const PROCESSORS: usize = 2;
    const FIRST: usize = 2 * PROCESSORS;

    impl Device {
        /// Steps per second of this many workers.
        fn speed(self, workers: usize) -> f64 {
            let alone = 1.0 / (self.latency + self.work).as_secs_f64();
            let by_processors = PROCESSORS as f64 / self.work.as_secs_f64();
            let most = (self.width / self.latency.as_secs_f64()).min(by_processors);
            let crowd = workers.saturating_sub(PROCESSORS) as f64;
            (workers as f64 * alone).min(most) * (1.0 - self.contention).powf(crowd)
        }

        /// Runs for `length`.
        fn run_on(self, run: &mut SimulatedRun, length: Duration) {
            const TICK: Duration = Duration::from_micros(500);
            let end = run.now.elapsed + length;
            while run.now.elapsed < end {
                run.steps += self.speed(run.workers) * TICK.as_secs_f64();
                let more = run.steps as u64 - run.now.steps;
                run.now.elapsed += TICK;
                run.now.steps += more;
                run.now.usage.processor_time += self.work.mul_f64(more as f64);
                run.now.usage.waits += if self.waits { more * self.waits_per_step } else { 0 };
                let wanted = run.growth.observe(run.now, run.workers);
                if wanted != run.workers {
                    (run.workers, run.changed) = (wanted, run.now.elapsed);
                }
            }
        }

        /// Runs for `length` and returns the run.
        fn run(self, most: usize, length: Duration) -> SimulatedRun {
            let mut run = SimulatedRun::new(most);
            self.run_on(&mut run, length);
            run
        }
    }

    /// A run, on one device after the other.
    struct SimulatedRun {
        growth: Growth,
        workers: usize,
        /// When their number last changed.
        changed: Duration,
        now: RunProgress,
        steps: f64,
    }

    impl SimulatedRun {
        /// Begins, with at most `most` workers.
        fn new(most: usize) -> Self {
            let growth = Growth { processors: Some(PROCESSORS), ..Growth::new(FIRST, most) };
            let (now, steps) = (RunProgress::default(), 0.0);
            Self { growth, workers: FIRST, changed: Duration::ZERO, now, steps }
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
            let (latency, work) = (micros(latency), micros(work));
            let device = Device { latency, width, work, waits, waits_per_step: 1, contention: 0.0 };
            let SimulatedRun { workers, changed, .. } = device.run(64, Duration::from_secs(20));
            assert!((least..=most).contains(&workers), "{device:?}: {workers} workers");
            if waits && width > 64.0 {
                assert!(changed < Duration::from_millis(200), "{device:?}: {changed:?}");
            }
        }
    }

    #[test]
    fn a_look_that_came_too_soon_is_repeated_soon() {
        let mut growth = Growth::new(4, 64);
        let at = |milliseconds| RunProgress {
            elapsed: Duration::from_millis(milliseconds),
            ..RunProgress::default()
        };
        assert!(growth.is_due(at(10).elapsed));
        // Too few steps to say anything.
        assert_eq!(growth.observe(at(10), 4), 4);
        assert!(!growth.is_due(at(10).elapsed) && growth.is_due(at(11).elapsed));
    }

    #[test]
    fn all_workers_start_at_once_where_nearly_every_call_waits() {
        let (latency, work) = (Duration::from_millis(2), Duration::from_micros(150));
        let device = Device { latency, width: 1e9, work, waits: true, waits_per_step: 8, contention: 0.0 };
        let run = device.run(64, Duration::from_secs(5));
        assert!(run.workers == 64 && run.changed <= Duration::from_millis(15), "{:?}", run.changed);
        // One call at a time is answered: more workers than at first don't pay.
        assert_eq!(Device { width: 1.0, ..device }.run(64, Duration::from_secs(5)).workers, FIRST);
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let (latency, work) = (Duration::from_millis(1), Duration::from_micros(15));
        let device = Device { latency, width: 1e9, work, waits: true, waits_per_step: 1, contention: 0.0 };
        for most in [4, 5, 7, 30] {
            assert_eq!(device.run(most, Duration::from_secs(5)).workers, most);
        }
    }

    /// Runs with a limit on the latency, on a server that takes `service` for each call. Returns
    /// the number of workers at the end.
    fn limit(run: &mut SimulatedRun, max: Option<Duration>, service: Duration, seconds: u64) -> usize {
        const TICK: Duration = Duration::from_millis(5);
        let end = run.now.elapsed + Duration::from_secs(seconds);
        run.now.latency_max = max;
        while run.now.elapsed < end {
            run.now.elapsed += TICK;
            let latency = served(service, run.workers);
            run.steps += run.workers as f64 * TICK.as_secs_f64() / latency.as_secs_f64();
            let more = run.steps as u64 - run.now.steps;
            run.now.steps += more;
            run.now.usage.waits += more;
            // A fast side hides nothing.
            let [source, target] = &mut run.now.call_times;
            (source.0, source.1) = (source.0 + Duration::from_micros(5) * more as u32, source.1 + more);
            (target.0, target.1) = (target.0 + latency * more as u32, target.1 + more);
            let regulated = run.growth.regulate(run.now, run.workers);
            let is_fixed = run.growth.most == run.growth.first;
            run.workers = match regulated {
                Some(wanted) => wanted,
                None if is_fixed => run.workers,
                None => run.growth.observe(run.now, run.workers),
            };
            assert!((1..=run.growth.most).contains(&run.workers), "{} workers", run.workers);
        }
        run.workers
    }

    #[test]
    fn fewer_workers_make_calls_that_take_too_long() {
        let millis = Duration::from_millis;
        for (first, most) in [(64, 64), (FIRST, 64), (2, 2), (1, 1)] {
            let mut run = SimulatedRun::new(most);
            run.growth.first = first;
            run.workers = most;
            // No more than ten calls at once are answered within the limit.
            let workers = limit(&mut run, Some(millis(20)), millis(2), 60);
            assert!((most.min(6)..=most.min(10)).contains(&workers), "{workers} of {most}");
            assert_eq!(limit(&mut run, Some(millis(20)), millis(30), 60), 1);
            let workers = limit(&mut run, Some(millis(20)), millis(2), 60);
            assert!((most.min(6)..=most.min(10)).contains(&workers), "{workers} of {most} again");
            assert!(limit(&mut run, Some(millis(20)), Duration::from_micros(10), 60) >= first);
        }
    }

    #[test]
    fn the_limit_holds_where_no_thread_can_be_started() {
        let mut run = SimulatedRun::new(64);
        run.workers = 3;
        run.growth.limit_to(3);
        let millis = Duration::from_millis;
        assert_eq!(limit(&mut run, Some(millis(20)), millis(30), 60), 1);
        assert_eq!(limit(&mut run, Some(millis(20)), millis(2), 60), 3);
        assert_eq!(limit(&mut run, None, millis(2), 60), 3);
    }

    #[test]
    fn latency_below_the_limit_changes_nothing() {
        let mut run = SimulatedRun::new(8);
        run.workers = 8;
        assert_eq!(limit(&mut run, Some(Duration::from_millis(20)), Duration::from_millis(2), 60), 8);
        assert_eq!(run.growth.take_remark(), None);
    }

    #[test]
    fn all_work_again_when_the_limit_is_no_more() {
        let mut run = SimulatedRun::new(16);
        (run.growth.first, run.workers) = (16, 16);
        let service = Duration::from_millis(30);
        assert_eq!(limit(&mut run, Some(Duration::from_millis(20)), service, 60), 1);
        let remark = run.growth.take_remark();
        assert_eq!(remark.as_deref(), Some("metadata latency 60.0 ms: from 2 workers to 1"));
        assert_eq!(limit(&mut run, None, service, 1), 16);
    }

    #[test]
    fn half_of_the_workers_rest_if_they_only_wait_for_each_other() {
        let (latency, work) = (Duration::from_micros(5), Duration::from_micros(20));
        let run = |contention| {
            let device = Device { latency, width: 1e9, work, waits: false, waits_per_step: 1, contention };
            device.run(64, Duration::from_secs(3)).workers
        };
        assert_eq!((run(0.0), run(0.2)), (FIRST, PROCESSORS));
    }

    #[test]
    fn all_work_again_after_the_locks_have_gone() {
        let (latency, work) = (Duration::from_micros(5), Duration::from_micros(20));
        let locked = Device { latency, width: 1e9, work, waits: false, waits_per_step: 1, contention: 0.2 };
        let on_a_disk = Device { latency: 2 * work, contention: 0.0, ..locked };
        let mut run = SimulatedRun::new(64);
        locked.run_on(&mut run, Duration::from_secs(2));
        assert_eq!(run.workers, PROCESSORS);
        on_a_disk.run_on(&mut run, Duration::from_secs(2));
        assert_eq!(run.workers, FIRST);
    }
}
