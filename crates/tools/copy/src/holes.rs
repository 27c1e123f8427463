//! Finds runs of zeros to leave out as holes (`--sparse=always`).

use std::ops::Range;

/// Granularity of holes, in bytes: the block size of most file systems. Shorter runs make no hole.
const HOLE_BYTES: usize = 4096;

/// Returns the ranges of `bytes` that are not whole blocks of zeros: ordered, not touching.
pub(super) fn data_in(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (index, block) in bytes.chunks(HOLE_BYTES).enumerate() {
        if is_zero(block) {
            continue;
        }
        let start = index * HOLE_BYTES;
        let end = start + block.len();
        match parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(start..end),
        }
    }
    parts
}

/// True if all bytes are zero. Compares 16-byte words, which the compiler vectorizes.
fn is_zero(bytes: &[u8]) -> bool {
    let words = bytes.chunks_exact(16);
    let rest = words.remainder();
    words.map(|word| word.iter().fold(0, |all, byte| all | byte)).all(|all| all == 0)
        && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 5 * HOLE_BYTES + 100];
        assert!(data_in(&bytes).is_empty());
        bytes[HOLE_BYTES + 7] = 1;
        bytes[2 * HOLE_BYTES] = 1;
        bytes[5 * HOLE_BYTES + 99] = 1;
        let expected = [HOLE_BYTES..3 * HOLE_BYTES, 5 * HOLE_BYTES..5 * HOLE_BYTES + 100];
        assert_eq!(data_in(&bytes), expected);
    }
}
