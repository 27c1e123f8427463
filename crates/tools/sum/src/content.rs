//! Hashes the content of files, in order.
//!
//! A file that was read into memory whole is hashed there. Others of up to [`LARGE_BYTES`] are read
//! by the engine, block by block. Larger ones are hashed in pieces by all workers (`large.rs`), or,
//! if the algorithm needs the bytes in order, here by one.

use std::sync::Mutex;

use haul_digest::{Algorithm, Digest, StreamHash};
use haul_flow::{BLOCK_BYTES, Block, Context, Entry, FlowKind, OpenFile, OpenSource, Problem, Start, Tally};
use haul_flow::{Holes, Transfer, lock};
use haul_sys::{Advice, Buffer, CacheMode, Errno, Error, Fd, Operation};
use haul_sys::{advise_range, read, read_all, read_stream, stat};

use super::large::LargeHash;
use super::task::{FileResult, Task};
use super::{SumKind, Summer};

/// Minimum size of files that are hashed in pieces, in bytes.
pub(super) const LARGE_BYTES: u64 = 4 << 20;

/// Bytes that the kernel is asked to fetch while as many before them are hashed: a multiple of the
/// block size.
const AHEAD_BYTES: u64 = 4 << 20;

/// A file whose blocks are being hashed.
pub struct Hashing {
    task: Task,
    state: Mutex<ContentState>,
}

struct ContentState {
    /// `None` once it is finished, or if a block was missing.
    hash: Option<StreamHash>,
    result: Option<FileResult>,
}

impl Summer {
    /// Hashes a file that was opened, or begins to.
    pub(super) fn begin_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Hashing> {
        if self.leaves_out(cx, entry, opened.stat) {
            return Start::Done;
        }
        let Some(task) = self.task(entry) else { return Start::Done };
        let algorithm = self.learned.first(&task);
        let size = opened.stat.size;
        let is_large = size > LARGE_BYTES || (cx.settings().ops.is_some() && size > BLOCK_BYTES as u64);
        if let Some(first) = opened.first.filter(|first| first.len() as u64 == size) {
            let again = |algorithm: Algorithm| Ok(algorithm.hash(first));
            let result = self.learned.result(&task, Some(size), algorithm.hash(first), again);
            cx.count(Tally { bytes: size, ..Tally::default() });
            self.complete(cx, entry, &task, result);
        } else if size == 0 {
            // Files of procfs and the like have content although their size is 0.
            let result = self.hash_to_end(cx, opened.source, &task);
            self.complete(cx, entry, &task, result);
        } else if is_large && algorithm == Algorithm::Blake3 {
            LargeHash::begin(cx, entry.clone(), opened.source, size, task);
            return Start::Deferred;
        } else if is_large {
            let hash = |algorithm| self.hash_in_order(cx, opened.source, size, algorithm);
            let result = hash(algorithm).and_then(|(digest, size)| {
                self.learned.result(&task, Some(size), digest, |other| hash(other).map(|(digest, _)| digest))
            });
            self.complete(cx, entry, &task, result);
        } else {
            let state = Mutex::new(ContentState { hash: Some(StreamHash::new(algorithm)), result: None });
            let own = Hashing { task, state };
            return Start::Inspect { own, transfer: Transfer::Blocks(Holes::Read) };
        }
        Start::Done
    }

    /// Adds a block. One stream reads the file, so blocks come in order.
    pub(super) fn add_block(file: &OpenFile<Self>, block: Block<'_>) {
        let mut state = lock(&file.own.state);
        if let Some(hash) = &mut state.hash
            && hash.insert(block.offset, block.bytes).is_err()
        {
            state.hash = None;
        }
    }

