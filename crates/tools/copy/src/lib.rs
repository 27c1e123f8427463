//! The copy tool: `cp` with everything in flight at once.
//!
//! `operands.rs` works out what goes where, [`Copier`] implements [`Tool`], and the other files
//! each create one kind of entry: `directory.rs`, `regular.rs` (with `holes.rs` and `stream.rs`),
//! `other.rs` and `links.rs`, with `attributes.rs` as the last step of each. `existing.rs` decides
//! what to do with an existing target; `place.rs` does it, with `age.rs` and `backup.rs`. Semantics
//! and wording are GNU's.

mod age;
mod attributes;
mod backup;
mod creation_mode;
mod debug;
mod default_label;
mod directory;
#[cfg(feature = "distributed")]
mod distributed;
mod existing;
mod holes;
mod kind;
mod layouts;
mod links;
mod named;
mod open_target;
mod operands;
mod options;
mod other;
mod parents;
mod place;
mod regular;
mod stream;
mod survey;
mod target;
mod temporary;
mod without_data;
mod xattr_rules;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use haul_flow::{
    Alone, Block, Config, Context, DirCache, DirHandle, DirNode, Enter, Entry, Executor, Failure, FlowKind,
    Handled, JobSpec, LinkTable, OpenDir, OpenFile, OpenSource, Operand, Plan, Probe, Problem, Report,
    Reported, RunSpec, Settings, Severity, Split, Start, Status, Tool, Write, is_shared,
};
use haul_sys::{
    EntryType, Errno, FileContexts, Identity, Mode, ProcessIdentity, c_string, set_creation_label, stat,
    stat_at,
};

pub use kind::CopyKind;
pub use options::{
    Backup, CopyOptions, Dereference, Existing, Label, LayoutRule, Make, Operands, Preserve, Reflink, Sparse,
    TemporaryNames, Update,
};

pub use survey::survey;

use age::Resolutions;
use backup::Backups;
use layouts::Layouts;
use links::LinkedName;
use named::NamedCopies;
use open_target::CopiedFile;
use operands::{Assignment, Stop};
use parents::Parents;
use target::{MadeLinks, TargetDirectory, Tops, open_directory, target_name, target_path};
use xattr_rules::XattrRules;

/// How a copy ended.
#[derive(Debug)]
pub enum Outcome {
    /// Everything was copied.
    Success,
    /// Something failed, and was reported, or the user declined a replacement.
    Failure,
    /// Usage error in the operands; nothing was touched. Print it with a pointer to the help.
    Usage(Problem),
    /// The copy cannot start (engine, SELinux, target); nothing was touched.
    Fatal(Problem),
}

/// Minimum size, in bytes, of a file that is copied inside the kernel where possible. Shorter files
/// fit in one buffer anyway (docs/measurements/).
const OFFLOAD_BYTES: u64 = 256 << 10;

/// Copies `operands` as `options` say, with the engine and limits in `config`.
pub fn run(operands: &Operands, options: &CopyOptions, config: &Config, report: &dyn Report) -> Outcome {
    run_by(&Alone, operands, options, config, report)
}

/// Like [`run`], on the given executor.
pub fn run_by(
    executor: &impl Executor<Copier>,
    operands: &Operands,
    options: &CopyOptions,
    config: &Config,
    report: &dyn Report,
) -> Outcome {
    let settings = Settings::resolve(&serial_if_asked(config, options));
    let mut engine = match settings.first_engine() {
        Ok(engine) => engine,
        Err((name, cause)) => {
            return Outcome::Fatal(Problem::new(FlowKind::CannotUseEngine).naming(name).because(cause));
        }
    };
    let cache = DirCache::new(settings.held);
    let onto_backup = operands::onto_backup(operands, options);
    let (operands, options) = onto_backup.as_ref().map_or((operands, options), |(names, how)| (names, how));
    if let Label::Given(context) = &options.label
        && let Err(cause) = set_creation_label(context)
    {
        let problem = Problem::new(CopyKind::CreationLabel).naming(context.to_bytes());
        return Outcome::Fatal(problem.because(cause));
    }
    let contexts = match default_label::open(options) {
        Ok(contexts) => contexts,
        Err(problem) => return Outcome::Fatal(problem),
    };
    let assignments = match operands::assign(operands, options, &cache) {
        Ok(assignments) => assignments,
        Err(Stop::Usage(problem)) => return Outcome::Usage(problem),
        Err(Stop::Fatal(problem)) => return Outcome::Fatal(problem),
    };
    let (assignments, mut left_out) = operands::without_repetitions(assignments, options);
    let mut status = Status::Success;
    let groups = operands::groups(assignments, options, &cache);
    let copier = Copier { contexts, ..Copier::new(options.clone(), groups.len() > 1) };
    let mut parents = Parents::new(&copier, &cache, report);
    let mut first = 0;
    for group in &groups {
        status = status.max(tell(until(first + group.len(), &mut left_out), report));
        let (operands, problems) = places(group, first, &copier, &cache, &mut parents);
        first += group.len();
        status = status.max(tell(problems, report));
        let engine = Mutex::new(engine.take());
        let (tool, cache) = (&copier, &cache);
        let mut targets: Vec<_> = operands.iter().map(|operand| Arc::clone(&operand.own.held)).collect();
        targets.sort_unstable_by_key(|held| (held.identity().device, held.identity().inode));
        targets.dedup_by_key(|held| held.identity());
        let run = RunSpec { tool, settings, cache, report, engine };
        let job = JobSpec { run, config, places: targets.clone() };
        status = status.max(executor.execute(&job, operands));
        status =
            status.max(tell(targets.iter().flat_map(|held| copier.sweep(cache, held)).collect(), report));
    }
    status = status.max(tell(until(usize::MAX, &mut left_out), report));
    status = status.max(parents.finish());
    match status {
        Status::Success if !copier.declined.into_inner() => Outcome::Success,
        Status::Success | Status::Failure => Outcome::Failure,
    }
}

