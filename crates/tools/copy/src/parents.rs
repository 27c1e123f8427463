//! `--parents`: the directories between the target directory and a copy.
//!
//! They are made before the copies below them begin, one operand after another, and looked up
//! component by component from cached handles, so each operand reuses what earlier ones found. As
//! with GNU cp, an existing parent may be a symbolic link to a directory, and the directories on a
//! path get the preserved attributes, new and old alike, only if one of them was missing. They get
//! them after everything is copied, so that later writes don't change their times and no mode
//! blocks a later operand.

use std::collections::HashMap;
use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;

use haul_flow::{Creation, DirCache, DirHandle, OutputLine, Problem, Reporter, Severity, Status, is_shared};
use haul_sys::{
    Errno, Error, Fd, FileRef, FileType, Identity, Mode, Open, Operation, Owner, Pinned, Special, Stat, Times,
};
use haul_sys::{c_string, make_directory, open, open_path, stat, stat_followed, stat_path};

use super::default_label;
use super::directory;
use super::durable;
use super::journaled;
use super::object::{ACCESS_LIST, DEFAULT_ACCESS_LIST};
use super::operands::Assignment;
use super::options::Preserve;
use super::{Copier, CopyKind};

/// The parent directories of one run's copies.
pub(super) struct Parents<'a> {
    copier: &'a Copier,
    cache: &'a DirCache,
    report: &'a dyn Reporter,
    /// Parents found or made so far, by name relative to the target directory.
    known: HashMap<Vec<u8>, Arc<DirHandle>>,
    /// Parents to get attributes at the end, in the order met, and each one's index.
    changed: Vec<Changed>,
    places: HashMap<Identity, usize>,
    /// Parents that an interrupted run with the same journal made, with their modes.
    unfinished: HashMap<Identity, Mode>,
    status: Status,
}

/// A parent to get attributes at the end.
struct Changed {
    held: Arc<DirHandle>,
    shown: Vec<u8>,
    source: CString,
    stat: Stat,
    /// Mode it gets if the source's is not preserved.
    plain_mode: Option<Mode>,
}

/// One component of a copy's path.
struct PathComponent<'w> {
    name: CString,
    /// The source's path up to and including it, as written.
    source: &'w [u8],
    /// The target's path up to and including it, for messages.
    shown: &'w [u8],
    /// Its name relative to the target directory, without repeated slashes.
    key: Vec<u8>,
}

impl<'a> Parents<'a> {
    pub(super) fn new(copier: &'a Copier, cache: &'a DirCache, report: &'a dyn Reporter) -> Self {
        Self {
            copier,
            cache,
            report,
            known: HashMap::new(),
            changed: Vec::new(),
            places: HashMap::new(),
            unfinished: HashMap::new(),
            status: Status::Success,
        }
    }

    /// Returns the directory for a copy, after making missing parents; `None` if that failed and
    /// was reported.
    pub(super) fn of(&mut self, assignment: &Assignment) -> Option<Arc<DirHandle>> {
        let target = &assignment.target.0;
        if assignment.way.is_empty() {
            return Some(Arc::clone(target));
        }
        let way = components(assignment);
        let held = match self.find(target, &way) {
            Ok(None) => self.make_missing(target, &way).and_then(|(held, is_new)| match is_new {
                true => self.check_dots(assignment).map(|()| held),
                false => Ok(held),
            }),
            Ok(Some(held)) => Ok(held),
            Err(problem) => Err(problem),
        };
        held.map_err(|problem| self.report(problem)).ok()
    }

    /// Refuses a copy that names its own new parent (`.` or `..`): GNU can't make that
    /// directory twice.
    fn check_dots(&self, assignment: &Assignment) -> Result<(), Problem> {
        let is_itself = matches!(assignment.target.1.to_bytes(), b"." | b"..");
        if !(is_itself && self.copier.options.recursive) {
            return Ok(());
        }
        let exists = Error::new(Operation::Mkdirat, format!("{:?}", assignment.target.1), Errno::EXIST);
        let problem = Problem::new(CopyKind::CannotCreateDirectory).naming(assignment.shown.clone());
        Err(problem.because(exists))
    }

