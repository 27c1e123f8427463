//! `haul tar -x`: members made by all workers at once, as if they had been made one after the other.
//!
//! ```text
//! reader (one at a time)       all workers             in the archive's order
//! headers, directories ─► piece: files, links ─► what had to wait ─► at the end: attributes of directories
//! ```
//!
//! A piece is about a mebibyte of members, or a part of a large one. Where the archive can be sought in, a large file's bytes are
//! read by whoever writes them; all else is read by the reader. What a member's turn decides, because its name or a directory above
//! it is under way (`flight.rs`), or because it is a further name of something that is, waits for its piece's turn.
//!
//! Under ranks, groups of members are made by whoever is free (`away.rs`).
//!
//! `places.rs` finds the directories, and is where extraction is confined; `make.rs` makes one member, `attributes.rs` gives it
//! what it is to have, `content.rs` its bytes, `directories.rs` finishes the directories.

mod attributes;
mod away;
mod content;
mod directories;
mod flight;
mod make;
mod owners;
mod piece;
mod places;
mod reader;
mod turn;

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use haul_cluster::{Arrivals, Distributed};
use haul_flow::{
    Config, Desk, Enter, Executor, Found, Handled, Held, Node, Opened, OpenedFile, Operand, Plan, Problem,
    Report, Session, Split, Start, Status, Tool,
};
use haul_sys::{EntryType, Error, Mode, Names, Open};

use attributes::Rights;
use away::{Out, Place};
use content::Seekable;
use directories::Directories;
use flight::Flight;
use places::{Following, NewDirectories, Places};
use reader::Reader;

use super::read::archive;
use super::read::members::Members;
use super::{Archive, Confinement, Existing, Options, wording};

/// The exit status of a run in which something failed.
const FAILED: u8 = 2;

/// Pieces under way for each worker.
const PIECES_EACH: usize = 4;

/// Extracts an archive, its members made by an executor; returns the exit status.
pub fn extract(
    executor: &impl Executor<Extractor>,
    options: &Options,
    config: &Config,
    report: &dyn Report,
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
    let missing = extractor.state.as_ref().is_some_and(|state| state.tell_missing(report));
    if status == Status::Failure || missing { FAILED } else { 0 }
}

/// Makes the one operand of a run: the archive, where other processes find it too; or anything, where there is no such place.
fn archive_operand(options: &Options, session: &Session<'_>, root: &Arc<Held>) -> Operand<Extractor> {
    let named = match &options.archive {
        Archive::File(path) => {
            let split = Split::of(path);
            split.hold(&session.cache).ok().zip(CString::new(split.base()).ok())
        }
        Archive::Standard => None,
    };
    let (place, name) = named.unwrap_or_else(|| (Arc::clone(root), c".".to_owned()));
    let mut names = Names::new();
    names.push(&name, 0, EntryType::Special);
    Operand { place, names, own: Place::Archive }
}

fn refuse(problem: Problem, report: &dyn Report) -> u8 {
    report.problem(problem);
    FAILED
}

/// The directories that members are extracted to: where the program was started, or `-C` has led.
struct Roots {
    held: Vec<(Option<CString>, Arc<Held>)>,
}

impl Roots {
    /// Holds them all; the first is the one of an operand, or of everything.
    fn hold(options: &Options, session: &Session<'_>) -> Result<Self, Problem> {
        let all = options.directory.clone();
        let mut wanted: Vec<_> = options.named.iter().map(|named| named.directory.clone()).collect();
        if wanted.is_empty() {
            wanted.push(all);
        }
        let mut held: Vec<(Option<CString>, Arc<Held>)> = Vec::new();
        for directory in wanted {
            if held.iter().any(|(known, _)| *known == directory) {
                continue;
            }
            let path = directory.clone().unwrap_or_else(|| c".".to_owned());
            let root = session
                .cache
                .hold_operand(&path, Open::SEARCH.following(), Vec::new())
                .map_err(|cause| Problem::new(wording::CANNOT_OPEN).naming(path.to_bytes()).because(cause))?;
            held.push((directory, root));
        }
        Ok(Self { held })
    }

    /// Returns which of them an operand's members go to.
    fn of(&self, options: &Options, operand: Option<usize>) -> usize {
        let directory = operand.and_then(|index| options.named.get(index)).map(|named| &named.directory);
        let is_it = |(known, _): &(Option<CString>, _)| directory.is_some_and(|directory| known == directory);
        self.held.iter().position(is_it).unwrap_or(0)
    }
}

/// Answers the framework's questions about an extraction.
pub struct Extractor {
    options: Arc<Options>,
    rights: Rights,
    /// What the launch process, which reads the archive, keeps.
    state: Option<Arc<State>>,
    /// The archive, if it can be sought in; in other processes once it is needed.
    archive: OnceLock<Seekable>,
    /// Whether there are other processes: they were told what is to be done.
    has_others: AtomicBool,
}

