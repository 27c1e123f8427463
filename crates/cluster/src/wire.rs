//! Messages as types: between ranks ([`Message`]), and over the link between launch process and
//! rank 0 ([`ToMaster`], [`ToLaunch`]).
//!
//! All processes of a run are the same build, so messages have no versions. The first message names
//! the launch process's build ([`PackedInit`]), and a process whose own differs reports that. A
//! message that can't be decoded is an error that ends the job.

use std::ffi::CString;
use std::ops::Range;
use std::time::Duration;

use haul_flow::{
    Config, EntryReport, FlowKind, Kind, LimitValues, Load, OutputLine, Problem, Severity, Tally,
};
use haul_journal::Stamp;
use haul_sys::{Errno, Error, Operation, Standard};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::build;
use crate::error::{RankMismatch, Undecodable};
use crate::item::ItemOutcome;
use crate::kind::ClusterKind;
use crate::remote_path::RemotePath;
use crate::schedule::{CountedBy, FileId, ItemId};
use crate::transport::Rank;

/// An init message in transit.
///
/// Invariant: this type, [`Hello`], and the positions of their variants in [`Message`] and
/// [`ToMaster`] never change, so that processes of different builds can detect that they differ.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackedInit {
    /// Build of the launch process.
    build: String,
    /// The init message, as packed by that build.
    init_message: Vec<u8>,
}

impl PackedInit {
    /// Packs an init message of this build.
    #[must_use]
    pub fn new(init_message: &InitMessage) -> Self {
        Self { build: build::own().to_owned(), init_message: pack(init_message) }
    }

    /// Unpacks the init message.
    ///
    /// # Errors
    /// If this process is of another build, or the message can't be decoded.
    pub fn unpack(&self) -> Result<InitMessage, RankMismatch> {
        if self.build != build::own() {
            return Err(RankMismatch::OtherBuild {
                here: self.build.clone(),
                there: build::own().to_owned(),
            });
        }
        unpack(&self.init_message).map_err(RankMismatch::Undecodable)
    }
}

/// The first message to every process of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InitMessage {
    /// Name of the tool.
    pub tool: String,
    /// The tool's own init message.
    pub options: Vec<u8>,
    /// Use of the machine, and the selection.
    pub config: Config,
    /// Working directory, which relative names start from.
    pub working_directory: Vec<u8>,
    /// The umask.
    pub umask: u32,
    /// Token files in directories that every process must see.
    pub tokens: Vec<DirectoryToken>,
    /// Attempt number, starting at 1.
    pub attempt: u32,
    /// True if the leader of a large file counts its ranges; otherwise the master does.
    pub leader_counts: bool,
    /// True if ranges of large files must be on storage before they are reported.
    pub flushes: bool,
    /// Size of a range, in bytes, if the user set it.
    pub range_bytes: Option<u64>,
    /// True to send `--debug` output.
    pub debug: bool,
    /// True to send a report of each entry.
    pub reports_entries: bool,
    /// Time after which a silent process counts as lost.
    pub silence: Duration,
    /// Host of the launch process: ranks on other hosts live on a lease. `None` if the job is never
    /// restarted.
    pub lease_unless_on: Option<String>,
}

/// A file that identifies a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectoryToken {
    /// The directory.
    pub directory: RemotePath,
    /// Name of the file in it.
    pub name: CString,
}

/// A process's answer to the init message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Name of its host.
    pub host: String,
    /// Its process id on that host.
    pub process: u32,
    /// Why it can't take part, as [`RankMismatch`] prints it; `None` if it can.
    pub unfit: Option<String>,
}

/// A message between ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Master to all: the init message. Once ranks run a tool, another one ends it.
    InitMessage(PackedInit),
    /// Any rank to the master: answer to the init message.
    Hello(Hello),
    /// Master: process these work items.
    Items(Vec<(ItemId, Vec<u8>)>),
    /// Master: move a range.
    Range {
        /// The file.
        file: FileId,
        /// Its leader.
        leader: Rank,
        /// The range.
        range: Range<u64>,
        /// The leader's packed work item for members ([`FileOpened::member`]).
        ticket: Vec<u8>,
    },
    /// Member to a leader that counts: a range is complete.
    Moved(RangeDone),
    /// Master to a leader that does not count: all ranges are complete.
    RangesDone {
        /// The file.
        file: FileId,
        /// True if all of them were moved.
        moved: bool,
    },
    /// Any rank to the master: completed work.
    Report(Box<ProgressReport>),
    /// Master to all: the tool has cancelled the run.
    Cancelled,
    /// Any rank to the master: heartbeat, with the time of the sender's clock
    /// ([`haul_sys::since_boot`]).
    Alive(Duration),
    /// Master to all: shut down.
    Stop,
    /// Any rank to the master: the last message from this rank.
    Bye,
    /// Master to all: the limits have changed.
    Limits(LimitValues),
    /// Any rank to the master: its workers will need this much of the limits.
    Request(Load),
    /// Master: the limits allow this much of the requested load.
    Grant(Load),
    /// Master: answer to a heartbeat.
    Lease {
        /// The time in the heartbeat.
        sent_at: Duration,
        /// For how long the rank may live from that time.
        lasts: Duration,
    },
}

