//! A process and all its descendants.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::process_stat::ProcessStat;

/// Maximum wait for a process to stop. One in uninterruptible sleep doesn't stop, but can't fork
/// either.
const STOPS_WITHIN: Duration = Duration::from_millis(100);

/// A process and its pidfd, which refers to it even after its pid has been reused.
struct OpenProcess<F> {
    pid: Pid,
    fd: F,
}

/// Sends `SIGTERM` to a process and all its descendants. Does nothing if the process has ended: its
/// children have been reparented by then.
///
/// Each process is stopped before its children are listed, so that none can fork unseen. No process
/// is terminated before all are found, because the children of a dead process are reparented.
pub(crate) fn terminate(pid: Pid, fd: impl AsFd) {
    let top = OpenProcess { pid, fd: fd.as_fd() };
    top.stop();
    let below = below(&top);
    top.terminate();
    below.iter().for_each(OpenProcess::terminate);
}

/// Finds and stops all descendants of a stopped process.
fn below<F: AsFd>(top: &OpenProcess<F>) -> Vec<OpenProcess<OwnedFd>> {
    let mut found: Vec<OpenProcess<OwnedFd>> = Vec::new();
    loop {
        let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for (process, parent) in processes() {
            by_parent.entry(parent).or_default().push(process);
        }
        // Once it has ended, its pid may be reused and the list of its children is worthless.
        if top.has_ended() {
            return found;
        }
        let known = |process: &Pid| found.iter().any(|open| open.pid == *process);
        let parents = std::iter::once(top.pid).chain(found.iter().map(|open| open.pid));
        let children = parents.flat_map(|parent| {
            let children = by_parent.remove(&parent).unwrap_or_default();
            children.into_iter().map(move |process| (process, parent))
        });
        let new: Vec<_> = children
            .filter(|(process, _)| !known(process))
            .filter_map(|(process, parent)| OpenProcess::child(process, parent))
            .collect();
        if new.is_empty() {
            return found;
        }
        new.iter().for_each(OpenProcess::stop);
        found.extend(new);
    }
}

impl OpenProcess<OwnedFd> {
    /// Opens a process that `parent` has started.
    fn child(pid: Pid, parent: Pid) -> Option<Self> {
        let fd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // The pid may have been reused before the pidfd was opened, so check its parent.
        (ProcessStat::of(pid.as_raw_nonzero())?.parent == Some(parent)).then_some(Self { pid, fd })
    }
}

impl<F: AsFd> OpenProcess<F> {
    /// Stops the process and waits until it has stopped, or the time limit is reached.
    fn stop(&self) {
        self.send(Signal::STOP);
        let begun = Instant::now();
        while begun.elapsed() < STOPS_WITHIN
            && !self.has_ended()
            && ProcessStat::of(self.pid.as_raw_nonzero())
                .is_some_and(|stat| !matches!(stat.state, b'T' | b't' | b'Z'))
        {
            thread::yield_now();
        }
    }

    fn terminate(&self) {
        self.send(Signal::TERM);
        // A stopped process handles `SIGTERM` only after it continues.
        self.send(Signal::CONT);
    }

    fn send(&self, signal: Signal) {
        // The process may have ended already; then there is nothing to do.
        pidfd_send_signal(&self.fd, signal).unwrap_or_default();
    }

    /// Returns true if the process has ended: its pidfd is then readable (pidfd_open(2)).
    fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now)) != Ok(0)
    }
}

/// Lists the visible processes, each with its parent.
fn processes() -> impl Iterator<Item = (Pid, Pid)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        Some((process, ProcessStat::of(process.as_raw_nonzero())?.parent?))
    })
}