/// What the stages of the sequence share.
struct State {
    reader: Mutex<Reader>,
    flight: Flight,
    /// For what is made in its turn, by root.
    late: Mutex<Vec<Places>>,
    directories: Mutex<Directories>,
    /// Whether the archive could not be read to its end.
    broken: AtomicBool,
    found: Mutex<Option<Found<Extractor>>>,
    /// What other processes make.
    out: Out,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Extractor {
    fn new(options: Options, rights: Rights, members: Members, roots: Roots) -> Self {
        let options = Arc::new(options);
        let following = match (options.confinement, options.keep_directory_symlink) {
            (Confinement::Absolute, _) => Following::Anywhere,
            (Confinement::Confined, true) => Following::Within,
            (Confinement::Confined, false) => Following::Never,
        };
        let new: Vec<_> = roots.held.iter().map(|_| Arc::new(NewDirectories::default())).collect();
        let places = || {
            let roots = roots.held.iter().zip(&new);
            roots.map(|((_, held), new)| Places::new(held, following, new)).collect::<Vec<_>>()
        };
        let late = Mutex::new(places());
        let archive = members.input().file().cloned().map(Seekable::new);
        let archive = archive.map_or_else(OnceLock::new, OnceLock::from);
        let reader = Reader::new(members, &options, [places(), places()], roots, following);
        let state = State {
            reader: Mutex::new(reader),
            flight: Flight::default(),
            late,
            directories: Mutex::default(),
            broken: AtomicBool::new(false),
            found: Mutex::default(),
            out: Out::default(),
        };
        Self { options, rights, state: Some(Arc::new(state)), archive, has_others: AtomicBool::new(false) }
    }
}

impl State {
    /// Tells of operands that were not found; not if the archive could not be read, as nobody knows then.
    fn tell_missing(&self, report: &dyn Report) -> bool {
        !self.broken.load(Ordering::Relaxed) && lock(&self.reader).tell_missing(report)
    }
}

impl Extractor {
    /// Begins to read the archive.
    fn begin_reading(&self, desk: &Desk<'_, Self>, found: &Found<Self>, state: &Arc<State>) {
        let replaces = matches!(self.options.existing, Existing::Replace | Existing::Overwrite);
        let can_go_out = self.archive.get().is_some() && replaces && !lock(&state.reader).is_in_turn();
        if self.has_others.load(Ordering::Relaxed) && can_go_out {
            state.out.open(found);
        }
        *lock(&state.found) = Some(found.clone());
        desk.begin_sequence(Arc::clone(state), desk.settings().jobs * PIECES_EACH);
    }
}

impl Tool for Extractor {
    type Directory = Place;
    type File = ();

    fn plan(&self, _: &Desk<'_, Self>, _: &Found<Self>, _: EntryType) -> Plan {
        Plan::Handle
    }

    fn enter_dir(&self, _: &Desk<'_, Self>, _: &Found<Self>, _: &Opened<'_>) -> Enter<Place> {
        Enter::Over
    }

    fn handle(&self, desk: &Desk<'_, Self>, found: &Found<Self>, _: EntryType) -> Handled {
        match (&found.node.own, &self.state) {
            (Place::Group(group), _) => self.handle_group(desk, found, group),
            (Place::Archive, Some(state)) => {
                self.begin_reading(desk, found, state);
                Handled::Deferred
            }
            (Place::Archive, None) => Handled::Over,
        }
    }

    fn open_file(&self, _: &Desk<'_, Self>, _: &Found<Self>, _: &OpenedFile<'_>) -> Start<()> {
        Start::Done
    }

    fn emitted(&self, _: &Desk<'_, Self>, found: &Found<Self>, result: &[u8]) {
        if let Place::Group(group) = &found.node.own {
            self.group_told(group, result);
        }
    }

    fn finish_dir(&self, desk: &Desk<'_, Self>, node: &Node<Self>) {
        if let Place::Group(group) = &node.own {
            self.group_left(desk, group);
        }
    }
}

impl Distributed for Extractor {
    const NAME: &'static str = "tar -x";

    fn brief(&self) -> Vec<u8> {
        self.has_others.store(true, Ordering::Relaxed);
        // Writing to memory cannot fail; an empty brief would be refused.
        postcard::to_allocvec(&(&*self.options, self.rights.umask())).unwrap_or_default()
    }

    fn briefed(brief: &[u8]) -> Option<Self> {
        let (options, umask): (Options, Mode) = postcard::from_bytes(brief).ok()?;
        haul_sys::set_umask(umask);
        let rights = Rights::new(&options, umask);
        let (archive, has_others) = (OnceLock::new(), AtomicBool::new(false));
        Some(Self { options: Arc::new(options), rights, state: None, archive, has_others })
    }

    /// The archive is read where the run was started; what is in it may be made anywhere.
    fn may_travel(&self, node: &Node<Self>) -> bool {
        matches!(node.own, Place::Group(_))
    }

    fn pack(&self, own: &Place) -> Vec<u8> {
        match own {
            Place::Group(group) => away::pack(group),
            Place::Archive => Vec::new(),
        }
    }

    fn unpack(&self, packed: &[u8], arrivals: &Arrivals<'_>) -> Result<Place, (Vec<u8>, Error)> {
        away::unpack(packed, arrivals)
    }
}
