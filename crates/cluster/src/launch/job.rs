//! A running job: its pipes, its error output, and its end.
//!
//! The launcher runs in its own process group, so that ^C at the terminal reaches only the launch
//! process. Its standard input and output are rank 0's; a thread reads its standard error and
//! passes on whole lines.
//!
//! A job that doesn't end by itself is killed in two steps:
//!
//! ```text
//!  SIGTERM to the launcher ──► it ends its ranks on all hosts, within GRACE
//!         │ it doesn't: Open MPI's waits minutes for a host that is gone
//!         ▼
//!  SIGKILL to its process group, and to each process of this host with the job's mark in its
//!  environment: launchers put ranks in groups of their own, which a signal to the launcher's
//!  group doesn't reach (`job_processes.rs`)
//! ```
//!
//! Guarantee: after [`LaunchedJob::end`] or a drop, no process of the job is left on this host.
//! Ranks on other hosts end when their launcher's daemon does, or with their lease (`lease.rs`).

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::command::StartLine;
use super::job_processes::{JobProcesses, MARK};
use crate::suspend_detector::Deadline;
use haul_flow::lock;

/// Time for a launcher to end its ranks.
pub const GRACE: Duration = Duration::from_secs(2);
/// Interval between polls.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum error output to keep, in bytes: enough to find the reason of a failure.
const PRINTED_MAX: usize = 64 << 10;

/// A started job.
#[derive(Debug)]
pub struct LaunchedJob {
    launcher: Child,
    processes: JobProcesses,
    errors: Option<JoinHandle<()>>,
    status: Option<ExitStatus>,
}

impl LaunchedJob {
    /// Starts a job. `tell` is called with each line of its standard error, without the newline.
    ///
    /// # Errors
    /// If the launcher can't be run, or the thread that reads its errors can't be created.
    pub fn start(line: &StartLine, mut tell: impl FnMut(&[u8]) + Send + 'static) -> io::Result<Self> {
        let mark = unique_mark();
        let (program, arguments) = line
            .words
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an empty command line"))?;
        let launcher = Command::new(program)
            .args(arguments)
            .envs(line.environment.iter().map(|(name, value)| (name, value)))
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        // From here on, a drop ends the job.
        let processes = JobProcesses::new(mark, Pid::from_child(&launcher));
        let mut job = Self { launcher, processes, errors: None, status: None };
        if let Some(errors) = job.launcher.stderr.take() {
            let listen = move || {
                let mut errors = BufReader::new(errors);
                let mut line = Vec::new();
                // A read error ends the output.
                while errors.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    tell(line.strip_suffix(b"\n").unwrap_or(&line));
                    line.clear();
                }
            };
            job.errors = Some(thread::Builder::new().name("errors".to_owned()).spawn(listen)?);
        }
        Ok(job)
    }

    /// Returns the launcher's process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.launcher.id()
    }

    /// Returns the pipe to rank 0's standard input, once. Closing it asks the job to end.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.launcher.stdin.take()
    }

    /// Returns the pipe from rank 0's standard output, once.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.launcher.stdout.take()
    }

    /// Returns the launcher's exit status if it has exited.
    ///
    /// # Errors
    /// If `waitpid` fails.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.launcher.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits up to `limit` for the launcher to exit by itself and for its error output to be passed
    /// on. Returns its exit status if it did.
    ///
    /// # Errors
    /// If `waitpid` fails.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let mut deadline = Deadline::new(Instant::now(), limit);
        while self.ended()?.is_none() && !deadline.has_passed(Instant::now()) {
            thread::sleep(PAUSE);
        }
        if self.status.is_some() {
            // Ranks may outlive their launcher, in process groups of their own.
            self.processes.end();
            self.join_error_reader();
        }
        Ok(self.status)
    }

    /// Kills the job: nothing of it is left on this host when this returns.
    ///
    /// # Errors
    /// If processes can't be killed, or `waitpid` fails.
    pub fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        drop(self.take_input());
        if self.ended()?.is_none() {
            // It may have exited in the meantime.
            kill_process(self.pid(), Signal::TERM).unwrap_or_default();
            let mut deadline = Deadline::new(Instant::now(), GRACE);
            while self.ended()?.is_none() && !deadline.has_passed(Instant::now()) {
                thread::sleep(PAUSE);
            }
        }
        if self.status.is_none() {
            // The launcher isn't reaped yet, so neither id can be another's.
            kill_process_group(self.pid(), Signal::KILL).unwrap_or_default();
            self.status = Some(self.launcher.wait()?);
        }
        if !self.processes.end() {
            return Err(io::Error::other("processes of the job cannot be killed"));
        }
        self.join_error_reader();
        Ok(self.status)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.launcher)
    }

    /// Waits until the error output is passed on. No process is left that could write more.
    fn join_error_reader(&mut self) {
        if let Some(errors) = self.errors.take() {
            // A panic in the callback was already reported.
            errors.join().unwrap_or_default();
        }
    }
}

impl Drop for LaunchedJob {
    /// Ends the job if the caller didn't.
    fn drop(&mut self) {
        self.end().unwrap_or_default();
    }
}

/// A job whose latest error output is kept, because it may explain a failure.
pub struct LoggedJob {
    job: LaunchedJob,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl LoggedJob {
    pub(super) fn start(line: &StartLine) -> io::Result<Self> {
        let printed = Arc::new(Mutex::new(Vec::new()));
        let listening = Arc::clone(&printed);
        let job = LaunchedJob::start(line, move |line| {
            let mut printed = lock(&listening);
            printed.extend_from_slice(line);
            printed.push(b'\n');
            let too_much = printed.len().saturating_sub(PRINTED_MAX);
            printed.drain(..too_much);
        })?;
        Ok(Self { job, printed })
    }

    /// Returns the pipes to and from rank 0, once.
    pub(super) fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.job.take_input().zip(self.job.take_output())
    }

    /// Returns the output since the last call.
    pub(super) fn printed(&mut self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.printed))
    }

    /// Waits up to `patience` for the job to end by itself. Returns true if it did so successfully.
    pub(super) fn leave(&mut self, patience: Duration) -> bool {
        matches!(self.job.wait(patience), Ok(Some(status)) if status.success())
    }

    /// Kills the job.
    pub(super) fn end(&mut self) {
        if let Err(error) = self.job.end() {
            let mut printed = lock(&self.printed);
            printed.extend_from_slice(format!("{error}\n").as_bytes());
        }
    }
}

/// Returns a mark unique to this job, even if an earlier process had the same id.
fn unique_mark() -> OsString {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let random: u64 = rand::random();
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{random:016x}", std::process::id()).into()
}
