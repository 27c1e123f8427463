//! One input and its output, from open to close.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{Context, Entry, EntryOutcome, EntryReport, FlowKind, Problem, Tally, Tool, lock};
use haul_sys::{Errno, Error, Fd, Stat, remove, stat_path};

use super::input::JobInput;
use super::options::{Action, CORRUPT, TROUBLE};
use super::output::{JobOutput, WholeFile};
use super::{Bzip2, Bzip2Kind};
use haul_bzip2_codec::unpack::Stop;

/// Exit status that a shell reports for SIGPIPE.
const NOBODY_READS: u8 = 128 + 13;

/// Second byte of a result: a failure, if there was one, was reported.
const REPORTED: u8 = 0;
/// Second byte of a result: a failure is to be recorded.
pub(super) const UNREPORTED: u8 = 1;

pub(super) const STANDARD_INPUT: &[u8] = b"(stdin)";

const STANDARD_OUTPUT: &[u8] = b"(stdout)";

pub(super) struct FileJob {
    pub(super) entry: Entry<Bzip2>,
    /// Their names in messages.
    pub(super) names: (Vec<u8>, Vec<u8>),
    input: Mutex<Option<JobInput>>,
    output: Mutex<Option<JobOutput>>,
    /// The input's directory and `stat`, if it is removed once the output is complete.
    replaced: Option<(Arc<Fd>, Stat)>,
    /// True if the job completes the entry itself.
    completes_entry: bool,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    /// True if no more input is wanted.
    stopped: AtomicBool,
    /// True if reading or writing failed and that was reported.
    failed: AtomicBool,
}

impl FileJob {
    /// Creates a job that leaves its input alone and writes to a stream or nowhere.
    pub(super) fn passing(entry: Entry<Bzip2>, name: Vec<u8>, input: JobInput, output: JobOutput) -> Self {
        Self::new(entry, (name, STANDARD_OUTPUT.to_vec()), (input, output), None)
    }

    /// Creates a job whose output replaces its input.
    pub(super) fn replacing(
        entry: Entry<Bzip2>,
        output_name: Vec<u8>,
        ends: (JobInput, JobOutput),
        replaced: (Arc<Fd>, Stat),
    ) -> Self {
        let name = entry.path();
        Self::new(entry, (name, output_name), ends, Some(replaced))
    }

