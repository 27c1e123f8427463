//! `--verify`: proves that the copy on storage is the content that was read.
//!
//! ```text
//! read ─► hash by the piece ─► write ... close ─► wait ─► flush ─► drop from the page cache
//!                                                                     │ cachestat: is it gone?
//!   repair the piece, up to twice ◄── differs ── compare ◄── read again ◄─┘
//! ```
//!
//! Data that comes from the page cache proves nothing about the disk. So a file is first flushed,
//! its pages are dropped, and the kernel is asked whether any is left (`cachestat(2)`, Linux 6.5).
//! If some are, or the kernel can't tell, the file is read with `O_DIRECT`. Where neither works
//! (tmpfs keeps its only copy in the page cache), the content is compared all the same, and one
//! warning says that it was verified from memory.
//!
//! Files wait for this in batches (`Policy::closed_waiting`), so one flush serves many, and workers
//! that verify run beside workers that copy.
//!
//! Invariant: a piece that differs is written again from the source only if the source still has
//! the content that was copied; otherwise nobody knows which one is right, and it is an error.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haul_digest::{Digest, PIECE_BYTES, Pieces, TreeHash};
use haul_flow::{Pool, Problem, Tally};
use haul_sys::{Advice, Buffer, Cache, Error, Fd, Identity, Open, Stat, Times};
use haul_sys::{advise, cached_pages, change_times, open, read, stat, synchronize, write};

use super::entry_copy::EntryCopy;
use super::options::{Preserve, Verify};
use super::{Copier, CopyKind, durable};

/// How often a piece is written again before the file is given up.
const REPAIRS_MAX: u32 = 2;

/// What is verified of a file.
#[derive(Debug)]
pub(super) struct Verification {
    hash: TreeHash,
    /// Set when all of the content is written.
    written: OnceLock<Written>,
    /// Order among the files that wait for a flush (`durable.rs`).
    number: AtomicU64,
}

/// A target whose content is written.
#[derive(Debug)]
struct Written {
    pieces: Pieces,
    target: Identity,
    /// The source's `stat`, if its content can be read again.
    source: Option<Stat>,
}

/// The hash of a file that was copied.
#[derive(Clone, Debug)]
pub struct FileDigest {
    /// Path of the copy, as in messages.
    pub path: Vec<u8>,
    /// Its length, in bytes.
    pub size: u64,
    /// BLAKE3 of the content that was read, which is the content of the copy.
    pub digest: Digest,
}

/// Receives the hash of each regular file that was copied, from any worker and in any order.
#[derive(Clone)]
pub struct DigestSink(Arc<dyn Fn(FileDigest) + Send + Sync>);

impl DigestSink {
    /// Creates a sink that calls `receive`, which must not block.
    pub fn new(receive: impl Fn(FileDigest) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }
}

impl fmt::Debug for DigestSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DigestSink").finish_non_exhaustive()
    }
}

/// Run-wide state.
#[derive(Debug, Default)]
pub(super) struct Verifications {
    /// True once the user was warned that files are verified from memory.
    has_warned: AtomicBool,
    buffers: Pool<Buffer>,
}

impl Verification {
    /// Begins a file; `None` if its content isn't hashed.
    pub(super) fn begin(copier: &Copier) -> Option<Self> {
        (copier.options.verify != Verify::Never || copier.digests.is_some()).then(|| Self {
            hash: TreeHash::with_pieces(),
            written: OnceLock::new(),
            number: AtomicU64::new(0),
        })
    }

    /// Adds a block of the source.
    pub(super) fn add(&self, offset: u64, bytes: &[u8]) {
        self.hash.insert(offset, bytes);
    }

    /// Forgets the content, which is copied again.
    pub(super) fn begin_again(&self) {
        drop(self.hash.take());
    }

