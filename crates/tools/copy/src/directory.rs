//! Copies directories: created when entered, given their attributes when left.
//!
//! A new directory is created with the permissions its owner needs to work in it, and none for
//! others that the source does not grant. What was withheld, and what the umask or `-p` decides, is
//! set after the last entry.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_flow::{
    Context, Creation, DirNode, Enter, EntryOutcome, FlowKind, OpenDir, Problem, is_shared, uninterrupted,
};
use haul_sys::{Errno, Error, Fd, FileRef, FileType, Identity, Mode, Open, Operation, Pinned, Special, Stat};
use haul_sys::{make_directory, open, remove_directory, stat, stat_at};

use super::attributes::{CopyPlace, NewAttributes};
use super::backup;
use super::creation_mode;
use super::dry_run;
use super::durable;
use super::earlier;
use super::entry_copy::EntryCopy;
use super::existing::looks_at_link;
use super::journaled;
use super::layouts;
use super::mend;
use super::named::NamedCopy;
use super::options::{Dereference, Preserve};
use super::place::{self, ClearedPlace, TargetPlace};
use super::repeated;
use super::source_xattrs;
use super::target::{CreationModes, MadeDirectory, TargetDirectory, gives_access_list};
use super::temporary;
use super::xattr_rules::SourceXattrs;
use super::{Copier, CopyKind};

/// A target directory that was created or found.
struct Ready {
    fd: Arc<Fd>,
    /// How `fd` was opened: for searching only if it can't be read.
    how: Open,
    stat: Stat,
    is_new: bool,
    /// True if an interrupted run with the same journal made it.
    is_unfinished: bool,
    /// The mode that an existing one has until it is left, if not its own.
    working_mode: Option<Mode>,
}

impl Ready {
    /// One that this run has made.
    fn made(fd: Fd, how: Open, stat: Stat) -> Self {
        let fd = Arc::new(fd);
        Self { fd, how, stat, is_new: true, is_unfinished: false, working_mode: None }
    }

    /// Its `stat` with the mode it has now.
    fn now(&self) -> Stat {
        Stat { mode: self.working_mode.unwrap_or(self.stat.mode), ..self.stat }
    }
}

/// Result of creating or finding a target directory.
enum Prepared {
    Ready(Ready),
    /// It is skipped, which was reported.
    Skipped,
    /// The process that walks enters it.
    HandedBack,
}

pub(super) fn enter(copy: EntryCopy<'_>, opened: &OpenDir<'_>) -> Enter<TargetDirectory> {
    let is_bare = is_bare(copy, opened.stat);
    if !is_bare && is_own_copy(copy, opened.stat.identity) {
        return Enter::Done;
    }
    if let Some(refusal) = refusal(copy, opened.stat) {
        copy.cx.problem(refuse(copy, opened.stat, refusal));
        return Enter::Done;
    }
    if place::leaves_directory(copy) {
        return Enter::Done;
    }
    if copy.options.dry_run {
        record_named(copy, opened.stat.identity);
        return dry_run::enter(copy, opened, is_bare);
    }
    let ready = match ready_directory(copy, opened.stat) {
        Ok(Prepared::Ready(ready)) => ready,
        Ok(Prepared::Skipped) => return Enter::Done,
        Ok(Prepared::HandedBack) => return Enter::Deferred,
        Err(problem) => {
            copy.cx.problem(problem);
            return Enter::Done;
        }
    };
    let above = &copy.entry.node.own;
    record_named(copy, opened.stat.identity);
    if ready.is_new {
        if !record_new(copy, &ready.stat) {
            return Enter::Done;
        }
        copy.print_copied();
        if let Ok(source) = opened.source {
            layouts::give_to_directory(copy, (source, opened.stat), (&ready.fd, &ready.stat));
        }
    } else {
        record_existing(copy, ready.stat.identity);
        mend::print_entered(copy, opened, &ready.stat);
    }
    copy.count(EntryOutcome::Directory);
    let xattrs = xattrs(copy, opened);
    let pinned = pinned(&ready.fd, ready.how);
    let gives_access_list =
        gives_access_list(copy.options, pinned.as_ref().map_or(FileRef::Open(&ready.fd), FileRef::Pinned));
    let held = copy.cx.cache().hold_shown(
        (&above.held, copy.target_name()),
        ready.how,
        ready.stat.identity,
        Some(Arc::clone(&ready.fd)),
        copy.shown_directory(),
    );
    durable::note_directory(copy.copier, copy.cx.cache(), &held);
    let own = TargetDirectory {
        held,
        rename: None,
        earlier: earlier::counterparts(copy),
        operand: Arc::clone(&above.operand),
        made: Some(MadeDirectory {
            before: (!ready.is_new).then(|| ready.now()),
            is_unfinished: ready.is_unfinished,
            plain_mode: plain_directory_mode(copy.copier, opened.stat, &ready),
            xattrs,
        }),
        reflink_refused: AtomicBool::new(above.refuses_reflink()),
        is_shared: !ready.is_new && is_shared(&ready.stat, copy.copier.process.user),
        gives_access_list,
        creation_modes: CreationModes::default(),
    };
    if is_bare { Enter::Bare(own) } else { Enter::Visit(own) }
}

