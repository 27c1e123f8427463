//! Copies files without offsets: pipes, terminals and devices, read or written sequentially.
//!
//! `cp /dev/stdin file`, `cp <(command) file` and `cp file /dev/stdout` are everyday uses; `cp -r
//! --copy-contents` does it with special files in a tree. Such a copy waits for its other end as
//! long as it takes, so it occupies a worker of its own.

use std::ops::Range;

use haul_flow::{FlowKind, Problem};
use haul_sys::{CacheMode, Errno, Error, Fd, FileRef, FileType, Operation, Stat};
use haul_sys::{is_local, make_blocking, read_stream, reflink, stat, truncate, write, write_stream};

use super::CopyKind;
use super::attributes::NewAttributes;
use super::backup;
use super::changed;
use super::creation_mode;
use super::debug;
use super::durable;
use super::entry_copy::EntryCopy;
use super::holes;
use super::open_target::OpenTarget;
use super::options::{Reflink, Sparse, Verify};
use super::regular;
use super::source_xattrs;
use super::staged;
use super::verify::Verification;

/// Bytes moved at a time: the capacity of a pipe.
const BLOCK_BYTES: usize = 64 << 10;

/// Copies an open source to an open target until EOF and sets a regular target's attributes.
/// Reports failures and closes the target. Returns true if all went well.
pub(super) fn fill(copy: EntryCopy<'_>, (source, stat): (&Fd, &Stat), target: OpenTarget) -> bool {
    let OpenTarget { file, before, backup, staged, creation_mode, .. } = target;
    if copy.options.reflink == Reflink::Always
        && let Err(cause) = reflink(source, &file)
    {
        let problem = Problem::new(CopyKind::FailedToClone).naming(copy.target_path());
        copy.cx.problem(problem.naming(copy.entry.path()).because(cause));
        staged::take_back(copy, file, staged.as_ref(), before.is_none());
        backup::put_back(copy, backup.as_ref());
        return false;
    }
    let is_file = before.is_none_or(|before| before.kind == FileType::Regular);
    let verification = Verification::begin(copy.copier).filter(|_| is_file);
    if !is_file {
        let options = [
            (copy.options.verify != Verify::Never, CopyKind::NotVerified),
            (copy.copier.listed_hash.is_some(), CopyKind::SpecialNotListed),
        ];
        for (_, kind) in options.into_iter().filter(|(is_given, _)| *is_given) {
            copy.cx.problem(Problem::new(kind).naming(copy.target_path()).as_warning());
        }
    }
    let (mut is_whole, mut has_attributes) = (true, true);
    let length = pump(copy, (source, &file), verification.as_ref()).unwrap_or_else(|(kind, cause)| {
        let path = if kind == FlowKind::ErrorReading { copy.entry.path() } else { copy.target_path() };
        copy.cx.problem(Problem::new(kind).naming(path).because(cause));
        is_whole = false;
        0
    });
    if is_whole {
        changed::report_change(copy, (source, stat), length);
    }
    debug::print_stream(copy);
    // A device or FIFO that the user writes to keeps its mode, unlike with GNU cp: it is not
    // a copy.
    if is_whole && is_file {
        let xattrs = source_xattrs::read(copy, FileRef::Open(source));
        let attributes = NewAttributes {
            before: before.as_ref(),
            plain_mode: creation_mode::plain_file_mode(copy.copier, stat, before.as_ref()),
            ..NewAttributes::of(copy, FileRef::Open(&file), stat, &xattrs)
        };
        has_attributes = attributes.give();
        is_whole = durable::flush_file(copy, &file, staged.as_ref())
            && staged::name_open(copy, staged.as_ref(), &file);
    }
    if is_whole && before.is_some_and(|before| before.kind == FileType::BlockDevice) {
        is_whole = durable::flush_device(copy, &file);
    }
    if let Some(verification) = verification.as_ref().filter(|_| is_whole) {
        is_whole = verification.end(copy, &file, length, None);
    }
    if let Err(cause) = file.close() {
        let problem = Problem::new(FlowKind::FailedToClose).naming(copy.target_path());
        copy.cx.problem(problem.because(cause));
        is_whole = false;
    }
    if !is_whole && staged.is_none() {
        regular::remove_part(copy, creation_mode.is_some());
    }
    let moved = staged::name_closed(copy, staged.as_ref(), is_whole)
        && has_attributes
        && verification.as_ref().is_none_or(|verification| verification.check(copy));
    if moved {
        verification.iter().for_each(|verification| verification.pass_on(copy));
        copy.count_file(length);
    } else {
        backup::put_back(copy, backup.as_ref());
    }
    moved
}

