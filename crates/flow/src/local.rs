//! The driver for one machine: one thread per worker, with work stealing.
//!
//! Every worker has two queues: directories, last in first out (depth first, so that few are open),
//! and files, first in first out (the planner's order). A worker takes from its own queues first,
//! then steals from the others, oldest job first. [`plan::preference`] decides between the two
//! kinds. If a tool wants its workers close together in the tree, one [`OrderedQueue`] for all
//! replaces these queues.
//!
//! Sleep and termination need one lock and a few counters:
//!
//! ```text
//! sharer:  push job; queued += 1; if sleepers > 0 { lock; notify one }
//! sleeper: lock; sleepers += 1
//!          if sleepers + resting == present && queued == 0 && feeds == 0 { over; notify all }
//!          while queued == 0 && !over { wait }
//!          sleepers -= 1
//! ```
//!
//! `present` counts the workers that were started: all at once, or, if the tool's policy allows it,
//! when there is work for them. The first one then works alone for a moment: a copy of a few small
//! files is done before a thread has started. More are started if they wait (`growth.rs`). If that
//! doesn't pay, the latest ones rest: they take no jobs, and others steal those in their queues
//! (test: `jobs_of_workers_that_rest_are_done_by_others`). The same goes for those that would make
//! metadata calls take too long. If the system refuses a thread, no more are started (test:
//! `without_threads_the_first_worker_does_everything`).
//!
//! The counters are sequentially consistent, so at least one of a sharer and a sleeper sees the
//! other. Only running workers share jobs, so once all sleep and nothing is queued, nothing ever
//! will be: the run has ended. Jobs may also come from outside, through a [`Feed`]. Then the run
//! continues until the last feed is dropped, all workers sleep, and nothing is queued.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;
use haul_sys::usage;

use crate::decision::{JobOrder, Policy};
use crate::driver::{Driver, JobWeight};
use crate::growth::{Growth, RunProgress};
use crate::limits::Limits;
use crate::lock::lock;
use crate::ordered_queue::OrderedQueue;
use crate::plan::{self, Precedence, Preference};
use crate::settings::Settings;

/// Time before the first worker starts others if few entries wait. A thread costs as much as
/// copying two to five small files, and makes the descriptor table a shared one.
const START_DELAY: Duration = Duration::from_millis(1);

/// Steps of a worker between two readings of the clock. It is read after each of the first few
/// steps, because on a network a step may take several milliseconds.
const STEPS_PER_CHECK: u64 = 4;

/// Queues of one worker. Only the owner locks its ends, so these locks are never contended.
/// Stealers take from the other ends without a lock.
struct Queues<J> {
    directories: Mutex<Worker<J>>,
    files: Mutex<Worker<J>>,
    directories_for_others: Stealer<J>,
    files_for_others: Stealer<J>,
    /// Steps of the worker.
    steps: AtomicU64,
}

impl<J> Default for Queues<J> {
    fn default() -> Self {
        let (directories, files) = (Worker::new_lifo(), Worker::new_fifo());
        Self {
            directories_for_others: directories.stealer(),
            files_for_others: files.stealer(),
            directories: Mutex::new(directories),
            files: Mutex::new(files),
            steps: AtomicU64::new(0),
        }
    }
}

/// Driver that runs its workers as threads of this process.
pub struct Local<J> {
    precedence: Precedence,
    /// Replaces `queues` if set.
    ordered_queue: Option<Mutex<OrderedQueue<J>>>,
    /// One for each worker, made with its first job, and one for jobs from outside.
    queues: Vec<OnceLock<Box<CachePadded<Queues<J>>>>>,
    feeds: AtomicUsize,
    queued: CachePadded<AtomicUsize>,
    waiting_entries: CachePadded<AtomicUsize>,
    sleepers: AtomicUsize,
    /// Workers that rest: those from this number on, which the first worker never is.
    resting_from: AtomicUsize,
    /// Number of them that rest already.
    resting: AtomicUsize,
    present: AtomicUsize,
    /// Maximum of `present`.
    limit: AtomicUsize,
    /// Number of workers that a run begins with.
    first: usize,
    /// Number of workers that may wait for another program, some of them for ever.
    blocked: AtomicUsize,
    /// Raises `limit` if the workers wait, and lets workers rest.
    growth: Mutex<Growth>,
    /// Limits of the run, one of which is on the latency.
    limits: Option<Limits>,
    /// Start workers only when there is work for them.
    starts_late: AtomicBool,
    began: Instant,
    over: AtomicBool,
    sleep_lock: Mutex<()>,
    wakeup: Condvar,
    /// Wakes the workers that rest.
    rest_over: Condvar,
}

