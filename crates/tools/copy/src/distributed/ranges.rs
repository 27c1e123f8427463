//! Verification of files that ranks split into ranges.
//!
//! ```text
//! member:  range moved ─► flushed, read again by the piece, repaired ─► its subtrees ─┐
//! leader:  merges the message of each range ◄─────────────────────────────────────────┘
//!          all ranges ─► length and hash of the file
//! ```
//!
//! Only the host that wrote a range knows that its data is flushed, and can empty its page cache
//! of it. So each rank verifies its ranges before it reports them.
//!
//! Invariant: ranges begin and end at multiples of a piece, except at the end of the file, so no
//! piece has two writers. A file has a hash only if its ranges add up to its length.

use std::ops::Range;

use haul_cluster::item_of;
use haul_digest::{Algorithm, Digest, PIECE_BYTES, Subtrees, TreeHash};
use haul_flow::{OpenFile, Problem};
use haul_sys::{Errno, Error, Fd, Open, Operation, synchronize};

use crate::entry_copy::EntryCopy;
use crate::options::Verify;
use crate::ticket::Ticket;
use crate::verify::{
    Reopened, leave_cache, open_source, problem_in_range, read_range, unreadable, write_again,
};
use crate::{Copier, CopyKind};

/// The ranges that the leader of a split file has received.
#[derive(Debug, Default)]
pub(crate) struct ReceivedRanges {
    hash: TreeHash,
    /// Length of the ranges, in bytes.
    bytes: u64,
}

impl ReceivedRanges {
    /// Adds what [`finish_range`] returned. Returns false if that can't be part of a file.
    pub(crate) fn add(&mut self, result: &[u8]) -> bool {
        let Ok((bytes, subtrees)) = postcard::from_bytes::<(u64, Subtrees)>(result) else { return false };
        self.bytes += bytes;
        self.hash.merge(subtrees).is_ok()
    }

    /// Returns the hash of a file of `length` bytes; `None` if a range is missing.
    pub(crate) fn digest(&self, length: u64) -> Option<Digest> {
        (self.bytes == length).then(|| self.hash.finish(length)).flatten()
    }
}

/// Verifies a range that this rank has moved. Returns what the leader needs for the file's hash, if
/// that is listed; `None` if the range is wrong, which was reported.
pub(super) fn finish_range(
    copy: EntryCopy<'_>,
    file: &OpenFile<Copier>,
    range: &Range<u64>,
) -> Option<Vec<u8>> {
    let hash = file.own.verification.as_ref().and_then(|verification| verification.hash());
    let Some(hash) = hash else { return Some(Vec::new()) };
    let verified = match copy.options.verify {
        Verify::Never => Ok(()),
        _ => verify(copy, (file, hash), range),
    };
    if let Err(problem) = verified {
        copy.cx.problem(problem);
        return None;
    }
    if copy.copier.listed_hash != Some(Algorithm::Blake3) {
        return Some(Vec::new());
    }
    // Without the values of the pieces, which are as many as the file is long.
    let folded = TreeHash::new();
    let packed = folded.merge(hash.take()).ok().and_then(|()| {
        let result = (range.end - range.start, folded.take());
        postcard::to_allocvec(&result).ok()
    });
    if packed.is_none() {
        copy.cx.problem(Problem::new(CopyKind::NotListed).naming(copy.target_path()));
    }
    packed
}

/// Reads a range of the target again, and repairs it.
fn verify(
    copy: EntryCopy<'_>,
    (file, hash): (&OpenFile<Copier>, &TreeHash),
    range: &Range<u64>,
) -> Result<(), Problem> {
    let failed = |cause| copy.problem(CopyKind::CannotVerify, cause);
    let reader = reopen(copy, Open::READ).map_err(failed)?;
    if copy.options.reads_device_again() {
        let flushed = file.target.as_ref().map_or(Ok(()), |target| synchronize(&**target));
        flushed.map_err(|cause| copy.problem(CopyKind::Syncing, cause))?;
        leave_cache(copy, &reader);
    }
    let mut wrong = Vec::new();
    for piece in pieces(range) {
        let found = read_range(&reader, &piece).map_err(failed)?;
        if !hash.has_piece(piece.start, &padded(found, &piece)) {
            wrong.push(piece);
        }
    }
    if !wrong.is_empty() {
        let target = Reopened { writer: reopen(copy, Open::WRITE).map_err(failed)?, reader, times: None };
        for piece in wrong {
            repair(copy, (file, hash), &target, &piece)?;
        }
    }
    if copy.options.verify == Verify::Both { check_source(copy, (file, hash), range) } else { Ok(()) }
}