    /// Walks the path; `None` if it is incomplete, or an interrupted run has left it unfinished. As
    /// with GNU, a path that ends in a file is reported before the sources are examined.
    fn find(
        &mut self,
        target: &Arc<DirHandle>,
        way: &[PathComponent<'_>],
    ) -> Result<Option<Arc<DirHandle>>, Problem> {
        let mut held = Arc::clone(target);
        for (index, component) in way.iter().enumerate() {
            held = match self.step(&held, component) {
                Ok(there) if self.is_due(&there) => return Ok(None),
                Ok(there) => there,
                Err(_) if index + 1 == way.len() && self.is_other(&held, component) => {
                    return Err(Problem::new(CopyKind::ParentIsOther).naming(component.shown));
                }
                Err(_) => return Ok(None),
            };
        }
        Ok(Some(held))
    }

    /// True if an interrupted run made a directory, and it isn't to get its attributes yet.
    fn is_due(&self, there: &DirHandle) -> bool {
        self.unfinished.contains_key(&there.identity()) && !self.places.contains_key(&there.identity())
    }

    /// Descends one component.
    fn step(
        &mut self,
        above: &Arc<DirHandle>,
        component: &PathComponent<'_>,
    ) -> Result<Arc<DirHandle>, Error> {
        if let Some(held) = self.known.get(&component.key) {
            return Ok(Arc::clone(held));
        }
        let how = if self.copier.options.strict { Open::SEARCH } else { Open::SEARCH.following() };
        let fd = open(self.cache.open(above)?, &component.name, how)?;
        let there = stat(&fd)?;
        if journaled::is_unfinished(self.copier, &there) {
            self.unfinished.insert(there.identity, there.mode);
            directory::make_writable(self.copier, &fd, how, &there);
        }
        Ok(self.hold(above, component, how, (there.identity, fd)))
    }

    fn hold(
        &mut self,
        above: &Arc<DirHandle>,
        component: &PathComponent<'_>,
        how: Open,
        (identity, fd): (Identity, Fd),
    ) -> Arc<DirHandle> {
        let shown = Some(component.shown.to_vec());
        let fd = Some(Arc::new(fd));
        let held = self.cache.hold_shown((above, &component.name), how, identity, fd, shown);
        self.known.insert(component.key.clone(), Arc::clone(&held));
        held
    }

    /// Walks the path and makes missing directories. All of them get the preserved attributes,
    /// unless this fails: then, as with GNU, new ones stay as private as they were created. Returns
    /// the last directory, and whether it is new.
    fn make_missing(
        &mut self,
        target: &Arc<DirHandle>,
        way: &[PathComponent<'_>],
    ) -> Result<(Arc<DirHandle>, bool), Problem> {
        let usual = Preserve::OWNERSHIP.union(Preserve::MODE).union(Preserve::TIMESTAMPS);
        let preserves = self.copier.options.preserve.intersects(usual);
        let (mut held, mut is_new) = (Arc::clone(target), false);
        let mut changes = Vec::new();
        for component in way {
            match self.step(&held, component) {
                Ok(there) => {
                    let unfinished = self.unfinished.get(&there.identity()).copied();
                    if unfinished.is_some() || preserves && !self.copier.options.strict {
                        let source = source_stat(component)?;
                        let plain_mode = unfinished.and_then(|mode| self.unfinished_mode(&source, mode));
                        changes.push((Arc::clone(&there), component, source, plain_mode));
                    }
                    (held, is_new) = (there, false);
                }
                Err(_) if self.is_other(&held, component) => {
                    if preserves {
                        source_stat(component)?;
                    }
                    return Err(Problem::new(CopyKind::ParentIsOther).naming(component.shown));
                }
                Err(_) => {
                    let (stat, plain_mode);
                    (held, stat, plain_mode) = self.make(&held, component)?;
                    is_new = true;
                    changes.push((Arc::clone(&held), component, stat, plain_mode));
                }
            }
        }
        for (held, component, stat, plain_mode) in changes {
            self.change(&held, component, stat, plain_mode);
        }
        Ok((held, is_new))
    }

    /// True if `component` exists and is not a directory.
    fn is_other(&self, above: &Arc<DirHandle>, component: &PathComponent<'_>) -> bool {
        let looked = self.cache.open(above).and_then(|directory| stat_followed(&*directory, &component.name));
        looked.is_ok_and(|there| there.kind != FileType::Directory)
    }

    /// Makes one directory with the permissions its owner needs to work in it. Also returns the
    /// source's `stat`, and the final mode if the source's is not preserved.
    fn make(
        &mut self,
        above: &Arc<DirHandle>,
        component: &PathComponent<'_>,
    ) -> Result<(Arc<DirHandle>, Stat, Option<Mode>), Problem> {
        let source = source_stat(component)?;
        if self.copier.options.dry_run {
            // These two are in every directory, once it is made.
            if !matches!(component.name.to_bytes(), b"." | b"..") {
                self.print_created(component);
            }
            let shown = component.shown.to_vec();
            let held = self.cache.hold_absent(&c_string(&shown), Open::SEARCH, shown);
            self.known.insert(component.key.clone(), Arc::clone(&held));
            return Ok((held, source, None));
        }
        let problem = |kind| move |cause: Error| Problem::new(kind).naming(component.shown).because(cause);
        let directory = self.cache.open(above).map_err(problem(CopyKind::CannotMakeParent))?;
        let omitted = self.omitted(&source);
        let wanted = if self.copier.options.default_mode { Mode::ALL } else { source.mode };
        let is_shared = stat(&*directory).map_or(true, |above| is_shared(&above, self.copier.process.user));
        let mode = wanted.without(omitted);
        let creation =
            Creation::begin(Special { kind: FileType::Directory, mode, device_number: 0 }, is_shared);
        let make = || make_directory(&directory, &component.name, mode);
        let made = match &self.copier.room {
            None => make(),
            Some(room) => room.retry(self.report, &|| component.shown.to_vec(), make),
        };
        made.map_err(problem(CopyKind::CannotMakeParent))?;
        self.print_created(component);
        let opened = creation.open_directory(&directory, &component.name, is_shared);
        let (fd, _, made) = opened.map_err(|cause| match cause.operation() {
            Operation::Fchmod => problem(CopyKind::SettingPermissions)(cause),
            _ if cause.is(Errno::STALE) => replaced(component),
            _ => problem(CopyKind::ParentAttributes)(cause),
        })?;
        if self.places.contains_key(&made.identity) {
            return Err(replaced(component));
        }
        // They are flushed together, before anything is copied.
        journaled::record_made(self.copier, &made);
        let held = self.hold(above, component, Open::SEARCH, (made.identity, fd));
        Ok((held, source, self.plain_mode(omitted, made.mode)))
    }

    /// Prints the `--verbose` line for a new parent.
    fn print_created(&self, component: &PathComponent<'_>) {
        if self.copier.options.verbose {
            let names = vec![component.source.to_vec(), component.shown.to_vec()];
            self.report.line(OutputLine::new(CopyKind::ParentMade, names));
        }
    }

    /// Permissions withheld from a new directory until its owner is set.
    fn omitted(&self, source: &Stat) -> Mode {
        let withheld = if self.copier.options.preserves(Preserve::OWNERSHIP) {
            Mode::GROUP_AND_OTHER
        } else if self.copier.options.preserves(Preserve::MODE) {
            Mode::GROUP_AND_OTHER_WRITE
        } else {
            Mode::default()
        };
        source.mode.and(withheld)
    }

    /// Final mode of a directory created with fewer permissions, if the source's is not preserved.
    fn plain_mode(&self, omitted: Mode, made: Mode) -> Option<Mode> {
        let due = omitted.without(self.copier.umask);
        let complete = made.contains(Mode::OWNER) && made.contains(due);
        (!complete && !self.copier.options.preserves(Preserve::MODE)).then(|| made.or(due))
    }

    /// Returns [`Parents::plain_mode`] of a directory that an interrupted run made, which has
    /// `mode`: it was given all owner permissions.
    fn unfinished_mode(&self, source: &Stat, mode: Mode) -> Option<Mode> {
        let owner = if self.copier.options.default_mode { Mode::OWNER } else { source.mode.and(Mode::OWNER) };
        let made = mode.without(Mode::OWNER).or(mode.and(owner));
        self.plain_mode(self.omitted(source), made)
    }

    /// Schedules a directory to get its source's attributes. The last operand that passes through
    /// it wins.
    fn change(
        &mut self,
        held: &Arc<DirHandle>,
        component: &PathComponent<'_>,
        stat: Stat,
        plain_mode: Option<Mode>,
    ) {
        let source = c_string(component.source);
        if let Some(&place) = self.places.get(&held.identity()) {
            (self.changed[place].source, self.changed[place].stat) = (source, stat);
            return;
        }
        self.places.insert(held.identity(), self.changed.len());
        let shown = component.shown.to_vec();
        self.changed.push(Changed { held: Arc::clone(held), shown, source, stat, plain_mode });
    }

    /// Sets the attributes, deepest directory first, and returns the overall status.
    pub(super) fn finish(mut self) -> Status {
        if self.copier.options.dry_run {
            return self.status;
        }
        for changed in std::mem::take(&mut self.changed).into_iter().rev() {
            if let Err(problem) = self.give_attributes(&changed) {
                self.report(problem);
            }
            if let Err(problem) = durable::flush_parent(self.copier, self.cache, &changed.held) {
                self.report(problem);
            }
        }
        self.status
    }

    fn give_attributes(&self, changed: &Changed) -> Result<(), Problem> {
        let problem =
            |kind| move |cause: Error| Problem::new(kind).naming(changed.shown.clone()).because(cause);
        let opened = self.cache.open(&changed.held).map_err(problem(CopyKind::ParentAttributes))?;
        with_object(&opened, |object| self.give_to(object, changed))
            .map_err(problem(CopyKind::ParentAttributes))?
    }

    fn give_to(&self, object: FileRef<'_>, changed: &Changed) -> Result<(), Problem> {
        let problem =
            |kind| move |cause: Error| Problem::new(kind).naming(changed.shown.clone()).because(cause);
        default_label::give(self.copier, object, &|| changed.shown.clone())?;
        // Like GNU cp: a directory whose owner can't be set still gets its times.
        if self.copier.options.preserves(Preserve::TIMESTAMPS) {
            let times = Times { accessed: changed.stat.accessed, modified: changed.stat.modified };
            object.change_times(times).map_err(problem(CopyKind::ParentTimes))?;
        }
        if self.copier.options.preserves(Preserve::OWNERSHIP) {
            self.give_owner(object, &changed.stat).map_err(problem(CopyKind::Ownership))?;
        }
        if self.copier.options.preserves(Preserve::MODE) {
            give_mode(object, changed).map_err(problem(CopyKind::Access))
        } else if let Some(mode) = changed.plain_mode {
            object.change_mode(mode).map_err(problem(CopyKind::ParentPermissions))
        } else {
            Ok(())
        }
    }

    fn give_owner(&self, object: FileRef<'_>, source: &Stat) -> Result<(), Error> {
        let owner = Owner { user: Some(source.owner), group: Some(source.group) };
        match object.change_owner(owner) {
            Err(cause) if self.copier.may_fail_to_own(&cause) => {
                // Setting the group alone may succeed, and GNU ignores the result.
                object.change_owner(Owner { user: None, ..owner }).unwrap_or_default();
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn report(&mut self, problem: Problem) {
        if problem.severity == Severity::Error {
            self.status = Status::Failure;
        }
        self.report.problem(problem);
    }
}

/// Calls `work` with a directory whose descriptor may be for lookups only. If it can be read,
/// xattrs are reached without `/proc`.
fn with_object<R>(directory: &Fd, work: impl FnOnce(FileRef<'_>) -> R) -> Result<R, Error> {
    match open(directory, c".", Open::DIRECTORY) {
        Ok(opened) => Ok(work(FileRef::Open(&opened))),
        Err(_) => Ok(work(FileRef::Pinned(&Pinned::open(directory, c".")?))),
    }
}

/// Sets mode and ACLs as on the source.
fn give_mode(object: FileRef<'_>, changed: &Changed) -> Result<(), Error> {
    let source = open_path(&changed.source, Open::SEARCH.following())?;
    let get =
        |source: FileRef<'_>| [ACCESS_LIST, DEFAULT_ACCESS_LIST].map(|key| (key, source.get_xattr(key)));
    let lists = with_object(&source, get)?;
    object.remove_xattr(ACCESS_LIST)?;
    object.change_mode(changed.stat.mode)?;
    for (key, list) in lists {
        match list {
            Ok(list) => object.set_xattr(key, &list)?,
            Err(cause) if matches!(cause.errno(), Errno::NODATA | Errno::OPNOTSUPP) => {
                object.remove_xattr(key)?
            }
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

fn replaced(component: &PathComponent<'_>) -> Problem {
    Problem::new(CopyKind::ReplacedWhileMade).naming(component.shown)
}

/// Stats the source directory of a component.
fn source_stat(component: &PathComponent<'_>) -> Result<Stat, Problem> {
    let looked = stat_path::<&Fd>(None, &c_string(component.source), true).and_then(|stat| match stat.kind {
        FileType::Directory => Ok(stat),
        _ => Err(error(component, Operation::Statx, Errno::NOTDIR)),
    });
    looked.map_err(|cause| Problem::new(CopyKind::ParentAttributes).naming(component.source).because(cause))
}

fn error(component: &PathComponent<'_>, operation: Operation, errno: Errno) -> Error {
    Error::new(operation, format!("{:?}", component.name), errno)
}

/// Splits the path of a copy into components.
fn components(assignment: &Assignment) -> Vec<PathComponent<'_>> {
    let Assignment { way, shown, .. } = assignment;
    // The copy's path ends in the source's, which begins with `way`.
    let before = shown.len() - way.len() - assignment.target.1.count_bytes();
    let mut key = Vec::new();
    ranges(way)
        .map(|range| {
            if !key.is_empty() {
                key.push(b'/');
            }
            key.extend_from_slice(&way[range.clone()]);
            PathComponent {
                name: c_string(&way[range.clone()]),
                source: &way[..range.end],
                shown: &shown[..before + range.end],
                key: key.clone(),
            }
        })
        .collect()
}

/// Returns the ranges of a path's components.
fn ranges(path: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    path.split(|byte| *byte == b'/').filter_map(move |part| {
        let range = start..start + part.len();
        start = range.end + 1;
        (!part.is_empty()).then_some(range)
    })
}
