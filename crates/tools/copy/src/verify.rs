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
//! If some are, or the kernel doesn't know, the file is read with `O_DIRECT`. Where neither works
//! (tmpfs keeps its only copy in the page cache), the content is compared all the same, and one
//! warning says that it was verified from memory.
//!
//! Files wait for this in batches (`Policy::closed_waiting`), so one flush serves many, and workers
//! that verify run while others copy.
//!
//! Invariant: a piece that differs is written again from the source only if the source still has
//! the content that was copied; otherwise it is unknown which one is right, and it is an error.

use std::ffi::CStr;
use std::fmt;
use std::ops::Range;
#[cfg(feature = "distributed")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haul_digest::{Algorithm, Digest, PIECE_BYTES, PieceValue, Pieces, TreeHash};
#[cfg(feature = "distributed")]
use haul_flow::lock;
use haul_flow::{EntryOutcome, Pool, Problem, Tally};
use haul_sys::{Advice, Buffer, CacheMode, Errno, Error, Fd, Open, Operation, Stat, Times};
use haul_sys::{
    advise, bypass_cache, cached_bytes, change_times, file_system_type, open, read, stat, synchronize,
    use_cache, write_all,
};

#[cfg(feature = "distributed")]
use super::distributed;
use super::entry_copy::EntryCopy;
use super::options::Verify;
use super::ordered_hash::OrderedHash;
use super::{Copier, CopyKind, durable};

/// Maximum number of times a piece is written again before the file is given up.
const REPAIRS_MAX: u32 = 2;

/// Number of targets that are read ahead, per worker.
const LOOK_AHEAD: usize = 16;

/// State of a file's verification.
#[derive(Debug)]
pub(super) struct Verification {
    /// The hash by the piece, if the target is verified or its BLAKE3 hash is wanted.
    hash: Option<TreeHash>,
    /// The hash that needs the bytes in order, if that is wanted.
    stream: Option<OrderedHash>,
    /// Length and hash of the content, once all of it is written.
    digest: OnceLock<(u64, Digest)>,
    /// Set when all of the content is written.
    written: OnceLock<Written>,
    /// Its number among the files that wait for a flush (`durable.rs`).
    number: AtomicU64,
    /// True if the target has left the page cache and is being read from its device.
    is_ahead: AtomicBool,
    /// Set while its ranges are moved, and verified, by several ranks.
    #[cfg(feature = "distributed")]
    ranges: Mutex<Option<distributed::ReceivedRanges>>,
    /// True if all of its ranges are verified.
    has_verified_ranges: AtomicBool,
}

/// A target whose content is written.
#[derive(Debug)]
struct Written {
    pieces: Pieces,
    target: Stat,
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
    /// Hash of the content that was read, which is the content of the copy.
    pub digest: Digest,
}

/// Receives the hash of each regular file that was copied, from any worker and in any order.
#[derive(Clone)]
pub struct DigestSink {
    algorithm: Algorithm,
    receive: Arc<dyn Fn(FileDigest) + Send + Sync>,
}

impl DigestSink {
    /// Creates a sink that calls `receive`, which must not block, with BLAKE3 hashes.
    pub fn new(receive: impl Fn(FileDigest) + Send + Sync + 'static) -> Self {
        Self { algorithm: Algorithm::Blake3, receive: Arc::new(receive) }
    }

