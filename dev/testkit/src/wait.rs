//! Bounded waits.
//!
//! A test that needs "the copy has begun" polls for a fact that only a running copy makes true, and
//! gives up after a time limit. The pause between polls only leaves the CPU to the program under
//! test. No test depends on its length.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Maximum time from the exit or kill of a program until nothing of it is left.
pub const AFTERMATH_MAX: Duration = Duration::from_secs(120);

/// Maximum time counted between two polls; more means that the machine was suspended.
const STANDSTILL: Duration = Duration::from_secs(1);

/// Waits until `fact` returns true. Returns false if that takes longer than `limit`.
pub fn until(limit: Duration, mut fact: impl FnMut() -> bool) -> bool {
    let (mut waited, mut looked) = (Duration::ZERO, Instant::now());
    loop {
        if fact() {
            return true;
        }
        let now = Instant::now();
        // While the machine is suspended, nothing runs, so that time must not count
        // against the limit.
        waited += (now - looked).min(STANDSTILL);
        looked = now;
        if waited >= limit {
            return false;
        }
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

/// Waits for a process to exit, and kills it after `limit`.
pub fn for_end(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let mut ended = Ok(None);
    let in_time = until(limit, || {
        ended = child.try_wait();
        !matches!(ended, Ok(None))
    });
    if !in_time {
        child.kill()?;
        // Don't wait for it: a process stuck in the kernel may never exit.
        return Err(io::Error::new(io::ErrorKind::TimedOut, format!("process {} hung", child.id())));
    }
    ended?.ok_or_else(|| io::Error::other("a process neither ended nor hung"))
}

/// Opens a FIFO for writing as soon as a program has opened it for reading, or returns an error
/// after `limit`. A plain `open` would wait for ever for a program that has failed.
pub fn for_reader(fifo: &Path, limit: Duration) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let open = || File::options().write(true).custom_flags(flags).open(fifo);
    let mut opened = Err(Errno::NXIO.into());
    until(limit, || {
        opened = open();
        !opened.as_ref().is_err_and(|error| Errno::from_io_error(error) == Some(Errno::NXIO))
    });
    opened
}

/// Runs a command without input and returns its output. Kills it after `limit`.
pub fn for_output(command: &mut Command, limit: Duration) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let readers = [child.stdout.take().map(PipeReader::start), child.stderr.take().map(PipeReader::start)];
    let status = for_end(&mut child, limit)?;
    let [stdout, stderr] = readers.map(PipeReader::collect);
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

/// Reads a pipe to its end in a thread.
#[derive(Debug)]
pub(crate) struct PipeReader(Receiver<io::Result<Vec<u8>>>);

impl PipeReader {
    pub(crate) fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = pipe.read_to_end(&mut bytes).map(|_| bytes);
            // The receiver is gone if the wait was given up.
            send.send(read).unwrap_or_default();
        });
        Self(receive)
    }

    /// Returns the data once all writers are gone; empty if there is no reader.
    pub(crate) fn collect(reader: Option<Self>) -> io::Result<Vec<u8>> {
        Self::collect_within(reader, AFTERMATH_MAX)
    }

    fn collect_within(reader: Option<Self>, limit: Duration) -> io::Result<Vec<u8>> {
        let Some(Self(receive)) = reader else { return Ok(Vec::new()) };
        let held = "a process that the program left behind holds its output open";
        receive.recv_timeout(limit).map_err(|_| io::Error::new(io::ErrorKind::TimedOut, held))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_hangs_is_killed() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let error = for_end(&mut child, Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(!child.wait().unwrap().success());
        let output = for_output(Command::new("echo").arg("x"), AFTERMATH_MAX).unwrap();
        assert!(output.status.success() && output.stdout == b"x\n");
    }

    #[test]
    fn output_that_is_held_open_is_an_error_and_no_hang() {
        let (reader, writer) = io::pipe().unwrap();
        let error = PipeReader::collect_within(Some(PipeReader::start(reader)), Duration::from_millis(5))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(writer);
    }

    #[test]
    fn a_fact_ends_the_wait_and_a_lie_meets_the_limit() {
        let mut looks = 0;
        assert!(until(Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        }));
        assert!(!until(Duration::from_millis(5), || false));
    }
}
