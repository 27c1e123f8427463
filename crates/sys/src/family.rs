//! The processes below one: those it has started, those they have, and so on.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Holds the processes below the one that `held` holds, whose number is `top`, those above first. None where it has ended: what
/// it had started is another's then. One that is started at this very moment may be missed.
pub(crate) fn below(top: Pid, held: impl AsFd) -> Vec<OwnedFd> {
    let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for (process, parent) in processes() {
        by_parent.entry(parent).or_default().push(process);
    }
    let (mut found, mut left) = (Vec::new(), vec![top]);
    while let Some(parent) = left.pop() {
        for process in by_parent.remove(&parent).unwrap_or_default() {
            let Ok(fd) = pidfd_open(process, PidfdFlags::empty()) else { continue };
            // Between the two its number may have become another's.
            if parent_of(process) == Some(parent) {
                found.push(fd);
                left.push(process);
            }
        }
    }
    // The number was its own until now if it still is.
    if has_ended(held) { Vec::new() } else { found }
}

/// Lists the processes that can be seen, each with the one that started it.
fn processes() -> impl Iterator<Item = (Pid, Pid)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        Some((process, parent_of(process)?))
    })
}

/// Returns who started a process, or has taken it over: the second field behind its name (proc_pid_stat(5)), which may itself have
/// parentheses.
fn parent_of(process: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(&stat[name_ends + 1..]).ok()?.split_ascii_whitespace();
    fields.nth(1)?.parse().ok().and_then(Pid::from_raw)
}

/// Tells whether a process has ended; its descriptor can be read then (pidfd_open(2)).
fn has_ended(held: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&now)) != Ok(0)
}
