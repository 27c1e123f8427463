//! Computes the hashes of files and trees, and checks them against manifests.
//!
//! The tool walks its operands and hashes every regular file (`content.rs`; large ones by all
//! workers, `large.rs`). The hash of a file, or the verdict on it, is its result. Hashes are listed
//! in a fixed order (`listing.rs`). To check manifests, their records become the operands of a run,
//! and the verdicts are printed in the order of the records (`checks.rs`).
//!
//! Promises: a line is printed only for a file that was read to its end. A file is only called
//! wrong if it has none of the hashes that its record may mean. The output doesn't depend on the
//! number of workers or ranks.

mod against;
mod checks;
mod content;
mod kind;
mod large;
mod listing;
mod options;
mod place;
mod portable;
mod task;

use haul_digest::manifest::{LineEnd, WriteError, Writer};
use haul_flow::{
    Block, CancelToken, Config, Context, DirNode, Enter, Entry, EntryFailure, EntryOutcome, EntryReport,
    Executor, Finished, FlowKind, Handled, OpenDir, OpenFile, OpenSource, Plan, Policy, Pool, Probe, Problem,
    Reported, Reporter, Session, Start, Status, Tool, Write,
};
use haul_sys::{Buffer, EntryType, FileType, Open, Stat, open, standard_input, stat_at};

pub use against::{CompareOptions, ManifestComparison, compare_by};
pub use content::Hashing;
pub use haul_digest::manifest::{Creator, Format};
pub use haul_digest::{Algorithm, Digest};
pub use kind::SumKind;
pub use listing::{FileHash, ManifestFile};
pub use options::{CheckOptions, HashListing, Options, Printed, SumOperand};
pub use place::{DirectoryRole, Group};

use against::Unlisted;
use checks::{Checks, is_missing};
use listing::Hashes;
use options::OwnFile;
use task::{CheckVerdict, FileResult, Learned, Task};

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumOutcome {
    /// Every file was hashed, or is right.
    Success,
    /// Some file could not be read, or is not right, which was reported.
    Failure,
}

/// Hashes the operands and lists the hashes, in a file or on standard output; `executor` runs
/// the jobs.
///
/// # Errors
/// If the format can't have hashes of the algorithm, or the engine is unavailable.
pub fn sum_by(
    executor: &impl Executor<Summer>,
    named: &[SumOperand],
    options: &Options,
    (listing, manifest): (&HashListing, Option<ManifestFile>),
    config: &Config,
    report: &dyn Reporter,
) -> Result<SumOutcome, Problem> {
    let HashListing { format, zero, creator } = listing;
    let end = if *zero { LineEnd::Nul } else { LineEnd::LineFeed };
    let writer = Writer::new(*format, options.algorithm, end, creator);
    let writer = writer.map_err(|error| {
        let algorithm = match error {
            WriteError::NotInMhl(algorithm) => algorithm.name(),
            WriteError::NameNotInMhl => "",
        };
        Problem::new(SumKind::NotInMhl).naming(algorithm)
    })?;
    let left_out = manifest.as_ref().map(ManifestFile::files).unwrap_or_default();
    let options = Options { left_out, ..options.clone() };
    let (hashes, cancel) = (Hashes::text(writer, manifest), CancelToken::default());
    hash_all(executor, named, Summer::listing(options, named, hashes, cancel), config, report)
        .map(|(outcome, _)| outcome)
}

/// Hashes the operands and returns the hashes, in the order in which [`sum_by`] lists them. Once
/// `cancel` is cancelled no more files are begun.
///
/// # Errors
/// If the engine is unavailable.
pub fn hashes_by(
    executor: &impl Executor<Summer>,
    named: &[SumOperand],
    options: &Options,
    cancel: &CancelToken,
    config: &Config,
    report: &dyn Reporter,
) -> Result<(SumOutcome, Vec<FileHash>), Problem> {
    let tool = Summer::listing(options.clone(), named, Hashes::values(), cancel.clone());
    hash_all(executor, named, tool, config, report)
}

fn hash_all(
    executor: &impl Executor<Summer>,
    named: &[SumOperand],
    tool: Summer,
    config: &Config,
    report: &dyn Reporter,
) -> Result<(SumOutcome, Vec<FileHash>), Problem> {
    let session = Session::begin(config, report)?;
    let Use::Sum { hashes, .. } = &tool.usage else { return Ok((SumOutcome::Failure, Vec::new())) };
    let mut operands = Vec::with_capacity(named.len());
    let mut status = Status::Success;
    for (index, named) in named.iter().enumerate() {
        let operand = match named {
            SumOperand::Input => session.operand(c".", DirectoryRole::Input(index)),
            SumOperand::Path(path) => session.operand(path, DirectoryRole::Below(index)),
        };
        match operand {
            Ok(operand) => operands.push(operand),
            Err(problem) => {
                report.problem(problem);
                hashes.end(report, index);
                status = Status::Failure;
            }
        }
    }
    status = status.max(session.run(executor, &tool, Vec::new(), operands));
    let is_written = hashes.finish(report);
    let outcome =
        if status == Status::Success && is_written { SumOutcome::Success } else { SumOutcome::Failure };
    drop(session);
    let values = if let Use::Sum { hashes, .. } = tool.usage { hashes.into_values() } else { Vec::new() };
    Ok((outcome, values))
}

