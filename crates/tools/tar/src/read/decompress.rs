//! Decompression: archives are recognized by their first bytes, as in GNU tar, and decompressed
//! while they are read.
//!
//! Neither the archive's name nor an option decides. The archive's end is not the end of the
//! compressed stream, whose checksum comes last, so all of the stream is read
//! ([`ArchiveInput::finish`]).
//!
//! Memory is bounded: a stream that asks for more than [`MEMORY_KIB_MAX`] is refused.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::GzDecoder;
use haul_sys::{Errno, Error, Operation};
use lzma_rust2::{LzipStream, LzmaStream, XzStream};

use super::header::{ParsedBlock, RawBlock, header};
use super::input::{ArchiveInput, BUFFER_BYTES, ByteStream, ReadFailure};
use super::lzma::{Codec, Lzma};
use super::lzw::Lzw;
use crate::format::BLOCK;

/// Maximum memory of an LZMA decoder, in KiB: the largest dictionary of lzip is 512 MiB, that of
/// `xz -9` 64 MiB.
const MEMORY_KIB_MAX: u32 = 640 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    Gzip,
    Bzip2,
    Zstd,
    Xz,
    Lzip,
    Lzma,
    Compress,
    Lzop,
}

impl Packed {
    /// Recognizes a format by the first bytes of an archive. `None` if they are a tar header,
    /// whatever its name looks like.
    fn of(first: &[u8]) -> Option<Self> {
        let block = first.get(..BLOCK).and_then(|block| RawBlock::try_from(block).ok());
        if block.is_some_and(|block| matches!(header(&block), ParsedBlock::Header(_))) {
            return None;
        }
        Some(match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            // The second is a skippable frame, which may hold an index.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'L', b'Z', b'I', b'P', ..] => Self::Lzip,
            // No magic bytes, but the usual parameters, and a dictionary of a multiple of 64 KiB.
            [0x5d, 0, 0, ..] => Self::Lzma,
            [0x1f, 0x9d, ..] => Self::Compress,
            [0x89, b'L', b'Z', b'O', ..] => Self::Lzop,
            _ => return None,
        })
    }

    /// Returns the name of the format's own program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Lzip => "lzip",
            Self::Lzma => "lzma",
            Self::Compress => "compress",
            Self::Lzop => "lzop",
        }
    }
}

/// Returns a decompressing input, or `input` itself if it is not compressed, and the format.
///
/// # Errors
/// When the first bytes cannot be read, or the format is not supported.
pub(crate) fn plain(mut input: ArchiveInput) -> Result<(ArchiveInput, Option<Packed>), ReadFailure> {
    let Some(packed) = Packed::of(input.first(BLOCK)?) else { return Ok((input, None)) };
    let source = CompressedSource(input);
    let garbage = Arc::new(AtomicBool::new(false));
    let lzma =
        |codec, source| -> Box<dyn Read + Send> { Box::new(Lzma::new(codec, source, Arc::clone(&garbage))) };
    let decoder: Box<dyn Read + Send> = match packed {
        Packed::Gzip => Box::new(Gzip::new(source)),
        Packed::Bzip2 => Box::new(Bzip2 {
            reader: haul_bzip2_codec::Decompressor::new(source),
            garbage: Arc::clone(&garbage),
        }),
        Packed::Zstd => Box::new(zstd::stream::read::Decoder::new(source).map_err(failure)?),
        Packed::Xz => lzma(Codec::Xz(XzStream::new_mem_limit(true, MEMORY_KIB_MAX)), source),
        Packed::Lzip => lzma(Codec::Lzip(LzipStream::new_mem_limit(true, MEMORY_KIB_MAX)), source),
        Packed::Lzma => lzma(Codec::Lzma(LzmaStream::new_mem_limit(MEMORY_KIB_MAX, None)), source),
        Packed::Compress => Box::new(Lzw::new(source).map_err(failure)?),
        Packed::Lzop => return Err(ReadFailure::Unsupported(packed.name())),
    };
    Ok((ArchiveInput::of_stream(Box::new(Decompressed { decoder, garbage })), Some(packed)))
}

