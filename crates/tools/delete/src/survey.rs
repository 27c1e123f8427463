//! Finds the entries that only the target has.
//!
//! The source is walked as a copy walks it, so that the same rules decide what it leaves out.
//! With each directory its counterpart is listed, and names that the source doesn't have are
//! recorded. Directories of the source that have no counterpart are not entered.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

use haul_flow::{
    CancelToken, Context, DirHandle, DirNode, Enter, Entry, OpenDir, OpenSource, Operand, Plan, Policy, Pool,
    Problem, Start, Tool, lock,
};
use haul_sys::{
    DirectoryReader, EntryType, Errno, Error, Fd, Identity, NameArena, Open, Operation, TEMPORARY_PREFIX,
    is_mount_root, open, stat, stat_at, stat_followed, stat_path,
};

use super::closed::{self, Opened};
use super::deleter::Surveyed;
use super::kind::DeleteKind;
use super::options::Options;

/// Maximum number of target names processed at a time.
const WINDOW_ENTRIES: usize = 1 << 16;

/// The target's directory that belongs to one of the source.
pub(super) struct TargetCounterpart {
    held: Arc<DirHandle>,
    /// Name in it of the operand's counterpart, which may differ from the operand's.
    name: Option<CString>,
    /// True if it is the source's directory itself, or inside that, through a mount.
    is_source: bool,
}

impl TargetCounterpart {
    /// Returns the place of the target itself.
    pub(super) fn of_operand(held: Arc<DirHandle>, name: CString) -> Self {
        Self { held, name: Some(name), is_source: false }
    }
}

/// Results of a survey.
#[derive(Default)]
pub(super) struct Found {
    /// The entries that only the target has, by directory. In place of the inode number from the
    /// listing they have that from `stat`.
    pub(super) operands: Vec<Operand<Surveyed>>,
    /// Entries of the directories that both trees have.
    pub(super) entries: u64,
    /// True if the source has nothing that is copied.
    pub(super) source_is_empty: bool,
    /// Directories of the target that were made accessible, parents first.
    pub(super) opened: Vec<Opened>,
}

pub(super) struct DeletionSurvey {
    options: Options,
    cancel: CancelToken,
    readers: Pool<DirectoryReader>,
    found: Mutex<Found>,
    walked: Mutex<Walked>,
}

/// The directories of the source, and those of the target that belong to them.
#[derive(Default)]
struct Walked {
    sources: HashSet<Identity>,
    targets: HashSet<Identity>,
}

/// A directory of both trees, opened.
struct DirectoryPair<'a> {
    source: &'a Fd,
    target: &'a Fd,
    opened: &'a OpenDir<'a>,
    path: Vec<u8>,
}

impl DirectoryPair<'_> {
    /// Returns the path of an entry of the target's.
    fn path_of(&self, name: &CStr) -> Vec<u8> {
        [self.path.as_slice(), b"/", name.to_bytes()].concat()
    }
}

/// Entries of one directory that are to be deleted.
#[derive(Default)]
struct Extras {
    /// Those that the source doesn't have.
    missing: NameArena,
    /// Those that it has, and that are left out.
    excluded: NameArena,
}

impl DeletionSurvey {
    pub(super) fn new(options: Options, cancel: CancelToken) -> Self {
        Self { options, cancel, readers: Pool::default(), found: Mutex::default(), walked: Mutex::default() }
    }

    pub(super) fn into_found(self) -> Found {
        self.found.into_inner().unwrap_or_default()
    }