/// Checks the files that manifests list; `executor` runs the jobs.
///
/// # Errors
/// If the engine is unavailable.
pub fn check_by(
    executor: &impl Executor<Summer>,
    named: &[SumOperand],
    options: &Options,
    checks: CheckOptions,
    config: &Config,
    report: &dyn Reporter,
) -> Result<SumOutcome, Problem> {
    let session = Session::begin(config, report)?;
    let checks = Checks::read(named, checks, options.ignore_missing, report);
    let tool = Summer::new(options.clone(), Use::Check(checks));
    let Use::Check(checks) = &tool.usage else { return Ok(SumOutcome::Failure) };
    let operands = checks.operands(&session);
    let status = session.run(executor, &tool, Vec::new(), operands);
    let is_right = checks.finish(report);
    Ok(if status == Status::Success && is_right { SumOutcome::Success } else { SumOutcome::Failure })
}

/// Computes hashes, as the framework drives it.
pub struct Summer {
    options: Options,
    usage: Use,
    cancel: CancelToken,
    learned: Learned,
    buffers: Pool<Buffer>,
}

/// Use of the results.
enum Use {
    /// A list of hashes.
    Sum {
        hashes: Hashes,
        /// Index of the first operand that is standard input. The others find its end.
        first_input: Option<usize>,
    },
    /// The verdicts on manifests.
    Check(Checks),
    /// Names of files, which are not read.
    Names(Unlisted),
    /// The process that walks: this is a rank.
    Rank,
}

impl Summer {
    fn new(options: Options, usage: Use) -> Self {
        let cancel = CancelToken::default();
        Self { options, usage, cancel, learned: Learned::default(), buffers: Pool::default() }
    }

    /// Creates the tool that lists the hashes of operands.
    fn listing(options: Options, named: &[SumOperand], hashes: Hashes, cancel: CancelToken) -> Self {
        let first_input = named.iter().position(|named| *named == SumOperand::Input);
        Self { cancel, ..Self::new(options, Use::Sum { hashes, first_input }) }
    }

    fn of_rank(options: Options) -> Self {
        Self::new(options, Use::Rank)
    }

    fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the task for an entry.
    fn task(&self, entry: &Entry<Self>) -> Option<Task> {
        match &entry.node.own {
            DirectoryRole::Below(_) | DirectoryRole::Input(_) => Some(Task::Sum(self.options.algorithm)),
            DirectoryRole::Listed(group) => {
                let (record, expected) = group.find(entry.name())?;
                Some(Task::Check { record, expected })
            }
        }
    }

    /// True if a file is the manifest, which is being written. If it was named, or is reached
    /// through a link, that is reported. Another hard link keeps its content, as the manifest is
    /// replaced.
    fn leaves_out(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, stat: &Stat) -> bool {
        let is_it = |own: &&OwnFile| own.inode == stat.identity.inode;
        let Some(own) = self.options.left_out.iter().find(is_it) else { return false };
        let place = &entry.node.source;
        let has_its_name = own.directory == place.identity().inode && own.name.as_c_str() == entry.name();
        let is_link = || {
            let looked = cx.cache().open(place).and_then(|directory| stat_at(&*directory, entry.name()));
            looked.is_ok_and(|found| found.kind == FileType::Symlink)
        };
        if !has_its_name && !is_link() {
            return false;
        }
        if !has_its_name || entry.is_operand() {
            cx.problem(Problem::new(FlowKind::OwnFile).naming(entry.path()).as_warning());
        }
        true
    }

    /// Returns an entry's path as it is shown.
    fn path(&self, entry: &Entry<Self>) -> Vec<u8> {
        if entry.node.own.is_input() { b"-".to_vec() } else { entry.path() }
    }

    fn count(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        cx.count_entry(EntryOutcome::File, |outcome| EntryReport::new(outcome, self.path(entry)));
    }

    /// Hashes a FIFO or a device, or standard input, to its end.
    fn hash_stream(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        let Some(task) = self.task(entry) else { return };
        let opened = if entry.node.own.is_input() {
            standard_input()
        } else {
            let how = Open::READ.blocking().following();
            cx.cache().open(&entry.node.source).and_then(|place| open(&*place, entry.name(), how))
        };
        let result = match (&self.usage, &entry.node.own) {
            // Standard input has ended when it was read for an operand before this one.
            (Use::Sum { first_input, .. }, DirectoryRole::Input(index)) if *first_input != Some(*index) => {
                opened.map(|_| FileResult::Summed(Some(0), self.options.algorithm.hash(b"")))
            }
            _ => opened.and_then(|source| {
                let result = self.hash_to_end(cx, &source, &task)?;
                source.close()?;
                Ok(result)
            }),
        };
        self.complete(cx, entry, &task, result);
    }

