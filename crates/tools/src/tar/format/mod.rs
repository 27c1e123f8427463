//! The format of archives, as far as writing and the index need it.
//!
//! An archive is a row of blocks. Each member is a header block, perhaps after extended headers that say what does not fit
//! in it, and its content, filled up to whole blocks. Two blocks of zeros end it, and more fill the last record. `header.rs`
//! writes one block, `member.rs` everything that stands before a member's content, `sparse.rs` the map of one with holes,
//! `access.rs` access lists as text, `filler.rs` blocks that say nothing,
//! `index.rs` what may follow the archive.

mod access;
mod filler;
mod header;
mod index;
mod member;
mod sparse;

pub use access::access_text;
pub use filler::fill;
pub use index::{Indexed, read_index, write_index};
pub(crate) use member::device;
pub use member::{Kind, Member, Unfit, encode};
pub use sparse::{SparseMap, Stored};

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 512;

/// Bytes of a record: twenty blocks, as all tars have it unless told otherwise.
pub const RECORD_BYTES: u64 = 20 * BLOCK_BYTES;

/// Returns how many bytes whole blocks take that hold so many.
#[must_use]
pub const fn in_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// Returns how long an archive is whose members take so many bytes: with two blocks of zeros, in whole records.
#[must_use]
pub const fn archive_bytes(members: u64) -> u64 {
    (members + 2 * BLOCK_BYTES).div_ceil(RECORD_BYTES) * RECORD_BYTES
}
