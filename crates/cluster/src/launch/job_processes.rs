//! The processes of this host that have a job's mark in their environment, and their end.
//!
//! A mark cannot be read at all times: between exec(2) and its end a process has no environment, and a process that ends gives
//! its memory back before its files. Such a one may be ours. So whoever is of this user, began since the job did and shows
//! nothing is watched until it shows something or is gone:
//!
//! ```text
//!           ┌──────────────────────────── one shows the mark ◄──┐
//!           ▼                                                   │
//!  look at all processes ──► kill who has the mark ──► nobody has it: watch who shows nothing
//!           ▲                        │                          │
//!           └────────────────────────┘                          └──► all are gone or others: wait for the killed
//! ```
//!
//! Each is held by a descriptor (pidfd_open(2)) and looked at after that: its number may be another's by then.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable by which a job's processes are known.
pub(super) const MARK: &str = "HAUL_JOB";

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process may show nothing before it is taken for somebody else's.
const SHOWS_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// The flag of a process that is the kernel's own (`PF_KTHREAD` in `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What a process shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// The mark.
    Mark,
    /// Nothing: it is about to show its environment, or to end.
    Nothing,
    /// That it is another's, or has ended.
    Other,
}

/// A process that is held: its number stays its own.
struct ProcessHandle {
    pid: Pid,
    fd: OwnedFd,
}

/// The processes of a job on this host.
#[derive(Debug)]
pub(super) struct JobProcesses {
    mark: OsString,
    /// When the first of them began, in ticks since the host did.
    since: u64,
}

impl JobProcesses {
    /// Knows the processes that have the mark: the first of them, and what it starts.
    pub(super) fn new(mark: OsString, first: Pid) -> Self {
        let since = Stat::of(first).map_or(0, |stat| stat.began);
        Self { mark, since }
    }

    /// Kills all of them. Tells whether they are gone: none has anything open when this says so.
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

    /// Holds who has the mark, and who shows nothing.
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
            match self.shown_by(pid) {
                Shows::Mark => ours.push(held),
                Shows::Nothing => silent.push(held),
                Shows::Other => {}
            }
        }
        (ours, silent)
    }

    /// Watches those that show nothing, for a while. Tells whether one of them shows the mark.
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
        let stat = || Stat::of(pid).filter(|stat| stat.runs_since(self.since));
        if stat().is_none() {
            return Shows::Other;
        }
        if has_mark(pid, &self.mark) {
            return Shows::Mark;
        }
        match stat() {
            Some(stat) if stat.environment_end == 0 && is_of_this_user(pid) => Shows::Nothing,
            // It may have shown nothing at the first look, and its mark now.
            Some(_) if has_mark(pid, &self.mark) => Shows::Mark,
            _ => Shows::Other,
        }
    }
}

impl ProcessHandle {
    /// Holds a process, if it is there.
    fn take(pid: Pid) -> Option<Self> {
        Some(Self { pid, fd: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    fn kill(&self) {
        // It may have ended.
        pidfd_send_signal(&self.fd, Signal::KILL).unwrap_or_default();
    }

    /// Waits for it to end with all its threads. Tells whether it has.
    fn is_gone(&self, patience: Duration) -> bool {
        let patience = Timespec::try_from(patience).unwrap_or_default();
        let ended = || poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&patience));
        rustix::io::retry_on_intr(ended).is_ok_and(|ready| ready > 0)
    }
}

/// Looks for the mark in a process's environment. One that has ended, or is another user's, shows none.
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

/// What the kernel says of a process in `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug)]
struct Stat {
    state: u8,
    flags: u64,
    /// When it began, in ticks since the host did.
    began: u64,
    /// Where its environment ends in its memory, 0 without one.
    environment_end: u64,
}

impl Stat {
    fn of(pid: Pid) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
    }

    /// Reads the line. The second field is the program's name, which may have anything in it.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // What follows the name is the third field.
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |place| field(place)?.parse().ok();
        let state = field(3)?.bytes().next()?;
        Some(Self { state, flags: number(9)?, began: number(22)?, environment_end: number(51)? })
    }

    /// Tells whether it is a process, not a thread of the kernel, that began since and has not ended.
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
        // It has given back its memory, which takes a while, by the time its environment cannot be read.
        for _ in 0..20 {
            let mut child = Command::new("dd").args(LARGE).env(MARK, "large").spawn().unwrap();
            let marked = JobProcesses::new("large".into(), Pid::from_child(&child));
            while Stat::of(Pid::from_child(&child)).is_some_and(|stat| stat.environment_end != 0) {}
            assert!(marked.end());
            assert!(child.try_wait().unwrap().is_some());
        }
    }

    /// Takes memory, and ends at once.
    const LARGE: [&str; 5] = ["if=/dev/zero", "of=/dev/null", "bs=256M", "count=1", "status=none"];

    #[test]
    fn the_kernels_line_is_read_whatever_the_name() {
        let fields: Vec<String> =
            (3..=52).map(|number| if number == 3 { "R".into() } else { number.to_string() }).collect();
        let stat = Stat::parse(&format!("7 (a) Z 1 (b\n) {}", fields.join(" "))).unwrap();
        assert_eq!((stat.state, stat.flags, stat.began, stat.environment_end), (b'R', 9, 22, 51));
        assert!(Stat::parse("7 (a) R 1").is_none());
        let own = Stat::of(rustix::process::getpid()).unwrap();
        assert!(own.environment_end > 0 && own.began > 0);
    }
}
