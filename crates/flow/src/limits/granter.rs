//! Rank 0's clocks, which all processes of a run share.

use std::collections::VecDeque;
use std::time::Instant;

use super::clock::LimitClock;
use super::{LimitState, LimitValues, Load};

/// Grants the requests of processes ([`Limits::ask`](super::Limits::ask)) in their order, each when
/// the limit allows it. `P` identifies a process.
///
/// Bound: a process has at most one request for bytes and one for operations.
#[derive(Debug)]
pub struct Granter<P> {
    state: LimitState,
    bytes: VecDeque<GrantRequest<P>>,
    operations: VecDeque<GrantRequest<P>>,
}

#[derive(Debug)]
struct GrantRequest<P> {
    process: P,
    amount: u64,
    /// The value of `allowed` at which the request is granted.
    wanted: f64,
}

impl<P> Default for Granter<P> {
    fn default() -> Self {
        Self { state: LimitState::default(), bytes: VecDeque::new(), operations: VecDeque::new() }
    }
}

impl<P: Copy> Granter<P> {
    /// Changes the limits, also for requests that are waiting.
    pub fn set(&mut self, values: LimitValues, now: Instant) {
        self.state.set(values, now);
    }

    /// Adds a request.
    pub fn ask(&mut self, process: P, load: Load, now: Instant) {
        let (bytes, operations) = self.state.take(load, now);
        for (queue, amount, wanted) in
            [(&mut self.bytes, load.bytes, bytes), (&mut self.operations, load.operations, operations)]
        {
            if amount > 0 {
                queue.push_back(GrantRequest { process, amount, wanted });
            }
        }
    }

    /// Removes and returns the requests granted by now. A pause grants none.
    pub fn due(&mut self, now: Instant) -> Vec<(P, Load)> {
        if self.state.values.is_paused || (self.bytes.is_empty() && self.operations.is_empty()) {
            return Vec::new();
        }
        let mut granted = Vec::new();
        for (process, bytes) in due(&mut self.state.bytes, &mut self.bytes, now) {
            granted.push((process, Load { bytes, operations: 0 }));
        }
        for (process, operations) in due(&mut self.state.operations, &mut self.operations, now) {
            granted.push((process, Load { bytes: 0, operations }));
        }
        granted
    }
}

