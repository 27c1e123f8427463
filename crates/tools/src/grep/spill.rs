//! Where results wait that are too many to be kept in memory: a file without a name in the directory for temporary files.
//!
//! If there can be none, or it takes no more, results wait in memory after all: what was found is not lost for that.

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;

use haul_sys::{Cache, Errno, Error, Fd, Mode, Open, Operation, open, open_path, read, remove, write};

/// Bytes of results that wait in memory.
const KEPT_BYTES: usize = 16 << 20;

/// Names that are tried for the file before it loses its name.
const NAMES_TRIED: u32 = 100;

/// Results that wait.
#[derive(Default)]
pub(super) struct Spill {
    /// Bytes that wait in memory.
    kept: usize,
    file: Option<Unnamed>,
    /// There is no file to be had.
    refused: bool,
}

/// A file without a name, to write and to read.
struct Unnamed {
    writes: Fd,
    reads: Fd,
    end: u64,
}

/// Where something waits.
pub(super) enum Waits {
    Here(Vec<u8>),
    There(Range<u64>),
}

impl Spill {
    /// Keeps something.
    pub(super) fn keep(&mut self, bytes: Vec<u8>) -> Waits {
        if self.kept + bytes.len() <= KEPT_BYTES || self.refused {
            self.kept += bytes.len();
            return Waits::Here(bytes);
        }
        match self.put(&bytes) {
            Ok(range) => Waits::There(range),
            Err(_) => {
                self.refused = true;
                self.kept += bytes.len();
                Waits::Here(bytes)
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<Range<u64>, Error> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Unnamed::new()?),
        };
        let begin = file.end;
        let mut written = 0;
        while written < bytes.len() {
            written += write(&file.writes, begin + written as u64, &bytes[written..], Cache::Keep)?;
        }
        file.end += bytes.len() as u64;
        Ok(begin..file.end)
    }

    /// Gives back what was kept.
    ///
    /// # Errors
    /// When it cannot be read again.
    pub(super) fn take(&mut self, waits: Waits) -> Result<Vec<u8>, Error> {
        match (waits, &self.file) {
            (Waits::There(range), Some(file)) => file.get(range),
            (Waits::There(_), None) => Ok(Vec::new()),
            (Waits::Here(bytes), _) => {
                self.kept -= bytes.len();
                Ok(bytes)
            }
        }
    }
}

impl Unnamed {
    fn new() -> Result<Self, Error> {
        // A path of the environment has no NUL in it.
        let folder = CString::new(std::env::temp_dir().into_os_string().into_vec()).unwrap_or_default();
        let folder = open_path(&folder, Open::SEARCH.following())?;
        let mut number = 0;
        loop {
            let name = format!("haul-grep-{}-{number}", std::process::id());
            let name = CString::new(name).unwrap_or_default();
            match open(&folder, &name, Open::create(Mode::new(0o600))) {
                Ok(writes) => {
                    let reads = open(&folder, &name, Open::READ);
                    remove(&folder, &name)?;
                    return Ok(Self { writes, reads: reads?, end: 0 });
                }
                Err(_) if number < NAMES_TRIED => number += 1,
                Err(cause) => return Err(cause),
            }
        }
    }

    fn get(&self, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
        let mut filled = 0;
        while filled < bytes.len() {
            match read(&self.reads, range.start + filled as u64, &mut bytes[filled..], Cache::Keep)? {
                0 => return Err(Error::new(Operation::Read, "it has become shorter".to_owned(), Errno::IO)),
                more => filled += more,
            }
        }
        Ok(bytes)
    }
}
