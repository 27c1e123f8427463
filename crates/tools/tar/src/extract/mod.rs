//! `haul tar -x`: all workers make members at once, with the result of making them one after
//! the other.
//!
//! ```text
//! reader (one at a time)       all workers             in archive order
//! headers, directories ─► piece: files, links ─► members that wait ─► at the end: directories
//! ```
//!
//! A piece is about a mebibyte of members, or a part of a large one. If the archive is seekable, a
//! large file's bytes are read by whoever writes them; everything else is read by the reader. A
//! member whose result depends on the order waits for its piece's turn: its name, or a directory
//! above it, is in flight (`in_flight.rs`), or it is a hard link, whose source may be.
//!
//! With several ranks, groups of members are made by any free rank (`remote.rs`).
//!
//! `resolver.rs` resolves directories, and confines the extraction; `make.rs` makes one member,
//! `attributes.rs` sets its attributes, `content.rs` writes its bytes, `directories.rs` finishes
//! the directories.

mod attributes;
mod content;
mod directories;
mod in_flight;
mod make;
mod owners;
mod piece;
mod reader;
mod remote;
mod resolver;
mod stages;

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haul_cluster::{Distributed, ItemReceiver};
use haul_flow::{
    Config, Context, DirHandle, DirNode, Enter, Entry, Executor, Handled, OpenDir, OpenSource, Operand, Plan,
    Problem, Reporter, Session, Split, Start, Status, Tool, lock,
};
use haul_sys::{EntryType, Error, Mode, NameArena, Open};

use attributes::Rights;
use content::Seekable;
use directories::Directories;
use in_flight::InFlight;
use reader::MemberReader;
use remote::{OperandData, RemoteGroups};
use resolver::{Following, NewDirectories, Resolver};

use super::read::archive;
use super::read::members::Members;
use super::{ArchivePath, Confinement, Options, TarKind};

/// Exit status of a run in which something failed.
const FAILED: u8 = 2;

const PIECES_EACH: usize = 4;

/// Extracts an archive, with its members made by the processes of `executor`; returns the
/// exit status.
pub fn extract(
    executor: &impl Executor<Extractor>,
    options: &Options,
    config: &Config,
    report: &dyn Reporter,
) -> u8 {
    let members = match archive::open(options) {
        Ok(members) => members,
        Err(problem) => return refuse(problem, report),
    };
    if options.to_stdout {
        return reader::to_standard_output(members, options, report);
    }
    let rights = Rights::new(options, haul_sys::umask());
    let session = match Session::begin(config, report) {
        Ok(session) => session,
        Err(problem) => return refuse(problem, report),
    };
    let roots = match Roots::hold(options, &session) {
        Ok(roots) => roots,
        Err(problem) => return refuse(problem, report),
    };
    let places: Vec<_> = roots.held.iter().map(|(_, held)| Arc::clone(held)).collect();
    let operand = archive_operand(options, &session, &places[0]);
    let extractor = Extractor::new(options.clone(), rights, members, roots);
    let status = session.run(executor, &extractor, places, [operand]);
    let missing = extractor.state.as_ref().is_some_and(|state| state.report_missing(report));
    if status == Status::Failure || missing { FAILED } else { 0 }
}

/// Makes the only operand of a run: the archive, so that other processes find it too, or a
/// placeholder if it has no path.
fn archive_operand(options: &Options, session: &Session<'_>, root: &Arc<DirHandle>) -> Operand<OperandData> {
    let named = match &options.archive {
        ArchivePath::File(path) => {
            let split = Split::of(path);
            split.hold(&session.cache).ok().zip(CString::new(split.base()).ok())
        }
        ArchivePath::Standard => None,
    };
    let (place, name) = named.unwrap_or_else(|| (Arc::clone(root), c".".to_owned()));
    let mut names = NameArena::new();
    names.push(&name, 0, EntryType::Special);
    Operand { place, names, own: OperandData::Archive }
}

fn refuse(problem: Problem, report: &dyn Reporter) -> u8 {
    report.problem(problem);
    FAILED
}

/// Directories that members are extracted to: the working directory at startup, or where `-C` led.
struct Roots {
    held: Vec<(Option<CString>, Arc<DirHandle>)>,
}

impl Roots {
    /// Opens handles of them all. The first one belongs to an operand, or to everything.
    fn hold(options: &Options, session: &Session<'_>) -> Result<Self, Problem> {
        let all = options.directory.clone();
        let mut wanted: Vec<_> = options.named.iter().map(|named| named.directory.clone()).collect();
        if wanted.is_empty() {
            wanted.push(all);
        }
        let mut held: Vec<(Option<CString>, Arc<DirHandle>)> = Vec::new();
        for directory in wanted {
            if held.iter().any(|(known, _)| *known == directory) {
                continue;
            }
            let path = directory.clone().unwrap_or_else(|| c".".to_owned());
            let root = session
                .cache
                .hold_operand(&path, Open::SEARCH.following(), Vec::new())
                .map_err(|cause| Problem::new(TarKind::CannotOpen).naming(path.to_bytes()).because(cause))?;
            held.push((directory, root));
        }
        Ok(Self { held })
    }

    /// Returns the index of the directory that an operand's members go to.
    fn of(&self, options: &Options, operand: Option<usize>) -> usize {
        let directory = operand.and_then(|index| options.named.get(index)).map(|named| &named.directory);
        let is_it = |(known, _): &(Option<CString>, _)| directory.is_some_and(|directory| known == directory);
        self.held.iter().position(is_it).unwrap_or(0)
    }
}

