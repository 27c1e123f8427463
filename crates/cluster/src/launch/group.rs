//! The process group: the job's processes as the launch process sees them, from the first init
//! message to the last shutdown message, over all attempts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use haul_flow::{JobSpec, Load, Problem, Reporter, SlowRank, Status, lock};
use haul_journal::Journal;

use super::attempt::Attempt;
use super::attempt_hosts::{self, HostRanks, NextHosts, named_once};
use super::failed_host::{Loss, failed_host};
use super::launcher::{Launcher, Started};
use crate::WalkPlacement;
use crate::distributed::Distributed;
use crate::error::JobError;
use crate::kind::ClusterKind;
use crate::link::{Arrival, LinkSender};
use crate::master;
use crate::suspend_detector::{Deadline, SuspendDetector};
use crate::token::{LiveTokens, Tokens};
use crate::transport::Rank;
use crate::wire::{
    DirectoryToken, InitMessage, KnownKinds, PackedInit, PackedProblem, ProgressReport, ToLaunch, ToMaster,
    UserOutput,
};

/// Maximum number of attempts.
const ATTEMPTS: u32 = 3;

/// Time for all ranks to answer: at least this long, and at least this many times the
/// silence limit.
const READY_WITHIN: (Duration, u32) = (Duration::from_secs(30), 2);

/// Maximum time for the ranks to shut down.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(30);

/// Maximum time for a launcher to print why its job ended.
const LAUNCHER_OUTPUT_WITHIN: Duration = Duration::from_secs(1);

/// A restarted job.
pub(crate) struct Restart {
    /// Why the previous attempt ended.
    pub(crate) why: Loss,
    /// Hosts left out from now on.
    pub(crate) without: Option<String>,
    /// The new attempt.
    pub(crate) ready: ReadyGroup,
}

/// Options of a process group.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// Time after which a silent process is given up.
    pub silence: Duration,
    /// Size of a range, in bytes, if the user set it.
    pub range_bytes: Option<u64>,
    /// Processes that list directories.
    pub walk: WalkPlacement,
}

/// Result of [`ProcessGroup::receive`].
pub(crate) enum Received {
    /// A report, with its host.
    Report(String, Box<ProgressReport>),
    /// A line from rank 0 for `--debug`.
    Remark(String),
    /// The ranks that are slow now.
    SlowRanks(Vec<SlowRank>),
    /// Share of the requested load that the limits allow.
    Grant(Load),
    /// Nothing that the caller must handle.
    Nothing,
    /// The attempt is lost, for this reason.
    Lost(JobError),
}

/// A job whose ranks are ready.
pub(crate) struct ReadyGroup {
    outgoing: LinkSender<ToMaster>,
    attempt: Attempt,
}

/// The job over all its attempts.
pub struct ProcessGroup {
    launcher: Box<dyn Launcher>,
    options: GroupOptions,
    journal: Option<Arc<Journal>>,
    attempt: Mutex<Option<Attempt>>,
    outgoing: Mutex<Option<LinkSender<ToMaster>>>,
    /// Number of ranks that copy, in the current attempt.
    workers: AtomicUsize,
    lost: OnceLock<JobError>,
    /// Hosts of the next attempt, once one was left out.
    places: Mutex<Vec<HostRanks>>,
    journal_failure_reported: AtomicBool,
    /// Hosts and directories that they can't reach, as reported. Many work items of one directory
    /// may fail.
    unreachable: Mutex<BTreeSet<(String, Vec<Vec<u8>>)>>,
    /// Kinds that the ranks may report.
    known: Mutex<KnownKinds>,
    tokens: Arc<LiveTokens>,
}

impl ProcessGroup {
    /// Creates a process group whose processes are started when needed.
    #[must_use]
    pub fn new(launcher: Box<dyn Launcher>, options: GroupOptions, journal: Option<Arc<Journal>>) -> Self {
        Self {
            launcher,
            options,
            journal,
            attempt: Mutex::default(),
            outgoing: Mutex::default(),
            workers: AtomicUsize::new(1),
            lost: OnceLock::new(),
            places: Mutex::default(),
            journal_failure_reported: AtomicBool::new(false),
            unreachable: Mutex::default(),
            known: Mutex::default(),
            tokens: Arc::default(),
        }
    }