    /// The same with hashes of another algorithm. With all but BLAKE3 there must be one block of a
    /// file in flight (`Config::ops`).
    #[cfg(feature = "hashes")]
    #[must_use]
    pub fn with_algorithm(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Passes on the hash of a copy, and its size in bytes.
    pub(super) fn list(&self, copy: EntryCopy<'_>, (size, digest): (u64, Digest)) {
        (self.receive)(FileDigest { path: copy.target_path(), size, digest });
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
        let wanted = copier.listed_hash;
        let by_piece = copier.options.verify != Verify::Never || wanted == Some(Algorithm::Blake3);
        (by_piece || wanted.is_some()).then(|| Self {
            hash: by_piece.then(TreeHash::with_pieces),
            stream: wanted.filter(|wanted| *wanted != Algorithm::Blake3).and_then(OrderedHash::new),
            digest: OnceLock::new(),
            written: OnceLock::new(),
            number: AtomicU64::new(0),
            is_ahead: AtomicBool::new(false),
            #[cfg(feature = "distributed")]
            ranges: Mutex::default(),
            has_verified_ranges: AtomicBool::new(false),
        })
    }

    /// Adds a block of the source.
    pub(super) fn add(&self, offset: u64, bytes: &[u8]) {
        self.hash.iter().for_each(|hash| hash.insert(offset, bytes));
        self.stream.iter().for_each(|hash| hash.add(offset, bytes));
    }

    /// Adds whole pieces from `start` that an earlier run has hashed.
    pub(super) fn insert_pieces(&self, start: u64, values: &[PieceValue]) {
        self.hash.iter().for_each(|hash| hash.insert_pieces(start, values));
    }

    /// Returns the values of the pieces in a range that was moved; nothing if the target isn't
    /// hashed by the piece.
    pub(super) fn pieces_in(&self, range: Range<u64>) -> Vec<PieceValue> {
        self.hash.as_ref().map_or_else(Vec::new, |hash| hash.pieces_in(range))
    }

    /// Forgets the content, which is copied again.
    pub(super) fn begin_again(&self) {
        self.hash.iter().for_each(|hash| drop(hash.take()));
        self.stream.iter().for_each(OrderedHash::begin_again);
        #[cfg(feature = "distributed")]
        drop(lock(&self.ranges).take());
    }

    /// Returns the hash by the piece, if there is one.
    #[cfg(feature = "distributed")]
    pub(super) fn hash(&self) -> Option<&TreeHash> {
        self.hash.as_ref()
    }

    /// Adds results of ranges that other ranks have moved, and verified. Called once before the
    /// first, without any. Returns false if they can't be.
    #[cfg(feature = "distributed")]
    pub(super) fn add_ranges(&self, results: &[Vec<u8>]) -> bool {
        let mut ranges = lock(&self.ranges);
        let ranges = ranges.get_or_insert_default();
        results.iter().filter(|result| !result.is_empty()).all(|result| ranges.add(result))
    }

    /// Like [`Verification::end`], for a file whose ranges were verified where they were written.
    /// Only its length is still to be checked.
    #[cfg(feature = "distributed")]
    fn end_ranges(
        &self,
        copy: EntryCopy<'_>,
        (target, length): (&Stat, u64),
        ranges: &distributed::ReceivedRanges,
    ) -> bool {
        let digest = ranges.digest(length);
        let refused = if target.size != length {
            CopyKind::LengthDiffers
        } else if copy.copier.listed_hash.is_some() && digest.is_none() {
            CopyKind::NotListed
        } else {
            if let Some(digest) = digest {
                self.digest.get_or_init(|| (length, digest));
            }
            self.has_verified_ranges.store(true, Ordering::Relaxed);
            return true;
        };
        copy.cx.problem(Problem::new(refused).naming(copy.target_path()));
        false
    }

    /// Records that all of the content, `length` bytes, is in `target`. Returns false if that
    /// failed and was reported.
    pub(super) fn end(&self, copy: EntryCopy<'_>, target: &Fd, length: u64, source: Option<&Stat>) -> bool {
        let failed = |cause| copy.cx.problem(copy.problem(CopyKind::CannotVerify, cause));
        let Ok(target) = stat(target).map_err(failed) else { return false };
        #[cfg(feature = "distributed")]
        if let Some(ranges) = lock(&self.ranges).take() {
            if source.is_some_and(|source| length > source.size) {
                // It has grown, and the new bytes were not verified.
                copy.cx.problem(Problem::new(CopyKind::SourceChanged).naming(copy.entry.path()));
                return false;
            }
            return self.end_ranges(copy, (&target, length), &ranges);
        }
        let pieces = match self.hash.as_ref().map(|hash| finish_pieces(hash, length)).transpose() {
            Ok(pieces) => pieces.flatten(),
            Err(cause) => {
                failed(cause);
                return false;
            }
        };
        let digest = match &self.stream {
            Some(hash) => hash.finish(length),
            None => pieces.as_ref().map(Pieces::digest),
        };
        // `None` if a block beyond the end was read: the source has shrunk since.
        let (true, Some(digest)) = (pieces.is_some() == self.hash.is_some(), digest) else {
            copy.cx.problem(Problem::new(CopyKind::SourceChanged).naming(copy.entry.path()));
            return false;
        };
        self.digest.get_or_init(|| (length, digest));
        self.number.store(durable::note_written(copy), Ordering::Relaxed);
        if let Some(pieces) = pieces {
            self.written.get_or_init(|| Written { pieces, target, source: source.copied() });
        }
        true
    }

    /// Verifies a target that is closed and has its name. Returns false if it differs or can't be
    /// verified, which was reported.
    pub(super) fn check(&self, copy: EntryCopy<'_>) -> bool {
        if copy.options.verify == Verify::Never {
            return self.digest.get().is_some();
        }
        if self.has_verified_ranges.load(Ordering::Relaxed) {
            copy.count(EntryOutcome::Verified);
            return true;
        }
        let Some(written) = self.written.get() else { return false };
        let outcome = self.flush(copy).and_then(|()| {
            check_target(copy, written, self.is_ahead.load(Ordering::Relaxed))?;
            if copy.options.verify == Verify::Both { check_source(copy, written) } else { Ok(()) }
        });
        match outcome {
            Ok(()) => copy.count(EntryOutcome::Verified),
            Err(problem) => {
                copy.cx.problem(problem);
                return false;
            }
        }
        true
    }

    /// Makes the kernel read targets that will be checked next, from their device. Without this, a
    /// worker would wait for the disk once per file.
    pub(super) fn look_ahead(copy: EntryCopy<'_>) {
        if !copy.options.reads_device_again() {
            return;
        }
        copy.cx.peek_closing(LOOK_AHEAD, |(entry, own)| {
            if let Some(verification) = &own.verification
                && let Some(written) = verification.written.get()
                && !verification.is_ahead.load(Ordering::Relaxed)
            {
                let copy = copy.with(entry);
                let name = own.staged.as_ref().and_then(|staged| staged.temporary_name.as_deref());
                let is_ahead = verification.flush(copy).is_ok()
                    && fetch_again(copy, written, name.unwrap_or(copy.target_name()));
                verification.is_ahead.store(is_ahead, Ordering::Relaxed);
            }
        });
    }

    /// Passes on the hash of a file whose copy is complete.
    pub(super) fn pass_on(&self, copy: EntryCopy<'_>) {
        let Some(digest) = self.digest.get() else { return };
        match &copy.copier.digests {
            Some(sink) => sink.list(copy, *digest),
            #[cfg(feature = "distributed")]
            None if copy.copier.listed_hash.is_some() => distributed::emit_digest(copy, *digest),
            None => {}
        }
    }

    fn flush(&self, copy: EntryCopy<'_>) -> Result<(), Problem> {
        match copy.options.verify {
            Verify::Never | Verify::Stream => Ok(()),
            Verify::Target | Verify::Both => durable::flush_before(copy, self.number.load(Ordering::Relaxed)),
        }
    }
}

/// Drops a flushed target from the page cache and makes the kernel read it again. Returns false if
/// it is not certain that this reads the device; failures show again when it is checked.
fn fetch_again(copy: EntryCopy<'_>, written: &Written, name: &CStr) -> bool {
    let opened = copy.open_directory().and_then(|directory| open(directory, name, Open::READ));
    let Ok(target) = opened else { return false };
    let is_it = stat(&target).is_ok_and(|now| now.identity == written.target.identity);
    // The kernel's own read-ahead continues from there.
    let length = written.pieces.length().min(PIECE_BYTES);
    is_it && drop_pages(&target) && advise(&target, Advice::WillNeed, length).is_ok()
}

/// Reads a target again and compares it. `is_ahead` is true if that reaches its device.
fn check_target(copy: EntryCopy<'_>, written: &Written, is_ahead: bool) -> Result<(), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotVerify, cause);
    let (target, opened) = open_target(copy, written, Open::READ)?;
    if copy.options.verify != Verify::Stream && !is_ahead {
        leave_cache(copy, &target);
    }
    let found = read_pieces(copy, &target, written.pieces.length()).map_err(failed)?;
    if found == written.pieces && opened.size == found.length() {
        return Ok(());
    }
    let refused = |kind| Err(Problem::new(kind).naming(copy.target_path()));
    if stat(&target).map_err(failed)?.modified != written.target.modified {
        // Somebody has written to it, and a repair would destroy their data.
        return refused(CopyKind::ChangedBeforeVerified);
    }
    if opened.size != written.pieces.length() {
        return refused(CopyKind::LengthDiffers);
    }
    for range in written.pieces.mismatches(&found) {
        repair(copy, written, range)?;
    }
    Ok(())
}

/// Opens a target again by its name, and stats it.
fn open_target(copy: EntryCopy<'_>, written: &Written, how: Open) -> Result<(Fd, Stat), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotVerify, cause);
    let directory = copy.open_directory().map_err(failed)?;
    // Data may have been written through a symbolic link. The identity shows if it is the same
    // file.
    let target = open(directory, copy.target_name(), how.following()).map_err(failed)?;
    let now = stat(&target).map_err(failed)?;
    match now.identity == written.target.identity {
        true => Ok((target, now)),
        false => Err(Problem::new(CopyKind::ReplacedBeforeVerified).naming(copy.target_path())),
    }
}

/// Makes sure that reading a flushed file reaches its device. Warns once if it doesn't.
pub(super) fn leave_cache(copy: EntryCopy<'_>, file: &Fd) {
    if drop_pages(file) {
        return;
    }
    // tmpfs and ramfs accept O_DIRECT, and read from memory.
    let is_in_memory = file_system_type(file).is_ok_and(durable::is_in_memory);
    if !is_in_memory && bypass_cache(file).is_ok() {
        if can_be_read(file) {
            return;
        }
        // If this fails, so does reading, which is reported.
        use_cache(file).unwrap_or_default();
    }
    if !copy.copier.verifications.has_warned.swap(true, Ordering::Relaxed) {
        let problem = Problem::new(CopyKind::VerifiedFromMemory).naming(copy.target_path());
        copy.cx.problem(problem.as_warning());
    }
}

/// Drops the pages of a flushed file. True if the kernel says that none is left.
fn drop_pages(file: &Fd) -> bool {
    // The advice is only a hint, so ask the kernel about its effect. The second attempt drops pages
    // that were still being read ahead, or in a per-CPU list, at the first.
    (0..2).any(|_| {
        advise(file, Advice::DontNeed, 0).unwrap_or_default();
        cached_bytes(file).is_ok_and(|bytes| bytes == 0)
    })
}

/// True if a direct file can be read: some file systems accept `O_DIRECT` and refuse the read.
fn can_be_read(direct: &Fd) -> bool {
    let mut buffer = Buffer::new(DIRECT_BYTES);
    read(direct, 0, buffer.bytes_mut(), CacheMode::Keep).is_ok()
}

/// Unit of direct reads, in bytes: a multiple of any sector.
const DIRECT_BYTES: usize = 64 << 10;

/// Reads up to `length` bytes of a file and hashes them by the piece.
fn read_pieces(copy: EntryCopy<'_>, file: &Fd, length: u64) -> Result<Pieces, Error> {
    let new_buffer = || Buffer::new(PIECE_BYTES as usize);
    copy.copier.verifications.buffers.with(new_buffer, |buffer| {
        let (hash, mut offset) = (TreeHash::with_pieces(), 0);
        while offset < length {
            let wanted = (length - offset).min(PIECE_BYTES).next_multiple_of(DIRECT_BYTES as u64);
            let count = read_or_confirm(file, offset, &mut buffer.bytes_mut()[..wanted as usize])?;
            if count == 0 {
                break;
            }
            let count = (count as u64).min(length - offset);
            hash.insert(offset, &buffer.bytes()[..count as usize]);
            offset += count;
        }
        // Nothing beyond `offset` was added, so there are pieces.
        let pieces = finish_pieces(&hash, offset)?;
        pieces.ok_or_else(|| Error::new(Operation::Read, format!("{file:?}"), Errno::IO))
    })
}

/// Returns the pieces of a file; `None` if bytes after its end were added.
fn finish_pieces(hash: &TreeHash, length: u64) -> Result<Option<Pieces>, Error> {
    let no_memory = |_| Error::new(Operation::Read, format!("pieces of {length} bytes"), Errno::NOMEM);
    hash.finish_pieces(length).map_err(no_memory)
}

/// Writes a piece again, from the source, and verifies it.
fn repair(copy: EntryCopy<'_>, written: &Written, range: Range<u64>) -> Result<(), Problem> {
    let bytes = read_source_piece(copy, written, &range)?;
    let (writer, _) = open_target(copy, written, Open::WRITE)?;
    let (reader, _) = open_target(copy, written, Open::READ)?;
    let times = Times { accessed: written.target.accessed, modified: written.target.modified };
    let target = Reopened { writer, reader, times: Some(times) };
    write_again(copy, &target, (&range, &bytes), |found| written.pieces.has(range.start, &found))
}

/// A target that was opened again, to repair it.
pub(super) struct Reopened {
    pub(super) writer: Fd,
    pub(super) reader: Fd,
    /// The times that it keeps; `None` if it has yet to get them.
    pub(super) times: Option<Times>,
}

/// Rewrites a piece until `is_right` accepts the bytes read back, or the attempts are used up.
pub(super) fn write_again(
    copy: EntryCopy<'_>,
    target: &Reopened,
    (range, bytes): (&Range<u64>, &[u8]),
    is_right: impl Fn(Vec<u8>) -> bool,
) -> Result<(), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotVerify, cause);
    let with_range = |kind| problem_in_range(kind, copy.target_path(), range);
    let Reopened { writer, reader, times } = target;
    for _ in 0..REPAIRS_MAX {
        copy.with_room(|| write_piece(target, range, bytes))
            .and_then(|()| times.map_or(Ok(()), |times| change_times(writer, times)))
            .and_then(|()| synchronize(writer))
            .map_err(failed)?;
        if copy.options.verify != Verify::Stream {
            leave_cache(copy, reader);
        }
        if is_right(read_range(reader, range).map_err(failed)?) {
            copy.cx.count(Tally { repaired: 1, ..Tally::default() });
            copy.cx.problem(with_range(CopyKind::Repaired).as_warning());
            return Ok(());
        }
    }
    Err(with_range(CopyKind::Differs))
}

