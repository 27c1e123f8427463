//! A job of a batch system that runs a command line, followed to its end as if the command ran here.
//!
//! ```text
//!  here                                    spool (beside the target)         the job's first host
//!  submit ── script ─────────────────────► script ─────────────────────────► the command, HAUL_SPOOL set
//!  follow ◄─ tail ─────────────────────── out, err ◄──────────────────────── its output
//!         ◄─ when it changes ──────────── progress ◄───── renamed ────────── its progress
//!         ◄─ the last to come ─────────── status ◄─────── renamed ────────── its exit status
//!         ◄─ squeue, qstat: waits, runs, was cancelled, ...
//! ```
//!
//! - [`spool`]: the directory both sides see. [`slurm`], [`pbs`]: submit, ask, cancel. [`follow`]: the loop.
//!
//! What it promises: what the command wrote is passed on once and whole; a job that ended without a status is told of as what
//! the batch system says of it; a signal here cancels the job, and is not the end before the job is gone. A job that the batch
//! system puts back into the queue after a host failed is followed on: its script finds the spool, with the journal in it.
//! What it does not do: know what is run.
//!
//! Slurm was tested for real; PBS by its script and stand-in programs only.

pub mod follow;
pub mod pbs;
pub mod slurm;
pub mod spool;

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

/// What is to be run, and with what.
#[derive(Clone, Debug)]
pub struct Order {
    /// Whose job it becomes.
    pub system: System,
    /// The command line.
    pub words: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Folders that the job's hosts see too; the first that takes a spool gets it.
    pub shared: Vec<PathBuf>,
    /// Ranks the allocation is to have room for.
    pub clients: u32,
    /// Who pays.
    pub account: Option<String>,
    /// How long it may run.
    pub walltime: Option<Duration>,
    /// The queue it goes to.
    pub queue: Option<String>,
    /// The bits that new files do not get.
    pub umask: u32,
    /// What the batch system's programs get in their environment beside this process's.
    pub environment: Vec<(OsString, OsString)>,
}

impl Order {
    /// Makes the order for a command line that copies to `target`, and runs where this process does.
    ///
    /// The spool goes beside the user's journal if there is one, else beside the target, else into it: folders that the job's
    /// hosts must see anyway. They need not see what a target's file system is mounted in: then it goes into it at once.
    ///
    /// # Errors
    /// When this process has no current directory.
    pub fn new(system: System, options: &Options, words: Vec<OsString>, target: &Path) -> io::Result<Self> {
        let beside = |path: &Path| {
            let path = std::path::absolute(path).ok()?;
            path.parent().map(Path::to_owned)
        };
        // Not in the spool of an earlier job: that could not be removed at the end, and goes on being of use until then.
        let beside_spool =
            |folder: PathBuf| if spool::has_spool_name(&folder) { beside(&folder) } else { Some(folder) };
        let journal = options.journal.as_deref().and_then(beside).and_then(beside_spool);
        let beside_target = beside(target).filter(|parent| !lies_apart(target, parent));
        let shared = journal.into_iter().chain(beside_target).chain([target.to_owned()]).collect();
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
        })
    }

    /// Begins the command line of a program of the batch system.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        // ^C is for this process: it must not end a submission of which nobody would know whether it was taken.
        command.process_group(0);
        command
    }

    fn queue(&self) -> &'static dyn Queue {
        match self.system {
            System::Slurm => &slurm::Slurm,
            System::Pbs => &pbs::Pbs,
        }
    }
}

/// Tells whether a target is of another file system than the folder it is in.
fn lies_apart(target: &Path, parent: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    matches!((device(target), device(parent)), (Ok(target), Ok(parent)) if target != parent)
}

/// Returns the batch system that a job is to be submitted to, where clients are asked for: not if this process has hosts
/// already, or the user says how they are had.
#[must_use]
pub fn system(options: &Options, surroundings: &Surroundings) -> Option<System> {
    let has_hosts = surroundings.ranks.is_some() || spool::Spool::of_process().is_some();
    if options.clients.is_none() || options.launcher.is_some() || has_hosts {
        return None;
    }
    let is_there = |system: &System| *system != System::Slurm || slurm::is_configured();
    surroundings.batch_systems().find(is_there)
}