    /// Opens the counterpart of a directory and records the entries that only that has. `None` if
    /// there is no counterpart, or if it is on another file system and left out.
    fn look(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Result<Option<TargetCounterpart>, Problem> {
        let above = &entry.node.own;
        let name = above.name.as_deref().unwrap_or_else(|| entry.name());
        let path = above.held.path_of(name);
        let cannot_list =
            |path: &[u8], cause| Problem::new(DeleteKind::CannotList).naming(path).because(cause);
        let source = opened.source.map_err(|cause| cannot_list(&entry.path(), cause.clone()))?;
        self.record_source(opened.stat.identity).map_err(|kind| Problem::new(kind).naming(entry.path()))?;
        let place = (&above.held, name);
        if above.is_source {
            return self.enter_source(cx, place, source, opened).map(Some);
        }
        let (target, identity) = match self.open_counterpart(cx, place, opened.stat.identity) {
            Ok(Some(target)) => target,
            Ok(None) => return Ok(None),
            Err(cause) if is_other(&cause) => return Ok(None),
            Err(cause) => return Err(cannot_list(&path, cause)),
        };
        if self.options.one_file_system && !entry.is_operand() {
            let is_elsewhere = identity.device != above.held.identity().device
                || is_mount_root(&target).map_err(|cause| cannot_list(&path, cause))?;
            if is_elsewhere {
                return Ok(None);
            }
        }
        if identity == opened.stat.identity && !entry.is_operand() {
            return self.enter_source(cx, place, source, opened).map(Some);
        }
        self.record_target(identity).map_err(|kind| Problem::new(kind).naming(path.as_slice()))?;
        let held = cx.cache().hold(&above.held, name, Open::DIRECTORY, identity, Some(Arc::clone(&target)));
        let names = self
            .readers
            .with(DirectoryReader::new, |reader| list(reader, source))
            .map_err(|cause| cannot_list(&entry.path(), cause))?;
        if entry.is_operand() {
            let is_copied = |index| self.is_copied(cx, (source, opened), &names, index);
            lock(&self.found).source_is_empty = !(0..names.len()).any(is_copied);
        }
        let pair = DirectoryPair { source, target: &target, opened, path };
        let Extras { missing, excluded } = self.extras(cx, &pair, &names)?;
        let operand = |mut names: NameArena, source| {
            names.sort_by_inode();
            let own = Surveyed::under(opened.scope.filter(|_| !self.options.excluded).cloned(), source);
            (!names.is_empty()).then(|| Operand { place: Arc::clone(&held), names, own })
        };
        let of_source = || {
            let how = if self.follow(entry) { Open::DIRECTORY.following() } else { Open::DIRECTORY };
            cx.cache().hold(&entry.node.source, entry.name(), how, opened.stat.identity, None)
        };
        let source = (!missing.is_empty()).then(of_source);
        let operands = [operand(missing, source), operand(excluded, None)].into_iter().flatten();
        lock(&self.found).operands.extend(operands);
        Ok(Some(TargetCounterpart { held, name: None, is_source: false }))
    }

    /// Enters a directory of the source whose counterpart it is itself, through a mount: nothing in
    /// it may be deleted. It is walked because a directory in it may be the counterpart of another.
    fn enter_source(
        &self,
        cx: &Context<'_, Self>,
        (above, name): (&Arc<DirHandle>, &CStr),
        source: &Fd,
        opened: &OpenDir<'_>,
    ) -> Result<TargetCounterpart, Problem> {
        let path = above.path_of(name);
        let pair = DirectoryPair { source, target: source, opened, path };
        if self.options.excluded && !self.options.one_file_system {
            let names =
                self.readers.with(DirectoryReader::new, |reader| list(reader, source)).map_err(|cause| {
                    Problem::new(DeleteKind::CannotList).naming(pair.path.as_slice()).because(cause)
                })?;
            if let Some(at) = (0..names.len()).find(|at| self.is_excluded(cx, &pair, &names, *at)) {
                return Err(Problem::new(DeleteKind::IsSource).naming(pair.path_of(names.name(at))));
            }
        }
        let held = cx.cache().hold(above, name, Open::DIRECTORY, opened.stat.identity, None);
        Ok(TargetCounterpart { held, name: None, is_source: true })
    }

    /// Opens the counterpart of the directory `source`, `name` in `above`. `None` in a dry run if
    /// only the real run can list it, which the copy reports.
    fn open_counterpart(
        &self,
        cx: &Context<'_, Self>,
        (above, name): (&Arc<DirHandle>, &CStr),
        source: Identity,
    ) -> Result<Option<(Arc<Fd>, Identity)>, Error> {
        let parent = cx.cache().open(above)?;
        let look = || open(&*parent, name, Open::DIRECTORY).and_then(|fd| Ok((stat(&fd)?, fd)));
        let mut target = look();
        let may_be_closed = match &target {
            Ok((there, _)) => closed::is_closed(there),
            Err(cause) => cause.is(Errno::ACCESS),
        };
        let found = may_be_closed.then(|| closed::find(&parent, name)).flatten();
        // The source keeps its mode also where the target shows it.
        if let Some(found) = found.filter(|(_, there)| there.identity != source) {
            if self.options.dry_run {
                return Ok(None);
            }
            if let Some(opened) = Opened::of(cx.cache(), (above, name), &found) {
                lock(&self.found).opened.push(opened);
                target = look();
            }
        }
        target.map(|(there, fd)| Some((Arc::new(fd), there.identity)))
    }

    /// Records a directory of the source. It may be met before or after the same one in the target.
    fn record_source(&self, source: Identity) -> Result<(), DeleteKind> {
        let mut walked = lock(&self.walked);
        walked.sources.insert(source);
        if walked.targets.contains(&source) { Err(DeleteKind::IsSource) } else { Ok(()) }
    }

    /// Records the counterpart of a directory of the source.
    fn record_target(&self, target: Identity) -> Result<(), DeleteKind> {
        let mut walked = lock(&self.walked);
        // If the file system ignores case, two directories of the source may share this one. To
        // each, the entries of the other would look like extras.
        if !walked.targets.insert(target) {
            return Err(DeleteKind::SameName);
        }
        if walked.sources.contains(&target) { Err(DeleteKind::IsSource) } else { Ok(()) }
    }

    fn is_copied(
        &self,
        cx: &Context<'_, Self>,
        (source, opened): (&Fd, &OpenDir<'_>),
        names: &NameArena,
        index: usize,
    ) -> bool {
        let (name, kind) = (names.name(index), names.entry(index).kind);
        let scope = opened.scope.map(Arc::as_ref);
        if kind == EntryType::Symlink
            && self.options.follows
            && let Ok(stat) = stat_followed(source, name)
        {
            let is_excluded = |scope| cx.selector().excludes(scope, name, kind);
            return !scope.is_some_and(is_excluded) && cx.selector().admits(&stat);
        }
        cx.selector().selects(scope, source, name, kind)
    }

    /// Returns the entries of the target's directory that are to be deleted. `names` are those of
    /// the source's.
    fn extras(
        &self,
        cx: &Context<'_, Self>,
        pair: &DirectoryPair<'_>,
        names: &NameArena,
    ) -> Result<Extras, Problem> {
        let cannot_list =
            |cause| Problem::new(DeleteKind::CannotList).naming(pair.path.as_slice()).because(cause);
        let known: HashMap<&CStr, usize> = (0..names.len()).map(|index| (names.name(index), index)).collect();
        let (mut extras, mut entries) = (Extras::default(), 0);
        let mut is_listed = vec![false; names.len()];
        let mut reader = self.readers.take().unwrap_or_default();
        loop {
            let mut window = NameArena::new();
            let more = reader.read(pair.target, &mut window, WINDOW_ENTRIES).map_err(cannot_list)?;
            entries += window.len() as u64;
            for index in 0..window.len() {
                let (name, kind) = (window.name(index), window.entry(index).kind);
                let at = known.get(name).copied();
                if let Some(at) = at {
                    is_listed[at] = true;
                }
                let to = match at {
                    None if self.is_missing(cx, pair, name, kind) => &mut extras.missing,
                    Some(at) if self.makes_way(cx, pair, (name, kind), (names, at)) => &mut extras.missing,
                    Some(at) if self.is_excluded(cx, pair, names, at) => &mut extras.excluded,
                    _ => continue,
                };
                self.record(pair, name, to)?;
            }
            if !more {
                break;
            }
        }
        self.readers.give(reader);
        lock(&self.found).entries += entries;
        if !extras.missing.is_empty() {
            let unlisted = (0..names.len()).filter(|at| !is_listed[*at]).map(|at| names.name(at));
            extras.missing = without_aliases(extras.missing, pair.target, unlisted)
                .map_err(|name| Problem::new(DeleteKind::SameName).naming(pair.path_of(name)))?;
        }
        Ok(extras)
    }

    /// True if a name that the source doesn't have is to be deleted. Temporary files belong to
    /// copies that are running, or are removed by the next one.
    fn is_missing(
        &self,
        cx: &Context<'_, Self>,
        pair: &DirectoryPair<'_>,
        name: &CStr,
        kind: EntryType,
    ) -> bool {
        let is_temporary = name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes());
        let scope = pair.opened.scope.map(Arc::as_ref);
        !is_temporary && (self.options.excluded || cx.selector().selects(scope, pair.target, name, kind))
    }

    /// True if the target has a directory where the source has something else, which is to be
    /// copied, and no rule keeps the directory. `at` is its index in the source's `names`.
    fn makes_way(
        &self,
        cx: &Context<'_, Self>,
        pair: &DirectoryPair<'_>,
        (name, kind): (&CStr, EntryType),
        (names, at): (&NameArena, usize),
    ) -> bool {
        let is_directory = |directory, listed, follows: bool| match listed {
            EntryType::Directory => true,
            EntryType::Symlink if !follows => false,
            EntryType::Unknown | EntryType::Symlink => stat_path(Some(directory), name, follows)
                .is_ok_and(|stat| EntryType::from(stat.kind) == EntryType::Directory),
            _ => false,
        };
        let is_protected = || {
            let scope = pair.opened.scope;
            scope.is_some_and(|scope| cx.selector().excludes(scope, name, EntryType::Directory))
        };
        self.options.makes_way
            && is_directory(pair.target, kind, false)
            && !is_directory(pair.source, names.entry(at).kind, self.options.follows)
            && self.is_copied(cx, (pair.source, pair.opened), names, at)
            && (self.options.excluded || !is_protected())
    }

    /// True if a name that both have is left out, and what is left out is deleted.
    fn is_excluded(
        &self,
        cx: &Context<'_, Self>,
        pair: &DirectoryPair<'_>,
        names: &NameArena,
        at: usize,
    ) -> bool {
        let (name, kind) = (names.name(at), names.entry(at).kind);
        let by_name = || pair.opened.scope.is_some_and(|scope| cx.selector().excludes(scope, name, kind));
        self.options.excluded && by_name()
    }

    fn record(&self, pair: &DirectoryPair<'_>, name: &CStr, extras: &mut NameArena) -> Result<(), Problem> {
        let failed = |cause| Problem::new(DeleteKind::CannotStat).naming(pair.path_of(name)).because(cause);
        let there = match stat_at(pair.target, name) {
            Ok(there) => there,
            Err(cause) if cause.is(Errno::NOENT) => return Ok(()),
            Err(cause) => return Err(failed(cause)),
        };
        let is_own = self.options.own_files.contains(&there.identity);
        if is_own || extras.push(name, there.identity.inode, there.kind.into()) {
            return Ok(());
        }
        Err(failed(Error::new(Operation::Getdents, String::new(), Errno::OVERFLOW)))
    }
}

/// Leaves out entries that the source has under other names: where a file system takes letters of
/// either case for the same, or forms of one letter, a name that isn't listed can still be there.
/// Some file systems in user space make up an inode number for each spelling.
///
/// # Errors
/// A name that is there although no entry seems to be it.
fn without_aliases<'a>(
    extras: NameArena,
    target: &Fd,
    unlisted: impl Iterator<Item = &'a CStr>,
) -> Result<NameArena, &'a CStr> {
    let mut aliases = unlisted.filter_map(|name| Some((name, stat_at(target, name).ok()?))).peekable();
    if aliases.peek().is_none() {
        return Ok(extras);
    }
    let lower = |name: &CStr| name.to_string_lossy().to_lowercase();
    let spellings: Vec<_> = (0..extras.len()).map(|index| lower(extras.name(index))).collect();
    let mut is_alias = vec![false; extras.len()];
    for (name, there) in aliases {
        let (spelling, mut is_found) = (lower(name), false);
        for index in 0..extras.len() {
            if extras.entry(index).inode == there.identity.inode || spellings[index] == spelling {
                (is_alias[index], is_found) = (true, true);
            }
        }
        if !is_found {
            return Err(name);
        }
    }
    let mut others = NameArena::new();
    for index in (0..extras.len()).filter(|index| !is_alias[*index]) {
        let entry = extras.entry(index);
        others.push(extras.name(index), entry.inode, entry.kind);
    }
    Ok(others)
}

