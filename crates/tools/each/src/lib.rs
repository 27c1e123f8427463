//! `each`: runs a command for every matching file, many at once.
//!
//! The tool walks the given trees. For each matching entry, a worker runs the command
//! (`command.rs`, `script.rs`, `running.rs`) and waits for it. The command's output is the entry's
//! result, emitted in one piece (`results.rs`). In block mode, a file is read and split among
//! several commands (`lines.rs`).
//!
//! Promises: the output of two commands is never mixed; no command outlives the run; a command that
//! fails or can't be run shows in the outcome. On `SIGHUP`, `SIGINT` or `SIGTERM`, commands are
//! terminated with everything they started. If the run itself is killed, or another of its ranks
//! ends, the kernel kills only the commands.

mod command;
mod kind;
mod lines;
mod options;
mod results;
mod running;
mod script;

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use haul_cluster::{Distributed, ItemReceiver};
use haul_flow::{
    CancelToken, Config, Context, DirNode, Enter, Entry, EntryOutcome, EntryReport, Executor, Handled, Kind,
    OpenDir, OpenSource, Plan, Policy, Probe, Problem, Reporter, Session, Start, Status, Tool, lock,
    processors,
};
use haul_patterns::GlobSet;
use haul_sys::{EntryType, Errno, Error, Fd, FileType, Operation, Stat, stat_at, stat_followed, stat_path};

pub use kind::EachKind;
pub use options::{Halt, Kinds, Options, Size};
pub use running::Running;

use command::{CommandTemplate, WithoutPlace};
use lines::FileLines;
use results::{CommandResult, Results};
use running::RunResult;

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EachOutcome {
    /// Every command exited with status 0.
    Success,
    /// Some commands failed; they were listed.
    SomeFailed,
    /// Something else failed and was reported.
    Trouble,
}

/// Runs a command for the files below some roots; `executor` runs the jobs. `running` tracks the
/// commands to terminate if the program is terminated.
///
/// # Errors
/// If nothing can start: the command doesn't exist, a pattern is invalid, or the engine
/// is unavailable.
pub fn run_by(
    executor: &impl Executor<Runner>,
    roots: &[CString],
    options: &Options,
    config: &Config,
    running: &Arc<Running>,
    report: &dyn Reporter,
) -> Result<EachOutcome, Problem> {
    // Commands keep the processors busy by themselves.
    let config = Config { jobs: config.jobs.or_else(|| Some(processors())), ..config.clone() };
    let tool = Runner::new(options.clone(), roots.len() == 1, Arc::clone(running))?;
    if let Some(program) = tool.command.program().filter(|_| !options.dry_run) {
        find(program)?;
    }
    let session = Session::begin(&config, report)?;
    let mut operands = Vec::new();
    let mut status = Status::Success;
    for root in roots {
        match session.operand(root, ()) {
            Ok(operand) => operands.push(operand),
            Err(problem) => {
                report.problem(problem);
                status = Status::Failure;
            }
        }
    }
    status = status.max(session.run(executor, &tool, Vec::new(), operands));
    let some_failed = tool.results.finish(report);
    Ok(match (status, some_failed) {
        (Status::Failure, _) => EachOutcome::Trouble,
        (Status::Success, true) => EachOutcome::SomeFailed,
        (Status::Success, false) => EachOutcome::Success,
    })
}

/// Fails if a program can't be found, searching `PATH` as the shell does.
fn find(program: &[u8]) -> Result<(), Problem> {
    let is_file = |path: Vec<u8>| {
        let path = CString::new(path).unwrap_or_default();
        stat_path::<&Fd>(None, &path, true).map(|stat| stat.kind == FileType::Regular)
    };
    let found = if program.contains(&b'/') {
        match is_file(program.to_vec()) {
            Ok(true) => Ok(()),
            // What `execve` would say of a directory or a device.
            Ok(false) => Err(Errno::ACCESS),
            Err(cause) => Err(cause.errno()),
        }
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut paths = std::env::split_paths(&path).map(|folder| folder.join(OsStr::from_bytes(program)));
        let is_there = paths.any(|path| is_file(path.into_os_string().into_encoded_bytes()).unwrap_or(false));
        if is_there { Ok(()) } else { Err(Errno::NOENT) }
    };
    found.map_err(|errno| {
        let cause = Error::new(Operation::Execve, String::from_utf8_lossy(program).into_owned(), errno);
        Problem::new(EachKind::CannotRun).naming(program).because(cause)
    })
}