/// What a batch system says of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits, for the reason given.
    Waiting(String),
    /// It runs, or begins or ends to.
    Running,
    /// It is over.
    Over(Over),
    /// It is not known any more.
    Unknown,
}

/// How a job ended, as the batch system sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// Its script ended with status 0.
    Well,
    /// Somebody cancelled it.
    Cancelled,
    /// It took longer than it may.
    TimedOut,
    /// A host of it failed, and it was not put back into the queue.
    HostFailed,
    /// Otherwise; in the batch system's words.
    Failed(String),
}

impl fmt::Display for Over {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Well => out.write_str("ended without a result"),
            Self::Cancelled => out.write_str("was cancelled"),
            Self::TimedOut => out.write_str("took longer than its walltime"),
            Self::HostFailed => out.write_str("lost a host"),
            Self::Failed(how) => write!(out, "failed: {how}"),
        }
    }
}

/// What becomes of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended, with this exit status.
    Finished(i32),
    /// The command ended so, and has left word that what it did not do can be done by its journal ([`spool::Spool::keep`]).
    GivenUp {
        /// The job's id.
        job: String,
        /// The exit status.
        status: i32,
        /// Where the journal is: nothing is removed.
        spool: PathBuf,
    },
    /// The job was not taken; the reason in the batch system's words.
    Refused(String),
    /// The job ended before the command did.
    Lost {
        /// The job's id.
        job: String,
        /// How.
        over: Over,
        /// What the batch system wrote of it, and what is left: nothing is removed.
        spool: PathBuf,
    },
    /// A signal came, and the job was cancelled.
    Interrupted {
        /// The job's id.
        job: String,
        /// The signal's number.
        signal: i32,
        /// Whether the job is known to be gone.
        gone: bool,
    },
}

/// Who hears of a job.
pub trait Listener {
    /// Passes on what the command wrote to standard output.
    fn output(&mut self, bytes: &[u8]);
    /// Passes on what it wrote to standard error.
    fn error(&mut self, bytes: &[u8]);
    /// Passes on its progress, whole, when it has changed.
    fn progress(&mut self, content: &[u8]);
    /// Tells of the job itself: submitted, waiting and why, running, put back into the queue.
    fn remark(&mut self, text: &str);
}

/// What is asked of a batch system.
trait Queue {
    /// Writes the lines of the script that are for the batch system.
    fn directives(&self, order: &Order) -> String;

    /// Submits the script of a spool; returns the job's id, or why it was not taken.
    fn submit(&self, order: &Order, spool: &spool::Spool) -> io::Result<Result<String, String>>;

    /// Asks for a job.
    fn state(&self, order: &Order, job: &str) -> io::Result<State>;

    /// Cancels a job.
    fn cancel(&self, order: &Order, job: &str) -> io::Result<()>;
}

/// Submits an order and follows it to its end.
///
/// # Errors
/// When no spool can be made, or the batch system's programs cannot be run.
pub fn run(order: &Order, signals: &follow::Signals, listener: &mut dyn Listener) -> io::Result<Outcome> {
    let spool = spool::Spool::create(order)?;
    let job = match order.queue().submit(order, &spool) {
        Ok(Ok(job)) => job,
        Ok(Err(why)) => {
            spool.remove()?;
            return Ok(Outcome::Refused(why));
        }
        Err(error) => {
            spool.remove()?;
            return Err(error);
        }
    };
    listener.remark(&format!("submitted job {job}"));
    let outcome = follow::follow(order, &job, &spool, signals, listener)?;
    match outcome {
        Outcome::Finished(status) if spool.is_kept() => {
            Ok(Outcome::GivenUp { job, status, spool: spool.folder().to_owned() })
        }
        // A job that may still run writes there.
        Outcome::Lost { .. } | Outcome::Interrupted { gone: false, .. } => Ok(outcome),
        _ => spool.remove().map(|()| outcome),
    }
}

/// Runs a program of the batch system for what it prints.
fn output_of(command: &mut Command) -> io::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|error| io::Error::new(error.kind(), format!("cannot run {name}: {error}")))
}

/// Gives what a program said of its failure, in one line.
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
    fn a_spool_lies_where_all_hosts_look() {
        let order = |options: &Options, target: &str| {
            Order::new(System::Slurm, options, vec!["true".into()], Path::new(target)).unwrap()
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
