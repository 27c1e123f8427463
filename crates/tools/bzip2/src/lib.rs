//! `bzip2`: compresses and decompresses files in parallel, and the blocks of each file in parallel.
//!
//! [`Bzip2`] implements the framework's traits. One worker does a small file whole. The blocks of
//! large files and of streams are the pieces of a sequence: `compress.rs` and `decompress.rs` hold
//! its stages, `job.rs` an input and its output. The format is in `bits.rs`, `crc.rs`, `runs.rs`
//! and `recent.rs`, with `sort.rs` and `encode.rs` for compression, and `find.rs`, `decode.rs` and
//! `unpack.rs` for decompression. Names, messages and exit statuses are those of bzip2 1.0.8.

mod compress;
mod decompress;
mod input;
mod job;
mod kind;
mod names;
mod options;
mod output;

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use haul_cluster::{Distributed, ItemReceiver};
use haul_flow::{
    Config, Context, Enter, Entry, EntryFailure, Executor, FlowKind, Handled, Kind, OpenDir, OpenSource,
    Operand, Plan, Pool, Probe, Problem, Reported, Reporter, Session, Stages, Start, Status, Tool, lock,
    processors,
};
use haul_sys::{
    EntryType, Errno, Error, Fd, Open, Standard, Stat, open, remove, standard_input, standard_stream,
    stat_at, stat_followed, stat_path,
};

pub use kind::Bzip2Kind;
pub use options::{Action, CORRUPT, Options, TROUBLE};
pub use output::Making;

use compress::Compress;
use decompress::Decompress;
use haul_bzip2_codec::decode::Decoder;
use haul_bzip2_codec::encode::Encoder;
use input::JobInput;
use job::{FileJob, STANDARD_INPUT, UNREPORTED, c_name, refuse};
use output::{JobOutput, NewFile, OutputsGuard};

/// Maximum size of a compressed file that one worker decompresses, in bytes: a block or two.
const SMALL_BYTES: u64 = 512 << 10;

/// Maximum number of large inputs in progress. More than one, so that the tail of one doesn't idle
/// the workers; few, to bound memory.
const SEQUENCES: usize = 2;

/// Compresses, decompresses or tests files, or standard input if there are none. Returns the exit
/// status. `making` tracks the outputs to remove if the program is terminated.
pub fn run(
    executor: &impl Executor<Bzip2>,
    files: &[CString],
    options: &Options,
    config: &Config,
    making: &Making,
    report: &dyn Reporter,
) -> u8 {
    let options = Options { to_output: options.to_output || files.is_empty(), ..options.clone() };
    let fail = |problem| {
        report.problem(problem);
        TROUBLE
    };
    if matches!(options.action, Action::Compress { .. }) {
        if options.to_output && options.output_is_terminal {
            return fail(Problem::new(Bzip2Kind::NotToTerminal));
        }
    } else if files.is_empty() && std::io::stdin().is_terminal() {
        return fail(Problem::new(Bzip2Kind::NotFromTerminal));
    }
    let mut session = match Session::begin(config, report) {
        Ok(session) => session,
        Err(problem) => return fail(problem),
    };
    if config.jobs.is_none() {
        // One per processor, but two at least, so that one reads while the other works. They keep
        // the processors busy, and more would only take memory (docs/measurements/tools.md).
        session.settings.jobs = processors().max(2).min(session.settings.jobs_max);
    }
    let tool = Bzip2::new(options, making.clone());
    let mut operands = Vec::new();
    let mut status = Status::Success;
    let given = files.iter().map(|file| (file.as_c_str(), ContentSource::Files));
    for (file, place) in given.chain(files.is_empty().then_some((c".", ContentSource::StandardInput))) {
        match session.operand(file, place) {
            Ok(operand) => operands.push(operand),
            Err(Problem { names, cause, .. }) => {
                let reason = cause.map(|cause| cause.to_string()).unwrap_or_default();
                let name = names.into_iter().next().unwrap_or_default();
                report.problem(Problem::new(Bzip2Kind::CannotOpen).naming(name).naming(reason));
                status = Status::Failure;
            }
        }
    }
    let mut run = |operands: Vec<Operand<ContentSource>>| {
        let places = operands.iter().map(|operand| Arc::clone(&operand.place)).collect();
        status = status.max(session.run(executor, &tool, places, operands));
    };
    if tool.options.to_output {
        // Outputs must be concatenated in operand order.
        operands.into_iter().for_each(|operand| run(vec![operand]));
    } else {
        run(operands);
    }
    let reported = tool.status.load(Ordering::Relaxed);
    if status == Status::Failure { reported.max(TROUBLE) } else { reported }
}

