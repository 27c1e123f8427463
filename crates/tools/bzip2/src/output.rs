//! Outputs: a new file, a stream, or nothing.
//!
//! A new file is created private and gets the input's mode, owner and times only when it is
//! complete. Until then it is in a list, so that it can be removed if the program is terminated.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haul_flow::lock;

use haul_sys::{Errno, Error, Fd, Identity, Mode, Open, Owner, Stat, Times};
use haul_sys::{change_mode, change_owner, change_times, open, remove, stat, stat_at, write_all_stream};

/// Mode of an output that is not complete.
const PRIVATE: Mode = Mode::new(0o600);

/// The outputs in progress. Incomplete ones are removed if the program is terminated. Complete ones
/// stay listed until their inputs are dealt with.
#[derive(Clone, Default)]
pub struct Making(Arc<Mutex<List>>);

type List = Vec<Arc<CreatedOutput>>;

struct CreatedOutput {
    directory: Arc<Fd>,
    name: CString,
    file: Identity,
    /// True once all of its content is written.
    is_whole: AtomicBool,
}

impl CreatedOutput {
    /// True if its name still refers to it.
    fn is_there(&self) -> Result<bool, Error> {
        match stat_at(&*self.directory, &self.name) {
            Ok(there) => Ok(there.identity == self.file),
            Err(cause) if cause.is(Errno::NOENT) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// Removes it, unless its name now refers to another file.
    fn remove(&self) -> Result<(), Error> {
        if self.is_there()? { remove(&*self.directory, &self.name) } else { Ok(()) }
    }
}

impl Making {
    /// Removes incomplete outputs and blocks the creation of more until the program exits.
    pub fn abandon(&self) {
        let mut list = lock(&self.0);
        for made in list.drain(..).filter(|made| !made.is_whole.load(Ordering::Relaxed)) {
            // Errors are dropped: the program is exiting, and whoever ended it will see
            // the leftover.
            made.remove().unwrap_or_default();
        }
        // Never unlocked, so that no worker can create another output.
        std::mem::forget(list);
    }

    /// Locks the list, so that no output is created or forgotten until this one is.
    pub(super) fn hold(&self) -> OutputsGuard<'_> {
        OutputsGuard { making: self, list: lock(&self.0) }
    }

    fn forget(&self, made: &Arc<CreatedOutput>) {
        lock(&self.0).retain(|other| !Arc::ptr_eq(other, made));
    }
}

pub(super) struct OutputsGuard<'a> {
    making: &'a Making,
    list: MutexGuard<'a, List>,
}

impl OutputsGuard<'_> {
    /// True if a file is an output of this run whose input still exists.
    pub(super) fn has(&self, file: Identity) -> bool {
        self.list.iter().any(|made| made.file == file)
    }
}

pub(super) struct NewFile {
    made: Arc<CreatedOutput>,
    fd: Fd,
    making: Making,
}

impl NewFile {
    /// Creates the file and lists it.
    pub(super) fn create(mut held: OutputsGuard<'_>, directory: Arc<Fd>, name: &CStr) -> Result<Self, Error> {
        let fd = open(&*directory, name, Open::create(PRIVATE))?;
        let file = match stat(&fd) {
            Ok(stat) => stat.identity,
            Err(cause) => {
                // The list is locked, so this is the file just created.
                remove(&*directory, name).unwrap_or_default();
                return Err(cause);
            }
        };
        let made = Arc::new(CreatedOutput {
            directory,
            name: name.to_owned(),
            file,
            is_whole: AtomicBool::new(false),
        });
        held.list.push(Arc::clone(&made));
        Ok(Self { made, fd, making: held.making.clone() })
    }

    /// Copies the input's mode, owner and times. A failed chown is ignored: only root can give
    /// files away. It comes after chmod because it clears set-ID bits, which must not apply to
    /// another user.
    pub(super) fn keep(&self, stat: &Stat) -> Result<(), Error> {
        change_mode(&self.fd, stat.mode)?;
        let owner = Owner { user: Some(stat.owner), group: Some(stat.group) };
        change_owner(&self.fd, owner).unwrap_or_default();
        change_times(&self.fd, Times { accessed: stat.accessed, modified: stat.modified })
    }

    /// Closes the complete file.
    pub(super) fn finish(self) -> Result<WholeFile, Error> {
        let Self { made, fd, making } = self;
        if let Err(cause) = fd.close() {
            making.forget(&made);
            made.remove().unwrap_or_default();
            return Err(cause);
        }
        // Under the lock, so that a concurrent `abandon` either removes this file and blocks us
        // here, so that the input stays, or sees it complete and leaves it.
        let list = lock(&making.0);
        made.is_whole.store(true, Ordering::Relaxed);
        drop(list);
        Ok(WholeFile { made, making })
    }

    /// Removes a file that will never be complete.
    pub(super) fn abandon(self) -> Result<(), Error> {
        let Self { made, fd, making } = self;
        let outcome = made.remove();
        // Closed only now: while it is open, its inode number can't be reused, so the identity
        // check holds.
        drop(fd);
        making.forget(&made);
        outcome
    }
}

/// A complete output. While this exists, no other job of the run may overwrite the file, because
/// its input may be removed.
pub(super) struct WholeFile {
    made: Arc<CreatedOutput>,
    making: Making,
}

impl WholeFile {
    /// True if its name still refers to it.
    pub(super) fn is_there(&self) -> Result<bool, Error> {
        self.made.is_there()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        self.making.forget(&self.made);
    }
}

pub(super) enum JobOutput {
    /// Output is discarded.
    Nowhere,
    /// Bytes are appended to a stream.
    Stream(Fd),
    File(NewFile),
}

impl JobOutput {
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            JobOutput::Nowhere => Ok(()),
            JobOutput::Stream(fd) | JobOutput::File(NewFile { fd, .. }) => write_all_stream(fd, bytes),
        }
    }
}
