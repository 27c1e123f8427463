//! Files that are read while a command line is parsed: lists of names, rules, patterns.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_sys::{Errno, leads_to_closed_stream, leads_to_descriptor, read_rest, standard_input};

/// Whether this process reads the files that options name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OptionFiles {
    #[default]
    Read,
    /// Of several ranks with the same command line, each reads regular files, so that all refuse
    /// a bad one. Only the first reads streams: MPICH never gives the others EOF on standard input.
    StreamsLeftToFirstRank,
}

impl OptionFiles {
    /// Reads a file, or standard input if its name is `-`. What is left to the first rank is
    /// empty.
    ///
    /// # Errors
    /// The kernel's, also for a standard input that is closed or can't be read: as an empty list,
    /// it would be silently ignored.
    pub(crate) fn read(self, path: &Path) -> io::Result<Vec<u8>> {
        let is_stream = || is_descriptor(path) || std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        if self == Self::StreamsLeftToFirstRank && is_stream() {
            return Ok(Vec::new());
        }
        if leads_to_closed_stream(path) {
            return Err(Errno::BADF.into());
        }
        if path.as_os_str() != "-" {
            return std::fs::read(path);
        }
        // Not through `io::stdin`, which takes `EBADF` for EOF.
        let text = standard_input().and_then(|input| read_rest(input, usize::MAX));
        text.map_err(|cause| cause.errno().into())
    }
}

/// True if the name `-` or a path leads to standard input, or to another descriptor that only this
/// process has.
pub(crate) fn is_descriptor(path: impl AsRef<OsStr>) -> bool {
    path.as_ref() == "-" || is_descriptor_path(path.as_ref().as_bytes())
}

/// True if a path leads to a descriptor of this process, as `/dev/stdin` and `<(...)` do.
pub(crate) fn is_descriptor_path(path: &[u8]) -> bool {
    leads_to_descriptor(Path::new(OsStr::from_bytes(path)))
}