    /// Returns the files that exist in target directories while ranks start, to be removed before a
    /// signal ends this process.
    #[must_use]
    pub fn tokens(&self) -> Arc<LiveTokens> {
        Arc::clone(&self.tokens)
    }

    fn known(&self) -> KnownKinds {
        *lock(&self.known)
    }

    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// Returns the number of ranks that copy. Never blocks: the receiver may hold the
    /// attempt's lock.
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    /// True if the ranks enter directories.
    pub(crate) fn walks_in_ranks(&self) -> bool {
        self.options.walk == WalkPlacement::Ranks
    }

    /// True if the job is lost for good.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// True if the job is lost and a later run can resume it, because its journal contains work.
    pub fn leaves_work(&self) -> bool {
        self.is_lost() && self.journal.as_deref().is_some_and(Journal::has_work)
    }

    pub(crate) fn why_lost(&self) -> JobError {
        self.lost.get().cloned().unwrap_or(JobError::Ended)
    }

    /// Starts the job, and waits until all ranks are ready.
    fn start_ranks<T: Distributed>(
        &self,
        spec: &JobSpec<'_, T>,
        number: u32,
    ) -> Result<ReadyGroup, JobError> {
        lock(&self.known).change_to(T::KINDS);
        let run = self.journal.as_deref().map(Journal::run);
        // Before the ranks start: the first thing each does is look for them.
        let tokens = Tokens::create(spec, &self.tokens, run, number);
        let places = lock(&self.places).clone();
        let Started { mut link, job } = self.launcher.start(&places, self.options.silence)?;
        let init_message = self.init_message(spec, number, tokens.created())?;
        let sent = link.send(ToMaster::InitMessage(PackedInit::new(&init_message)));
        let (mut outgoing, incoming) = link.split();
        let (last_received, hosts, printed) = (Instant::now(), Vec::new(), Vec::new());
        let suspend_detector = SuspendDetector::new(last_received);
        let (tool, stopped) = (T::NAME, None);
        let mut attempt =
            Attempt { incoming, job, hosts, last_received, suspend_detector, printed, number, tool, stopped };
        let ready = match sent {
            Ok(()) => {
                // If this fails, the link is found closed.
                let mut answer = |message| outgoing.send(message).unwrap_or_default();
                self.wait_until_ready(&mut attempt, spec.run.report, &mut answer).map(drop)
            }
            Err(cause) => Err(JobError::NotSent(Arc::new(cause))),
        };
        if let Err(error) = ready {
            let printed = attempt.end();
            spec.run.report.note(&printed);
            // If a host is missing, the launcher names it; the error here only shows that nobody
            // answers.
            let missed = failed_host(&printed).filter(|_| error.may_pass());
            return Err(missed.map_or(error, JobError::Died));
        }
        Ok(ReadyGroup { outgoing, attempt })
    }

    /// Makes the ranks run this tool: starts them if they aren't running, or ends the tool that
    /// they run. Returns `Failure` if the last reports of that tool contain errors.
    pub(crate) fn make_ready<T: Distributed>(&self, spec: &JobSpec<'_, T>) -> Result<Status, Problem> {
        let running = lock(&self.attempt).as_ref().map(|attempt| attempt.tool);
        match running {
            _ if self.is_lost() => Ok(Status::Success),
            Some(tool) if tool == T::NAME => Ok(Status::Success),
            Some(_) => self.change_tool(spec).map_err(|error| self.give_up(error)),
            None => {
                let ready = self.start_ranks(spec, 1).or_else(|error| self.try_once_more(spec, error));
                self.adopt(ready.map_err(|error| self.give_up(error))?);
                Ok(Status::Success)
            }
        }
    }

    /// Gives up the job before a tool's work has begun, and returns the reason.
    fn give_up(&self, error: JobError) -> Problem {
        // Only this thread sets it.
        self.lost.set(JobError::NeverStarted).unwrap_or_default();
        error.into_problem()
    }

