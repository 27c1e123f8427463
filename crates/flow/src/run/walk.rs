//! The parallel walk: turns directories into jobs.
//!
//! Entering a directory opens it, lets the tool create its counterpart, and lists it.
//! Subdirectories are shared first, so that others can go on with them. The other entries are
//! sorted by inode number within a window, cut into batches and shared. A directory larger than the
//! window is listed one window at a time; the next one is a job of its own, taken when enough
//! waiting entries are done.
//!
//! Invariant: every entry is completed exactly once, whatever happens to it, and so is every
//! listing (tests: `tests/order.rs`).

use std::ffi::CStr;
use std::sync::Arc;

use haul_sys::{DirectoryReader, EntryType, Errno, Error, Fd, NameArena, Open, Operation, Stat};
use haul_sys::{open, stat, stat_at, stat_followed, stat_path};

use crate::batch::Batch;
use crate::context::Context;
use crate::decision::{Enter, EntryFailure, OpenDir, OpenSubdir, Plan};
use crate::directory_cache::DirHandle;
use crate::kind::FlowKind;
use crate::limits::{Load, Side, measure_call};
use crate::plan::{self, WINDOW_ENTRIES};
use crate::report::{Problem, Tally};
use crate::selection::Scope;
use crate::tool::{DirNode, Entry, Job, Tool};

/// Type of an entry, and whether it was reached through a symbolic link.
pub(super) struct Classified {
    pub(super) kind: EntryType,
    pub(super) follow: bool,
}

/// Determines the type of an entry. Calls `stat` only if the listing gives no type, or a link is
/// followed.
pub(super) fn classify<T: Tool>(cx: &Context<'_, T>, entry: &mut Entry<T>) -> Result<Classified, Error> {
    let unknown = matches!(entry.kind, EntryType::Unknown | EntryType::Symlink);
    let follow = unknown && cx.tool().follow(entry);
    if !unknown || (entry.kind == EntryType::Symlink && !follow) {
        return Ok(Classified { kind: entry.kind, follow: false });
    }
    let directory = cx.cache().open(&entry.node.source)?;
    let seen =
        if follow { stat_followed(&*directory, entry.name())? } else { stat_at(&*directory, entry.name())? };
    // Compared when the entry is opened: the name may lead elsewhere then.
    entry.seen = Some(seen.identity);
    Ok(Classified { kind: seen.kind.into(), follow })
}

/// Returns false if the selection excludes a non-directory: an operand by its name, a regular file
/// by its size or age, unless the tool decides that. [`list`] has selected the names in a listing.
///
/// # Errors
/// `ENOTDIR` for an operand, if the run has a list of names below it.
pub(super) fn is_selected<T: Tool>(
    cx: &Context<'_, T>,
    entry: &Entry<T>,
    classified: &Classified,
) -> Result<bool, Error> {
    let selector = cx.selector();
    if entry.is_operand() && selector.has_list() {
        return Err(Error::new(Operation::Openat, format!("{:?}", entry.name()), Errno::NOTDIR));
    }
    let is_by_tool = cx.run.policy.selects_files;
    if entry.is_operand() && !is_by_tool && selector.excludes_operand(entry.name()) {
        return Ok(false);
    }
    if classified.follow && !is_listed(cx, &entry.node, entry.name()) {
        return Ok(false);
    }
    if is_by_tool || classified.kind != EntryType::Regular || !selector.has_limits() {
        return Ok(true);
    }
    let stat = cx
        .cache()
        .open(&entry.node.source)
        .and_then(|directory| stat_path(Some(&*directory), entry.name(), classified.follow));
    // A failed `stat` is reported when the entry is opened.
    Ok(stat.is_err() || stat.is_ok_and(|stat| selector.admits(&stat)))
}

/// True unless the run's list only has paths below this non-directory. Reports such paths.
fn is_listed<T: Tool>(cx: &Context<'_, T>, node: &DirNode<T>, name: &CStr) -> bool {
    let Some(scope) = &node.scope else { return true };
    let (is_listed, below) = cx.selector().listed_at(scope, name);
    report_unreachable(cx, node, name, &below, Errno::NOTDIR);
    is_listed || below.is_empty()
}

