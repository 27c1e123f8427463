//! The file that the engines read and write.
//!
//! It has no name: the kernel frees it with its last descriptor, however the process ends, so there
//! is nothing to clean up. Every record starts with a stamp (its number and the generation that
//! wrote it), followed by noise, so that no device can compress or deduplicate it.
//!
//! Promises: the whole file is on disk before anything is measured; a round starts with nothing of
//! it in the page cache, as far as the kernel reveals that; every round of writes is read back.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_sys::{Advice, Errno, Fd, Open};
use rustix::fs::{AtFlags, FsWord, StatxFlags};

use crate::aio::settings::{AioSettings, TransferKind};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::noise::Noise;

const STAMP_BYTES: usize = 16;

/// `f_type` of a tmpfs.
const TMPFS: FsWord = haul_sys::magic::TMPFS as FsWord;

/// Maximum number of attempts to drop the file from memory; pages in use at that moment stay.
const DROPS_MAX: u32 = 20;

/// Certainty that nothing of the file is in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    Surely,
    /// Everything was dropped, but the kernel cannot report what it kept (before Linux 6.5).
    AsFarAsKnown,
}

#[derive(Debug)]
pub(crate) struct TestFile {
    file: File,
    directory: PathBuf,
    settings: AioSettings,
    /// Last writer of the records: 0 for the creation of the file, then the write round.
    generation: u64,
}

impl TestFile {
    /// Creates the file in `directory` and writes all of it to disk.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`], before anything is written, if direct I/O is requested but unavailable.
    pub(crate) fn make(directory: &Path, settings: AioSettings, interrupt: &Interrupt) -> Result<TestFile> {
        let file = tempfile::tempfile_in(directory).map_err(Error::doing("make a file in", directory))?;
        let mut made = TestFile { file, directory: directory.to_owned(), settings, generation: 0 };
        if settings.direct {
            made.check_direct()?;
        }
        made.fill(interrupt).map_err(|cause| match cause {
            Error::Io { source, .. } => made.failed("write", source),
            cause => cause,
        })?;
        Ok(made)
    }

    /// Refuses direct I/O where the file system does not support it, or only seems to (tmpfs).
    fn check_direct(&self) -> Result<()> {
        let name = self.directory.display();
        let kept = rustix::fs::fstatfs(&self.file).map_err(|errno| self.failed("look at", errno.into()))?;
        let refused = |why: String| Error::Refused(format!("{why}; nothing was written"));
        if kept.f_type == TMPFS {
            return Err(refused(format!("{name} is in memory (tmpfs): --direct means nothing there")));
        }
        let look = rustix::fs::statx(&self.file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let look = look.map_err(|errno| self.failed("look at", errno.into()))?;
        let is_reported = look.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        let (least, alignment) = (u64::from(look.stx_dio_offset_align), self.settings.alignment);
        let impossible = || refused(format!("the file system of {name} refuses --direct (O_DIRECT)"));
        if is_reported && least == 0 {
            return Err(impossible());
        }
        if is_reported && least > alignment {
            return Err(refused(format!(
                "--alignment {alignment}: the file system of {name} takes direct I/O in multiples of {least}"
            )));
        }
        match self.open(TransferKind::Read) {
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                Err(impossible())
            }
            opened => opened.map(drop),
        }
    }

    fn fill(&mut self, interrupt: &Interrupt) -> Result<()> {
        // Whole records, in pieces of about a megabyte.
        let record_bytes = self.settings.record_bytes;
        let mut piece = vec![0; record_bytes * (1_usize << 20).div_ceil(record_bytes)];
        let mut written = 0;
        while written < self.settings.records {
            interrupt.check()?;
            let mut filled = 0;
            for (record, bytes) in (written..self.settings.records).zip(piece.chunks_exact_mut(record_bytes))
            {
                Noise::new(self.settings.seed, u64::from(record)).fill(bytes);
                self.stamp(record).put(bytes);
                filled += 1;
            }
            let whole = &piece[..filled as usize * record_bytes];
            self.file.write_all(whole).map_err(|source| self.failed("write", source))?;
            written += filled;
        }
        self.synchronize()
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.file.sync_all().map_err(|source| self.failed("write", source))
    }