/// Limits the run to one worker and one file with `-i`: each question is answered before the next
/// file begins.
fn serial_if_asked(config: &Config, options: &CopyOptions) -> Config {
    let config = config.clone();
    if options.existing.ask { Config { jobs: Some(1), look_ahead: Some(1), ..config } } else { config }
}

/// Removes and returns the problems with fewer than `sources` sources before them.
fn until(sources: usize, problems: &mut Vec<(usize, Problem)>) -> Vec<Problem> {
    let count = problems.partition_point(|(before, _)| *before < sources);
    problems.drain(..count).map(|(_, problem)| problem).collect()
}

/// Reports problems and returns the resulting status.
fn tell(problems: Vec<Problem>, report: &dyn Report) -> Status {
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    problems.into_iter().for_each(|problem| report.problem(problem));
    if failed { Status::Failure } else { Status::Success }
}

/// Opens handles for the parent directories of a group's sources. `first` is the overall index of
/// the group's first source. Also returns a problem for each source that cannot be reached.
fn places(
    group: &[Assignment],
    first: usize,
    copier: &Copier,
    cache: &DirCache,
    parents: &mut Parents<'_>,
) -> (Vec<Operand<TargetDirectory>>, Vec<Problem>) {
    let (mut operands, mut problems) = (Vec::with_capacity(group.len()), Vec::new());
    let mut facts = HashMap::new();
    for (index, assignment) in group.iter().enumerate() {
        let Some(held) = parents.of(assignment) else { continue };
        let Assignment { text, target: (_, name), shown, .. } = assignment;
        let split = Split::of(text);
        match split.hold(cache) {
            Ok(place) => {
                let facts = *facts.entry(held.identity()).or_insert_with(|| {
                    (copier.is_shared(cache, &held), copier.operands_inherit_access_list(cache, &held))
                });
                let names = (text.to_bytes().to_vec(), shown.clone());
                let own = TargetDirectory::place(held, name.clone(), names, first + index, facts);
                operands.push(Operand::named(place, &c_string(split.name), own));
            }
            Err(cause) => {
                problems.push(Problem::new(CopyKind::CannotStat).naming(text.to_bytes()).because(cause));
            }
        }
    }
    (operands, problems)
}

/// The [`Tool`] that copies: options and the state all workers share.
pub struct Copier {
    options: CopyOptions,
    process: ProcessIdentity,
    umask: Mode,
    offload_bytes: u64,
    links: LinkTable<Entry<Copier>, LinkedName>,
    /// Targets created from operands; kept only if there are several groups.
    created: Option<Mutex<HashSet<(CString, Identity)>>>,
    /// Directories copied because an operand named them.
    named: NamedCopies,
    /// Tops of the trees created by this run.
    tops: Tops,
    made_links: MadeLinks,
    backups: Backups,
    layouts: Layouts,
    /// Rules of `/etc/xattr.conf`, read when the first xattr is found.
    xattr_rules: OnceLock<XattrRules>,
    /// The policy's file contexts, with `-Z`.
    contexts: Option<FileContexts>,
    resolutions: Resolutions,
    /// True if the user has agreed to the next replacement. Only one file is in flight then.
    agreed: AtomicBool,
    /// True if the user has declined a replacement.
    declined: AtomicBool,
    /// Temporary names for files until they are complete, if used.
    temporary_names: OnceLock<TemporaryNames>,
    /// True if incomplete files are kept for a later run.
    keeps_temporary: AtomicBool,
}

