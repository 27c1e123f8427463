//! Filler blocks: they replace a member that could not be read after its offset was fixed.
//!
//! They are global extended headers with a comment, which every POSIX.1-2001 reader skips. Each is
//! short, so that no reader needs much memory for it.

use super::BLOCK;
use super::header::{Field, HeaderBlock, Magic};

/// Maximum blocks of one header and its comment.
const BLOCKS_MAX: usize = 128;

/// Overwrites whole blocks with filler.
pub(crate) fn fill(blocks: &mut [u8]) {
    for part in blocks.chunks_mut(BLOCKS_MAX * BLOCK) {
        let bytes = part.len() - BLOCK;
        let mut header = Vec::with_capacity(BLOCK);
        let mut block = HeaderBlock::new(b'g', Magic::Posix);
        block.name(b"nothing");
        block.number(&Field::MODE, 0o644);
        block.number(&Field::SIZE, bytes as u64);
        block.finish(&mut header);
        part[..BLOCK].copy_from_slice(&header);
        if bytes > 0 {
            let comment = &mut part[BLOCK..];
            comment.fill(b' ');
            let begin = format!("{bytes} comment=");
            comment[..begin.len()].copy_from_slice(begin.as_bytes());
            comment[bytes - 1] = b'\n';
        }
    }
}