/// Reports paths in the run's list that can't be reached. `below` is relative to the entry.
fn report_unreachable<T: Tool>(
    cx: &Context<'_, T>,
    node: &DirNode<T>,
    name: &CStr,
    below: &[Vec<u8>],
    why: Errno,
) {
    for path in below {
        let path = [node.source.path_of(name).as_slice(), b"/", path].concat();
        let arguments = String::from_utf8_lossy(&path).into_owned();
        let cause = Error::new(Operation::Openat, arguments, why);
        cx.problem(Problem::new(FlowKind::CannotStat).naming(path).because(cause));
    }
}

/// Reports names in the run's list that are missing from a directory that is taken as a whole.
/// `names` is the first window of its listing.
fn report_missing<T: Tool>(cx: &Context<'_, T>, node: &DirNode<T>, directory: &Fd, names: &NameArena) {
    let Some(scope) = &node.scope else { return };
    for name in cx.selector().lacking(scope, names) {
        // It may come later in a large directory.
        if let Err(cause) = stat_at(directory, &name) {
            let path = node.source.path_of(&name);
            cx.problem(Problem::new(FlowKind::CannotStat).naming(path).because(cause));
        }
    }
}

/// Enters a directory and lists it.
pub(super) fn visit<T: Tool>(
    cx: &Context<'_, T>,
    reader: &mut DirectoryReader,
    mut entry: Entry<T>,
    follow: bool,
) {
    let follow = match classify(cx, &mut entry) {
        Ok(classified) => follow || classified.follow,
        Err(cause) => return cx.give_up(&entry, EntryFailure::Classify(&cause)),
    };
    cx.wait_for(Load::ENTRY);
    match cx.tool().plan(cx, &entry, EntryType::Directory) {
        Plan::Enter => {}
        Plan::Read(_) | Plan::Skip => return cx.skip(&entry),
        Plan::Handle | Plan::HandleAlone => return cx.handle(&entry, EntryType::Directory),
    }
    let how = if follow { Open::DIRECTORY.following() } else { Open::DIRECTORY };
    let (fd, stat) = match open_directory(cx, &entry, how) {
        Err(cause) if replaced(&cause) => return cx.give_up(&entry, EntryFailure::Replaced),
        Err(cause) => return cx.give_up(&entry, EntryFailure::OpenDir(&cause)),
        Ok((_, stat)) if entry.seen.is_some_and(|seen| seen != stat.identity) => {
            return cx.give_up(&entry, EntryFailure::Replaced);
        }
        Ok(opened) => opened,
    };
    if let Some(owner) = &entry.node.owner {
        return owner.enter_dir(cx, &entry, &OpenSubdir { source: fd.as_ref(), stat: &stat, follow });
    }
    let scope = fd.as_ref().ok().and_then(|fd| enter_scope(cx, &entry, fd));
    let opened = OpenDir { source: fd.as_ref(), stat: &stat, scope: scope.as_ref() };
    let (own, visit) = match cx.tool().enter_dir(cx, &entry, &opened) {
        Enter::Visit(own) => (own, true),
        Enter::Bare(own) => {
            if let Some(scope) = &entry.node.scope {
                let (_, below) = cx.selector().listed_at(scope, entry.name());
                report_unreachable(cx, &entry.node, entry.name(), &below, Errno::XDEV);
            }
            (own, false)
        }
        Enter::Done => return cx.complete(&entry),
        Enter::Deferred => return,
    };
    let open = fd.as_ref().ok().cloned();
    let source = cx.cache().hold(&entry.node.source, entry.name(), how, stat.identity, open);
    let node = DirNode::<T>::below(&entry.node, source, (stat, scope), own);
    match fd {
        Ok(fd) if visit => return list(cx, reader, &node, fd, Window::First),
        Err(cause) if visit => {
            cx.problem(Problem::new(FlowKind::CannotAccess).naming(entry.path()).because(cause));
        }
        _ => {}
    }
    finish_listing(cx, &node);
}

