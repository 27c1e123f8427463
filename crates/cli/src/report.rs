//! The console: the library's [`Reporter`] for a person at a terminal, or for logs.
//!
//! Counts are added up, problems go to standard error as they come, and `--verbose` lines go to
//! standard output. Workers call it from many threads; each message is one `write(2)`, so messages
//! never mix.
//!
//! Invariant: a problem of severity `Error` leaves exit status 1, whatever the run returns
//! (test: `errors_fail_the_run_and_warnings_do_not`).

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haul_copy::CopyKind;
use haul_delete::DeleteKind;
use haul_flow::{
    EntryReport, FlowKind, OutputLine, Problem, Reporter, RunInfo, Severity, SlowRank, Standard, Tally, lock,
};
use haul_sys::{Errno, reason};
use signal_hook::consts::SIGPIPE;

use crate::cluster;
use crate::flags;
use crate::messages::Messages;
use crate::output::{self, LineSink};
use crate::progress::{FigureSource, ProgressDisplay, ProgressOptions, StatusLine, Total};
use crate::run_log::RunLog;
use crate::signals;

/// True if a file of the source was gone when it was to be copied, or if that is why something else
/// was not done.
fn is_of_vanished_file(problem: &Problem) -> bool {
    let is_gone = problem.cause.as_ref().is_some_and(|cause| cause.is(Errno::NOENT));
    let is_of_source = problem.kind == FlowKind::CannotStat
        || problem.kind == FlowKind::CannotAccess
        || problem.kind == CopyKind::CannotReadLink;
    (is_gone && is_of_source) || problem.kind == DeleteKind::AfterErrors
}

/// Prints the information requested instead of work: help, or the version.
pub(crate) fn print_information(messages: Messages, text: &str) -> ExitCode {
    let console = Console::new(messages, LineSink::standard());
    console.print(text.as_bytes());
    console.finish()
}

/// A run's counters, shared with the thread that shows them.
#[derive(Default)]
pub(crate) struct Counters {
    done: Mutex<Tally>,
    total: OnceLock<Total>,
    run_info: Mutex<Option<RunInfo>>,
    /// True while the run waits for free space.
    is_paused: AtomicBool,
    slow_ranks: Mutex<Vec<SlowRank>>,
}

impl FigureSource for Counters {
    fn done(&self) -> Tally {
        *lock(&self.done)
    }

    fn total(&self) -> Option<Total> {
        self.total.get().copied()
    }

    fn workers(&self) -> Option<usize> {
        lock(&self.run_info).map(|run_info| run_info.jobs)
    }

    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    fn slow_ranks(&self) -> Vec<SlowRank> {
        lock(&self.slow_ranks).clone()
    }
}

/// Receives a run's reports. `W` is standard output.
pub(crate) struct Console<W = output::Standard> {
    messages: Messages,
    output: LineSink<W>,
    counters: Arc<Counters>,
    progress: Option<Arc<ProgressDisplay>>,
    status_line: Option<StatusLine>,
    run_log: Arc<RunLog>,
    /// Records progress in the run log.
    recorder: Option<ProgressDisplay>,
    problems: AtomicU64,
    failed: AtomicBool,
    /// True if an error was reported that isn't about a file that has vanished.
    failed_otherwise: AtomicBool,
    /// True if the run log could not be written. Deletion continues.
    has_lost_log: AtomicBool,
    /// True if a copy was written to a pipe without a reader.
    is_unread: AtomicBool,
    debug: bool,
}

impl<W: Write + Send> Console<W> {
    /// Creates a console without progress.
    pub(crate) fn new(messages: Messages, output: LineSink<W>) -> Self {
        Self {
            messages,
            output,
            counters: Arc::default(),
            progress: None,
            status_line: None,
            run_log: Arc::default(),
            recorder: None,
            problems: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failed_otherwise: AtomicBool::new(false),
            has_lost_log: AtomicBool::new(false),
            is_unread: AtomicBool::new(false),
            debug: false,
        }
    }

    /// Enables `--debug` remarks.
    pub(crate) fn with_debug(mut self, debug: bool) -> Self {
        self.debug = debug;
        self
    }

