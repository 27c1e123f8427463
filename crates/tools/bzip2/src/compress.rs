//! Compression in stages: cut the input at block boundaries, compress each block alone, join the
//! bits to a stream.

use std::sync::Mutex;

use haul_bzip2_codec::SLACK;
use haul_flow::{Context, Stages, lock};

use super::Bzip2;
use super::job::FileJob;
use haul_bzip2_codec::bits::{BitWriter, Bits, END_MAGIC};
use haul_bzip2_codec::crc::{self, Crc};
use haul_bzip2_codec::encode::Encoder;
use haul_bzip2_codec::runs;
use haul_bzip2_codec::unpack::LEVEL_BYTES;

/// Maximum size of an input piece, in blocks. Run-length encoding can fit more into one block, but
/// longer pieces would only cost memory.
const LONGER: usize = 4;

pub(super) struct Compress {
    job: FileJob,
    block_bytes: usize,
    /// Bytes read but not yet in a piece.
    ahead: Mutex<Vec<u8>>,
    stream: Mutex<StreamTail>,
}

struct StreamTail {
    bits: BitWriter,
    crc: u32,
}

pub(super) struct CompressedBlock {
    bits: Bits,
    crc: u32,
    length: usize,
}

impl Compress {
    /// Creates the stages and writes the stream header.
    pub(super) fn new(job: FileJob, level: u8) -> Self {
        let mut bits = BitWriter::default();
        b"BZh".iter().for_each(|byte| bits.push(u32::from(*byte), 8));
        bits.push(u32::from(b'0' + level), 8);
        Self {
            job,
            block_bytes: usize::from(level) * LEVEL_BYTES - SLACK,
            ahead: Mutex::default(),
            stream: Mutex::new(StreamTail { bits, crc: 0 }),
        }
    }
}

impl Stages<Bzip2> for Compress {
    type Piece = Vec<u8>;
    type Output = CompressedBlock;

    fn next(&self, cx: &Context<'_, Bzip2>) -> Option<Vec<u8>> {
        let mut ahead = lock(&self.ahead);
        let mut wanted = self.block_bytes;
        let length = loop {
            let ended = self.job.read(cx, &mut ahead, wanted)?;
            let (length, taken) = runs::fitting(&ahead, self.block_bytes);
            let is_full = length < ahead.len() || taken == self.block_bytes;
            if is_full || ended || length >= self.block_bytes * LONGER {
                break length;
            }
            // Run-length encoding has left room in the block.
            // An eighth at least, since each round counts from the start again.
            wanted = ahead.len() + (self.block_bytes - taken).max(self.block_bytes / 8);
        };
        let rest = ahead.split_off(length);
        let piece = std::mem::replace(&mut *ahead, rest);
        if piece.is_empty() { None } else { Some(piece) }
    }

    fn work(&self, cx: &Context<'_, Bzip2>, piece: Vec<u8>) -> CompressedBlock {
        let mut crc = Crc::new();
        crc.update(&piece);
        let crc = crc.finish();
        let mut block = Vec::with_capacity(self.block_bytes);
        runs::count(&piece, &mut block);
        let bits = cx.tool().encoders.with(Encoder::default, |encoder| encoder.encode(&block, crc));
        CompressedBlock { bits, crc, length: piece.len() }
    }

    fn put(&self, cx: &Context<'_, Bzip2>, made: CompressedBlock) {
        let mut stream = lock(&self.stream);
        stream.crc = crc::combine(stream.crc, made.crc);
        stream.bits.append(&made.bits);
        self.job.took(cx, made.length);
        self.job.write(cx, &stream.bits.take_whole());
    }

    fn end(&self, cx: &Context<'_, Bzip2>) {
        let mut stream = lock(&self.stream);
        let crc = stream.crc;
        let mut bits = std::mem::take(&mut stream.bits);
        bits.push_magic(END_MAGIC);
        bits.push(crc, 32);
        self.job.write(cx, &bits.finish().bytes);
        self.job.finish(cx, None);
    }
}