    fn new(
        entry: Entry<Bzip2>,
        names: (Vec<u8>, Vec<u8>),
        (input, output): (JobInput, JobOutput),
        replaced: Option<(Arc<Fd>, Stat)>,
    ) -> Self {
        Self {
            entry,
            names,
            input: Mutex::new(Some(input)),
            output: Mutex::new(Some(output)),
            replaced,
            completes_entry: false,
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// Makes the job complete the entry when it ends; nobody else does.
    pub(super) fn settling(self) -> Self {
        Self { completes_entry: true, ..self }
    }

    /// Reads until `bytes` holds `wanted` bytes. Returns true at EOF, and `None` if the job
    /// was stopped.
    pub(super) fn read(&self, cx: &Context<'_, Bzip2>, bytes: &mut Vec<u8>, wanted: usize) -> Option<bool> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut input = lock(&self.input);
        let input = input.as_mut()?;
        match input.fill(bytes, wanted) {
            Ok(()) => Some(input.ended),
            Err(cause) => {
                self.fail(cx, FlowKind::ErrorReading, &self.names.0, cause);
                None
            }
        }
    }

    /// Counts input as processed.
    pub(super) fn took(&self, cx: &Context<'_, Bzip2>, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        cx.count(Tally { bytes: bytes as u64, ..Tally::default() });
    }

    /// Writes bytes, unless the job has failed.
    pub(super) fn write(&self, cx: &Context<'_, Bzip2>, bytes: &[u8]) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        self.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let output = lock(&self.output);
        match output.as_ref().map_or(Ok(()), |output| output.write(bytes)) {
            Ok(()) => {}
            // EPIPE is silent, like a death by SIGPIPE.
            Err(cause) if cause.is(Errno::PIPE) => {
                self.stop_reading();
                self.failed.store(true, Ordering::Relaxed);
                cx.emit(&self.entry, vec![NOBODY_READS, REPORTED]);
            }
            Err(cause) => self.fail(cx, FlowKind::ErrorWriting, &self.names.1, cause),
        }
    }

    pub(super) fn stop_reading(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn fail(&self, cx: &Context<'_, Bzip2>, kind: FlowKind, name: &[u8], cause: Error) {
        self.stop_reading();
        if !self.failed.swap(true, Ordering::Relaxed) {
            cx.problem(Problem::new(kind).naming(name).because(cause));
        }
    }

    pub(super) fn met_garbage(&self, cx: &Context<'_, Bzip2>) {
        if !cx.tool().options.quiet {
            cx.problem(Problem::new(Bzip2Kind::Garbage).naming(self.names.0.clone()).as_warning());
        }
    }

    /// Ends the job: closes both files and reports. `stop` is why decompression stopped early, if
    /// it did.
    pub(super) fn finish(&self, cx: &Context<'_, Bzip2>, stop: Option<Stop>) {
        let errors_before = cx.errors();
        let take = |input: &Mutex<Option<JobInput>>| lock(input).take();
        if let Some(Err(cause)) = take(&self.input).map(JobInput::close) {
            self.fail(cx, FlowKind::FailedToClose, &self.names.0, cause);
        }
        let output = lock(&self.output).take();
        let stands = stop.is_none() && !self.failed.load(Ordering::Relaxed);
        let ended = output.map_or(Some(None), |output| self.finish_output(cx, output, stands));
        match (stop, ended) {
            (Some(stop), _) if !self.failed.load(Ordering::Relaxed) => self.report_stop(cx, stop),
            (_, Some(whole)) if stands => self.is_done(cx, whole, errors_before),
            _ => {}
        }
        if self.completes_entry {
            cx.tool().is_over(cx);
            cx.complete(&self.entry);
        }
    }

    /// Closes the output, or removes it unless `stands`. Returns `None` on failure; otherwise the
    /// complete file, if the output is a file.
    fn finish_output(
        &self,
        cx: &Context<'_, Bzip2>,
        output: JobOutput,
        stands: bool,
    ) -> Option<Option<WholeFile>> {
        let outcome = match output {
            JobOutput::Nowhere => Ok(None),
            JobOutput::Stream(fd) => fd.close().map(|()| None),
            JobOutput::File(file) if stands => {
                if let Some(Err(cause)) = self.replaced.as_ref().map(|(_, stat)| file.keep(stat)) {
                    let problem = Problem::new(Bzip2Kind::CannotKeep).naming(self.names.0.clone());
                    cx.problem(problem.because(cause));
                }
                file.finish().map(Some)
            }
            JobOutput::File(file) => file.abandon().map(|()| None),
        };
        let reported = |cause| {
            // Report this even if something failed before.
            self.failed.store(false, Ordering::Relaxed);
            self.fail(cx, FlowKind::FailedToClose, &self.names.1, cause);
        };
        outcome.map_err(reported).ok()
    }

    /// Completes a job whose output stands: removes the input if the output replaces it. Counts it
    /// unless this worker has reported an error since it had reported `errors_before`.
    fn is_done(&self, cx: &Context<'_, Bzip2>, whole: Option<WholeFile>, errors_before: u64) {
        if let Some((directory, stat)) = &self.replaced
            && let Some(whole) = whole
            && !cx.tool().options.keep
        {
            self.remove_input(cx, (directory, stat), &whole);
        }
        if cx.errors() == errors_before {
            cx.count_entry(EntryOutcome::File, |outcome| EntryReport::new(outcome, self.names.0.clone()));
        }
        let options = &cx.tool().options;
        if options.verbosity > 0 {
            let what = match options.action {
                Action::Compress { .. } => self.ratio(),
                Action::Decompress => "done".to_owned(),
                Action::Test => "ok".to_owned(),
            };
            self.print_line(cx, 0, &what);
        }
    }

    fn remove_input(&self, cx: &Context<'_, Bzip2>, (directory, stat): (&Fd, &Stat), whole: &WholeFile) {
        let name = self.entry.name();
        let (input, output) = &self.names;
        // If the output is gone, the input may be the only copy left.
        let lost = match whole.is_there() {
            Ok(true) => None,
            Ok(false) => {
                Some(Problem::new(Bzip2Kind::OutputGone).naming(input.clone()).naming(output.clone()))
            }
            Err(cause) => Some(Problem::new(Bzip2Kind::CannotRemove).naming(input.clone()).because(cause)),
        };
        if let Some(problem) = lost {
            return cx.problem(problem);
        }
        // The check follows links as the open did. The removal takes the link itself.
        let follows = cx.tool().follow(&self.entry);
        let problem = match stat_path(Some(directory), name, follows) {
            Ok(now) if is_another(&now, stat) => Problem::new(Bzip2Kind::NotRemoved),
            looked => match looked.and_then(|_| remove(directory, name)) {
                Ok(()) => return,
                Err(cause) => Problem::new(Bzip2Kind::CannotRemove).because(cause),
            },
        };
        cx.problem(problem.naming(input.clone()));
    }

    /// Formats the compression ratio as bzip2 does.
    fn ratio(&self) -> String {
        let (read, written) =
            (self.bytes_read.load(Ordering::Relaxed), self.bytes_written.load(Ordering::Relaxed));
        if read == 0 {
            return " no data compressed.".to_owned();
        }
        let (from, to) = (read as f64, written as f64);
        format!(
            "{:6.3}:1, {:6.3} bits/byte, {:5.2}% saved, {read} in, {written} out.",
            from / to,
            8.0 * to / from,
            100.0 * (1.0 - to / from)
        )
    }

    fn report_stop(&self, cx: &Context<'_, Bzip2>, stop: Stop) {
        let options = &cx.tool().options;
        let is_test = options.action == Action::Test;
        if options.verbosity > 0 && (is_test || stop == Stop::Foreign) {
            let what = match stop {
                Stop::Foreign if is_test => "bad magic number (file not created by bzip2)",
                Stop::Foreign => "not a bzip2 file.",
                Stop::Ended => "file ends unexpectedly",
                Stop::Damaged => "data integrity (CRC) error in data",
            };
            return self.print_line(cx, CORRUPT, what);
        }
        if options.quiet && stop == Stop::Ended && !is_test {
            return cx.emit(&self.entry, vec![CORRUPT, UNREPORTED]);
        }
        let (input, output) = &self.names;
        let problem = match (stop, is_test) {
            (Stop::Foreign, false) => Problem::new(Bzip2Kind::NotBzip2),
            (Stop::Foreign, true) => Problem::new(Bzip2Kind::TestNotBzip2),
            (Stop::Ended, true) => Problem::new(Bzip2Kind::TestEnded),
            (Stop::Damaged, true) => Problem::new(Bzip2Kind::TestDamaged),
            (Stop::Ended, false) => Problem::new(Bzip2Kind::Ended),
            (Stop::Damaged, false) => Problem::new(Bzip2Kind::Damaged),
        };
        cx.problem(problem.naming(input.clone()).naming(output.clone()));
        cx.emit(&self.entry, vec![CORRUPT, REPORTED]);
    }

    /// Emits an exit status and a line that begins with the input's name.
    fn print_line(&self, cx: &Context<'_, Bzip2>, status: u8, what: &str) {
        let name = &self.names.0;
        let pad = " ".repeat(cx.tool().options.longest_name.saturating_sub(name.len()));
        let report = if status == 0 { REPORTED } else { UNREPORTED };
        let line = [b"  ".as_slice(), name, b": ", pad.as_bytes(), what.as_bytes(), b"\n"].concat();
        cx.emit(&self.entry, [&[status, report], line.as_slice()].concat());
    }
}

/// True if a name now refers to another file, or the file has changed.
fn is_another(now: &Stat, before: &Stat) -> bool {
    (now.identity, now.size, now.modified) != (before.identity, before.size, before.modified)
}

/// Reports an input that is skipped. Under `-q`, unimportant reasons only set the exit status.
pub(super) fn refuse(cx: &Context<'_, Bzip2>, entry: &Entry<Bzip2>, problem: Problem, important: bool) {
    if important || !cx.tool().options.quiet {
        cx.problem(problem);
    } else {
        cx.emit(entry, vec![TROUBLE, UNREPORTED]);
    }
}

pub(super) fn c_name(name: Vec<u8>) -> CString {
    // File names come from the kernel and contain no NUL.
    CString::new(name).unwrap_or_default()
}
