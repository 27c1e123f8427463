//! `spdcp -d`: lists the names that a copy would create, in path order, and creates nothing.
//!
//! Operand errors are worded like the copy's. Existing targets are not examined, beyond whether the
//! target is a directory.

use std::ffi::{CString, OsStr};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use haul_copy::CopyKind;
use haul_flow::{FlowKind, Kind, OutputLine, Problem, Reporter};
use haul_sys::{Errno, Error, Operation};

use crate::flags::LoweredCopy;
use crate::report::Console;

haul_flow::kinds! {
    "spdcp"
    /// Kinds of lines that `spdcp` prints.
    enum SpdcpKind {
        /// A target listed by `-d`.
        Target = "{plain}",
    }
}

/// A source and its target.
struct SourceAndTarget {
    source: PathBuf,
    target: PathBuf,
}

/// Lists the names that the requested copy would create.
pub(crate) fn list(request: &LoweredCopy, console: &Console) {
    let names = &request.operands.names;
    let (sources, last) = match names.as_slice() {
        [] => return console.wrong_operands(&Problem::new(CopyKind::MissingOperand)),
        [only] => {
            return console.wrong_operands(&Problem::new(CopyKind::MissingTarget).naming(only.to_bytes()));
        }
        [sources @ .., last] => (sources, last),
    };
    let target = path(last);
    let into = match fs::metadata(target) {
        Ok(found) => found.is_dir(),
        Err(_) => false,
    };
    if !into && sources.len() > 1 {
        let why = fs::metadata(target).map_or_else(|error| errno(&error), |_| Errno::NOTDIR);
        let cause = Error::new(Operation::Statx, String::new(), why);
        return console.problem(Problem::new(CopyKind::Target).naming(last.to_bytes()).because(cause));
    }
    for source in sources {
        let source = path(source);
        let target = if into { below(target, source) } else { target.to_owned() };
        list_operand(
            SourceAndTarget { source: source.to_owned(), target },
            request.options.recursive,
            console,
        );
    }
}

fn path(name: &CString) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// Returns the path of a source's copy in a directory. A source without a name of its own, such as
/// `..`, is copied onto the directory.
fn below(directory: &Path, source: &Path) -> PathBuf {
    source.file_name().map_or_else(|| directory.to_owned(), |name| directory.join(name))
}

fn list_operand(operand: SourceAndTarget, recursive: bool, console: &Console) {
    // Links are followed unless -r is given, like in a copy.
    let look = |path: &Path| if recursive { fs::symlink_metadata(path) } else { fs::metadata(path) };
    let mut waiting = vec![operand];
    while let Some(SourceAndTarget { source, target }) = waiting.pop() {
        let found = match look(&source) {
            Ok(found) => found,
            Err(error) => {
                complain(console, CopyKind::CannotStat, &source, Operation::Statx, &error);
                continue;
            }
        };
        if found.is_dir() && !recursive {
            console.problem(Problem::new(CopyKind::OmittingDirectory).naming(bytes(&source)));
            continue;
        }
        console.line(OutputLine::new(SpdcpKind::Target, vec![bytes(&target)]));
        waiting.extend(entries(&found, &source, &target, console));
    }
}

/// Lists a directory in reverse order, because `waiting` is a stack.
fn entries(found: &Metadata, source: &Path, target: &Path, console: &Console) -> Vec<SourceAndTarget> {
    if !found.is_dir() {
        return Vec::new();
    }
    let names = fs::read_dir(source).and_then(|listing| {
        listing.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
    });
    let mut names = names.unwrap_or_else(|error| {
        complain(console, FlowKind::CannotAccess, source, Operation::Getdents, &error);
        Vec::new()
    });
    names.sort_unstable_by(|one, other| other.cmp(one));
    names
        .iter()
        .map(|name| SourceAndTarget { source: source.join(name), target: target.join(name) })
        .collect()
}

fn complain(console: &Console, kind: impl Into<Kind>, name: &Path, operation: Operation, error: &io::Error) {
    let cause = Error::new(operation, String::new(), errno(error));
    console.problem(Problem::new(kind).naming(bytes(name)).because(cause));
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn bytes(path: &Path) -> Vec<u8> {
    path.to_owned().into_os_string().into_vec()
}
