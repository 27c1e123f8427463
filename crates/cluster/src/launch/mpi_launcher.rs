//! Starts the processes of a job with `mpirun` or `srun`, once per attempt.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::attempt_hosts::HostRanks;
use super::command::{LaunchRefusal, StartLine, Surroundings, Wanted, start_line};
use super::family::LauncherFamily;
use super::job::LoggedJob;
use super::launcher::{Launcher, Started};
use crate::Options;
use crate::error::JobError;
use crate::link::Link;

/// Starts ranks with a launcher.
pub struct MpiLauncher {
    surroundings: Surroundings,
    ranks: u32,
    program: PathBuf,
    launcher: Option<Vec<OsString>>,
    library: Option<PathBuf>,
    /// Command line that lets the launcher choose the hosts.
    line: StartLine,
}

impl MpiLauncher {
    /// Determines how to start `ranks` ranks that run `program`.
    ///
    /// # Errors
    /// If that is impossible.
    pub fn new(ranks: u32, program: PathBuf, options: &Options) -> Result<Self, LaunchRefusal> {
        let surroundings = Surroundings::of_process();
        let program = surroundings.agent(&program);
        let (launcher, library) = (options.launcher.clone(), options.mpi_library.clone());
        let line = StartLine {
            family: LauncherFamily::Other,
            words: Vec::new(),
            environment: Vec::new(),
            stdin_window: None,
        };
        let mut this = Self { surroundings, ranks, program, launcher, library, line };
        this.line = this.line_on(&[])?;
        Ok(this)
    }

    fn line_on(&self, places: &[HostRanks]) -> Result<StartLine, LaunchRefusal> {
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

impl Launcher for MpiLauncher {
    fn start(&self, places: &[HostRanks], silence: Duration) -> Result<Started, JobError> {
        let chosen =
            if places.is_empty() { None } else { Some(self.line_on(places).map_err(JobError::Launcher)?) };
        let line = chosen.as_ref().unwrap_or(&self.line);
        let cannot = |cause: io::Error| {
            let program = line.words.first().cloned().unwrap_or_default();
            JobError::NotStarted { program, cause: Arc::new(cause) }
        };
        let mut job = LoggedJob::start(line).map_err(cannot)?;
        let Some((to_rank, from_rank)) = job.take_pipes() else {
            return Err(cannot(io::ErrorKind::BrokenPipe.into()));
        };
        let link = Link::to_rank(from_rank, to_rank, line.stdin_window, silence).map_err(cannot)?;
        Ok(Started { link, job: Some(job) })
    }

    fn chooses_hosts(&self) -> bool {
        self.line.family.chooses_hosts()
    }
}
