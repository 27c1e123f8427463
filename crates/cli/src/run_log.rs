//! Logs of a run: `--events` for programs, `--log-file` for people.
//!
//! Invariant: neither changes what the run does. A failure to write is reported once and sets the
//! exit status (test: `cli/tests/events.rs`).

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_flow::{EntryReport, Problem, lock};
use haul_sys::Identity;

use crate::events::{Events, ProgressTick};
use crate::line_file::{Destination, LineFile, OldLines};
use crate::messages::Messages;
use crate::statistics::Statistics;
use crate::task::RunOptions;
use crate::timestamp::TimestampClock;

/// Maximum time that lines of `--verbose` wait for others.
const VERBOSE_WAIT_MAX: Duration = Duration::from_secs(1);

/// The requested logs of a run: events, a log file, or both.
#[derive(Default)]
pub(crate) struct RunLog {
    events: Option<Events>,
    log_file: Option<LogFile>,
}

impl RunLog {
    /// Opens the requested logs, and writes their first lines. `operands` are the paths that the
    /// run works on.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn begin(
        run_options: &RunOptions,
        messages: &Messages,
        operands: &[&CStr],
    ) -> Result<Self, String> {
        let open = |what: &str, destination: &Destination, old_lines| {
            LineFile::open(destination, old_lines, operands)
                .map_err(|why| format!("cannot write {what} to {}: {why}", shown(destination)))
        };
        let events = run_options.events.as_ref().map(|events| open("events", events, OldLines::Replaced));
        let events = events.transpose()?.map(Events::new);
        let log_file = run_options.log_file.as_ref().map(|path| {
            let destination = Destination::File(path.clone());
            open("the log", &destination, OldLines::Kept).map(|file| LogFile::new(file, path.clone()))
        });
        let log_file = log_file.transpose()?;
        if events.is_none() && log_file.is_none() {
            return Ok(Self::default());
        }
        let command: Vec<OsString> = std::env::args_os().collect();
        if let Some(events) = &events {
            events.start(&command, operands);
        }
        if let Some(log_file) = &log_file {
            log_file.add(&[b"started: ", messages.command(&command).as_slice()].concat(), Flush::Now);
        }
        Ok(Self { events, log_file })
    }

    /// True if anything is recorded.
    pub(crate) fn is_wanted(&self) -> bool {
        self.events.is_some() || self.log_file.is_some()
    }

    /// True if each entry is to be reported.
    pub(crate) fn wants_entries(&self) -> bool {
        self.events.is_some()
    }

    /// Returns the identities of its files, which the run must not delete.
    pub(crate) fn identities(&self) -> impl Iterator<Item = Identity> {
        let events = self.events.as_ref().and_then(Events::identity);
        events.into_iter().chain(self.log_file.as_ref().and_then(LogFile::identity))
    }

    /// Records the outcome of an entry.
    pub(crate) fn entry(&self, entry: &EntryReport) {
        if let Some(events) = &self.events {
            events.entry(entry);
        }
    }

    /// Records a problem. `message` is the text for the user, which is also passed to
    /// [`RunLog::shown`].
    pub(crate) fn problem(&self, problem: &Problem, message: &[u8]) {
        if let Some(events) = &self.events {
            events.problem(problem, message);
        }
    }

    /// Records that standard output could not be written, which `message` says.
    pub(crate) fn output_lost(&self, message: &[u8]) {
        if let Some(events) = &self.events {
            events.output_lost(message);
        }
        self.shown(message);
    }

    /// Records the progress of the run.
    pub(crate) fn progress(&self, tick: &ProgressTick) {
        if let Some(events) = &self.events {
            events.progress(tick);
        }
    }

    /// Records lines that are shown on standard error.
    pub(crate) fn shown(&self, lines: &[u8]) {
        if let Some(log_file) = &self.log_file {
            log_file.add(lines, Flush::Now);
        }
    }

    /// Records a line of `--verbose`.
    pub(crate) fn verbose(&self, line: &[u8]) {
        if let Some(log_file) = &self.log_file {
            log_file.add(line, Flush::Later);
        }
    }

    /// Writes the last lines.
    pub(crate) fn end(&self, status: u8, statistics: &Statistics) {
        if let Some(events) = &self.events {
            events.end(status, statistics);
        }
        if let Some(log_file) = &self.log_file {
            let text = format!("finished: exit status: {status}, {}", statistics.summary());
            log_file.add(text.as_bytes(), Flush::Now);
        }
    }

    /// Reports each error of a write once, as a sentence. Returns true if there was one.
    pub(crate) fn report_failures(&self, report: impl Fn(&str)) -> bool {
        let failures = std::iter::from_fn(|| self.take_failure());
        failures.inspect(|why| report(why)).count() > 0
    }

    fn take_failure(&self) -> Option<String> {
        let of_events = self.events.as_ref().and_then(Events::take_failure);
        let of_events = of_events.map(|cause| format!("cannot write events: {cause}"));
        of_events.or_else(|| {
            let log_file = self.log_file.as_ref()?;
            let cause = lock(&log_file.state).file.take_failure()?;
            Some(format!("cannot write to {}: {cause}", shown(&Destination::File(log_file.path.clone()))))
        })
    }
}

/// When a line of the log file is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    Now,
    /// With other lines, a second later at most if there are any.
    Later,
}

/// The file of `--log-file`.
struct LogFile {
    path: PathBuf,
    state: Mutex<LogState>,
}

struct LogState {
    file: LineFile,
    clock: TimestampClock,
    /// When lines were last written.
    written: Instant,
}

impl LogFile {
    fn new(file: LineFile, path: PathBuf) -> Self {
        let state = LogState { file, clock: TimestampClock::default(), written: Instant::now() };
        Self { path, state: Mutex::new(state) }
    }

    fn identity(&self) -> Option<Identity> {
        lock(&self.state).file.identity()
    }

    /// Adds lines, each with the time.
    fn add(&self, lines: &[u8], flush: Flush) {
        let LogState { file, clock, written } = &mut *lock(&self.state);
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        file.add(|buffer| {
            let (time, _) = clock.now();
            for line in lines.split(|byte| *byte == b'\n') {
                buffer.extend_from_slice(time.as_bytes());
                buffer.extend_from_slice(b"Z ");
                buffer.extend_from_slice(line);
                buffer.push(b'\n');
            }
        });
        if flush == Flush::Now || written.elapsed() >= VERBOSE_WAIT_MAX {
            file.flush();
            *written = Instant::now();
        }
    }
}

fn shown(destination: &Destination) -> String {
    match destination {
        Destination::File(path) => {
            format!("'{}'", String::from_utf8_lossy(path.as_os_str().as_bytes()).escape_debug())
        }
        Destination::Descriptor(number, _) => format!("descriptor {number}"),
    }
}
