//! Archives that are compressed: found out by their first bytes, and decompressed as they are read.
//!
//! What an archive is compressed with is not believed from its name or an option but seen. The end of the archive is not the
//! end of the compressed stream, whose checksum comes last, so all of it is read ([`Input::finish`]).

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use haul_sys::{Errno, Error, Operation};

use super::input::{BUFFER_BYTES, Failure, Input, Stream};
use crate::tar::Compression;

/// Says how an archive with these first bytes is compressed.
pub(crate) fn compression(first: &[u8]) -> Compression {
    match first {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        // A frame that other readers pass over: indexes are in such.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        _ => Compression::None,
    }
}

/// Reads what is compressed in `input`, or `input` itself if nothing is.
///
/// # Errors
/// When its first bytes cannot be read, or there is no memory to decompress in.
pub(crate) fn plain(mut input: Input) -> Result<Input, Failure> {
    let compression = compression(input.first(4)?);
    let source = Source(input);
    let decoder: Box<dyn Read + Send> = match compression {
        Compression::None => return Ok(source.0),
        Compression::Gzip => Box::new(Parts::<GzDecoder<_>>::of(source)),
        Compression::Bzip2 => Box::new(Parts::<BzDecoder<_>>::of(source)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(source).map_err(failure)?),
    };
    Ok(Input::of_stream(Box::new(Decompressed(decoder))))
}

/// The compressed bytes, as decoders want them.
struct Source(Input);

impl Read for Source {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.some(bytes).map_err(|failure| match failure {
            Failure::System(cause) => io::Error::from_raw_os_error(cause.errno().raw_os_error()),
            Failure::Damaged(cause) => cause,
            Failure::Ended => ErrorKind::UnexpectedEof.into(),
        })
    }
}

/// A decoder of one part of what is compressed, which reads no byte behind that.
trait Decoder: Read + Sized {
    fn of(source: BufReader<Source>) -> Self;
    fn into_source(self) -> BufReader<Source>;
}

impl Decoder for GzDecoder<BufReader<Source>> {
    fn of(source: BufReader<Source>) -> Self {
        Self::new(source)
    }

    fn into_source(self) -> BufReader<Source> {
        self.into_inner()
    }
}

impl Decoder for BzDecoder<BufReader<Source>> {
    fn of(source: BufReader<Source>) -> Self {
        Self::new(source)
    }

    fn into_source(self) -> BufReader<Source> {
        self.into_inner()
    }
}

/// Parts that were compressed one by one and stand behind each other (members of gzip, streams of bzip2). Zeros behind the last one
/// are no part, but what a tape was filled up with; anything else is damage.
struct Parts<D>(Option<D>);

impl<D: Decoder> Parts<D> {
    fn of(source: Source) -> Self {
        Self(Some(D::of(BufReader::with_capacity(BUFFER_BYTES, source))))
    }
}

impl<D: Decoder> Read for Parts<D> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let length = decoder.read(bytes)?;
            if length > 0 || bytes.is_empty() {
                return Ok(length);
            }
            let Some(mut source) = self.0.take().map(D::into_source) else { break };
            self.0 = (!only_zeros_follow(&mut source)?).then(|| D::of(source));
        }
        Ok(0)
    }
}

/// Passes over zeros; tells whether there was nothing else up to the end.
fn only_zeros_follow(source: &mut BufReader<Source>) -> io::Result<bool> {
    let mut seen = false;
    loop {
        let ready = source.fill_buf()?;
        let zeros = ready.iter().take_while(|byte| **byte == 0).count();
        seen |= zeros > 0;
        if zeros < ready.len() {
            return if seen { Err(ErrorKind::InvalidData.into()) } else { Ok(false) };
        }
        if zeros == 0 {
            return Ok(true);
        }
        source.consume(zeros);
    }
}

struct Decompressed(Box<dyn Read + Send>);

impl Stream for Decompressed {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match self.0.read(bytes) {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                outcome => return outcome.map_err(failure),
            }
        }
    }
}

/// Tells failures to read from damage.
fn failure(cause: io::Error) -> Failure {
    match cause.raw_os_error() {
        Some(number) => {
            let errno = Errno::from_raw_os_error(number);
            Failure::System(Error::new(Operation::Read, "of what is compressed".to_owned(), errno))
        }
        None if cause.kind() == ErrorKind::UnexpectedEof => Failure::Ended,
        None => Failure::Damaged(cause),
    }
}
