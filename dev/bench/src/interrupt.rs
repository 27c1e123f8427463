//! Handles ^C, SIGTERM and SIGHUP: the benchmark stops, but still cleans up.
//!
//! ```text
//!   signal ──► thread: raise the flag, kill the running child's process group
//!                                             │
//!   main thread: ... wait for the child ◄─────┘ ──► check() returns Interrupted ──► error path
//! ```
//!
//! Every child gets its own process group. A ^C typed at the terminal therefore reaches only the
//! benchmark and does not kill an unmount that is part of the cleanup.
//!
//! Promises: a signal kills the running child, whether it started before the signal or after it
//! (`child_started` rechecks the flag), and a process ID is never signalled once the child was
//! reaped. Nothing helps against SIGKILL: mounts, loop devices and images then stay behind.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Error, Result};

/// A flag raised by signals, shared by all its clones.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    shared: Arc<InterruptState>,
}

#[derive(Debug, Default)]
struct InterruptState {
    raised: AtomicBool,
    /// Invariant: set only while the child is not reaped, so its process ID is not reused.
    child: Mutex<Option<Pid>>,
}

impl Interrupt {
    /// Starts listening for signals, except those the process inherited as ignored: under nohup, a
    /// comparison keeps running after the terminal is gone.
    pub(crate) fn listen() -> Result<Interrupt> {
        let interrupt = Interrupt::never();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(&status, *signal));
        let mut signals = Signals::new(heard)
            .map_err(|source| Error::Io { doing: "listen for signals".to_owned(), source })?;
        let listener = interrupt.clone();
        // The thread ends with the process and owns nothing that needs cleanup.
        thread::spawn(move || signals.forever().for_each(|_| listener.raise()));
        Ok(interrupt)
    }

    /// Returns a handle that no signal raises.
    pub(crate) fn never() -> Interrupt {
        Interrupt { shared: Arc::default() }
    }

    /// Raises the flag and kills the running child, like a signal does.
    pub(crate) fn raise(&self) {
        self.shared.raised.store(true, Ordering::SeqCst);
        kill(*self.child());
    }

    /// Fails with [`Error::Interrupted`] once a signal has arrived.
    pub(crate) fn check(&self) -> Result<()> {
        if self.shared.raised.load(Ordering::SeqCst) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Registers a running child, the leader of its process group, to be killed on a signal.
    pub(crate) fn child_started(&self, child: Pid) {
        *self.child() = Some(child);
        if self.check().is_err() {
            kill(Some(child));
        }
    }

    /// Unregisters the child; must be called before it is reaped.
    pub(crate) fn child_ends(&self) {
        *self.child() = None;
    }

    fn child(&self) -> MutexGuard<'_, Option<Pid>> {
        self.shared.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the `SigIgn` mask in /proc/self/status contains `signal`.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal - 1)) != 0
}

fn kill(leader: Option<Pid>) {
    if let Some(leader) = leader {
        // ESRCH is the only failure left: the whole group has already exited, which is fine.
        kill_process_group(leader, Signal::KILL).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    fn endless() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        (child, pid)
    }

    #[test]
    fn what_nohup_ignores_is_ignored() {
        let status =
            "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000004002\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(!is_ignored(status, SIGINT) && !is_ignored(status, SIGTERM));
        assert!(!is_ignored("", SIGHUP));
    }

    #[test]
    fn a_signal_kills_the_running_child() {
        let interrupt = Interrupt::never();
        let (mut child, pid) = endless();
        interrupt.child_started(pid);
        interrupt.check().unwrap();
        interrupt.raise();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(interrupt.check().is_err());
    }

    #[test]
    fn a_child_started_after_the_signal_is_killed_too() {
        let interrupt = Interrupt::never();
        interrupt.raise();
        let (mut child, pid) = endless();
        interrupt.child_started(pid);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_child_that_was_taken_back_is_left_alone() {
        let interrupt = Interrupt::never();
        let (mut child, pid) = endless();
        interrupt.child_started(pid);
        interrupt.child_ends();
        interrupt.raise();
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
