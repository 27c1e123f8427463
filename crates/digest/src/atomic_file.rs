//! A file that appears under its name whole, or not at all.
//!
//! ```text
//! create: .haul-…  ─► write ... ─► fsync ─► close ─► rename to NAME ─► fsync of the directory
//!             └─────────── any failure, or dropped ───────────► removed
//! ```
//!
//! The directory is held open, and the file has a temporary name in it. The name is never followed:
//! a symbolic link that takes its place is replaced. A file of another type that is there at the
//! beginning is refused, because a device or a link must not become a regular file by mistake.
//!
//! A killed process leaves the temporary name. [`AtomicFile::is_leftover`] recognises it.
//!
//! Promises: an existing file under the name stays as it is until the new file is on storage. After
//! [`AtomicFile::commit`] has succeeded, a crash of the host doesn't lose the new one.

use std::ffi::{CStr, CString};
use std::fmt;

use haul_sys::{
    Errno, Error, Fd, FileType, Identity, Mode, Open, Operation, c_string, change_mode, is_left_behind, open,
    open_path, remove, rename, run_of, stat, stat_at, synchronize, temporary_name_of_run, write_all_stream,
};

/// The run in the temporary names of these files, whichever process creates them. It tells them
/// from those of copies, which a later run may need.
const RUN: u64 = u64::from_be_bytes(*b"manifest");

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// A new file that is not under its name yet.
pub struct AtomicFile {
    directory: Fd,
    name: CString,
    temporary: CString,
    identity: Identity,
    replaced: Option<Identity>,
    /// `None` once it is closed.
    file: Option<Fd>,
    buffer: Vec<u8>,
    /// True while the temporary name exists.
    is_there: bool,
}

/// Why a file can't be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// Its name is taken by something other than a regular file.
    NotRegular,
    /// A system call failed.
    Failed(Error),
}

impl From<Error> for CreateError {
    fn from(cause: Error) -> Self {
        Self::Failed(cause)
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular => out.write_str("not a regular file"),
            Self::Failed(cause) => cause.fmt(out),
        }
    }
}

impl std::error::Error for CreateError {}

impl AtomicFile {
    /// Creates the file under a temporary name. `path` is one that the user named. A file that is
    /// replaced passes on its permissions.
    ///
    /// # Errors
    /// If the path is taken by anything but a regular file, or if a call fails.
    pub fn create(path: &CStr) -> Result<Self, CreateError> {
        let bytes = path.to_bytes();
        let start = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (place, name) = bytes.split_at(start);
        if name.is_empty() {
            return Err(Error::new(Operation::Openat, format!("{path:?}"), Errno::ISDIR).into());
        }
        let place = if place.is_empty() { b".".as_slice() } else { place };
        // Not opened for searching only, because it is flushed at the end.
        let directory = open_path(&c_string(place), Open::DIRECTORY.following())?;
        let name = c_string(name);
        let replaced = match stat_at(&directory, &name) {
            Ok(there) if there.kind == FileType::Regular => Some(there),
            Ok(_) => return Err(CreateError::NotRegular),
            Err(cause) if cause.is(Errno::NOENT) => None,
            Err(cause) => return Err(cause.into()),
        };
        let temporary = temporary_name_of_run(RUN);
        // The first failure is reported. Also if the file can't be opened: where a sandbox refuses
        // that (Landlock), the kernel has made it before.
        let discard = |cause: &Error| match cause.is(Errno::EXIST) {
            true => {}
            false => remove(&directory, &temporary).unwrap_or_default(),
        };
        let file = open(&directory, &temporary, Open::create(Mode::READ_WRITE)).inspect_err(discard)?;
        let prepared = stat(&file).and_then(|made| {
            if let Some(replaced) = &replaced {
                change_mode(&file, replaced.mode.and(Mode::ALL))?;
            }
            Ok(made.identity)
        });
        let identity = prepared.inspect_err(discard)?;
        Ok(Self {
            directory,
            name,
            temporary,
            identity,
            replaced: replaced.map(|replaced| replaced.identity),
            file: Some(file),
            buffer: Vec::new(),
            is_there: true,
        })
    }

    /// Returns the directory of the file.
    #[must_use]
    pub fn directory(&self) -> &Fd {
        &self.directory
    }

    /// Returns true for the temporary name of such a file that a killed process has left.
    #[must_use]
    pub fn is_leftover(name: &CStr) -> bool {
        run_of(name) == Some(RUN) && is_left_behind(name)
    }

    /// Returns the new file and the one it will replace, with the names they have now.
    pub fn files(&self) -> impl Iterator<Item = (&CStr, Identity)> {
        let replaced = self.replaced.map(|replaced| (self.name.as_c_str(), replaced));
        std::iter::once((self.temporary.as_c_str(), self.identity)).chain(replaced)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Any error from `write(2)`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if let Some(file) = &self.file {
            write_all_stream(file, &self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Writes the buffered bytes, and gives the file its name.
    ///
    /// # Errors
    /// Any error from a call. The file is removed, unless only the directory could not be flushed.
    pub fn commit(mut self) -> Result<(), Error> {
        self.flush()?;
        if let Some(file) = self.file.take() {
            synchronize(&file)?;
            file.close()?;
        }
        if !self.has_temporary_name() {
            // Somebody who may write to the directory has put another file there.
            let arguments = format!("{:?}, {:?}", self.temporary, self.name);
            return Err(Error::new(Operation::Renameat, arguments, Errno::STALE));
        }
        rename(&self.directory, &self.temporary, &self.name)?;
        self.is_there = false;
        synchronize(&self.directory)
    }

    fn has_temporary_name(&self) -> bool {
        stat_at(&self.directory, &self.temporary).is_ok_and(|there| there.identity == self.identity)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.is_there && self.has_temporary_name() {
            // The failure that led here is reported. A file that can't be removed is recognisable
            // by its temporary name.
            remove(&self.directory, &self.temporary).unwrap_or_default();
        }
    }
}
