//! Work that is done in a batch job: where hosts can only be had from a batch system, the very same command line is
//! submitted to it, and followed as if it ran here.
//!
//! ```text
//!  outside: submit()                                  inside, on the job's first host: the same command line
//!  ┌────────────────────────────────────┐  submits   ┌───────────────────────────────────────────────────┐
//!  │ passes on output, errors, status   │ ─────────► │ copies with its process-group, by the spool's journal      │
//!  │ its display shows what is told     │ ◄───────── │ Teller: what is done so far, about once a second  │
//!  └────────────────────────────────────┘   spool    └───────────────────────────────────────────────────┘
//! ```
//!
//! What it promises: the job's output comes here byte for byte, and nothing is added to it where it does not go to a terminal
//! and neither progress nor `--debug` is asked for; the exit status is the job's; ^C ends the job, and with it this process
//! by 128 and the signal's number. A job that ended otherwise is told of with its spool, whose journal lets a copy go on.
//!
//! What it does not do: answer questions (`-i`). Nobody is asked in a job, which is a no.

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
use haul_cluster::batch::spool::{Spool, VARIABLE as SPOOL_VARIABLE};
use haul_cluster::batch::{self, Listener, Order, Outcome};
use haul_cluster::launch::ProcessGroup;
use haul_cluster::launch::command::{Surroundings, System};
use haul_flow::Tally;

use crate::applet;
use crate::flags::When;
use crate::messages::Messages;
use crate::output::Output;
use crate::progress::Source;
use crate::report::{Console, complain};
use crate::work::{RunOptions, Work, count_meanwhile};

/// How often a job tells how far it is.
const TELL: Duration = Duration::from_secs(1);

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: u8 = 128;

/// Returns the batch system that work is to be submitted to, if it is to be.
///
/// # Errors
/// An option for a batch job, where there is no batch system to submit one to, and this process is not in one.
pub(crate) fn system(run_options: &RunOptions, work: &impl Work) -> Result<Option<System>, String> {
    let hosts = &run_options.hosts;
    if hosts.clients.is_none() || work.place().is_none() {
        return Ok(None);
    }
    let surroundings = Surroundings::of_process();
    let system = batch::system(hosts, &surroundings);
    let in_a_job = surroundings.allocation.is_some() || Spool::of_process().is_some();
    let given = [
        ("--account", hosts.account.is_some()),
        ("--queue", hosts.queue.is_some()),
        ("--walltime", hosts.walltime.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given && system.is_none() && !in_a_job) {
        Some((flag, _)) => Err(format!("{flag} is for a batch job, and no batch system is found here")),
        None => Ok(system),
    }
}

/// Submits the command line of this process, and follows it to its end.
pub(crate) fn submit(
    messages: Messages,
    run_options: &RunOptions,
    work: &impl Work,
    system: System,
) -> ExitCode {
    let prepared = prepare(run_options, work, system);
    let (order, signals) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            complain(&messages.debug(&format!("cannot submit a batch job: {error}")));
            return ExitCode::from(work.exit_status(0, true));
        }
    };
    let console = Console::new(messages, Output::standard())
        .with_debug(run_options.debug)
        .with_progress(run_options.progress);
    let remarks = run_options.debug || console.shows_progress() || io::stderr().is_terminal();
    let mut passing = Passing { console: &console, begun: Vec::new(), remarks };
    let outcome = std::thread::scope(|scope| {
        count_meanwhile(scope, &console, work);
        let outcome = batch::run(&order, &signals, &mut passing);
        passing.finish();
        console.end_progress();
        outcome
    });
    let status = conclude(&console, work, outcome);
    // What was not passed on counts too.
    let trouble = console.finish_with_trouble();
    ExitCode::from(if status == 0 { work.exit_status(0, trouble) } else { status })
}

/// Makes the order; listens to signals from then on, so that none comes between the job and the ear.
fn prepare(run_options: &RunOptions, work: &impl Work, system: System) -> io::Result<(Order, Signals)> {
    let place = work.place().unwrap_or(Path::new("."));
    let order = Order::new(system, &run_options.hosts, command_line()?, place)?;
    Ok((order, Signals::listen()?))
}

/// Tells what became of the job, and returns the exit status.
fn conclude(console: &Console, work: &impl Work, outcome: io::Result<Outcome>) -> u8 {
    let failed = |text: String| {
        console.remark(&text);
        work.exit_status(0, true)
    };
    match outcome {
        Ok(Outcome::Finished(status)) => u8::try_from(status).unwrap_or(work.exit_status(0, true)),
        Ok(Outcome::Refused(why)) => failed(format!("the batch system takes no job: {why}")),
        Ok(Outcome::GivenUp { job, status, spool }) => {
            console.remark(&format!("job {job} gave up; {}", way_on(&spool)));
            u8::try_from(status).unwrap_or(1)
        }
        Ok(Outcome::Lost { job, over, spool }) => failed(format!("job {job} {over}; {}", way_on(&spool))),
        Ok(Outcome::Interrupted { job, signal, gone: true }) => {
            console.remark(&format!("job {job} was cancelled"));
            SIGNALLED.saturating_add(u8::try_from(signal).unwrap_or(0))
        }
        Ok(Outcome::Interrupted { job, signal, gone: false }) => {
            console.remark(&format!("job {job} was to be cancelled, and may still run"));
            SIGNALLED.saturating_add(u8::try_from(signal).unwrap_or(0))
        }
        Err(error) => failed(format!("cannot follow a batch job: {error}")),
    }
}

