//! Runs work in a batch job: where only a batch system gives hosts, the same command line is
//! submitted to it and followed as if it ran here.
//!
//! ```text
//! outside: submit()                             inside, on the job's first host: same command line
//! ┌────────────────────────────┐    submits    ┌───────────────────────────────────────────────┐
//! │ forwards output and errors │ ────────────► │ copies with its process group, by the journal │
//! │ shows progress             │ ◄──────────── │ in the job directory                          │
//! │ exits with its status      │ job directory │ feed: writes progress about once a second     │
//! └────────────────────────────┘               └───────────────────────────────────────────────┘
//! ```
//!
//! The job's output is forwarded byte for byte. Nothing is added to it unless standard error is a
//! terminal, or progress or `--debug` was requested. The exit status is the job's. ^C cancels the
//! job, and this process then exits with 128 plus the signal's number. A job that ends in any other
//! way is reported with its job directory, whose journal lets the copy resume.
//!
//! Questions (`-i`) are not supported: nobody can be asked in a job, so the answer is no.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use haul_cluster::batch::follow::Signals;
use haul_cluster::batch::job_directory::{JobDirectory, VARIABLE as JOB_DIRECTORY_VARIABLE};
use haul_cluster::batch::{self, BatchError, BatchEvent, BatchListener, BatchOrder, BatchOutcome};
use haul_cluster::launch::ProcessGroup;
use haul_cluster::launch::command::{Surroundings, System};
use haul_flow::{Reporter, SlowRank, Tally};

use crate::configuration;
use crate::flags::When;
use crate::line_file::Destination;
use crate::messages::{self, Messages};
use crate::option_files::is_descriptor_path;
use crate::output::LineSink;
use crate::progress::{FigureSource, ProgressOptions};
use crate::report::{Console, complain};
use crate::task::{CliTask, RunOptions, count_in_background};

/// Interval between a job's progress updates.
const INTERVAL: Duration = Duration::from_secs(1);

/// Added by shells to the number of the signal that ended a program.
const SIGNALLED: u8 = 128;

/// Returns the batch system to submit work to, if that is necessary.
///
/// # Errors
/// When a batch option is given, but no batch system is found and this process is not in a job.
pub(crate) fn system(run_options: &RunOptions, work: &impl CliTask) -> Result<Option<System>, String> {
    let hosts = &run_options.hosts;
    if hosts.clients.is_none() || work.shared_path().is_none() {
        return Ok(None);
    }
    let surroundings = Surroundings::of_process();
    let system = batch::system(hosts, &surroundings);
    let in_a_job = surroundings.allocation.is_some() || JobDirectory::of_process().is_some();
    let given = [
        ("--account", hosts.account.is_some()),
        ("--queue", hosts.queue.is_some()),
        ("--walltime", hosts.walltime.is_some()),
    ];
    let outputs = [
        run_options.log_file.as_deref(),
        hosts.journal.as_deref(),
        work.manifest_file().map(|(_, path)| path),
    ];
    let is_descriptor = |path: &Path| is_descriptor_path(path.as_os_str().as_encoded_bytes());
    let needs_descriptors = run_options.needs_descriptors
        || work.needs_descriptors()
        || outputs.into_iter().flatten().any(is_descriptor);
    match given.into_iter().find(|(_, is_given)| *is_given && system.is_none() && !in_a_job) {
        Some((flag, _)) => Err(format!("{flag} is for a batch job, and no batch system is found here")),
        None if system.is_some() && run_options.control.is_some() => {
            Err("a batch job has no control socket: it would be on another host".to_owned())
        }
        None if system.is_some() && needs_descriptors => {
            Err("a batch job has no standard input, and no descriptors of this process: name a file"
                .to_owned())
        }
        None if system.is_some() && matches!(run_options.events, Some(Destination::Descriptor(..))) => {
            Err("a batch job has no descriptor to write events to: name a file".to_owned())
        }
        None => Ok(system),
    }
}

