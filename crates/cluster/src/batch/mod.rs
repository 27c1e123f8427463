//! Batch jobs: runs a command line in a job of a batch system, and follows it as if it ran here.
//!
//! ```text
//!  here               job directory, next to the target      the job's first host
//!  submit ── script ──► script ─────────────────────────────► command, HAUL_SPOOL set
//!  follow ◄─ tail ───── out, err ◄─────────────────────────── its output
//!         ◄─ changes ── progress ◄──────────── renamed ────── its progress
//!         ◄─ last ───── status ◄────────────── renamed ────── its exit status
//!         ◄─ squeue, qstat: waits, runs, was cancelled, ...
//! ```
//!
//! - [`job_directory`]: the directory that both sides see.
//! - [`slurm`], [`pbs`]: submit, query, cancel.
//! - [`follow`]: the loop.
//!
//! Guarantees: the command's output is passed on once and whole. A job that ends without a status
//! is reported with the batch system's reason. A signal here cancels the job, and this process
//! stays until the job is gone. A job requeued after a host failure is still followed: its script
//! finds the job directory, with the journal in it. This module doesn't interpret the command line.
//!
//! Slurm was tested for real, PBS only by its script and stand-in programs.

pub mod follow;
pub mod job_directory;
pub mod pbs;
pub mod slurm;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::Options;
use crate::launch::command::{Surroundings, System};

/// A command line, and how to run it as a batch job.
#[derive(Clone, Debug)]
pub struct BatchOrder {
    /// Batch system to submit to.
    pub system: System,
    /// The command line.
    pub words: Vec<OsString>,
    /// Working directory of the command.
    pub directory: PathBuf,
    /// Directories that the job's hosts see too; the job directory goes into the first that accepts
    /// one.
    pub shared: Vec<PathBuf>,
    /// Number of ranks to allocate.
    pub clients: u32,
    /// Account to charge.
    pub account: Option<String>,
    /// Time limit.
    pub walltime: Option<Duration>,
    /// Queue to submit to.
    pub queue: Option<String>,
    /// The umask of the command.
    pub umask: u32,
    /// Variables for the batch system's programs, added to this process's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables for the command in the job. Their names need no quoting.
    pub exports: Vec<(OsString, OsString)>,
}

impl BatchOrder {
    /// Creates the order for a command line that copies to `target` and runs in the
    /// current directory.
    ///
    /// The job directory goes next to the user's journal if one is given, else next to the target,
    /// else into the target: directories that the job's hosts must see anyway. They needn't see the
    /// directory that a target's file system is mounted in, so then the job directory goes into the
    /// target at once.
    ///
    /// # Errors
    /// If this process has no current directory.
    pub fn new(system: System, options: &Options, words: Vec<OsString>, target: &Path) -> io::Result<Self> {
        let parent_of = |path: &Path| {
            let path = std::path::absolute(path).ok()?;
            path.parent().map(Path::to_owned)
        };
        // Not inside the job directory of an earlier job: then that one could not be removed at the
        // end, but it is needed until then.
        let outside_job_directory = |folder: PathBuf| {
            if job_directory::has_job_directory_name(&folder) { parent_of(&folder) } else { Some(folder) }
        };
        let journal = options.journal.as_deref().and_then(parent_of).and_then(outside_job_directory);
        let parent_of_target = parent_of(target).filter(|parent| !lies_apart(target, parent));
        let shared = journal.into_iter().chain(parent_of_target).chain([target.to_owned()]).collect();
        Ok(Self {
            system,
            words,
            directory: std::env::current_dir()?,
            shared,
            clients: options.clients.unwrap_or(1),
            account: options.account.clone(),
            walltime: options.walltime,
            queue: options.queue.clone(),
            umask: haul_sys::umask().bits(),
            environment: Vec::new(),
            exports: Vec::new(),
        })
    }

    /// Starts the command line of a program of the batch system.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        // Shield it from ^C: if that interrupted a submission, nobody would know whether it
        // was accepted.
        command.process_group(0);
        command
    }

    fn queue(&self) -> &'static dyn BatchQueue {
        match self.system {
            System::Slurm => &slurm::Slurm,
            System::Pbs => &pbs::Pbs,
        }
    }
}

/// True if a target is on another file system than its parent directory.
fn lies_apart(target: &Path, parent: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    matches!((device(target), device(parent)), (Ok(target), Ok(parent)) if target != parent)
}

