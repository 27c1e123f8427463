//! Other programs: started without a shell, fed, and heard to the end.
//!
//! A child does not outlive the thread that started it: the kernel sends it `SIGTERM` when that ends, however it ends
//! (prctl(2), `PR_SET_PDEATHSIG`). Both of a child's streams are read while it runs, so that it never waits for a reader.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::{Error, Result};
use crate::family;
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;

/// A program that runs.
#[derive(Debug)]
pub struct Started(Child);

/// A program that bytes pass through: it reads a file and writes to this process, or the other way round.
#[derive(Debug)]
pub struct Filter(Child);

/// How a program failed, as a shell words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It exited with this status.
    Status(i32),
    /// This signal ended it.
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
    /// Starts a program with a file as its standard input; also returns where its standard output is read.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn reading<S: AsRef<OsStr>>(words: &[S], input: Fd) -> Result<(Self, Fd)> {
        let mut child = spawn(words, |command| {
            command.stdin(input.into_stdio()).stdout(Stdio::piped());
        })?;
        let output = child.stdout.take().map(OwnedFd::from);
        Self::with_pipe(child, output)
    }

    /// Starts a program with a file as its standard output; also returns where its standard input is written to.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn writing<S: AsRef<OsStr>>(words: &[S], output: Fd) -> Result<(Self, Fd)> {
        let mut child = spawn(words, |command| {
            command.stdin(Stdio::piped()).stdout(output.into_stdio());
        })?;
        let input = child.stdin.take().map(OwnedFd::from);
        Self::with_pipe(child, input)
    }

    fn with_pipe(child: Child, pipe: Option<OwnedFd>) -> Result<(Self, Fd)> {
        let pipe = pipe.ok_or_else(|| Error::new(Operation::Execve, "pipe".to_owned(), Errno::PIPE))?;
        Ok((Self(child), Fd::new(pipe)))
    }

    /// Waits until it has ended, which is after its pipe was closed or read to the end; returns how it failed, if it did.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn finish(mut self) -> Result<std::result::Result<(), Failed>> {
        let pid = self.0.id();
        let waited = || self.0.wait().map_err(|error| number(&error));
        let status = gate::call_once(Operation::Wait4, waited, || pid.to_string())?;
        Ok(match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (Some(status), _) => Err(Failed::Status(status)),
            (None, signal) => Err(Failed::Signal(signal.unwrap_or_default())),
        })
    }
}

/// What a program left behind.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub output: Vec<u8>,
    /// What it wrote to standard error.
    pub errors: Vec<u8>,
}

impl Ended {
    /// Returns the exit status, or the number of the signal that ended the program.
    ///
    /// # Errors
    /// The signal.
    pub fn code(&self) -> std::result::Result<i32, i32> {
        self.status.code().ok_or_else(|| self.status.signal().unwrap_or_default())
    }
}

/// What can end a running program, also after somebody else has waited for it: by then it does nothing.
#[derive(Debug)]
pub struct Leash {
    pid: Pid,
    fd: OwnedFd,
}

impl Leash {
    /// Asks the program and what it has started to end (`SIGTERM`): a shell that ends leaves its commands, which still write where
    /// it wrote.
    pub fn pull(&self) {
        family::end(self.pid, &self.fd);
    }
}

impl Started {
    /// Starts the program that the first word names, with the others as its arguments. What it is to be fed comes with
    /// [`Started::finish`]; if it is to be fed nothing, its standard input is empty.
    ///
    /// # Errors
    /// When it cannot be started: there is no such program, or no process can be made.
    pub fn begin<S: AsRef<OsStr>>(words: &[S], is_fed: bool) -> Result<Self> {
        let stdin = if is_fed { Stdio::piped() } else { Stdio::null() };
        spawn(words, |command| {
            command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        })
        .map(Self)
    }

