//! Copies through a pipe (`splice(2)`): the pages of one file are handed to another, and the data
//! is copied once instead of twice.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::error::Result;
use crate::gate;
use crate::operation::Operation;

/// An empty pipe for copies.
#[derive(Debug)]
pub struct Pipe {
    exit: OwnedFd,
    entrance: OwnedFd,
    capacity: usize,
}

impl Pipe {
    /// Creates a pipe that holds at least `bytes`.
    ///
    /// # Errors
    /// Any error from `pipe2(2)` or `fcntl(2)`; `EPERM` if the user has too many or too large pipes
    /// (`pipe-user-pages-soft` and `pipe-max-size`, pipe(7)).
    pub fn new(bytes: usize) -> Result<Self> {
        let (exit, entrance) =
            gate::call(Operation::Pipe, || pipe_with(PipeFlags::CLOEXEC), || "O_CLOEXEC".to_owned())?;
        let capacity = gate::call(
            Operation::Fcntl,
            || fcntl_setpipe_size(&entrance, bytes),
            || format!("{}, F_SETPIPE_SZ, {bytes}", entrance.as_raw_fd()),
        )?;
        Ok(Self { exit, entrance, capacity })
    }

    /// Copies up to `length` bytes, at the same `offset` in both files, but no more than the pipe
    /// holds. Returns how many were copied, and the pipe if it is empty again.
    ///
    /// 0 means neither EOF nor an error: the source can't be read this way, or not at all. A plain
    /// read shows which.
    ///
    /// # Errors
    /// Any error from `splice(2)` to the target.
    pub fn copy(
        self,
        source: impl AsFd,
        target: impl AsFd,
        offset: u64,
        length: usize,
    ) -> (Option<Self>, Result<usize>) {
        let (source, target) = (source.as_fd(), target.as_fd());
        let filled = gate::transfer(
            Operation::Splice,
            length.min(self.capacity),
            |length| {
                let mut from = offset;
                splice(source, Some(&mut from), &self.entrance, None, length, SpliceFlags::empty())
            },
            || format!("{}, {offset}, {}", source.as_raw_fd(), self.entrance.as_raw_fd()),
        );
        let filled = filled.unwrap_or(0);
        let mut copied = 0;
        while copied < filled {
            let left = filled - copied;
            let moved = gate::transfer(
                Operation::Splice,
                left,
                |length| {
                    let mut to = offset + copied as u64;
                    splice(&self.exit, None, target, Some(&mut to), length, SpliceFlags::empty())
                },
                || format!("{}, {}, {offset}, {left}", self.exit.as_raw_fd(), target.as_raw_fd()),
            );
            match moved {
                Ok(moved @ 1..) => copied += moved,
                Err(cause) if copied == 0 => return (None, Err(cause)),
                // Full after a part, for example: the next copy, or write, meets the error.
                Ok(_) | Err(_) => return (None, Ok(copied)),
            }
        }
        (Some(self), Ok(copied))
    }
}
