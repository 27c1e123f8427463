//! The console: the library's [`Report`] for a person at a terminal, or for the logs.
//!
//! Counts are added up, problems are written to standard error as they come, lines of `--verbose` go to standard output.
//! Workers call from many threads: each message is one `write(2)`, so messages never mix.
//!
//! Invariant: a problem of severity `Error` leaves exit status 1, whatever the run returns (test:
//! `errors_fail_the_run_and_warnings_do_not`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use haul_flow::{Line, Problem, Report, RunInfo, Severity, Standard, Tally};

use crate::flags::When;
use crate::messages::Messages;
use crate::output::{self, Output};
use crate::progress::{Progress, Source, Whole};

/// What a run has counted, shared with the thread that shows it.
#[derive(Default)]
pub(crate) struct Counters {
    done: Mutex<Tally>,
    whole: OnceLock<Whole>,
}

impl Source for Counters {
    fn done(&self) -> Tally {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn whole(&self) -> Option<Whole> {
        self.whole.get().copied()
    }
}

/// Where a run reports to. `W` is standard output.
pub(crate) struct Console<W = output::Standard> {
    messages: Messages,
    output: Output<W>,
    counters: Arc<Counters>,
    progress: Option<Progress>,
    problems: AtomicU64,
    means: Mutex<Option<RunInfo>>,
    failed: AtomicBool,
    debug: bool,
}

impl<W: Write> Console<W> {
    /// Makes a console that shows no progress.
    pub(crate) fn new(messages: Messages, output: Output<W>) -> Self {
        Self {
            messages,
            output,
            counters: Arc::default(),
            progress: None,
            problems: AtomicU64::new(0),
            means: Mutex::default(),
            failed: AtomicBool::new(false),
            debug: false,
        }
    }

    /// Listens to remarks of `--debug`.
    pub(crate) fn with_debug(mut self, debug: bool) -> Self {
        self.debug = debug;
        self
    }

    /// Shows progress if it is wanted where standard error goes.
    pub(crate) fn with_progress(mut self, when: When) -> Self {
        self.progress = Progress::begin(when, Arc::clone(&self.counters) as Arc<dyn Source>);
        self
    }

    /// Tells whether progress is shown, or will be.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Returns where the run's figures can be read.
    pub(crate) fn figures(&self) -> Arc<dyn Source> {
        Arc::clone(&self.counters) as Arc<dyn Source>
    }

    /// Takes the figures of a run that is somewhere else.
    pub(crate) fn set_done(&self, done: Tally) {
        *self.counters.done.lock().unwrap_or_else(PoisonError::into_inner) = done;
    }

    /// Finds out how much there is to do, by `count`, once progress is shown: waits for that, or for the end of the run.
    /// `count` is given what turns true when the run is over.
    pub(crate) fn count_ahead(&self, count: impl FnOnce(&AtomicBool) -> Option<Whole>) {
        let Some(progress) = &self.progress else { return };
        if progress.wait_until_shown()
            && let Some(whole) = count(progress.over())
        {
            self.counters.whole.get_or_init(|| whole);
        }
    }

    /// Takes the progress away, when the run is over.
    pub(crate) fn end_progress(&self) {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
    }

    /// Returns what was counted, and how many problems were told of.
    pub(crate) fn counted(&self) -> (Tally, u64) {
        (self.counters.done(), self.problems.load(Ordering::Relaxed))
    }

