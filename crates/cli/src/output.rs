//! Standard output: whole lines, buffered, with a sticky error.
//!
//! Lines are buffered and written in bulk; on a terminal each is written at once. The first write
//! error is kept, later lines are dropped, and [`LineSink::finish`] returns the error: a full disk
//! under `cp -v >log` must not be mistaken for success. Like GNU's tools, a run continues copying
//! when its output can't be written. When nobody reads a pipe, GNU's tools die at once; haul
//! finishes the copy first, so that nothing is left half copied, and then dies of `SIGPIPE`.
//!
//! A standard output that was closed, or opened only for reading, fails like any other. Rust's
//! `Stdout` discards the data in both cases and reports success.
//!
//! Invariant: the first failure is never lost (test: `the_first_failure_is_reported_at_the_end`).

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use haul_flow::lock;
use haul_sys::Errno;

/// Maximum bytes to buffer before writing.
const BUFFER_BYTES: usize = 64 << 10;

/// Time at which lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushPolicy {
    /// At once, for a terminal.
    EachWrite,
    /// When the buffer is full.
    WhenFull,
}

/// A sink for lines.
pub(crate) struct LineSink<W> {
    state: Mutex<OutputBuffer<W>>,
    policy: FlushPolicy,
}

struct OutputBuffer<W> {
    writer: W,
    waiting: Vec<u8>,
    failure: Option<io::Error>,
}

/// Standard output.
pub(crate) struct Standard;

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if haul_sys::was_closed(haul_sys::Standard::Output) {
            return Err(Errno::BADF.into());
        }
        haul_sys::write_stream(io::stdout(), bytes).map_err(|cause| cause.errno().into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineSink<Standard> {
    /// Wraps this process's standard output.
    pub(crate) fn standard() -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self::new(Standard, if is_terminal { FlushPolicy::EachWrite } else { FlushPolicy::WhenFull })
    }
}

impl<W: Write> LineSink<W> {
    pub(crate) fn new(writer: W, policy: FlushPolicy) -> Self {
        let state = OutputBuffer { writer, waiting: Vec::new(), failure: None };
        Self { state: Mutex::new(state), policy }
    }

    /// True if lines go to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.policy == FlushPolicy::EachWrite
    }

    /// Adds whole lines.
    pub(crate) fn write(&self, lines: &[u8]) {
        let mut state = lock(&self.state);
        state.waiting.extend_from_slice(lines);
        if self.is_terminal() || state.waiting.len() >= BUFFER_BYTES {
            state.flush();
        }
    }

    /// True if a write has failed. Nothing more will be written.
    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.state).failure.is_some()
    }

    /// Writes the buffer, because someone is about to read it.
    pub(crate) fn flush(&self) {
        lock(&self.state).flush();
    }

    /// Writes the buffer.
    ///
    /// # Errors
    /// The first failure of any write.
    pub(crate) fn finish(self) -> io::Result<()> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.flush();
        state.failure.map_or(Ok(()), Err)
    }
}

impl<W: Write> OutputBuffer<W> {
    fn flush(&mut self) {
        if self.failure.is_none() {
            self.failure = self.writer.write_all(&self.waiting).and_then(|()| self.writer.flush()).err();
        }
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts a number of writes, then is full.
    struct Limited {
        writes_left: usize,
        written: Vec<u8>,
    }

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.writes_left == 0 {
                return Err(io::Error::from_raw_os_error(28));
            }
            self.writes_left -= 1;
            self.written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written<W>(output: &LineSink<W>, look: impl Fn(&W) -> usize) -> usize {
        look(&output.state.lock().unwrap().writer)
    }

    #[test]
    fn lines_wait_for_a_full_buffer_unless_a_terminal_reads_them() {
        let buffered = LineSink::new(Vec::new(), FlushPolicy::WhenFull);
        buffered.write(b"line\n");
        assert_eq!(written(&buffered, Vec::len), 0);
        buffered.write(&[b'x'; BUFFER_BYTES]);
        assert_eq!(written(&buffered, Vec::len), BUFFER_BYTES + 5);
        let at_once = LineSink::new(Vec::new(), FlushPolicy::EachWrite);
        at_once.write(b"line\n");
        assert_eq!(written(&at_once, Vec::len), 5);
    }

    #[test]
    fn the_first_failure_is_reported_at_the_end() {
        let output = LineSink::new(Limited { writes_left: 1, written: Vec::new() }, FlushPolicy::EachWrite);
        output.write(b"fits\n");
        output.write(b"does not\n");
        output.write(b"nor this\n");
        assert_eq!(written(&output, |writer| writer.written.len()), 5);
        assert_eq!(output.finish().unwrap_err().raw_os_error(), Some(28));
    }

    #[test]
    fn what_waits_at_the_end_is_written() {
        let full = LineSink::new(Limited { writes_left: 0, written: Vec::new() }, FlushPolicy::WhenFull);
        full.write(b"line\n");
        assert!(full.finish().is_err());
        let fine = LineSink::new(Limited { writes_left: 1, written: Vec::new() }, FlushPolicy::WhenFull);
        fine.write(b"line\n");
        assert!(fine.finish().is_ok());
    }
}