/// Writes the bytes of a piece, but not zeros over zeros: a hole in the target stays one.
fn write_piece(target: &Reopened, range: &Range<u64>, bytes: &[u8]) -> Result<(), Error> {
    const BLOCK_BYTES: usize = 4096;
    let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let found = read_range(&target.reader, range).unwrap_or_default();
    for (block, offset) in bytes.chunks(BLOCK_BYTES).zip((0..).step_by(BLOCK_BYTES)) {
        let is_hole = is_zero(block) && found.get(offset..offset + block.len()).is_some_and(is_zero);
        if !is_hole {
            write_all(&target.writer, range.start + offset as u64, block)?;
        }
    }
    Ok(())
}

pub(super) fn problem_in_range(kind: CopyKind, path: Vec<u8>, range: &Range<u64>) -> Problem {
    Problem::new(kind).naming(path).naming(range.start.to_string()).naming(range.end.to_string())
}

/// Reads a piece of the source again, which must still have the copied content.
fn read_source_piece(copy: EntryCopy<'_>, written: &Written, range: &Range<u64>) -> Result<Vec<u8>, Problem> {
    let differs = || problem_in_range(CopyKind::Differs, copy.target_path(), range);
    // Data that came through a pipe can't be read again.
    let Some(expected) = &written.source else { return Err(differs()) };
    let source = open_source(copy, expected)?;
    let bytes = read_range(&source, range).map_err(|cause| unreadable(copy, cause))?;
    if written.pieces.has(range.start, &bytes) { Ok(bytes) } else { Err(differs()) }
}

