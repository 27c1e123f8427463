//! The copy tool: `cp`, with everything in flight at once.
//!
//! `operands.rs` finds out what goes where, [`Copier`] answers the framework's questions, and the other files make one
//! kind of thing each: `directory.rs`, `regular.rs` (with `holes.rs` and `stream.rs`), `other.rs`, `links.rs`, and
//! `attributes.rs` for what they all get at the end. Semantics and wording are GNU's.

mod attributes;
mod births;
mod directory;
mod holes;
mod links;
mod operands;
mod options;
mod other;
mod regular;
mod stream;
mod survey;
mod target;
pub mod wording;

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, PoisonError};

use haul_flow::{
    Begin, Block, Config, Desk, Enter, Found, Handled, HeldCache, LinkTable, Local, Need, Node, OpenFile,
    Opened, OpenedFile, Operand, Problem, Report, Settings, Setup, Severity, Status, Tally, Tool,
};
use haul_sys::{EntryType, FileType, Identity, Mode, ProcessIdentity, Stat, stat_at, stat_path};

pub use options::{CopyOptions, Dereference, Existing, Make, Operands, Preserve, Reflink, Sparse};

pub use survey::survey;

use links::LinkedName;
use operands::{Assignment, Split, Stop};
use regular::CopiedFile;
use target::{TargetDirectory, open_directory, target_name, target_path};

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
    let settings = Settings::resolve(config);
    let mut engine = match settings.first_engine() {
        Ok(engine) => engine,
        Err((name, cause)) => {
            return Outcome::Fatal(Problem::new(wording::CANNOT_USE_ENGINE).naming(name).because(cause));
        }
    };
    let cache = HeldCache::new(settings.held);
    let assignments = match operands::assign(operands, &cache) {
        Ok(assignments) => assignments,
        Err(Stop::Usage(problem)) => return Outcome::Usage(problem),
        Err(Stop::Fatal(problem)) => return Outcome::Fatal(problem),
    };
    let (assignments, problems) = operands::without_repetitions(assignments, options);
    let mut status = tell(problems, report);
    let groups = operands::groups(assignments);
    let copier = Copier::new(options.clone(), groups.len() > 1);
    for group in &groups {
        let (operands, problems) = places(group, &cache);
        status = status.max(tell(problems, report));
        let driver = Local::new(settings.jobs).preferring(settings.precedence());
        let engine = Mutex::new(engine.take());
        let setup = Setup { settings, cache: &cache, report, driver: &driver, engine };
        status = status.max(haul_flow::run(&copier, operands, &setup));
    }
    match status {
        Status::Success => Outcome::Success,
        Status::Failure => Outcome::Failure,
    }
}

/// Reports problems; returns what they come to.
fn tell(problems: Vec<Problem>, report: &dyn Report) -> Status {
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    problems.into_iter().for_each(|problem| report.problem(problem));
    if failed { Status::Failure } else { Status::Success }
}

