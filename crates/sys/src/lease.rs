//! A lease on the life of this process: unless it is extended in time, the kernel kills it.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The lease. It ends with [`Lease::release`]; dropping it changes nothing.
///
/// A timer of the kernel sends SIGKILL (timer_create(2)), so a process that is stopped or frozen
/// ends too, before any of its threads runs on. Only the first process of a PID namespace survives:
/// the kernel delivers no signal to it that it hasn't asked for.
#[derive(Debug)]
pub struct Lease {
    timer: libc::timer_t,
    end: Duration,
}

impl Lease {
    /// Begins a lease that lasts until `end`, in terms of [`since_boot`].
    ///
    /// # Errors
    /// If the kernel refuses the timer.
    pub fn until(end: Duration) -> io::Result<Self> {
        // SAFETY: the fields are numbers and a pointer; zeros are valid for them.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer = ptr::null_mut();
        // SAFETY: passes an initialised event, and room for the timer.
        match unsafe { libc::timer_create(libc::CLOCK_BOOTTIME, &raw mut event, &raw mut timer) } {
            0 => {}
            _ => return Err(io::Error::last_os_error()),
        }
        let mut lease = Self { timer, end: Duration::ZERO };
        lease.extend(end)?;
        Ok(lease)
    }

    /// Extends the lease to `end`. Never shortens it.
    ///
    /// # Errors
    /// If the kernel refuses the time.
    pub fn extend(&mut self, end: Duration) -> io::Result<()> {
        if end <= self.end {
            return Ok(());
        }
        // SAFETY: the fields are numbers; zeros are valid for them, and mean that the timer fires
        // once.
        let mut times: libc::itimerspec = unsafe { MaybeUninit::zeroed().assume_init() };
        times.it_value.tv_sec = libc::time_t::try_from(end.as_secs()).unwrap_or(libc::time_t::MAX);
        times.it_value.tv_nsec = end.subsec_nanos().into();
        // SAFETY: the timer exists until `release`. Passes initialised times, and no room for the
        // previous ones, which aren't needed.
        match unsafe {
            libc::timer_settime(self.timer, libc::TIMER_ABSTIME, &raw const times, ptr::null_mut())
        } {
            0 => self.end = end,
            _ => return Err(io::Error::last_os_error()),
        }
        Ok(())
    }

    /// Ends the lease: the process may live for any time.
    pub fn release(self) {
        // It fails only for a timer that doesn't exist.
        // SAFETY: the timer exists, and isn't used again.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Returns the time since the machine was booted, including time spent suspended.
#[must_use]
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = Duration::from_secs(now.tv_sec.try_into().unwrap_or_default());
    seconds + Duration::from_nanos(now.tv_nsec.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    const THIS_TEST: &str = "lease::tests::a_stopped_process_ends_with_its_lease";
    const IN_CHILD: &str = "HAUL_TEST_LEASE";
    const MARK: &str = "has a lease";

    #[test]
    fn a_stopped_process_ends_with_its_lease() {
        if std::env::var_os(IN_CHILD).is_some() {
            let mut lease = Lease::until(since_boot() + Duration::from_secs(1)).unwrap();
            lease.extend(since_boot() + Duration::from_secs(2)).unwrap();
            crate::write_all_stream(std::io::stdout(), format!("{MARK}\n").as_bytes()).unwrap();
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([THIS_TEST, "--exact", "--nocapture"]).env(IN_CHILD, "").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with(MARK)));
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_lease_is_extended_and_released() {
        let mut lease = Lease::until(since_boot() + Duration::from_secs(5)).unwrap();
        let later = since_boot() + Duration::from_secs(60);
        for end in [later, since_boot(), Duration::ZERO] {
            lease.extend(end).unwrap();
            assert_eq!(lease.end, later);
        }
        lease.release();
    }
}