/// A run of commands, as the framework drives it.
pub struct Runner {
    options: Options,
    command: CommandTemplate,
    names: GlobSet,
    one_root: bool,
    running: Arc<Running>,
    /// Cancelled where the commands are to be halted.
    cancel: CancelToken,
    results: Results,
    /// Entries collected for the next batch.
    waiting: Mutex<Vec<Entry<Runner>>>,
}

impl Runner {
    /// # Errors
    /// [`EachKind::BadPattern`], [`EachKind::CannotSubstitute`].
    fn new(options: Options, one_root: bool, running: Arc<Running>) -> Result<Self, Problem> {
        let globs = |patterns: &[String]| {
            let bad = |pattern: String| Problem::new(EachKind::BadPattern).naming(pattern.into_bytes());
            GlobSet::new(patterns, options.utf8).map_err(bad)
        };
        let names = globs(&options.names)?;
        let without_place =
            if options.block_bytes.is_some() { WithoutPlace::Leave } else { WithoutPlace::Append };
        let (cancel, commands, is_now) =
            (CancelToken::default(), Arc::clone(&running), options.halt == Halt::Now);
        cancel.on_cancel(move || commands.halt(is_now));
        Ok(Self {
            command: CommandTemplate::new(&options.command, options.shell, without_place)?,
            names,
            options,
            one_root,
            running,
            cancel,
            results: Results::default(),
            waiting: Mutex::default(),
        })
    }

    /// True if an entry matches by type and name.
    fn wants(&self, entry: &Entry<Self>, kind: EntryType) -> bool {
        let kind = match kind {
            EntryType::Regular => Kinds::FILES,
            EntryType::Directory => Kinds::DIRECTORIES,
            EntryType::Symlink => Kinds::LINKS,
            _ => Kinds::empty(),
        };
        self.options.kinds.intersects(kind) && (self.names.is_empty() || self.names.matches(base(entry)))
    }

    /// True if an entry matches by size and modification time.
    fn admits(&self, stat: &Stat) -> bool {
        let is_file = stat.kind == FileType::Regular;
        let size = self.options.size.is_none_or(|size| is_file && size.admits(stat.size));
        size && self.options.newer.is_none_or(|newer| stat.modified > newer)
    }

    /// Returns true if an entry matches. Calls `stat` only if its size or time matters.
    fn looks_right(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> bool {
        if self.options.size.is_none() && self.options.newer.is_none() {
            return true;
        }
        let looked = cx.cache().open(&entry.node.source).and_then(|directory| {
            if kind != EntryType::Symlink && self.follow(entry) {
                stat_followed(&*directory, entry.name())
            } else {
                stat_at(&*directory, entry.name())
            }
        });
        match looked {
            Ok(stat) => self.admits(&stat),
            Err(cause) => {
                cx.problem(Problem::new(EachKind::CannotStat).naming(entry.path()).because(cause));
                false
            }
        }
    }

    /// Runs the command for an entry, or adds it to the next batch.
    fn serve(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        if self.options.batch <= 1 {
            return self.run_for(cx, std::slice::from_ref(entry));
        }
        let batch = {
            let mut waiting = lock(&self.waiting);
            waiting.push(entry.clone());
            (waiting.len() >= self.options.batch).then(|| std::mem::take(&mut *waiting))
        };
        if let Some(batch) = batch {
            self.run_for(cx, &batch);
        }
    }

    /// Counts a file that no command failed for.
    fn count(cx: &Context<'_, Self>, entry: &Entry<Self>) {
        cx.count_entry(EntryOutcome::File, |outcome| EntryReport::new(outcome, entry.path()));
    }

    /// Runs one command for a batch; the result is that of the last entry. A batch too long for the
    /// kernel is split in halves.
    fn run_for(&self, cx: &Context<'_, Self>, batch: &[Entry<Self>]) {
        let mut paths: Vec<_> = batch.iter().map(Entry::path).collect();
        let Some(last) = batch.last() else { return };
        match self.run(cx, &paths, None) {
            RunResult::Ended(mut result) => {
                if result.failures.is_empty() {
                    batch.iter().for_each(|entry| Self::count(cx, entry));
                } else {
                    paths.pop();
                    result.others = paths;
                }
                cx.emit(last, result.pack());
            }
            RunResult::Nothing => {}
            RunResult::TooLong => {
                let (first, second) = batch.split_at(batch.len() / 2);
                self.run_for(cx, first);
                self.run_for(cx, second);
            }
        }
    }

    /// Runs the command for the waiting entries that `belongs` selects.
    fn run_for_waiting(&self, cx: &Context<'_, Self>, belongs: impl Fn(&Entry<Self>) -> bool) {
        let mut waiting = lock(&self.waiting);
        let (batch, others) = std::mem::take(&mut *waiting).into_iter().partition(belongs);
        *waiting = others;
        drop(waiting);
        self.run_for(cx, &batch);
    }
}

/// Returns the name of an entry, without trailing slashes.
fn base(entry: &Entry<Runner>) -> &[u8] {
    let name = entry.name().to_bytes();
    let end = name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &name[..end]
}

impl Tool for Runner {
    type Directory = ();
    type File = ();

