//! Compares from the device: files are read past the page cache (`O_DIRECT`).
//!
//! Written data is compared as it is stored, not as it is cached. Direct reads begin at
//! multiples of a sector and ask for whole sectors, so the last one reaches beyond the file.

use haul_flow::{BLOCK_BYTES, Context, Entry, OpenSource, Tally};
use haul_sys::{Buffer, CacheMode, Errno, Error, Fd, Operation, bypass_cache, direct_alignment, read};

use super::counterpart::{StatPair, difference};
use super::difference::{Side, What};
use super::findings::EntryResult;
use super::ranges::mismatch;
use super::{CompareKind, Comparer, counterpart::second_path};

/// Length to which reads are rounded up, in bytes. Devices have sectors of this length or shorter.
const SECTOR_BYTES: usize = 4096;

/// Makes reads of a file bypass the page cache.
///
/// # Errors
/// If its file system can't do that.
fn make_direct(file: &Fd) -> Result<(), Error> {
    let is_possible = direct_alignment(file)?
        .is_some_and(|needed| needed.offset <= SECTOR_BYTES && needed.memory <= Buffer::ALIGNMENT);
    if !is_possible {
        return Err(Error::new(Operation::Fcntl, "O_DIRECT".to_owned(), Errno::OPNOTSUPP));
    }
    bypass_cache(file)
}

/// Reads up to `length` bytes at an offset that is a multiple of a sector, stopping early only
/// at EOF.
pub(super) fn read_direct(
    file: &Fd,
    offset: u64,
    buffer: &mut Buffer,
    length: usize,
) -> Result<usize, Error> {
    let whole = length.next_multiple_of(SECTOR_BYTES).min(buffer.capacity());
    let mut done = 0;
    while done < length {
        let more = read(file, offset + done as u64, &mut buffer.bytes_mut()[done..whole], CacheMode::Keep)?;
        done += more;
        // A part of a sector is read only at EOF, and the next offset would not be aligned.
        if more == 0 || !more.is_multiple_of(SECTOR_BYTES) {
            break;
        }
    }
    Ok(done.min(length))
}

impl Comparer {
    /// Makes both files direct. Returns false if that is impossible, which is reported: a
    /// comparison with cached data is not the requested one.
    pub(super) fn bypasses_cache(
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        (first, second): (&Fd, &Fd),
    ) -> bool {
        let outcome = make_direct(first)
            .map_err(|cause| (entry.path(), cause))
            .and_then(|()| make_direct(second).map_err(|cause| (second_path(entry), cause)));
        match outcome {
            Ok(()) => true,
            Err((path, cause)) => {
                Self::trouble(cx, CompareKind::NotDirect, path, cause);
                false
            }
        }
    }

    /// Compares two files of the same size, block by block, in this worker.
    pub(super) fn compare_direct(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        (opened, second): (&OpenSource<'_>, &Fd),
        pair: &StatPair,
    ) {
        let new = || Buffer::new(BLOCK_BYTES);
        let outcome = self.buffers.with(new, |one| {
            self.buffers.with(new, |other| differs_at((opened.source, second), pair.first.size, (one, other)))
        });
        cx.count(Tally { bytes: pair.first.size, ..Tally::default() });
        match outcome {
            Ok(at) => {
                let mut result = EntryResult { differences: Vec::new(), linked: self.linked(entry, pair) };
                result.differences.extend(at.map(|at| difference(entry, What::Content(at))));
                self.complete(cx, entry, pair, (opened.source, second), result);
            }
            Err((side, cause)) => {
                let path = if side == Side::First { entry.path() } else { second_path(entry) };
                Self::trouble(cx, CompareKind::ErrorReading, path, cause);
            }
        }
    }
}

/// Returns the position of the first difference. A file that ends early differs there.
fn differs_at(
    (first, second): (&Fd, &Fd),
    size: u64,
    (one, other): (&mut Buffer, &mut Buffer),
) -> Result<Option<u64>, (Side, Error)> {
    let mut offset = 0;
    while offset < size {
        let length = usize::try_from(size - offset).unwrap_or(usize::MAX).min(one.capacity());
        let ours = read_direct(first, offset, one, length).map_err(|cause| (Side::First, cause))?;
        let theirs = read_direct(second, offset, other, length).map_err(|cause| (Side::Second, cause))?;
        if let Some(at) = mismatch(&one.bytes()[..ours], &other.bytes()[..theirs]) {
            return Ok(Some(offset + at as u64));
        }
        if ours < length {
            break;
        }
        offset += length as u64;
    }
    Ok(None)
}