    /// Shows progress, if the options ask for it where standard error goes.
    pub(crate) fn with_progress(mut self, options: ProgressOptions) -> Self {
        self.progress = ProgressDisplay::begin(options, self.figures()).map(Arc::new);
        self
    }

    /// Prints a status line at each `SIGUSR1`, if the command is one of haul's: for replacements of
    /// other programs, the signal keeps its default action.
    pub(crate) fn with_status_line(mut self) -> Self {
        if self.messages.stands_for().is_none() {
            let begun = StatusLine::begin(self.messages.clone(), self.figures(), self.progress.clone());
            match begun {
                Ok(status_line) => self.status_line = Some(status_line),
                Err(why) => Reporter::debug(&self, &format!("SIGUSR1 prints no status: {}", reason(&why))),
            }
        }
        self
    }

    /// Records all reports and the progress in `run_log`.
    pub(crate) fn with_run_log(mut self, run_log: Arc<RunLog>) -> Self {
        if run_log.wants_entries() {
            let source = Arc::clone(&self.counters) as Arc<dyn FigureSource>;
            self.recorder = Some(ProgressDisplay::in_run_log(Arc::clone(&run_log), source));
        }
        self.run_log = run_log;
        self
    }

    /// True if progress is or will be shown.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// True if the total is needed, because progress is shown or recorded.
    pub(crate) fn needs_total(&self) -> bool {
        self.progress.is_some() || self.recorder.is_some()
    }

    /// Returns the provider of the run's figures.
    pub(crate) fn figures(&self) -> Arc<dyn FigureSource> {
        Arc::clone(&self.counters) as Arc<dyn FigureSource>
    }

    /// Sets the counters from a run elsewhere.
    pub(crate) fn set_done(&self, done: Tally) {
        *lock(&self.counters.done) = done;
        self.watch();
    }

    /// Calls `count` for the total once progress is shown; returns without it if the run ends
    /// first. The flag passed to `count` is set when the run ends.
    pub(crate) fn count_total(&self, count: impl FnOnce(&AtomicBool) -> Option<Total>) {
        let Some(progress) = self.progress.as_deref().or(self.recorder.as_ref()) else { return };
        if progress.wait_until_shown()
            && let Some(total) = count(progress.over())
        {
            self.counters.total.get_or_init(|| total);
        }
    }

    /// Removes the progress display at the end of the run.
    pub(crate) fn end_progress(&self) {
        if let Some(status_line) = &self.status_line {
            status_line.end();
        }
        [self.progress.as_deref(), self.recorder.as_ref()]
            .into_iter()
            .flatten()
            .for_each(ProgressDisplay::finish);
    }

    fn watch(&self) {
        if let Some(status_line) = &self.status_line {
            status_line.watch();
        }
    }

    /// Returns the counters and the number of problems reported.
    pub(crate) fn counted(&self) -> (Tally, u64) {
        (self.counters.done(), self.problems.load(Ordering::Relaxed))
    }

    /// Returns engine and workers of the run, if it got that far.
    pub(crate) fn run_info(&self) -> Option<RunInfo> {
        *lock(&self.counters.run_info)
    }

    /// Prints a line on standard error, where standard output is otherwise used.
    pub(crate) fn line_on_stderr(&self, line: &OutputLine) {
        self.complain(&self.messages.line(line));
    }

    /// True if an error was reported.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// True if errors were reported, and all of them are about files that have vanished.
    pub(crate) fn has_only_vanished_files(&self) -> bool {
        self.has_failed() && !self.failed_otherwise.load(Ordering::Relaxed)
    }

