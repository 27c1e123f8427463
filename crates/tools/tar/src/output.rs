//! Destination of an archive: a file that was opened empty, written at any offset in any order, or
//! a stream, written in order.
//!
//! One worker writes at a time. With positioned writes several could, but the kernel lets only one
//! write to a file, and the others would wait for it. So while one writes, the others queue their
//! pieces for it and continue.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use haul_cluster::mpi::is_of_process;
use haul_flow::{Problem, lock};
use haul_sys::{
    Fd, FileType, Filter, Identity, Mode, Open, Standard, open_path, standard_stream, stat, truncate,
    write_all, write_all_stream,
};

use super::TarKind;
use super::options::{ArchivePath, Compression, Options};
use super::segment::BufferPool;

/// Maximum bytes queued before workers that bring more block.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Pieces written by each call that takes turns: one more than it brings, so that the
/// queue shrinks.
const WRITES_PER_CALL: usize = 2;

pub(super) struct ArchiveOutput {
    file: Arc<Fd>,
    name: Vec<u8>,
    /// True if every byte can be written at its offset at any time.
    pub(super) is_positioned: bool,
    /// Program of `-I`, which reads the bytes written here.
    filter: Option<Filter>,
    queue: Mutex<WriteQueue>,
    /// Signalled when a worker stops writing.
    free: Condvar,
    failure: OnceLock<Problem>,
    /// Recycled buffers of pieces that were written.
    pub(super) memory: Arc<BufferPool>,
    /// Identity of the archive, if it is a regular file.
    pub(super) identity: Option<Identity>,
}

#[derive(Default)]
struct WriteQueue {
    /// Number of the piece to write next, in a stream.
    next: usize,
    /// Pieces by number, with their offsets.
    queued: BTreeMap<usize, (u64, Vec<u8>)>,
    queued_bytes: usize,
    writing: bool,
}

impl WriteQueue {
    fn add(&mut self, number: usize, offset: u64, bytes: Vec<u8>) {
        self.queued_bytes += bytes.len();
        self.queued.insert(number, (offset, bytes));
    }

    /// Removes and returns a piece that can be written.
    fn take(&mut self, is_positioned: bool) -> Option<(u64, Vec<u8>)> {
        let number = if is_positioned { *self.queued.first_key_value()?.0 } else { self.next };
        let piece = self.queued.remove(&number)?;
        self.queued_bytes -= piece.1.len();
        self.next = number + 1;
        Some(piece)
    }
}

impl ArchiveOutput {
    /// Opens the archive file, emptied, or standard output.
    ///
    /// # Errors
    /// The reason that the archive cannot be written, to be reported.
    pub(super) fn create(options: &Options) -> Result<Self, Problem> {
        let Options { archive, compression, program, .. } = options;
        let (name, opened) = match archive {
            ArchivePath::Standard => (b"-".to_vec(), standard_stream(Standard::Output)),
            ArchivePath::File(path) => {
                let mode = Mode::new(0o666);
                // Through a link if there is one: the user named the archive.
                (path.to_bytes().to_vec(), open_path(path, Open::create_through(mode)))
            }
        };
        let cannot = |cause| Problem::new(TarKind::CannotOpen).naming(name.as_slice()).because(cause);
        let file = opened.map_err(cannot)?;
        let is = stat(&file).map_err(cannot)?;
        let is_file = is.kind == FileType::Regular;
        let is_plain = *compression == Compression::None && program.is_empty();
        let is_positioned = is_file && *archive != ArchivePath::Standard && is_plain;
        // Only if it has content: ext4 flushes a truncated file to disk when it is closed, and the
        // close waits for that.
        if is_file && *archive != ArchivePath::Standard && is.size > 0 {
            truncate(&file, 0).map_err(cannot)?;
        }
        let (file, filter) = match program.first() {
            None => (file, None),
            Some(first) => {
                let started = Filter::writing(program, file, is_of_process).map_err(|cause| {
                    Problem::new(TarKind::CannotStart).naming(first.as_encoded_bytes()).because(cause)
                })?;
                (started.1, Some(started.0))
            }
        };
        Ok(Self {
            file: Arc::new(file),
            filter,
            name,
            is_positioned,
            queue: Mutex::default(),
            free: Condvar::new(),
            failure: OnceLock::new(),
            memory: Arc::default(),
            identity: is_file.then_some(is.identity),
        })
    }