/// Says how a copy goes on that a job did not finish.
fn way_on(spool: &Path) -> String {
    format!("to go on where it ended, add --journal={}", spool.join("journal").display())
}

/// In a job: has the journal of a copy that is given up kept, so that it can go on.
pub(crate) fn keep_what_is_left(group: &ProcessGroup, console: &Console) {
    if let Some(spool) = Spool::of_process().filter(|_| group.leaves_work())
        && let Err(error) = spool.keep()
    {
        console.remark(&format!("cannot keep {}: {error}", spool.folder().display()));
    }
}

/// Removes what is left of an earlier job, whose journal a copy has used to its end.
pub(crate) fn remove_used(run_options: &RunOptions, console: &Console) {
    if let Some(journal) = &run_options.hosts.journal
        && let Err(error) = Spool::remove_used(journal)
    {
        console.remark(&format!("cannot remove what an earlier job left: {error}"));
    }
}

/// Passes on what comes from a job.
struct Passing<'a> {
    console: &'a Console,
    /// A line of standard error that is not whole yet: a terminal shows other things between lines.
    begun: Vec<u8>,
    /// Whether the user is told of the job itself.
    remarks: bool,
}

impl Passing<'_> {
    /// Passes on what is left when nothing more comes.
    fn finish(&mut self) {
        if !self.begun.is_empty() {
            self.console.complain(&std::mem::take(&mut self.begun));
        }
    }
}

impl Listener for Passing<'_> {
    fn output(&mut self, bytes: &[u8]) {
        self.console.tell_now(bytes);
    }

    fn error(&mut self, bytes: &[u8]) {
        let (whole, rest) = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => bytes.split_at(end + 1),
            None => (&[][..], bytes),
        };
        if !whole.is_empty() {
            self.begun.extend_from_slice(whole);
            self.console.complain(&std::mem::take(&mut self.begun));
        }
        self.begun.extend_from_slice(rest);
    }

    fn progress(&mut self, content: &[u8]) {
        // What is not understood is of another release: the picture stands still, and the copy goes on.
        if let Ok(done) = serde_json::from_slice(content) {
            self.console.set_done(done);
        }
    }

    fn remark(&mut self, text: &str) {
        if self.remarks {
            self.console.remark(text);
        }
    }
}

/// Returns the command line of this process, as it can be given on another host from the same directory.
fn command_line() -> io::Result<Vec<OsString>> {
    let mut call = std::env::args_os();
    let name = call.next().unwrap_or_default();
    let own = std::env::current_exe()?;
    let agent = Surroundings::of_process().agent(&own);
    let mut words = Vec::new();
    match path_called(&name).filter(|path| agent == own && path.canonicalize().is_ok_and(|path| path == own))
    {
        Some(path) => words.push(path.into_os_string()),
        // The program has another name there: it is told which command it is.
        None => {
            words.push(agent.into_os_string());
            words.extend(applet::command_of(&name).map(OsString::from));
        }
    }
    words.extend(call);
    Ok(words)
}

/// Finds the program that a call names: a shell looks up what has no slash.
fn path_called(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok();
    }
    Surroundings::of_process().find(name.to_str()?).and_then(|path| std::path::absolute(path).ok())
}

/// Returns the spool of the batch job that this process runs in, if it does.
fn spool() -> Option<Spool> {
    std::env::var_os(SPOOL_VARIABLE)?;
    Spool::of_process()
}

/// Tells the process that follows this job how far the copy is, until it is dropped.
pub(crate) struct Teller {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    /// Begins to tell, if this is a job that somebody follows and wants to see.
    pub(crate) fn begin(wanted: When, source: Arc<dyn Source>) -> Option<Self> {
        let spool = spool().filter(|_| wanted != When::Never)?;
        let (over, heard) = channel::<()>();
        let tell = move || loop {
            let waited = heard.recv_timeout(TELL);
            let content = serde_json::to_vec::<Tally>(&source.done()).unwrap_or_default();
            // A picture that cannot be shown is no reason to fail; the next may be.
            spool.write_progress(&content).unwrap_or_default();
            if waited != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("teller".to_owned()).spawn(tell).ok();
        Some(Self { over: Some(over), thread })
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // It cannot fail, and if it did, the copy would still be what counts.
            thread.join().unwrap_or_default();
        }
    }
}

/// Returns what of a picture is shown by this process itself: in a job, none, as somebody else shows it.
pub(crate) fn shown_here(wanted: When) -> When {
    if spool().is_some() { When::Never } else { wanted }
}