    /// Makes the result of a file that was read. Returns false if it has no result.
    pub(super) fn finish_blocks(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> bool {
        let (task, length) = (&file.own.task, file.length());
        let hash = lock(&file.own.state).hash.take();
        let Some(digest) = hash.and_then(|hash| hash.finish(length)) else {
            cx.problem(Problem::new(FlowKind::Shorter).naming(file.entry.path()));
            return false;
        };
        let again = |other| self.hash_in_order(cx, &file.source, length, other).map(|(digest, _)| digest);
        match self.learned.result(task, Some(length), digest, again) {
            Ok(result) => lock(&file.own.state).result = Some(result),
            Err(cause) => cx.problem(Self::unread(file.entry.path(), cause)),
        }
        true
    }

    /// Emits the result of a file that was closed.
    pub(super) fn end_blocks(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        own: Hashing,
        was_read: bool,
    ) {
        let result = lock(&own.state).result.take().filter(|_| was_read);
        self.emit_result(cx, entry, result.or(own.task.unreadable()));
    }

    /// Emits the result of a file, or reports why it has no result.
    pub(super) fn complete(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        task: &Task,
        result: Result<FileResult, Error>,
    ) {
        let result = match result {
            Ok(result) => Some(result),
            Err(cause) => {
                cx.problem(Self::unread(self.path(entry), cause));
                task.unreadable()
            }
        };
        self.emit_result(cx, entry, result);
    }

    pub(super) fn emit_result(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        result: Option<FileResult>,
    ) {
        if let Some(result) = result {
            // Plain data always serialises.
            cx.emit(entry, postcard::to_allocvec(&result).unwrap_or_default());
        }
    }

    pub(super) fn unread(path: Vec<u8>, cause: Error) -> Problem {
        Problem::new(SumKind::CannotRead).naming(path).because(cause)
    }

    /// Hashes a file of at least this size from beginning to end. Also returns its length.
    pub(super) fn hash_in_order(
        &self,
        cx: &Context<'_, Self>,
        source: &Fd,
        size: u64,
        algorithm: Algorithm,
    ) -> Result<(Digest, u64), Error> {
        let mut hash = StreamHash::new(algorithm);
        self.buffers.with(new_buffer, |buffer| {
            while hash.position() < size {
                if hash.position().is_multiple_of(AHEAD_BYTES) {
                    // One worker reads and hashes in turn, so the device must not wait for it. Only
                    // advice: failure affects nothing but speed.
                    let next = hash.position() + AHEAD_BYTES;
                    advise_range(source, Advice::WillNeed, next, AHEAD_BYTES).unwrap_or_default();
                }
                let bytes = read_block(source, hash.position()..size, buffer)?;
                hash.append(bytes);
                cx.count(Tally { bytes: bytes.len() as u64, ..Tally::default() });
            }
            let length = read_beyond(cx, source, (size, buffer), |_, bytes| hash.append(bytes))?;
            Ok((hash.value(), length))
        })
    }

    /// Hashes a stream, or a file that reports no size, to its end. A stream can't be read twice,
    /// so all hashes that may be needed are computed at once.
    pub(super) fn hash_to_end(
        &self,
        cx: &Context<'_, Self>,
        source: &Fd,
        task: &Task,
    ) -> Result<FileResult, Error> {
        let first = self.learned.first(task);
        let mut hashes = vec![StreamHash::new(first)];
        if let Task::Check { expected, .. } = task {
            let others = expected.digests().map(|digest| digest.algorithm()).filter(|it| *it != first);
            hashes.extend(others.map(StreamHash::new));
        }
        let size = self.buffers.with(new_buffer, |buffer| {
            let mut size = 0;
            loop {
                let length = read_stream(source, buffer.bytes_mut())?;
                if length == 0 {
                    return Ok(size);
                }
                size += length as u64;
                hashes.iter_mut().for_each(|hash| hash.append(&buffer.bytes()[..length]));
                cx.count(Tally { bytes: length as u64, ..Tally::default() });
            }
        })?;
        let mut digests = hashes.into_iter().map(StreamHash::value);
        let digest = digests.next().unwrap_or_else(|| first.hash(b""));
        let again = |_| Ok(digests.next().unwrap_or(digest));
        self.learned.result(task, Some(size), digest, again)
    }
}

pub(super) fn new_buffer() -> Buffer {
    Buffer::new(BLOCK_BYTES)
}

/// Reads what a file has beyond the size from `fstat`, to EOF: it may have grown since. Returns its
/// length. `take` gets each block and its offset.
pub(super) fn read_beyond(
    cx: &Context<'_, Summer>,
    source: &Fd,
    (size, buffer): (u64, &mut Buffer),
    mut take: impl FnMut(u64, &[u8]),
) -> Result<u64, Error> {
    let mut offset = size;
    loop {
        let length = read(source, offset, buffer.bytes_mut(), CacheMode::Keep)?;
        if length == 0 {
            return Ok(offset);
        }
        take(offset, &buffer.bytes()[..length]);
        offset += length as u64;
        cx.count(Tally { bytes: length as u64, ..Tally::default() });
    }
}

/// Reads the next block of a range.
///
/// # Errors
/// If reading fails, or if the file ends before the range does.
pub(super) fn read_block<'a>(
    source: &Fd,
    range: std::ops::Range<u64>,
    buffer: &'a mut Buffer,
) -> Result<&'a [u8], Error> {
    let left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let length = left.min(buffer.capacity());
    let read = read_all(source, range.start, &mut buffer.bytes_mut()[..length])?;
    if read < length {
        let has_shrunk = stat(source)?.size < range.start + length as u64;
        let why = if has_shrunk { "it has become shorter" } else { "false end of file" };
        return Err(Error::new(Operation::Read, why.to_owned(), Errno::IO));
    }
    Ok(&buffer.bytes()[..length])
}
