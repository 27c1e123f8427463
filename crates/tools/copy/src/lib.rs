//! The copy tool: `cp`, with everything in flight at once.
//!
//! `operands.rs` finds out what goes where, [`Copier`] answers the framework's questions, and the other files make one
//! kind of thing each: `directory.rs`, `regular.rs` (with `holes.rs` and `stream.rs`), `other.rs`, `links.rs`, and
//! `attributes.rs` for what they all get at the end. What becomes of what is there already is decided in `existing.rs` and
//! done in `place.rs`, with `age.rs` and `backup.rs`. Semantics and wording are GNU's.

mod age;
mod attributes;
mod backup;
mod creation_mode;
mod debug;
mod default_label;
mod directory;
mod distributed;
mod existing;
mod holes;
mod layouts;
mod links;
mod named;
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
pub mod wording;
mod xattr_rules;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use haul_flow::{
    Alone, Block, Config, Context, DirCache, DirHandle, DirNode, Enter, Entry, Executor, Failure, Handled,
    JobSpec, LinkTable, OpenDir, OpenFile, OpenSource, Operand, Plan, Probe, Problem, Report, Reported,
    Settings, Setup, Severity, Split, Start, Status, Tool, Write, is_shared,
};
use haul_sys::{
    EntryType, Errno, FileContexts, Identity, Mode, ProcessIdentity, set_creation_label, stat, stat_at,
};

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
use operands::{Assignment, Stop};
use parents::Parents;
use regular::CopiedFile;
use target::{MadeLinks, TargetDirectory, Tops, open_directory, target_name, target_path};
use xattr_rules::XattrRules;

/// How a copy ended.
#[derive(Debug)]
pub enum Outcome {
    /// Everything asked for was done.
    Success,
    /// Something was not; it has been reported.
    Failure,
    /// The operands make no sense; nothing was touched. To be told together with a pointer to the help.
    Usage(Problem),
    /// The target cannot be what it has to be; nothing was touched.
    Fatal(Problem),
}

/// Files at least this long are copied inside the kernel where that can be done. Shorter ones are in one buffer anyway
/// (docs/measurements/).
const OFFLOAD_BYTES: u64 = 256 << 10;

/// Copies what the operands name, as the options say, using the machine as the configuration says.
pub fn run(operands: &Operands, options: &CopyOptions, config: &Config, report: &dyn Report) -> Outcome {
    run_by(&Alone, operands, options, config, report)
}

/// Copies like [`run`], by an executor.
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
            return Outcome::Fatal(
                Problem::new(haul_flow::wording::CANNOT_USE_ENGINE).naming(name).because(cause),
            );
        }
    };
    let cache = DirCache::new(settings.held);
    let onto_backup = operands::onto_backup(operands, options);
    let (operands, options) = onto_backup.as_ref().map_or((operands, options), |(names, how)| (names, how));
    if let Label::Given(context) = &options.label
        && let Err(cause) = set_creation_label(context)
    {
        let problem = Problem::new(wording::CREATION_LABEL).naming(context.to_bytes());
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
        let (tool, settings, cache) = (&copier, &settings, &cache);
        let mut targets: Vec<_> = operands.iter().map(|operand| Arc::clone(&operand.own.held)).collect();
        targets.sort_unstable_by_key(|held| (held.identity().device, held.identity().inode));
        targets.dedup_by_key(|held| held.identity());
        let job = JobSpec { tool, config, settings, cache, places: targets.clone(), report };
        status = status.max(executor.execute(&job, |driver| {
            let settings = *settings;
            let setup = Setup { settings, cache, report, driver, engine };
            haul_flow::run(&copier, operands, &setup)
        }));
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

/// Has one worker do one file after the other if the user is asked about each: a question is answered before the next
/// file begins.
fn serial_if_asked(config: &Config, options: &CopyOptions) -> Config {
    let config = config.clone();
    if options.existing.ask { Config { jobs: Some(1), look_ahead: Some(1), ..config } } else { config }
}

/// Takes out the problems of which fewer than so many sources come before.
fn until(sources: usize, problems: &mut Vec<(usize, Problem)>) -> Vec<Problem> {
    let count = problems.partition_point(|(before, _)| *before < sources);
    problems.drain(..count).map(|(_, problem)| problem).collect()
}

/// Reports problems; returns what they come to.
fn tell(problems: Vec<Problem>, report: &dyn Report) -> Status {
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    problems.into_iter().for_each(|problem| report.problem(problem));
    if failed { Status::Failure } else { Status::Success }
}

/// Holds the directories in which some sources stand, of which the first is the `first`-th of all; says which cannot be.
fn places(
    group: &[Assignment],
    first: usize,
    copier: &Copier,
    cache: &DirCache,
    parents: &mut Parents<'_>,
) -> (Vec<Operand<Copier>>, Vec<Problem>) {
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
                operands.push(Operand::named(place, &operands::c_string(split.name), own));
            }
            Err(cause) => {
                problems.push(Problem::new(wording::CANNOT_STAT).naming(text.to_bytes()).because(cause));
            }
        }
    }
    (operands, problems)
}

