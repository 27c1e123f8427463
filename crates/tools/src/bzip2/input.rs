//! Where bytes come from: a file, by offset, or a stream.

use std::sync::Arc;

use haul_sys::{Cache, Error, Fd, read, read_on};

/// An open input.
pub(super) struct Input {
    fd: Arc<Fd>,
    /// The place of the next byte, if it is a file.
    offset: Option<u64>,
    /// How many bytes there should be, if it is a file.
    size: u64,
    /// Whether the last read has met an end.
    doubted: bool,
    /// Whether the end was met.
    ended: bool,
}

impl Input {
    /// Reads a regular file from its beginning; it should have `size` bytes, and may have others.
    pub(super) fn file(fd: Arc<Fd>, size: u64) -> Self {
        Self { fd, offset: Some(0), size, doubted: false, ended: false }
    }

    /// Reads a stream from where it is.
    pub(super) fn stream(fd: Fd) -> Self {
        Self { fd: Arc::new(fd), offset: None, size: u64::MAX, doubted: false, ended: false }
    }

    /// Tells whether the end was met.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Appends bytes until there are as many as wanted, or the end is met.
    pub(super) fn fill(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> Result<(), Error> {
        while !self.ended && bytes.len() < wanted {
            let filled = bytes.len();
            // Room for what should come, and a byte by which to see that no more does: a small file has a small buffer.
            let left = self.size.saturating_sub(self.offset.unwrap_or(0)).saturating_add(1);
            let room = (wanted - filled).min(usize::try_from(left).unwrap_or(usize::MAX));
            bytes.resize(filled + room, 0);
            let outcome = match self.offset {
                Some(offset) => read(&*self.fd, offset, &mut bytes[filled..], Cache::Keep),
                None => read_on(&*self.fd, &mut bytes[filled..]),
            };
            bytes.truncate(filled + *outcome.as_ref().unwrap_or(&0));
            let count = outcome?;
            // An end before the size of a file is believed when it is said twice.
            let early = self.offset.is_some_and(|offset| offset < self.size);
            self.ended = count == 0 && (self.doubted || !early);
            self.doubted = count == 0;
            self.offset = self.offset.map(|offset| offset + count as u64);
        }
        Ok(())
    }

    /// Closes it.
    pub(super) fn close(self) -> Result<(), Error> {
        // Whoever else holds it closes it and looks at the result.
        Arc::into_inner(self.fd).map_or(Ok(()), Fd::close)
    }
}