/// A completed work item.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ItemDone {
    /// The item.
    pub item: ItemId,
    /// Outcome of its entries.
    pub outcome: ItemOutcome,
    /// True if it had no errors.
    pub error_free: bool,
    /// Its problems.
    pub problems: Vec<PackedProblem>,
}

/// A newly announced large file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileOpened {
    /// Its number.
    pub file: FileId,
    /// The work item it was in.
    pub item: ItemId,
    /// Its name there.
    pub name: CString,
    /// Size, in bytes.
    pub size: u64,
    /// Size of a stripe, in bytes; 0 if unknown.
    pub stripe_bytes: u64,
    /// Number of storage targets; 1 if unknown.
    pub stripes: u32,
    /// Ranges moved by an earlier attempt.
    pub done: Vec<Range<u64>>,
    /// The tool's ticket.
    pub ticket: Vec<u8>,
    /// A packed work item with an empty range, for members to fill in.
    pub member: Vec<u8>,
}

/// A completed range.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RangeDone {
    /// The rank that moved it.
    pub rank: Rank,
    /// The file.
    pub file: FileId,
    /// The range.
    pub range: Range<u64>,
    /// Its share of the rank's time while the rank had it in hand.
    pub took: Duration,
    /// True if every byte was moved.
    pub moved: bool,
    /// How many of its bytes are counted here instead of in [`UserOutput::tally`].
    pub bytes: u64,
    /// The tool's result, for the leader
    /// ([`Distributed::finish_range`](crate::Distributed::finish_range)).
    pub result: Vec<u8>,
    /// Its problems.
    pub problems: Vec<PackedProblem>,
}

/// A completed large file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileDone {
    /// The file.
    pub file: FileId,
    /// True if it was copied completely.
    pub moved: bool,
    /// Its stamp, if it was in a journaled item.
    pub stamp: Stamp,
    /// Its results, in the order emitted.
    pub emitted: Vec<Vec<u8>>,
    /// Its problems, without those of its ranges.
    pub problems: Vec<PackedProblem>,
}

/// Progress of a rank since its last report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProgressReport {
    /// Large files announced.
    pub opened: Vec<FileOpened>,
    /// Work items completed.
    pub items: Vec<ItemDone>,
    /// Ranges completed.
    pub ranges: Vec<RangeDone>,
    /// Large files completed.
    pub files: Vec<FileDone>,
    /// Output for the user.
    pub user_output: UserOutput,
    /// True if the tool has cancelled the run.
    pub cancelled: bool,
}

/// Output for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserOutput {
    /// Problems.
    pub problems: Vec<PackedProblem>,
    /// Lines of `--verbose`.
    pub lines: Vec<PackedLine>,
    /// Entries counted, if the caller wants a report of each.
    pub entries: Vec<EntryReport>,
    /// Bytes for standard streams.
    pub output: Vec<(Standard, Vec<u8>)>,
    /// Lines of `--debug`.
    pub remarks: Vec<String>,
    /// Counts.
    pub tally: Tally,
}

/// A problem in transit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedProblem {
    line: PackedLine,
    cause: Option<(String, String, i32)>,
    is_warning: bool,
}

/// A line in transit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedLine {
    /// Name of the set that has the kind (such as "cluster"), and name of the kind.
    kind: (String, String),
    names: Vec<Vec<u8>>,
}

impl PackedProblem {
    /// True if the problem affects the exit status.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !self.is_warning
    }

    /// Unpacks a problem that occurred on `host`. `None` if its kind is unknown.
    #[must_use]
    pub fn unpack(self, known: KnownKinds, host: &str) -> Option<Problem> {
        let OutputLine { kind, names } = self.line.unpack(known)?;
        let cause = self.cause.map(|(operation, arguments, errno)| {
            let known = Operation::ALL.iter().find(|known| known.name() == operation);
            Error::new(*known.unwrap_or(&Operation::Read), arguments, Errno::from_raw_os_error(errno))
        });
        let severity = if self.is_warning { Severity::Warning } else { Severity::Error };
        Some(Problem { kind, names, cause, severity, host: Some(host.to_owned()) })
    }
}

impl From<Problem> for PackedProblem {
    fn from(problem: Problem) -> Self {
        let cause = problem.cause.map(|cause| {
            (cause.operation().name().to_owned(), cause.arguments().to_owned(), cause.errno().raw_os_error())
        });
        let line = PackedLine { kind: packed(problem.kind), names: problem.names };
        Self { line, cause, is_warning: problem.severity == Severity::Warning }
    }
}