/// Submits this process's command line and follows the job to its end.
pub(crate) fn submit(
    messages: Messages,
    run_options: &RunOptions,
    work: &impl CliTask,
    system: System,
) -> ExitCode {
    let prepared = prepare(messages.stands_for(), run_options, work, system);
    let (order, signals) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            complain(&messages.debug(&format!("cannot submit a batch job: {error}")));
            return ExitCode::from(work.exit_status(0, true));
        }
    };
    let console = Console::new(messages, LineSink::standard())
        .with_debug(run_options.debug)
        .with_progress(run_options.progress)
        .with_status_line();
    let remarks = run_options.debug || console.shows_progress() || io::stderr().is_terminal();
    let mut forwarder = Forwarder { console: &console, begun: Vec::new(), job: String::new(), remarks };
    let outcome = std::thread::scope(|scope| {
        count_in_background(scope, &console, work);
        let outcome = batch::run(&order, &signals, &mut forwarder);
        forwarder.finish();
        console.end_progress();
        outcome
    });
    let status = report_outcome(&console, work, outcome);
    // Output that could not be forwarded counts too.
    let finish = console.finish_run();
    finish.end_unread();
    ExitCode::from(if status == 0 { work.exit_status(0, finish.is_failure()) } else { status })
}

/// Creates the order and starts catching signals, so that none is missed once the job is submitted.
fn prepare(
    command: Option<&str>,
    run_options: &RunOptions,
    work: &impl CliTask,
    system: System,
) -> io::Result<(BatchOrder, Signals)> {
    let place = work.shared_path().unwrap_or(Path::new("."));
    let order = BatchOrder::new(system, &run_options.hosts, command_line(command)?, place)?;
    // The job uses the settings read here; configuration files of its host don't count.
    let defaults = (configuration::VARIABLE.into(), configuration::as_variable(&run_options.configured));
    Ok((BatchOrder { exports: vec![defaults], ..order }, Signals::listen()?))
}

/// Reports the job's outcome and returns the exit status.
fn report_outcome(console: &Console, work: &impl CliTask, outcome: Result<BatchOutcome, BatchError>) -> u8 {
    let failed = |text: String| {
        console.remark(&text);
        work.exit_status(0, true)
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refused @ BatchError::Refused(_)) => return failed(refused.to_string()),
        Err(error) => return failed(format!("cannot follow a batch job: {error}")),
    };
    if let Some(text) = messages::cluster::outcome(&outcome) {
        console.remark(&text);
    }
    match outcome {
        BatchOutcome::Finished(status) => u8::try_from(status).unwrap_or(work.exit_status(0, true)),
        BatchOutcome::GivenUp { status, .. } => u8::try_from(status).unwrap_or(1),
        BatchOutcome::Lost { .. } => work.exit_status(0, true),
        BatchOutcome::Interrupted { signal, .. } => {
            SIGNALLED.saturating_add(u8::try_from(signal).unwrap_or(0))
        }
    }
}

/// In a job: keeps the journal of an abandoned copy, so that it can be resumed.
pub(crate) fn keep_job_directory(group: &ProcessGroup, console: &Console) {
    if let Some(job_directory) = JobDirectory::of_process()
        .filter(|job_directory| group.leaves_work() && job_directory.journal().exists())
        && let Err(error) = job_directory.keep()
    {
        console.remark(&format!("cannot keep {}: {error}", job_directory.folder().display()));
    }
}

/// Removes the job directory of an earlier job, once a copy has completed its journal.
pub(crate) fn remove_used(run_options: &RunOptions, console: &Console) {
    if let Some(journal) = &run_options.hosts.journal
        && let Err(error) = JobDirectory::remove_used(journal)
    {
        console.remark(&format!("cannot remove what an earlier job left: {error}"));
    }
}

struct Forwarder<'a> {
    console: &'a Console,
    /// An incomplete line of standard error, held back because a terminal shows other things
    /// between lines.
    begun: Vec<u8>,
    job: String,
    /// True if remarks about the job itself are printed.
    remarks: bool,
}

impl Forwarder<'_> {
    /// Prints the incomplete line at EOF.
    fn finish(&mut self) {
        if !self.begun.is_empty() {
            self.console.complain(&std::mem::take(&mut self.begun));
        }
    }
}