/// Reads the xattrs of a source.
fn xattrs(copy: EntryCopy<'_>, opened: &OpenDir<'_>) -> SourceXattrs {
    match opened.source {
        Ok(source) => source_xattrs::read(copy, FileRef::Open(source)),
        // Like GNU, which reads them by name: that takes no permission to read the directory.
        Err(_) => source_xattrs::read_named(copy, None),
    }
}

/// True for a directory that is copied without what is in it: it is on another file system.
fn is_bare(copy: EntryCopy<'_>, source: &Stat) -> bool {
    let is_elsewhere = |above: Stat| above.identity.device != source.identity.device;
    copy.options.one_file_system && copy.entry.node.stat.is_some_and(is_elsewhere)
}

/// Records a directory that this run has just made. Returns false if it made it under another name,
/// which was reported.
fn record_new(copy: EntryCopy<'_>, made: &Stat) -> bool {
    let (copier, above) = (copy.copier, &copy.entry.node.own);
    if above.is_new() {
        return true;
    }
    if !copier.tops.record(made.identity, above.operand.index) {
        copy.cx.problem(Problem::new(CopyKind::ReplacedWhileMade).naming(copy.target_path()));
        return false;
    }
    if copier.journal.is_some() && !above.holds_unfinished() {
        journaled::record_made(copier, made);
        // Before it is used: a power cut may leave it with the mode it has now.
        journaled::flush(copier).into_iter().for_each(|problem| copy.cx.problem(problem));
    }
    true
}

/// Records the existing target of a sync, which may be inside the source, so that it isn't copied
/// into itself. GNU cp copies what it already contains.
pub(super) fn record_existing(copy: EntryCopy<'_>, target: Identity) {
    if copy.entry.is_operand() && copy.options.existing.update.syncs() {
        copy.copier.tops.record(target, copy.entry.node.own.operand.index);
    }
}

/// Records the copy of a directory that was named as an operand.
fn record_named(copy: EntryCopy<'_>, source: Identity) {
    let above = &copy.entry.node.own;
    if copy.entry.is_operand() {
        copy.copier.named.record(source, || NamedCopy {
            operand: above.operand.index,
            place: (above.held.identity(), copy.target_name().to_owned()),
            shown: copy.target_path(),
        });
    }
}

/// True if a directory is the top of a tree this run created, and so must be skipped. Reports
/// what GNU reports.
///
/// GNU copies operands one after another, and so refuses what an earlier one created. Here the
/// order of the operands decides too, no matter which is copied first.
fn is_own_copy(copy: EntryCopy<'_>, directory: Identity) -> bool {
    let Some(operand) = copy.copier.tops.operand(directory) else { return false };
    if operand <= copy.entry.node.own.operand.index {
        copy.report_into_itself();
    }
    true
}

