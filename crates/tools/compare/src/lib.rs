//! Compares two trees or two files: names, types, contents, link targets, and attributes
//! on request.
//!
//! The tool walks the first tree. For each entry it looks up the counterpart in the second tree
//! (`counterpart.rs`), reads both files where that may show a difference (`content.rs`; large files
//! in ranges, `ranges.rs`; from the device on request, `direct.rs`), and compares attributes
//! (`attributes.rs`). Differences are an entry's result (`difference.rs`), kept and emitted in path
//! order (`findings.rs`). An entry that the selection takes in either tree is compared
//! (`selected.rs`).
//!
//! Operands that are pipes, devices or standard input are read to EOF (`streams.rs`).
//!
//! Promises: in trees, only regular files, directories and links are opened, and nothing is
//! written. Whatever could not be compared is reported and makes the comparison fail. Equality is
//! only claimed for compared data.

mod attributes;
mod content;
mod counterpart;
mod difference;
mod direct;
mod findings;
mod kind;
mod options;
mod ranges;
mod selected;
mod streams;

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_cluster::{Distributed, ItemReceiver, RemotePath};
use haul_flow::{
    Block, Config, Context, DirNode, Enter, Entry, EntryFailure, EntryOutcome, EntryReport, Executor,
    Finished, FlowKind, Handled, OpenDir, OpenFile, OpenSource, Operand, Plan, Policy, Pool, Probe, Problem,
    Reported, Reporter, Session, Settings, Split, Start, Status, Tool, Write,
};
use haul_striping::FileSystems;
use haul_sys::{
    Buffer, DirectoryReader, EntryType, Error, Fd, FileRef, FileType, Open, Pinned, read_link, stat, stat_at,
    stat_followed, stat_path,
};

pub use kind::CompareKind;
pub use options::{Attributes, DifferenceListing, Operands, Options};

use content::Compared;
use counterpart::{CounterpartDirectory, StatPair, difference, joined, second_path};
use difference::What;
use findings::{DifferenceLog, EntryResult};

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOutcome {
    /// Everything is equal.
    Same,
    /// Something differs.
    Different,
    /// Something could not be compared, which was reported.
    Failure,
}

/// Compares two trees or files; `executor` runs the jobs.
///
/// # Errors
/// If a rule of the selection is invalid, an operand can't be accessed, or the engine is
/// unavailable.
pub fn run_by(
    executor: &impl Executor<Comparer>,
    operands: &Operands,
    options: &Options,
    config: &Config,
    report: &dyn Reporter,
) -> Result<CompareOutcome, Problem> {
    if let Some((first, second)) = streams(operands)? {
        if selected::is_any(&config.selection) {
            return Err(Problem::new(CompareKind::StreamSelection));
        }
        return streams::compare((&first, &second), options, report);
    }
    let mut session = Session::begin(config, report)?;
    session.settings = with_more_workers(session.settings);
    let tool = Comparer::new(options.clone());
    let operand = operand(&session, operands)?;
    let status = session.run(executor, &tool, Vec::new(), [operand]);
    let different = tool.findings.finish(options, report);
    Ok(match (status, different) {
        (Status::Failure, _) => CompareOutcome::Failure,
        (Status::Success, true) => CompareOutcome::Different,
        (Status::Success, false) => CompareOutcome::Same,
    })
}

/// Returns settings with twice the workers, as far as there may be more, and half as many files in
/// flight for each: a worker waits in two places (docs/measurements/tools.md).
fn with_more_workers(settings: Settings) -> Settings {
    let jobs = (2 * settings.jobs).min(settings.jobs_max);
    if jobs == settings.jobs {
        return settings;
    }
    Settings { jobs, window: settings.window.div_ceil(2), ..settings }
}

/// Returns both operands if either is read as a stream.
fn streams(operands: &Operands) -> Result<Option<(CString, CString)>, Problem> {
    let (first, second) = (&operands.first, &operands.second);
    if streams::is_stream(first) || streams::is_stream(second) {
        let both = if first.to_bytes() == b"-" || second.to_bytes() == b"-" {
            (first.clone(), second.clone())
        } else {
            resolved(operands)?
        };
        return Ok(Some(both));
    }
    let both = resolved(operands)?;
    Ok((streams::is_stream(&both.0) || streams::is_stream(&both.1)).then_some(both))
}

/// Resolves the operands: a file and a directory become the file and its namesake in the directory.
fn resolved(operands: &Operands) -> Result<(CString, CString), Problem> {
    let is_directory = |path: &CStr| {
        let looked = stat_path::<&Fd>(None, path, true);
        looked
            .map(|stat| stat.kind == FileType::Directory)
            .map_err(|cause| Problem::new(FlowKind::CannotStat).naming(path.to_bytes()).because(cause))
    };
    let (first, second) = (&operands.first, &operands.second);
    Ok(match (is_directory(first)?, is_directory(second)?) {
        (true, false) => (below(first, second), second.clone()),
        (false, true) => (first.clone(), below(second, first)),
        _ => (first.clone(), second.clone()),
    })
}