    /// Records that all of the content, `length` bytes, is in `target`. Returns false if that
    /// failed and was reported.
    pub(super) fn end(&self, copy: EntryCopy<'_>, target: &Fd, length: u64, source: Option<&Stat>) -> bool {
        let failed = |cause| copy.cx.problem(copy.problem(CopyKind::CannotVerify, cause));
        let Ok(target) = stat(target).map_err(failed).map(|stat| stat.identity) else { return false };
        // Bytes beyond the end would have been added by a source that has shrunk since.
        let Some(pieces) = self.hash.finish_pieces(length) else {
            copy.cx.problem(Problem::new(CopyKind::SourceChanged).naming(copy.entry.path()));
            return false;
        };
        self.number.store(durable::note_written(copy), Ordering::Relaxed);
        self.written.get_or_init(|| Written { pieces, target, source: source.copied() });
        true
    }

    /// Verifies a target that is closed and has its name. Returns false if it differs or can't be
    /// verified, which was reported.
    pub(super) fn check(&self, copy: EntryCopy<'_>) -> bool {
        let Some(written) = self.written.get() else { return false };
        if copy.options.verify == Verify::Never {
            return true;
        }
        let outcome = self.flush(copy).and_then(|()| {
            check_target(copy, written)?;
            if copy.options.verify == Verify::Both { check_source(copy, written) } else { Ok(()) }
        });
        match outcome {
            Ok(()) => copy.cx.count(Tally { verified: 1, ..Tally::default() }),
            Err(problem) => {
                copy.cx.problem(problem);
                return false;
            }
        }
        true
    }

    /// Passes on the hash of a file whose copy is complete.
    pub(super) fn pass_on(&self, copy: EntryCopy<'_>) {
        if let (Some(DigestSink(receive)), Some(written)) = (&copy.copier.digests, self.written.get()) {
            let (size, digest) = (written.pieces.length(), written.pieces.digest());
            receive(FileDigest { path: copy.target_path(), size, digest });
        }
    }

    fn flush(&self, copy: EntryCopy<'_>) -> Result<(), Problem> {
        match copy.options.verify {
            Verify::Never | Verify::Stream => Ok(()),
            Verify::Target | Verify::Both => durable::flush_before(copy, self.number.load(Ordering::Relaxed)),
        }
    }
}

fn check_target(copy: EntryCopy<'_>, written: &Written) -> Result<(), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotVerify, cause);
    let (mut target, size) = open_target(copy, written, Open::READ)?;
    if size != written.pieces.length() {
        return Err(Problem::new(CopyKind::LengthDiffers).naming(copy.target_path()));
    }
    if copy.options.verify != Verify::Stream && !drop_pages(&target) {
        match open_target(copy, written, Open::READ.direct()) {
            // tmpfs takes O_DIRECT, and reads from memory.
            Ok((direct, _)) if !durable::is_in_memory(copy) && reads(&direct) => target = direct,
            _ => warn_of_memory(copy),
        }
    }
    let found = read_pieces(copy, &target, size).map_err(failed)?;
    if found == written.pieces {
        return Ok(());
    }
    for range in written.pieces.mismatches(&found) {
        repair(copy, written, range.start, range.end)?;
    }
    Ok(())
}

/// Opens a target again by its name. Returns its size too.
fn open_target(copy: EntryCopy<'_>, written: &Written, how: Open) -> Result<(Fd, u64), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotVerify, cause);
    let directory = copy.open_directory().map_err(failed)?;
    // Data may have been written through a symbolic link. The identity tells whether it is the
    // file.
    let target = open(directory, copy.target_name(), how.following()).map_err(failed)?;
    let now = stat(&target).map_err(failed)?;
    if now.identity != written.target {
        return Err(Problem::new(CopyKind::ReplacedBeforeVerified).naming(copy.target_path()));
    }
    Ok((target, now.size))
}