    /// True if a missing file is to be passed over.
    fn ignores(&self, entry: &Entry<Self>, failure: EntryFailure<'_>) -> bool {
        let (EntryFailure::Classify(cause) | EntryFailure::OpenFile(cause)) = failure else { return false };
        self.options.ignore_missing && matches!(entry.node.own, DirectoryRole::Listed(_)) && is_missing(cause)
    }
}

impl Tool for Summer {
    type Directory = DirectoryRole;
    type File = Hashing;

    fn follow(&self, entry: &Entry<Self>) -> bool {
        self.options.dereference || entry.is_operand()
    }

    fn policy(&self) -> Policy {
        Policy { cancel: self.cancel.clone(), ..Policy::default() }
    }

    fn plan(&self, _: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        if self.cancel.is_cancelled() {
            return Plan::Skip;
        }
        if let (Use::Names(unlisted), true) = (&self.usage, kind != EntryType::Directory) {
            if kind == EntryType::Regular {
                unlisted.see(entry);
            }
            return Plan::Skip;
        }
        let is_listed = matches!(entry.node.own, DirectoryRole::Listed(_));
        match kind {
            _ if entry.is_operand() && entry.node.own.is_input() => Plan::Handle,
            EntryType::Directory if is_listed => Plan::Handle,
            EntryType::Directory => Plan::Enter,
            EntryType::Regular => Plan::Read(Probe::ALWAYS),
            EntryType::Special if entry.is_operand() => Plan::Handle,
            EntryType::Special | EntryType::Symlink | EntryType::Unknown => Plan::Skip,
        }
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<DirectoryRole> {
        if self.options.dereference && entry.node.is_within(opened.stat.identity) {
            cx.problem(Problem::new(SumKind::Loop).naming(entry.path()));
            return Enter::Done;
        }
        cx.count_entry(EntryOutcome::Directory, |outcome| EntryReport::new(outcome, entry.path()));
        Enter::Visit(entry.node.own.clone())
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        if let (Use::Sum { hashes, .. }, DirectoryRole::Below(index) | DirectoryRole::Input(index), true) =
            (&self.usage, &node.own, node.holds_operands())
        {
            hashes.end(cx.report(), *index);
        }
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Handled {
        if kind == EntryType::Directory && !entry.node.own.is_input() {
            cx.problem(Problem::new(SumKind::IsADirectory).naming(entry.path()));
            let result = self.task(entry).and_then(|task| task.unreadable());
            self.emit_result(cx, entry, result);
        } else if cx.hand_back(entry) {
            return Handled::Deferred;
        } else {
            self.hash_stream(cx, entry);
        }
        Handled::Done
    }

    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Hashing> {
        self.begin_file(cx, entry, opened)
    }

    fn block(&self, file: &OpenFile<Self>, block: Block<'_>) -> Write {
        Self::add_block(file, block);
        Write::Nothing
    }

    fn finish_file(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> Finished {
        file.beyond().unwrap_or_else(|| Finished::if_complete(self.finish_blocks(cx, file)))
    }

    fn close_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, own: Hashing, was_read: bool) {
        self.end_blocks(cx, entry, own, was_read);
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        // For a file that was opened, `close_file` emits the verdict after this report.
        let task = self
            .task(entry)
            .filter(|_| failure.is_before_open_file() || matches!(failure, EntryFailure::Classify(_)));
        let Some(task) = task else { return Reported::No };
        if self.ignores(entry, failure) {
            let missing = match task {
                Task::Check { record, .. } => Some(FileResult::Checked(record, CheckVerdict::Missing)),
                Task::Sum(_) => None,
            };
            self.emit_result(cx, entry, missing);
            return Reported::Yes;
        }
        // The message comes before the verdict, which may be the last one of a manifest.
        cx.problem(match failure {
            EntryFailure::Classify(cause)
            | EntryFailure::OpenParent(cause)
            | EntryFailure::OpenFile(cause)
            | EntryFailure::StatFile(cause) => Self::unread(entry.path(), cause.clone()),
            _ => Problem::new(FlowKind::Replaced).naming(entry.path()),
        });
        self.emit_result(cx, entry, task.unreadable());
        Reported::Yes
    }

    fn emitted(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        match (&self.usage, &entry.node.own, postcard::from_bytes(result)) {
            (
                Use::Sum { hashes, .. },
                DirectoryRole::Below(index) | DirectoryRole::Input(index),
                Ok(FileResult::Summed(size, digest)),
            ) => {
                self.count(cx, entry);
                hashes.take(*index, self.path(entry), size, digest);
            }
            (Use::Check(checks), _, Ok(FileResult::Checked(number, verdict))) => {
                if checks.is_done(verdict) {
                    self.count(cx, entry);
                }
                checks.take(cx.report(), number, verdict);
            }
            _ => cx.problem(Problem::new(SumKind::BadResult).naming(entry.path())),
        }
    }
}
