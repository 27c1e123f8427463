//! Makes one member: a file, link, special file or directory.
//!
//! Existing entries are treated as in GNU tar. By default they are removed; a directory in the
//! place of something else is only removed if it is empty, and once everything before it in the
//! archive is complete.
//!
//! Nothing here follows a link: files are created with `O_EXCL`, or opened with `O_NOFOLLOW` for
//! `--overwrite`, unless both `-P` and `-h` are given. Anything else is pinned before it gets
//! attributes and, where others may exchange it, checked to be the entry that was made
//! ([`Creation`]).

use std::ffi::CStr;

use haul_flow::{Context, Creation, EntryOutcome, EntryReport, Problem, Tally, lock};
use haul_sys::{
    Errno, Error, Fd, FileRef, FileType, Mode, Open, Pinned, Special, link, make_directory, make_special,
    make_symlink, open, remove, remove_directory, stat, stat_at, stat_followed, truncate,
};

use super::Extractor;
use super::attributes::Wanted;
use super::content::{self, Map, StoredContent};
use super::piece::ExtractItem;
use super::resolver::{MemberDir, c_string, directory_request};
use crate::format::MemberKind;
use crate::read::member::Member;
use crate::{Confinement, Existing, TarKind};

/// Maximum entries removed to make one member, if another process keeps making them.
const REMOVALS_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// While earlier members may be in flight.
    Early,
    /// After all earlier members.
    InTurn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberOutcome {
    /// It was made, was skipped as requested, or failed and was reported.
    Over,
    /// It has to wait until all earlier members are complete.
    Waits,
}

pub(super) enum CreateOutcome<T> {
    New(T),
    /// An existing entry stays, as requested.
    Kept,
    /// A directory is in the way, and may only be removed in turn.
    Waits,
}

/// An entry to make, or to link to: an open directory, and a name in it.
#[derive(Clone, Copy)]
pub(super) struct MemberPlace<'a> {
    pub(super) member_dir: &'a MemberDir,
    pub(super) directory: &'a Fd,
    pub(super) name: &'a CStr,
}

/// A new file; `has_final_mode` is true if it has its owner and mode already.
pub(super) struct NewFile {
    pub(super) fd: Fd,
    pub(super) has_final_mode: bool,
}

impl Extractor {
    /// Makes a name with `make`, which must fail with `EEXIST` if there is one, and deals with an
    /// existing entry.
    pub(super) fn in_place<T>(
        &self,
        directory: &Fd,
        name: &CStr,
        when: When,
        make: impl Fn() -> Result<T, Error>,
    ) -> Result<CreateOutcome<T>, Error> {
        for _ in 0..REMOVALS_MAX {
            let taken = match make() {
                Err(cause) if cause.is(Errno::EXIST) => cause,
                outcome => return outcome.map(CreateOutcome::New),
            };
            match self.options.existing {
                Existing::Keep => return Err(taken),
                Existing::Skip => return Ok(CreateOutcome::Kept),
                Existing::Replace | Existing::Overwrite => {}
            }
            match remove(directory, name) {
                Ok(()) => {}
                Err(cause) if cause.is(Errno::NOENT) => {}
                // `unlink` of a directory is `EISDIR` on Linux, `EPERM` by POSIX (unlink(2)).
                Err(cause) if cause.is(Errno::ISDIR) || cause.is(Errno::PERM) => {
                    if when == When::Early {
                        return Ok(CreateOutcome::Waits);
                    }
                    if !self.remove_directory(directory, name) {
                        return Err(taken);
                    }
                }
                Err(_) => return Err(taken),
            }
        }
        make().map(CreateOutcome::New)
    }

    /// Removes an empty directory, which gets no attributes then. Returns false if that fails.
    fn remove_directory(&self, directory: &Fd, name: &CStr) -> bool {
        let removed = stat_at(directory, name);
        if remove_directory(directory, name).is_err() {
            return false;
        }
        if let (Some(state), Ok(removed)) = (&self.state, removed) {
            lock(&state.directories).forget(removed.identity);
        }
        true
    }