/// Returns the refusal of a directory already copied for another operand, or of a cyclic
/// symbolic link.
fn refusal(copy: EntryCopy<'_>, source: &Stat) -> Option<Problem> {
    let follows = copy.follows();
    if copy.options.dereference == Dereference::Always && copy.entry.node.is_within(source.identity) {
        return Some(Problem::new(CopyKind::CyclicLink).naming(copy.entry.path()));
    }
    let own = &copy.entry.node.own;
    let copied = copy.copier.named.of(source.identity).filter(|copied| copied.operand < own.operand.index)?;
    if copied.is_in(own.held.identity(), copy.target_name()) {
        let problem = Problem::new(CopyKind::DirectoryTwice).naming(own.operand.source.clone());
        return Some(problem.as_warning());
    }
    let problem = || Problem::new(CopyKind::NoDirectoryLink).naming(copy.target_path());
    (!follows).then(|| problem().naming(copied.shown))
}

/// Returns the error for a refused directory. As with GNU, problems with the existing target
/// come first.
fn refuse(copy: EntryCopy<'_>, source: &Stat, refusal: Problem) -> Problem {
    if copy.options.existing.backs_up() {
        return refusal;
    }
    place::foresee(copy, source).err().unwrap_or(refusal)
}

/// Creates or finds the target directory.
fn ready_directory(copy: EntryCopy<'_>, source: &Stat) -> Result<Prepared, Problem> {
    let parent =
        copy.open_directory().map_err(|cause| copy.problem(CopyKind::CannotCreateDirectory, cause))?;
    let exists = match make_new_directory(copy, source, &parent) {
        Ok(ready) => return ready.map(Prepared::Ready),
        Err(cause) if cause.is(Errno::EXIST) => cause,
        Err(cause) => return Err(copy.failure(&parent, CopyKind::CannotCreateDirectory, cause)),
    };
    if let Some(ready) = made_by_lost_rank(copy, source, &parent)? {
        return Ok(Prepared::Ready(ready));
    }
    let mut turn = place::turn(copy);
    match place::clear(copy, &parent, &mut turn, source)? {
        TargetPlace::Left(_) => Ok(Prepared::Skipped),
        TargetPlace::Taken(Some(there)) if there.kind == FileType::Directory => {
            existing_directory(copy, &parent)
        }
        TargetPlace::Taken(_) | TargetPlace::Replaced(_) => {
            Err(copy.problem(CopyKind::CannotCreateDirectory, exists))
        }
        TargetPlace::Free(ClearedPlace { backup, .. }) => {
            let made = make_new_directory(copy, source, &parent)
                .map_err(|cause| copy.problem(CopyKind::CannotCreateDirectory, cause))
                .and_then(|ready| ready);
            if made.is_err() {
                backup::put_back(copy, backup.as_ref());
            }
            made.map(Prepared::Ready)
        }
    }
}

/// Creates a directory where nothing exists. The outer error is the one from `mkdir`.
fn make_new_directory(
    copy: EntryCopy<'_>,
    source: &Stat,
    parent: &Fd,
) -> Result<Result<Ready, Problem>, Error> {
    let (name, new) = (copy.target_name(), new_directory(copy, source));
    let creation = Creation::begin(new, copy.entry.node.own.is_shared);
    copy.with_room(|| make_directory(parent, name, new.mode))?;
    let opened = creation.open_directory(parent, name, copy.entry.node.own.is_shared);
    // `stat` has the mode it was created with, so that finishing knows the effect of the umask
    // and the parent.
    Ok(opened.map(|(fd, how, stat)| Ready::made(fd, how, stat)).map_err(|cause| not_opened(copy, cause)))
}

/// The copy of a directory, as it is created.
fn new_directory(copy: EntryCopy<'_>, source: &Stat) -> Special {
    let mode = creation_mode::new_directory_mode(copy.copier, source).or(Mode::OWNER);
    Special { kind: FileType::Directory, mode, device_number: 0 }
}

/// Why a new directory can't be used.
fn not_opened(copy: EntryCopy<'_>, cause: Error) -> Problem {
    let kind = match cause.operation() {
        Operation::Fchmod => CopyKind::SettingPermissions,
        _ => CopyKind::CannotStat,
    };
    copy.not_ours(kind, cause)
}

