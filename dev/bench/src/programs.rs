//! Runs system programs: finds them by name, runs them to completion, and quotes their errors.
//!
//! File systems, loop devices and mounts are made with the programs an administrator would use
//! (mkfs, losetup, mount, umount), so that every step can be repeated by hand.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// Directories of administration programs, in case PATH is an ordinary user's.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

pub(crate) fn path_folders() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

/// Returns the executables called `name` in `folders`, in order.
pub(crate) fn find_in<'a>(folders: &'a [PathBuf], name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    folders.iter().map(move |folder| folder.join(name)).filter(|path| is_executable(path))
}

/// Returns true if `path` is a regular file with an execute bit.
pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Finds a system program.
pub(crate) fn find(name: &str) -> Result<PathBuf> {
    let mut folders = path_folders();
    folders.extend(SYSTEM_FOLDERS.map(PathBuf::from));
    find_in(&folders, name)
        .next()
        .ok_or_else(|| Error::Refused(format!("{name} is needed and was not found; install it")))
}

/// Runs a short program to completion, ignoring interrupts, and returns its standard output.
pub(crate) fn run(name: &str, arguments: &[&OsStr]) -> Result<String> {
    run_with(name, arguments, &Interrupt::never())
}

/// Like [`run`], for a program that may run long: a signal kills it.
pub(crate) fn run_with(name: &str, arguments: &[&OsStr], interrupt: &Interrupt) -> Result<String> {
    let program = find(name)?;
    let (stdout, stderr) = (scratch()?, scratch()?);
    let mut child = Command::new(&program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(share(&stdout)?)
        .stderr(share(&stderr)?)
        // A ^C at the terminal must not reach it: it may be part of the cleanup.
        .process_group(0)
        .spawn()
        .map_err(Error::doing("run", &program))?;
    let pid = Pid::from_child(&child);
    interrupt.child_started(pid);
    let ended = await_end(pid);
    interrupt.child_ends();
    ended.map_err(Error::doing("wait for", &program))?;
    let status = child.wait().map_err(Error::doing("wait for", &program))?;
    interrupt.check()?;
    if status.success() {
        return text_of(stdout);
    }
    let line = arguments.iter().fold(name.to_owned(), |line, word| format!("{line} {}", word.display()));
    Err(Error::Program { line, status, said: last_line(&text_of(stderr)?) })
}

/// Waits for a child to exit without reaping it, so that its process ID is not reused.
fn await_end(pid: Pid) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Creates an anonymous file to capture output. Unlike a pipe, it never blocks the child.
pub(crate) fn scratch() -> Result<File> {
    tempfile::tempfile().map_err(no_scratch)
}

/// Duplicates the file handle, for a program to write to.
pub(crate) fn share(file: &File) -> Result<File> {
    file.try_clone().map_err(no_scratch)
}

fn no_scratch(source: io::Error) -> Error {
    Error::Io { doing: "make a temporary file".to_owned(), source }
}

/// Reads the output captured in a scratch file, at most 1 MiB.
pub(crate) fn text_of(mut file: File) -> Result<String> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(1 << 20).read_to_end(&mut bytes));
    read.map_err(|source| Error::Io { doing: "read a temporary file".to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_line(text: &str) -> String {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_returned() {
        assert_eq!(run("echo", &["one".as_ref(), "two".as_ref()]).unwrap(), "one two\n");
    }

    #[test]
    fn a_failure_is_quoted_with_its_command_line() {
        let error = run("ls", &["/nothing/there".as_ref()]).unwrap_err().to_string();
        assert!(error.starts_with("ls /nothing/there: exit status: 2: "), "{error}");
        assert!(error.contains("No such file or directory"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_asked_for() {
        let error = run("haul-no-such-program", &[]).unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
    }

    #[test]
    fn a_signal_ends_a_program_that_may_be_ended() {
        let interrupt = Interrupt::never();
        interrupt.raise();
        let error = run_with("sleep", &["1000".as_ref()], &interrupt).unwrap_err();
        assert!(error.is_interruption(), "{error}");
    }
}
