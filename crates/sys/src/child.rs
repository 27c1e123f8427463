//! Child processes: started without a shell, given input, and waited for.
//!
//! A child doesn't outlive the thread that started it: when the thread ends, for whatever reason,
//! the kernel sends the child `SIGTERM` (prctl(2), `PR_SET_PDEATHSIG`). Both output streams are
//! read while the child runs, so it never blocks on a full pipe.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::{Error, Result};
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;
use crate::process_tree;

/// Returns true if children must not inherit the environment variable with this name.
pub type IsOwn = fn(&OsStr) -> bool;

/// A running child process.
#[derive(Debug)]
pub struct Started(Child);

/// A child that filters a stream: it reads a file and writes to this process, or the other
/// way round.
#[derive(Debug)]
pub struct Filter(Child);

/// A child's failure. `Display` uses the wording of GNU tar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Its non-zero exit status.
    Status(i32),
    /// The signal that killed it.
    Signal(i32),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(formatter, "Child returned status {status}"),
            Self::Signal(signal) => write!(formatter, "Child died with signal {signal}"),
        }
    }
}

impl Filter {
    /// Starts a program with a file as its standard input. Also returns the pipe to read its
    /// output from. The program doesn't inherit environment variables for which `is_own` is true.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn reading<S: AsRef<OsStr>>(words: &[S], input: Fd, is_own: IsOwn) -> Result<(Self, Fd)> {
        let mut child = spawn(words, is_own, |command| {
            command.stdin(input.into_stdio()).stdout(Stdio::piped());
        })?;
        let output = child.stdout.take().map(OwnedFd::from);
        Self::with_pipe(child, output)
    }

    /// Starts a program with a file as its standard output. Also returns the pipe to write its
    /// input to. The program doesn't inherit environment variables for which `is_own` is true.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn writing<S: AsRef<OsStr>>(words: &[S], output: Fd, is_own: IsOwn) -> Result<(Self, Fd)> {
        let mut child = spawn(words, is_own, |command| {
            command.stdin(Stdio::piped()).stdout(output.into_stdio());
        })?;
        let input = child.stdin.take().map(OwnedFd::from);
        Self::with_pipe(child, input)
    }

    fn with_pipe(child: Child, pipe: Option<OwnedFd>) -> Result<(Self, Fd)> {
        let pipe = pipe.ok_or_else(|| Error::new(Operation::Execve, "pipe".to_owned(), Errno::PIPE))?;
        Ok((Self(child), Fd::new(pipe)))
    }

    /// Waits for the child to exit and returns how it failed, if it did. Close its pipe, or read it
    /// to EOF, first.
    ///
    /// # Errors
    /// Any error from `wait4(2)`.
    pub fn finish(mut self) -> Result<std::result::Result<(), Failed>> {
        let pid = self.0.id();
        let waited = || self.0.wait().map_err(|error| number(&error));
        // Once: the child is reaped even if a fault is injected, or it would stay a zombie.
        let status = gate::call_once(Operation::Wait4, waited, || pid.to_string())?;
        Ok(match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (Some(status), _) => Err(Failed::Status(status)),
            (None, signal) => Err(Failed::Signal(signal.unwrap_or_default())),
        })
    }
}

/// The result of a finished child.
#[derive(Debug)]
pub struct ChildOutput {
    /// Exit status or signal.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub output: Vec<u8>,
    /// Everything it wrote to standard error.
    pub errors: Vec<u8>,
}

impl ChildOutput {
    /// Returns the exit status.
    ///
    /// # Errors
    /// The number of the signal that killed the child.
    pub fn code(&self) -> std::result::Result<i32, i32> {
        self.status.code().ok_or_else(|| self.status.signal().unwrap_or_default())
    }
}

/// A handle to terminate a running child. Harmless once the child has been reaped.
#[derive(Debug)]
pub struct TerminationHandle {
    pid: Pid,
    fd: OwnedFd,
}

impl TerminationHandle {
    /// Sends `SIGTERM` to the child and all its descendants. If only a shell were terminated, its
    /// commands would keep running and writing to its streams.
    pub fn terminate(&self) {
        process_tree::terminate(self.pid, &self.fd);
    }
}

impl Started {
    /// Starts the program named by the first word, with the other words as arguments. If `is_fed`,
    /// [`Started::finish`] passes it input; otherwise its standard input is empty. The program
    /// doesn't inherit environment variables for which `is_own` is true.
    ///
    /// # Errors
    /// If it can't be started: no such program, or no process can be created.
    pub fn begin<S: AsRef<OsStr>>(words: &[S], is_fed: bool, is_own: IsOwn) -> Result<Self> {
        let stdin = if is_fed { Stdio::piped() } else { Stdio::null() };
        spawn(words, is_own, |command| {
            command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        })
        .map(Self)
    }