    /// True if writing has failed; then nothing more needs to be made.
    pub(super) fn is_broken(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Records a failure, if it is the first.
    pub(super) fn fail(&self, problem: Problem) {
        self.failure.get_or_init(|| problem);
    }

    /// Writes or queues the `number`-th piece, which goes to `offset` with positioned writes.
    /// Returns the number of pieces that this call wrote: 0 if an earlier piece is missing or
    /// another worker is writing, more than 1 if others were queued.
    pub(super) fn submit(&self, number: usize, offset: u64, bytes: Vec<u8>) -> usize {
        let mut queue = lock(&self.queue);
        queue.add(number, offset, bytes);
        if queue.writing { 0 } else { self.write_some(queue, usize::MAX) }
    }

    /// Writes or queues the `number`-th piece as [`submit`](Self::submit) does, but writes few
    /// others, so that no worker keeps others waiting for what it would do next. Blocks while too
    /// much is queued. The last pieces are written by [`finish`](Self::finish).
    pub(super) fn submit_bounded(&self, number: usize, offset: u64, bytes: Vec<u8>) {
        let mut queue = lock(&self.queue);
        queue.add(number, offset, bytes);
        while queue.writing {
            if queue.queued_bytes <= QUEUED_BYTES_MAX {
                return;
            }
            queue = self.free.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        self.write_some(queue, WRITES_PER_CALL);
    }

    /// Writes up to `most` pieces that are ready, as the only writer. Returns their number.
    fn write_some<'a>(&'a self, mut queue: MutexGuard<'a, WriteQueue>, most: usize) -> usize {
        queue.writing = true;
        let mut written = 0;
        while written < most
            && let Some((offset, bytes)) = queue.take(self.is_positioned)
        {
            // Unlocked, so that others can queue their pieces.
            drop(queue);
            self.write(offset, &bytes);
            self.memory.give(bytes);
            written += 1;
            queue = lock(&self.queue);
        }
        queue.writing = false;
        drop(queue);
        self.free.notify_one();
        written
    }

    /// Writes a piece, unless a write has failed before.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        if self.is_broken() {
            return;
        }
        let outcome = match self.is_positioned {
            true => write_all(&self.file, offset, bytes),
            false => write_all_stream(&*self.file, bytes),
        };
        if let Err(cause) = outcome {
            self.fail(Problem::new(TarKind::CannotWrite).naming(self.name.as_slice()).because(cause));
        }
    }

    /// Ends the archive with its last bytes, which go to `offset` with positioned writes, and
    /// closes it.
    ///
    /// # Errors
    /// The first failure, to be reported.
    pub(super) fn finish(self, offset: u64, bytes: &[u8]) -> Result<(), Problem> {
        self.write_some(lock(&self.queue), usize::MAX);
        self.write(offset, bytes);
        let Self { file, name, failure, filter, .. } = self;
        // Closed first: the program of `-I` waits for the end of its input.
        let closed = Arc::into_inner(file).map_or(Ok(()), Fd::close);
        let ended = filter.map_or(Ok(Ok(())), Filter::finish);
        match (failure.into_inner(), closed.and(ended)) {
            // A program that fails also breaks the pipe; its exit status is more specific than the
            // failed write.
            (_, Ok(Err(status))) => {
                Err(Problem::new(TarKind::ChildFailed).naming(name.as_slice()).naming(status.to_string()))
            }
            (Some(problem), _) => Err(problem),
            (None, Ok(Ok(()))) => Ok(()),
            (None, Err(cause)) => {
                Err(Problem::new(TarKind::CannotClose).naming(name.as_slice()).because(cause))
            }
        }
    }
}
