//! Direct descriptors: files registered with a ring.
//!
//! For an ordinary descriptor the kernel looks up the process's table on every operation, and takes
//! and drops a reference. A file in the ring's own table is looked up once, when it is installed.
//!
//! A file's index in the table is its descriptor number, so there is no search. But a number
//! doesn't identify a file: once closed, it is reused for another. So each entry identifies its
//! [`Fd`] by the address of its `Arc` allocation, which can't be reused while a [`Weak`] refers to
//! it.
//!
//! Promises:
//! - an operation never reaches the wrong file, even if a file was closed without notifying the
//!   table;
//! - a file closed through its ring leaves the table before the close is made, so that the close is
//!   the last one and its result is real. Files closed elsewhere leave at the next installation or
//!   close. (Before Linux 6.13 the kernel itself may release them late; the result of `close`
//!   doesn't depend on it.)

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};

use io_uring::Submitter;

use crate::error::Result;
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;
use crate::process::descriptor_limit;

use super::setup::errno;

/// Maximum size of the table, in entries (16 bytes each, in the kernel). Files with higher
/// descriptor numbers are not registered.
const FILES_MAX: usize = 4096;

/// Clears a table entry.
const NO_FILE: RawFd = -1;

/// The table of a ring's direct descriptors. Empty if they are not used.
#[derive(Default)]
pub(super) struct FileTable {
    /// The file at each index, which is its descriptor number.
    files: Box<[Weak<Fd>]>,
    /// Indices in use.
    used: Vec<usize>,
}

impl FileTable {
    /// Registers an empty table with the kernel.
    ///
    /// # Errors
    /// Any error from `io_uring_register(2)`: `EINVAL` before Linux 5.19, `EMFILE` if descriptors
    /// are limited.
    pub(super) fn new(submitter: &Submitter<'_>) -> Result<Self> {
        // A table larger than `RLIMIT_NOFILE` is refused with `EMFILE` (io_uring_register(2)).
        let size = FILES_MAX.min(descriptor_limit());
        gate::call(
            Operation::RingRegister,
            || {
                let count = u32::try_from(size).unwrap_or(u32::MAX);
                submitter.register_files_sparse(count).map_err(|error| errno(&error))
            },
            || format!("IORING_REGISTER_FILES2, {size}, SPARSE"),
        )?;
        Ok(Self {
            files: std::iter::repeat_with(Weak::new).take(size).collect(),
            used: Vec::with_capacity(size),
        })
    }

    /// Installs the file in the table, unless it is there already. Returns false if that failed.
    pub(super) fn install(&mut self, file: &Arc<Fd>, submitter: &Submitter<'_>) -> bool {
        let Some(index) = self.index(file) else { return false };
        if std::ptr::eq(self.files[index].as_ptr(), Arc::as_ptr(file)) {
            return true;
        }
        self.purge(submitter);
        let installed = update(submitter, index, file.as_raw_fd()).is_ok();
        // A failed update may have left the previous file there, which must never be taken for
        // this one.
        self.files[index] = if installed { Arc::downgrade(file) } else { Weak::new() };
        if installed && !self.used.contains(&index) {
            self.used.push(index);
        }
        installed
    }

    /// Removes the file from the table, if it is there.
    pub(super) fn release(&mut self, file: &Fd, submitter: &Submitter<'_>) {
        if let Some(index) = self.index(file)
            && let Some(position) = self.used.iter().position(|used| *used == index)
        {
            self.clear(position, submitter);
        }
        self.purge(submitter);
    }

    /// Removes files that were closed without notifying the table.
    fn purge(&mut self, submitter: &Submitter<'_>) {
        // Backwards, because `clear` moves the last element to the gap.
        for position in (0..self.used.len()).rev() {
            if self.files[self.used[position]].strong_count() == 0 {
                self.clear(position, submitter);
            }
        }
    }

    fn clear(&mut self, position: usize, submitter: &Submitter<'_>) {
        let index = self.used.swap_remove(position);
        self.files[index] = Weak::new();
        // This fails only if the ring itself is refused: on a thread that doesn't own it, or by a
        // sandbox. The file then stays open until the ring is gone, but nothing uses it.
        drop(update(submitter, index, NO_FILE));
    }

    fn index(&self, file: &Fd) -> Option<usize> {
        usize::try_from(file.as_raw_fd()).ok().filter(|index| *index < self.files.len())
    }
}

fn update(submitter: &Submitter<'_>, index: usize, file: RawFd) -> Result<()> {
    gate::call(
        Operation::RingRegister,
        || {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            submitter.register_files_update(index, &[file]).map(drop).map_err(|error| errno(&error))
        },
        || format!("IORING_REGISTER_FILES_UPDATE, {index}, {file}"),
    )
}
