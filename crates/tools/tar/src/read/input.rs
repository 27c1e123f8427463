//! Source of an archive's bytes: a seekable file, or a stream, possibly a compressed one.
//!
//! Both are read in order, in blocks. Skipped bytes are not read if the file is seekable.
//!
//! ```text
//! block   │ taken: headers, contents │ start .. end: read, not yet taken │ room │
//!              ▲          ▲
//!              chunks: contents that were taken share the block with whoever writes them
//! ```
//!
//! So content is not copied on its way through the program. A block is reused only when no chunk of
//! it is left; the one used last comes first, as it may still be in the CPU cache.
//!
//! The kernel is only asked for long sequential readahead: that is faster than advice by ranges,
//! which fetches single pages (docs/measurements/tools.md).

use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use haul_sys::{Advice, CacheMode, Error, Fd, advise, read, read_stream, seek_to};

use super::header::RawBlock;
use crate::format::{BLOCK, RECORD_BYTES};

pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// Reason that an archive cannot be read further.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    System(Error),
    Damaged(io::Error),
    /// There is no decompressor for the format of this program.
    Unsupported(&'static str),
    /// It ends where it should go on.
    Ended,
}

impl From<Error> for ReadFailure {
    fn from(cause: Error) -> Self {
        Self::System(cause)
    }
}

pub(crate) trait ByteStream: Send {
    /// Reads some more bytes; 0 is EOF.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFailure>;

    /// True if trailing garbage was ignored.
    fn has_trailing_garbage(&self) -> bool {
        false
    }
}

/// A pipe, or anything else that is read from its current position.
pub(crate) struct Plain(pub(crate) Arc<Fd>);

impl ByteStream for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFailure> {
        Ok(read_stream(&*self.0, bytes)?)
    }
}

enum Origin {
    File {
        file: Arc<Fd>,
        size: u64,
        /// True if another program may read on where this one stops.
        is_shared: bool,
    },
    Stream(Box<dyn ByteStream>),
}

/// Bytes of an archive, in a block that others may share.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    block: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

pub(crate) struct ArchiveInput {
    origin: Origin,
    /// Current block; `start..end` was read but not taken yet.
    block: Arc<Vec<u8>>,
    start: usize,
    end: usize,
    /// Offset of `start` in the file or stream.
    position: u64,
    /// Offset of the archive in it.
    archive_at: u64,
    /// Earlier blocks that chunks may share, in the order in which they were read.
    before: Vec<Arc<Vec<u8>>>,
}

impl ArchiveInput {
    /// Reads a file of `size` bytes from its beginning.
    pub(crate) fn of_file(file: Arc<Fd>, size: u64) -> Self {
        // A file that cannot take advice is read all the same.
        // It costs time on some virtual machines, and stays for remote disks
        // (docs/measurements/tools.md, "tar extract").
        advise(&*file, Advice::Sequential, 0).unwrap_or_default();
        Self::new(Origin::File { file, size, is_shared: false })
    }

    /// Reads standard input, a file of `size` bytes, from `offset` on.
    pub(crate) fn of_standard_input(file: Arc<Fd>, offset: u64, size: u64) -> Self {
        let origin = Origin::File { file, size, is_shared: true };
        Self { position: offset, archive_at: offset, ..Self::new(origin) }
    }

    pub(crate) fn of_stream(stream: Box<dyn ByteStream>) -> Self {
        Self::new(Origin::Stream(stream))
    }

    fn new(origin: Origin) -> Self {
        let block = Arc::new(vec![0; BUFFER_BYTES]);
        Self { origin, block, start: 0, end: 0, position: 0, archive_at: 0, before: Vec::new() }
    }

