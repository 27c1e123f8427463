//! Direct descriptors: files that the kernel keeps at hand for a ring.
//!
//! Without them the kernel looks every operation's descriptor up in the process's table, and takes and gives back a
//! reference. A file in the ring's own table is looked up once, when it is installed.
//!
//! A file's place in the table is the number of its descriptor, so there is nothing to search. But a number is not a
//! file: it is given to another as soon as it is closed, by whomever. So each place remembers which [`Fd`] it is for, by
//! the address of its shared allocation, which nothing else can have while a [`Weak`] holds on to it.
//!
//! Promises:
//! - an operation never goes to another file than its own, even if a file was closed behind the table's back;
//! - a file that is closed through its ring is out of the table before the close is made, so that the close is the last
//!   one and its result is real. Files closed elsewhere leave with the next installation or close. (Before Linux 6.13
//!   the kernel itself may be late in letting go; what `close` returns does not depend on it.)

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};

use io_uring::Submitter;

use crate::error::Result;
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;
use crate::process::descriptor_limit;

use super::setup::errno;

/// The most places in the table (16 bytes each, in the kernel); files with higher numbers go without.
const PLACES_MAX: usize = 4096;

/// Takes a file out of its place.
const NOBODY: RawFd = -1;

/// Which files a ring has at hand. An empty table is one that nobody asked for.
#[derive(Default)]
pub(super) struct Files {
    /// The file at each place, which is the number of its descriptor.
    places: Box<[Weak<Fd>]>,
    /// The places in use; never more than there are.
    used: Vec<usize>,
}

impl Files {
    /// Asks the kernel for a table.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` before Linux 5.19, `EMFILE` where descriptors are limited.
    pub(super) fn new(submitter: &Submitter<'_>) -> Result<Self> {
        let places = PLACES_MAX.min(descriptor_limit());
        gate::call(
            Operation::RingRegister,
            || {
                let count = u32::try_from(places).unwrap_or(u32::MAX);
                submitter.register_files_sparse(count).map_err(|error| errno(&error))
            },
            || format!("IORING_REGISTER_FILES2, {places}, SPARSE"),
        )?;
        Ok(Self {
            places: std::iter::repeat_with(Weak::new).take(places).collect(),
            used: Vec::with_capacity(places),
        })
    }

    /// Sees to it that the file is in the table, at its descriptor's number; tells whether it is.
    pub(super) fn has(&mut self, file: &Arc<Fd>, submitter: &Submitter<'_>) -> bool {
        let Some(place) = self.place(file) else { return false };
        if std::ptr::eq(self.places[place].as_ptr(), Arc::as_ptr(file)) {
            return true;
        }
        self.purge(submitter);
        let installed = update(submitter, place, file.as_raw_fd()).is_ok();
        // A failed update may have left the file that was there, and it must never be taken for this one.
        self.places[place] = if installed { Arc::downgrade(file) } else { Weak::new() };
        if installed && !self.used.contains(&place) {
            self.used.push(place);
        }
        installed
    }

    /// Takes the file out of the table, if it is there.
    pub(super) fn release(&mut self, file: &Fd, submitter: &Submitter<'_>) {
        if let Some(place) = self.place(file)
            && let Some(position) = self.used.iter().position(|used| *used == place)
        {
            self.clear(position, submitter);
        }
        self.purge(submitter);
    }

    /// Takes out the files that were closed without us.
    fn purge(&mut self, submitter: &Submitter<'_>) {
        for position in (0..self.used.len()).rev() {
            if self.places[self.used[position]].strong_count() == 0 {
                self.clear(position, submitter);
            }
        }
    }

    fn clear(&mut self, position: usize, submitter: &Submitter<'_>) {
        let place = self.used.swap_remove(position);
        self.places[place] = Weak::new();
        // Refused only where the ring itself is: to a thread that does not own it, or by a sandbox. The file then stays
        // open until the ring is gone, but nothing uses it.
        drop(update(submitter, place, NOBODY));
    }

    fn place(&self, file: &Fd) -> Option<usize> {
        usize::try_from(file.as_raw_fd()).ok().filter(|place| *place < self.places.len())
    }
}

fn update(submitter: &Submitter<'_>, place: usize, file: RawFd) -> Result<()> {
    gate::call(
        Operation::RingRegister,
        || {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            submitter.register_files_update(place, &[file]).map(drop).map_err(|error| errno(&error))
        },
        || format!("IORING_REGISTER_FILES_UPDATE, {place}, {file}"),
    )
}