/// The extraction, as a tool of the framework.
pub struct Extractor {
    options: Arc<Options>,
    rights: Rights,
    /// State of the launch process, which reads the archive; `None` elsewhere.
    state: Option<Arc<ExtractState>>,
    /// The archive, if it is seekable; other processes open it when they need it.
    archive: OnceLock<Seekable>,
    /// True if there are other processes, to which the init message was sent.
    has_others: AtomicBool,
}

/// State shared by the stages of the sequence.
struct ExtractState {
    reader: Mutex<MemberReader>,
    flight: InFlight,
    /// Resolvers for members that are made in turn, by root.
    late_resolvers: Mutex<Vec<Resolver>>,
    directories: Mutex<Directories>,
    /// True if the archive could not be read to its end.
    broken: AtomicBool,
    entry: Mutex<Option<Entry<Extractor>>>,
    remote: RemoteGroups,
}

impl Extractor {
    fn new(options: Options, rights: Rights, members: Members, roots: Roots) -> Self {
        let options = Arc::new(options);
        let following = match (options.confinement, options.follows_to_directories()) {
            (Confinement::Absolute, _) => Following::Anywhere,
            (Confinement::Confined, true) => Following::Within,
            (Confinement::Confined, false) => Following::Never,
        };
        let new: Vec<_> = roots.held.iter().map(|_| Arc::new(NewDirectories::default())).collect();
        let places = || {
            let roots = roots.held.iter().zip(&new);
            roots.map(|((_, held), new)| Resolver::new(held, following, new)).collect::<Vec<_>>()
        };
        let late_resolvers = Mutex::new(places());
        let archive = members.input().file().cloned().map(Seekable::new);
        let archive = archive.map_or_else(OnceLock::new, OnceLock::from);
        let reader = MemberReader::new(members, &options, [places(), places()], roots, following);
        let state = ExtractState {
            reader: Mutex::new(reader),
            flight: InFlight::default(),
            late_resolvers,
            directories: Mutex::default(),
            broken: AtomicBool::new(false),
            entry: Mutex::default(),
            remote: RemoteGroups::default(),
        };
        Self { options, rights, state: Some(Arc::new(state)), archive, has_others: AtomicBool::new(false) }
    }
}

impl ExtractState {
    /// Reports operands that were not found, unless the archive could not be read: then they
    /// may exist.
    fn report_missing(&self, report: &dyn Reporter) -> bool {
        !self.broken.load(Ordering::Relaxed) && lock(&self.reader).report_missing(report)
    }
}

impl Extractor {
    fn begin_reading(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, state: &Arc<ExtractState>) {
        let replaces = self.options.existing.is_replaced();
        // Others open the archive by its name, which standard input doesn't have.
        let is_named = self.options.archive.is_for_all();
        let can_go_out = is_named && self.archive.get().is_some() && replaces && !lock(&state.reader).in_turn;
        if self.has_others.load(Ordering::Relaxed) && can_go_out {
            state.remote.open(entry);
        }
        *lock(&state.entry) = Some(entry.clone());
        cx.begin_sequence(Arc::clone(state), cx.settings().jobs * PIECES_EACH);
    }
}

impl Tool for Extractor {
    type Directory = OperandData;
    type File = ();

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: EntryType) -> Plan {
        Plan::Handle
    }

    fn enter_dir(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenDir<'_>) -> Enter<OperandData> {
        Enter::Done
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        match (&entry.node.own, &self.state) {
            (OperandData::Group(group), _) => self.handle_group(cx, entry, group),
            (OperandData::Archive, Some(state)) => {
                self.begin_reading(cx, entry, state);
                Handled::Deferred
            }
            (OperandData::Archive, None) => Handled::Done,
        }
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        Start::Done
    }

    fn emitted(&self, _: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        if let OperandData::Group(group) = &entry.node.own {
            self.group_reported(group, result);
        }
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        if let OperandData::Group(group) = &node.own {
            self.group_completed(cx, group);
        }
    }
}

impl Distributed for Extractor {
    const NAME: &'static str = "tar -x";
    const KINDS: &'static [haul_flow::Kind] = TarKind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        self.has_others.store(true, Ordering::Relaxed);
        // Writing to memory cannot fail; an empty init message would be refused.
        postcard::to_allocvec(&(&*self.options, self.rights.umask)).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        let (options, umask): (Options, Mode) = postcard::from_bytes(init_message).ok()?;
        haul_sys::set_umask(umask);
        let rights = Rights::new(&options, umask);
        let (archive, has_others) = (OnceLock::new(), AtomicBool::new(false));
        Some(Self { options: Arc::new(options), rights, state: None, archive, has_others })
    }

    /// The archive is read where the run was started; only groups of its members may be
    /// made elsewhere.
    fn is_distributable(&self, node: &DirNode<Self>) -> bool {
        matches!(node.own, OperandData::Group(_))
    }

    fn pack(&self, own: &OperandData) -> Vec<u8> {
        match own {
            OperandData::Group(group) => remote::pack(group),
            OperandData::Archive => Vec::new(),
        }
    }

    fn unpack(&self, packed: &[u8], receiver: &ItemReceiver<'_>) -> Result<OperandData, (Vec<u8>, Error)> {
        remote::unpack(packed, receiver)
    }
}
