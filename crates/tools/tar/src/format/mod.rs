//! The tar format, as far as writing and the index need it.
//!
//! An archive is a sequence of blocks. A member is a header block, possibly after extended headers
//! for values that do not fit in it, and its content, padded to whole blocks. Two blocks of zeros
//! end the archive, and more fill the last record. `header.rs` encodes one block, `member.rs`
//! everything before a member's content, `sparse.rs` hole maps, `filler.rs` filler blocks,
//! `index.rs` the index that may follow.

mod filler;
mod header;
mod index;
mod kind;
mod member;
mod sparse;

pub(crate) use filler::fill;
pub use index::{Indexed, read_index, write_index};
pub(crate) use kind::MemberKind;
pub(crate) use member::{FormatMisfit, HeaderFields, encode};
pub(crate) use sparse::{SparseMap, StoredRun};

pub(crate) const BLOCK_BYTES: u64 = 512;

/// Size of a block in bytes, for slices and arrays.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;

/// Size of a record, in bytes: twenty blocks, the default of all tars.
pub(crate) const RECORD_BYTES: u64 = 20 * BLOCK_BYTES;

/// Returns `bytes` rounded up to whole blocks.
pub(crate) const fn in_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// Returns the length of an archive whose members take `members` bytes: with two blocks of zeros,
/// in whole records.
pub(crate) const fn archive_bytes(members: u64) -> u64 {
    (members + 2 * BLOCK_BYTES).div_ceil(RECORD_BYTES) * RECORD_BYTES
}
