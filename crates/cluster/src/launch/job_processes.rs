//! Finds and kills the processes of this host that have a job's mark in their environment.
//!
//! The mark is not always readable: a process has no environment while exec(2) is in progress, and
//! an exiting process frees its memory before it closes its files. Such a process may be ours. So
//! every process of this user that started since the job did and shows nothing is watched until it
//! shows something or is gone:
//!
//! ```text
//!         ┌──────────────────── one shows the mark ◄─┐
//!         ▼                                          │
//!  scan processes ──► kill the marked ──► none: watch the silent
//!         ▲                  │                       │
//!         └──────────────────┘                       └─► all gone or foreign: wait for the killed
//! ```
//!
//! Each is held by a pidfd (pidfd_open(2)) and then checked again, because its pid may have
//! been reused.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Variable that identifies a job's processes.
pub(super) const MARK: &str = "HAUL_JOB";

/// Maximum time for killed processes to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time for a process to show nothing before it is considered foreign.
const SHOWS_WITHIN: Duration = Duration::from_secs(2);
/// Interval between polls.
const PAUSE: Duration = Duration::from_millis(5);

/// Flag of a kernel thread (`PF_KTHREAD` in `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Evidence in a process's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// The mark.
    Mark,
    /// No environment to read: the process is in exec(2) or exiting.
    Nothing,
    /// It is foreign, or has exited.
    Other,
}

/// A process held by a pidfd, so that its pid can't be reused unnoticed.
struct ProcessHandle {
    pid: Pid,
    fd: OwnedFd,
}

/// The processes of a job on this host.
#[derive(Debug)]
pub(super) struct JobProcesses {
    mark: OsString,
    /// Start time of the first, in clock ticks since boot.
    since: u64,
}

impl JobProcesses {
    /// Tracks the processes with the mark: the first one, and its descendants.
    pub(super) fn new(mark: OsString, first: Pid) -> Self {
        let since = ProcessStat::of(first).map_or(0, |stat| stat.began);
        Self { mark, since }
    }

    /// Kills all of them. Returns true if they are gone; then none of them has a file open.
    pub(super) fn end(&self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut killed = Vec::new();
        loop {
            let (ours, silent) = self.look();
            let found = !ours.is_empty();
            ours.iter().for_each(ProcessHandle::kill);
            killed.extend(ours);
            if !found && !self.one_shows_mark(&silent, deadline) {
                break;
            }
            if Instant::now() >= deadline {
                return false;
            }
            killed.retain(|held: &ProcessHandle| !held.is_gone(PAUSE / 2));
        }
        killed.iter().all(|held| held.is_gone(deadline.saturating_duration_since(Instant::now())))
    }

    /// Returns the processes with the mark, and those that show nothing.
    fn look(&self) -> (Vec<ProcessHandle>, Vec<ProcessHandle>) {
        let (mut ours, mut silent) = (Vec::new(), Vec::new());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        {
            if self.shown_by(pid) == Shows::Other {
                continue;
            }
            let Some(held) = ProcessHandle::take(pid) else { continue };
            // Checked again now that the pidfd holds it: the pid may have been reused before.
            match self.shown_by(pid) {
                Shows::Mark => ours.push(held),
                Shows::Nothing => silent.push(held),
                Shows::Other => {}
            }
        }
        (ours, silent)
    }

    /// Watches processes that show nothing, for a while. Returns true if one of them shows
    /// the mark.
    fn one_shows_mark(&self, silent: &[ProcessHandle], deadline: Instant) -> bool {
        let deadline = deadline.min(Instant::now() + SHOWS_WITHIN);
        for held in silent {
            while !held.is_gone(Duration::ZERO) && Instant::now() < deadline {
                match self.shown_by(held.pid) {
                    Shows::Mark => return true,
                    Shows::Other => break,
                    Shows::Nothing => thread::sleep(PAUSE),
                }
            }
        }
        false
    }

