//! Stores waiting results that don't fit in memory, in an unnamed file in the temporary directory.
//!
//! If that file can't be created or is full, results wait in memory after all, so none is lost.

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;

use haul_sys::{Errno, Error, Fd, Mode, Open, Operation, open, open_path, read_all, remove, write_all};

/// Maximum size of waiting results in memory, in bytes.
const KEPT_BYTES: usize = 16 << 20;

/// Maximum number of names tried for the file before it is unlinked.
const NAMES_TRIED: u32 = 100;

#[derive(Default)]
pub(super) struct Spill {
    kept: usize,
    file: Option<Unnamed>,
    /// True once the file could not be created or written.
    refused: bool,
}

/// An unlinked temporary file.
struct Unnamed {
    writes: Fd,
    reads: Fd,
    end: u64,
}

/// Where a waiting result is stored.
pub(super) enum WaitingResult {
    Here(Vec<u8>),
    There(Range<u64>),
}

impl Spill {
    pub(super) fn keep(&mut self, bytes: Vec<u8>) -> WaitingResult {
        if self.kept + bytes.len() <= KEPT_BYTES || self.refused {
            self.kept += bytes.len();
            return WaitingResult::Here(bytes);
        }
        match self.put(&bytes) {
            Ok(range) => WaitingResult::There(range),
            Err(_) => {
                self.refused = true;
                self.kept += bytes.len();
                WaitingResult::Here(bytes)
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<Range<u64>, Error> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Unnamed::new()?),
        };
        let begin = file.end;
        write_all(&file.writes, begin, bytes)?;
        file.end += bytes.len() as u64;
        Ok(begin..file.end)
    }

    /// Retrieves stored bytes.
    ///
    /// # Errors
    /// If the file can't be read.
    pub(super) fn take(&mut self, waits: WaitingResult) -> Result<Vec<u8>, Error> {
        match (waits, &self.file) {
            (WaitingResult::There(range), Some(file)) => file.get(range),
            (WaitingResult::There(_), None) => Ok(Vec::new()),
            (WaitingResult::Here(bytes), _) => {
                self.kept -= bytes.len();
                Ok(bytes)
            }
        }
    }
}

impl Unnamed {
    fn new() -> Result<Self, Error> {
        // Environment variables can't contain NUL.
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
        if read_all(&self.reads, range.start, &mut bytes)? < bytes.len() {
            return Err(Error::new(Operation::Read, "it has become shorter".to_owned(), Errno::IO));
        }
        Ok(bytes)
    }
}
