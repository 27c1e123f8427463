//! Inputs: a file read by offset, or a stream.

use std::sync::Arc;

use haul_sys::{CacheMode, Error, Fd, read, read_stream};

pub(super) struct JobInput {
    fd: Arc<Fd>,
    /// Offset of the next read, if it is a file.
    offset: Option<u64>,
    /// Expected size, if it is a file.
    size: u64,
    /// True if the last read returned zero bytes.
    doubted: bool,
    pub(super) ended: bool,
}

impl JobInput {
    /// Reads a regular file from its start. `size` is a hint: the file may change.
    pub(super) fn file(fd: Arc<Fd>, size: u64) -> Self {
        Self { fd, offset: Some(0), size, doubted: false, ended: false }
    }

    /// Reads a stream from its current position.
    pub(super) fn stream(fd: Fd) -> Self {
        Self { fd: Arc::new(fd), offset: None, size: u64::MAX, doubted: false, ended: false }
    }

    /// Appends bytes until there are `wanted`, or EOF.
    pub(super) fn fill(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> Result<(), Error> {
        while !self.ended && bytes.len() < wanted {
            let filled = bytes.len();
            // Small files get small buffers: the expected rest, plus one byte to detect EOF.
            let left = self.size.saturating_sub(self.offset.unwrap_or(0)).saturating_add(1);
            let room = (wanted - filled).min(usize::try_from(left).unwrap_or(usize::MAX));
            bytes.resize(filled + room, 0);
            let outcome = match self.offset {
                Some(offset) => read(&*self.fd, offset, &mut bytes[filled..], CacheMode::Keep),
                None => read_stream(&*self.fd, &mut bytes[filled..]),
            };
            bytes.truncate(filled + *outcome.as_ref().unwrap_or(&0));
            let count = outcome?;
            // EOF before the expected size is trusted only if a second read confirms it.
            let early = self.offset.is_some_and(|offset| offset < self.size);
            self.ended = count == 0 && (self.doubted || !early);
            self.doubted = count == 0;
            self.offset = self.offset.map(|offset| offset + count as u64);
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<(), Error> {
        // If others hold the file, the last of them closes it and checks the result.
        Arc::into_inner(self.fd).map_or(Ok(()), Fd::close)
    }
}
