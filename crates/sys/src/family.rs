//! A process and those below it: those it has started, those they have, and so on.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a process may take to stop. One that waits in the kernel for a disk does not, and starts nothing meanwhile either.
const STOPS_WITHIN: Duration = Duration::from_millis(100);

/// A process that is held: its number stays its own.
struct Held<F> {
    pid: Pid,
    fd: F,
}

/// Asks a process and all below it to end (`SIGTERM`). Nothing is done if it has ended: what it had started is another's then.
///
/// Each is stopped before it is looked what it has started, so that none starts anything unseen. Who has ended leaves those that it
/// started to another, so nobody ends before all are found.
pub(crate) fn end(pid: Pid, fd: impl AsFd) {
    let top = Held { pid, fd: fd.as_fd() };
    top.stop();
    let below = below(&top);
    top.end();
    below.iter().for_each(Held::end);
}

/// Stops all below a process that is stopped.
fn below<F: AsFd>(top: &Held<F>) -> Vec<Held<OwnedFd>> {
    let mut found: Vec<Held<OwnedFd>> = Vec::new();
    loop {
        let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for (process, parent) in processes() {
            by_parent.entry(parent).or_default().push(process);
        }
        if top.has_ended() {
            return found;
        }
        let known = |process: &Pid| found.iter().any(|held| held.pid == *process);
        let parents = std::iter::once(top.pid).chain(found.iter().map(|held| held.pid));
        let children = parents.flat_map(|parent| {
            let children = by_parent.remove(&parent).unwrap_or_default();
            children.into_iter().map(move |process| (process, parent))
        });
        let new: Vec<_> = children
            .filter(|(process, _)| !known(process))
            .filter_map(|(process, parent)| Held::child(process, parent))
            .collect();
        if new.is_empty() {
            return found;
        }
        new.iter().for_each(Held::stop);
        found.extend(new);
    }
}

impl Held<OwnedFd> {
    /// Holds a process that another has started.
    fn child(pid: Pid, parent: Pid) -> Option<Self> {
        let fd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Before it was held its number may have become another's.
        (Stat::of(pid)?.parent == Some(parent)).then_some(Self { pid, fd })
    }
}

impl<F: AsFd> Held<F> {
    /// Stops it, and waits until it has stopped, if it does.
    fn stop(&self) {
        self.send(Signal::STOP);
        let begun = Instant::now();
        while begun.elapsed() < STOPS_WITHIN
            && !self.has_ended()
            && Stat::of(self.pid).is_some_and(|stat| !matches!(stat.state, b'T' | b't' | b'Z'))
        {
            thread::yield_now();
        }
    }

    fn end(&self) {
        self.send(Signal::TERM);
        // It takes the first when it goes on.
        self.send(Signal::CONT);
    }

    fn send(&self, signal: Signal) {
        // It may have ended by itself, and then nothing is to be done.
        pidfd_send_signal(&self.fd, signal).unwrap_or_default();
    }

    /// Tells whether it has ended; its descriptor can be read then (pidfd_open(2)).
    fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now)) != Ok(0)
    }
}

/// Lists the processes that can be seen, each with the one that started it.
fn processes() -> impl Iterator<Item = (Pid, Pid)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        Some((process, Stat::of(process)?.parent?))
    })
}

/// What the kernel says of a process.
struct Stat {
    /// Whether it runs, sleeps, or is stopped.
    state: u8,
    /// Who started it, or has taken it over; none for the first.
    parent: Option<Pid>,
}

impl Stat {
    /// Reads the first fields behind its name (proc_pid_stat(5)), which may itself have parentheses.
    fn of(process: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
        let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = str::from_utf8(&stat[name_ends + 1..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?.bytes().next()?;
        Some(Self { state, parent: fields.next()?.parse().ok().and_then(Pid::from_raw) })
    }
}
