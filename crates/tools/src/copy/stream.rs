//! Copying what has no offsets: pipes, terminals and devices, read or written from front to end.
//!
//! `cp /dev/stdin file`, `cp <(command) file` and `cp file /dev/stdout` are everyday uses. Such a copy waits for its
//! other end as long as it takes, so it keeps a worker for itself.

use haul_flow::{Desk, Found, Handled, Problem, Tally, Wording};
use haul_sys::{Errno, Error, Fd, Open, Operation, Stat};
use haul_sys::{open, read_on, write_on};

use super::Copier;
use super::regular::Target;
use super::target::target_path;

/// Bytes moved at a time: what a pipe holds.
const BLOCK_BYTES: usize = 64 << 10;

/// Copies a special file as if it were a regular one, which `cp` does without `-r`.
pub(super) fn copy_special(
    copier: &Copier,
    desk: &Desk<'_, Copier>,
    found: &Found<Copier>,
    stat: &Stat,
) -> Result<Handled, Problem> {
    let unreadable =
        |cause| Problem::new(haul_flow::wording::CANNOT_OPEN).naming(found.path()).because(cause);
    let directory = desk.cache().open(&found.node.source).map_err(unreadable)?;
    let how = Open::READ.following().blocking();
    let source = open(&directory, found.name(), how).map_err(unreadable)?;
    if let Target::Open(target) = copier.open_target(desk, found, stat, copier.private_birth(stat))? {
        let whole = copy(desk, found, &source, target.file);
        if !whole {
            copier.put_back(desk, found, target.backup.as_deref());
        }
    }
    if let Err(cause) = source.close() {
        return Err(Problem::new(haul_flow::wording::FAILED_TO_CLOSE).naming(found.path()).because(cause));
    }
    Ok(Handled::Over)
}

/// Copies from an open source to an open target until the source ends; reports what fails and closes the target. Returns
/// whether all went well.
pub(super) fn copy(desk: &Desk<'_, Copier>, found: &Found<Copier>, source: &Fd, target: Fd) -> bool {
    let outcome = pump(desk, source, &target);
    let moved = outcome.is_ok();
    if let Err((wording, cause)) = outcome {
        let path =
            if wording == haul_flow::wording::ERROR_READING { found.path() } else { target_path(found) };
        desk.problem(Problem::new(wording).naming(path).because(cause));
    }
    match target.close() {
        Ok(()) => {
            desk.count(Tally { files: 1, ..Tally::default() });
            moved
        }
        Err(cause) => {
            let problem = Problem::new(haul_flow::wording::FAILED_TO_CLOSE).naming(target_path(found));
            desk.problem(problem.because(cause));
            false
        }
    }
}

fn pump(desk: &Desk<'_, Copier>, source: &Fd, target: &Fd) -> Result<(), (Wording, Error)> {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        let length =
            read_on(source, &mut buffer).map_err(|cause| (haul_flow::wording::ERROR_READING, cause))?;
        if length == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let failed = |cause| (haul_flow::wording::ERROR_WRITING, cause);
            let written = write_on(target, rest).map_err(failed)?;
            if written == 0 {
                return Err(failed(Error::new(Operation::Write, "0 bytes written".to_owned(), Errno::NOSPC)));
            }
            rest = &rest[written..];
        }
        desk.count(Tally { bytes: length as u64, ..Tally::default() });
    }
}