fn operand(session: &Session<'_>, operands: &Operands) -> Result<Operand<CounterpartDirectory>, Problem> {
    let (first, second) = resolved(operands)?;
    let place = Split::of(&second)
        .hold(&session.cache)
        .map_err(|cause| Problem::new(FlowKind::CannotAccess).naming(second.to_bytes()).because(cause))?;
    let name = CString::new(Split::of(&second).name).unwrap_or_default();
    session.operand(&first, CounterpartDirectory { held: place, name: Some(name) })
}

/// Returns the path in a directory for the last component of another path.
fn below(directory: &CStr, path: &CStr) -> CString {
    // Parts of C strings contain no NUL.
    CString::new(joined(directory.to_bytes(), Split::of(path).base())).unwrap_or_default()
}

/// A comparison, as the framework drives it.
pub struct Comparer {
    options: Options,
    findings: DifferenceLog,
    buffers: Pool<Buffer>,
    readers: Pool<DirectoryReader>,
    systems: FileSystems,
}

impl Comparer {
    fn new(options: Options) -> Self {
        Self {
            options,
            findings: DifferenceLog::default(),
            buffers: Pool::default(),
            readers: Pool::default(),
            systems: FileSystems::default(),
        }
    }

    /// True if the exit status is already decided and nothing else is wanted.
    fn is_decided(&self) -> bool {
        self.options.listing == DifferenceListing::Nothing && self.findings.are_different()
    }

    /// Counts an entry that was compared, unless this worker has reported an error since it had
    /// reported `errors_before`.
    fn count(cx: &Context<'_, Self>, entry: &Entry<Self>, outcome: EntryOutcome, errors_before: u64) {
        if cx.errors() > errors_before {
            return;
        }
        cx.count_entry(outcome, |outcome| EntryReport {
            target: Some(second_path(entry)),
            ..EntryReport::new(outcome, entry.path())
        });
    }

    /// Enters a directory if its counterpart is one too.
    fn enter_both(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<CounterpartDirectory> {
        if self.options.dereference && entry.node.is_within(opened.stat.identity) {
            cx.problem(Problem::new(CompareKind::Loop).naming(entry.path()));
            return Enter::Done;
        }
        let Some(pair) = self.pair(cx, entry, opened.stat) else { return Enter::Done };
        let crosses =
            entry.node.stat.is_some_and(|above| above.identity.device != pair.first.identity.device);
        if self.options.one_file_system && crosses {
            return Enter::Done;
        }
        let Some(second) = self.open_second(cx, entry, Open::DIRECTORY) else { return Enter::Done };
        let second_stat = match stat(&second) {
            Ok(stat) => stat,
            Err(cause) => {
                Self::trouble(cx, CompareKind::CannotStat, second_path(entry), cause);
                return Enter::Done;
            }
        };
        let files = [opened.source.ok().map(|source| FileRef::Open(source)), Some(FileRef::Open(&second))];
        let mut differences = self.attributes(cx, entry, &pair, files);
        differences.extend(self.only_in_second(cx, entry, opened, &second));
        Self::emit_result(cx, entry, &EntryResult { differences, linked: None });
        Enter::Visit(self.hold(cx, entry, Arc::new(second), &second_stat))
    }

    /// Compares entries that are neither directories nor regular files.
    fn compare_other(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) {
        let errors_before = cx.errors();
        let directory = match cx.cache().open(&entry.node.source) {
            Ok(directory) => directory,
            Err(cause) => return Self::trouble(cx, CompareKind::CannotStat, entry.path(), cause),
        };
        let follow = kind != EntryType::Symlink && self.follows_here(entry);
        let looked = match follow {
            true => stat_followed(&*directory, entry.name()),
            false => stat_at(&*directory, entry.name()),
        };
        let first = match looked {
            Ok(first) => first,
            Err(cause) => return Self::trouble(cx, CompareKind::CannotStat, entry.path(), cause),
        };
        let Some(pair) = self.pair(cx, entry, &first) else { return };
        let mut result = EntryResult { differences: Vec::new(), linked: self.linked(entry, &pair) };
        match self.essence(cx, entry, &pair, &directory) {
            Ok(what) => result.differences.extend(what.map(|what| difference(entry, what))),
            Err((path, cause)) => return Self::trouble(cx, CompareKind::CannotReadLink, path, cause),
        }
        let pin = || -> haul_sys::Result<_> {
            let counterpart = cx.cache().open(&entry.node.own.held)?;
            let second = Pinned::open(&*counterpart, entry.node.own.name(entry))?;
            Ok([Some(Pinned::open(&*directory, entry.name())?), Some(second)])
        };
        // A pin does not follow links.
        let pinned = match follow || self.options.attributes.is_empty() {
            true => Ok([None, None]),
            false => pin(),
        };
        let pinned = match pinned {
            Ok(pinned) => pinned,
            Err(cause) => return Self::trouble(cx, CompareKind::CannotStat, entry.path(), cause),
        };
        let files = pinned.each_ref().map(|pinned| pinned.as_ref().map(FileRef::Pinned));
        result.differences.extend(self.attributes(cx, entry, &pair, files));
        Self::emit_result(cx, entry, &result);
        let is_link = first.kind == FileType::Symlink;
        let outcome = if is_link { EntryOutcome::Symlink } else { EntryOutcome::Special };
        Self::count(cx, entry, outcome, errors_before);
    }

    /// Compares link targets and device numbers.
    fn essence(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        StatPair { first, second }: &StatPair,
        directory: &Fd,
    ) -> Result<Option<What>, (Vec<u8>, Error)> {
        match first.kind {
            FileType::Symlink => {
                let counterpart = &entry.node.own;
                let one = read_link(directory, entry.name()).map_err(|cause| (entry.path(), cause))?;
                let other = cx
                    .cache()
                    .open(&counterpart.held)
                    .and_then(|held| read_link(&*held, counterpart.name(entry)));
                let other = other.map_err(|cause| (second_path(entry), cause))?;
                Ok((one != other).then(|| What::Target(one.into_bytes(), other.into_bytes())))
            }
            FileType::CharacterDevice | FileType::BlockDevice
                if first.device_number != second.device_number =>
            {
                Ok(Some(What::Device(first.device_number, second.device_number)))
            }
            _ => Ok(None),
        }
    }
}

impl Tool for Comparer {
    type Directory = CounterpartDirectory;
    type File = Compared;

