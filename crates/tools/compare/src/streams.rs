//! Compares two operands of which at least one is a pipe, FIFO, device or standard input, reading
//! both to EOF in step, as cmp(1) does.
//!
//! Invariant: operands are equal only if both were read to EOF, or if they are the same file.

use std::ffi::CStr;

use haul_flow::{Problem, Reporter};
use haul_sys::{
    Error, Fd, FileType, Open, open_path, position, read_stream, standard_input, stat, stat_path,
};

use super::CompareKind;
use super::CompareOutcome;
use super::difference::{FoundDifference, Side, What};
use super::findings::{DifferenceLog, EntryResult};
use super::options::Options;
use super::ranges::mismatch;

const BLOCK: usize = 128 << 10;

const STANDARD: &CStr = c"-";

/// True if an operand is read as a stream. A missing one is reported by whoever opens it.
pub(super) fn is_stream(path: &CStr) -> bool {
    let is_file = |kind| matches!(kind, FileType::Regular | FileType::Directory | FileType::Symlink);
    path == STANDARD || stat_path::<&Fd>(None, path, true).is_ok_and(|seen| !is_file(seen.kind))
}

/// Compares two operands.
///
/// # Errors
/// If an operand can't be opened or read, or if attributes or direct reads are requested.
pub(super) fn compare(
    (first, second): (&CStr, &CStr),
    options: &Options,
    report: &dyn Reporter,
) -> Result<CompareOutcome, Problem> {
    if !options.attributes.is_empty() {
        return Err(Problem::new(CompareKind::StreamAttributes));
    }
    if options.direct {
        return Err(Problem::new(CompareKind::StreamDirect));
    }
    let open = |path: &CStr| {
        let opened = match path == STANDARD {
            true => standard_input(),
            false => open_path(path, Open::READ.following().blocking()),
        };
        let looked = opened.and_then(|file| stat(&file).map(|seen| (file, seen.identity)));
        looked.map_err(|cause| Problem::new(CompareKind::CannotOpen).naming(path.to_bytes()).because(cause))
    };
    let (one, other) = (open(first)?, open(second)?);
    // Standard input may have been read in part.
    if one.1 == other.1 && position(&one.0).ok() == position(&other.0).ok() {
        return Ok(CompareOutcome::Same);
    }
    let what = differs(&one.0, &other.0).map_err(|(side, cause)| {
        let path = if side == Side::First { first } else { second };
        Problem::new(CompareKind::ErrorReading).naming(path.to_bytes()).because(cause)
    })?;
    let [first, second] = [first, second].map(|path| path.to_bytes().to_vec());
    let differences = what.map(|what| FoundDifference { first, second, what }).into_iter().collect();
    let findings = DifferenceLog::default();
    findings.take(EntryResult { differences, linked: None }, options, report);
    Ok(if findings.finish(options, report) { CompareOutcome::Different } else { CompareOutcome::Same })
}

/// Reads two files up to the first difference or EOF on both.
fn differs(first: &Fd, second: &Fd) -> Result<Option<What>, (Side, Error)> {
    let (mut one, mut other) = (vec![0; BLOCK], vec![0; BLOCK]);
    let (mut at, mut lines, mut ends_with_line) = (0, 0, false);
    loop {
        let one = fill(first, &mut one).map_err(|cause| (Side::First, cause))?;
        let other = fill(second, &mut other).map_err(|cause| (Side::Second, cause))?;
        let differs = mismatch(one, other);
        let same = &one[..differs.unwrap_or(one.len())];
        at += same.len() as u64;
        lines += same.iter().filter(|byte| **byte == b'\n').count() as u64;
        ends_with_line = same.last().map_or(ends_with_line, |byte| *byte == b'\n');
        match differs {
            None if one.is_empty() => return Ok(None),
            None => {}
            Some(here) if here == one.len() => {
                return Ok(Some(What::Ends(Side::First, at, lines, ends_with_line)));
            }
            Some(here) if here == other.len() => {
                return Ok(Some(What::Ends(Side::Second, at, lines, ends_with_line)));
            }
            Some(_) => return Ok(Some(What::Named(at, lines))),
        }
    }
}

/// Reads until the buffer is full or EOF. A single read from a pipe may return less.
fn fill<'a>(file: &Fd, buffer: &'a mut [u8]) -> Result<&'a [u8], Error> {
    let mut length = 0;
    while length < buffer.len() {
        match read_stream(file, &mut buffer[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(&buffer[..length])
}
