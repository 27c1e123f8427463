//! Hashes that need a file's bytes in order.

use std::fmt;

use md5::Md5;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh64::Xxh64;

use crate::algorithm::{Algorithm, Digest};
use crate::subtrees::ZEROS;

/// Computes any hash of a file whose blocks come in order.
pub struct StreamHash {
    state: HasherState,
    position: u64,
}

// The large states are boxed, because a `StreamHash` moves between workers.
enum HasherState {
    Blake3(Box<blake3::Hasher>),
    Xxh128(Box<Xxh3>),
    Xxh64(Xxh64),
    Sha256(Box<Sha256>),
    Md5(Box<Md5>),
}

/// A block came after a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// Offset after the last block, in bytes.
    pub expected: u64,
    /// Offset of the block, in bytes.
    pub offset: u64,
}

impl fmt::Display for OutOfOrder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a block at offset {} came after offset {}", self.offset, self.expected)
    }
}

impl std::error::Error for OutOfOrder {}

impl StreamHash {
    /// Creates an empty hash.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Blake3 => HasherState::Blake3(Box::default()),
            Algorithm::Xxh128 => HasherState::Xxh128(Box::default()),
            Algorithm::Xxh64 => HasherState::Xxh64(Xxh64::new(0)),
            Algorithm::Sha256 => HasherState::Sha256(Box::default()),
            Algorithm::Md5 => HasherState::Md5(Box::default()),
        };
        Self { state, position: 0 }
    }

    /// Adds the block at `offset`. A gap before it is a hole, and read as zeros.
    ///
    /// # Errors
    /// If bytes at or after `offset` were added before. The block is left out.
    pub fn insert(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OutOfOrder> {
        let gap = offset.checked_sub(self.position);
        self.append_zeros(gap.ok_or(OutOfOrder { expected: self.position, offset })?);
        self.append(bytes);
        Ok(())
    }

    /// Adds a block after the last one.
    pub fn append(&mut self, bytes: &[u8]) {
        match &mut self.state {
            HasherState::Blake3(hash) => {
                hash.update(bytes);
            }
            HasherState::Xxh128(hash) => hash.update(bytes),
            HasherState::Xxh64(hash) => hash.update(bytes),
            HasherState::Sha256(hash) => hash.update(bytes),
            HasherState::Md5(hash) => hash.update(bytes),
        }
        self.position += bytes.len() as u64;
    }

    /// Adds zeros after the last block.
    pub fn append_zeros(&mut self, mut length: u64) {
        while length > 0 {
            let part = length.min(ZEROS.len() as u64);
            self.append(&ZEROS[..part as usize]);
            length -= part;
        }
    }

    /// Returns the number of bytes added.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the hash of a file of `length` bytes, whose last bytes may be a hole. Returns `None`
    /// if more bytes were added.
    #[must_use]
    pub fn finish(mut self, length: u64) -> Option<Digest> {
        self.append_zeros(length.checked_sub(self.position)?);
        Some(self.value())
    }

    /// Returns the hash of the bytes added.
    #[must_use]
    pub fn value(self) -> Digest {
        match self.state {
            HasherState::Blake3(hash) => Digest::of(Algorithm::Blake3, hash.finalize().as_bytes()),
            HasherState::Xxh128(hash) => Digest::of(Algorithm::Xxh128, &hash.digest128().to_be_bytes()),
            HasherState::Xxh64(hash) => Digest::of(Algorithm::Xxh64, &hash.digest().to_be_bytes()),
            HasherState::Sha256(hash) => Digest::of(Algorithm::Sha256, &hash.finalize()),
            HasherState::Md5(hash) => Digest::of(Algorithm::Md5, &hash.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_zeros_and_a_step_back_is_an_error() {
        for algorithm in Algorithm::ALL {
            let mut hash = StreamHash::new(algorithm);
            hash.insert(0, b"ab").unwrap();
            hash.insert(200_000, b"c").unwrap();
            assert_eq!(hash.insert(1, b"x"), Err(OutOfOrder { expected: 200_001, offset: 1 }));
            assert_eq!(hash.position(), 200_001);
            let mut content = vec![0; 300_000];
            content[..2].copy_from_slice(b"ab");
            content[200_000] = b'c';
            assert_eq!(hash.finish(300_000), Some(algorithm.hash(&content)));
        }
    }

    #[test]
    fn a_file_shorter_than_its_blocks_has_no_hash() {
        let mut hash = StreamHash::new(Algorithm::Md5);
        hash.append(b"abc");
        assert_eq!(hash.finish(2), None);
    }
}
