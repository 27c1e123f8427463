//! Runs a program under given conditions, with a time limit.
//!
//! A [`TestRun`] is a command line with conditions: limits, umask, another user, forbidden system
//! calls, closed standard output. [`TestRun::finish`] waits for it to exit and collects its output.
//! If it exceeds the time limit, it is killed with all its children: a hang is a result
//! ([`RunEnding::Hung`]), not a hanging test.
//!
//! Implementation without unsafe code: `/bin/sh` sets limits and umask before it executes the
//! program. Peak memory is read from `/proc` while the process lives, because `wait4` includes the
//! parent's size before `exec`. It may miss the last hundredth of a second.

mod refused;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

use refused::{RefusedCalls, spawn_refused};

use crate::signals;
use crate::wait::{self, PipeReader};

/// Maximum wait for an executable that is still open for writing.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// ID of the unprivileged user and group `nobody`.
pub const NOBODY: u32 = 65_534;

/// A command line and its conditions.
#[must_use = "nothing runs before `start` or `finish`"]
#[derive(Clone, Debug)]
pub struct TestRun {
    program: PathBuf,
    arguments: Vec<OsString>,
    folder: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    limit: Duration,
    shell: Vec<String>,
    user: Option<u32>,
    refused: Vec<RefusedCalls>,
    output: OutputTarget,
    input: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum OutputTarget {
    Captured,
    File(PathBuf),
    BrokenPipe,
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnding {
    /// It exited with this status.
    Exited(i32),
    /// A signal killed it.
    Signalled(i32),
    /// It exceeded the time limit and was killed.
    Hung,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Exit status, signal or timeout.
    pub ending: RunEnding,
    /// Contents of standard output.
    pub stdout: Vec<u8>,
    /// Contents of standard error.
    pub stderr: Vec<u8>,
    /// Peak memory observed, in bytes.
    pub peak_bytes: u64,
    /// Elapsed time.
    pub took: Duration,
}

impl RunOutcome {
    /// Returns true if it exited with status 0.
    pub fn succeeded(&self) -> bool {
        self.ending == RunEnding::Exited(0)
    }

    /// Returns the exit status, if it exited.
    pub fn status(&self) -> Option<i32> {
        match self.ending {
            RunEnding::Exited(status) => Some(status),
            _ => None,
        }
    }

    /// Returns true if it ended in a way that no input may cause: a signal, a panic, a hang.
    pub fn crashed(&self) -> bool {
        // 101 is a panic. Below a shell, 134 is an abort and 139 a segmentation fault.
        !matches!(self.ending, RunEnding::Exited(status) if !matches!(status, 101 | 134 | 139))
    }

    /// Returns standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns standard output as text.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Removes what Open MPI 5 prints now and then when its processes end at the same time:
/// `[host:pid] PMIX ERROR: PMIX_ERR_UNREACH in file …/pmix_server.c at line …`. Nothing is lost
/// then, and the exit status is right.
fn without_pmix(stderr: Vec<u8>) -> Vec<u8> {
    let is_noise = |line: &[u8]| {
        line.starts_with(b"[")
            && String::from_utf8_lossy(line).contains("] PMIX ERROR: PMIX_ERR_UNREACH in file ")
    };
    if !stderr.split(|byte| *byte == b'\n').any(is_noise) {
        return stderr;
    }
    stderr.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_noise(line)).flatten().copied().collect()
}

/// A run in progress.
#[derive(Debug)]
pub struct Running {
    child: Child,
    begun: Instant,
    limit: Duration,
    readers: [Option<PipeReader>; 2],
}

impl TestRun {
    /// Creates a command line for the executable at `program`.
    pub fn new(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
            arguments: Vec::new(),
            folder: None,
            environment: Vec::new(),
            limit: Duration::from_secs(120),
            shell: Vec::new(),
            user: None,
            refused: Vec::new(),
            output: OutputTarget::Captured,
            input: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets the working directory.
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Feeds these bytes to standard input, through a pipe.
    pub fn input(mut self, bytes: &[u8]) -> Self {
        self.input = Some(bytes.to_vec());
        self
    }

    /// Sets the time limit, after which the run counts as hung.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Limits the number of open files.
    pub fn open_files(mut self, count: u32) -> Self {
        self.shell.push(format!("ulimit -n {count}"));
        self
    }

    /// Limits locked memory, in KiB.
    pub fn locked_memory(mut self, kibibytes: u32) -> Self {
        self.shell.push(format!("ulimit -l {kibibytes}"));
        self
    }

    /// Limits the length of the files it writes, in bytes. A write beyond it kills the program
    /// (`SIGXFSZ`), or fails.
    pub fn file_bytes(mut self, bytes: u64) -> Self {
        self.shell.push(format!("ulimit -f {}", bytes / 512));
        self
    }

    /// Sets the umask.
    pub fn umask(mut self, mask: u32) -> Self {
        self.shell.push(format!("umask {mask:04o}"));
        self
    }

    /// Closes standard output.
    pub fn without_stdout(mut self) -> Self {
        self.shell.push("exec >&-".to_owned());
        self
    }

    /// Closes standard error.
    pub fn without_stderr(mut self) -> Self {
        self.shell.push("exec 2>&-".to_owned());
        self
    }

    /// Redirects standard output to a file or device.
    pub fn stdout_to(mut self, path: &Path) -> Self {
        self.output = OutputTarget::File(path.to_owned());
        self
    }

    /// Connects standard output to a pipe without a reader.
    pub fn stdout_to_broken_pipe(mut self) -> Self {
        self.output = OutputTarget::BrokenPipe;
        self
    }

    /// Runs as the user `nobody`. Only root can do this.
    pub fn as_nobody(mut self) -> Self {
        self.user = Some(NOBODY);
        self
    }

    /// Makes io_uring (system calls 425 to 427) fail with an error number.
    pub fn without_io_uring(self, error: i32) -> Self {
        self.refusing(
            &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register],
            error,
        )
    }

    /// Makes kernel AIO fail with an error number.
    pub fn without_kernel_aio(self, error: i32) -> Self {
        self.refusing(&[libc::SYS_io_setup, libc::SYS_io_submit, libc::SYS_io_getevents], error)
    }

    /// Makes system calls fail with an error number. May be called repeatedly with
    /// different errors.
    pub fn refusing(mut self, calls: &[i64], error: i32) -> Self {
        self.refused.push(RefusedCalls { calls: calls.to_vec(), with_bits: None, error });
        self
    }

    /// Makes a system call fail with an error number if all these bits are set in one of its
    /// arguments, which are numbered from 0.
    pub fn refusing_bits(mut self, call: i64, argument: u8, bits: u32, error: i32) -> Self {
        self.refused.push(RefusedCalls { calls: vec![call], with_bits: Some((argument, bits)), error });
        self
    }

    /// Runs it under another command, such as `strace -o log`.
    pub fn behind(mut self, program: &Path, arguments: Vec<OsString>) -> Self {
        let inner = std::mem::replace(&mut self.program, program.to_owned());
        let rest = std::mem::replace(&mut self.arguments, arguments);
        self.arguments.push(inner.into_os_string());
        self.arguments.extend(rest);
        self
    }

    /// Runs it to completion.
    pub fn finish(self) -> io::Result<RunOutcome> {
        self.start()?.finish()
    }

    /// Runs it to completion. Anything but exit status 0 is an error, with what it printed.
    pub fn succeed(self) -> io::Result<RunOutcome> {
        let outcome = self.finish()?;
        let said = |outcome: &RunOutcome| format!("{:?}: {}", outcome.ending, outcome.errors());
        if outcome.succeeded() { Ok(outcome) } else { Err(io::Error::other(said(&outcome))) }
    }

    /// Starts the program.
    pub fn start(self) -> io::Result<Running> {
        signals::restore_for_children()?;
        let mut command = self.command()?;
        let mut spawn = || match &self.refused[..] {
            [] => command.spawn(),
            refused => spawn_refused(&mut command, refused),
        };
        // If the test has just written the executable, it may be busy (`ETXTBSY`): a child forked
        // by another test holds the descriptor until its own `exec`.
        let mut child = spawn();
        let settled = wait::until(BUSY_MAX, || {
            let busy = child.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ExecutableFileBusy);
            if busy {
                child = spawn();
            }
            !busy
        });
        if !settled {
            return Err(io::ErrorKind::ExecutableFileBusy.into());
        }
        let mut child = child?;
        let readers =
            [child.stdout.take().map(PipeReader::start), child.stderr.take().map(PipeReader::start)];
        Ok(Running { child, begun: Instant::now(), limit: self.limit, readers })
    }

    fn command(&self) -> io::Result<Command> {
        let mut command = if self.shell.is_empty() {
            let mut command = Command::new(&self.program);
            // GNU cp starts its messages with the name it was called by.
            command.arg0(self.program.file_name().unwrap_or(OsStr::new("program")));
            command
        } else {
            let mut command = Command::new("/bin/sh");
            let script = format!("{} && exec \"$@\"", self.shell.join(" && "));
            command.arg("-c").arg(script).arg("sh").arg(&self.program);
            command
        };
        command.args(&self.arguments);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        // These change behavior or inject faults.
        for name in [
            "POSIXLY_CORRECT",
            "VERSION_CONTROL",
            "SIMPLE_BACKUP_SUFFIX",
            "HAUL_OPTIONS",
            "HAUL_PROGRESS",
            "HAUL_FAULT",
            "HAUL_FAULT_LOG",
            "LD_LIBRARY_PATH",
        ] {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        // In its own process group, so that a hang is killed with all its children.
        command.stdin(self.standard_input()?).stderr(Stdio::piped()).process_group(0);
        command.stdout(match &self.output {
            OutputTarget::Captured => Stdio::piped(),
            OutputTarget::File(path) => Stdio::from(File::options().write(true).open(path)?),
            OutputTarget::BrokenPipe => {
                let (reader, writer) = io::pipe()?;
                drop(reader);
                Stdio::from(writer)
            }
        });
        Ok(command)
    }

    fn standard_input(&self) -> io::Result<Stdio> {
        let Some(bytes) = &self.input else { return Ok(Stdio::null()) };
        let (reader, mut writer) = io::pipe()?;
        let bytes = bytes.clone();
        // A pipe holds little data, so a thread writes it. The program may close the pipe early.
        std::thread::spawn(move || writer.write_all(&bytes).unwrap_or_default());
        Ok(Stdio::from(reader))
    }
}

impl Running {
    /// Returns the process ID.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `libc::SIGINT`, to the program and its children.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(number).ok_or_else(|| io::Error::other("no such signal"))?;
        Ok(rustix::process::kill_process_group(self.pid()?, signal)?)
    }

    /// Waits for it to exit, and kills it at the time limit.
    pub fn finish(mut self) -> io::Result<RunOutcome> {
        let mut peak_bytes = 0;
        let ended = self.watch(&mut peak_bytes)?;
        if !ended {
            rustix::process::kill_process_group(self.pid()?, Signal::KILL)?;
        }
        let status = wait::for_end(&mut self.child, wait::AFTERMATH_MAX)?;
        let took = self.begun.elapsed();
        let [stdout, stderr] = std::mem::take(&mut self.readers).map(PipeReader::collect);
        Ok(RunOutcome {
            ending: if ended { ending(status) } else { RunEnding::Hung },
            stdout: stdout?,
            stderr: without_pmix(stderr?),
            peak_bytes,
            took,
        })
    }

    /// Waits until the process exits (true) or the time limit (false), sampling its peak memory.
    fn watch(&self, peak_bytes: &mut u64) -> io::Result<bool> {
        const LOOK: i64 = 10_000_000;
        const STANDSTILL: Duration = Duration::from_secs(1);
        let descriptor = rustix::process::pidfd_open(self.pid()?, PidfdFlags::empty())?;
        let status = format!("/proc/{}/status", self.process());
        let (mut waited, mut looked) = (Duration::ZERO, self.begun);
        loop {
            let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: LOOK };
            let mut ends = [PollFd::new(&descriptor, PollFlags::IN)];
            match poll(&mut ends, Some(&pause)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
            *peak_bytes = (*peak_bytes).max(peak_of(&status));
            let now = Instant::now();
            // While the machine is suspended, nothing runs, so that time must not count
            // against the limit.
            waited += (now - looked).min(STANDSTILL);
            looked = now;
            if waited >= self.limit {
                return Ok(false);
            }
        }
    }

    fn pid(&self) -> io::Result<Pid> {
        let pid = i32::try_from(self.process()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::Error::other("no process id"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that fails between start and finish must not leave its program running.
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), self.pid()) {
            if let Err(error) = rustix::process::kill_process_group(pid, Signal::KILL) {
                crate::note!("cannot kill process {pid:?}: {error}");
            }
            if let Err(error) = wait::for_end(&mut self.child, wait::AFTERMATH_MAX) {
                crate::note!("cannot wait for process {pid:?}: {error}");
            }
        }
    }
}

fn ending(status: ExitStatus) -> RunEnding {
    match (status.code(), status.signal()) {
        (Some(code), _) => RunEnding::Exited(code),
        (None, signal) => RunEnding::Signalled(signal.unwrap_or(0)),
    }
}

/// Reads the peak resident set size of a live process; 0 if it is gone.
fn peak_of(status: &str) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> TestRun {
        TestRun::new(Path::new("/bin/sh")).args(["-c", script])
    }