    fn policy(&self) -> Policy {
        Policy { selects_files: true, ..Policy::default() }
    }

    fn follow(&self, entry: &Entry<Self>) -> bool {
        self.follows_here(entry)
    }

    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        if self.is_decided() {
            return Plan::Skip;
        }
        if kind != EntryType::Directory && !self.is_selected(cx, entry, kind) {
            Self::leave_out(cx, entry);
            return Plan::Skip;
        }
        match kind {
            EntryType::Directory => Plan::Enter,
            // The first block is not wanted from the page cache.
            EntryType::Regular if self.options.direct => Plan::Read(Probe::NEVER),
            EntryType::Regular => Plan::Read(Probe::ALWAYS),
            _ => Plan::Handle,
        }
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<CounterpartDirectory> {
        let errors_before = cx.errors();
        let enter = self.enter_both(cx, entry, opened);
        Self::count(cx, entry, EntryOutcome::Directory, errors_before);
        enter
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        let counterpart = &node.own.held;
        cx.cache().reopen_parent(counterpart);
        if let Err(cause) = cx.cache().close(counterpart) {
            Self::trouble(cx, CompareKind::FailedToClose, counterpart.path(), cause);
        }
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Handled {
        self.compare_other(cx, entry, kind);
        Handled::Done
    }

    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Compared> {
        self.begin_file(cx, entry, opened)
    }

    fn block(&self, file: &OpenFile<Self>, block: Block<'_>) -> Write {
        self.compare_block(file, block);
        Write::Nothing
    }

    fn finish_file(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> Finished {
        Finished::if_complete(self.complete_blocks(cx, file))
    }

    fn close_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, own: Compared, was_read: bool) {
        Self::end_file(cx, entry, own, was_read);
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        let EntryFailure::ReadCompared(cause) = failure else { return Reported::No };
        Self::trouble(cx, CompareKind::ErrorReading, second_path(entry), cause.clone());
        Reported::Yes
    }

    fn emitted(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        match postcard::from_bytes(result) {
            Ok(result) => self.findings.take(result, &self.options, cx.report()),
            Err(_) => cx.problem(Problem::new(CompareKind::BadResult).naming(entry.path())),
        }
    }
}

/// A directory of the second tree, as sent to another rank.
#[derive(serde::Serialize, serde::Deserialize)]
struct PackedCounterpart {
    held: RemotePath,
    name: Option<CString>,
}

impl Distributed for Comparer {
    const NAME: &'static str = "cmp";
    const KINDS: &'static [haul_flow::Kind] = CompareKind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.options).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        Some(Self::new(postcard::from_bytes(init_message).ok()?))
    }

    fn pack(&self, own: &CounterpartDirectory) -> Vec<u8> {
        let packed = PackedCounterpart { held: RemotePath::to(&own.held), name: own.name.clone() };
        postcard::to_allocvec(&packed).unwrap_or_default()
    }

    fn unpack(
        &self,
        packed: &[u8],
        receiver: &ItemReceiver<'_>,
    ) -> Result<CounterpartDirectory, (Vec<u8>, Error)> {
        let invalid = || {
            let cause = Error::new(haul_sys::Operation::Openat, String::new(), haul_sys::Errno::INVAL);
            (Vec::new(), cause)
        };
        let PackedCounterpart { held, name } = postcard::from_bytes(packed).map_err(|_| invalid())?;
        Ok(CounterpartDirectory { held: receiver.hold(&held)?, name })
    }
}
