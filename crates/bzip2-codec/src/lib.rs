//! A bzip2 codec in safe Rust whose blocks can be compressed and decompressed by several threads.
//!
//! [`compress`] makes a whole stream of some bytes, [`Decompressor`] decompresses as a stream is
//! read. For several threads there are the stages: [`runs::fitting`] and [`encode::Encoder`]
//! compress blocks, whose bits [`bits::BitWriter`] joins; [`cut::Cutter`] cuts compressed input at
//! candidate block boundaries, [`decode::Decoder`] decodes each block, and [`unpack::Unpacker`]
//! verifies and joins them in order. The format is that of bzip2 1.0.8.

pub mod bits;
pub mod crc;
pub mod cut;
pub mod decode;
pub mod encode;
pub mod find;
#[cfg(test)]
mod mutations;
mod numbers;
mod recent;
pub mod runs;
mod sort;
mod stream;
pub mod unpack;

pub use stream::{Decompressor, SLACK, compress};