/// Holds the directories in which some sources stand; says which cannot be.
fn places(group: &[Assignment], cache: &HeldCache) -> (Vec<Operand<Copier>>, Vec<Problem>) {
    let (mut operands, mut problems) = (Vec::with_capacity(group.len()), Vec::new());
    for Assignment { text, target: (held, name) } in group {
        let split = Split::of(text);
        match split.hold(cache) {
            Ok(place) => operands.push(Operand {
                place,
                name: operands::c_string(split.name),
                own: TargetDirectory::place(Arc::clone(held), name.clone(), text.to_bytes().to_vec()),
            }),
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
    links: LinkTable<Found<Copier>, LinkedName>,
    /// What operands were copied to, kept only if two of them have the same last component.
    created: Option<Mutex<HashSet<(CString, Identity)>>>,
}

impl Copier {
    fn new(options: CopyOptions, names_repeat: bool) -> Self {
        Self {
            options,
            process: haul_sys::effective_identity(),
            umask: haul_sys::umask(),
            offload_bytes: OFFLOAD_BYTES,
            links: LinkTable::new(),
            created: names_repeat.then(|| Mutex::new(HashSet::new())),
        }
    }

    fn preserves(&self, what: Preserve) -> bool {
        self.options.preserve.contains(what)
    }

    fn follows_here(&self, found: &Found<Self>) -> bool {
        match self.options.dereference {
            Dereference::Never => false,
            Dereference::Operands => found.is_operand(),
            Dereference::Always => true,
        }
    }

    /// Tells whether an entry's target is there and is to stay.
    fn keeps(&self, desk: &Desk<'_, Self>, found: &Found<Self>, kind: EntryType) -> bool {
        if self.options.existing != Existing::Keep || kind == EntryType::Directory {
            return false;
        }
        // Regular files would be written through a symbolic link, so it is what the link leads to that counts.
        let follow = kind == EntryType::Regular && self.options.make == Make::Copy;
        let there = open_directory(desk, found)
            .and_then(|directory| stat_path(Some(&*directory), target_name(found), follow));
        if there.is_err() {
            return false;
        }
        desk.count(Tally { skipped: 1, ..Tally::default() });
        if self.options.debug {
            let names = vec![target_path(found)];
            desk.report().line(haul_flow::Line { wording: wording::SKIPPED, names });
        }
        true
    }

    /// Remembers what an operand was copied to.
    fn record_created(&self, desk: &Desk<'_, Self>, found: &Found<Self>) {
        let Some(created) = &self.created else { return };
        let name = target_name(found);
        if let Ok(stat) = open_directory(desk, found).and_then(|directory| stat_at(&directory, name)) {
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

    /// Refuses to write through a symbolic link that an earlier operand has left in the target's place.
    fn just_created_link(&self, desk: &Desk<'_, Self>, found: &Found<Self>) -> Option<Problem> {
        if self.created.is_none() || !found.is_operand() {
            return None;
        }
        let name = target_name(found);
        let there = open_directory(desk, found).and_then(|directory| stat_at(&directory, name)).ok()?;
        let through = there.kind == FileType::Symlink && self.was_just_created(name, there.identity);
        let problem = Problem::new(wording::JUST_CREATED_LINK);
        through.then(|| problem.naming(found.path()).naming(target_path(found)))
    }
}

impl Tool for Copier {
    type Directory = TargetDirectory;
    type File = CopiedFile;

    fn follows(&self, found: &Found<Self>) -> bool {
        self.follows_here(found)
    }

    fn needs(&self, desk: &Desk<'_, Self>, found: &Found<Self>, kind: EntryType) -> Need {
        if kind == EntryType::Directory {
            return if self.options.recursive { Need::Enter } else { Need::Handle };
        }
        if self.keeps(desk, found, kind) {
            return Need::Nothing;
        }
        match (kind, self.options.make) {
            (EntryType::Regular, Make::Copy) => Need::Read,
            _ => Need::Handle,
        }
    }

    fn enter(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        opened: &Opened<'_>,
    ) -> Enter<TargetDirectory> {
        self.enter_directory(desk, found, opened)
    }

    fn leave(&self, desk: &Desk<'_, Self>, node: &Node<Self>) {
        self.leave_directory(desk, node);
    }

    fn handle(&self, desk: &Desk<'_, Self>, found: &Found<Self>, kind: EntryType) -> Handled {
        self.handle_entry(desk, found, kind)
    }

    fn reads_first(&self, found: &Found<Self>, stat: &Stat) -> bool {
        let may_be_linked = self.preserves(Preserve::LINKS) && stat.links > 1;
        let may_be_shared = self.options.reflink != Reflink::Never && !found.node.own.refuses_reflink();
        let offloaded =
            stat.size >= self.offload_bytes && found.node.own.held.identity().device == stat.identity.device;
        !may_be_linked && !may_be_shared && !offloaded
    }

    fn begin(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        opened: &OpenedFile<'_>,
    ) -> Begin<CopiedFile> {
        if let Some(problem) = self.just_created_link(desk, found) {
            desk.problem(problem);
            return Begin::Over;
        }
        self.begin_file(desk, found, *opened)
    }

    fn looks_at_blocks(&self, file: &OpenFile<Self>) -> bool {
        self.makes_holes(file)
    }

    fn block(&self, file: &OpenFile<Self>, _: u64, bytes: &[u8]) -> Block {
        self.take_block(file, bytes)
    }

    fn finish(&self, desk: &Desk<'_, Self>, file: &OpenFile<Self>) -> bool {
        self.finish_file(desk, file)
    }

    fn end(&self, desk: &Desk<'_, Self>, found: &Found<Self>, own: CopiedFile, moved: bool) {
        self.end_file(desk, found, &own, moved);
    }

    fn target_path(&self, found: &Found<Self>) -> Vec<u8> {
        target_path(found)
    }
}