/// Opens the directory that a lost rank has made for an entry, as if this process had made it.
/// `None` for any other.
fn made_by_lost_rank(copy: EntryCopy<'_>, source: &Stat, parent: &Fd) -> Result<Option<Ready>, Problem> {
    match repeated::has_made_directory(copy, parent) {
        Some(true) => {}
        Some(false) => return Ok(None),
        None => {
            if !copy.options.preserves(Preserve::MODE) {
                copy.cx.problem(Problem::new(CopyKind::MayHaveWrongMode).naming(copy.target_path()));
            }
            return Ok(None);
        }
    }
    let new = new_directory(copy, source);
    // It may have got more permissions since. A second one shows those it was created with.
    let make_second = || {
        let name = temporary::new_name(copy.copier);
        make_directory(parent, &name, new.mode)?;
        let made = stat_at(parent, &name);
        remove_directory(parent, &name).and(made)
    };
    let second = copy
        .with_room(|| uninterrupted(make_second))
        .map_err(|cause| copy.failure(parent, CopyKind::CannotCreateDirectory, cause))?;
    let opened = Creation::begin(new, false).open_directory(parent, copy.target_name(), false);
    let (fd, how, stat) = opened.map_err(|cause| not_opened(copy, cause))?;
    Ok(Some(Ready::made(fd, how, Stat { mode: second.mode, ..stat })))
}

fn existing_directory(copy: EntryCopy<'_>, parent: &Fd) -> Result<Prepared, Problem> {
    let name = copy.target_name();
    let follow = !looks_at_link(copy.options, FileType::Directory);
    let [read, search] =
        [Open::DIRECTORY, Open::SEARCH].map(|how| if follow { how.following() } else { how });
    let opened = match open(parent, name, read) {
        // A directory may be writable without being readable.
        Err(cause) if cause.is(Errno::ACCESS) => open(parent, name, search).map(|fd| (fd, search)),
        outcome => outcome.map(|fd| (fd, read)),
    };
    let (fd, how) = opened.map_err(|cause| copy.problem(CopyKind::CannotStat, cause))?;
    if follow && copy.copier.made_links.has(parent, name) {
        let problem = Problem::new(CopyKind::JustCreatedLink);
        return Err(problem.naming(copy.entry.path()).naming(copy.target_path()));
    }
    let stat = stat(&fd).map_err(|cause| copy.problem(CopyKind::CannotStat, cause))?;
    let is_unfinished =
        copy.entry.node.own.holds_unfinished() || journaled::is_unfinished(copy.copier, &stat);
    let is_opened = is_unfinished || copy.options.existing.update.syncs();
    // If this rank is lost, nobody remembers the mode that the directory had.
    if is_opened && working_mode(copy.copier, &stat).is_some() && copy.cx.hand_back(copy.entry) {
        return Ok(Prepared::HandedBack);
    }
    let working_mode = match is_opened {
        true => make_writable(copy.copier, &fd, how, &stat),
        false => None,
    };
    // Where it couldn't be read, or searched, it can now.
    let (fd, how) = match working_mode.map(|_| open(parent, name, read)) {
        Some(Ok(again)) if haul_sys::stat(&again).is_ok_and(|now| now.identity == stat.identity) => {
            (again, read)
        }
        _ => (fd, how),
    };
    Ok(Prepared::Ready(Ready { fd: Arc::new(fd), how, stat, is_new: false, is_unfinished, working_mode }))
}

/// Gives an unprivileged user all permissions in an existing directory of their own: in a sync, as
/// rsync does, or if an interrupted run made it. Returns its new mode; `None` if it is unchanged.
pub(super) fn make_writable(copier: &Copier, directory: &Fd, how: Open, there: &Stat) -> Option<Mode> {
    let mode = working_mode(copier, there)?;
    // A failure here repeats in the directory, and is reported there.
    let pinned = pinned(directory, how);
    let object = pinned.as_ref().map_or(FileRef::Open(directory), FileRef::Pinned);
    object.change_mode(mode).is_ok().then_some(mode)
}

