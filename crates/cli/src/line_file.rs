//! A file, pipe or device that gets whole lines during a run: `--events` and `--log-file`.
//!
//! Lines are buffered, and each write has whole lines only, unless one doesn't fit in a pipe. A
//! slow reader slows the run down. One that reads nothing for half a minute is given up: with
//! ranks, a launch process that waits longer would count as dead.
//!
//! After the first error nothing more is written; the run continues, and the error is reported once
//! ([`LineFile::take_failure`]). `SIGPIPE` is ignored, so a pipe without a reader is such an error.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_sys::{Error, Fd, FileType, Identity, Mode, Open, open_path, stat, stat_path, truncate};

/// Maximum bytes to buffer before writing.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum bytes of a write to anything but a regular file (`PIPE_BUF` in pipe(7)).
const PIPE_BYTES: usize = 4096;

/// Maximum time to wait for a reader.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where lines go.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    File(PathBuf),
    /// A descriptor that the parent process has opened, and its number.
    Descriptor(u16, Arc<Fd>),
}

/// Treatment of the lines that a file already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldLines {
    Kept,
    Replaced,
}

pub(crate) struct LineFile {
    fd: Arc<Fd>,
    /// Complete lines that are not written yet.
    buffer: Vec<u8>,
    /// Maximum bytes of a write.
    piece_bytes: usize,
    patience: Duration,
    /// The first error, until it is reported.
    failure: Option<Error>,
    has_failed: bool,
}

impl LineFile {
    /// Opens a destination. `operands` are the paths that the run works on.
    ///
    /// # Errors
    /// A reason for the user. The file is then as it was.
    pub(crate) fn open(
        destination: &Destination,
        old_lines: OldLines,
        operands: &[&CStr],
    ) -> Result<Self, String> {
        let fd = match destination {
            Destination::File(path) => Arc::new(open_file(path, old_lines, operands)?),
            Destination::Descriptor(_, fd) => Arc::clone(fd),
        };
        let is_regular = stat(&*fd).is_ok_and(|stat| stat.kind == FileType::Regular);
        Ok(Self {
            fd,
            buffer: Vec::new(),
            piece_bytes: if is_regular { usize::MAX } else { PIPE_BYTES },
            patience: PATIENCE,
            failure: None,
            has_failed: false,
        })
    }

    /// Returns which file it is, if that can be known.
    pub(crate) fn identity(&self) -> Option<Identity> {
        stat(&*self.fd).ok().map(|stat| stat.identity)
    }

    /// Adds whole lines, unless a write has failed.
    pub(crate) fn add(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_failed {
            add(&mut self.buffer);
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush();
            }
        }
    }

    /// Writes the buffer.
    pub(crate) fn flush(&mut self) {
        let mut rest = self.buffer.as_slice();
        while !self.has_failed && !rest.is_empty() {
            let (piece, after) = rest.split_at(piece(rest, self.piece_bytes));
            if let Err(cause) = haul_sys::write_all_within(&*self.fd, piece, self.patience) {
                self.has_failed = true;
                self.failure = Some(cause);
            }
            rest = after;
        }
        self.buffer.clear();
    }

    /// Returns the error that ended writing, the first time it is called after that.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }
}

/// Returns the length of the whole lines that fit in `bytes_max`, or of a part of a line.
fn piece(lines: &[u8], bytes_max: usize) -> usize {
    if lines.len() <= bytes_max {
        return lines.len();
    }
    lines[..bytes_max].iter().rposition(|byte| *byte == b'\n').map_or(bytes_max, |end| end + 1)
}

fn open_file(path: &Path, old_lines: OldLines, operands: &[&CStr]) -> Result<Fd, String> {
    let reason = |cause: Error| cause.to_string();
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let open = Open::create_through(Mode::READ_WRITE);
    let open = if old_lines == OldLines::Kept { open.appending() } else { open };
    let fd = open_path(&name, open).map_err(reason)?;
    let file = stat(&fd).map_err(reason)?;
    // Before anything is written to it: the file may be a source of the copy.
    let is_operand = |operand: &CStr| {
        stat_path::<&Fd>(None, operand, true).is_ok_and(|there| there.identity == file.identity)
    };
    if file.kind == FileType::Regular && operands.iter().any(|operand| is_operand(operand)) {
        return Err("it is also an operand".to_owned());
    }
    if file.kind == FileType::Regular && old_lines == OldLines::Replaced {
        truncate(&fd, 0).map_err(reason)?;
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use haul_sys::Errno;

    use super::*;

    fn open(path: &Path, old_lines: OldLines, operands: &[&CStr]) -> Result<LineFile, String> {
        LineFile::open(&Destination::File(path.to_owned()), old_lines, operands)
    }

    #[test]
    fn lines_are_kept_or_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        for (old_lines, wanted) in
            [(OldLines::Kept, "x\n"), (OldLines::Kept, "x\nx\n"), (OldLines::Replaced, "x\n")]
        {
            let mut file = open(&path, old_lines, &[]).unwrap();
            file.add(|buffer| buffer.extend(b"x\n"));
            file.flush();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted);
        }
    }

    #[test]
    fn an_operand_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, "data").unwrap();
        let operand = CString::new(path.as_os_str().as_bytes()).unwrap();
        for old_lines in [OldLines::Kept, OldLines::Replaced] {
            assert_eq!(open(&path, old_lines, &[&operand]).err().unwrap(), "it is also an operand");
            assert_eq!(open(directory.path(), old_lines, &[]).err().unwrap(), "Is a directory");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
    }

    #[test]
    fn writes_end_with_lines() {
        assert_eq!(piece(b"ab\ncd\n", 6), 6);
        assert_eq!(piece(b"ab\ncd\n", 5), 3);
        assert_eq!(piece(b"abcdef\n", 5), 5);
    }

    #[test]
    fn a_reader_that_takes_nothing_is_given_up() {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let mut file = open(Path::new(&path), OldLines::Replaced, &[]).unwrap();
        file.patience = Duration::ZERO;
        let mut lines = 0;
        while !file.has_failed {
            file.add(|buffer| buffer.extend(b"12345678901234567890123456789012345\n"));
            file.flush();
            lines += 1;
        }
        assert!(lines > 100, "{lines}");
        assert!(file.take_failure().unwrap().is(Errno::TIMEDOUT));
        drop(reader);
    }

    #[test]
    fn the_first_error_is_returned_once() {
        let mut file = open(Path::new("/dev/full"), OldLines::Replaced, &[]).unwrap();
        for _ in 0..2 {
            file.add(|buffer| buffer.extend(b"x\n"));
            file.flush();
        }
        assert!(file.take_failure().unwrap().is(Errno::NOSPC));
        assert!(file.take_failure().is_none());
    }
}