    /// Creates the file of a member, empty.
    pub(super) fn new_file(
        &self,
        place: MemberPlace<'_>,
        wanted: &Wanted,
        when: When,
    ) -> Result<CreateOutcome<NewFile>, Error> {
        let MemberPlace { member_dir, directory, name } = place;
        let can_have_final_mode = self.rights.can_have_final_mode(wanted);
        let may_have_final_mode = can_have_final_mode && member_dir.may_grant_modes();
        let has_final_mode = can_have_final_mode && member_dir.grants_mode(wanted.mode);
        let mode = if may_have_final_mode { wanted.mode } else { private(wanted.mode) };
        if self.options.existing == Existing::Overwrite
            && let Some(fd) = self.overwritten(directory, name, mode)?
        {
            // An earlier member may be written to it under another name.
            if when == When::Early && stat(&fd)?.links > 1 {
                return Ok(CreateOutcome::Waits);
            }
            truncate(&fd, 0)?;
            return Ok(CreateOutcome::New(NewFile { fd, has_final_mode: false }));
        }
        let place = self.in_place(directory, name, when, || open(directory, name, Open::create(mode)))?;
        Ok(match place {
            CreateOutcome::New(fd) => {
                let mut file = NewFile { fd, has_final_mode };
                // Looked at once for a directory and these mode bits: later files there need no
                // `chown` or `chmod`.
                if may_have_final_mode && !has_final_mode {
                    let as_asked = stat(&file.fd).is_ok_and(|made| self.rights.is_ours(&made, mode));
                    member_dir.learn(mode, as_asked);
                    file.has_final_mode = as_asked;
                }
                CreateOutcome::New(file)
            }
            CreateOutcome::Kept => CreateOutcome::Kept,
            CreateOutcome::Waits => CreateOutcome::Waits,
        })
    }

    /// Opens an existing regular file to be overwritten; `None` if there is none, so that one is to
    /// be created.
    fn overwritten(&self, directory: &Fd, name: &CStr, mode: Mode) -> Result<Option<Fd>, Error> {
        // Links within the root were followed when the path was resolved.
        let follows = self.options.follows_to_files() && self.options.confinement == Confinement::Absolute;
        let how = if follows { Open::WRITE.following() } else { Open::WRITE };
        let fd = match open(directory, name, how) {
            Ok(fd) => fd,
            // What a dangling link leads to is created.
            Err(cause) if follows && cause.is(Errno::NOENT) => {
                open(directory, name, Open::create_through(mode))?
            }
            // `ELOOP` is a symbolic link, `ENXIO` a FIFO without a reader or a socket.
            Err(cause) if matches!(cause.errno(), Errno::NOENT | Errno::LOOP | Errno::NXIO) => {
                return Ok(None);
            }
            Err(cause) => return Err(cause),
        };
        Ok((stat(&fd)?.kind == FileType::Regular).then_some(fd))
    }

    /// Makes a regular file with all of its content.
    pub(super) fn make_file(
        &self,
        cx: &Context<'_, Self>,
        place: MemberPlace<'_>,
        (member, wanted, path): (&mut Member, &Wanted, &[u8]),
        stored: &StoredContent<'_>,
        when: When,
    ) -> MemberOutcome {
        let created = self.new_file(place, wanted, when);
        let file = match self.created(cx, created, || Problem::new(TarKind::CannotOpen).naming(path)) {
            Ok(file) => file,
            Err(outcome) => return outcome,
        };
        let map = member.map.take().map(Map::new);
        // A hole at the end shows only in the length.
        let sized = if map.is_some() { truncate(&file.fd, member.size) } else { Ok(()) };
        let outcome = sized
            .map_err(content::ContentFailure::Write)
            .and_then(|()| content::put(&file.fd, stored, 0, map.as_ref()));
        self.end_file(cx, file, (member, wanted, path), outcome);
        MemberOutcome::Over
    }

    /// Sets the attributes of a file after its content, and closes it. An incomplete one gets none:
    /// with its time, or as a set-user-ID program, it would pass for the whole file.
    pub(super) fn end_file(
        &self,
        cx: &Context<'_, Self>,
        file: NewFile,
        (member, wanted, path): (&Member, &Wanted, &[u8]),
        outcome: Result<(), content::ContentFailure>,
    ) {
        let errors_before = cx.errors();
        match outcome {
            Err(failure) => cx.problem(self.content_problem(failure, path)),
            Ok(()) if member.is_cut => {}
            Ok(()) => self.give(cx, FileRef::Open(&file.fd), wanted, path, file.has_final_mode),
        }
        if let Err(cause) = file.fd.close() {
            cx.problem(Problem::new(TarKind::CannotClose).naming(path).because(cause));
        } else if cx.errors() == errors_before && !member.is_cut {
            cx.count(Tally { bytes: member.size, ..Tally::default() });
            cx.count_entry(EntryOutcome::File, |outcome| EntryReport {
                bytes: Some(member.size),
                ..EntryReport::new(outcome, path.to_vec())
            });
        }
    }