impl BatchListener for Forwarder<'_> {
    fn output(&mut self, bytes: &[u8]) {
        self.console.print_now(bytes);
    }

    fn error(&mut self, bytes: &[u8]) {
        let (lines, rest) = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => bytes.split_at(end + 1),
            None => (&[][..], bytes),
        };
        if !lines.is_empty() {
            self.begun.extend_from_slice(lines);
            self.console.complain(&std::mem::take(&mut self.begun));
        }
        self.begun.extend_from_slice(rest);
    }

    fn progress(&mut self, content: &[u8]) {
        // An update that can't be parsed comes from another release. Ignore it; the copy continues.
        if let Ok(ProgressFile { done, slow_ranks }) = serde_json::from_slice(content) {
            self.console.set_done(done);
            self.console.slow_ranks(slow_ranks);
        }
    }

    fn event(&mut self, event: BatchEvent) {
        if let BatchEvent::Submitted(job) = &event {
            self.job.clone_from(job);
        }
        if self.remarks {
            self.console.remark(&messages::cluster::event(&self.job, &event));
        }
    }
}

/// Returns this process's command line as usable on another host, from the same directory.
/// `command` is the command that the program's name stands for, if any.
fn command_line(command: Option<&str>) -> io::Result<Vec<OsString>> {
    let mut call = std::env::args_os();
    let name = call.next().unwrap_or_default();
    let own = std::env::current_exe()?;
    let agent = Surroundings::of_process().agent(&own);
    let mut words = Vec::new();
    match path_called(&name).filter(|path| agent == own && path.canonicalize().is_ok_and(|path| path == own))
    {
        Some(path) => words.push(path.into_os_string()),
        // The program has another name there, so name the command.
        None => {
            words.push(agent.into_os_string());
            words.extend(command.map(OsString::from));
        }
    }
    words.extend(call);
    Ok(words)
}

/// Finds the program a call names. As in a shell, a name without a slash is looked up.
fn path_called(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok();
    }
    Surroundings::of_process().find(name.to_str()?).and_then(|path| std::path::absolute(path).ok())
}

/// True if this process runs in a batch job that haul has submitted.
pub(crate) fn is_in_job() -> bool {
    job_directory().is_some()
}

/// Returns the job directory of the batch job this process runs in, if any.
fn job_directory() -> Option<JobDirectory> {
    std::env::var_os(JOB_DIRECTORY_VARIABLE)?;
    JobDirectory::of_process()
}

/// Progress as a job writes it for the process that follows it.
#[derive(serde::Serialize, serde::Deserialize)]
struct ProgressFile {
    done: Tally,
    slow_ranks: Vec<SlowRank>,
}

/// Sends progress to the process that follows this job, until dropped.
pub(crate) struct ProgressFeed {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressFeed {
    /// Starts if this is a followed job that is to show progress.
    pub(crate) fn begin(options: ProgressOptions, source: Arc<dyn FigureSource>) -> Option<Self> {
        let job_directory = job_directory().filter(|_| options.when != When::Never)?;
        let (over, heard) = channel::<()>();
        let tell = move || loop {
            let waited = heard.recv_timeout(INTERVAL);
            let content = ProgressFile { done: source.done(), slow_ranks: source.slow_ranks() };
            let content = serde_json::to_vec(&content).unwrap_or_default();
            // A lost update is no reason to fail; the next one may succeed.
            job_directory.write_progress(&content).unwrap_or_default();
            if waited != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("progress-feed".to_owned()).spawn(tell).ok();
        Some(Self { over: Some(over), thread })
    }
}

impl Drop for ProgressFeed {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // The thread cannot fail, and if it did, only the copy would count.
            thread.join().unwrap_or_default();
        }
    }
}

/// Returns the progress options for this process: none in a job, where the follower shows progress.
pub(crate) fn local_display(options: ProgressOptions) -> ProgressOptions {
    if job_directory().is_some() { ProgressOptions { when: When::Never, ..options } } else { options }
}
