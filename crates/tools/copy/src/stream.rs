//! Copies files without offsets: pipes, terminals and devices, read or written sequentially.
//!
//! `cp /dev/stdin file`, `cp <(command) file` and `cp file /dev/stdout` are everyday uses; `cp -r
//! --copy-contents` does it with special files in a tree. Such a copy waits for its other end as
//! long as it takes, so it occupies a worker of its own.

use haul_flow::{Context, Entry, FlowKind, Problem, Tally};
use haul_sys::{Errno, Error, Fd, FileType, Open, Operation, Stat};
use haul_sys::{open, read_on, write_on};

use super::Copier;
use super::attributes::{Object, Subject};
use super::layouts::Original;
use super::open_target::{OpenTarget, Target};
use super::place::Made;
use super::target::target_path;

/// Bytes moved at a time: the capacity of a pipe.
const BLOCK_BYTES: usize = 64 << 10;

/// Copies a special file's content like a regular file's, as `cp` does without `-r` or
/// with `--copy-contents`.
pub(super) fn copy_special(
    copier: &Copier,
    cx: &Context<'_, Copier>,
    entry: &Entry<Copier>,
    directory: &Fd,
    stat: &Stat,
) -> Result<Made, Problem> {
    if let Some(refusal) = copier.refuses(cx, entry, stat) {
        return Err(refusal);
    }
    let unreadable = |cause| Problem::new(FlowKind::CannotOpen).naming(entry.path()).because(cause);
    let how = if copier.follows_here(entry) { Open::READ.following() } else { Open::READ };
    // GNU prints the `--verbose` line before it opens the source.
    let tell = |_: &Error| copier.tell_copied(cx, entry);
    let source = open(directory, entry.name(), how.blocking()).inspect_err(tell).map_err(unreadable)?;
    let made = match copier.open_target(cx, entry, Original::of(stat), copier.private_birth(stat))? {
        Target::Open(target) => Made::whole_if(copy(copier, cx, entry, (&source, stat), target)),
        Target::Left(left) => Made::Left(left),
    };
    match source.close() {
        Ok(()) => Ok(made),
        Err(cause) => Err(Problem::new(FlowKind::FailedToClose).naming(entry.path()).because(cause)),
    }
}

/// Copies an open source to an open target until EOF and sets a regular target's attributes.
/// Reports failures and closes the target. Returns true if all went well.
pub(super) fn copy(
    copier: &Copier,
    cx: &Context<'_, Copier>,
    entry: &Entry<Copier>,
    (source, stat): (&Fd, &Stat),
    target: OpenTarget,
) -> bool {
    let OpenTarget { file, before, backup, .. } = target;
    let mut moved = true;
    if let Err((kind, cause)) = pump(cx, source, &file) {
        let path = if kind == FlowKind::ErrorReading { entry.path() } else { target_path(entry) };
        cx.problem(Problem::new(kind).naming(path).because(cause));
        moved = false;
    }
    copier.debug_stream(cx);
    // A device or FIFO that the user writes to keeps its mode, unlike with GNU cp: it is not
    // a copy.
    if moved && before.is_none_or(|before| before.kind == FileType::Regular) {
        let xattrs = copier.read_xattrs(cx, Object::Open(source), &|| entry.path());
        let subject = Subject {
            object: Object::Open(&file),
            stat,
            xattrs: &xattrs,
            before: before.as_ref(),
            plain_mode: copier.plain_file_mode(stat, before.as_ref()),
            has_access_list: entry.node.own.gives_access_list,
            creation_mode: None,
            target_path: &|| target_path(entry),
        };
        moved = copier.give_attributes(cx, &subject);
    }
    if let Err(cause) = file.close() {
        let problem = Problem::new(FlowKind::FailedToClose).naming(target_path(entry));
        cx.problem(problem.because(cause));
        moved = false;
    }
    if moved {
        cx.count(Tally { files: 1, ..Tally::default() });
    } else {
        copier.put_back(cx, entry, backup.as_deref());
    }
    moved
}

fn pump(cx: &Context<'_, Copier>, source: &Fd, target: &Fd) -> Result<(), (FlowKind, Error)> {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        let length = read_on(source, &mut buffer).map_err(|cause| (FlowKind::ErrorReading, cause))?;
        if length == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let failed = |cause| (FlowKind::ErrorWriting, cause);
            let written = write_on(target, rest).map_err(failed)?;
            if written == 0 {
                return Err(failed(Error::new(Operation::Write, "0 bytes written".to_owned(), Errno::NOSPC)));
            }
            rest = &rest[written..];
        }
        cx.count(Tally { bytes: length as u64, ..Tally::default() });
    }
}
