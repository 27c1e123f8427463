//! Runs one command and measures it like `/usr/bin/time`.
//!
//! ```text
//!   clock ─ fork+exec ─ ... ─ the leader exits ─ clock    (poll on its pidfd, with the time limit)
//!                               └─ kill the rest of its process group ─ wait4: status, CPU, memory
//! ```
//!
//! On exec, the kernel carries the peak memory of the calling process over into the new program, so
//! a command is charged with the size of the benchmark. Two measures keep that small: the benchmark
//! keeps no lists of files, and it starts commands with fork instead of vfork (std uses fork for a
//! command that sets its group ID), so that only its anonymous pages count, not its program text.
//! The remainder is reported with the figures, as the floor.
//!
//! Promises: when `measure` returns, no process of the command's process group is running, so
//! nothing keeps the mounts busy.

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

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Time from before the fork to the exit of the group leader.
    pub(crate) seconds: f64,
    /// CPU time in user mode, of all its threads and the children it waited for.
    pub(crate) user_seconds: f64,
    /// CPU time in the kernel, likewise.
    pub(crate) system_seconds: f64,
    /// Largest resident set of any of its processes.
    pub(crate) memory_peak_bytes: u64,
    /// Peak memory of a command that allocates nothing: the benchmark's own pages.
    pub(crate) memory_floor_bytes: u64,
    /// CPU seconds that the rest of the machine used during the run: other processes and kernel
    /// threads.
    pub(crate) elsewhere_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// Exited, or was killed by a signal that was not ours.
    Status(ExitStatus),
    /// Killed at the time limit.
    TimedOut(Duration),
}

impl CommandEnd {
    /// Describes the failure; `None` for exit status 0.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            CommandEnd::Status(status) if status.success() => None,
            CommandEnd::Status(status) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, Some(signal)) => format!("killed by signal {signal}"),
                (None, None) => status.to_string(),
            }),
            CommandEnd::TimedOut(limit) => Some(format!("no end within {} s", limit.as_secs_f64())),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) started: Instant,
    pub(crate) usage: Usage,
    pub(crate) ending: CommandEnd,
}

impl Measured {
    /// Describes how the command failed, with the first message of those it wrote; `None` if it
    /// succeeded.
    pub(crate) fn failure(&self, written: &str) -> Option<String> {
        let failure = self.ending.failure()?;
        Some(match written.lines().map(str::trim).find(|line| !line.is_empty()) {
            Some(message) => format!("{failure}: {message}"),
            None => failure,
        })
    }
}

/// Runs a command whose standard streams are already set, and measures it.
pub(crate) fn measure(command: &mut Command, limit: Duration, interrupt: &Interrupt) -> Result<Measured> {
    let program = Path::new(command.get_program()).to_owned();
    // With a group ID set, std uses fork instead of vfork. The process group keeps ^C away.
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
    // Kill the group even after success: a leftover process would keep the mounts busy. The leader
    // is not reaped yet, so the group ID cannot have been reused. ESRCH is the expected result.
    kill_process_group(pid, Signal::KILL).ok();
    let used = child.wait4().map_err(Error::doing("wait for", &program))?;
    interrupt.check()?;
    let ending = if in_time.map_err(Error::doing("wait for", &program))? {
        CommandEnd::Status(used.status)
    } else {
        CommandEnd::TimedOut(limit)
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

/// Waits for a child to exit, without reaping it. Returns false if `deadline` came first.
fn ends_before(pid: Pid, deadline: Instant) -> std::io::Result<bool> {
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        // A pidfd is readable as soon as its process is a zombie.
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Returns the anonymous memory of this process, which a fork copies, or 0 if unknown.
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = kilobytes.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// Returns the seconds all processors have been busy since boot, to 10 ms, or 0 if unknown.
fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_ticks(stat.lines().next().unwrap_or_default()) as f64 / TICKS_PER_SECOND
}

/// Unit of /proc/stat (USER_HZ), 100 on all common Linux platforms.
const TICKS_PER_SECOND: f64 = 100.0;

/// Sums the busy fields of the first line of /proc/stat: user, nice, system, irq, softirq and
/// steal, but not idle and iowait.
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
    fn exit_status_and_signal_are_distinguished() {
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
        // tail buffers what it may have to print.
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
        // EOF comes when the last writer is gone: this would wait for the background sleep.
        drop(command);
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        assert_eq!(busy_ticks("cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9"), 87_600_321);
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn the_load_of_other_processes_is_measured() {
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