/// Opens the target of a range again, which still is the leader's.
fn reopen(copy: EntryCopy<'_>, how: Open) -> Result<Fd, Error> {
    let item = item_of(&*copy.entry.node);
    let piece = item.and_then(|item| item.spec.piece.as_ref());
    let ticket = piece.and_then(|piece| Ticket::unpack(&piece.ticket));
    let no_ticket = || Error::new(Operation::Openat, format!("{:?}", copy.target_name()), Errno::STALE);
    let directory = copy.open_directory()?;
    ticket.ok_or_else(no_ticket)?.open(&directory, how)
}

/// Writes a piece again from the source, if that still is what was copied.
fn repair(
    copy: EntryCopy<'_>,
    (file, hash): (&OpenFile<Copier>, &TreeHash),
    target: &Reopened,
    piece: &Range<u64>,
) -> Result<(), Problem> {
    let source = open_source(copy, &file.stat)?;
    let bytes = read_range(&source, piece).map_err(|cause| unreadable(copy, cause))?;
    if !hash.has_piece(piece.start, &padded(bytes.clone(), piece)) {
        return Err(problem_in_range(CopyKind::Differs, copy.target_path(), piece));
    }
    let is_right = |found: Vec<u8>| hash.has_piece(piece.start, &padded(found, piece));
    write_again(copy, target, (piece, &bytes), is_right)
}

/// `--verify=both`: reads the range of the source again, from its device.
fn check_source(
    copy: EntryCopy<'_>,
    (file, hash): (&OpenFile<Copier>, &TreeHash),
    range: &Range<u64>,
) -> Result<(), Problem> {
    let source = open_source(copy, &file.stat)?;
    leave_cache(copy, &source);
    for piece in pieces(range) {
        let found = read_range(&source, &piece).map_err(|cause| unreadable(copy, cause))?;
        if !hash.has_piece(piece.start, &padded(found, &piece)) {
            return Err(problem_in_range(CopyKind::SourceDiffers, copy.entry.path(), &piece));
        }
    }
    Ok(())
}

fn pieces(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, end) = (range.start, range.end);
    let count = (end - start).div_ceil(PIECE_BYTES);
    (0..count).map(move |index| start + index * PIECE_BYTES..end.min(start + (index + 1) * PIECE_BYTES))
}

/// Zeros at the end of a file need not be written (`--sparse=always`). Until the leader extends the
/// file to its length, which it checks, they can't be read.
fn padded(mut found: Vec<u8>, piece: &Range<u64>) -> Vec<u8> {
    found.resize((piece.end - piece.start) as usize, 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_but_for_the_last() {
        let of = |range: Range<u64>| pieces(&range).collect::<Vec<_>>();
        let piece = PIECE_BYTES;
        assert_eq!(of(piece..2 * piece + 5), [piece..2 * piece, 2 * piece..2 * piece + 5]);
        assert_eq!(of(0..7).first(), Some(&(0..7)));
        assert!(of(piece..piece).is_empty());
    }

    #[test]
    fn a_file_has_a_hash_when_all_of_its_ranges_are_there() {
        let content: Vec<_> = (0..3 * PIECE_BYTES + 77).map(|index| (index * 7 / 5) as u8).collect();
        let cuts = [0, 2 * PIECE_BYTES, 3 * PIECE_BYTES, content.len() as u64];
        let mut received = ReceivedRanges::default();
        for range in [2, 0, 1].map(|index| cuts[index]..cuts[index + 1]) {
            assert_eq!(received.digest(content.len() as u64), None);
            let hash = TreeHash::new();
            hash.insert(range.start, &content[range.start as usize..range.end as usize]);
            let result = postcard::to_allocvec(&(range.end - range.start, hash.take())).unwrap();
            assert!(received.add(&result));
        }
        let whole = TreeHash::new();
        whole.insert(0, &content);
        let digest = received.digest(content.len() as u64);
        assert!(digest.is_some() && digest == whole.finish(content.len() as u64));
        assert!(!received.add(&[1]));
    }
}
