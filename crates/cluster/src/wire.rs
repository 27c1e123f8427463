//! The messages, as types: between ranks ([`Message`]), and over the link between launch process and rank 0
//! ([`ToMaster`], [`ToLaunch`]).
//!
//! All processes of a run are of one build, so messages have no versions: before anything else a process learns the build of the
//! launch process ([`PackedInit`]), and says so if its own is another. What cannot be read is an error that ends the job.

use std::collections::HashMap;
use std::ffi::CString;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_flow::{Config, Line, Problem, Severity, Tally, Wording};
use haul_sys::{Errno, Error, Operation, Standard};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::build;
use crate::item::ItemOutcome;
use crate::remote_path::RemotePath;
use crate::schedule::{CountedBy, FileId, ItemId};
use crate::stamp::Stamp;
use crate::transport::Rank;

/// A init-message on its way.
///
/// Invariant: this type, [`Hello`], and the places of their variants in [`Message`] and [`ToMaster`] never change, so that
/// processes of different builds understand that they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackedInit {
    /// The launch process's build.
    build: String,
    /// The init-message, as that build writes it.
    init_message: Vec<u8>,
}

impl PackedInit {
    /// Packs a init-message of this build.
    #[must_use]
    pub fn new(init_message: &InitMessage) -> Self {
        Self { build: build::own().to_owned(), init_message: pack(init_message) }
    }

    /// Unpacks the init-message.
    ///
    /// # Errors
    /// Why this process cannot do its part: it is another build.
    pub fn unpack(&self) -> Result<InitMessage, String> {
        if self.build != build::own() {
            return Err(build::mismatch(&self.build, build::own()));
        }
        unpack(&self.init_message)
    }
}

/// What every process of a job is told first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InitMessage {
    /// The tool.
    pub tool: String,
    /// What it has to know.
    pub options: Vec<u8>,
    /// What of the machine is used.
    pub config: Config,
    /// The directory that relative names start from.
    pub working_directory: Vec<u8>,
    /// The rights that new files do not get.
    pub umask: u32,
    /// Directories that every process must see, and what it must find there.
    pub tokens: Vec<Token>,
    /// Which attempt this is, the first being 1.
    pub attempt: u32,
    /// Who counts the ranges of large files.
    pub leader_counts: bool,
    /// Whether what is moved of large files is on storage before that is reported.
    pub flushes: bool,
    /// The bytes of a range, if the user says.
    pub range_bytes: Option<u64>,
    /// Whether remarks are wanted.
    pub debug: bool,
    /// After how long a silent process is given up.
    pub silence: Duration,
}

/// A file that shows that a directory is the same one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    /// The directory.
    pub place: RemotePath,
    /// The file's name in it.
    pub name: CString,
}

/// What a process says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Its host.
    pub host: String,
    /// Its number there.
    pub process: u32,
    /// Why it cannot do its part, if it cannot.
    pub unfit: Option<String>,
}

/// A message between ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Master to all: what it is about.
    InitMessage(PackedInit),
    /// Any to the master: the answer.
    Hello(Hello),
    /// Master: do these parts.
    Parts(Vec<(ItemId, Vec<u8>)>),
    /// Master: move a range.
    Range {
        /// The file.
        file: FileId,
        /// Who leads it.
        leader: Rank,
        /// The range.
        range: Range<u64>,
        /// What the leader sent along: a part with a piece.
        ticket: Vec<u8>,
    },
    /// A member to a leader that counts: a range is over.
    Moved(RangeOver),
    /// Master to a leader that does not count: all ranges are over.
    RangesOver {
        /// The file.
        file: FileId,
        /// Whether all were moved.
        moved: bool,
    },
    /// Any to the master: what was done.
    Report(Box<Report>),
    /// Master to all: the tool has called the run off.
    CalledOff,
    /// Whoever has been silent for a while: still here.
    Alive,
    /// Master to all: the end.
    Stop,
    /// Any to the master: nothing more will come from here.
    Bye,
}

/// A part that is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ItemOver {
    /// The part.
    pub part: ItemId,
    /// What became of its entries.
    pub outcome: ItemOutcome,
    /// Whether nothing went wrong in it.
    pub flawless: bool,
    /// What went wrong in it.
    pub problems: Vec<PackedProblem>,
}

/// A large file that was begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileOpened {
    /// Its number.
    pub file: FileId,
    /// The part it was in.
    pub part: ItemId,
    /// Its name there.
    pub name: CString,
    /// Its bytes.
    pub size: u64,
    /// Bytes of a stripe; 0 where nothing is known.
    pub stripe_bytes: u64,
    /// Storage targets it lies on; 1 where nothing is known.
    pub stripes: u32,
    /// Ranges that an earlier attempt has moved.
    pub done: Vec<Range<u64>>,
    /// The tool's ticket.
    pub ticket: Vec<u8>,
    /// What a member needs: a part with a piece of no bytes.
    pub member: Vec<u8>,
}

/// A range that is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RangeOver {
    /// Who had it.
    pub rank: Rank,
    /// The file.
    pub file: FileId,
    /// The range.
    pub range: Range<u64>,
    /// How long it was moved.
    pub took: Duration,
    /// Whether all of it was.
    pub moved: bool,
    /// What went wrong with it.
    pub problems: Vec<PackedProblem>,
}

