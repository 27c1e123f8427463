//! The standard streams the process was started with.
//!
//! Before `main`, the Rust runtime opens `/dev/null` on any closed descriptor from 0 to 2, so that
//! no file gets such a number. Output to a closed stdout then vanishes without an error, and a
//! closed stdin looks empty. It also sets `SIGPIPE` to be ignored.
//!
//! So a constructor, which the C library runs even earlier, records which of the three were closed
//! and whether `SIGPIPE` was ignored.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::{Errno, Result};
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;

/// A standard output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standard {
    /// Standard output.
    Output = 1,
    /// Standard error.
    Error = 2,
}

const INPUT: i32 = 0;

/// Width of a terminal that doesn't report one, in columns.
const USUAL_COLUMNS: u16 = 80;

/// One bit for each closed descriptor. Written once, before `main` and before other threads exist.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// True if `SIGPIPE` was ignored at startup. Written together with `CLOSED`.
static IGNORES_BROKEN_PIPES: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the section holds C function pointers, which the C library calls once each before
// `main`. It passes arguments that `look` doesn't declare; the C calling convention lets a
// function ignore them.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    if cfg!(miri) {
        // Miri does not implement signals.
        return;
    }
    for number in INPUT..=Standard::Error as i32 {
        // SAFETY: passes only numbers; `F_GETFD` changes nothing.
        let answer = unsafe { libc::fcntl(number, libc::F_GETFD, 0) };
        // A seccomp filter may forbid the call; only `EBADF` means that the descriptor is closed.
        if answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
    IGNORES_BROKEN_PIPES.store(ignores_signal(libc::SIGPIPE), Ordering::Relaxed);
}

/// Returns true if this process ignores a signal now.
#[must_use]
pub fn ignores_signal(number: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: passes no new action and room for the current one.
    unsafe { libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: an all-zero action is valid, and so is what the call wrote.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}

/// Restores the default action of `SIGPIPE`: the process dies silently when it writes to a pipe
/// without a reader, as C programs do. Does nothing if the parent had `SIGPIPE` ignored, because it
/// then expects an `EPIPE` error.
///
/// After this call nothing may rely on seeing `EPIPE` or on running to the end.
pub fn end_at_broken_pipe() {
    if !ends_at_broken_pipe() {
        return;
    }
    // SAFETY: passes only numbers; `SIG_DFL` is not a function pointer.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Returns true if the parent expects that writing to a pipe without a reader ends the process: it
/// did not have `SIGPIPE` ignored.
#[must_use]
pub fn ends_at_broken_pipe() -> bool {
    !IGNORES_BROKEN_PIPES.load(Ordering::Relaxed)
}

/// Returns true if the stream was closed when the process started.
#[must_use]
pub fn was_closed(stream: Standard) -> bool {
    was_number_closed(stream as u8)
}

/// Returns true if the standard stream with this number was closed when the process started.
pub(crate) fn was_number_closed(number: u8) -> bool {
    number <= Standard::Error as u8 && CLOSED.load(Ordering::Relaxed) & (1 << number) != 0
}

/// Returns true if any standard stream was closed when the process started.
pub(crate) fn is_any_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) != 0
}

/// Returns the width of the terminal that standard error is, in columns.
#[must_use]
pub fn terminal_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr());
    let columns = size.map_or(0, |size| size.ws_col);
    usize::from(if columns == 0 { USUAL_COLUMNS } else { columns })
}

/// Duplicates a standard output stream. The caller can close the duplicate and check the result.
///
/// # Errors
/// Any error from `fcntl(2)`; `EBADF` if the stream was closed when the process started.
pub fn standard_stream(stream: Standard) -> Result<Fd> {
    gate::call(
        Operation::Fcntl,
        || {
            if was_closed(stream) {
                return Err(Errno::BADF);
            }
            // Above the standard streams, of which another may be closed.
            match stream {
                Standard::Output => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3),
                Standard::Error => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3),
            }
        },
        || format!("{}, F_DUPFD_CLOEXEC, 3", stream as u8),
    )
    .map(Fd::new)
}

/// Takes standard input and output for a protocol of this process. Files named `/dev/stdin` and
/// `/dev/stdout` are empty from then on, and children inherit neither.
///
/// # Errors
/// If one of them is closed, or no descriptor is left.
pub fn take_standard_streams() -> io::Result<(File, File)> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    // Above the standard streams, of which standard error may be closed.
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((File::from(input), File::from(output)))
}

/// Duplicates standard input. The caller can close the duplicate.
///
/// # Errors
/// Any error from `fcntl(2)`; `EBADF` if it was closed when the process started.
pub fn standard_input() -> Result<Fd> {
    let was_closed = CLOSED.load(Ordering::Relaxed) & (1 << INPUT) != 0;
    gate::call(
        Operation::Fcntl,
        || match was_closed {
            true => Err(Errno::BADF),
            false => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3),
        },
        || "0, F_DUPFD_CLOEXEC, 3".to_owned(),
    )
    .map(Fd::new)
}