    /// Returns a handle to terminate the child.
    ///
    /// # Errors
    /// If the kernel has no pidfds, or no descriptor is left.
    pub fn termination_handle(&self) -> io::Result<TerminationHandle> {
        let pid =
            i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(TerminationHandle { pid, fd: rustix::process::pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Writes `input` to the child, reads its output to the end, and waits for it. A child that
    /// stops reading its input early (`EPIPE`) is not an error.
    ///
    /// # Errors
    /// If its output can't be read, or its input can't be written for a reason other than `EPIPE`.
    pub fn finish(self, input: &[u8]) -> Result<ChildOutput> {
        let pid = self.0.id();
        gate::call_once(
            Operation::Wait4,
            || self.feed_and_wait(input).map_err(|error| number(&error)),
            || pid.to_string(),
        )
    }

    fn feed_and_wait(mut self, input: &[u8]) -> io::Result<ChildOutput> {
        let Some(mut stdin) = self.0.stdin.take() else { return self.wait() };
        std::thread::scope(|scope| {
            // On a thread of its own: a child that fills its output pipes before it has read all
            // its input would wait for us while we wait for it.
            let feed = move || stdin.write_all(input);
            let feeder = match std::thread::Builder::new().spawn_scoped(scope, feed) {
                Ok(feeder) => feeder,
                Err(error) => {
                    // The child got no input, so its output would be wrong.
                    self.0.kill()?;
                    self.0.wait()?;
                    return Err(error);
                }
            };
            let output = self.wait();
            match feeder.join().unwrap_or(Ok(())) {
                // The child need not read all its input.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => output.and(Err(error)),
                _ => output,
            }
        })
    }

    fn wait(self) -> io::Result<ChildOutput> {
        let output = self.0.wait_with_output()?;
        Ok(ChildOutput { status: output.status, output: output.stdout, errors: output.stderr })
    }
}

/// Starts the program named by the first word; `streams` sets up its standard streams.
fn spawn<S: AsRef<OsStr>>(words: &[S], is_own: IsOwn, streams: impl FnOnce(&mut Command)) -> Result<Child> {
    let program = words.first().map_or_else(|| OsStr::new(""), AsRef::as_ref);
    let mut command = Command::new(program);
    command.args(words.iter().skip(1));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_own(name)) {
        command.env_remove(name);
    }
    streams(&mut command);
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes two system calls and allocates nothing, which is allowed between
    // fork and exec.
    unsafe { command.pre_exec(move || end_with(parent)) };
    let spawned = || command.spawn().map_err(|error| number(&error));
    gate::call(Operation::Execve, spawned, || program.display().to_string())
}

/// Returns the errno of a library error. Errors without one mean arguments that can't be passed to
/// a program, such as one with a NUL.
fn number(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error)
}

/// Makes the kernel send `SIGTERM` when the parent thread ends. Fails if the parent has
/// already gone.
fn end_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // A parent that ended before the call above sends no signal (prctl(2)).
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_program_is_fed_and_heard_whatever_the_amounts() {
        let input = vec![b'x'; 1 << 20];
        let words = ["sh", "-c", "tee /dev/stderr; exit 3"];
        let ended = Started::begin(&words, true, |_| false).unwrap().finish(&input).unwrap();
        assert_eq!(ended.code(), Ok(3));
        assert!(ended.output == input && ended.errors == input);
    }

    #[test]
    fn what_does_not_want_to_be_fed_is_not_an_error() {
        let ended = Started::begin(&["true"], true, |_| false).unwrap().finish(&vec![0; 1 << 20]).unwrap();
        assert_eq!(ended.code(), Ok(0));
        assert!(Started::begin(&["/no/such/program"], false, |_| false).is_err());
    }

    #[test]
    fn a_program_is_terminated_and_may_be_again() {
        let started = Started::begin(&["sleep", "600"], false, |_| false).unwrap();
        let handle = started.termination_handle().unwrap();
        handle.terminate();
        assert_eq!(started.finish(b"").unwrap().code(), Err(15));
        handle.terminate();
    }

    #[test]
    fn what_a_program_has_started_is_terminated_too() {
        for turn in 0..50 {
            // The child forks all the time, so also during `terminate`.
            let script = "echo; for turn in $(seq 300); do sh -c :; done; sh -c 'sleep 600; true'; true";
            let mut started = Started::begin(&["sh", "-c", script], false, |_| false).unwrap();
            let handle = started.termination_handle().unwrap();
            started.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            std::thread::sleep(std::time::Duration::from_micros(turn * 300));
            handle.terminate();
            // `finish` returns only when every process with the streams open has gone.
            assert_eq!(started.finish(b"").unwrap().code(), Err(15));
        }
    }
}