/// A large file that is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileOver {
    /// The file.
    pub file: FileId,
    /// Whether all went well.
    pub moved: bool,
    /// Its stamp, if it was in a journaled part.
    pub stamp: Stamp,
    /// What went wrong with it, but for its ranges.
    pub problems: Vec<PackedProblem>,
}

/// What a rank has done since the last report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Large files begun.
    pub opened: Vec<FileOpened>,
    /// Parts done.
    pub parts: Vec<ItemOver>,
    /// Ranges over.
    pub ranges: Vec<RangeOver>,
    /// Large files over.
    pub files: Vec<FileOver>,
    /// What the user is to be told.
    pub news: News,
    /// Whether the tool has called the run off.
    pub called_off: bool,
}

/// What the user is to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// Problems.
    pub problems: Vec<PackedProblem>,
    /// Lines of `--verbose`.
    pub lines: Vec<PackedLine>,
    /// Bytes for standard streams.
    pub output: Vec<(Standard, Vec<u8>)>,
    /// Remarks of `--debug`.
    pub remarks: Vec<String>,
    /// Counts.
    pub tally: Tally,
}

/// A problem on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedProblem {
    line: PackedLine,
    cause: Option<(String, String, i32)>,
    is_warning: bool,
}

/// A line on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedLine {
    wording: String,
    names: Vec<Vec<u8>>,
}

impl PackedProblem {
    /// Tells whether the exit status is affected.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !self.is_warning
    }
}

impl From<Problem> for PackedProblem {
    fn from(problem: Problem) -> Self {
        let cause = problem.cause.map(|cause| {
            (cause.operation().name().to_owned(), cause.arguments().to_owned(), cause.errno().raw_os_error())
        });
        let line = PackedLine { wording: problem.wording.0.to_owned(), names: problem.names };
        Self { line, cause, is_warning: problem.severity == Severity::Warning }
    }
}

impl From<&Line> for PackedLine {
    fn from(line: &Line) -> Self {
        Self { wording: line.wording.0.to_owned(), names: line.names.clone() }
    }
}

/// The sentences that came from other processes, each kept once: there are as many as the program has.
#[derive(Debug, Default)]
pub struct Sentences(Mutex<HashMap<String, Wording>>);

impl Sentences {
    fn wording(&self, text: String) -> Wording {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(text).or_insert_with_key(|text| Wording(String::leak(text.clone())))
    }

    /// Makes the line that was packed.
    pub fn line(&self, packed: PackedLine) -> Line {
        Line { wording: self.wording(packed.wording), names: packed.names }
    }

    /// Makes the problem that was packed; `host` is where it happened.
    pub fn problem(&self, packed: PackedProblem, host: &str) -> Problem {
        let Line { wording, names } = self.line(packed.line);
        let cause = packed.cause.map(|(operation, arguments, errno)| {
            let known = Operation::ALL.iter().find(|known| known.name() == operation);
            Error::new(*known.unwrap_or(&Operation::Read), arguments, Errno::from_raw_os_error(errno))
        });
        let severity = if packed.is_warning { Severity::Warning } else { Severity::Error };
        Problem { wording, names, cause, severity, host: Some(host.to_owned()) }
    }
}

/// Launch process to master.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToMaster {
    /// What it is about.
    InitMessage(PackedInit),
    /// A part to be done.
    Item {
        /// Its number.
        part: ItemId,
        /// What tells its directory from most others.
        directory: u64,
        /// How many entries it has.
        entries: u32,
        /// The packed part.
        body: Vec<u8>,
    },
    /// Nothing more is to be expected, but for what comes of what is being done.
    Closed,
    /// The tool has called the run off.
    CallOff,
    /// Still here.
    Alive,
    /// The end.
    Stop,
}

/// Master to launch process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToLaunch {
    /// Every rank is there and fit: their hosts, in their order, and the messages' carrier.
    Ready {
        /// The hosts.
        hosts: Vec<String>,
        /// What carries the messages.
        carrier: String,
    },
    /// The job cannot be done, as some hosts say.
    Unfit {
        /// Why, each with its host.
        reasons: Vec<(String, String)>,
    },
    /// What a rank has done.
    Report {
        /// The rank.
        rank: Rank,
        /// What.
        report: Box<Report>,
    },
    /// The messages stop, or a rank is silent: the job is over.
    Lost {
        /// What has happened, with the host's name.
        why: String,
    },
    /// A remark for `--debug`.
    Remark(String),
    /// Still here.
    Alive,
    /// The end: messages sent between ranks in all, as rank 0 has counted those it sent and received.
    Stopped {
        /// How many.
        messages: u64,
    },
}

/// Packs a message.
#[must_use]
pub fn pack(message: &impl Serialize) -> Vec<u8> {
    // Only types that refuse to be serialised fail, and these do not.
    postcard::to_allocvec(message).unwrap_or_default()
}

/// Unpacks a message.
///
/// # Errors
/// What is wrong with it.
pub fn unpack<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, String> {
    postcard::from_bytes(bytes).map_err(|error| format!("a message of {} bytes: {error}", bytes.len()))
}

/// Names the one who counts.
pub(crate) fn counted_by(leader_counts: bool) -> CountedBy {
    if leader_counts { CountedBy::Leader } else { CountedBy::Master }
}
