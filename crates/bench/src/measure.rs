//! One command, run and measured as `/usr/bin/time` would.
//!
//! ```text
//!   clock ─ fork+exec ─ ... ─ the leader ends ─ clock       (poll on its pidfd, with the time limit)
//!                                 └─ kill what is left of its process group ─ wait4: status, CPU, peak memory
//! ```
//!
//! The kernel carries the peak memory of the process that calls exec over into the new program, so a
//! command would be charged with the size of the benchmark. Two habits keep that small: the benchmark
//! keeps no lists of files, and the command is begun by fork and not by vfork (which std does for a
//! command that sets its group id), so that only the benchmark's own pages count and not its program
//! text. What is left is given beside the figures as the floor.
//!
//! Promises: when it returns, no process of the command's group is running any more, so that nothing
//! holds the mounts.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getgid, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};
use wait4::Wait4;

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// What a command used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// From before the fork to the end of the leader.
    pub(crate) seconds: f64,
    /// CPU time in user mode, over all its threads and the children it waited for.
    pub(crate) user_seconds: f64,
    /// CPU time in the kernel, likewise.
    pub(crate) system_seconds: f64,
    /// Largest resident set of its processes.
    pub(crate) memory_peak_bytes: u64,
    /// What the peak would be for a command that used nothing: the benchmark's own pages.
    pub(crate) memory_floor_bytes: u64,
    /// Processor seconds the rest of the machine used meanwhile: other processes, the kernel's threads.
    pub(crate) elsewhere_seconds: f64,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, or by a signal that was not ours.
    Status(ExitStatus),
    /// It had to be killed at the limit.
    TimedOut(Duration),
}

impl Ending {
    /// Says what was wrong with it; nothing when it was exit status 0.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Ending::Status(status) if status.success() => None,
            Ending::Status(status) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, Some(signal)) => format!("killed by signal {signal}"),
                (None, None) => status.to_string(),
            }),
            Ending::TimedOut(limit) => Some(format!("no end within {} s", limit.as_secs_f64())),
        }
    }
}

/// A command that ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// When the clock was started.
    pub(crate) started: Instant,
    /// What it used.
    pub(crate) usage: Usage,
    /// How it ended.
    pub(crate) ending: Ending,
}

/// Runs a command that has its standard streams set, and measures it.
///
/// # Errors
///
/// [`Error::Io`] when it cannot be started or waited for; [`Error::Interrupted`].
pub(crate) fn measure(command: &mut Command, limit: Duration, interrupt: &Interrupt) -> Result<Measured> {
    let program = Path::new(command.get_program()).to_owned();
    command.process_group(0).gid(getgid().as_raw());
    let memory_floor_bytes = anonymous_bytes();
    let busy_before = busy_seconds();
    let started = Instant::now();
    let mut child = command.spawn().map_err(Error::doing("run", &program))?;
    let pid = Pid::from_child(&child);
    interrupt.child_started(pid);
    let in_time = ends_before(pid, started + limit);
    let seconds = started.elapsed().as_secs_f64();
    let busy = busy_seconds() - busy_before;
    interrupt.child_ends();
    // Also after a good end: a process left in the group would hold the mounts. The leader has not been
    // reaped, so the number is still the group's; ESRCH is what should be found.
    kill_process_group(pid, Signal::KILL).ok();
    let used = child.wait4().map_err(Error::doing("wait for", &program))?;
    interrupt.check()?;
    let ending = if in_time.map_err(Error::doing("wait for", &program))? {
        Ending::Status(used.status)
    } else {
        Ending::TimedOut(limit)
    };
    let (user_seconds, system_seconds) = (used.rusage.utime.as_secs_f64(), used.rusage.stime.as_secs_f64());
    let usage = Usage {
        seconds,
        user_seconds,
        system_seconds,
        memory_peak_bytes: used.rusage.maxrss,
        memory_floor_bytes,
        elsewhere_seconds: (busy - user_seconds - system_seconds).max(0.0),
    };
    Ok(Measured { started, usage, ending })
}

/// Waits for the end of a child without reaping it; false when `deadline` came first.
fn ends_before(pid: Pid, deadline: Instant) -> std::io::Result<bool> {
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        // A pidfd is readable from the moment its process is a zombie.
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Returns the bytes of this process that a fork copies; 0 where the kernel does not say.
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = kilobytes.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// Returns the seconds all processors together have been busy since the start of the machine, in steps of
/// a hundredth; 0 where the kernel does not say.
fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_ticks(stat.lines().next().unwrap_or_default()) as f64 / TICKS_PER_SECOND
}

/// The unit of /proc/stat (USER_HZ), the same on all of Linux's common platforms.
const TICKS_PER_SECOND: f64 = 100.0;

/// Adds up the first line of /proc/stat: user, nice, system, (idle, waiting for I/O: not these), hard and
/// soft interrupts, and what a hypervisor took away.
fn busy_ticks(line: &str) -> u64 {
    let fields = line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0_u64));
    fields.take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4)).map(|(_, ticks)| ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, limit: Duration) -> Measured {
        measure(Command::new("sh").args(["-c", script]), limit, &Interrupt::never()).unwrap()
    }

    #[test]
    fn a_good_end_has_no_failure() {
        let measured = shell("exit 0", LONG);
        assert_eq!(measured.ending.failure(), None);
        assert!(measured.usage.seconds > 0.0);
        assert!(measured.usage.memory_peak_bytes > 0);
    }

    #[test]
    fn exit_status_and_signal_are_told_apart() {
        assert_eq!(shell("exit 3", LONG).ending.failure().unwrap(), "exit status 3");
        assert_eq!(shell("kill -TERM $$", LONG).ending.failure().unwrap(), "killed by signal 15");
    }

    #[test]
    fn processor_time_is_the_commands_and_its_childrens() {
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let usage = shell(&format!("({work}); :"), LONG).usage;
        assert!(usage.user_seconds > 0.01, "{usage:?}");
        assert!(shell(":", LONG).usage.user_seconds < usage.user_seconds);
    }

    #[test]
    fn peak_memory_is_the_commands_own() {
        let most = |bytes: u32| {
            let script = format!("head -c {bytes} /dev/zero | tail -c {bytes} | wc -c >/dev/null");
            shell(&script, LONG).usage.memory_peak_bytes
        };
        // tail keeps what it may have to print. It dies with its pipe read to the end, in the group's shell.
        let (small, large) = (most(1_000), most(50_000_000));
        assert!(large >= 50_000_000, "{large}");
        assert!(small < 50_000_000, "{small}");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_with_its_children() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & sleep 1000"]).stdout(writer);
        let measured = measure(&mut command, Duration::from_millis(50), &Interrupt::never()).unwrap();
        assert_eq!(measured.ending.failure().unwrap(), "no end within 0.05 s");
        assert!(measured.usage.seconds >= 0.05);
        // The pipe ends when the last of them is gone: this would wait for the sleep in the background.
        drop(command);
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        assert_eq!(busy_ticks("cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9"), 87_600_321);
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn what_others_do_meanwhile_is_seen() {
        let mut other = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let usage = shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done", LONG).usage;
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(usage.elsewhere_seconds > 0.0, "{usage:?}");
    }

    #[test]
    fn a_signal_ends_the_run() {
        let interrupt = Interrupt::never();
        interrupt.raise();
        let error = measure(Command::new("sleep").arg("1000"), LONG, &interrupt).unwrap_err();
        assert!(error.is_interruption());
    }
}