/// Opens and stats a directory. One that can't be read is stat'ed by name.
fn open_directory<T: Tool>(
    cx: &Context<'_, T>,
    entry: &Entry<T>,
    how: Open,
) -> Result<(Result<Arc<Fd>, Error>, Stat), Error> {
    let parent = cx.cache().open(&entry.node.source)?;
    match measure_call(cx.run.limits, Side::Source, || open(&*parent, entry.name(), how), |_| true) {
        Ok(fd) => {
            let stat = stat(&fd)?;
            Ok((Ok(Arc::new(fd)), stat))
        }
        Err(cause) if replaced(&cause) || cause.is(Errno::NOENT) => Err(cause),
        // GNU makes the counterpart of a directory that it can't read before it reports it, so its
        // attributes are needed.
        Err(cause) => {
            let stat = stat_path(Some(&*parent), entry.name(), how != Open::DIRECTORY)?;
            Ok((Err(cause), stat))
        }
    }
}

/// The part of a directory that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    First,
    Next,
}

/// Lists a directory, or the next window of it, and shares the entries.
pub(super) fn list<T: Tool>(
    cx: &Context<'_, T>,
    reader: &mut DirectoryReader,
    node: &Arc<DirNode<T>>,
    fd: Arc<Fd>,
    window: Window,
) {
    let (mut names, more) = match node.scope.as_ref().and_then(|scope| cx.selector().listing(scope)) {
        Some(names) => (names, false),
        None => read(cx, reader, node, &fd),
    };
    if window == Window::First {
        report_missing(cx, node, &fd, &names);
    }
    select(cx, node, &fd, &mut names);
    expect(cx, node, &names);
    // Shared before its entries: the last directory shared is the first taken, so those of this
    // window go before the next window.
    if more {
        cx.share(Job::List(Arc::clone(node), fd));
    }
    share_entries(cx, node, names);
    if !more {
        finish_listing(cx, node);
    }
}

/// Reads a window of a directory. Also returns true if there is more.
fn read<T: Tool>(
    cx: &Context<'_, T>,
    reader: &mut DirectoryReader,
    node: &DirNode<T>,
    fd: &Fd,
) -> (NameArena, bool) {
    let mut names = NameArena::new();
    let more = reader.read(fd, &mut names, WINDOW_ENTRIES).unwrap_or_else(|cause| {
        let path = node.source.path();
        cx.problem(Problem::new(FlowKind::CannotAccess).naming(path).because(cause));
        false
    });
    (names, more)
}

/// Returns the selection's rules for the entries of a directory, if there are any.
fn enter_scope<T: Tool>(cx: &Context<'_, T>, entry: &Entry<T>, directory: &Fd) -> Option<Arc<Scope>> {
    let above = entry.node.scope.as_deref();
    let path_of = |name: &CStr| [entry.path().as_slice(), b"/", name.to_bytes()].concat();
    cx.selector().enter((above, entry.name()), directory, |problem| cx.problem(problem), path_of)
}

/// Excludes the files that the program itself writes to, with a warning for each.
fn exclude_own_files<T: Tool>(
    cx: &Context<'_, T>,
    node: &Arc<DirNode<T>>,
    directory: &Fd,
    names: &mut NameArena,
) {
    let own = cx.selector().own_files(directory, names);
    if own.is_empty() {
        return;
    }
    names.retain(|name, _| !own.iter().any(|own| own.as_c_str() == name));
    cx.count(Tally { excluded: own.len() as u64, ..Tally::default() });
    for name in own {
        let path = node.source.path_of(&name);
        cx.problem(Problem::new(FlowKind::OwnFile).naming(path).as_warning());
    }
}

