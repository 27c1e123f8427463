//! Opens an archive for reading, and reports why one cannot be read further.

use std::sync::Arc;

use std::ffi::OsString;

use haul_cluster::mpi::is_of_process;
use haul_flow::{Problem, Reporter};
use haul_sys::{
    Error, Fd, FileType, Filter, Open, open_path, position, read_stream, seek_to_end, standard_input, stat,
};

use super::decompress;
use super::input::{ArchiveInput, ByteStream, Plain, ReadFailure};
use super::members::Members;
use crate::{ArchivePath, Options, TarKind};

/// Opens the archive that the options name.
///
/// # Errors
/// The reason, to be reported.
pub(crate) fn open(options: &Options) -> Result<Members, Problem> {
    let file = match &options.archive {
        ArchivePath::Standard => standard_input(),
        // Blocking: the archive may be a FIFO whose writer comes later.
        ArchivePath::File(path) => open_path(path, Open::READ.following().blocking()),
    };
    let cannot_open = |cause| Problem::new(TarKind::ArchiveOpen).naming(name(options)).because(cause);
    let file = file.map_err(cannot_open)?;
    if let [program, ..] = options.program.as_slice() {
        let filtered = Filtered::of(&options.program, file).map_err(|cause| {
            Problem::new(TarKind::CannotStart).naming(program.as_encoded_bytes()).because(cause)
        })?;
        return Ok(Members::of_program(ArchiveInput::of_stream(Box::new(filtered)), options));
    }
    let is_standard = matches!(options.archive, ArchivePath::Standard);
    let input = input(file, is_standard).map_err(cannot_open)?;
    let (plain, packed) = decompress::plain(input).map_err(|failure| problem(options, failure))?;
    Ok(Members::new(plain, packed, options))
}

/// Output of the user's program (`-I`), which decompresses the archive.
struct Filtered {
    output: Fd,
    program: String,
    filter: Option<Filter>,
}

impl Filtered {
    /// Starts the program to decompress, with `-d` added, as GNU tar does.
    fn of(program: &[OsString], archive: Fd) -> Result<Self, Error> {
        let mut words = program.to_vec();
        words.push("-d".into());
        let (filter, output) = Filter::reading(&words, archive, is_of_process)?;
        let program = program.first().map_or_else(String::new, |word| word.display().to_string());
        Ok(Self { output, program, filter: Some(filter) })
    }
}

impl ByteStream for Filtered {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFailure> {
        let length = read_stream(&self.output, bytes)?;
        // Checked at EOF: a program that fails may have written only a part.
        if length == 0
            && !bytes.is_empty()
            && let Some(filter) = self.filter.take()
            && let Err(status) = filter.finish()?
        {
            return Err(ReadFailure::Damaged(std::io::Error::other(format!("{}: {status}", self.program))));
        }
        Ok(length)
    }
}

/// Returns the part of a file to read. Standard input continues where another program has left it.
/// If the archive is compressed or damaged, it is left at its end, as a pipe would be.
fn input(file: Fd, is_standard: bool) -> Result<ArchiveInput, Error> {
    let seen = stat(&file)?;
    Ok(match (seen.kind, is_standard) {
        (FileType::Regular, false) => ArchiveInput::of_file(Arc::new(file), seen.size),
        (FileType::Regular, true) => {
            let offset = position(&file)?;
            seek_to_end(&file)?;
            ArchiveInput::of_standard_input(Arc::new(file), offset, seen.size)
        }
        _ => ArchiveInput::of_stream(Box::new(Plain(Arc::new(file)))),
    })
}

fn name(options: &Options) -> &[u8] {
    match &options.archive {
        ArchivePath::Standard => b"-",
        ArchivePath::File(path) => path.as_bytes(),
    }
}

/// Returns the problem of an archive that cannot be read further.
pub(crate) fn problem(options: &Options, failure: ReadFailure) -> Problem {
    match failure {
        ReadFailure::System(cause) => Problem::new(TarKind::ArchiveRead).naming(name(options)).because(cause),
        ReadFailure::Damaged(cause) => {
            Problem::new(TarKind::Damaged).naming(name(options)).naming(cause.to_string())
        }
        ReadFailure::Unsupported(program) => {
            Problem::new(TarKind::UnknownCompression).naming(program).naming(program)
        }
        ReadFailure::Ended => Problem::new(TarKind::UnexpectedEnd),
    }
}

/// Reads an archive to EOF, past its last member; returns a warning about trailing garbage.
///
/// # Errors
/// When it cannot be read, or compressed data is damaged there.
pub(crate) fn finish(members: &mut Members, options: &Options) -> Result<Option<Problem>, ReadFailure> {
    members.finish()?;
    let warning = || Problem::new(TarKind::TrailingGarbage).naming(name(options)).as_warning();
    Ok(members.input().has_trailing_garbage().then(warning))
}

/// Reads an archive to EOF as [`finish`] does, and reports the result; returns true if it is
/// an error.
pub(crate) fn end(members: &mut Members, options: &Options, report: &dyn Reporter) -> bool {
    let problem = finish(members, options).unwrap_or_else(|failure| Some(problem(options, failure)));
    report_all(&mut problem.into_iter().collect(), report)
}

/// Reports problems; returns true if any of them is an error.
pub(crate) fn report_all(problems: &mut Vec<Problem>, report: &dyn Reporter) -> bool {
    let mut failed = false;
    for problem in problems.drain(..) {
        failed |= problem.severity == haul_flow::Severity::Error;
        report.problem(problem);
    }
    failed
}