    /// Marks the run as failed.
    pub(crate) fn fail(&self) {
        self.failed_otherwise.store(true, Ordering::Relaxed);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Reports invalid operands.
    pub(crate) fn wrong_operands(&self, problem: &Problem) {
        self.fail();
        self.problems.fetch_add(1, Ordering::Relaxed);
        self.run_log.problem(problem, &self.messages.problem(problem));
        self.complain(&self.messages.wrong_operands(problem));
    }

    /// Writes whole lines to standard output.
    pub(crate) fn print(&self, lines: &[u8]) {
        // A terminal shows both streams, so the bar must make way for these lines too.
        match &self.progress {
            Some(progress) if self.output.is_terminal() => progress.while_hidden(|| self.output.write(lines)),
            _ => self.output.write(lines),
        }
    }

    /// Writes to standard output and flushes.
    pub(crate) fn print_now(&self, bytes: &[u8]) {
        self.print(bytes);
        self.output.flush();
    }

    /// Prints a remark that is neither a problem nor for `--debug` only.
    pub(crate) fn remark(&self, text: &str) {
        self.complain(&self.messages.debug(text));
    }

    /// Writes whole lines to standard error, at once.
    pub(crate) fn complain(&self, lines: &[u8]) {
        self.run_log.shown(lines);
        self.show(lines);
        let is_lost = self.run_log.report_failures(|why| self.show(&self.messages.debug(why)));
        self.has_lost_log.fetch_or(is_lost, Ordering::Relaxed);
    }

    fn show(&self, lines: &[u8]) {
        let was_written = match &self.progress {
            Some(progress) => progress.while_hidden(|| complain(lines)),
            None => complain(lines),
        };
        if !was_written {
            self.fail();
        }
    }

    /// Flushes the output; returns the exit status of a run that only succeeds or fails.
    pub(crate) fn finish(self) -> ExitCode {
        let finish = self.finish_run();
        finish.end_unread();
        if finish.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Flushes the output.
    pub(crate) fn finish_run(self) -> Finish {
        self.end_progress();
        let is_unread = self.is_unread.into_inner();
        match self.output.finish() {
            Err(error) if is_unread || dies_of(&error) => {
                self.run_log.output_lost(&self.messages.output_lost(&error));
                Finish::Unread
            }
            Err(error) => {
                let message = self.messages.output_lost(&error);
                self.run_log.output_lost(&message);
                complain(&message);
                Finish::Failure
            }
            Ok(()) if is_unread => Finish::Unread,
            Ok(()) if self.failed.into_inner() || self.has_lost_log.into_inner() => Finish::Failure,
            Ok(()) => Finish::Success,
        }
    }
}

/// Result of a run, including its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// Nothing went wrong.
    Success,
    /// Something went wrong, and was reported.
    Failure,
    /// Nobody reads the output. C programs die of `SIGPIPE` then, without a message.
    Unread,
}

impl Finish {
    /// True if anything went wrong.
    pub(crate) fn is_failure(self) -> bool {
        self != Self::Success
    }

    /// Ends the program by `SIGPIPE` if nobody reads its output. Only at the end of a run: until
    /// then others may depend on it.
    pub(crate) fn end_unread(self) {
        if self == Self::Unread {
            signals::end_by(SIGPIPE);
        }
    }
}

/// True for an error that C programs never see, because `SIGPIPE` has ended them. False under an
/// MPI launcher, which would take that for a crash.
fn dies_of(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
        && haul_sys::ends_at_broken_pipe()
        && !cluster::is_under_launcher()
}

/// Reports a command-line error. A suggestion follows only on a terminal: scripts get GNU's exact
/// message.
pub(crate) fn complain_of_usage(messages: &Messages, error: &flags::FlagError) {
    let suggestion = if io::stderr().is_terminal() { messages.suggestion(error) } else { Vec::new() };
    complain(&[messages.wrong_flags(error), suggestion].concat());
}

/// Writes whole lines to standard error in one call, so that lines of several threads don't mix.
/// Returns false on failure, which can't be printed but must show in the exit status.
pub(crate) fn complain(lines: &[u8]) -> bool {
    let is_closed = haul_sys::was_closed(Standard::Error);
    // Not by `io::stderr`, which takes `EBADF` for success. Its lock keeps long messages apart.
    !is_closed && haul_sys::write_all_stream(io::stderr().lock(), lines).is_ok()
}

/// Reads a line from standard input; returns true if it begins with a yes. EOF is a no.
///
/// Reads one byte at a time, so that the rest is left for the next reader: another question, or
/// another program.
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

impl<W: Write + Send> Reporter for Console<W> {
    fn started(&self, info: RunInfo) {
        *lock(&self.counters.run_info) = Some(info);
    }

    fn count(&self, more: Tally) {
        *lock(&self.counters.done) += more;
        self.watch();
    }