/// Where an entry's content comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// The file of that name.
    Files,
    /// Standard input; the name is a placeholder.
    StandardInput,
}

/// Large files in progress, and those that wait.
#[derive(Default)]
struct LargeFiles {
    under_way: usize,
    waiting: VecDeque<Entry<Bzip2>>,
}

/// A compression or decompression run, as the framework drives it.
pub struct Bzip2 {
    options: Options,
    making: Making,
    encoders: Pool<Encoder>,
    decoders: Pool<Decoder>,
    large: Mutex<LargeFiles>,
    /// Highest exit status reported so far.
    status: AtomicU8,
}

impl Bzip2 {
    fn new(options: Options, making: Making) -> Self {
        Self {
            options,
            making,
            encoders: Pool::default(),
            decoders: Pool::default(),
            large: Mutex::default(),
            status: AtomicU8::new(0),
        }
    }

    fn is_compressing(&self) -> bool {
        matches!(self.options.action, Action::Compress { .. })
    }

    /// True if outputs replace their inputs.
    fn replaces(&self) -> bool {
        !self.options.to_output && self.options.action != Action::Test
    }

    /// True if one worker does a file of this size whole.
    fn is_small(&self, size: u64) -> bool {
        match self.options.action {
            Action::Compress { level } => {
                size <= u64::from(level) * haul_bzip2_codec::unpack::LEVEL_BYTES as u64
            }
            Action::Decompress | Action::Test => size <= SMALL_BYTES,
        }
    }

    /// Runs a job, inline if `whole`, else as a sequence.
    fn begin_job(&self, cx: &Context<'_, Self>, job: FileJob, whole: bool) {
        match self.options.action {
            Action::Compress { level } => go(cx, Compress::new(job, level), whole),
            Action::Decompress => go(cx, Decompress::new(job, self.options.force), whole),
            Action::Test => go(cx, Decompress::new(job, false), whole),
        }
    }