/// Answers the framework's questions about a copy.
pub struct Copier {
    options: CopyOptions,
    process: ProcessIdentity,
    umask: Mode,
    offload_bytes: u64,
    links: LinkTable<Entry<Copier>, LinkedName>,
    /// What operands were copied to, kept only if two of them have the same last component.
    created: Option<Mutex<HashSet<(CString, Identity)>>>,
    /// The directories that were copied because the user named them.
    named: NamedCopies,
    /// The tops of the trees that this run has made.
    tops: Tops,
    made_links: MadeLinks,
    backups: Backups,
    layouts: Layouts,
    /// Which attributes are copied; read when the first is found.
    xattr_rules: OnceLock<XattrRules>,
    /// The policy's file contexts, with `-Z`.
    contexts: Option<FileContexts>,
    resolutions: Resolutions,
    /// Whether the user has agreed to the replacement that comes next. Only one file is in flight then.
    agreed: AtomicBool,
    /// Whether the user has declined any.
    declined: AtomicBool,
    /// Which names new files have until they are whole, if not their own.
    temporary_names: OnceLock<TemporaryNames>,
    /// Whether files that are not whole stay, for a later run.
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

    /// True if somebody else may exchange the entries of a directory that operands are copied to.
    fn is_shared(&self, cache: &DirCache, held: &Arc<DirHandle>) -> bool {
        let looked = cache.open(held).and_then(|directory| stat(&*directory));
        looked.map_or(true, |there| is_shared(&there, self.process.user))
    }

    /// Which files are probed: not those that may turn out to be linked, cloned or copied by the kernel.
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

    /// Called when a source can't be opened. GNU opens it after it has looked at the target, and told of the copy.
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

    /// Remembers what an operand was copied to.
    fn record_created(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        let Some(created) = &self.created else { return };
        let name = target_name(entry);
        if let Ok(stat) = open_directory(cx, entry).and_then(|directory| stat_at(&directory, name)) {
            let mut created = created.lock().unwrap_or_else(PoisonError::into_inner);
            created.insert((name.to_owned(), stat.identity));
        }
    }

    /// Tells whether a target was made by this very run, from another operand.
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

    /// Leaves zeros out where holes are wanted: with `--sparse=always`, and in a file that has holes already.
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
        let (wording, cause) = match failure {
            Failure::WriteTarget(cause) => (haul_flow::wording::ERROR_WRITING, cause),
            Failure::CloseTarget(cause) => (haul_flow::wording::FAILED_TO_CLOSE, cause),
            Failure::OpenDir(cause) | Failure::OpenFile(cause)
                if entry.kind != EntryType::Directory && !cause.is(Errno::NOENT) =>
            {
                return self.source_not_opened(cx, entry);
            }
            _ => return Reported::No,
        };
        cx.problem(Problem::new(wording).naming(target_path(entry)).because(cause.clone()));
        Reported::Yes
    }
}