    fn problem(&self, problem: Problem) {
        self.problems.fetch_add(1, Ordering::Relaxed);
        if problem.severity == Severity::Error {
            self.failed_otherwise.fetch_or(!is_of_vanished_file(&problem), Ordering::Relaxed);
            self.failed.store(true, Ordering::Relaxed);
        }
        let message = self.messages.problem(&problem);
        self.run_log.problem(&problem, &message);
        // A copy to a pipe, as in `cp file /dev/stdout | head`.
        let is_written_to = problem.kind == FlowKind::ErrorWriting;
        match problem.cause {
            Some(cause) if is_written_to && dies_of(&io::Error::from(cause.errno())) => {
                self.is_unread.store(true, Ordering::Relaxed);
            }
            _ => self.complain(&message),
        }
    }

    fn record(&self, problem: Problem) {
        self.problems.fetch_add(1, Ordering::Relaxed);
        self.run_log.problem(&problem, &self.messages.problem(&problem));
    }

    fn line(&self, line: OutputLine) {
        let text = self.messages.line(&line);
        self.run_log.verbose(&text);
        self.print(&text);
    }

    fn entry(&self, entry: EntryReport) {
        self.run_log.entry(&entry);
    }

    fn wants_entries(&self) -> bool {
        self.run_log.wants_entries()
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        match stream {
            Standard::Output => self.print(bytes),
            Standard::Error => self.complain(bytes),
        }
    }

    fn has_lost_output(&self) -> bool {
        self.output.has_failed()
    }

    fn ask(&self, question: &OutputLine) -> bool {
        self.output.flush();
        self.complain(&self.messages.question(question));
        read_answer()
    }

    fn slow_ranks(&self, slow: Vec<SlowRank>) {
        *lock(&self.counters.slow_ranks) = slow;
    }

    fn waits_for_room(&self, target: Option<&[u8]>) {
        // Relaxed: the display is drawn again soon.
        self.counters.is_paused.store(target.is_some(), Ordering::Relaxed);
        let message = match target {
            Some(target) => Problem::new(CopyKind::WaitsForRoom).naming(target),
            None => Problem::new(CopyKind::HasRoom),
        };
        // Not counted: nothing has gone wrong.
        self.complain(&self.messages.problem(&message));
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
    use haul_flow::FlowKind;

    use super::*;
    use crate::messages::Charset;
    use crate::output::FlushPolicy;

    fn console() -> Console<Vec<u8>> {
        Console::new(Messages::new("cp", Charset::Utf8), LineSink::new(Vec::new(), FlushPolicy::WhenFull))
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
        warned.problem(Problem::new(FlowKind::Replaced).as_warning());
        assert_eq!(warned.counted().1, 1);
        assert_eq!(warned.finish(), ExitCode::SUCCESS);
        let failed = console();
        failed.problem(Problem::new(FlowKind::ErrorWriting));
        assert_eq!(failed.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn files_that_have_vanished_are_distinguished_from_other_errors() {
        let because = |errno| haul_sys::Error::new(haul_sys::Operation::Openat, String::new(), errno);
        let console = console();
        assert!(!console.has_only_vanished_files());
        console.problem(Problem::new(FlowKind::CannotStat).because(because(Errno::NOENT)));
        console.problem(Problem::new(DeleteKind::AfterErrors));
        assert!(console.has_only_vanished_files());
        console.problem(Problem::new(FlowKind::CannotStat).because(because(Errno::ACCESS)));
        assert!(!console.has_only_vanished_files());
    }

    #[test]
    fn a_wait_for_room_is_shown_and_is_no_problem() {
        let console = console();
        console.waits_for_room(Some(b"target"));
        assert!(console.figures().is_paused());
        console.waits_for_room(None);
        assert!(!console.figures().is_paused());
        assert_eq!(console.counted().1, 0);
        assert_eq!(console.finish(), ExitCode::SUCCESS);
    }

    #[test]
    fn a_run_whose_output_is_lost_has_failed() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let console =
            Console::new(Messages::new("cp", Charset::Utf8), LineSink::new(full, FlushPolicy::WhenFull));
        console.line(OutputLine::new(CopyKind::Copied, vec![b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(console.finish(), ExitCode::FAILURE);
    }
}
