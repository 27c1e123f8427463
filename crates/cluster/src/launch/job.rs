//! A running job: its pipes, what it says, and its end.
//!
//! The launcher runs in a process group of its own, so that ^C at the terminal reaches the launch process alone. Its standard
//! input and output are rank 0's; its standard error is read by a thread that passes whole lines on.
//!
//! How a job is ended, when it does not end by itself:
//!
//! ```text
//!  SIGTERM to the launcher ──► it ends its ranks, on all hosts, within GRACE
//!         │ it does not: Open MPI's waits for minutes for a host that is gone
//!         ▼
//!  SIGKILL to its group, and to each process of this host that has the job's mark in its environment:
//!  launchers put ranks in groups of their own, where a signal to the launcher's group does not reach (`marked.rs`)
//! ```
//!
//! What it promises: after [`Job::end`], and after a drop, no process of the job is left on this host. Ranks on other hosts end
//! when their launcher's daemon does, or when they miss rank 0.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::command::StartLine;
use super::job_processes::{JobProcesses, MARK};

/// How long a launcher gets to end its ranks.
pub const GRACE: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// A job that was started.
#[derive(Debug)]
pub struct Job {
    launcher: Child,
    processes: JobProcesses,
    errors: Option<JoinHandle<()>>,
    status: Option<ExitStatus>,
}

impl Job {
    /// Starts a job. `tell` gets what it writes to standard error, line by line, without the line ends.
    ///
    /// # Errors
    /// When the launcher cannot be run, or not be listened to.
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
        // From here on a drop ends it.
        let processes = JobProcesses::new(mark, Pid::from_child(&launcher));
        let mut job = Self { launcher, processes, errors: None, status: None };
        if let Some(errors) = job.launcher.stderr.take() {
            let listen = move || {
                let mut errors = BufReader::new(errors);
                let mut line = Vec::new();
                // A pipe that cannot be read has nothing more to tell.
                while errors.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    tell(line.strip_suffix(b"\n").unwrap_or(&line));
                    line.clear();
                }
            };
            job.errors = Some(thread::Builder::new().name("errors".to_owned()).spawn(listen)?);
        }
        Ok(job)
    }

    /// Returns the launcher's process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.launcher.id()
    }

    /// Takes the pipe to rank 0's standard input. Closing it is how a job is asked to end.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.launcher.stdin.take()
    }

    /// Takes the pipe from rank 0's standard output.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.launcher.stdout.take()
    }

    /// Tells with what status the launcher ended, if it has.
    ///
    /// # Errors
    /// When the kernel cannot say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.launcher.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits for the launcher to end by itself, and for all it said to be passed on. Tells whether it did within `limit`.
    ///
    /// # Errors
    /// When the kernel cannot say.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        while self.ended()?.is_none() && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        if self.status.is_some() {
            self.processes.end();
            self.hear_out();
        }
        Ok(self.status)
    }

    /// Ends the job: nothing of it is left on this host when this returns.
    ///
    /// # Errors
    /// When processes of it stay, or the kernel cannot say.
    pub fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        drop(self.take_input());
        if self.ended()?.is_none() {
            // It may just have ended.
            kill_process(self.pid(), Signal::TERM).unwrap_or_default();
            let deadline = Instant::now() + GRACE;
            while self.ended()?.is_none() && Instant::now() < deadline {
                thread::sleep(PAUSE);
            }
        }
        if self.status.is_none() {
            kill_process_group(self.pid(), Signal::KILL).unwrap_or_default();
            self.status = Some(self.launcher.wait()?);
        }
        if !self.processes.end() {
            return Err(io::Error::other("processes of the job cannot be killed"));
        }
        self.hear_out();
        Ok(self.status)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.launcher)
    }

    /// Waits until what was said is passed on: nobody is left who could say more.
    fn hear_out(&mut self) {
        if let Some(errors) = self.errors.take() {
            // A listener that panicked has told so.
            errors.join().unwrap_or_default();
        }
    }
}

impl Drop for Job {
    /// Ends what the caller did not: a backstop.
    fn drop(&mut self) {
        self.end().unwrap_or_default();
    }
}

/// Makes a mark that no other job has, also not one of a process that had this one's id before.
fn unique_mark() -> OsString {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let random: u64 = rand::random();
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{random:016x}", std::process::id()).into()
}