pub(super) fn unreadable(copy: EntryCopy<'_>, cause: Error) -> Problem {
    Problem::new(CopyKind::CannotVerifySource).naming(copy.entry.path()).because(cause)
}

pub(super) fn open_source(copy: EntryCopy<'_>, expected: &Stat) -> Result<Fd, Problem> {
    let failed = |cause| unreadable(copy, cause);
    let how = if copy.follows() { Open::READ.following() } else { Open::READ };
    let directory = copy.cx.cache().open(&copy.entry.node.source).map_err(failed)?;
    let source = open(directory, copy.entry.name(), how).map_err(failed)?;
    let now = stat(&source).map_err(failed)?;
    let state = |stat: &Stat| (stat.identity, stat.size, stat.modified);
    match state(&now) == state(expected) {
        true => Ok(source),
        false => Err(Problem::new(CopyKind::SourceChanged).naming(copy.entry.path())),
    }
}

/// `--verify=both`: reads the source again, from its device, and compares.
fn check_source(copy: EntryCopy<'_>, written: &Written) -> Result<(), Problem> {
    let Some(expected) = &written.source else { return Ok(()) };
    let source = open_source(copy, expected)?;
    leave_cache(copy, &source);
    // Files in `/proc` have more than their size.
    let length = expected.size.max(written.pieces.length());
    let found = read_pieces(copy, &source, length).map_err(|cause| unreadable(copy, cause))?;
    match written.pieces.mismatches(&found).next() {
        None => Ok(()),
        Some(range) => Err(problem_in_range(CopyKind::SourceDiffers, copy.entry.path(), &range)),
    }
}

/// Reads at `offset`. EOF before the expected size is trusted only if a second read confirms it.
fn read_or_confirm(file: &Fd, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
    match read(file, offset, bytes, CacheMode::Keep)? {
        0 => read(file, offset, bytes, CacheMode::Keep),
        length => Ok(length),
    }
}

/// Reads a range; less if the file ends before its end.
pub(super) fn read_range(file: &Fd, range: &Range<u64>) -> Result<Vec<u8>, Error> {
    let wanted = (range.end - range.start) as usize;
    let mut buffer = Buffer::new(wanted.max(1).next_multiple_of(DIRECT_BYTES));
    let mut found = Vec::with_capacity(wanted);
    while found.len() < wanted {
        let length = read_or_confirm(file, range.start + found.len() as u64, buffer.bytes_mut())?;
        if length == 0 {
            break;
        }
        found.extend_from_slice(&buffer.bytes()[..length.min(wanted - found.len())]);
    }
    Ok(found)
}