    #[test]
    fn output_status_and_signal_are_reported() {
        let outcome = shell("echo out; echo err >&2; exit 3").finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Exited(3));
        assert_eq!((outcome.printed().as_str(), outcome.errors().as_str()), ("out\n", "err\n"));
        assert!(!outcome.crashed());
        let outcome = shell("kill -9 $$").finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Signalled(9));
        assert!(outcome.crashed());
        assert!(shell("exit 101").finish().unwrap().crashed());
    }

    #[test]
    fn a_hang_ends_with_all_children() {
        let outcome = shell("sleep 1000 | cat").within(Duration::from_millis(100)).finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Hung);
        assert!(outcome.took < Duration::from_secs(60));
    }

    #[test]
    fn limits_and_umask_hold() {
        let run = shell("ulimit -n; ulimit -l; ulimit -f; umask").open_files(64).locked_memory(0);
        let run = run.file_bytes(4 << 10).umask(0o27);
        assert_eq!(run.finish().unwrap().printed(), "64\n0\n8\n0027\n");
        let closed = shell("echo x").without_stdout().finish().unwrap();
        assert_ne!(closed.ending, RunEnding::Exited(0));
    }

    #[test]
    fn refused_calls_fail_in_the_program_and_only_there() {
        let outcome =
            shell("umask 022; mkdir /nowhere").refusing(&[libc::SYS_mkdir], libc::EXDEV).finish().unwrap();
        assert!(outcome.errors().contains("Invalid cross-device link"), "{}", outcome.errors());
        let outcome = shell("mkdir /proc/nowhere").finish().unwrap();
        assert!(!outcome.errors().contains("Invalid cross-device link"));
    }

    #[test]
    fn a_call_is_refused_by_the_bits_of_an_argument() {
        // Only one of the modes has the bit set. The second call must leave the first
        // filter in force.
        let script = "umask 0; mkdir -m 0700 /proc/a; mkdir -m 0770 /proc/b; rmdir /nowhere";
        let run = shell(script).refusing_bits(libc::SYS_mkdir, 1, 0o070, libc::EXDEV);
        let said = run.refusing(&[libc::SYS_rmdir], libc::EMLINK).finish().unwrap().errors();
        let refused =
            |name: &str| said.lines().any(|line| line.contains(name) && line.contains("cross-device"));
        assert!(refused("/proc/b") && !refused("/proc/a") && said.contains("Too many links"), "{said}");
    }

    #[test]
    fn another_user_is_another_user() {
        crate::require!(crate::needs::root());
        let said = shell("id -u; id -g; id -G").as_nobody().finish().unwrap().printed();
        assert_eq!(said, "65534\n65534\n65534\n");
    }

    #[test]
    fn memory_is_the_programs_own() {
        // Enlarge the test process first, to show that the figure isn't its own.
        let ballast = vec![1u8; 300 << 20];
        let outcome = shell("sleep 0.1").finish().unwrap();
        assert!(ballast.iter().all(|byte| *byte == 1));
        assert!(outcome.peak_bytes > 0 && outcome.peak_bytes < 100 << 20, "{}", outcome.peak_bytes);
    }

    #[test]
    fn only_the_launchers_noise_is_left_out() {
        let noise = "[vm:24474] PMIX ERROR: PMIX_ERR_UNREACH in file /x/pmix_server.c at line 3146\n";
        let text = |text: &str| String::from_utf8(without_pmix(text.as_bytes().to_vec())).unwrap();
        assert_eq!(text(&format!("{noise}cp: a\n{noise}cp: b")), "cp: a\ncp: b");
        assert_eq!(text("cp: [x] PMIX ERROR\n\n"), "cp: [x] PMIX ERROR\n\n");
    }
}
