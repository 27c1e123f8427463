//! Hashes of files, and manifests of them.
//!
//! [`TreeHash`] computes BLAKE3 of a file whose blocks come in any order, from several threads or
//! processes. [`Pieces`] are the values of a file's pieces, which show where two contents differ.
//! [`StreamHash`] computes hashes that need the bytes in order. [`manifest`] writes and parses
//! lists of hashes, and an [`AtomicFile`] is how such a list is stored.
//!
//! Promises: a result doesn't depend on how the content was split, and equals that of `b3sum`,
//! `sha256sum`, `md5sum` and `xxhsum`. This crate reads no files.

mod algorithm;
#[cfg(feature = "manifests")]
mod atomic_file;
#[cfg(feature = "manifests")]
pub mod manifest;
mod pieces;
#[cfg(feature = "manifests")]
mod stream;
mod subtrees;
mod tree;

pub use algorithm::{Algorithm, DIGEST_BYTES_MAX, Digest};
#[cfg(feature = "manifests")]
pub use atomic_file::{AtomicFile, CreateError};
pub use pieces::{PIECE_BYTES, PieceValue, Pieces};
#[cfg(feature = "manifests")]
pub use stream::{OutOfOrder, StreamHash};
pub use subtrees::{Malformed, Subtrees};
pub use tree::TreeHash;