    fn shown_by(&self, pid: Pid) -> Shows {
        let stat = || ProcessStat::of(pid).filter(|stat| stat.runs_since(self.since));
        if stat().is_none() {
            return Shows::Other;
        }
        if has_mark(pid, &self.mark) {
            return Shows::Mark;
        }
        match stat() {
            Some(stat) if stat.environment_end == 0 && is_of_this_user(pid) => Shows::Nothing,
            // Its environment may have appeared since the first check.
            Some(_) if has_mark(pid, &self.mark) => Shows::Mark,
            _ => Shows::Other,
        }
    }
}

impl ProcessHandle {
    fn take(pid: Pid) -> Option<Self> {
        Some(Self { pid, fd: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    fn kill(&self) {
        // It may have exited already.
        pidfd_send_signal(&self.fd, Signal::KILL).unwrap_or_default();
    }

    /// Waits for all threads of the process to exit. Returns true if they have.
    fn is_gone(&self, patience: Duration) -> bool {
        let patience = Timespec::try_from(patience).unwrap_or_default();
        let ended = || poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&patience));
        rustix::io::retry_on_intr(ended).is_ok_and(|ready| ready > 0)
    }
}

/// True if a process's environment contains the mark. An exited process or another user's
/// shows none.
fn has_mark(pid: Pid, mark: &OsStr) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| {
        let value = variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value == Some(mark.as_bytes())
    })
}

fn is_of_this_user(pid: Pid) -> bool {
    let owner = fs::metadata(format!("/proc/{}", pid.as_raw_nonzero())).map(|data| data.uid());
    owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
}

/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug)]
struct ProcessStat {
    state: u8,
    flags: u64,
    /// Start time, in clock ticks since boot.
    began: u64,
    /// Address where its environment ends; 0 without one.
    environment_end: u64,
}

impl ProcessStat {
    fn of(pid: Pid) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
    }

    /// Parses the line. The second field, the program's name, may contain anything.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // The third field follows the name.
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |place| field(place)?.parse().ok();
        let state = field(3)?.bytes().next()?;
        Some(Self { state, flags: number(9)?, began: number(22)?, environment_end: number(51)? })
    }

    /// True if it is a process, not a kernel thread, that started since and has not exited.
    fn runs_since(&self, since: u64) -> bool {
        !matches!(self.state, b'Z' | b'X') && self.flags & KERNEL_THREAD == 0 && self.began >= since
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper(mark: &str) -> Child {
        Command::new("sleep").arg("1000").env(MARK, mark).spawn().unwrap()
    }

    #[test]
    fn who_has_the_mark_is_ended_and_nobody_else() {
        let (mut ours, mut other) = (sleeper("ours-1"), sleeper("ours-10"));
        let marked = JobProcesses::new("ours-1".into(), Pid::from_child(&ours));
        assert!(marked.end());
        assert!(ours.try_wait().unwrap().is_some());
        assert!(other.try_wait().unwrap().is_none());
        assert!(marked.end());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_about_to_end_is_watched_until_it_has() {
        // Freeing its memory takes a while, during which the environment can't be read.
        for _ in 0..20 {
            let mut child = Command::new("dd").args(LARGE).env(MARK, "large").spawn().unwrap();
            let marked = JobProcesses::new("large".into(), Pid::from_child(&child));
            while ProcessStat::of(Pid::from_child(&child)).is_some_and(|stat| stat.environment_end != 0) {}
            assert!(marked.end());
            assert!(child.try_wait().unwrap().is_some());
        }
    }

    /// Allocates much memory and exits.
    const LARGE: [&str; 5] = ["if=/dev/zero", "of=/dev/null", "bs=256M", "count=1", "status=none"];

    #[test]
    fn the_kernels_line_is_read_whatever_the_name() {
        let fields: Vec<String> =
            (3..=52).map(|number| if number == 3 { "R".into() } else { number.to_string() }).collect();
        let stat = ProcessStat::parse(&format!("7 (a) Z 1 (b\n) {}", fields.join(" "))).unwrap();
        assert_eq!((stat.state, stat.flags, stat.began, stat.environment_end), (b'R', 9, 22, 51));
        assert!(ProcessStat::parse("7 (a) R 1").is_none());
        let own = ProcessStat::of(rustix::process::getpid()).unwrap();
        assert!(own.environment_end > 0 && own.began > 0);
    }
}
