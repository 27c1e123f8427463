//! PBS: `qsub`, `qstat`, `qdel`, as PBS Professional and OpenPBS have them.
//!
//! What is written here follows their manuals, and was tested with stand-ins for the three programs only.

use std::io;
use std::process::Output;

use super::spool::Spool;
use super::{Order, Over, Queue, State, complaint, output_of};

/// What is added to a signal's number where one ended the job's script.
const BY_SIGNAL: i32 = 256;
/// The exit status of a job that took too long (`JOB_EXEC_KILL_WALLTIME`).
const WALLTIME_EXCEEDED: i32 = -29;

/// PBS.
pub(super) struct Pbs;

impl Queue for Pbs {
    fn directives(&self, order: &Order) -> String {
        let mut lines = "#PBS -N haul\n#PBS -V\n#PBS -r y\n#PBS -j oe\n".to_owned();
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

    fn submit(&self, order: &Order, spool: &Spool) -> io::Result<Result<String, String>> {
        // The job's log lands in the current directory.
        let output = output_of(order.program("qsub").arg("script").current_dir(spool.folder()))?;
        if !output.status.success() {
            return Ok(Err(complaint(&output)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let id = text.lines().last().unwrap_or_default().trim();
        let is_id = id.starts_with(|first: char| first.is_ascii_digit()) && !id.contains(char::is_whitespace);
        Ok(if is_id {
            Ok(id.to_owned())
        } else {
            Err(format!("qsub gave no job id: {}", complaint(&output)))
        })
    }

    fn state(&self, order: &Order, job: &str) -> io::Result<State> {
        let ask = |options: &[&str]| output_of(order.program("qstat").args(options).arg(job));
        let output = ask(&["-f"])?;
        if output.status.success() {
            return Ok(state_of(&output));
        }
        let said = complaint(&output);
        if said.contains("has finished") {
            // Where a history is kept.
            let past = ask(&["-x", "-f"])?;
            return Ok(if past.status.success() { state_of(&past) } else { State::Unknown });
        }
        if said.contains("Unknown Job") { Ok(State::Unknown) } else { Err(io::Error::other(said)) }
    }

    fn cancel(&self, order: &Order, job: &str) -> io::Result<()> {
        let output = output_of(order.program("qdel").arg(job))?;
        if output.status.success() { Ok(()) } else { Err(io::Error::other(complaint(&output))) }
    }
}

/// Writes a time as `HOURS:MINUTES:SECONDS`.
fn clock(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn state_of(output: &Output) -> State {
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| {
        let line = text.lines().map(str::trim).find(|line| line.starts_with(name))?;
        line[name.len()..].trim_start().strip_prefix('=').map(|value| value.trim().to_owned())
    };
    let comment = value("comment").unwrap_or_default();
    match value("job_state").as_deref() {
        Some("R" | "E" | "B") => State::Running,
        Some("F" | "C" | "X") => {
            let status = value("Exit_status").and_then(|status| status.parse::<i32>().ok());
            State::Over(match status {
                Some(0) => Over::Well,
                Some(WALLTIME_EXCEEDED) => Over::TimedOut,
                Some(status) if status > BY_SIGNAL => Over::Cancelled,
                Some(status) => Over::Failed(format!("exit status {status}")),
                // It never ran.
                None => Over::Cancelled,
            })
        }
        Some(waiting) => {
            State::Waiting(if comment.is_empty() { format!("state {waiting}") } else { comment })
        }
        None => State::Unknown,
    }
}
