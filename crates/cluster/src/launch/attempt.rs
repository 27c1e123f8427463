//! One attempt at a job: its processes, and their output.

use std::time::{Duration, Instant};

use haul_flow::Reporter;

use super::attempt_hosts;
use super::failed_host::{Loss, failed_host};
use super::job::LoggedJob;
use crate::error::JobError;
use crate::lease;
use crate::link::LinkReceiver;
use crate::suspend_detector::SuspendDetector;
use crate::wire::ToLaunch;

/// The job of one attempt.
pub(super) struct Attempt {
    pub(super) incoming: LinkReceiver<ToLaunch>,
    /// The processes; `None` if they belong to another launcher.
    pub(super) job: Option<LoggedJob>,
    pub(super) hosts: Vec<String>,
    pub(super) last_received: Instant,
    pub(super) suspend_detector: SuspendDetector,
    pub(super) printed: Vec<u8>,
    pub(super) number: u32,
    /// Name of the tool that the ranks run.
    pub(super) tool: &'static str,
    /// Number of messages, once all ranks have shut down.
    pub(super) stopped: Option<u64>,
}

impl Attempt {
    pub(super) fn has_several_hosts(&self) -> bool {
        self.hosts.iter().any(|host| *host != self.hosts[0])
    }

    /// Chooses between the launcher's account of the loss and that of the ranks or the link. An
    /// account that names a lost host is better than one of processes that died because of it.
    pub(super) fn loss(&self, failed_host: Option<Loss>, why: &JobError) -> Loss {
        let suspects = self.suspects(&why.to_string());
        failed_host.filter(|failed_host| failed_host.with_host || !suspects.with_host).unwrap_or(suspects)
    }

    /// Names the hosts that may be lost, if the launcher named none.
    fn suspects(&self, why: &str) -> Loss {
        let is_named = |host: &&String| why.split_whitespace().any(|word| word == host.as_str());
        let host = self.hosts.iter().find(is_named).cloned();
        // In Open MPI 5 the rank that misses another ends the job, and the launcher names no host.
        let text = match attempt_hosts::suspects(&self.hosts, &attempt_hosts::this_host()).as_slice() {
            _ if host.is_some() => why.to_owned(),
            [] => why.to_owned(),
            [only] => format!("{why}: the host {only} may be lost"),
            several => format!("{why}: one of the hosts {} may be lost", several.join(", ")),
        };
        Loss { text, with_host: host.is_some(), host }
    }

    /// Returns the loss of a host, if new output reports one.
    pub(super) fn finds_host_missing(&mut self) -> Option<Loss> {
        let known = self.printed.len();
        self.printed.extend(self.job.as_mut().map(LoggedJob::printed).unwrap_or_default());
        let loss = if self.printed.len() > known { failed_host(&self.printed) } else { None };
        loss.filter(|loss| loss.with_host)
    }

    /// Waits up to `timeout` for the processes to end by themselves. Returns true if they did so
    /// successfully.
    pub(super) fn leave(&mut self, timeout: Duration) -> bool {
        self.job.as_mut().is_none_or(|job| job.leave(timeout))
    }

    /// Kills the processes. Returns their output.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let mut printed = std::mem::take(&mut self.printed);
        if let Some(job) = &mut self.job {
            job.end();
            printed.extend(job.printed());
        }
        printed
    }

    /// Waits until no rank of this lost attempt lives on other hosts, where it might replace files
    /// that the next attempt has completed.
    pub(super) fn wait_for_leases(&self, silence: Duration, report: &dyn Reporter) {
        let others = attempt_hosts::suspects(&self.hosts, &attempt_hosts::this_host());
        let left = lease::expires_after(silence).saturating_sub(self.last_received.elapsed());
        if !others.is_empty() && !left.is_zero() {
            let (seconds, others) = (left.as_secs_f64(), others.join(", "));
            report.debug(&format!("waiting {seconds:.1} s until no rank is left on {others}"));
            std::thread::sleep(left);
        }
    }
}