/// The compressed bytes, as the decoders' source.
struct CompressedSource(ArchiveInput);

impl Read for CompressedSource {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.some(bytes).map_err(|failure| match failure {
            ReadFailure::System(cause) => io::Error::from_raw_os_error(cause.errno().raw_os_error()),
            ReadFailure::Damaged(cause) => cause,
            ReadFailure::Unsupported(program) => io::Error::other(program),
            ReadFailure::Ended => ErrorKind::UnexpectedEof.into(),
        })
    }
}

/// Streams of bzip2. Trailing garbage is ignored, as bzip2 does.
struct Bzip2 {
    reader: haul_bzip2_codec::Decompressor<CompressedSource>,
    garbage: Arc<AtomicBool>,
}

impl Read for Bzip2 {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(bytes)?;
        self.garbage.store(self.reader.has_garbage(), Ordering::Relaxed);
        Ok(length)
    }
}

/// Members of gzip. Zeros after the last one fill up a block of a tape; anything else is garbage.
/// All members were good then, but gzip's warning makes GNU tar fail.
struct Gzip {
    decoder: Option<GzDecoder<BufReader<CompressedSource>>>,
}

impl Gzip {
    fn new(source: CompressedSource) -> Self {
        Self { decoder: Some(GzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, source))) }
    }
}

impl Read for Gzip {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let length = decoder.read(bytes)?;
            if length > 0 || bytes.is_empty() {
                return Ok(length);
            }
            let Some(mut source) = self.decoder.take().map(GzDecoder::into_inner) else { break };
            match what_follows(&mut source)? {
                Follows::Member => self.decoder = Some(GzDecoder::new(source)),
                Follows::Nothing => {}
                Follows::Garbage => {
                    let why = "decompression OK, trailing garbage ignored";
                    return Err(io::Error::new(ErrorKind::InvalidData, why));
                }
            }
        }
        Ok(0)
    }
}

/// Input after a member.
enum Follows {
    /// Another member, as far as its first byte says.
    Member,
    /// End of input, or zeros up to there.
    Nothing,
    /// Anything else.
    Garbage,
}

/// Skips zeros, and classifies the input behind them.
fn what_follows(source: &mut BufReader<CompressedSource>) -> io::Result<Follows> {
    let mut has_zeros = false;
    loop {
        let ready = source.fill_buf()?;
        let zeros = ready.iter().take_while(|byte| **byte == 0).count();
        has_zeros |= zeros > 0;
        if let Some(first) = ready.get(zeros) {
            let is_member = *first == 0x1f && !has_zeros;
            return Ok(if is_member { Follows::Member } else { Follows::Garbage });
        }
        if zeros == 0 {
            return Ok(Follows::Nothing);
        }
        source.consume(zeros);
    }
}

struct Decompressed {
    decoder: Box<dyn Read + Send>,
    garbage: Arc<AtomicBool>,
}

impl ByteStream for Decompressed {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFailure> {
        loop {
            match self.decoder.read(bytes) {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                outcome => return outcome.map_err(failure),
            }
        }
    }

    fn has_trailing_garbage(&self) -> bool {
        self.garbage.load(Ordering::Relaxed)
    }
}

fn failure(cause: io::Error) -> ReadFailure {
    match cause.raw_os_error() {
        Some(number) => {
            let errno = Errno::from_raw_os_error(number);
            ReadFailure::System(Error::new(Operation::Read, "of what is compressed".to_owned(), errno))
        }
        None if cause.kind() == ErrorKind::UnexpectedEof => ReadFailure::Ended,
        None if cause.kind() == ErrorKind::OutOfMemory => {
            let limit = format!("decompressing this needs more than {} MiB of memory", MEMORY_KIB_MAX >> 10);
            ReadFailure::Damaged(io::Error::other(limit))
        }
        None => ReadFailure::Damaged(cause),
    }
}