impl PackedLine {
    /// Unpacks a line. `None` if its kind is unknown.
    #[must_use]
    pub fn unpack(self, known: KnownKinds) -> Option<OutputLine> {
        Some(OutputLine { kind: known.find(&self.kind)?, names: self.names })
    }
}

impl From<&OutputLine> for PackedLine {
    fn from(line: &OutputLine) -> Self {
        Self { kind: packed(line.kind), names: line.names.clone() }
    }
}

fn packed(kind: Kind) -> (String, String) {
    (kind.family().to_owned(), kind.name().to_owned())
}

/// The kinds that ranks may send: those of the framework, this crate, their tool, and the tool that
/// they ran before.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownKinds {
    now: &'static [Kind],
    before: &'static [Kind],
}

impl KnownKinds {
    /// Returns the kinds that ranks may send if their tool has these.
    #[must_use]
    pub fn of_tool(kinds: &'static [Kind]) -> Self {
        Self { now: kinds, before: &[] }
    }

    /// Records that the ranks change to a tool with these kinds. Reports of the previous tool may
    /// still arrive.
    pub fn change_to(&mut self, kinds: &'static [Kind]) {
        *self = Self { now: kinds, before: self.now };
    }

    fn find(self, (family, name): &(String, String)) -> Option<Kind> {
        let known = [self.now, self.before, FlowKind::KINDS, ClusterKind::KINDS];
        known.into_iter().flatten().find(|kind| kind.family() == family && kind.name() == name).copied()
    }
}

impl ProgressReport {
    /// Returns the first kind in the report that is not known.
    #[must_use]
    pub fn unknown_kind(&self, known: KnownKinds) -> Option<String> {
        let problems = (self.user_output.problems.iter())
            .chain(self.items.iter().flat_map(|over| &over.problems))
            .chain(self.ranges.iter().flat_map(|over| &over.problems))
            .chain(self.files.iter().flat_map(|over| &over.problems));
        let kinds = problems.map(|problem| &problem.line.kind);
        let mut kinds = kinds.chain(self.user_output.lines.iter().map(|line| &line.kind));
        let unknown = kinds.find(|kind| known.find(kind).is_none());
        unknown.map(|(family, name)| format!("{family}::{name}"))
    }
}

/// A message from launch process to master.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToMaster {
    /// The init message; another one when the work of a tool is done, for the next tool.
    InitMessage(PackedInit),
    /// A work item.
    Item {
        /// Its number.
        item: ItemId,
        /// Identifies its directory; collisions are harmless.
        directory: u64,
        /// Number of entries.
        entries: u32,
        /// The packed item.
        body: Vec<u8>,
    },
    /// No more work items follow, except those that result from outstanding ones.
    Closed,
    /// The tool has cancelled the run.
    Cancel,
    /// Answer to a heartbeat, with the time in it.
    Lease(Duration),
    /// Shut down.
    Stop,
    /// The limits have changed.
    Limits(LimitValues),
    /// The launch process's workers will need this much of the limits.
    Request(Load),
}

/// A message from master to launch process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToLaunch {
    /// Every rank has started and is fit for work.
    Ready {
        /// Hosts, in the order of the ranks.
        hosts: Vec<String>,
        /// Name of the message transport.
        transport: String,
    },
    /// Some hosts can't do the job.
    Unfit {
        /// Pairs of host and reason.
        reasons: Vec<(String, String)>,
    },
    /// A rank's report.
    Report {
        /// The rank.
        rank: Rank,
        /// The report.
        report: Box<ProgressReport>,
    },
    /// The transport has failed or a rank is silent: the job is lost.
    Lost {
        /// The reason, with the host's name.
        why: String,
    },
    /// A line for `--debug`.
    Remark(String),
    /// The ranks that have completed nothing for some time, and for how long.
    SlowRanks(Vec<(Rank, Duration)>),
    /// Heartbeat, with the time of rank 0's clock ([`haul_sys::since_boot`]).
    Alive(Duration),
    /// Shutdown is complete.
    Stopped {
        /// Messages between ranks that rank 0 sent or received.
        messages: u64,
    },
    /// The limits allow this much of the requested load.
    Grant(Load),
}

/// Packs a message.
#[must_use]
pub fn pack(message: &impl Serialize) -> Vec<u8> {
    // Serialisation fails only for types that postcard doesn't support, and none of these is one.
    postcard::to_allocvec(message).unwrap_or_default()
}

/// Unpacks a message.
///
/// # Errors
/// If the bytes can't be decoded.
pub fn unpack<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, Undecodable> {
    postcard::from_bytes(bytes).map_err(|why| Undecodable { bytes: bytes.len(), why })
}

pub(crate) fn counted_by(leader_counts: bool) -> CountedBy {
    if leader_counts { CountedBy::Leader } else { CountedBy::Master }
}
