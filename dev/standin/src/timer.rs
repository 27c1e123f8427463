//! Runs replies at their due time.
//!
//! A few threads share one queue ordered by time. Each sleeps until the first task is due, removes
//! it, and runs it without the lock, so a slow task (reading a megabyte) delays no other.
//!
//! Shutdown: the threads end with the process. Tasks still queued then belong to mounts that
//! are gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::pace::UptimeClock;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct TimerQueue {
    /// Tasks by time and number; the number keeps equal times apart.
    waiting: BTreeMap<(u64, u64), Task>,
    next_number: u64,
}

pub(crate) struct Timer {
    clock: UptimeClock,
    queue: Mutex<TimerQueue>,
    earlier: Condvar,
}

impl Timer {
    pub(crate) fn start(clock: UptimeClock, threads: usize) -> std::io::Result<Arc<Self>> {
        let timer = Arc::new(Self { clock, queue: Mutex::default(), earlier: Condvar::new() });
        for number in 0..threads.max(1) {
            let timer = Arc::clone(&timer);
            std::thread::Builder::new().name(format!("timer-{number}")).spawn(move || timer.run())?;
        }
        Ok(timer)
    }

    /// Runs `task` at time `at`, or immediately in the caller if that has passed.
    pub(crate) fn at(&self, at: u64, task: impl FnOnce() + Send + 'static) {
        if at <= self.clock.now() {
            return task();
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let number = queue.next_number;
        queue.next_number += 1;
        let is_first = queue.waiting.first_key_value().is_none_or(|((first, _), _)| at < *first);
        queue.waiting.insert((at, number), Box::new(task));
        drop(queue);
        if is_first {
            self.earlier.notify_one();
        }
    }

    fn run(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = self.clock.now();
            let wait = match queue.waiting.first_key_value() {
                Some(((first, _), _)) => Duration::from_nanos(first.saturating_sub(now)),
                None => Duration::from_secs(3600),
            };
            if !wait.is_zero() {
                queue = self.earlier.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let Some((_, task)) = queue.waiting.pop_first() else { continue };
            if !queue.waiting.is_empty() {
                // Another thread waits for the next task while this one is busy.
                self.earlier.notify_one();
            }
            drop(queue);
            task();
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn tasks_run_in_the_order_of_their_times() {
        let clock = UptimeClock::start();
        let timer = Timer::start(clock, 1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let begin = clock.now();
        for delay in [9_u64, 3, 6] {
            let sender = sender.clone();
            let at = begin + delay * 1_000_000;
            timer.at(at, move || sender.send((delay, clock.now() >= at)).unwrap());
        }
        let ran: Vec<_> = receiver.iter().take(3).collect();
        assert_eq!(ran, [(3, true), (6, true), (9, true)]);
    }
}
