//! Opening an archive that is read, and telling why one cannot be read on.

use std::sync::Arc;

use haul_flow::{Problem, Report};
use haul_sys::{Error, FileType, Open, open_path, standard_input, stat};

use super::decompress;
use super::input::{Failure, Input, Plain};
use super::members::Members;
use crate::tar::{Archive, Options, wording};

/// Opens the archive that the options name.
///
/// # Errors
/// What is to be told.
pub(crate) fn open(options: &Options) -> Result<Members, Problem> {
    let input = match &options.archive {
        Archive::Standard => standard_input().and_then(input),
        Archive::File(path) => open_path(path, Open::READ.following().blocking()).and_then(input),
    };
    let input =
        input.map_err(|cause| Problem::new(wording::ARCHIVE_OPEN).naming(name(options)).because(cause))?;
    let plain = decompress::plain(input).map_err(|failure| problem(options, failure))?;
    Ok(Members::new(plain, options.ignore_zeros))
}

fn input(file: haul_sys::Fd) -> Result<Input, Error> {
    let seen = stat(&file)?;
    let file = Arc::new(file);
    Ok(match seen.kind {
        FileType::Regular => Input::of_file(file, seen.size),
        _ => Input::of_stream(Box::new(Plain(file))),
    })
}

/// Returns the archive's name, for messages.
fn name(options: &Options) -> &[u8] {
    match &options.archive {
        Archive::Standard => b"-",
        Archive::File(path) => path.as_bytes(),
    }
}

/// Words the reason why an archive cannot be read on.
pub(crate) fn problem(options: &Options, failure: Failure) -> Problem {
    match failure {
        Failure::System(cause) => Problem::new(wording::ARCHIVE_READ).naming(name(options)).because(cause),
        Failure::Damaged(cause) => {
            Problem::new(wording::DAMAGED).naming(name(options)).naming(cause.to_string())
        }
        Failure::Ended => Problem::new(wording::UNEXPECTED_END),
    }
}

/// Tells what was found, and returns whether any of it is an error.
pub(crate) fn tell(problems: &mut Vec<Problem>, report: &dyn Report) -> bool {
    let mut failed = false;
    for problem in problems.drain(..) {
        failed |= problem.severity == haul_flow::Severity::Error;
        report.problem(problem);
    }
    failed
}
