//! Decompresses xz, lzip and lzma.
//!
//! The decoders are given slices: their readers lose the bytes before damage in the same call,
//! which is most of a small archive that is cut off.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lzma_rust2::{Action, LzipStream, LzmaStream, Status, XzStream};

use super::input::BUFFER_BYTES;

pub(super) enum Codec {
    Xz(XzStream),
    Lzip(LzipStream),
    Lzma(LzmaStream),
}

/// Calls a method that the three decoders have, though no trait does.
macro_rules! of_any {
    ($codec:expr, $stream:ident => $call:expr) => {
        match $codec {
            Codec::Xz($stream) => $call,
            Codec::Lzip($stream) => $call,
            Codec::Lzma($stream) => $call,
        }
    };
}

pub(super) struct Lzma<R> {
    codec: Codec,
    source: BufReader<R>,
    /// Reason that no more bytes follow.
    failure: Option<io::Error>,
    over: bool,
    garbage: Arc<AtomicBool>,
}

impl<R: Read> Lzma<R> {
    pub(super) fn new(codec: Codec, source: R, garbage: Arc<AtomicBool>) -> Self {
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        Self { codec, source, failure: None, over: false, garbage }
    }

    /// Examines the bytes after the last stream.
    fn end(&mut self) -> io::Result<()> {
        self.over = true;
        let damaged = |why| io::Error::new(ErrorKind::InvalidData, why);
        match &self.codec {
            Codec::Xz(_) => Ok(()),
            Codec::Lzip(stream) => {
                let unused = stream.unused_input();
                if !unused.is_empty() && b"LZIP".starts_with(&unused[..unused.len().min(4)]) {
                    return Err(damaged("lzip: truncated header, or unknown version"));
                }
                // Like lzip, ignore other trailing garbage. Read to the end: its writer may have
                // more to write.
                self.garbage.store(!unused.is_empty(), Ordering::Relaxed);
                io::copy(&mut self.source, &mut io::sink()).map(drop)
            }
            Codec::Lzma(stream) if stream.unused_input().is_empty() && self.source.fill_buf()?.is_empty() => {
                Ok(())
            }
            Codec::Lzma(_) => Err(damaged("lzma: trailing garbage")),
        }
    }
}

impl<R: Read> Read for Lzma<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(cause) = self.failure.take() {
            return Err(cause);
        }
        let mut action = Action::Run;
        while !self.over && !bytes.is_empty() {
            let input = self.source.fill_buf()?;
            let is_last = input.is_empty();
            let before = of_any!(&self.codec, stream => stream.total_out());
            let outcome = of_any!(&mut self.codec, stream => stream.process(input, bytes, action));
            let produced = of_any!(&self.codec, stream => stream.total_out()) - before;
            let outcome = match outcome {
                Ok(result) => {
                    self.source.consume(result.bytes_consumed);
                    if result.status == Status::StreamEnd { self.end() } else { Ok(()) }
                }
                Err(cause) => Err(cause),
            };
            match outcome {
                Err(cause) if produced == 0 => return Err(cause),
                outcome => self.failure = outcome.err(),
            }
            if produced > 0 {
                return Ok(produced as usize);
            }
            // `Finish` comes only once everything before EOF was returned, and has an outcome.
            action = match action {
                Action::Finish if !self.over => return Err(ErrorKind::UnexpectedEof.into()),
                _ if is_last => Action::Finish,
                _ => Action::Run,
            };
        }
        Ok(0)
    }
}