    /// Returns the error for an operand that is not a regular file, or for a dangling link.
    fn not_normal(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Problem {
        let directory = cx.cache().open(&entry.node.source);
        match directory.and_then(|directory| stat_followed(&*directory, entry.name())) {
            Ok(_) => Problem::new(Bzip2Kind::NotNormal).naming(entry.path()),
            Err(cause) => Problem::new(Bzip2Kind::CannotOpen).naming(entry.path()).naming(cause.to_string()),
        }
    }

    /// Returns true and takes a slot if there is one for a large file; otherwise queues it.
    fn admits(&self, entry: &Entry<Self>) -> bool {
        let mut large = lock(&self.large);
        if large.under_way >= SEQUENCES {
            large.waiting.push_back(entry.clone());
            return false;
        }
        large.under_way += 1;
        true
    }

    /// Called when a large file is complete.
    fn is_over(&self, cx: &Context<'_, Self>) {
        lock(&self.large).under_way -= 1;
        self.call_next(cx);
    }

    /// Retries the next large file if a slot is free. That file calls this again in any case: when
    /// it is complete, or when it turns out not to be a large file any more.
    fn call_next(&self, cx: &Context<'_, Self>) {
        let mut large = lock(&self.large);
        let next = if large.under_way < SEQUENCES { large.waiting.pop_front() } else { None };
        drop(large);
        if let Some(entry) = next {
            cx.retry(entry);
        }
    }

    /// Opens the output for runs that don't replace files.
    fn open_output(&self) -> Result<JobOutput, Error> {
        if self.options.action == Action::Test {
            return Ok(JobOutput::Nowhere);
        }
        standard_stream(Standard::Output).map(JobOutput::Stream)
    }

    /// Creates the file that replaces an opened input.
    fn create(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Option<FileJob> {
        let directory = match cx.cache().open(&entry.node.source) {
            Ok(directory) => directory,
            Err(cause) => {
                cx.problem(Problem::new(FlowKind::CannotAccess).naming(entry.path()).because(cause));
                return None;
            }
        };
        let base = entry.name().to_bytes();
        let (name, known) =
            if self.is_compressing() { (names::compressed(base), true) } else { names::decompressed(base) };
        let name = c_name(name);
        let path = entry.node.source.path_of(&name);
        if !known && !self.options.quiet {
            let problem = Problem::new(Bzip2Kind::CannotGuess).naming(entry.path()).naming(path.clone());
            cx.problem(problem.as_warning());
        }
        let held = self.makes_room(cx, entry, (&directory, &name, &path), opened.stat)?;
        match NewFile::create(held, Arc::clone(&directory), &name) {
            Ok(file) => {
                let ends =
                    (JobInput::file(Arc::clone(opened.source), opened.stat.size), JobOutput::File(file));
                Some(FileJob::replacing(entry.clone(), path, ends, (directory, *opened.stat)))
            }
            Err(cause) => {
                let problem = Problem::new(Bzip2Kind::CannotCreate).naming(path).naming(cause.to_string());
                refuse(cx, entry, problem, true);
                None
            }
        }
    }

    /// Returns the locked list of outputs if `name` may be created, removing an old file
    /// under `--force`.
    fn makes_room(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        place: (&Fd, &CStr, &[u8]),
        input: &Stat,
    ) -> Option<OutputsGuard<'_>> {
        let room = if self.options.force {
            self.clear(entry, place, input)
        } else {
            // Creation is exclusive, so nothing need be held while looking.
            look_for_room(entry, place, input.links).map(|()| self.making.hold())
        };
        room.map_err(|problem| refuse(cx, entry, problem, true)).ok()
    }

    /// Removes the file that is in the output's way, unless it may be the only copy of the input.
    /// If an input was given twice, another job may have removed it already or be about to.
    fn clear(
        &self,
        entry: &Entry<Self>,
        (directory, name, path): (&Fd, &CStr, &[u8]),
        input: &Stat,
    ) -> Result<OutputsGuard<'_>, Problem> {
        let held = self.making.hold();
        let cannot =
            |cause: Error| Problem::new(Bzip2Kind::CannotCreate).naming(path).naming(cause.to_string());
        match stat_at(directory, name) {
            Ok(there) if held.has(there.identity) => {
                return Err(Problem::new(Bzip2Kind::OutputExists).naming(path));
            }
            Ok(_) => {}
            Err(cause) if cause.is(Errno::NOENT) => return Ok(held),
            Err(cause) => return Err(cannot(cause)),
        }
        match stat_path(Some(directory), entry.name(), self.follow(entry)) {
            Ok(now) if now.identity == input.identity => {}
            Ok(_) => return Err(Problem::new(FlowKind::Replaced).naming(entry.path())),
            Err(cause) => {
                let problem = Problem::new(Bzip2Kind::CannotOpen).naming(entry.path());
                return Err(problem.naming(cause.to_string()));
            }
        }
        match remove(directory, name) {
            Err(cause) if !cause.is(Errno::NOENT) => Err(cannot(cause)),
            _ => Ok(held),
        }
    }
}

/// Returns an error if the output exists or the input has other hard links.
fn look_for_room(
    entry: &Entry<Bzip2>,
    (directory, name, path): (&Fd, &CStr, &[u8]),
    links: u32,
) -> Result<(), Problem> {
    if stat_at(directory, name).is_ok() {
        return Err(Problem::new(Bzip2Kind::OutputExists).naming(path));
    }
    let others = links.saturating_sub(1);
    let kind = match others {
        0 => return Ok(()),
        1 => Bzip2Kind::OtherLink,
        _ => Bzip2Kind::OtherLinks,
    };
    Err(Problem::new(kind).naming(entry.path()).naming(others.to_string()))
}

/// Runs the stages of a job, inline or as a sequence.
fn go<S: Stages<Bzip2>>(cx: &Context<'_, Bzip2>, stages: S, whole: bool) {
    if !whole {
        return cx.begin_sequence(Arc::new(stages), 2 * cx.settings().jobs);
    }
    while let Some(piece) = stages.next(cx) {
        let made = stages.work(cx, piece);
        stages.put(cx, made);
    }
    stages.end(cx);
}

impl Tool for Bzip2 {
    type Directory = ContentSource;
    type File = ();

