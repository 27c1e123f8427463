//! Copies a tree with the least work that copies it: a bound for the copiers it is compared with.
//!
//! Two threads take directories, and parts of large ones, from a common stack, and copy one file
//! after the other. With `--ahead` there are four, and each opens up to 64 files ahead and asks the
//! kernel to fetch them, in the order of their inodes, which is the order on the disk. Contents,
//! symbolic links and permissions are copied, nothing else, and the first error ends it.

use std::ffi::CString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::fs::{fadvise, fstat, mkdirat, openat, readlinkat, statat, symlinkat};

/// Files that one thread copies together.
const BATCH: usize = 64;

/// Bytes that are read and written at once.
const BLOCK_BYTES: usize = 256 << 10;

/// Part of the work.
enum QueuedWork {
    /// A directory to make and list: the source and the target.
    Directory(PathBuf, PathBuf),
    /// Entries of a directory that are no directories.
    Entries(Arc<(OwnedFd, OwnedFd)>, Vec<(CString, FileType)>),
}

/// The work that no thread has taken.
#[derive(Default)]
struct Stack {
    state: Mutex<SharedQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct SharedQueue {
    work: Vec<QueuedWork>,
    /// Work that was taken and isn't done.
    taken: usize,
    failed: bool,
}

impl Stack {
    fn push(&self, work: QueuedWork) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).work.push(work);
        self.changed.notify_one();
    }

    /// Returns the next work, or `None` once all is done or something has failed.
    fn take(&self) -> Option<QueuedWork> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.failed {
                return None;
            }
            if let Some(work) = state.work.pop() {
                state.taken += 1;
                return Some(work);
            }
            if state.taken == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, is_good: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.taken -= 1;
        state.failed |= !is_good;
        if state.taken == 0 || state.failed {
            self.changed.notify_all();
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let (ahead, operands) = match words.first() {
        Some(word) if word == "--ahead" => (true, &words[1..]),
        _ => (false, &words[..]),
    };
    match operands {
        [word] if word == "--version" => say(&mut io::stdout(), "haul-bound 1.0"),
        [source, target] => match copy(source.as_ref(), target.as_ref(), ahead) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => say(&mut io::stderr(), &format!("haul-bound: {error}")),
        },
        _ => say(&mut io::stderr(), "Usage: haul-bound [--ahead] SOURCE TARGET"),
    }
    ExitCode::FAILURE
}

fn say(stream: &mut dyn Write, line: &str) {
    // If this fails, the exit status still shows the error.
    writeln!(stream, "{line}").ok();
}

fn copy(source: &Path, target: &Path, ahead: bool) -> io::Result<()> {
    let stack = Stack::default();
    stack.push(QueuedWork::Directory(source.to_owned(), target.to_owned()));
    let worker = || -> io::Result<()> {
        let mut buffer = vec![0; BLOCK_BYTES];
        while let Some(work) = stack.take() {
            let result = match work {
                QueuedWork::Directory(source, target) => list(&stack, &source, &target),
                QueuedWork::Entries(directories, entries) => {
                    copy_entries(&directories.0, &directories.1, &entries, ahead, &mut buffer)
                }
            };
            stack.done(result.is_ok());
            result?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..if ahead { 4 } else { 2 }).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
        })
    })
}

/// Makes a directory, and pushes what is in its source.
fn list(stack: &Stack, source: &Path, target: &Path) -> io::Result<()> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = openat(CWD, source, directory, Mode::empty())?;
    mkdirat(CWD, target, Mode::from_raw_mode(fstat(&from)?.st_mode & 0o7777))?;
    let to = openat(CWD, target, directory, Mode::empty())?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&from)? {
        let entry = entry?;
        let name = entry.file_name();
        match entry.file_type() {
            _ if [&b"."[..], b".."].contains(&name.to_bytes()) => {}
            FileType::Directory => {
                let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes());
                stack.push(QueuedWork::Directory(source.join(name), target.join(name)));
            }
            kind => entries.push((entry.ino(), name.to_owned(), kind)),
        }
    }
    entries.sort_unstable_by_key(|(inode, ..)| *inode);
    let directories = Arc::new((from, to));
    let mut entries = entries.into_iter().map(|(_, name, kind)| (name, kind));
    loop {
        let batch: Vec<_> = entries.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(());
        }
        stack.push(QueuedWork::Entries(Arc::clone(&directories), batch));
    }
}

fn copy_entries(
    from: &OwnedFd,
    to: &OwnedFd,
    entries: &[(CString, FileType)],
    ahead: bool,
    buffer: &mut [u8],
) -> io::Result<()> {
    let open = |name: &CString| openat(from, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut opened = Vec::new();
    if ahead {
        for (name, kind) in entries {
            let file = if *kind == FileType::RegularFile { Some(open(name)?) } else { None };
            if let Some(file) = &file {
                fadvise(file, 0, None, Advice::WillNeed)?;
            }
            opened.push(file);
        }
    }
    let mut opened = opened.into_iter();
    for (name, kind) in entries {
        match (kind, opened.next().flatten()) {
            (FileType::Symlink, _) => symlinkat(readlinkat(from, name, Vec::new())?, to, name)?,
            (FileType::RegularFile, Some(file)) => copy_file(&file, to, name, buffer)?,
            (FileType::RegularFile, None) => copy_file(&open(name)?, to, name, buffer)?,
            _ => {
                let mode = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
                return Err(io::Error::other(format!("{name:?} has mode {mode:o}")));
            }
        }
    }
    Ok(())
}

fn copy_file(source: impl AsFd, to: &OwnedFd, name: &CString, buffer: &mut [u8]) -> io::Result<()> {
    let source = source.as_fd();
    let stat = fstat(source)?;
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let target = openat(to, name, new, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let mut left = u64::try_from(stat.st_size).unwrap_or(0);
    while left > 0 {
        let read = rustix::io::read(source, &mut *buffer)?;
        if read == 0 {
            break;
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&target, rest)?..];
        }
        left = left.saturating_sub(read as u64);
    }
    Ok(())
}