/// Returns the batch system to submit to if clients are requested; `None` if this process already
/// has hosts or the user gave a launcher.
#[must_use]
pub fn system(options: &Options, surroundings: &Surroundings) -> Option<System> {
    let has_hosts = surroundings.ranks.is_some() || job_directory::JobDirectory::of_process().is_some();
    if options.clients.is_none() || options.launcher.is_some() || has_hosts {
        return None;
    }
    let is_there = |system: &System| *system != System::Slurm || slurm::is_configured();
    surroundings.batch_systems().find(is_there)
}

/// State of a job, according to the batch system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// Waiting, for this reason.
    Waiting(String),
    /// Running, or about to start or end.
    Running,
    /// Ended.
    Over(Over),
    /// No longer known to the batch system.
    Unknown,
}

/// End of a job, as the batch system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// Its script exited with status 0.
    Well,
    /// It was cancelled.
    Cancelled,
    /// It exceeded its time limit.
    TimedOut,
    /// One of its hosts failed, and it was not requeued.
    HostFailed,
    /// Anything else, in the batch system's words.
    Failed(String),
}

/// Outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The command ended with this exit status.
    Finished(i32),
    /// The command ended, and its unfinished work can be resumed from its
    /// journal ([`job_directory::JobDirectory::keep`]).
    GivenUp {
        /// The job's id.
        job: String,
        /// The exit status.
        status: i32,
        /// The job directory with the journal: nothing is removed.
        job_directory: PathBuf,
    },
    /// The job ended before the command did.
    Lost {
        /// The job's id.
        job: String,
        /// Its end.
        over: Over,
        /// The job directory, with the batch system's log and all that is left: nothing is removed.
        job_directory: PathBuf,
    },
    /// A signal arrived, and the job was cancelled.
    Interrupted {
        /// The job's id.
        job: String,
        /// Number of the signal.
        signal: i32,
        /// True if the job is known to be gone.
        gone: bool,
    },
}

/// Receives the output and the events of a job.
pub trait BatchListener {
    /// Called with the command's standard output.
    fn output(&mut self, bytes: &[u8]);
    /// Called with the command's standard error.
    fn error(&mut self, bytes: &[u8]);
    /// Called with the whole progress file when it has changed.
    fn progress(&mut self, content: &[u8]);
    /// Called with each event of the job.
    fn event(&mut self, event: BatchEvent);
}

/// Something that happened to a job.
#[derive(Debug)]
pub enum BatchEvent {
    /// The batch system accepted it, under this id.
    Submitted(String),
    /// It waits, for this reason in the batch system's words.
    Waiting(String),
    /// The batch system put it back into the queue, where it waits for this reason.
    Requeued(String),
    /// It runs.
    Running,
    /// The batch system can't be queried. It is queried again.
    Unanswered(BatchError),
    /// A signal arrived, and the job is being cancelled.
    Cancelling,
    /// It can't be cancelled. The cancellation is retried.
    NotCancelled(BatchError),
}

/// Why a job can't be submitted or followed.
#[derive(Debug)]
pub enum BatchError {
    /// The job directory can't be created in this directory, the last one that was tried.
    NoJobDirectory {
        /// The directory.
        parent: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// No directory is known that the job's hosts see too.
    NothingShared,
    /// A program of the batch system can't be run.
    CannotRun {
        /// The program.
        program: String,
        /// The reason.
        cause: io::Error,
    },
    /// The batch system refused the job, for this reason in its own words.
    Refused(String),
    /// A program of the batch system failed, with this error output.
    Failed(String),
    /// The job directory has something else in place of an exit status.
    NoStatus(String),
    /// The job directory or another file can't be used.
    Io(io::Error),
}

impl fmt::Display for BatchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJobDirectory { parent, cause } => {
                write!(out, "cannot create a job directory in {}: {cause}", parent.display())
            }
            Self::NothingShared => out.write_str("no shared directory for the job directory"),
            Self::CannotRun { program, cause } => write!(out, "cannot run {program}: {cause}"),
            Self::Refused(why) => write!(out, "the batch system refused the job: {why}"),
            Self::Failed(why) => out.write_str(why),
            Self::NoStatus(text) => write!(out, "not an exit status: {}", text.escape_debug()),
            Self::Io(cause) => cause.fmt(out),
        }
    }
}

impl std::error::Error for BatchError {}