    pub(super) fn content_problem(&self, failure: content::ContentFailure, path: &[u8]) -> Problem {
        match failure {
            content::ContentFailure::Write(cause) => {
                Problem::new(TarKind::CannotWrite).naming(path).because(cause)
            }
            content::ContentFailure::Read(cause) => {
                Problem::new(TarKind::CannotRead).naming(path).because(cause)
            }
            content::ContentFailure::Ended => Problem::new(TarKind::UnexpectedEnd),
        }
    }

    /// Makes a symbolic link or a special file.
    pub(super) fn make_other(
        &self,
        cx: &Context<'_, Self>,
        place: MemberPlace<'_>,
        (member, wanted, path): (&Member, &Wanted, &[u8]),
        when: When,
    ) -> MemberOutcome {
        let MemberPlace { member_dir, directory, name } = place;
        let (kind, outcome_if_made) = match member.kind {
            MemberKind::Symlink => (TarKind::CannotMakeSymlink, EntryOutcome::Symlink),
            MemberKind::Fifo => (TarKind::CannotMakeFifo, EntryOutcome::Special),
            _ => (TarKind::CannotMakeNode, EntryOutcome::Special),
        };
        let outcome = match member.kind {
            MemberKind::Symlink => c_string(&member.link).and_then(|text| {
                self.in_place(directory, name, when, || {
                    let creation = Creation::begin(SYMLINK, member_dir.is_shared(directory));
                    make_symlink(&text, directory, name).map(|()| creation)
                })
            }),
            kind => {
                let special = Special {
                    kind: match kind {
                        MemberKind::Fifo => FileType::Fifo,
                        MemberKind::CharacterDevice => FileType::CharacterDevice,
                        _ => FileType::BlockDevice,
                    },
                    mode: private(wanted.mode),
                    device_number: haul_sys::device_number(member.device.0, member.device.1),
                };
                self.in_place(directory, name, when, || {
                    let creation = Creation::begin(special, member_dir.is_shared(directory));
                    make_special(directory, name, special).map(|()| creation)
                })
            }
        };
        let problem = || {
            let problem = Problem::new(kind).naming(path);
            match member.kind {
                MemberKind::Symlink => problem.naming(member.link.as_slice()),
                _ => problem,
            }
        };
        let creation = match self.created(cx, outcome, problem) {
            Ok(creation) => creation,
            Err(outcome) => return outcome,
        };
        let errors_before = cx.errors();
        match creation.pin(directory, name, member_dir.is_shared(directory)) {
            Ok(pinned) => self.give(cx, FileRef::Pinned(&pinned), wanted, path, false),
            Err(cause) => return fail(cx, path_problem(path, cause)),
        }
        if cx.errors() == errors_before {
            cx.count_entry(outcome_if_made, |outcome| EntryReport::new(outcome, path.to_vec()));
        }
        MemberOutcome::Over
    }

    /// Makes a hard link to a member that was made.
    pub(super) fn make_link(
        &self,
        cx: &Context<'_, Self>,
        item: &ExtractItem,
        place: MemberPlace<'_>,
        source: MemberPlace<'_>,
        when: When,
    ) -> MemberOutcome {
        let (path, shown) = (item.path.as_slice(), item.member.link.as_slice());
        let MemberPlace { directory, name, .. } = place;
        let MemberPlace { directory: above, name: leads_to, .. } = source;
        let are_one = || {
            let (one, other) = (stat_at(directory, name).ok(), stat_at(above, leads_to).ok());
            one.zip(other).is_some_and(|(one, other)| one.identity == other.identity)
        };
        let problem = || Problem::new(TarKind::CannotLink).naming(path).naming(shown);
        let pinned = match self.link_source(source) {
            Ok(pinned) => pinned,
            Err(cause) if cause.is(Errno::STALE) => return fail(cx, path_problem(shown, cause)),
            Err(cause) => return fail(cx, problem().because(cause)),
        };
        let link = || match &pinned {
            None => link(above, leads_to, directory, name),
            Some(pinned) => pinned.link(directory, name),
        };
        let outcome = match link() {
            // Like GNU tar. Removing the name first could remove the file's last one.
            Err(cause) if cause.is(Errno::EXIST) && are_one() => Ok(CreateOutcome::New(())),
            Err(cause) if cause.is(Errno::EXIST) => self.in_place(directory, name, when, link),
            outcome => outcome.map(CreateOutcome::New),
        };
        if let Err(outcome) = self.created(cx, outcome, problem) {
            return outcome;
        }
        cx.count_entry(EntryOutcome::HardLink, |outcome| EntryReport::new(outcome, path.to_vec()));
        MemberOutcome::Over
    }