    /// Returns what the run worked with, if it came that far.
    pub(crate) fn means(&self) -> Option<RunInfo> {
        *self.means.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a line beside standard output, where that has something else.
    pub(crate) fn line_aside(&self, line: &Line) {
        self.complain(&self.messages.line(line));
    }

    /// Makes the run a failed one.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Tells of operands that make no sense.
    pub(crate) fn wrong_operands(&self, problem: &Problem) {
        self.fail();
        self.complain(&self.messages.wrong_operands(problem));
    }

    /// Writes whole lines to standard output.
    pub(crate) fn tell(&self, lines: &[u8]) {
        // A terminal shows both streams, so that the bar must go for the lines too.
        match &self.progress {
            Some(progress) if self.output.is_terminal() => progress.beside(|| self.output.write(lines)),
            _ => self.output.write(lines),
        }
    }

    /// Writes to standard output what is to be seen now.
    pub(crate) fn tell_now(&self, bytes: &[u8]) {
        self.tell(bytes);
        self.output.flush();
    }

    /// Tells whether standard output takes nothing any more, of which the user hears in the end.
    pub(crate) fn has_lost_output(&self) -> bool {
        self.output.has_failed()
    }

    /// Tells of something that is neither a problem nor for `--debug` only.
    pub(crate) fn remark(&self, text: &str) {
        self.complain(&self.messages.debug(text));
    }

    /// Writes whole lines to standard error, at once.
    pub(crate) fn complain(&self, lines: &[u8]) {
        let told = match &self.progress {
            Some(progress) => progress.beside(|| complain(lines)),
            None => complain(lines),
        };
        if !told {
            self.fail();
        }
    }

    /// Writes what waits, and returns the exit status of a run that has no other than success and failure.
    pub(crate) fn finish(self) -> ExitCode {
        if self.finish_with_trouble() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Writes what waits; tells whether anything went wrong.
    pub(crate) fn finish_with_trouble(self) -> bool {
        self.end_progress();
        if let Err(error) = self.output.finish() {
            complain(&self.messages.output_lost(&error));
            return true;
        }
        self.failed.into_inner()
    }
}

/// Writes whole lines to standard error, at once and in one call, so that lines of several threads do not mix. Returns
/// whether it could: there is nobody left to tell that nobody can be told, but the exit status says that something failed.
pub(crate) fn complain(lines: &[u8]) -> bool {
    !haul_sys::was_closed(haul_sys::Standard::Error) && io::stderr().write_all(lines).is_ok()
}

/// Reads a line from standard input; tells whether it begins with a yes. The end of the input is a no.
///
/// What follows the line is left for whoever reads next: another question, or another program.
fn read_answer() -> bool {
    let Ok(descriptor) = io::stdin().as_fd().try_clone_to_owned() else { return false };
    let mut input = File::from(descriptor);
    let (mut first, mut byte) = (None, [0]);
    loop {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => first = first.or(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    matches!(first, Some(b'y' | b'Y'))
}

impl<W: Write + Send> Report for Console<W> {
    fn started(&self, info: RunInfo) {
        *self.means.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
    }

    fn count(&self, more: Tally) {
        *self.counters.done.lock().unwrap_or_else(PoisonError::into_inner) += more;
    }

    fn problem(&self, problem: Problem) {
        self.problems.fetch_add(1, Ordering::Relaxed);
        if problem.severity == Severity::Error {
            self.fail();
        }
        self.complain(&self.messages.problem(&problem));
    }

    fn line(&self, line: Line) {
        self.tell(&self.messages.line(&line));
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        match stream {
            Standard::Output => self.tell(bytes),
            Standard::Error => self.complain(bytes),
        }
    }

    fn ask(&self, question: &Line) -> bool {
        self.output.flush();
        self.complain(&self.messages.question(question));
        read_answer()
    }

    fn note(&self, printed: &[u8]) {
        if self.debug {
            self.complain(printed);
        }
    }

    fn debug(&self, text: &str) {
        if self.debug {
            self.complain(&self.messages.debug(text));
        }
    }

    fn wants_debug(&self) -> bool {
        self.debug
    }
}

#[cfg(test)]
mod tests {
    use haul_flow::Wording;

    use super::*;
    use crate::messages::Charset;

    fn console() -> Console<Vec<u8>> {
        Console::new(Messages::new("cp", Charset::Utf8), Output::new(Vec::new(), false))
    }

    #[test]
    fn counts_of_many_workers_add_up() {
        let console = console();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        console.count(Tally { files: 1, bytes: 10, ..Tally::default() });
                    }
                });
            }
        });
        assert_eq!(console.counted(), (Tally { files: 400, bytes: 4000, ..Tally::default() }, 0));
    }

    #[test]
    fn errors_fail_the_run_and_warnings_do_not() {
        let warned = console();
        warned.problem(Problem::new(Wording("(a warning of the test of warnings)")).as_warning());
        assert_eq!(warned.counted().1, 1);
        assert_eq!(warned.finish(), ExitCode::SUCCESS);
        let failed = console();
        failed.problem(Problem::new(Wording("(an error of the test of errors)")));
        assert_eq!(failed.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn a_run_whose_output_is_lost_has_failed() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let console = Console::new(Messages::new("cp", Charset::Utf8), Output::new(full, false));
        console.line(Line { wording: Wording("{} -> {}"), names: vec![b"a".to_vec(), b"b".to_vec()] });
        assert_eq!(console.finish(), ExitCode::FAILURE);
    }
}
