//! Slurm: `sbatch`, `squeue`, `scancel`, and `sacct` for jobs that `squeue` no longer knows.
//!
//! Options are passed on `sbatch`'s command line, where any name is safe. The log is named relative
//! to the job directory, because Slurm expands `%` in that name.

use super::job_directory::JobDirectory;
use super::{BatchError, BatchOrder, BatchQueue, BatchState, Over, complaint, id_from, output_of, succeed};

pub(super) struct Slurm;

impl BatchQueue for Slurm {
    fn directives(&self, _order: &BatchOrder) -> String {
        String::new()
    }

    fn submit(&self, order: &BatchOrder, job_directory: &JobDirectory) -> Result<String, BatchError> {
        let mut command = order.program("sbatch");
        command
            .args([
                "--parsable",
                "--job-name=haul",
                // After losing a host the job starts again and resumes from its journal, so its log
                // must not be truncated then.
                "--requeue",
                "--open-mode=append",
                "--output=log",
                "--export=ALL",
            ])
            // Spread over as many hosts as possible: each brings its own link to the file system.
            .args([format!("--ntasks={}", order.clients), "--spread-job".to_owned()])
            .arg(join("--chdir=", job_directory.folder()));
        let options = [
            ("--account=", order.account.clone()),
            ("--partition=", order.queue.clone()),
            ("--time=", order.walltime.map(|time| minutes(time.as_secs()))),
        ];
        for (option, value) in options {
            command.args(value.map(|value| format!("{option}{value}")));
        }
        id_from(command.arg(job_directory.script()), |id| id.bytes().all(|byte| byte.is_ascii_digit()))
    }

    fn state(&self, order: &BatchOrder, job: &str) -> Result<BatchState, BatchError> {
        let output =
            // Without `-t all`, squeue leaves out a job that has just ended.
            output_of(order.program("squeue").args(["-h", "-t", "all", "-o", "%T|%r", "-j"]).arg(job))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if let Some((state, reason)) = text.lines().next().and_then(|line| line.split_once('|')) {
            return Ok(state_of(state.trim(), reason.trim()));
        }
        // An ended job is only known for some minutes. Any other failure may be temporary.
        let said = complaint(&output);
        if !output.status.success() && !said.contains("Invalid job id") {
            return Err(BatchError::Failed(said));
        }
        Ok(accounted(order, job))
    }

    fn cancel(&self, order: &BatchOrder, job: &str) -> Result<(), BatchError> {
        succeed(order.program("scancel").arg(job))
    }
}

/// True if Slurm's programs are configured: they may be installed on a host that belongs to no
/// cluster. A controller that doesn't answer counts as configured.
pub(super) fn is_configured() -> bool {
    let output =
        std::process::Command::new("scontrol").arg("ping").stdin(std::process::Stdio::null()).output();
    output.is_ok_and(|output| !complaint(&output).contains("Could not establish a configuration source"))
}

fn join(option: &str, path: &std::path::Path) -> std::ffi::OsString {
    let mut word = std::ffi::OsString::from(option);
    word.push(path);
    word
}

/// Formats a time as `MINUTES:SECONDS`.
fn minutes(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// Asks the accounting database for a job that the queue has forgotten. Without accounting, the
/// state is unknown.
fn accounted(order: &BatchOrder, job: &str) -> BatchState {
    // `-X`: the job itself, not each of its steps.
    let output = output_of(order.program("sacct").args(["-n", "-X", "-P", "-o", "State", "-j"]).arg(job));
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    match text.lines().next().map(str::trim) {
        Some(state) if !state.is_empty() => state_of(state, ""),
        _ => BatchState::Unknown,
    }
}

/// Parses a state of `squeue` or `sacct`. The latter appends who cancelled a job.
fn state_of(state: &str, reason: &str) -> BatchState {
    match state.split_whitespace().next().unwrap_or_default() {
        "RUNNING" | "COMPLETING" | "CONFIGURING" | "STAGE_OUT" | "SIGNALING" | "STOPPED" | "RESIZING" => {
            BatchState::Running
        }
        "COMPLETED" => BatchState::Over(Over::Well),
        "CANCELLED" | "REVOKED" => BatchState::Over(Over::Cancelled),
        "TIMEOUT" | "DEADLINE" => BatchState::Over(Over::TimedOut),
        "NODE_FAIL" | "BOOT_FAIL" => BatchState::Over(Over::HostFailed),
        "FAILED" if matches!(reason, "" | "None" | "NonZeroExitCode") => {
            BatchState::Over(Over::Failed("its script failed".to_owned()))
        }
        "FAILED" => BatchState::Over(Over::Failed(reason.to_owned())),
        "OUT_OF_MEMORY" => BatchState::Over(Over::Failed("it needed more memory than it has".to_owned())),
        // If it is requeued, the next state is PENDING.
        "PREEMPTED" => BatchState::Over(Over::Failed("another job took its hosts".to_owned())),
        // PENDING, SUSPENDED, REQUEUED, REQUEUE_HOLD and so on: just wait.
        waiting => {
            let has_reason = !matches!(reason, "" | "None");
            BatchState::Waiting(if has_reason { reason.to_owned() } else { waiting.to_lowercase() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_understood() {
        let waiting = |reason: &str| BatchState::Waiting(reason.to_owned());
        for (state, reason, wanted) in [
            ("PENDING", "Resources", waiting("Resources")),
            ("PENDING", "None", waiting("pending")),
            ("REQUEUE_HOLD", "None", waiting("requeue_hold")),
            ("RUNNING", "None", BatchState::Running),
            ("COMPLETING", "None", BatchState::Running),
            ("COMPLETED", "None", BatchState::Over(Over::Well)),
            ("CANCELLED by 1000", "", BatchState::Over(Over::Cancelled)),
            ("TIMEOUT", "TimeLimit", BatchState::Over(Over::TimedOut)),
            ("NODE_FAIL", "None", BatchState::Over(Over::HostFailed)),
            ("FAILED", "JobLaunchFailure", BatchState::Over(Over::Failed("JobLaunchFailure".to_owned()))),
        ] {
            assert_eq!(state_of(state, reason), wanted, "{state}");
        }
        assert_eq!([minutes(59), minutes(3600), minutes(90)], ["0:59", "60:00", "1:30"]);
    }
}