impl<J: JobWeight + Send> Local<J> {
    /// Creates a driver of `workers` threads, at least one.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self::growing(workers, workers)
    }

    /// Creates a driver of `workers` threads, or up to `most` if the file systems make them wait.
    fn growing(workers: usize, most: usize) -> Self {
        Self {
            precedence: Precedence::default(),
            ordered_queue: None,
            queues: (0..=most.max(1)).map(|_| OnceLock::new()).collect(),
            feeds: AtomicUsize::new(0),
            queued: CachePadded::new(AtomicUsize::new(0)),
            waiting_entries: CachePadded::new(AtomicUsize::new(0)),
            sleepers: AtomicUsize::new(0),
            resting_from: AtomicUsize::new(usize::MAX),
            resting: AtomicUsize::new(0),
            present: AtomicUsize::new(1),
            limit: AtomicUsize::new(workers.max(1)),
            first: workers,
            blocked: AtomicUsize::new(0),
            growth: Mutex::new(Growth::new(workers, most.max(1))),
            limits: None,
            starts_late: AtomicBool::new(false),
            began: Instant::now(),
            over: AtomicBool::new(false),
            sleep_lock: Mutex::new(()),
            wakeup: Condvar::new(),
            rest_over: Condvar::new(),
        }
    }

    /// Creates a driver with these settings, for a tool with this policy.
    #[must_use]
    pub fn of(settings: &Settings, policy: &Policy) -> Self {
        let precedence = settings.precedence();
        let starts_late = AtomicBool::new(policy.starts_workers_late);
        Self { precedence, starts_late, ..Self::growing(settings.jobs, settings.jobs_max) }
            .in_walk_order(policy.order == JobOrder::Walk)
    }

    /// If `in_walk_order`, makes all workers take jobs from one ordered queue, so that they stay
    /// near each other in the walk.
    #[must_use]
    pub fn in_walk_order(self, in_walk_order: bool) -> Self {
        Self { ordered_queue: in_walk_order.then(|| Mutex::new(OrderedQueue::new())), ..self }
    }

    /// Begins with half of the workers. The others start when the processors turn out to have time
    /// left (`growth.rs`), so this is not for a fixed number.
    #[must_use]
    pub fn beginning_with_half(self) -> Self {
        Self { limit: AtomicUsize::new(self.first.div_ceil(2)), ..self }
    }

    /// Lets the latency limit decide how many workers make calls.
    #[must_use]
    pub fn limited(self, limits: Option<&Limits>) -> Self {
        Self { limits: limits.cloned(), ..self }
    }

    /// Returns true if every worker waits for a job and none is queued.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.are_all_asleep() && self.queued.load(Ordering::SeqCst) == 0
    }

    fn are_all_asleep(&self) -> bool {
        let asleep = self.sleepers.load(Ordering::SeqCst) + self.resting.load(Ordering::SeqCst);
        asleep == self.present.load(Ordering::SeqCst)
    }

    /// Lets the workers from this number on rest.
    fn rest_from(&self, number: usize) {
        if self.resting_from.swap(number, Ordering::SeqCst) < number {
            // With the lock held: a worker about to rest sees the new number, or is woken.
            let _lock = lock(&self.sleep_lock);
            self.rest_over.notify_all();
        }
    }

    /// Rests until the run is over or the worker is wanted again. The caller holds `sleep_lock`.
    fn rest<'b>(&self, me: usize, mut sleep_lock: MutexGuard<'b, ()>) -> MutexGuard<'b, ()> {
        self.resting.fetch_add(1, Ordering::SeqCst);
        if self.queued.load(Ordering::SeqCst) > 0 {
            // This worker may have consumed the wakeup for the job: pass it on.
            self.wakeup.notify_one();
        }
        self.end_if_idle();
        while self.rests(me) && !self.over.load(Ordering::SeqCst) {
            sleep_lock = self.rest_over.wait(sleep_lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.resting.fetch_sub(1, Ordering::SeqCst);
        sleep_lock
    }

    fn rests(&self, me: usize) -> bool {
        me >= self.resting_from.load(Ordering::SeqCst)
    }

    /// Opens a feed of jobs from outside. The run doesn't end while it exists.
    pub fn feed(&self) -> Feed<'_, J> {
        self.feeds.fetch_add(1, Ordering::SeqCst);
        Feed { driver: self }
    }

    /// Ends the run if all workers sleep, nothing is queued and no feed is left. The caller
    /// holds `sleep_lock`.
    fn end_if_idle(&self) {
        let is_queued = self.queued.load(Ordering::SeqCst) > 0;
        if self.are_all_asleep() && !is_queued && self.feeds.load(Ordering::SeqCst) == 0 {
            self.over.store(true, Ordering::SeqCst);
            self.wakeup.notify_all();
            self.rest_over.notify_all();
        }
    }

    /// Counts a job that was just shared, and wakes a worker for it.
    fn note_shared(&self) {
        // Another worker may have taken the job and subtracted it already: the count then wraps
        // until this addition. Nobody takes the run to be over, because that worker isn't asleep.
        self.queued.fetch_add(1, Ordering::SeqCst);
        // Both are SeqCst, as in `wait`: one of the two sees the other, because each stores before
        // it loads.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A sleeper that has checked the count but doesn't wait yet would miss the notification
            // without the lock.
            let _lock = lock(&self.sleep_lock);
            self.wakeup.notify_one();
        }
    }

    /// Returns true if a job waits, no worker is free, and there is enough work for one more.
    fn needs_worker(&self) -> bool {
        let is_queued = self.queued.load(Ordering::Relaxed) > 0;
        let is_much = || self.waiting_entries.load(Ordering::Relaxed) >= plan::BATCH_ENTRIES;
        let is_free = || self.sleepers.load(Ordering::Relaxed) > 0;
        is_queued && !is_free() && (is_much() || self.began.elapsed() >= START_DELAY)
    }

    /// Counts a step of a worker, and raises the limit of workers if they wait for more than the
    /// processors.
    fn note_step(&self, me: usize, present: usize) {
        // Only this worker writes it.
        let steps = &self.queues[me].get_or_init(Box::default).steps;
        let count = steps.load(Ordering::Relaxed) + 1;
        steps.store(count, Ordering::Relaxed);
        if count > STEPS_PER_CHECK && !count.is_multiple_of(STEPS_PER_CHECK) {
            return;
        }
        let Ok(mut growth) = self.growth.try_lock() else { return };
        let elapsed = self.began.elapsed();
        if growth.is_due(elapsed) {
            let steps = self.queues.iter().filter_map(|queues| queues.get());
            let steps = steps.map(|queues| queues.steps.load(Ordering::Relaxed)).sum();
            let latency_max = self.limits.as_ref().and_then(Limits::latency_max);
            let call_times = self.limits.as_ref().map(Limits::call_times).unwrap_or_default();
            let progress = RunProgress { elapsed, usage: usage(), steps, latency_max, call_times };
            let working = self.working(present);
            // While a worker sleeps, no more are needed.
            let may_grow = self.workers() > self.first && self.sleepers.load(Ordering::Relaxed) == 0;
            match growth.regulate(progress, working) {
                Some(wanted) => self.set_workers(wanted, present),
                None if may_grow => self.set_workers(growth.observe(progress, working), present),
                None => growth.restart_observation(progress),
            }
        }
    }

    /// Returns how many of the workers that are present don't rest.
    fn working(&self, present: usize) -> usize {
        present.min(self.resting_from.load(Ordering::Relaxed))
    }

    /// Lets workers rest, or raises the limit, so that this many work.
    fn set_workers(&self, wanted: usize, present: usize) {
        let working = self.working(present);
        if wanted < working {
            self.rest_from(wanted.max(1 + self.blocked.load(Ordering::Relaxed)));
        } else if wanted > working {
            self.rest_from(if wanted < present { wanted } else { usize::MAX });
            self.limit.fetch_max(wanted, Ordering::Relaxed);
        }
    }

    fn choose(&self, me: usize) -> Option<J> {
        if let Some(ordered_queue) = &self.ordered_queue {
            return lock(ordered_queue).take(me);
        }
        let (first, second) =
            // Relaxed: the number only decides what goes first.
            match plan::preference(self.precedence, self.waiting_entries.load(Ordering::Relaxed)) {
                Preference::Directories => (Preference::Directories, Preference::Files),
                Preference::Files => (Preference::Files, Preference::Directories),
            };
        self.find(me, first).or_else(|| self.find(me, second))
    }

    fn find(&self, me: usize, what: Preference) -> Option<J> {
        if let Some(mine) = self.queues[me].get() {
            let own = match what {
                Preference::Directories => &mine.directories,
                Preference::Files => &mine.files,
            };
            if let Some(job) = lock(own).pop() {
                return Some(job);
            }
        }
        let others = self.queues.iter().cycle().skip(me + 1).take(self.queues.len() - 1);
        for other in others.filter_map(|queues| queues.get()) {
            let stealer = match what {
                Preference::Directories => &other.directories_for_others,
                Preference::Files => &other.files_for_others,
            };
            loop {
                match stealer.steal() {
                    Steal::Success(job) => return Some(job),
                    Steal::Empty => break,
                    // Another stealer was faster; the queue may still hold jobs.
                    Steal::Retry => {}
                }
            }
        }
        None
    }
}

