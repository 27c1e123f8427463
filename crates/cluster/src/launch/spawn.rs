//! Starts the processes of a job, once per attempt.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::command::{Refusal, StartLine, Surroundings, Wanted, start_line};
use super::family::Family;
use super::job::Job;
use super::places::Place;
use super::start::{Processes, Start, Started};
use crate::Options;
use crate::error::JobError;
use crate::link::Link;

/// Maximum output of the processes to keep, in bytes: enough to find the reason of a failure.
const PRINTED_MAX: usize = 64 << 10;

/// Starts ranks with a launcher.
pub struct Spawn {
    surroundings: Surroundings,
    ranks: u32,
    program: PathBuf,
    launcher: Option<Vec<OsString>>,
    library: Option<PathBuf>,
    /// Command line that lets the launcher choose the hosts.
    line: StartLine,
}

impl Spawn {
    /// Determines how to start `ranks` ranks that run `program`.
    ///
    /// # Errors
    /// If that is impossible.
    pub fn new(ranks: u32, program: PathBuf, options: &Options) -> Result<Self, Refusal> {
        let surroundings = Surroundings::of_process();
        let program = surroundings.agent(&program);
        let (launcher, library) = (options.launcher.clone(), options.mpi_library.clone());
        let line = StartLine {
            family: Family::Other,
            words: Vec::new(),
            environment: Vec::new(),
            stdin_window: None,
        };
        let mut spawn = Self { surroundings, ranks, program, launcher, library, line };
        spawn.line = spawn.line_on(&[])?;
        Ok(spawn)
    }

    fn line_on(&self, places: &[Place]) -> Result<StartLine, Refusal> {
        let mut arguments = vec![OsString::from("--rank")];
        arguments.extend(self.library.as_ref().map(|library| library.clone().into_os_string()));
        let ranks = if places.is_empty() { self.ranks } else { places.iter().map(|place| place.ranks).sum() };
        let wanted = Wanted {
            ranks,
            program: &self.program,
            arguments: &arguments,
            environment: &[],
            launcher: self.launcher.as_deref(),
            library: self.library.as_deref(),
            places,
        };
        start_line(&self.surroundings, &wanted)
    }
}

impl Start for Spawn {
    fn start(&self, _: u32, places: &[Place]) -> Result<Started, JobError> {
        let chosen =
            if places.is_empty() { None } else { Some(self.line_on(places).map_err(JobError::Launcher)?) };
        let line = chosen.as_ref().unwrap_or(&self.line);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let listening = Arc::clone(&printed);
        let cannot = |cause: io::Error| {
            let program = line.words.first().cloned().unwrap_or_default();
            JobError::NotStarted { program, cause: Arc::new(cause) }
        };
        let mut job = Job::start(line, move |line| {
            let mut printed = listening.lock().unwrap_or_else(PoisonError::into_inner);
            printed.extend_from_slice(line);
            printed.push(b'\n');
            let too_much = printed.len().saturating_sub(PRINTED_MAX);
            printed.drain(..too_much);
        })
        .map_err(cannot)?;
        let (Some(input), Some(output)) = (job.take_output(), job.take_input()) else {
            return Err(cannot(io::ErrorKind::BrokenPipe.into()));
        };
        let link = Link::to_rank(input, output, line.stdin_window).map_err(cannot)?;
        Ok(Started { link, processes: Box::new(Ranks { job, printed }) })
    }

    fn starts_again(&self) -> bool {
        true
    }

    fn chooses_hosts(&self) -> bool {
        self.line.family.chooses_hosts()
    }
}

/// The started processes.
struct Ranks {
    job: Job,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Processes for Ranks {
    fn printed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn leave(&mut self, patience: Duration) -> bool {
        matches!(self.job.wait(patience), Ok(Some(status)) if status.success())
    }

    fn end(&mut self) {
        if let Err(error) = self.job.end() {
            let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
            printed.extend_from_slice(format!("{error}\n").as_bytes());
        }
    }
}