/// Moves everything up to EOF. Returns the number of bytes, or which side failed.
fn pump(
    copy: EntryCopy<'_>,
    (source, target): (&Fd, &Fd),
    verification: Option<&Verification>,
) -> Result<u64, (FlowKind, Error)> {
    let (mut buffer, mut offset) = (vec![0; BLOCK_BYTES], 0);
    let failed = |cause| (FlowKind::ErrorWriting, cause);
    let is_file = stat(target).is_ok_and(|stat| stat.kind == FileType::Regular);
    // A device never gets more room. Other file systems may report that earlier bytes are lost.
    let may_wait = copy.copier.room.is_some() && is_file && is_local(target).unwrap_or(false);
    let has_offsets = || write(target, 0, &[], CacheMode::Keep).is_ok();
    let leaves_holes = copy.options.sparse == Sparse::Always && is_file && has_offsets();
    loop {
        let read = match leaves_holes {
            // Only whole blocks make holes.
            true => read_whole(source, &mut buffer),
            false => waiting(source, || read_stream(source, &mut buffer)),
        };
        let length = read.map_err(|cause| (FlowKind::ErrorReading, cause))?;
        if length == 0 {
            if leaves_holes {
                truncate(target, offset).map_err(failed)?;
            }
            return Ok(offset);
        }
        let bytes = &buffer[..length];
        verification.into_iter().for_each(|verification| verification.add(offset, bytes));
        let write_range = |range: Range<usize>| {
            let mut at = range.start;
            while at < range.end {
                let rest = &bytes[at..range.end];
                let write_rest = || match leaves_holes {
                    true => write(target, offset + at as u64, rest, CacheMode::Keep),
                    false => write_stream(target, rest),
                };
                let written = waiting(target, || match may_wait {
                    true => copy.with_room(write_rest),
                    false => write_rest(),
                });
                at += written.and_then(written_some)?;
            }
            Ok(())
        };
        let written = match leaves_holes {
            true => holes::data_in(bytes).into_iter().try_for_each(write_range),
            false => write_range(0..length),
        };
        written.map_err(failed)?;
        offset += length as u64;
        copy.cx.moved(length as u64);
    }
}

/// Rejects a write of 0 bytes, which would be repeated forever.
fn written_some(written: usize) -> Result<usize, Error> {
    match written {
        0 => Err(Error::new(Operation::Write, "0 bytes written".to_owned(), Errno::NOSPC)),
        _ => Ok(written),
    }
}

/// Reads until the buffer is full, or to EOF. Returns the number of bytes.
fn read_whole(source: &Fd, buffer: &mut [u8]) -> Result<usize, Error> {
    let mut length = 0;
    while length < buffer.len() {
        match waiting(source, || read_stream(source, &mut buffer[length..]))? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

/// Moves data, and waits for it if necessary. A FIFO in a tree was opened with `O_NONBLOCK`, so
/// that the open doesn't wait forever, and so was a kernel file that may get data later
/// (`trace_pipe`).
fn waiting(file: &Fd, mut move_data: impl FnMut() -> Result<usize, Error>) -> Result<usize, Error> {
    match move_data() {
        Err(cause) if cause.is(Errno::AGAIN) => make_blocking(file).and_then(|()| move_data()),
        outcome => outcome,
    }
}