    fn policy(&self) -> Policy {
        Policy { cancel: self.cancel.clone(), ..Policy::default() }
    }

    fn follow(&self, entry: &Entry<Self>) -> bool {
        let keeps_links = self.options.kinds.contains(Kinds::LINKS);
        self.options.dereference || (entry.is_operand() && !keeps_links)
    }

    fn plan(&self, _: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        match kind {
            _ if self.running.is_stopped() => Plan::Skip,
            EntryType::Directory => Plan::Enter,
            _ if !self.wants(entry, kind) => Plan::Skip,
            EntryType::Regular if self.options.block_bytes.is_some() => Plan::Read(Probe::NEVER),
            _ => Plan::Handle,
        }
    }

    fn enter_dir(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, opened: &OpenDir<'_>) -> Enter<()> {
        if self.options.dereference && entry.node.is_within(opened.stat.identity) {
            return Enter::Done;
        }
        if self.wants(entry, EntryType::Directory) && self.admits(opened.stat) {
            self.serve(cx, entry);
        }
        Enter::Visit(())
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Handled {
        if self.looks_right(cx, entry, kind) {
            self.serve(cx, entry);
        }
        Handled::Done
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        if node.holds_operands() {
            self.run_for_waiting(cx, |_| true);
        }
    }

    fn open_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, opened: &OpenSource<'_>) -> Start<()> {
        let Some(block_bytes) = self.options.block_bytes.filter(|_| self.admits(opened.stat)) else {
            return Start::Done;
        };
        let alone = self.one_root && entry.is_operand() && !self.options.sorted;
        FileLines::begin(cx, entry.clone(), Arc::clone(opened.source), block_bytes, alone);
        Start::Deferred
    }

    fn emitted(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        match CommandResult::unpack(result) {
            Some(result) => {
                if !result.failures.is_empty() && self.options.halt != Halt::Never {
                    // It may have failed on another rank, so stop here as well.
                    self.halt();
                }
                self.results.take(entry.path(), result, self.options.sorted, cx.report());
            }
            None => cx.problem(Problem::new(EachKind::BadResult).naming(entry.path())),
        }
    }
}

impl Distributed for Runner {
    const NAME: &'static str = "each";
    const KINDS: &'static [Kind] = EachKind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.options).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        // A rank doesn't know if there are other files.
        Self::new(postcard::from_bytes(init_message).ok()?, false, Arc::default()).ok()
    }

    fn finish_item(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        // An item is complete only when all of its commands have ended.
        self.run_for_waiting(cx, |entry| std::ptr::eq(&*entry.node, node));
    }

    fn pack(&self, (): &()) -> Vec<u8> {
        Vec::new()
    }

    fn unpack(&self, _: &[u8], _: &ItemReceiver<'_>) -> Result<(), (Vec<u8>, Error)> {
        Ok(())
    }
}