    /// Makes the ranks run another tool. When they are ready, all reports about the previous one
    /// have arrived: each rank sends its last report before it answers, and messages between two
    /// ranks keep their order.
    fn change_tool<T: Distributed>(&self, spec: &JobSpec<'_, T>) -> Result<Status, JobError> {
        lock(&self.known).change_to(T::KINDS);
        let number = lock(&self.attempt).as_ref().map_or(1, |attempt| attempt.number);
        // These processes have found the tokens already.
        let init_message = self.init_message(spec, number, std::iter::empty())?;
        self.post(ToMaster::InitMessage(PackedInit::new(&init_message)));
        let mut guard = lock(&self.attempt);
        let Some(attempt) = guard.as_mut() else { return Err(self.why_lost()) };
        attempt.tool = T::NAME;
        let ready = self.wait_until_ready(attempt, spec.run.report, &mut |message| self.post(message));
        if ready.is_err() {
            lock(&self.outgoing).take();
            spec.run.report.note(&attempt.end());
            *guard = None;
        }
        drop(guard);
        let mut status = Status::Success;
        for (host, user_output) in ready? {
            if user_output.problems.iter().any(PackedProblem::is_error) {
                status = Status::Failure;
            }
            self.report_output(&host, user_output, spec.run.report);
        }
        Ok(status)
    }

    /// Switches to a ready job: from now on messages reach its ranks.
    pub(crate) fn adopt(&self, ReadyGroup { outgoing, attempt }: ReadyGroup) {
        *lock(&self.outgoing) = Some(outgoing);
        *lock(&self.attempt) = Some(attempt);
    }

    /// Starts a job again whose processes died before they were ready, possibly by accident.
    fn try_once_more<T: Distributed>(
        &self,
        spec: &JobSpec<'_, T>,
        error: JobError,
    ) -> Result<ReadyGroup, JobError> {
        if !error.may_pass() || !self.launcher.starts_again() {
            return Err(error);
        }
        self.start_ranks(spec, 2)
    }