    /// Reopens the file in the mode that a kind of transfer needs.
    pub(crate) fn open(&self, transfer: TransferKind) -> Result<Arc<Fd>> {
        let how = match transfer {
            TransferKind::Read => Open::READ,
            TransferKind::Write => Open::WRITE,
            TransferKind::SyncWrite => Open::WRITE.synchronous(),
        };
        let how = if self.settings.direct { how.direct() } else { how };
        let opened = CString::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
            .map_err(io::Error::from)
            // The path in /proc is a symbolic link to a regular file, so opening it cannot block.
            .and_then(|path| {
                haul_sys::open_path(&path, how.following().blocking()).map_err(|error| error.errno().into())
            });
        opened.map(Arc::new).map_err(|source| self.failed("open", source))
    }

    /// Drops the file from the page cache.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if it stays cached: reading it would measure memory.
    pub(crate) fn drop_cache(&self) -> Result<Dropped> {
        let mut left = 0;
        for _ in 0..DROPS_MAX {
            // DONTNEED only drops clean pages.
            self.synchronize()?;
            haul_sys::advise(&self.file, Advice::DontNeed, 0)
                .map_err(|error| self.failed("drop from memory", error.errno().into()))?;
            match haul_sys::cached_bytes(&self.file) {
                Ok(0) => return Ok(Dropped::Surely),
                Ok(bytes) => left = bytes,
                Err(error) if [Errno::NOSYS, Errno::PERM, Errno::OPNOTSUPP].contains(&error.errno()) => {
                    return Ok(Dropped::AsFarAsKnown);
                }
                Err(error) => return Err(self.failed("look for in memory", error.errno().into())),
            }
        }
        Err(Error::Refused(format!(
            "the file in {} stays in memory: {left} bytes of it cannot be dropped from the page cache; choose a \
             directory on a disk",
            self.directory.display()
        )))
    }

    /// Returns the stamp that a record should have now.
    pub(crate) fn stamp(&self, record: u32) -> Stamp {
        Stamp { record, generation: self.generation }
    }

    /// Starts a round of writes: records are now expected to carry its stamps.
    pub(crate) fn begin_generation(&mut self) {
        self.generation += 1;
    }

    /// Reads back all records and checks that they were written in this generation.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut bytes = [0; STAMP_BYTES];
        for record in 0..self.settings.records {
            let read = self.file.read_exact_at(&mut bytes, self.settings.offset(record));
            read.map_err(|source| self.failed("read back", source))?;
            self.stamp(record).check(&bytes)?;
        }
        Ok(())
    }

    /// Makes the error of a failed call on the file.
    pub(crate) fn failed(&self, verb: &str, source: io::Error) -> Error {
        let AioSettings { file_bytes, .. } = self.settings;
        Error::Io {
            doing: format!(
                "{verb} the file of {file_bytes} bytes in {} (it is removed again)",
                self.directory.display()
            ),
            source,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    record: u32,
    generation: u64,
}

impl Stamp {
    fn bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        // Counted from 1, so that a record of zeros is never valid.
        bytes[..8].copy_from_slice(&(u64::from(self.record) + 1).to_le_bytes());
        bytes[8..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// Writes the stamp at the start of a record.
    pub(crate) fn put(self, record: &mut [u8]) {
        record[..STAMP_BYTES].copy_from_slice(&self.bytes());
    }

    /// Fails unless `record`, which may be shorter than a stamp, starts with this stamp.
    pub(crate) fn check(self, record: &[u8]) -> Result<()> {
        let known = record.len().min(STAMP_BYTES);
        if known > 0 && record[..known] == self.bytes()[..known] {
            return Ok(());
        }
        Err(Error::Io {
            doing: format!("find record {} where it was written", self.record),
            source: io::Error::new(io::ErrorKind::InvalidData, "other bytes are there"),
        })
    }
}
