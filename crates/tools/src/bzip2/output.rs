//! Where bytes go: a file that is new, with all that the input's owner wants to find there in the end, or a stream, or nowhere.
//!
//! A new file is made private, and is the input's in mode, owner and times only when it is whole. As long as it is not, its name
//! is in the list of what is in the making, so that it can be removed if the program is ended.

use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_sys::{Error, Fd, Mode, Open, Owner, Stat, Times};
use haul_sys::{change_mode, change_owner, change_times, open, remove, write_on};

/// For the owner alone, as long as it is not whole.
const PRIVATE: Mode = Mode::new(0o600);

/// Files that are not whole yet: they are removed if the program is ended meanwhile.
#[derive(Clone, Default)]
pub struct Making(Arc<Mutex<List>>);

/// Names, with the directories they are in.
type List = Vec<(Arc<Fd>, CString)>;

impl Making {
    /// Removes them all, and lets no more be made until the program has ended.
    pub fn abandon(&self) {
        let mut list = self.lock();
        for (directory, name) in list.drain(..) {
            // The program ends: whoever ended it sees what is left.
            remove(&*directory, &name).unwrap_or_default();
        }
        std::mem::forget(list);
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new file.
pub(super) struct NewFile {
    directory: Arc<Fd>,
    name: CString,
    fd: Fd,
    making: Making,
}

impl NewFile {
    /// Makes it.
    pub(super) fn create(directory: Arc<Fd>, name: &CStr, making: &Making) -> Result<Self, Error> {
        let mut list = making.lock();
        let fd = open(&*directory, name, Open::create(PRIVATE))?;
        list.push((Arc::clone(&directory), name.to_owned()));
        drop(list);
        Ok(Self { directory, name: name.to_owned(), fd, making: making.clone() })
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
    pub(super) fn finish(self) -> Result<(), Error> {
        let Self { directory, name, fd, making } = self;
        let closed = fd.close();
        let mut list = making.lock();
        list.retain(|(other, of)| !Arc::ptr_eq(other, &directory) || *of != name);
        closed.inspect_err(|_| remove(&*directory, &name).unwrap_or_default())
    }

    /// Removes it: it will never be whole.
    pub(super) fn abandon(self) -> Result<(), Error> {
        let Self { directory, name, fd, making } = self;
        let mut list = making.lock();
        list.retain(|(other, of)| !Arc::ptr_eq(other, &directory) || *of != name);
        drop(fd);
        remove(&*directory, &name)
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
