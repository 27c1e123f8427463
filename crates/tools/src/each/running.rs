//! Running a command, and ending those that run when one has failed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_flow::{Desk, Problem};
use haul_sys::{Leash, Started};

use super::Runner;
use super::command::quoted;
use super::options::Halt;
use super::results::Result;
use super::wording;

/// The commands that run.
#[derive(Default)]
pub(super) struct Running {
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
    /// Begins no more commands, and ends those that run if it is to be now.
    pub(super) fn halt(&self) {
        self.running.stop();
        if self.options.halt == Halt::Now {
            self.running.end_all();
        }
    }

    /// Runs the command for some paths, of which the first names it in messages. `None` if it did not come to that: nothing
    /// more is to be begun, or it cannot be started, which is reported.
    pub(super) fn run(
        &self,
        desk: &Desk<'_, Self>,
        paths: &[Vec<u8>],
        input: Option<&[u8]>,
    ) -> Option<Result> {
        if self.running.is_stopped() {
            return None;
        }
        let words = self.command.for_paths(paths);
        if self.options.dry_run {
            let words: Vec<_> = words.iter().map(|word| quoted(word.as_encoded_bytes())).collect();
            let output = [words.join(&b' ').as_slice(), b"\n"].concat();
            return Some(Result { output, ..Result::default() });
        }
        let started = match Started::begin(&words, input.is_some()) {
            Ok(started) => started,
            Err(cause) => {
                // Nor could any other: one message is enough.
                if self.running.stop() {
                    let program = words.first().map(|word| word.as_encoded_bytes().to_vec());
                    let problem = Problem::new(wording::CANNOT_RUN).naming(program.unwrap_or_default());
                    desk.problem(problem.because(cause));
                }
                return None;
            }
        };
        let number = (self.options.halt == Halt::Now).then(|| self.running.keep(&started)).flatten();
        let ended = started.finish(input.unwrap_or_default());
        self.running.forget(number);
        match ended {
            Ok(ended) => {
                let result = Result::of(ended);
                if !result.failures.is_empty() && self.options.halt != Halt::Never {
                    if !self.running.is_stopped() {
                        desk.call_off();
                    }
                    self.halt();
                }
                Some(result)
            }
            Err(cause) => {
                let path = paths.first().cloned().unwrap_or_default();
                desk.problem(Problem::new(wording::CANNOT_HEAR).naming(path).because(cause));
                None
            }
        }
    }
}