/// Removes and returns the requests that the clock allows by now.
fn due<P: Copy>(
    clock: &mut LimitClock,
    queue: &mut VecDeque<GrantRequest<P>>,
    now: Instant,
) -> Vec<(P, u64)> {
    clock.advance(now);
    let count = queue.iter().take_while(|request| clock.left(request.wanted).is_zero()).count();
    queue.drain(..count).map(|request| (request.process, request.amount)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RATE: u64 = 1_000_000;
    const BLOCK: u64 = 40_000;
    const TICK: Duration = Duration::from_millis(1);

    /// A process with one worker, which moves blocks. Without a limit each takes some time.
    struct Process {
        clock: LimitClock,
        block_time: Duration,
        /// When the worker has moved its block, and the amount that must be allowed then.
        busy: Option<(Instant, f64)>,
        moved: u64,
    }

    /// Processes of a run in simulated time, whose messages take a tick.
    struct GrantSimulation {
        granter: Granter<usize>,
        processes: Vec<Process>,
        begin: Instant,
        now: Instant,
        /// Requests and grants on their way.
        requests: Vec<(usize, u64)>,
        grants: Vec<(usize, Load)>,
    }

    impl GrantSimulation {
        /// Begins, with processes that take this long for a block; none at all if `None`.
        fn new(values: LimitValues, block_times: &[Option<Duration>]) -> Self {
            let begin = Instant::now();
            let process = |block_time: &Option<Duration>| {
                let mut clock = LimitClock::default();
                clock.depend_on_grants(begin);
                let block_time = block_time.unwrap_or(Duration::MAX / 4);
                Process { clock, block_time, busy: None, moved: 0 }
            };
            let processes = block_times.iter().map(process).collect();
            let granter = Granter::default();
            let (requests, grants) = Default::default();
            let mut run = Self { granter, processes, begin, now: begin, requests, grants };
            run.set(values);
            run
        }

        fn set(&mut self, values: LimitValues) {
            self.granter.set(values, self.now);
            let rate = values.bytes_per_second.map(|rate| rate as f64);
            self.processes.iter_mut().for_each(|process| process.clock.set(rate, self.now));
        }

        /// Runs for a while. Returns the number of bytes that each process moved.
        fn run(&mut self, length: Duration) -> Vec<u64> {
            let before: Vec<_> = self.processes.iter().map(|process| process.moved).collect();
            let end = self.now + length;
            while self.now < end {
                self.now += TICK;
                for (process, bytes) in self.requests.drain(..) {
                    self.granter.ask(process, Load { bytes, operations: 0 }, self.now);
                }
                for (process, load) in self.grants.drain(..) {
                    self.processes[process].clock.grant(load.bytes);
                }
                self.grants = self.granter.due(self.now);
                for (number, process) in self.processes.iter_mut().enumerate() {
                    process.work(self.now);
                    let bytes = process.clock.ask(self.now);
                    self.requests.extend((bytes > 0).then_some((number, bytes)));
                }
            }
            self.processes.iter().zip(before).map(|(process, before)| process.moved - before).collect()
        }
    }

    impl Process {
        fn work(&mut self, now: Instant) {
            self.clock.advance(now);
            while self.block_time < Duration::MAX / 4 {
                match self.busy {
                    Some((until, _)) if until > now => return,
                    Some((_, wanted)) if !self.clock.left(wanted).is_zero() => return,
                    Some(_) => self.moved += BLOCK,
                    None => {}
                }
                let wanted = self.clock.take(BLOCK, now);
                self.busy = Some((now + self.block_time, wanted));
            }
        }
    }

    fn limit(bytes_per_second: u64) -> LimitValues {
        LimitValues { bytes_per_second: Some(bytes_per_second), ..LimitValues::default() }
    }

    /// Fails unless the amount is within a twentieth of what is wanted.
    fn assert_near(amount: u64, wanted: u64, what: &str) {
        assert!(amount.abs_diff(wanted) <= wanted / 20, "{what}: {amount}, not {wanted}");
    }

    const FAST: Option<Duration> = Some(Duration::from_micros(100));

    #[test]
    fn idle_processes_leave_the_limit_to_the_others() {
        for processes in [&[FAST][..], &[FAST, None, None], &[FAST, FAST, None], &[FAST; 3]] {
            let mut run = GrantSimulation::new(limit(RATE), processes);
            let moved = run.run(Duration::from_secs(20));
            assert_near(moved.iter().sum(), 20 * RATE, &format!("{processes:?}"));
            let busy = processes.iter().flatten().count() as u64;
            for (moved, _) in moved.iter().zip(processes).filter(|(_, process)| process.is_some()) {
                assert_near(*moved, 20 * RATE / busy, &format!("one of {processes:?}"));
            }
        }
    }

    #[test]
    fn what_a_slow_process_leaves_is_for_the_others() {
        // A quarter of a third of the limit.
        let slow = Some(Duration::from_secs_f64(12.0 * BLOCK as f64 / RATE as f64));
        let moved = GrantSimulation::new(limit(RATE), &[FAST, slow, FAST]).run(Duration::from_secs(60));
        assert_near(moved.iter().sum(), 60 * RATE, "all");
        assert_near(moved[1], 5 * RATE, "the slow one");
    }

    #[test]
    fn a_limit_that_is_not_reached_costs_no_waiting() {
        // Each moves 4 MB/s.
        let block_time = Some(Duration::from_millis(10));
        let moved = GrantSimulation::new(limit(100 * RATE), &[block_time; 3]).run(Duration::from_secs(10));
        moved.iter().for_each(|moved| assert_near(*moved, 40 * RATE, "each"));
    }

    #[test]
    fn a_change_and_a_pause_hold_for_what_waits() {
        let mut run = GrantSimulation::new(limit(1), &[FAST, FAST, None]);
        assert_eq!(run.run(Duration::from_secs(10)), [0, 0, 0]);
        run.set(limit(RATE));
        assert_near(run.run(Duration::from_secs(20)).iter().sum(), 20 * RATE, "after a change");
        run.set(LimitValues { is_paused: true, ..limit(RATE) });
        // Earlier grants cover less than a third of a second.
        let paused: u64 = run.run(Duration::from_secs(50)).iter().sum();
        assert!(paused < RATE / 3, "{paused}");
        run.set(limit(2 * RATE));
        assert_near(run.run(Duration::from_secs(20)).iter().sum(), 40 * RATE, "after the pause");
        run.set(LimitValues::default());
        assert!(run.run(Duration::from_secs(1)).iter().sum::<u64>() > 50 * RATE);
        run.set(limit(RATE));
        assert_near(run.run(Duration::from_secs(20)).iter().sum(), 20 * RATE, "a new limit");
        assert_eq!(run.now - run.begin, Duration::from_secs(121));
    }

    #[test]
    fn bytes_and_operations_are_granted_by_clocks_of_their_own() {
        let (mut granter, begin) = (Granter::default(), Instant::now());
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let values = LimitValues { operations_per_second: Some(10), ..limit(1000) };
        granter.set(values, begin);
        granter.ask('a', Load { bytes: 1000, operations: 1 }, begin);
        granter.ask('b', Load { bytes: 0, operations: 1 }, begin);
        assert_eq!(granter.due(at(99)), []);
        assert_eq!(granter.due(at(100)), [('a', Load { bytes: 0, operations: 1 })]);
        assert_eq!(granter.due(at(200)), [('b', Load { bytes: 0, operations: 1 })]);
        assert_eq!(granter.due(at(1000)), [('a', Load { bytes: 1000, operations: 0 })]);
        // Without a limit, at once.
        granter.set(limit(1), at(1000));
        granter.ask('c', Load { bytes: 0, operations: 1 << 40 }, at(1000));
        assert_eq!(granter.due(at(1000)), [('c', Load { bytes: 0, operations: 1 << 40 })]);
    }
}