impl From<io::Error> for BatchError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// Interface to a batch system.
trait BatchQueue {
    /// Returns the script lines addressed to the batch system.
    fn directives(&self, order: &BatchOrder) -> String;

    /// Submits the script of a job directory. Returns the job's id.
    fn submit(
        &self,
        order: &BatchOrder,
        job_directory: &job_directory::JobDirectory,
    ) -> Result<String, BatchError>;

    fn state(&self, order: &BatchOrder, job: &str) -> Result<BatchState, BatchError>;

    fn cancel(&self, order: &BatchOrder, job: &str) -> Result<(), BatchError>;
}

/// Submits an order and follows it to its end.
///
/// # Errors
/// If no job directory can be created, the job is refused, or the batch system's programs can't be
/// run.
pub fn run(
    order: &BatchOrder,
    signals: &follow::Signals,
    listener: &mut dyn BatchListener,
) -> Result<BatchOutcome, BatchError> {
    let job_directory = job_directory::JobDirectory::create(order)?;
    let job = match order.queue().submit(order, &job_directory) {
        Ok(job) => job,
        Err(error) => {
            job_directory.remove()?;
            return Err(error);
        }
    };
    listener.event(BatchEvent::Submitted(job.clone()));
    let outcome = follow::follow(order, &job, &job_directory, signals, listener)?;
    match outcome {
        // A command that was killed had no time to mark what it left.
        BatchOutcome::Finished(status)
            if job_directory.is_kept() || status > follow::SIGNALLED && job_directory.journal().exists() =>
        {
            Ok(BatchOutcome::GivenUp { job, status, job_directory: job_directory.folder().to_owned() })
        }
        // A job that may still run writes to the job directory.
        BatchOutcome::Lost { .. } | BatchOutcome::Interrupted { gone: false, .. } => Ok(outcome),
        _ => Ok(job_directory.remove().map(|()| outcome)?),
    }
}

/// Runs a program of the batch system and returns its output.
fn output_of(command: &mut Command) -> Result<Output, BatchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|cause| BatchError::CannotRun { program, cause })
}

/// Runs a program of the batch system and ignores its output.
fn succeed(command: &mut Command) -> Result<(), BatchError> {
    let output = output_of(command)?;
    if output.status.success() { Ok(()) } else { Err(BatchError::Failed(complaint(&output))) }
}

/// Runs a program that submits a job, and returns the id in the last line that it prints.
fn id_from(command: &mut Command, is_id: impl Fn(&str) -> bool) -> Result<String, BatchError> {
    let output = output_of(command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Slurm prints "ID" or "ID;CLUSTER".
    let id = text.lines().last().and_then(|line| line.split(';').next()).unwrap_or_default().trim();
    match output.status.success() {
        true if !id.is_empty() && is_id(id) => Ok(id.to_owned()),
        true => {
            let program = command.get_program().to_string_lossy();
            Err(BatchError::Refused(format!("{program} printed no job id: {}", complaint(&output))))
        }
        false => Err(BatchError::Refused(complaint(&output))),
    }
}

/// Returns a program's error output as one line.
fn complaint(output: &Output) -> String {
    let said = [output.stderr.as_slice(), output.stdout.as_slice()].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_directory_lies_where_all_hosts_look() {
        let order = |options: &Options, target: &str| {
            BatchOrder::new(System::Slurm, options, vec!["true".into()], Path::new(target)).unwrap()
        };
        let plain = order(&Options::default(), "/shared/target/");
        assert_eq!(plain.shared, [Path::new("/shared"), Path::new("/shared/target/")]);
        assert_eq!(plain.clients, 1);
        let here = std::env::current_dir().unwrap();
        assert_eq!(plain.directory, here);
        let options =
            Options { clients: Some(4), journal: Some("/notes/journal".into()), ..Options::default() };
        let with_journal = order(&options, "target");
        assert_eq!(with_journal.shared, [PathBuf::from("/notes"), here, PathBuf::from("target")]);
        assert_eq!(with_journal.clients, 4);
        let earlier = PathBuf::from("/shared/.haul-job-0123456789abcdef/journal");
        let again = order(&Options { journal: Some(earlier), ..Options::default() }, "/shared/target");
        assert_eq!(again.shared[0], Path::new("/shared"));
        assert_eq!(order(&Options::default(), "/").shared, [Path::new("/")]);
    }
}