    /// Pins the source of a hard link where others may exchange it; `None` where they cannot.
    fn link_source(&self, source: MemberPlace<'_>) -> Result<Option<Pinned>, Error> {
        let MemberPlace { member_dir, directory, name } = source;
        if !member_dir.is_shared(directory) {
            return Ok(None);
        }
        let pinned = Pinned::open(directory, name)?;
        self.rights.check_linked(directory, &pinned.stat()?)?;
        Ok(Some(pinned))
    }

    /// Makes a directory, or uses an existing one. The outer `None` means that no directory gets
    /// attributes, the inner one that the directory existed.
    pub(super) fn make_directory_at(
        &self,
        cx: &Context<'_, Self>,
        (directory, name): (&Fd, &CStr),
        path: &[u8],
    ) -> Option<Option<Creation>> {
        let make = || {
            let creation = Creation::begin(directory_request(Mode::OWNER), true);
            let taken = match make_directory(directory, name, Mode::OWNER) {
                Err(cause) if cause.is(Errno::EXIST) => cause,
                outcome => return outcome.map(|()| Some(Some(creation))),
            };
            match stat_at(directory, name).map(|there| there.kind) {
                Ok(FileType::Directory) => Ok(self.options.existing.is_replaced().then_some(None)),
                Ok(FileType::Symlink)
                    if self.options.follows_to_directories() && leads_to_directory(directory, name) =>
                {
                    // GNU tar changes the directory behind the link only with -h.
                    let is_kept = self.options.keep_directory_symlink || !self.options.existing.is_replaced();
                    Ok((!is_kept).then_some(None))
                }
                _ => Err(taken),
            }
        };
        match self.in_place(directory, name, When::InTurn, make) {
            Ok(CreateOutcome::New(made)) => made,
            Ok(_) => {
                self.kept(cx);
                None
            }
            Err(cause) => {
                cx.problem(Problem::new(TarKind::CannotMakeDirectory).naming(path).because(cause));
                None
            }
        }
    }

    /// Returns the created entry; otherwise the member's outcome, after reporting a failure as
    /// `problem`.
    fn created<T>(
        &self,
        cx: &Context<'_, Self>,
        outcome: Result<CreateOutcome<T>, Error>,
        problem: impl FnOnce() -> Problem,
    ) -> Result<T, MemberOutcome> {
        match outcome {
            Ok(CreateOutcome::New(made)) => Ok(made),
            Ok(CreateOutcome::Kept) => Err(self.kept(cx)),
            Ok(CreateOutcome::Waits) => Err(MemberOutcome::Waits),
            Err(cause) => Err(fail(cx, problem().because(cause))),
        }
    }

    fn kept(&self, cx: &Context<'_, Self>) -> MemberOutcome {
        cx.count(Tally { skipped: 1, ..Tally::default() });
        MemberOutcome::Over
    }
}

const SYMLINK: Special = Special { kind: FileType::Symlink, mode: Mode::ALL, device_number: 0 };

/// True if a link leads to a directory, wherever that is. It is only examined: whoever goes through
/// the link resolves it below the root.
fn leads_to_directory(directory: &Fd, name: &CStr) -> bool {
    stat_followed(directory, name).is_ok_and(|there| there.kind == FileType::Directory)
}

/// Returns the owner's bits of a mode: a new entry has no others until its owner is set.
fn private(mode: Mode) -> Mode {
    mode.and(Mode::OWNER).or(Mode::OWNER_WRITE)
}

pub(super) fn fail(cx: &Context<'_, Extractor>, problem: Problem) -> MemberOutcome {
    cx.problem(problem);
    MemberOutcome::Over
}

pub(super) fn path_problem(path: &[u8], cause: Error) -> Problem {
    let kind: TarKind = match cause.errno() {
        Errno::XDEV => TarKind::LeadsOut,
        Errno::STALE => TarKind::ReplacedWhileMade,
        _ => return Problem::new(TarKind::CannotOpen).naming(path).because(cause),
    };
    Problem::new(kind).naming(path)
}