/// A source of jobs from outside the run.
pub struct Feed<'a, J: JobWeight + Send> {
    driver: &'a Local<J>,
}

impl<J: JobWeight + Send> Feed<'_, J> {
    /// Offers a job to all workers.
    pub fn share(&self, job: J) {
        self.driver.share(self.driver.workers(), job);
    }

    /// Returns the number of workers now, without those that rest.
    #[must_use]
    pub fn working(&self) -> usize {
        self.driver.working(self.driver.present.load(Ordering::Relaxed))
    }
}

impl<J: JobWeight + Send> Drop for Feed<'_, J> {
    fn drop(&mut self) {
        // With the lock held: a worker about to sleep either sees that the feed is gone, or is seen
        // asleep.
        let _lock = lock(&self.driver.sleep_lock);
        self.driver.feeds.fetch_sub(1, Ordering::SeqCst);
        self.driver.end_if_idle();
    }
}

impl<J: JobWeight + Send> Driver<J> for Local<J> {
    fn workers(&self) -> usize {
        self.queues.len() - 1
    }

    fn recruit(&self, me: usize) -> Option<usize> {
        // Relaxed: they only decide whether this is the time. The exchange decides who starts it.
        let present = self.present.load(Ordering::Relaxed);
        if present >= self.limit.load(Ordering::Relaxed) {
            if self.workers() > self.first || self.limits.is_some() {
                self.note_step(me, present);
            }
            return None;
        }
        if self.starts_late.load(Ordering::Relaxed) && !self.needs_worker() {
            return None;
        }
        let counted =
            self.present.compare_exchange(present, present + 1, Ordering::SeqCst, Ordering::Relaxed);
        counted.ok()
    }

