//! Whole streams, compressed and decompressed by one thread.

use std::io::{self, ErrorKind, Read};

use crate::bits::{BitWriter, END_MAGIC};
use crate::crc::{self, Crc};
use crate::cut::Cutter;
use crate::decode::{BlockContent, Decoder};
use crate::encode::Encoder;
use crate::runs;
use crate::unpack::{InputPiece, LEVEL_BYTES, Stop, Unpacker};

/// Bytes of each block that bzip2 leaves unused.
pub const SLACK: usize = 19;

const READ_BYTES: usize = 256 << 10;

/// Compresses bytes to a stream, with blocks of `level` times 100,000 bytes.
///
/// # Panics
/// Unless `level` is from 1 to 9.
#[must_use]
pub fn compress(bytes: &[u8], level: u8) -> Vec<u8> {
    assert!((1..=9).contains(&level), "bzip2 has no level {level}");
    let block_bytes = usize::from(level) * LEVEL_BYTES - SLACK;
    let (mut encoder, mut block) = (Encoder::default(), Vec::with_capacity(block_bytes));
    let (mut bits, mut stream_crc) = (BitWriter::default(), 0);
    b"BZh".iter().for_each(|byte| bits.push(u32::from(*byte), 8));
    bits.push(u32::from(b'0' + level), 8);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (length, _) = runs::fitting(rest, block_bytes);
        let (piece, after) = rest.split_at(length);
        let mut crc = Crc::new();
        crc.update(piece);
        let crc = crc.finish();
        block.clear();
        runs::count(piece, &mut block);
        bits.append(&encoder.encode(&block, crc));
        stream_crc = crc::combine(stream_crc, crc);
        rest = after;
    }
    bits.push_magic(END_MAGIC);
    bits.push(stream_crc, 32);
    bits.finish().bytes
}

/// Decompresses a source of one stream, or several in a row. Returns content only after its
/// checksum was verified.
///
/// Errors of the source are passed on; a truncated stream is [`ErrorKind::UnexpectedEof`], a
/// corrupt one and input that is not a stream at all are [`ErrorKind::InvalidData`]. Trailing
/// garbage is read and ignored, as bzip2 does.
pub struct Decompressor<R> {
    source: R,
    cutter: Cutter,
    decoder: Decoder,
    unpacker: Unpacker,
    content: Vec<u8>,
    /// Bytes of `content` that were returned.
    returned: usize,
    is_over: bool,
    has_garbage: bool,
}

impl<R: Read> Decompressor<R> {
    /// Creates a reader of a compressed source.
    #[must_use]
    pub fn new(source: R) -> Self {
        Self {
            source,
            cutter: Cutter::default(),
            decoder: Decoder::default(),
            unpacker: Unpacker::new(false),
            content: Vec::new(),
            returned: 0,
            is_over: false,
            has_garbage: false,
        }
    }

    /// True if trailing garbage other than zeros was met. Zeros fill up the block of a tape.
    #[must_use]
    pub fn has_garbage(&self) -> bool {
        self.has_garbage
    }

    fn piece(&mut self) -> io::Result<InputPiece> {
        loop {
            if let Some(piece) = self.cutter.cut_next() {
                return Ok(piece);
            }
            self.cutter.forget();
            let read = (&mut self.source).take(READ_BYTES as u64).read_to_end(self.cutter.input())?;
            if read == 0 {
                return Ok(self.cutter.last());
            }
        }
    }

    /// Decodes the next piece. Sets `is_over` after the last one.
    fn advance(&mut self) -> io::Result<()> {
        let piece = self.piece()?;
        let decoded = piece.candidate.map(|bit| self.decoder.decode(&piece.bytes, bit));
        let Self { unpacker, content, .. } = self;
        let mut pass = |part: BlockContent| part.pass(&mut |bytes| content.extend_from_slice(bytes));
        unpacker.take(&piece, decoded, &mut pass).map_err(|stop| match stop {
            Stop::Ended => io::Error::from(ErrorKind::UnexpectedEof),
            Stop::Foreign => io::Error::new(ErrorKind::InvalidData, "not a bzip2 stream"),
            Stop::Damaged => io::Error::new(ErrorKind::InvalidData, "the bzip2 stream is corrupt"),
        })?;
        self.is_over = piece.last;
        if self.unpacker.has_met_garbage() {
            self.is_over = true;
            self.drain()?;
        }
        Ok(())
    }

    /// Reads to the end, because whoever writes to a pipe may have more to write.
    fn drain(&mut self) -> io::Result<()> {
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        self.has_garbage = !self.unpacker.has_only_zeros() || !is_zero(self.cutter.unread());
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => self.has_garbage |= !is_zero(&buffer[..length]),
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
    }
}

impl<R: Read> Read for Decompressor<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.returned == self.content.len() {
            self.content.clear();
            self.returned = 0;
            if self.is_over {
                return Ok(0);
            }
            self.advance()?;
        }
        let rest = &self.content[self.returned..];
        let length = rest.len().min(bytes.len());
        bytes[..length].copy_from_slice(&rest[..length]);
        self.returned += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        let (mut reader, mut content) = (Decompressor::new(stream), Vec::new());
        reader.read_to_end(&mut content)?;
        Ok((content, reader.has_garbage()))
    }

    #[test]
    fn what_was_compressed_is_read_again() {
        let text: Vec<u8> =
            (0..300_000u32).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
        for (text, level) in [(&text[..], 1), (&text[..], 9), (&[7; 500_000][..], 3), (b"", 9), (b"x", 1)] {
            let stream = compress(text, level);
            assert!(read(&stream).unwrap() == (text.to_vec(), false), "{} bytes, level {level}", text.len());
            let twice = [stream.as_slice(), &stream].concat();
            assert!(read(&twice).unwrap().0 == [text, text].concat());
        }
    }

    #[test]
    fn trailing_zeros_are_padding_and_anything_else_is_garbage() {
        let stream = compress(b"text", 9);
        let with = |tail: &[u8]| read(&[stream.as_slice(), tail].concat()).unwrap();
        assert_eq!(with(&[0; 10_000]), (b"text".to_vec(), false));
        assert_eq!(with(b"garbage"), (b"text".to_vec(), true));
        let late = [vec![0; 600_000], b"garbage".to_vec()].concat();
        assert_eq!(with(&late), (b"text".to_vec(), true));
    }

    #[test]
    fn damage_is_an_error() {
        let stream = compress(&vec![b'x'; 1000], 9);
        let kind = |stream: &[u8]| read(stream).unwrap_err().kind();
        assert_eq!(kind(&stream[..stream.len() - 1]), ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"no stream at all"), ErrorKind::InvalidData);
        let mut damaged = stream.clone();
        damaged[20] ^= 1;
        assert_eq!(kind(&damaged), ErrorKind::InvalidData);
    }
}