impl Copier {
    fn new(options: CopyOptions, several_groups: bool) -> Self {
        let made_links = MadeLinks::new(options.existing.keep_directory_symlink);
        Self {
            made_links,
            options,
            process: haul_sys::effective_identity(),
            umask: haul_sys::umask(),
            offload_bytes: OFFLOAD_BYTES,
            links: LinkTable::new(),
            created: several_groups.then(|| Mutex::new(HashSet::new())),
            named: NamedCopies::new(several_groups),
            tops: Tops::default(),
            backups: Backups::default(),
            layouts: Layouts::default(),
            xattr_rules: OnceLock::new(),
            contexts: None,
            resolutions: Resolutions::default(),
            agreed: AtomicBool::new(false),
            declined: AtomicBool::new(false),
            temporary_names: OnceLock::new(),
            keeps_temporary: AtomicBool::new(false),
        }
    }

    fn preserves(&self, what: Preserve) -> bool {
        self.options.preserve.contains(what)
    }

    fn follows_here(&self, entry: &Entry<Self>) -> bool {
        match self.options.dereference {
            Dereference::Never => false,
            Dereference::Operands => entry.is_operand(),
            Dereference::Always => true,
        }
    }

    /// True if another user may replace entries of a target directory.
    fn is_shared(&self, cache: &DirCache, held: &Arc<DirHandle>) -> bool {
        let looked = cache.open(held).and_then(|directory| stat(&*directory));
        looked.map_or(true, |there| is_shared(&there, self.process.user))
    }

    /// Selects the files to probe: not those that may be linked, cloned or copied by the kernel.
    fn probe(&self, entry: &Entry<Self>) -> Probe {
        let target = &entry.node.own;
        if self.options.debug || (self.options.reflink != Reflink::Never && !target.refuses_reflink()) {
            return Probe::NEVER;
        }
        let same_device = target.held.identity().device == entry.node.source.identity().device;
        Probe {
            links_max: if self.preserves(Preserve::LINKS) { 1 } else { u32::MAX },
            bytes_max: if same_device { self.offload_bytes - 1 } else { u64::MAX },
        }
    }

    /// Called when a source can't be opened. GNU opens it only after checking the target and
    /// printing the `--verbose` line.
    fn source_not_opened(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Reported {
        let refusal = self.stat_source(cx, entry).ok().and_then(|stat| self.refuses(cx, entry, &stat));
        match refusal {
            Some(problem) => {
                cx.problem(problem);
                Reported::Yes
            }
            None => {
                self.tell_copied(cx, entry);
                Reported::No
            }
        }
    }

    fn record_created(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        let Some(created) = &self.created else { return };
        let name = target_name(entry);
        if let Ok(stat) = open_directory(cx, entry).and_then(|directory| stat_at(&directory, name)) {
            let mut created = created.lock().unwrap_or_else(PoisonError::into_inner);
            created.insert((name.to_owned(), stat.identity));
        }
    }

    /// True if this run created `target` from another operand.
    fn was_just_created(&self, name: &CStr, target: Identity) -> bool {
        let Some(created) = &self.created else { return false };
        let created = created.lock().unwrap_or_else(PoisonError::into_inner);
        created.contains(&(name.to_owned(), target))
    }
}

impl Tool for Copier {
    type Directory = TargetDirectory;
    type File = CopiedFile;

    fn follow(&self, entry: &Entry<Self>) -> bool {
        self.follows_here(entry)
    }

    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        if kind == EntryType::Directory {
            return if self.options.recursive { Plan::Enter } else { Plan::Handle };
        }
        if self.leaves(cx, entry, kind) {
            return Plan::Skip;
        }
        match (kind, self.options.make) {
            (EntryType::Regular, Make::Copy) if !self.options.attributes_only => {
                Plan::Read(self.probe(entry))
            }
            _ => Plan::Handle,
        }
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<TargetDirectory> {
        self.enter_directory(cx, entry, opened)
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        self.leave_directory(cx, node);
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Handled {
        self.handle_entry(cx, entry, kind)
    }

    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<CopiedFile> {
        self.begin_file(cx, entry, *opened)
    }

    /// Leaves zeros out where holes are wanted: with `--sparse=always`, and in files that
    /// have holes.
    fn block(&self, file: &OpenFile<Self>, block: Block<'_>) -> Write {
        if file.own.has_holes { Write::Parts(holes::data_in(block.bytes)) } else { Write::All }
    }

    fn finish_file(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> bool {
        self.finish_copy(cx, file)
    }

    fn close_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, own: CopiedFile, moved: bool) {
        self.end_file(cx, entry, &own, moved);
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: Failure<'_>) -> Reported {
        let (kind, cause) = match failure {
            Failure::WriteTarget(cause) => (FlowKind::ErrorWriting, cause),
            Failure::CloseTarget(cause) => (FlowKind::FailedToClose, cause),
            Failure::OpenDir(cause) | Failure::OpenFile(cause)
                if entry.kind != EntryType::Directory && !cause.is(Errno::NOENT) =>
            {
                return self.source_not_opened(cx, entry);
            }
            _ => return Reported::No,
        };
        cx.problem(Problem::new(kind).naming(target_path(entry)).because(cause.clone()));
        Reported::Yes
    }
}
