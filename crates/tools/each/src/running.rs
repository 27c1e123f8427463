//! Runs commands, and terminates them when one fails.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_cluster::mpi::is_of_process;
use haul_flow::{Context, Problem, lock};
use haul_sys::{Errno, Error, Started, TerminationHandle};

use super::EachKind;
use super::Runner;
use super::command::quoted;
use super::options::Halt;
use super::results::CommandResult;

pub(super) enum RunResult {
    /// It ended; or it failed to start, which was reported, and others may still run.
    Ended(CommandResult),
    /// It was not run because the run is stopping, or it was lost. Reported if necessary.
    Nothing,
    /// The kernel refuses a command line for this many paths.
    TooLong,
}

/// The commands in progress.
#[derive(Default)]
pub struct Running {
    /// True once no more commands are started.
    stopped: AtomicBool,
    /// True once commands in progress are terminated.
    ending: AtomicBool,
    next: AtomicU64,
    handles: Mutex<HashMap<u64, TerminationHandle>>,
}

impl Running {
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Stops starting commands. Returns true the first time.
    pub(super) fn stop(&self) -> bool {
        !self.stopped.swap(true, Ordering::Relaxed)
    }

    /// Stops starting commands, and terminates those in progress with everything they started.
    /// Called when the program is terminated.
    pub fn abandon(&self) {
        self.stop();
        self.end_all();
    }

    /// Stops starting commands, and terminates those in progress if `is_now`.
    pub(super) fn halt(&self, is_now: bool) {
        self.stop();
        if is_now {
            self.end_all();
        }
    }

    /// Terminates all commands, including those that are being started.
    fn end_all(&self) {
        let handles = lock(&self.handles);
        self.ending.store(true, Ordering::Relaxed);
        handles.values().for_each(TerminationHandle::terminate);
    }

    /// Registers a command so that it can be terminated while it runs.
    fn keep(&self, started: &Started) -> Option<u64> {
        // Without a handle the command just ends by itself, and the run with it, only later.
        let handle = started.termination_handle().ok()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut handles = lock(&self.handles);
        // `end_all` may have run before this one was listed.
        if self.ending.load(Ordering::Relaxed) {
            handle.terminate();
        }
        handles.insert(number, handle);
        Some(number)
    }

    fn forget(&self, number: Option<u64>) {
        if let Some(number) = number {
            lock(&self.handles).remove(&number);
        }
    }
}

impl Runner {
    /// Cancels the run: no process starts more commands, and under `Halt::Now` those in progress
    /// are terminated.
    pub(super) fn halt(&self) {
        self.cancel.cancel();
        // Again, for a command that began while it was cancelled.
        self.running.halt(self.options.halt == Halt::Now);
    }

    /// Runs the command for some paths. Messages name the first.
    pub(super) fn run(&self, cx: &Context<'_, Self>, paths: &[Vec<u8>], input: Option<&[u8]>) -> RunResult {
        if self.running.is_stopped() {
            return RunResult::Nothing;
        }
        let words = self.command.for_paths(paths);
        if self.options.dry_run {
            let words: Vec<_> = words.iter().map(|word| quoted(word.as_encoded_bytes())).collect();
            let output = [words.join(&b' ').as_slice(), b"\n"].concat();
            return RunResult::Ended(CommandResult { output, ..CommandResult::default() });
        }
        let started = match Started::begin(&words, input.is_some(), is_of_process) {
            Ok(started) => started,
            Err(cause) if cause.is(Errno::TOOBIG) && paths.len() > 1 => return RunResult::TooLong,
            Err(cause) => {
                let program = words.first().map(|word| word.as_encoded_bytes().to_vec());
                return self.not_started(cx, program.unwrap_or_default(), paths, cause);
            }
        };
        let number = self.running.keep(&started);
        let ended = started.finish(input.unwrap_or_default());
        self.running.forget(number);
        match ended {
            Ok(ended) => {
                let result = CommandResult::of(ended);
                self.halt_after(&result);
                RunResult::Ended(result)
            }
            Err(cause) => {
                let path = paths.first().cloned().unwrap_or_default();
                cx.problem(Problem::new(EachKind::CommandLost).naming(path).because(cause));
                RunResult::Nothing
            }
        }
    }

    fn halt_after(&self, result: &CommandResult) {
        if result.failures.is_empty() || self.options.halt == Halt::Never {
            return;
        }
        self.halt();
    }

    /// Handles a command that failed to start. If the program itself is at fault, no other command
    /// can start either: reports the first and stops. Otherwise counts this one as failed.
    fn not_started(
        &self,
        cx: &Context<'_, Self>,
        program: Vec<u8>,
        paths: &[Vec<u8>],
        cause: Error,
    ) -> RunResult {
        let is_the_programs = matches!(cause.errno(), Errno::NOENT | Errno::ACCESS | Errno::NOEXEC);
        if is_the_programs && self.command.program().is_some() {
            if self.running.stop() {
                cx.problem(Problem::new(EachKind::CannotRun).naming(program).because(cause));
                cx.problem(Problem::new(EachKind::OthersNotRun).as_warning());
            }
            return RunResult::Nothing;
        }
        let path = paths.first().cloned().unwrap_or_default();
        let problem = if program == path {
            Problem::new(EachKind::CannotRun).naming(program)
        } else {
            Problem::new(EachKind::CannotRunFor).naming(program).naming(path)
        };
        cx.problem(problem.because(cause));
        let result = CommandResult::not_started();
        self.halt_after(&result);
        RunResult::Ended(result)
    }
}