    /// Returns the offset of the next byte in the file or stream.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes of the archive that were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.position - self.archive_at
    }

    /// Returns the file, if it is seekable.
    pub(crate) fn file(&self) -> Option<&Arc<Fd>> {
        match &self.origin {
            Origin::File { file, .. } => Some(file),
            Origin::Stream(_) => None,
        }
    }

    /// Returns the length of the file, if it is seekable.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.origin {
            Origin::File { size, .. } => Some(*size),
            Origin::Stream(_) => None,
        }
    }

    /// Returns the number of bytes read but not taken yet.
    pub(crate) fn ready(&self) -> usize {
        self.end - self.start
    }

    /// Begins another block with the bytes not taken yet, unless this one has room for `length`
    /// bytes and is not shared.
    fn make_room(&mut self, length: usize) {
        let is_free = Arc::get_mut(&mut self.block).is_some();
        if is_free && self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if !is_free || self.start + length > BUFFER_BYTES {
            // The one used last may still be in the CPU cache.
            let free = self.before.iter_mut().rposition(|block| Arc::get_mut(block).is_some());
            let next =
                free.map_or_else(|| Arc::new(vec![0; BUFFER_BYTES]), |index| self.before.remove(index));
            let last = std::mem::replace(&mut self.block, next);
            let rest = &last[self.start..self.end];
            // Nobody shares it, so `make_mut` does not copy.
            Arc::make_mut(&mut self.block)[..rest.len()].copy_from_slice(rest);
            (self.start, self.end) = (0, rest.len());
            self.before.push(last);
        }
    }

    /// Reads until `length` bytes are ready, at most a block, or EOF; returns how many of them are.
    fn expect(&mut self, length: usize) -> Result<usize, ReadFailure> {
        while self.ready() < length {
            self.make_room(length);
            let (at, end) = (self.position + self.ready() as u64, self.end);
            let room = &mut Arc::make_mut(&mut self.block)[end..];
            let count = match &mut self.origin {
                Origin::Stream(stream) => stream.read(room)?,
                Origin::File { file, .. } => read(&**file, at, room, CacheMode::Keep)?,
            };
            match count {
                0 => break,
                _ => self.end += count,
            }
        }
        Ok(self.ready().min(length))
    }

    /// Returns the ready bytes; none at EOF.
    fn filled(&mut self) -> Result<&[u8], ReadFailure> {
        self.expect(1)?;
        Ok(&self.block[self.start..self.end])
    }

    fn advance(&mut self, bytes: usize) {
        self.start += bytes;
        self.position += bytes as u64;
    }

    /// Reads until `bytes` is full or EOF; returns the number of bytes read.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFailure> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &mut bytes[done..];
            // Straight to its destination: the buffer would only add a copy.
            let is_direct = self.ready() == 0 && rest.len() >= BUFFER_BYTES;
            let length = match &mut self.origin {
                Origin::Stream(stream) if is_direct => stream.read(rest)?,
                Origin::File { file, .. } if is_direct => {
                    read(&**file, self.position, rest, CacheMode::Keep)?
                }
                _ => self.some(rest)?,
            };
            if is_direct {
                self.position += length as u64;
            }
            match length {
                0 => break,
                _ => done += length,
            }
        }
        Ok(done)
    }

    /// Reads the next block; also returns how many bytes of it there were.
    pub(crate) fn block(&mut self) -> Result<(RawBlock, usize), ReadFailure> {
        let mut block = [0; BLOCK];
        let length = self.read(&mut block)?;
        Ok((block, length))
    }

    /// Consumes the next `length` bytes, at most a buffer, or as many as there are. The result is
    /// an error if some are missing.
    pub(crate) fn chunk(&mut self, length: usize) -> (Chunk, Result<(), ReadFailure>) {
        let outcome = match self.expect(length.min(BUFFER_BYTES)) {
            Ok(there) if there < length => Err(ReadFailure::Ended),
            Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        };
        let length = self.ready().min(length);
        let range = self.start..self.start + length;
        self.advance(length);
        // A stream may give few bytes at a time, for which no whole block is kept.
        let chunk = match self.end >= BUFFER_BYTES / 2 {
            true => Chunk { block: Arc::clone(&self.block), range },
            false => Chunk { block: Arc::new(self.block[range].to_vec()), range: 0..length },
        };
        (chunk, outcome)
    }

    /// Appends `length` bytes to a buffer; returns true if there were as many.
    pub(crate) fn append(&mut self, length: usize, buffer: &mut Vec<u8>) -> Result<bool, ReadFailure> {
        let start = buffer.len();
        // Grown as the bytes come, because a header may claim more than there are.
        while buffer.len() - start < length {
            let from = buffer.len();
            buffer.resize((from + BUFFER_BYTES).min(start + length), 0);
            let read = self.read(&mut buffer[from..])?;
            if from + read < buffer.len() {
                buffer.truncate(from + read);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Skips bytes; returns true if there were as many.
    pub(crate) fn skip(&mut self, mut bytes: u64) -> Result<bool, ReadFailure> {
        let ready = self.ready().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        self.advance(ready);
        bytes -= ready as u64;
        if let (Origin::File { size, .. }, true) = (&self.origin, bytes > 0) {
            let there = size.saturating_sub(self.position).min(bytes);
            self.position += there;
            return Ok(there == bytes);
        }
        while bytes > 0 {
            let ready = self.filled()?.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            if ready == 0 {
                return Ok(false);
            }
            self.advance(ready);
            bytes -= ready as u64;
        }
        Ok(true)
    }

    /// Reads some bytes; 0 is EOF.
    pub(crate) fn some(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFailure> {
        let ready = self.filled()?;
        let length = ready.len().min(bytes.len());
        bytes[..length].copy_from_slice(&ready[..length]);
        self.advance(length);
        Ok(length)
    }

    /// Reads a stream to EOF: its writer may have more to write, and a checksum comes last. Leaves
    /// a shared file behind the archive's last record, as GNU tar does, which reads whole records.
    pub(crate) fn finish(&mut self) -> Result<(), ReadFailure> {
        match &self.origin {
            Origin::Stream(_) => loop {
                let ready = self.filled()?.len();
                if ready == 0 {
                    return Ok(());
                }
                self.advance(ready);
            },
            Origin::File { file, size, is_shared: true } => {
                let end = self.archive_at + self.taken().next_multiple_of(RECORD_BYTES);
                Ok(seek_to(&**file, end.min(*size))?)
            }
            Origin::File { .. } => Ok(()),
        }
    }

    /// True if trailing garbage after the compressed stream was ignored.
    pub(crate) fn has_trailing_garbage(&self) -> bool {
        matches!(&self.origin, Origin::Stream(stream) if stream.has_trailing_garbage())
    }

    /// Returns the first bytes of the archive without taking them: `length`, less than a block, or
    /// as many as there are.
    pub(crate) fn first(&mut self, length: usize) -> Result<&[u8], ReadFailure> {
        let there = self.expect(length)?;
        Ok(&self.block[..there])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;

    struct Dripping(io::Cursor<Vec<u8>>);

    impl ByteStream for Dripping {
        fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFailure> {
            let few = bytes.len().min(7);
            let length = io::Read::read(&mut self.0, &mut bytes[..few]).unwrap();
            Ok(length)
        }
    }

    fn content(length: u32) -> Vec<u8> {
        (0..length).map(|number| (number % 251) as u8).collect()
    }

    fn of_both(content: &[u8]) -> (tempfile::NamedTempFile, [ArchiveInput; 2]) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
        let fd = Arc::new(haul_sys::open_path(&path, haul_sys::Open::READ).unwrap());
        let of_file = ArchiveInput::of_file(fd, content.len() as u64);
        (file, [of_file, ArchiveInput::of_stream(Box::new(Dripping(io::Cursor::new(content.to_vec()))))])
    }

    #[test]
    fn chunks_keep_their_bytes_and_blocks_are_used_again() {
        let content = content(2_000_000);
        let (_file, inputs) = of_both(&content);
        for mut input in inputs {
            let (mut kept, mut at, mut length) = (std::collections::VecDeque::new(), 0, 1);
            while at < content.len() {
                let (chunk, outcome) = input.chunk(length);
                assert_eq!(outcome.is_ok(), chunk.len() == length);
                assert_eq!(chunk.len(), length.min(content.len() - at));
                at += chunk.len();
                kept.push_back((at, chunk));
                if kept.len() > 5 {
                    kept.pop_front();
                }
                for (end, chunk) in &kept {
                    assert!(chunk[..] == content[end - chunk.len()..*end]);
                }
                length = length * 7 % 65_521;
            }
            assert!(matches!(input.chunk(1).1, Err(ReadFailure::Ended)));
            assert!(input.before.len() <= 6, "{}", input.before.len());
        }
    }

    #[test]
    fn a_file_and_a_stream_are_read_alike() {
        let content = content(600_000);
        let (_file, inputs) = of_both(&content);
        for mut input in inputs {
            assert_eq!(input.first(20).unwrap(), &content[..20]);
            assert_eq!(input.block().unwrap().0[..], content[..512]);
            assert!(input.skip(1000).unwrap());
            let mut buffer = vec![1];
            assert!(input.append(300_000, &mut buffer).unwrap());
            assert_eq!(buffer[1..], content[1512..301_512]);
            assert!(input.skip(100_000).unwrap());
            assert_eq!(input.position(), 401_512);
            assert!(!input.append(300_000, &mut buffer).unwrap());
            assert_eq!(buffer.len(), 1 + 300_000 + 600_000 - 401_512);
            assert!(!input.skip(1).unwrap());
            assert_eq!(input.block().unwrap().1, 0);
        }
    }
}
