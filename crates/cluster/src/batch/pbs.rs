//! PBS: `qsub`, `qstat`, `qdel`, as in PBS Professional and OpenPBS.
//!
//! Written from their manuals, and tested only with stand-ins for the three programs.

use std::process::Output;

use super::job_directory::JobDirectory;
use super::{BatchError, BatchOrder, BatchQueue, BatchState, Over, complaint, id_from, output_of, succeed};

/// Added to the number of a signal that ended the job's script.
const BY_SIGNAL: i32 = 256;
/// Exit status of a job that exceeded its time limit (`JOB_EXEC_KILL_WALLTIME`).
const WALLTIME_EXCEEDED: i32 = -29;

pub(super) struct Pbs;

impl BatchQueue for Pbs {
    fn directives(&self, order: &BatchOrder) -> String {
        // `-S`: PBS ignores `#!`, and would run the script in the user's login shell; `-V`: with
        // this environment; `-r y`: may start again after losing a host; `-j oe`: one log for both
        // streams.
        let mut lines = "#PBS -N haul\n#PBS -S /bin/sh\n#PBS -V\n#PBS -r y\n#PBS -j oe\n".to_owned();
        lines += &format!("#PBS -l select={}:ncpus=1:mpiprocs=1\n", order.clients);
        let options = [
            ("-A ", order.account.clone()),
            ("-q ", order.queue.clone()),
            ("-l walltime=", order.walltime.map(|time| clock(time.as_secs()))),
        ];
        for (option, value) in options {
            lines.extend(value.map(|value| format!("#PBS {option}{value}\n")));
        }
        lines
    }

    fn submit(&self, order: &BatchOrder, job_directory: &JobDirectory) -> Result<String, BatchError> {
        // The log goes to the current directory.
        id_from(order.program("qsub").arg("script").current_dir(job_directory.folder()), |id| {
            id.starts_with(|first: char| first.is_ascii_digit()) && !id.contains(char::is_whitespace)
        })
    }

    fn state(&self, order: &BatchOrder, job: &str) -> Result<BatchState, BatchError> {
        let ask = |options: &[&str]| output_of(order.program("qstat").args(options).arg(job));
        let output = ask(&["-f"])?;
        if output.status.success() {
            return Ok(state_of(&output));
        }
        let said = complaint(&output);
        // "qstat: 17 Job has finished, use -x or -H to obtain historical job information".
        if said.contains("has finished") {
            // Works if the server keeps a job history.
            let past = ask(&["-x", "-f"])?;
            return Ok(if past.status.success() { state_of(&past) } else { BatchState::Unknown });
        }
        if said.contains("Unknown Job") { Ok(BatchState::Unknown) } else { Err(BatchError::Failed(said)) }
    }

    fn cancel(&self, order: &BatchOrder, job: &str) -> Result<(), BatchError> {
        succeed(order.program("qdel").arg(job))
    }
}

/// Formats a time as `HOURS:MINUTES:SECONDS`.
fn clock(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn state_of(output: &Output) -> BatchState {
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| {
        let line = text.lines().map(str::trim).find(|line| line.starts_with(name))?;
        line[name.len()..].trim_start().strip_prefix('=').map(|value| value.trim().to_owned())
    };
    let comment = value("comment").unwrap_or_default();
    match value("job_state").as_deref() {
        Some("R" | "E" | "B") => BatchState::Running,
        Some("F" | "C" | "X") => {
            let status = value("Exit_status").and_then(|status| status.parse::<i32>().ok());
            BatchState::Over(match status {
                Some(0) => Over::Well,
                Some(WALLTIME_EXCEEDED) => Over::TimedOut,
                Some(status) if status > BY_SIGNAL => Over::Cancelled,
                Some(status) => Over::Failed(format!("exit status {status}")),
                // It never ran.
                None => Over::Cancelled,
            })
        }
        Some(waiting) => {
            BatchState::Waiting(if comment.is_empty() { format!("state {waiting}") } else { comment })
        }
        None => BatchState::Unknown,
    }
}
