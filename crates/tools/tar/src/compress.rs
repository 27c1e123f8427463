//! Compression of archives: each piece is a frame of its own (a gzip member, a bzip2 or xz stream,
//! a zstd frame), so that all workers compress at once. Every decompressor reads consecutive frames
//! as one.

use std::io::{self, Write};

use lzma_rust2::{XzOptions, XzWriter};

use super::options::Compression;

/// Preset of xz: its default.
const XZ_PRESET: u32 = 6;

impl Compression {
    /// Returns a good length of a frame's input, in bytes: long enough that little is lost at
    /// its ends.
    pub(super) fn frame_bytes(self) -> u64 {
        match self {
            Self::None | Self::Gzip => 1 << 20,
            // Just under four blocks of 900,000 bytes.
            Self::Bzip2 => 3_500 << 10,
            Self::Zstd => 4 << 20,
            // The dictionary size of the preset.
            Self::Xz => 8 << 20,
        }
    }

    /// Compresses bytes into a frame.
    ///
    /// # Errors
    /// When the compressor is out of memory.
    pub(super) fn frame(self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(bytes),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(room(&bytes), flate2::Compression::default());
                encoder.write_all(&bytes)?;
                encoder.finish()
            }
            Self::Bzip2 => Ok(haul_bzip2_codec::compress(&bytes, 9)),
            Self::Xz => {
                let options = XzOptions::with_preset(XZ_PRESET);
                let mut encoder = XzWriter::new(room(&bytes), options)?;
                encoder.write_all(&bytes)?;
                encoder.finish()
            }
            Self::Zstd => zstd::bulk::compress(&bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
        }
    }
}

/// Allocates the buffer for a frame, which is usually less than half as long as its input.
fn room(bytes: &[u8]) -> Vec<u8> {
    Vec::with_capacity(bytes.len() / 2)
}
