//! `--events`: the events of a run, as JSON Lines for programs. `docs/events.md` has the meaning of
//! each event, and `docs/events.schema.json` the schema.
//!
//! Events about single files are written in batches, at the latest with the next `progress` event;
//! all others at once.
//!
//! Invariant: every line has the form that the schema says (test: `cli/tests/events.rs`).

use std::borrow::Cow;
use std::ffi::{CStr, OsString};
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haul_flow::{EntryOutcome, EntryReport, Problem, Severity, Tally, lock};
use haul_sys::{Error, Identity};
use serde::Serialize;

use crate::line_file::LineFile;
use crate::progress::Total;
use crate::statistics::Statistics;
use crate::timestamp::TimestampClock;

/// Version of the schema. It changes when programs written for the last one could go wrong; a new
/// member or event is no such change.
const SCHEMA: u32 = 1;

/// A line, without its time.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum EventRecord<'a> {
    Start {
        schema: u32,
        version: &'static str,
        process: u32,
        command: Vec<Cow<'a, str>>,
        operands: Vec<Operand<'a>>,
    },
    File(FileEvent<'a>),
    Warning(ProblemRecord<'a>),
    Error(ProblemRecord<'a>),
    Progress {
        seconds: f64,
        found: u64,
        finished: u64,
        files: u64,
        bytes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total_entries: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        total_bytes: Option<u64>,
        waits_for_room: bool,
    },
    End {
        status: u8,
        statistics: &'a Statistics,
    },
}

#[derive(Serialize)]
struct EventLine<'a> {
    time: String,
    #[serde(flatten)]
    event: &'a EventRecord<'a>,
}

#[derive(Serialize)]
struct Operand<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_b64: Option<String>,
}

/// An entry and its outcome.
#[derive(Serialize)]
struct FileEvent<'a> {
    status: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// A warning or error.
#[derive(Serialize)]
struct ProblemRecord<'a> {
    kind: Cow<'a, str>,
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
}

/// Progress of a run at one moment.
pub(crate) struct ProgressTick {
    pub(crate) elapsed: Duration,
    pub(crate) done: Tally,
    pub(crate) total: Option<Total>,
    pub(crate) waits_for_room: bool,
}

/// When an event is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Now,
    /// With the next event, at the latest.
    Later,
}

/// The file that gets the events of a run. Called from all workers at once.
pub(crate) struct Events(Mutex<EventWriter>);

struct EventWriter {
    file: LineFile,
    clock: TimestampClock,
}

impl Events {
    pub(crate) fn new(file: LineFile) -> Self {
        Self(Mutex::new(EventWriter { file, clock: TimestampClock::default() }))
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        lock(&self.0).file.identity()
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.0).file.take_failure()
    }

    pub(crate) fn start(&self, command: &[OsString], operands: &[&CStr]) {
        let operand = |name: &&'_ CStr| Vec::from(name.to_bytes());
        let operands: Vec<_> = operands.iter().map(operand).collect();
        self.write(
            Urgency::Now,
            &EventRecord::Start {
                schema: SCHEMA,
                version: env!("CARGO_PKG_VERSION"),
                process: std::process::id(),
                command: command.iter().map(|word| word.to_string_lossy()).collect(),
                operands: operands.iter().map(|name| named(name)).map(Operand::from).collect(),
            },
        );
    }

    pub(crate) fn entry(&self, entry: &EntryReport) {
        let (status, kind) = status_and_kind(entry.outcome);
        let (path, path_b64) = named(&entry.path);
        let (target, target_b64) = entry.target.as_deref().map_or((None, None), named);
        let file = FileEvent { status, kind, path, path_b64, target, target_b64, bytes: entry.bytes };
        self.write(Urgency::Later, &EventRecord::File(file));
    }

    /// Reports a problem. `message` is the text for the user.
    pub(crate) fn problem(&self, problem: &Problem, message: &[u8]) {
        let (path, path_b64) = problem.names.first().map_or((None, None), |name| named(name));
        let cause = problem.cause.as_ref();
        let record = ProblemRecord {
            kind: problem.kind.to_string().into(),
            message: one_line(message),
            path,
            path_b64,
            call: cause.map(|cause| cause.operation().name()),
            errno: cause.map(|cause| cause.errno().raw_os_error()),
            host: problem.host.as_deref(),
        };
        let event = match problem.severity {
            Severity::Warning => EventRecord::Warning(record),
            Severity::Error => EventRecord::Error(record),
        };
        self.write(Urgency::Now, &event);
    }

    /// Reports that standard output could not be written.
    pub(crate) fn output_lost(&self, message: &[u8]) {
        let record = ProblemRecord {
            kind: "output-lost".into(),
            message: one_line(message),
            path: None,
            path_b64: None,
            call: None,
            errno: None,
            host: None,
        };
        self.write(Urgency::Now, &EventRecord::Error(record));
    }

    pub(crate) fn progress(&self, tick: &ProgressTick) {
        let ProgressTick { elapsed, done, total, waits_for_room } = *tick;
        self.write(
            Urgency::Now,
            &EventRecord::Progress {
                seconds: elapsed.as_secs_f64(),
                found: done.discovered,
                finished: done.finished,
                files: done.files,
                bytes: done.bytes,
                total_entries: total.map(|total| total.entries),
                total_bytes: total.map(|total| total.bytes),
                waits_for_room,
            },
        );
    }

    pub(crate) fn end(&self, status: u8, statistics: &Statistics) {
        self.write(Urgency::Now, &EventRecord::End { status, statistics });
    }

    fn write(&self, urgency: Urgency, event: &EventRecord<'_>) {
        let EventWriter { file, clock } = &mut *lock(&self.0);
        file.add(|buffer| {
            let (time, milliseconds) = clock.now();
            let time = format!("{time}.{milliseconds:03}Z");
            // Nothing in an event can't be serialized, and writing to memory can't fail.
            serde_json::to_writer(&mut *buffer, &EventLine { time, event }).unwrap_or_default();
            buffer.push(b'\n');
        });
        if urgency == Urgency::Now {
            file.flush();
        }
    }
}

impl<'a> From<(Option<&'a str>, Option<String>)> for Operand<'a> {
    fn from((path, path_b64): (Option<&'a str>, Option<String>)) -> Self {
        Self { path, path_b64 }
    }
}

/// Returns a name as text, or in Base64 if it isn't UTF-8.
fn named(name: &[u8]) -> (Option<&str>, Option<String>) {
    match str::from_utf8(name) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(BASE64_STANDARD.encode(name))),
    }
}

fn one_line(message: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(message.strip_suffix(b"\n").unwrap_or(message))
}

/// Returns the status of an entry, and its type if entries of that type are counted.
fn status_and_kind(outcome: EntryOutcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        EntryOutcome::File => ("done", Some("file")),
        EntryOutcome::Directory => ("done", Some("directory")),
        EntryOutcome::Symlink => ("done", Some("symlink")),
        EntryOutcome::Special => ("done", Some("special")),
        EntryOutcome::HardLink => ("done", Some("hard_link")),
        EntryOutcome::Skipped => ("skipped", None),
        EntryOutcome::Unchanged => ("unchanged", None),
        EntryOutcome::Mended => ("mended", None),
        EntryOutcome::Deleted => ("deleted", None),
        EntryOutcome::Verified => ("verified", None),
    }
}
