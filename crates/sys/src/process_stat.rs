//! Fields of `/proc/PID/stat` (proc_pid_stat(5)).

use std::fmt::Display;
use std::fs;

use rustix::process::Pid;

/// Some fields of `/proc/PID/stat`.
pub(crate) struct ProcessStat {
    /// One letter: running, sleeping, stopped ...
    pub(crate) state: u8,
    /// The current parent; `None` for the first process.
    pub(crate) parent: Option<Pid>,
    /// Start time, in ticks since boot.
    pub(crate) started: u64,
    threads: u64,
}

impl ProcessStat {
    /// Reads the fields; `None` if `/proc` doesn't show the process.
    pub(crate) fn of(pid: impl Display) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The fields after the command name, which may itself contain parentheses.
        let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<&str> =
            str::from_utf8(&stat[name_ends + 1..]).ok()?.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.bytes().next()?,
            parent: fields.get(1)?.parse().ok().and_then(Pid::from_raw),
            started: number(19)?,
            threads: number(17)?,
        })
    }

    /// Returns true if only an entry in the process table is left, which its parent hasn't read.
    pub(crate) fn has_ended(&self) -> bool {
        // The first thread is also a zombie if it alone has ended (pthread_exit).
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}