/// Drops the pages of a flushed file. True if the kernel says that none is left.
fn drop_pages(file: &Fd) -> bool {
    // Only a hint, so the kernel is asked. A page that is being read ahead, or is still in a
    // per-processor list, is dropped by the second attempt.
    (0..2).any(|_| {
        advise(file, Advice::DontNeed, 0).unwrap_or_default();
        cached_pages(file).is_ok_and(|pages| pages == 0)
    })
}

/// True if a file opened with `O_DIRECT` can be read: some file systems refuse only that.
fn reads(direct: &Fd) -> bool {
    let mut buffer = Buffer::new(DIRECT_BYTES);
    read(direct, 0, buffer.bytes_mut(), Cache::Keep).is_ok()
}

/// Length of the trial read, in bytes: a multiple of any sector.
const DIRECT_BYTES: usize = 64 << 10;

fn warn_of_memory(copy: EntryCopy<'_>) {
    if !copy.copier.verifications.has_warned.swap(true, Ordering::Relaxed) {
        let problem = Problem::new(CopyKind::VerifiedFromMemory).naming(copy.target_path());
        copy.cx.problem(problem.as_warning());
    }
}

/// Reads the `length` bytes of a file and hashes them by the piece.
fn read_pieces(copy: EntryCopy<'_>, file: &Fd, length: u64) -> Result<Pieces, Error> {
    let buffers = &copy.copier.verifications.buffers;
    let mut buffer = buffers.take().unwrap_or_else(|| Buffer::new(PIECE_BYTES as usize));
    let (hash, mut offset) = (TreeHash::with_pieces(), 0);
    while offset < length {
        // O_DIRECT reads whole sectors.
        let wanted = (length - offset).min(PIECE_BYTES).next_multiple_of(DIRECT_BYTES as u64);
        let count = read(file, offset, &mut buffer.bytes_mut()[..wanted as usize], Cache::Keep)?;
        if count == 0 {
            break;
        }
        let count = (count as u64).min(length - offset);
        hash.insert(offset, &buffer.bytes()[..count as usize]);
        offset += count;
    }
    buffers.give(buffer);
    // Nothing beyond `offset` was added, so there are pieces.
    hash.finish_pieces(offset)
        .ok_or_else(|| Error::new(haul_sys::Operation::Read, format!("{file:?}"), haul_sys::Errno::IO))
}

/// Writes a piece again, from the source, and verifies it.
fn repair(copy: EntryCopy<'_>, written: &Written, start: u64, end: u64) -> Result<(), Problem> {
    let with_range = |kind| {
        Problem::new(kind).naming(copy.target_path()).naming(start.to_string()).naming(end.to_string())
    };
    let bytes = read_source_piece(copy, written, start, end)?;
    let failed = |cause| copy.problem(CopyKind::CannotVerify, cause);
    let (target, _) = open_target(copy, written, Open::WRITE)?;
    for _ in 0..REPAIRS_MAX {
        write_all(&target, start, &bytes).and_then(|()| synchronize(&target)).map_err(failed)?;
        let (reader, _) = open_target(copy, written, Open::READ)?;
        let is_dropped = copy.options.verify == Verify::Stream || drop_pages(&reader);
        let reader = match is_dropped {
            true => reader,
            false => {
                let direct = open_target(copy, written, Open::READ.direct()).map(|(direct, _)| direct);
                direct.ok().filter(reads).unwrap_or(reader)
            }
        };
        let found = read_range(&reader, start, end).map_err(failed)?;
        if written.pieces.has(start, &found) {
            copy.cx.count(Tally { repaired: 1, ..Tally::default() });
            copy.cx.problem(with_range(CopyKind::Repaired).as_warning());
            return restore_times(copy, written, &target).map_err(failed);
        }
    }
    Err(with_range(CopyKind::Differs))
}