    fn start_all(&self) {
        let blocked = self.blocked.fetch_add(1, Ordering::Relaxed) + 1;
        self.limit.fetch_max(self.first.max(blocked + 1).min(self.workers()), Ordering::Relaxed);
        self.rest_from(usize::MAX);
        self.starts_late.store(false, Ordering::Relaxed);
    }

    fn not_started(&self) {
        lock(&self.growth).limit_to(self.present.load(Ordering::Relaxed) - 1);
        self.limit.store(0, Ordering::Relaxed);
        self.present.fetch_sub(1, Ordering::SeqCst);
    }

    fn take_remark(&self) -> Option<String> {
        self.limits.as_ref().and_then(Limits::latency_max)?;
        self.growth.try_lock().ok()?.take_remark()
    }

    fn has_idle_worker(&self) -> bool {
        // Relaxed: work is shared late at worst.
        let is_empty = self.queued.load(Ordering::Relaxed) == 0;
        let can_start = || self.present.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed);
        is_empty && (self.sleepers.load(Ordering::Relaxed) > 0 || can_start())
    }

    fn share(&self, me: usize, job: J) {
        // Before the job can be taken: whoever takes it subtracts them.
        self.waiting_entries.fetch_add(job.entries(), Ordering::Relaxed);
        let finds_work = job.finds_work();
        if let Some(ordered_queue) = &self.ordered_queue {
            lock(ordered_queue).add(me, job, finds_work);
        } else {
            let mine = self.queues[me].get_or_init(Box::default);
            lock(if finds_work { &mine.directories } else { &mine.files }).push(job);
        }
        self.note_shared();
    }

    fn share_first(&self, me: usize, job: J) {
        let Some(ordered_queue) = &self.ordered_queue else { return self.share(me, job) };
        self.waiting_entries.fetch_add(job.entries(), Ordering::Relaxed);
        lock(ordered_queue).add_first(job);
        self.note_shared();
    }

    fn take(&self, me: usize) -> Option<J> {
        if self.rests(me) {
            return None;
        }
        let job = self.choose(me)?;
        self.queued.fetch_sub(1, Ordering::SeqCst);
        self.waiting_entries.fetch_sub(job.entries(), Ordering::Relaxed);
        Some(job)
    }

    fn wait(&self, me: usize) -> bool {
        let mut sleep_lock = lock(&self.sleep_lock);
        if self.rests(me) {
            drop(self.rest(me, sleep_lock));
            return !self.over.load(Ordering::SeqCst);
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.end_if_idle();
        // Another worker may have taken the job, and condition variables wake spuriously.
        while self.queued.load(Ordering::SeqCst) == 0 && !self.over.load(Ordering::SeqCst) {
            sleep_lock = self.wakeup.wait(sleep_lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        !self.over.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::Scope;

    use super::*;

    /// A number that splits in two until it is 1.
    struct Splitting(usize);

    impl JobWeight for Splitting {
        fn finds_work(&self) -> bool {
            self.0 > 1
        }
        fn entries(&self) -> usize {
            self.0
        }
    }

    struct Splitter<'a> {
        driver: &'a Local<Splitting>,
        ones: &'a AtomicUsize,
        me: usize,
    }

    impl Splitter<'_> {
        fn step(&self) -> bool {
            match self.driver.take(self.me) {
                None => return false,
                Some(Splitting(1)) => {
                    self.ones.fetch_add(1, Ordering::Relaxed);
                }
                Some(Splitting(n)) => {
                    self.driver.share(self.me, Splitting(n / 2));
                    self.driver.share(self.me, Splitting(n - n / 2));
                }
            }
            true
        }
    }

    fn drive(driver: &Local<Splitting>, ones: &AtomicUsize) {
        std::thread::scope(|threads| drive_one(threads, driver, ones, 0));
    }

    fn drive_one<'s>(
        threads: &'s Scope<'s, '_>,
        driver: &'s Local<Splitting>,
        ones: &'s AtomicUsize,
        me: usize,
    ) {
        let splitter = Splitter { driver, ones, me };
        loop {
            while let Some(other) = driver.recruit(me) {
                threads.spawn(move || drive_one(threads, driver, ones, other));
            }
            if !(splitter.step() || driver.wait(me)) {
                return;
            }
        }
    }

    #[test]
    fn a_run_may_begin_with_half_of_the_workers() {
        let begun = |driver: Local<Splitting>| std::iter::successors(Some(0), |_| driver.recruit(0)).count();
        assert_eq!([4, 3, 1].map(|first| begun(Local::growing(first, 64).beginning_with_half())), [2, 2, 1]);
        assert_eq!([4, 3, 1].map(|first| begun(Local::growing(first, 64))), [4, 3, 1]);
        let blocked = Local::growing(2, 64).beginning_with_half();
        blocked.start_all();
        assert_eq!(begun(blocked), 2, "nobody is left beside a blocked worker");
    }

    /// Attempts at a race. Miri is a thousand times slower.
    const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };

    #[test]
    fn a_run_that_is_fed_ends_after_its_last_feed() {
        for round in 0..ROUNDS {
            let driver = Local::new(1 + round % 3);
            let ones = AtomicUsize::new(0);
            let feed = driver.feed();
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    for amount in [1, 7, 30] {
                        feed.share(Splitting(amount));
                        while ones.load(Ordering::Relaxed) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    drop(feed);
                });
                drive(&driver, &ones);
            });
            assert_eq!(ones.load(Ordering::Relaxed), 38);
        }
    }

    #[test]
    fn jobs_of_workers_that_rest_are_done_by_others() {
        for round in 0..ROUNDS {
            let driver = Local::new(4);
            let ones = AtomicUsize::new(0);
            driver.share(0, Splitting(1000));
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    for number in [1, usize::MAX, 2, 3, 1, usize::MAX].into_iter().take(1 + round % 6) {
                        driver.rest_from(number);
                        std::thread::yield_now();
                    }
                });
                drive(&driver, &ones);
            });
            assert_eq!(ones.load(Ordering::Relaxed), 1000);
        }
    }

    #[test]
    fn every_job_is_done_once_and_the_run_ends() {
        for workers in [1, 2, 3, 8] {
            for round in 0..ROUNDS / 2 {
                let mut driver = Local::new(workers).in_walk_order(round % 2 == 1);
                driver.starts_late = AtomicBool::new(round % 4 < 2);
                let ones = AtomicUsize::new(0);
                let jobs = 5 * ROUNDS + round;
                driver.share(0, Splitting(jobs));
                drive(&driver, &ones);
                assert_eq!(ones.load(Ordering::Relaxed), jobs);
            }
        }
    }
}