    /// Returns what can end it.
    ///
    /// # Errors
    /// When the kernel has no such thing, or no descriptor is left.
    pub fn leash(&self) -> io::Result<Leash> {
        let pid =
            i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Leash { pid, fd: rustix::process::pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Feeds it, hears it to the end, and waits for it. That it does not take all it is fed is its own business.
    ///
    /// # Errors
    /// When its streams cannot be read, or it cannot be fed for another reason than that it does not want to be.
    pub fn finish(self, input: &[u8]) -> Result<Ended> {
        let pid = self.0.id();
        gate::call_once(
            Operation::Wait4,
            || self.feed_and_hear(input).map_err(|error| number(&error)),
            || pid.to_string(),
        )
    }

    fn feed_and_hear(mut self, input: &[u8]) -> io::Result<Ended> {
        let Some(mut stdin) = self.0.stdin.take() else { return self.hear() };
        std::thread::scope(|scope| {
            let feed = move || stdin.write_all(input);
            let feeder = match std::thread::Builder::new().spawn_scoped(scope, feed) {
                Ok(feeder) => feeder,
                Err(error) => {
                    // It was fed nothing, so what it makes of that is not what was asked for.
                    self.0.kill()?;
                    self.0.wait()?;
                    return Err(error);
                }
            };
            let heard = self.hear();
            match feeder.join().unwrap_or(Ok(())) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => heard.and(Err(error)),
                _ => heard,
            }
        })
    }

    fn hear(self) -> io::Result<Ended> {
        let heard = self.0.wait_with_output()?;
        Ok(Ended { status: heard.status, output: heard.stdout, errors: heard.stderr })
    }
}

/// Starts the program that the first word names, with its streams as `streams` sets them.
fn spawn<S: AsRef<OsStr>>(words: &[S], streams: impl FnOnce(&mut Command)) -> Result<Child> {
    let program = words.first().map_or_else(|| OsStr::new(""), AsRef::as_ref);
    let mut command = Command::new(program);
    command.args(words.iter().skip(1));
    streams(&mut command);
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes two system calls and allocates nothing, which is allowed between fork and exec.
    unsafe { command.pre_exec(move || end_with(parent)) };
    let spawned = || command.spawn().map_err(|error| number(&error));
    gate::call(Operation::Execve, spawned, || program.display().to_string())
}

/// Returns the kernel's number for an error of the library, which has none for words that cannot be words of a program.
fn number(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error)
}

/// Has the kernel end this process when the thread that started it ends; at once if it has ended already.
fn end_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
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
        let ended = Started::begin(&words, true).unwrap().finish(&input).unwrap();
        assert_eq!(ended.code(), Ok(3));
        assert!(ended.output == input && ended.errors == input);
    }

    #[test]
    fn what_does_not_want_to_be_fed_is_not_an_error() {
        let ended = Started::begin(&["true"], true).unwrap().finish(&vec![0; 1 << 20]).unwrap();
        assert_eq!(ended.code(), Ok(0));
        assert!(Started::begin(&["/no/such/program"], false).is_err());
    }

    #[test]
    fn a_leash_ends_a_program_and_may_be_pulled_again() {
        let started = Started::begin(&["sleep", "600"], false).unwrap();
        let leash = started.leash().unwrap();
        leash.pull();
        assert_eq!(started.finish(b"").unwrap().code(), Err(15));
        leash.pull();
    }

    #[test]
    fn a_leash_ends_what_a_program_has_started() {
        for turn in 0..50 {
            // It starts others at any time, so also when the leash is pulled.
            let script = "echo; for turn in $(seq 300); do sh -c :; done; sh -c 'sleep 600; true'; true";
            let mut started = Started::begin(&["sh", "-c", script], false).unwrap();
            let leash = started.leash().unwrap();
            started.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            std::thread::sleep(std::time::Duration::from_micros(turn * 300));
            leash.pull();
            // Who has the streams open would have to end first.
            assert_eq!(started.finish(b"").unwrap().code(), Err(15));
        }
    }
}