/// The mode that [`make_writable`] gives to an existing directory; `None` if it stays.
fn working_mode(copier: &Copier, there: &Stat) -> Option<Mode> {
    let mode = there.mode.or(Mode::OWNER);
    let is_own = there.owner == copier.process.user;
    let lacks_permission = !copier.capabilities.write_all() && is_own && mode != there.mode;
    lacks_permission.then_some(mode)
}

/// True for an existing directory that a sync makes accessible to its owner.
pub(super) fn may_be_opened(copy: EntryCopy<'_>, there: &Stat) -> bool {
    let copier = copy.copier;
    !copier.capabilities.write_all()
        && there.owner == copier.process.user
        && copy.options.existing.update.syncs()
}

/// Pins a directory that can't be read: its `O_PATH` descriptor can't be used to change it. `None`
/// for any other.
fn pinned(directory: &Fd, how: Open) -> Option<Pinned> {
    // Not by its name `.`, which takes the right to search it.
    how.is_reference().then(|| Pinned::of(directory).ok()).flatten()
}

/// Mode a directory gets at the end if the source's is not preserved. For one that this run or an
/// interrupted one made, it is the source's less the umask, with the set-id and sticky bits it was
/// created with; for one that was made writable, its previous mode. `None` if it already has it.
fn plain_directory_mode(copier: &Copier, source: &Stat, ready: &Ready) -> Option<Mode> {
    let made = ready.stat.mode;
    if ready.working_mode.is_some() && !ready.is_unfinished {
        return Some(made);
    }
    let plain = if copier.options.default_mode {
        Mode::ALL.without(copier.umask).or(made.and(Mode::SPECIAL))
    } else {
        // It was created with all owner permissions. Any it lacks were removed by the umask, or
        // by an inherited ACL, which overrides the umask.
        let owner = source.mode.and(made).and(Mode::OWNER);
        let omitted = source.mode.and(creation_mode::omitted(copier, source.kind)).without(copier.umask);
        made.without(Mode::OWNER).or(owner).or(omitted)
    };
    let changes = copier.options.default_mode || plain != made.or(Mode::OWNER);
    ((ready.is_new || ready.is_unfinished) && changes).then_some(plain)
}

pub(super) fn leave(copier: &Copier, cx: &Context<'_, Copier>, node: &DirNode<Copier>) {
    if copier.options.dry_run {
        return;
    }
    let own = &node.own;
    let (Some(made), Some(source)) = (&own.made, &node.stat) else { return };
    let path = || own.held.path();
    let keeps_its_own = copier.options.strict && made.before.is_some() && !made.is_unfinished;
    // Before its times are set.
    if made.before.is_some() {
        let swept = temporary::sweep(copier, cx.cache(), &own.held, Some(node));
        swept.into_iter().for_each(|problem| cx.problem(problem));
    }
    match cx.cache().open(&own.held) {
        Ok(_) if keeps_its_own => {}
        Ok(fd) => {
            let pinned = pinned(&fd, own.held.how());
            // The mode of one that an earlier run made is due as in the run that makes it.
            let is_as_new = made.is_unfinished && !copier.options.preserves(Preserve::MODE);
            let attributes = NewAttributes {
                copier,
                cx,
                object: pinned.as_ref().map_or(FileRef::Open(&fd), FileRef::Pinned),
                stat: source,
                xattrs: &made.xattrs,
                before: made.before.as_ref().filter(|_| !is_as_new),
                plain_mode: made.plain_mode,
                has_access_list: own.gives_access_list,
                creation_mode: None,
                place: CopyPlace::Directory(&own.held),
            };
            attributes.give();
        }
        Err(cause) => {
            cx.problem(Problem::new(CopyKind::Permissions).naming(path()).because(cause));
        }
    }
    durable::flush_directory(copier, cx, &own.held);
    if copier.options.existing.backs_up() {
        copier.backups.forget(own.held.identity());
    }
    cx.cache().reopen_parent(&own.held);
    if let Err(cause) = cx.cache().close(&own.held) {
        cx.problem(Problem::new(FlowKind::FailedToClose).naming(path()).because(cause));
    }
}
