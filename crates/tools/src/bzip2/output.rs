//! Where bytes go: a file that is new, with all that the input's owner wants to find there in the end, or a stream, or nowhere.
//!
//! A new file is made private, and is the input's in mode, owner and times only when it is whole. As long as it is not, its name
//! is in the list of what is in the making, so that it can be removed if the program is ended.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_sys::{Errno, Error, Fd, Identity, Mode, Open, Owner, Stat, Times};
use haul_sys::{change_mode, change_owner, change_times, open, remove, stat, stat_at, write_on};

/// For the owner alone, as long as it is not whole.
const PRIVATE: Mode = Mode::new(0o600);

/// Outputs that are not whole yet, which are removed if the program is ended meanwhile; and such that are, and whose inputs are not
/// dealt with yet.
#[derive(Clone, Default)]
pub struct Making(Arc<Mutex<List>>);

type List = Vec<Arc<Made>>;

/// A file that was made.
struct Made {
    directory: Arc<Fd>,
    name: CString,
    file: Identity,
    /// Whether all is in it.
    is_whole: AtomicBool,
}

impl Made {
    /// Tells whether its name still leads to it.
    fn is_there(&self) -> Result<bool, Error> {
        match stat_at(&*self.directory, &self.name) {
            Ok(there) => Ok(there.identity == self.file),
            Err(cause) if cause.is(Errno::NOENT) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// Removes it, and nothing else that may have its name.
    fn remove(&self) -> Result<(), Error> {
        if self.is_there()? { remove(&*self.directory, &self.name) } else { Ok(()) }
    }
}

impl Making {
    /// Removes those that are not whole, and lets no more be made until the program has ended.
    pub fn abandon(&self) {
        let mut list = self.lock();
        for made in list.drain(..).filter(|made| !made.is_whole.load(Ordering::Relaxed)) {
            // The program ends: whoever ended it sees what is left.
            made.remove().unwrap_or_default();
        }
        std::mem::forget(list);
    }

    /// Holds the list: nothing else is made, and nothing of it goes, until a file is made with it.
    pub(super) fn hold(&self) -> Held<'_> {
        Held { making: self, list: self.lock() }
    }

    /// Takes a file out of the list.
    fn forget(&self, made: &Arc<Made>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, made));
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The list of what is in the making, held.
pub(super) struct Held<'a> {
    making: &'a Making,
    list: MutexGuard<'a, List>,
}

impl Held<'_> {
    /// Tells whether a file is an output of this run whose input is still there.
    pub(super) fn has(&self, file: Identity) -> bool {
        self.list.iter().any(|made| made.file == file)
    }
}

/// A new file.
pub(super) struct NewFile {
    made: Arc<Made>,
    fd: Fd,
    making: Making,
}

impl NewFile {
    /// Makes it.
    pub(super) fn create(mut held: Held<'_>, directory: Arc<Fd>, name: &CStr) -> Result<Self, Error> {
        let fd = open(&*directory, name, Open::create(PRIVATE))?;
        let file = match stat(&fd) {
            Ok(stat) => stat.identity,
            Err(cause) => {
                // The list is held: it is the one that was made just now.
                remove(&*directory, name).unwrap_or_default();
                return Err(cause);
            }
        };
        let made =
            Arc::new(Made { directory, name: name.to_owned(), file, is_whole: AtomicBool::new(false) });
        held.list.push(Arc::clone(&made));
        Ok(Self { made, fd, making: held.making.clone() })
    }

    /// Gives it the attributes of its input. Only the superuser can give files away, and nobody expects others to: what
    /// becomes of the owner is not an error, and comes last, because it takes set-id bits away that would mean somebody else.
    pub(super) fn keep(&self, stat: &Stat) -> Result<(), Error> {
        change_mode(&self.fd, stat.mode)?;
        let owner = Owner { user: Some(stat.owner), group: Some(stat.group) };
        change_owner(&self.fd, owner).unwrap_or_default();
        change_times(&self.fd, Times { accessed: stat.accessed, modified: stat.modified })
    }

    /// Closes it: it is whole.
    pub(super) fn finish(self) -> Result<WholeFile, Error> {
        let Self { made, fd, making } = self;
        if let Err(cause) = fd.close() {
            making.forget(&made);
            made.remove().unwrap_or_default();
            return Err(cause);
        }
        // The list is held, so that whoever ends the program meanwhile either removes this, and no input goes, or lets it be.
        let list = making.lock();
        made.is_whole.store(true, Ordering::Relaxed);
        drop(list);
        Ok(WholeFile { made, making })
    }

    /// Removes it: it will never be whole.
    pub(super) fn abandon(self) -> Result<(), Error> {
        let Self { made, fd, making } = self;
        let outcome = made.remove();
        // Not before: as long as it is open, no other file is it.
        drop(fd);
        making.forget(&made);
        outcome
    }
}

/// A file that is whole. No other output of the run takes its place as long as this is there: its input may go meanwhile.
pub(super) struct WholeFile {
    made: Arc<Made>,
    making: Making,
}

impl WholeFile {
    /// Tells whether its name still leads to it.
    pub(super) fn is_there(&self) -> Result<bool, Error> {
        self.made.is_there()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        self.making.forget(&self.made);
    }
}

/// An open output.
pub(super) enum Output {
    /// Nothing is kept.
    Nowhere,
    /// What comes is written on.
    Stream(Fd),
    /// A new file.
    File(NewFile),
}

impl Output {
    /// Writes some more bytes.
    pub(super) fn write(&self, mut bytes: &[u8]) -> Result<(), Error> {
        let fd = match self {
            Output::Nowhere => return Ok(()),
            Output::Stream(fd) | Output::File(NewFile { fd, .. }) => fd,
        };
        while !bytes.is_empty() {
            bytes = &bytes[write_on(fd, bytes)?..];
        }
        Ok(())
    }
}
