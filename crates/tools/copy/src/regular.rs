//! Copies regular files: creates or opens the target, chooses how to move the bytes, and finishes.

use std::ffi::CStr;
use std::sync::Arc;

use haul_flow::{Context, Entry, FlowKind, Holes, OpenFile, OpenSource, Problem, Start, Tally, Transfer};
use haul_striping::Bearer;
use haul_sys::{Errno, Error, Fd, FileType, Identity, Mode, Open, Seek, Stat};
use haul_sys::{open, reflink, remove, seek, stat, stat_at, stat_path, truncate};

use super::Copier;
use super::CopyKind;
use super::attributes::{Object, Subject};
use super::creation_mode::CreationMode;
use super::layouts::Original;
use super::links::{MadeFile, NameClaim};
use super::open_target::{CopiedFile, OpenTarget, Target};
use super::options::{Preserve, Reflink, Sparse};
use super::place::{Left, Place};
use super::stream;
use super::target::{failure, open_directory, problem, target_name, target_path};
use super::xattr_rules::SourceXattrs;

impl Copier {
    pub(super) fn begin_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: OpenSource<'_>,
    ) -> Start<CopiedFile> {
        let OpenSource { stat, .. } = opened;
        let link = match self.claim(cx, entry, stat) {
            NameClaim::First(claimed) => claimed,
            NameClaim::Waits => return Start::Deferred,
            NameClaim::Over => return Start::Done,
        };
        let creation_mode = self.creation_mode(&entry.node.own, opened.source, stat);
        let layout = self.wanted_layout(cx, entry, (opened.source, stat), Bearer::File);
        let original = Original { stat, layout: layout.as_ref() };
        let in_part = match entry.node.owner {
            #[cfg(feature = "distributed")]
            Some(_) => self.open_in_part(cx, entry, original, creation_mode),
            _ => Ok(None),
        };
        let opening = match in_part {
            Ok(Some(target)) => Ok(Target::Open(target)),
            Ok(None) => self.open_target(cx, entry, original, creation_mode),
            Err(problem) => Err(problem),
        };
        let begun = match opening {
            Ok(Target::Open(target)) => self.fill(cx, entry, opened, target, link),
            Ok(Target::Left(Left::AsCopy)) => {
                if let Some(file) = link {
                    self.complete_link(cx, entry, file, None);
                }
                return Start::Done;
            }
            Ok(Target::Left(Left::AsItIs)) => None,
            Err(problem) => {
                if problem.kind == CopyKind::CannotCreateFile {
                    self.debug_failed(cx, "unknown");
                }
                cx.problem(problem);
                None
            }
        };
        begun.unwrap_or_else(|| {
            self.abandon_link(cx, link);
            Start::Done
        })
    }

    /// Chooses how an open target gets its content; `None` if that failed and was reported.
    fn fill(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: OpenSource<'_>,
        target: OpenTarget,
        link: Option<Identity>,
    ) -> Option<Start<CopiedFile>> {
        let OpenSource { source, stat, .. } = opened;
        if target.before.is_some_and(|before| before.kind != FileType::Regular) {
            stream::copy(self, cx, entry, (source, stat), target);
            return None;
        }
        let OpenTarget { file, before, backup, creation_mode, temporary_name } = target;
        let reflinked = match self.share_blocks(entry, source, stat, &file) {
            Ok(shared) => shared,
            Err(cause) => {
                let problem =
                    Problem::new(CopyKind::FailedToClone).naming(target_path(entry)).naming(entry.path());
                cx.problem(problem.because(cause));
                self.debug_failed(cx, "unsupported");
                self.take_back(cx, entry, file, before.is_none().then_some(temporary_name.as_deref()));
                self.put_back(cx, entry, backup.as_deref());
                return None;
            }
        };
        let transfer = if reflinked { Transfer::Nothing } else { self.transfer(entry, source, stat) };
        let skips_holes = matches!(transfer, Transfer::Blocks(Holes::Skip) | Transfer::Kernel(Holes::Skip));
        let offloaded = matches!(transfer, Transfer::Kernel(_));
        let has_holes = skips_holes || (!reflinked && self.options.sparse == Sparse::Always);
        if reflinked {
            cx.count(Tally { bytes: stat.size, reflinked: 1, ..Tally::default() });
        }
        // A file written through a symbolic link is not the one the name refers to.
        let has_the_name = link.is_some() && creation_mode.is_some();
        let made = has_the_name.then(|| haul_sys::stat(&file).ok()).flatten();
        let made = made.map(|stat| MadeFile::of(&stat));
        let own = CopiedFile {
            before,
            backup,
            link,
            made,
            reflinked,
            offloaded,
            skips_holes,
            has_holes,
            creation_mode,
            temporary_name,
        };
        Some(Start::Move { own, target: file, transfer, inspect: has_holes })
    }

    /// Closes a target that was not needed and, if it is `new`, removes it (under its temporary
    /// name, if any).
    fn take_back(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, file: Fd, new: Option<Option<&CStr>>) {
        let mut outcome = file.close();
        if let Some(temporary_name) = new {
            let name = temporary_name.unwrap_or(target_name(entry));
            let removed = open_directory(cx, entry).and_then(|directory| remove(directory, name));
            outcome = outcome.and(removed);
        }
        if let Err(cause) = outcome {
            cx.problem(Problem::new(CopyKind::CannotRemove).naming(target_path(entry)).because(cause));
        }
    }

    /// Creates or opens the target of a regular file.
    pub(super) fn open_target(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: Original<'_>,
        creation_mode: CreationMode,
    ) -> Result<Target, Problem> {
        let name = target_name(entry);
        let directory = self
            .open_place(cx, entry)
            .map_err(|cause| problem(entry, CopyKind::CannotCreateFile, slashed(name, cause)))?;
        match self.make_file(cx, entry, (&directory, name), creation_mode.mode, source.layout) {
            Ok(file) => {
                self.tell_copied(cx, entry);
                Ok(Target::Open(OpenTarget { creation_mode: Some(creation_mode), ..OpenTarget::new(file) }))
            }
            Err(cause) if cause.is(Errno::EXIST) => self.open_in_place(cx, entry, source, &directory),
            Err(cause) if cause.is(Errno::ISDIR) && stat_path(Some(&*directory), name, true).is_ok() => {
                self.open_in_place(cx, entry, source, &directory)
            }
            Err(cause) => {
                let problem = failure(entry, &directory, CopyKind::CannotCreateFile, slashed(name, cause));
                self.tell_tried(cx, entry, &problem);
                Err(problem)
            }
        }
    }

    /// Opens or creates the target where something exists, or did a moment ago.
    fn open_in_place(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: Original<'_>,
        directory: &Fd,
    ) -> Result<Target, Problem> {
        let mut turn = self.turn(entry);
        match self.clear(cx, entry, directory, &mut turn, source.stat)? {
            Place::Left(left) => Ok(Target::Left(left)),
            Place::Taken(there) => {
                self.tell_copied(cx, entry);
                self.open_existing(cx, entry, source, directory, there).map(Target::Open)
            }
            Place::Free(backup) => {
                self.tell_copied_over(cx, entry, backup.as_deref());
                let is_there = if backup.is_some() { self.check_source(cx, entry) } else { Ok(()) };
                match is_there.and_then(|()| self.make_anew(cx, entry, source, directory)) {
                    Ok(target) => Ok(Target::Open(OpenTarget { backup, ..target })),
                    Err(problem) => {
                        self.put_back(cx, entry, backup.as_deref());
                        Err(problem)
                    }
                }
            }
        }
    }

    /// Checks that the source can still be reached by name: it may be a symbolic link through what
    /// was just moved to a backup, or that itself. GNU opens the source only now, and fails then.
    fn check_source(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Result<(), Problem> {
        let looked = cx
            .cache()
            .open(&entry.node.source)
            .and_then(|directory| stat_path(Some(&*directory), entry.name(), self.follows_here(entry)));
        looked
            .map(|_| ())
            .map_err(|cause| Problem::new(FlowKind::CannotOpen).naming(entry.path()).because(cause))
    }

    /// Opens an existing target. With `-f`, one that can't be opened is removed and recreated.
    fn open_existing(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: Original<'_>,
        directory: &Fd,
        there: Option<Stat>,
    ) -> Result<OpenTarget, Problem> {
        let how = Open::WRITE.following();
        // Wait for the reader of a FIFO that the user named; one met in a tree is a trap.
        let waits = there.is_some_and(|there| there.kind != FileType::Regular) && !self.options.recursive;
        let how = if waits { how.blocking() } else { how };
        match (open(directory, target_name(entry), how), there) {
            (Ok(file), Some(there)) => self.empty(entry, source.stat, there, file),
            // It was a symbolic link to itself and is something else now: recreate it, like
            // anything that can't be opened.
            (Ok(file), None) => {
                file.close().map_err(|cause| problem(entry, CopyKind::CannotCreateFile, cause))?;
                self.make_room(cx, entry, directory)?;
                self.make_anew(cx, entry, source, directory)
            }
            (Err(cause), _) if cause.is(Errno::NOENT) => self.make_anew(cx, entry, source, directory),
            (Err(_), _) if self.options.existing.force => {
                self.make_room(cx, entry, directory)?;
                self.make_anew(cx, entry, source, directory)
            }
            (Err(cause), _) => Err(problem(entry, CopyKind::CannotCreateFile, cause)),
        }
    }

    /// Truncates an opened target, after checking that it is not the source by another path.
    fn empty(
        &self,
        entry: &Entry<Self>,
        source: &Stat,
        there: Stat,
        file: Fd,
    ) -> Result<OpenTarget, Problem> {
        if there.kind != FileType::Regular {
            return Ok(OpenTarget { before: Some(there), ..OpenTarget::new(file) });
        }
        let failed = |cause| problem(entry, CopyKind::CannotCreateFile, cause);
        let opened = stat(&file).map_err(failed)?;
        if opened.identity == source.identity {
            return Err(Problem::new(CopyKind::SameFile).naming(entry.path()).naming(target_path(entry)));
        }
        if !self.options.attributes_only {
            // Also an empty one: being written to shows in its timestamps.
            truncate(&file, 0).map_err(failed)?;
        }
        Ok(OpenTarget { before: Some(opened), ..OpenTarget::new(file) })
    }

    /// Creates the target where nothing exists, or only a dangling symbolic link.
    fn make_anew(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: Original<'_>,
        directory: &Fd,
    ) -> Result<OpenTarget, Problem> {
        let (name, mode) = (target_name(entry), self.new_file_mode(source.stat));
        let outcome = match self.make_file(cx, entry, (directory, name), mode, source.layout) {
            Err(cause) if cause.is(Errno::EXIST) && is_link(directory, name) => {
                if !self.options.through_dangling {
                    return Err(Problem::new(CopyKind::Dangling).naming(target_path(entry)));
                }
                open(directory, name, Open::create_through(mode))
            }
            outcome => outcome,
        };
        outcome.map(OpenTarget::new).map_err(|cause| problem(entry, CopyKind::CannotCreateFile, cause))
    }

    /// Mode a file is created with: never wider than its final one, private until its owner is set.
    pub(super) fn new_file_mode(&self, source: &Stat) -> Mode {
        let mode = source.mode.and(Mode::ALL).without(self.omitted(source.kind));
        // An unprivileged user needs write permission on a file to set its xattrs.
        if self.preserves(Preserve::XATTR) && self.process.user != 0 {
            mode.or(Mode::OWNER_WRITE)
        } else {
            mode
        }
    }

    /// Shares the source's blocks if wanted and possible; returns whether it did.
    fn share_blocks(
        &self,
        entry: &Entry<Self>,
        source: &Arc<Fd>,
        stat: &Stat,
        target: &Fd,
    ) -> Result<bool, Error> {
        let always = self.options.reflink == Reflink::Always;
        // An empty file shares nothing; under `--debug` it shows whether it could.
        let refused = entry.node.own.refuses_reflink() || (stat.size == 0 && !self.options.debug);
        if self.options.reflink == Reflink::Never || (refused && !always) {
            return Ok(false);
        }
        match reflink(source, target) {
            Ok(()) => Ok(true),
            // A full or broken disk: another method would hide the error or hit it too.
            Err(cause) if always || is_terminal(&cause) => Err(cause),
            Err(cause) => {
                if matches!(cause.errno(), Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) {
                    entry.node.own.refuse_reflink();
                }
                Ok(false)
            }
        }
    }

    /// Chooses how to move the bytes.
    fn transfer(&self, entry: &Entry<Self>, source: &Fd, stat: &Stat) -> Transfer {
        let holes = match self.options.sparse {
            Sparse::Never => Holes::Read,
            Sparse::Auto | Sparse::Always if has_holes(source, stat) => Holes::Skip,
            Sparse::Auto | Sparse::Always => Holes::Read,
        };
        let offload = self.options.sparse == Sparse::Auto
            && self.options.reflink != Reflink::Never
            // Like GNU's, `--debug` reports what the kernel can do between two files, so it must
            // be tried.
            && (self.options.debug || self.why_in_blocks(entry, stat, holes).is_none())
            // Striped file systems lack in-kernel copying; the kernel's fallback moves one pipe
            // buffer at a time.
            && !self.is_striped(source, stat);
        if offload { Transfer::Kernel(holes) } else { Transfer::Blocks(holes) }
    }

    pub(super) fn finish_copy(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> bool {
        let Some(target) = &file.target else { return true };
        if file.own.has_holes
            && let Err(cause) = truncate(target, file.length())
        {
            let problem = Problem::new(CopyKind::FailedToExtend).naming(target_path(&file.entry));
            cx.problem(problem.because(cause));
            return false;
        }
        if self.options.debug {
            self.debug_file(cx, file);
        }
        let creation_mode = file.own.creation_mode;
        let xattrs = match creation_mode.is_some_and(|creation_mode| creation_mode.is_final) {
            true => SourceXattrs::default(),
            false => self.read_xattrs(cx, Object::Open(&file.source), &|| file.entry.path()),
        };
        self.give_attributes(
            cx,
            &Subject {
                object: Object::Open(target),
                stat: &file.stat,
                xattrs: &xattrs,
                before: file.own.before.as_ref(),
                plain_mode: self.plain_file_mode(&file.stat, file.own.before.as_ref()),
                has_access_list: file.entry.node.own.gives_access_list,
                creation_mode: creation_mode.map(|creation_mode| (creation_mode, &file.entry.node.own)),
                target_path: &|| target_path(&file.entry),
            },
        )
    }

    /// Mode a new file gets at the end if the source's is not preserved; `None` if it already
    /// has it.
    pub(super) fn plain_file_mode(&self, source: &Stat, before: Option<&Stat>) -> Option<Mode> {
        if before.is_some() {
            return None;
        }
        if self.options.default_mode {
            return Some(Mode::READ_WRITE.without(self.umask));
        }
        let final_mode = source.mode.and(Mode::ALL).without(self.umask);
        let made_with = self.new_file_mode(source).without(self.umask);
        (final_mode != made_with).then_some(final_mode)
    }

    pub(super) fn end_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        own: &CopiedFile,
        moved: bool,
    ) {
        let moved = self.give_name(cx, entry, own.temporary_name.as_ref(), moved);
        if moved {
            cx.count(Tally { files: 1, ..Tally::default() });
            if entry.is_operand() {
                self.record_created(cx, entry);
            }
        }
        if !moved {
            self.put_back(cx, entry, own.backup.as_deref());
        }
        match (own.link, moved) {
            (Some(file), true) => {
                self.complete_link(cx, entry, file, own.made);
            }
            (link, _) => self.abandon_link(cx, link),
        }
    }
}

/// True if a file occupies less space than its length and the file system knows its holes.
/// Compressed files are short of blocks but not of data; like GNU cp since 9.9, they are treated as
/// files without holes.
fn has_holes(source: &Fd, stat: &Stat) -> bool {
    let is_all_data = || matches!(seek(source, Seek::Hole, 0), Ok(Some(hole)) if hole >= stat.size);
    stat.is_sparse() && !is_all_data()
}

/// True if sharing blocks failed for a reason other than lack of support. GNU's list (since 9.2).
fn is_terminal(cause: &Error) -> bool {
    matches!(cause.errno(), Errno::IO | Errno::NOMEM | Errno::NOSPC | Errno::DQUOT)
}

fn is_link(directory: &Fd, name: &CStr) -> bool {
    stat_at(directory, name).is_ok_and(|there| there.kind == FileType::Symlink)
}

/// Reports a failure to create a name with a trailing slash as GNU does: not a directory.
fn slashed(name: &CStr, cause: Error) -> Error {
    if cause.is(Errno::ISDIR) && name.to_bytes().ends_with(b"/") {
        return Error::new(cause.operation(), format!("{name:?}"), Errno::NOTDIR);
    }
    cause
}