    fn init_message<'t, T: Distributed>(
        &self,
        spec: &JobSpec<'_, T>,
        attempt: u32,
        tokens: impl Iterator<Item = &'t DirectoryToken>,
    ) -> Result<InitMessage, JobError> {
        let directory = std::env::current_dir().map_err(|cause| JobError::NoDirectory(Arc::new(cause)))?;
        Ok(InitMessage {
            tool: T::NAME.to_owned(),
            options: spec.run.tool.init_message(),
            config: spec.config.clone(),
            flushes: T::MAY_BE_REPEATED && self.journal.is_some(),
            working_directory: directory.into_os_string().into_encoded_bytes(),
            umask: haul_sys::umask().bits(),
            tokens: tokens.cloned().collect(),
            attempt,
            leader_counts: spec.run.tool.leader_counts(),
            range_bytes: self.options.range_bytes,
            debug: spec.run.report.wants_debug(),
            reports_entries: spec.run.report.wants_entries(),
            silence: self.options.silence,
            lease_unless_on: self.launcher.starts_again().then(attempt_hosts::this_host),
        })
    }

    /// Waits until the ranks are ready; `answer` sends them an answer to a heartbeat. Returns the
    /// host and the user's output of each report that arrived before.
    fn wait_until_ready(
        &self,
        attempt: &mut Attempt,
        report: &dyn Reporter,
        answer: &mut dyn FnMut(ToMaster),
    ) -> Result<Vec<(String, UserOutput)>, JobError> {
        let mut late = Vec::new();
        let (mut began, within) = (Instant::now(), READY_WITHIN.0.max(self.options.silence * READY_WITHIN.1));
        loop {
            // Time in which this process was suspended doesn't count: nobody could have answered.
            began += attempt.suspend_detector.tick(Instant::now());
            if began.elapsed() > within {
                return Err(JobError::NoAnswer { within });
            }
            // Some launchers don't exit when they can't reach a host.
            if let Some(loss) = attempt.finds_host_missing() {
                return Err(JobError::Died(loss));
            }
            // Short, because the launcher's output is examined in between.
            match attempt.incoming.wait(Duration::from_millis(100)) {
                Some(Arrival::Message(ToLaunch::Ready { hosts, transport })) => {
                    report.debug(&format!(
                        "{} processes on {}, by {transport}",
                        hosts.len(),
                        named_once(&hosts)
                    ));
                    self.workers.store(master::workers(hosts.len() as u32).len(), Ordering::Relaxed);
                    (attempt.hosts, attempt.last_received) = (hosts, Instant::now());
                    return Ok(late);
                }
                Some(Arrival::Message(ToLaunch::Report { rank, report })) => {
                    let (host, report) = self.checked(attempt, rank, report)?;
                    late.push((host, report.user_output));
                }
                Some(Arrival::Message(ToLaunch::Unfit { reasons })) => {
                    let mut unfit = reasons.into_iter().map(|(host, why)| JobError::Unfit { host, why });
                    let last = unfit.next_back().unwrap_or(JobError::Ended);
                    unfit.for_each(|error| report.problem(error.into_problem()));
                    return Err(last);
                }
                Some(Arrival::Message(ToLaunch::Lost { why })) => return Err(JobError::Lost(why)),
                Some(Arrival::Message(ToLaunch::Alive(sent_at))) => answer(ToMaster::Lease(sent_at)),
                Some(Arrival::Message(_)) | None => {}
                Some(Arrival::Stray(text)) => attempt.printed.extend(text),
                Some(Arrival::Gone(why)) => return Err(JobError::Disconnected(why)),
            }
        }
    }

    /// Sends a message. If that fails, the receiver finds the link closed.
    pub(crate) fn post(&self, message: ToMaster) {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.as_mut().is_some_and(|link| link.send(message).is_err()) {
            *outgoing = None;
        }
    }

    /// Waits up to `timeout` for a message. Returns at once if the job is lost for good.
    pub(crate) fn receive(&self, timeout: Duration) -> Received {
        let mut guard = lock(&self.attempt);
        let Some(attempt) = guard.as_mut() else { return Received::Lost(self.why_lost()) };
        let arrival = attempt.incoming.wait(timeout);
        // Time during which this process was suspended doesn't count as silence of a peer.
        attempt.last_received += attempt.suspend_detector.tick(Instant::now());
        if arrival.is_some() {
            attempt.last_received = Instant::now();
        }
        match arrival {
            Some(Arrival::Message(ToLaunch::Report { rank, report })) => {
                match self.checked(attempt, rank, report) {
                    Ok((host, report)) => Received::Report(host, report),
                    Err(why) => Received::Lost(why),
                }
            }
            Some(Arrival::Message(ToLaunch::Lost { why })) => Received::Lost(JobError::Lost(why)),
            Some(Arrival::Message(ToLaunch::Remark(text))) => Received::Remark(text),
            Some(Arrival::Message(ToLaunch::SlowRanks(slow))) => {
                let host = |rank: Rank| attempt.hosts.get(rank.index()).cloned().unwrap_or_default();
                let named = |(rank, since): (Rank, _)| SlowRank { rank: rank.0, host: host(rank), since };
                Received::SlowRanks(slow.into_iter().map(named).collect())
            }
            Some(Arrival::Message(ToLaunch::Grant(load))) => Received::Grant(load),
            Some(Arrival::Message(ToLaunch::Alive(sent_at))) => {
                self.post(ToMaster::Lease(sent_at));
                Received::Nothing
            }
            Some(Arrival::Message(ToLaunch::Stopped { messages })) => {
                attempt.stopped = Some(messages);
                Received::Nothing
            }
            Some(Arrival::Message(_)) => Received::Nothing,
            Some(Arrival::Stray(text)) => {
                attempt.printed.extend(text);
                Received::Nothing
            }
            Some(Arrival::Gone(why)) => Received::Lost(JobError::Disconnected(why)),
            None if attempt.last_received.elapsed() > self.options.silence => {
                Received::Lost(JobError::Silent(attempt.last_received.elapsed()))
            }
            None => Received::Nothing,
        }
    }

    /// Returns a report with its host, if all its kinds are known.
    fn checked(
        &self,
        attempt: &Attempt,
        rank: Rank,
        report: Box<ProgressReport>,
    ) -> Result<(String, Box<ProgressReport>), JobError> {
        let host = attempt.hosts.get(rank.index()).cloned().unwrap_or_default();
        match report.unknown_kind(self.known()) {
            None => Ok((host, report)),
            Some(kind) => Err(JobError::UnknownKind { host, kind }),
        }
    }

    /// Reports a rank's output to the user.
    pub(crate) fn report_output(&self, host: &str, user_output: UserOutput, report: &dyn Reporter) {
        let UserOutput { problems, lines, entries, output, remarks, tally } = user_output;
        report.count(tally);
        output.into_iter().for_each(|(stream, bytes)| report.output(stream, &bytes));
        for remark in remarks {
            report.debug(&format!("{host}: {remark}"));
        }
        lines.into_iter().filter_map(|line| line.unpack(self.known())).for_each(|line| report.line(line));
        entries.into_iter().for_each(|entry| report.entry(entry));
        self.report_problems(host, problems, report);
    }

    /// Reports problems of a host to the user. An unreachable directory is reported once, not once
    /// per work item.
    pub(crate) fn report_problems(&self, host: &str, problems: Vec<PackedProblem>, report: &dyn Reporter) {
        let several_hosts =
            !problems.is_empty() && lock(&self.attempt).as_ref().is_some_and(Attempt::has_several_hosts);
        // Invariant: a report with an unknown kind was refused (`ProgressReport::unknown_kind`).
        for mut problem in problems.into_iter().filter_map(|problem| problem.unpack(self.known(), host)) {
            if problem.kind == ClusterKind::CannotReach
                && !lock(&self.unreachable).insert((host.to_owned(), problem.names.clone()))
            {
                continue;
            }
            // With only one host, the user knows its name.
            problem.host = problem.host.filter(|_| several_hosts);
            report.problem(problem);
        }
        if let Some(error) = self.journal.as_deref().and_then(Journal::take_failure)
            && !self.journal_failure_reported.swap(true, Ordering::Relaxed)
        {
            report.problem(Problem::new(ClusterKind::JournalLost).naming(error.to_string()));
        }
    }

    /// Ends the rest of the job and restarts it, without the lost host if there are others. Returns
    /// the new job, to be passed to [`Self::adopt`]; `None` if the job is lost for good.
    pub(crate) fn restart<T: Distributed>(&self, spec: &JobSpec<'_, T>, why: &JobError) -> Option<Restart> {
        // Closes the pipe to rank 0, which asks the job to end.
        lock(&self.outgoing).take();
        let mut ended = lock(&self.attempt).take()?;
        // A launcher that exits by itself first prints which process died.
        ended.leave(LAUNCHER_OUTPUT_WITHIN);
        let printed = ended.end();
        spec.run.report.note(&printed);
        let mut loss = ended.loss(failed_host(&printed), why);
        let before = lock(&self.places).clone();
        let mut goes_on = T::MAY_BE_REPEATED && self.choose_hosts(&loss, &ended.hosts);
        for number in ended.number + 1..=ATTEMPTS {
            if !goes_on || !self.launcher.starts_again() {
                break;
            }
            ended.wait_for_leases(self.options.silence, spec.run.report);
            spec.run.report.debug(&format!("{}: attempt {number} of {ATTEMPTS}", loss.text));
            match self.start_ranks(spec, number) {
                Ok(ready) => {
                    return Some(Restart {
                        why: loss,
                        without: attempt_hosts::excluded_hosts(&lock(&self.places), &ended.hosts),
                        ready,
                    });
                }
                // The cause may persist, but be gone soon.
                Err(error) if error.may_pass() && number < ATTEMPTS => {
                    spec.run.report.problem(error.clone().into_problem().as_warning());
                    if let JobError::Died(missed) = error
                        && missed.host.is_some()
                    {
                        if missed.with_host && !loss.with_host {
                            // Processes on other hosts died because this host is gone.
                            (loss, *lock(&self.places)) = (missed.clone(), before.clone());
                        }
                        goes_on = self.choose_hosts(&missed, &ended.hosts);
                    } else if number + 1 == ATTEMPTS {
                        // Two starts have failed and the lost host is unknown: only this one is
                        // certain to be alive.
                        self.choose_this_host(&ended.hosts);
                    }
                }
                Err(error) => {
                    spec.run.report.problem(error.into_problem());
                    break;
                }
            }
        }
        // Only this thread sets it.
        self.lost.set(JobError::Died(loss)).unwrap_or_default();
        None
    }

    /// Chooses the hosts of the next attempt. Returns true if any is left.
    fn choose_hosts(&self, loss: &Loss, hosts: &[String]) -> bool {
        let chosen = attempt_hosts::hosts_of(&lock(&self.places));
        let hosts = if chosen.is_empty() { hosts } else { &chosen };
        match attempt_hosts::after(loss, hosts, &attempt_hosts::this_host()) {
            NextHosts::Without(left) if self.launcher.chooses_hosts() => *lock(&self.places) = left,
            NextHosts::Without(_) | NextHosts::Same => {}
            NextHosts::Nowhere => return false,
        }
        true
    }

    /// Falls back to this host alone, if the job had ranks on it, when nobody knows which other
    /// host is lost.
    fn choose_this_host(&self, hosts: &[String]) {
        let here = attempt_hosts::only(&attempt_hosts::this_host(), hosts);
        let is_part = !here.is_empty() && attempt_hosts::hosts_of(&here).len() < hosts.len();
        if is_part && self.launcher.chooses_hosts() {
            *lock(&self.places) = here;
        }
    }

    /// Releases the ranks if they were given no work, for which they would wait forever.
    pub fn release(&self) {
        if lock(&self.attempt).is_none() {
            self.launcher.release();
        }
    }

    /// Shuts the ranks down, and reports their last output. Returns the number of messages between
    /// ranks.
    ///
    /// # Errors
    /// If the ranks don't shut down in order; their work is still done. A process that fails after
    /// that is ignored, except that its output is passed on.
    pub fn shut_down(&self, report: &dyn Reporter) -> Result<u64, JobError> {
        if lock(&self.attempt).is_none() {
            self.launcher.release();
            return Ok(0);
        }
        self.post(ToMaster::Stop);
        let mut deadline = Deadline::new(Instant::now(), SHUTDOWN_WITHIN);
        let messages = loop {
            match self.receive(Duration::from_millis(50)) {
                Received::Report(host, last) => self.report_output(&host, last.user_output, report),
                Received::Remark(text) => report.debug(&text),
                Received::Grant(_) | Received::SlowRanks(_) | Received::Nothing => {}
                Received::Lost(why) => break Err(why),
            }
            if let Some(messages) = lock(&self.attempt).as_mut().and_then(|attempt| attempt.stopped.take()) {
                break Ok(messages);
            }
            if deadline.has_passed(Instant::now()) {
                break Err(JobError::NotEnded { within: SHUTDOWN_WITHIN });
            }
        };
        lock(&self.outgoing).take();
        let Some(mut attempt) = lock(&self.attempt).take() else { return messages };
        if messages.is_err() || !attempt.leave(SHUTDOWN_WITHIN) {
            report.note(&attempt.end());
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Never;

    impl Launcher for Never {
        fn start(&self, _: &[HostRanks], _: Duration) -> Result<Started, JobError> {
            Err(JobError::Ended)
        }
    }

    #[test]
    fn asking_for_the_size_of_the_group_does_not_wait_for_the_receiver() {
        let options = GroupOptions { silence: Duration::MAX, range_bytes: None, walk: WalkPlacement::Launch };
        let group = ProcessGroup::new(Box::new(Never), options, None);
        let hearing = lock(&group.attempt);
        assert_eq!(group.workers(), 1);
        drop(hearing);
    }
}