/// True if opening a directory failed because it doesn't exist.
fn is_other(cause: &Error) -> bool {
    cause.is(Errno::NOENT) || cause.is(Errno::NOTDIR) || cause.is(Errno::LOOP)
}

/// Lists a directory through a new descriptor: the given one holds the walk's offset.
fn list(reader: &mut DirectoryReader, directory: &Fd) -> Result<NameArena, Error> {
    let (fd, mut names) = (open(directory, c".", Open::DIRECTORY)?, NameArena::new());
    while reader.read(&fd, &mut names, usize::MAX)? {}
    fd.close()?;
    Ok(names)
}

impl Tool for DeletionSurvey {
    type Directory = TargetCounterpart;
    type File = ();

    fn policy(&self) -> Policy {
        Policy { starts_workers_late: true, cancel: self.cancel.clone(), ..Policy::default() }
    }

    fn follow(&self, entry: &Entry<Self>) -> bool {
        self.options.follows || entry.is_operand()
    }

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, kind: EntryType) -> Plan {
        let is_entered = kind == EntryType::Directory && !self.cancel.is_cancelled();
        if is_entered { Plan::Enter } else { Plan::Skip }
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<TargetCounterpart> {
        let device = |identity: Identity| identity.device;
        let crosses =
            || entry.node.stat.is_some_and(|above| device(above.identity) != device(opened.stat.identity));
        let is_left_out = self.options.one_file_system && crosses();
        // The copy reports a link that leads to a directory around it.
        let is_cycle = self.options.follows && entry.node.is_within(opened.stat.identity);
        if is_left_out || is_cycle {
            return Enter::Done;
        }
        match self.look(cx, entry, opened) {
            Ok(Some(counterpart)) => Enter::Visit(counterpart),
            Ok(None) => Enter::Done,
            Err(problem) => {
                cx.problem(problem);
                Enter::Done
            }
        }
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        // Nothing was written through it.
        cx.cache().close(&node.own.held).ok();
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        Start::Done
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use haul_sys::{c_string, open_path};
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn an_entry_that_the_source_has_under_another_name_is_no_extra() {
        let sandbox = haul_testkit::Sandbox::in_memory().unwrap();
        // A hard link, as only few systems have file systems that ignore case.
        sandbox.script("touch NAME other listed Straße STRAßE; ln NAME name").unwrap();
        let directory = open_path(&c_string(sandbox.path().as_os_str().as_bytes()), Open::DIRECTORY).unwrap();
        let left = |names: &[&'static CStr]| {
            let mut extras = NameArena::new();
            for name in [c"NAME", c"Straße", c"other"] {
                let there = stat_at(&directory, name).unwrap();
                extras.push(name, there.identity.inode, EntryType::Regular);
            }
            let left = without_aliases(extras, &directory, names.iter().copied());
            left.map(|left| (0..left.len()).map(|index| left.name(index).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(left(&[c"name", c"missing"]).unwrap(), [c"Straße", c"other"].map(CStr::to_owned));
        // By its spelling, whatever its inode number.
        assert_eq!(left(&[c"STRAßE"]).unwrap(), [c"NAME", c"other"].map(CStr::to_owned));
        assert_eq!(left(&[c"listed"]), Err(c"listed"));
    }
}