/// Removes the names that the run's selection excludes.
fn select<T: Tool>(cx: &Context<'_, T>, node: &Arc<DirNode<T>>, directory: &Fd, names: &mut NameArena) {
    exclude_own_files(cx, node, directory, names);
    let Some(scope) = &node.scope else { return };
    let listed = names.len();
    cx.selector().select(scope, directory, names);
    cx.count(Tally { excluded: (listed - names.len()) as u64, ..Tally::default() });
    if !cx.selector().has_list() {
        return;
    }
    // Checked here, because another process may handle the entries.
    let follows = |name: &CStr| {
        let kind = EntryType::Symlink;
        cx.tool().follow(&Entry { node: Arc::clone(node), name: name.into(), kind, seen: None })
    };
    names.retain(|name, kind| match kind {
        EntryType::Directory | EntryType::Unknown => true,
        // It may lead to a directory: `is_selected` checks it before it is shared.
        EntryType::Symlink if follows(name) => true,
        _ => is_listed(cx, node, name),
    });
}

fn expect<T: Tool>(cx: &Context<'_, T>, node: &Arc<DirNode<T>>, names: &NameArena) {
    cx.count(Tally { discovered: names.len() as u64, ..Tally::default() });
    node.expect(names.len());
}

fn share_entries<T: Tool>(cx: &Context<'_, T>, node: &Arc<DirNode<T>>, mut names: NameArena) {
    let mut directories = names.split_off(|listed| listed.kind != EntryType::Directory);
    // Inode order is mostly the order on disk, so that neighbours are fetched by one request
    // (docs/measurements/choices.md).
    if cx.settings().switches.inode_order {
        names.sort_by_inode();
        directories.sort_by_inode();
    }
    let directories = Batch::whole(directories);
    // The first batch is shared last: of directories, the job shared last is taken first.
    for range in plan::batches(directories.len(), plan::BATCH_ENTRIES).rev() {
        cx.share(Job::Enter(Arc::clone(node), directories.part(range)));
    }
    for range in plan::batches(names.len(), cx.run.driver.batch_entries(names.len())) {
        // One list per batch, so that workers in one directory don't contend for its refcount.
        cx.share(Job::Files(Arc::clone(node), Batch::whole(names.part(range))));
    }
}

/// Ends the listing of a directory, and counts the directory itself as finished. For its parent it
/// is pending until its node is complete.
fn finish_listing<T: Tool>(cx: &Context<'_, T>, node: &Arc<DirNode<T>>) {
    cx.count(Tally { finished: 1, ..Tally::default() });
    cx.release(node);
}

/// Continues with a directory that another process has entered and listed. `source` is its handle,
/// `own` the tool's state for it.
pub fn continue_dir<T: Tool>(
    cx: &Context<'_, T>,
    entry: &Entry<T>,
    (source, stat): (Arc<DirHandle>, Stat),
    own: T::Directory,
    mut names: NameArena,
) {
    // Opened only if rules need it: the other process has it open too.
    let directory = cx.selector().changes_listings().then(|| cx.cache().open(&source)).transpose();
    let directory = directory.unwrap_or_else(|cause| {
        // Without its rules, nothing in it may be taken.
        cx.problem(Problem::new(FlowKind::CannotAccess).naming(source.path()).because(cause));
        names = NameArena::new();
        None
    });
    let scope = directory.as_ref().and_then(|directory| enter_scope(cx, entry, directory));
    let node = DirNode::<T>::below(&entry.node, source, (stat, scope), own);
    if let Some(listed) = node.scope.as_ref().and_then(|scope| cx.selector().listing(scope)) {
        names = listed;
    }
    if let Some(directory) = directory {
        report_missing(cx, &node, &directory, &names);
        select(cx, &node, &directory, &mut names);
    }
    expect(cx, &node, &names);
    share_entries(cx, &node, names);
    finish_listing(cx, &node);
}

/// Returns true if an open failed because something else has taken a directory's place.
fn replaced(cause: &Error) -> bool {
    cause.is(Errno::LOOP) || cause.is(Errno::NOTDIR)
}