    fn follow(&self, entry: &Entry<Self>) -> bool {
        entry.is_operand() && (self.options.force || !self.replaces())
    }

    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        if entry.node.own == ContentSource::StandardInput && entry.is_operand() {
            return Plan::Handle;
        }
        let suffix = names::suffix(entry.name().to_bytes());
        let is_operand = entry.is_operand();
        if kind == EntryType::Directory && self.options.recursive {
            return Plan::Enter;
        }
        let problem = match (self.is_compressing(), suffix) {
            (true, Some(suffix)) => Problem::new(Bzip2Kind::HasSuffix).naming(entry.path()).naming(suffix),
            (false, None) if !is_operand => return Plan::Skip,
            _ if kind == EntryType::Directory => Problem::new(Bzip2Kind::IsDirectory).naming(entry.path()),
            _ if kind == EntryType::Regular => return Plan::Read(Probe::ALWAYS),
            _ if kind == EntryType::Special && is_operand && (self.options.force || !self.replaces()) => {
                return Plan::Handle;
            }
            _ if is_operand => self.not_normal(cx, entry),
            _ => return Plan::Skip,
        };
        // Unsuitable entries are skipped in a tree but reported as operands. This one may have
        // waited as a large file and changed since, so its turn must pass on.
        self.call_next(cx);
        if is_operand {
            refuse(cx, entry, problem, kind == EntryType::Directory);
        }
        Plan::Skip
    }

    fn enter_dir(
        &self,
        _cx: &Context<'_, Self>,
        _entry: &Entry<Self>,
        _opened: &OpenDir<'_>,
    ) -> Enter<ContentSource> {
        Enter::Visit(ContentSource::Files)
    }

    /// Handles inputs that can only be read sequentially.
    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _kind: EntryType) -> Handled {
        let is_standard = entry.node.own == ContentSource::StandardInput;
        let input = if is_standard {
            standard_input()
        } else {
            let directory = cx.cache().open(&entry.node.source);
            directory.and_then(|directory| open(&*directory, entry.name(), Open::READ.following().blocking()))
        };
        let name = if is_standard { STANDARD_INPUT.to_vec() } else { entry.path() };
        let opened = input.and_then(|input| Ok((JobInput::stream(input), self.open_output()?)));
        match opened {
            Ok((input, output)) => {
                lock(&self.large).under_way += 1;
                self.begin_job(cx, FileJob::passing(entry.clone(), name, input, output).settling(), false);
                Handled::Deferred
            }
            Err(cause) => {
                let reason = cause.to_string();
                cx.problem(Problem::new(Bzip2Kind::CannotOpen).naming(name).naming(reason));
                Handled::Done
            }
        }
    }

    fn open_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, opened: &OpenSource<'_>) -> Start<()> {
        let whole = self.is_small(opened.stat.size);
        if !whole && !self.admits(entry) {
            return Start::Deferred;
        }
        let job = if self.replaces() {
            self.create(cx, entry, opened)
        } else {
            match self.open_output() {
                Ok(output) => {
                    let input = JobInput::file(Arc::clone(opened.source), opened.stat.size);
                    Some(FileJob::passing(entry.clone(), entry.path(), input, output))
                }
                Err(cause) => {
                    cx.problem(Problem::new(FlowKind::ErrorWriting).naming("(stdout)").because(cause));
                    None
                }
            }
        };
        match job {
            Some(job) if whole => self.begin_job(cx, job, true),
            Some(job) => {
                self.begin_job(cx, job.settling(), false);
                return Start::Deferred;
            }
            None => {}
        }
        if whole {
            // It may have been large when it began to wait.
            self.call_next(cx);
        } else {
            self.is_over(cx);
        }
        Start::Done
    }

    fn failed(&self, cx: &Context<'_, Self>, _entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        let is_lost = matches!(failure, EntryFailure::Classify(_) | EntryFailure::OpenDir(_));
        if is_lost || failure.is_before_open_file() {
            // It may be one that waited, so its turn passes on.
            self.call_next(cx);
        }
        Reported::No
    }

    /// Accepts an exit status, and a line for standard error if there is one.
    fn emitted(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        let [status, report, line @ ..] = result else { return };
        if *report == UNREPORTED {
            cx.report().record(Problem::new(Bzip2Kind::Failed).naming(entry.path()));
        }
        self.status.fetch_max(*status, Ordering::Relaxed);
        if !line.is_empty() {
            cx.report().output(Standard::Error, line);
        }
    }
}

impl Distributed for Bzip2 {
    const NAME: &'static str = "bzip2";
    const KINDS: &'static [Kind] = Bzip2Kind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.options).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        Some(Self::new(postcard::from_bytes(init_message).ok()?, Making::default()))
    }

    fn pack(&self, _own: &ContentSource) -> Vec<u8> {
        Vec::new()
    }

    fn unpack(
        &self,
        _packed: &[u8],
        _arrivals: &ItemReceiver<'_>,
    ) -> Result<ContentSource, (Vec<u8>, Error)> {
        Ok(ContentSource::Files)
    }
}
