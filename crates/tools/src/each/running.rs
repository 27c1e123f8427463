//! Running a command, and ending those that run when one has failed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_flow::{Desk, Problem};
use haul_sys::{Errno, Error, Leash, Started};

use super::Runner;
use super::command::quoted;
use super::options::Halt;
use super::results::Result;
use super::wording;

/// What became of a command.
pub(super) enum Ran {
    /// It ended; or it could not be started, which was reported, and others may be.
    Ended(Result),
    /// It was not run, as nothing more is to be begun; or it was lost. What is to be said of that was reported.
    Nothing,
    /// The kernel takes no command for so many paths.
    TooLong,
}

/// The commands that run.
#[derive(Default)]
pub struct Running {
    /// Whether no more are begun.
    stopped: AtomicBool,
    /// Whether those that were begun are ended.
    ending: AtomicBool,
    next: AtomicU64,
    leashes: Mutex<HashMap<u64, Leash>>,
}

impl Running {
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Begins no more commands; returns whether that is new.
    pub(super) fn stop(&self) -> bool {
        !self.stopped.swap(true, Ordering::Relaxed)
    }

    /// Begins no more commands, and ends those that run with all that they have started: the program ends.
    pub fn abandon(&self) {
        self.stop();
        self.end_all();
    }

    /// Begins no more commands, and if `is_now` ends those that run.
    pub(super) fn halt(&self, is_now: bool) {
        self.stop();
        if is_now {
            self.end_all();
        }
    }

    /// Ends the commands that run, and those that are being begun.
    fn end_all(&self) {
        let leashes = self.leashes.lock().unwrap_or_else(PoisonError::into_inner);
        self.ending.store(true, Ordering::Relaxed);
        leashes.values().for_each(Leash::pull);
    }

    /// Keeps what can end a command as long as it runs.
    fn keep(&self, started: &Started) -> Option<u64> {
        // Without it the command ends by itself, and the run with it: later, but as well.
        let leash = started.leash().ok()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut leashes = self.leashes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ending.load(Ordering::Relaxed) {
            leash.pull();
        }
        leashes.insert(number, leash);
        Some(number)
    }

    fn forget(&self, number: Option<u64>) {
        if let Some(number) = number {
            self.leashes.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        }
    }
}

impl Runner {
    /// Halts the commands of all processes.
    pub(super) fn halt(&self) {
        self.cancel.cancel();
        // Again, for a command that began while it was cancelled.
        self.running.halt(self.options.halt == Halt::Now);
    }

    /// Runs the command for some paths, of which the first names it in messages.
    pub(super) fn run(&self, desk: &Desk<'_, Self>, paths: &[Vec<u8>], input: Option<&[u8]>) -> Ran {
        if self.running.is_stopped() {
            return Ran::Nothing;
        }
        let words = self.command.for_paths(paths);
        if self.options.dry_run {
            let words: Vec<_> = words.iter().map(|word| quoted(word.as_encoded_bytes())).collect();
            let output = [words.join(&b' ').as_slice(), b"\n"].concat();
            return Ran::Ended(Result { output, ..Result::default() });
        }
        let started = match Started::begin(&words, input.is_some()) {
            Ok(started) => started,
            Err(cause) if cause.is(Errno::TOOBIG) && paths.len() > 1 => return Ran::TooLong,
            Err(cause) => {
                let program = words.first().map(|word| word.as_encoded_bytes().to_vec());
                return self.not_started(desk, program.unwrap_or_default(), paths, cause);
            }
        };
        let number = self.running.keep(&started);
        let ended = started.finish(input.unwrap_or_default());
        self.running.forget(number);
        match ended {
            Ok(ended) => {
                let result = Result::of(ended);
                self.halt_after(&result);
                Ran::Ended(result)
            }
            Err(cause) => {
                let path = paths.first().cloned().unwrap_or_default();
                desk.problem(Problem::new(wording::CANNOT_HEAR).naming(path).because(cause));
                Ran::Nothing
            }
        }
    }

    /// Halts, if that is asked for, after a command that failed.
    fn halt_after(&self, result: &Result) {
        if result.failures.is_empty() || self.options.halt == Halt::Never {
            return;
        }
        self.halt();
    }

    /// Tells of a command that cannot be started: of the first one, if no other can be; else it has failed as others may.
    fn not_started(&self, desk: &Desk<'_, Self>, program: Vec<u8>, paths: &[Vec<u8>], cause: Error) -> Ran {
        let is_the_programs = matches!(cause.errno(), Errno::NOENT | Errno::ACCESS | Errno::NOEXEC);
        if is_the_programs && self.command.program().is_some() {
            if self.running.stop() {
                desk.problem(Problem::new(wording::CANNOT_RUN).naming(program).because(cause));
                desk.problem(Problem::new(wording::OTHERS_NOT_RUN).as_warning());
            }
            return Ran::Nothing;
        }
        let path = paths.first().cloned().unwrap_or_default();
        let problem = if program == path {
            Problem::new(wording::CANNOT_RUN).naming(program)
        } else {
            Problem::new(wording::CANNOT_RUN_FOR).naming(program).naming(path)
        };
        desk.problem(problem.because(cause));
        let result = Result::not_started();
        self.halt_after(&result);
        Ran::Ended(result)
    }
}