/// Reads a piece of the source again, which must still be what was copied.
fn read_source_piece(
    copy: EntryCopy<'_>,
    written: &Written,
    start: u64,
    end: u64,
) -> Result<Vec<u8>, Problem> {
    let differs = || {
        let problem = Problem::new(CopyKind::Differs).naming(copy.target_path());
        problem.naming(start.to_string()).naming(end.to_string())
    };
    // What came through a pipe is gone.
    let Some(expected) = &written.source else { return Err(differs()) };
    let source = open_source(copy, expected)?;
    let unreadable =
        |cause| Problem::new(CopyKind::CannotVerifySource).naming(copy.entry.path()).because(cause);
    let bytes = read_range(&source, start, end).map_err(unreadable)?;
    match written.pieces.has(start, &bytes) {
        true => Ok(bytes),
        false => Err(differs()),
    }
}

fn open_source(copy: EntryCopy<'_>, expected: &Stat) -> Result<Fd, Problem> {
    let unreadable =
        |cause| Problem::new(CopyKind::CannotVerifySource).naming(copy.entry.path()).because(cause);
    let how = if copy.follows() { Open::READ.following() } else { Open::READ };
    let directory = copy.cx.cache().open(&copy.entry.node.source).map_err(unreadable)?;
    let source = open(directory, copy.entry.name(), how).map_err(unreadable)?;
    let now = stat(&source).map_err(unreadable)?;
    let state = |stat: &Stat| (stat.identity, stat.size, stat.modified);
    match state(&now) == state(expected) {
        true => Ok(source),
        false => Err(Problem::new(CopyKind::SourceChanged).naming(copy.entry.path())),
    }
}

/// `--verify=both`: reads the source again, from its device, and compares.
fn check_source(copy: EntryCopy<'_>, written: &Written) -> Result<(), Problem> {
    let Some(expected) = &written.source else { return Ok(()) };
    let unreadable =
        |cause| Problem::new(CopyKind::CannotVerifySource).naming(copy.entry.path()).because(cause);
    let mut source = open_source(copy, expected)?;
    if !drop_pages(&source) {
        let how = if copy.follows() { Open::READ.following() } else { Open::READ };
        let directory = copy.cx.cache().open(&copy.entry.node.source).map_err(unreadable)?;
        if let Some(direct) = open(directory, copy.entry.name(), how.direct()).ok().filter(reads) {
            source = direct;
        }
    }
    let found = read_pieces(copy, &source, expected.size).map_err(unreadable)?;
    match written.pieces.mismatches(&found).next() {
        None => Ok(()),
        Some(range) => {
            let problem = Problem::new(CopyKind::SourceDiffers).naming(copy.entry.path());
            Err(problem.naming(range.start.to_string()).naming(range.end.to_string()))
        }
    }
}

/// Sets the times that a repair has changed.
fn restore_times(copy: EntryCopy<'_>, written: &Written, target: &Fd) -> Result<(), Error> {
    match written.source {
        Some(source) if copy.options.preserves(Preserve::TIMESTAMPS) => {
            change_times(target, Times { accessed: source.accessed, modified: source.modified })
        }
        _ => Ok(()),
    }
}

/// Reads a range; less if the file ends before.
fn read_range(file: &Fd, start: u64, end: u64) -> Result<Vec<u8>, Error> {
    let wanted = end.saturating_sub(start) as usize;
    let mut buffer = Buffer::new(wanted.max(1).next_multiple_of(DIRECT_BYTES));
    let mut found = Vec::with_capacity(wanted);
    while found.len() < wanted {
        let length = read(file, start + found.len() as u64, buffer.bytes_mut(), Cache::Keep)?;
        if length == 0 {
            break;
        }
        found.extend_from_slice(&buffer.bytes()[..length.min(wanted - found.len())]);
    }
    Ok(found)
}

fn write_all(file: &Fd, mut offset: u64, mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        let written = write(file, offset, bytes, Cache::Keep)?;
        if written == 0 {
            let what = "0 bytes written".to_owned();
            return Err(Error::new(haul_sys::Operation::Write, what, haul_sys::Errno::NOSPC));
        }
        (offset, bytes) = (offset + written as u64, &bytes[written..]);
    }
    Ok(())
}
