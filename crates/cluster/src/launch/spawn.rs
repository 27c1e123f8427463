//! Starting the processes of a job, as many times as it takes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::command::{StartLine, Surroundings, Wanted, start_line};
use super::crew::{Processes, Start, Started};
use super::job::Job;
use crate::Options;
use crate::link::Link;

/// Bytes kept of what the processes print: enough to say why something failed.
const PRINTED_MAX: usize = 64 << 10;

/// Starts ranks by a launcher.
pub struct Spawn {
    line: StartLine,
}

impl Spawn {
    /// Finds out how `ranks` ranks that run `program` are started.
    ///
    /// # Errors
    /// Why they cannot be, for the user.
    pub fn new(ranks: u32, program: PathBuf, options: &Options) -> Result<Self, String> {
        let surroundings = Surroundings::of_process();
        let mut arguments = vec![OsString::from("--rank")];
        arguments.extend(options.mpi_library.as_ref().map(|library| library.clone().into_os_string()));
        let wanted = Wanted {
            ranks,
            program: &surroundings.agent(&program),
            arguments: &arguments,
            environment: &[],
            launcher: options.launcher.as_deref(),
            library: options.mpi_library.as_deref(),
        };
        let line = start_line(&surroundings, &wanted).map_err(|refusal| refusal.to_string())?;
        Ok(Self { line })
    }
}

impl Start for Spawn {
    fn start(&self, _: u32) -> Result<Started, String> {
        let printed = Arc::new(Mutex::new(Vec::new()));
        let listening = Arc::clone(&printed);
        let cannot = |error: std::io::Error| {
            format!("cannot run {}: {error}", self.line.words.first().cloned().unwrap_or_default().display())
        };
        let mut job = Job::start(&self.line, move |line| {
            let mut printed = listening.lock().unwrap_or_else(PoisonError::into_inner);
            printed.extend_from_slice(line);
            printed.push(b'\n');
            let too_much = printed.len().saturating_sub(PRINTED_MAX);
            printed.drain(..too_much);
        })
        .map_err(cannot)?;
        let (Some(input), Some(output)) = (job.take_output(), job.take_input()) else {
            return Err("the processes have no pipes".to_owned());
        };
        let link = Link::to_rank(input, output, self.line.stdin_window).map_err(cannot)?;
        Ok(Started { link, processes: Box::new(Ranks { job, printed }) })
    }

    fn starts_again(&self) -> bool {
        true
    }
}

/// The processes that were started.
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
